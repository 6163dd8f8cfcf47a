"""``plan``: the time of a training step on a fabric, what to change, its parts, collectives and busiest links."""

from __future__ import annotations

from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_energy,
    format_factor,
    format_rate,
    format_time,
    percent,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.placement import tiers_spanned
from colltool.render.blocks import Block, Headline, Lines, Table, flag, label, later, number
from colltool.render.view import Document, View, fields, on_fabric, plain, set_field
from colltool.render.views.job import numbers_text
from colltool.render.views.plan_facts import facts, known_error
from colltool.training.changes import Change
from colltool.training.plan import MFU_CONVENTION, JobLink, Plan, PlannedCall

_PAIRS = 4  # shown of a change (each protocol of a tier has its own bandwidth); JSON has all
_MOST_CHANGES = 5
_MOST_ANCHORED = 3  # each has two more values to type: the measured step and the slowdown


def _group(one: PlannedCall) -> str:
    """``8 x 2``: members per domain of each tier, innermost first; ``16, every 8``: stride 8."""
    group = one.sent.call.group
    inside = [str(count) for count in one.sent.cost.per_domain if count > 1] or [str(group.ranks)]
    if str(one.sent.call.primitive) == "p2p":
        inside = [str(group.ranks)]
    return " x ".join(inside) + (f", every {group.stride}" if group.stride > 1 else "")


_COLLECTIVES = (
    label("job", "job", get=lambda row: row[0].job.name, hidden=True),
    label("fabric", "fabric", get=lambda row: row[0].fabric, hidden=True),
    label("dimension", "dimension", get=lambda row: row[1].sent.call.dimension),
    label("phase", "phase", drop=4, get=lambda row: row[1].sent.call.phase),
    label("primitive", "primitive", lambda primitive: primitive.spoken, get=lambda row: row[1].sent.call.primitive),
    label("group", "group", get=lambda row: _group(row[1])),
    number("ranks", "ranks", get=lambda row: row[1].sent.call.group.ranks, hidden=True),
    number("stride", "stride", get=lambda row: row[1].sent.call.group.stride, hidden=True),
    label("tiers", "tiers", drop=3, get=lambda row: "+".join(row[1].sent.cost.tiers)),
    number("calls", "calls", format_count, get=lambda row: row[1].sent.call.calls),
    number("bytes", "bytes a call", format_bytes, get=lambda row: row[1].sent.call.bytes),
    label("algorithm", "algorithm", drop=2, get=lambda row: row[1].sent.cost.algorithm),
    label("protocol", "protocol", drop=5, get=lambda row: row[1].sent.cost.protocol, hidden=True),
    number("each_s", "each", format_time, get=lambda row: row[1].sent.each_s),
    number("total_s", "total", format_time, get=lambda row: row[1].sent.total_s),
    number("hidden_s", "hidden", format_time, drop=1, get=lambda row: row[1].sent.hidden_s),
    number("exposed_s", "exposed", format_time, get=lambda row: row[1].sent.exposed_s),
    number("energy_J", "energy", format_energy, drop=8, get=lambda row: row[1].energy_J, hidden=True),
    label("bound", "bound by", drop=6, get=lambda row: row[1].sent.cost.bound),
    label("stages", "stages", drop=7, get=lambda row: numbers_text(row[1].stages), hidden=True),
    flag("paces", "paces", get=lambda row: row[1].paces, hidden=True),
)
_CHANGES = (
    label("change", "what to change"),
    label("set", "with", get=lambda one: typed(one)),
    number("step_s", "step", format_time),
    number("gain", "gain", percent),
    flag("fits", "fits"),
)
_BUSIEST = (
    label("tier", "tier"),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    label("dimension", "mostly"),
)
_LINKS = (
    label("link", "busiest link"),
    label("kind", "of the", drop=3, get=lambda one: f"{one.tier} {one.kind}"),
    number("bytes", "carries", format_bytes),
    number("rate_Bps", "at", format_rate, drop=2),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    number("over_mean", "over the mean", format_factor, drop=1),
    label("by", "for", get=lambda one: _senders(one)),
)


def _senders(one: JobLink) -> str:
    """``ep 61%, expert dp 38%``: shares of its traffic from half a percent on."""
    shares = [(name, size / one.bytes) for name, size in one.by]
    return ", ".join(f"{name} {whole_percent(share)}" for name, share in shares if share >= 0.005)


