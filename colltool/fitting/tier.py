"""One tier fitted to the series that end on it, and what was found put into the fabric's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.algorithms.registry import algorithms
from colltool.errors import ColltoolError, either
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of
from colltool.fabric.write import fabric_text
from colltool.fitting.account import source_of
from colltool.fitting.candidates import IN_SWITCH, sets, tried
from colltool.fitting.entries import fitted, protocol_entries, rate_text, scopes, switch_update
from colltool.fitting.features import Costs, costs
from colltool.fitting.placement import check_fits
from colltool.fitting.priced import own_names
from colltool.fitting.results import Fitted, LeftOut
from colltool.fitting.sample import Member, usable
from colltool.fitting.select import Chosen, above_line, choose, together
from colltool.measured.series import Series
from colltool.pricing.catalogue import named_candidates
from colltool.pricing.groups import Placed
from colltool.pricing.readings import Readings
from colltool.primitives import AG, RS, Primitive
from colltool.words import format_rate

_LEAST = 2
"""Sizes that fix a line."""

_IMPOSSIBLE = 20
"""No fabric file is so far off: such times are in another unit."""


class SeriesFit(NamedTuple):
    """What one series came to: its member of a fit and that one's choice, protocols, errors on sizes left out, and the rest."""

    member: Member
    chosen: Chosen
    protocols: tuple[Fitted, ...]
    errors: Any
    left_out: tuple[LeftOut, ...]


def calibrate_tier(
    data: dict[str, Any], name: str, series: Sequence[Series], algorithms: Sequence[str], line_Bps: float | None
) -> list[SeriesFit]:
    """Fit a tier, and put its protocols, algorithms and switch into ``data``; a fit for each series, collective by collective.

    Args:
        data: of the fabric, inner tiers already fitted.
        name: of the tier.
        series: those whose outermost tier it is.
        algorithms: exactly these where a collective has them; to be found out when empty.
        line_Bps: give bandwidths as shares of this rate.
    """
    tier_data = next(one for one in data["tiers"] if one["name"] == name)
    (tier_data.get("in_network") or {}).pop("protocols", None)  # of an earlier calibration, whose protocols go
    fabric = read_fabric(fabric_text(data | {"tiers": [_without_protocols(one, name) for one in data["tiers"]]}), "fabric")
    tier = next(one for one in fabric.tiers if one.name == name)
    groups: dict[Primitive, list[Series]] = {}
    for one in series:
        groups.setdefault(one.primitive, []).append(one)
    found = {primitive: _group(fabric, tier, listed, algorithms) for primitive, listed in groups.items()}
    chosen = [one for one, _ in found.values()]
    left_out = [left for _, several in found.values() for left in several]
    joint = together(chosen, _alpha_s(tier))
    prefix = f"{name}-" if _protocols_below(data, name) else ""
    fits = _fits(chosen, joint, left_out, line_Bps or tier.bandwidth * tier.eta.beta, line_Bps, prefix)
    for group in chosen:
        _note_algorithms(tier_data, group)
        last = next(fit.protocols[-1] for fit in fits if fit.chosen is group)
        _note_switch(tier_data, fabric, group, last)
    _note_twins(tier_data, list(found))
    tier_data["protocols"] = _entries(fits, joint is not None, eta=tier.eta.alpha != 1 or tier.eta.beta != 1)
    if line_Bps:
        tier_data["bandwidth"] = rate_text(line_Bps)
    _complete_inner(data)
    return fits


def _without_protocols(tier_data: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in tier_data.items() if key != "protocols" or tier_data["name"] != name}


def _protocols_below(data: dict[str, Any], name: str) -> bool:
    """Whether a tier inside this one lists protocols: then those of this tier need names of their own."""
    names = [one["name"] for one in data["tiers"]]
    return any(one.get("protocols") for one in data["tiers"][: names.index(name)])


