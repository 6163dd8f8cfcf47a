"""``sensitivity``: how safe a choice is while its numbers are uncertain; fabrics against each other
under the same draws.

Read from :data:`VIEWS`, at the end: one fabric (``_sensitivity_*``) is the first half, several
under the same draws (``_contest_*``) the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from colltool.analysis.break_even import BreakEven
from colltool.analysis.contest import Beats, Contest, ContestSide
from colltool.analysis.outcomes import SAME
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
from colltool.render.assumption_differences import BasisDocument, basis_block, basis_summary
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


def _ends(number: ParameterRange | ValueOfInformation, between: str) -> str:
    """Such as ``1 us to 2 us``."""
    return f"{quantity(number.key, number.low)} {between} {quantity(number.key, number.high)}"


def _value(row: BreakEven) -> str:
    return quantity(row.key, row.value)


def _between(row: ValueOfInformation) -> str:
    return _ends(row, "and")


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


def _samples_text(result: Sensitivity | Contest) -> str:
    samples = counted(result.samples, "sample")
    if result.samples == result.samples_asked:
        return samples
    return f"{samples} (not {result.samples_asked}: there are too many numbers)"


_MOST_NUMBERS = 12  # whose ranges are listed


def _facts(result: Sensitivity) -> tuple[str, ...]:
    """How many samples were drawn, and from which ranges."""
    whose = "ranges assumed, as none were given" if result.assumed else "ranges as given"
    numbers = counted(len(result.numbers), "number")
    lines = [f"{_samples_text(result)} of {numbers}, seed {result.seed}; {whose}"]
    for number_range in result.numbers[:_MOST_NUMBERS]:
        value = quantity(number_range.key, number_range.value)
        lines.append(f"  {number_range.key} {value}: {_ends(number_range, 'to')}")
    if len(result.numbers) > _MOST_NUMBERS:
        lines.append("  ...")
    return tuple(lines)


def _sensitivity_blocks(result: Sensitivity) -> list[Block]:
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


def _sensitivity_table(result: Sensitivity) -> Table:
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


def _sensitivity_summary(result: Sensitivity) -> str:
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


# --- fabrics against each other


class _SideLine(NamedTuple):
    """A fabric, and how it compares with the first; None for the first."""

    side: ContestSide
    beats: Beats | None


def _lines(result: Contest) -> list[_SideLine]:
    beats: Sequence[Beats | None] = (None, *result.beats)
    return list(map(_SideLine, result.sides, beats))


_CONTEST: Columns[_SideLine] = (
    label("name", "fabric", path="side.name"),
    label("algorithm", "fastest, nominal", drop=4, path="side.algorithm"),
    number("nominal_s", "nominal", format_time, drop=1, path="side.nominal_s"),
    number("p5_s", "5th percentile", format_time, drop=3, path="side.p5_s"),
    number("p50_s", "median", format_time, path="side.p50_s"),
    number("p95_s", "95th percentile", format_time, drop=3, path="side.p95_s"),
    number("faster", "faster", percent, path="beats.faster"),
    number("same", f"same to {SAME:.0%}", percent, drop=2, path="beats.same"),
    number("slower", "slower", percent, drop=2, path="beats.slower"),
    number("ratio_p5", "ratio, 5th percentile", format_factor, drop=2, path="beats.ratio_p5"),
    number("ratio_p50", "median ratio", format_factor, path="beats.ratio_p50"),
    number("ratio_p95", "ratio, 95th percentile", format_factor, drop=2, path="beats.ratio_p95"),
)


def _contest_table(result: Contest) -> Table:
    return Table(_CONTEST, tuple(_lines(result)))


def _contest_blocks(result: Contest) -> list[Block]:
    """Which fabric wins in how many samples, and which of their numbers were drawn together."""
    first = result.sides[0].name
    lines = [f"{_samples_text(result)}, seed {result.seed}"]
    for side in result.sides:
        whose = "assumed, as none were given" if side.assumed else "as given"
        ranges = ", ".join(
            f"{number_range.key} {_ends(number_range, 'to')}" for number_range in side.numbers
        )
        lines.append(f"  {side.name}, ranges {whose}: {ranges or 'none'}")
    for beats in result.beats:
        shared = ", ".join(beats.shared) or "nothing"
        pair = f"{first} and {beats.name}"
        lines.append(f"  drawn together for {pair}: {shared}; all others separately")
    size = f"{result.ranks} ranks, {title_size(result.bytes)} per rank"
    mode = CONTENTION[ideal_or_realistic(result)]
    question = f"{result.primitive.label} against {first}, {size}, {mode}"
    return [
        Headline(f"{'. '.join(contest_verdict(result))}. {sentence(question)}."),
        _contest_table(result),
        Lines("samples", tuple(lines), first=1),
        *basis_block(result.ground, [result.ranks]),
    ]


def contest_verdict(result: Contest) -> tuple[str, ...]:
    """A sentence on each fabric compared with the first."""
    return tuple(_against_first(result.sides[0].name, beats) for beats in result.beats)


def _against_first(first: str, beats: Beats) -> str:
    # None where the two are not compared
    ratios = (beats.ratio_p5, beats.ratio_p50, beats.ratio_p95)
    known = [format_factor(ratio) for ratio in ratios if ratio is not None]
    if beats.faster is None or len(known) < len(ratios):
        why = "only one of the two includes launch overhead, and it matters at this size"
        return f"{beats.name} is not comparable with {first}: {why}"
    low, middle, high = known
    how = f"{beats.name} is faster than {first} in {percent(beats.faster)} of the samples"
    same = f" and equal within {SAME:.0%} in {percent(beats.same)}" if beats.same else ""
    takes = f"Its time is {middle} that of {first} ({low} to {high}, 90% interval)"
    return f"{how}{same}. {takes}"


def _contest_summary(result: Contest) -> str:
    return "; ".join((*contest_verdict(result), *basis_summary(result.ground)))


class SideDocument(Document):
    """A fabric, and how it compares with the first."""

    name: str = derived("side.name")
    fabric: str = derived("side.fabric")
    algorithm: str = derived("side.algorithm")
    nominal_s: float = derived("side.nominal_s")
    p5_s: float = derived("side.p5_s")
    p50_s: float = derived("side.p50_s")
    p95_s: float = derived("side.p95_s")
    assumed: bool = derived("side.assumed")
    faster: float | None = derived("beats.faster")
    same: float | None = derived("beats.same")
    slower: float | None = derived("beats.slower")
    ratio_p5: float | None = derived("beats.ratio_p5")
    ratio_p50: float | None = derived("beats.ratio_p50")
    ratio_p95: float | None = derived("beats.ratio_p95")
    # the first is compared with nothing
    shared: list[str] = derived(lambda line: line.beats.shared if line.beats else ())
    compared: bool = derived(lambda line: line.beats is None or line.beats.compared)
    ranges: list[RangeDocument] = derived("side.numbers")


def _side_documents(result: Contest) -> tuple[dict[str, Any], ...]:
    return tuple(map(SideDocument.of, _lines(result)))


class ContestDocument(Document):
    """Fabrics against the first under the same draws."""

    primitive: str
    ranks: int
    bytes: float = derived(whole_size)
    mode: str = derived(ideal_or_realistic)
    samples: int
    samples_asked: int
    seed: int
    rows: list[SideDocument] = derived(_side_documents)
    verdict: list[str] = derived(contest_verdict)
    ground: list[BasisDocument]


VIEWS = {
    Sensitivity: View(
        "sensitivity",
        _sensitivity_blocks,
        SensitivityDocument.of,
        _sensitivity_table,
        _sensitivity_summary,
    ),
    Contest: View(
        "sensitivity-compare",
        _contest_blocks,
        ContestDocument.of,
        _contest_table,
        _contest_summary,
    ),
}
