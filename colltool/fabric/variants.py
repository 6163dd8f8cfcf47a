"""Values of a fabric: copies with other numbers, ranges of uncertain ones, and the source of each.

Four parts: changed tiers (scaled bandwidth, no in-network hardware), all values by their path
(:func:`values_of`, :func:`with_values`), ranges of numbers (:func:`parameter_ranges`), and sources
(:func:`provenance`). Copies are not validated. Numbers may be arrays: pricing then works on every
element, which prices many fabrics at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from pydantic import BaseModel

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.formatting import parse_rate, parse_time
from colltool.base.primitives import Primitive
from colltool.fabric.library import Efficiency, LibraryFacts
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

# Path of a value in a fabric: ``("tiers", 0, "eta", "beta")``.
Place = tuple[str | int, ...]

# Fields that no price reads: texts, and the library's numbers in a file of schema /1, which act
# through the tier's ``library`` instead.
_NEVER_PRICED = frozenset(
    {
        "source",
        "notes",
        "description",
        "name",
        "assumed",
        "protocols",
        "algorithms",
        "reached",
    }
)
# The argument ``only`` of :func:`with_tiers` for the innermost tier.
INNERMOST = (0,)


def with_tiers(
    fabric: Fabric, change: Callable[[Tier], Tier], only: Container[int] | None = None
) -> Fabric:
    """Return the fabric with all tiers changed, or those whose numbers are in ``only``; the
    innermost is 0."""
    tiers = list(fabric.tiers)
    for number, tier in enumerate(tiers):
        if only is None or number in only:
            tiers[number] = change(tier)
    return fabric.model_copy(update={"tiers": tuple(tiers)})


# Share of the fastest protocol's rate below which a protocol is bound by flags and copies (LL), not
# by the wires.
_BOUND_BY_FLAGS = 0.25


def bandwidth_values(tier: Tier, share: float) -> dict[str, str]:
    """Return the overrides that change a tier as :func:`scaled_rates` does."""
    rates = _rates(tier).items()
    return {f"{tier.name}.{key}": f"{share * rate_Bps / 1e9:.12g}GB/s" for key, rate_Bps in rates}


def _rates(tier: Tier) -> dict[str, float]:
    """The bandwidth of a tier, and its trunk if there is one."""
    rates = {"bandwidth": tier.bandwidth}
    trunk_Bps = capabilities_of(tier).trunk_Bps
    if trunk_Bps is not None:
        rates["trunk"] = trunk_Bps
    return rates


def scaled_bandwidth(tier: Tier, share: float) -> Tier:
    """Return a tier with ``share`` of its bandwidth, under every protocol.

    Protocols have shares of the bandwidth, so that they slow down with it; LL does not, as flags and
    copies bound it: it keeps its rate until the wires are slower.
    """
    scaled = scaled_rates(tier, share)
    if tier.library is None or share >= 1:
        return scaled
    fullest = max((row.share for row in tier.library.protocols), default=1.0)
    protocols = []
    for protocol in tier.library.protocols:
        if protocol.share <= _BOUND_BY_FLAGS * fullest:
            by_ranks = tuple(
                (count, min(part / share, fullest)) for count, part in protocol.by_ranks
            )
            protocol = protocol._replace(
                share=min(protocol.share / share, fullest), by_ranks=by_ranks
            )
        protocols.append(protocol)
    return scaled.with_library(tier.library._replace(protocols=tuple(protocols)))


def scaled_rates(tier: Tier, share: float) -> Tier:
    """Return a tier with ``share`` of its bandwidth and of its trunk; protocols keep their shares."""
    rates = {key: rate_Bps * share for key, rate_Bps in _rates(tier).items()}
    return tier.model_copy(update=rates)


def without_in_network(tier: Tier) -> Tier:
    """Return the tier with switches that compute nothing."""
    return tier.model_copy(update=dict(capabilities_of(tier).with_switch(None)))


def values_of(fabric: Fabric) -> dict[Place, Any]:
    """Return every value that a price may depend on, by its path."""
    return dict(_values(fabric, ()))


def _values(part: Any, at: Place) -> Iterator[tuple[Place, Any]]:
    """Every value of a part that a price may depend on, with its place."""
    if isinstance(part, BaseModel):
        for field_name in type(part).model_fields:
            if field_name not in _NEVER_PRICED:
                yield from _values(getattr(part, field_name), (*at, field_name))
        # what a library adds to a tier is no field of it
        numbers = getattr(part, "library", None)
        if numbers is not None and "library" not in type(part).model_fields:
            yield (*at, "library"), numbers
    elif isinstance(part, tuple):
        for index, item in enumerate(part):
            yield from _values(item, (*at, index))
        yield (*at, "length"), len(part)
    elif isinstance(part, dict):
        for key, item in part.items():
            yield from _values(item, (*at, str(key)))
    else:
        yield at, part


def differences(fabrics: Sequence[Fabric]) -> dict[Place, list[float]] | None:
    """Return the numbers in which fabrics differ, with their values in each. None if they differ in
    more than numbers."""
    every = [values_of(fabric) for fabric in fabrics]
    if any(values.keys() != every[0].keys() for values in every):
        return None
    found: dict[Place, list[float]] = {}
    for place, first in every[0].items():
        several = [values[place] for values in every]
        if all(value == first for value in several):
            continue
        if not all(isinstance(value, float) for value in several):
            return None
        found[place] = several
    return found


def with_values(fabric: Fabric, values: Mapping[Place, Any]) -> Fabric:
    """Return the fabric with values, or arrays of one length, at some of its places."""
    for place, value in values.items():
        fabric = _put(fabric, place, value)
    return fabric


def _put(part: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    step, rest = place[0], place[1:]
    if isinstance(part, tuple):
        items = list(part)
        items[int(step)] = _put(items[int(step)], rest, value)
        return tuple(items)
    if isinstance(part, dict):
        # keys are names of primitives, whose text is the step
        return part | {key: _put(part[key], rest, value) for key in part if str(key) == step}
    return part.model_copy(update={str(step): _put(getattr(part, str(step)), rest, value)})


# Default ranges. Latencies are rarely known to a factor of two, contention to no better than 20%
# (Collectives Explainer Series 05 section 7), rates but for encoding and headers.
USUAL = ("alpha=2x", "eta.beta=20%", "bandwidth=10%")

_FACTOR = re.compile(r"(\d+\.?\d*)x")
_SHARE = re.compile(r"(\d+\.?\d*)%")
_RANGE = re.compile(r"([^:]+):([^:]+)")
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
_RATIO = (1.0, inf)
_PART = (1e-6, 1.0)
# What the file format allows; anything else is at least 0.
_BOUNDS = {
    "eta.alpha": _RATIO,
    "eta.beta": _PART,
    "eta_beta": _PART,
    "oversubscription": _RATIO,
    "uplinks": _RATIO,
}


class ParameterRange(NamedTuple):
    """One number of a fabric and its range, from ``low`` to ``high``.

    ``key``: as ``--set`` takes it. ``even``: drawn evenly by its logarithm (a latency off by 2x),
    else by its value.
    """

    place: Place
    key: str
    value: float
    low: float
    high: float
    even: bool

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds that the file format allows."""
        return _BOUNDS.get(self.name, (0.0, inf))

    @property
    def name(self) -> str:
        return _name(list(map(str, self.place)))


