"""Axes of a grid as ``--vary`` takes them: ``ib.bandwidth=25GB/s:100GB/s:4``,
``ideal=true,false``. :func:`axes_of` reads all, :func:`axis_of` one.

A key is one of the fabric's, whose values stay text as ``--set`` takes it, or one of the model's options
(``DECLARED`` by name), whose values are parsed here: ``KINDS`` has their types, ``words`` the words that
an option may take, and ``takes_count`` whether its number is whole.

In all functions ``text`` is the whole axis as it was typed, which errors repeat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.definitions.overrides import shape_as_list
from colltool.estimate.assumptions import DECLARED, KINDS, checked, takes_count, words

# Axes that every grid has, first and in this order; those of --vary follow.
GRID_AXES = ("fabric", "ranks", "bytes")
# Values that a range of one axis may have.
MOST_VALUES = 10_000

# Keys that are no axes of --vary, with the argument that sets their values.
_SET_BY = {"fabric": "fabrics", "ranks": "ranks", "bytes": "sizes", "size": "sizes"}

# 25GB/s:100GB/s:4 and 0.1us:10us:5log
_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d+)(?P<log>log)?")
# 25GB/s, -1, .5 us and 2e-6: a number, and its unit if it has one
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\d\s]\S*)?"
)

# Commas that separate values: not those inside brackets, as in torus.shape=[8,8,4].
_COMMA = re.compile(r",(?![^\[\]{}]*[\]}])")


class SweepAxis(NamedTuple):
    """One varied key and its values in order.

    Those of a fabric's key are text as ``--set`` takes it, those of an option of the model booleans,
    numbers or words. Sweeps and comparisons make their axes of fabrics (names), ranks (integers) and
    sizes (floats, bytes) without :func:`axis_of`.
    """

    key: str
    values: tuple[Any, ...]

    @property
    def is_option(self) -> bool:
        """Whether it varies an option of the model, not a value of the fabric."""
        return self.key in DECLARED


def axes_of(typed: Sequence[str]) -> tuple[SweepAxis, ...]:
    """Parse the axes of ``--vary``.

    Raises:
        ColltoolError: an axis that cannot be read, or two whose keys overlap, as ``ib`` and
            ``ib.bandwidth`` do.
    """
    axes: list[SweepAxis] = []
    for text in typed:
        axis = axis_of(text)
        if any(_overlap(axis.key, known.key) for known in axes):
            raise _refused(text, f"{axis.key} is varied twice", "name each key once")
        axes.append(axis)
    return tuple(axes)


def _overlap(key: str, other: str) -> bool:
    """Whether two keys are the same or one contains the other, as ``ib`` contains ``ib.bandwidth``."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


def axis_of(text: str) -> SweepAxis:
    """Parse one axis, such as ``ib.bandwidth=25GB/s:100GB/s:4``, ``alpha=0.1us:10us:5log``,
    ``torus.shape=8x8x8,16x8x4`` or ``ideal=true,false``.

    >>> axis_of("ib.bandwidth=25GB/s:100GB/s:4").values
    ('25GB/s', '50GB/s', '75GB/s', '100GB/s')

    Raises:
        ColltoolError: it cannot be read, is an axis that another argument sets, or an option cannot
            take one of its values.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not key or not equals or not values:
        raise _refused(
            text,
            "expected KEY=V1,V2 or KEY=LOW:HIGH:COUNT",
            f"write {argument_text('vary', ['ib.bandwidth=50GB/s,100GB/s'])}",
        )
    if key in _SET_BY:
        raise _refused(
            text,
            f"{key} is an axis of its own",
            f"list its values in {argument_text(_SET_BY[key])}",
        )
    ranged = _RANGE.fullmatch(values)
    texts = _listed_values(text, values) if ranged is None else _range_values(text, ranged)
    if key in DECLARED:
        return SweepAxis(key, tuple(_option_value(text, key, value) for value in texts))
    return SweepAxis(key, tuple(shape_as_list(value) for value in texts))


def _listed_values(text: str, values: str) -> list[str]:
    """The values of V1,V2 in their order."""
    listed = [value.strip() for value in _COMMA.split(values)]
    if not all(listed):
        raise _refused(text, "an empty value", "separate values with one comma")
    if len(set(listed)) < len(listed):
        raise _refused(text, "a value stands twice", "name each value once")
    return listed


def _range_values(text: str, ranged: re.Match[str]) -> list[str]:
    """The values of LOW:HIGH:COUNT in equal steps, or in equal factors where it ends in log. The
    ends stay as they were typed."""
    low = _QUANTITY.fullmatch(ranged["low"].strip())
    high = _QUANTITY.fullmatch(ranged["high"].strip())
    if low is None or high is None:
        raise _refused(
            text, "the ends of a range are numbers with their units", "such as 25GB/s:100GB/s:4"
        )
    start = float(low["number"])
    end = float(high["number"])
    count = int(ranged["count"])
    if low["unit"] != high["unit"]:
        raise _refused(
            text,
            f"the ends of the range have different units, {low['unit']} and {high['unit']}",
            "give both in one unit",
        )
    if not start < end:
        raise _refused(
            text,
            f"the range is upside down: {low[0]} is not below {high[0]}",
            f"write {high[0]}:{low[0]}:{count}",
        )
    if not 2 <= count <= MOST_VALUES:
        raise _refused(text, f"a range of {count} values", f"2 to {MOST_VALUES} values")
    if ranged["log"] and start <= 0:
        raise _refused(text, "equal factors start above 0", "a larger low end, or leave log out")
    numbers = [low["number"]]
    for index in range(1, count - 1):
        step = index / (count - 1)
        if ranged["log"]:
            value = start * (end / start) ** step
        else:
            value = start + (end - start) * step
        numbers.append(f"{value:.12g}")
    numbers.append(high["number"])
    return [f"{number}{low['unit'] or ''}" for number in numbers]


def _option_value(text: str, key: str, value: str) -> Any:
    """A value of a model option as its type, checked."""
    # a word stays as it is
    parsed: Any = value
    if KINDS[key] is bool:
        parsed = {"true": True, "false": False}.get(value.lower())
        if parsed is None:
            raise _refused(
                text, f"{key} is true or false, got '{clipped(value)}'", f"write {key}=true,false"
            )
    elif value not in words(key):
        number = int if takes_count(key) else float
        try:
            parsed = number(value)
        except ValueError:
            raise _refused(
                text,
                f"{key} has no '{clipped(value)}'",
                f"its values: {', '.join(words(key)) or 'numbers'}",
            ) from None
    try:
        return getattr(checked(**{key: parsed}), key)
    except ColltoolError as error:
        raise _refused(text, f"{key}: {error.what}", error.fix) from None


def _refused(text: str, what: str, fix: str) -> ColltoolError:
    """The error of an axis (``text``) that cannot be read."""
    return ColltoolError(what, where=argument_text("vary", [clipped(text)]), fix=fix)
