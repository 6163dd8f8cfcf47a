"""``explain``: an algorithm's formula with numbers put in.

Read from :data:`VIEWS`, at the end. An algorithm has an entry for each primitive: its formula, and on
a fabric its price (:func:`_blocks`). Without a name it is the list of all algorithms
(:func:`_list_blocks`).

An entry's ``row`` is its price; None without a fabric, and where it cannot run, for which it then has a
``reason``. A library's own ``estimates`` are seconds in parts: latencies as (what, how often, seconds each),
times ``plateau``, and bytes at ``bandwidth_Bps``, of which ``correction`` is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from colltool.base.formatting import (
    counted,
    format_bytes,
    format_length,
    format_rate,
    format_size,
    format_time,
    sentence,
    whole_bytes,
)
from colltool.base.primitives import SHORT, least_n_beta
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.explain import (
    AlgorithmExplanation,
    AlgorithmList,
    CableDelay,
    Explanation,
    ListedAlgorithm,
    NcclEstimateParts,
)
from colltool.estimate.segments import BestSegments
from colltool.render import estimates
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    later,
    number,
)
from colltool.render.dispatch import View, context, fabric_of, group_columns, one_line, set_text
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import interval_and_reason
from colltool.render.row_document import RowDocument
from colltool.render.shared_documents import (
    GroupDocument,
    MachineDocument,
    assumed_by_file,
    machine_of,
    model_echo,
    whole_size,
)

_ROUNDING = 1e-9  # a relative difference that is no more than rounding


# --- explain


_COLUMNS: Columns[AlgorithmExplanation] = (
    label("algorithm"),
    label("primitive", "primitive", lambda primitive: primitive.label),
    label("title"),
    label("formula", get=lambda entry: one_line(" ".join(entry.formula))),
    label("text", get=lambda entry: one_line(entry.text)),
    label("size_means", "M is"),
    label("runs_on", "runs on"),
    label("requires", get=lambda entry: "; ".join(entry.requires)),
    label("status"),
    label("shipped_by", "shipped by", get=lambda entry: ", ".join(entry.shipped_by)),
    label("source"),
    label("note"),
)
_PRICED: Columns[AlgorithmExplanation] = (
    number("total_s", "total", path="row.total_s"),
    number("busbw_Bps", "busbw", path="row.busbw_Bps"),
    label("reason", "cannot run"),
)


def _table(result: Explanation) -> Table:
    """A row for each primitive; columns of a fabric are empty without one, so that the header is
    always the same."""
    question = context(
        fabric=result.fabric,
        set=set_text(result.overrides),
        ranks=result.ranks or None,
        bytes=whole_bytes(result.bytes) or None,
    )
    group = group_columns(result.group, lambda _: result.group)
    return Table((*_COLUMNS, *question, *_PRICED, *group), result.entries)


def _blocks(result: Explanation) -> Iterator[Block]:
    """For each primitive its formula or its price, why it cannot run, and the library's own estimates."""
    for entry in result.entries:
        if entry.row is None:
            yield Lines(_title(entry), list(_description_lines(entry)))
        else:
            yield from _priced_blocks(entry, entry.row, result)
        if entry.reason:
            yield Lines(f"{_on_fabric_text(result)}: {entry.reason}", ())
        for estimate in entry.estimates:
            yield later(_library_estimate(estimate, result.library))


def _on_fabric_text(result: Explanation) -> str:
    """``on nvl72 with ib.size=64``."""
    return f"on {fabric_of(result)}"


def _priced_blocks(
    entry: AlgorithmExplanation, row: AlgorithmEstimate, result: Explanation
) -> Iterator[Block]:
    """The answer, the formula, and the numbers of a fabric put in; ``row`` is the entry's."""
    size = format_size(result.bytes)
    mode = estimates.CONTENTION[result.mode]
    question = f"{_on_fabric_text(result)}, {_group(result)}, {size} per rank, {mode}"
    collective = sentence(entry.primitive.label)
    interval = interval_and_reason(row)
    in_brackets = f" ({interval})" if interval else ""
    yield Headline(f"{row.name}: {_time_and_bound(row, in_brackets)}. {collective} {question}.")
    # lines of the formula, then that of its paper; the rest is for --all
    yield Lines(_title(entry), list(_description_lines(entry)), first=len(entry.formula) + 1)
    numbers = list(_number_lines(row, result))
    yield Lines(question, numbers, first=min(len(numbers), _MOST_TERMS))
    schedule = list(_schedule_lines(entry))
    limits = _limit_lines(row, entry, result)
    yield Lines("this schedule", [*schedule, *limits], first=len(schedule))
    yield from estimates.readings_block(result.readings)


_MOST_TERMS = 12  # lines of numbers without --all


def _description_lines(entry: AlgorithmExplanation) -> Iterator[str]:
    """What is true on every fabric: formula, source, meaning of M, requirements and status."""
    yield from entry.formula
    # the default view ends behind the first source
    paper, _, more = entry.source.partition("; ")
    yield f"source: {paper}"
    if more:
        yield f"source, continued: {more}"
    yield ""
    yield f"M is {entry.size_means}."
    yield from filter(None, entry.text.split("\n\n"))
    yield ""
    yield f"runs on: {entry.runs_on.removeprefix('needs ')}"
    for rule in entry.requires:
        yield f"requires: {rule}"
    shipped_by = f", by {', '.join(entry.shipped_by)}" if entry.shipped_by else ""
    yield f"status: {entry.status}{shipped_by}"
    if entry.note:
        yield f"note: {entry.note}"


