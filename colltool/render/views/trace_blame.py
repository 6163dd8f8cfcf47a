"""Which tiers a trace shows to be slow, which it clears, and which cannot be judged.

:func:`blame` says each in a sentence or two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from colltool.base.formatting import (
    counted,
    format_factor,
    of_times,
    percent,
    ranks_text,
    sentence,
)
from colltool.base.statements import Statement
from colltool.diagnosis.trace_results import (
    LinkHealth,
    TraceComparison,
)
from colltool.render.dispatch import reached_percent


def window_text(result: TraceComparison) -> str:
    if result.steps:
        return counted(result.steps, "step")
    if len(result.files) > 1:
        return "the whole traces"
    return "the whole trace"


def blame(result: TraceComparison) -> Iterator[str]:
    """Which tiers are slow, which are not, and which cannot be judged."""
    for why in result.assumed:
        if why.code == "group-by-fabric":
            yield f"Not judged: {why}"
            return
    by_verdict: defaultdict[str, list[LinkHealth]] = defaultdict(list)
    for wire in result.wires:
        by_verdict["too fast" if _too_fast(wire) else wire.verdict].append(wire)
    slow = by_verdict["slow"]
    fine = by_verdict["fine"]
    unknown = by_verdict["unknown"]
    too_fast = by_verdict["too fast"]
    for wire in too_fast:
        times = format_factor(wire.of_expected, 2).removesuffix("x")
        yield f"Not judged: {wire.note}; calls are {times} times faster than expected"
    if slow:
        yield from _blame_slow(result, slow, fine)
    elif fine:
        cleared = "No tier is"
        if unknown or too_fast:
            cleared = f"{_listed_tiers(wire.tier for wire in fine)} not"
        yield f"{cleared} slow: {_reached_by(fine)}"
    elif not unknown and not too_fast:
        for why, _ in unpriced_reasons(result).most_common(1):
            yield f"No tier can be judged: {why}"
    for wire in unknown:
        yield from _blame_unknown(result, wire)
    for wire in slow + fine:
        if wire.note:
            yield str(wire.note)


def _too_fast(wire: LinkHealth) -> bool:
    return wire.note.code == "tier-too-fast"


def _blame_unknown(result: TraceComparison, wire: LinkHealth) -> Iterator[str]:
    """Why a tier cannot be judged, and what would tell."""
    who = "Cannot tell network from waiting"
    if len(result.wires) > 1:
        who = f"Cannot tell {wire.tier} from waiting"
    waiting = of_times(wire.measured_s - wire.expected_s, wire.measured_s)
    where = f"up to {waiting} on {wire.tier} may be"
    traced_ranks = [device.rank for device in result.activity if device.rank is not None]
    cures = []
    if wire.missing and traced_ranks:
        seen = ranks_text(sorted(traced_ranks))
        verb = "were"
        others = ranks_text(wire.missing)
        whose = f"waits for {others}"
        if len(traced_ranks) == 1:
            verb = "was"
            whose = f"{seen} waiting for {others}"
        yield f"{who}: only {seen} {verb} traced, and {where} {whose}"
        cures.append(f"trace all ranks ({others} {_is_or_are(wire.missing)} missing)")
    else:
        yield f"{who}: {wire.why}, and {where} waiting"
    if wire.measure:
        cures.append(f"measure {wire.tier} alone: {wire.measure}")
    if cures:
        yield sentence(", or ".join(cures))


def _is_or_are(ranks: Sequence[int]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _blame_slow(
    result: TraceComparison, slow: Sequence[LinkHealth], fine: Sequence[LinkHealth]
) -> Iterator[str]:
    """Which tiers are slow, how much of the time is exposed on them, and what cannot be told apart."""
    tiers = [wire.tier for wire in slow]
    # tiers whose calls also cross another slow tier are not named
    names = [" or ".join((wire.tier, *wire.beside)) for wire in slow if not _both(wire, tiers)]
    lost = []
    for wire in slow:
        lost.append(f"{percent(wire.exposed)} of {window_text(result)} is exposed on {wire.tier}")
    yield f"{_listed_tiers(names)} slow: {_reached_by([*slow, *fine])}; {', '.join(lost)}"
    for wire in slow:
        both = _both(wire, tiers)
        if both:
            yield (
                f"Whether {wire.tier} is slow too cannot be told: its calls also cross"
                f" {' and '.join(both)}"
            )


def _both(wire: LinkHealth, tiers: Sequence[str]) -> list[str]:
    """Those of the tiers that the calls of another one go over as well."""
    return [tier for tier in tiers if tier in wire.beside]


def _listed_tiers(names: Iterable[str]) -> str:
    """``ib is``, ``ib or nvlink is``, ``nvlink and ib are``."""
    listed_names = list(names)
    verb = "is" if len(listed_names) == 1 else "are"
    return f"{' and '.join(listed_names)} {verb}"


def _reached_by(wires: Sequence[LinkHealth]) -> str:
    """Such as ``calls that cross ib reach 45% of expected, those inside nvlink 97%``."""
    parts: list[str] = []
    for wire in wires:
        where = f"that cross {wire.tier}"
        if wire.innermost:
            where = f"inside {wire.tier}"
        reached = reached_percent(wire.of_expected)
        if not wire.clear:
            reached = f"at least {reached}"
        if parts:
            parts.append(f"those {where} {reached}")
        else:
            parts.append(f"calls {where} reach {reached} of expected")
    return ", ".join(parts)


def unpriced_reasons(result: TraceComparison) -> Counter[Statement]:
    found: Counter[Statement] = Counter()
    for total in result.totals:
        if total.reason:
            found[total.reason] += total.calls
    return found
