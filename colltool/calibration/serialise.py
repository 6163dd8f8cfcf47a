"""A fit as a fabric file writes it: protocols, switch parameters, uncertainty ranges and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os.path import basename
from typing import Any

import numpy as np

from colltool.base.formatting import format_size, parse_length, parse_time
from colltool.base.primitives import Primitive
from colltool.calibration.piecewise_linear_fit import certainty
from colltool.calibration.results import FittedProtocol
from colltool.calibration.sample import SWITCH, components
from colltool.calibration.select import ChosenFit
from colltool.definitions.field_types import MAX_BANDWIDTH_BPS, MIN_ALPHA_S
from colltool.fabric.topology import cable_s
from colltool.measurements.series import Series

_VAGUE = 5  # a bandwidth is undetermined if its interval reaches this many times itself, and the fabric's value
_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def fitted(chosen: ChosenFit, nominal_Bps: float, line_Bps: float | None) -> tuple[FittedProtocol, ...]:
    slowest = chosen.fit.theta[: len(chosen.names), 2].min()
    fallback = min(max(nominal_Bps, 1 / slowest if slowest > 0 else 0.0), MAX_BANDWIDTH_BPS)
    return tuple(_one(chosen, index, name, fallback, line_Bps) for index, name in enumerate(chosen.names))


def _one(chosen: ChosenFit, index: int, name: str, fallback_Bps: float, line_Bps: float | None) -> FittedProtocol:
    launch, alpha, per_byte, per_own_byte = (float(value) for value in chosen.fit.theta[index])
    sure = certainty(chosen.sample, chosen.fit, index)
    last = index == len(chosen.names) - 1
    vague = sure.ci95[2, 0] < min(per_byte / _VAGUE, 1 / fallback_Bps)
    felt = per_byte > 0 and not (last and vague)  # a smaller protocol's is bounded by the next one
    bandwidth = min(1 / per_byte, MAX_BANDWIDTH_BPS) if felt else fallback_Bps
    copy = 1 / per_own_byte if felt and per_own_byte > 0.02 * per_byte and per_own_byte * MAX_BANDWIDTH_BPS > 1 else None
    held = "launch_overhead_s" if chosen.sample.prior.launch_s else "alpha_s"  # the other one is the rest
    tied = ([] if sure.alpha_is_told else [held]) + ([] if felt else ["bandwidth_Bps"])
    ci95 = _intervals(sure.ci95, {"launch_overhead_s", "alpha_s", "bandwidth_Bps"} - set(tied), copy is not None)
    share = bandwidth / line_Bps if line_Bps and bandwidth <= line_Bps else None
    return FittedProtocol(name, launch, max(alpha, MIN_ALPHA_S), bandwidth, copy, share, ci95=ci95, tied=tuple(tied))


def _intervals(bounds: Any, told: set[str], copied: bool) -> dict[str, tuple[float, float]]:
    """95% intervals by field; a rate's are the inverted ones of 1/rate."""
    if np.isnan(bounds).any():
        return {}
    fields: dict[str, tuple[float, float]] = {}
    for row, name in ((0, "launch_overhead_s"), (1, "alpha_s")):
        if name in told:
            fields[name] = (float(bounds[row, 0]), float(bounds[row, 1]))
    for row, name in ((2, "bandwidth_Bps"), (3, "local_copy_Bps")):
        if (name in told or (row == 3 and copied)) and bounds[row, 0] > 0:
            fields[name] = (1 / float(bounds[row, 1]), 1 / float(bounds[row, 0]))
    return fields


def protocol_entries(
    group: Sequence[FittedProtocol], primitives: Sequence[Primitive], series: Sequence[Series], source: str, *, eta: bool
) -> list[dict[str, Any]]:
    sizes = [point.bytes for one in series for point in one.points]
    ranks = sorted({one.ranks for one in series})
    measured: dict[str, Any] = {"smallest": exact_size(min(sizes)), "largest": exact_size(max(sizes)), "ranks": ranks}
    entries = []
    for one in group:
        entry: dict[str, Any] = {"name": one.name}
        entry |= {"launch_overhead": time_text(one.launch_overhead_s), "alpha": time_text(one.alpha_s)}
        if one.eta_beta is None:
            entry["bandwidth"] = rate_text(one.bandwidth_Bps)
        if one.eta_beta is not None or eta:
            entry["eta"] = {"alpha": 1.0, "beta": float(f"{one.eta_beta:.4g}") if one.eta_beta is not None else 1.0}
        if one.copy_Bps is not None:
            entry["local_copy"] = rate_text(one.copy_Bps)
        entry["primitives"] = [str(primitive) for primitive in primitives]
        entries.append(entry | {"measured": dict(measured), "source": source})
    return entries


