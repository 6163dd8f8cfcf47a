"""Plans beside each other: on several fabrics, of several layouts (``--search``), with numbers that
vary (``--vary``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from operator import attrgetter, itemgetter
from textwrap import wrap
from typing import NamedTuple

from colltool.analysis.jobs import Plans, PlanSpread
from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_factor,
    format_time,
    percent,
    whole_percent,
)
from colltool.base.primitives import P2P
from colltool.fabric.properties import Cost
from colltool.machines.used import common, own_rows_of
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    listed,
    machine_field,
    on_fabric,
    set_field,
    set_text,
)
from colltool.render.views.compare import ground_field, ground_lines
from colltool.render.views.fabric_parts import PLURAL
from colltool.render.views.sensitivity import quantity
from colltool.training.files import written
from colltool.training.layout_search import TIE, LayoutSearch, PricedLayout
from colltool.training.plan import MFU_CONVENTION, Plan

_MOST_NUMBERS = 6


class _PlanOn(NamedTuple):
    plan: Plan
    ratio: float
    cost: Cost | None
    cost_per_rate: float | None


_PLANS = (
    label("job", "job", get=attrgetter("plan.job.name"), hidden=True),
    label("fabric", "fabric", get=attrgetter("plan.fabric")),
    label("set", "with", get=lambda row: set_text(row.plan.fabric_overrides)),
    label("device", "computes on", drop=6, get=attrgetter("plan.device")),
    number("ranks", "ranks", get=attrgetter("plan.ranks"), hidden=True),
    number("step_s", "step", format_time, get=attrgetter("plan.step_s")),
    number("ratio", "ratio", format_factor),
    number("control_step_s", "free network", format_time, 3, get=attrgetter("plan.control_step_s")),
    number("network_share", "network", percent, 1, get=attrgetter("plan.network_share")),
    label("wire", "slowest tier", drop=2, get=attrgetter("plan.wire")),
    number(
        "cost",
        "network costs",
        get=lambda row: row.cost and row.cost.total,
        show="{:,.0f}".format,
    ),
    label("currency", "in", get=lambda row: row.cost and row.cost.currency),
    number(
        "cost_per_rate",
        "cost x step",
        "{:.4g}".format,
        5,
        get=attrgetter("cost_per_rate"),
    ),
    number(
        "tokens_per_s",
        "tokens/s",
        "{:.4g}".format,
        4,
        get=attrgetter("plan.tokens_per_s"),
    ),
)


def _table(result: Plans, title: str = "") -> Table:
    rows = (
        _PlanOn(plan, result.ratio(at), result.costs[at], result.cost_per_rate(at))
        for at, plan in enumerate(result.plans)
    )
    idle = [] if any(plan.fabric_overrides for plan in result.plans) else ["set"]
    idle += [] if any(result.costs) else ["cost", "currency", "cost_per_rate"]
    idle += [] if any(plan.device for plan in result.plans) else ["device"]
    return Table(_PLANS, tuple(rows), None, title).without(*idle)


def _on(result: Plans, at: int) -> Column:
    return number(
        f"{result.plans[at].fabric}:{at}",
        result.titles[at],
        format_time,
        get=lambda row: row[1][at],
    )


def verdict(result: Plans) -> tuple[str, ...]:
    """A sentence per fabric against the first; then what else differs: device, placement, cost
    basis."""
    return (*_against(result), *_unlike(result))


def _against(result: Plans) -> list[str]:
    return [_sentence(result, at) for at in range(1, len(result.plans))]


def _unlike(result: Plans) -> Iterator[str]:
    for at, plan in enumerate(result.plans):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{result.titles[at]} names no device: it computes on {plan.device}, the job's"
    seats = [_per_domain(plan) for plan in result.plans]
    for name in sorted(seats[0].keys() - {"norm"}):  # 4 bytes over all ranks
        if len({own.get(name) for own in seats}) > 1:
            where = ", ".join(
                f"{own.get(name, '-')} on {result.titles[at]}" for at, own in enumerate(seats)
            )
            yield f"{name} groups are placed differently: {where}"
    bought = {}
    for at, cost in enumerate(result.costs):
        if cost:  # ``USD, without optics, with energy of 4 years``: what a cost covers
            without = (
                [f"without {', '.join(PLURAL[part] for part in cost.unpriced)}"]
                if cost.unpriced
                else []
            )
            energy = (
                [f"with energy of {cost.years:g} years"]
                if cost.years and cost.energy_per_year is not None
                else []
            )
            bought[result.titles[at]] = ", ".join([cost.currency, *without, *energy])
    if len(set(bought.values())) > 1:
        yield (
            "network costs do not cover the same:"
            f" {'; '.join(f'{name}: {what}' for name, what in bought.items())}"
        )
    yield from ground_lines(result.ground)


def _per_domain(plan: Plan) -> dict[str, str]:
    """``1 x 8`` by dimension: members per domain of each tier, innermost first."""
    sent = (
        collective.sent
        for collective in plan.collectives
        if collective.sent.call.primitive is not P2P
    )
    return {
        price.call.dimension: " x ".join(map(str, price.cost.per_domain))
        for price in sent
        if price.cost.per_domain
    }


def _sentence(result: Plans, at: int) -> str:
    ratio = result.ratio(at)
    plan = result.plans[at]
    name = result.titles[at]
    if plan.device != result.plans[0].device:
        name += f" ({plan.device or 'no device'}, not {result.plans[0].device or 'none'})"
    if abs(ratio - 1) < 1e-9:
        return f"{name}: no difference (nothing that the job sends takes another time)"
    if abs(ratio - 1) < 0.005:
        return f"{name}: no difference ({percent(ratio - 1, sign='+')})"
    error = result.error(at)
    near = (
        f" (within the model's error, {percent(error)})"
        if error is not None and abs(ratio - 1) <= error
        else ""
    )
    before = {part.name: part.exposed_s for part in result.plans[0].parts}
    now = {part.name: part.exposed_s for part in plan.parts}
    moves = {part: now.get(part, 0.0) - before.get(part, 0.0) for part in {**before, **now}}
    most = max(moves, key=lambda part: moves[part] if ratio > 1 else -moves[part])
    how = f"{percent(abs(ratio - 1))} {'slower' if ratio > 1 else 'faster'}{near}"
    return (
        f"{name}: {how}, most of it {most}"
        f" ({'+' if moves[most] >= 0 else '-'}{format_time(abs(moves[most]))})"
    )


def _job(plan: Plan) -> str:
    return f"{on_fabric(plan.job.name, plan.job.overrides)} on {plan.ranks} ranks"


def _blocks(result: Plans) -> list[Block]:
    first = result.plans[0]
    took = f"takes {format_time(first.step_s)} a step on {result.titles[0]}"
    shared = common([plan.fabric_overrides for plan in result.plans])
    exposed = [{part.name: part.exposed_s for part in plan.parts} for plan in result.plans]
    rows = tuple(
        (name, [own.get(name) for own in exposed])
        for name in {name: 0 for own in exposed for name in own}
    )
    columns = (
        label("part", "part", get=itemgetter(0)),
        *(_on(result, at) for at in range(len(result.plans))),
    )
    return [
        Headline(f"{_job(first)} {took}. {'. '.join(_against(result))}."),
        _table(result, on_fabric(_job(first), shared)),
        *listed(
            "rows of one's own",
            own_rows_of((plan.fabric, plan.fabric_overrides) for plan in result.plans),
        ),
        *listed("not alike", _unlike(result), first=2),
        Table(columns, rows, None, "in the step", first=0),
    ]


def _document(result: Plans) -> Document:
    first = result.plans[0]
    plans = [
        {
            "fabric": plan.fabric,
            "set": dict(plan.fabric_overrides),
            **machine_field(plan.fabric_overrides),
            "device": plan.device,
        }
        | {"device_from": plan.job.device_from or None, **fields(plan, "step_s control_step_s")}
        | {
            "ratio": result.ratio(at),
            "error": result.error(at),
            **fields(plan, "network_share wire tokens_per_s parts"),
        }
        | {"cost": cost and asdict(cost), "cost_per_rate": result.cost_per_rate(at)}
        for at, (plan, cost) in enumerate(zip(result.plans, result.costs, strict=True))
    ]
    head = {"job": first.job.name, "job_set": dict(first.job.overrides), "ranks": first.ranks}
    return head | {
        "plans": plans,
        "verdict": list(verdict(result)),
        "ground": ground_field(result.ground),
    }


_MOVED = (
    label("key", "number", get=attrgetter("number.key")),
    label("low", "from", get=lambda row: quantity(row.number.key, row.number.low)),
    label("high", "to", get=lambda row: quantity(row.number.key, row.number.high)),
    number("low_s", "step then", format_time),
    number("high_s", "and then", format_time),
    number("span_s", "moves", format_time),
)


def _spread_answer(result: PlanSpread) -> str:
    job = f"{on_fabric(result.job.name, result.job.overrides)} on {result.ranks} ranks of "
    where = on_fabric(result.fabric, result.overrides)
    ends = (
        f"90% of the samples lie between {format_time(result.p5_s)} and {format_time(result.p95_s)}"
    )
    text = f"{job}{where} takes {format_time(result.step_s)} a step; {ends}."
    if not result.moved or not result.moved[0].span_s:
        return f"{text} None of these numbers moves it."
    most = result.moved[0]
    low, high = (
        quantity(most.number.key, most.number.low),
        quantity(most.number.key, most.number.high),
    )
    return (
        f"{text} {most.number.key} moves it most: {format_time(most.low_s)} at {low},"
        f" {format_time(most.high_s)} at {high}."
    )


def _spread_blocks(result: PlanSpread) -> list[Block]:
    whose = "assumed ranges, as none were given" if result.assumed else "ranges as given"
    how = (
        f"{counted(result.samples, 'sample')} of {counted(len(result.moved), 'number')}, seed"
        f" {result.seed}; {whose}"
    )
    moving = sum(move.span_s > 0 for move in result.moved)
    table = Table(
        _MOVED,
        result.moved,
        None,
        "the step when one number changes alone",
        max(1, min(moving, _MOST_NUMBERS)),
    )
    return [
        Headline(_spread_answer(result)),
        table,
        Lines(f"median {format_time(result.p50_s)}; {how}", (), first=0),
    ]


def _spread_document(result: PlanSpread) -> Document:
    moved = [
        fields(move.number, "key value low high") | fields(move, "low_s high_s span_s")
        for move in result.moved
    ]
    head = {
        "job": result.job.name,
        "fabric": result.fabric,
        **set_field(result.overrides),
        "job_set": dict(result.job.overrides),
    }
    return (
        head
        | fields(result, "ranks step_s control_step_s p5_s p50_s p95_s samples seed assumed")
        | {"moved": moved}
    )


_LONGEST = 74  # characters of a line to paste, so that a narrow terminal does not wrap it
_MOST_LAYOUTS = 8


def _choice(key: str) -> Column:
    return number(key, key, get=lambda row: getattr(row[1].choice, key))


_LAYOUTS = (
    number("rank", "#", get=itemgetter(0)),
    _choice("tp"),
    label("sp", "sp", written, get=lambda row: row[1].choice.sp, hidden=True),
    *map(_choice, ("cp", "ep", "etp", "pp", "virtual", "dp", "micro")),
    label("shard", "shard", get=lambda row: row[1].choice.shard),
    label("recompute", "recompute", get=lambda row: row[1].choice.recompute),
    label("schedule", "schedule", get=lambda row: row[1].choice.schedule, hidden=True),
    number("step_s", "step", format_time, get=lambda row: row[1].step_s),
    number(
        "of_best",
        "of best",
        lambda share: percent(share, sign="+"),
        drop=1,
        get=lambda row: row[1].of_best,
    ),
    label(
        "tie", "tie", drop=5, get=lambda row: "best" if row[0] == 1 else "tie" if row[1].tie else ""
    ),
    number("mfu", "MFU", percent, drop=3, get=lambda row: row[1].mfu),
    number(
        "tokens_per_s",
        "tokens/s",
        "{:.4g}".format,
        get=lambda row: row[1].tokens_per_s,
        hidden=True,
    ),
    number(
        "control_step_s",
        "free network",
        format_time,
        get=lambda row: row[1].control_step_s,
        hidden=True,
    ),
    number("network_share", "network", percent, drop=4, get=lambda row: row[1].network_share),
    number(
        "memory_bytes",
        "memory",
        lambda size: format_bytes(size, 3),
        drop=2,
        get=lambda row: row[1].memory_bytes,
    ),
)


def _layouts(result: LayoutSearch) -> Table:
    columns = (*context(job=result.job.name, fabric=result.fabric, ranks=result.ranks), *_LAYOUTS)
    return Table(
        columns,
        tuple(enumerate(result.layouts, 1)),
        0,
        f"the best of {counted(result.priced, 'layout')}",
        _MOST_LAYOUTS,
    )


def _search_blocks(result: LayoutSearch) -> list[Block]:
    # without columns in which every layout has the default
    nothing = {"cp": 1, "ep": 1, "etp": 1, "virtual": 1, "recompute": "none"}
    idle = [
        key
        for key, none in nothing.items()
        if all(getattr(layout.choice, key) == none for layout in result.layouts)
    ]
    facts = Lines("the search", tuple(_facts(result)), first=0)
    return [
        Headline(_search_answer(result)),
        *_to_type(result),
        _layouts(result).without(*idle),
        facts,
    ]


def _search_answer(result: LayoutSearch) -> str:
    best, own = result.best, result.own.searched
    where = f"{result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"
    how = f"{best.choice.spoken}: {format_time(best.step_s)} a step."
    text = f"{on_fabric(result.job.name, result.job.overrides)} on {where} is fastest as {how}"
    if own is None:
        text += f" The job's own layout does not run: {result.own.why}."
    elif result.values:
        fits = (
            ""
            if result.own.fits
            else f", and needs {format_bytes(own.memory_bytes, 3)}: does not fit"
        )
        text += (
            f" Its own layout takes {format_time(own.step_s)},"
            f" {percent(own.of_best, sign='+')}{fits}."
        )
    else:
        text += " That is its own layout."
    if result.ties.layouts > 1:
        text += f" {result.ties.layouts} layouts are within {whole_percent(TIE)}, take any."
    return text


def _to_type(result: LayoutSearch) -> list[Block]:
    # the options (or overrides of load_job) with which plan shows the best layout in full
    if not result.values:
        return []
    title = either(
        shell="all of it: the same without --search, --keep and --top, and with",
        python="all of it: plan of load_job with",
    )
    options = [f"{key}={value}" for key, value in result.values]
    # \0 keeps an option and its value on one line
    lines = wrap(
        " ".join(f"--job-set\0{option}" for option in options),
        _LONGEST,
        break_long_words=False,
        break_on_hyphens=False,
    )
    pasted = either(
        shell=" \\\n".join(line.replace("\0", " ") for line in lines),
        python=f"overrides={options!r}",
    )
    return [Lines(said(title), tuple(said(pasted).split("\n")), verbatim=True)]


def _facts(result: LayoutSearch) -> Iterator[str]:
    best = result.best
    kept = (
        f" with {', '.join(f'{name}={value}' for name, value in result.kept)}"
        if result.kept
        else ""
    )
    placed = f", {result.priced} sit on the fabric" if result.priced < result.fit else ""
    free = f" less {percent(result.headroom)} headroom" if result.headroom else ""
    fit = f"{result.fit} fit {format_bytes(result.capacity_bytes, 3)}{free}{placed}"
    yield f"{counted(result.held, 'layout')}{kept} fill the ranks, {fit}"
    if result.job.device_from != "job":
        whose = (
            f"that of {result.fabric}"
            if result.job.device_from == "fabric"
            else f"the job's: {result.fabric} names none"
        )
        yield f"all compute on {result.device}, {whose}"
    yield (
        f"{format_time(best.control_step_s)} with a free network; MFU {percent(best.mfu)}"
        f" ({MFU_CONVENTION})"
    )
    several = result.ties.layouts > 1
    yield (
        f"ties differ in {', '.join(result.ties.differ)}"
        if several
        else f"no other layout is within {whole_percent(TIE)}"
    )
    if result.own.searched:
        yield f"the job's own layout: {result.own.searched.choice.spoken}"


def _search_document(result: LayoutSearch) -> Document:
    own, job, ties = result.own, result.job, result.ties
    return (
        {
            "job": job.name,
            "fabric": result.fabric,
            "ranks": result.ranks,
            **set_field(result.fabric_overrides),
        }
        | {
            "job_set": dict(job.overrides),
            "device": result.device,
            "device_from": job.device_from or None,
        }
        | {
            "kept": dict(result.kept),
            "searched": result.held,
            **fields(result, "fit priced capacity_bytes"),
        }
        | {"tie_within": TIE, "ties": ties.layouts, "ties_differ_in": list(ties.differ)}
        | {"best": {"rank": 1} | _layout(result.best), "best_job_set": dict(result.values)}
        | {
            "own": own.searched and _layout(own.searched) | {"fits": own.fits},
            "own_refused": own.why or None,
        }
        | {"mfu_convention": MFU_CONVENTION}
        | {
            "layouts": [
                {"rank": place} | _layout(layout) for place, layout in enumerate(result.layouts, 1)
            ]
        }
    )


def _layout(layout: PricedLayout) -> Document:
    figures = {key: value for key, value in layout._asdict().items() if key != "choice"}
    return layout.choice._asdict() | figures | fields(layout, "network_share tie")


VIEWS = {
    Plans: View(
        "plan-compare", _blocks, _document, _table, lambda result: "; ".join(verdict(result))
    ),
    PlanSpread: View(
        "plan-sensitivity",
        _spread_blocks,
        _spread_document,
        lambda result: Table(_MOVED, result.moved),
        _spread_answer,
    ),
    LayoutSearch: View("plan-search", _search_blocks, _search_document, _layouts, _search_answer),
}
