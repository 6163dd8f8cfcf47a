"""One job planned on several fabrics: the steps side by side, and what else the plans differ in.

Read from :data:`VIEWS`: :func:`_against` are the sentences of the headline, :func:`_blocks` the
screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from colltool.analysis.jobs import Plans
from colltool.base.formatting import format_factor, format_time, percent, whole_percent
from colltool.base.primitives import P2P
from colltool.fabric.bill import Cost
from colltool.machines.used import assumed_of, common, user_rows_of
from colltool.render.assumption_differences import BasisDocument, basis_sentences
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, listed, on_fabric, set_text, signed_percent
from colltool.render.documents import Document, derived, optional, or_null
from colltool.render.shared_documents import MachineDocument, assumed_with, machine_of, mapping
from colltool.render.views.fabric_parts import PLURAL
from colltool.render.views.plan import rate_text
from colltool.render.views.trace import signed_time
from colltool.training.plan import Plan
from colltool.training.step_time import StepPart

# relative differences of two steps
_ROUNDING = 1e-9
_FELT = 0.005


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
        rows.append(
            _PlanOn(
                plan,
                ratio=result.ratio(at),
                error=result.error(at),
                cost=result.costs[at],
                cost_per_rate=result.cost_per_rate(at),
            )
        )
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
    """What else the plans differ in than their fabrics."""
    for plan, title in zip(result.plans, result.titles, strict=True):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{title} names no device, so it computes on {plan.device}, the job's device"
    yield from _placed_differently(result)
    covered = {}
    for title, cost in zip(result.titles, result.costs, strict=True):
        if cost:
            covered[title] = _covered(cost)
    if len(set(covered.values())) > 1:
        texts = [f"{title}: {what}" for title, what in covered.items()]
        yield f"network costs do not cover the same: {'; '.join(texts)}"
    yield from basis_sentences(result.ground)


def _placed_differently(result: Plans) -> Iterator[str]:
    """``tp groups are placed differently: 8 on dgx-h100, 4 x 2 on nvl4``."""
    placements = list(map(_per_domain, result.plans))
    # the norm of the gradients is left out: it is 4 bytes over all ranks
    for dimension in sorted(placements[0].keys() - {"norm"}):
        counts = [placement.get(dimension, "-") for placement in placements]
        if len(set(counts)) == 1:
            continue
        texts = []
        for count, title in zip(counts, result.titles, strict=True):
            texts.append(f"{count} on {title}")
        yield f"{dimension} groups are placed differently: {', '.join(texts)}"


def _covered(cost: Cost) -> str:
    """What a cost covers: ``USD, without optics, with energy of 4 years``."""
    text = cost.currency
    if cost.unpriced:
        parts = [PLURAL[part] for part in cost.unpriced]
        text += f", without {', '.join(parts)}"
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
    first = result.first
    plan = result.plans[at]
    change = result.ratio(at) - 1
    name = result.titles[at]
    if plan.device != first.device:
        own = plan.device or "no device"
        other = first.device or "none"
        name += f" ({own}, not {other})"
    if abs(change) < _ROUNDING:
        return f"{name}: no difference (nothing that the job sends takes longer or shorter)"
    if abs(change) < _FELT:
        return f"{name}: no difference ({signed_percent(change)})"
    share = percent(abs(change))
    how = f"{share} slower" if change > 0 else f"{share} faster"
    error = result.error(at)
    if error is not None and abs(change) <= error:
        off = whole_percent(error)
        return f"{name}: too close to call ({how}, uncertainty ±{off})"
    most = _most_moved(first, plan, slower=change > 0)
    return f"{name}: {how}, most of it {most}"


def _most_moved(first: Plan, plan: Plan, *, slower: bool) -> str:
    """The part of the step that makes most of a difference: ``tp (+1.2 ms)``."""
    before = _exposed(first)
    now = _exposed(plan)
    moves: dict[str, float] = {}
    # the parts in the order of the first plan, so that of equals always the same one is named
    for part in {**before, **now}:
        moves[part] = now.get(part, 0.0) - before.get(part, 0.0)
    furthest = max if slower else min
    most = furthest(moves, key=moves.__getitem__)
    moved = signed_time(moves[most])
    return f"{most} ({moved})"


def _exposed(plan: Plan) -> dict[str, float]:
    """Seconds of the step by its part."""
    return {part.name: part.exposed_s for part in plan.parts}


def _job(plan: Plan) -> str:
    job = on_fabric(plan.job.name, plan.job.overrides)
    return f"{job} on {plan.ranks} ranks"


def _blocks(result: Plans) -> list[Block]:
    first = result.first
    job = _job(first)
    took = format_time(first.step_s)
    against = ". ".join(_against(result))
    shared = common([plan.fabric_overrides for plan in result.plans])
    fabrics = [(plan.fabric, plan.fabric_overrides) for plan in result.plans]
    return [
        Headline(f"{job} takes {took} per step on {result.titles[0]}. {against}."),
        _table(result, on_fabric(job, shared)),
        *listed("your own rows", user_rows_of(fabrics)),
        *listed("assumed in the fabric's file", assumed_of(fabrics)),
        *listed("different assumptions", _unlike(result), first=2),
        _parts(result),
    ]


def _parts(result: Plans) -> Table:
    """The parts of a step, a column for each fabric."""
    columns = [label("part", get=str)]
    parts: dict[str, None] = {}
    for at, (plan, title) in enumerate(zip(result.plans, result.titles, strict=True)):
        exposed = _exposed(plan)
        parts |= dict.fromkeys(exposed)
        key = f"{plan.fabric}:{at}"
        seconds: Callable[[Any], float | None] = exposed.get
        columns.append(number(key, title, format_time, get=seconds))
    return Table(tuple(columns), tuple(parts), title="in the step", first=0)


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

    job: str = derived("first.job.name")
    job_set: dict[str, str] = mapping("first.job.overrides")
    ranks: int = derived("first.ranks")
    plans: list[PlanOnDocument] = derived(_rows)
    verdict: list[str] = derived(verdict)
    ground: list[BasisDocument]


def _summary(result: Plans) -> str:
    sentences = verdict(result)
    return "; ".join(sentences)


VIEWS = {Plans: View("plan-compare", _blocks, PlanCompareDocument.of, _table, _summary)}
