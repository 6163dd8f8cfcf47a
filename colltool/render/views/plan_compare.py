"""Several plans: on several fabrics, of several layouts (``--search``), with numbers that vary
(``--vary``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from textwrap import wrap
from typing import Any, NamedTuple

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
    signed_percent,
)
from colltool.render.views.compare import ground_field, ground_lines
from colltool.render.views.fabric_parts import PLURAL
from colltool.render.views.sensitivity import quantity
from colltool.training.files import written
from colltool.training.layout_search import TIE, LayoutSearch, PricedLayout
from colltool.training.plan import MFU_CONVENTION, Plan

_MOST_NUMBERS = 6


class _PlanOn(NamedTuple):
    """A plan against the first one, with the cost of its network."""

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
    number("cost", "network costs", "{:,.0f}".format, get=lambda row: row.cost and row.cost.total),
    label("currency", "in", get=lambda row: row.cost and row.cost.currency),
    number("cost_per_rate", "cost x step", "{:.4g}".format, 5),
    number("tokens_per_s", "tokens/s", "{:.4g}".format, 4, get=attrgetter("plan.tokens_per_s")),
)


def _table(result: Plans, title: str = "") -> Table:
    rows = []
    for at, plan in enumerate(result.plans):
        rows.append(_PlanOn(plan, result.ratio(at), result.costs[at], result.cost_per_rate(at)))
    table = Table(_PLANS, tuple(rows), None, title)
    if not any(plan.fabric_overrides for plan in result.plans):
        table = table.without("set")
    if not any(result.costs):
        table = table.without("cost", "currency", "cost_per_rate")
    if not any(plan.device for plan in result.plans):
        table = table.without("device")
    return table


def verdict(result: Plans) -> tuple[str, ...]:
    """A sentence per fabric against the first; then what else differs: device, placement, cost
    basis."""
    return (*_against(result), *_unlike(result))


def _against(result: Plans) -> list[str]:
    return [_sentence(result, at) for at in range(1, len(result.plans))]


def _unlike(result: Plans) -> Iterator[str]:
    for plan, title in zip(result.plans, result.titles, strict=True):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{title} names no device: it computes on {plan.device}, the job's"
    placements = list(map(_per_domain, result.plans))
    # the norm is left out: it is 4 bytes over all ranks
    for name in sorted(placements[0].keys() - {"norm"}):
        where = [placement.get(name, "-") for placement in placements]
        if len(set(where)) > 1:
            texts = map("{} on {}".format, where, result.titles)
            yield f"{name} groups are placed differently: {', '.join(texts)}"
    covered = {}
    for title, cost in zip(result.titles, result.costs, strict=True):
        if cost:
            covered[title] = _covered(cost)
    if len(set(covered.values())) > 1:
        texts = map("{}: {}".format, covered, covered.values())
        yield f"network costs do not cover the same: {'; '.join(texts)}"
    yield from ground_lines(result.ground)


def _covered(cost: Cost) -> str:
    """What a cost covers: ``USD, without optics, with energy of 4 years``."""
    text = cost.currency
    if cost.unpriced:
        text += f", without {', '.join(PLURAL[part] for part in cost.unpriced)}"
    if cost.years and cost.energy_per_year is not None:
        text += f", with energy of {cost.years:g} years"
    return text


def _per_domain(plan: Plan) -> dict[str, str]:
    """``1 x 8`` by dimension: members per domain of each tier, innermost first."""
    found = {}
    for collective in plan.collectives:
        call = collective.sent.call
        counts = collective.sent.cost.per_domain
        if counts and call.primitive is not P2P:
            found[call.dimension] = " x ".join(map(str, counts))
    return found


def _sentence(result: Plans, at: int) -> str:
    """How a plan compares with the first, and which part of the step makes most of it."""
    first = result.plans[0]
    plan = result.plans[at]
    change = result.ratio(at) - 1
    name = result.titles[at]
    if plan.device != first.device:
        name += f" ({plan.device or 'no device'}, not {first.device or 'none'})"
    if abs(change) < 1e-9:
        return f"{name}: no difference (nothing that the job sends takes another time)"
    if abs(change) < 0.005:
        return f"{name}: no difference ({percent(change, sign='+')})"
    how = f"{percent(abs(change))} {'slower' if change > 0 else 'faster'}"
    error = result.error(at)
    if error is not None and abs(change) <= error:
        how += f" (within the model's error, {percent(error)})"
    moves: dict[str, float] = {}
    before = _exposed(first)
    now = _exposed(plan)
    for part in {**before, **now}:
        moves[part] = now.get(part, 0.0) - before.get(part, 0.0)
    most = max(moves, key=lambda part: moves[part] if change > 0 else -moves[part])
    sign = "+" if moves[most] >= 0 else "-"
    return f"{name}: {how}, most of it {most} ({sign}{format_time(abs(moves[most]))})"


def _exposed(plan: Plan) -> dict[str, float]:
    """Seconds of the step by its part."""
    return {part.name: part.exposed_s for part in plan.parts}


def _job(plan: Plan) -> str:
    return f"{on_fabric(plan.job.name, plan.job.overrides)} on {plan.ranks} ranks"


def _blocks(result: Plans) -> list[Block]:
    first = result.plans[0]
    took = f"takes {format_time(first.step_s)} a step on {result.titles[0]}"
    shared = common([plan.fabric_overrides for plan in result.plans])
    own_rows = own_rows_of((plan.fabric, plan.fabric_overrides) for plan in result.plans)
    return [
        Headline(f"{_job(first)} {took}. {'. '.join(_against(result))}."),
        _table(result, on_fabric(_job(first), shared)),
        *listed("rows of one's own", own_rows),
        *listed("not alike", _unlike(result), first=2),
        _parts(result),
    ]


def _parts(result: Plans) -> Table:
    """The parts of a step, a column for each fabric."""
    columns = [label("part", "part", get=str)]
    names: dict[str, None] = {}
    for at, plan in enumerate(result.plans):
        exposed = _exposed(plan)
        names.update(dict.fromkeys(exposed))
        key = f"{plan.fabric}:{at}"
        seconds: Callable[[Any], float | None] = exposed.get
        columns.append(number(key, result.titles[at], format_time, get=seconds))
    return Table(tuple(columns), tuple(names), None, "in the step", first=0)


def _document(result: Plans) -> Document:
    first = result.plans[0]
    plans = []
    for at, plan in enumerate(result.plans):
        cost = result.costs[at]
        row = {
            "fabric": plan.fabric,
            "set": dict(plan.fabric_overrides),
            **machine_field(plan.fabric_overrides),
            "device": plan.device,
            "device_from": plan.job.device_from or None,
            **fields(plan, "step_s control_step_s"),
            "ratio": result.ratio(at),
            "error": result.error(at),
            **fields(plan, "network_share wire tokens_per_s parts"),
            "cost": cost and asdict(cost),
            "cost_per_rate": result.cost_per_rate(at),
        }
        plans.append(row)
    return {
        "job": first.job.name,
        "job_set": dict(first.job.overrides),
        "ranks": first.ranks,
        "plans": plans,
        "verdict": list(verdict(result)),
        "ground": ground_field(result.ground),
    }


_MOVED = (
    label("key", "number", get=attrgetter("number.key")),
    label("low", "from", get=lambda move: quantity(move.number.key, move.number.low)),
    label("high", "to", get=lambda move: quantity(move.number.key, move.number.high)),
    number("low_s", "step then", format_time),
    number("high_s", "and then", format_time),
    number("span_s", "moves", format_time),
)


def _spread_answer(result: PlanSpread) -> str:
    job = f"{on_fabric(result.job.name, result.job.overrides)} on {result.ranks} ranks of"
    where = on_fabric(result.fabric, result.overrides)
    ends = f"{format_time(result.p5_s)} and {format_time(result.p95_s)}"
    text = (
        f"{job} {where} takes {format_time(result.step_s)} a step; 90% of the samples lie between"
        f" {ends}."
    )
    if not result.moved or not result.moved[0].span_s:
        return f"{text} None of these numbers moves it."
    most = result.moved[0]
    key = most.number.key
    low = f"{format_time(most.low_s)} at {quantity(key, most.number.low)}"
    high = f"{format_time(most.high_s)} at {quantity(key, most.number.high)}"
    return f"{text} {key} moves it most: {low}, {high}."


def _spread_blocks(result: PlanSpread) -> list[Block]:
    whose = "assumed ranges, as none were given" if result.assumed else "ranges as given"
    samples = f"{counted(result.samples, 'sample')} of {counted(len(result.moved), 'number')}"
    how = f"median {format_time(result.p50_s)}; {samples}, seed {result.seed}; {whose}"
    moving = sum(move.span_s > 0 for move in result.moved)
    shown = max(1, min(moving, _MOST_NUMBERS))
    return [
        Headline(_spread_answer(result)),
        Table(_MOVED, result.moved, None, "the step when one number changes alone", shown),
        Lines(how, (), first=0),
    ]


def _spread_document(result: PlanSpread) -> Document:
    moved = []
    for move in result.moved:
        moved.append(
            fields(move.number, "key value low high") | fields(move, "low_s high_s span_s")
        )
    return {
        "job": result.job.name,
        "fabric": result.fabric,
        **set_field(result.overrides),
        "job_set": dict(result.job.overrides),
        **fields(result, "ranks step_s control_step_s p5_s p50_s p95_s samples seed assumed"),
        "moved": moved,
    }


_LONGEST = 74  # characters of a line to paste, so that a narrow terminal does not wrap it
_MOST_LAYOUTS = 8


class _RankedLayout(NamedTuple):
    """A layout and its place among all, from 1."""

    rank: int
    layout: PricedLayout

    @property
    def tie(self) -> str:
        if self.rank == 1:
            return "best"
        return "tie" if self.layout.tie else ""


def _choice(key: str) -> Column:
    return number(key, key, get=attrgetter(f"layout.choice.{key}"))


_LAYOUTS = (
    number("rank", "#"),
    _choice("tp"),
    label("sp", "sp", written, get=attrgetter("layout.choice.sp"), hidden=True),
    *map(_choice, ("cp", "ep", "etp", "pp", "virtual", "dp", "micro")),
    _choice("shard")._replace(right=False),
    _choice("recompute")._replace(right=False),
    _choice("schedule")._replace(right=False, hidden=True),
    number("step_s", "step", format_time, get=attrgetter("layout.step_s")),
    number("of_best", "of best", signed_percent, 1, get=attrgetter("layout.of_best")),
    label("tie", "tie", drop=5),
    number("mfu", "MFU", percent, 3, get=attrgetter("layout.mfu")),
    number(
        "tokens_per_s",
        "tokens/s",
        "{:.4g}".format,
        get=attrgetter("layout.tokens_per_s"),
        hidden=True,
    ),
    number(
        "control_step_s",
        "free network",
        format_time,
        get=attrgetter("layout.control_step_s"),
        hidden=True,
    ),
    number("network_share", "network", percent, 4, get=attrgetter("layout.network_share")),
    number(
        "memory_bytes",
        "memory",
        partial(format_bytes, digits=3),
        2,
        get=attrgetter("layout.memory_bytes"),
    ),
)
# Columns that are left out where every layout has the default.
_DEFAULTS = {"cp": 1, "ep": 1, "etp": 1, "virtual": 1, "recompute": "none"}


def _layouts(result: LayoutSearch) -> Table:
    columns = (*context(job=result.job.name, fabric=result.fabric, ranks=result.ranks), *_LAYOUTS)
    rows = tuple(map(_RankedLayout._make, enumerate(result.layouts, 1)))
    return Table(columns, rows, 0, f"the best of {counted(result.priced, 'layout')}", _MOST_LAYOUTS)


def _search_blocks(result: LayoutSearch) -> list[Block]:
    table = _layouts(result)
    for key, default in _DEFAULTS.items():
        if all(getattr(layout.choice, key) == default for layout in result.layouts):
            table = table.without(key)
    facts = Lines("the search", tuple(_facts(result)), first=0)
    return [Headline(_search_answer(result)), *_to_type(result), table, facts]


def _search_answer(result: LayoutSearch) -> str:
    best = result.best
    where = f"{result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"
    how = f"{best.choice.spoken}: {format_time(best.step_s)} a step."
    job = on_fabric(result.job.name, result.job.overrides)
    text = f"{job} on {where} is fastest as {how} {_own_answer(result)}"
    if result.ties.layouts > 1:
        text += f" {result.ties.layouts} layouts are within {whole_percent(TIE)}, take any."
    return text


def _own_answer(result: LayoutSearch) -> str:
    """How the job's own layout compares with the best."""
    own = result.own.searched
    if own is None:
        return f"The job's own layout does not run: {result.own.why}."
    if not result.values:
        return "That is its own layout."
    text = f"Its own layout takes {format_time(own.step_s)}, {signed_percent(own.of_best)}"
    if result.own.fits:
        return f"{text}."
    return f"{text}, and needs {format_bytes(own.memory_bytes, 3)}: does not fit."


