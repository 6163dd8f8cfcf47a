"""Prices by kernels of engines and experts, their crossovers, and library files.

Read from :data:`VIEWS`, at the end: prices of kernels, their crossovers (``_cross_*``), the list
of libraries (``_library_*``), a library file (``_file_*``) and the difference of two (``_diff_*``)
follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_rate,
    format_time,
    ordinal,
    sentence,
    size_text,
    whole_percent,
)
from colltool.engines.intervals import ERROR_UNKNOWN
from colltool.engines.library_diff import LibraryDiff, PickChange
from colltool.engines.lookup import WARNING
from colltool.engines.results import (
    CheckedLibrary,
    DispatchRow,
    KernelChoice,
    KernelCrossover,
    KernelEstimate,
    KernelPrice,
    KernelPriceList,
    KernelRow,
    LibraryChecks,
    LibraryList,
    LibraryRow,
    LibraryShown,
    Threshold,
)
from colltool.estimate.results import Accuracy, Infeasible
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    flag,
    label,
    lines_by_names,
    number,
)
from colltool.render.busbw_chart import BusbwChart, curves
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import IntervalDocument, nine_in_ten, within
from colltool.render.shared_documents import FabricDocument, GroupDocument, OnFabricDocument
from colltool.render.views.checked_files import CheckDocument, checked


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
        experts = f"top {tokens.top_k} of {tokens.experts} experts"
        what_each = f"hidden {tokens.hidden}, {experts}, {tokens.dtype}"
        called = _CALLED[price.best.mode]
        size = f"{counted(tokens.tokens, 'token')} per rank, {what_each}, {called}"
    return f"{what} on {on_fabric(price.fabric, price.overrides)}, {price.group.label}, {size}"


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
    label("kernel", path="row.kernel"),
    label("library", drop=3, path="row.library"),
    number("total_s", "total", format_time, path="row.total_s"),
    number("latency_s", "latency", format_time, drop=2, path="row.latency_s"),
    number("bandwidth_s", "bandwidth", format_time, drop=2, path="row.bandwidth_s"),
    number("busbw_Bps", "busbw", format_rate, drop=4, path="row.busbw_Bps"),
    number("sent_bytes", "sent", format_bytes, drop=5, path="row.bytes"),
    label("within", "nine in ten", drop=1),
    number("error", "median error", whole_percent, hidden=True, path="row.error"),
    label("sends", drop=5, path="row.sends"),
    label("wire", "link", drop=6, path="row.wire"),
    flag("picked", drop=7, path="row.picked"),
    label("measured", "measured on", drop=8, path="row.measured"),
    label("formula", hidden=True, path="row.formula"),
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
    table = Table(columns, tuple(records), 0 if len(prices) == 1 else None)
    # a call of experts sends what its tokens say, which is no bus bandwidth
    if first.what is None:
        return table.without("sent_bytes", "sends")
    return table.without("busbw_Bps")


def _notes(prices: Sequence[KernelPrice]) -> list[Block]:
    """Why the library takes a kernel, then notes without repetition, and kernels that were refused."""
    lines: dict[str, None] = {}
    of_rows: list[tuple[str, str]] = []
    refused: dict[str, None] = {}
    choices: dict[KernelChoice, None] = {}
    for price in prices:
        lines |= dict.fromkeys(price.notes)
        refused |= dict.fromkeys(f"{name}: {why}" for name, why in price.refused)
        if price.library is not None:
            choices[price.library] = None
        for estimate in price.results:
            of_rows += [(note, estimate.kernel) for note in estimate.notes]
    # the answer begins with a warning
    notes = without_warnings(tuple(lines))
    notes += lines_by_names(of_rows)
    first = [
        f"{choice.name}@{choice.version} picks {choice.kernel}: {choice.reason}"
        for choice in choices
    ][:3]
    return [
        *(Lines(line, ()) for line in first),
        *listed("notes", notes, first=2),
        *listed("not measured here", refused, first=0),
    ]


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


def _list_blocks(result: KernelPriceList) -> list[Block]:
    prices = result.prices
    answer = _answer(prices[0]) if len(prices) == 1 else _several(result)
    return [Headline(answer), _price_table(prices), *_notes(prices)]


def _several(result: KernelPriceList) -> str:
    first = result.prices[0]
    names = dict.fromkeys(price.best.kernel for price in result.prices)
    what = first.operation.replace("_", "-")
    where = f"{what} on {on_fabric(first.fabric, first.overrides)}, {first.group.label}"
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
    number("apart_s", "difference", format_time, drop=1),
)


def _crossings(result: KernelCrossover) -> Table:
    changes = [
        _KernelSwitch("its table", at.below, at.above, at.at_bytes, at.equal_bytes, at.costs_s)
        for at in result.thresholds
    ]
    changes += [
        _KernelSwitch("measured formulas", below, above, at)
        for at, below, above in result.crossings
    ]
    context_columns = context(result.overrides, fabric=result.fabric, library=result.library)
    return Table((*context_columns, *_CROSSING), tuple(changes))


def _threshold_text(threshold: Threshold) -> str:
    """Whether a threshold of the library's table is where two kernels are equally fast."""
    at = size_text(threshold.at_bytes)
    apart = format_time(threshold.costs_s)
    pair = f"from {threshold.below} to {threshold.above}"
    if threshold.equal_bytes is None:
        slower = f"{threshold.faster} is faster at every size, by {apart} there"
        return f"it changes {pair} at {at}, but {slower}"
    # a tenth either way: the formulas are not more precise
    if 0.9 < threshold.at_bytes / threshold.equal_bytes < 1.12:
        return f"it changes {pair} at {at}, where the two are equally fast"
    far = "" if threshold.measured else " (not measured at these sizes)"
    equal = f"the two are equally fast at {size_text(threshold.equal_bytes)}{far}"
    return f"it changes {pair} at {at}; {equal} and differ by {apart} at {at}"


