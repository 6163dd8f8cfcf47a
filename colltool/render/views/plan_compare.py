"""Several plans: on several fabrics, of several layouts (``--search``), with numbers that vary
(``--vary``).

Read from :data:`VIEWS`, at the end: plans side by side (:func:`_blocks`), under varied numbers
(``_spread_*``) and the layouts of a search (``_search_*``) follow each other, each with its
documents behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from colltool.analysis.jobs import Plans, PlanSpread, StepTornadoBar
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_factor,
    format_time,
    percent,
    whole_percent,
)
from colltool.base.primitives import P2P
from colltool.fabric.bill import Cost
from colltool.machines.used import assumed_of, common, user_rows_of
from colltool.render.assumption_differences import BasisDocument, basis_sentences
from colltool.render.blocks import Block, Column, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, context, listed, on_fabric, set_text, signed_percent
from colltool.render.documents import Document, derived, optional, or_null
from colltool.render.shared_documents import (
    MachineDocument,
    MovedNumberDocument,
    assumed_by_file,
    assumed_with,
    machine_in_use,
    machine_of,
    mapping,
    values_set,
)
from colltool.render.views.fabric_parts import PLURAL
from colltool.render.views.plan import PlannedDocument, asked_of, pinned_command, rate_text
from colltool.render.views.sensitivity import quantity
from colltool.render.views.trace import signed_time
from colltool.training.files import written
from colltool.training.layout_results import TIE, LayoutSearch, PricedLayout
from colltool.training.plan import Plan
from colltool.training.sentences import MFU_CONVENTION, tokens_text
from colltool.training.step_time import StepPart

_MOST_NUMBERS = 6  # rows of numbers that move the step, without --all


class _PlanOn(NamedTuple):
    """A plan against the first one, with the cost of its network."""

    plan: Plan
    ratio: float
    error: float | None
    cost: Cost | None
    cost_per_rate: float | None


def _rows(result: Plans) -> tuple[_PlanOn, ...]:
    rows = []
    for at, plan in enumerate(result.plans):
        cost = result.costs[at]
        row = _PlanOn(plan, result.ratio(at), result.error(at), cost, result.cost_per_rate(at))
        rows.append(row)
    return tuple(rows)


_PLANS: Columns[_PlanOn] = (
    label("job", path="plan.job.name", hidden=True),
    label("fabric", path="plan.fabric"),
    label("set", "with", get=lambda row: set_text(row.plan.fabric_overrides)),
    label("device", "computes on", drop=6, path="plan.device"),
    number("ranks", path="plan.ranks", hidden=True),
    number("step_s", "step", format_time, path="plan.step_s"),
    number("ratio", "ratio", format_factor),
    number("control_step_s", "free network", format_time, drop=3, path="plan.control_step_s"),
    number("network_share", "network", percent, drop=1, path="plan.network_share"),
    label("wire", "slowest tier", drop=2, path="plan.wire"),
    number("cost", "network costs", "{:,.0f}".format, path="cost.total"),
    label("currency", "in", path="cost.currency"),
    number("cost_per_rate", "cost x step", "{:.4g}".format, drop=5),
    number("tokens_per_s", "tokens/s", rate_text, drop=4, path="plan.tokens_per_s"),
)


def _table(result: Plans, title: str = "") -> Table:
    table = Table(_PLANS, _rows(result), title=title)
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
            yield f"{title} names no device, so it computes on {plan.device}, the job's device"
    placements = list(map(_per_domain, result.plans))
    # the norm of the gradients is left out: it is 4 bytes over all ranks
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
    yield from basis_sentences(result.ground)


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
        # a point-to-point has two ranks wherever they are
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
    # rounding alone
    if abs(change) < 1e-9:
        return f"{name}: no difference (nothing that the job sends takes longer or shorter)"
    if abs(change) < 0.005:
        return f"{name}: no difference ({percent(change, sign='+')})"
    slower = change > 0
    how = f"{percent(abs(change))} {'slower' if slower else 'faster'}"
    error = result.error(at)
    if error is not None and abs(change) <= error:
        return f"{name}: too close to call ({how}, uncertainty ±{whole_percent(error)})"
    return f"{name}: {how}, most of it {_most_moved(first, plan, slower=slower)}"


def _most_moved(first: Plan, plan: Plan, *, slower: bool) -> str:
    """The part of the step that makes most of a difference: ``tp (+1.2 ms)``."""
    before = _exposed(first)
    now = _exposed(plan)
    moves: dict[str, float] = {}
    # the parts in the order of the first plan, so that of equals always the same one is named
    for part in {**before, **now}:
        moves[part] = now.get(part, 0.0) - before.get(part, 0.0)
    most = max(moves, key=moves.__getitem__) if slower else min(moves, key=moves.__getitem__)
    return f"{most} ({signed_time(moves[most])})"


def _exposed(plan: Plan) -> dict[str, float]:
    """Seconds of the step by its part."""
    return {part.name: part.exposed_s for part in plan.parts}


def _job(plan: Plan) -> str:
    return f"{on_fabric(plan.job.name, plan.job.overrides)} on {plan.ranks} ranks"


def _blocks(result: Plans) -> list[Block]:
    first = result.plans[0]
    took = f"takes {format_time(first.step_s)} per step on {result.titles[0]}"
    shared = common([plan.fabric_overrides for plan in result.plans])
    fabrics = [(plan.fabric, plan.fabric_overrides) for plan in result.plans]
    return [
        Headline(f"{_job(first)} {took}. {'. '.join(_against(result))}."),
        _table(result, on_fabric(_job(first), shared)),
        *listed("your own rows", user_rows_of(fabrics)),
        *listed("assumed in the fabric's file", assumed_of(fabrics)),
        *listed("different assumptions", _unlike(result), first=2),
        _parts(result),
    ]


def _parts(result: Plans) -> Table:
    """The parts of a step, a column for each fabric."""
    columns = [label("part", get=str)]
    names: dict[str, None] = {}
    for at, plan in enumerate(result.plans):
        exposed = _exposed(plan)
        names.update(dict.fromkeys(exposed))
        key = f"{plan.fabric}:{at}"
        seconds: Callable[[Any], float | None] = exposed.get
        columns.append(number(key, result.titles[at], format_time, get=seconds))
    return Table(tuple(columns), tuple(names), title="in the step", first=0)


class PlanOnDocument(Document, of=_PlanOn):
    """The plan on a fabric, against the first one."""

    fabric: str = derived("plan.fabric")
    set: dict[str, str] = mapping("plan.fabric_overrides")
    fabric_assumed: list[str] = optional(lambda row: assumed_with(row.plan.fabric_overrides))
    machine: MachineDocument | None = optional(lambda row: machine_of(row.plan.fabric_overrides))
    device: str | None = derived("plan.device")
    device_from: str | None = or_null("plan.job.device_from")
    step_s: float = derived("plan.step_s")
    control_step_s: float = derived("plan.control_step_s")
    ratio: float
    error: float | None
    network_share: float = derived("plan.network_share")
    wire: str | None = derived("plan.wire")
    tokens_per_s: float | None = derived("plan.tokens_per_s")
    parts: list[StepPart] = derived("plan.parts")
    cost: Cost | None
    cost_per_rate: float | None


class PlanCompareDocument(Document):
    """The time of a step on several fabrics."""

    job: str = derived(lambda result: result.plans[0].job.name)
    job_set: dict[str, str] = derived(lambda result: dict(result.plans[0].job.overrides))
    ranks: int = derived(lambda result: result.plans[0].ranks)
    plans: list[PlanOnDocument] = derived(_rows)
    verdict: list[str] = derived(verdict)
    ground: list[BasisDocument]


# --- with numbers that vary


_MOVED: Columns[StepTornadoBar] = (
    label("key", "number", path="number.key"),
    label("low", "from", get=lambda move: quantity(move.number.key, move.number.low)),
    label("high", "to", get=lambda move: quantity(move.number.key, move.number.high)),
    number("low_s", "step at low", format_time),
    number("high_s", "step at high", format_time),
    number("span_s", "difference", format_time),
)


def _spread_answer(result: PlanSpread) -> str:
    job = f"{on_fabric(result.job.name, result.job.overrides)} on {result.ranks} ranks of"
    where = on_fabric(result.fabric, result.overrides)
    ends = f"{format_time(result.p5_s)} and {format_time(result.p95_s)}"
    text = (
        f"{job} {where} takes {format_time(result.step_s)} per step; 90% of the samples lie between"
        f" {ends}."
    )
    if not result.moved or not result.moved[0].span_s:
        return f"{text} None of these numbers changes it."
    most = result.moved[0]
    key = most.number.key
    low = f"{format_time(most.low_s)} at {quantity(key, most.number.low)}"
    high = f"{format_time(most.high_s)} at {quantity(key, most.number.high)}"
    return f"{text} It is most sensitive to {key}: {low}, {high}."


def _spread_blocks(result: PlanSpread) -> list[Block]:
    whose = "assumed ranges (none given)" if result.assumed else "your ranges"
    samples = f"{counted(result.samples, 'sample')} of {counted(len(result.moved), 'number')}"
    how = f"median {format_time(result.p50_s)}; {samples}, seed {result.seed}; {whose}"
    moving = sum(move.span_s > 0 for move in result.moved)
    shown = max(1, min(moving, _MOST_NUMBERS))
    return [
        Headline(_spread_answer(result)),
        Table(_MOVED, result.moved, title="the step when one number changes alone", first=shown),
        Lines(how, (), first=0),
    ]


class MoveDocument(MovedNumberDocument, of=StepTornadoBar):
    """The step when one number changes alone."""


class PlanSensitivityDocument(Document):
    """The time of a step under numbers that vary."""

    job: str = derived("job.name")
    fabric: str
    set: dict[str, str] = optional(values_set)
    fabric_assumed: list[str] = optional(assumed_by_file)
    machine: MachineDocument | None = optional(machine_in_use)
    job_set: dict[str, str] = mapping("job.overrides")
    ranks: int
    step_s: float
    control_step_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    samples: int
    seed: int
    assumed: bool
    moved: list[MoveDocument]


# --- of several layouts


_MOST_LAYOUTS = 4  # rows without --all


class _RankedLayout(NamedTuple):
    """A layout and its place among all, from 1."""

    rank: int
    layout: PricedLayout

    @property
    def tie(self) -> str:
        if self.rank == 1:
            return "best"
        return "tie" if self.layout.tie else ""


def _memory_text(size: float) -> str:
    return format_bytes(size, 3)


def _choice(key: str) -> Column[_RankedLayout]:
    return number(key, key, path=f"layout.choice.{key}")


def _named_choice(key: str, *, hidden: bool = False) -> Column[_RankedLayout]:
    return label(key, key, path=f"layout.choice.{key}", hidden=hidden)


_LAYOUTS: Columns[_RankedLayout] = (
    number("rank", "#"),
    _choice("tp"),
    label("sp", "sp", written, path="layout.choice.sp", hidden=True),
    *map(_choice, ("cp", "ep", "etp", "pp", "virtual", "dp", "micro")),
    _named_choice("shard"),
    _named_choice("recompute"),
    _named_choice("schedule", hidden=True),
    number("step_s", "step", format_time, path="layout.step_s"),
    number("of_best", "slower", signed_percent, drop=1, path="layout.of_best"),
    label("tie", drop=5),
    number("mfu", "MFU", percent, drop=3, path="layout.mfu"),
    number("tokens_per_s", "tokens/s", rate_text, path="layout.tokens_per_s", hidden=True),
    number(
        "control_step_s", "free network", format_time, path="layout.control_step_s", hidden=True
    ),
    number("network_share", "network", percent, drop=4, path="layout.network_share"),
    number("memory_bytes", "memory", _memory_text, drop=2, path="layout.memory_bytes"),
)
# columns that are left out where every layout has the default
_DEFAULTS = {"cp": 1, "ep": 1, "etp": 1, "virtual": 1, "recompute": "none"}


def _layouts(result: LayoutSearch) -> Table:
    columns = (*context(job=result.job.name, fabric=result.fabric, ranks=result.ranks), *_LAYOUTS)
    rows = tuple(map(_RankedLayout._make, enumerate(result.layouts, 1)))
    draft = result.job.draft
    tokens = tokens_text(draft.global_batch * draft.sequence)
    title = (
        f"fastest of {result.priced:,} layouts; sequence {draft.sequence}, global batch"
        f" {draft.global_batch} ({tokens} tokens)"
    )
    return Table(columns, rows, best=0, title=title, first=_MOST_LAYOUTS)


def _search_blocks(result: LayoutSearch) -> list[Block]:
    table = _layouts(result)
    for key, default in _DEFAULTS.items():
        if all(getattr(layout.choice, key) == default for layout in result.layouts):
            table = table.without(key)
    facts = Lines("the search", tuple(_facts(result)), first=0)
    recipe = pinned_command(
        "full breakdown of this layout", result.typed, result.job.overrides, result.values
    )
    return [Headline(_search_answer(result)), recipe, table, facts]


def _search_answer(result: LayoutSearch) -> str:
    best = result.best
    where = f"{result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"
    job = on_fabric(result.job.name, asked_of(result.job))
    rate = f"{rate_text(best.tokens_per_s)} tokens/s, MFU {percent(best.mfu)}"
    sentences = [
        f"{job} on {where}: the fastest layout takes {format_time(best.step_s)} per step ({rate})",
        f"It is {best.choice.text}",
    ]
    if result.ties.layouts > 1:
        within = f"within {whole_percent(TIE)}"
        sentences.append(f"{result.ties.layouts} layouts are {within}, too close to call")
    own = _own_layout_text(result)
    if own:
        sentences.append(own)
    return f"{'. '.join(sentences)}."


def _own_layout_text(result: LayoutSearch) -> str:
    """How the job's own layout compares with the best."""
    own = result.own.searched
    if own is None:
        return f"The job's own layout does not run: {result.own.why}" if result.own.why else ""
    if own.choice == result.best.choice:
        return "The job has that layout already"
    text = f"The job's own layout takes {format_time(own.step_s)} ({signed_percent(own.of_best)})"
    if result.own.fits:
        return text
    return f"{text} and does not fit: it needs {format_bytes(own.memory_bytes, 3)} per GPU"