def typed(change: Change) -> str:
    """What to type for a change: ``--job-set overlap.tp=true``."""
    pairs = [f"{key}={value}" for key, value in change.set[:_PAIRS]]
    option = "--set" if change.where == "fabric" else "--job-set"
    more = f" and {len(change.set) - _PAIRS} more" if len(change.set) > _PAIRS else ""
    python = f"{'overrides' if change.where == 'fabric' else 'job overrides'}={pairs!r}"
    return said(either(shell=" ".join(f"{option} {pair}" for pair in pairs), python=python)) + more


def plan_title(result: Plan) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"


def slow_tier(result: Plan) -> str | None:
    """The tier that most exposed communication waits for; None if unsure.

    The calls of an algorithm that keeps several tiers busy at once count as unsure: the slower may be so by a hair.
    """
    by_tier: dict[str, float] = {}
    unsure = 0.0
    for sent in (one.sent for one in result.collectives if one.paces):
        if tiers_spanned(sent.cost.per_domain) > len(sent.cost.busy):
            unsure += sent.exposed_s
        else:
            by_tier[sent.cost.wire] = by_tier.get(sent.cost.wire, 0.0) + sent.exposed_s
    worst = max(by_tier, key=lambda tier: by_tier[tier], default="")
    others = [exposed for tier, exposed in by_tier.items() if tier != worst]
    return worst if worst and by_tier[worst] > max(others, default=0.0) + unsure else None


def answer(result: Plan) -> str:
    return f"{plan_title(result)} {'. '.join(_sentences(result))}."


def _sentences(result: Plan) -> list[str]:
    took, kept = format_time(result.step_s), result.memory
    if kept is not None and kept.fits is False and kept.capacity_bytes is not None:
        needs = f"stage {kept.worst_stage} needs {format_bytes(kept.bytes, 3)} of {format_bytes(kept.capacity_bytes, 3)}"
        cure = next((one for one in result.changes if one.fits), None)
        searched = said(either(shell="plan --search", python="search_layouts()"))
        then = f"{typed(cure)} ({format_time(cure.step_s)} a step)" if cure else f"more ranks, or {searched}"
        return [f"does not fit: {needs}; try {then}", f"If it did fit, a step would take {took}"]
    off = known_error(result)
    out = [f"takes {took} a step" + (f" ({off})" if off else "")]
    if result.collectives and result.step_s:
        out.append(f"{percent(result.exposed_s / result.step_s)} of it is exposed communication{_mostly(result)}")
    if result.changes:
        best = result.changes[0]
        out.append(f"Most to gain: {best.change}, {percent(best.gain)}, with {typed(best)}")
    elif result.collectives:
        out.append("No change that was tried makes it faster")
    return out


def _mostly(result: Plan) -> str:
    by: dict[str, float] = {}
    for sent in (one.sent for one in result.collectives if one.paces):
        by[sent.call.dimension] = by.get(sent.call.dimension, 0.0) + sent.exposed_s
    most = max(by, key=lambda name: by[name], default="")
    if not most or not by[most]:
        return ""
    tier = slow_tier(result)
    return f", mostly {most} ({format_time(by[most])})" + (f"; {tier} is the bottleneck" if tier else "")


def _table(result: Plan) -> Table:
    found = Table(_COLLECTIVES, tuple((result, one) for one in result.collectives), None, "collectives of a step")
    return found.with_shown("energy_J") if result.energy_J is not None else found


