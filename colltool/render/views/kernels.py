"""``price`` and ``crossover`` by measured kernels of engines and expert libraries.

Read from :data:`VIEWS`, at the end: prices (``_list_*``), then crossovers (``_cross_*``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.formatting import (
    counted,
    format_bytes,
    format_rate,
    format_time,
    sentence,
    size_text,
    whole_percent,
)
from colltool.engines.intervals import ERROR_UNKNOWN
from colltool.engines.lookup import WARNING
from colltool.engines.results import (
    KernelChoice,
    KernelCrossover,
    KernelEstimate,
    KernelPrice,
    KernelPriceList,
    Threshold,
)
from colltool.estimate.results import Accuracy, Infeasible
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    columns_at,
    flag,
    label,
    lines_by_names,
    number,
)
from colltool.render.busbw_chart import BusbwChart, curves
from colltool.render.dispatch import View, context, fabric_of, listed
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import IntervalDocument, nine_in_ten, within
from colltool.render.shared_documents import GroupDocument, OnFabricDocument


class _KernelLine(NamedTuple):
    """A row of the table: a kernel at one size."""

    price: KernelPrice
    row: KernelEstimate

    @property
    def within(self) -> str:
        return nine_in_ten(self.row.interval, self.row.total_s)


_LAUNCHED = {"graph": ", in a CUDA graph", "eager": ", eager", None: ""}
_CALLED = {
    "graph": "the kernel alone",
    "eager": "as the host calls it (eager)",
}


def _question(price: KernelPrice) -> str:
    what = price.operation.replace("_", "-").capitalize()
    tokens = price.what
    if tokens is None:
        size = f"{size_text(price.bytes)} per rank{_LAUNCHED[price.mode]}"
    else:
        size = (
            f"{counted(tokens.tokens, 'token')} per rank, hidden {tokens.hidden}, top"
            f" {tokens.top_k} of {tokens.experts} experts, {tokens.dtype},"
            f" {_CALLED[price.best.mode]}"
        )
    return f"{what} on {fabric_of(price)}, {price.group.label}, {size}"


def _answer(price: KernelPrice) -> str:
    best = price.best
    fastest = price.fastest
    off = f" ({within(best.interval, best.total_s)})" if best.interval else ""
    rate = f"busbw {format_rate(best.busbw_Bps)}"
    if price.what is not None:
        rate = f"{format_bytes(best.bytes)} sent per rank"
        if best.bytes:
            rate += f" in {best.sends}"
    kernel = best.kernel if best.kernel == best.library else f"{best.library} {best.kernel}"
    answer = f"{kernel}: {format_time(best.total_s)}{off}, {rate}."
    answer = " ".join([*warnings_first(price.notes), answer, f"{_question(price)}."])
    if not best.interval:
        answer += f" {sentence(best.measured)}."
    # less than 2% is within the noise of a measurement
    faster = fastest.total_s < best.total_s * 0.98
    if faster and fastest.measured_here:
        times = f"{best.total_s / fastest.total_s:.3g} times faster"
        took = format_time(fastest.total_s)
        answer += f" {fastest.kernel} would take {took}, {times}, but is not what runs."
    return answer


def warnings_first(notes: Sequence[str]) -> list[str]:
    """Warnings of the notes as sentences that an answer begins with, such as that the numbers are of
    another version."""
    found = [note.removeprefix(WARNING) for note in notes if note.startswith(WARNING)]
    return [f"{sentence(warning)}." for warning in found]


def without_warnings(notes: Sequence[str]) -> list[str]:
    return [note for note in notes if not note.startswith(WARNING)]


_ROW: Columns[_KernelLine] = (
    *columns_at(
        "row",
        (
            label("kernel"),
            label("library", drop=3),
            number("total_s", "total"),
            number("latency_s", "latency", drop=2),
            number("bandwidth_s", "bandwidth", drop=2),
            number("busbw_Bps", "busbw", drop=4),
            number("sent_bytes", "sent", format_bytes, drop=5, path="bytes"),
        ),
    ),
    label("within", "nine in ten", drop=1),
    *columns_at(
        "row",
        (
            number("error", "median error", whole_percent, hidden=True),
            label("sends", drop=5),
            label("wire", "link", drop=6),
            flag("picked", drop=7),
            label("measured", "measured on", drop=8),
            label("formula", hidden=True),
        ),
    ),
)


def _price_table(prices: Sequence[KernelPrice]) -> Table:
    """The kernels at all sizes; the question is in hidden columns, for CSV."""
    first = prices[0]
    records: list[_KernelLine] = []
    for price in prices:
        records += [_KernelLine(price, estimate) for estimate in price.results]
    columns: Columns[_KernelLine] = (
        *context(
            first.overrides, fabric=first.fabric, collective=first.operation, ranks=first.ranks
        ),
        number("bytes", "size", size_text, hidden=len(prices) == 1, path="price.bytes"),
        *_ROW,
    )
    table = Table(columns, records, 0 if len(prices) == 1 else None)
    # a call of experts sends what its tokens say, which is no bus bandwidth
    if first.what is None:
        return table.without("sent_bytes", "sends")
    return table.without("busbw_Bps")


def _notes(prices: Sequence[KernelPrice]) -> Iterator[Block]:
    """Why the library takes a kernel, then notes without repetition, and kernels that were refused."""
    notes: dict[str, None] = {}
    of_rows: list[tuple[str, str]] = []
    refused: dict[str, None] = {}
    choices: dict[KernelChoice, None] = {}
    for price in prices:
        notes |= dict.fromkeys(price.notes)
        refused |= dict.fromkeys(f"{name}: {why}" for name, why in price.refused)
        if price.library is not None:
            choices[price.library] = None
        for estimate in price.results:
            of_rows += [(note, estimate.kernel) for note in estimate.notes]
    for choice in list(choices)[:_MOST_CHOICES]:
        picked = f"{choice.name}@{choice.version} picks {choice.kernel}"
        yield Lines(f"{picked}: {choice.reason}", ())
    # the answer begins with a warning
    lines = [*without_warnings(tuple(notes)), *lines_by_names(of_rows)]
    yield from listed("notes", lines, first=2)
    yield from listed("not measured here", refused, first=0)


_MOST_CHOICES = 3  # of kernels, with the reason


def _chart(result: KernelPriceList) -> BusbwChart | None:
    """Bus bandwidth of each kernel. None for experts, whose sizes are tokens."""
    first = result.prices[0]
    if first.what is not None:
        return None
    points = []
    for price in result.prices:
        points += [(estimate.kernel, price.bytes, estimate.busbw_Bps) for estimate in price.results]
    title = f"{first.operation.replace('_', '-')} on {first.fabric}, {first.group.label}"
    return BusbwChart(title, curves(points))


def _list_blocks(result: KernelPriceList) -> Iterator[Block]:
    prices = result.prices
    yield Headline(_answer(prices[0]) if len(prices) == 1 else _several(result))
    yield _price_table(prices)
    yield from _notes(prices)


def _several(result: KernelPriceList) -> str:
    first = result.prices[0]
    names = dict.fromkeys(price.best.kernel for price in result.prices)
    what = first.operation.replace("_", "-")
    where = f"{what} on {fabric_of(first)}, {first.group.label}"
    where += _LAUNCHED[first.mode]
    answer = f"{first.best.library} picks {', then '.join(names)}: {where}."
    return " ".join([*warnings_first(first.notes), answer])


def _list_table(result: KernelPriceList) -> Table:
    return _price_table(result.prices)


def _list_summary(result: KernelPriceList) -> str:
    return "\n".join(map(_answer, result.prices))


def no_kernel_interval(row: Any) -> Any:
    """Why a price by a kernel has no interval."""
    return ERROR_UNKNOWN if row.interval is None else LEFT_OUT


def _nothing(_: KernelEstimate) -> float:
    return 0.0


class KernelRowDocument(Document, of=KernelEstimate):
    """A price by a measured kernel, with the keys of other prices where they mean the same."""

    algorithm: str = derived("kernel")
    detail: str = derived(lambda _: "")
    spec: str = derived("kernel")
    library: str
    alpha_s: float = derived("latency_s")
    bandwidth_s: float
    # a kernel's latency has its launch and its software in it
    overhead_s: float = derived(_nothing)
    software_s: float = derived(_nothing)
    total_s: float
    bound: str
    algbw_Bps: float
    busbw_Bps: float
    wire: str
    formula: str
    error: float | None
    error_of: str
    measured: str
    bytes: float
    sends: str = optional(lambda row: row.sends or LEFT_OUT)
    mode: str = optional(lambda row: row.mode if row.sends else LEFT_OUT)
    leads: bool = derived("picked")
    notes: list[str]
    interval: IntervalDocument | None
    no_interval: str = optional(no_kernel_interval)


def _size(price: KernelPrice) -> int:
    return round(price.bytes if price.what is None else price.best.bytes)


def _refused(price: KernelPrice) -> tuple[Infeasible, ...]:
    return tuple(Infeasible(*pair) for pair in price.refused)


def _accuracy(price: KernelPrice) -> Accuracy | None:
    best = price.best
    if best.error is None:
        return None
    most = best.interval and best.interval.larger_side(best.total_s)
    return Accuracy(best.error, most, rows=0, like=best.error_of)


def _tokens(name: str) -> Any:
    """Declare a key of a call of experts, which other calls do not have."""
    return optional(lambda price: LEFT_OUT if price.what is None else getattr(price.what, name))


class KernelSizeDocument(OnFabricDocument):
    """The prices by kernels at one size."""

    primitive: str = derived("operation")
    ranks: int
    group: GroupDocument
    bytes: int = derived(_size)
    tokens: int = _tokens("tokens")
    top_k: int = _tokens("top_k")
    hidden: int = _tokens("hidden")
    experts: int = _tokens("experts")
    dtype: str = _tokens("dtype")
    sms: int = _tokens("sms")
    groups: int = _tokens("groups")
    skew: float = _tokens("skew")
    mode: str = derived(lambda _: "realistic")
    launch: str = optional(lambda price: price.mode or LEFT_OUT)
    results: list[KernelRowDocument]
    infeasible: list[Infeasible] = derived(_refused)
    library: KernelChoice = optional("library")
    notes: list[str]
    accuracy: Accuracy | None = derived(_accuracy)


class KernelPriceDocument(KernelSizeDocument):
    """The prices by kernels at one or several sizes; a single one has its fields at the top as
    well."""

    sizes: list[KernelSizeDocument]


def _list_document(result: KernelPriceList) -> dict[str, Any]:
    sizes = [KernelSizeDocument.of(price) for price in result.prices]
    if len(sizes) == 1:
        return sizes[0] | {"sizes": sizes}
    return {"sizes": sizes}


# --- crossover


class _KernelSwitch(NamedTuple):
    """Where one kernel gives way to another, by the library's own table or by the measured laws."""

    change: str
    below: str
    above: str
    bytes: float
    equal_bytes: float | None = None
    apart_s: float | None = None