def _cross_answer(result: KernelCrossover) -> str:
    return " ".join([*warnings_first(result.notes), _largest_threshold(result)])


def _largest_threshold(result: KernelCrossover) -> str:
    where = f"on {on_fabric(result.fabric, result.overrides)}, {result.group.label}"
    where += _LAUNCHED[result.mode]
    if result.thresholds:
        worst = max(result.thresholds, key=attrgetter("costs_s"))
        return f"{result.library} {where}: {_threshold_text(worst)}."
    if result.crossings:
        steps = ", ".join(
            f"{below} below {size_text(at)} and {above} above"
            for at, below, above in result.crossings
        )
        return f"Fastest of {result.library} {where}: {steps}. What it picks is not known."
    return f"One kernel of {result.library} is the fastest at every size {where}."


def _cross_blocks(result: KernelCrossover) -> list[Block]:
    several = len(result.thresholds) > 1
    return [
        Headline(_cross_answer(result)),
        _crossings(result),
        *listed(
            "its thresholds", map(_threshold_text, result.thresholds if several else ()), first=2
        ),
        *listed("notes", without_warnings(result.notes), first=2),
    ]


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


# --- library files


def _gpus(row: LibraryRow | KernelRow | DispatchRow) -> str:
    return ", ".join(row.gpus)


def _rank_range(row: KernelRow | DispatchRow) -> str:
    return "-".join(map(str, dict.fromkeys(row.ranks)))


def _operations(row: LibraryRow) -> str:
    return ", ".join(row.operations)


def _spelled(operation: str) -> str:
    """The name as people write it: ``all-reduce``."""
    return operation.replace("_", "-")


def _first_few(operations: str) -> str:
    """Operations on a line of a list: of more than four the first."""
    first, *others = _spelled(operations).split(", ")
    if len(others) > 3:
        return f"{first} and {len(others)} more"
    return ", ".join([first, *others])


def _range_end(size: float) -> str:
    """The end of a table; none where it is beyond every size."""
    return size_text(size) if size < 2**50 else "any"


_LIBRARY: Columns[LibraryRow] = (
    label("name"),
    label("version"),
    label("spoken", "of", drop=3),
    label("operations", "kernels for", _first_few, get=_operations),
    label("gpus", "measured on", drop=1, get=_gpus),
)


