"""The file of Triton kernels of one energy: what the template needs for each Pairs node, made from its tile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cemc.emit.kernel_parts import (
    NAMES,
    Dot,
    Forward,
    Input,
    Loads,
    PairSum,
    Side,
    Width,
    loop_range,
    number_names,
    numbered,
    renamed,
    upstream_input,
    vector_input,
    widened,
    with_offset,
    without_positions,
)
from cemc.emit.operators import SMALLEST, operator
from cemc.emit.tile import TilePrinter
from cemc.emit.wrap import wrapped
from cemc.program import kernel_nodes, nodes
from cemc.program.graph import in_order
from cemc.program.nodes import Node, Operand, Program
from cemc.recognise.bounds import Bounds, Form, bounds, linear

if TYPE_CHECKING:
    from jinja2 import Environment

    from cemc.emit.pointwise import PointwiseKernel

_REFERENCE = re.compile(r"(?<![\w.])_(?:sigmoid|tanh|softplus|normal_cdf|sqrt|sqrt_slope|sign|expm1|log1p|power)(?=\()")


class Kernel:
    """Everything the template asks about one Pairs node."""

    def __init__(self, pairs: kernel_nodes.Pairs, name: str) -> None:
        self.pairs, self.name, self.public = pairs, f"_{name}", name
        tile = pairs.tile
        self.title = name
        self.score = tile.score is not None
        self.empty = "0.0" if pairs.empty == "zero" else 'float("-inf")'
        self.widths: list[Width] = []
        self.keys = [self._wide("key", n, key) for n, key in enumerate(pairs.keys)]
        self.queries = [self._wide("query", n, query) for n, query in enumerate(pairs.queries)]
        self.rows = [vector_input("row_value", n, each) for n, each in enumerate(pairs.rows)]
        self.columns = [vector_input("column_value", n, each) for n, each in enumerate(pairs.columns)]
        self.scalars = [vector_input("scalar", n, each, axes=0) for n, each in enumerate(pairs.scalars)]
        self.sinks = [vector_input("sink", n, each) for n, each in enumerate(pairs.sinks)]
        self.tables: list[Input] = [vector_input("table", n, each) for n, each in enumerate(pairs.tables)]
        self.numbers = number_names(pairs.numbers, ())
        self.dots = [Dot(numbered("dot", n), self.queries[q], self.keys[k]) for n, (q, k) in enumerate(pairs.dots)]
        self.adjoints = dict(tile.adjoints)
        self.sums = [self._sum(n) for n in range(len(pairs.values))]
        self.gradients = [s.upstream for s in self.sums]
        if self.score:
            self.gradients += [upstream_input("delta", None), upstream_input("log_sum_exp", None)]
        leaves = self._leaves()
        printer = TilePrinter(leaves, (), list(tile.offsets))
        self.tables = [
            with_offset(table, printer.code(offset).text)
            for table, offset in zip(self.tables, tile.offsets, strict=True)
        ]
        self.inputs = [
            *self.queries, *self.keys, *self.rows, *self.columns, *self.scalars, *self.tables, *self.sinks
        ]  # fmt: skip
        self.outputs = [*(s.output for s in self.sums), *(["log_sum_exp_out"] if self.score else [])]
        self.bounds: Bounds = bounds(tile.mask)
        self._ranges()
        roots = [
            r for r in (tile.score, tile.mask, *tile.weights, *tile.offsets, *self.adjoints.values()) if r is not None
        ]
        self.widened, self.whole_numbers = widened(roots, self.numbers)
        used = {n.name for n in in_order(roots) if isinstance(n, nodes.Tensor)}
        self.uses_i, self.uses_j = "i" in used, "j" in used
        self._taken = self._reserved()
        self.forward = self._forward(leaves)
        self.sides = [self._side(leaves, rows=True), self._side(leaves, rows=False)]
        self.sides += [self._table_side(leaves, n) for n in range(len(self.tables))]
        self.sides = [side for side in self.sides if side.accumulators]
        self.summary = (
            "Sums over columns for a block of rows, with the log-sum-exp of the scores kept as they come."
            if (self.score)
            else "Sums over columns for a block of rows."
        )

    # ------------------------------------------------------------------------------------------------------ inputs

    def _wide(self, kind: str, n: int, operand: Operand) -> Input:
        at = operand.at.index(len(self.pairs.shared) + 1)
        axis = operand.node.dims[at]
        width = next((w for w in self.widths if w.axis == axis), None)
        if width is None:
            suffix = "" if not self.widths else f"_{len(self.widths) + 1}"
            width = Width(axis, f"WIDTH{suffix}", f"PADDED{suffix}")
            self.widths.append(width)
        local = numbered(kind, n)
        strides = [f"{local}_{axis}" for axis in ("batch", "head", "token", "width")]
        return Input(kind, local, f"{local}_ptr", local, strides, 2, width)

    def _sum(self, n: int) -> PairSum:
        value = self.pairs.values[n]
        key = None if value is None else self.keys[value]
        weight = self.pairs.tile.weights[n]
        bare = isinstance(weight, nodes.Tensor) and weight.name == "p 0"
        local = numbered("result", n)
        return PairSum(
            local, f"{local}_out", "p" if bare else numbered("weight", n), bare, self.pairs.tile.softmax[n], key,
            upstream_input(f"d_{local}", key.width if key is not None else None), numbered("gradient", n),
        )  # fmt: skip

    def _leaves(self) -> dict[str, str]:
        leaves = {"i": "i", "j": "j", "p 0": "p", "delta 0": "delta"}
        for kind, vectors in (("row", self.rows), ("column", self.columns), ("scalar", self.scalars)):
            leaves |= {f"{kind} {n}": each.local for n, each in enumerate(vectors)}
        leaves |= {f"table {n}": each.local for n, each in enumerate(self.tables)}
        leaves |= {f"number {n}": each for n, each in enumerate(self.numbers)}
        leaves |= {f"dot {n}": dot.local for n, dot in enumerate(self.dots)}
        for kind, wide in (("query", self.queries), ("key", self.keys)):
            leaves |= {f"{kind}_square {n}": f"{each.local}_square" for n, each in enumerate(wide)}
        for n, s in enumerate(self.sums):
            leaves[f"gradient {n}"] = s.gradient if s.key is not None else s.upstream.local
        return leaves

    def _reserved(self) -> list[str]:
        """Names that mean something in the kernels of this node."""
        found = [*NAMES, *self.numbers]
        for each in (*self.inputs, *self.gradients):
            found += [each.name, each.local, *each.strides]
        found += [name for s in self.sums for name in (s.local, s.weight, s.gradient)]
        locals_ = [*(each.local for each in self.inputs), *(dot.local for dot in self.dots)]
        locals_ += [f"{each.local}_square" for each in (*self.queries, *self.keys)]
        return [*found, *locals_, *(f"d_{each}" for each in locals_)]

    # ------------------------------------------------------------------------------------------------------- loops

    def _ranges(self) -> None:
        first, end = "offset + block * ROWS", "offset + (block + 1) * ROWS"
        highs = [f"{end}{self._shown(form)}" for form in self.bounds.upper]
        lows = [f"{first}{self._shown(form)}" for form in self.bounds.lower]
        self.column_range, self.column_start, self.column_stop = loop_range(lows, highs, "column_count", "COLUMNS")

    def _row_range(self) -> tuple[list[str], str, str]:
        first, end = "block * COLUMNS - offset", "(block + 1) * COLUMNS - offset"
        lows = [f"{first}{self._shown(form, -1)}" for form in self.bounds.upper]
        highs = [f"{end}{self._shown(form, -1)}" for form in self.bounds.lower]
        return loop_range(lows, highs, "row_count", "ROWS")

    def _shown(self, form: Form, sign: int = 1) -> str:
        """A linear form of numbers as terms to be added."""
        text = ""
        for name, value in sorted(form.items(), reverse=True):
            value = value * sign
            if value:
                factor = self.numbers[int(name.split()[1])] if name else ""
                size = str(abs(value)) if not name or abs(value) != 1 else ""
                text += f" {'+' if value > 0 else '-'} {' * '.join(p for p in (size, factor) if p)}"
        return text

    # ---------------------------------------------------------------------------------------------------- kernels

    def _mask(self, printer: TilePrinter) -> list[str]:
        mask = self.pairs.tile.mask
        if mask is None:
            return []
        lines = printer.lines([("allowed", mask)])
        if lines and lines[-1].startswith("allowed = "):
            return [*lines[:-1], f"inside = inside & ({lines[-1].removeprefix('allowed = ')})"]
        return [*lines, f"inside = inside & ({printer.code(mask).text} != 0)"]

    def _loads(self, roots: Sequence[Node], read: Sequence[str], gradients: Sequence[Input] = ()) -> Loads:
        """What a kernel needs for the expressions `roots`. `read`: the queries and keys it needs besides, and
        `gradients` those of the sums."""
        used = {node.name for node in in_order(roots) if isinstance(node, nodes.Tensor)}
        dots = [dot for n, dot in enumerate(self.dots) if f"dot {n}" in used]
        sums = [s for n, s in enumerate(self.sums) if f"gradient {n}" in used]
        wide = {*read, *(d.query.local for d in dots), *(d.key.local for d in dots)}
        wide |= {s.key.local for s in sums if s.key is not None}
        squares = [q for n, q in enumerate(self.queries) if f"query_square {n}" in used]
        squares += [k for n, k in enumerate(self.keys) if f"key_square {n}" in used]
        wide |= {each.local for each in squares}
        needed = {s.upstream.local for s in sums} | {each.local for each in gradients}
        needed |= {"log_sum_exp"} if self.score else set()
        needed |= {"delta"} if "delta 0" in used else set()

        def among(kind: str, inputs: Sequence[Input]) -> list[Input]:
            return [each for n, each in enumerate(inputs) if f"{kind} {n}" in used]

        return Loads(
            [each for each in self.queries if each.local in wide], [each for each in self.keys if each.local in wide],
            among("row", self.rows), among("column", self.columns), among("scalar", self.scalars),
            among("table", self.tables), dots, [s for s in sums if s.key is not None],
            [each for each in self.gradients if each.local in needed], squares,
        )  # fmt: skip

    def _forward(self, leaves: dict[str, str]) -> Forward:
        tile = self.pairs.tile
        roots = [node for node in (tile.mask, tile.score, *tile.weights) if node is not None]
        printer = TilePrinter(leaves, self._taken, roots)
        mask = self._mask(printer)
        score = printer.lines([("score", tile.score)]) if tile.score is not None else []
        weights = printer.lines([(s.weight, w) for s, w in zip(self.sums, tile.weights, strict=True)])
        loads = self._loads(roots, [s.key.local for s in self.sums if s.key is not None])
        return Forward(replace(loads, gradients=[], sums=[]), mask, score, weights)

    def _side(self, leaves: dict[str, str], *, rows: bool) -> Side:
        side_name = "rows" if rows else "columns"
        side = Side(
            side_name, f"{self.name}_{side_name}", rows,
            f"Gradients of what varies with the {'row' if rows else 'column'}, for a block of them.", side_name,
        )  # fmt: skip
        side.range, side.start, side.stop = (
            (self.column_range, self.column_start, self.column_stop) if rows else self._row_range()
        )
        tile, adjoints = self.pairs.tile, self.adjoints
        targets: list[tuple[str, Node]] = []
        for n, dot in enumerate(self.dots):
            adjoint = adjoints.get(f"dot {n}")
            if adjoint is not None:
                targets.append((f"d_{dot.local}", adjoint))
        vectors = [("row", self.rows), ("scalar", self.scalars)] if rows else [("column", self.columns)]
        for kind, inputs in vectors:
            for n, each in enumerate(inputs):
                adjoint = adjoints.get(f"{kind} {n}")
                if adjoint is not None:
                    targets.append((f"d_{each.local}_part", adjoint))
                    self._accumulate_vector(side, each, kind)
        squared = self.queries if rows else self.keys
        for n, each in enumerate(squared):
            adjoint = adjoints.get(f"{each.kind}_square {n}")
            if adjoint is not None:
                targets.append((f"d_{each.local}_square_part", adjoint))
                self._accumulate_square(side, each)
        if not rows:
            targets += [(s.weight, w) for s, w in zip(self.sums, tile.weights, strict=True) if s.key and not s.bare]
        roots = [node for node in (tile.mask, tile.score, *(t[1] for t in targets)) if node is not None]
        printer = TilePrinter(leaves, self._taken, roots)
        side.mask = self._mask(printer)
        side.score = printer.lines([("score", tile.score)]) if tile.score is not None else []
        side.lines = printer.lines(targets, named=False)
        # An expression that is a variable already gets no second name.
        printed = {target: printer.code(node).text for target, node in targets}
        side.updates = [renamed(line, printed) for line in side.updates]
        reached = [dot for dot in self.dots if f"d_{dot.local}" in printed]
        read = [(dot.key if rows else dot.query).local for dot in reached]
        read += [each.local for n, each in enumerate(squared) if f"{each.kind}_square {n}" in adjoints]
        carried = [] if rows else [s.upstream for s in self.sums if s.key is not None]
        read += [] if rows else [s.key.local for s in self.sums if s.key is not None]
        side.loads = self._loads(roots, read, carried)
        self._dots(side, printed)
        return side

    def _table_side(self, leaves: dict[str, str], n: int) -> Side:
        """The gradient of a table read at an offset: a sum along diagonals, of a band of tiles."""
        table, tile = self.tables[n], self.pairs.tile
        side = Side(
            "table", f"{self.name}_{table.local}", True, "Gradient of a table of offsets, for a block of them.",
            f"{table.argument}.shape[-1]", table,
        )  # fmt: skip
        adjoint = self.adjoints.get(f"table {n}")
        form = linear(tile.offsets[n])
        assert form is not None
        sign = form["i"]
        # Where the subscript is s (i - j) + c, the first of a block's columns is that of the largest i - j.
        largest = (
            f"(block + 1) * ROWS - 1{self._shown(without_positions(form), -1)}"
            if sign == 1
            else (f"-(block * ROWS{self._shown(without_positions(form), -1)})")
        )
        side.first = f"offset + start - ({largest})"
        side.stop = "row_count"
        if adjoint is None:
            return side
        roots = [node for node in (tile.mask, tile.score, adjoint, *tile.offsets) if node is not None]
        printer = TilePrinter(leaves, self._taken, roots)
        side.mask = self._mask(printer)
        side.score = printer.lines([("score", tile.score)]) if tile.score is not None else []
        gradient = f"d_{table.local}"
        side.lines = printer.lines([(f"{gradient}_part", adjoint)], named=False)
        side.accumulators.append({"local": gradient, "shape": "(ROWS,)"})
        side.outputs.append(f"{gradient}_out")
        side.made.append(gradient)
        part = f"tl.where(inside, {printer.code(adjoint).text}, 0.0)[:, :, None]"
        side.updates = [
            f"here = {table.local}_at[:, :, None] == at[None, None, :]",
            f"{gradient} += tl.sum(tl.sum(tl.where(here, {part}, 0.0), 0), 0)",
        ]
        side.loads = self._loads(roots, [])
        where = f"{gradient}_out + place * {table.count} + at"
        side.stores = [f"tl.store({where}, {gradient}, mask=at < {table.count})"]
        return side

    def _accumulate_vector(self, side: Side, each: Input, kind: str) -> None:
        gradient = f"d_{each.local}"
        shape = "(COLUMNS,)" if kind == "column" else "(ROWS,)"
        side.accumulators.append({"local": gradient, "shape": shape})
        side.outputs.append(f"{gradient}_out")
        side.made.append(gradient)
        axis = 0 if kind == "column" else 1
        side.updates.append(f"{gradient} += tl.sum(tl.where(inside, <{gradient}_part>, 0.0), {axis})")
        if kind == "scalar":
            # One number for each few rows, however large the tile is: all are written, and do not depend on its size.
            groups, count = f"ROWS // {SMALLEST}", f"tl.cdiv(row_count, {SMALLEST})"
            total = f"tl.sum(tl.reshape({gradient}, ({groups}, {SMALLEST})), 1)"
            side.stores += [
                f"group = block * ({groups}) + tl.arange(0, {groups})",
                f"tl.store({gradient}_out + place * {count} + group, {total}, mask=group < {count})",
            ]
        else:
            token, count = ("row", "row_count") if kind == "row" else ("column", "column_count")
            side.stores.append(
                f"tl.store({gradient}_out + place * {count} + {token}, {gradient}, mask={token} < {count})"
            )

    def _accumulate_square(self, side: Side, each: Input) -> None:
        """The adjoint of a squared norm is summed over pairs, and goes to the vector in the end."""
        gradient = f"d_{each.local}_square"
        side.accumulators.append({"local": gradient, "shape": "(ROWS,)" if side.rows else "(COLUMNS,)"})
        side.updates.append(f"{gradient} += tl.sum(tl.where(inside, <{gradient}_part>, 0.0), {1 if side.rows else 0})")
        side.stores.append(f"d_{each.local} += 2.0 * {gradient}[:, None] * {each.local}.to(ACC)")

    def _dots(self, side: Side, printed: dict[str, str]) -> None:
        """The products that carry the gradients of inner products, and the weights, to queries or keys."""
        precise = "input_precision=PRECISION, out_dtype=ACC"
        reached: dict[str, Input] = {}
        for dot in self.dots:
            gradient = f"d_{dot.local}"
            if gradient not in printed:
                continue
            side.updates.append(f"{gradient} = tl.where(inside, {printed[gradient]}, 0.0).to({dot.key.local}.dtype)")
            if side.rows:
                reached[dot.query.local] = dot.query
                side.updates.append(f"d_{dot.query.local} += tl.dot({gradient}, {dot.key.local}, {precise})")
            else:
                reached[dot.key.local] = dot.key
                product = f"tl.dot(tl.trans({gradient}), {dot.query.local}, {precise})"
                side.updates.append(f"d_{dot.key.local} += {product}")
        for s in self.sums if not side.rows else ():
            if s.key is None:
                continue
            reached[s.key.local] = s.key
            weight = "p" if s.bare else f"tl.where(inside, {printed[s.weight]}, 0.0)"
            product = f"tl.dot(tl.trans({weight}.to({s.key.local}.dtype)), {s.upstream.local}, {precise})"
            side.updates.append(f"d_{s.key.local} += {product}")
        size, token, count = ("ROWS", "row", "row_count") if side.rows else ("COLUMNS", "column", "column_count")
        for each in reached.values():
            assert each.width is not None
            gradient = f"d_{each.local}"
            side.accumulators.append({"local": gradient, "shape": f"({size}, {each.width.padded})"})
            side.outputs.append(f"{gradient}_out")
            side.made.append(gradient)
            where = f"{gradient}_out + place * {count} * {each.width.size}"
            side.stores.append(
                f"_store_tile({where}, {gradient}, {token}, {count}, {each.width.size}, {each.width.padded})"
            )


def kernels_of(program: Program | None) -> list[Kernel]:
    """The kernels that a program calls."""
    order = in_order(program.step.values()) if program is not None else []
    pairs = [node for node in order if isinstance(node, kernel_nodes.Pairs)]
    return [Kernel(each, "pairs" if len(pairs) == 1 else f"pairs_{n + 1}") for n, each in enumerate(pairs)]


def kernels_file(
    kernels: Sequence[Kernel], pointwise: Sequence[PointwiseKernel], templates: Environment, head: str
) -> str:
    """The text of the file of kernels."""
    for kernel in kernels:
        kernel.__dict__.update(operator(kernel))
    body = templates.get_template("kernels.py.jinja").render(kernels=kernels)
    body = (
        f"{body.strip()}\n\n\n{templates.get_template('pointwise.py.jinja').render(kernels=pointwise).strip()}".strip()
    )
    wanted: dict[str, None] = {}
    while True:
        text = templates.get_template("kernels_head.py.jinja").render(
            wanted=wanted,
            tables=any(kernel.tables for kernel in kernels),
            positions=any(kernel.whole_numbers for kernel in kernels),
            pointwise=bool(pointwise),
        )
        found = dict.fromkeys(m.group() for m in _REFERENCE.finditer(body + text.replace("def _", "def ")))
        if set(found) <= set(wanted):
            break
        wanted |= found
    return f"{head}\n\n{wrapped(text.strip())}\n\n\n{wrapped(body.strip())}\n"
