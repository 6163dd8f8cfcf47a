"""What the numbers of a series say about its machine, in sentences; each is tested by pricing, none is a guess.

A finding is a function from a :class:`Case` to a sentence, or None where the numbers do not support it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from statistics import median

from colltool.fabric.model import ClosTier, StarTier, Tier
from colltool.fitting.case import CLOSE, WITHIN, Case
from colltool.fitting.sizes import of_rates, size_text
from colltool.measured.series import Point
from colltool.primitives import A2A, P2P
from colltool.units import format_rate, format_time

SMALL = 5
"""How many of the smallest sizes make a floor."""

FASTER = 0.8
"""Below this share of the price, a large message is faster than the fabric allows."""

FLOOR_APART, SPREAD = 1.25, 0.20
"""Floors and repeats that are worth a word: their ratio, and how far apart relative to the median."""

FEWEST, SHAPE = 3, 1.5
"""Neighbouring sizes that make a curve, and by what factor their times differ at least."""

TOO_STEEP = 1.3
"""How far beyond the ratio of their sizes two times can be apart before no price explains it."""

Finding = Callable[[Case], str | None]


def findings(case: Case) -> tuple[str, ...]:
    """All that hold, most important first."""
    return tuple(said for finding in _FINDINGS if (said := finding(case)))


def reach(case: Case) -> str | None:
    """The share of the expected busbw that the largest message reaches."""
    if not case.large or _too_fast(case):
        return None
    last = case.checked[-1]
    got, due, size = last.busbw_measured_Bps, last.busbw_expected_Bps, size_text(last.bytes)
    if abs(got / due - 1) <= CLOSE:
        return f"reaches what {case.who} should give: {of_rates(got, due)} busbw at {size}"
    return f"reaches {got / due:.0%} of the busbw that {case.who} should give at {size} ({of_rates(got, due)})"


def _too_fast(case: Case) -> bool:
    return bool(case.large) and case.checked[-1].measured_s < FASTER * case.checked[-1].predicted_s


def faster(case: Case) -> str | None:
    """A large message takes less time than the price."""
    if not _too_fast(case):
        return None
    last = case.checked[-1]
    got, due = format_rate(last.busbw_measured_Bps, 3), format_rate(last.busbw_expected_Bps, 3)
    said = f"faster than {case.who} can: {got} busbw at {size_text(last.bytes)}, the price gives {due}{_port(case)}"
    if case.algorithms:
        return f"{said}; another algorithm ran, or the fabric file understates bandwidth"
    in_switch = case.series.primitive not in (A2A, P2P) and "in-network" not in last.algorithm
    return f"{said}; the fabric file understates bandwidth{', or the library reduces in the switch' if in_switch else ''}"


def _port(case: Case) -> str:
    """The port that the busbw exceeds, on a single tier of ports."""
    tier = case.placed.spans[-1].tier
    rate = tier.bandwidth * tier.ports
    exceeds = case.checked[-1].busbw_measured_Bps > rate
    single = len(case.placed.spans) == 1 and isinstance(tier, StarTier | ClosTier)
    return f" on a {format_rate(rate, 3)} port" if single and exceeds else ""


def rails(case: Case) -> str | None:
    """Large messages take what they would over fewer of a domain's NICs; only even shares are told apart."""
    spans = case.placed.spans
    if len(spans) < 2 or not case.large or not all(map(case.slower, case.large)):
        return None
    nics = spans[1].ranks_inside
    off = {rail: _off_over_share(case, rail / nics) for rail in range(1, nics) if nics % rail == 0}
    fits = [rail for rail in off if off[rail] <= (WITHIN if rail == 1 else CLOSE)]
    if not fits:
        return None
    used = min(fits, key=lambda rail: off[rail])
    share = case.checked[-1].predicted_s / case.checked[-1].measured_s
    carry = "carries" if used == 1 else "carry"
    return f"large messages get {share:.0%} of the expected bandwidth, about what {used} of {nics} rails {carry}"


def _off_over_share(case: Case, share: float) -> float:
    """How far large messages are from a price where every tier outside the innermost domains has a share of its bandwidth.

    The library may take the fastest there, or still what it takes on the whole network.
    """
    outer = {span.tier.name for span in case.placed.spans[1:]}
    priced = case.repriced(lambda tier: _with_share(tier, share) if tier.name in outer else tier)
    if priced is None:
        return inf
    usual = priced.by_title.get(case.checked[-1].algorithm, priced.best)
    return min(case.worst_large(priced.best), case.worst_large(usual))


def _with_share(tier: Tier, share: float) -> Tier:
    """A tier with a share of its bandwidth, under every protocol."""
    protocols = tier.protocols and tuple(
        one.model_copy(update={"bandwidth": one.bandwidth * share}) if one.bandwidth else one for one in tier.protocols
    )
    return tier.model_copy(update={"bandwidth": tier.bandwidth * share, "protocols": protocols})


