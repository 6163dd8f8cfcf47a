"""``calibrate``: a fabric's tiers fitted to measured series, innermost first, and written as a fabric that loads again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from colltool.engine.catalogue import named_plans
from colltool.engine.placement import Placed
from colltool.engine.price import price
from colltool.engine.readings import Readings
from colltool.errors import ColltoolError, nearest
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric, Protocol, Tier
from colltool.fabric.write import fabric_text
from colltool.fitting.candidates import IN_SWITCH, sets, tried
from colltool.fitting.entries import fitted, protocol_entries, rate_text, scopes, switch_update
from colltool.fitting.features import costs, feasible
from colltool.fitting.fits import check_fits
from colltool.fitting.report import head, series_notes, source_of
from colltool.fitting.results import Calibration, Fitted, FittedSeries, LeftOut, Residual
from colltool.fitting.sample import NAMES, Member, usable
from colltool.fitting.select import Chosen, choose, mape, together
from colltool.measured.series import Measurements, Series
from colltool.primitives import Primitive


class Wanted(NamedTuple):
    """What the user asks of a calibration.

    Args:
        tier: only this one; every measured tier when None.
        algorithms: exactly these; to be found out when empty.
        line_Bps: give bandwidths as shares of this line rate; None to give bandwidths.
    """

    tier: str | None = None
    algorithms: tuple[str, ...] = ()
    line_Bps: float | None = None


class _Fit(NamedTuple):
    """What the series of one collective on one tier came to."""

    chosen: Chosen
    protocols: tuple[Fitted, ...]
    left_out: tuple[tuple[LeftOut, ...], ...]


def calibrate(data: dict[str, Any], measurements: Measurements, wanted: Wanted, name: str) -> Calibration:
    """Fit the tiers that the series span as their outermost one.

    Args:
        data: of a fabric file that holds (:func:`colltool.fabric.load.fabric_data`).
        measurements: the series.
        wanted: restrictions.
        name: of the new fabric.

    Raises:
        ColltoolError: series that the fabric cannot hold, an unknown tier or algorithm, no series for the tier.
    """
    data = deepcopy(data) | {"name": name}
    fabric = read_fabric(fabric_text(data), "fabric")
    by_tier = _by_tier(fabric, measurements.series, wanted.tier)
    fits: list[tuple[Series, _Fit, int]] = []
    for tier, series in by_tier.items():
        fits += _calibrate_tier(data, tier, series, wanted)
    text = fabric_text(data)
    fabric = read_fabric(text, "the calibrated fabric")
    results = tuple(_result(fabric, one, fit, index) for one, fit, index in fits)
    unused = len(measurements.series) - len(results)
    notes = series_notes(results) + ([f"{unused} series span other tiers and were left out"] if unused else [])
    text = fabric_text(data, head(results, notes))
    return Calibration(fabric, ", ".join(by_tier), results, tuple(notes), measurements.skipped, text)


def _by_tier(fabric: Fabric, series: Sequence[Series], only: str | None) -> dict[str, list[Series]]:
    """Series by the outermost tier that they span, innermost tier first."""
    names = [tier.name for tier in fabric.tiers]
    if only is not None and only not in names:
        fix = f"{nearest(only, names)} tiers: {', '.join(names)}".strip()
        raise ColltoolError(f"{fabric.name} has no tier '{only}'", where="--tier", fix=fix)
    found: dict[str, list[Series]] = {name: [] for name in names}
    for one in series:
        found[check_fits(fabric, one).spans[-1].tier.name].append(one)
    kept = {name: listed for name, listed in found.items() if listed and only in (None, name)}
    if not kept:
        spanned = ", ".join(name for name, listed in found.items() if listed)
        raise ColltoolError(f"no series ends on {only}: they span {spanned}", where="--tier", fix=f"take --tier {spanned}")
    return kept


def _calibrate_tier(data: dict[str, Any], tier: str, series: Sequence[Series], wanted: Wanted) -> list[tuple[Series, _Fit, int]]:
    """Fit one tier and put what was found into ``data``."""
    fabric = read_fabric(fabric_text(data), "fabric")
    own = next(one for one in fabric.tiers if one.name == tier)
    tier_data = next(one for one in data["tiers"] if one["name"] == tier)
    groups: dict[Primitive, list[Series]] = {}
    for one in series:
        groups.setdefault(one.primitive, []).append(one)
    line = wanted.line_Bps or own.bandwidth
    found = {primitive: _group(fabric, own, listed, wanted.algorithms) for primitive, listed in groups.items()}
    joint = together([chosen for chosen, _ in found.values()], _alpha_s(own)) if len(found) > 1 else None
    if wanted.line_Bps:
        tier_data["bandwidth"] = rate_text(wanted.line_Bps)
    apart = scopes(list(found)) if joint is None and len(found) > 1 else {}
    eta = own.eta.alpha != 1 or own.eta.beta != 1
    entries: list[dict[str, Any]] = []
    fits: list[tuple[Series, _Fit, int]] = []
    at = 0
    for primitive, (chosen, left_out) in found.items():
        listed = groups[primitive]
        shared = chosen if joint is None else _share(joint, chosen, at)
        protocols = fitted(shared if joint is None else joint, line, wanted.line_Bps)
        if joint is None or not entries:
            source = source_of(listed if joint is None else series, chosen.algorithms if joint is None else ())
            entries += protocol_entries(protocols, apart.get(primitive), source, eta=eta)
        fits += [(one, _Fit(shared, protocols, left_out), index) for index, one in enumerate(listed)]
        _note_algorithms(tier_data, primitive, chosen.algorithms)
        at += len(listed)
        _note_switch(tier_data, fabric, listed[0], chosen)
    tier_data["protocols"] = entries
    _complete_inner(data, tier, [entry["name"] for entry in entries])
    return fits


def _group(
    fabric: Fabric, tier: Tier, series: Sequence[Series], algorithms: Sequence[str]
) -> tuple[Chosen, tuple[tuple[LeftOut, ...], ...]]:
    """The fit of one collective's series."""
    primitive, alpha_s = series[0].primitive, _alpha_s(tier)
    placed = [check_fits(fabric, one) for one in series]
    names = algorithms or tried(primitive, series[0].library, tier.topology, max(len(group.spans) for group in placed))
    able = [name for name in names if all(feasible(group, tier.name, primitive, [name]) for group in placed)]
    if not able or (algorithms and len(able) < len(names)):
        missing = ", ".join(name for name in names if name not in able)
        for group in placed:
            for name in names:
                named_plans(group, primitive, Readings(), [name])  # raises with the reason
        raise ColltoolError(f"{missing} cannot be fitted to {series[0].title}", where="--algorithm")
    first = [_member(group, one, tier.name, able[:1]) for group, one in zip(placed, series, strict=True)]
    judged = [usable(member, alpha_s) for member in first]
    wanted = [tuple(able)] if algorithms else sets(primitive, tuple(able))
    options = [
        (
            names,
            [
                _member(group, one, tier.name, names)._replace(used=used)
                for group, one, (used, _) in zip(placed, series, judged, strict=True)
            ],
        )
        for names in wanted
    ]
    chosen = choose(options, alpha_s, tier.bandwidth * tier.ports)
    return chosen, tuple(left for _, left in judged)