def _name(parts: Sequence[str]) -> str:
    """The name of a number, wherever it is: ``alpha``, ``eta.alpha``, ``eta_beta`` (of any
    primitive)."""
    if parts[-2:-1] == ["eta"]:
        return f"eta.{parts[-1]}"
    return "eta_beta" if "eta_beta" in parts[-2:] else parts[-1]


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


def numbers_of(fabric: Fabric) -> dict[Place, str]:
    """Return every number of a tier, and the launch, with its key: ``ib.levels.spine.alpha``."""
    every = values_of(fabric)
    found: dict[Place, str] = {}
    for place, key in keys_of(fabric).items():
        of_tier = place[0] == "tiers" and place[2:3] != ("sizing",)
        if (of_tier or place == ("launch_overhead",)) and isinstance(every[place], float):
            found[place] = key
    return found


def keys_of(fabric: Fabric) -> dict[Place, str]:
    """Return the key, as ``--set`` takes it, of every value that a price may depend on."""
    found: dict[Place, str] = {}
    for place in values_of(fabric):
        steps = list(map(str, place))
        if steps[0] == "tiers" and len(steps) > 2:
            tier = fabric.tiers[int(steps[1])]
            steps = [tier.name, *steps[2:]]
            if steps[1] == "levels" and len(steps) > 2 and steps[2].isdecimal():
                steps[2] = capabilities_of(tier).levels[int(steps[2])].name
        # the field global_ of a dragonfly is global in its file
        found[place] = ".".join(step.rstrip("_") for step in steps)
    return found


