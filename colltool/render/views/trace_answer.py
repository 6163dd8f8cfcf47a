"""The answer of ``trace`` in sentences.

:func:`trace_headline` is the screen's: which tier is to blame (:mod:`colltool.render.views.trace_blame`),
how much communication is exposed, what else a reader should know. :func:`trace_summary` says the same,
a sentence a line. Titles of charts and pages have :func:`trace_title` (what was traced) and
:func:`trace_verdict` (what came of it).

``exposed`` and ``share`` are how much of the steps' time (``window_s``, all ranks together) is communication, without
and with what compute hides. ``wires`` are the tiers that priced calls cross, ``replayed`` graphs of Chakra traces,
which have no recorded times.
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

_NOTABLE_WAIT = 0.1  # of the transfers' time, from which on waiting is worth a sentence


def trace_headline(result: TraceComparison) -> str:
    """The answer on a trace: what is to blame, and how much communication is exposed."""
    sentences = []
    if _has_only_graphs(result):
        sentences.append(trace_verdict(result))
    else:
        # what all calls reach says nothing more where tiers are judged
        if not result.wires:
            sentences.append(sentence(_speed_text(result)))
        # they begin with a capital, or with the name of a tier, which stays as it is
        sentences += blame(result)
        sentences.append(f"{_exposed_text(result)}: {trace_title(result)}")
    sentences += _further(result)
    return f"{'. '.join(sentences)}."


def _has_only_graphs(result: TraceComparison) -> bool:
    """Whether no call has a recorded time: the graphs of Chakra traces alone."""
    return bool(result.replayed and not result.calls)


def _further(result: TraceComparison) -> Iterator[str]:
    """Sentences that stand after the answer: what was assumed, the graphs, waiting, the other trace."""
    assumed = ""
    # of several assumptions the last one is said: one sentence is enough here, JSON has them all
    for assumption in result.assumed:
        # :func:`blame` begins with this one
        if assumption.code != "group-by-fabric" or not result.calls:
            assumed = sentence(str(assumption))
    texts = (
        assumed,
        graph_step(result.replayed),
        _waiting(result),
        _since_other(result),
    )
    return filter(None, texts)


def trace_summary(result: TraceComparison) -> str:
    """The answer, a sentence a line, below the title."""
    if _has_only_graphs(result):
        return trace_headline(result)
    lines = [trace_title(result)]
    if result.wires:
        lines.append(_exposed_text(result))
    else:
        lines.append(trace_verdict(result))
    lines += blame(result)
    lines += [f"{text}." for text in _further(result)]
    return "\n".join(lines)


def trace_title(result: TraceComparison) -> str:
    """``312 collective calls in 4 traces of 8 ranks on dgx-h100``."""
    calls = counted(len(result.calls), "collective call")
    if result.unpriced and not result.calls:
        kernels = sum(kernel.calls for kernel in result.unpriced)
        calls = f"{counted(kernels, 'communication kernel')} of unknown size"
    return f"{calls} in {_files(result)} on {fabric_of(result)}"


def _files(result: TraceComparison) -> str:
    """``4 traces of 8 ranks``."""
    traces = counted(len(result.files), "trace")
    if result.world:
        return f"{traces} of {counted(result.world, 'rank')}"
    return traces


def trace_verdict(result: TraceComparison) -> str:
    """How much of a step is communication, and its speed, for titles."""
    if _has_only_graphs(result):
        return prices_alone(result, _files(result))
    return f"{_exposed_text(result)}; {_speed_text(result)}"


def _exposed_text(result: TraceComparison) -> str:
    """``Exposed communication takes 12% of 3 steps (31% with what compute hides)``."""
    exposed = f"Exposed communication takes {percent(result.exposed)} of {window_text(result)}"
    return f"{exposed} ({percent(result.share)} with what compute hides)"


def _speed_text(result: TraceComparison) -> str:
    """Say what all calls with a price reach of it, or why none has one."""
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
    """Say how long ranks wait for a late one and which is late; empty where that is not notable."""
    wire_s = 0.0
    wait_s = 0.0
    for collective in result.waits.collectives:
        wire_s += collective.wire_s
        wait_s += collective.wait_s
    if not wait_s or wait_s < wire_s * _NOTABLE_WAIT:
        return ""
    waits = f"Each rank also waits {format_time(wait_s)} for others"
    text = f"{waits}, next to {format_time(wire_s)} of transfer"
    ranks = result.waits.ranks
    latest = max(ranks, key=attrgetter("last"))
    # more than twice as often as if all ranks came last equally often
    if latest.last * len(ranks) > 2 * latest.calls:
        name = latest.file
        if latest.rank is not None:
            name = f"rank {latest.rank}"
        text += f": {name} is last in {latest.last} of {latest.calls} calls"
    return text


def _since_other(result: TraceComparison) -> str:
    """Say what changed from the other trace: a step, its communication, and the collective that changed most.
    Empty without another trace."""
    other = result.against
    if other is None:
        return ""
    now_s = step_s(result)
    then_s = step_s(other)
    # exposed communication is known as a share of each trace; traces may differ in steps
    change_s = result.exposed * now_s - other.exposed * then_s
    word = "less" if change_s < 0 else "more"
    text = (
        f"A step takes {format_time(now_s)}, in the other trace {format_time(then_s)}:"
        f" {format_time(abs(change_s))} {word} exposed communication"
    )
    largest = max(compared_totals(result), key=lambda row: abs(row.change_s), default=None)
    if largest and largest.change_s:
        calls = f"{largest.primitive.label} of {size_text(largest.bytes)}"
        times = f"{_time_or_none(largest.then_s)} -> {_time_or_none(largest.now_s)}"
        text += f"; {calls} changed most ({times} per step)"
    return text


def step_s(result: TraceComparison) -> float:
    """Seconds of a step, or of a trace without steps."""
    steps = result.steps or len(result.files)
    return result.window_s / max(1, steps)


def _time_or_none(seconds: float) -> str:
    """A time, or ``none`` for 0: there were no such calls."""
    if not seconds:
        return "none"
    return format_time(seconds)
