"""A fit as a fabric file writes it: protocols, switch parameters, uncertainty ranges and sources.

:func:`fitted_protocols` turns the parameters of a fit into protocols, :func:`protocol_entries` and
:func:`switch_update` these into the data of a file. :func:`without_cables` and
:func:`without_intervals` prepare the data of a fabric that is fitted anew.
"""

from collections.abc import Sequence
from os.path import basename
from typing import Any, NamedTuple

import numpy as np

from colltool.base.errors import printable
from colltool.base.formatting import format_size, parse_length, parse_time
from colltool.base.primitives import Primitive
from colltool.calibration.certainty import certainty
from colltool.calibration.least_squares import LAUNCH, PER_BYTE, PER_OWN_BYTE, Array
from colltool.calibration.old_form import rate_text, time_text
from colltool.calibration.protocol_fit import CollectiveFit
from colltool.calibration.samples import SWITCH, component_names
from colltool.calibration.series_prices import sizes_of
from colltool.definitions.field_types import MAX_BANDWIDTH_BPS, MIN_ALPHA_S
from colltool.fabric.capabilities import cable_s
from colltool.libraries.nccl.names import UNKNOWN_SEGMENT
from colltool.logs.series import Series

# A bandwidth is undetermined if its interval reaches both this many times itself and the fabric's
# value.
_VAGUE = 5
# A copy rate is visible where copies take this share of the wires' time per byte.
_VISIBLE = 0.02
# Seconds per byte of wires whose time no size shows: far below those of any link, and not 0, since
# it divides.
_LEAST_PER_BYTE_S = 1e-15
# The keys of a protocol in a file, in the order of θ (:mod:`colltool.calibration.least_squares`): launch
# overhead, α, and the seconds per byte of the wires and of the copy, which a file has as bytes/s.
_FIELDS = ("launch_overhead_s", "alpha_s", "bandwidth_Bps", "local_copy_Bps")
# Logs that a source names at most.
_MOST_LOGS = 10


class FittedProtocol(NamedTuple):
    """One fitted protocol.

    Args:
        name: as the file will have it.
        launch_overhead_s, alpha_s, bandwidth_Bps: seconds of a call, seconds of a step, bytes/s.
        copy_Bps: rate at which a rank moves its own share M/N, None where not visible.
        eta_beta: bandwidth over the stated line rate; None without one, or above it.
        ci95: 95% intervals by the keys of a file, in the units of the fields above: seconds, or bytes/s.
            ``copy_Bps`` has the key ``local_copy_Bps``, the others their names. Without those in
            ``tied``; empty if the sizes are too few.
        tied: fields that the data cannot separate, kept near the fabric's values.
    """

    name: str
    launch_overhead_s: float
    alpha_s: float
    bandwidth_Bps: float
    copy_Bps: float | None
    eta_beta: float | None
    ci95: dict[str, tuple[float, float]]
    tied: tuple[str, ...]


def fitted_protocols(
    fit: CollectiveFit, nominal_Bps: float, line_Bps: float | None, prefix: str
) -> tuple[FittedProtocol, ...]:
    """The protocols of a fit.

    Args:
        nominal_Bps: the bandwidth of a protocol where no size determines it.
        line_Bps: the stated line rate, None without one.
        prefix: what placeholder names begin with.
    """
    # what a protocol without a size of its own gets is no slower than any that was measured
    least_per_byte_s = fit.envelope.theta[: len(fit.names), PER_BYTE].min()
    if least_per_byte_s > 0:
        nominal_Bps = max(nominal_Bps, 1 / least_per_byte_s)
    nominal_Bps = min(nominal_Bps, MAX_BANDWIDTH_BPS)
    protocols = []
    for index, name in enumerate(fit.names):
        if name.startswith(UNKNOWN_SEGMENT):
            name = prefix + name
        protocols.append(_protocol(fit, index, name, nominal_Bps, line_Bps))
    return tuple(protocols)