def _blocks(result: Plan) -> list[Block]:
    parts = Table(
        (
            label("name", "part"),
            number("hidden_s", "hidden", format_time, get=lambda part: part.hidden_s or None),
            number("exposed_s", "in the step", format_time),
            number("share", "of the step", percent, get=lambda part: part.exposed_s / result.step_s if result.step_s else 0.0),
        ),
        result.parts,
        None,
        "what the step consists of",
    )
    most = _MOST_CHANGES if result.anchor is None else _MOST_ANCHORED
    changes = Table(_CHANGES, result.changes, None, "what to change, each priced again", most)
    if all(one.fits is not False for one in result.changes):
        changes = changes.without("fits")
    elif result.memory is not None and result.memory.fits is False:  # changes that do not make it fit come last
        fit = [one for one in result.changes if one.fits]
        unfit = (one for one in result.changes if not one.fits)
        changes = changes._replace(records=(*fit, *unfit), first=min(len(fit), _MOST_CHANGES) or None)
    links = result.links
    asked = (
        [Table(_LINKS, links.links, None, "the busiest link of each kind, all groups at once, at its full rate")] if links else []
    )
    first, *rest = [*asked, *([changes] if result.changes else []), parts]
    detail: list[Block] = [*rest, Lines("the step", tuple(facts(result))), *_paced(result)]
    detail.append(Table(_BUSIEST, result.wires, None, "how long the links of each tier are busy"))
    return [
        Headline(answer(result)),
        first,
        *map(later, detail),
        *([Lines("notes", links.notes)] if links and links.notes else []),
    ]


def _paced(result: Plan) -> list[Block]:
    # the collectives of stages on the critical path, whose exposed times add up to those of the parts
    table = _table(result)
    others = sum(not one.paces for one in result.collectives)
    paced = table._replace(records=tuple(row for row in table.records if row[1].paces))
    if not others:
        return [paced]
    where = Lines(f"{counted(others, 'row')} of stages off the critical path are in JSON and CSV", ())
    return [paced._replace(title=f"{table.title}, on the critical path"), where]


def _document(result: Plan) -> Document:
    head = {"job": result.job.name, "fabric": result.fabric, "ranks": result.ranks}
    kept, links, small, steps = result.memory, result.links, result.compression, result.job.steps
    return head | set_field(result.fabric_overrides) | {
        "job_set": dict(result.job.overrides),
        "device": result.device,
        "device_from": result.job.device_from or None,
        **fields(result, "step_s control_step_s network_share wire exposed_s hidden_s"),
        "measured_step_s": result.job.measured_step_s,
        **fields(result, "measured_error anchor"),
        "measured_memory_bytes": result.job.measured_memory_bytes,
        "memory_error": result.memory_error,
        "steps": steps,
        "run_s": result.run_s,
        "compression": None if small is None else fields(small.given, "on scheme") | fields(small, "ratio times_fewer")
        | fields(small.given, "overhead_s") | fields(small, "largest_overhead_s pays each_s plain_each_s plain_step_s")
        | fields(small.given, "extra_steps") | fields(small, "break_even_extra_steps gains")
        | {"run_s": small.run_s(steps) if steps is not None else None,
           "plain_run_s": small.plain_run_s(steps) if steps is not None else None},
        **fields(result, "energy_J grounds tokens_per_s mfu"),
        "mfu_convention": MFU_CONVENTION,
        "parts": plain(result.parts),
        "collectives": [_planned(one) for one in result.collectives],
        "memory": plain(kept.parts) if kept else [],
        "memory_bytes": kept.bytes if kept else None,
        "fits": kept.fits if kept else None,
        "busiest": plain(result.wires),
        **({"busiest_links": [_link(one) for one in links.links], "link_notes": list(links.notes)} if links else {}),
        "changes": [one._asdict() | {"set": dict(one.set)} for one in result.changes],
    }  # fmt: skip


def _link(one: JobLink) -> Document:
    return one._asdict() | {"bytes": whole_bytes(one.bytes), "by": {name: whole_bytes(size) for name, size in one.by}}


def _planned(one: PlannedCall) -> Document:
    call, cost = one.sent.call, one.sent.cost
    group = {"ranks": call.group.ranks, "stride": call.group.stride, "per_domain": list(cost.per_domain)}
    return {
        "dimension": call.dimension, "primitive": str(call.primitive), "group": group, "tiers": list(cost.tiers),
        "phase": call.phase, "count": whole_bytes(call.calls), "bytes": whole_bytes(call.bytes), "algorithm": cost.algorithm,
        "protocol": cost.protocol or None, "picked_by": cost.pick or None,
        **fields(one.sent, "each_s total_s hidden_s exposed_s"), "bound": cost.bound, "energy_J": one.energy_J,
        "hides": call.hides, **fields(one, "stages paces"),
    }  # fmt: skip


VIEWS = {Plan: View("plan", _blocks, _document, _table, answer)}
