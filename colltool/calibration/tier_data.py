"""Write the fit of a tier into the data of the fabric file: protocols, algorithms and the switch.
:func:`calibrate_tier` is the entry; *data* is a file as read, in schema /1, whose keys are those of the
file.

A call uses one protocol on all tiers, so inner tiers get a protocol under every name of the outer
ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from colltool.calibration.log_fits import check_fits
from colltool.calibration.old_form import rate_text
from colltool.calibration.samples import name_inside
from colltool.calibration.serialise import (
    protocol_entries,
    source_of,
    switch_update,
)
from colltool.calibration.series_prices import IN_SWITCH
from colltool.calibration.tier import FittedCollective, SeriesFit, TierFit, fit_tier
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import named_candidates
from colltool.fabric.load import read_fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.yaml_writer import fabric_text
from colltool.logs.series import Series


def calibrate_tier(
    data: dict[str, Any],
    name: str,
    series: Sequence[Series],
    algorithms: Sequence[str],
    line_Bps: float | None,
) -> list[SeriesFit]:
    """Fit the tier ``name`` and write its protocols, algorithms and switch into ``data``, in place.

    Args:
        algorithms: what the user says ran; empty to find it.
        line_Bps: the stated line rate, None without one.

    Returns:
        A fit for each series.
    """
    index = [tier["name"] for tier in data["tiers"]].index(name)
    tier_data = data["tiers"][index]
    # an earlier calibration is replaced by this one: the tier is fitted without its protocols
    (tier_data.get("in_network") or {}).pop("protocols", None)
    tiers = list(data["tiers"])
    tiers[index] = dict(tier_data)
    tiers[index].pop("protocols", None)
    fabric = read_fabric(fabric_text(data | {"tiers": tiers}), "fabric")
    tier_fit = fit_tier(fabric, fabric.tiers[index], series, algorithms, line_Bps)
    _write_fit(tier_fit, tier_data, line_Bps)
    _complete_inner_tiers(data)
    fits = []
    for collective in tier_fit.collectives:
        fits += collective.series
    return fits


def _write_fit(tier_fit: TierFit, tier_data: dict[str, Any], line_Bps: float | None) -> None:
    """Write a fit into the tier's data, in place."""
    for collective in tier_fit.collectives:
        runs = {str(collective.primitive): list(collective.fit.algorithms)}
        tier_data["algorithms"] = (tier_data.get("algorithms") or {}) | runs
        if IN_SWITCH in collective.fit.algorithms:
            tier_data["in_network"] = _switch_data(tier_data["in_network"], tier_fit, collective)
    tier_data["protocols"] = _entries(tier_fit)
    if line_Bps:
        tier_data["bandwidth"] = rate_text(line_Bps)


def _entries(tier_fit: TierFit) -> list[dict[str, Any]]:
    """The tier's protocols as its file lists them: those of each collective, or once those that all
    share."""
    # whether the tier has contention factors, which are not to apply to what was measured
    eta = tier_fit.tier.eta.alpha != 1 or tier_fit.tier.eta.beta != 1
    groups = [[collective] for collective in tier_fit.collectives]
    if tier_fit.shared:
        groups = [tier_fit.collectives]
    entries = []
    for group in groups:
        primitives = [collective.primitive for collective in group]
        series = []
        for collective in group:
            series += collective.measured
        source = source_of(series, () if tier_fit.shared else group[0].fit.algorithms)
        entries += protocol_entries(group[0].protocols, primitives, series, source, eta=eta)
    return entries


def _switch_data(
    data: Mapping[str, Any], tier_fit: TierFit, collective: FittedCollective
) -> dict[str, Any]:
    """The switch's data with the parameters that one collective's fit gives it.

    Args:
        data: ``in_network`` of the tier, which is not changed.
    """
    fit = collective.fit
    # where other algorithms compete with it, the switch runs under the last protocol
    last = collective.protocols[-1]
    primitive = collective.primitive
    group = check_fits(tier_fit.fabric, fit.members[0].series)
    cost_model = named_candidates(group, primitive, ModelOptions(), [IN_SWITCH])[0]
    steps = sum(part.cost.n_alpha for part in cost_model.parts)
    update = switch_update(fit, steps, last.eta_beta or 1.0)
    if "protocols" in update:
        update["protocols"] = [last.name]
    # its own η_β is written where the fit has one; those of other collectives stay
    switch = dict(data)
    switch.pop("eta_beta", None)
    switch_before = capabilities_of(tier_fit.tier).in_network
    other_eta_beta = {}
    if switch_before is not None:
        for other_primitive, share in switch_before.switch_eta_beta.items():
            if other_primitive is not primitive:
                other_eta_beta[str(other_primitive)] = share
    if other_eta_beta and "eta_beta" in update:
        update["eta_beta"] = {str(primitive): update["eta_beta"]} | other_eta_beta
    elif other_eta_beta:
        switch["eta_beta"] = other_eta_beta
    # a source for all, or one by key: what was fitted has the logs as its source
    measured = source_of(collective.measured, fit.algorithms)
    source = switch.get("source") or {}
    if not isinstance(source, dict):
        source = {"in_network": source}
    source = dict(source)
    if "eta_beta" not in switch:
        source.pop("eta_beta", None)
    source.update(dict.fromkeys(update, measured))
    return {**switch, **update, "source": source}


def _complete_inner_tiers(data: dict[str, Any]) -> None:
    """Add protocols to inner tiers, in place, until they list every name of the outer tiers. Each
    is a copy of the protocol under which the inner tier ran when the outer tier was fitted."""
    for index, inner in enumerate(data["tiers"]):
        outer = data["tiers"][index + 1 :]
        switch_names = (inner.get("in_network") or {}).get("protocols") or []
        for primitives, entries in _protocols_by_primitives(inner).items():
            for name, original in _names_outside(outer, primitives, list(entries)).items():
                inner["protocols"].append({**entries[original], "name": name})
                # the switch runs under the copies of its protocols too
                if original in switch_names and name not in switch_names:
                    switch_names.append(name)


def _protocols_by_primitives(tier: Mapping[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    """A tier's protocols by name, for each group of primitives that they are restricted to (none:
    all)."""
    by_primitives: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in tier.get("protocols") or ():
        by_primitives.setdefault(tuple(entry.get("primitives") or ()), {})[entry["name"]] = entry
    return by_primitives


def _names_outside(
    outer: Sequence[Mapping[str, Any]], primitives: Sequence[str], inner_names: Sequence[str]
) -> dict[str, str]:
    """Names of outer tiers' protocols that an inner tier lacks, and which of its own each one
    copies. The innermost outer tier has priority."""
    copies: dict[str, str] = {}
    for tier in reversed(outer):
        for outer_primitives, names in reversed(_protocols_by_primitives(tier).items()):
            restricted = outer_primitives and primitives
            if restricted and not set(outer_primitives) & set(primitives):
                continue
            for place, name in enumerate(names):
                if name not in inner_names:
                    copies[name] = name_inside(name, place, len(names), inner_names)
    return copies