def _member(placed: Placed, series: Series, tier: str, names: Sequence[str]) -> Member:
    """A series with the costs of its algorithms, under each protocol name that a fit may use."""
    by_name = {}
    for protocol in NAMES[3]:
        inner = {span.tier.name: own for span in placed.spans if (own := _inner(span.tier, series.primitive, protocol))}
        found = [costs(placed, tier, series.primitive, name, inner) for name in names]
        by_name[protocol] = tuple(one for one in found if one is not None)
    return Member(series, np.ones(len(series.points), dtype=bool), by_name)


def _inner(tier: Tier, primitive: Primitive, name: str) -> Protocol | None:
    """An inner tier's protocol of that name, else its last, which carries most."""
    listed = tier.protocols_for(primitive)
    return listed.get(name) or next(reversed(listed.values()), None)


def _alpha_s(tier: Tier) -> float:
    """α of a tier before any measurement, seconds."""
    levels = getattr(tier, "levels", None)
    nominal = levels[0].alpha if levels else tier.alpha
    assert nominal is not None  # the model's validator
    return float(nominal * tier.eta.alpha)


def _share(joint: Chosen, own: Chosen, at: int) -> Chosen:
    """One collective's part of a joint fit: its series, algorithms and errors."""
    counts = [int(member.used.sum()) for member in joint.members]
    start, count = sum(counts[:at]), sum(counts[at : at + len(own.members)])
    errors = joint.errors[start : start + count]
    return own._replace(names=joint.names, errors=errors)


