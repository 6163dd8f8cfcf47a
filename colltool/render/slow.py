"""What one slow rank costs, in words."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.formatting import format_factor, format_time
from colltool.estimate.algorithm_estimate import SlowRank
from colltool.estimate.results import Price
from colltool.render.blocks import Block, Lines, gathered
from colltool.render.view import Document


def slow_field(slow: SlowRank | None) -> Document:
    """What one slow rank costs, where that was asked."""
    return {} if slow is None else {"slow_rank": slow._asdict()}


def slow_words(slow: SlowRank | None) -> str:
    """``with one rank at 0.8 of its bandwidth 1.2 ms, 1.19x; rank 0 costs most``."""
    if slow is None:
        return ""
    who = f"with one rank at {slow.share:g} of its bandwidth"
    if slow.total_s is None or slow.slowdown is None:
        return f"{who}: not known, {slow.reason}"
    worst = "" if slow.rank is None else f"; rank {slow.rank} costs most"
    return f"{who} {format_time(slow.total_s)}, {format_factor(slow.slowdown)}{worst}"


def slow_rank(prices: Sequence[Price]) -> list[Block]:
    """Which schedule leads with one slow rank, of a single size; and of which that is not known."""
    slow = [(row, row.slow) for one in prices for row in one.results if row.slow is not None]
    if not slow:
        return []
    known = [(one.total_s, row.title) for row, one in slow if row.selectable and one.total_s is not None]
    lines = [f"fastest then: {min(known)[1]}, {format_time(min(known)[0])}"] if known and len(prices) == 1 else []
    unknown = gathered((one.reason, row.title) for row, one in slow if one.reason)
    lines += [f"not known, {reason}: {', '.join(titles)}" for reason, titles in unknown.items()]
    said = f"slow rank: all ports and links of one rank, the worst one, at {slow[0][1].share:g} of their bandwidth"
    return [Lines(said, tuple(lines))]
