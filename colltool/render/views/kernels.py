"""``price`` and ``crossover`` by measured kernels: those of inference engines such as vLLM, and those
of expert libraries such as DeepEP, which send tokens to experts (dispatch) and back (combine).

Prices come first, then the crossovers between kernels; :data:`VIEWS`, at the end, names what is
read for each. A price's first result (``price.best``) is the kernel that the library takes, whether or not
it is ``price.fastest``. Of an expert library's call ``price.what`` holds the tokens; of any other call it is
None, and ``price.bytes`` is its size. Seconds are those of one call.
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
from colltool.render.intervals import IntervalDocument, nine_in_ten, reasoned_interval
from colltool.render.shared_documents import GroupDocument, OnFabricDocument

_NOISE = 0.02  # a kernel that is faster by less than this share is not called faster
_MOST_CHOICES = (
    3  # choices of the library that are shown with their reasons; prices of many sizes have more
)

# how a collective's kernel is launched, by `price.mode`; None where it was not asked
_LAUNCH = {"graph": ", in a CUDA graph", "eager": ", eager", None: ""}
# what the time of an expert library's call has in it, by its kernel's mode
_TIMED = {
    "graph": "the kernel alone",
    "eager": "as the host calls it (eager)",
}


# --- prices: the answer


def _answer(price: KernelPrice) -> str:
    """Say which kernel the library takes, its time and rate, what was asked, and which kernel would be
    faster, if one was measured on this machine."""
    best = price.best
    kernel = best.kernel if best.kernel == best.library else f"{best.library} {best.kernel}"
    error = f" ({reasoned_interval(best.interval, best.total_s)})" if best.interval else ""
    sentences = [
        *warnings_first(price.notes),
        f"{kernel}: {format_time(best.total_s)}{error}, {_rate_text(price)}.",
        f"{_question_text(price)}.",
    ]
    if not best.interval:
        sentences.append(f"{sentence(best.measured)}.")
    fastest = price.fastest
    # a kernel that was measured elsewhere only is no reason to doubt the library
    is_faster = fastest.total_s < best.total_s * (1 - _NOISE)
    if is_faster and fastest.measured_here:
        factor = f"{best.total_s / fastest.total_s:.3g} times faster"
        total = format_time(fastest.total_s)
        sentences.append(f"{fastest.kernel} would take {total}, {factor}, but is not what runs.")
    return " ".join(sentences)


def _rate_text(price: KernelPrice) -> str:
    """``busbw 412 GB/s``, or of a call of experts ``3.7 MB sent per rank in fp8``."""
    best = price.best
    if price.what is None:
        return f"busbw {format_rate(best.busbw_Bps)}"
    sent = f"{format_bytes(best.bytes)} sent per rank"
    if best.bytes:
        return f"{sent} in {best.sends}"
    return sent


def _question_text(price: KernelPrice) -> str:
    """``All-reduce on hgx-h200, 4 ranks, 64KB per rank, in a CUDA graph``."""
    tokens = price.what
    if tokens is None:
        size = f"{size_text(price.bytes)} per rank{_LAUNCH[price.mode]}"
    else:
        size = (
            f"{counted(tokens.tokens, 'token')} per rank, hidden {tokens.hidden}, top"
            f" {tokens.top_k} of {tokens.experts} experts, {tokens.dtype},"
            f" {_TIMED[price.best.mode]}"
        )
    return f"{sentence(_call_text(price))}, {size}"


def _call_text(price: KernelPrice) -> str:
    """``all-reduce on hgx-h200, 4 ranks``."""
    return f"{_operation_text(price)} on {fabric_of(price)}, {price.group.label}"


def _operation_text(price: KernelPrice) -> str:
    """``all-reduce``, ``dispatch``."""
    return price.operation.replace("_", "-")


def _answer_of_sizes(prices: Sequence[KernelPrice]) -> str:
    """Say which kernels the library takes, each once, in the order of the prices, which is that of sizes."""
    first = prices[0]
    kernels = dict.fromkeys(price.best.kernel for price in prices)
    question = f"{_call_text(first)}{_LAUNCH[first.mode]}"
    picks = f"{first.best.library} picks {', then '.join(kernels)}: {question}."
    return " ".join([*warnings_first(first.notes), picks])


def warnings_first(notes: Sequence[str]) -> list[str]:
    """The warnings among the notes, such as that the numbers are of another version, as sentences for
    an answer to begin with."""
    warnings = [note.removeprefix(WARNING) for note in notes if note.startswith(WARNING)]
    return [f"{sentence(warning)}." for warning in warnings]


def without_warnings(notes: Sequence[str]) -> list[str]:
    """The notes that :func:`warnings_first` leaves."""
    return [note for note in notes if not note.startswith(WARNING)]


# --- prices: the table, the notes and the chart


class _KernelLine(NamedTuple):
    """A row of the table: a kernel at one size."""

    price: KernelPrice
    row: KernelEstimate

    @property
    def within(self) -> str:
        """``-13% to +15%``; empty without an interval."""
        return nine_in_ten(self.row.interval, self.row.total_s)


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
    """The kernels at all sizes; fabric, collective and ranks are in hidden columns, for CSV."""
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
    # a call of experts has the bytes that its tokens make; there bus bandwidth says nothing
    if first.what is None:
        return table.without("sent_bytes", "sends")
    return table.without("busbw_Bps")


def _notes(prices: Sequence[KernelPrice]) -> Iterator[Block]:
    """Why the library takes a kernel, then notes without repetition, and libraries that were not
    measured there."""
    # dictionaries without values: each key once, in order
    choices: dict[KernelChoice, None] = {}
    notes: dict[str, None] = {}
    kernel_notes: list[tuple[str, str]] = []
    refused: dict[str, None] = {}
    for price in prices:
        if price.library is not None:
            choices[price.library] = None
        notes |= dict.fromkeys(price.notes)
        for estimate in price.results:
            kernel_notes += [(note, estimate.kernel) for note in estimate.notes]
        refused |= dict.fromkeys(f"{library}: {reason}" for library, reason in price.refused)
    for choice in list(choices)[:_MOST_CHOICES]:
        pick = f"{choice.name}@{choice.version} picks {choice.kernel}"
        yield Lines(f"{pick}: {choice.reason}", ())
    # warnings are at the beginning of the answer
    lines = [*without_warnings(tuple(notes)), *lines_by_names(kernel_notes)]
    yield from listed("notes", lines, first=2)
    yield from listed("not measured here", refused, first=0)


def _chart(result: KernelPriceList) -> BusbwChart | None:
    """Bus bandwidth of each kernel over size. None for experts, whose sizes are tokens."""
    first = result.prices[0]
    if first.what is not None:
        return None
    points = []
    for price in result.prices:
        points += [(estimate.kernel, price.bytes, estimate.busbw_Bps) for estimate in price.results]
    title = f"{_operation_text(first)} on {first.fabric}, {first.group.label}"
    return BusbwChart(title, curves(points))


def _list_blocks(result: KernelPriceList) -> Iterator[Block]:
    prices = result.prices
    yield Headline(_answer(prices[0]) if len(prices) == 1 else _answer_of_sizes(prices))
    yield _price_table(prices)
    yield from _notes(prices)


def _list_table(result: KernelPriceList) -> Table:
    return _price_table(result.prices)


def _list_summary(result: KernelPriceList) -> str:
    return "\n".join(map(_answer, result.prices))


# --- prices: the document


def no_kernel_interval(record: Any) -> Any:
    """Why a record with an ``interval`` has none, for a key that is left out where it has one."""
    return ERROR_UNKNOWN if record.interval is None else LEFT_OUT


def _no_seconds(_: KernelEstimate) -> float:
    return 0.0


class KernelRowDocument(Document, of=KernelEstimate):
    """A price by a measured kernel, with the keys of other prices where they mean the same."""

    algorithm: str = derived("kernel")
    detail: str = derived(lambda _: "")
    spec: str = derived("kernel")
    library: str
    alpha_s: float = derived("latency_s")
    bandwidth_s: float
    # a kernel's measured latency has its launch and its software in it
    overhead_s: float = derived(_no_seconds)
    software_s: float = derived(_no_seconds)
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
    """Bytes of a collective; of a call of experts what leaves the busiest rank."""
    return round(price.bytes if price.what is None else price.best.bytes)


def _accuracy(price: KernelPrice) -> Accuracy | None:
    """The error of the kernel that the library takes, in the record of other prices; None where it
    is not known."""
    best = price.best
    if best.error is None:
        return None
    # nine of ten measurements are off by no more than the farther end of the interval
    p90 = best.interval and best.interval.larger_side(best.total_s)
    # how many rows the error was measured on is in the words of `error_of`
    return Accuracy(best.error, p90, rows=0, like=best.error_of)


def _token_key(field: str) -> Any:
    """Declare a key that only calls of experts have, with a field of their tokens."""
    return optional(lambda price: LEFT_OUT if price.what is None else getattr(price.what, field))


class KernelSizeDocument(OnFabricDocument):
    """The prices by kernels at one size."""

    primitive: str = derived("operation")
    ranks: int
    group: GroupDocument
    bytes: int = derived(_size)
    tokens: int = _token_key("tokens")
    top_k: int = _token_key("top_k")
    hidden: int = _token_key("hidden")
    experts: int = _token_key("experts")
    dtype: str = _token_key("dtype")
    sms: int = _token_key("sms")
    groups: int = _token_key("groups")
    skew: float = _token_key("skew")
    mode: str = derived(lambda _: "realistic")
    launch: str = optional(lambda price: price.mode or LEFT_OUT)
    results: list[KernelRowDocument]
    infeasible: list[Infeasible] = derived(
        lambda price: tuple(Infeasible(library, reason) for library, reason in price.refused)
    )
    library: KernelChoice = optional("library")
    notes: list[str]
    accuracy: Accuracy | None = derived(_accuracy)


class KernelPriceDocument(KernelSizeDocument):
    """The prices by kernels at one or several sizes; a single one has its fields at the top as
    well."""

    sizes: list[KernelSizeDocument]


def _list_document(result: KernelPriceList) -> dict[str, Any]:
    """The prices at all sizes; a single one has its keys at the top as well."""
    sizes = [KernelSizeDocument.of(price) for price in result.prices]
    if len(sizes) == 1:
        return sizes[0] | {"sizes": sizes}
    return {"sizes": sizes}


# --- crossover


class _KernelSwitch(NamedTuple):
    """Where one kernel gives way to another, by the library's own table or by the measured formulas.

    ``equal_bytes`` and ``apart_s`` are for a change by the table: where both kernels take the same time
    (None: nowhere), and how far apart they are at the change.
    """

    change: str  # "its table" or "measured formulas"
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
    """The changes of the library's own table, then those of the fastest kernel by the formulas."""
    switches = []
    for threshold in result.thresholds:
        switch = _KernelSwitch(
            "its table",
            threshold.below,
            threshold.above,
            threshold.at_bytes,
            equal_bytes=threshold.equal_bytes,
            apart_s=threshold.costs_s,
        )
        switches.append(switch)
    for size, below, above in result.crossings:
        switches.append(_KernelSwitch("measured formulas", below, above, size))
    context_columns = context(result.overrides, fabric=result.fabric, library=result.library)
    return Table((*context_columns, *_CROSSING), switches)


