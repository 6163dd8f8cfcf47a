"""The axes of a sweep as they are typed: ``KEY=V1,V2`` and ``KEY=LOW:HIGH:COUNT``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, given
from colltool.definitions.reader import spelt
from colltool.estimate.assumptions import DECLARED, KINDS, checked, takes_count, words

MOST_VALUES = 10_000
_OWN = {"fabric": "fabrics", "ranks": "ranks", "bytes": "sizes", "size": "sizes"}
"""Axes that every grid has, with the argument that sets their values."""

_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d+)(?P<log>log)?")
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]\S*)?")


class SweepAxis(NamedTuple):
    """One varied key and its values in order: text as ``--set`` takes it, integers for ranks, floats (bytes) for sizes."""

    key: str
    values: tuple[Any, ...]

    @property
    def is_reading(self) -> bool:
        return self.key in DECLARED

    @property
    def of_fabric(self) -> bool:
        return not self.is_reading and self.key not in ("fabric", "ranks", "bytes")


def axes_of(typed: Sequence[str]) -> tuple[SweepAxis, ...]:
    """Parse the axes of ``--vary``.

    Raises:
        ColltoolError: malformed axis, or overlapping keys such as ``ib`` and ``ib.bandwidth``.
    """
    found = [axis_of(text) for text in typed]
    for index, axis in enumerate(found):
        if any(_overlap(axis.key, before.key) for before in found[:index]):
            raise _refused(typed[index], f"{axis.key} is varied twice", "name each key once")
    return tuple(found)


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def axis_of(text: str) -> SweepAxis:
    """One axis: ``ib.bandwidth=25GB/s:100GB/s:4``, ``alpha=0.1us:10us:5log``, ``torus.shape=8x8x8,16x8x4``, ``ideal=true,false``.

    >>> axis_of("ib.bandwidth=25GB/s:100GB/s:4").values
    ('25GB/s', '50GB/s', '75GB/s', '100GB/s')
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not key or not equals or not values:
        raise _refused(
            text, "expected KEY=V1,V2 or KEY=LOW:HIGH:COUNT", f"write {given('vary', ['ib.bandwidth=50GB/s,100GB/s'])}"
        )
    if key in _OWN:
        raise _refused(text, f"{key} is an axis of its own", f"list its values in {given(_OWN[key])}")
    ranged = _RANGE.fullmatch(values)
    found = _between(text, ranged) if ranged else tuple(_listed(text, values))
    if key in DECLARED:
        return SweepAxis(key, tuple(_reading(text, key, one) for one in found))
    return SweepAxis(key, tuple(spelt(one) for one in found))


def _listed(text: str, values: str) -> list[str]:
    """Split at commas, except inside brackets."""
    parts = [part.strip() for part in re.split(r",(?![^\[\]{}]*[\]}])", values)]
    if not all(parts):
        raise _refused(text, "an empty value", "separate values with one comma")
    if len(set(parts)) < len(parts):
        raise _refused(text, "a value stands twice", "name each value once")
    return parts


def _between(text: str, ranged: re.Match[str]) -> tuple[str, ...]:
    low, high = (_QUANTITY.fullmatch(ranged[name].strip()) for name in ("low", "high"))
    if low is None or high is None:
        raise _refused(text, "the ends of a range are numbers with their units", "such as 25GB/s:100GB/s:4")
    start, end, count = float(low[1]), float(high[1]), int(ranged["count"])
    if (low[2] or "") != (high[2] or ""):
        raise _refused(text, f"the ends of the range have different units, {low[2]} and {high[2]}", "give both in one unit")
    if not start < end:
        raise _refused(text, f"the range is upside down: {low[0]} is not below {high[0]}", f"write {high[0]}:{low[0]}:{count}")
    if not 2 <= count <= MOST_VALUES:
        raise _refused(text, f"a range of {count} values", f"2 to {MOST_VALUES} values")
    if ranged["log"] and start <= 0:
        raise _refused(text, "equal factors start above 0", "a larger low end, or leave log out")
    steps = [index / (count - 1) for index in range(count)]
    numbers = [start * (end / start) ** step if ranged["log"] else start + (end - start) * step for step in steps]
    texts = [low[1], *(f"{number:.12g}" for number in numbers[1:-1]), high[1]]
    return tuple(f"{number}{low[2] or ''}" for number in texts)


def _reading(text: str, key: str, value: str) -> Any:
    plain: Any = value
    if KINDS[key] is bool:
        known = {"true": True, "false": False}
        if value.lower() not in known:
            raise _refused(text, f"{key} is true or false, got '{clipped(value)}'", f"write {key}=true,false")
        plain = known[value.lower()]
    elif value not in words(key):
        try:
            plain = int(value) if takes_count(key) else float(value)
        except ValueError:
            known_words = ", ".join(words(key)) or "numbers"
            raise _refused(text, f"{key} has no '{clipped(value)}'", f"its values: {known_words}") from None
    try:
        return getattr(checked(**{key: plain}), key)
    except ColltoolError as error:
        raise _refused(text, f"{key}: {error.what}", error.fix) from None


def _refused(text: str, what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, where=given("vary", [clipped(text)]), fix=fix)
