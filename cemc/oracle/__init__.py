"""The oracle: evaluates a typed energy directly in torch and differentiates it with autograd.

It shares no code with the stages that compile an energy, so that agreement between the two means something. It is
written to be read next to the language's definition; nothing here is fast.

`oracle` is the entry, `evaluate` and `conditions` are the language's expressions, `environment` is where names get
their values, `points` and `reductions` are the numerical ground, `functions` and `quadrature` the functions.
"""

from cemc.oracle.oracle import Oracle, energy_names
from cemc.oracle.sizes import header_sizes

__all__ = ["Oracle", "energy_names", "header_sizes"]
