"""A fit as a fabric file writes it: protocols with their names, switch parameters, uncertainty
ranges and sources.

A segment is the protocol that NCCL picks at most of its sizes, unless its rate rules that out: LL
moves half of what the others do, so a clearly faster segment is not LL, and one clearly slower than
LL is neither LL128 nor Simple.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from os.path import basename
from typing import Any, NamedTuple

import numpy as np

from colltool.base.formatting import format_size, parse_length, parse_time
from colltool.base.primitives import A2A, P2P, Primitive
from colltool.calibration.envelope import Prior, certainty
from colltool.calibration.select import SWITCH, ChosenFit, Member, components, under_names
from colltool.definitions.field_types import MAX_BANDWIDTH_BPS, MIN_ALPHA_S
from colltool.fabric.capabilities import cable_s
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import estimates
from colltool.libraries.nccl.rules import SEGMENT, SHORT, SPOKEN, algorithms_of
from colltool.logs.series import Series

# a bandwidth is undetermined if its interval reaches this many times itself, and the fabric's value
_VAGUE = 5
_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


class FittedProtocol(NamedTuple):
    """One fitted protocol. ``copy_Bps``: rate at which a rank moves its own share M/N, None where
    not visible. ``eta_beta``:
    bandwidth over the stated line rate. ``ci95``: 95% intervals by field name. ``tied``: fields the
    data cannot separate, held at the prior."""

    name: str
    launch_overhead_s: float
    alpha_s: float
    bandwidth_Bps: float
    copy_Bps: float | None
    eta_beta: float | None
    ci95: dict[str, tuple[float, float]]
    tied: tuple[str, ...]


def fitted(
    chosen: ChosenFit, nominal_Bps: float, line_Bps: float | None
) -> tuple[FittedProtocol, ...]:
    slowest = chosen.fit.theta[: len(chosen.names), 2].min()
    fallback = min(max(nominal_Bps, 1 / slowest if slowest > 0 else 0.0), MAX_BANDWIDTH_BPS)
    return tuple(
        _one(chosen, index, name, fallback, line_Bps) for index, name in enumerate(chosen.names)
    )


def _one(
    chosen: ChosenFit, index: int, name: str, fallback_Bps: float, line_Bps: float | None
) -> FittedProtocol:
    launch, alpha, per_byte, per_own_byte = (float(value) for value in chosen.fit.theta[index])
    sure = certainty(chosen.sample, chosen.fit, index)
    last = index == len(chosen.names) - 1
    vague = sure.ci95[2, 0] < min(per_byte / _VAGUE, 1 / fallback_Bps)
    felt = per_byte > 0 and not (last and vague)  # a smaller protocol's is bounded by the next one
    bandwidth = min(1 / per_byte, MAX_BANDWIDTH_BPS) if felt else fallback_Bps
    copy = (
        1 / per_own_byte
        if felt and per_own_byte > 0.02 * per_byte and per_own_byte * MAX_BANDWIDTH_BPS > 1
        else None
    )
    # the other one is the rest
    held = "launch_overhead_s" if chosen.sample.prior.launch_s else "alpha_s"
    tied = ([] if sure.alpha_is_told else [held]) + ([] if felt else ["bandwidth_Bps"])
    ci95: dict[str, tuple[float, float]] = {}  # of a rate the inverted one of 1/rate
    for row, field in enumerate(
        ("launch_overhead_s", "alpha_s", "bandwidth_Bps", "local_copy_Bps")
    ):
        low, high = map(float, sure.ci95[row])
        told = copy is not None if row == 3 else field not in tied
        if told and not np.isnan(sure.ci95).any() and (row < 2 or low > 0):
            ci95[field] = (low, high) if row < 2 else (1 / high, 1 / low)
    share = bandwidth / line_Bps if line_Bps and bandwidth <= line_Bps else None
    return FittedProtocol(
        name, launch, max(alpha, MIN_ALPHA_S), bandwidth, copy, share, ci95=ci95, tied=tuple(tied)
    )


def protocol_entries(
    group: Sequence[FittedProtocol],
    primitives: Sequence[Primitive],
    series: Sequence[Series],
    source: str,
    *,
    eta: bool,
) -> list[dict[str, Any]]:
    sizes = [point.bytes for one in series for point in one.points]
    ranks = sorted({one.ranks for one in series})
    measured: dict[str, Any] = {
        "smallest": exact_size(min(sizes)),
        "largest": exact_size(max(sizes)),
        "ranks": ranks,
    }
    entries = []
    for one in group:
        entry: dict[str, Any] = {"name": one.name}
        entry |= {
            "launch_overhead": time_text(one.launch_overhead_s),
            "alpha": time_text(one.alpha_s),
        }
        if one.eta_beta is None:
            entry["bandwidth"] = rate_text(one.bandwidth_Bps)
        if one.eta_beta is not None or eta:
            entry["eta"] = {
                "alpha": 1.0,
                "beta": float(f"{one.eta_beta:.4g}") if one.eta_beta is not None else 1.0,
            }
        if one.copy_Bps is not None:
            entry["local_copy"] = rate_text(one.copy_Bps)
        entry["primitives"] = [str(primitive) for primitive in primitives]
        entries.append(entry | {"measured": dict(measured), "source": source})
    return entries


def switch_update(chosen: ChosenFit, switches: float, share: float) -> dict[str, Any]:
    """``in_network`` values of a fit that includes the switch.

    Alone or under a protocol of its own, that one carries all that was measured. Otherwise it runs
    under the last protocol, and its α is what its calls take beyond that one's launch overhead,
    over ``switches`` (n_α). ``share``: η_β of the last protocol.
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
    update: dict[str, Any] = {
        "alpha_switch": time_text(max(float(launch - base[0]) / switches, MIN_ALPHA_S))
    }
    if base[2] > 0:
        update |= {"eta_beta": float(f"{share * min(base[2] / slope, 1.0):.4g}")}
    return update | {"protocols": [chosen.names[-1]]}


