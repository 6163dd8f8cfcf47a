"""One tier fitted to the series that end on it, and what was found put into the fabric's data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from colltool.base.primitives import Primitive
from colltool.calibration.account import source_of
from colltool.calibration.collective import fit_collective, prior_of
from colltool.calibration.entries import fitted, protocol_entries, rate_text
from colltool.calibration.naming import named
from colltool.calibration.recorded import complete_inner, note_algorithms, note_switch
from colltool.calibration.results import Fitted, LeftOut
from colltool.calibration.sample import Member
from colltool.calibration.select import Chosen, together
from colltool.fabric.load import read_fabric
from colltool.fabric.write import fabric_text
from colltool.measurements.series import Series
from colltool.nccl.algorithm_map import SEGMENT

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
    found = {primitive: fit_collective(fabric, tier, listed, algorithms) for primitive, listed in groups.items()}
    chosen = [one for one, _ in found.values()]
    left_out = [left for _, several in found.values() for left in several]
    prior = prior_of(fabric, tier, series[0].library)
    joint = together(chosen, prior)
    chosen, joint = [named(one, prior) for one in chosen], joint and named(joint, prior)
    prefix = f"{name}-" if _protocols_below(data, name) else ""
    fits = _fits(chosen, joint, left_out, line_Bps or tier.bandwidth * tier.eta.beta, line_Bps, prefix)
    for group in chosen:
        note_algorithms(tier_data, group)
        last = next(fit.protocols[-1] for fit in fits if fit.chosen is group)
        note_switch(tier_data, fabric, group, last)
    tier_data["protocols"] = _entries(fits, joint is not None, eta=tier.eta.alpha != 1 or tier.eta.beta != 1)
    if line_Bps:
        tier_data["bandwidth"] = rate_text(line_Bps)
    complete_inner(data)
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
        protocols = tuple(
            one._replace(name=prefix * one.name.startswith(SEGMENT) + one.name) for one in fitted(source, nominal_Bps, line_Bps)
        )
        own = errors if joint else iter(np.split(chosen.errors, _ends(chosen.members)))
        for member in chosen.members:
            found.append(SeriesFit(member, chosen, protocols, next(own), left_out[len(found)]))
    return found


def _ends(members: Sequence[Member]) -> Any:
    """Where each member's used points end among those of all."""
    return np.cumsum([int(member.used.sum()) for member in members])[:-1]


def _entries(fits: Sequence[SeriesFit], shared: bool, *, eta: bool) -> list[dict[str, Any]]:
    """The tier's protocols, for the collectives that were measured alone: one list for all, or one for each where they differ."""
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
