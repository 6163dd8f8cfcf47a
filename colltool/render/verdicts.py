"""Comparisons in sentences: who wins each question, how sure that is, and the headline that has both.

A question is a collective on some rank counts. Its verdict has claims, which are bands of sizes with
a winner or another plain fact, and ``rest``: all other sizes, of which no claim is made. A rival is
another column (fabric) of a claim, with how many times the winner's time it takes, from ``least`` to
``most``.

A band is of one ``kind``: ``winner``; ``alone`` (only one column can run it) or ``none``; ``behind`` (nobody wins,
but some surely lose); ``close`` or ``mixed`` (too close to call, or now this and now that); ``same``; ``unlike``
(times that have different things in them). ``first`` and ``last`` tell whether it holds the smallest and the
largest size of the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import assert_never

from colltool.analysis.compare import Comparison
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.winners import QuestionVerdict, RivalRatio, SizeBand
from colltool.base.formatting import (
    and_text,
    counted,
    format_bytes,
    format_count,
    format_factor,
    percent,
    sentence,
    title_size,
)
from colltool.estimate.interval import SHARE
from colltool.render.blocks import span_text
from colltool.render.first_screen import height
from colltool.render.fitted_words import fitted_sentences, offer_sentence

_MOST_LINES = 4  # of the headline on a terminal of the usual size
_MOST_RIVALS = 2  # that a sentence names; of more only the nearest


# --- the verdict on a question


def verdict_sentence(result: Comparison, verdict: QuestionVerdict, *, brief: bool = False) -> str:
    """``All-reduce, 8 ranks: a is 1.4x to 1.7x faster than b up to 85 KB; too close to call above
    85 KB``; ``brief``: without how far times differ that are too close."""
    question = f"{_collective_text(verdict)}, {_ranks_text(verdict.ranks)}"
    return f"{question}: {claims_text(result, verdict, brief=brief)}"


def claims_text(result: Comparison, verdict: QuestionVerdict, *, brief: bool = False) -> str:
    """The verdict without its question: the claims by size, then what holds elsewhere."""
    text = ""
    previous: SizeBand | None = None
    for claim in verdict.claims:
        if previous is None:
            text = _claim_text(result, claim, is_continued=False)
        elif (previous.kind, previous.winner) == ("winner", claim.winner) and len(
            claim.rivals
        ) == 1:
            # of the same winner: ``a is 1.4x faster than b up to 85 KB and 2x above 1 MB``
            text += f" and {_ratio_text(claim.rivals[0])}{_sizes_text(claim)}"
        else:
            text += f", {_claim_text(result, claim, is_continued=True)}"
        previous = claim
    if verdict.rest is not None:
        unclaimed = _unclaimed_text(result, verdict, verdict.rest, brief=brief)
        text = f"{text}; {unclaimed}" if text else unclaimed
    return text


def verdict_in_title(result: Comparison, verdict: QuestionVerdict, first: str) -> str:
    """Say how the ``first`` of two columns does, in the widest band of sizes that either wins: ``all-reduce up
    to 1.7x faster than b above 1 MB``. Without such a band the whole verdict in brief."""
    collective = verdict.primitive.label
    won = [claim for claim in verdict.claims if claim.kind == "winner"]
    if not won:
        claims = claims_text(result, verdict, brief=True)
        # "no clear winner in all-reduce", but "all-reduce too close to call"
        if claims.startswith("no "):
            return f"{claims} in {collective}"
        return f"{collective} {claims}"
    widest = max(won, key=_width_factor)
    # of two columns the only rival
    rival = widest.rivals[0]
    slower_or_faster = "slower"
    second = widest.winner
    if widest.winner == first:
        slower_or_faster = "faster"
        second = rival.column
    up_to = _factor_text(rival.most)
    return f"{collective} up to {up_to} {slower_or_faster} than {second}{_sizes_text(widest)}"


def _width_factor(claim: SizeBand) -> float:
    return claim.to_bytes / claim.from_bytes


def _collective_text(verdict: QuestionVerdict) -> str:
    """``All-reduce``, or ``All-reduce of 16MB`` at a single size."""
    collective = sentence(verdict.primitive.label)
    if verdict.several_sizes:
        return collective
    # at a single size all bands have that size
    band = next(filter(None, [*verdict.claims, verdict.rest]))
    return f"{collective} of {title_size(band.from_bytes)}"


def _ranks_text(ranks: Sequence[int]) -> str:
    """``8 ranks``, ``8 and 16 ranks``, ``8 to 64 ranks``."""
    if len(ranks) > 2:
        return f"{ranks[0]} to {ranks[-1]} ranks"
    return f"{and_text(ranks)} ranks"


def _claim_text(result: Comparison, claim: SizeBand, *, is_continued: bool) -> str:
    """A claim in words, with its sizes: ``a is 1.4x to 1.7x faster than b up to 85 KB``.

    Args:
        is_continued: whether it follows another claim, whose words it does not repeat.
    """
    sizes = _sizes_text(claim)
    if claim.kind == "alone":
        return f"only {claim.winner} can run it{sizes}"
    if claim.kind == "unlike":
        return f"not comparable{sizes} ({_not_comparable_reason(result)})"
    if claim.kind == "behind":
        return f"{_behind_text(claim)}{sizes}"
    rivals = sorted(claim.rivals, key=attrgetter("least"))
    subject = claim.winner if is_continued else f"{claim.winner} is"
    if len(rivals) > _MOST_RIVALS:
        nearest = rivals[0]
        return f"{subject} fastest{sizes}, {_ratio_text(nearest)} ahead of {nearest.column}"
    if is_continued and len(rivals) == 1:
        return f"{subject} {_ratio_text(rivals[0])} faster{sizes}"
    faster = [f"{_ratio_text(rival)} faster than {rival.column}" for rival in rivals]
    return f"{subject} {and_text(faster)}{sizes}"


def _behind_text(claim: SizeBand) -> str:
    """Name the columns that surely lose, where nobody wins: ``a is 1.2x to 1.4x slower than the fastest``."""
    slower = [rival for rival in claim.rivals if rival.slower]
    if len(slower) > _MOST_RIVALS:
        leading = [rival.column for rival in claim.rivals if not rival.slower]
        return f"all but {and_text(leading)} are slower than the fastest"
    texts = [f"{rival.column} is {_ratio_text(rival)}" for rival in slower]
    return f"{and_text(texts)} slower than the fastest"


def _sizes_text(claim: SizeBand) -> str:
    """`` up to 85 KB``, `` above 62 MB``, `` from 52 MB to 88 MB``. Empty for all sizes."""
    start = format_bytes(claim.from_bytes, 2)
    end = format_bytes(claim.to_bytes, 2)
    if claim.first and claim.last:
        return ""
    if claim.first:
        return f" up to {end}"
    if claim.last:
        return f" above {start}"
    return f" from {start} to {end}"


def _ratio_text(rival: RivalRatio) -> str:
    """``1.4x``, or ``1.4x to 1.7x``."""
    return span_text(_factor_text(rival.least), _factor_text(rival.most))


def _factor_text(ratio: float) -> str:
    return format_factor(ratio, 3 if ratio < 10 else 2)


def _unclaimed_text(
    result: Comparison, verdict: QuestionVerdict, rest: SizeBand, *, brief: bool
) -> str:
    """What holds for the sizes that no claim is made of: ``too close to call above 85 KB``."""
    sizes = _unclaimed_sizes_text(verdict, rest)
    match rest.kind:
        case "same":
            return f"no measurable difference{sizes}"
        case "none":
            return f"none of them can run it{sizes}"
        case "unlike":
            return f"not comparable{sizes} ({_not_comparable_reason(result)})"
        case "close" | "mixed" | "behind" | "winner" | "alone":
            text = "too close to call" if rest.kind == "close" else "no clear winner"
            if verdict.claims or brief or not rest.rivals:
                return text + sizes
            return f"{text} ({_difference_text(rest.rivals)})"
        case _:
            assert_never(rest.kind)


def _difference_text(rivals: Sequence[RivalRatio]) -> str:
    """``a is ahead by 1.6x`` where one of two is ahead at every size, else how far they differ."""
    *ahead, last = sorted(rivals, key=attrgetter("most"))
    up_to = f"up to {_factor_text(last.most)}"
    # where nobody wins, rivals are all columns, with their times over the fastest's
    if len(ahead) == 1 and ahead[0].most == 1.0:
        lead = _ratio_text(last)
        if lead.startswith("1x to "):
            lead = up_to
        return f"{ahead[0].column} is ahead by {lead}"
    return f"the times differ by {up_to}"


def _unclaimed_sizes_text(verdict: QuestionVerdict, rest: SizeBand) -> str:
    """`` below 85 KB``, `` in between``, `` elsewhere``. Empty for all sizes."""
    if not verdict.claims:
        return ""
    if not rest.unbroken:
        return " elsewhere"
    if rest.first:
        return f" below {format_bytes(verdict.claims[0].from_bytes, 2)}"
    if rest.last:
        return f" above {format_bytes(verdict.claims[-1].to_bytes, 2)}"
    return " in between"


def _not_comparable_reason(result: Comparison) -> str:
    """Say why times cannot be compared, and what to add; where it is both, measured overhead rather than
    launch overhead."""
    for difference in result.ground:
        if difference.code == "software_time":
            # the columns that have it come first, see analysis.basis
            (_, having), (_, lacking) = difference.parts
            return (
                f"{with_verb(having, 'includes', 'include')} measured library overhead,"
                f" {with_verb(lacking, 'does not', 'do not')}; {add_like(lacking)}"
            )
    for difference in result.ground:
        if difference.code == "launch":
            for value, names in difference.parts:
                if value is None:
                    return (
                        f"{with_verb(names, 'has', 'have')} no launch overhead, so short times are lower"
                        " limits"
                    )
    return "one of the times lacks library overhead that the other includes"


def with_verb(names: Sequence[str], singular: str, plural: str) -> str:
    """Names as the subject of a verb: ``a has``, ``a and b have``."""
    return f"{and_text(names)} {singular if len(names) == 1 else plural}"


def add_like(names: Sequence[str]) -> str:
    """What to write into files whose library has no measured overhead."""
    return f'base {and_text(names)} on a shipped machine (add "like: hgx-h200")'


def add_library(names: Sequence[str]) -> str:
    """What to write into files that name no library."""
    return f'add "library: nccl" to {and_text(names)}, or "like: hgx-h200"'


# --- how sure


def uncertainty(lines: Iterable[CompareLine]) -> str:
    """``Uncertainty of a ratio: a factor of 1.2 to 3.6 (90% interval)``. Empty where nothing is
    known of it, or it is less than half a percent."""
    factors = []
    for line in lines:
        for column in range(len(line.cells)):
            if column != line.fastest() and line.rival_interval(column) is not None:
                factors.append(1 + line.rival_error(column))
    if not factors or max(factors) < 1.005:
        return ""
    span = span_text(_factor_digits(min(factors)), _factor_digits(max(factors)))
    return f"Uncertainty of a ratio: a factor of {span} ({percent(SHARE, 0)} interval)"


def _factor_digits(factor: float) -> str:
    return format_count(factor, 3 if factor < 1.1 else 2)


# --- the headline


def closing_sentences(result: Comparison, layers: str) -> list[str]:
    """What belongs to all verdicts: how sure, on which fabrics, and what would change it.

    Args:
        layers: the sentence on the layers of the model by which all are priced; may be empty.
    """
    sentences = [uncertainty(result.lines)]
    if result.ideal:
        sentences.append("Priced without contention")
    if result.taken is not None:
        sentences.append(f"{result.taken} ranks are the most that all can run")
    sentences += fitted_sentences((column.fabric, column.fitted) for column in result.columns)
    sentences += map(offer_sentence, result.offers[:1])
    sentences.append(layers)
    return [text for text in sentences if text]


def headline(result: Comparison, closing: Sequence[str]) -> tuple[str, int]:
    """The headline, and how many verdicts it has: as many as fit into four lines (at least one)
    together with the ``closing`` sentences."""
    count = len(result.verdicts)
    answer = _headline(result, closing, count, brief=False)
    if height(answer) <= _MOST_LINES:
        return answer, count
    # in brief, then fewer of them
    answer = _headline(result, closing, count, brief=True)
    while count > 1 and height(answer) > _MOST_LINES:
        count -= 1
        answer = _headline(result, closing, count, brief=True)
    return answer, count


def _headline(result: Comparison, closing: Sequence[str], count: int, *, brief: bool) -> str:
    """The first ``count`` verdicts, how many more there are, and the closing sentences."""
    sentences = []
    collective = ""
    for verdict in result.verdicts[:count]:
        text = verdict_sentence(result, verdict, brief=brief)
        # the collective is named once for all its rank counts
        sentences.append(text.removeprefix(collective))
        collective = f"{_collective_text(verdict)}, "
    more = len(result.verdicts) - count
    if more:
        sentences.append(f"{counted(more, 'more verdict')} under Conclusions")
    return f"{'. '.join([*sentences, *closing])}."
