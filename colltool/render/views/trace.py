"""``trace``: the collectives of profiler traces against predicted times.

:func:`_trace_blocks` is the screen, :func:`_totals` the rows of CSV; the document stands last. The
headline is in ``trace_answer``, what of it is about tiers in ``trace_blame``, and what graphs of
Chakra traces add in ``trace_graphs``. A total is all calls of one kind: group, primitive and size. A
wire is what a tier's calls reach of the expected times; of its ``calls``, ``clear`` ones waited for no other
rank, and the times of the others are upper bounds (``why`` says the reason, empty where there are none).
Texts such as ``device`` and ``nccl`` are empty where the traces do not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from colltool.base.errors import clipped
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    size_text,
    whole_percent,
)
from colltool.diagnosis.compared import ComparedCalls, compared_totals
from colltool.diagnosis.rank_map import RankMap
from colltool.diagnosis.trace_results import (
    CallTotal,
    CallWait,
    LinkHealth,
    RankWait,
    TraceComparison,
    TracedCall,
    TraceFile,
    TraceFinding,
    UnpricedKernels,
    Waits,
)
from colltool.logs.activity import RankActivity
from colltool.logs.traced_calls import LeftOutKernels
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import View, context, fabric_of, listed, reached_percent
from colltool.render.documents import LEFT_OUT, Document, derived, optional, or_null
from colltool.render.shared_documents import OnFabricDocument
from colltool.render.views.health import SeriesHealthDocument, SeriesWords
from colltool.render.views.trace_answer import (
    step_s,
    trace_headline,
    trace_summary,
    trace_verdict,
)
from colltool.render.views.trace_blame import blame, unpriced_reasons
from colltool.render.views.trace_graphs import (
    ReplayedDocument,
    graph_blocks,
)
from colltool.training.parallel_config import Axes

_MOST_ROWS = 8  # of a table without --all, and of a list in brackets
_KERNEL_NAMES = (
    "kernels' names tell little: LL stands for any protocol, RING since NCCL 2.19 for all but trees"
    " (colltool guide traces)"
)


def axes_text(axes: Axes) -> str:
    """The stride of a group, such as ``1``; ``4 by 1, 2 by 16`` (size by stride) where it has several."""
    if not axes:
        return ""
    if len(axes) > 1:
        return ", ".join(f"{size} by {stride}" for size, stride in axes)
    return str(axes[0][1])


def signed_time(seconds: float) -> str:
    """``+1.2 ms``, ``-1.2 ms``."""
    if seconds < 0:
        return f"-{format_time(-seconds)}"
    return f"+{format_time(seconds)}"


_LATE_RANKS: Columns[RankWait] = (
    number("rank"),
    number("calls"),
    number("last", "is last"),
    number("wait_s", "waits", format_time),
)
_WAITS_BY_COLLECTIVE: Columns[CallWait] = (
    label("primitive", "primitive", attrgetter("label")),
    number("group_size", "ranks"),
    number("calls"),
    number("wire_s", "transfer", format_time),
    number("wait_s", "waiting", format_time),
)
_UNPRICED: Columns[UnpricedKernels] = (
    label("kernel", "kernel", clipped),
    number("calls"),
    number("total_s", "takes", format_time),
    number("exposed_s", "exposed", format_time),
)
_COMPARED: Columns[ComparedCalls] = (
    label("primitive", "primitive", attrgetter("label")),
    number("ranks"),
    number("bytes", "size", size_text),
    number("then_s", "before", format_time),
    number("now_s", "now", format_time),
    number("change_s", "change", signed_time),
)
_TOTALS: Columns[CallTotal] = (
    label("group", "group", clipped, drop=4),
    number("ranks", path="group_size"),
    label("stride", drop=5, get=lambda total: axes_text(total.axes)),
    label("tiers", "on", drop=6, get=lambda total: ", ".join(total.tiers)),
    label("primitive", "primitive", attrgetter("label")),
    number("bytes", "size", size_text),
    label("dtype", "dtype", clipped, hidden=True),
    label("coalesced", "", get=lambda total: "coalesced" if total.coalesced else "", hidden=True),
    number("calls"),
    label("kernel", drop=8),
    number("each_s", "measured", format_time),
    label("bound", "", get=lambda total: "at most" if total.bound else "", hidden=True),
    number("busbw_Bps", "busbw", format_rate, drop=3),
    number("expected_s", "expected", format_time, drop=1),
    label("algorithm", "by", drop=7, path="runs"),
    number("of_expected", "of expected", reached_percent),
    number("share", "of the step", percent, drop=2),
    number("exposed", "exposed", whole_percent, drop=3),
    number("total_s", "total", format_time, hidden=True),
    number("exposed_s", "exposed", format_time, hidden=True),
    label("reason", "no price", hidden=True),
)


def _totals(result: TraceComparison) -> Table:
    """A row for each kind of calls; groups only where the traces name them."""
    columns = (*context(fabric=result.fabric), *_TOTALS, *context(result.overrides))
    table = Table(columns, result.totals)
    if any(total.group for total in result.totals):
        return table
    return table.without("group")


def _facts(result: TraceComparison) -> Iterator[str]:
    """Lines on what the traces are of, which times are only bounds, and how much of the communication compute
    hides."""
    # without a recorded time there is nothing of these
    if not result.window_s:
        return
    yield _step_text(result)
    map_file = result.rank_map.given
    if map_file:
        yield f"the ranks of the job are placed on the fabric by {clipped(map_file)}"
    for wire in result.wires:
        if wire.why and wire.verdict != "unknown":
            bounds = f"{wire.calls - wire.clear} of {wire.calls} times on {wire.tier}"
            yield f"{bounds} are upper bounds: {wire.why}"
    if result.overlap is not None:
        hidden = percent(result.overlap)
        yield f"compute hides {hidden} of the communication time{_hidden_by_rank(result)}"
    doubts = dict.fromkeys(device.doubt for device in result.activity if device.doubt)
    yield from map(str, doubts)
    # a kernel's name such as AllReduce_Sum_f32_RING_LL
    if any("LL" in total.kernel.split("_") for total in result.totals):
        yield _KERNEL_NAMES


def _step_text(result: TraceComparison) -> str:
    """``a step takes 46.9 ms; NVIDIA H100, NCCL 2.21.5``."""
    duration = format_time(step_s(result))
    if result.steps:
        text = f"a step takes {duration}"
    else:
        text = f"a trace spans {duration}: it has no ProfilerStep# annotations"
    software = []
    if result.device:
        software.append(clipped(result.device))
    if result.nccl:
        software.append(f"NCCL {clipped(result.nccl)}")
    if software:
        text += f"; {', '.join(software)}"
    return text


def _hidden_by_rank(result: TraceComparison) -> str:
    """`` (rank 0: 41%, rank 1: 38% and 6 more)``, of ranks that communicate; empty for one alone."""
    texts = []
    for device in result.activity:
        if device.overlap is not None:
            texts.append(f"rank {device.rank}: {percent(device.overlap)}")
    if len(texts) < 2:
        return ""
    text = ", ".join(texts[:_MOST_ROWS])
    more = len(texts) - _MOST_ROWS
    if more > 0:
        text += f" and {more} more"
    return f" ({text})"


def _trace_blocks(result: TraceComparison) -> list[Block]:
    """The answer and the calls first; waits, findings and what is left out after them."""
    details: list[Block] = [Lines("the trace", tuple(_facts(result)))]
    if result.against:
        rows = tuple(sorted(compared_totals(result), key=lambda row: -abs(row.change_s)))
        title = "the calls of a step, before and now"
        details.append(Table(_COMPARED, rows, title=title, first=_MOST_ROWS))
    if result.waits.ranks:
        title = "which rank is last (a call's shortest kernel is the transfer, the rest is waiting)"
        details.append(Table(_LATE_RANKS, result.waits.ranks, title=title))
        title = "transfer and waiting, by collective"
        details.append(Table(_WAITS_BY_COLLECTIVE, result.waits.collectives, title=title))
    if result.replayed:
        details += graph_blocks(result.replayed)
    if result.unpriced:
        title = "communication kernels of which no bytes are known"
        details.append(Table(_UNPRICED, result.unpriced, title=title, first=_MOST_ROWS))
    for finding in result.findings:
        words = SeriesWords([finding.health], (result.device,), fabric_of(result))
        lines = (words.outcome(finding.health), *map(str, finding.findings))
        details.append(Lines(f"findings: {finding.series}", lines))
    reasons = []
    for reason, calls in unpriced_reasons(result).items():
        reasons.append(f"{reason}: {counted(calls, 'call')}")
    details += listed("without a price", reasons)
    details += listed("left out", _left_out(result))
    table = _totals(result)._replace(title="by group, primitive and size", first=_MOST_ROWS)
    return [Headline(trace_headline(result)), table, *map(later, details)]


def _left_out(result: TraceComparison) -> Iterator[str]:
    """Lines on calls and files that are not, or only partly, used, and why."""
    for excluded in result.left_out:
        kernels = counted(excluded.kernels, "kernel")
        yield f"{excluded.reason}: {kernels}, first in {clipped(excluded.file)}"
    # names come from the files of others, which may be long or hold anything
    for file in result.files:
        name = clipped(file.file)
        if file.broken:
            yield f"{name} ends too early or is damaged: what stands before that is used"
        if not file.calls and not result.replayed:
            yield f"{name} has no collective call whose size is known"


# --- the document


class RankActivityDocument(Document, extends=RankActivity):
    """What a rank does."""

    overlap: float | None


class CallTotalDocument(Document, extends=CallTotal):
    """Calls of one kind."""

    busbw_Bps: float
    of_expected: float | None
    exposed: float


class TracedCallDocument(Document, extends=TracedCall):
    """A collective call."""

    places: list[int] | None
    algorithm: str | None = or_null("algorithm")
    protocol: str | None = or_null("protocol")


def _calls(result: TraceComparison) -> Iterable[object]:
    """The calls. Without a map of ranks their ``places`` are null: each rank is at its own number."""
    if result.rank_map.given:
        return result.calls
    return [TracedCallDocument.of(call, places=None) for call in result.calls]


class TraceFindingDocument(Document, extends=TraceFinding):
    """The calls of one primitive and rank count, as ``doctor`` reads them."""

    health: SeriesHealthDocument


class TracesDocument(OnFabricDocument):
    """The collectives of traces against a fabric's prices."""

    library: str | None = or_null("library")
    map: RankMap | None = derived(lambda result: result.rank_map if result.rank_map.given else None)
    world: int | None
    device: str | None = or_null("device")
    nccl: str | None = or_null("nccl")
    steps: int
    window_s: float
    share: float
    exposed: float
    overlap: float | None
    of_expected: float | None
    ranks: list[RankActivityDocument] = derived("activity")
    waits: Waits
    unpriced: list[UnpricedKernels]
    replayed: list[ReplayedDocument] = optional("replayed")
    assumed: list[str] = optional("assumed")
    against: list[ComparedCalls] = optional(
        lambda result: LEFT_OUT if result.against is None else compared_totals(result)
    )
    verdict: str = derived(trace_verdict)
    blame: list[str] = derived(lambda result: tuple(blame(result)))
    wires: list[LinkHealth]
    totals: list[CallTotalDocument]
    calls: list[TracedCallDocument] = derived(_calls)
    findings: list[TraceFindingDocument]
    files: list[TraceFile]
    left_out: list[LeftOutKernels]


VIEWS = {TraceComparison: View("trace", _trace_blocks, TracesDocument.of, _totals, trace_summary)}