def switch_update(chosen: ChosenFit, switches: float, share: float) -> dict[str, Any]:
    """``in_network`` values of a fit that includes the switch.

    Alone or under a protocol of its own, that one carries all that was measured. Otherwise it runs under the last protocol, and
    its α is what its calls take beyond that one's launch overhead, over ``switches`` (n_α). ``share``: η_β of the last protocol.
    """
    if SWITCH not in components(chosen.members, chosen.names):
        return {"alpha_switch": time_text(MIN_ALPHA_S)}
    if len(chosen.fit.theta) == len(chosen.names):
        return {"alpha_switch": time_text(MIN_ALPHA_S), "protocols": [chosen.names[-1]]}
    last = len(chosen.names) - 1
    launch, _, per_byte, copied = chosen.fit.theta[last + 1]
    base = chosen.fit.theta[last]
    own = np.mean([member.costs[0].own for member in chosen.members])
    slope = max(per_byte + own * (copied - base[3]), per_byte / 2, 1e-15)
    update: dict[str, Any] = {"alpha_switch": time_text(max(float(launch - base[0]) / switches, MIN_ALPHA_S))}
    if base[2] > 0:
        update |= {"eta_beta": float(f"{share * min(base[2] / slope, 1.0):.4g}")}
    return update | {"protocols": [chosen.names[-1]]}


def exact_size(size: float) -> str:
    """``32MiB`` or ``16MB``: the shortest text that is read back as the same number."""
    binary = [f"{size / factor:.0f}{unit}" for unit, factor in _BINARY.items() if size % factor == 0]
    return min([format_size(size), *binary], key=len)


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}us" if seconds >= 1e-12 else "0us"


def rate_text(rate: float) -> str:
    return f"{rate / 1e9:.5g}GB/s"


_FIELDS = (("launch_overhead_s", "launch_overhead", time_text), ("alpha_s", "alpha", time_text),
           ("bandwidth_Bps", "bandwidth", rate_text))  # fmt: skip


def without_intervals(data: dict[str, Any]) -> None:
    """Drop the ranges of protocols from a fabric's data: a new fit has protocols of its own."""
    kept = {key: how for key, how in (data.pop("uncertainty", None) or {}).items() if ".protocols." not in key}
    if kept:
        data["uncertainty"] = kept


def note_intervals(data: dict[str, Any], fitted: Mapping[str, Sequence[FittedProtocol]]) -> None:
    """Write the 95% ranges of fitted protocols into the fabric's data; ambiguous protocol names get none."""
    found = dict(data.get("uncertainty") or {})
    for tier in data["tiers"]:
        listed = {one["name"]: one for one in tier.get("protocols") or ()}
        names = [one["name"] for one in tier.get("protocols") or ()]
        for one in fitted.get(tier["name"], ()):
            if names.count(one.name) == 1:
                found |= {
                    f"{tier['name']}.protocols.{one.name}.{key}": text for key, text in _range_entries(one, listed[one.name])
                }
    if found:
        data["uncertainty"] = found


def _range_entries(one: FittedProtocol, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field, key, text in _FIELDS:
        low, high = one.ci95.get(field, (0.0, 0.0))
        if key in entry and 0 < low < high and text(low) != text(high):
            yield key, f"{text(low)}:{text(high)}"


def without_cables(data: dict[str, Any]) -> None:
    """Fold the delay of every cable into the α of its tier, levels, protocols and switches, in place."""
    for tier in data["tiers"]:
        whole = tier.pop("cable", None)
        levels = tier.get("levels") or ()
        lengths = [level.pop("cable", None) or whole for level in levels]
        wholes = ((one, whole) for one in (tier, *(tier.get("protocols") or ())))
        for one, length in [*zip(levels, lengths, strict=True), *wholes]:
            _add(one, "alpha", length)
        switch = tier.get("in_network") or {}
        _add(switch, "alpha_switch", lengths[-1] if levels else whole, 2 * (switch.get("levels") or max(1, len(levels))))


def _add(part: dict[str, Any], key: str, length: str | None, passes: int = 1) -> None:
    if length and part.get(key) is not None:
        part[key] = time_text(parse_time(part[key]) + cable_s(parse_length(length)) / passes)


_NAMED = 10  # logs that a source names


def source_of(series: Sequence[Series], algorithms: Sequence[str]) -> str:
    logs = list(dict.fromkeys(_readable(basename(file)) for one in series for file in one.files))
    files = ", ".join(logs[:_NAMED]) + (f" and {len(logs) - _NAMED} more" if len(logs) > _NAMED else "")
    what = "; ".join(dict.fromkeys(one.primitive.spoken for one in series))
    ranks = ", ".join(str(n) for n in sorted({one.ranks for one in series}))
    points = sum(len(one.points) for one in series)
    ran = f", as {' + '.join(algorithms)}" if algorithms else ""
    return f"colltool calibrate: {what} on {ranks} ranks{ran}, {points} sizes" + (f" from {files}" if files else "")


def _readable(name: str) -> str:
    """A file name with undecodable or unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