def _fits(
    groups: Sequence[Chosen], joint: Chosen | None, left_out: Sequence[tuple[LeftOut, ...]], nominal_Bps: float,
    line_Bps: float | None, prefix: str,
) -> list[SeriesFit]:  # fmt: skip
    """A fit for each series, from the fit of its collective or from the joint one."""
    errors = iter(np.split(joint.errors, _ends(joint.members)) if joint else [])
    found: list[SeriesFit] = []
    for chosen in groups:
        source = joint or chosen
        protocols = tuple(one._replace(name=prefix + one.name) for one in fitted(source, nominal_Bps, line_Bps))
        own = errors if joint else iter(np.split(chosen.errors, _ends(chosen.members)))
        for member in chosen.members:
            found.append(SeriesFit(member, chosen, protocols, next(own), left_out[len(found)]))
    return found


def _ends(members: Sequence[Member]) -> Any:
    """Where each member's used points end among those of all."""
    return np.cumsum([int(member.used.sum()) for member in members])[:-1]


def _entries(fits: Sequence[SeriesFit], shared: bool, *, eta: bool) -> list[dict[str, Any]]:
    """The tier's protocols: one list for all, or one for each collective where they differ."""
    if shared:
        series = [fit.member.series for fit in fits]
        return protocol_entries(fits[0].protocols, None, series, source_of(series, ()), eta=eta)
    by_primitive: dict[Primitive, list[SeriesFit]] = {}
    for fit in fits:
        by_primitive.setdefault(fit.member.series.primitive, []).append(fit)
    scoped: Mapping[Primitive, list[Primitive]] = scopes(list(by_primitive)) if len(by_primitive) > 1 else {}
    entries = []
    for primitive, same in by_primitive.items():
        series = [fit.member.series for fit in same]
        source = source_of(series, same[0].chosen.algorithms)
        entries += protocol_entries(same[0].protocols, scoped.get(primitive), series, source, eta=eta)
    return entries


def _group(
    fabric: Fabric, tier: Tier, series: Sequence[Series], algorithms: Sequence[str]
) -> tuple[Chosen, tuple[tuple[LeftOut, ...], ...]]:
    """The fit of one collective's series, and the points that each of them leaves out."""
    primitive, alpha_s = series[0].primitive, _alpha_s(tier)
    if sum(len(one.points) for one in series) < _LEAST:
        fix = "measure several sizes, best a kilobyte to a gigabyte"
        raise ColltoolError(f"{series[0].title}: a single size fixes no line", where=series[0].points[0].where, fix=fix)
    placed = [check_fits(fabric, one) for one in series]
    spans = max(len(group.spans) for group in placed)
    names = (
        own_names(series[0], algorithms) if algorithms else tried(primitive, series[0].library, kind_of(tier).joined_by, spans)
    )
    costed = {name: [one for group in placed if (one := _costs(group, primitive, tier.name, name))] for name in names}
    able = tuple(name for name in names if len(costed[name]) == len(placed))
    if not able or (algorithms and len(able) < len(names)):
        raise _cannot(placed, primitive, [name for name in names if name not in able], series[0])

    def members(wanted: Sequence[str], used: Sequence[NDArray[np.bool_]]) -> list[Member]:
        costs_of = zip(*(costed[name] for name in wanted), strict=True)
        return [Member(*one) for one in zip(series, used, costs_of, strict=True)]

    everything = [np.ones(len(one.points), dtype=bool) for one in series]
    judged = [usable(member, alpha_s) for member in members(able[:1], everything)]
    told_apart = len({one.ranks for one in series}) > 1 or len(placed[0].spans) > 1
    wanted = [able] if algorithms else sets(primitive, able, told_apart=told_apart)
    options = [(names, members(names, [used for used, _ in judged])) for names in wanted]
    line = tier.bandwidth * tier.ports
    chosen = choose(options, alpha_s, line)
    if (needed := above_line(chosen, line)) and needed > _IMPOSSIBLE * line:
        what = f"{series[0].title}: these times need {format_rate(needed)} of a port of {format_rate(line)}"
        raise ColltoolError(what, where=series[0].points[0].where, fix="check the unit of the times, the ranks and the fabric")
    return chosen, tuple(left for _, left in judged)


