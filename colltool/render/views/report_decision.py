"""What a report says first: the verdict in words, the picture of it, what it costs and what it
risks.

The page (:mod:`colltool.render.page`) asks in this order for :func:`report_title`,
:func:`answers`, :func:`chart_of`, :func:`cost_table` with :func:`cost_sentences`, and
:func:`risks`; each stands above its own parts, and works on the results of all sections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from colltool.analysis.cells import Cell
from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.report import Assumptions, FabricPrices, Report, ReportEntry
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import Sweep
from colltool.analysis.winners import QuestionVerdict
from colltool.base.errors import either, localize
from colltool.base.formatting import (
    format_factor,
    format_money,
    format_power,
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
from colltool.fabric.bill import Bill, Cost, bill_of
from colltool.fabric.properties import FabricFacts, basis_of
from colltool.fabric.results import FabricShown
from colltool.render.assumption_differences import basis_sentences
from colltool.render.blocks import Columns, Table, gathered, label, number
from colltool.render.documents import Document
from colltool.render.intervals import nine_in_ten, within
from colltool.render.verdicts import claims_text, verdict_in_title
from colltool.render.views.doctor_answer import diagnosed
from colltool.render.views.plan import answer as planned
from colltool.render.views.trace import traced
from colltool.serving.results import Served, ServeList
from colltool.training.plan import Plan

_SAFE = 0.01  # a choice of algorithm that loses less is safe
_SAME_STEP = 0.005  # steps that differ by less are equally long


# --- the title


def report_title(result: Report) -> str:
    """``nvl72: all-reduce up to 1.9x faster than dgx-b200 above 329 MB; training step 12%
    faster``."""
    results = _all_results(result)
    comparison = _first(results, Comparison)
    plans = _first(results, Plans)
    parts: list[str] = []
    if len(result.titles) == 2:
        if comparison:
            parts.append(_collective_in_title(result, comparison))
        if plans:
            parts.append(_step_in_title(plans))
    elif len(result.titles) > 2:
        if plans:
            parts.append(_fastest_step(result, plans))
        if comparison:
            parts.append(_fastest_collective(result, comparison))
        # each part names its winner
        return "; ".join(filter(None, parts)) or _subject(result)
    else:
        parts += _alone_in_title(result, results)
    return (
        f"{result.titles[0]}: {'; '.join(filter(None, parts))}" if any(parts) else _subject(result)
    )


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


def _alone_in_title(result: Report, results: Sequence[Any]) -> Iterator[str]:
    plan = _first(results, Plan)
    if plan:
        yield f"a training step of {plan.job.name} takes {_step_time(plan)}"
    breakdown = _first(results, Breakdown)
    if breakdown:
        price = breakdown.price
        what = f"{price.primitive.label} of {title_size(result.bytes)} on {reference_ranks(result)}"
        yield f"{what} takes {_row_time(price.best)}"


def _step_in_title(plans: Plans) -> str:
    change = plans.ratio(1) - 1
    if abs(change) < _SAME_STEP:
        return "training step equally long"
    if _uncertain(plans, 1):
        return "training step too close to call"
    # how the page's own fabric does against the other
    faster = change > 0
    share = abs(change)
    return f"training step {percent(share)} {'faster' if faster else 'slower'}"


def _collective_in_title(result: Report, comparison: Comparison) -> str:
    """How the first primitive does, over the widest range of sizes with a winner."""
    verdict = _reference_verdict(result, comparison, comparison.lines[0].primitive)
    if verdict is None:
        return ""
    return verdict_in_title(comparison, verdict, result.titles[0])


def _fastest_step(report: Report, plans: Plans) -> str:
    """``llama3-70b trains fastest on nvl72, 7.7% ahead of dgx-b200``."""
    order = sorted(range(len(plans.plans)), key=lambda at: plans.plans[at].step_s)
    best, rival = order[:2]
    lead = plans.plans[rival].step_s / plans.plans[best].step_s - 1
    job = plans.plans[0].job.name
    names = report.titles
    errors = [plans.error(at) or 0.0 for at in (best, rival) if at]
    if lead <= max((_SAME_STEP, *errors)):
        both = f"{names[best]} and {names[rival]}"
        return f"training step of {job}: too close to call between {both}"
    return f"{job} trains fastest on {names[best]}, {percent(lead)} ahead of {names[rival]}"


def _fastest_collective(result: Report, comparison: Comparison) -> str:
    line = _reference_line(result, comparison, comparison.lines[0].primitive)
    if line is None:
        return ""
    what = f"{line.primitive.label} of {title_size(line.bytes)}"
    timed = _timed(line)
    if len(timed) < 2:
        return ""
    (best_s, best), (rival_s, rival) = timed[:2]
    names = result.titles
    if _too_close(line, best, rival):
        return f"{what}: too close to call between {names[best]} and {names[rival]}"
    return f"{what} fastest on {names[best]}, {_factor(rival_s / best_s)} ahead of {names[rival]}"


def _overlap(first: Cell, other: Cell) -> bool:
    """Whether the intervals of two prices overlap."""
    if first.interval is None or other.interval is None:
        return False
    starts_before = first.interval.low_s <= other.interval.high_s
    return starts_before and other.interval.low_s <= first.interval.high_s


# --- the verdict


def answers(result: Report) -> Iterator[str]:
    """The verdict: a sentence or two for each question, those of a job first."""
    for section in sorted(result.sections, key=lambda section: section.key != "job"):
        results = [exhibit.result for exhibit in section.exhibits]
        comparison = _first(results, Comparison)
        plans = _first(results, Plans)
        for each in results:
            # the comparison has the same price, and the plans the same plan, beside the others
            repeated = comparison and isinstance(each, Breakdown)
            if not repeated and not (plans and isinstance(each, Plan)):
                yield from _ANSWERS.get(type(each), _nothing)(result, each)


def _nothing(_: Report, _result: Any) -> tuple[str, ...]:
    return ()


def _reference_time(report: Report, result: Breakdown) -> Iterator[str]:
    price = result.price
    row = price.best
    what = f"{sentence(price.primitive.label)} of {title_size(report.bytes)} on {reference_ranks(report)}"
    rate = format_rate(float(row.busbw_Bps), 3)
    yield f"{what} takes {_row_time(row)}: {rate} bus bandwidth, {row.bound}-bound."


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
        line = _reference_line(report, result, primitive)
        if len(result.columns) > 2:
            if line is not None:
                yield _order(report, line)
            continue
        verdict = _reference_verdict(report, result, primitive)
        if verdict is None:
            continue
        claims = claims_text(result, verdict)
        text = f"{sentence(primitive.label)}, {reference_ranks(report)}: {claims}."
        if line is not None:
            text += f" At {title_size(line.bytes)}: {_times(report, line)}."
        yield text


def _order(report: Report, line: CompareLine) -> str:
    """``All-reduce of 64MB on 64 GPUs is fastest on nvl72: 202 us (-22% to +29%). dgx-b200 takes
    3.3x, dgx-h100 3.4x as long.``"""
    names = report.titles
    what = f"{sentence(line.primitive.label)} of {title_size(line.bytes)} on"
    what += f" {reference_ranks(report)}"
    timed = _timed(line)
    absent = [name for name, cell in zip(names, line.cells, strict=True) if cell.total_s is None]
    cannot = f" It cannot run on {', '.join(absent)}." if absent else ""
    if not timed:
        return f"{what} cannot run on any of them."
    best_s, best = timed[0]
    took = _with_interval(best_s, line.cells[best].interval)
    others = timed[1:]
    close = [at for _, at in others if _too_close(line, best, at)]
    text = f"{what} is fastest on {names[best]}: {took}."
    if close:
        *several, last = (names[at] for at in (best, *close))
        among = f"{', '.join(several)} and {last}"
        text = f"{what} is too close to call between {among}: {took} on {names[best]}."
    factors = [f"{names[at]} {format_factor(total_s / best_s, 2)}" for total_s, at in others]
    if factors:
        longer = ", ".join(factors).replace(" ", " takes ", 1)
        text += f" {longer} as long."
    return text + cannot


def _timed(line: CompareLine) -> list[tuple[float, int]]:
    """Seconds and columns that can run it, the fastest first."""
    found = [(cell.total_s, at) for at, cell in enumerate(line.cells) if cell.total_s is not None]
    return sorted(found)


def _too_close(line: CompareLine, best: int, rival: int) -> bool:
    """Whether two columns differ by less than the error; what both err alike in does not count
    against the first column."""
    if best and rival:
        return _overlap(line.cells[best], line.cells[rival])
    best_s, rival_s = line.cells[best].total_s, line.cells[rival].total_s
    if best_s is None or rival_s is None:
        return False
    return rival_s / best_s - 1 <= line.ratio_error(best or rival)


def _times(report: Report, line: CompareLine) -> str:
    texts = []
    for title, cell in zip(report.titles, line.cells, strict=True):
        if cell.total_s is None:
            texts.append(f"cannot run on {title}")
        else:
            texts.append(f"{_with_interval(cell.total_s, cell.interval)} on {title}")
    return ", ".join(texts)


def _reference_line(report: Report, result: Comparison, primitive: Any) -> CompareLine | None:
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


def _factor(ratio: float) -> str:
    return format_factor(max(ratio, 1 / ratio), 3)


# --- the verdict of a job


def _steps(report: Report, result: Plans) -> Iterator[str]:
    """Which fabric has the shortest step, and how far the others are from it."""
    first = result.plans[0]
    what = f"A training step of {first.job.name} on {first.ranks} {_workers(report)}"
    if len(result.plans) == 2:
        times = [f"{_step_time(plan)} on {title}" for plan, title in _titled(report, result)]
        yield f"{what} takes {', '.join(times)}."
        yield f"{report.titles[1]}: {_step_difference(result, 1, report.titles[0])}."
        return
    best = min(range(len(result.plans)), key=lambda at: result.plans[at].step_s)
    fastest = f"{report.titles[best]}: {_step_time(result.plans[best])}"
    # once for all, where each line would repeat it
    off = max(result.error(at) or 0.0 for at in range(1, len(result.plans)))
    errors = f" Comparisons of steps are typically {percent(off)} off." if off else ""
    yield f"{what} is fastest on {fastest}.{errors}"
    for at, plan in enumerate(result.plans[1:], 1):
        difference = _step_difference(result, at, report.titles[0], brief=True)
        yield f"{report.titles[at]}: {format_time(plan.step_s, 3)}, {difference}."


def _titled(report: Report, result: Plans) -> Iterator[tuple[Plan, str]]:
    yield from zip(result.plans, report.titles, strict=True)


def _step_time(plan: Plan) -> str:
    """``4.43 s (3.9 to 5.1 s, 90% interval)``."""
    text = format_time(plan.step_s, 3)
    if plan.error is None or plan.job.measured_step_s is not None:
        return text
    low, high = (format_time(end, 2) for end in plan.error.spread(plan.step_s))
    number, unit = low.split(" ")
    # one unit is enough where both ends have it
    ends = f"{number}-{high}" if high.endswith(f" {unit}") else f"{low} to {high}"
    return f"{text} ({ends}, 90% interval)"


def _uncertain(result: Plans, at: int) -> bool:
    error = result.error(at)
    return error is not None and abs(result.ratio(at) - 1) <= error


def _step_difference(result: Plans, at: int, first: str, *, brief: bool = False) -> str:
    """``12% slower; 360 of 539 ms because the GPU is slower, 179 ms because of the network``."""
    change = result.ratio(at) - 1
    if abs(change) < _SAME_STEP:
        return f"no measurable difference to {first}"
    how = f"{percent(abs(change))} {'slower' if change > 0 else 'faster'} than {first}"
    if _uncertain(result, at):
        if brief:
            return f"too close to call ({how})"
        off = percent(result.error(at) or 0.0)
        return (
            f"too close to call (the step is {how}, and such comparisons are typically {off} off)"
        )
    error = result.error(at)
    if error and not brief:
        how += f" (such comparisons are typically {percent(error)} off)"
    return f"{how}; {_why_step(result.plans[0], result.plans[at])}"


def _why_step(first: Plan, other: Plan) -> str:
    """What of a difference between two steps the GPU makes and what the network."""
    whole = other.step_s - first.step_s
    device = other.control_step_s - first.control_step_s
    network = whole - device
    word = "slower" if whole > 0 else "faster"
    size = format_time(abs(whole), 3)
    # where compute is given, or the device the same, all of it is the network
    if abs(device) < 0.01 * abs(whole):
        return f"all {size} because the network is {word}"
    if abs(network) < 0.01 * abs(whole):
        return f"all {size} because the GPU is {word}"
    by_device, by_network = format_time(abs(device), 3), format_time(abs(network), 3)
    if (device > 0) == (network > 0):
        return (
            f"{by_device} of {size} because the GPU is {word}, {by_network} because of the network"
        )
    costs, saves = ("costs", "saves") if device > 0 else ("saves", "costs")
    return f"its GPU {costs} {by_device}, its network {saves} {by_network}"


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
    TraceComparison: lambda _, result: (f"The traced job: {_closed(traced(result))}",),
}


# --- the picture


def chart_of(result: Report) -> ReportEntry | None:
    """The exhibit whose lines are drawn with the verdict: of the fabrics beside each other, else
    of the one fabric by ranks."""
    drawn: dict[type, ReportEntry] = {}
    for section in result.sections:
        for exhibit in section.exhibits:
            if exhibit.view is not None:
                drawn.setdefault(type(exhibit.result), exhibit)
    return drawn.get(Comparison) or drawn.get(Sweep)


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


# --- what it costs


class _Bought(NamedTuple):
    """A fabric of the page, what of it the reference point or the job takes, and the job's step.

    Args:
        gpus: ranks of the job, else of the reference point.
        rate: what the money buys: tokens/s of the job, else GB/s of bus bandwidth.
    """

    title: str
    facts: FabricFacts
    gpus: int
    prices: FabricPrices | None
    bill: Bill | None
    plan: Plan | None
    rate: float | None

    @property
    def cost(self) -> Cost | None:
        return self.bill.cost if self.bill else None

    @property
    def gpu_cost(self) -> float | None:
        if self.prices is None or self.prices.gpu is None:
            return None
        return self.prices.gpu * self.gpus

    @property
    def network_part(self) -> float | None:
        """What the network costs, in proportion to the ranks that are used."""
        if self.cost is None or self.cost.total is None:
            return None
        return self.cost.total * self.gpus / self.facts.ranks

    @property
    def total_cost(self) -> float | None:
        known = [part for part in (self.gpu_cost, self.network_part) if part is not None]
        return sum(known) if known else None

    @property
    def cost_per_rate(self) -> float | None:
        return self.total_cost / self.rate if self.total_cost is not None and self.rate else None

    @property
    def currency(self) -> str | None:
        return self.prices and self.prices.currency

    @property
    def device_hours(self) -> float | None:
        plan = self.plan
        if plan is None:
            return None
        return plan.ranks * plan.step_s / 3600


_COST: Columns[_Bought] = (
    label("fabric", path="title"),
    number("gpus", "ranks used"),
    number("ranks", "ranks in all", drop=8, path="facts.ranks"),
    number("switches", drop=7, path="facts.switches"),
    number("links", drop=9, path="facts.links"),
    number("network_cost", "whole network", format_money, path="cost.total", hidden=True),
    number("gpu_cost", "GPUs", format_money, drop=2),
    number("network_part", "network", format_money, drop=1),
    number("total_cost", "cost", format_money),
    label("currency", "in"),
    number("cost_per_rate", "cost per rate", format_money),
    number("network_W", "network draws", format_power, path="cost.power_W"),
    number("step_s", "step", format_time, drop=6, path="plan.step_s"),
    number("device_hours", "device-hours per step", "{:.4g}".format, hidden=True),
    number("tokens_per_s", "tokens/s", "{:,.0f}".format, path="plan.tokens_per_s"),
)


class BoughtDocument(Document):
    """A row of the table of costs; its keys are the columns."""

    fabric: str
    gpus: int
    ranks: int
    switches: int | None
    links: int
    network_cost: float | None
    gpu_cost: float | None
    network_part: float | None
    total_cost: float | None
    currency: str | None
    cost_per_rate: float | None
    network_W: float | None
    step_s: float | None
    device_hours: float | None
    tokens_per_s: float | None


def _bought(result: Report) -> list[_Bought]:
    """What of each fabric is bought, at which prices, and what it gives for that."""
    results = _all_results(result)
    shown = _of_type(results, FabricShown)
    plans = _first(results, Plans)
    single = _first(results, Plan)
    # without a job there is no step, and one fabric has one plan
    steps = plans.plans if plans else [single] * len(shown)
    prices = result.prices or (None,) * len(shown)
    rows = []
    for at, (fabric, title, step) in enumerate(zip(shown, result.titles, steps, strict=True)):
        bill = None
        given = prices[at]
        if given is not None and given.parts is not None:
            bill = bill_of(fabric.fabric.model_copy(update={"prices": given.parts}))
        gpus = step.ranks if step else result.ranks
        rate = _useful_rate(result, results, step, at)
        row = _Bought(
            title=title,
            facts=fabric.facts,
            gpus=gpus,
            prices=given,
            bill=bill,
            plan=step,
            rate=rate,
        )
        rows.append(row)
    return rows


def _useful_rate(
    result: Report, results: Sequence[Any], plan: Plan | None, at: int
) -> float | None:
    """Tokens/s of the job, else GB/s of bus bandwidth at the reference point."""
    if plan is not None:
        return plan.tokens_per_s
    comparison = _first(results, Comparison)
    if comparison:
        line = _reference_line(result, comparison, comparison.lines[0].primitive)
        rate = line and line.cells[at].busbw_Bps
        return rate / 1e9 if rate else None
    breakdown = _first(results, Breakdown)
    return float(breakdown.price.best.busbw_Bps) / 1e9 if breakdown else None


def cost_table(result: Report) -> Table:
    """What each fabric is made of and costs, and the job's step there; columns without a value are
    left out."""
    rows = tuple(_bought(result))
    per = "token/s" if any(row.plan for row in rows) else "GB/s of bus bandwidth"
    columns = []
    for column in _COST:
        if column.key == "cost_per_rate":
            column = column._replace(title=f"per {per}")
        columns.append(column)
    title = "The fabrics, and a training step on each" if rows[0].plan else "The fabrics"
    if any(row.network_part is not None and row.gpus < row.facts.ranks for row in rows):
        title += " (of a network used in part, that part)"
    table = Table(tuple(columns), rows, title=title)
    for column in _COST:
        if all(column.value(row) is None for row in rows):
            table = table.without(column.key)
    return table


def cost_sentences(result: Report) -> Iterator[str]:
    """What each fabric costs in words, and what to type where no price is known."""
    rows = _bought(result)
    for row in rows:
        if row.total_cost is not None:
            yield _cost_text(row)
    missing = [row.title for row in rows if row.total_cost is None]
    if missing:
        ask = either(
            shell="--price gpu=30000 --price switch=20000",
            python="price={'gpu': 30000, 'switch': 20000}",
        )
        whose = "" if len(missing) == len(rows) else f" for {', '.join(missing)}"
        yield f"No price is known{whose}: add {localize(ask)}, or prices: to the fabric's file."
    without_gpu = [row.title for row in rows if row.total_cost and row.gpu_cost is None]
    if without_gpu:
        ask = either(shell="--price gpu=30000", python="price={'gpu': 30000}")
        yield f"GPUs are not in the cost of {', '.join(without_gpu)}: add {localize(ask)}."
    ask = either(shell="--price switch=20000", python="price={'switch': 20000}")
    why = []
    for row in rows:
        if row.total_cost and row.network_part is None:
            notes = row.bill.notes if row.bill else ()
            why.append(("; ".join(notes) or f"add {localize(ask)}", row.title))
    for reason, names in gathered(why).items():
        yield f"The network is not in the cost of {', '.join(names)}: {reason}."


def _cost_text(row: _Bought) -> str:
    """``nvl72: 38,400,000 USD for 1152 GPUs (34,560,000 USD) and their network (3,840,000
    USD)``."""
    currency = row.currency or ""
    parts = []
    if row.gpu_cost is not None:
        parts.append(f"{format_money(row.gpu_cost, currency)} for {row.gpus} GPUs")
    if row.network_part is not None:
        parts.append(f"{format_money(row.network_part, currency)} for the network")
    text = f"{row.title} costs {' and '.join(parts)}"
    if len(parts) > 1:
        text += f", {format_money(row.total_cost or 0.0, currency)} in all"
    if row.cost_per_rate is not None:
        per = "token/s" if row.plan else "GB/s of bus bandwidth"
        text += f": {format_money(row.cost_per_rate, currency)} per {per}"
    return f"{text}."


# --- what it risks


def risks(result: Report) -> Iterator[str]:
    """What the verdict depends on: the model's error, the number that moves it most, what the
    prices rest on, and in what the fabrics differ."""
    results = _all_results(result)
    yield from _errors(_of_type(results, Breakdown))
    yield from map(_most_sensitive_text, _of_type(results, Sensitivity))
    yield from _rests_on(result, _of_type(results, Assumptions))
    plans = _first(results, Plans)
    if plans:
        yield from _assumed_devices(result, plans)
    yield from _differences([plans] if plans else _of_type(results, Comparison))


def _errors(breakdowns: Sequence[Breakdown]) -> Iterator[str]:
    """How far off the prices may be; collectives with the same interval share a sentence."""
    errors = []
    for breakdown in breakdowns:
        price = breakdown.price
        if price.best.interval is not None:
            errors.append((within(price.best), price.primitive.label))
    for off, names in gathered(errors).items():
        around, _, why = off.partition(": ")
        inside = around
        if around.startswith("-"):
            inside = f"within {around.replace(' to ', ' and ')}"
        elif around.endswith(" times that"):
            inside = f"between {around.replace(' to ', ' and ').replace('that', 'the price')}"
        yield f"{sentence(', '.join(names))}: {inside}{why and f' ({why})'}."


def _rests_on(result: Report, stated: Sequence[Assumptions]) -> Iterator[str]:
    """What the numbers of each fabric come from, and how many have no source."""
    bases = [(basis_text(basis_of(fabric)), title) for fabric, title in _named_fabrics(result)]
    for basis, names in gathered(bases).items():
        yield f"{', '.join(names)}: {basis}."
    for assumptions in stated:
        without = sum(not entry.source for entry in assumptions.stated)
        if without:
            name = assumptions.fabric.name
            yield f"{name}: {without} of its {len(assumptions.stated)} numbers have no source."


def _assumed_devices(result: Report, plans: Plans) -> Iterator[str]:
    """The fabrics whose step is for the job's device, because their files name none."""
    for plan, title in _titled(result, plans):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{title} names no device: the step is for {plan.device}, which the job names."