def _library_estimate(estimate: NcclEstimateParts, library: str) -> Lines:
    """The library's own estimate, part by part: latencies, bandwidth, and the bytes at it."""
    lines = []
    latency_s = 0.0
    for name, times, each_s in estimate.latency:
        latency_s += times * each_s
        lines.append(f"{name}: {times:g} x {format_time(each_s)} = {format_time(times * each_s)}")
    if abs(estimate.plateau - 1) > _ROUNDING:
        lines.append(f"these latencies times {estimate.plateau:.3g} at this size: a ring's plateau")
    lines.append(
        f"bandwidth: all channels under the protocol {format_rate(estimate.bus_Bps)}, the call"
        f" {format_rate(estimate.bandwidth_Bps)}"
    )
    if abs(estimate.correction - 1) > _ROUNDING:
        lines.append(f"at this size {estimate.correction:.3g} of that is reached")
    lines.append(f"bytes: {format_time(estimate.seconds - estimate.plateau * latency_s)}")
    title = (
        f"{library}'s own estimate, {estimate.algorithm} under {estimate.protocol}:"
        f" {format_time(estimate.seconds)}"
    )
    if estimate.picked:
        title += "; its pick"
    return Lines(title, lines)


# what bounds a price, where it has another name for people
_BOUNDS = {"software": "library overhead", "overhead": "launch overhead"}


def _time_and_bound(row: AlgorithmEstimate, interval: str = "") -> str:
    """``1.2 ms (-34% to +51%), busbw 100 GB/s, bound by latency``, the interval as it is given."""
    bound = _BOUNDS.get(row.bound, row.bound)
    time = f"{format_time(float(row.total_s))}{interval}"
    return f"{time}, busbw {format_rate(float(row.busbw_Bps))}, bound by {bound}"


def _title(entry: AlgorithmExplanation) -> str:
    return f"{entry.algorithm}, {entry.primitive.label}: {entry.title.rstrip('.')}"


def _number_lines(row: AlgorithmEstimate, result: Explanation) -> Iterator[str]:
    """The formula with the numbers of a fabric put in."""
    if row.protocol:
        yield f"protocol {row.protocol}"
    for cable in result.cables:
        place = estimates.place_name(cable.tier, cable.level)
        share = f"{format_time(cable.adds_s)} of it are {format_length(cable.metres)} of cable"
        yield f"alpha of {place}: {share}, before eta"
    for phase in row.phases:
        yield from _phase_terms(phase, alone=len(row.phases) == 1)
    moved_s = float(row.moved_s)
    if sum(float(phase.bandwidth_s) for phase in row.phases) > moved_s * (1 + _ROUNDING):
        busiest = format_time(moved_s)
        yield f"the phases overlap: only the bytes of the busiest tier count, {busiest}"
    if row.overhead_s:
        yield f"launch overhead {format_time(float(row.overhead_s))}"
    if row.rest_s:
        yield f"library overhead, as measured: {format_time(float(row.rest_s))}"
    yield f"t = {_time_and_bound(row)}"
    slow = estimates.slow_words(row.slow)
    if slow:
        yield slow


def _phase_terms(phase: PhaseCost, *, alone: bool) -> Iterator[str]:
    """The latency, if there is any, and the transfer of a phase, each as a product.

    Args:
        alone: whether the row has no other phase, so that it needs no step in its name.
    """
    # the label that an estimate gives to copying a rank's own data
    step = "local copy" if phase.label == "own share" else phase.label
    name = phase.level
    if step and not alone:
        name += f", {step}"
    if phase.n_alpha:
        alpha_s = float(phase.alpha_s)
        per_hop = format_time(float(phase.alpha_s / phase.n_alpha))
        yield f"{name}: n_alpha x alpha = {phase.n_alpha:g} x {per_hop} = {format_time(alpha_s)}"
    n_beta = float(phase.n_beta)
    size = format_bytes(float(phase.bytes))
    rate = format_rate(float(phase.bandwidth_Bps))
    wire_s = float(phase.n_beta * phase.bytes / (phase.bandwidth_Bps * phase.eta_beta))
    yield (
        f"{name}: n_beta x M / BW = {n_beta:.4g} x {size} / ({rate} x {phase.eta_beta:.4g})"
        f" = {format_time(wire_s)}"
    )


def _schedule_lines(entry: AlgorithmExplanation) -> Iterator[str]:
    """The best number of segments, and with how many others a rank exchanges."""
    for line in estimates.segment_lines(entry.segments):
        yield f"segments on {line}"
    if entry.partners is not None:
        yield f"partners: each rank exchanges with at most {counted(entry.partners, 'other')}"


