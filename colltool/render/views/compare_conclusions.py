"""What a comparison of fabrics concludes beside who wins (:func:`conclusions`): values that make no
difference, with the reason, and collectives whose winner is another with one port at a time.

A finding compares a column with the first in one collective, on some rank counts; its ``runs`` are ranges of sizes
with one ``outcome``, which is ``same`` where the column's values make no difference, for the reasons ``why``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from colltool.analysis.compare import Comparison
from colltool.analysis.outcomes import ColumnDifference, OnePortWinner, SameReason
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import sentence, title_size
from colltool.base.primitives import Primitive
from colltool.render.blocks import span_text


def conclusions(result: Comparison) -> list[str]:
    """The sentences, without repetition."""
    lines = []
    for finding in result.findings:
        lines += _no_difference(result, finding)
    lines += _one_port_lines(result)
    return list(dict.fromkeys(lines))


def rank_counts(result: Comparison) -> tuple[int, ...]:
    """The rank counts of a comparison, in its order."""
    return tuple(dict.fromkeys(line.ranks for line in result.lines))


def _no_difference(result: Comparison, finding: ColumnDifference) -> list[str]:
    """Why the values of a column make no difference to the time, as a list of one sentence; empty
    where no value of the fabric is the reason."""
    reasons: dict[str, None] = {}
    for run in finding.runs:
        for why in run.why:
            # without a key the columns are different fabrics
            if why.key:
                reason = _reason(why)
                reasons[reason] = None
    # _reason() has no words for a difference that is only too small
    reasons.pop("", None)
    if not reasons:
        return []
    collective = finding.primitive.label
    text = f"{finding.column} makes no difference to {collective}"
    if finding.ranks != rank_counts(result):
        fewest = str(finding.ranks[0])
        most = str(finding.ranks[-1])
        text += f" on {span_text(fewest, most)} ranks"
    if any(run.outcome != "same" for run in finding.runs):
        text += " at some sizes"
    return [f"{text}: {'; '.join(reasons)}"]


def _reason(why: SameReason) -> str:
    """Why a value of the fabric makes no difference; empty if only because that is too small."""
    match why.reason:
        case "tier":
            return f"no two ranks meet on {why.tier}"
        case "level":
            cause = f"one {why.below} holds all {why.endpoints} endpoints"
            return f"nothing reaches the {why.level} of {why.tier}: {cause}"
        case "share":
            level = f"the {why.level} of {why.tier}"
            return f"too few messages of {why.algorithm} cross {level} at the same time"
        case "unpaid":
            return f"{why.algorithm}, the fastest, does not depend on {why.key}"
        case "small":
            return ""
        case _:
            assert_never(why.reason)


def _one_port_lines(result: Comparison) -> list[str]:
    """Such as ``All-to-all at 1KB: if a GPU can drive only one port at a time, nvl72 has the
    shorter time``."""
    by_winner: dict[tuple[Primitive, str], list[OnePortWinner]] = {}
    for winner in result.turned:
        key = (winner.primitive, winner.column)
        by_winner.setdefault(key, []).append(winner)
    argument = argument_text("ports", "one")
    option = localize(argument)
    condition = f"if a rank can drive only one port at a time ({option})"
    lines = []
    for (primitive, column), winners in by_winner.items():
        collective = sentence(primitive.label)
        place = _place_text(result, primitive, winners)
        lines.append(f"{collective}{place}: {condition}, {column} has the shorter time")
    return lines


def _place_text(result: Comparison, primitive: Primitive, winners: Sequence[OnePortWinner]) -> str:
    """Such as `` on 64 ranks at 1MB, 16MB``. Empty where it is so on all ranks and at all sizes."""
    lines = [line for line in result.lines if line.primitive is primitive]
    counts = dict.fromkeys(winner.ranks for winner in winners)
    sizes = dict.fromkeys(winner.bytes for winner in winners)
    text = ""
    if set(counts) != {line.ranks for line in lines}:
        counts_text = ", ".join(map(str, counts))
        text += f" on {counts_text} ranks"
    if set(sizes) != {line.bytes for line in lines}:
        sizes_text = ", ".join(map(title_size, sizes))
        text += f" at {sizes_text}"
    return text
