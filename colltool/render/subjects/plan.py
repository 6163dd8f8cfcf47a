"""``plan``: a training step on a fabric, its parts, its collectives, the busiest wires, and what to change."""

from __future__ import annotations

from colltool.render.parts import Block, Lines, Table, label, number
from colltool.render.subject import Document, Subject, on_fabric, set_field
from colltool.render.subjects.job import layout_text, numbers_text
from colltool.render.subjects.plan_links import links_blocks, links_fields
from colltool.words import format_bytes, format_count, format_time, percent, whole_bytes
from colltool.workload.plan import MFU_CONVENTION, Plan, Planned
from colltool.workload.step.against import against
from colltool.workload.step.changes import Change


def _group(one: Planned) -> str:
    """``8 x 2``: members in a domain of each tier that it crosses, innermost first; ``16 x 1 in 8``: every eighth rank."""
    group = one.sent.call.group
    inside = [str(count) for count in one.sent.fare.per_domain if count > 1] or [str(group.ranks)]
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
    label("tiers", "tiers", drop=3, get=lambda row: "+".join(row[1].sent.fare.tiers)),
    number("calls", "calls", format_count, get=lambda row: row[1].sent.call.calls),
    number("bytes", "bytes a call", format_bytes, get=lambda row: row[1].sent.call.bytes),
    label("algorithm", "algorithm", drop=2, get=lambda row: row[1].sent.fare.algorithm),
    label("protocol", "protocol", drop=5, get=lambda row: row[1].sent.fare.protocol, hidden=True),
    number("each_s", "each", format_time, get=lambda row: row[1].sent.each_s),
    number("total_s", "total", format_time, get=lambda row: row[1].sent.total_s),
    number("hidden_s", "hidden", format_time, drop=1, get=lambda row: row[1].sent.hidden_s),
    number("exposed_s", "exposed", format_time, get=lambda row: row[1].sent.exposed_s),
    label("bound", "bound by", drop=6, get=lambda row: row[1].sent.fare.bound),
    label("stages", "stages", drop=7, get=lambda row: numbers_text(row[1].stages), hidden=True),
)
_CHANGES = (
    label("change", "what to change"),
    label("where", "in the"),
    label("set", "with", lambda pairs: _pairs(pairs), drop=2),
    number("step_s", "step", format_time),
    number("gain", "gain", percent),
    label("fits", "fits", {True: "yes", False: "NO", None: "-"}.__getitem__, drop=1),
)
_WIRES = (
    label("tier", "busiest wires"),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    label("dimension", "mostly"),
)


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    """The first two of them, and how many more there are."""
    shown = " ".join(f"{key}={value}" for key, value in pairs[:2])
    return shown + (f" and {len(pairs) - 2} more" if len(pairs) > 2 else "")


def _table(result: Plan) -> Table:
    return Table(_COLLECTIVES, tuple((result, one) for one in result.collectives), None, "collectives of a step")


def _parts_table(result: Plan) -> Table:
    columns = (
        label("name", "part"),
        number("hidden_s", "hidden", format_time, get=lambda part: part.hidden_s or None),
        number("exposed_s", "in the step", format_time),
        number("share", "of the step", percent, get=lambda part: part.exposed_s / result.step_s if result.step_s else 0.0),
    )
    return Table(columns, result.parts, None, "what the step consists of")


def _blocks(result: Plan) -> list[Block]:
    out: list[Block] = [Lines(_title(result), tuple(_facts(result))), _parts_table(result), _table(result)]
    out.append(Table(_WIRES, result.wires, None, "the busiest wire of each tier"))
    out += links_blocks(result.links)
    out.append(Table(_CHANGES, result.changes, None, "what to change, each priced again"))
    return out


def _title(result: Plan) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"


