"""What the fabrics of a report cost: a table of money, parts and the job's step, and the same in
sentences.

:func:`cost_table` and :func:`cost_sentences` are what the page and the screen show. A report is of a job, which
has a step on each fabric, or of collectives at a reference point; costs are over tokens/s or GB/s accordingly.
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
from colltool.fabric.bill import Bill, bill_of
from colltool.fabric.properties import FabricFacts
from colltool.fabric.results import FabricShown
from colltool.render.blocks import Columns, Table, label, names_by_text, number
from colltool.render.documents import Document
from colltool.render.views.report_reference import reference_line
from colltool.training.plan import Plan


class _FabricCost(NamedTuple):
    """A row of the table: a fabric, the part of it that is used, and what it gives for the money.

    All amounts are in the ``currency`` of the fabric's prices, and None where a price is not known.
    """

    title: str
    facts: FabricFacts
    gpus: int  # that are used: ranks of the job, else of the reference point
    prices: FabricPrices | None
    bill: Bill | None  # of the whole network; None without prices of its parts
    plan: Plan | None  # the job's step; None without a job
    rate: float | None  # what the money buys, in the unit that _rate_unit names

    @property
    def gpu_cost(self) -> float | None:
        """What the GPUs that are used cost."""
        if self.prices is None or self.prices.gpu is None:
            return None
        return self.prices.gpu * self.gpus

    @property
    def network_part(self) -> float | None:
        """What the network costs, in proportion to the ranks that are used."""
        if self.bill is None or self.bill.cost is None or self.bill.cost.total is None:
            return None
        return self.bill.cost.total * self.gpus / self.facts.ranks

    @property
    def total_cost(self) -> float | None:
        """GPUs and network together, or the one of them whose price is known."""
        if self.gpu_cost is None:
            return self.network_part
        return self.gpu_cost + (self.network_part or 0.0)

    @property
    def cost_per_rate(self) -> float | None:
        """Cost per token/s, or per GB/s."""
        if self.total_cost is None or not self.rate:
            return None
        return self.total_cost / self.rate

    @property
    def currency(self) -> str | None:
        """``USD``; None without prices."""
        return self.prices and self.prices.currency

    @property
    def device_hours(self) -> float | None:
        """Hours of all devices added up that a step takes; None without a job."""
        if self.plan is None:
            return None
        return self.plan.ranks * self.plan.step_s / 3600


_COLUMNS: Columns[_FabricCost] = (
    label("fabric", path="title"),
    number("gpus", "ranks used"),
    number("ranks", "ranks in all", drop=8, path="facts.ranks"),
    number("switches", drop=7, path="facts.switches"),
    number("links", drop=9, path="facts.links"),
    number("network_cost", "whole network", format_money, path="bill.cost.total", hidden=True),
    number("gpu_cost", "GPUs", format_money, drop=2),
    number("network_part", "network", format_money, drop=1),
    number("total_cost", "cost", format_money),
    label("currency", "in"),
    number("cost_per_rate", "cost per rate", format_money),
    number("network_W", "network draws", format_power, path="bill.cost.power_W"),
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


def _fabric_costs(report: Report) -> list[_FabricCost]:
    """A row for each fabric, in the order of the report's titles."""
    # the sections of a report show each fabric, in that order too
    fabrics = report.results_of(FabricShown)
    plans = report.result_of(Plans)
    # one fabric has a plan alone, and no fabric has one without a job
    steps = plans.plans if plans else [report.result_of(Plan)] * len(fabrics)
    prices_of = report.prices or (None,) * len(fabrics)
    rows = []
    for index, title in enumerate(report.titles):
        prices = prices_of[index]
        bill = None
        if prices is not None and prices.parts is not None:
            bill = bill_of(fabrics[index].fabric.model_copy(update={"prices": prices.parts}))
        plan = steps[index]
        rows.append(
            _FabricCost(
                title=title,
                facts=fabrics[index].facts,
                gpus=plan.ranks if plan else report.ranks,
                prices=prices,
                bill=bill,
                plan=plan,
                rate=plan.tokens_per_s if plan else _reference_GBps(report, index),
            )
        )
    return rows