_CROSSING: Columns[_KernelSwitch] = (
    label("change", "by"),
    label("below"),
    label("above"),
    number("bytes", "changes at", size_text),
    number("equal_bytes", "equal at", size_text),
    number("apart_s", "difference", drop=1),
)


def _crossings(result: KernelCrossover) -> Table:
    changes = []
    for threshold in result.thresholds:
        change = _KernelSwitch(
            "its table",
            threshold.below,
            threshold.above,
            threshold.at_bytes,
            equal_bytes=threshold.equal_bytes,
            apart_s=threshold.costs_s,
        )
        changes.append(change)
    for size, below, above in result.crossings:
        changes.append(_KernelSwitch("measured formulas", below, above, size))
    context_columns = context(result.overrides, fabric=result.fabric, library=result.library)
    return Table((*context_columns, *_CROSSING), changes)


def _threshold_text(threshold: Threshold) -> str:
    """Whether a threshold of the library's table is where two kernels are equally fast."""
    size = size_text(threshold.at_bytes)
    apart = format_time(threshold.costs_s)
    changes = f"it changes from {threshold.below} to {threshold.above} at {size}"
    if threshold.equal_bytes is None:
        return f"{changes}, but {threshold.faster} is faster at every size, by {apart} there"
    # a tenth either way: the formulas are not more precise
    if 0.9 < threshold.at_bytes / threshold.equal_bytes < 1.12:
        return f"{changes}, where the two are equally fast"
    far = "" if threshold.measured else " (not measured at these sizes)"
    equal = f"the two are equally fast at {size_text(threshold.equal_bytes)}{far}"
    return f"{changes}; {equal} and differ by {apart} at {size}"