def _limit_lines(
    row: AlgorithmEstimate, entry: AlgorithmExplanation, result: Explanation
) -> Iterator[str]:
    """Lines on where latency and transfer take equally long (``balance``), and on lower bounds."""
    if entry.balance is not None:
        latency = "latency with the launch" if row.overhead_s else "latency"
        longer = "transfer" if row.bytes >= entry.balance else latency
        equal = f"{latency} = transfer at {format_bytes(entry.balance)}"
        yield f"{equal}; at {format_size(float(row.bytes))} {longer} takes longer"
    # a switch that reduces is no endpoint, and can do with less
    if row.n_beta is not None and not entry.in_switch:
        least = least_n_beta(entry.primitive, result.ranks)
        yield f"smallest possible n_beta without help of the switches, on one port: {least:.4g}"
    bound_s = row.lower_bound_s
    if bound_s is not None:
        times = float(row.total_s / bound_s)
        yield (
            f"lower bound: no schedule on these links is faster than {format_time(float(bound_s))};"
            f" this one takes {times:.4g} times as long"
        )


def _summary(result: Explanation) -> str:
    uses = ", ".join(entry.primitive.label for entry in result.entries)
    title = f"{result.algorithm}: {uses}"
    if len(result.entries) == 1:
        title = _title(result.entries[0])
    rows = [entry.row for entry in result.entries if entry.row is not None]
    if not rows:
        return title
    times = ", ".join(format_time(float(row.total_s)) for row in rows)
    return f"{title}\n{_on_fabric_text(result)}, {_group(result)}: {times}"


def _group(result: Explanation) -> str:
    return result.group.label if result.group else ""


class LatencyShare(NamedTuple):
    """A part of a library's own estimate of latency."""

    what: str
    times: float  # how often it occurs
    each_s: float


class EstimateDocument(Document, of=NcclEstimateParts):
    """A library's own estimate, part by part."""

    algorithm: str
    protocol: str
    picked: bool
    estimate_s: float = derived("seconds")
    latency: list[LatencyShare] = derived(
        lambda estimate: tuple(LatencyShare(*term) for term in estimate.latency)
    )
    plateau: float
    channels_Bps: float = derived("bus_Bps")
    bandwidth_Bps: float
    correction: float


class EntryDocument(Document, of=AlgorithmExplanation):
    """An algorithm for a primitive."""

    primitive: str
    title: str
    formula: list[str]
    text: str
    size_means: str
    runs_on: str
    requires: list[str]
    status: str
    shipped_by: list[str]
    source: str
    note: str
    result: RowDocument | None = derived("row")
    reason: str
    balance: float = optional("balance")
    partners: int = optional("partners")
    segments: list[BestSegments] = optional("segments")
    estimates: list[EstimateDocument] = optional("estimates")


def _on_fabric(get: Callable[[Explanation], Any]) -> Any:
    """Declare a key that only an explanation on a fabric has."""
    return optional(lambda result: get(result) if result.fabric else LEFT_OUT)


class ExplainDocument(Document):
    """An algorithm, and on a fabric what it takes there."""

    algorithm: str
    fabric: str = optional("fabric")
    set: dict[str, str] = _on_fabric(lambda result: dict(result.overrides) or LEFT_OUT)
    fabric_assumed: list[str] = _on_fabric(assumed_by_file)
    machine: MachineDocument | None = _on_fabric(lambda result: machine_of(result.overrides))
    ranks: int = _on_fabric(lambda result: result.ranks)
    group: GroupDocument = optional("group")
    bytes: float = _on_fabric(whole_size)
    mode: str = optional("mode")
    model: estimates.ModelDocument = _on_fabric(model_echo)
    cables: list[CableDelay] = optional("cables")
    primitives: list[EntryDocument] = derived("entries")


# --- every algorithm

_LISTED: Columns[ListedAlgorithm] = (
    label("name", "algorithm"),
    label("called", "also called", drop=3, fold=24, get=lambda row: ", ".join(row.called)),
    label("primitives", get=lambda row: ", ".join(map(SHORT.__getitem__, row.primitives))),
    label("title", "what it is", drop=1, fold=30),
    label("status", drop=4),
    label("shipped_by", "shipped by", drop=2, get=lambda row: ", ".join(row.shipped_by)),
)


def _list_table(result: AlgorithmList) -> Table:
    return Table(_LISTED, result.rows)


def _list_summary(result: AlgorithmList) -> str:
    shipped = sum(bool(row.shipped_by) for row in result.rows)
    return f"{len(result.rows)} algorithms; libraries implement {shipped} of them"


def _list_blocks(result: AlgorithmList) -> list[Block]:
    next_command = "colltool explain NAME: the formula, its source, and your numbers put in"
    return [
        Headline(f"{_list_summary(result)}. {next_command}."),
        _list_table(result).without("status", "shipped_by"),
    ]


class AlgorithmsDocument(Document):
    """Every algorithm that can be priced."""

    algorithms: list[ListedAlgorithm] = derived("rows")


VIEWS = {
    Explanation: View("explain", _blocks, ExplainDocument.of, _table, _summary),
    AlgorithmList: View(
        "explain-list", _list_blocks, AlgorithmsDocument.of, _list_table, _list_summary
    ),
}