def exact_size(size: float) -> str:
    """``32MiB`` or ``16MB``: the shortest text that is read back as the same number."""
    binary = [
        f"{size / factor:.0f}{unit}" for unit, factor in _BINARY.items() if size % factor == 0
    ]
    return min([format_size(size), *binary], key=len)


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}us" if seconds >= 1e-12 else "0us"


def rate_text(rate: float) -> str:
    return f"{rate / 1e9:.5g}GB/s"


def without_intervals(data: dict[str, Any]) -> None:
    kept = {
        key: how
        for key, how in (data.pop("uncertainty", None) or {}).items()
        if ".protocols." not in key
    }
    if kept:
        data["uncertainty"] = kept


def without_cables(data: dict[str, Any]) -> None:
    """Fold the delay of every cable into the α of its tier, levels, protocols and switches, in
    place."""
    for tier in data["tiers"]:
        whole = tier.pop("cable", None)
        levels = tier.get("levels") or ()
        lengths = [level.pop("cable", None) or whole for level in levels]
        wholes = ((one, whole) for one in (tier, *(tier.get("protocols") or ())))
        for one, length in [*zip(levels, lengths, strict=True), *wholes]:
            _add(one, "alpha", length)
        switch = tier.get("in_network") or {}
        _add(
            switch,
            "alpha_switch",
            lengths[-1] if levels else whole,
            2 * (switch.get("levels") or max(1, len(levels))),
        )


def _add(part: dict[str, Any], key: str, length: str | None, passes: int = 1) -> None:
    if length and part.get(key) is not None:
        part[key] = time_text(parse_time(part[key]) + cable_s(parse_length(length)) / passes)


_NAMED = 10  # logs that a source names


def source_of(series: Sequence[Series], algorithms: Sequence[str]) -> str:
    names = (basename(file) for one in series for file in one.files)
    # undecodable and unprintable characters escaped
    spelled = (
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
        for name in names
    )
    logs = list(dict.fromkeys(spelled))
    files = ", ".join(logs[:_NAMED]) + (
        f" and {len(logs) - _NAMED} more" if len(logs) > _NAMED else ""
    )
    what = "; ".join(dict.fromkeys(one.primitive.spoken for one in series))
    ranks = ", ".join(str(n) for n in sorted({one.ranks for one in series}))
    points = sum(len(one.points) for one in series)
    ran = f", as {' + '.join(algorithms)}" if algorithms else ""
    return f"colltool calibrate: {what} on {ranks} ranks{ran}, {points} sizes" + (
        f" from {files}" if files else ""
    )


P2P_LL_MOST = 16384
"""Bytes up to which NCCL sends by LL, then by Simple: NCCL_P2P_LL_THRESHOLD, src/enqueue.cc."""

_UNTOLD = (
    "segments are parts of a fit, small sizes first; naming the library's protocols needs the"
    " library and its facts in the fabric, such as library: {name: nccl, gpu: hopper, cpu: intel}"
)
_MOST = 0.6  # share of a segment's sizes that makes it a protocol
_NEAR = 4.0  # factor by which flip sizes may be off where the rate speaks against them
_TOO_FAST, _TOO_SLOW, _NOT_FELT = 1.8, 0.7, 20.0
"""Times LL's rate in NCCL's model: faster is not LL, slower is nothing else, far faster is too
small to tell. LL measures 1.3 of it on H100 and B200 and 1.6 on A100; LL128 has 1.84 by the
model."""

_FULL = 0.75  # of the fastest segment's rate: LL128 has 0.92 of it, LL measures up to 0.66


class IdentifiedPoint(NamedTuple):
    """A point that NCCL's model has a protocol for. ``near``: its protocols at sizes around.
    ``rate``: LL's modelled time per byte over the fitted one, None where there is none."""

    segment: int
    protocol: str
    near: frozenset[str]
    rate: float | None
    size: float


