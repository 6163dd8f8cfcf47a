"""What the fabrics of a report cost: a table of money, parts and the job's step, and the same in
sentences.

:func:`cost_table` and :func:`cost_sentences` are what the page and the screen show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import FabricPrices, Report
from colltool.base.errors import either, localize
from colltool.base.formatting import format_money, format_power, format_time
from colltool.estimate.results import Breakdown
from colltool.fabric.bill import Bill, Cost, bill_of
from colltool.fabric.properties import FabricFacts
from colltool.fabric.results import FabricShown
from colltool.render.blocks import Columns, Table, gathered, label, number
from colltool.render.documents import Document
from colltool.render.views.report_decision import reference_line
from colltool.training.plan import Plan


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
        if self.bill is None:
            return None
        return self.bill.cost

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
        if not known:
            return None
        return sum(known)

    @property
    def cost_per_rate(self) -> float | None:
        if self.total_cost is None or not self.rate:
            return None
        return self.total_cost / self.rate

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
    shown = result.results_of(FabricShown)
    plans = result.result_of(Plans)
    # without a job there is no step, and one fabric has one plan
    single = result.result_of(Plan)
    steps = plans.plans if plans else [single] * len(shown)
    prices = result.prices or (None,) * len(shown)
    rows = []
    for at, (fabric, title, step) in enumerate(zip(shown, result.titles, steps, strict=True)):
        bill = None
        given = prices[at]
        if given is not None and given.parts is not None:
            bill = bill_of(fabric.fabric.model_copy(update={"prices": given.parts}))
        rows.append(
            _Bought(
                title=title,
                facts=fabric.facts,
                gpus=step.ranks if step else result.ranks,
                prices=given,
                bill=bill,
                plan=step,
                rate=step.tokens_per_s if step else _reference_rate(result, at),
            )
        )
    return rows


def _reference_rate(result: Report, at: int) -> float | None:
    """GB/s of bus bandwidth at the reference point, on a fabric by its number."""
    rate: Any = None
    comparison = result.result_of(Comparison)
    breakdown = result.result_of(Breakdown)
    if comparison:
        line = reference_line(result, comparison, comparison.lines[0].primitive)
        rate = line and line.cells[at].busbw_Bps
    elif breakdown:
        rate = breakdown.price.best.busbw_Bps
    if not rate:
        return None
    return float(rate) / 1e9


def _per(row: _Bought) -> str:
    """What the money buys."""
    return "token/s" if row.plan else "GB/s of bus bandwidth"


def cost_table(result: Report) -> Table:
    """What each fabric is made of and costs, and the job's step there; columns without a value are
    left out."""
    rows = tuple(_bought(result))
    columns = []
    for column in _COST:
        if column.key == "cost_per_rate":
            column = column._replace(title=f"per {_per(rows[0])}")
        columns.append(column)
    title = "The fabrics"
    # all of them have one, or none
    if rows[0].plan:
        title += ", and a training step on each"
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
    bought = [row for row in rows if row.total_cost is not None]
    yield from map(_cost_text, bought)
    missing = [row.title for row in rows if row.total_cost is None]
    if missing:
        both = localize(
            either(
                shell="--price gpu=30000 --price switch=20000",
                python="price={'gpu': 30000, 'switch': 20000}",
            )
        )
        whose = f" for {', '.join(missing)}" if bought else ""
        yield f"No price is known{whose}: add {both}, or prices: to the fabric's file."
    without_gpu = [row.title for row in bought if row.total_cost and row.gpu_cost is None]
    if without_gpu:
        gpu = localize(either(shell="--price gpu=30000", python="price={'gpu': 30000}"))
        yield f"GPUs are not in the cost of {', '.join(without_gpu)}: add {gpu}."
    switch = localize(either(shell="--price switch=20000", python="price={'switch': 20000}"))
    why = []
    for row in bought:
        if row.total_cost and row.network_part is None:
            notes = "; ".join(row.bill.notes) if row.bill else ""
            why.append((notes or f"add {switch}", row.title))
    for reason, names in gathered(why).items():
        yield f"The network is not in the cost of {', '.join(names)}: {reason}."


def _cost_text(row: _Bought) -> str:
    """``nvl72: 38,400,000 USD for 1152 GPUs (34,560,000 USD) and their network (3,840,000
    USD)``."""
    currency = row.currency or ""
    parts = []
    if row.gpu_cost is not None:
        gpus = format_money(row.gpu_cost, currency)
        parts.append(f"{gpus} for {row.gpus} GPUs")
    if row.network_part is not None:
        network = format_money(row.network_part, currency)
        parts.append(f"{network} for the network")
    text = f"{row.title} costs {' and '.join(parts)}"
    if len(parts) > 1:
        total = format_money(row.total_cost or 0.0, currency)
        text += f", {total} in all"
    if row.cost_per_rate is not None:
        rate = format_money(row.cost_per_rate, currency)
        text += f": {rate} per {_per(row)}"
    return f"{text}."
