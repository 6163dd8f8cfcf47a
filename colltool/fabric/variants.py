"""Values of a fabric: copies with other numbers, ranges of uncertain ones, and the source of each.

Copies are unchecked. Numbers may be arrays, of which pricing works out every element: many fabrics
are priced at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from colltool.base.errors import ColltoolError, clipped, given, nearest
from colltool.base.formatting import parse_rate, parse_time
from colltool.base.primitives import Primitive
from colltool.fabric.library import Efficiency, LibraryFacts
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

Place = tuple[str | int, ...]
"""Path of a value in a fabric: ``("tiers", 0, "eta", "beta")``."""

_NEVER_PRICED = frozenset(
    {"source", "notes", "description", "name", "protocols", "algorithms", "reached"}
)
"""Texts, and what a file of schema /1 says of its library: that acts by the tier's ``library``, not
by numbers of its own."""
INNERMOST = (0,)


def with_tiers(
    fabric: Fabric, change: Callable[[Tier], Tier], only: Container[int] | None = None
) -> Fabric:
    """Change all tiers, or those of ``only``, where the innermost is 0."""
    tiers = (
        change(tier) if only is None or at in only else tier for at, tier in enumerate(fabric.tiers)
    )
    return fabric.model_copy(update={"tiers": tuple(tiers)})


# of the fastest protocol's share: below it a protocol's rate is not the wires'
_BOUND_BY_FLAGS = 0.25


def bandwidth_values(tier: Tier, share: float) -> dict[str, str]:
    """The overrides that make :func:`scaled_rates` of a tier."""
    found = {f"{tier.name}.bandwidth": tier.bandwidth}
    found |= (
        {} if (whole := capabilities_of(tier).trunk_Bps) is None else {f"{tier.name}.trunk": whole}
    )
    return {key: f"{share * rate_Bps / 1e9:.12g}GB/s" for key, rate_Bps in found.items()}


def scaled_bandwidth(tier: Tier, share: float) -> Tier:
    """Scale the bandwidth of a tier, under every protocol.

    Shares of a rate follow it, but for LL's: flags and copies bound it, so slower wires leave it
    its rate up to theirs.
    """
    slower = scaled_rates(tier, share)
    if tier.library is None or share >= 1:
        return slower
    fullest = max((row.share for row in tier.library.protocols), default=1.0)
    protocols = []
    for row in tier.library.protocols:
        bound = row.share <= _BOUND_BY_FLAGS * fullest
        by_ranks = tuple((count, min(own / share, fullest)) for count, own in row.by_ranks)
        protocols.append(
            row._replace(share=min(row.share / share, fullest), by_ranks=by_ranks) if bound else row
        )
    return slower.with_library(tier.library._replace(protocols=tuple(protocols)))


def scaled_rates(tier: Tier, share: float) -> Tier:
    """Scale the bandwidth of a tier, and of its trunk, alone, as :func:`bandwidth_values` do."""
    trunk = {} if (whole := capabilities_of(tier).trunk_Bps) is None else {"trunk": whole * share}
    return tier.model_copy(update={"bandwidth": tier.bandwidth * share, **trunk})


def without_in_network(tier: Tier) -> Tier:
    return tier.model_copy(update=dict(capabilities_of(tier).with_switch(None)))


def non_blocking(tier: Tier) -> Tier:
    """A tier without oversubscription."""
    levels = tuple(
        one.model_copy(update={"oversubscription": 1.0}) for one in capabilities_of(tier).levels
    )
    return tier.model_copy(update={"levels": levels}) if levels else tier


def values_of(fabric: Fabric) -> dict[Place, Any]:
    """Every value that a price may depend on."""
    return dict(_values(fabric, ()))


def _values(part: Any, at: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(part, BaseModel):
        for name in type(part).model_fields:
            if name not in _NEVER_PRICED:
                yield from _values(getattr(part, name), (*at, name))
        if (
            "library" not in type(part).model_fields
            and (numbers := getattr(part, "library", None)) is not None
        ):
            yield (*at, "library"), numbers  # what a library adds to a tier
    elif isinstance(part, tuple):
        for index, one in enumerate(part):
            yield from _values(one, (*at, index))
        yield (*at, "length"), len(part)
    elif isinstance(part, dict):
        for key, one in part.items():
            yield from _values(one, (*at, str(key)))
    else:
        yield at, part


def differences(fabrics: Sequence[Fabric]) -> dict[Place, list[float]] | None:
    """The numbers in which fabrics differ, with their values in each; None where they differ in
    more than numbers."""
    first, *others = [values_of(fabric) for fabric in fabrics]
    if any(other.keys() != first.keys() for other in others):
        return None
    every = {place: [value, *(one[place] for one in others)] for place, value in first.items()}
    found = {
        place: several
        for place, several in every.items()
        if any(one != several[0] for one in several)
    }
    return (
        found
        if all(isinstance(one, float) for several in found.values() for one in several)
        else None
    )


def with_values(fabric: Fabric, values: Mapping[Place, Any]) -> Fabric:
    """Put values, or arrays of one length, at places of a fabric."""
    for place, value in values.items():
        fabric = _put(fabric, place, value)
    return fabric


def _put(part: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    step, rest = place[0], place[1:]
    if isinstance(part, tuple):
        return tuple(
            _put(one, rest, value) if index == step else one for index, one in enumerate(part)
        )
    if isinstance(part, dict):
        return {
            key: _put(one, rest, value) if str(key) == step else one for key, one in part.items()
        }
    return part.model_copy(update={str(step): _put(getattr(part, str(step)), rest, value)})


USUAL = ("alpha=2x", "eta.beta=20%", "bandwidth=10%")
"""Defaults. Latencies are rarely known to a factor, contention to no better than 20% (Collectives
Explainer Series 05 section 7), rates to what encoding and headers take.
"""

_FACTOR, _SHARE, _RANGE = (
    re.compile(r"(\d+\.?\d*)x"),
    re.compile(r"(\d+\.?\d*)%"),
    re.compile(r"([^:]+):([^:]+)"),
)
# parts of a tier whose numbers are called like the tier's own
_AROUND = frozenset({"levels", "in_network"})
_ALIKE = {
    "alpha": frozenset({"alpha", "alpha_switch", "post"}),
    "bandwidth": frozenset({"bandwidth", "trunk"}),
    "eta.beta": frozenset({"eta.beta", "eta_beta"}),
}
"""What a factor or share of a name also covers: every latency, every rate of a wire, every share of
bandwidth."""
_READ: dict[str, Callable[[str], float]] = {
    **dict.fromkeys(("alpha", "alpha_switch", "post", "launch_overhead", "startup"), parse_time),
    **dict.fromkeys(("bandwidth", "local_copy", "trunk"), parse_rate),
}
_RATIO, _PART = (1.0, float("inf")), (1e-6, 1.0)
_BOUNDS = {
    "eta.alpha": _RATIO,
    "eta.beta": _PART,
    "eta_beta": _PART,
    "oversubscription": _RATIO,
    "uplinks": _RATIO,
}


class ParameterRange(NamedTuple):
    """One number of a fabric and its bounds; ``even``: drawn evenly by factor (a latency off by
    2x), else by value."""

    place: Place
    key: str
    value: float
    low: float
    high: float
    even: bool

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds that the file format allows."""
        return _BOUNDS.get(_name(list(map(str, self.place))), (0.0, float("inf")))