def _reference_GBps(report: Report, index: int) -> float | None:
    """GB/s of bus bandwidth at the reference point, in the report's first primitive, on a fabric by
    its index in the titles; None where it was not priced."""
    busbw_Bps: Any = None
    comparison = report.result_of(Comparison)
    breakdown = report.result_of(Breakdown)
    if comparison:
        line = reference_line(report, comparison, comparison.lines[0].primitive)
        busbw_Bps = line and line.cells[index].busbw_Bps
    elif breakdown:
        busbw_Bps = breakdown.price.best.busbw_Bps
    if not busbw_Bps:
        return None
    return float(busbw_Bps) / 1e9


def _rate_unit(row: _FabricCost) -> str:
    """Unit of what the money buys: the job's tokens, else the bandwidth at the reference point."""
    return "token/s" if row.plan else "GB/s of bus bandwidth"


def cost_table(report: Report) -> Table:
    """What each fabric is made of and costs, and the job's step there; columns without a value are
    left out."""
    rows = _fabric_costs(report)
    columns = []
    for column in _COLUMNS:
        # all rows have a step, or none has: the first says what is the same for all
        if column.key == "cost_per_rate":
            column = column._replace(title=f"per {_rate_unit(rows[0])}")
        columns.append(column)
    title = "The fabrics"
    if rows[0].plan:
        title += ", and a training step on each"
    if any(row.network_part is not None and row.gpus < row.facts.ranks for row in rows):
        title += " (of a network used in part, that part)"
    return Table(tuple(columns), rows, title=title).without_empty()


def cost_sentences(report: Report) -> Iterator[str]:
    """What each fabric costs in words, and what to type where no price is known."""
    rows = _fabric_costs(report)
    priced = [row for row in rows if row.total_cost is not None]
    yield from map(_cost_text, priced)
    unpriced = [row.title for row in rows if row.total_cost is None]
    if unpriced:
        whose = f" for {', '.join(unpriced)}" if priced else ""
        example = _price_argument("gpu=30000", "switch=20000")
        yield f"No price is known{whose}: add {example}, or prices: to the fabric's file."
    # a cost of 0 lacks nothing: someone gave it
    costly = [row for row in priced if row.total_cost]
    without_gpus = [row.title for row in costly if row.gpu_cost is None]
    if without_gpus:
        example = _price_argument("gpu=30000")
        yield f"GPUs are not in the cost of {', '.join(without_gpus)}: add {example}."
    without_network = []
    for row in costly:
        if row.network_part is None:
            notes = "; ".join(row.bill.notes) if row.bill else ""
            reason = notes or f"add {_price_argument('switch=20000')}"
            without_network.append((reason, row.title))
    for reason, titles in names_by_text(without_network).items():
        yield f"The network is not in the cost of {', '.join(titles)}: {reason}."


def _price_argument(*prices: str) -> str:
    """How to state prices such as ``gpu=30000``: ``--price gpu=30000``, or ``price={'gpu': 30000}``
    in Python."""
    options = [f"--price {price}" for price in prices]
    items = []
    for price in prices:
        part, amount = price.split("=")
        items.append(f"'{part}': {amount}")
    return localize(either(shell=" ".join(options), python=f"price={{{', '.join(items)}}}"))


def _cost_text(row: _FabricCost) -> str:
    """``nvl72 costs 34,560,000 USD for 1152 GPUs and 3,840,000 USD for the network, 38,400,000 USD in
    all: 1.2 USD per token/s.``"""
    currency = row.currency or ""
    parts = []
    if row.gpu_cost is not None:
        gpus = format_money(row.gpu_cost, currency)
        parts.append(f"{gpus} for {row.gpus} GPUs")
    if row.network_part is not None:
        network = format_money(row.network_part, currency)
        parts.append(f"{network} for the network")
    text = f"{row.title} costs {' and '.join(parts)}"
    if len(parts) > 1 and row.total_cost is not None:
        total = format_money(row.total_cost, currency)
        text += f", {total} in all"
    if row.cost_per_rate is not None:
        rate = format_money(row.cost_per_rate, currency)
        text += f": {rate} per {_rate_unit(row)}"
    return f"{text}."
