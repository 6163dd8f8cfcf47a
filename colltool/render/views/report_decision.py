"""What a report says first: the answer in a sentence, the picture of it, what it costs and what it
risks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.analysis.compare import CompareLine, Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import Assumptions, Report, ReportEntry
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import Sweep
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_factor,
    format_money,
    format_power,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
)
from colltool.diagnosis.results import Diagnosis
from colltool.diagnosis.trace_results import TraceComparison
from colltool.estimate.results import Breakdown
from colltool.fabric.properties import Cost, FabricFacts, basis_of, bill_of
from colltool.fabric.results import FabricShown
from colltool.render.blocks import Table, gathered, label, number
from colltool.render.intervals import NINE_OF_TEN, within
from colltool.render.views.compare import ground_lines
from colltool.render.views.doctor import diagnosed
from colltool.render.views.plan import answer as planned
from colltool.render.views.plan_compare import verdict as planned_on
from colltool.render.views.trace import traced
from colltool.training.plan import Plan

_SMALL = 4096.0
"""Bytes: a difference that begins below is one at every size that a page shows."""


def answers(result: Report) -> Iterator[str]:
    """A sentence or two for each question, those of a job first; the first of them is the page's
    answer."""
    for section in sorted(result.sections, key=lambda row: row.key != "job"):
        own = [exhibit.result for exhibit in section.exhibits]
        if plans := _first(own, Plans):
            yield from _steps(plans)
        beside = _first(own, Comparison)
        for exhibit in own:
            # the comparison has the same price beside the others
            if not (beside and isinstance(exhibit, Breakdown)):
                yield from _ANSWERS.get(type(exhibit), _nothing)(result, exhibit)


def chart_of(result: Report) -> ReportEntry | None:
    """The exhibit whose picture goes with the answer."""
    every = [
        exhibit
        for section in result.sections
        for exhibit in section.exhibits
        if exhibit.view is not None
    ]
    for kind in (Plans, Plan, Comparison, Diagnosis, Sweep):
        for exhibit in every:
            if isinstance(exhibit.result, kind) and not (
                isinstance(exhibit.result, Diagnosis) and exhibit.result.ok
            ):
                return exhibit
    return None


def _first(results: Iterable[Any], kind: type) -> Any:
    return next((result_ for result_ in results if isinstance(result_, kind)), None)


def _nothing(_: Report, _result: Any) -> tuple[str, ...]:
    return ()


def _closely(_: Report, result: Breakdown) -> Iterator[str]:
    price, row = result.price, result.price.best
    asked = f"{price.primitive.spoken} of {title_size(float(price.bytes))} on {price.group.spoken}"
    rate = format_rate(float(row.busbw_Bps))
    yield f"{asked} takes {format_time(float(row.total_s))}, {rate} busbw, bound by {row.bound}"


def _beside(report: Report, result: Comparison) -> Iterator[str]:
    """Where the page looks closely:
    ``all-reduce of 64MB on 64 ranks takes 588 us on a; 177 us on b, 3.3x faster``."""
    line = next(
        (line for line in result.lines if (line.ranks, line.bytes) == (report.ranks, report.bytes)),
        None,
    )
    if line is None:
        return
    asked = f"{line.primitive.spoken} of {title_size(report.bytes)} on {line.ranks} ranks"
    first, *others = (column.name for column in result.columns)
    own = line.cells[0].total_s
    told = [f"takes {format_time(own)} on {first}" if own is not None else f"cannot run on {first}"]
    told += [_other(result, line, at, name) for at, name in enumerate(others, 1)]
    yield f"{asked} {'; '.join(told)}"


def _other(result: Comparison, line: CompareLine, at: int, name: str) -> str:
    total, ratio = line.cells[at].total_s, line.ratio(at)
    if total is None:
        return f"{name} cannot run it"
    if ratio is None:
        return (
            f"{format_time(total)} on {name}, not to be compared: only one of the two has measured"
            " software time"
        )
    times = f"{format_time(total)} on {name}"
    if abs(ratio - 1) < 0.005:
        return f"{times}, no difference"
    error = line.ratio_error(at)
    near = (
        f", within the error ({percent(error)}): no sure difference"
        if max(ratio, 1 / ratio) - 1 <= error
        else ""
    )
    how = f"{format_factor(max(ratio, 1 / ratio), 3)} {'faster' if ratio < 1 else 'slower'}"
    return f"{times}, {how}{near}{_holds(result, line, at)}"


def _holds(result: Comparison, line: CompareLine, at: int) -> str:
    """From which size on, where it is not so at every smaller one."""
    for finding in result.findings:
        if (finding.column, finding.primitive) == (
            result.columns[at].name,
            line.primitive,
        ) and line.ranks in finding.ranks:
            here = next(
                (
                    run
                    for run in finding.in_short.runs
                    if run.from_bytes <= line.bytes <= run.to_bytes
                ),
                None,
            )
            if here is not None and here.from_bytes > _SMALL:
                return f" (so from {format_bytes(here.from_bytes, 3)} on)"
    return ""


def _steps(result: Plans) -> Iterator[str]:
    fastest = min(range(len(result.plans)), key=lambda at: result.plans[at].step_s)
    times = ", ".join(
        f"{format_time(plan.step_s)} on {title}"
        for plan, title in zip(result.plans, result.titles, strict=True)
    )
    job = result.plans[0].job.name
    slowest = max(plan.step_s for plan in result.plans)
    if slowest / result.plans[fastest].step_s < 1.005:
        yield f"A step of {job} takes as long on each: {times}."
        return
    against = "; ".join(planned_on(result)[: len(result.plans) - 1])
    yield (
        f"{job} is fastest on {result.titles[fastest]}: a step takes {times}. Against"
        f" {result.titles[0]}: {against}."
    )


_ANSWERS: dict[type, Callable[[Report, Any], Iterable[str]]] = {
    Breakdown: _closely,
    Comparison: _beside,
    Plan: lambda _, result: (planned(result),),
    Diagnosis: lambda _, result: (f"benchmarks: {diagnosed(result)}",),
    TraceComparison: lambda _, result: (f"the job that was traced: {traced(result)}",),
}


class _Bought(NamedTuple):
    """A fabric of the page, all of it, and the step of the job there."""

    title: str
    facts: FabricFacts
    cost: Cost | None
    plan: Plan | None


_COST = (
    label("fabric", "fabric", get=attrgetter("title")),
    number("ranks", "ranks", get=attrgetter("facts.ranks")),
    number("switches", "switches", get=attrgetter("facts.switches")),
    number("links", "links", get=attrgetter("facts.links")),
    number(
        "network_cost", "network costs", format_money, get=lambda row: row.cost and row.cost.total
    ),
    label("currency", "in", get=lambda row: row.cost and row.cost.currency),
    number(
        "network_W", "network draws", format_power, get=lambda row: row.cost and row.cost.power_W
    ),
    number("step_s", "step", format_time, get=lambda row: row.plan and row.plan.step_s),
    number(
        "device_hours",
        "device-hours a step",
        "{:.4g}".format,
        get=lambda row: _hours(row.plan),
    ),
    number(
        "tokens_per_s",
        "tokens/s",
        "{:,.0f}".format,
        get=lambda row: row.plan and row.plan.tokens_per_s,
    ),
)


def _hours(plan: Plan | None) -> float | None:
    return None if plan is None else plan.ranks * plan.step_s / 3600


def cost_table(result: Report) -> Table:
    """What each fabric is made of and costs by its file, and the job's step there; columns that
    nobody knows are left out."""
    every = [exhibit.result for section in result.sections for exhibit in section.exhibits]
    shown = [exhibit for exhibit in every if isinstance(exhibit, FabricShown)]
    plans, single = _first(every, Plans), _first(every, Plan)
    steps = plans.plans if plans else [single] * len(shown)
    rows = []
    for exhibit, title, step in zip(shown, result.titles, steps, strict=True):
        rows.append(
            _Bought(
                title,
                exhibit.facts,
                bill_of(exhibit.fabric).cost if exhibit.fabric.prices else None,
                step,
            )
        )
    idle = [column.key for column in _COST if all(column.value(row) is None for row in rows)]
    return Table(
        _COST,
        tuple(rows),
        None,
        "Whole fabrics, and a step of the job" if single else "Whole fabrics",
    ).without(*idle)


def unpriced(result: Report) -> str:
    """Which fabrics' files give no prices, and what to write; empty when all do."""
    names = [
        title
        for fabric, title in zip(result.fabrics, result.titles, strict=True)
        if fabric.prices is None
    ]
    write = "prices: {currency: USD, switch: {price: 20000, draws: 1500}}"
    return (
        f"No price in the file of {', '.join(names)}: write {write} there and the network's cost"
        " stands here."
        if names
        else ""
    )


