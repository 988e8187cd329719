"""What the kernels of an energy become on a GPU that is not there: compiled, counted, set against its limits.

    chips     the GPUs: what one multiprocessor of each has
    sizes     numbers to construct a layer with, so that the tiles of its kernels have a given width
    worker    the process that compiles: a stand-in for the driver, a layer forward and backward, nothing launched
    binary    what was compiled -> registers, spills, loads, matrix instructions
    table     all that as a table
    run       starts the worker, and collects what it says

Triton decides when it is imported whether it interprets or compiles, so compiling has a process of its own.
"""
