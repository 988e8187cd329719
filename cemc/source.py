"""Source text and places in it: what every stage uses to say where something came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """The text of one `.cem` file and the name it is reported under."""

    path: str
    text: str


@dataclass(frozen=True, order=True)
class Span:
    """Half-open range of character offsets `[start, end)` in `Source.text`."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))