def _protocol(
    fit: CollectiveFit, index: int, name: str, nominal_Bps: float, line_Bps: float | None
) -> FittedProtocol:
    """The protocol of one component of a fit, under this name. Where the sizes do not determine its
    bandwidth it gets the nominal one."""
    launch_s, alpha_s, per_byte_s, per_own_byte_s = fit.envelope.theta[index].tolist()
    certain = certainty(fit.sample, fit.envelope, index)
    # A field is one of three: fitted; tied (kept near the fabric's value, no interval); or left out of
    # the file, as only the copy rate may be.
    tied = []
    if not certain.alpha_is_determined:
        # The points then show only launch overhead and steps in sum. One of the two is kept near the
        # fabric's value (the launch overhead where that states one), the other is what is left.
        tied.append("launch_overhead_s" if fit.sample.prior.launch_s else "alpha_s")
    # the next protocol bounds the bandwidth of one that serves smaller sizes
    serves_largest = index == len(fit.names) - 1
    # 40 GB/s whose interval ends at 300 GB/s, where the fabric has 200: the sizes do not tell
    least_per_byte_s, _ = certain.ci95[PER_BYTE]
    vague = least_per_byte_s < min(per_byte_s / _VAGUE, 1 / nominal_Bps)
    bandwidth_Bps = nominal_Bps
    copy_Bps = None
    if per_byte_s <= 0 or (serves_largest and vague):
        tied.append("bandwidth_Bps")
    else:
        bandwidth_Bps = min(1 / per_byte_s, MAX_BANDWIDTH_BPS)
        if per_own_byte_s > max(_VISIBLE * per_byte_s, 1 / MAX_BANDWIDTH_BPS):
            copy_Bps = 1 / per_own_byte_s
    not_measured = set(tied)
    if copy_Bps is None:
        not_measured.add("local_copy_Bps")
    # above the line rate the file states the bandwidth itself
    eta_beta = bandwidth_Bps / line_Bps if line_Bps and bandwidth_Bps <= line_Bps else None
    return FittedProtocol(
        name=name,
        launch_overhead_s=launch_s,
        alpha_s=max(alpha_s, MIN_ALPHA_S),
        bandwidth_Bps=bandwidth_Bps,
        copy_Bps=copy_Bps,
        eta_beta=eta_beta,
        ci95=_intervals(certain.ci95, not_measured),
        tied=tuple(tied),
    )


def _intervals(ci95: Array, not_measured: set[str]) -> dict[str, tuple[float, float]]:
    """95% intervals of the fields that were measured, by :data:`_FIELDS`, from those of θ: (4, 2), a row
    for each parameter, with its low and high end. Empty where there are too few sizes, which have NaN.
    A rate whose interval of seconds per byte includes 0 has none."""
    intervals: dict[str, tuple[float, float]] = {}
    if np.isnan(ci95).any():
        return intervals
    for field, (low, high) in zip(_FIELDS, ci95.tolist(), strict=True):
        if field in not_measured:
            continue
        if field.endswith("_s"):
            intervals[field] = (low, high)
        elif low > 0:
            # theta has seconds per byte
            intervals[field] = (1 / high, 1 / low)
    return intervals


def protocol_entries(
    group: Sequence[FittedProtocol],
    primitives: Sequence[Primitive],
    series: Sequence[Series],
    source: str,
    *,
    eta: bool,
) -> list[dict[str, Any]]:
    """Protocols as a fabric file lists them.

    All have the same range as ``measured``: where one protocol ends and the next begins is itself a
    result of the fit.

    Args:
        series: what they were fitted to together.
        source: where their numbers come from, in words.
        eta: whether the tier has a contention factor, which is not to apply to what was measured.
    """
    sizes = []
    for measured in series:
        sizes += sizes_of(measured)
    entries = []
    for protocol in group:
        entry: dict[str, Any] = {
            "name": protocol.name,
            "launch_overhead": time_text(protocol.launch_overhead_s),
            "alpha": time_text(protocol.alpha_s),
        }
        if protocol.eta_beta is not None:
            entry["eta"] = {"alpha": 1.0, "beta": float(f"{protocol.eta_beta:.4g}")}
        else:
            entry["bandwidth"] = rate_text(protocol.bandwidth_Bps)
            if eta:
                entry["eta"] = {"alpha": 1.0, "beta": 1.0}
        if protocol.copy_Bps is not None:
            entry["local_copy"] = rate_text(protocol.copy_Bps)
        entry["primitives"] = list(map(str, primitives))
        entry["measured"] = {
            "smallest": format_size(min(sizes)),
            "largest": format_size(max(sizes)),
            "ranks": ranks_of(series),
        }
        entry["source"] = source
        entries.append(entry)
    return entries


