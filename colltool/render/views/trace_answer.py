"""The answer of ``trace`` in sentences.

:func:`trace_headline` is the screen's: which tier is to blame (:mod:`colltool.render.views.trace_blame`),
how much communication is exposed, what else a reader should know. :func:`trace_summary` says the same,
a sentence a line. Titles of charts and pages have :func:`trace_title` (what was traced) and
:func:`trace_verdict` (what came of it).
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.base.formatting import counted, format_time, percent, sentence, size_text
from colltool.diagnosis.compared import compared_totals
from colltool.diagnosis.trace_results import TraceComparison
from colltool.render.dispatch import fabric_of, reached_percent
from colltool.render.views.trace_blame import blame, window_text
from colltool.render.views.trace_graphs import graph_step, prices_alone

# Waiting is worth a sentence from this share of the transfers' time on.
_NOTABLE_WAIT = 0.1


def trace_headline(result: TraceComparison) -> str:
    """The answer on a trace: what is to blame, and how much communication is exposed."""
    if result.replayed and not result.calls:
        return " ".join((f"{prices_alone(result, _files(result))}.", *_further(result)))
    title = trace_title(result)
    # they begin with a capital, or with the name of a tier, which stays as it is
    judged = [f"{text}." for text in blame(result)]
    # what all calls reach says nothing more where tiers are judged
    if not result.wires:
        judged = [f"{sentence(_speed_text(result))}.", *judged]
    return " ".join((*judged, f"{_exposed_text(result)}: {title}.", *_further(result)))


def _further(result: TraceComparison) -> Iterator[str]:
    """What stands after the answer: what was assumed, the graphs, waiting, the other trace."""
    assumed = ""
    # of several assumptions the last one is said: one sentence is enough here, JSON has them all
    for why in result.assumed:
        # where calls have a price, :func:`blame` begins with this one
        if why.code != "group-by-fabric" or not result.calls:
            assumed = f"{sentence(str(why))}."
    graphs = graph_step(result.replayed)
    return filter(None, (assumed, graphs, _waiting(result), _since_other(result)))


def trace_summary(result: TraceComparison) -> str:
    if result.replayed and not result.calls:
        return trace_headline(result)
    exposed = _exposed_text(result) if result.wires else trace_verdict(result)
    answer = (trace_title(result), exposed, *blame(result))
    return "\n".join((*answer, *_further(result)))


def trace_title(result: TraceComparison) -> str:
    calls = counted(len(result.calls), "collective call")
    if result.unpriced and not result.calls:
        kernels = sum(kernel.calls for kernel in result.unpriced)
        calls = f"{counted(kernels, 'communication kernel')} of unknown size"
    return f"{calls} in {_files(result)} on {fabric_of(result)}"


def _files(result: TraceComparison) -> str:
    traces = counted(len(result.files), "trace")
    if result.world:
        return f"{traces} of {counted(result.world, 'rank')}"
    return traces


def trace_verdict(result: TraceComparison) -> str:
    """How much of a step is communication, and its speed, for titles."""
    if result.replayed and not result.calls:
        return prices_alone(result, _files(result))
    return f"{_exposed_text(result)}; {_speed_text(result)}"


def _exposed_text(result: TraceComparison) -> str:
    exposed = f"Exposed communication takes {percent(result.exposed)} of {window_text(result)}"
    return f"{exposed} ({percent(result.share)} with what compute hides)"


def _speed_text(result: TraceComparison) -> str:
    if result.of_expected is None:
        if result.left_out and not result.calls:
            return f"no call has a price: {result.left_out[0].reason}"
        return "no call has a price"
    reached = reached_percent(result.of_expected)
    # where times are upper bounds, what they reach is a lower one
    if any(total.bound and total.expected_s is not None for total in result.totals):
        return f"kernels ran at {reached} of the expected speed or better"
    return f"kernels ran at {reached} of the expected speed"


def _waiting(result: TraceComparison) -> str:
    """How long ranks wait for a late one, where that is notable, and which is late."""
    wire_s = sum(call.wire_s for call in result.waits.collectives)
    wait_s = sum(call.wait_s for call in result.waits.collectives)
    if not wait_s or wait_s < wire_s * _NOTABLE_WAIT:
        return ""
    waits = f"Each rank also waits {format_time(wait_s)} for others"
    text = f"{waits}, next to {format_time(wire_s)} of transfer"
    late = max(result.waits.ranks, key=attrgetter("last"))
    # more than twice as often as if all ranks came last equally often
    if late.last * len(result.waits.ranks) > 2 * late.calls:
        who = late.file
        if late.rank is not None:
            who = f"rank {late.rank}"
        text += f": {who} is last in {late.last} of {late.calls} calls"
    return f"{text}."


def _since_other(result: TraceComparison) -> str:
    """What changed from the other trace: a step, its communication, the collective that changed
    most."""
    other = result.against
    if other is None:
        return ""
    now_s = step_s(result)
    then_s = step_s(other)
    # exposed communication is known as a share of each trace; traces may differ in steps
    more_exposed_s = result.exposed * now_s - other.exposed * then_s
    word = "more" if more_exposed_s >= 0 else "less"
    text = (
        f"A step takes {format_time(now_s)}, in the other trace {format_time(then_s)}:"
        f" {format_time(abs(more_exposed_s))} {word} exposed communication"
    )
    most = max(compared_totals(result), key=lambda row: abs(row.change_s), default=None)
    if most and most.change_s:
        what = f"{most.primitive.label} of {size_text(most.bytes)}"
        change = f"{_or_none(most.then_s)} -> {_or_none(most.now_s)}"
        text += f"; {what} changed most ({change} per step)"
    return f"{text}."


def step_s(result: TraceComparison) -> float:
    """Seconds of a step, or of a trace without steps."""
    return result.window_s / max(1, result.steps or len(result.files))


def _or_none(seconds: float) -> str:
    if not seconds:
        return "none"
    return format_time(seconds)