def _facts(result: LayoutSearch) -> Iterator[str]:
    text = counted(result.valid, "layout")
    if result.kept:
        text += f" with {', '.join(map('='.join, result.kept))}"
    text += f" fill the ranks; {result.fit} of them fit {format_bytes(result.capacity_bytes, 3)}"
    if result.headroom:
        text += f" with {percent(result.headroom)} headroom"
    if result.priced < result.fit:
        text += f"; {result.priced} of those can be placed on the fabric"
    yield text
    yield from result.grounds
    if result.job.device_from == "fabric":
        yield f"all compute on {result.device}, the device of {result.fabric}"
    elif result.job.device_from != "job":
        yield f"all compute on {result.device}, the job's device: {result.fabric} names none"
    best = result.best
    free = f"{format_time(best.control_step_s)} with a free network"
    yield f"the best takes {free}; its MFU counts {MFU_CONVENTION}"
    if result.ties.layouts > 1:
        yield f"layouts within {whole_percent(TIE)} differ in {', '.join(result.ties.differ)}"
    else:
        yield f"no other layout is within {whole_percent(TIE)}"
    if result.own.searched:
        yield f"the job's own layout: {result.own.searched.choice.text}"


class LayoutChoiceDocument(Document, at="choice"):
    """What a search chooses."""

    tp: int
    sp: bool
    cp: int
    ep: int
    etp: int
    pp: int
    virtual: int
    dp: int
    micro: int
    shard: str
    recompute: str
    schedule: str


