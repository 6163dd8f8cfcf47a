"""Fit one tier to the series that end on it, collective by collective, and write the result into
the fabric's data."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate
from colltool.base.primitives import A2A, Primitive
from colltool.calibration.envelope import Prior
from colltool.calibration.select import (
    ChosenFit,
    ExcludedSize,
    Member,
    above_line,
    choose,
    name_inside,
    together,
    usable,
)
from colltool.calibration.serialise import (
    FittedProtocol,
    fitted,
    identified,
    protocol_entries,
    rate_text,
    source_of,
    switch_update,
)
from colltool.calibration.series_prices import (
    IN_SWITCH,
    AlgorithmCosts,
    LibraryRuns,
    check_fits,
    costs,
    library_runs_of,
    nccl_on,
    own_names,
    tried,
)
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import named_candidates
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.templates import fabric_text
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.rules import SEGMENT
from colltool.logs.series import Series, log_library

_LEAST = 2  # sizes that determine a line
_IMPOSSIBLE = 20  # times the line rate: beyond it the times are in another unit


class SeriesFit(NamedTuple):
    """The result for one series; ``errors`` are relative, of the used sizes as unseen ones."""

    tier: str
    member: Member
    chosen: ChosenFit
    protocols: tuple[FittedProtocol, ...]
    errors: Any
    left_out: tuple[ExcludedSize, ...]


def calibrate_tier(
    data: dict[str, Any],
    name: str,
    series: Sequence[Series],
    algorithms: Sequence[str],
    line_Bps: float | None,
) -> list[SeriesFit]:
    """Fit a tier, and put its protocols, algorithms and switch into ``data``. Returns a fit for
    each series."""
    tier_data = next(one for one in data["tiers"] if one["name"] == name)
    # from an earlier calibration, which this one replaces
    (tier_data.get("in_network") or {}).pop("protocols", None)
    bare = [
        {key: value for key, value in one.items() if key != "protocols" or one is not tier_data}
        for one in data["tiers"]
    ]
    fabric = read_fabric(fabric_text(data | {"tiers": bare}), "fabric")
    tier = next(one for one in fabric.tiers if one.name == name)
    groups: dict[Primitive, list[Series]] = {}
    for one in series:
        groups.setdefault(one.primitive, []).append(one)
    found = [_fit_collective(fabric, tier, listed, algorithms) for listed in groups.values()]
    left_out = iter([left for _, several in found for left in several])
    prior = _prior_of(fabric, tier, series[0].library, series[0].primitive)
    joint = together([one for one, _ in found], prior)
    joint = joint and identified(joint, prior)
    # where a tier inside this one lists protocols, this tier's need names of their own
    inside = data["tiers"][: data["tiers"].index(tier_data)]
    prefix = f"{name}-" if any(one.get("protocols") for one in inside) else ""
    joint_errors = iter(_by_member(joint)) if joint else None
    fits: list[SeriesFit] = []
    for chosen in (identified(one, prior) for one, _ in found):
        own = fitted(joint or chosen, line_Bps or tier.bandwidth * tier.eta.beta, line_Bps)
        protocols = tuple(
            one._replace(name=prefix * one.name.startswith(SEGMENT) + one.name) for one in own
        )
        errors = joint_errors or iter(_by_member(chosen))
        fits += [
            SeriesFit(name, one, chosen, protocols, next(errors), next(left_out))
            for one in chosen.members
        ]
        said = {str(chosen.members[0].series.primitive): list(chosen.algorithms)}
        tier_data["algorithms"] = (tier_data.get("algorithms") or {}) | said
        _note_switch(tier_data, fabric, chosen, last=protocols[-1])
    tier_data["protocols"] = _entries(
        fits, joint is not None, eta=tier.eta.alpha != 1 or tier.eta.beta != 1
    )
    if line_Bps:
        tier_data["bandwidth"] = rate_text(line_Bps)
    _complete_inner(data)
    return fits


def _by_member(chosen: ChosenFit) -> list[Any]:
    return np.split(
        chosen.errors, np.cumsum([int(member.used.sum()) for member in chosen.members])[:-1]
    )


def _entries(fits: Sequence[SeriesFit], shared: bool, *, eta: bool) -> list[dict[str, Any]]:
    by_primitive: dict[Primitive, list[SeriesFit]] = {}
    for fit in fits:
        by_primitive.setdefault(fit.member.series.primitive, []).append(fit)
    groups = (
        [(list(by_primitive), list(fits))]
        if shared
        else [([primitive], same) for primitive, same in by_primitive.items()]
    )
    entries = []
    for primitives, same in groups:
        series = [fit.member.series for fit in same]
        source = source_of(series, () if shared else same[0].chosen.algorithms)
        entries += protocol_entries(same[0].protocols, primitives, series, source, eta=eta)
    return entries


def _note_switch(
    tier_data: dict[str, Any], fabric: Fabric, chosen: ChosenFit, last: FittedProtocol
) -> None:
    """Write the switch's parameters; ``last`` is the protocol it runs under beside other
    algorithms."""
    if IN_SWITCH not in chosen.algorithms:
        return
    series = chosen.members[0].series
    costed = named_candidates(
        check_fits(fabric, series), series.primitive, Readings(), [IN_SWITCH]
    )[0]
    update = switch_update(
        chosen, sum(part.cost.n_alpha for part in costed.parts), last.eta_beta or 1.0
    )
    if "protocols" in update:
        update["protocols"] = [last.name]
    switch = {key: value for key, value in tier_data["in_network"].items() if key != "eta_beta"}
    spec = next(
        capabilities_of(one).in_network for one in fabric.tiers if one.name == tier_data["name"]
    )
    if others := {
        str(other): value
        for other, value in (spec.own_eta if spec else {}).items()
        if other is not series.primitive
    }:
        own = {str(series.primitive): update["eta_beta"]} if "eta_beta" in update else {}
        (update if own else switch)["eta_beta"] = own | others
    said = switch.get("source")
    measured = source_of([member.series for member in chosen.members], chosen.algorithms)
    kept = said if isinstance(said, dict) else {"in_network": said} if said else {}
    source = {key: text for key, text in kept.items() if key != "eta_beta" or key in switch}
    tier_data["in_network"] = {
        **switch,
        **update,
        "source": {**source, **dict.fromkeys(update, measured)},
    }


def _complete_inner(data: dict[str, Any]) -> None:
    """Make inner tiers list a protocol under every name of the outer tiers: a call uses one
    throughout. Each copies the one that calls ran under there when the outer tier was fitted."""
    for index, inner in enumerate(data["tiers"]):
        for scope, own in _by_scope(inner).items():
            inside = _inside(data["tiers"][index + 1 :], scope, list(own))
            inner["protocols"] = [
                *inner["protocols"],
                *({**own[theirs], "name": name} for name, theirs in inside.items()),
            ]
            switch = inner.get("in_network") or {}
            # the switch runs under what stands for its own
            if (under := switch.get("protocols")) is not None:
                also = [
                    name for name, theirs in inside.items() if theirs in under and name not in under
                ]
                inner["in_network"] = {**switch, "protocols": [*under, *also]}


def _by_scope(tier: Mapping[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in tier.get("protocols") or ():
        found.setdefault(tuple(entry.get("primitives") or ()), {})[entry["name"]] = entry
    return found


def _inside(
    outer: Sequence[Mapping[str, Any]], scope: Sequence[str], own: Sequence[str]
) -> dict[str, str]:
    """Names that an inner tier lacks, and which of its protocols stands for each; the innermost
    outer tier has priority."""
    found: dict[str, str] = {}
    for tier in outer:
        for theirs, names in _by_scope(tier).items():
            if not theirs or not scope or set(theirs) & set(scope):
                found = {
                    name: name_inside(name, place, len(names), own)
                    for place, name in enumerate(names)
                } | found
    return {name: one for name, one in found.items() if name not in own}


class _TierSeries(NamedTuple):
    """The series of one collective with their groups; ``on`` is the hardware NCCL ran on, empty
    where unknown."""

    tier: Tier
    series: Sequence[Series]
    placed: Sequence[PlacedGroup]
    on: Sequence[Hardware]

    def members(self, names: Sequence[str], used: Sequence[NDArray[np.bool_]]) -> list[Member]:
        found = []
        for index, (series, placed) in enumerate(zip(self.series, self.placed, strict=True)):
            outer = tuple(one for name in names if (one := self.costs(placed, name)))
            inner = _under_inner(placed, series.primitive, self.tier.name, names)
            found.append(
                Member(
                    series, used[index], outer, inner=inner, on=self.on[index] if self.on else None
                )
            )
        return found

    def costs(self, placed: PlacedGroup, name: str) -> AlgorithmCosts | None:
        """Costs in the tier's parameters; the other tiers run under their last protocol, the one
        for large messages."""
        primitive = self.series[0].primitive
        listed = {span.tier.name: span.tier.protocols_for(primitive) for span in placed.spans}
        inner = {tier: next(reversed(own.values())) for tier, own in listed.items() if own}
        return costs(placed, self.tier.name, primitive, name, inner)


def _under_inner(
    placed: PlacedGroup, primitive: Primitive, tier: str, names: Sequence[str]
) -> tuple[tuple[str, tuple[AlgorithmCosts, ...]], ...]:
    """Costs under each protocol that all other tiers list, by protocol name."""
    others = [span.tier for span in placed.spans if span.tier.name != tier]
    listed = {one.name: own for one in others if (own := one.protocols_for(primitive))}
    common = [
        name
        for name in next(iter(listed.values()), ())
        if all(name in own for own in listed.values())
    ]
    under = {
        protocol: {inner: own[protocol] for inner, own in listed.items()} for protocol in common
    }
    each = {
        protocol: [costs(placed, tier, primitive, name, inner) for name in names]
        for protocol, inner in under.items()
    }
    return tuple(
        (protocol, tuple(one for one in several if one))
        for protocol, several in each.items()
        if all(several)
    )


def _fit_collective(
    fabric: Fabric, tier: Tier, series: Sequence[Series], algorithms: Sequence[str]
) -> tuple[ChosenFit, tuple[tuple[ExcludedSize, ...], ...]]:
    title, where = series[0].title, series[0].points[0].where
    if sum(len(one.points) for one in series) < _LEAST:
        what, fix = (
            f"{title}: a single size does not determine a line",
            "measure several sizes, ideally 1 KB to 1 GB",
        )
        raise ColltoolError(what, where=where, fix=fix)
    placed = [check_fits(fabric, one) for one in series]
    site = _TierSeries(tier, series, placed, nccl_on(fabric, placed, series[0].library))
    known = None if algorithms else library_runs_of(series, site.on)
    able, prior = (
        _able(site, algorithms, known),
        _prior_of(fabric, tier, series[0].library, series[0].primitive),
    )
    everything = [np.ones(len(one.points), dtype=bool) for one in series]
    judged = [usable(member, prior) for member in site.members(able[:1], everything)]
    used, line = [used for used, _ in judged], tier.bandwidth * tier.ports
    # sets of algorithms to compare: what the library would run, then the likeliest, alone and in
    # pairs (over several rank counts or tiers, where two algorithms differ from one with one more
    # protocol); just the user's where named
    apart = len({one.ranks for one in series}) > 1 or len(placed[0].spans) > 1
    own = tuple(name for name in known.algorithms if name in able) if known else ()
    wanted: list[tuple[str, ...]] = [able] if algorithms else [(name,) for name in able]
    # whose algorithms differ in latency alone: one is faster
    if apart and not algorithms and series[0].primitive is not A2A:
        wanted += combinations(able, 2)
    options = [(names, site.members(names, used)) for names in wanted if set(names) != set(own)]
    if known and own:
        likely = []
        for member, runs in zip(site.members(own, used), known.runs, strict=True):
            # what the library would not have run there; no marks where it runs one that is not
            # compared
            unlikely = [[run.spec in own and run.spec != name for run in runs] for name in own]
            likely.append(member._replace(unlikely=np.array(unlikely)))
        options.insert(0, (own, likely))
    chosen = choose(options, prior, line, known.by if known and own else None)
    if (needed := above_line(chosen, line)) and needed > _IMPOSSIBLE * line:
        what = f"{title}: these times need {format_rate(needed)} from a port of {format_rate(line)}"
        raise ColltoolError(
            what, where=where, fix="check the unit of the times, the ranks and the fabric"
        )
    return chosen, tuple(left for _, left in judged)


def _able(
    site: _TierSeries, algorithms: Sequence[str], known: LibraryRuns | None
) -> tuple[str, ...]:
    first, spans = site.series[0], max(len(group.spans) for group in site.placed)
    joined_by = capabilities_of(site.tier).joined_by
    names = (
        own_names(first, algorithms)
        if algorithms
        else tried(first.primitive, first.library, joined_by, spans)
    )
    names = tuple(dict.fromkeys([*(known.algorithms if known else ()), *names]))
    able = tuple(name for name in names if all(site.costs(group, name) for group in site.placed))
    if able and not (algorithms and len(able) < len(names)):
        return able
    missing = [name for name in names if name not in able]
    for group in site.placed:
        for name in missing:
            try:
                named_candidates(group, first.primitive, Readings(), [name])
            except ColltoolError as error:
                argument = "" if error.where else error.argument or "algorithms"
                what = f"{first.title}: {error.what}"
                raise ColltoolError(
                    what, where=error.where, argument=argument, fix=error.fix
                ) from error
    what = f"{first.title}: {', '.join(missing)} cannot be fitted"
    fix = (
        f"leave it out; {either(shell='colltool price', python='colltool.price')} lists what"
        " can run"
    )
    raise ColltoolError(what, argument="algorithms", fix=fix)


def _prior_of(fabric: Fabric, tier: Tier, library: str, primitive: Primitive) -> Prior:
    """The fabric's α and launch overhead, with what its library adds; MPI calls launch no
    kernel."""
    launches = log_library(library).launches_kernels
    alpha_s, launch = (
        capabilities_of(tier).classes[0].alpha_s * tier.eta.alpha,
        fabric.launch_overhead or None,
    )
    known = tier.protocols_for(primitive)
    # what the library takes on such wires is nearer than the wires alone
    if known and not fabric.states_launch:
        first = next(iter(known.values()))
        alpha_s, launch = alpha_s + first.step_s, first.launch_s
    return Prior(alpha_s, launch if launches else 0.0)
