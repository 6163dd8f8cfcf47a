"""What a report says first: its title, the verdict in words, and the picture of it.

The page (:mod:`colltool.render.page`) asks for :func:`report_title`, :func:`answers` and
:func:`chart_of`; each stands above its own parts, and works on the results of all sections. What
the fabrics cost and what the verdict risks follow in ``report_costs`` and ``report_risks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

from colltool.analysis.cells import Cell
from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.report import Exhibit, Report
from colltool.analysis.sweep import Sweep
from colltool.analysis.winners import QuestionVerdict
from colltool.base.formatting import (
    and_text,
    format_factor,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
)
from colltool.base.primitives import Primitive
from colltool.diagnosis.results import Diagnosis
from colltool.diagnosis.trace_results import TraceComparison
from colltool.estimate.results import Breakdown
from colltool.render.intervals import nine_in_ten
from colltool.render.verdicts import claims_text, verdict_in_title
from colltool.render.views.doctor_answer import diagnosed
from colltool.render.views.plan import answer as planned
from colltool.render.views.trace_answer import trace_headline
from colltool.serving.results import Served, ServeList
from colltool.training.plan import Plan

_SAME_STEP = 0.005  # steps that differ by less are equally long
_FELT_PART = 0.01  # of a difference: a part that makes less of it is not named


# --- the title


def report_title(result: Report) -> str:
    """``nvl72: all-reduce up to 1.9x faster than dgx-b200 above 329 MB; training step 12%
    faster``."""
    comparison = result.result_of(Comparison)
    plans = result.result_of(Plans)
    if len(result.titles) > 2:
        # each part names its winner
        step = _fastest_step(result, plans) if plans else ""
        collective = _fastest_collective(result, comparison) if comparison else ""
        return "; ".join(filter(None, (step, collective))) or _subject(result)
    parts: list[str] = []
    if len(result.titles) == 1:
        parts += _alone_in_title(result)
    if comparison:
        parts.append(_collective_in_title(result, comparison))
    if plans:
        parts.append(_step_in_title(plans))
    text = "; ".join(filter(None, parts))
    if not text:
        return _subject(result)
    return f"{result.titles[0]}: {text}"


def _subject(result: Report) -> str:
    return " against ".join(result.titles)


def reference_point(result: Report) -> str:
    """``Reference point: 64 MB on 1152 GPUs``."""
    return f"Reference point: {title_size(result.bytes)} on {reference_ranks(result)}"


def reference_ranks(result: Report) -> str:
    """``1152 GPUs``."""
    return f"{result.ranks} {_workers(result)}"


def _workers(result: Report) -> str:
    """What a rank is on these fabrics."""
    devices = [fabric.device or "" for fabric in result.fabrics]
    if all(devices) and not any(device.startswith("tpu") for device in devices):
        return "GPUs"
    return "ranks"


def collective_asked(result: Report, primitive: Primitive) -> str:
    """``all-reduce of 64MB on 1152 GPUs``: the reference point."""
    size = title_size(result.bytes)
    return f"{primitive.label} of {size} on {reference_ranks(result)}"


def _alone_in_title(result: Report) -> Iterator[str]:
    plan = result.result_of(Plan)
    if plan:
        yield f"a training step of {plan.job.name} takes {_step_time(plan)}"
    breakdown = result.result_of(Breakdown)
    if breakdown:
        what = collective_asked(result, breakdown.price.primitive)
        took = _row_time(breakdown.price.best)
        yield f"{what} takes {took}"


def _step_in_title(plans: Plans) -> str:
    change = plans.ratio(1) - 1
    if abs(change) < _SAME_STEP:
        return "training step equally long"
    if _uncertain(plans, 1):
        return "training step too close to call"
    share = percent(abs(change))
    # how the page's own fabric does: the ratio is the other one's
    if change > 0:
        return f"training step {share} faster"
    return f"training step {share} slower"


def _collective_in_title(result: Report, comparison: Comparison) -> str:
    """How the first primitive does, over the widest range of sizes with a winner."""
    verdict = _reference_verdict(result, comparison, comparison.lines[0].primitive)
    if verdict is None:
        return ""
    return verdict_in_title(comparison, verdict, result.titles[0])


def _fastest_step(report: Report, plans: Plans) -> str:
    """``llama3-70b trains fastest on nvl72, 7.7% ahead of dgx-b200``."""
    steps = [plan.step_s for plan in plans.plans]
    best, rival = sorted(range(len(steps)), key=steps.__getitem__)[:2]
    first = report.titles[best]
    second = report.titles[rival]
    job = plans.first.job.name
    lead = steps[rival] / steps[best] - 1
    off = _SAME_STEP
    for at in (best, rival):
        # errors are of comparisons with the first plan
        if at:
            off = max(off, plans.error(at) or 0.0)
    if lead <= off:
        return f"training step of {job}: too close to call between {first} and {second}"
    return f"{job} trains fastest on {first}, {percent(lead)} ahead of {second}"


def _fastest_collective(result: Report, comparison: Comparison) -> str:
    line = reference_line(result, comparison, comparison.lines[0].primitive)
    if line is None:
        return ""
    timed = _timed(line)
    if len(timed) < 2:
        return ""
    what = f"{line.primitive.label} of {title_size(line.bytes)}"
    (best_s, best), (rival_s, rival) = timed[:2]
    first = result.titles[best]
    second = result.titles[rival]
    if _too_close(line, best, rival):
        return f"{what}: too close to call between {first} and {second}"
    lead = format_factor(rival_s / best_s, 3)
    return f"{what} fastest on {first}, {lead} ahead of {second}"


def _overlap(first: Cell, other: Cell) -> bool:
    """Whether the intervals of two prices overlap."""
    if first.interval is None or other.interval is None:
        return False
    if first.interval.low_s > other.interval.high_s:
        return False
    return other.interval.low_s <= first.interval.high_s


# --- the verdict


def answers(result: Report) -> Iterator[str]:
    """The verdict: a sentence or two for each question, those of a job first."""
    compares = result.result_of(Comparison) is not None
    plans = result.result_of(Plans) is not None
    for section in sorted(result.sections, key=lambda section: section.key != "job"):
        for exhibit in section.exhibits:
            kind = type(exhibit.result)
            # the comparison has the same price, and the plans the same plan, beside the others
            if (kind is Breakdown and compares) or (kind is Plan and plans):
                continue
            if kind in _ANSWERS:
                yield from _ANSWERS[kind](result, exhibit.result)


def _reference_time(report: Report, result: Breakdown) -> Iterator[str]:
    row = result.price.best
    what = sentence(collective_asked(report, result.price.primitive))
    took = _row_time(row)
    busbw_Bps = float(row.busbw_Bps)
    rate = format_rate(busbw_Bps, 3)
    yield f"{what} takes {took}: {rate} bus bandwidth, {row.bound}-bound."


def _row_time(row: Any) -> str:
    return _with_interval(float(row.total_s), row.interval)


def _with_interval(seconds: float, interval: Any) -> str:
    """``538 us (-34% to +51%)``."""
    around = nine_in_ten(interval, seconds)
    took = format_time(seconds, 3)
    if around:
        return f"{took} ({around})"
    return took


def _compared(report: Report, result: Comparison) -> Iterator[str]:
    """Which of two fabrics wins over which sizes, and the times at the reference point; of several
    the order there."""
    for primitive in dict.fromkeys(line.primitive for line in result.lines):
        line = reference_line(report, result, primitive)
        if len(result.columns) > 2:
            if line is not None:
                yield _order(report, line)
            continue
        verdict = _reference_verdict(report, result, primitive)
        if verdict is None:
            continue
        what = sentence(primitive.label)
        claims = claims_text(result, verdict)
        text = f"{what}, {reference_ranks(report)}: {claims}."
        if line is not None:
            size = title_size(line.bytes)
            text += f" At {size}: {_times(report, line)}."
        yield text


def _order(report: Report, line: CompareLine) -> str:
    """``All-reduce of 64MB on 64 GPUs is fastest on nvl72: 202 us (-22% to +29%). dgx-b200 takes
    3.3x, dgx-h100 3.4x as long.``"""
    names = report.titles
    what = sentence(collective_asked(report, line.primitive))
    timed = _timed(line)
    if not timed:
        return f"{what} cannot run on any of them."
    (best_s, best), *others = timed
    took = _with_interval(best_s, line.cells[best].interval)
    text = f"{what} is fastest on {names[best]}: {took}."
    close = [names[at] for _, at in others if _too_close(line, best, at)]
    if close:
        among = and_text([names[best], *close])
        text = f"{what} is too close to call between {among}: {took} on {names[best]}."
    times: list[str] = []
    for total_s, at in others:
        factor = format_factor(total_s / best_s, 2)
        # the verb once: dgx-b200 takes 3.3x, dgx-h100 3.4x as long
        verb = "" if times else " takes"
        times.append(f"{names[at]}{verb} {factor}")
    if times:
        text += f" {', '.join(times)} as long."
    absent = []
    for name, cell in zip(names, line.cells, strict=True):
        if cell.total_s is None:
            absent.append(name)
    if absent:
        text += f" It cannot run on {', '.join(absent)}."
    return text


def _timed(line: CompareLine) -> list[tuple[float, int]]:
    """Seconds and columns that can run it, the fastest first."""
    timed = []
    for at, cell in enumerate(line.cells):
        if cell.total_s is not None:
            timed.append((cell.total_s, at))
    return sorted(timed)


def _too_close(line: CompareLine, best: int, rival: int) -> bool:
    """Whether two columns differ by less than the error; what both err alike in does not count
    against the first column."""
    if best and rival:
        return _overlap(line.cells[best], line.cells[rival])
    best_s = line.cells[best].total_s
    rival_s = line.cells[rival].total_s
    if best_s is None or rival_s is None:
        return False
    lead = rival_s / best_s - 1
    # one of the two is the first column, which the error is of
    return lead <= line.ratio_error(best or rival)


def _times(report: Report, line: CompareLine) -> str:
    texts = []
    for title, cell in zip(report.titles, line.cells, strict=True):
        if cell.total_s is None:
            texts.append(f"cannot run on {title}")
        else:
            took = _with_interval(cell.total_s, cell.interval)
            texts.append(f"{took} on {title}")
    return ", ".join(texts)


def reference_line(report: Report, result: Comparison, primitive: Any) -> CompareLine | None:
    for line in result.lines:
        if (line.primitive, line.ranks, line.bytes) == (primitive, report.ranks, report.bytes):
            return line
    return None


def _reference_verdict(
    report: Report, result: Comparison, primitive: Primitive
) -> QuestionVerdict | None:
    """Who wins a collective on the ranks of the reference point."""
    for verdict in result.verdicts:
        if verdict.primitive is primitive and report.ranks in verdict.ranks:
            return verdict
    return None


# --- the verdict of a job


def _steps(report: Report, result: Plans) -> Iterator[str]:
    """Which fabric has the shortest step, and how far the others are from it."""
    first, *others = result.plans
    titles = report.titles
    what = f"A training step of {first.job.name} on {first.ranks} {_workers(report)}"
    if len(others) == 1:
        times = []
        for plan, title in titled_plans(report, result):
            times.append(f"{_step_time(plan)} on {title}")
        yield f"{what} takes {', '.join(times)}."
        difference = _step_difference(result, 1, titles[0])
        yield f"{titles[1]}: {difference}."
        return
    fastest = min(result.plans, key=attrgetter("step_s"))
    best = titles[result.plans.index(fastest)]
    text = f"{what} is fastest on {best}: {_step_time(fastest)}."
    # once for all, where each line would repeat it
    off = 0.0
    for at in range(1, len(titles)):
        off = max(off, result.error(at) or 0.0)
    if off:
        text += f" Comparisons of steps are typically {percent(off)} off."
    yield text
    for at, plan in enumerate(others, 1):
        difference = _step_difference(result, at, titles[0], brief=True)
        took = format_time(plan.step_s, 3)
        yield f"{titles[at]}: {took}, {difference}."


def titled_plans(report: Report, result: Plans) -> Iterator[tuple[Plan, str]]:
    yield from zip(result.plans, report.titles, strict=True)


def _step_time(plan: Plan) -> str:
    """``4.43 s (3.9-5.1 s, 90% interval)``."""
    text = format_time(plan.step_s, 3)
    if plan.error is None or plan.job.measured_step_s is not None:
        return text
    low_s, high_s = plan.error.spread(plan.step_s)
    low = format_time(low_s, 2)
    high = format_time(high_s, 2)
    number, unit = low.split(" ")
    ends = f"{low} to {high}"
    # one unit is enough where both ends have it
    if high.endswith(f" {unit}"):
        ends = f"{number}-{high}"
    return f"{text} ({ends}, 90% interval)"


def _uncertain(result: Plans, at: int) -> bool:
    error = result.error(at)
    if error is None:
        return False
    change = result.ratio(at) - 1
    return abs(change) <= error


def _step_difference(result: Plans, at: int, first: str, *, brief: bool = False) -> str:
    """``12% slower; 360 of 539 ms because the GPU is slower, 179 ms because of the network``."""
    change = result.ratio(at) - 1
    if abs(change) < _SAME_STEP:
        return f"no measurable difference to {first}"
    word = "slower" if change > 0 else "faster"
    share = percent(abs(change))
    how = f"{share} {word} than {first}"
    error = result.error(at) or 0.0
    doubt = f"such comparisons are typically {percent(error)} off"
    if _uncertain(result, at):
        if brief:
            return f"too close to call ({how})"
        return f"too close to call (the step is {how}, and {doubt})"
    if error and not brief:
        how += f" ({doubt})"
    why = _why_step(result.first, result.plans[at])
    return f"{how}; {why}"


def _why_step(first: Plan, other: Plan) -> str:
    """What of a difference between two steps the GPU makes and what the network."""
    change_s = other.step_s - first.step_s
    # with a free network
    by_device_s = other.control_step_s - first.control_step_s
    by_network_s = change_s - by_device_s
    word = "slower" if change_s > 0 else "faster"
    size = format_time(abs(change_s), 3)
    least_s = _FELT_PART * abs(change_s)
    # where compute is given, or the device the same, all of it is the network
    if abs(by_device_s) < least_s:
        return f"all {size} because the network is {word}"
    if abs(by_network_s) < least_s:
        return f"all {size} because the GPU is {word}"
    device = format_time(abs(by_device_s), 3)
    network = format_time(abs(by_network_s), 3)
    if (by_device_s > 0) == (by_network_s > 0):
        return f"{device} of {size} because the GPU is {word}, {network} because of the network"
    if by_device_s > 0:
        return f"its GPU costs {device}, its network saves {network}"
    return f"its GPU saves {device}, its network costs {network}"


def _closed(text: str) -> str:
    """A sentence with one full stop at its end."""
    return f"{text.rstrip('.')}."


def _serving(_: Report, result: Served | ServeList) -> Iterator[str]:
    summary = result.summary()
    yield f"Serving: {_closed(summary)}"


_ANSWERS: dict[type, Callable[[Report, Any], Iterable[str]]] = {
    Breakdown: _reference_time,
    Comparison: _compared,
    Plan: lambda _, result: (planned(result),),
    Plans: _steps,
    Served: _serving,
    ServeList: _serving,
    Diagnosis: lambda _, result: (f"Benchmarks: {_closed(diagnosed(result))}",),
    TraceComparison: lambda _, result: (f"The traced job: {_closed(trace_headline(result))}",),
}


# --- the picture


def chart_of(result: Report) -> Exhibit | None:
    """The exhibit whose lines are drawn with the verdict: of the fabrics beside each other, else
    of the one fabric by ranks."""
    drawn: dict[type, Exhibit] = {}
    for section in result.sections:
        for exhibit in section.exhibits:
            if exhibit.view is not None:
                drawn.setdefault(type(exhibit.result), exhibit)
    return drawn.get(Comparison) or drawn.get(Sweep)