def _crossover_answer(result: KernelCrossover) -> str:
    return " ".join([*warnings_first(result.notes), _crossover_sentence(result)])


def _crossover_sentence(result: KernelCrossover) -> str:
    """The threshold of the library's own table that costs most; without such a table the kernels that
    are fastest by the measured formulas."""
    where = f"on {fabric_of(result)}, {result.group.label}"
    where += _LAUNCH[result.mode]
    if result.thresholds:
        costliest = max(result.thresholds, key=attrgetter("costs_s"))
        return f"{result.library} {where}: {_threshold_text(costliest)}."
    if result.crossings:
        steps = []
        for size, below, above in result.crossings:
            steps.append(f"{below} below {size_text(size)} and {above} above")
        return (
            f"Fastest of {result.library} {where}: {', '.join(steps)}. What it picks is not known."
        )
    return f"One kernel of {result.library} is the fastest at every size {where}."


def _threshold_text(threshold: Threshold) -> str:
    """Say whether the library changes its kernel (at ``at_bytes``) where the two are equally fast (at
    ``equal_bytes``), and by how much they differ (``costs_s``) where not."""
    size = size_text(threshold.at_bytes)
    apart = format_time(threshold.costs_s)
    change = f"it changes from {threshold.below} to {threshold.above} at {size}"
    if threshold.equal_bytes is None:
        return f"{change}, but {threshold.faster} is faster at every size, by {apart} there"
    # about a tenth either way, down to 0.9 and up to 1 / 0.9: the formulas are not more precise
    if 0.9 < threshold.at_bytes / threshold.equal_bytes < 1.12:
        return f"{change}, where the two are equally fast"
    unmeasured = "" if threshold.measured else " (not measured at these sizes)"
    equal = f"the two are equally fast at {size_text(threshold.equal_bytes)}{unmeasured}"
    return f"{change}; {equal} and differ by {apart} at {size}"


