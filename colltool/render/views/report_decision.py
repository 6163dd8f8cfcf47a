"""What a report says first: the answer in a sentence, the picture of it, what it costs and what it
risks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.outcomes import CompareLine
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
from colltool.render.blocks import Columns, Table, gathered, label, number
from colltool.render.documents import Document
from colltool.render.intervals import NINE_OF_TEN, within
from colltool.render.views.compare import basis_sentences
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
    for section in sorted(result.sections, key=lambda section: section.key != "job"):
        results = [exhibit.result for exhibit in section.exhibits]
        plans = _first(results, Plans)
        if plans:
            yield from _steps(plans)
        comparison = _first(results, Comparison)
        for found in results:
            # the comparison has the same price beside the others
            if not (comparison and isinstance(found, Breakdown)):
                yield from _ANSWERS.get(type(found), _nothing)(result, found)


def chart_of(result: Report) -> ReportEntry | None:
    """The exhibit whose picture is shown with the answer."""
    pictured: dict[type, ReportEntry] = {}
    for section in result.sections:
        for exhibit in section.exhibits:
            healthy = isinstance(exhibit.result, Diagnosis) and exhibit.result.ok
            if exhibit.view is not None and not healthy:
                pictured.setdefault(type(exhibit.result), exhibit)
    kinds = [kind for kind in (Plans, Plan, Comparison, Diagnosis, Sweep) if kind in pictured]
    return pictured[kinds[0]] if kinds else None


def _all_results(result: Report) -> list[Any]:
    """The results of all exhibits."""
    results = []
    for section in result.sections:
        results += [exhibit.result for exhibit in section.exhibits]
    return results


def _of_type(results: Iterable[Any], kind: type) -> list[Any]:
    return [found for found in results if isinstance(found, kind)]


def _first(results: Iterable[Any], kind: type) -> Any:
    return next(iter(_of_type(results, kind)), None)


def _nothing(_: Report, _result: Any) -> tuple[str, ...]:
    return ()


def _reference_time(_: Report, result: Breakdown) -> Iterator[str]:
    price = result.price
    row = price.best
    size = title_size(float(price.bytes))
    rate = format_rate(float(row.busbw_Bps))
    yield (
        f"{price.primitive.label} of {size} on {price.group.label} takes"
        f" {format_time(float(row.total_s))}, {rate} busbw, bound by {row.bound}"
    )


def _compared(report: Report, result: Comparison) -> Iterator[str]:
    """Times where the page looks closely:
    ``all-reduce of 64MB on 64 ranks takes 588 us on a; 177 us on b, 3.3x faster``."""
    for line in result.lines:
        if (line.ranks, line.bytes) == (report.ranks, report.bytes):
            size = title_size(report.bytes)
            what = f"{line.primitive.label} of {size} on {line.ranks} ranks"
            texts = [_other(result, line, at) for at in range(1, len(result.columns))]
            first = result.columns[0].name
            first_s = line.cells[0].total_s
            answer = f"cannot run on {first}"
            if first_s is not None:
                answer = f"takes {format_time(first_s)} on {first}"
            yield f"{what} {'; '.join((answer, *texts))}"
            return


def _other(result: Comparison, line: CompareLine, at: int) -> str:
    """The time on another fabric against the first one's."""
    name = result.columns[at].name
    total = line.cells[at].total_s
    ratio = line.ratio(at)
    if total is None:
        return f"{name} cannot run it"
    text = f"{format_time(total)} on {name}"
    if ratio is None:
        return f"{text}, not to be compared: only one of the two has measured software time"
    if abs(ratio - 1) < 0.005:
        return f"{text}, no difference"
    factor = max(ratio, 1 / ratio)
    text += f", {format_factor(factor, 3)} {'faster' if ratio < 1 else 'slower'}"
    error = line.ratio_error(at)
    if factor - 1 <= error:
        text += f", within the error ({percent(error)}): no sure difference"
    return text + _from_size(result, line, at)


def _from_size(result: Comparison, line: CompareLine, at: int) -> str:
    """Above which size it is so, where it is not so at every smaller one."""
    for finding in result.findings:
        same = finding.column == result.columns[at].name and finding.primitive == line.primitive
        if not same or line.ranks not in finding.ranks:
            continue
        for run in finding.in_short.runs:
            if run.from_bytes <= line.bytes <= run.to_bytes:
                if run.from_bytes > _SMALL:
                    return f" (so from {format_bytes(run.from_bytes, 3)} on)"
                break
    return ""


def _steps(result: Plans) -> Iterator[str]:
    steps = [plan.step_s for plan in result.plans]
    times = ", ".join(map("{} on {}".format, map(format_time, steps), result.titles))
    job = result.plans[0].job.name
    best = min(steps)
    # would read +0%
    if max(steps) / best < 1.005:
        yield f"A step of {job} takes as long on each: {times}."
        return
    against = "; ".join(planned_on(result)[: len(result.plans) - 1])
    fastest = result.titles[steps.index(best)]
    yield (
        f"{job} is fastest on {fastest}: a step takes {times}. Against {result.titles[0]}:"
        f" {against}."
    )


