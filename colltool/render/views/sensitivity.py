"""``sensitivity``: how safe a choice of algorithm is while the fabric's numbers are uncertain.

Read from :data:`VIEWS`: :func:`verdict` is the headline, :func:`_blocks` the screen. Several fabrics
under the same draws are in ``contest``.
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
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import Document, derived, or_null
from colltool.render.estimates import CONTENTION, ModelDocument, readings_block, running
from colltool.render.shared_documents import (
    GroupDocument,
    OnFabricDocument,
    ideal_or_realistic,
    model_echo,
    whole_size,
)

if TYPE_CHECKING:
    from colltool.analysis.step_spread import StepTornadoBar
    from colltool.serving.spread import ServedBar


def quantity(key: str, value: float) -> str:
    """A number of a fabric in its unit."""
    last = key.rpartition(".")[2]
    if last in ("alpha_switch", "post", "launch_overhead"):
        return format_time(value)
    # eta.alpha is a factor, any other alpha a time
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
    """Such as ``1 us to 2 us``."""
    return f"{quantity(number.key, number.low)} {between} {quantity(number.key, number.high)}"


def _value(row: BreakEven) -> str:
    return quantity(row.key, row.value)


def _between(row: ValueOfInformation) -> str:
    return range_ends(row, "and")


_FLIPS: Columns[BreakEven] = (
    label("key", "number"),
    label("value", "changes the winner at", get=_value),
    number("factor", "times its value", format_factor),
)
_TELLING: Columns[ValueOfInformation] = (
    label("key", "number"),
    label("range", "between", get=_between),
    number("gain_s", "saves on average", format_time),
)


def _name(result: Sensitivity, title: str) -> str:
    """The library's name of an algorithm, else ours."""
    names = {row.algorithm: row.name for row in result.rows}
    return names.get(title) or title


def verdict(result: Sensitivity) -> str:
    """How safe the choice is, what it costs if wrong, and what would change it."""
    return (
        f"{_name(result, result.winner)} is {_how_safe(result)}{_loses(result)}. {_turns(result)}"
    )


def _how_safe(result: Sensitivity) -> str:
    share = f"the fastest in {percent(result.holds)} of {result.samples:,} samples"
    ranges = {number.key: number for number in result.numbers}
    turned_inside = any(
        ranges[flip.key].low <= flip.value <= ranges[flip.key].high for flip in result.flips
    )
    # more would be shown as 100%
    if result.holds > 0.9995 and not turned_inside:
        return f"a safe choice: {share}"
    if result.regret_p95 < 0.01:
        return f"a safe choice: {share}, and within 1% of it in the others"
    return share


def _loses(result: Sensitivity) -> str:
    # less would be shown as 0.0%
    if result.regret_p95 < 0.0005:
        return ""
    return f". If wrong, it costs at most {percent(result.regret_p95)} (in 95 of 100 samples)"


def _turns(result: Sensitivity) -> str:
    """The values at which another schedule wins."""
    if result.flips:
        flip = result.flips[0]
        moves = "falls below" if flip.factor < 1 else "rises above"
        key, value = flip.key, _value(flip)
        if key.endswith(".eta.beta"):
            key = f"the bandwidth efficiency of {key.removesuffix('.eta.beta')}"
            value = whole_percent(flip.value)
        times = format_factor(flip.factor, 2)
        winner = _name(result, flip.winner)
        return f"{winner} wins if {key} {moves} {value} ({times} of the file's value)"
    none = "No single number"
    if result.flips_sought < len(result.numbers):
        none = f"None of the {result.flips_sought} most influential numbers"
    return f"{none} changes that within a factor of 100"


def samples_text(result: Sensitivity | Contest) -> str:
    samples = counted(result.samples, "sample")
    if result.samples == result.samples_asked:
        return samples
    return f"{samples} (not {result.samples_asked}: there are too many numbers)"


_MOST_NUMBERS = 12  # whose ranges are listed
_MOST_MOVED = 6  # rows of numbers that move a time, without --all


def _facts(result: Sensitivity) -> tuple[str, ...]:
    """How many samples were drawn, and from which ranges."""
    whose = "ranges assumed, as none were given" if result.assumed else "ranges as given"
    numbers = counted(len(result.numbers), "number")
    lines = [f"{samples_text(result)} of {numbers}, seed {result.seed}; {whose}"]
    for number_range in result.numbers[:_MOST_NUMBERS]:
        value = quantity(number_range.key, number_range.value)
        lines.append(f"  {number_range.key} {value}: {range_ends(number_range, 'to')}")
    if len(result.numbers) > _MOST_NUMBERS:
        lines.append("  ...")
    return tuple(lines)


def _blocks(result: Sensitivity) -> list[Block]:
    """Who wins in how many samples, which number turns it, and what is worth measuring."""
    drawn, *ranges = _facts(result)
    out: list[Block] = [
        Headline(f"{verdict(result)}. {sentence(sensitivity_title(result))}."),
        _samples(result, people=True),
        Lines(drawn, ()),
        Lines("ranges", tuple(ranges), first=0),
        *readings_block(result.readings),
        *listed("notes", result.held, first=0),
    ]
    if result.flips:
        then: Column[BreakEven] = label(
            "winner", "then fastest", fold=22, get=lambda flip: _name(result, flip.winner)
        )
        title = "the smallest change of one number that changes the winner"
        out.append(Table((*_FLIPS, then), result.flips, title=title, first=2))
    if result.telling:
        title = "time saved on average by knowing one number exactly"
        out.append(Table(_TELLING, result.telling[:5], title=title, first=1))
    if result.experiment:
        title = f"to measure {result.telling[0].key}"
        out.append(Lines(title, (result.experiment,), verbatim=True))
    return out


_TIMES: Columns[Spread] = (
    number("nominal_s", "nominal", format_time, drop=1),
    number("p5_s", "5th percentile", format_time, drop=3),
    number("p50_s", "median", format_time, drop=2),
    number("p95_s", "95th percentile", format_time, drop=3),
)


def _table(result: Sensitivity) -> Table:
    return _samples(result)


def _samples(result: Sensitivity, *, people: bool = False) -> Table:
    """The times of each algorithm; for ``people`` by the library's names."""
    names = {row.algorithm: _name(result, row.algorithm) for row in result.rows}
    first: Column[Spread] = label("algorithm", fold=22)
    columns: list[Column[Spread]] = [
        *_TIMES,
        number("wins", "wins", percent),
        label("spec", hidden=True),
    ]
    if people:
        first = first._replace(get=lambda row: names[row.algorithm])
        if any(name.lower() != algorithm for algorithm, name in names.items()):
            how = "inside / across"
            columns.insert(0, label("how", how, fold=22, get=lambda row: result.how[row.algorithm]))
    context_columns = context(
        fabric=result.fabric,
        primitive=result.primitive,
        ranks=result.group.ranks,
        bytes=whole_bytes(result.bytes),
    )
    return Table((*context_columns, first, *columns), result.rows)


def sensitivity_title(result: Sensitivity) -> str:
    library = ""
    if result.library:
        library = f", {running(result.library, leads=result.library_leads)}"
    where = on_fabric(result.fabric, result.overrides)
    size = f"{title_size(result.bytes)} per rank"
    what = f"{result.primitive.label} on {where}, {result.group.label}"
    return f"{what}, {size}{library}, {CONTENTION[ideal_or_realistic(result)]}"


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


VIEWS = {Sensitivity: View("sensitivity", _blocks, SensitivityDocument.of, _table, _summary)}
