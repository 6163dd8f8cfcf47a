"""``plan`` on several fabrics, and the sensitivity of a step (``plan --vary``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple

from colltool.analysis.jobs import Plans, PlanSpread
from colltool.base.formatting import counted, format_factor, format_time, percent
from colltool.base.primitives import P2P
from colltool.fabric.properties import Cost
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, later, number
from colltool.render.grounds import ground_field, ground_lines
from colltool.render.view import Document, View, fields, on_fabric, set_field, set_text
from colltool.render.views.fabric_size import PLURAL
from colltool.render.views.sensitivity import quantity
from colltool.training.plan import Plan

_MOST_NUMBERS = 10


class _PlanOn(NamedTuple):
    plan: Plan
    ratio: float
    cost: Cost | None
    cost_per_rate: float | None


_PLANS = (
    label("job", "job", get=lambda one: one.plan.job.name, hidden=True),
    label("fabric", "fabric", get=lambda one: one.plan.fabric),
    label("set", "with", get=lambda one: set_text(one.plan.fabric_overrides)),
    label("device", "computes on", drop=6, get=lambda one: one.plan.device),
    number("ranks", "ranks", get=lambda one: one.plan.ranks, hidden=True),
    number("step_s", "step", format_time, get=lambda one: one.plan.step_s),
    number("ratio", "ratio", format_factor, get=lambda one: one.ratio),
    number("control_step_s", "free network", format_time, 3, get=lambda one: one.plan.control_step_s),
    number("network_share", "network", percent, 1, get=lambda one: one.plan.network_share),
    label("wire", "slowest tier", drop=2, get=lambda one: one.plan.wire),
    number("cost", "network costs", get=lambda one: one.cost and one.cost.total, show=lambda cost: f"{cost:,.0f}"),
    label("currency", "in", get=lambda one: one.cost and one.cost.currency),
    number("cost_per_rate", "cost x step", lambda cost: f"{cost:.4g}", 5, get=lambda one: one.cost_per_rate),
    number("tokens_per_s", "tokens/s", lambda rate: f"{rate:.4g}", 4, get=lambda one: one.plan.tokens_per_s),
)


def _table(result: Plans, title: str = "") -> Table:
    several = tuple(
        _PlanOn(one, result.ratio(at), result.costs[at], result.cost_per_rate(at)) for at, one in enumerate(result.plans)
    )
    idle = [] if any(one.fabric_overrides for one in result.plans) else ["set"]
    idle += [] if any(result.costs) else ["cost", "currency", "cost_per_rate"]
    idle += [] if any(one.device for one in result.plans) else ["device"]
    return Table(_PLANS, several, None, title).without(*idle)


def _parts(result: Plans) -> Table:
    names = list(dict.fromkeys(part.name for one in result.plans for part in one.parts))
    exposed = [{part.name: part.exposed_s for part in one.parts} for one in result.plans]
    rows = tuple((name, [own.get(name) for own in exposed]) for name in names)
    columns = (label("part", "part", get=lambda row: row[0]), *(_on(result, at) for at in range(len(result.plans))))
    return Table(columns, rows, None, "in the step")


def _on(result: Plans, at: int) -> Column:
    return number(f"{result.plans[at].fabric}:{at}", result.titles[at], format_time, get=lambda row: row[1][at])


def verdict(result: Plans) -> tuple[str, ...]:
    """A sentence per fabric against the first; then what else differs: device, placement, cost basis."""
    return (*_against(result), *_unlike(result), *ground_lines(result.ground))


def _against(result: Plans) -> list[str]:
    return [_sentence(result, at) for at in range(1, len(result.plans))]


def _unlike(result: Plans) -> Iterator[str]:
    for at, one in enumerate(result.plans):
        if one.device is not None and one.job.device_from == "default":
            yield f"{result.titles[at]} names no device: it computes on {one.device}, the job's"
    seats = [_per_domain(one) for one in result.plans]
    for name in sorted(seats[0].keys() - {"norm"}):  # 4 bytes over all ranks
        if len({own.get(name) for own in seats}) > 1:
            where = ", ".join(f"{own.get(name, '-')} on {result.titles[at]}" for at, own in enumerate(seats))
            yield f"{name} groups are placed differently: {where}"
    bought = {result.titles[at]: _bought(cost) for at, cost in enumerate(result.costs) if cost}
    if len(set(bought.values())) > 1:
        yield f"network costs do not cover the same: {'; '.join(f'{name}: {what}' for name, what in bought.items())}"


def _bought(cost: Cost) -> str:
    """``USD, without optics, with energy of 4 years``: what a cost covers."""
    without = [f"without {', '.join(PLURAL[part] for part in cost.unpriced)}"] if cost.unpriced else []
    energy = [f"with energy of {cost.years:g} years"] if cost.years and cost.energy_per_year is not None else []
    return ", ".join([cost.currency, *without, *energy])


def _per_domain(plan: Plan) -> dict[str, str]:
    """``1 x 8`` by dimension: members per domain of each tier, innermost first."""
    sent = (one.sent for one in plan.collectives if one.sent.call.primitive is not P2P)
    return {one.call.dimension: " x ".join(map(str, one.cost.per_domain)) for one in sent if one.cost.per_domain}


def _sentence(result: Plans, at: int) -> str:
    ratio, one, name = result.ratio(at), result.plans[at], result.titles[at]
    if one.device != result.plans[0].device:
        name += f" ({one.device or 'no device'}, not {result.plans[0].device or 'none'})"
    if abs(ratio - 1) < 1e-9:
        return f"{name}: no difference (nothing that the job sends takes another time)"
    if abs(ratio - 1) < 0.005:
        return f"{name}: no difference ({percent(ratio - 1, sign='+')})"
    error = result.error(at)
    near = f" (within the model's error, {percent(error)})" if error is not None and abs(ratio - 1) <= error else ""
    before = {part.name: part.exposed_s for part in result.plans[0].parts}
    now = {part.name: part.exposed_s for part in one.parts}
    moves = {part: now.get(part, 0.0) - before.get(part, 0.0) for part in {**before, **now}}
    most = max(moves, key=lambda part: moves[part] if ratio > 1 else -moves[part])
    how = f"{percent(abs(ratio - 1))} {'slower' if ratio > 1 else 'faster'}{near}"
    return f"{name}: {how}, most of it {most} ({'+' if moves[most] >= 0 else '-'}{format_time(abs(moves[most]))})"


def _answer(result: Plans) -> str:
    first = result.plans[0]
    job = f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks"
    return f"{job} takes {format_time(first.step_s)} a step on {result.titles[0]}. {'. '.join(_against(result))}."


def _blocks(result: Plans) -> list[Block]:
    first, *others = result.plans
    common = tuple(pair for pair in first.fabric_overrides if all(pair in other.fabric_overrides for other in others))
    title = on_fabric(f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks", common)
    unlike = (*_unlike(result), *ground_lines(result.ground))
    told = [Lines("not alike", unlike, first=2)] if unlike else []
    return [Headline(_answer(result)), _table(result, title), *told, later(_parts(result))]


def _document(result: Plans) -> Document:
    plans = [
        {
            "fabric": one.fabric, "set": dict(one.fabric_overrides), "device": one.device,
            "device_from": one.job.device_from or None, **fields(one, "step_s control_step_s"),
            "ratio": result.ratio(at), "error": result.error(at), **fields(one, "network_share wire tokens_per_s parts"),
            "cost": asdict(cost) if (cost := result.costs[at]) else None, "cost_per_rate": result.cost_per_rate(at),
        }
        for at, one in enumerate(result.plans)
    ]  # fmt: skip
    first = result.plans[0]
    head = {"job": first.job.name, "job_set": dict(first.job.overrides), "ranks": first.ranks}
    return head | {"plans": plans, "verdict": list(verdict(result)), "ground": ground_field(result.ground)}


def _summary(result: Plans) -> str:
    return "; ".join(verdict(result))


_MOVED = (
    label("key", "number", get=lambda one: one.number.key),
    label("low", "from", get=lambda one: quantity(one.number.key, one.number.low)),
    label("high", "to", get=lambda one: quantity(one.number.key, one.number.high)),
    number("low_s", "step then", format_time),
    number("high_s", "and then", format_time),
    number("span_s", "moves", format_time),
)


def _spread_answer(result: PlanSpread) -> str:
    job = f"{on_fabric(result.job.name, result.job.overrides)} on {result.ranks} ranks of "
    where = on_fabric(result.fabric, result.overrides)
    ends = f"90% of the samples lie between {format_time(result.p5_s)} and {format_time(result.p95_s)}"
    text = f"{job}{where} takes {format_time(result.step_s)} a step; {ends}."
    if not result.moved or not result.moved[0].span_s:
        return f"{text} None of these numbers moves it."
    most = result.moved[0]
    low, high = quantity(most.number.key, most.number.low), quantity(most.number.key, most.number.high)
    return f"{text} {most.number.key} moves it most: {format_time(most.low_s)} at {low}, {format_time(most.high_s)} at {high}."


def _spread_blocks(result: PlanSpread) -> list[Block]:
    whose = "assumed ranges, as none were given" if result.assumed else "ranges as given"
    how = f"{counted(result.samples, 'sample')} of {counted(len(result.moved), 'number')}, seed {result.seed}; {whose}"
    moving = sum(one.span_s > 0 for one in result.moved)
    table = _spread_table(result, "the step when one number changes alone")._replace(first=max(1, min(moving, _MOST_NUMBERS)))
    return [Headline(_spread_answer(result)), table, later(Lines(f"median {format_time(result.p50_s)}; {how}", ()))]


def _spread_table(result: PlanSpread, title: str = "") -> Table:
    return Table(_MOVED, result.moved, None, title)


def _spread_document(result: PlanSpread) -> Document:
    moved = [fields(one.number, "key value low high") | fields(one, "low_s high_s span_s") for one in result.moved]
    head: Document = {"job": result.job.name, "fabric": result.fabric, **set_field(result.overrides)}
    head["job_set"] = dict(result.job.overrides)
    return head | fields(result, "ranks step_s control_step_s p5_s p50_s p95_s samples seed assumed") | {"moved": moved}


VIEWS = {
    Plans: View("plan-compare", _blocks, _document, _table, _summary),
    PlanSpread: View("plan-sensitivity", _spread_blocks, _spread_document, _spread_table, _spread_answer),
}
