"""Ranges of uncertain numbers, as people type them: ``alpha=2x`` (:func:`parameter_ranges`), and the
ranges that a command takes where none are typed (:func:`ranges_of`).

A key may mean several numbers: :func:`_means`. How its range is written: :func:`_with_range`. A number of
a fabric is known by its ``Place``, the path in the fabric, and by its key, as ``--set`` takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest_and_all
from colltool.base.formatting import parse_rate, parse_time
from colltool.base.primitives import Primitive
from colltool.fabric.model import Fabric
from colltool.fabric.values import Place, numbers_of, values_of

# Default ranges. Latencies are rarely known to a factor of two, contention to no better than 20%
# (Collectives Explainer Series 05 section 7), rates but for encoding and headers.
USUAL = ("alpha=2x", "eta.beta=20%", "bandwidth=10%")
_FACTOR = re.compile(r"(\d+\.?\d*)x")  # 2x
_SHARE = re.compile(r"(\d+\.?\d*)%")  # 20%
_RANGE = re.compile(r"([^:]+):([^:]+)")  # 0.6:0.9, 1us:5us
# Parts of a tier whose numbers have the names of the tier's own: ``alpha`` also means theirs.
_PARTS_WITH_SAME_NAMES = frozenset({"levels", "in_network"})
# Names that a factor or share of a name also covers: every latency, every rate of a wire, every
# share of bandwidth. Launching is a latency too, where no tier is named (``_means``).
_ALIKE = {
    "alpha": frozenset({"alpha", "alpha_switch", "post"}),
    "bandwidth": frozenset({"bandwidth", "trunk"}),
    "eta.beta": frozenset({"eta.beta", "eta_beta"}),
}


# How the ends of a range are parsed, by the name of the number, to SI units; others are plain numbers.
_PARSERS: dict[str, Callable[[str], float]] = {
    **dict.fromkeys(("alpha", "alpha_switch", "post", "launch_overhead", "startup"), parse_time),
    **dict.fromkeys(("bandwidth", "local_copy", "trunk"), parse_rate),
}


_ONE_OR_MORE = (1.0, inf)
_A_SHARE = (1e-6, 1.0)
# What the file format allows; anything else is at least 0.
_BOUNDS = {
    "eta.alpha": _ONE_OR_MORE,
    "eta.beta": _A_SHARE,
    "eta_beta": _A_SHARE,
    "oversubscription": _ONE_OR_MORE,
    "uplinks": _ONE_OR_MORE,
}


class ParameterRange(NamedTuple):
    """One number of a fabric and its range, from ``low`` to ``high``; SI units.

    Of an alpha of 5 us, ``2x`` goes from 2.5 to 10 us, ``20%`` from 4 to 6 us.
    """

    place: Place
    key: str  # as ``--set`` takes it
    value: float
    low: float
    high: float
    even: bool  # drawn evenly by its logarithm (a latency off by 2x), else by its value

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds that the file format allows."""
        return _BOUNDS.get(self.name, (0.0, inf))

    @property
    def name(self) -> str:
        """What kind of number it is, wherever it is: ``alpha``, ``eta.alpha``."""
        return _name(list(map(str, self.place)))


def parameter_ranges(fabric: Fabric, typed: Sequence[str]) -> tuple[ParameterRange, ...]:
    """Return the numbers and ranges of ``alpha=2x``, ``ib.eta.beta=0.6:0.9``, ``bandwidth=10%``; a key
    without a tier means every tier.

    A factor or share of ``alpha`` covers every latency (tiers, levels, protocols, switches; without
    a tier also launching), one of ``eta.beta`` also the switches' share. LOW:HIGH applies to
    numbers of exactly that name. Of several ranges of one number the last counts.

    Raises:
        ColltoolError: no KEY=RANGE, a key that names no number, or a range that is none.
    """
    ranges: dict[Place, ParameterRange] = {}
    for text in typed:
        key, equals, range_text = (part.strip() for part in text.partition("="))
        if not key or not equals or not range_text:
            fix = (
                f"write {argument_text('vary', ['alpha=2x'])}, a range such as eta.beta=0.6:0.9, or"
                " bandwidth=10%"
            )
            raise _range_error(text, "expected KEY=RANGE", fix)
        is_relative = bool(_FACTOR.fullmatch(range_text) or _SHARE.fullmatch(range_text))
        for number in _numbers_of_key(fabric, text, key, is_relative):
            ranges[number.place] = _with_range(text, range_text, number)
    return tuple(ranges.values())


def _numbers_of_key(fabric: Fabric, text: str, key: str, is_relative: bool) -> list[ParameterRange]:
    """The numbers that a key means, yet without a range: one at least, else an error. A factor or a share
    (``is_relative``) leaves those out that are 0. ``text``: all that was typed, for errors."""
    key_of = numbers_of(fabric)
    value_of = values_of(fabric)
    places = [place for place in key_of if _means(fabric, key, key_of[place], is_relative)]
    if not places:
        names = list(key_of.values())
        fix = nearest_and_all(key, names)
        fix += ", or alpha, bandwidth, eta.beta of all tiers"
        raise _range_error(
            text,
            f"'{clipped(key)}' names no number of {fabric.name}",
            fix,
        )
    if is_relative:
        places = [place for place in places if value_of[place]]
    if not places:
        fix = f"two ends, such as {key}=0us:10us"
        raise _range_error(text, f"{key} is 0: a factor or a share of it is 0 too", fix)
    return [
        ParameterRange(place, key_of[place], value_of[place], low=0, high=0, even=False)
        for place in places
    ]