def in_network(case: Case) -> str | None:
    """Large messages take what they would without reduction in the switch."""
    if not case.large or "in-network" not in case.checked[-1].algorithm or not case.slower(case.large[-1]):
        return None
    named = tuple(name for name in case.algorithms if "in-network" not in name)
    if case.algorithms and not named:
        return None
    without = case._replace(algorithms=named).repriced(_without_switch)
    if without is None or case.worst_large(without.best) > WITHIN:
        return None
    return f"matches {without.best[-1].algorithm} without in-network reduction (NVLS, SHARP): is it off?"


def _without_switch(tier: Tier) -> Tier:
    return tier.model_copy(update={"in_network": None}) if getattr(tier, "in_network", None) else tier


def algorithm(case: Case) -> str | None:
    """At neighbouring sizes the times are those of one algorithm where another should win."""
    runs = {}
    for title, quotes in case.priced.by_title.items():
        fits = [
            case.slower(i) and quotes[i].seconds > (1 + WITHIN) * point.predicted_s and case.off(quotes, i) <= CLOSE
            for i, point in enumerate(case.checked)
        ]
        runs[title] = _longest(fits)
    title = max(runs, key=lambda name: len(runs[name]))
    if not _has_shape(case, runs[title]):
        return None
    first, last = (size_text(case.checked[i].bytes) for i in (runs[title][0], runs[title][-1]))
    winners = " or ".join(dict.fromkeys(case.checked[i].algorithm for i in runs[title]))
    return f"from {first} to {last} the times are those of {title}, where {winners} should win"


def _has_shape(case: Case, run: range) -> bool:
    """Whether a run shows more than a level: any price can be near a level, as that of small messages is."""
    times = [case.checked[i].measured_s for i in run]
    return len(times) >= FEWEST and max(times) >= SHAPE * min(times)


def _longest(flags: Sequence[bool]) -> range:
    """The longest run of neighbours that are true; the first of several."""
    best = start = range(0)
    for i, flag in enumerate(flags):
        start = range(start.start, i + 1) if flag and start else range(i, i + 1) if flag else range(0)
        best = max(best, start, key=len)
    return best


def floor(case: Case) -> str | None:
    """What bounds small messages, and how far the measured floor is from the price's."""
    if not case.small:
        return None
    bounds = Counter(case.checked[i].bound for i in case.small)
    cause = {"overhead": "launch overhead"}.get(bounds.most_common(1)[0][0], "latency")
    upto = len(case.small)
    where = f"below {size_text(case.checked[upto].bytes)}" if upto < len(case.checked) else "at every size"
    floor_points = case.checked[: min(upto, SMALL)]
    took, due = (median(both) for both in zip(*((one.measured_s, one.predicted_s) for one in floor_points), strict=True))
    times = f"small messages take {format_time(took, 3)}, {case.who} says {format_time(due, 3)}"
    said = f"{where} the price is bound by {cause}; {times}"
    apart = format_time(abs(took - due), 3)
    if took > FLOOR_APART * due:
        return f"{said}: about {apart} more launch overhead, a higher alpha, or another algorithm"
    if due > FLOOR_APART * took:
        return f"{said}: about {apart} less launch overhead, a lower alpha, or another algorithm"
    return said


def cliff(case: Case) -> str | None:
    """A time that no price can explain: it falls with size, or rises faster than size."""
    points = case.series.points
    broken = {i + 1: _broken(*pair) for i, pair in enumerate(pairwise(points)) if _broken(*pair)}
    if not broken:
        return None
    at = max(broken, key=lambda i: broken[i])
    before, after = points[at - 1], points[at]
    said = (
        f"{format_time(before.seconds, 3)} at {size_text(before.bytes)}, {format_time(after.seconds, 3)} at "
        f"{size_text(after.bytes)}: a protocol or algorithm threshold of the library, not the fabric"
    )
    if after.seconds > before.seconds:
        return f"no alpha-beta curve between {size_text(before.bytes)} and {size_text(after.bytes)}: {said}"
    first = at - 1
    while first and points[first - 1].seconds > after.seconds / (1 - WITHIN):
        first -= 1
    place = f"from {size_text(points[first].bytes)} to" if first < at - 1 else "at"
    return f"no alpha-beta curve {place} {size_text(before.bytes)}: {said}"


def _broken(before: Point, after: Point) -> float:
    """By what factor a step defies every price; 0 where it does not."""
    ratio, growth = after.seconds / before.seconds, after.bytes / before.bytes
    if ratio < 1 - WITHIN:
        return 1 / ratio
    return ratio / growth if ratio > max(TOO_STEEP * growth, 2) else 0.0


def spread(case: Case) -> str | None:
    """Repeats of one size that are far apart."""
    widest = max(case.series.points, key=_spread)
    if _spread(widest) <= SPREAD:
        return None
    many = sum(_spread(point) > SPREAD for point in case.series.points)
    others = f", by more than {SPREAD:.0%} at {many} sizes" if many > 1 else ""
    return f"repeats differ by up to {_spread(widest):.0%} at {size_text(widest.bytes)}{others}"


def _spread(point: Point) -> float:
    return (point.high_s - point.low_s) / point.seconds


_FINDINGS: tuple[Finding, ...] = (reach, faster, rails, in_network, algorithm, cliff, floor, spread)
