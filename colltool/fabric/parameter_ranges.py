"""Uncertain numbers of a fabric: which, between which bounds, and how they are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.primitives import Primitive
from colltool.base.quoting import clipped
from colltool.base.units import parse_rate, parse_time
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import Place, values_of

USUAL = ("alpha=2x", "eta.beta=20%", "bandwidth=10%")
"""Defaults. Latencies are rarely known to a factor, contention to no better than 20% (Collectives Explainer Series 05 section 7),
rates to what encoding and headers take.
"""

_FACTOR, _SHARE, _RANGE = re.compile(r"(\d+\.?\d*)x"), re.compile(r"(\d+\.?\d*)%"), re.compile(r"([^:]+):([^:]+)")
_AROUND = frozenset({"levels", "protocols", "in_network"})  # parts of a tier whose numbers are called like the tier's own
_ALIKE = {"alpha": frozenset({"alpha", "alpha_switch", "post"}), "eta.beta": frozenset({"eta.beta", "eta_beta"})}
"""What a factor or share of a name also covers: every latency, every share of bandwidth."""
_READ: dict[str, Callable[[str], float]] = {
    "alpha": parse_time, "alpha_switch": parse_time, "post": parse_time, "launch_overhead": parse_time, "startup": parse_time,
    "bandwidth": parse_rate, "local_copy": parse_rate,
}  # fmt: skip
_RATIO, _PART = (1.0, float("inf")), (1e-6, 1.0)
_BOUNDS = {"eta.alpha": _RATIO, "eta.beta": _PART, "eta_beta": _PART, "oversubscription": _RATIO, "uplinks": _RATIO}


class ParameterRange(NamedTuple):
    """One number of a fabric and its bounds; ``even``: drawn evenly by factor (a latency off by 2x), else by value."""

    place: Place
    key: str
    value: float
    low: float
    high: float
    even: bool

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds that the file format allows."""
        return _limits(self.place)


def _limits(place: Place) -> tuple[float, float]:
    return _BOUNDS.get(_name([str(part) for part in place]), (0.0, float("inf")))


def _name(parts: Sequence[str]) -> str:
    """What a number is called, wherever it stands: ``alpha``, ``eta.alpha``, ``eta_beta`` (of any primitive)."""
    if parts[-2:-1] == ["eta"]:
        return f"eta.{parts[-1]}"
    return "eta_beta" if "eta_beta" in parts[-2:] else parts[-1]


def parameter_ranges(fabric: Fabric, typed: Sequence[str]) -> tuple[ParameterRange, ...]:
    """The numbers of ``alpha=2x``, ``ib.eta.beta=0.6:0.9``, ``bandwidth=10%``; a key without a tier means every tier.

    A factor or share of ``alpha`` covers every latency (tiers, levels, protocols, switches; without a tier also launching), one
    of ``eta.beta`` also the switches' share. LOW:HIGH applies to numbers of exactly that name.
    """
    known = numbers_of(fabric)
    found: dict[Place, ParameterRange] = {}
    for text in typed:
        key, equals, how = (part.strip() for part in text.partition("="))
        if not key or not equals or not how:
            fix = f"write {given('vary', ['alpha=2x'])}, a range such as eta.beta=0.6:0.9, or bandwidth=10%"
            raise _refused(text, "expected KEY=RANGE", fix)
        relative = bool(_FACTOR.fullmatch(how) or _SHARE.fullmatch(how))
        places = [place for place, name in known.items() if _means(fabric, key, name, alike=relative)]
        if not places:
            names = list(known.values())
            fix = f"{nearest(key, names)} known: {', '.join(names)}, or alpha, bandwidth, eta.beta of all tiers".strip()
            raise _refused(text, f"'{clipped(key)}' names no number of {fabric.name}", fix)
        every = values_of(fabric)
        if relative and not (places := [place for place in places if every[place]]):
            raise _refused(text, f"{key} is 0: a factor or a share of it is 0 too", f"two ends, such as {key}=0us:10us")
        found |= {place: _between(text, how, place, known[place], every[place]) for place in places}
    return tuple(found.values())


def names_a_number(fabric: Fabric, typed: str) -> bool:
    key = typed.partition("=")[0].strip()
    return any(_means(fabric, key, name, alike=True) for name in numbers_of(fabric).values())