def identified(chosen: ChosenFit, prior: Prior) -> ChosenFit:
    """The fit with its protocols named; segments keep placeholder names where the evidence is
    missing or conflicting."""
    known, count = list(_known(chosen)), len(chosen.names)
    slopes = np.maximum(chosen.fit.theta[:count, 2], 1e-18)
    felt = slopes[chosen.fit.theta[:count, 2] > 0].min(initial=np.inf)
    own = [[one for one in known if one.segment == segment] for segment in range(count)]
    found = [
        _protocol(own[i], float(felt / slope), last=i == count - 1)
        for i, slope in enumerate(slopes)
    ]
    names = list(chosen.names)
    for protocol, name in SPOKEN.items():
        same = [segment for segment, what in enumerate(found) if what == protocol]
        for before, segment in zip(("", *SHORT), reversed(same), strict=False):
            names[segment] = before + name
    return under_names(chosen, tuple(names), prior)


def notes_on(fits: Sequence[tuple[Member, Sequence[str]]]) -> list[str]:
    notes = []
    for member, names in fits:
        what = member.series.primitive.spoken
        bare = ", ".join(name for name in names if SEGMENT in name)
        if bare:
            told = f"{what}, {bare}: sizes and rates do not show which of NCCL's protocols this is"
            notes.append(told if member.on else _UNTOLD)
        parts = [(name, name.partition("-")[2]) for name in names if name.startswith(SHORT)]
        notes += [
            f"{what}, {name}: {whole} where messages are short, which takes less time"
            for name, whole in parts
        ]
    return list(dict.fromkeys(notes))


def _known(chosen: ChosenFit) -> Iterator[IdentifiedPoint]:
    at = 0
    for member in chosen.members:
        for size in (
            point.bytes
            for point, used in zip(member.series.points, member.used, strict=True)
            if used
        ):
            segment, algorithm = int(chosen.fit.component[at]), int(chosen.fit.algorithm[at])
            row = chosen.sample.x[algorithm, at, 2:] @ chosen.fit.theta[segment, 2:]
            slope = max(float(row / chosen.sample.sizes[at]), 1e-18)
            at += 1
            at_size = (
                partial(_times, member.on, member.series, member.costs[algorithm].algorithm)
                if member.on
                else None
            )
            times = at_size(size) if at_size else {}
            if not (at_size and times) or segment >= len(chosen.names):
                continue
            least = [
                min(some, key=some.__getitem__)
                for some in (times, at_size(size / _NEAR), at_size(size * _NEAR))
            ]
            told = 0.0 < times.get("ll", inf) < inf
            rate = (at_size(2 * size)["ll"] - times["ll"]) / size / slope if told else None
            yield IdentifiedPoint(segment, least[0], frozenset(least), rate, size)


def _times(on: Hardware, series: Series, spec: str, size: float) -> dict[str, float]:
    """NCCL's modelled seconds by protocol; empty if NCCL has no such schedule. Sends follow a size
    threshold: 0 or inf."""
    if series.primitive in (A2A, P2P):
        message = size / (series.ranks if series.primitive is A2A else 1)
        return {"ll": inf, "simple": 0.0} if message > P2P_LL_MOST else {"ll": 0.0, "simple": inf}
    if series.primitive not in on.constants.algorithms:
        return {}
    theirs = algorithms_of(spec, series.primitive)
    found = (
        one for one in estimates(on, series.primitive, max(size, 1.0)) if one.algorithm in theirs
    )
    return {one.protocol: float(one.seconds) for one in found if one.seconds is not None}


def _protocol(points: Sequence[IdentifiedPoint], share: float, *, last: bool) -> str:
    """A segment's protocol by majority of its sizes, if its rate allows that; empty if undecided.
    ``share``: its rate over the fastest segment's. ``last``: it serves the largest sizes, where the
    bandwidth decides between LL128 and Simple."""
    if not points:
        return ""
    largest = max(points, key=lambda one: one.size)
    rate, by_rate, votes = largest.rate, set(SPOKEN), Counter(one.protocol for one in points)
    if rate is not None and rate <= _NOT_FELT:  # what can reach it, given in LL's by NCCL's model
        by_rate = (
            {"ll"}
            if rate < _TOO_SLOW
            else {"ll128", "simple"}
            if rate > _TOO_FAST and share > _FULL
            else by_rate
        )
    if last and len(votes) > 1 and "ll" not in votes and largest.protocol in by_rate:
        return largest.protocol
    most = votes.most_common(1)[0][0]
    near = {name: sum(name in one.near for one in points) for name in by_rate - {most}} | {
        most: votes[most]
    }
    likely = [most, *sorted(near.keys() - {most}, key=lambda name: (-near[name], name))]
    return next(
        (name for name in likely if name in by_rate and near[name] >= _MOST * len(points)), ""
    )
