"""``plan`` on several fabrics, and ``plan --vary``: jobs as choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple

from colltool.analysis.jobs import Plans, PlanSpread, StepTornadoBar
from colltool.base.formatting import counted, format_factor, format_time, percent
from colltool.base.primitives import P2P
from colltool.fabric.bill import Cost
from colltool.render.blocks import Block, Column, Lines, Table, label, number
from colltool.render.grounds import ground_field, ground_lines
from colltool.render.view import Document, View, on_fabric, set_field, set_text
from colltool.render.views.fabric_bill import PLURAL
from colltool.render.views.sensitivity import quantity
from colltool.training.plan import Plan


class _One(NamedTuple):
    plan: Plan
    ratio: float
    cost: Cost | None
    cost_per_rate: float | None


_PLANS = (
    label("job", "job", get=lambda one: one.plan.job.name, hidden=True),
    label("fabric", "fabric", get=lambda one: one.plan.fabric),
    label("set", "with", drop=3, get=lambda one: set_text(one.plan.fabric_overrides)),
    label("device", "computes on", drop=6, get=lambda one: one.plan.device),
    number("ranks", "ranks", get=lambda one: one.plan.ranks, hidden=True),
    number("step_s", "step", format_time, get=lambda one: one.plan.step_s),
    number("ratio", "ratio", format_factor, get=lambda one: one.ratio),
    number("control_step_s", "free network", format_time, 2, get=lambda one: one.plan.control_step_s),
    number("network_share", "network", percent, get=lambda one: one.plan.network_share),
    label("wire", "slow wire", drop=1, get=lambda one: one.plan.wire),
    number("cost", "network costs", get=lambda one: one.cost and one.cost.total, show=lambda cost: f"{cost:,.0f}"),
    label("currency", "in", get=lambda one: one.cost and one.cost.currency),
    number("cost_per_rate", "cost x step", lambda cost: f"{cost:.4g}", 5, get=lambda one: one.cost_per_rate),
    number("tokens_per_s", "tokens/s", lambda rate: f"{rate:.4g}", 4, get=lambda one: one.plan.tokens_per_s),
)


def _table(result: Plans, title: str = "") -> Table:
    several = tuple(
        _One(one, result.ratio(at), result.costs[at], result.cost_per_rate(at)) for at, one in enumerate(result.plans)
    )
    table = Table(_PLANS, several, None, title)
    idle = [] if any(one.fabric_overrides for one in result.plans) else ["set"]
    idle += [] if any(result.costs) else ["cost", "currency", "cost_per_rate"]
    idle += [] if any(one.device for one in result.plans) else ["device"]
    return table.without(*idle)


def _parts(result: Plans) -> Table:
    """What the steps consist of, side by side."""
    names = list(dict.fromkeys(part.name for one in result.plans for part in one.parts))
    columns = [label("part", "part", get=lambda row: row[0])]
    columns += [_on(result, at) for at in range(len(result.plans))]
    exposed = [{part.name: part.exposed_s for part in one.parts} for one in result.plans]
    rows = tuple((name, [own.get(name) for own in exposed]) for name in names)
    return Table(tuple(columns), rows, None, "in the step")


def apart(result: Plans, at: int) -> str:
    """What tells a fabric from the others: its name, and the overrides that not all have."""
    return result.titles[at]


def _common(result: Plans) -> tuple[tuple[str, str], ...]:
    first, *others = result.plans
    return tuple(pair for pair in first.fabric_overrides if all(pair in other.fabric_overrides for other in others))


def _on(result: Plans, at: int) -> Column:
    return number(f"{result.plans[at].fabric}:{at}", apart(result, at), format_time, get=lambda row: row[1][at])


def verdict(result: Plans) -> tuple[str, ...]:
    """Each fabric against the first, in a sentence; then what they do not have in common beside their wires."""
    against = (_sentence(result, at) for at in range(1, len(result.plans)))
    return (*against, *_unlike(result), *ground_lines(result.ground))


def _unlike(result: Plans) -> Iterator[str]:
    """Devices that nobody names, and groups that sit otherwise."""
    for at, one in enumerate(result.plans):
        if one.device is not None and one.job.device_from == "default":
            yield f"{apart(result, at)} names no device: it computes on {one.device}, the job's"
    seats = [_seats(one) for one in result.plans]
    for name in sorted(seats[0].keys() - {"norm"}):  # 4 bytes over all ranks
        if len({own.get(name) for own in seats}) > 1:
            where = ", ".join(f"{own.get(name, '-')} on {apart(result, at)}" for at, own in enumerate(seats))
            yield f"groups of {name} sit otherwise: {where}"
    bought = {apart(result, at): _bought(cost) for at, cost in enumerate(result.costs) if cost}
    if len(set(bought.values())) > 1:
        yield f"network costs are of unlike things: {'; '.join(f'{name}: {what}' for name, what in bought.items())}"


def _bought(cost: Cost) -> str:
    """``USD, without optics, with energy of 4 years``: what a network's cost is of."""
    without = [f"without {', '.join(PLURAL[part] for part in cost.unpriced)}"] if cost.unpriced else []
    energy = [f"with energy of {cost.years:g} years"] if cost.years and cost.energy_per_year is not None else []
    return ", ".join([cost.currency, *without, *energy])