def _facts(result: Plan) -> list[str]:
    lines = [f"step {format_time(result.step_s)}; with a free network {format_time(result.control_step_s)}: "
             f"{percent(result.network_share)} of the step is network"]  # fmt: skip
    if (wire := slow_wire(result)) is not None:
        lines.append(f"the wires of {wire} make it slow: {_said_exposed(result, wire)}")
    lines.append(layout_text(result.setup))
    if result.tokens_per_s is not None and result.setup.sequence > 1:
        lines.append(f"{result.tokens_per_s:.4g} tokens/s, {result.tokens_per_s / result.ranks:.4g} a rank")
    if result.mfu is not None:
        lines.append(f"MFU {percent(result.mfu)} ({MFU_CONVENTION})")
    if (stack := result.setup.stack) is not None:
        found = against(stack.name)
        off = (
            f"{found.runs} published dense runs were off by {percent(found.median_error)} (median)"
            if found
            else "no run beside it"
        )
        lines.append(f"compute rests on the kernels of stack {stack.name}: {off}")
    kept = result.memory
    if kept is not None:
        room = "" if kept.capacity_bytes is None else f" of {format_bytes(kept.capacity_bytes, 3)}"
        fits = {True: "", False: ": DOES NOT FIT", None: ""}[kept.fits]
        lines.append(f"memory: {format_bytes(kept.bytes, 3)}{room} on stage {kept.worst_stage}, the worst{fits}; see job show")
    if result.job.measured_step_s is not None and result.measured_error is not None:
        off = percent(result.measured_error, sign="+")
        lines.append(f"measured {format_time(result.job.measured_step_s)}: the plan is off by {off}")
    return lines


def slow_wire(result: Plan) -> str | None:
    """The tier whose wires leave most exposed; None where nothing is."""
    found: dict[str, float] = {}
    for one in result.collectives:
        if one.sent.fare.wire:
            found[one.sent.fare.wire] = found.get(one.sent.fare.wire, 0.0) + one.sent.exposed_s
    worst = max(found, key=lambda tier: found[tier], default=None)
    return worst if worst is not None and found[worst] > 0 else None


def _said_exposed(result: Plan, wire: str) -> str:
    by: dict[str, float] = {}
    for one in result.collectives:
        if one.sent.fare.wire == wire and one.sent.exposed_s:
            by[one.sent.call.dimension] = by.get(one.sent.call.dimension, 0.0) + one.sent.exposed_s
    most = sorted(by, key=lambda name: -by[name])[:3]
    return ", ".join(f"{name} {format_time(by[name])} exposed" for name in most)


def _document(result: Plan) -> Document:
    head = {"job": result.job.name, "fabric": result.fabric, "ranks": result.ranks} | set_field(result.fabric_overrides)
    kept = result.memory
    return (
        head
        | {
            "job_set": dict(result.job.overrides),
            "step_s": result.step_s,
            "control_step_s": result.control_step_s,
            "network_share": result.network_share,
            "measured_step_s": result.job.measured_step_s,
            "tokens_per_s": result.tokens_per_s,
            "mfu": result.mfu,
            "mfu_convention": MFU_CONVENTION,
            "parts": [part._asdict() for part in result.parts],
            "collectives": [_planned(one) for one in result.collectives],
            "memory": [part._asdict() for part in kept.parts] if kept else [],
            "memory_bytes": kept.bytes if kept else None,
            "fits": kept.fits if kept else None,
            "busiest": [wire._asdict() for wire in result.wires],
            "changes": [_change(one) for one in result.changes],
        }
        | links_fields(result.links)
    )


def _planned(one: Planned) -> Document:
    call, fare = one.sent.call, one.sent.fare
    group = {"ranks": call.group.ranks, "stride": call.group.stride, "per_domain": list(fare.per_domain)}
    return {
        "dimension": call.dimension, "primitive": str(call.primitive), "group": group, "tiers": list(fare.tiers),
        "phase": call.phase, "count": whole_bytes(call.calls), "bytes": whole_bytes(call.bytes), "algorithm": fare.algorithm,
        "protocol": fare.protocol or None, "picked_by": fare.pick or None, "each_s": one.sent.each_s,
        "total_s": one.sent.total_s, "hidden_s": one.sent.hidden_s, "exposed_s": one.sent.exposed_s, "bound": fare.bound,
        "hides": call.hides, "stages": list(one.stages),
    }  # fmt: skip


def _change(one: Change) -> Document:
    return one._asdict() | {"set": dict(one.set)}


def _summary(result: Plan) -> str:
    head = f"{result.job.name} on {result.ranks} ranks of {result.fabric}: step {format_time(result.step_s)}"
    best = result.changes[0] if result.changes else None
    then = f"; {best.change} gains {percent(best.gain)}" if best else ""
    return f"{head}, {format_time(result.control_step_s)} with a free network{then}"


SUBJECTS = {Plan: Subject("plan", _blocks, _document, _table, _summary)}