def _means(fabric: Fabric, typed: str, key: str, alike: bool) -> bool:
    """Whether a typed key names the number with this key; with ``alike`` also by
    :data:`_ALIKE`."""
    if typed == key:
        return True
    steps = key.split(".")
    rest = typed.split(".")
    if rest[0] in [tier.name for tier in fabric.tiers]:
        if steps[0] != rest[0]:
            return False
        rest = rest[1:]
    name = _name(steps)
    if alike and typed == "alpha" and name == "launch_overhead":
        return True
    if alike and name in _ALIKE.get(".".join(rest), ()):
        return True
    # eta_beta without a primitive means every primitive
    if name == "eta_beta" and steps[-1] != "eta_beta" and rest[-1:] == ["eta_beta"]:
        steps = steps[:-1]
    if not rest or steps[-len(rest) :] != rest:
        return False
    between = steps[1 : -len(rest)]
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


# Keys of a file that are no assumptions about numbers.
_NO_ASSUMPTIONS = frozenset(
    {
        "schema_",
        "description",
        "notes",
        "source",
        "hypothetical",
        "announced",
        "assumed",
        "measured_on",
        "device",
    }
)

# The source of a value that an override sets.
SET = "set for this call"


class Provenance(NamedTuple):
    """A value with its source: in SI units, a word, or a library's :class:`Efficiency`. ``key`` is
    as ``--set`` takes it; ``source`` may be empty."""

    key: str
    value: Any
    source: str


def provenance(fabric: Fabric) -> tuple[Provenance, ...]:
    """Return every value that the file states, with its source, tiers innermost first; defaults are
    left out."""
    overridden = tuple(f"{key}." for key, _ in fabric.overrides)
    found = []
    for value in _sourced(fabric, "", {}):
        if f"{value.key}.".startswith(overridden):
            value = value._replace(source=SET)
        found.append(value)
    return tuple(found)


def _sourced(part: BaseModel, path: str, inherited: Mapping[str, str]) -> Iterator[Provenance]:
    """The values of a part and all below it; ``inherited``: the sources of its keys that the part
    around it has."""
    sources = _sources(getattr(part, "source", None)) or dict(inherited)
    for field_name in type(part).model_fields:
        # names are no assumptions, except that of a library
        named = field_name == "name" and not isinstance(part, LibraryFacts)
        if field_name in part.model_fields_set and field_name not in _NO_ASSUMPTIONS and not named:
            yield from _value(
                getattr(part, field_name), f"{path}.{field_name}".lstrip("."), field_name, sources
            )


def _value(value: Any, key: str, name: str, sources: Mapping[str, str]) -> Iterator[Provenance]:
    """A value of a part with its source, or the values of the parts in it."""
    source = sources.get(name, sources.get("", ""))
    below = {"": source} if source else {}
    if isinstance(value, Efficiency):
        yield Provenance(key, value, "; ".join(dict.fromkeys(_sources(value.source).values())))
    elif isinstance(value, BaseModel):
        yield from _sourced(value, key, below)
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for index, item in enumerate(value):
            step = getattr(item, "name", None) or getattr(item, "algorithm", None) or str(index)
            yield from _value(item, step if name == "tiers" else f"{key}.{step}", name, below)
    elif value is not None:
        yield Provenance(key, value, source)


def _sources(source: Any) -> dict[str, str]:
    """The texts of a ``source`` by key; the empty key is for all."""
    if isinstance(source, Mapping):
        return {str(key): " ".join(text.split()) for key, text in source.items()}
    several = [source] if isinstance(source, str) else source
    return {"": " ".join(" ".join(several).split())} if several else {}