def _seats(plan: Plan) -> dict[str, str]:
    """``1 x 8`` by dimension: members in a domain of each tier, innermost first."""
    sent = (one.sent for one in plan.collectives if one.sent.call.primitive is not P2P)
    return {one.call.dimension: " x ".join(map(str, one.cost.per_domain)) for one in sent if one.cost.per_domain}


def _sentence(result: Plans, at: int) -> str:
    ratio, one, name = result.ratio(at), result.plans[at], apart(result, at)
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
    return f"{name}: {how}, most of it {most} ({_signed(moves[most])})"


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{format_time(abs(seconds))}"


def _blocks(result: Plans) -> list[Block]:
    first = result.plans[0]
    title = on_fabric(f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks", _common(result))
    return [_table(result, title), _parts(result), Lines("what follows", verdict(result))]


def _document(result: Plans) -> Document:
    plans = [
        {
            "fabric": one.fabric, "set": dict(one.fabric_overrides), "device": one.device,
            "device_from": one.job.device_from or None, "step_s": one.step_s, "control_step_s": one.control_step_s,
            "ratio": result.ratio(at), "error": result.error(at),
            "network_share": one.network_share, "wire": one.wire, "tokens_per_s": one.tokens_per_s,
            "parts": [part._asdict() for part in one.parts], "cost": asdict(cost) if (cost := result.costs[at]) else None,
            "cost_per_rate": result.cost_per_rate(at),
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


def _spread_blocks(result: PlanSpread) -> list[Block]:
    whose = "ranges assumed, for nobody gave any" if result.assumed else "ranges as given"
    lines = (
        f"step {format_time(result.step_s)} as the file says; 90 of 100 lie between {format_time(result.p5_s)} and "
        f"{format_time(result.p95_s)} (median {format_time(result.p50_s)})",
        f"{counted(result.samples, 'sample')} of {counted(len(result.moved), 'number')}, seed {result.seed}; {whose}",
    )
    return [Lines(_spread_title(result), lines), _spread_table(result, "each number by itself")]


def _spread_title(result: PlanSpread) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.overrides)}"


def _spread_table(result: PlanSpread, title: str = "") -> Table:
    return Table(_MOVED, result.moved, None, title)


def _spread_document(result: PlanSpread) -> Document:
    head = {"job": result.job.name, "fabric": result.fabric} | set_field(result.overrides)
    return head | {
        "job_set": dict(result.job.overrides), "ranks": result.ranks, "step_s": result.step_s,
        "control_step_s": result.control_step_s, "p5_s": result.p5_s, "p50_s": result.p50_s, "p95_s": result.p95_s,
        "samples": result.samples, "seed": result.seed, "assumed": result.assumed,
        "moved": [_one_moved(one) for one in result.moved],
    }  # fmt: skip


def _one_moved(one: StepTornadoBar) -> Document:
    own = one.number
    return {"key": own.key, "value": own.value, "low": own.low, "high": own.high, "low_s": one.low_s, "high_s": one.high_s,
            "span_s": one.span_s}  # fmt: skip


def _spread_summary(result: PlanSpread) -> str:
    most = f"; {result.moved[0].number.key} moves it most" if result.moved else ""
    return f"{_spread_title(result)}: step {format_time(result.p5_s)} to {format_time(result.p95_s)}{most}"


VIEWS = {
    Plans: View("plan-compare", _blocks, _document, _table, _summary),
    PlanSpread: View("plan-sensitivity", _spread_blocks, _spread_document, _spread_table, _spread_summary),
}
