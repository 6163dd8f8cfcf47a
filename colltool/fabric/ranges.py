"""Ranges of uncertain numbers, as people type them: ``alpha=2x`` (:func:`parameter_ranges`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
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
# share of bandwidth.
_ALIKE = {
    "alpha": frozenset({"alpha", "alpha_switch", "post"}),
    "bandwidth": frozenset({"bandwidth", "trunk"}),
    "eta.beta": frozenset({"eta.beta", "eta_beta"}),
}


# How the ends of a range are parsed, by the name of the number; others are plain numbers.
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
    """One number of a fabric and its range, from ``low`` to ``high``.

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
        return _name(list(map(str, self.place)))


def parameter_ranges(fabric: Fabric, typed: Sequence[str]) -> tuple[ParameterRange, ...]:
    """Return the numbers and ranges of ``alpha=2x``, ``ib.eta.beta=0.6:0.9``, ``bandwidth=10%``; a key
    without a tier means every tier.

    A factor or share of ``alpha`` covers every latency (tiers, levels, protocols, switches; without
    a tier also launching), one of ``eta.beta`` also the switches' share. LOW:HIGH applies to
    numbers of exactly that name.
    """
    known = numbers_of(fabric)
    every = values_of(fabric)
    found: dict[Place, ParameterRange] = {}
    for text in typed:
        key, equals, how = (part.strip() for part in text.partition("="))
        if not key or not equals or not how:
            fix = (
                f"write {argument_text('vary', ['alpha=2x'])}, a range such as eta.beta=0.6:0.9, or"
                " bandwidth=10%"
            )
            raise _refused(text, "expected KEY=RANGE", fix)
        relative = bool(_FACTOR.fullmatch(how) or _SHARE.fullmatch(how))
        named = [place for place, name in known.items() if _means(fabric, key, name, relative)]
        if not named:
            names = list(known.values())
            fix = (
                f"{nearest(key, names)} known: {', '.join(names)}, or alpha, bandwidth, eta.beta of"
                " all tiers"
            )
            raise _refused(text, f"'{clipped(key)}' names no number of {fabric.name}", fix)
        places = [place for place in named if every[place] or not relative]
        if not places:
            fix = f"two ends, such as {key}=0us:10us"
            raise _refused(text, f"{key} is 0: a factor or a share of it is 0 too", fix)
        for place in places:
            number = ParameterRange(place, known[place], every[place], low=0, high=0, even=False)
            found[place] = _with_range(text, how, number)
    return tuple(found.values())


def names_a_number(fabric: Fabric, typed: str) -> bool:
    """Whether the key of a typed range names a number that the fabric has."""
    key = typed.partition("=")[0].strip()
    return any(_means(fabric, key, name, alike=True) for name in numbers_of(fabric).values())


def ranges_of(
    fabric: Fabric, typed: Sequence[str], primitive: Primitive | None = None
) -> tuple[tuple[ParameterRange, ...], bool]:
    """Return the typed ranges, else the fabric's ``uncertainty``, else :data:`USUAL`; and whether
    they are the last.

    For a primitive, numbers of other primitives are left out, unless only those were named.
    """
    stated = [f"{key}={how}" for key, how in (fabric.uncertainty or {}).items()]
    found = parameter_ranges(fabric, typed or stated or USUAL)
    usual = not (typed or stated)
    if primitive is None:
        return found, usual
    relevant = [
        number
        for number in found
        if number.place[-2:-1] != ("eta_beta",) or number.place[-1] == primitive
    ]
    return tuple(relevant) or found, usual


def _name(parts: Sequence[str]) -> str:
    """The name of a number, wherever it is: ``alpha``, ``eta.alpha``, ``eta_beta`` (of any
    primitive)."""
    if parts[-2:-1] == ["eta"]:
        return f"eta.{parts[-1]}"
    return "eta_beta" if "eta_beta" in parts[-2:] else parts[-1]


def _means(fabric: Fabric, typed: str, key: str, alike: bool) -> bool:
    """Whether a typed key names the number with this key; with ``alike`` also by
    :data:`_ALIKE`.

    ``alpha`` and ``ib.alpha`` mean ``ib.alpha`` and, as levels have the tier's own names,
    ``ib.levels.leaf.alpha``; neither means ``ib.eta.alpha``.
    """
    if typed == key:
        return True
    steps = key.split(".")
    wanted = typed.split(".")
    if wanted[0] in [tier.name for tier in fabric.tiers]:
        if steps[0] != wanted[0]:
            return False
        wanted = wanted[1:]
    name = _name(steps)
    if alike and typed == "alpha" and name == "launch_overhead":
        return True
    if alike and name in _ALIKE.get(".".join(wanted), ()):
        return True
    # eta_beta without a primitive means every primitive
    if name == "eta_beta" and steps[-1] != "eta_beta" and wanted[-1:] == ["eta_beta"]:
        steps = steps[:-1]
    if not wanted or steps[-len(wanted) :] != wanted:
        return False
    # ib.levels.leaf.alpha has levels and leaf between the tier and what is wanted
    between = steps[1 : -len(wanted)]
    return not between or (between[0] in _PARTS_WITH_SAME_NAMES and between[-1] != "eta")


def _with_range(text: str, how: str, number: ParameterRange) -> ParameterRange:
    """The number with the range that was typed: a factor, a share, or two ends."""
    least, most = number.limits
    factor = _FACTOR.fullmatch(how)
    if factor:
        times = float(factor[1])
        if times <= 1:
            raise _refused(text, "a factor of 1 or less is not a range", "such as 2x")
        low, high = number.value / times, number.value * times
        return number._replace(low=max(least, low), high=min(most, high), even=True)
    share = _SHARE.fullmatch(how)
    if share:
        part = float(share[1]) / 100
        if not 0 < part < 1:
            fix = "such as 10%, or a factor such as 2x"
            raise _refused(text, f"{how} is not between 0 and 100%", fix)
        low, high = number.value * (1 - part), number.value * (1 + part)
        return number._replace(low=max(least, low), high=min(most, high))
    ends = _RANGE.fullmatch(how)
    if ends is None:
        raise _refused(text, f"'{clipped(how)}' is not a range", "2x, 10%, or LOW:HIGH")
    parse = _PARSERS.get(number.name, float)
    try:
        low, high = parse(ends[1].strip()), parse(ends[2].strip())
    except ValueError:
        raise _refused(text, f"'{clipped(how)}' are not numbers", "such as 0.6:0.9") from None
    if not low < high:
        what = f"the range is upside down: {ends[1]} is not below {ends[2]}"
        raise _refused(text, what, f"write {ends[2]}:{ends[1]}")
    if low < least or high > most:
        what = f"{number.key} lies between {least:g} and {most:g}"
        raise _refused(text, what, "a range within")
    return number._replace(low=low, high=high)


def _refused(text: str, what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, where=argument_text("vary", [clipped(text)]), fix=fix)
