"""Fit one tier to the series that end on it, and write the result into the fabric's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from colltool.base.primitives import Primitive
from colltool.calibration.candidates import IN_SWITCH
from colltool.calibration.collective import fit_collective, prior_of
from colltool.calibration.protocol_identification import identified
from colltool.calibration.results import ExcludedSize, FittedProtocol
from colltool.calibration.sample import Member, name_inside
from colltool.calibration.select import ChosenFit, together
from colltool.calibration.serialise import fitted, protocol_entries, rate_text, source_of, switch_update
from colltool.calibration.series_prices import check_fits
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import named_candidates
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.templates import fabric_text
from colltool.fabric.topology import capabilities_of
from colltool.measurements.series import Series
from colltool.nccl.rules import SEGMENT


class SeriesFit(NamedTuple):
    """The result for one series; ``errors`` are relative, of the used sizes as unseen ones."""

    member: Member
    chosen: ChosenFit
    protocols: tuple[FittedProtocol, ...]
    errors: Any
    left_out: tuple[ExcludedSize, ...]


def calibrate_tier(
    data: dict[str, Any], name: str, series: Sequence[Series], algorithms: Sequence[str], line_Bps: float | None
) -> list[SeriesFit]:
    """Fit a tier, and put its protocols, algorithms and switch into ``data``. Returns a fit for each series."""
    tier_data = next(one for one in data["tiers"] if one["name"] == name)
    (tier_data.get("in_network") or {}).pop("protocols", None)  # from an earlier calibration, which this one replaces
    bare = [{key: value for key, value in one.items() if key != "protocols" or one is not tier_data} for one in data["tiers"]]
    fabric = read_fabric(fabric_text(data | {"tiers": bare}), "fabric")
    tier = next(one for one in fabric.tiers if one.name == name)
    groups: dict[Primitive, list[Series]] = {}
    for one in series:
        groups.setdefault(one.primitive, []).append(one)
    found = {primitive: fit_collective(fabric, tier, listed, algorithms) for primitive, listed in groups.items()}
    chosen = [one for one, _ in found.values()]
    left_out = [left for _, several in found.values() for left in several]
    prior = prior_of(fabric, tier, series[0].library)
    joint = together(chosen, prior)
    chosen, joint = [identified(one, prior) for one in chosen], joint and identified(joint, prior)
    prefix = f"{name}-" if _protocols_below(data, name) else ""
    fits = _fits(chosen, joint, left_out, line_Bps or tier.bandwidth * tier.eta.beta, line_Bps, prefix)
    for group in chosen:
        note_algorithms(tier_data, group)
        note_switch(tier_data, fabric, group, last=next(fit.protocols[-1] for fit in fits if fit.chosen is group))
    tier_data["protocols"] = _entries(fits, joint is not None, eta=tier.eta.alpha != 1 or tier.eta.beta != 1)
    if line_Bps:
        tier_data["bandwidth"] = rate_text(line_Bps)
    complete_inner(data)
    return fits


def _protocols_below(data: dict[str, Any], name: str) -> bool:
    """Whether a tier inside this one lists protocols, so that this tier's need names of their own."""
    names = [one["name"] for one in data["tiers"]]
    return any(one.get("protocols") for one in data["tiers"][: names.index(name)])


def _fits(
    groups: Sequence[ChosenFit], joint: ChosenFit | None, left_out: Sequence[tuple[ExcludedSize, ...]], nominal_Bps: float,
    line_Bps: float | None, prefix: str,
) -> list[SeriesFit]:  # fmt: skip
    errors = iter(np.split(joint.errors, _ends(joint.members)) if joint else [])
    found: list[SeriesFit] = []
    for chosen in groups:
        source = joint or chosen
        protocols = tuple(
            one._replace(name=prefix * one.name.startswith(SEGMENT) + one.name) for one in fitted(source, nominal_Bps, line_Bps)
        )
        own = errors if joint else iter(np.split(chosen.errors, _ends(chosen.members)))
        for member in chosen.members:
            found.append(SeriesFit(member, chosen, protocols, next(own), left_out[len(found)]))
    return found


def _ends(members: Sequence[Member]) -> Any:
    """Where to split an array over all used points by member."""
    return np.cumsum([int(member.used.sum()) for member in members])[:-1]