def ranges_of(
    fabric: Fabric, typed: Sequence[str], primitive: Primitive | None = None
) -> tuple[tuple[ParameterRange, ...], bool]:
    """The given ranges, else the fabric's ``uncertainty``, else :data:`USUAL`; and whether the last were taken.

    For a primitive, numbers of other primitives are left out, unless only those were named.
    """
    own = [f"{key}={how}" for key, how in (fabric.uncertainty or {}).items()]
    found = parameter_ranges(fabric, typed or own or USUAL)
    mine = tuple(one for one in found if primitive is None or one.place[-2:-1] != ("eta_beta",) or one.place[-1] == primitive)
    return mine or found, not (typed or own)


def numbers_of(fabric: Fabric) -> dict[Place, str]:
    """Every number that a price may depend on, with its key."""
    return {place: key for place, value in values_of(fabric).items() if isinstance(value, float) and (key := _key(fabric, place))}


def _key(fabric: Fabric, place: Place) -> str:
    """``ib.levels.spine.alpha``; empty for what is no number of a tier or of the whole call."""
    if place[0] != "tiers":
        return "launch_overhead" if place == ("launch_overhead",) else ""
    tier = fabric.tiers[int(place[1])]
    rest = [str(part) for part in place[2:]]
    if rest[0] == "levels":
        rest[1] = capabilities_of(tier).levels[int(rest[1])].name
    elif rest[0] == "protocols" and tier.protocols:
        rest[1] = tier.protocols[int(rest[1])].name
    elif rest[0] == "sizing":
        return ""
    return ".".join((tier.name, *rest))


def _means(fabric: Fabric, typed: str, key: str, *, alike: bool) -> bool:
    """Whether a typed key names this number, alone or with others; with ``alike`` also by :data:`_ALIKE`."""
    if typed == key:
        return True
    own, rest = key.split("."), typed.split(".")
    of_tier = rest[0] in [tier.name for tier in fabric.tiers]
    if of_tier and own[0] != rest[0]:
        return False
    rest = rest[1:] if of_tier else rest
    name = _name(own)
    if alike and (name in _ALIKE.get(".".join(rest), ()) or (typed == "alpha" and name == "launch_overhead")):
        return True
    if name == "eta_beta" and own[-1] != "eta_beta" and rest[-1:] == ["eta_beta"]:
        own = own[:-1]  # of every primitive
    if not rest or own[-len(rest) :] != rest:
        return False
    between = own[1 : -len(rest)]
    return not between or (between[0] in _AROUND and between[-1] != "eta")


def _between(text: str, how: str, place: Place, key: str, value: float) -> ParameterRange:
    least, most = _limits(place)
    if factor := _FACTOR.fullmatch(how):
        times = float(factor[1])
        if times <= 1:
            raise _refused(text, "a factor of 1 or less is not a range", "such as 2x")
        return ParameterRange(place, key, value, max(least, value / times), min(most, value * times), even=True)
    if share := _SHARE.fullmatch(how):
        part = float(share[1]) / 100
        if not 0 < part < 1:
            raise _refused(text, f"{how} is not between 0 and 100%", "such as 10%, or a factor such as 2x")
        return ParameterRange(place, key, value, max(least, value * (1 - part)), min(most, value * (1 + part)), even=False)
    ends = _RANGE.fullmatch(how)
    if ends is None:
        raise _refused(text, f"'{clipped(how)}' is not a range", "2x, 10%, or LOW:HIGH")
    read = _READ.get(_name([str(part) for part in place]), float)
    try:
        low, high = read(ends[1].strip()), read(ends[2].strip())
    except ValueError:
        raise _refused(text, f"'{clipped(how)}' are not numbers", "such as 0.6:0.9") from None
    if not low < high:
        raise _refused(text, f"the range is upside down: {ends[1]} is not below {ends[2]}", f"write {ends[2]}:{ends[1]}")
    if low < least or high > most:
        raise _refused(text, f"{key} lies between {least:g} and {most:g}", "a range within")
    return ParameterRange(place, key, value, low, high, even=False)


def _refused(text: str, what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, where=given("vary", [clipped(text)]), fix=fix)
