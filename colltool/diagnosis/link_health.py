"""Which tier's links are slow, by the calls of traces that cross it.

:func:`links_of` judges each tier by the calls whose outermost tier it is: their expected over their
measured time against the bar of healthy machines. Times of calls that may have waited for an
untraced rank are upper bounds: they clear a tier where they are fast, and never blame it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from math import ceil, floor, log2
from statistics import median
from typing import TypeVar

from colltool.analysis.benchmark_command import BenchmarkSizes, command_line
from colltool.base.errors import argument_text, localize
from colltool.base.primitives import A2A, P2P, Primitive
from colltool.base.statements import NOTHING, Statement
from colltool.calibration.log_fits import MOST_IN_A_HOST
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.thresholds import FASTER, FEW, HEALTHY_SHARE, SLACK, threshold_of
from colltool.diagnosis.trace_results import CallTotal, LinkHealth, LinkVerdict, TracedCall
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.logs.traced_calls import RankTrace, untraced_ranks

HEALTHY_SMALL_A2A = 0.40
"""The bar of small all-to-alls, which depend on how the library posts them to peers: healthy
machines reach 40 to 160%."""
Calls = Sequence[TracedCall]
"""Traced calls; but for those of :func:`links_of` all have a price and the same outermost tier."""


def links_of(
    fabric: Fabric, calls: Calls, totals: Sequence[CallTotal], traces: Sequence[RankTrace]
) -> tuple[LinkHealth, ...]:
    """The health of each tier that priced calls cross, from the inside out."""
    calls_of = _by_outermost_tier(calls)
    totals_of = _by_outermost_tier(totals)
    links: list[LinkHealth] = []
    fine: set[str] = set()  # tiers that are not slow
    for tier in fabric.tiers:
        if tier.name not in calls_of:
            continue
        link = _health_of(fabric, calls_of[tier.name], totals_of[tier.name], traces, fine)
        links.append(link)
        if link.verdict == "fine":
            fine.add(tier.name)
    return tuple(links)


_Priced = TypeVar("_Priced", TracedCall, CallTotal)


def _by_outermost_tier(calls: Iterable[_Priced]) -> dict[str, list[_Priced]]:
    """Calls with a price by the outermost tier that they cross; none for any other tier."""
    by_tier: dict[str, list[_Priced]] = defaultdict(list)
    for call in calls:
        if call.expected_s is not None and call.tiers:
            by_tier[call.tiers[-1]].append(call)
    return by_tier


def _health_of(
    fabric: Fabric,
    calls: Calls,
    totals: Sequence[CallTotal],
    traces: Sequence[RankTrace],
    fine: Collection[str],
) -> LinkHealth:
    """The health of the tier that is outermost in these calls. ``fine`` lists the tiers inside it
    that are not slow."""
    clear = []
    waiting = []
    for call in calls:
        if call.bound:
            waiting.append(call)
        else:
            clear.append(call)
    # upper bounds clear a link where they are fast, and do not blame it where they are slow
    judged = clear or calls
    reached = _share_reached(judged)
    bar = _bar(fabric, judged)
    verdict: LinkVerdict = "fine"
    if reached < bar:
        verdict = "slow" if clear else "unknown"
    untraced = _fewest_untraced(waiting, traces)
    return LinkHealth(
        tier=calls[0].tiers[-1],
        innermost=calls[0].tiers[-1] == fabric.tiers[0].name,
        calls=len(calls),
        clear=len(clear),
        measured_s=sum(call.measured_s for call in calls),
        exposed_s=sum(call.exposed_s for call in calls),
        expected_s=_expected_s(calls),
        of_expected=reached,
        share=sum(total.share for total in totals),
        exposed=sum(total.share * total.exposed for total in totals),
        bar=bar,
        verdict=verdict,
        beside=() if verdict == "fine" else _suspects(fabric, judged, fine),
        missing=untraced,
        why=_why_upper_bounds(waiting, untraced),
        measure=_benchmark_of(fabric, calls),
        note=_doubt(fabric, judged),
    )


def _fewest_untraced(waiting: Calls, traces: Sequence[RankTrace]) -> tuple[int, ...]:
    """Ranks without a trace; of several groups the fewest that complete one."""
    groups = {call.ranks for call in waiting if call.primitive is not P2P}
    by_group = {untraced_ranks(group, traces) for group in groups} - {()}
    return min(by_group, key=lambda ranks: (len(ranks), ranks), default=())


def _expected_s(calls: Iterable[TracedCall]) -> float:
    """The price of all calls."""
    return sum(call.expected_s or 0.0 for call in calls)


def _share_reached(calls: Calls) -> float:
    """Expected over measured time, by the median of like calls, as the first sets up connections:
    of three calls of 10 us each that took 90, 12 and 12 us, 30 / 36."""
    alike: dict[object, list[float]] = defaultdict(list)
    for call in calls:
        alike[call.primitive, call.bytes, call.axes, call.coalesced].append(call.measured_s)
    return _expected_s(calls) / sum(len(times) * median(times) for times in alike.values())


def _bar(fabric: Fabric, calls: Calls) -> float:
    """The mean of the bars of calls, weighted by their expected time."""
    weighted = 0.0
    for call in calls:
        weighted += (call.expected_s or 0.0) * _bar_of(fabric, call)
    return weighted / _expected_s(calls)


def _bar_of(fabric: Fabric, call: TracedCall) -> float:
    """The share of its expected rate that a call of a healthy machine reaches: ``doctor``'s, lower
    on part of a host, and lower still where most of its price is latency."""
    inner = fabric.tiers[0]
    bar = threshold_of(
        call.primitive, len(call.ranks), inner.endpoints, across=call.tiers[-1] != inner.name
    )
    if not _is_small(call):
        return bar
    return HEALTHY_SMALL_A2A if call.primitive is A2A else bar - SLACK


def _is_small(call: TracedCall) -> bool:
    """Whether most of a call's price is latency."""
    return 2 * (call.latency_s or 0.0) > (call.expected_s or 0.0)