def _name(parts: Sequence[str]) -> str:
    """What a number is called, wherever it stands: ``alpha``, ``eta.alpha``, ``eta_beta`` (of any
    primitive)."""
    if parts[-2:-1] == ["eta"]:
        return f"eta.{parts[-1]}"
    return "eta_beta" if "eta_beta" in parts[-2:] else parts[-1]


def parameter_ranges(fabric: Fabric, typed: Sequence[str]) -> tuple[ParameterRange, ...]:
    """The numbers of ``alpha=2x``, ``ib.eta.beta=0.6:0.9``, ``bandwidth=10%``; a key without a tier
    means every tier.

    A factor or share of ``alpha`` covers every latency (tiers, levels, protocols, switches; without
    a tier also launching), one of ``eta.beta`` also the switches' share. LOW:HIGH applies to
    numbers of exactly that name.
    """
    known, every = numbers_of(fabric), values_of(fabric)
    found: dict[Place, ParameterRange] = {}
    for text in typed:
        key, equals, how = (part.strip() for part in text.partition("="))
        if not key or not equals or not how:
            fix = (
                f"write {given('vary', ['alpha=2x'])}, a range such as eta.beta=0.6:0.9, or"
                " bandwidth=10%"
            )
            raise _refused(text, "expected KEY=RANGE", fix)
        relative = bool(_FACTOR.fullmatch(how) or _SHARE.fullmatch(how))
        places = [
            place for place, name in known.items() if _means(fabric, key, name, alike=relative)
        ]
        if not places:
            names = list(known.values())
            fix = (
                f"{nearest(key, names)} known: {', '.join(names)}, or alpha, bandwidth, eta.beta of"
                " all tiers".strip()
            )
            raise _refused(text, f"'{clipped(key)}' names no number of {fabric.name}", fix)
        if relative and not (places := [place for place in places if every[place]]):
            raise _refused(
                text,
                f"{key} is 0: a factor or a share of it is 0 too",
                f"two ends, such as {key}=0us:10us",
            )
        found |= {
            place: _between(
                text, how, ParameterRange(place, known[place], every[place], 0, 0, False)
            )
            for place in places
        }
    return tuple(found.values())


