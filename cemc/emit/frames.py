"""Places a tensor in the frame of its user: `.transpose`, `[..., None, :]`, or nothing where broadcasting does it."""

from __future__ import annotations

from collections.abc import Sequence

from cemc.emit.code import POSTFIX, Code, call, index, method, negative


def place(code: Code, at: Sequence[int], rank: int, batched: bool) -> Code:
    """A tensor whose dimension n belongs at position `at[n]` of a frame of `rank` axes, so that it broadcasts."""
    if code.positive is not None:
        return negative(place(code.positive, at, rank, batched))
    code = permute(code, order_of(at))
    present = set(at)
    # In front of an unbatched tensor broadcasting supplies the missing axes; elsewhere they need a place.
    first = 0 if batched else min(present, default=rank)
    missing = [position for position in range(first, rank) if position not in present]
    if not missing:
        return code
    if code.kept is not None and code.kept[0] == {position - rank for position in missing}:
        return code.kept[1]
    slots = ["None" if position in missing else ":" for position in range(first, rank)]
    if batched or slots[0] == ":":
        leading = slots.index("None")
        if batched or leading > 1:
            return index(code, ", ".join(["...", *slots[leading:]]))
    while slots[-1] == ":":
        slots.pop()
    return index(code, ", ".join(slots))


def permute(code: Code, order: Sequence[int]) -> Code:
    """`code` with its dimensions (behind the batch axes) in the given order."""
    rank = len(order)
    moved = [n for n in range(rank) if order[n] != n]
    if not moved:
        return code
    if len(moved) == 2:
        if moved == [rank - 2, rank - 1]:
            return Code(f"{code.at(POSTFIX)}.mT", weight=code.weight)
        return method(code, "transpose", f"{moved[0] - rank}", f"{moved[1] - rank}")
    # movedim(source, destination): the dimension that comes to stand at n is order[n].
    low, high = moved[0], moved[-1]
    if list(order[low : high + 1]) == [*range(low + 1, high + 1), low]:
        return method(code, "movedim", f"{low - rank}", f"{high - rank}")
    if list(order[low : high + 1]) == [high, *range(low, high)]:
        return method(code, "movedim", f"{high - rank}", f"{low - rank}")
    source = ", ".join(str(order[n] - rank) for n in moved)
    destination = ", ".join(str(n - rank) for n in moved)
    return call(f"{code.at(POSTFIX)}.movedim", f"({source})", f"({destination})")


def order_of(at: Sequence[int]) -> tuple[int, ...]:
    """The permutation that brings dimensions at these frame positions into the order of the frame."""
    return tuple(sorted(range(len(at)), key=lambda n: at[n]))