def _library_table(result: LibraryList) -> Table:
    return Table(_LIBRARY, result.rows)


# so many libraries fit a screen
_LIBRARIES_SHOWN = 16


def _without_all_reduce(row: LibraryRow) -> bool:
    return "all_reduce" not in row.operations


def _by_name(rows: Sequence[LibraryRow]) -> tuple[LibraryRow, ...]:
    """Versions of a library that price the same operations in one row, those with an all-reduce
    first, to fit a screen."""
    merged: dict[tuple[str, str], LibraryRow] = {}
    for row in sorted(rows, key=_without_all_reduce):
        key = (row.name, _operations(row))
        version = row.version
        if key in merged:
            version = f"{merged[key].version},{version}"
        merged[key] = row._replace(version=version)
    return tuple(merged.values())


def _library_blocks(result: LibraryList) -> list[Block]:
    use = localize(
        either(
            shell="--library vllm@0.24.0 prices with one",
            python='library="vllm@0.24.0" prices with one',
        )
    )
    table = Table(_LIBRARY, _by_name(result.rows), first=_LIBRARIES_SHOWN)
    return [Headline(f"{len(result.rows)} libraries ship: {use}."), table]


def _library_names(result: LibraryList) -> str:
    names = ", ".join(f"{row.name}@{row.version}" for row in result.rows)
    return f"{len(result.rows)} libraries: {names}"


def _check_values(check: CheckedLibrary) -> Iterator[str]:
    row = check.row
    yield f"{row.name}@{row.version}: {counted(check.kernels, 'kernel')} for {_spelled(_operations(row))}"
    if row.gpus:
        yield f"measured on {_gpus(row)}"
    if check.thresholds:
        yield f"{counted(check.thresholds, 'row')} of what it picks at which size"


class LibrariesDocument(Document):
    """The library files that are known, or were checked."""

    libraries: list[LibraryRow] = derived("rows")


class LibraryCheckDocument(CheckDocument, LibrariesDocument):
    """Library files that can be read."""


_KERNEL: Columns[KernelRow] = (
    label("kernel"),
    label("operation", "for", _spelled),
    label("gpus", "GPU", get=_gpus),
    label("ranks", get=_rank_range),
    label("sizes", drop=2),
    label("formula", "seconds", drop=4),
    label("parameters", "with", drop=3),
    number("error", "median error", whole_percent, drop=1),
    label("said", "note", drop=5),
)
_DISPATCH: Columns[DispatchRow] = (
    label("kernel"),
    label("gpus", "GPU", get=_gpus),
    label("ranks", get=_rank_range),
    number("from_bytes", "from", size_text),
    number("to_bytes", "to", _range_end),
    flag("to_included", drop=1),
    label("per", drop=2),
)


def _file_table(result: LibraryShown) -> Table:
    return Table(_KERNEL, result.kernels)


_MOST_KERNELS = 10  # rows without --all


def _file_blocks(result: LibraryShown) -> list[Block]:
    """What a library's file holds: rules, kernels or a dispatch table, and their sources."""
    picks = Table(_DISPATCH, result.dispatch, title="what it picks")
    # a table that is the whole answer is the one that is cut short
    kernels = _file_table(result)
    if result.kernels:
        kernels = kernels._replace(first=_MOST_KERNELS)
        picks = picks._replace(first=0)
    else:
        picks = picks._replace(first=_MOST_KERNELS)
    first = 0 if result.kernels else 2
    return [
        Headline(f"{_file_summary(result)}."),
        *([kernels] if result.kernels else []),
        *([picks] if result.dispatch else []),
        *listed("rules", [f"{rule}: {value}" for rule, value in result.rules], first=12),
        *listed("versions measured", result.versions, first=0),
        *listed("not measured", _stand_ins(result), first=2),
        *listed("sources", result.sources, first=first),
    ]


def _stand_ins(result: LibraryShown) -> list[str]:
    return [f"{gpu}: the numbers of {other} are used" for gpu, other in result.like]


