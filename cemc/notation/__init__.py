"""Index notation: the SymPy expressions that the symbolic stage makes and the program stage reads."""
