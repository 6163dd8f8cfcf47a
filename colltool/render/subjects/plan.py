"""``plan``: a training step on a fabric, its parts, its collectives, the busiest wires, and what to change."""

from __future__ import annotations

from colltool.render.parts import Block, Lines, Table, label, number
from colltool.render.subject import Document, Subject, on_fabric, set_field
from colltool.render.subjects.job import layout_text, numbers_text
from colltool.render.subjects.plan_links import links_blocks, links_fields
from colltool.words import format_bytes, format_count, format_duration, format_energy, format_time, percent, whole_bytes
from colltool.workload.plan import MFU_CONVENTION, Plan, Planned
from colltool.workload.step.against import MEMORY, against
from colltool.workload.step.anchor import BELIEVED
from colltool.workload.step.changes import Change
from colltool.workload.step.squeezed import Squeezed


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
    number("energy_J", "energy", format_energy, drop=8, get=lambda row: row[1].energy_J, hidden=True),
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
    if (wire := result.wire) is not None:
        lines.append(f"the wires of {wire} make it slow: {_said_exposed(result, wire)}")
    lines.append(layout_text(result.setup))
    if result.tokens_per_s is not None and result.setup.sequence > 1:
        lines.append(f"{result.tokens_per_s:.4g} tokens/s, {result.tokens_per_s / result.ranks:.4g} a rank")
    if result.mfu is not None:
        lines.append(f"MFU {percent(result.mfu)} ({MFU_CONVENTION})")
    if (stack := result.setup.stack) is not None:
        lines.append(f"compute rests on the kernels of stack {stack.name}: {_how_far_off(result, stack.name)}")
    lines += result.grounds
    kept = result.memory
    if kept is not None:
        room = "" if kept.capacity_bytes is None else f" of {format_bytes(kept.capacity_bytes, 3)}"
        fits = {True: "", False: ": DOES NOT FIT", None: ""}[kept.fits]
        lines.append(f"memory: {format_bytes(kept.bytes, 3)}{room} on stage {kept.worst_stage}, the worst{fits}; see job show")
    return [*lines, *_measured(result), *_run(result)]


def _measured(result: Plan) -> list[str]:
    """What was measured, how far the plan was off, and what makes it meet the measured step."""
    lines, job, anchor = [], result.job, result.anchor
    if job.measured_step_s is not None and result.measured_error is not None:
        off = percent(result.measured_error, sign="+")
        planned = "" if anchor is None else f", it says {format_time(anchor.before_s)}"
        lines.append(f"measured {format_time(job.measured_step_s)}: the plan is off by {off}{planned}")
    if anchor is not None and result.setup.stack is not None:
        says = f"{anchor.factor:.4g} times as long as stack {result.setup.stack.name} says"
        lines.append(f"everything computes {says}, which makes it the measured step")
        lines.append(f"at that speed another layout or fabric: slower: {anchor.factor:.6g} in the place of measured.step")
        if not anchor.believable:
            beyond = "stacks are off by less: look for another reason in the layout, the device, or what was measured"
            lines.append(f"{anchor.factor:.3g} is beyond {BELIEVED[0]:g} to {BELIEVED[1]:g}: {beyond}")
    if job.measured_memory_bytes is not None and result.memory_error is not None:
        measured = format_bytes(job.measured_memory_bytes, 3)
        lines.append(f"measured memory {measured}: the plan is off by {percent(result.memory_error, sign='+')}")
    return lines


def _run(result: Plan) -> list[str]:
    """Energy, compression, and the time of all steps."""
    lines, small, steps = [], result.squeezed, result.job.steps
    if result.energy_J is not None:
        lines.append(f"energy on the wires: {format_energy(result.energy_J)} a step")
    if small is not None:
        lines += _compression(small)
    if steps is not None and result.run_s is not None:
        run = f"{steps:,} steps take {format_duration(result.run_s)}"
        if small is not None:
            more = f"with {percent(small.given.extra_steps)} more steps counted"
            run += f" {more}, and {format_duration(small.plain_run_s(steps))} without compression"
        lines.append(run)
    return lines