def risks(result: Report) -> Iterator[str]:
    """What the answer hangs on: the model's error, the numbers that move it, what they rest on,
    what is not alike."""
    every = [exhibit.result for section in result.sections for exhibit in section.exhibits]
    prices = [exhibit.price for exhibit in every if isinstance(exhibit, Breakdown)]
    told = gathered(
        (within(price.best), price.primitive.spoken)
        for price in prices
        if price.best.interval is not None
    )
    yield from (f"{NINE_OF_TEN} {', '.join(names)} {off}." for off, names in told.items())
    for exhibit in every:
        if isinstance(exhibit, Sensitivity):
            yield _hangs_on(exhibit)
    for fabric, title in zip(result.fabrics, result.titles, strict=True):
        yield (
            f"{title}:"
            f" {_RESTS.get(basis_of(fabric)) or f'prices rest on numbers measured on {basis_of(fabric)[3:]}'}."
        )
    for exhibit in every:
        if isinstance(exhibit, Assumptions) and (
            unsaid := sum(not stated.source for stated in exhibit.stated)
        ):
            yield (
                f"{exhibit.fabric.name}: {unsaid} of {counted(len(exhibit.stated), 'number')} in its file"
                " have no source."
            )
    if plans := _first(every, Plans):
        yield from (f"{line}." for line in planned_on(plans)[len(plans.plans) - 1 :])
    else:
        grounds = (
            line
            for exhibit in every
            if isinstance(exhibit, Comparison)
            for line in ground_lines(exhibit.ground)
        )
        yield from dict.fromkeys(f"{sentence(line)}." for line in grounds)


_RESTS = {
    "measured": "prices rest on numbers measured on such machines",
    "datasheet": "prices rest on datasheets; no measurement is in them",
    "announced": "announced, not shipped: its numbers are the vendor's",
    "hypothetical": "a fabric that nobody has built",
}


def _hangs_on(result: Sensitivity) -> str:
    """The number that moves the time most, and what a wrong choice of algorithm would lose."""
    most = (
        "less than 0.1%" if result.regret_p95 < 0.0005 else f"at most {percent(result.regret_p95)}"
    )
    lost = f"today's choice of algorithm loses {most} in 95 of 100 draws of its numbers"
    if not result.moves:
        return f"{sentence(result.primitive.spoken)}: {lost}."
    bar = max(result.moves, key=lambda row: abs(row.high_s - row.low_s))
    low, high = sorted((bar.low_s, bar.high_s))
    span = f"{format_time(low)} to {format_time(high)}"
    return (
        f"{sentence(result.primitive.spoken)} hangs on {bar.key} most ({span} over its range);"
        f" {lost}."
    )
