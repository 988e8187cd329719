"""Frozen records that are cheap to define: what `@dataclass(frozen=True)` gives, without compiling six methods per
class.

The catalogue of faults and the syntax tree are a hundred classes; as dataclasses they would take longer to import
than a file takes to compile. Type checkers see them as dataclasses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

AnyRecord = TypeVar("AnyRecord", bound="Record")


class _Named:
    def __init__(self, default: Any) -> None:
        self.default = default


def named(*, default: Any, kw_only: bool) -> Any:
    """The default of a field that is given by name only."""
    assert kw_only
    return _Named(default)


@dataclass_transform(frozen_default=True, field_specifiers=(named,))
class Record:
    """Fields are the annotated names of the class and its bases, in order; a value in the class is a default."""

    record_fields: ClassVar[tuple[str, ...]] = ()
    named_fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        for name, kind in cls.__annotations__.items():
            value = cls.__dict__.get(name)
            if isinstance(value, _Named):
                setattr(cls, name, value.default)
                if name not in cls.named_fields:
                    cls.named_fields = (*cls.named_fields, name)
            elif not kind.startswith("ClassVar"):
                cls.record_fields = (*cls.record_fields, name)

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        fields, known = cls.record_fields, self.__dict__
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} values, not {len(values)}")
        known.update(zip(fields, values, strict=False))
        for name, value in named.items():
            if name in known or name not in fields + cls.named_fields:
                raise TypeError(f"{cls.__name__} cannot take {name!r}")
            known[name] = value
        for name in fields[len(values) :] + cls.named_fields:
            if name not in known:
                known[name] = getattr(cls, name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        # Not the order of the dictionary: fields may be given by name in any.
        cls = type(self)
        return hash((cls, *(self.__dict__[name] for name in cls.record_fields + cls.named_fields)))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({inside})"


def changed(record: AnyRecord, **named: Any) -> AnyRecord:
    """A copy with other values for some fields."""
    return type(record)(**{**record.__dict__, **named})


def dataclass(*, frozen: bool, eq: bool = True) -> Callable[[type[Any]], type[Any]]:
    """`dataclasses.dataclass(frozen=True)` with the methods of `Record`. What `fields`, `replace` and `match` need is
    there: a module of many classes imports this one instead, and for type checkers the original, and changes nothing
    else. A class and its subclasses must be made by the same one of the two."""
    assert frozen

    def decorate(cls: type[Any]) -> type[Any]:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclasses would make up a signature, slowly
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        made.record_fields = tuple(made.__dataclass_fields__)
        made.named_fields = ()
        for name in ("__init__", "__setattr__", "__delattr__", "__repr__", *(("__eq__", "__hash__") if eq else ())):
            setattr(made, name, Record.__dict__[name])
        return made

    return decorate