def _suspects(fabric: Fabric, calls: Calls, fine: Collection[str]) -> tuple[str, ...]:
    """Inner tiers that may be slow in place of the outermost: slow calls cross them, and no other
    calls clear them; none if calls that cross the outermost tier alone are slow too."""
    cleared = {calls[0].tiers[-1], *fine}
    crossed: dict[tuple[int, ...], set[str]] = {}
    for call in calls:
        if call.places not in crossed:
            crossed[call.places] = _crossed(fabric, call.places) - cleared
    outermost_alone = [call for call in calls if not crossed[call.places]]
    if outermost_alone and _share_reached(outermost_alone) < _bar(fabric, outermost_alone):
        return ()
    suspected = set().union(*crossed.values())
    return tuple(tier.name for tier in fabric.tiers if tier.name in suspected)


def _crossed(fabric: Fabric, places: Sequence[int]) -> set[str]:
    """Tiers whose links traffic may use: some domain has members in several of its parts. On two
    hosts of 8 ranks, places 0 and 8 lie on two endpoints of the outer tier, and cross it alone."""
    crossed = set()
    inside = 1  # ranks of an endpoint of the tier
    for tier in fabric.tiers:
        parts = {place // inside for place in places}
        domains = {part // tier.endpoints for part in parts}
        if len(parts) > len(domains):
            crossed.add(tier.name)
        inside *= tier.endpoints
    return crossed


def _doubt(fabric: Fabric, calls: Calls) -> Statement:
    """A reason to doubt the verdict; NOTHING without one."""
    reached = _share_reached(calls)
    ranks = max(len(call.ranks) for call in calls)
    if _bar(fabric, calls) <= reached < HEALTHY_SHARE and ranks < FEW:
        return statement("few-ranks-of-trace", ranks=ranks)
    if reached > FASTER and not any(map(_is_small, calls)):
        return statement(
            "tier-too-fast",
            tier=calls[0].tiers[-1],
            fabric=fabric.name,
            argument=localize(argument_text("placed")),
        )
    return NOTHING


def _why_upper_bounds(waiting: Calls, untraced: Sequence[int]) -> Statement:
    """Why calls are upper bounds; NOTHING where none is."""
    if not waiting:
        return NOTHING
    if untraced:
        return statement("waits-for-untraced", ranks=tuple(untraced))
    if all(call.primitive is P2P for call in waiting):
        return statement("message-ends")
    if all(call.seen == call.group_size for call in waiting):
        return statement("uneven-parts")
    return statement("calls-do-not-pair")


_BINARY_UNITS = {"G": 2**30, "M": 2**20, "K": 2**10, "": 1}


def _benchmark_of(fabric: Fabric, calls: Calls) -> str:
    """The command of a benchmark for this tier alone: of the primitive that takes most of its time,
    over the sizes of its calls, inside a host on the ranks of the largest, between hosts on one rank
    of each. Empty on a lattice, and where more ranks than a host has are inside the innermost tier.
    """
    seconds_of: dict[Primitive, float] = defaultdict(float)
    for call in calls:
        seconds_of[call.primitive] += call.measured_s
    primitive = max(seconds_of, key=seconds_of.__getitem__)
    alike = [call for call in calls if call.primitive is primitive]
    largest = max(alike, key=lambda call: (len(call.places), call.bytes))
    inner = fabric.tiers[0]
    is_inside_host = largest.tiers[-1] == inner.name
    ranks = len(largest.places)
    if capabilities_of(inner).axes or (is_inside_host and ranks > MOST_IN_A_HOST):
        return ""
    hosts = 1
    # between hosts one rank on each, so that nothing else is measured
    if not is_inside_host:
        hosts = ranks = len({place // inner.endpoints for place in largest.places})
    sizes = sorted(call.bytes for call in alike)
    least = 2 ** floor(log2(sizes[0]))
    most = 2 ** ceil(log2(sizes[-1]))
    flags = f"-b {_binary(least)} -e {_binary(most)} -f 2"
    return command_line(primitive, BenchmarkSizes(flags, f"{least}:{most}"), ranks, hosts)


def _binary(size: int) -> str:
    """A power of two as nccl-tests takes it: ``64K``."""
    letter = next(letter for letter, unit in _BINARY_UNITS.items() if size >= unit)
    return f"{size // _BINARY_UNITS[letter]}{letter}"