def _cannot(placed: Sequence[Placed], primitive: Primitive, missing: Sequence[str], series: Series) -> ColltoolError:
    """Why algorithms cannot be fitted to a series, in the words of pricing where it has any."""
    for group in placed:
        for name in missing:
            try:
                named_candidates(group, primitive, Readings(), [name])
            except ColltoolError as error:
                argument = "" if error.where else error.argument or "algorithms"
                return ColltoolError(f"{series.title}: {error.what}", where=error.where, argument=argument, fix=error.fix)
    what = f"{series.title}: {', '.join(missing)} cannot be fitted"
    fix = f"leave it out; {either(shell='colltool price', python='colltool.price')} lists what can run"
    return ColltoolError(what, argument="algorithms", fix=fix)


def _costs(placed: Placed, primitive: Primitive, tier: str, name: str) -> Costs | None:
    """An algorithm's costs in one tier's numbers; the other tiers run under their last protocol, which carries most."""
    listed = {span.tier.name: span.tier.protocols_for(primitive) for span in placed.spans}
    return costs(placed, tier, primitive, name, {inner: next(reversed(own.values())) for inner, own in listed.items() if own})


def _alpha_s(tier: Tier) -> float:
    """α of a tier before any measurement, seconds."""
    return kind_of(tier).classes[0].alpha_s * tier.eta.alpha


def _note_algorithms(tier_data: dict[str, Any], chosen: Chosen) -> None:
    listed: Mapping[str, Any] = tier_data.get("algorithms") or {}
    primitive = chosen.members[0].series.primitive
    tier_data["algorithms"] = {**listed, str(primitive): list(chosen.algorithms)}


def _note_twins(tier_data: dict[str, Any], measured: Sequence[Primitive]) -> None:
    """An all-gather or reduce-scatter that was not measured runs the mirror image of its twin."""
    listed = tier_data["algorithms"]
    scatter = {row.name: row.mirror for row in algorithms(RS)}
    gather = {mirror: name for name, mirror in scatter.items()}
    for one, twin, names in ((AG, RS, gather), (RS, AG, scatter)):
        mirrored = [names[name] for name in listed.get(str(one), ()) if name in names]
        if one in measured and twin not in measured and mirrored:
            listed[str(twin)] = mirrored


def _note_switch(tier_data: dict[str, Any], fabric: Fabric, chosen: Chosen, last: Fitted) -> None:
    """What the switch does, where it was measured; ``last`` is the protocol that it runs under beside other algorithms."""
    if IN_SWITCH not in chosen.algorithms:
        return
    series = chosen.members[0].series
    costed = named_candidates(check_fits(fabric, series), series.primitive, Readings(), [IN_SWITCH])[0]
    update = switch_update(chosen, sum(part.charge.n_alpha for part in costed.parts), last.eta_beta or 1.0)
    if "protocols" in update:
        update["protocols"] = [last.name]
    switch = {key: value for key, value in tier_data["in_network"].items() if key != "eta_beta"}
    said = switch.get("source")
    measured = source_of([member.series for member in chosen.members], chosen.algorithms)
    kept = said if isinstance(said, dict) else {"in_network": said} if said else {}
    tier_data["in_network"] = {**switch, **update, "source": {**kept, **dict.fromkeys(update, measured)}}


def _complete_inner(data: dict[str, Any]) -> None:
    """Give tiers that list protocols their last one under each name of the tiers outside them: one holds throughout a call."""
    for index, inner in enumerate(data["tiers"]):
        outer = [entry["name"] for tier in data["tiers"][index + 1 :] for entry in tier.get("protocols") or ()]
        listed = inner.get("protocols") or []
        for scope in dict.fromkeys(tuple(entry.get("primitives") or ()) for entry in listed):
            same = [entry for entry in listed if tuple(entry.get("primitives") or ()) == scope]
            missing = [name for name in dict.fromkeys(outer) if name not in {entry["name"] for entry in same}]
            inner["protocols"] = [*inner["protocols"], *({**same[-1], "name": name} for name in missing)]
