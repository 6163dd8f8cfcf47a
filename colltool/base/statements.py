"""What results say, as codes with fields.

A :class:`Statement` names a sentence of a package's ``sentences.toml`` and the values that it
mentions; ``str()`` puts it into words, which is left to whoever shows it. In the table ``{name}``
is a field. It may have a unit as its format, one of :data:`UNITS`: ``{share:percent}`` is 80% of
0.8, ``{size:size}`` 64 KiB, and ``{hosts:and}`` joins several texts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib.resources import files
from string import Formatter
from typing import Any

from colltool.base.formatting import (
    changed_rate,
    counted,
    format_rate,
    format_time,
    of_rates,
    percent,
    range_text,
    ranks_text,
    size_text,
    whole_percent,
)


def _counted_as(noun: str) -> Callable[[int], str]:
    """The unit of a count of things: ``3 ranks``."""
    return partial(counted, thing=noun)


def _joined_by(separator: str) -> Callable[[Iterable[object]], str]:
    """The unit of several texts or statements with a separator between them."""
    return lambda parts: separator.join(map(str, parts))


def _mean_error(error: float) -> str:
    """``3.2%``, ``12%``: with a decimal where rounding leaves less than 10%."""
    digits = 1 if error < 0.0995 else 0
    return percent(error, digits)


def _reached(share: float) -> str:
    """``80%``, ``0.25%``: a share of what was expected, which may be tiny."""
    digits = 0 if share >= 0.1 else 2
    return percent(share, digits)


# The text that a format in a sentence makes of its field, by the format's name: ``{share:percent}``.
UNITS: dict[str, Callable[[Any], str]] = {
    # numbers, in SI units
    "percent": whole_percent,
    "percents": lambda shares: " to ".join(dict.fromkeys(map(whole_percent, shares))),
    "error": partial(percent, digits=0),
    "mean-error": _mean_error,
    "reached": _reached,
    "rate": partial(format_rate, digits=3),
    "rates": lambda pair: of_rates(*pair),  # a rate and the expected one
    "change": lambda pair: changed_rate(*pair),  # a rate and what it falls to
    "size": size_text,
    "sizes": lambda pair: range_text(*pair),  # the first and the last
    "time": partial(format_time, digits=3),
    # counts with their noun
    "ranks": _counted_as("rank"),
    "nodes": _counted_as("node"),
    "hosts": _counted_as("host"),
    "runs": _counted_as("run"),
    "points": _counted_as("size"),
    "calls": _counted_as("call"),
    "rank-list": ranks_text,  # the ranks themselves, shortened
    # several texts or statements
    "and": _joined_by(" and "),
    "or": _joined_by(" or "),
    "or-comma": _joined_by(", or "),
    "list": _joined_by(", "),
    "instead": _joined_by(" instead of "),
    "clauses": _joined_by("; "),
}


class Statement(str):
    """A code of a package's table, and the fields of its sentence by name; as a text it is that
    sentence.

    A field may be a statement itself. A statement without a code says nothing: it is empty.
    """

    package: str  # whose table it is in
    code: str
    fields: tuple[tuple[str, object], ...]  # names and values

    def __new__(
        cls, package: str = "", code: str = "", fields: tuple[tuple[str, object], ...] = ()
    ) -> Statement:
        text = ""
        if code:
            text = _WORDS.vformat(sentences(package)[code], (), dict(fields))
        statement = super().__new__(cls, text)
        statement.package = package
        statement.code = code
        statement.fields = fields
        return statement

    # a pickle keeps what it is made of, not the text
    def __reduce__(self) -> tuple[type[Statement], tuple[object, ...]]:
        return Statement, (self.package, self.code, self.fields)


class _Words(Formatter):
    """Formats fields by :data:`UNITS`, and by Python's own formats."""

    def format_field(self, value: Any, format_spec: str) -> str:
        unit = UNITS.get(format_spec)
        if unit is None:
            return str(super().format_field(value, format_spec))
        return unit(value)


_WORDS = _Words()


def word_table(package: str, file: str) -> dict[str, dict[str, str]]:
    """Return the texts of a TOML file in the folder of a package, by section and key."""
    return tomllib.loads((files(package) / file).read_text(encoding="utf-8"))


@cache
def sentences(package: str) -> Mapping[str, str]:
    """Return all sentences of a package by code, of whatever section."""
    found: dict[str, str] = {}
    for section in word_table(package, "sentences.toml").values():
        # a code is in one section only
        assert not found.keys() & section.keys()
        found |= section
    return found


NOTHING = Statement()