def names_a_number(fabric: Fabric, typed: str) -> bool:
    """Whether the key of a typed range names a number that the fabric has."""
    key = typed.partition("=")[0].strip()
    return any(_means(fabric, key, name, alike=True) for name in numbers_of(fabric).values())


def ranges_of(
    fabric: Fabric, typed: Sequence[str], primitive: Primitive | None = None
) -> tuple[tuple[ParameterRange, ...], bool]:
    """Return the typed ranges, else those of the fabric's ``uncertainty``, else those of :data:`USUAL`; and
    whether it is the last.

    For a primitive, numbers of other primitives are left out, unless only those were named.
    """
    stated = [f"{key}={range_text}" for key, range_text in (fabric.uncertainty or {}).items()]
    texts = typed or stated
    ranges = parameter_ranges(fabric, texts or USUAL)
    are_usual = not texts
    if primitive is None:
        return ranges, are_usual
    relevant = []
    for number in ranges:
        # the path of a share of one primitive ends in eta_beta, all_reduce
        if number.place[-2:-1] != ("eta_beta",) or number.place[-1] == primitive:
            relevant.append(number)
    return tuple(relevant) or ranges, are_usual


def _name(parts: Sequence[str]) -> str:
    """What kind of number the last steps of a key name: ``alpha``, ``eta.alpha``, ``eta_beta`` (of any
    primitive)."""
    if parts[-2:-1] == ["eta"]:
        return f"eta.{parts[-1]}"
    if "eta_beta" in parts[-2:]:
        return "eta_beta"
    return parts[-1]


def _means(fabric: Fabric, typed: str, key: str, alike: bool) -> bool:
    """Whether a ``typed`` key names the number with this ``key``; with ``alike`` (the range is a factor or
    a share) also by :data:`_ALIKE`.

    ``alpha`` and ``ib.alpha`` mean ``ib.alpha`` and, as levels have the tier's own names,
    ``ib.levels.leaf.alpha``; neither means ``ib.eta.alpha``.
    """
    if typed == key:
        return True
    steps = key.split(".")
    # the typed steps without the tier, which the key has first
    typed_steps = typed.split(".")
    if typed_steps[0] in [tier.name for tier in fabric.tiers]:
        if steps[0] != typed_steps[0]:
            return False
        typed_steps = typed_steps[1:]
    name = _name(steps)
    if alike and typed == "alpha" and name == "launch_overhead":
        return True
    if alike and name in _ALIKE.get(".".join(typed_steps), ()):
        return True
    # eta_beta without a primitive means every primitive
    if name == "eta_beta" and steps[-1] != "eta_beta" and typed_steps[-1:] == ["eta_beta"]:
        steps = steps[:-1]
    if not typed_steps or steps[-len(typed_steps) :] != typed_steps:
        return False
    # ib.levels.leaf.alpha has levels and leaf between the tier and what was typed
    between = steps[1 : -len(typed_steps)]
    return not between or (between[0] in _PARTS_WITH_SAME_NAMES and between[-1] != "eta")


def _with_range(text: str, range_text: str, number: ParameterRange) -> ParameterRange:
    """The number with the range that was typed: a factor or a share of it, cut off at its bounds, or two
    ends, an error if outside. ``text``: all that was typed, for errors."""
    least, most = number.limits
    factor = _FACTOR.fullmatch(range_text)
    if factor:
        times = float(factor[1])
        if times <= 1:
            raise _range_error(text, "a factor of 1 or less is not a range", "such as 2x")
        low = max(least, number.value / times)
        high = min(most, number.value * times)
        return number._replace(low=low, high=high, even=True)
    share = _SHARE.fullmatch(range_text)
    if share:
        part = float(share[1]) / 100
        if not 0 < part < 1:
            fix = "such as 10%, or a factor such as 2x"
            raise _range_error(text, f"{range_text} is not between 0 and 100%", fix)
        low = max(least, number.value * (1 - part))
        high = min(most, number.value * (1 + part))
        return number._replace(low=low, high=high)
    ends = _RANGE.fullmatch(range_text)
    if ends is None:
        raise _range_error(text, f"'{clipped(range_text)}' is not a range", "2x, 10%, or LOW:HIGH")
    parse = _PARSERS.get(number.name, float)
    try:
        low = parse(ends[1].strip())
        high = parse(ends[2].strip())
    except ValueError:
        raise _range_error(
            text, f"'{clipped(range_text)}' are not numbers", "such as 0.6:0.9"
        ) from None
    if not low < high:
        what = f"the range is upside down: {ends[1]} is not below {ends[2]}"
        raise _range_error(text, what, f"write {ends[2]}:{ends[1]}")
    if low < least or high > most:
        what = f"{number.key} lies between {least:g} and {most:g}"
        raise _range_error(text, what, "a range within")
    return number._replace(low=low, high=high)


def _range_error(text: str, what: str, fix: str) -> ColltoolError:
    """The error for a range as it was typed."""
    return ColltoolError(what, where=argument_text("vary", [clipped(text)]), fix=fix)