def _file_summary(result: LibraryShown) -> str:
    """Such as ``vllm@0.24.0 (vLLM): 10 kernels for all-reduce, median error 4% to 24%``."""
    name = f"{result.library} ({result.spoken})"
    if result.rules:
        return f"{name}: what it picks follows from its constants and these rules"
    if not result.kernels:
        return f"{name}: what it picks is in a table of {counted(len(result.dispatch), 'row')}"
    operations = dict.fromkeys(_spelled(row.operation) for row in result.kernels)
    text = f"{name}: {counted(len(result.kernels), 'kernel')} for {', '.join(operations)}"
    errors = [kernel.error for kernel in result.kernels if kernel.error is not None]
    if not errors:
        return text
    ends = dict.fromkeys(map(whole_percent, (min(errors), max(errors))))
    return f"{text}, median error {' to '.join(ends)}"


class LibraryDocument(Document):
    """What a library file says."""

    library: str
    spoken: str
    kernels: list[KernelRow]
    dispatch: list[DispatchRow]
    versions: list[str]
    like: dict[str, str] = derived(lambda result: dict(result.like))
    sources: list[str]
    rules: dict[str, str] = derived(lambda result: dict(result.rules))


# --- two versions of a library


def _diff_answer(result: LibraryDiff) -> str:
    where = f"From {result.old} to {result.new} on {result.fabric}"
    if not result.changes:
        return f"{where} nothing changes: {result.looked} sizes and groups compared."
    differ = f"{where}, {result.differ} of {result.looked} picks or times change"
    known = [change for change in result.changes if change.factor is not None]
    costs = [change for change in known if abs((change.factor or 1) - 1) > 0.01]
    if not costs:
        return f"{differ}; by colltool's prices no time changes by more than 1%."
    worst = max(costs, key=lambda change: abs(log(change.factor or 1)))
    group = f"{worst.ranks} ranks"
    if worst.stride > 1:
        group += f", every {ordinal(worst.stride)}"
    kernels = " to ".join(dict.fromkeys((worst.old, worst.new)))
    moved = f"{format_time(worst.old_s or 0)} to {format_time(worst.new_s or 0)}"
    what = f"{_collective(worst)} of {size_text(worst.from_bytes)} on {group}"
    return f"{differ}. Largest: {what}, {kernels}, {moved}."


def _collective(change: PickChange) -> str:
    return change.primitive.replace("_", "-")


_CHANGE: Columns[PickChange] = (
    label("collective", get=_collective),
    number("ranks"),
    number("stride", drop=3),
    number("from_bytes", "from", size_text),
    number("to_bytes", "to", size_text),
    label("old", "before"),
    label("new", "after"),
    number("old_s", "before", format_time, drop=2),
    number("new_s", "after", format_time, drop=2),
    number("factor", "factor", "{:.3g}".format, drop=1),
)


def _changes(result: LibraryDiff, first: int | None = None) -> Table:
    context_columns = context(
        (), fabric=result.fabric, old_library=result.old, new_library=result.new
    )
    return Table((*context_columns, *_CHANGE), result.changes, first=first)


# with the sentences above it fits on a screen
_MOST_CHANGES = 12


def _diff_blocks(result: LibraryDiff) -> list[Block]:
    return [Headline(_diff_answer(result)), _changes(result, _MOST_CHANGES)]


class PickChangeDocument(Document, extends=PickChange):
    """A range of sizes in which two versions pick differently."""

    factor: float | None


class LibraryDiffDocument(FabricDocument):
    """Where two versions of a library pick differently."""

    old: str
    new: str
    looked: int
    differ: int
    moved: bool
    changes: list[PickChangeDocument]


def _one_price(price: KernelPrice) -> KernelPriceList:
    return KernelPriceList((price,))


VIEWS = {
    LibraryDiff: View("library-diff", _diff_blocks, LibraryDiffDocument.of, _changes, _diff_answer),
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
    LibraryChecks: checked("library", _check_values, LibraryCheckDocument, _library_table),
    LibraryList: View(
        "library-list", _library_blocks, LibrariesDocument.of, _library_table, _library_names
    ),
    LibraryShown: View(
        "library-show", _file_blocks, LibraryDocument.of, _file_table, _file_summary
    ),
}