def _cross_answer(result: KernelCrossover) -> str:
    return " ".join([*warnings_first(result.notes), _largest_threshold(result)])


def _largest_threshold(result: KernelCrossover) -> str:
    where = f"on {fabric_of(result)}, {result.group.label}"
    where += _LAUNCHED[result.mode]
    if result.thresholds:
        worst = max(result.thresholds, key=attrgetter("costs_s"))
        return f"{result.library} {where}: {_threshold_text(worst)}."
    if result.crossings:
        steps = []
        for size, below, above in result.crossings:
            steps.append(f"{below} below {size_text(size)} and {above} above")
        return (
            f"Fastest of {result.library} {where}: {', '.join(steps)}. What it picks is not known."
        )
    return f"One kernel of {result.library} is the fastest at every size {where}."


def _cross_blocks(result: KernelCrossover) -> Iterator[Block]:
    yield Headline(_cross_answer(result))
    yield _crossings(result)
    # a single one is in the answer
    if len(result.thresholds) > 1:
        yield Lines("its thresholds", list(map(_threshold_text, result.thresholds)), first=2)
    yield from listed("notes", without_warnings(result.notes), first=2)


class KernelCrossing(NamedTuple):
    bytes: float
    faster_below: str
    faster_above: str


def _crossing_records(result: KernelCrossover) -> tuple[KernelCrossing, ...]:
    return tuple(KernelCrossing(*crossing) for crossing in result.crossings)


class KernelCrossoverDocument(OnFabricDocument):
    """Where one kernel gives way to another."""

    primitive: str = derived("operation")
    ranks: int
    group: GroupDocument
    library: str
    launch: str = optional(lambda result: result.mode or LEFT_OUT)
    crossings: list[KernelCrossing] = derived(_crossing_records)
    thresholds: list[Threshold]
    notes: list[str]


def _one_price(price: KernelPrice) -> KernelPriceList:
    return KernelPriceList((price,))


VIEWS = {
    KernelPrice: View(
        "price",
        lambda price: _list_blocks(_one_price(price)),
        lambda price: _list_document(_one_price(price)),
        lambda price: _list_table(_one_price(price)),
        _answer,
    ),
    KernelPriceList: View(
        "price", _list_blocks, _list_document, _list_table, _list_summary, chart=_chart
    ),
    KernelCrossover: View(
        "crossover", _cross_blocks, KernelCrossoverDocument.of, _crossings, _cross_answer
    ),
}