def names_a_number(fabric: Fabric, typed: str) -> bool:
    key = typed.partition("=")[0].strip()
    return any(_means(fabric, key, name, alike=True) for name in numbers_of(fabric).values())


def ranges_of(
    fabric: Fabric, typed: Sequence[str], primitive: Primitive | None = None
) -> tuple[tuple[ParameterRange, ...], bool]:
    """The given ranges, else the fabric's ``uncertainty``, else :data:`USUAL`; and whether the last
    were taken.

    For a primitive, numbers of other primitives are left out, unless only those were named.
    """
    own = [f"{key}={how}" for key, how in (fabric.uncertainty or {}).items()]
    found = parameter_ranges(fabric, typed or own or USUAL)
    mine = tuple(
        one
        for one in found
        if primitive is None or one.place[-2:-1] != ("eta_beta",) or one.place[-1] == primitive
    )
    return mine or found, not (typed or own)


def numbers_of(fabric: Fabric) -> dict[Place, str]:
    """Every number of a tier or of the whole call that a price may depend on, with its key:
    ``ib.levels.spine.alpha``."""
    every = values_of(fabric)
    found: dict[Place, str] = {}
    for place, key in keys_of(fabric).items():
        timed = place == ("launch_overhead",) or (
            place[0] == "tiers" and len(place) > 2 and place[2] != "sizing"
        )
        if timed and isinstance(every[place], float):
            found[place] = key
    return found


def keys_of(fabric: Fabric) -> dict[Place, str]:
    """Every value that a price may depend on, with its key as ``--set`` takes it."""
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


def _means(fabric: Fabric, typed: str, key: str, *, alike: bool) -> bool:
    """Whether a typed key names this number, alone or with others; with ``alike`` also by
    :data:`_ALIKE`."""
    if typed == key:
        return True
    own, rest = key.split("."), typed.split(".")
    if rest[0] in [tier.name for tier in fabric.tiers]:
        if own[0] != rest[0]:
            return False
        rest = rest[1:]
    name = _name(own)
    if alike and (
        name in _ALIKE.get(".".join(rest), ()) or (typed == "alpha" and name == "launch_overhead")
    ):
        return True
    if name == "eta_beta" and own[-1] != "eta_beta" and rest[-1:] == ["eta_beta"]:
        own = own[:-1]  # of every primitive
    if not rest or own[-len(rest) :] != rest:
        return False
    between = own[1 : -len(rest)]
    return not between or (between[0] in _AROUND and between[-1] != "eta")


