"""The chart of a traced step: the calls that took longest as bars, hidden and exposed, with a mark at
what the fabric should take."""

from __future__ import annotations

from colltool.base.formatting import percent, size_text
from colltool.diagnosis.trace_results import CallTotal, TraceComparison
from colltool.extras.pictures.plot.look import HIDDEN_HATCH, SKY, short_time
from colltool.extras.pictures.plot.panels import Bar, BarPiece, Chart, Key, bars_panel
from colltool.render.views.trace_answer import trace_title, trace_verdict

_MOST_BARS = 16
_MOST_NAMED_CALLS = 3  # in the text in place of the picture
_TITLE_POINTS = 9.0  # smaller than usual, as the verdict is in it
_COLOUR = SKY  # one for all calls


def trace_chart(trace: TraceComparison, _paged: bool) -> Chart:
    """The chart of a trace; its title has the verdict, and how many calls are left out."""
    totals = longest_calls(trace)
    bars = list(map(_call_bar, totals))
    keys = (
        Key("hatched: hidden under compute", _COLOUR, HIDDEN_HATCH),
        Key("plain: exposed", _COLOUR),
        Key("expected of the fabric"),
    )
    title = trace_title(trace)
    verdict = trace_verdict(trace)
    calls = "; ".join(f"{bar.name}: {bar.end_text}" for bar in bars[:_MOST_NAMED_CALLS])
    alt = f"{title}: {verdict}. Longest: {calls}."
    if len(totals) < len(trace.totals):
        title += f" (the {len(totals)} of {len(trace.totals)} that took most)"
    panel = bars_panel(bars, short_time, along="time of all calls, on all ranks with a trace")
    return Chart(f"{title}: {verdict}", alt, (panel,), keys, points=_TITLE_POINTS)


def longest_calls(trace: TraceComparison) -> list[CallTotal]:
    """The calls that took most in all, as many as a chart has bars."""
    return sorted(trace.totals, key=lambda call: -call.total_s)[:_MOST_BARS]


def _call_bar(call: CallTotal) -> Bar:
    """``8 x all-reduce 64MB, 16 ranks``: equal calls together, beside ``12 ms, 140% of expected``."""
    name = f"{call.primitive.label} {size_text(call.bytes)}, {call.group_size} ranks"
    if call.calls > 1:
        name = f"{call.calls} x {name}"
    time = short_time(call.total_s)
    if call.of_expected is not None:
        time += f", {percent(call.of_expected, 0)} of expected"
    hidden = BarPiece(call.total_s - call.exposed_s, "hidden", _COLOUR, HIDDEN_HATCH)
    exposed = BarPiece(call.exposed_s, "exposed", _COLOUR)
    # `expected_s` is of one call
    expected_s = None if call.expected_s is None else call.expected_s * call.calls
    return Bar(name, (hidden, exposed), time, expected_s)