def _differences(results: Sequence[Plans | Comparison]) -> Iterator[str]:
    """What the fabrics' prices assume differently, each difference once."""
    lines: dict[str, None] = {}
    for result in results:
        lines.update(dict.fromkeys(basis_sentences(result.ground)))
    for line in lines:
        yield f"Different assumptions: {line}."


def _named_fabrics(result: Report) -> Iterator[tuple[Any, str]]:
    yield from zip(result.fabrics, result.titles, strict=True)


_BASIS = {
    "measured": "prices come from measurements of such machines",
    "datasheet": "prices come from datasheets, without a measurement",
    "announced": "announced, not shipped; its numbers are the vendor's",
    "hypothetical": "hypothetical; no such machine exists",
}


def basis_text(basis: str) -> str:
    """What the prices of a fabric rest on; ``basis`` may be ``as`` with the name of a machine."""
    return _BASIS.get(basis) or f"prices come from measurements of {basis[3:]}"


def _most_sensitive_text(result: Sensitivity) -> str:
    """The number that moves the time most, and what a wrong choice of algorithm would cost."""
    choice = f"A wrong choice of algorithm costs at most {percent(result.regret_p95)}."
    if result.regret_p95 < _SAFE:
        choice = "The choice of algorithm is safe."
    what = sentence(result.primitive.label)
    moving = [bar for bar in result.moves if bar.low_s != bar.high_s]
    if not moving:
        return f"{what}: no number of the fabric moves it. {choice}"
    bar = max(moving, key=lambda move: abs(move.high_s - move.low_s))
    low, high = (format_time(end, 3) for end in sorted((bar.low_s, bar.high_s)))
    span = f"{low} to {high} over its plausible range"
    return f"{what} is most sensitive to {number_in_words(bar.key)}: {span}. {choice}"


_TIER_NAMES = {
    "ib": "InfiniBand",
    "nvlink": "NVLink",
    "roce": "RoCE",
    "pcie": "PCIe",
    "efa": "EFA",
    "xgmi": "xGMI",
    "ici": "ICI",
    "launch_overhead": "launch overhead",
}
_NUMBER_NAMES = {
    "eta.beta": "bandwidth efficiency",
    "eta.alpha": "latency factor",
    "alpha_switch": "switch latency",
    "alpha": "latency",
    "bandwidth": "bandwidth",
    "oversubscription": "oversubscription",
}


def number_in_words(key: str) -> str:
    """``ib.levels.spine.alpha`` as people say it: ``InfiniBand spine latency``."""
    tier, *rest = key.split(".")
    words = [_TIER_NAMES.get(tier, tier)]
    if "in_network" in rest:
        words.append("in-network")
    if rest[:1] == ["levels"] and len(rest) > 1:
        words.append(rest[1])
    if "eta_beta" in rest:
        words.append("bandwidth efficiency")
        return " ".join(words)
    for end, name in _NUMBER_NAMES.items():
        if ".".join(rest).endswith(end):
            return " ".join((*words, name))
    return " ".join(words) if not rest else key