def _compression(small: Squeezed) -> list[str]:
    """What a call and a step gain by it, and what would make it gain nothing."""
    given = small.given
    blocks = f" in blocks of {given.block}" if given.block else ""
    lines = [f"{given.scheme}{blocks} on {given.on}: {small.times_fewer:.4g} times fewer bytes on the wires "
             f"({small.ratio:.4g} against 4-byte elements)"]  # fmt: skip
    took = f"{format_time(small.each_s)} instead of {format_time(small.plain_each_s)}"
    verdict = "pays" if small.pays else "does not pay"
    lines.append(f"a call takes {took}: an overhead of {format_time(given.overhead_s)} {verdict}, "
                 f"below {format_time(small.largest_overhead_s)} it does")  # fmt: skip
    change = percent(small.step_s / small.plain_step_s - 1, sign="+") if small.plain_step_s else "0%"
    sooner = "is reached sooner" if small.gains else "is not reached sooner"
    lines.append(f"a step takes {format_time(small.step_s)} instead of {format_time(small.plain_step_s)} ({change}): with "
                 f"{percent(given.extra_steps)} more steps the same accuracy {sooner}, "
                 f"it gains up to {percent(small.break_even_extra_steps)}")  # fmt: skip
    return lines


def _how_far_off(result: Plan, stack: str) -> str:
    """What published runs say of steps and memory like these."""
    model = result.setup.model
    moe = bool(model and model.moe_layers)
    found = against(stack, moe=moe)
    if found is None:
        return "no run beside it"
    kind = "with experts, evenly loaded," if moe else "of dense models"
    return (f"{found.runs} published runs {kind} were off by {percent(found.median_error)}, "
            f"memory of {MEMORY.runs} by {percent(MEMORY.median_error)} (medians)")  # fmt: skip


def _said_exposed(result: Plan, wire: str) -> str:
    by: dict[str, float] = {}
    for one in result.collectives:
        if one.paces and one.sent.fare.wire == wire and one.sent.exposed_s:
            by[one.sent.call.dimension] = by.get(one.sent.call.dimension, 0.0) + one.sent.exposed_s
    most = sorted(by, key=lambda name: -by[name])[:3]
    return ", ".join(f"{name} {format_time(by[name])} exposed" for name in most)


def _document(result: Plan) -> Document:
    head = {"job": result.job.name, "fabric": result.fabric, "ranks": result.ranks} | set_field(result.fabric_overrides)
    kept = result.memory
    return head | {
        "job_set": dict(result.job.overrides),
        "step_s": result.step_s,
        "control_step_s": result.control_step_s,
        "network_share": result.network_share,
        "wire": result.wire,
        "measured_step_s": result.job.measured_step_s,
        "measured_error": result.measured_error,
        "anchor": result.anchor._asdict() if result.anchor is not None else None,
        "measured_memory_bytes": result.job.measured_memory_bytes,
        "memory_error": result.memory_error,
        "steps": result.job.steps,
        "run_s": result.run_s,
        "compression": _squeezed(result.squeezed, result.job.steps) if result.squeezed is not None else None,
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


def _squeezed(small: Squeezed, steps: int | None) -> Document:
    given = small.given
    return {
        "on": given.on, "scheme": given.scheme, "ratio": small.ratio, "times_fewer": small.times_fewer,
        "overhead_s": given.overhead_s, "largest_overhead_s": small.largest_overhead_s, "pays": small.pays,
        "each_s": small.each_s, "plain_each_s": small.plain_each_s, "plain_step_s": small.plain_step_s,
        "extra_steps": given.extra_steps, "break_even_extra_steps": small.break_even_extra_steps, "gains": small.gains,
        "run_s": small.run_s(steps) if steps is not None else None,
        "plain_run_s": small.plain_run_s(steps) if steps is not None else None,
    }  # fmt: skip


def _planned(one: Planned) -> Document:
    call, fare = one.sent.call, one.sent.fare
    group = {"ranks": call.group.ranks, "stride": call.group.stride, "per_domain": list(fare.per_domain)}
    return {
        "dimension": call.dimension, "primitive": str(call.primitive), "group": group, "tiers": list(fare.tiers),
        "phase": call.phase, "count": whole_bytes(call.calls), "bytes": whole_bytes(call.bytes), "algorithm": fare.algorithm,
        "protocol": fare.protocol or None, "picked_by": fare.pick or None, "each_s": one.sent.each_s,
        "total_s": one.sent.total_s, "hidden_s": one.sent.hidden_s, "exposed_s": one.sent.exposed_s, "bound": fare.bound,
        "energy_J": one.energy_J, "hides": call.hides, "stages": list(one.stages), "paces": one.paces,
    }  # fmt: skip


def _change(one: Change) -> Document:
    return one._asdict() | {"set": dict(one.set)}


def _summary(result: Plan) -> str:
    head = f"{result.job.name} on {result.ranks} ranks of {result.fabric}: step {format_time(result.step_s)}"
    best = result.changes[0] if result.changes else None
    then = f"; {best.change} gains {percent(best.gain)}" if best else ""
    return f"{head}, {format_time(result.control_step_s)} with a free network{then}"


SUBJECTS = {Plan: Subject("plan", _blocks, _document, _table, _summary)}
