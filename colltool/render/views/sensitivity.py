"""``sensitivity``: how safe a choice of algorithm is while the fabric's numbers are uncertain.

:func:`verdict` is the headline, :func:`_blocks` the screen. Each sample draws all uncertain numbers from their
ranges: ``holds`` is the share of samples that the choice wins, ``regret_p95`` by how much it is slower than the
fastest in the worst of 95 of 100. A flip is the smallest change of a number that makes another algorithm win;
``telling`` are the numbers that are worth knowing exactly, the most first. Several fabrics under the same
draws are in ``contest``; the first functions, numbers and ranges in words, are for steps and tokens under
uncertain numbers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colltool.analysis.break_even import BreakEven
from colltool.analysis.contest import Contest
from colltool.analysis.sensitivity import Sensitivity, Spread, TornadoBar, ValueOfInformation
from colltool.base.formatting import (
    counted,
    format_factor,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.fabric.ranges import ParameterRange
from colltool.render.blocks import Block, Column, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, context, fabric_of, listed
from colltool.render.documents import Document, derived, or_null
from colltool.render.estimates import CONTENTION, ModelDocument, library_in_title, readings_block
from colltool.render.shared_documents import (
    GroupDocument,
    OnFabricDocument,
    ideal_or_realistic,
    model_echo,
    whole_size,
)

_MOST_NUMBERS = 12  # whose ranges are listed
_MOST_MOVED = 6  # rows of numbers that move a time, without --all
_MOST_TELLING = 5  # numbers that are worth measuring

if TYPE_CHECKING:
    from colltool.analysis.step_spread import StepTornadoBar
    from colltool.serving.spread import ServedBar


def quantity(key: str, value: float) -> str:
    """A number of a fabric in its unit, which the end of its key tells: ``ib.bandwidth``."""
    last = key.rpartition(".")[2]
    if last in ("alpha_switch", "post", "launch_overhead"):
        return format_time(value)
    # any alpha is a time but eta.alpha, a factor
    if last == "alpha" and not key.endswith("eta.alpha"):
        return format_time(value)
    if last in ("bandwidth", "local_copy"):
        return format_rate(value)
    return f"{value:.4g}"


def times_at_ends(bar: StepTornadoBar | ServedBar) -> str:
    """The times with a number at either end of its range: ``1.2 s at 1 us, 1.4 s at 4 us``."""
    key = bar.number.key
    low = f"{format_time(bar.low_s)} at {quantity(key, bar.number.low)}"
    high = f"{format_time(bar.high_s)} at {quantity(key, bar.number.high)}"
    return f"{low}, {high}"


def rows_that_move(bars: Sequence[StepTornadoBar | ServedBar]) -> int:
    """How many numbers the first screen shows: those that move a time, at least one."""
    moving = sum(bar.span_s > 0 for bar in bars)
    return max(1, min(moving, _MOST_MOVED))


def range_ends(number: ParameterRange | ValueOfInformation, between: str) -> str:
    """``1 us to 2 us``; ``between``: the word in the middle."""
    return f"{quantity(number.key, number.low)} {between} {quantity(number.key, number.high)}"


_FLIPS: Columns[BreakEven] = (
    label("key", "number"),
    label("value", "changes the winner at", get=lambda flip: quantity(flip.key, flip.value)),
    number("factor", "times its value", format_factor),
)
_TELLING: Columns[ValueOfInformation] = (
    label("key", "number"),
    label("range", "between", get=lambda number: range_ends(number, "and")),
    number("gain_s", "saves on average", format_time),
)


def _name(result: Sensitivity, algorithm: str) -> str:
    """The library's name of an algorithm, else ours."""
    names = {row.algorithm: row.name for row in result.rows}
    return names.get(algorithm) or algorithm


def verdict(result: Sensitivity) -> str:
    """Say how safe the choice is, what it costs if wrong, and what would change it."""
    winner = _name(result, result.winner)
    return f"{winner} is {_how_safe(result)}{_cost_if_wrong(result)}. {_first_flip(result)}"


def _how_safe(result: Sensitivity) -> str:
    """``a safe choice: the fastest in 97.1% of 2,000 samples, and within 1% of it in the others``."""
    share = f"the fastest in {percent(result.holds)} of {result.samples:,} samples"
    ranges = {number.key: number for number in result.numbers}
    flips_in_range = any(
        ranges[flip.key].low <= flip.value <= ranges[flip.key].high for flip in result.flips
    )
    # a share that is shown as 100%
    if result.holds > 0.9995 and not flips_in_range:
        return f"a safe choice: {share}"
    if result.regret_p95 < 0.01:
        return f"a safe choice: {share}, and within 1% of it in the others"
    return share


def _cost_if_wrong(result: Sensitivity) -> str:
    """A sentence on what the winner loses against the best of a sample; empty where that is shown as
    0.0%."""
    if result.regret_p95 < 0.0005:
        return ""
    return f". If wrong, it costs at most {percent(result.regret_p95)} (in 95 of 100 samples)"


def _first_flip(result: Sensitivity) -> str:
    """``Tree wins if ib.alpha falls below 1.2 us (0.4x of the file's value)``: of the flip with the
    smallest change, or that there is none."""
    if result.flips:
        flip = result.flips[0]
        moves = "falls below" if flip.factor < 1 else "rises above"
        number_text = flip.key
        value = quantity(flip.key, flip.value)
        if flip.key.endswith(".eta.beta"):
            number_text = f"the bandwidth efficiency of {flip.key.removesuffix('.eta.beta')}"
            value = whole_percent(flip.value)
        factor = format_factor(flip.factor, 2)
        winner = _name(result, flip.winner)
        return f"{winner} wins if {number_text} {moves} {value} ({factor} of the file's value)"
    none = "No single number"
    if result.flips_sought < len(result.numbers):
        none = f"None of the {result.flips_sought} most influential numbers"
    return f"{none} changes that within a factor of 100"