def _entries(fits: Sequence[SeriesFit], shared: bool, *, eta: bool) -> list[dict[str, Any]]:
    by_primitive: dict[Primitive, list[SeriesFit]] = {}
    for fit in fits:
        by_primitive.setdefault(fit.member.series.primitive, []).append(fit)
    groups = [(list(by_primitive), list(fits))] if shared else [([primitive], same) for primitive, same in by_primitive.items()]
    entries = []
    for primitives, same in groups:
        series = [fit.member.series for fit in same]
        source = source_of(series, () if shared else same[0].chosen.algorithms)
        entries += protocol_entries(same[0].protocols, primitives, series, source, eta=eta)
    return entries


def note_algorithms(tier_data: dict[str, Any], chosen: ChosenFit) -> None:
    listed: Mapping[str, Any] = tier_data.get("algorithms") or {}
    primitive = chosen.members[0].series.primitive
    tier_data["algorithms"] = {**listed, str(primitive): list(chosen.algorithms)}


def note_switch(tier_data: dict[str, Any], fabric: Fabric, chosen: ChosenFit, last: FittedProtocol) -> None:
    """Write the switch's parameters; ``last`` is the protocol it runs under beside other algorithms."""
    if IN_SWITCH not in chosen.algorithms:
        return
    series = chosen.members[0].series
    costed = named_candidates(check_fits(fabric, series), series.primitive, Readings(), [IN_SWITCH])[0]
    update = switch_update(chosen, sum(part.cost.n_alpha for part in costed.parts), last.eta_beta or 1.0)
    if "protocols" in update:
        update["protocols"] = [last.name]
    switch = {key: value for key, value in tier_data["in_network"].items() if key != "eta_beta"}
    own = {str(series.primitive): update["eta_beta"]} if "eta_beta" in update else {}
    if others := _others_eta(fabric, tier_data["name"], series.primitive):
        (update if own else switch)["eta_beta"] = own | others
    said = switch.get("source")
    measured = source_of([member.series for member in chosen.members], chosen.algorithms)
    kept = said if isinstance(said, dict) else {"in_network": said} if said else {}
    source = {key: text for key, text in kept.items() if key != "eta_beta" or key in switch}
    tier_data["in_network"] = {**switch, **update, "source": {**source, **dict.fromkeys(update, measured)}}


def _others_eta(fabric: Fabric, tier: str, primitive: Primitive) -> dict[str, float]:
    spec = next(capabilities_of(one).in_network for one in fabric.tiers if one.name == tier)
    return {str(other): value for other, value in (spec.own_eta if spec else {}).items() if other is not primitive}


def complete_inner(data: dict[str, Any]) -> None:
    """Make inner tiers list a protocol under every name of the outer tiers: a call uses one throughout. Each copies the one that
    calls ran under there when the outer tier was fitted."""
    for index, inner in enumerate(data["tiers"]):
        listed = inner.get("protocols") or []
        for scope in dict.fromkeys(tuple(entry.get("primitives") or ()) for entry in listed):
            same = [entry for entry in listed if tuple(entry.get("primitives") or ()) == scope]
            own = {entry["name"]: entry for entry in same}
            inside = _inside(data["tiers"][index + 1 :], scope, list(own))
            inner["protocols"] = [*inner["protocols"], *({**own[theirs], "name": name} for name, theirs in inside.items())]
            switch = inner.get("in_network") or {}
            if (under := switch.get("protocols")) is not None:  # the switch runs under what stands for its own
                also = [name for name, theirs in inside.items() if theirs in under and name not in under]
                inner["in_network"] = {**switch, "protocols": [*under, *also]}


def _inside(outer: Sequence[Mapping[str, Any]], scope: Sequence[str], own: Sequence[str]) -> dict[str, str]:
    """Names that an inner tier lacks, and which of its protocols stands for each; the innermost outer tier has priority."""
    found: dict[str, str] = {}
    for tier in outer:
        by_scope: dict[tuple[str, ...], list[str]] = {}
        for entry in tier.get("protocols") or ():
            by_scope.setdefault(tuple(entry.get("primitives") or ()), []).append(entry["name"])
        for theirs, names in by_scope.items():
            if not theirs or not scope or set(theirs) & set(scope):
                inside = (name_inside(name, place, len(names), own) for place, name in enumerate(names))
                found = dict(zip(names, inside, strict=True)) | found
    return {name: one for name, one in found.items() if name not in own}
