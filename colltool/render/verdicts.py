"""Comparisons in sentences: who wins each question, how sure that is, and what was done to let all
fabrics hold the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from textwrap import fill
from typing import assert_never

from colltool.analysis.compare import Comparison, RanksOffer
from colltool.analysis.fitted import Fitted
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.winners import QuestionVerdict, RivalRatio, SizeBand
from colltool.base.errors import argument_text, localize
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
from colltool.render.blocks import Block, Lines, span_text

# A terminal of the usual size, which the default view of a comparison fits.
WIDTH = 80
HEIGHT = 24
MOST_LINES = 4  # of the headline there
MOST_ROWS = 12  # of the table of the default view
_FRAME = 8  # lines: borders and titles of a table, blanks around it, and the one that names --all
_MOST_RIVALS = 2  # that a sentence names; of more only the nearest


# --- the verdict on a question


def verdict_sentence(result: Comparison, verdict: QuestionVerdict, *, brief: bool = False) -> str:
    """``All-reduce, 8 ranks: a is 1.4x to 1.7x faster than b up to 85 KB; too close to call above
    85 KB``; ``brief``: without the distance of times that are too close."""
    return f"{_question(verdict)}: {claims_text(result, verdict, brief=brief)}"


def claims_text(result: Comparison, verdict: QuestionVerdict, *, brief: bool = False) -> str:
    """The verdict without its question."""
    text = ""
    before: SizeBand | None = None
    for claim in verdict.claims:
        if before is None:
            text = _claim(result, claim, again=False)
        elif (before.kind, before.winner) == ("winner", claim.winner) and len(claim.rivals) == 1:
            text += f" and {_times(claim.rivals[0])}{_where(claim)}"
        else:
            text += f", {_claim(result, claim, again=True)}"
        before = claim
    if verdict.rest is not None:
        rest = _rest(result, verdict, verdict.rest, brief=brief)
        text = f"{text}; {rest}" if text else rest
    return text


def verdict_in_title(result: Comparison, verdict: QuestionVerdict, first: str) -> str:
    """How the first of two columns does, over its widest class of sizes: ``all-reduce up to 1.7x faster
    than b above 1 MB``."""
    what = verdict.primitive.label
    won = [claim for claim in verdict.claims if claim.kind == "winner"]
    if not won:
        claims = claims_text(result, verdict, brief=True)
        if claims.startswith("no "):
            return f"{claims} in {what}"
        return f"{what} {claims}"
    widest = max(won, key=_width)
    # the two columns are the winner and its rival
    rival = widest.rivals[0]
    how = "slower"
    other = widest.winner
    if widest.winner == first:
        how = "faster"
        other = rival.column
    up_to = _factor(rival.most)
    return f"{what} up to {up_to} {how} than {other}{_where(widest)}"


def _width(claim: SizeBand) -> float:
    return claim.to_bytes / claim.from_bytes


def _question(verdict: QuestionVerdict) -> str:
    return f"{_collective(verdict)}, {_ranks(verdict.ranks)}"


def _collective(verdict: QuestionVerdict) -> str:
    """``All-reduce``, or ``All-reduce of 16MB`` at a single size."""
    what = sentence(verdict.primitive.label)
    if verdict.several_sizes:
        return what
    bands = [*verdict.claims, verdict.rest]
    return f"{what} of {title_size(next(filter(None, bands)).from_bytes)}"


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) > 2:
        return f"{ranks[0]} to {ranks[-1]} ranks"
    return f"{and_text(ranks)} ranks"


def _claim(result: Comparison, claim: SizeBand, *, again: bool) -> str:
    """What a size class with a winner says; ``again``: after another one."""
    where = _where(claim)
    if claim.kind == "alone":
        return f"only {claim.winner} can run it{where}"
    if claim.kind == "unlike":
        return f"not comparable{where} ({_unlike(result)})"
    if claim.kind == "behind":
        return f"{_behind(claim)}{where}"
    rivals = sorted(claim.rivals, key=attrgetter("least"))
    subject = claim.winner if again else f"{claim.winner} is"
    if len(rivals) > _MOST_RIVALS:
        nearest = rivals[0]
        return f"{subject} fastest{where}, {_times(nearest)} ahead of {nearest.column}"
    if again and len(rivals) == 1:
        return f"{subject} {_times(rivals[0])} faster{where}"
    faster = [f"{_times(rival)} faster than {rival.column}" for rival in rivals]
    return f"{subject} {and_text(faster)}{where}"


def _behind(claim: SizeBand) -> str:
    """``a is 1.2x to 1.4x slower than the fastest``."""
    slower = [rival for rival in claim.rivals if rival.slower]
    if len(slower) > _MOST_RIVALS:
        leading = [rival.column for rival in claim.rivals if not rival.slower]
        return f"all but {and_text(leading)} are slower than the fastest"
    texts = [f"{rival.column} is {_times(rival)}" for rival in slower]
    return f"{and_text(texts)} slower than the fastest"


def _where(claim: SizeBand) -> str:
    """`` up to 85 KB``, `` above 62 MB``, `` from 52 MB to 88 MB``. Empty for all sizes."""
    if claim.first and claim.last:
        return ""
    if claim.first:
        return f" up to {format_bytes(claim.to_bytes, 2)}"
    if claim.last:
        return f" above {format_bytes(claim.from_bytes, 2)}"
    return f" from {format_bytes(claim.from_bytes, 2)} to {format_bytes(claim.to_bytes, 2)}"


def _times(rival: RivalRatio) -> str:
    return span_text(_factor(rival.least), _factor(rival.most))


def _factor(ratio: float) -> str:
    return format_factor(ratio, 3 if ratio < 10 else 2)


def _rest(result: Comparison, verdict: QuestionVerdict, rest: SizeBand, *, brief: bool) -> str:
    """What holds for the sizes that no claim is made of."""
    where = _rest_where(verdict, rest)
    match rest.kind:
        case "same":
            return f"no measurable difference{where}"
        case "none":
            return f"none of them can run it{where}"
        case "unlike":
            return f"not comparable{where} ({_unlike(result)})"
        case "close" | "mixed" | "behind" | "winner" | "alone":
            nobody = "too close to call" if rest.kind == "close" else "no clear winner"
            if verdict.claims or brief or not rest.rivals:
                return nobody + where
            return f"{nobody} ({_distance(rest.rivals)})"
        case _:
            assert_never(rest.kind)


def _distance(rivals: Sequence[RivalRatio]) -> str:
    """``a is ahead by 1.6x`` where one of two is ahead at every size, else how far they differ."""
    *others, behind = sorted(rivals, key=attrgetter("most"))
    up_to = f"up to {_factor(behind.most)}"
    if len(others) == 1 and others[0].most == 1.0:
        ahead = others[0].column
        by = _times(behind)
        if by.startswith("1x to "):
            by = up_to
        return f"{ahead} is ahead by {by}"
    return f"the times differ by {up_to}"


def _rest_where(verdict: QuestionVerdict, rest: SizeBand) -> str:
    if not verdict.claims:
        return ""
    if not rest.unbroken:
        return " elsewhere"
    if rest.first:
        return f" below {format_bytes(verdict.claims[0].from_bytes, 2)}"
    if rest.last:
        return f" above {format_bytes(verdict.claims[-1].to_bytes, 2)}"
    return " in between"


def _unlike(result: Comparison) -> str:
    """Why times cannot be compared, and what to add."""
    for difference in result.ground:
        (_, having), (_, lacking) = difference.parts[0], difference.parts[-1]
        if difference.code == "software_time":
            return (
                f"{does(having, 'includes', 'include')} measured library overhead,"
                f" {does(lacking, 'does not', 'do not')}; {add_like(lacking)}"
            )
    for difference in result.ground:
        if difference.code == "launch":
            for value, names in difference.parts:
                if value is None:
                    return (
                        f"{does(names, 'has', 'have')} no launch overhead, so short times are lower"
                        " limits"
                    )
    return "one of the times lacks library overhead that the other includes"


def does(names: Sequence[str], singular: str, plural: str) -> str:
    """Names as the subject of a verb: ``a has``, ``a and b have``."""
    return f"{and_text(names)} {singular if len(names) == 1 else plural}"


def add_like(names: Sequence[str]) -> str:
    """What to write into files whose library has no measured overhead."""
    return f'base {and_text(names)} on a shipped machine (add "like: hgx-h200")'


def add_library(names: Sequence[str]) -> str:
    """What to write into files that name no library."""
    return f'add "library: nccl" to {and_text(names)}, or "like: hgx-h200"'


# --- what was done to the fabrics, and what would fit them


def fitted_sentences(columns: Iterable[tuple[str, Fitted]]) -> list[str]:
    """Such as ``dgx-b200 was grown to 144 nodes``, once for all fabrics that were."""
    names: dict[Fitted, dict[str, None]] = {}
    for name, change in columns:
        if change.overrides:
            names.setdefault(change._replace(overrides=()), {})[name] = None
    sentences = []
    for change, alike in names.items():
        several = len(alike) > 1
        parts = []
        if change.nodes is not None:
            grown = "were grown" if several else "was grown"
            parts.append(f"{grown} to {counted(change.nodes, change.noun)}")
        if change.per_rack is not None:
            runs = "run" if several else "runs"
            parts.append(f"{runs} {change.per_rack} of the {change.rack} ranks per {change.noun}")
        sentences.append(f"{and_text(list(alike))} {and_text(parts)}")
    return sentences


def offer_sentence(offer: RanksOffer) -> str:
    """``256 ranks do not fill whole racks on nvl72; compare at -n 216 or 288``."""
    where = and_text(offer.missing)
    fails = "do not fit" if offer.too_many else f"do not fill whole {offer.noun}s"
    text = f"{offer.ranks} ranks {fails} on {where}"
    if not offer.nearest:
        return text
    nearest, *others = offer.nearest
    typed = localize(argument_text("ranks", nearest))
    return f"{text}; compare at {' or '.join([typed, *map(str, others)])}"


# --- how sure


def uncertainty(lines: Iterable[CompareLine]) -> str:
    """``Uncertainty of a ratio: a factor of 1.2 to 3.6 (90% interval)``. Empty where nothing is
    known of it."""
    factors = []
    for line in lines:
        for index in range(len(line.cells)):
            if index != line.fastest() and line.rival_interval(index) is not None:
                factors.append(1 + line.rival_error(index))
    if not factors or max(factors) < 1.005:
        return ""
    span = span_text(_digits(min(factors)), _digits(max(factors)))
    return f"Uncertainty of a ratio: a factor of {span} ({percent(SHARE, 0)} interval)"


def _digits(factor: float) -> str:
    return format_count(factor, 3 if factor < 1.1 else 2)


# --- the first screen


def tail(result: Comparison, layers: str) -> list[str]:
    """What belongs to all verdicts: how sure, on which fabrics, and what would change it."""
    sentences = [uncertainty(result.lines)]
    if result.ideal:
        sentences.append("Priced without contention")
    if result.taken is not None:
        sentences.append(f"{result.taken} ranks are the most that all can run")
    sentences += fitted_sentences((column.fabric, column.fitted) for column in result.columns)
    sentences += map(offer_sentence, result.offers[:1])
    sentences.append(layers)
    return [text for text in sentences if text]


def headline(result: Comparison, after: Sequence[str]) -> tuple[str, int]:
    """The verdicts that fit into a headline of four lines (at least one), with what is said after
    them, and how many they are."""
    answer = ""
    shown = len(result.verdicts)
    # in full, in brief, then fewer of them
    for brief in (False, True):
        answer = _headline(result, after, shown, brief=brief)
        if height(answer) <= MOST_LINES:
            return answer, shown
    while shown > 1 and height(answer) > MOST_LINES:
        shown -= 1
        answer = _headline(result, after, shown, brief=True)
    return answer, shown


def _headline(result: Comparison, after: Sequence[str], shown: int, *, brief: bool) -> str:
    parts = []
    named = ""
    for verdict in result.verdicts[:shown]:
        text = verdict_sentence(result, verdict, brief=brief)
        # the collective is named once for all its rank counts
        parts.append(text.removeprefix(named) if named else text)
        named = f"{_collective(verdict)}, "
    left = len(result.verdicts) - shown
    if left:
        parts.append(f"{counted(left, 'more verdict')} under Conclusions")
    return f"{'. '.join([*parts, *after])}."


def height(text: str, width: int = WIDTH) -> int:
    return len(fill(text, width, break_on_hyphens=False).splitlines())


def rows_that_fit(lines_above: int) -> int:
    """How many rows of a table fit a terminal of the usual size."""
    return max(1, min(MOST_ROWS, HEIGHT - _FRAME - lines_above))


def lists_that_fit(
    lists: Iterable[tuple[str, Sequence[str]]], lines_above: int, rows: int
) -> list[Block]:
    """Lists under their titles, each with as many lines as are left on a terminal of the usual size
    under the headline and the rows of a table; the rest is for ``--all``."""
    left = HEIGHT - _FRAME - lines_above - min(rows, MOST_ROWS)
    blocks: list[Block] = []
    for title, lines in lists:
        used = 2
        first = 0
        for line in lines:
            needed = height(line, WIDTH - 2)
            if used + needed > left:
                break
            used += needed
            first += 1
        if first:
            left -= used
        if lines:
            blocks.append(Lines(title, lines, first=first))
    return blocks
