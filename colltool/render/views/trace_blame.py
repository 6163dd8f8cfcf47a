"""Which tiers a trace shows to be slow, which it clears, and which cannot be judged.

:func:`blame` says each in a sentence or two. A wire (:class:`LinkHealth`) is what the calls over a
tier reach of their expected times; its ``verdict`` is ``slow``, ``fine`` or ``unknown``. Times of
``clear`` calls are the transfer's; those of others may have waiting in them, and so are upper bounds.

``missing`` are ranks without a trace, ``measure`` is a command that measures the tier alone, ``exposed`` the share of
the steps that its calls take with no compute beside them.
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
    """What shares are of: ``3 steps``, ``the whole trace``."""
    if result.steps:
        return counted(result.steps, "step")
    if len(result.files) > 1:
        return "the whole traces"
    return "the whole trace"


def blame(result: TraceComparison) -> Iterator[str]:
    """Say which tiers are slow, which are not, which cannot be judged, and on which calls are too fast to have run
    on this fabric."""
    # a group of which only the size is known may be on any tier
    for assumption in result.assumed:
        if assumption.code == "group-by-fabric":
            yield f"Not judged: {assumption}"
            return
    by_verdict: defaultdict[str, list[LinkHealth]] = defaultdict(list)
    for wire in result.wires:
        # calls that cannot be this fast were not made on this fabric, whatever the verdict
        is_too_fast = wire.note.code == "tier-too-fast"
        by_verdict["too fast" if is_too_fast else wire.verdict].append(wire)
    slow = by_verdict["slow"]
    fine = by_verdict["fine"]
    unknown = by_verdict["unknown"]
    too_fast = by_verdict["too fast"]
    for wire in too_fast:
        factor = format_factor(wire.of_expected, 2).removesuffix("x")
        yield f"Not judged: {wire.note}; calls are {factor} times faster than expected"
    if slow:
        yield from _blame_slow(result, slow, fine)
    elif fine:
        cleared = "No tier is"
        if unknown or too_fast:
            cleared = f"{_tiers_with_verb(wire.tier for wire in fine)} not"
        yield f"{cleared} slow: {_reached_text(fine)}"
    elif not unknown and not too_fast:
        for reason, _ in unpriced_reasons(result).most_common(1):
            yield f"No tier can be judged: {reason}"
    for wire in unknown:
        yield from _blame_unknown(result, wire)
    for wire in slow + fine:
        if wire.note:
            yield str(wire.note)


def _blame_unknown(result: TraceComparison, wire: LinkHealth) -> Iterator[str]:
    """Say why a tier cannot be judged, and what would tell."""
    network = wire.tier if len(result.wires) > 1 else "network"
    doubt = f"Cannot tell {network} from waiting"
    waiting = of_times(wire.measured_s - wire.expected_s, wire.measured_s)
    on_tier = f"up to {waiting} on {wire.tier}"
    traced_ranks = [device.rank for device in result.activity if device.rank is not None]
    cures = []
    if wire.missing and traced_ranks:
        traced = ranks_text(sorted(traced_ranks))
        missing = ranks_text(wire.missing)
        if len(traced_ranks) == 1:
            waits = f"only {traced} was traced, and {on_tier} may be {traced} waiting for {missing}"
        else:
            waits = f"only {traced} were traced, and {on_tier} may be waits for {missing}"
        yield f"{doubt}: {waits}"
        verb = "is" if len(wire.missing) == 1 else "are"
        cures.append(f"trace all ranks ({missing} {verb} missing)")
    else:
        yield f"{doubt}: {wire.why}, and {on_tier} may be waiting"
    # a command that measures it
    if wire.measure:
        cures.append(f"measure {wire.tier} alone: {wire.measure}")
    if cures:
        yield sentence(", or ".join(cures))


def _blame_slow(
    result: TraceComparison, slow: Sequence[LinkHealth], fine: Sequence[LinkHealth]
) -> Iterator[str]:
    """Say which tiers are slow, how much of the time is exposed on them, and what cannot be told apart."""
    # A tier whose calls also cross another slow one may be slow by that alone. ``beside`` has tiers further
    # inside only, so that the innermost slow tier is always a name.
    slow_tiers = {wire.tier for wire in slow}
    doubtful: dict[str, list[str]] = {}
    names = []
    for wire in slow:
        crossed = [tier for tier in wire.beside if tier in slow_tiers]
        if crossed:
            doubtful[wire.tier] = crossed
        else:
            # ``beside``: tiers that all its calls cross too, and that are not slow elsewhere
            names.append(" or ".join((wire.tier, *wire.beside)))
    exposed = []
    for wire in slow:
        share = percent(wire.exposed)
        exposed.append(f"{share} of {window_text(result)} is exposed on {wire.tier}")
    reached = _reached_text([*slow, *fine])
    yield f"{_tiers_with_verb(names)} slow: {reached}; {', '.join(exposed)}"
    for tier, crossed in doubtful.items():
        others = " and ".join(crossed)
        yield f"Whether {tier} is slow too cannot be told: its calls also cross {others}"


def _tiers_with_verb(tiers: Iterable[str]) -> str:
    """``ib is``, ``ib or nvlink is``, ``nvlink and ib are``."""
    names = list(tiers)
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {verb}"


def _reached_text(wires: Sequence[LinkHealth]) -> str:
    """``calls that cross ib reach 45% of expected, those inside nvlink 97%``."""
    texts: list[str] = []
    for wire in wires:
        calls = f"that cross {wire.tier}"
        if wire.innermost:
            calls = f"inside {wire.tier}"
        reached = reached_percent(wire.of_expected)
        # of times that are upper bounds
        if not wire.clear:
            reached = f"at least {reached}"
        if texts:
            texts.append(f"those {calls} {reached}")
        else:
            texts.append(f"calls {calls} reach {reached} of expected")
    return ", ".join(texts)


def unpriced_reasons(result: TraceComparison) -> Counter[Statement]:
    """How many calls have no price, by the reason."""
    calls: Counter[Statement] = Counter()
    for total in result.totals:
        if total.reason:
            calls[total.reason] += total.calls
    return calls