class PricedLayoutDocument(LayoutChoiceDocument, of=PricedLayout):
    """A layout, and the step with it."""

    step_s: float
    control_step_s: float
    memory_bytes: float
    tokens_per_s: float
    mfu: float
    of_best: float
    network_share: float
    tie: bool


class _RankDocument(Document):
    rank: int


class RankedLayoutDocument(_RankDocument, PricedLayoutDocument):
    """A layout, and its place among all, from 1."""


class OwnLayoutDocument(PricedLayoutDocument):
    """The job's own layout, and whether it fits the memory."""

    fits: bool | None


def _ranked(result: LayoutSearch) -> list[dict[str, Any]]:
    layouts = enumerate(result.layouts, 1)
    return [RankedLayoutDocument.of(layout, rank=rank) for rank, layout in layouts]


def _own_layout_document(result: LayoutSearch) -> dict[str, Any] | None:
    own = result.own
    return own.searched and OwnLayoutDocument.of(own.searched, fits=own.fits)


class PlanSearchDocument(PlannedDocument):
    """The fastest layouts of a job."""

    sequence: int = derived("job.draft.sequence")
    global_batch: int = derived("job.draft.global_batch")
    global_batch_tokens: int = derived(
        lambda result: result.job.draft.global_batch * result.job.draft.sequence
    )
    kept: dict[str, str] = mapping("kept")
    searched: int = derived("valid")
    fit: int
    priced: int
    capacity_bytes: float
    tie_within: float = derived(lambda _: TIE)
    ties: int = derived("ties.layouts")
    ties_differ_in: list[str] = derived("ties.differ")
    best: RankedLayoutDocument = derived(lambda result: _ranked(result)[0])
    best_job_set: dict[str, str] = mapping("values")
    own: OwnLayoutDocument | None = derived(_own_layout_document)
    own_refused: str | None = or_null("own.why")
    mfu_convention: str = derived(lambda _: MFU_CONVENTION)
    layouts: list[RankedLayoutDocument] = derived(_ranked)


VIEWS = {
    Plans: View(
        "plan-compare",
        _blocks,
        PlanCompareDocument.of,
        _table,
        lambda result: "; ".join(verdict(result)),
    ),
    PlanSpread: View(
        "plan-sensitivity",
        _spread_blocks,
        PlanSensitivityDocument.of,
        lambda result: Table(_MOVED, result.moved),
        _spread_answer,
    ),
    LayoutSearch: View(
        "plan-search", _search_blocks, PlanSearchDocument.of, _layouts, _search_answer
    ),
}
