"""The collectives of a trace as bars: what they took, hidden and exposed, and what the fabric would take."""

from __future__ import annotations

from colltool.base.formatting import format_time, percent, size_text
from colltool.render.plot_bars import ACROSS, Bar, Piece, draw_bars, mark_swatch, swatch
from colltool.render.plot_style import COLOURS, Sheet, add_legend, entitle
from colltool.render.subjects.trace import trace_title
from colltool.render.subjects.trace import verdict as judged
from colltool.traces.results import CallTotal, TraceComparison

MOST_BARS = 16
_COLOUR = COLOURS[0]


def draw_trace(result: TraceComparison, sheet: Sheet) -> None:
    """The calls that took most, a bar for each kind of group, primitive and size; a mark where they would end as expected."""
    totals = longest(result)
    bars = [_bar(one) for one in totals]
    axes = sheet.figure.add_subplot()
    draw_bars(axes, bars, lambda seconds: format_time(seconds, 3), sheet.width)
    axes.set_xlabel("time of all calls, on all ranks with a trace")
    found = {
        "hatched: hidden under compute": swatch(axes, _COLOUR, ACROSS),
        "plain: exposed": swatch(axes, _COLOUR),
        "expected of the fabric": mark_swatch(axes),
    }
    under = add_legend(sheet.figure, sheet.width, found)
    rest = f" (the {len(totals)} of {len(result.totals)} that took most)" if len(totals) < len(result.totals) else ""
    entitle(sheet.figure, f"{trace_title(result)}{rest}: {judged(result)}", sheet.width, 9)
    sheet.figure.set_size_inches(sheet.width, 0.45 * len(bars) + 1.4 + 0.18 * under)


def longest(result: TraceComparison) -> list[CallTotal]:
    """The totals that are drawn, the longest first."""
    return sorted(result.totals, key=lambda one: -one.total_s)[:MOST_BARS]


def say_trace(result: TraceComparison) -> str:
    """The bars in words: what took most, and the verdict."""
    most = "; ".join(f"{_name(one)}: {_behind(one)}" for one in longest(result)[:3])
    return f"{trace_title(result)}: {judged(result)}. Longest: {most}."


def _bar(one: CallTotal) -> Bar:
    pieces = (Piece(one.total_s - one.exposed_s, "hidden", _COLOUR, ACROSS), Piece(one.exposed_s, "exposed", _COLOUR))
    expected = None if one.expected_s is None else one.expected_s * one.calls
    return Bar(_name(one), pieces, _behind(one), expected)


def _name(one: CallTotal) -> str:
    calls = f"{one.calls} x " if one.calls > 1 else ""
    return f"{calls}{one.primitive.spoken} {size_text(one.bytes)}, {one.group_size} ranks"


def _behind(one: CallTotal) -> str:
    took = format_time(one.total_s, 3)
    return took if one.of_expected is None else f"{took}, {percent(one.of_expected, 0)} of expected"