def _note_algorithms(tier_data: dict[str, Any], primitive: Primitive, algorithms: Sequence[str]) -> None:
    listed: Mapping[str, Any] = tier_data.get("algorithms") or {}
    tier_data["algorithms"] = {**listed, str(primitive): list(algorithms)}


def _note_switch(tier_data: dict[str, Any], fabric: Fabric, series: Series, chosen: Chosen) -> None:
    """What the switch does, where it was measured."""
    if IN_SWITCH not in chosen.algorithms:
        return
    plan = named_plans(check_fits(fabric, series), series.primitive, Readings(), [IN_SWITCH])[0]
    update = switch_update(chosen, sum(part.charge.n_alpha for part in plan.parts if part.route is not None))
    kept = {key: value for key, value in tier_data["in_network"].items() if key != "protocols"}
    tier_data["in_network"] = {**kept, **update}


def _complete_inner(data: dict[str, Any], tier: str, names: Sequence[str]) -> None:
    """Give inner tiers that list protocols the names that the outer one uses: a collective runs under one throughout."""
    for inner in data["tiers"]:
        if inner["name"] == tier:
            return
        listed = inner.get("protocols") or []
        scoped = {tuple(entry.get("primitives") or ()) for entry in listed}
        for scope in sorted(scoped):
            same = [entry for entry in listed if tuple(entry.get("primitives") or ()) == scope]
            missing = [name for name in dict.fromkeys(names) if name not in {entry["name"] for entry in same}]
            inner["protocols"] += [same[-1] | {"name": name} for name in missing]


def _result(fabric: Fabric, series: Series, fit: _Fit, index: int) -> FittedSeries:
    """One series beside the prices of the finished fabric."""
    member = fit.chosen.members[index]
    before = sum(int(other.used.sum()) for other in fit.chosen.members[:index])
    errors = fit.chosen.errors[before : before + int(member.used.sum())]
    residuals = _residuals(fabric, series, member.used)
    used = [one.relative_error for one in residuals if one.used]
    return FittedSeries(
        series,
        fit.chosen.algorithms,
        fit.chosen.confidence,
        fit.chosen.candidates,
        fit.protocols,
        residuals,
        fit.left_out[index],
        mape(np.array(used)),
        max(used, key=abs, default=0.0),
        mape(errors),
    )


def _residuals(fabric: Fabric, series: Series, used: Any) -> tuple[Residual, ...]:
    """Each size as the finished fabric prices it."""
    sizes = np.array([point.bytes for point in series.points])
    rows = price(fabric, series.primitive, sizes, series.ranks).results
    best = np.argmin(np.asarray([row.total_s for row in rows]), axis=0)
    found = []
    for i, point in enumerate(series.points):
        row = rows[best[i]]
        seconds = float(np.asarray(row.total_s)[i])
        protocol = str(np.broadcast_to(row.protocol, sizes.shape)[i])
        error = seconds / point.seconds - 1
        found.append(Residual(point.bytes, point.seconds, seconds, error, row.title, protocol, bool(used[i])))
    return tuple(found)