def _between(text: str, how: str, one: ParameterRange) -> ParameterRange:
    """The number with the bounds that are typed."""
    least, most = one.limits
    if factor := _FACTOR.fullmatch(how):
        times = float(factor[1])
        if times <= 1:
            raise _refused(text, "a factor of 1 or less is not a range", "such as 2x")
        return one._replace(
            low=max(least, one.value / times), high=min(most, one.value * times), even=True
        )
    if share := _SHARE.fullmatch(how):
        part = float(share[1]) / 100
        if not 0 < part < 1:
            raise _refused(
                text, f"{how} is not between 0 and 100%", "such as 10%, or a factor such as 2x"
            )
        return one._replace(
            low=max(least, one.value * (1 - part)), high=min(most, one.value * (1 + part))
        )
    ends = _RANGE.fullmatch(how)
    if ends is None:
        raise _refused(text, f"'{clipped(how)}' is not a range", "2x, 10%, or LOW:HIGH")
    read = _READ.get(_name(list(map(str, one.place))), float)
    try:
        low, high = read(ends[1].strip()), read(ends[2].strip())
    except ValueError:
        raise _refused(text, f"'{clipped(how)}' are not numbers", "such as 0.6:0.9") from None
    if not low < high:
        raise _refused(
            text,
            f"the range is upside down: {ends[1]} is not below {ends[2]}",
            f"write {ends[2]}:{ends[1]}",
        )
    if low < least or high > most:
        raise _refused(text, f"{one.key} lies between {least:g} and {most:g}", "a range within")
    return one._replace(low=low, high=high)


def _refused(text: str, what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, where=given("vary", [clipped(text)]), fix=fix)


_NO_ASSUMPTIONS = frozenset(
    {
        "schema_",
        "description",
        "notes",
        "source",
        "hypothetical",
        "announced",
        "measured_on",
        "device",
    }
)
"""Keys that are no assumptions; nor are names, except that of a library."""

SET = "set for this call"
"""The source of a value that an override gives."""


class Provenance(NamedTuple):
    """A value in SI units, a word, or a library's :class:`Efficiency`; ``key`` as ``--set`` takes
    it; ``source`` may be empty."""

    key: str
    value: Any
    source: str


def provenance(fabric: Fabric) -> tuple[Provenance, ...]:
    """Every value that the file gives with the source that it gives for it, tiers innermost first;
    defaults are left out."""
    keys = [key for key, _ in fabric.overrides]
    found = _sourced(fabric, "", {})
    return tuple(
        (
            one._replace(source=SET)
            if any(f"{one.key}.".startswith(f"{key}.") for key in keys)
            else one
        )
        for one in found
    )


def _sourced(part: BaseModel, path: str, above: Mapping[str, str]) -> Iterator[Provenance]:
    """The values of a part and all below it; ``above``: the sources that the part around it gives
    for its keys."""
    own = _sources(getattr(part, "source", None)) or dict(above)
    for name in type(part).model_fields:
        if (
            name in part.model_fields_set
            and name not in _NO_ASSUMPTIONS
            and (name != "name" or isinstance(part, LibraryFacts))
        ):
            yield from _value(getattr(part, name), f"{path}.{name}".lstrip("."), name, own)


def _value(value: Any, key: str, name: str, sources: Mapping[str, str]) -> Iterator[Provenance]:
    said = sources.get(name, sources.get("", ""))
    if isinstance(value, Efficiency):
        yield Provenance(key, value, "; ".join(dict.fromkeys(_sources(value.source).values())))
    elif isinstance(value, BaseModel):
        yield from _sourced(value, key, {"": said} if said else {})
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for at, one in enumerate(value):
            step = getattr(one, "name", None) or getattr(one, "algorithm", None) or str(at)
            yield from _value(
                one, step if name == "tiers" else f"{key}.{step}", name, {"": said} if said else {}
            )
    elif value is not None:
        yield Provenance(key, value, said)


def _sources(source: Any) -> dict[str, str]:
    """The texts of a ``source`` by key; an empty key is for all."""
    if isinstance(source, Mapping):
        return {str(key): " ".join(text.split()) for key, text in source.items()}
    several = [source] if isinstance(source, str) else source or []
    return {"": " ".join(" ".join(several).split())} if several else {}
