"""Products with several parameters as one: the call, whose results are assigned together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.emit.code import Code, call, name
from cemc.emit.frames import permute
from cemc.program.kernel_nodes import Projection, Projections

if TYPE_CHECKING:
    from cemc.emit.body import Body


def projection(body: Body, node: Projection) -> Code:
    """One of the products: the variable for it, in the order that is wanted."""
    projections = node.projections
    wanted = (_wanted(body, projections, n) for n in range(len(projections.matrices)))
    reads = (projections.value, *projections.matrices)
    variables = body.shared(("projections", projections.number), reads, wanted, lambda: _call(body, projections))
    return permute(name(variables[node.result]), node.order)


def _wanted(body: Body, projections: Projections, number: int) -> str:
    """What the source calls the product, else its matrix and its value together: `Wz`."""
    return body.wanted_name(body.projections_of(projections)[number])


def _call(body: Body, projections: Projections) -> Code:
    matrices = []
    for matrix, summed in zip(projections.matrices, projections.summed, strict=True):
        rest = [n for n in range(len(matrix.dims)) if n != summed]
        matrices.append(permute(body.use(matrix, "low"), (*rest, summed)))
    return call(body.context.helper("_project"), body.use(projections.value, "low"), *matrices)
