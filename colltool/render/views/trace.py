"""``trace``: the collectives of profiler traces against predicted times.

Read from :data:`VIEWS`: :func:`traced` is the headline, whose first sentences are those of
:mod:`colltool.render.views.trace_blame`, :func:`_trace_blocks` the screen and :func:`_totals` the rows
of CSV.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from colltool.base.errors import clipped
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    percent,
    sentence,
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
from colltool.render.dispatch import View, context, listed, on_fabric, reached_percent
from colltool.render.documents import LEFT_OUT, Document, derived, optional, or_null
from colltool.render.shared_documents import OnFabricDocument
from colltool.render.views.health import SeriesHealthDocument, SeriesWords
from colltool.render.views.trace_blame import blame, unpriced_reasons, window_text
from colltool.render.views.trace_graphs import (
    ReplayedDocument,
    graph_blocks,
    graph_step,
    prices_alone,
)
from colltool.training.parallel_config import Axes

_MOST_TOTALS = 8  # rows of a table without --all
_CARRIER = (
    "kernels' names tell little: LL stands for any protocol, RING since NCCL 2.19 for all but trees"
    " (colltool guide traces)"
)


def axes_text(axes: Axes) -> str:
    """The stride, or ``4 by 1, 2 by 16`` (size by stride) of a group with several."""
    if not axes:
        return ""
    if len(axes) > 1:
        return ", ".join(f"{size} by {stride}" for size, stride in axes)
    return str(axes[0][1])


def signed_time(seconds: float) -> str:
    if seconds < 0:
        return f"-{format_time(-seconds)}"
    return f"+{format_time(seconds)}"


_LATE: Columns[RankWait] = (
    number("rank"),
    number("calls"),
    number("last", "is last"),
    number("wait_s", "waits", format_time),
)
_WAITS: Columns[CallWait] = (
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
    columns = (*context(fabric=result.fabric), *_TOTALS, *context(result.overrides))
    table = Table(columns, result.totals)
    if any(total.group for total in result.totals):
        return table
    return table.without("group")


def trace_title(result: TraceComparison) -> str:
    calls = counted(len(result.calls), "collective call")
    if result.unpriced and not result.calls:
        kernels = sum(kernel.calls for kernel in result.unpriced)
        calls = f"{counted(kernels, 'communication kernel')} of unknown size"
    where = on_fabric(result.fabric, result.overrides)
    return f"{calls} in {_files(result)} on {where}"


def _files(result: TraceComparison) -> str:
    traces = counted(len(result.files), "trace")
    if result.world:
        return f"{traces} of {counted(result.world, 'rank')}"
    return traces


def trace_verdict(result: TraceComparison) -> str:
    """How much of a step is communication, and its speed, for titles."""
    if result.replayed and not result.calls:
        return prices_alone(result, _files(result))
    return f"{_exposed(result)}; {_speed(result)}"


def _exposed(result: TraceComparison) -> str:
    exposed = f"Exposed communication takes {percent(result.exposed)} of {window_text(result)}"
    return f"{exposed} ({percent(result.share)} with what compute hides)"


def _speed(result: TraceComparison) -> str:
    if result.of_expected is None:
        if result.left_out and not result.calls:
            return f"no call has a price: {result.left_out[0].reason}"
        return "no call has a price"
    reached = reached_percent(result.of_expected)
    # where times are upper bounds, what they reach is a lower one
    if any(total.bound and total.expected_s is not None for total in result.totals):
        return f"kernels ran at {reached} of the expected speed or better"
    return f"kernels ran at {reached} of the expected speed"


def _as_sentences(texts: Iterable[str]) -> Iterator[str]:
    """Texts that begin with a capital, or with the name of a tier, which stays as it is."""
    for text in texts:
        yield f"{text}."


def traced(result: TraceComparison) -> str:
    """The answer on a trace: what is to blame, and how much communication is exposed."""
    if result.replayed and not result.calls:
        return " ".join((f"{prices_alone(result, _files(result))}.", *_more(result)))
    title = trace_title(result)
    judged = list(_as_sentences(blame(result)))
    # what all calls reach says nothing more where tiers are judged
    if not result.wires:
        judged = [f"{sentence(_speed(result))}.", *judged]
    return " ".join((*judged, f"{_exposed(result)}: {title}.", *_more(result)))


def _more(result: TraceComparison) -> Iterable[str]:
    assumed = ""
    for why in result.assumed:
        # else it stands first
        if why.code != "group-by-fabric" or not result.calls:
            assumed = f"{sentence(str(why))}."
    return filter(None, (assumed, graph_step(result.replayed), _waited(result), against(result)))


_NOTABLE = 0.1  # waiting, as a share of the time on the wire


def _waited(result: TraceComparison) -> str:
    """Where waiting for a late rank outweighs the wire."""
    wire = sum(call.wire_s for call in result.waits.collectives)
    wait = sum(call.wait_s for call in result.waits.collectives)
    if not wait or wait < wire * _NOTABLE:
        return ""
    text = f"Each rank also waits {format_time(wait)} for others, next to {format_time(wire)} of transfer"
    late = max(result.waits.ranks, key=attrgetter("last"))
    # more than twice as often as if all ranks came last equally often
    if late.last * len(result.waits.ranks) > 2 * late.calls:
        who = late.file
        if late.rank is not None:
            who = f"rank {late.rank}"
        text += f": {who} is last in {late.last} of {late.calls} calls"
    return f"{text}."


def against(result: TraceComparison) -> str:
    """What changed from the other trace: a step, its communication, the collective that changed
    most."""
    other = result.against
    if other is None:
        return ""
    now = _step_s(result)
    then = _step_s(other)
    # of a step, as the two may have several
    exposed = result.exposed * now - other.exposed * then
    word = "more"
    if exposed < 0:
        word = "less"
    text = (
        f"A step takes {format_time(now)}, in the other trace {format_time(then)}:"
        f" {format_time(abs(exposed))} {word} exposed communication"
    )
    most = max(compared_totals(result), key=lambda row: abs(row.change_s), default=None)
    if most and most.change_s:
        what = f"{most.primitive.label} of {size_text(most.bytes)}"
        change = f"{_or_none(most.then_s)} -> {_or_none(most.now_s)}"
        text += f"; {what} changed most ({change} per step)"
    return f"{text}."


def _step_s(result: TraceComparison) -> float:
    """Seconds of a step, or of a trace without steps."""
    return result.window_s / max(1, result.steps or len(result.files))


def _or_none(seconds: float) -> str:
    if not seconds:
        return "none"
    return format_time(seconds)


def _facts(result: TraceComparison) -> Iterator[str]:
    """What the traces are of, which times are only bounds, and how much compute hides."""
    if not result.window_s:
        return
    yield _ran_on(result)
    placed_by = result.rank_map.given
    if placed_by:
        yield f"the ranks of the job are placed on the fabric by {clipped(placed_by)}"
    for wire in result.wires:
        if wire.why and wire.verdict != "unknown":
            bounds = f"{wire.calls - wire.clear} of {wire.calls} times on {wire.tier}"
            yield f"{bounds} are upper bounds: {wire.why}"
    if result.overlap is not None:
        hidden = percent(result.overlap)
        by_rank = _each(_hidden_by_rank(result))
        yield f"compute hides {hidden} of the communication time{by_rank}"
    doubts = dict.fromkeys(device.doubt for device in result.activity if device.doubt)
    yield from map(str, doubts)
    # a kernel's name such as AllReduce_Sum_f32_RING_LL
    if any("LL" in total.kernel.split("_") for total in result.totals):
        yield _CARRIER


def _ran_on(result: TraceComparison) -> str:
    """``a step takes 46.9 ms; NVIDIA H100, NCCL 2.21.5``."""
    each = format_time(result.window_s / (result.steps or len(result.files)))
    text = f"a trace spans {each}: it has no ProfilerStep# annotations"
    if result.steps:
        text = f"a step takes {each}"
    software = []
    if result.device:
        software.append(clipped(result.device))
    if result.nccl:
        software.append(f"NCCL {clipped(result.nccl)}")
    if software:
        text += f"; {', '.join(software)}"
    return text


def _hidden_by_rank(result: TraceComparison) -> list[str]:
    texts = []
    for device in result.activity:
        if device.overlap is not None:
            share = percent(device.overlap)
            texts.append(f"rank {device.rank}: {share}")
    return texts


def _each(parts: Sequence[str]) -> str:
    """Several parts in brackets; nothing for one alone."""
    if len(parts) < 2:
        return ""
    text = ", ".join(parts[:_MOST_TOTALS])
    more = len(parts) - _MOST_TOTALS
    if more > 0:
        return f" ({text} and {more} more)"
    return f" ({text})"


def _trace_blocks(result: TraceComparison) -> list[Block]:
    """The answer and the calls first; waits, findings and what is left out after them."""
    where = on_fabric(result.fabric, result.overrides)
    out: list[Block] = [Lines("the trace", tuple(_facts(result)))]
    if result.against:
        rows = tuple(sorted(compared_totals(result), key=lambda row: -abs(row.change_s)))
        out.append(
            Table(_COMPARED, rows, title="the calls of a step, before and now", first=_MOST_TOTALS)
        )
    if result.waits.ranks:
        title = "which rank is last (a call's shortest kernel is the transfer, the rest is waiting)"
        out.append(Table(_LATE, result.waits.ranks, title=title))
        out.append(
            Table(_WAITS, result.waits.collectives, title="transfer and waiting, by collective")
        )
    if result.replayed:
        out += graph_blocks(result.replayed)
    if result.unpriced:
        title = "communication kernels of which no bytes are known"
        out.append(Table(_UNPRICED, result.unpriced, title=title, first=_MOST_TOTALS))
    for finding in result.findings:
        words = SeriesWords([finding.health], (result.device,), where)
        read = words.outcome(finding.health)
        out.append(Lines(f"findings: {finding.series}", (read, *map(str, finding.findings))))
    reasons = [
        f"{why}: {counted(calls, 'call')}" for why, calls in unpriced_reasons(result).items()
    ]
    out += listed("without a price", reasons)
    out += listed("left out", _left_out(result))
    table = _totals(result)._replace(title="by group, primitive and size", first=_MOST_TOTALS)
    return [Headline(traced(result)), table, *map(later, out)]


def _left_out(result: TraceComparison) -> Iterator[str]:
    """Calls and files that are not or only partly used, and why."""
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


def _calls(result: TraceComparison) -> Any:
    """The calls; without a map of ranks their places go without saying."""
    if result.rank_map.given:
        return result.calls
    return [TracedCallDocument.of(call, places=None) for call in result.calls]


def _compared(result: TraceComparison) -> Any:
    return LEFT_OUT if result.against is None else compared_totals(result)


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
    against: list[ComparedCalls] = optional(_compared)
    verdict: str = derived(trace_verdict)
    blame: list[str] = derived(lambda result: tuple(blame(result)))
    wires: list[LinkHealth]
    totals: list[CallTotalDocument]
    calls: list[TracedCallDocument] = derived(_calls)
    findings: list[TraceFindingDocument]
    files: list[TraceFile]
    left_out: list[LeftOutKernels]


def _trace_summary(result: TraceComparison) -> str:
    if result.replayed and not result.calls:
        return traced(result)
    exposed = _exposed(result) if result.wires else trace_verdict(result)
    answer = (trace_title(result), exposed, *blame(result))
    return "\n".join((*answer, *_more(result)))


VIEWS = {TraceComparison: View("trace", _trace_blocks, TracesDocument.of, _totals, _trace_summary)}
