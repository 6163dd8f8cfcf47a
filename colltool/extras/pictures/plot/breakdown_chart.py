"""The chart of ``breakdown``: where the time of an algorithm goes, as stacked bars.

The first bar is the whole time, phase by phase. Phases that stream through each other overlap, so
each has a bar of its own below it. Then follow the flat algorithms that it is compared with. A
colour and a letter is a phase; hatched is its latency, plain its bandwidth.
"""

from __future__ import annotations

from colltool.base.formatting import format_factor, percent
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Breakdown
from colltool.extras.pictures.plot.look import (
    HIDDEN_HATCH,
    PALE_GREY,
    colour_of,
    letter,
    short_time,
)
from colltool.extras.pictures.plot.panels import (
    Bar,
    BarPiece,
    Chart,
    Key,
    bars_panel,
    lettered_keys,
)
from colltool.render.estimates import heading

# not dots: as SVG curves they take 10 KB per colour
_SOFTWARE_HATCH = "--"
_LAUNCH_HATCH = "xx"
_AXIS_END_FACTOR = 2.5  # times the whole time: where the axis ends; longer baselines get an arrow


def breakdown_chart(result: Breakdown, _paged: bool) -> Chart:
    """The chart of the row of a breakdown's price, which has one, and of its baselines."""
    row = result.price.results[0]
    total_s = float(row.total_s)
    bars = [Bar(row.title, _total_pieces(row), short_time(total_s))]
    if row.streams:
        bars += [_streamed_bar(number, phase) for number, phase in enumerate(row.phases)]
    baselines = []
    for baseline in result.baselines:
        bars.append(_baseline_bar(baseline, total_s))
        baselines.append(f"{baseline.title} {short_time(float(baseline.total_s))}")
    title = f"{row.title}: {heading(result.price)}"
    alt = f"{title}, {short_time(total_s)} in all. {_phase_shares(row)}."
    if baselines:
        alt += f" Flat baselines: {', '.join(baselines)}."
    panel = bars_panel(bars, short_time, axis_end=_AXIS_END_FACTOR * total_s, along="time")
    return Chart(title, alt, (panel,), _keys(row))


# --- the bars


def _total_pieces(row: AlgorithmEstimate) -> list[BarPiece]:
    """The pieces of the whole time: its phases, one after the other, then what is no phase. Phases
    that stream have their latencies and one bandwidth, that of the busiest tier."""
    pieces = []
    for number, phase in enumerate(row.phases):
        colour = colour_of(number)
        pieces.append(BarPiece(float(phase.alpha_s), letter(number), colour, HIDDEN_HATCH))
        if not row.streams:
            seconds = float(phase.bandwidth_s)
            pieces.append(BarPiece(seconds, f"{letter(number)} {short_time(seconds)}", colour))
    if row.streams:
        pieces.append(BarPiece(float(row.moved_s), "at once", PALE_GREY))
    pieces.append(BarPiece(float(row.overhead_s), "launch", PALE_GREY, _LAUNCH_HATCH))
    pieces.append(BarPiece(_drawn_rest_s(row), "", PALE_GREY, _SOFTWARE_HATCH))
    return pieces


def _streamed_bar(number: int, phase: PhaseCost) -> Bar:
    """The bar of a phase that overlaps others, by its number in the row's phases."""
    colour = colour_of(number)
    pieces = (
        BarPiece(float(phase.alpha_s), "", colour, HIDDEN_HATCH),
        BarPiece(float(phase.bandwidth_s), letter(number), colour),
    )
    return Bar(f"{letter(number)}, streamed", pieces, short_time(float(phase.total_s)))


def _baseline_bar(baseline: AlgorithmEstimate, total_s: float) -> Bar:
    """The bar of a flat algorithm, and how many times the ``total_s`` of the broken down one it
    takes."""
    pieces = (
        BarPiece(float(baseline.steps_s), "", PALE_GREY, HIDDEN_HATCH),
        BarPiece(float(baseline.moved_s), "", PALE_GREY),
        BarPiece(float(baseline.overhead_s), "", PALE_GREY, _LAUNCH_HATCH),
        BarPiece(_drawn_rest_s(baseline), "", PALE_GREY, _SOFTWARE_HATCH),
    )
    baseline_s = float(baseline.total_s)
    factor = format_factor(baseline_s / total_s, 3)
    return Bar(baseline.title, pieces, f"{short_time(baseline_s)}, {factor}")


def _drawn_rest_s(row: AlgorithmEstimate) -> float:
    """Seconds of the library's overhead as a piece: none where it is below 0, because the machine
    was measured to be faster."""
    return max(0.0, float(row.rest_s))


# --- the words


def _keys(row: AlgorithmEstimate) -> list[Key]:
    """The legend: a colour for each phase, then what is no phase, then what hatching means."""
    keys = lettered_keys(map(_phase_text, row.phases))
    if row.overhead_s:
        launch = short_time(float(row.overhead_s))
        keys.append(Key(f"launch overhead {launch}", PALE_GREY, _LAUNCH_HATCH))
    if row.rest_s > 0:
        keys.append(Key(f"software {short_time(float(row.rest_s))}", PALE_GREY, _SOFTWARE_HATCH))
    return [
        *keys,
        Key("hatched: latency (alpha)", PALE_GREY, HIDDEN_HATCH),
        Key("plain: bandwidth", PALE_GREY),
    ]


def _phase_shares(row: AlgorithmEstimate) -> str:
    """Each phase, and its share of the time."""
    texts = []
    for phase in row.phases:
        share = float(phase.total_s / row.total_s)
        texts.append(f"{_phase_text(phase)} ({percent(share)})")
    return "; ".join(texts)


def _phase_text(phase: PhaseCost) -> str:
    """``ib leaf: all-gather, ring 12 us + 250 us``: tier and level, what runs there, its latency and
    its bandwidth time."""
    place = phase.tier
    if phase.level and phase.level != place:
        place = f"{place} {phase.level}" if place else phase.level
    what_runs = f"{phase.primitive.label}, {phase.algorithm}"
    return f"{place}: {what_runs} {short_time(float(phase.alpha_s))} + {short_time(float(phase.bandwidth_s))}"
