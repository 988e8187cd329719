"""Antiderivatives: a closed form, from the operation table or found when compiling, else quadrature. The derivative of
what is not in the table is the integrand itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cemc.emit.code import Code, bracket, call, number, statement, template
from cemc.operations import ELEMENTWISE
from cemc.program import nodes
from cemc.program.nodes import Node

if TYPE_CHECKING:
    from cemc.emit.body import Body


@dataclass(frozen=True)
class IntegrandText:
    """A function of the generated file that computes an integrand, and the numbers it takes after its argument."""

    name: str
    lines: tuple[str, ...]
    numbers: tuple[str, ...]


def integral(body: Body, node: nodes.Map, operand: Code) -> Code:
    """The antiderivative, zero at 0, of `node.function` at `operand`."""
    integrand = node.function
    assert integrand is not None
    record = ELEMENTWISE.get(integrand.name)
    if record is not None and record.antiderivative is not None:
        if record.antiderivative.count("{0}") > 1:
            body.variable(node.operands[0].node)
            operand = body.tensor(node.operands[0], len(node.dims))
        return template(body.context.spelled(record.antiderivative), operand)
    text = _known(body, integrand) or _function(
        body, integrand.argument, integrand.result, f"_integrand_{integrand.name}", f"The integrand {integrand.name}."
    )
    if integrand.closed is not None:
        summary = f"The integral of {integrand.name} from 0."
        form = _function(body, integrand.argument, integrand.closed, f"_integral_{integrand.name}", summary)
        numbers = [body.attribute(each) for each in (*form.numbers, *text.numbers)]
        called = f"{body.context.helper('_Antiderivative')}.apply"
        return call(called, operand, form.name, text.name, str(len(form.numbers)), *numbers)
    kinks = [number(kink).text for kink in integrand.kinks if kink != 0]
    listed = f"({kinks[0]},)" if len(kinks) == 1 else f"({', '.join(kinks)})"
    numbers = [body.attribute(each) for each in text.numbers]
    return call(f"{body.context.helper('_Integral')}.apply", operand, text.name, listed, *numbers)


def _known(body: Body, integrand: nodes.Integrand) -> IntegrandText | None:
    """A function that torch has as it stands."""
    result = integrand.result
    if isinstance(result, nodes.Map) and result.operation in ELEMENTWISE and len(result.operands) == 1:
        pattern = body.context.spelled(ELEMENTWISE[result.operation].torch)
        if result.operands[0].node is integrand.argument and pattern.endswith("({0})") and pattern.count("(") == 1:
            return IntegrandText(pattern.removesuffix("({0})"), (), ())
    return None


def _function(body: Body, argument_node: Node, result_node: Node, name: str, summary: str) -> IntegrandText:
    """The function of the generated file that computes `result_node` from its argument, written once for each."""
    from cemc.emit.body import Body as Inner

    context = body.context
    key = (argument_node.number, result_node.number)
    if key in context.integrands:
        return context.integrands[key]
    called = context.names.helper(name)
    while any(text.name == called for text in context.integrands.values()):
        called = context.names.helper(f"{called}_")
    scope = context.names.scope([*context.energy.header, *context.energy.constants])
    argument = scope.local("u")
    assert isinstance(argument_node, nodes.Tensor)
    arguments = {("given", argument_node.name): argument}
    inner = Inner(context, scope, [result_node], arguments, owner="")
    result = inner.tensor(nodes.Operand(result_node, ()), 0)
    if inner.is_scalar(result_node):
        result = call(context.library("torch.full_like"), argument, inner.use(result_node))
    lines = [*inner.before.lines(4), *statement("return ", result, "", 4)]
    if any(re.search(rf"(?<![\w.]){inner.acc}(?!\w)", line) for line in lines):
        lines.insert(0, f"    {inner.acc} = {argument}.dtype")
    tensor = context.library("Tensor")
    parameters = [f"{argument}: {tensor}", *(f"{each}: float" for each in inner.numbers)]
    lines = [*bracket(f"def {called}(", parameters, f") -> {tensor}:", 0), f'    """{summary}"""', *lines]
    context.integrands[key] = IntegrandText(called, tuple(lines), tuple(inner.numbers))
    return context.integrands[key]