def _to_type(result: LayoutSearch) -> list[Block]:
    """The options (or overrides of load_job) with which plan shows the best layout in full."""
    if not result.values:
        return []
    title = either(
        shell="all of it: the same without --search, --keep and --top, and with",
        python="all of it: plan of load_job with",
    )
    pairs = list(map("=".join, result.values))
    # \0 keeps an option and its value on one line
    options = " ".join(f"--job-set\0{pair}" for pair in pairs)
    lines = wrap(options, _LONGEST, break_long_words=False, break_on_hyphens=False)
    shell = " \\\n".join(lines).replace("\0", " ")
    pasted = said(either(shell=shell, python=f"overrides={pairs!r}"))
    return [Lines(said(title), tuple(pasted.split("\n")), verbatim=True)]


def _facts(result: LayoutSearch) -> Iterator[str]:
    text = counted(result.held, "layout")
    if result.kept:
        text += f" with {', '.join(map('='.join, result.kept))}"
    text += f" fill the ranks, {result.fit} fit {format_bytes(result.capacity_bytes, 3)}"
    if result.headroom:
        text += f" less {percent(result.headroom)} headroom"
    if result.priced < result.fit:
        text += f", {result.priced} sit on the fabric"
    yield text
    if result.job.device_from == "fabric":
        yield f"all compute on {result.device}, that of {result.fabric}"
    elif result.job.device_from != "job":
        yield f"all compute on {result.device}, the job's: {result.fabric} names none"
    best = result.best
    free = f"{format_time(best.control_step_s)} with a free network"
    yield f"{free}; MFU {percent(best.mfu)} ({MFU_CONVENTION})"
    if result.ties.layouts > 1:
        yield f"ties differ in {', '.join(result.ties.differ)}"
    else:
        yield f"no other layout is within {whole_percent(TIE)}"
    if result.own.searched:
        yield f"the job's own layout: {result.own.searched.choice.spoken}"


def _search_document(result: LayoutSearch) -> Document:
    own = result.own
    job = result.job
    layouts = []
    for rank, layout in enumerate(result.layouts, 1):
        layouts.append({"rank": rank, **_layout(layout)})
    return {
        "job": job.name,
        "fabric": result.fabric,
        "ranks": result.ranks,
        **set_field(result.fabric_overrides),
        "job_set": dict(job.overrides),
        "device": result.device,
        "device_from": job.device_from or None,
        "kept": dict(result.kept),
        "searched": result.held,
        **fields(result, "fit priced capacity_bytes"),
        "tie_within": TIE,
        "ties": result.ties.layouts,
        "ties_differ_in": list(result.ties.differ),
        "best": {"rank": 1, **_layout(result.best)},
        "best_job_set": dict(result.values),
        "own": own.searched and _layout(own.searched) | {"fits": own.fits},
        "own_refused": own.why or None,
        "mfu_convention": MFU_CONVENTION,
        "layouts": layouts,
    }


def _layout(layout: PricedLayout) -> Document:
    figures = layout._asdict()
    choice = figures.pop("choice")
    return {**choice._asdict(), **figures, **fields(layout, "network_share tie")}


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
