"""One job planned on several fabrics: the steps side by side, and what else the plans differ in.

:func:`_blocks` is the screen: a headline with a sentence for each fabric against the first
(:func:`_comparisons`), and the table of :data:`_PLANS`. A plan's index is its fabric's among those
that were given; 0 is the first, which all are compared with: ``result.ratio(index)`` is a plan's step time over
the first's, ``result.error(index)`` the relative error of that ratio in nine of ten cases (None on the same
fabric).
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
from colltool.render.views.fabric_bill import PLURAL
from colltool.render.views.plan import rate_text
from colltool.render.views.trace import signed_time
from colltool.training.plan import Plan
from colltool.training.step_time import StepPart

# relative differences of two steps
_ROUNDING = 1e-9  # below it they are the same
_SAME_STEP = 0.005  # below it nobody could measure one


class _PlanOn(NamedTuple):
    """A plan against the first one, with the cost of its network."""

    plan: Plan
    ratio: float  # of its step time to the first's
    error: float | None  # relative, of that ratio; None for the same fabric
    cost: Cost | None  # None for a file without prices
    cost_per_rate: (
        float | None
    )  # cost times the seconds of a step: less is more steps for the money


def _rows(result: Plans) -> tuple[_PlanOn, ...]:
    """A row for each plan, in the order of the fabrics."""
    rows = []
    for index, plan in enumerate(result.plans):
        rows.append(
            _PlanOn(
                plan,
                ratio=result.ratio(index),
                error=result.error(index),
                cost=result.costs[index],
                cost_per_rate=result.cost_per_rate(index),
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
    """The plans; columns of overrides, costs and devices only where a plan has some."""
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
    return (*_comparisons(result), *_differences(result))


def _comparisons(result: Plans) -> list[str]:
    """A sentence for each plan but the first."""
    return [_comparison(result, index) for index in range(1, len(result.plans))]


def _differences(result: Plans) -> Iterator[str]:
    """Sentences on what else the plans differ in than their fabrics: devices, placement, what costs cover,
    and what the prices assume."""
    for plan, title in zip(result.plans, result.titles, strict=True):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{title} names no device, so it computes on {plan.device}, the job's device"
    yield from _placement_differences(result)
    coverage = {}
    for title, cost in zip(result.titles, result.costs, strict=True):
        if cost:
            coverage[title] = _coverage(cost)
    if len(set(coverage.values())) > 1:
        texts = [f"{title}: {text}" for title, text in coverage.items()]
        yield f"network costs do not cover the same: {'; '.join(texts)}"
    yield from basis_sentences(result.ground)


def _placement_differences(result: Plans) -> Iterator[str]:
    """``tp groups are placed differently: 8 on dgx-h100, 4 x 2 on nvl4``."""
    placements = list(map(_per_domain, result.plans))
    # Dimensions of parallelism that the first plan has. That of the norm of the gradients is left out: it is
    # 4 bytes over all ranks.
    for dimension in sorted(placements[0].keys() - {"norm"}):
        counts = [placement.get(dimension, "-") for placement in placements]
        if len(set(counts)) == 1:
            continue
        texts = []
        for count, title in zip(counts, result.titles, strict=True):
            texts.append(f"{count} on {title}")
        yield f"{dimension} groups are placed differently: {', '.join(texts)}"


def _coverage(cost: Cost) -> str:
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
    counts_of = {}
    for collective in plan.collectives:
        call = collective.sent.call
        # a point-to-point has two ranks wherever they are
        counts = collective.sent.cost.per_domain
        if counts and call.primitive is not P2P:
            counts_of[call.dimension] = " x ".join(map(str, counts))
    return counts_of


def _comparison(
    result: Plans,
    index: int,
) -> str:
    """``nvl72: 12% faster, most of it tp (-41 ms)``: how a plan compares with the first, and which part
    of the step makes most of it."""
    first = result.first
    plan = result.plans[index]
    change = result.ratio(index) - 1
    name = result.titles[index]
    if plan.device != first.device:
        device = plan.device or "no device"
        first_device = first.device or "none"
        name += f" ({device}, not {first_device})"
    if abs(change) < _ROUNDING:
        return f"{name}: no difference (nothing that the job sends takes longer or shorter)"
    if abs(change) < _SAME_STEP:
        return f"{name}: no difference ({signed_percent(change)})"
    share = percent(abs(change))
    word = "slower" if change > 0 else "faster"
    difference = f"{share} {word}"
    error = result.error(index)
    if error is not None and abs(change) <= error:
        uncertainty = whole_percent(error)
        return f"{name}: too close to call ({difference}, uncertainty ±{uncertainty})"
    part = _most_changed_part(first, plan, slower=change > 0)
    return f"{name}: {difference}, most of it {part}"


def _most_changed_part(first: Plan, plan: Plan, *, slower: bool) -> str:
    """The part of the step that makes most of a difference: ``tp (+1.2 ms)``."""
    first_s = _exposed_s(first)
    plan_s = _exposed_s(plan)
    changes_s: dict[str, float] = {}
    # the parts in the order of the first plan, so that of equals always the same one is named
    for part in {**first_s, **plan_s}:
        changes_s[part] = plan_s.get(part, 0.0) - first_s.get(part, 0.0)
    largest = max if slower else min
    part = largest(changes_s, key=changes_s.__getitem__)
    change = signed_time(changes_s[part])
    return f"{part} ({change})"


def _exposed_s(plan: Plan) -> dict[str, float]:
    """Seconds of the step by its part."""
    return {part.name: part.exposed_s for part in plan.parts}


def _blocks(result: Plans) -> list[Block]:
    """The answer and the table first; what plans assume differently, and their parts, after them."""
    first = result.first
    job = f"{on_fabric(first.job.name, first.job.overrides)} on {first.ranks} ranks"
    step = format_time(first.step_s)
    comparisons = ". ".join(_comparisons(result))
    shared = common([plan.fabric_overrides for plan in result.plans])
    fabrics = [(plan.fabric, plan.fabric_overrides) for plan in result.plans]
    return [
        Headline(f"{job} takes {step} per step on {result.titles[0]}. {comparisons}."),
        _table(result, on_fabric(job, shared)),
        *listed("your own rows", user_rows_of(fabrics)),
        *listed("assumed in the fabric's file", assumed_of(fabrics)),
        *listed("different assumptions", _differences(result), first=2),
        _parts(result),
    ]


def _parts(result: Plans) -> Table:
    """The parts of a step, a column for each fabric."""
    # a row is the name of a part
    columns = [label("part", get=str)]
    parts: dict[str, None] = {}
    for index, (plan, title) in enumerate(zip(result.plans, result.titles, strict=True)):
        exposed_s = _exposed_s(plan)
        parts |= dict.fromkeys(exposed_s)
        # one fabric may stand twice, with other overrides
        key = f"{plan.fabric}:{index}"
        seconds_of: Callable[[Any], float | None] = exposed_s.get
        columns.append(number(key, title, format_time, get=seconds_of))
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


VIEWS = {
    Plans: View(
        "plan-compare",
        _blocks,
        PlanCompareDocument.of,
        _table,
        lambda result: "; ".join(verdict(result)),
    ),
}
