"""``plan``: a training step on a fabric, its parts, its collectives, the busiest wires, and what to change."""

from __future__ import annotations

from colltool.base.formatting import counted, format_bytes, format_count, format_energy, format_time, percent, whole_bytes
from colltool.render.blocks import Block, Lines, Table, flag, label, number
from colltool.render.view import Document, View, on_fabric, set_field
from colltool.render.views.job import numbers_text
from colltool.render.views.plan_facts import facts
from colltool.render.views.plan_links import links_blocks, links_fields
from colltool.training.changes import Change
from colltool.training.compression import GradientCompression
from colltool.training.plan import MFU_CONVENTION, Plan, PlannedCall


def _group(one: PlannedCall) -> str:
    """``8 x 2``: members in a domain of each tier that it crosses, innermost first; ``16 x 1 in 8``: every eighth rank."""
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
    label("where", "in the", drop=3),
    label("set", "with", lambda pairs: _pairs(pairs), drop=1),
    number("step_s", "step", format_time),
    number("gain", "gain", percent),
    label("fits", "fits", {True: "yes", False: "NO", None: "-"}.__getitem__, drop=2),
)
_WIRES = (
    label("tier", "busiest wires"),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    label("dimension", "mostly"),
)


_PAIRS = 3  # a tier's protocols have a bandwidth each; JSON has them all


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    """The first three of them, and how many more there are."""
    shown = " ".join(f"{key}={value}" for key, value in pairs[:_PAIRS])
    return shown + (f" and {len(pairs) - _PAIRS} more" if len(pairs) > _PAIRS else "")


def _table(result: Plan) -> Table:
    found = Table(_COLLECTIVES, tuple((result, one) for one in result.collectives), None, "collectives of a step")
    return found.with_shown("energy_J") if result.energy_J is not None else found


def _parts_table(result: Plan) -> Table:
    columns = (
        label("name", "part"),
        number("hidden_s", "hidden", format_time, get=lambda part: part.hidden_s or None),
        number("exposed_s", "in the step", format_time),
        number("share", "of the step", percent, get=lambda part: part.exposed_s / result.step_s if result.step_s else 0.0),
    )
    return Table(columns, result.parts, None, "what the step consists of")


def _blocks(result: Plan) -> list[Block]:
    out: list[Block] = [Lines(plan_title(result), tuple(facts(result))), _parts_table(result), *_paced(result)]
    out.append(Table(_WIRES, result.wires, None, "the busiest wire of each tier"))
    out += links_blocks(result.links)
    out.append(Table(_CHANGES, result.changes, None, "what to change, each priced again"))
    return out


def _paced(result: Plan) -> list[Block]:
    """The collectives of the stages that set the pace, whose exposed seconds are those of the parts."""
    table = _table(result)
    others = sum(not one.paces for one in result.collectives)
    paced = table._replace(records=tuple(row for row in table.records if row[1].paces))
    if not others:
        return [paced]
    said = f"{counted(others, 'row')} of other stages, which set no pace, stand in JSON and CSV"
    return [paced._replace(title=f"{table.title}, on the stages that set its pace"), Lines("not shown", (said,))]


def plan_title(result: Plan) -> str:
    """The job and where it runs."""
    name = on_fabric(result.job.name, result.job.overrides)
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"


def _document(result: Plan) -> Document:
    head = {"job": result.job.name, "fabric": result.fabric, "ranks": result.ranks} | set_field(result.fabric_overrides)
    kept = result.memory
    return head | {
        "job_set": dict(result.job.overrides),
        "device": result.device,
        "device_from": result.job.device_from or None,
        "step_s": result.step_s,
        "control_step_s": result.control_step_s,
        "network_share": result.network_share,
        "wire": result.wire,
        "exposed_s": result.exposed_s,
        "hidden_s": result.hidden_s,
        "measured_step_s": result.job.measured_step_s,
        "measured_error": result.measured_error,
        "anchor": result.anchor._asdict() if result.anchor is not None else None,
        "measured_memory_bytes": result.job.measured_memory_bytes,
        "memory_error": result.memory_error,
        "steps": result.job.steps,
        "run_s": result.run_s,
        "compression": _compression(result.compression, result.job.steps) if result.compression is not None else None,
        "energy_J": result.energy_J,
        "grounds": list(result.grounds),
        "tokens_per_s": result.tokens_per_s,
        "mfu": result.mfu,
        "mfu_convention": MFU_CONVENTION,
        "parts": [part._asdict() for part in result.parts],
        "collectives": [_planned(one) for one in result.collectives],
        "memory": [part._asdict() for part in kept.parts] if kept else [],
        "memory_bytes": kept.bytes if kept else None,
        "fits": kept.fits if kept else None,
        "busiest": [wire._asdict() for wire in result.wires],
        **links_fields(result.links),
        "changes": [_change(one) for one in result.changes],
    }


def _compression(small: GradientCompression, steps: int | None) -> Document:
    given = small.given
    return {
        "on": given.on, "scheme": given.scheme, "ratio": small.ratio, "times_fewer": small.times_fewer,
        "overhead_s": given.overhead_s, "largest_overhead_s": small.largest_overhead_s, "pays": small.pays,
        "each_s": small.each_s, "plain_each_s": small.plain_each_s, "plain_step_s": small.plain_step_s,
        "extra_steps": given.extra_steps, "break_even_extra_steps": small.break_even_extra_steps, "gains": small.gains,
        "run_s": small.run_s(steps) if steps is not None else None,
        "plain_run_s": small.plain_run_s(steps) if steps is not None else None,
    }  # fmt: skip


def _planned(one: PlannedCall) -> Document:
    call, cost = one.sent.call, one.sent.cost
    group = {"ranks": call.group.ranks, "stride": call.group.stride, "per_domain": list(cost.per_domain)}
    return {
        "dimension": call.dimension, "primitive": str(call.primitive), "group": group, "tiers": list(cost.tiers),
        "phase": call.phase, "count": whole_bytes(call.calls), "bytes": whole_bytes(call.bytes), "algorithm": cost.algorithm,
        "protocol": cost.protocol or None, "picked_by": cost.pick or None, "each_s": one.sent.each_s,
        "total_s": one.sent.total_s, "hidden_s": one.sent.hidden_s, "exposed_s": one.sent.exposed_s, "bound": cost.bound,
        "energy_J": one.energy_J, "hides": call.hides, "stages": list(one.stages), "paces": one.paces,
    }  # fmt: skip


def _change(one: Change) -> Document:
    return one._asdict() | {"set": dict(one.set)}


def _summary(result: Plan) -> str:
    head = f"{result.job.name} on {result.ranks} ranks of {result.fabric}: step {format_time(result.step_s)}"
    best = result.changes[0] if result.changes else None
    then = f"; {best.change} gains {percent(best.gain)}" if best else ""
    return f"{head}, {format_time(result.control_step_s)} with a free network{then}"


VIEWS = {Plan: View("plan", _blocks, _document, _table, _summary)}