def switch_update(fit: CollectiveFit, steps: float, last_eta_beta: float) -> dict[str, Any]:
    """``in_network`` values of a fit that includes the switch: its α, the name of the protocol under
    which it runs (the fit's), and its η_β, each of these two only in the cases that need it.

    - Nothing but the switch was measured: all protocols of the fit are its own and have all that was
      measured. For α the least that a file may have is left.
    - It competed with other algorithms, and the last protocol is its own: the same, with that name.
    - It competed, and is a component after the protocols: it runs under the last one. A file has no
      launch overhead of the switch, so its α is what its calls take beyond that protocol's launch
      overhead, per step, and its η_β is that protocol's, times the ratio of seconds per byte.

    Args:
        steps: of a call, n_α.
        last_eta_beta: η_β of the last protocol.
    """
    # Launch overheads of 12 us (switch) and 6 us (last protocol), two steps: α is 3 us. 2e-11 and
    # 1e-11 s a byte: η_β is half of that protocol's.
    theta = fit.envelope.theta
    alpha_s = 0.0
    update: dict[str, Any] = {}
    # rows of θ are the protocols', and in the third case the switch's after them
    is_extra_component = len(theta) > len(fit.names)
    if is_extra_component:
        last = theta[len(fit.names) - 1]
        launch_s, _, per_byte, per_own_byte = theta[len(fit.names)]
        alpha_s = float(launch_s - last[LAUNCH]) / steps
        if last[PER_BYTE] > 0:
            # The file keeps the last protocol's local copy for the switch. What the switch's own
            # copy takes beyond it goes to its wires, of which noise may take half at most.
            own_share = np.mean([member.costs[0].own_share for member in fit.members])
            beyond_copy = per_byte + own_share * (per_own_byte - last[PER_OWN_BYTE])
            wire_per_byte = max(beyond_copy, per_byte / 2, _LEAST_PER_BYTE_S)
            update["eta_beta"] = float(
                f"{last_eta_beta * min(last[PER_BYTE] / wire_per_byte, 1.0):.4g}"
            )
    # where it competed
    if SWITCH in component_names(fit.members, fit.names):
        update["protocols"] = [fit.names[-1]]
    return {"alpha_switch": time_text(max(alpha_s, MIN_ALPHA_S)), **update}


def ranks_of(series: Sequence[Series]) -> list[int]:
    """The rank counts that were measured, each once, the fewest first."""
    return sorted({measured.ranks for measured in series})


def without_intervals(data: dict[str, Any]) -> None:
    """Remove the uncertainty of protocols from a fabric's data, in place: a new fit replaces it."""
    ranges = data.pop("uncertainty", None) or {}
    kept = {field: text for field, text in ranges.items() if ".protocols." not in field}
    if kept:
        data["uncertainty"] = kept


def without_cables(data: dict[str, Any]) -> None:
    """Move the delay of every cable into the α of its tier, levels, protocols and switches, in place:
    a fitted α is that of cables and switches together. Parts that state no α are left without. A call
    passes the cables of a switch on the way up and down, on each of its levels."""
    for tier in data["tiers"]:
        length = tier.pop("cable", None)
        for part in (tier, *(tier.get("protocols") or ())):
            _add_cable(part, "alpha", length)
        # a level may have cables of its own
        levels = tier.get("levels") or ()
        outermost = length
        for level in levels:
            outermost = level.pop("cable", None) or length
            _add_cable(level, "alpha", outermost)
        switch = tier.get("in_network") or {}
        # up and down each level of switches; a tier without levels has one
        passes = 2 * (switch.get("levels") or len(levels) or 1)
        _add_cable(switch, "alpha_switch", outermost, passes)


def _add_cable(part: dict[str, Any], key: str, length: str | None, passes: int = 1) -> None:
    """Add a cable's delay to a latency, ``part[key]``, if there are both. The delay is shared equally
    between the times that a call pays the cable (``passes``)."""
    if length and part.get(key) is not None:
        part[key] = time_text(parse_time(part[key]) + cable_s(parse_length(length)) / passes)


def source_of(series: Sequence[Series], algorithms: Sequence[str]) -> str:
    """The source of fitted numbers in words: what was measured, as which algorithms, in how many
    sizes, from which logs."""
    logs: dict[str, None] = {}
    for measured in series:
        logs.update(dict.fromkeys(printable(basename(file)) for file in measured.files))
    collectives = "; ".join(dict.fromkeys(measured.primitive.label for measured in series))
    ranks = ", ".join(map(str, ranks_of(series)))
    points = sum(len(measured.points) for measured in series)
    text = f"colltool calibrate: {collectives} on {ranks} ranks"
    if algorithms:
        text += f", as {' + '.join(algorithms)}"
    text += f", {points} sizes"
    files = ", ".join(list(logs)[:_MOST_LOGS])
    if files:
        text += f" from {files}"
    if len(logs) > _MOST_LOGS:
        text += f" and {len(logs) - _MOST_LOGS} more"
    return text