def samples_text(result: Sensitivity | Contest) -> str:
    """``2,000 samples``, and where that are fewer than were asked for, why."""
    samples = counted(result.samples, "sample")
    if result.samples == result.samples_asked:
        return samples
    return f"{samples} (not {result.samples_asked}: there are too many numbers)"


def _facts(result: Sensitivity) -> tuple[str, ...]:
    """Lines: how many samples were drawn, then the range of each number."""
    ranges = "ranges assumed, as none were given" if result.assumed else "ranges as given"
    numbers = counted(len(result.numbers), "number")
    lines = [f"{samples_text(result)} of {numbers}, seed {result.seed}; {ranges}"]
    for number_range in result.numbers[:_MOST_NUMBERS]:
        value = quantity(number_range.key, number_range.value)
        lines.append(f"  {number_range.key} {value}: {range_ends(number_range, 'to')}")
    if len(result.numbers) > _MOST_NUMBERS:
        lines.append("  ...")
    return tuple(lines)


def _blocks(result: Sensitivity) -> list[Block]:
    """Who wins in how many samples, which number turns it, and what is worth measuring."""
    sampling, *ranges = _facts(result)
    blocks: list[Block] = [
        Headline(f"{verdict(result)}. {sentence(sensitivity_title(result))}."),
        _samples(result, people=True),
        Lines(sampling, ()),
        Lines("ranges", tuple(ranges), first=0),
        *readings_block(result.readings),
        *listed("notes", result.held, first=0),
    ]
    if result.flips:
        winner: Column[BreakEven] = label(
            "winner", "then fastest", fold=22, get=lambda flip: _name(result, flip.winner)
        )
        title = "the smallest change of one number that changes the winner"
        blocks.append(Table((*_FLIPS, winner), result.flips, title=title, first=2))
    if result.telling:
        title = "time saved on average by knowing one number exactly"
        blocks.append(Table(_TELLING, result.telling[:_MOST_TELLING], title=title, first=1))
    if result.experiment:
        # an experiment is for the number that is most worth knowing
        title = f"to measure {result.telling[0].key}"
        blocks.append(Lines(title, (result.experiment,), verbatim=True))
    return blocks


_TIMES: Columns[Spread] = (
    number("nominal_s", "nominal", format_time, drop=1),
    number("p5_s", "5th percentile", format_time, drop=3),
    number("p50_s", "median", format_time, drop=2),
    number("p95_s", "95th percentile", format_time, drop=3),
)


def _samples(result: Sensitivity, *, people: bool = False) -> Table:
    """The times of each algorithm; for ``people`` by the library's names."""
    algorithm: Column[Spread] = label("algorithm", fold=22)
    columns: list[Column[Spread]] = [
        *_TIMES,
        number("wins", "wins", percent),
        label("spec", hidden=True),
    ]
    if people:
        algorithm = algorithm._replace(get=lambda row: _name(result, row.algorithm))
        if any(_name(result, row.algorithm).lower() != row.algorithm for row in result.rows):
            how: Column[Spread] = label(
                "how", "inside / across", fold=22, get=lambda row: result.how[row.algorithm]
            )
            columns.insert(0, how)
    context_columns = context(
        fabric=result.fabric,
        primitive=result.primitive,
        ranks=result.group.ranks,
        bytes=whole_bytes(result.bytes),
    )
    return Table((*context_columns, algorithm, *columns), result.rows)


def sensitivity_title(result: Sensitivity) -> str:
    """``all-reduce on dgx-h100, 64 ranks, 32MB per rank, ...``: what was asked."""
    parts = [
        f"{result.primitive.label} on {fabric_of(result)}",
        result.group.label,
        f"{title_size(result.bytes)} per rank",
    ]
    if result.library:
        parts.append(library_in_title(result.library, leads=result.library_leads))
    parts.append(CONTENTION[ideal_or_realistic(result)])
    return ", ".join(parts)


def _summary(result: Sensitivity) -> str:
    return f"{sensitivity_title(result)}: {verdict(result)}"


class RangeDocument(Document, of=ParameterRange):
    """The range that a number of a fabric is drawn from."""

    key: str
    value: float
    low: float
    high: float


class SensitivityDocument(OnFabricDocument):
    """How safe a choice is while its numbers are uncertain."""

    primitive: str
    ranks: int = derived("group.ranks")
    group: GroupDocument
    bytes: float = derived(whole_size)
    mode: str = derived(ideal_or_realistic)
    model: ModelDocument = derived(model_echo)
    winner: str
    name: str = derived(lambda result: _name(result, result.winner))
    spec: str
    holds: float
    regret_mean: float
    seed: int
    samples: int
    samples_asked: int
    rows: list[Spread]
    regret_p95: float
    flips: list[BreakEven]
    flips_sought: int
    moves: list[TornadoBar]
    telling: list[ValueOfInformation]
    experiment: str | None = or_null("experiment")
    ranges: list[RangeDocument] = derived("numbers")
    assumed: bool
    verdict: str = derived(verdict)


VIEWS = {Sensitivity: View("sensitivity", _blocks, SensitivityDocument.of, _samples, _summary)}
