"""From nodes to statements: what gets a variable, its name and dtype, and what stands before the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from cemc.emit.code import WIDTH, Code, call, method, name
from cemc.emit.context import Context
from cemc.emit.describe import describe, shape
from cemc.emit.expressions import Printer
from cemc.emit.frames import place
from cemc.emit.integrals import integral
from cemc.emit.lengths import Length, Lengths
from cemc.emit.names import Scope
from cemc.emit.precision import Dtype, computed_in, wanted_in
from cemc.emit.section import Cache, Section
from cemc.program import kernel_nodes, nodes
from cemc.program.graph import in_order, operands
from cemc.program.nodes import Node, Operand
from cemc.program.scalars import scalars_in

# An expression with more operations than this gets variables for its parts.
_WEIGHT = 6

# What is left of a line in a loop.
_LENGTH = WIDTH - 12

# A part longer than this is rather broken up than made a variable as it is.
_LARGE = 56

_ALWAYS = (
    nodes.Attention,
    nodes.Cached,
    nodes.FirstMax,
    nodes.Gather,
    nodes.Max,
    nodes.Positions,
    nodes.Recent,
    nodes.RecentPositions,
    nodes.Rotate,
    nodes.RowPositions,
    nodes.Weights,
)


# Nothing is computed in these: they are in the dtype their users want.
_KEPT = (nodes.Cached, nodes.OverRows, nodes.Recent)
_PLACED = (nodes.Align, nodes.Expand)


class Body:
    """The statements that compute `roots`.

    `arguments`: the variables that hold the tensors the method is given, by role and name; the first tells the device.
    `loop`: the statements run again and again on the states, so what depends on no state comes before them. `fused`:
    matrix products run in `low`. `owner`: what stands before sizes and constants. `known`: variables that hold nodes,
    by their numbers, in `acc`; `lengths`: where the lengths of run-time axes are then read off (variable, dimension).
    `cache`: the method decodes.
    """

    def __init__(
        self, context: Context, scope: Scope, roots: Sequence[Node], arguments: Mapping[tuple[str, str], str], *,
        loop: bool = False, fused: bool = False, owner: str = "self.", known: Mapping[int, str] | None = None,
        lengths: Mapping[Length, tuple[str, int]] | None = None, cache: Cache | None = None,
    ) -> None:  # fmt: skip
        self.context, self.scope, self.fused, self.loop, self.owner = context, scope, fused, loop, owner
        self.leaves, self.before, self.inside = Section(), Section(), Section()
        self.acc, self.low = scope.local("acc"), scope.local("low") if fused else "acc"
        self.numbers: dict[str, None] = {}
        self._arguments = arguments
        self.known, self.cache = known or {}, cache
        self.lengths = Lengths(self, arguments, lengths or {})
        self._parameters: dict[tuple[str, Dtype], str] = {}
        self._shared: dict[tuple[object, ...], list[str]] = {}
        self._codes: dict[int, Code] = {}
        self._stored: dict[int, Dtype] = {}
        self._pending: set[int] = set()
        self._order = in_order(roots, self.known)
        self._scalars = scalars_in(self._order)
        self._study(roots)
        self._printer = Printer(self)
        for node in self._order:
            self._visit(node)

    # ------------------------------------------------------------------------------------------ what is used how

    def _study(self, roots: Sequence[Node]) -> None:
        """Counts the uses of each node, and notes the dtypes it is wanted in and whether it changes in the loop."""
        self._uses: dict[int, int] = {}
        self._wanted: dict[int, Counter[Dtype]] = {}
        self._changes: dict[int, bool] = {}
        self._hoisted: set[int] = set()
        self._roles: dict[int, frozenset[str]] = {}
        self._results: dict[int, dict[int, kernel_nodes.PairResult]] = {}
        self._products: dict[int, dict[int, kernel_nodes.Projection]] = {}
        for root in roots:
            self._count(root, "acc")
        for node in self._order:
            read = [] if node.number in self.known else list(operands(node))
            state = isinstance(node, nodes.Tensor) and node.role == "state"
            own = {node.role} if isinstance(node, nodes.Tensor) else set()
            self._roles[node.number] = frozenset(own.union(*(self._roles[n.number] for n in read)))
            self._changes[node.number] = self.loop and (state or any(self._changes[n.number] for n in read))
            self._hoisted.update(n.number for n in read if self._changes[node.number] and not self._changes[n.number])
            if isinstance(node, kernel_nodes.PairResult):
                self._results.setdefault(node.pairs.number, {})[node.result] = node
            if isinstance(node, kernel_nodes.Projection):
                self._products.setdefault(node.projections.number, {})[node.result] = node
        # Users before what they use: what is cached is kept in the dtype its users want.
        for node in reversed(self._order):
            if node.number not in self.known:
                for n in operands(node):
                    self._count(n, self._operand_dtype(node, n))

    def _computed(self, node: Node) -> Dtype:
        return self.kept_in(node) if self._as_it_is(node) else computed_in(node, self.fused)

    def _operand_dtype(self, node: Node, operand: Node) -> Dtype:
        return self.kept_in(node) if self._as_it_is(node) else wanted_in(node, operand, self.fused)

    def _as_it_is(self, node: Node) -> bool:
        """Whether a node computes nothing, so that it is in the dtype its users want. Numbers of Python are none's."""
        return isinstance(node, _KEPT) or (isinstance(node, _PLACED) and not self.is_scalar(node.operand.node))

    def _count(self, node: Node, dtype: Dtype) -> None:
        self._uses[node.number] = self._uses.get(node.number, 0) + 1
        self._wanted.setdefault(node.number, Counter())[dtype] += 1

    def _visit(self, node: Node) -> None:
        if node.number in self.known:
            self._stored[node.number] = "acc"
            self._codes[node.number] = name(self.known[node.number])
            return
        if isinstance(node, (nodes.Tensor, nodes.RowBlocks, kernel_nodes.Pairs, kernel_nodes.Projections)):
            return
        if isinstance(node, (nodes.RowResult, kernel_nodes.PairResult, kernel_nodes.Projection)):
            self._stored[node.number] = computed_in(node, self.fused)
            self._codes[node.number] = self._printer.code(node)
            if not self._codes[node.number].is_name:
                self._pending.add(node.number)
                if self._uses[node.number] > 1:
                    self.variable(node)
            return
        if self.lengths.all_columns and isinstance(node, _KEPT) and not isinstance(node.operand, nodes.Tensor):
            # Without a cache the tokens of the call are all there are.
            self.variable(node.operand)
            self._stored[node.number] = self._stored[node.operand.number]
            self._codes[node.number] = self._codes[node.operand.number]
            return
        self._stored[node.number] = self._computed(node)
        code = self._printed(node)
        self._codes[node.number] = code
        often = self._uses[node.number] > 1
        if node.number in self._scalars:
            if code.weight > 2 and (often or node.hint is not None):
                self._pending.add(node.number)
                self.variable(node)
            return
        self._pending.add(node.number)
        if often or node.hint is not None or isinstance(node, _ALWAYS) or node.number in self._hoisted:
            self.variable(node)

    def _printed(self, node: Node, spare: int = 0) -> Code:
        """The expression for a node, parts of it made variables as long as it is too much for a line."""
        while True:
            code = self._printer.code(node)
            excess = len(code.text) - (_LENGTH - spare)
            if code.weight <= _WEIGHT and excess <= 0:
                return code
            cut = self._shorten(node, 0 if excess > 0 else 1)
            if cut == 0:
                return code
            # Printing a long sum anew for each part that is cut off would take time quadratic in its length.
            while cut < excess and (more := self._shorten(node, 0)) > 0:
                cut += more

    def _shorten(self, node: Node, weight: int) -> int:
        """Makes a variable of the largest part of a node's expression, or of a part of that if it has large ones.
        Returns how many characters that saves at most, 0 if there is nothing to cut off."""
        parts = [n for n in operands(node) if n.number in self._pending and self._codes[n.number].weight > weight]
        if not parts:
            return 0
        part = max(parts, key=lambda n: (len(self._codes[n.number].text), n.number))
        saved = len(self._codes[part.number].text) + len("()")
        if saved > _LARGE + len("()") and (inner := self._shorten(part, 0)) > 0:
            self._codes[part.number] = self._printer.code(part)
            return inner
        self.variable(part)
        return saved

    # ------------------------------------------------------------------------------------ what the printers ask for

    def is_scalar(self, node: Node) -> bool:
        """Whether a node is a number of Python."""
        return node.number in self._scalars

    def inlined(self, node: Node) -> bool:
        """Whether a node is part of its user's expression, having no variable."""
        return node.number in self._pending or (node.number in self._scalars and not self._codes[node.number].is_name)

    def use(self, node: Node, want: Dtype = "acc") -> Code:
        """A node as an operand, in the dtype its user computes in."""
        if isinstance(node, nodes.Tensor) and node.number not in self.known:
            return self._leaf(node, want)
        code = self._codes[node.number]
        return self._as_wanted(node, code, self._stored[node.number], want) if self._is_real_tensor(node) else code

    def placed(self, operand: Operand, rank: int, want: Dtype = "acc") -> Code:
        """An operand aligned with the frame of its user."""
        code = self.use(operand.node, want)
        return code if self.is_scalar(operand.node) else place(code, operand.at, rank, operand.node.batched)

    def tensor(self, operand: Operand, rank: int, want: Dtype = "acc") -> Code:
        """The same, but a tensor even where the operand is a number of Python: a real one, or a truth."""
        code = self.placed(operand, rank, want)
        if not self.is_scalar(operand.node):
            return code
        return self.lifted(code, None if operand.node.kind == "truth" else self.acc)

    def lifted(self, code: Code, dtype: str | None = None) -> Code:
        """A number of Python as a tensor."""
        arguments = [f"dtype={dtype}"] if dtype is not None else []
        return call(self.context.library("torch.tensor"), code, *arguments, f"device={self.device}")

    def cast(self, code: Code, have: Dtype, want: Dtype) -> Code:
        """A tensor brought from one dtype to the other."""
        if have == want or not self.fused:
            return code
        return method(code, "to", self.low if want == "low" else self.acc)

    def variable(self, node: Node) -> Code:
        """The variable that holds a node, made now if there is none."""
        if node.number not in self._pending:
            return self.use(node)
        wanted, comment = self.wanted_name(node), shape(node)
        have = want = self._stored[node.number]
        if self._is_real_tensor(node):
            want = self.kept_in(node)
        code = self._printed(node, spare=len(f"{wanted} =   # {comment}") + (0 if have == want else len(".to(acc)")))
        variable = self.scope.numbered(wanted)
        self._pending.discard(node.number)
        code = self.cast(code, have, want)
        self._stored[node.number] = want
        self._section(node).add(variable, code, comment)
        self._codes[node.number] = name(variable)
        return self._codes[node.number]

    def wanted_name(self, node: Node) -> str:
        """What a node's variable should be called: what the source calls it, else something that tells what it is."""
        if node.hint is None:
            return self.unclaimed(describe(node, self._called))
        roles = self._roles.get(node.number, frozenset()) & {"state", "context", "input"}
        return f"{node.hint}_{next(iter(roles))}" if len(roles) == 1 and "state" not in roles else node.hint

    def shared(
        self, key: tuple[object, ...], reads: Sequence[Node], wanted: Iterable[str], code: Code | Callable[[], Code],
        *, exact: bool = False,
    ) -> list[str]:  # fmt: skip
        """Variables for something several nodes need that is no node itself; `reads` are the nodes it depends on.
        `exact`: the names may be those of the source."""
        if key not in self._shared:
            self._shared[key] = [
                each if each == "_" else self.scope.numbered(each if exact else self.unclaimed(each)) for each in wanted
            ]
            section = self.inside if any(self._changes[n.number] for n in reads) else self.before
            section.add(", ".join(self._shared[key]), code if isinstance(code, Code) else code())
        return self._shared[key]

    def results_of(self, pairs: kernel_nodes.Pairs) -> Mapping[int, kernel_nodes.PairResult]:
        """The results of a kernel that something here reads, by their numbers."""
        return self._results[pairs.number]

    def projections_of(self, projections: kernel_nodes.Projections) -> Mapping[int, kernel_nodes.Projection]:
        """The products that something here reads, by their numbers: all, for they were made of what is read."""
        return self._products[projections.number]

    def integral(self, node: nodes.Map, operand: Code) -> Code:
        """The antiderivative of a function at `operand`."""
        return integral(self, node, operand)

    def attribute(self, called: str) -> str:
        """A header name or constant."""
        self.numbers[called] = None
        return f"{self.owner}{called}"

    @property
    def device(self) -> str:
        first = next(iter(self._arguments.values() if self._arguments else self.known.values()))
        return f"{first}.device"

    def inner(
        self,
        scope: Scope,
        roots: Sequence[Node],
        known: Mapping[int, str],
        lengths: Mapping[Length, tuple[str, int]],
    ) -> Body:
        """The body of a method that computes `roots` from variables for the nodes in `known`, all in `acc`."""
        return Body(self.context, scope, roots, {}, owner=self.owner, known=known, lengths=lengths)

    def lines(self, indent: int) -> tuple[list[str], list[str]]:
        """The statements before the loop, and those in it."""
        order = list(self.context.energy.parameters)
        leaves = sorted(
            self.leaves.statements, key=lambda each: order.index(each[0][:-3]) if each[0][:-3] in order else -1
        )
        return [*Section(leaves).lines(indent), *self.before.lines(indent)], self.inside.lines(indent + 4)

    # ---------------------------------------------------------------------------------------------------- details

    def _section(self, node: Node) -> Section:
        return self.inside if self._changes[node.number] else self.before

    def _is_real_tensor(self, node: Node) -> bool:
        return node.kind == "real" and node.number not in self._scalars

    def kept_in(self, node: Node) -> Dtype:
        """The dtype of a node's variable: `low` if every user wants that."""
        return "low" if self._wanted[node.number]["acc"] == 0 else "acc"

    def _as_wanted(self, node: Node, code: Code, have: Dtype, want: Dtype) -> Code:
        """A cast of a variable that several users want has a variable of its own."""
        if have == want or not code.is_name or self._wanted[node.number][want] < 2:
            return self.cast(code, have, want)
        cast = self.cast(code, have, want)
        (variable,) = self.shared(("cast", node.number, want), (node,), (f"{code.text}_{want}",), cast)
        return name(variable)

    def _called(self, node: Node) -> str | None:
        """What a node is called, if it has a name."""
        if isinstance(node, nodes.Tensor):
            return node.name
        code = self._codes.get(node.number)
        if code is not None and code.is_name:
            return code.text
        described = isinstance(node, (nodes.Einsum, kernel_nodes.Projection))
        return describe(node, self._called) if described else None

    def target(self, node: Node) -> Code:
        """The expression for a new value of a state: a node that nothing else reads needs no variable of its own."""
        code = self.use(node)
        if node.number in self._pending or self._uses[node.number] > 1:
            return code
        statement = next((s for s in self.inside.statements if s[0] == f"{code.text} = "), None)
        if statement is None:
            return code
        self.inside.statements.remove(statement)
        return statement[1]

    def unclaimed(self, wanted: str) -> str:
        """A name that nothing in the source has."""
        return f"{wanted}_" if wanted in self.context.declared else wanted

    def _leaf(self, node: nodes.Tensor, want: Dtype) -> Code:
        if node.role != "parameter":
            return self._as_wanted(node, name(self._arguments[node.role, node.name]), "acc", want)
        dtype = self.kept_in(node)
        if (node.name, dtype) not in self._parameters:
            variable = self.scope.local(node.name)
            self.leaves.add(
                variable, call(f"self.{node.name}.to", self.low if dtype == "low" else self.acc), shape(node)
            )
            self._parameters[node.name, dtype] = variable
        return self._as_wanted(node, name(self._parameters[node.name, dtype]), dtype, want)