_ANSWERS: dict[type, Callable[[Report, Any], Iterable[str]]] = {
    Breakdown: _reference_time,
    Comparison: _compared,
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

    @property
    def device_hours(self) -> float | None:
        plan = self.plan
        if plan is None:
            return None
        return plan.ranks * plan.step_s / 3600


_COST: Columns[_Bought] = (
    label("fabric", path="title"),
    number("ranks", path="facts.ranks"),
    number("switches", path="facts.switches"),
    number("links", path="facts.links"),
    number("network_cost", "network costs", format_money, path="cost.total"),
    label("currency", "in", path="cost.currency"),
    number("network_W", "network draws", format_power, path="cost.power_W"),
    number("step_s", "step", format_time, path="plan.step_s"),
    number("device_hours", "device-hours a step", "{:.4g}".format),
    number("tokens_per_s", "tokens/s", "{:,.0f}".format, path="plan.tokens_per_s"),
)


class BoughtDocument(Document):
    """A row of the table of costs; its keys are the columns."""

    fabric: str
    ranks: int
    switches: int | None
    links: int
    network_cost: float | None
    currency: str | None
    network_W: float | None
    step_s: float | None
    device_hours: float | None
    tokens_per_s: float | None


def cost_table(result: Report) -> Table:
    """What each fabric is made of and costs by its file, and the job's step there; columns without
    a value are left out."""
    results = _all_results(result)
    shown = _of_type(results, FabricShown)
    plans = _first(results, Plans)
    single = _first(results, Plan)
    # without a job there is no step, and one fabric has one plan
    steps = plans.plans if plans else [single] * len(shown)
    rows = []
    for fabric, title, step in zip(shown, result.titles, steps, strict=True):
        cost = bill_of(fabric.fabric).cost if fabric.fabric.prices else None
        rows.append(_Bought(title, fabric.facts, cost, step))
    title = "Whole fabrics, and a step of the job" if single else "Whole fabrics"
    table = Table(_COST, tuple(rows), None, title)
    for column in _COST:
        if all(column.value(row) is None for row in rows):
            table = table.without(column.key)
    return table


def unpriced(result: Report) -> str:
    """Which fabrics' files give no prices, and what to write; empty when all do."""
    names = []
    for fabric, title in zip(result.fabrics, result.titles, strict=True):
        if fabric.prices is None:
            names.append(title)
    if not names:
        return ""
    write = "prices: {currency: USD, switch: {price: 20000, draws: 1500}}"
    return (
        f"No price in the file of {', '.join(names)}: write {write} there and the network's cost"
        " stands here."
    )


def risks(result: Report) -> Iterator[str]:
    """What the answer hangs on: the model's error, the numbers that move it, what they rest on,
    what is not alike."""
    results = _all_results(result)
    errors = []
    for breakdown in _of_type(results, Breakdown):
        price = breakdown.price
        if price.best.interval is not None:
            errors.append((within(price.best), price.primitive.label))
    for off, names in gathered(errors).items():
        yield f"{NINE_OF_TEN} {', '.join(names)} {off}."
    yield from map(_most_sensitive_text, _of_type(results, Sensitivity))
    for fabric, title in zip(result.fabrics, result.titles, strict=True):
        yield f"{title}: {_basis_text(basis_of(fabric))}."
    for assumptions in _of_type(results, Assumptions):
        numbers = counted(len(assumptions.stated), "number")
        without = sum(not entry.source for entry in assumptions.stated)
        if without:
            name = assumptions.fabric.name
            yield f"{name}: {without} of {numbers} in its file have no source."
    plans = _first(results, Plans)
    if plans:
        # the lines before are the comparison, which the answers have
        for line in planned_on(plans)[len(plans.plans) - 1 :]:
            yield f"{line}."
        return
    lines: dict[str, None] = {}
    for comparison in _of_type(results, Comparison):
        lines.update(dict.fromkeys(basis_sentences(comparison.ground)))
    for line in lines:
        yield f"{sentence(line)}."


_BASIS = {
    "measured": "prices rest on numbers measured on such machines",
    "datasheet": "prices rest on datasheets; no measurement is in them",
    "announced": "announced, not shipped: its numbers are the vendor's",
    "hypothetical": "a fabric that nobody has built",
}


def _basis_text(basis: str) -> str:
    """What the prices of a fabric rest on; ``basis`` may be ``as`` with the name of a machine."""
    return _BASIS.get(basis) or f"prices rest on numbers measured on {basis[3:]}"


def _most_sensitive_text(result: Sensitivity) -> str:
    """The number that moves the time most, and what a wrong choice of algorithm would lose."""
    most = f"at most {percent(result.regret_p95)}"
    if result.regret_p95 < 0.0005:
        most = "less than 0.1%"
    lost = f"today's choice of algorithm loses {most} in 95 of 100 draws of its numbers"
    what = sentence(result.primitive.label)
    if not result.moves:
        return f"{what}: {lost}."
    bar = max(result.moves, key=lambda move: abs(move.high_s - move.low_s))
    low, high = sorted((bar.low_s, bar.high_s))
    span = f"{format_time(low)} to {format_time(high)}"
    return f"{what} hangs on {bar.key} most ({span} over its range); {lost}."