def _crossover_blocks(result: KernelCrossover) -> Iterator[Block]:
    """The answer, the changes of the fastest or of the table, and notes."""
    yield Headline(_crossover_answer(result))
    yield _crossings(result)
    # a single one is in the answer
    if len(result.thresholds) > 1:
        yield Lines("its thresholds", list(map(_threshold_text, result.thresholds)), first=2)
    yield from listed("notes", without_warnings(result.notes), first=2)


class KernelCrossing(NamedTuple):
    """A size at which another kernel becomes the fastest, by the measured formulas; as
    ``KernelCrossover.crossings`` has it: (size, below, above)."""

    bytes: float
    faster_below: str
    faster_above: str


class KernelCrossoverDocument(OnFabricDocument):
    """Where one kernel gives way to another."""

    primitive: str = derived("operation")
    ranks: int
    group: GroupDocument
    library: str
    launch: str = optional(lambda result: result.mode or LEFT_OUT)
    crossings: list[KernelCrossing] = derived(
        lambda result: tuple(KernelCrossing(*crossing) for crossing in result.crossings)
    )
    thresholds: list[Threshold]
    notes: list[str]


VIEWS = {
    # a price is shown like a list of one
    KernelPrice: View(
        "price",
        lambda price: _list_blocks(KernelPriceList((price,))),
        lambda price: _list_document(KernelPriceList((price,))),
        lambda price: _list_table(KernelPriceList((price,))),
        _answer,
    ),
    KernelPriceList: View(
        "price", _list_blocks, _list_document, _list_table, _list_summary, chart=_chart
    ),
    KernelCrossover: View(
        "crossover", _crossover_blocks, KernelCrossoverDocument.of, _crossings, _crossover_answer
    ),
}
