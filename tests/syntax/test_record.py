"""Records behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction

import pytest

from cemc.record import Record, changed, named
from cemc.semantics.typed import Axis, Number, Size
from cemc.source import Span


class Point(Record):
    x: int
    y: int = 0
    label: str | None = named(default=None, kw_only=True)


class Point3(Point):
    z: int = 5


def test_fields_defaults_and_names() -> None:
    assert Point(1) == Point(1, 0) == Point(x=1, y=0, label=None)
    assert Point3(1, 2, 3, label="p").label == "p"
    assert repr(Point3(1)) == "Point3(x=1, y=0, z=5, label=None)"
    assert changed(Point(1), y=2) == Point(1, 2)


def test_equality_and_hash() -> None:
    assert Point(1) != Point3(1)
    assert Point(1) != Point(2)
    assert len({Point(1, 2), Point(y=2, x=1), Point(1, 2, label="a")}) == 2


@pytest.mark.parametrize("wrong", [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"nonsense": 2})])
def test_wrong_values(wrong: tuple[tuple[int, ...], dict[str, int]]) -> None:
    with pytest.raises((TypeError, AttributeError)):
        Point(*wrong[0], **wrong[1])  # type: ignore[arg-type]


def test_nothing_changes() -> None:
    for record in (Point(1), Number(Span(0, 1), (), Fraction(1))):
        with pytest.raises(AttributeError):
            record.x = 2  # type: ignore[union-attr, misc]
        with pytest.raises(AttributeError):
            del record.span  # type: ignore[union-attr]


def test_typed_nodes_are_dataclasses() -> None:
    number = Number(Span(0, 1), (), Fraction(1, 2))
    assert [each.name for each in dataclasses.fields(number)] == ["span", "shape", "value"]
    assert dataclasses.replace(number, value=Fraction(2)).value == 2
    assert pickle.loads(pickle.dumps(number)) == number == copy.deepcopy(number)
    assert hash(copy.deepcopy(number)) == hash(number)
    match number:
        case Number(span, shape, value):
            assert (span, shape, value) == (Span(0, 1), (), Fraction(1, 2))
    assert number != Size(Span(0, 1), (), "d")
    assert Axis("d", False) == Axis(name="d", runtime=False)
