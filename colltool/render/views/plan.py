"""``plan``: the time of a training step on a fabric, what to change, its parts, collectives,
busiest links and other details."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter

from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_duration,
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
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    listed,
    on_fabric,
    plain,
    set_field,
)
from colltool.render.intervals import interval_field, within_words
from colltool.render.views.job import layout_text, numbers_text
from colltool.training.job_links import JobLink
from colltool.training.plan import MFU_CONVENTION, Plan, PlannedCall
from colltool.training.published import memory_error
from colltool.training.step_time import BELIEVED

_PAIRS = 4  # shown of a change (each protocol of a tier has its own bandwidth); JSON has all
_MOST_CHANGES = 5
_MOST_ANCHORED = 3  # each has two more values to type: the measured step and the slowdown


def _group(call: PlannedCall) -> str:
    """``8 x 2``: members per domain of each tier, innermost first; ``16, every 8``: stride 8."""
    group = call.sent.call.group
    inside = [str(count) for count in call.sent.cost.per_domain if count > 1] or [str(group.ranks)]
    if str(call.sent.call.primitive) == "p2p":
        inside = [str(group.ranks)]
    return " x ".join(inside) + (f", every {group.stride}" if group.stride > 1 else "")


_NOT_JUDGED = "an ideal price, or a send beside others, which nobody measured"


def _nine_in_ten(call: PlannedCall) -> str:
    return within_words(*call.interval.around(call.sent.each_s)) if call.interval else ""


_COLLECTIVES = (
    label("dimension", "dimension", get=attrgetter("sent.call.dimension")),
    label("phase", "phase", drop=4, get=attrgetter("sent.call.phase")),
    label(
        "primitive",
        "primitive",
        attrgetter("spoken"),
        get=attrgetter("sent.call.primitive"),
    ),
    label("group", "group", get=_group),
    number("ranks", "ranks", get=attrgetter("sent.call.group.ranks"), hidden=True),
    number("stride", "stride", get=attrgetter("sent.call.group.stride"), hidden=True),
    label("tiers", "tiers", drop=3, get=lambda row: "+".join(row.sent.cost.tiers)),
    number("calls", "calls", format_count, get=attrgetter("sent.call.calls")),
    number("bytes", "bytes a call", format_bytes, get=attrgetter("sent.call.bytes")),
    label("algorithm", "algorithm", drop=2, get=attrgetter("sent.cost.algorithm")),
    label("protocol", "protocol", drop=5, get=attrgetter("sent.cost.protocol"), hidden=True),
    number("each_s", "each", format_time, get=attrgetter("sent.each_s")),
    label("within", "nine in ten", drop=3, get=lambda row: _nine_in_ten(row)),
    number(
        "accuracy",
        "+-",
        whole_percent,
        get=lambda row: row.accuracy and row.accuracy.median,
        hidden=True,
    ),
    number("total_s", "total", format_time, get=attrgetter("sent.total_s")),
    number("hidden_s", "hidden", format_time, drop=1, get=attrgetter("sent.hidden_s")),
    number("exposed_s", "exposed", format_time, get=attrgetter("sent.exposed_s")),
    number("energy_J", "energy", format_energy, drop=8, hidden=True),
    label("bound", "bound by", drop=6, get=attrgetter("sent.cost.bound")),
    label("stages", "stages", drop=7, get=lambda row: numbers_text(row.stages), hidden=True),
    flag("paces", "paces", hidden=True),
)
_CHANGES = (
    label("change", "what to change"),
    label("set", "with", get=lambda row: _typed(row.set, row.where)),
    number("step_s", "step", format_time),
    number("gain", "gain", percent),
    flag("fits", "fits"),
)
_NEEDED = (
    label("what", "least"),
    label("value", "is", get=lambda row: _worth(row.value, row.what)),
    label("now", "now", get=lambda row: _worth(row.now, row.what)),
    label("set", "with", get=lambda row: _typed(row.set, "fabric")),
    number("step_s", "step", format_time),
)
_BUSIEST = (
    label("tier", "tier"),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    label("dimension", "mostly"),
)
_LINKS = (
    label("link", "busiest link"),
    label("kind", "of the", drop=3, get=lambda row: f"{row.tier} {row.kind}"),
    number("bytes", "carries", format_bytes),
    number("rate_Bps", "at", format_rate, drop=2),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    number("over_mean", "over the mean", format_factor, drop=1),
    label("by", "for", get=lambda row: _senders(row)),
)


def _senders(link: JobLink) -> str:
    """``ep 61%, expert dp 38%``: shares of its traffic from half a percent on."""
    shares = [(name, size / link.bytes) for name, size in link.by]
    return ", ".join(f"{name} {whole_percent(share)}" for name, share in shares if share >= 0.005)


def _typed(values: tuple[tuple[str, str], ...], where: str) -> str:
    """What to type for a change of the fabric or the job: ``--job-set overlap.tp=true``; empty for
    none."""
    if not values:
        return ""
    pairs = [f"{key}={value}" for key, value in values[:_PAIRS]]
    option = "--set" if where == "fabric" else "--job-set"
    more = f" and {len(values) - _PAIRS} more" if len(values) > _PAIRS else ""
    python = f"{'overrides' if where == 'fabric' else 'job overrides'}={pairs!r}"
    return said(either(shell=" ".join(f"{option} {pair}" for pair in pairs), python=python)) + more


def plan_title(result: Plan) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"


def slow_tier(result: Plan) -> str | None:
    """The tier that most exposed communication waits for; None if unsure.

    The calls of an algorithm that keeps several tiers busy at once count as unsure: the slower may
    be so by a hair.
    """
    by_tier: defaultdict[str, float] = defaultdict(float)
    unsure = 0.0
    for sent in (collective.sent for collective in result.collectives if collective.paces):
        if tiers_spanned(sent.cost.per_domain) > len(sent.cost.busy):
            unsure += sent.exposed_s
        else:
            by_tier[sent.cost.wire] += sent.exposed_s
    worst = max(by_tier, key=lambda tier: by_tier[tier], default="")
    second = max((exposed for tier, exposed in by_tier.items() if tier != worst), default=0.0)
    return worst if worst and by_tier[worst] > second + unsure else None


def answer(result: Plan) -> str:
    return f"{plan_title(result)} {'. '.join(_sentences(result))}."


def _sentences(result: Plan) -> Iterator[str]:
    took, kept = format_time(result.step_s), result.memory
    if kept is not None and kept.fits is False and kept.capacity_bytes is not None:
        needs = (
            f"stage {kept.worst_stage} needs {format_bytes(kept.bytes, 3)} of"
            f" {format_bytes(kept.capacity_bytes, 3)}"
        )
        cure = next((change for change in result.changes if change.fits), None)
        searched = said(either(shell="plan --search", python="search_layouts()"))
        then = (
            f"{_typed(cure.set, cure.where)} ({format_time(cure.step_s)} a step)"
            if cure
            else f"more ranks, or {searched}"
        )
        yield from (
            f"does not fit: {needs}; try {then}",
            f"If it did fit, a step would take {took}",
        )
        return
    off = _known_error(result)
    yield f"takes {took} a step" + (f" ({off})" if off else "")
    if result.collectives and result.step_s:
        yield (
            f"{percent(result.exposed_s / result.step_s)} of it is exposed"
            f" communication{_mostly(result)}"
        )
    if (rate := result.goodput) is not None:
        yield (
            f"{rate.steps_per_day:,.0f} steps a day with failures, {percent(rate.share)} of the"
            " time"
        )
    if result.changes:
        best = result.changes[0]
        yield (
            f"Most to gain: {best.change}, {percent(best.gain)}, with"
            f" {_typed(best.set, best.where)}"
        )
    elif result.collectives:
        yield "No change that was tried makes it faster"


def _mostly(result: Plan) -> str:
    by: defaultdict[str, float] = defaultdict(float)
    for sent in (collective.sent for collective in result.collectives if collective.paces):
        by[sent.call.dimension] += sent.exposed_s
    most = max(by, key=lambda name: by[name], default="")
    if not most or not by[most]:
        return ""
    tier = slow_tier(result)
    return f", mostly {most} ({format_time(by[most])})" + (
        f"; {tier} is the bottleneck" if tier else ""
    )


def _table(result: Plan) -> Table:
    columns = (*context(job=result.job.name, fabric=result.fabric), *_COLLECTIVES)
    found = Table(columns, result.collectives, None, "collectives of a step")
    return found.with_shown("energy_J") if result.energy_J is not None else found


def _blocks(result: Plan) -> list[Block]:
    changes = Table(
        _CHANGES, result.changes, None, "what to change, each priced again", _MOST_CHANGES
    )
    if result.anchor is not None:
        changes = changes._replace(first=_MOST_ANCHORED)
    if all(change.fits is not False for change in result.changes):
        changes = changes.without("fits")
    elif (
        result.memory is not None and result.memory.fits is False
    ):  # changes that do not make it fit come last
        fit = sum(change.fits is True for change in result.changes)
        ordered = tuple(sorted(result.changes, key=lambda row: not row.fits))
        changes = changes._replace(records=ordered, first=min(fit, _MOST_CHANGES) or None)
    share = number(
        "share",
        "of the step",
        percent,
        get=lambda part: part.exposed_s / result.step_s if result.step_s else 0.0,
    )
    hidden = number("hidden_s", "hidden", format_time, get=lambda part: part.hidden_s or None)
    columns = (
        label("name", "part"),
        hidden,
        number("exposed_s", "in the step", format_time),
        share,
    )
    tables = [
        *([changes] if result.changes else []),
        Table(columns, result.parts, None, "what the step consists of"),
    ]
    links = result.links
    if links:
        title = "the busiest link of each kind, all groups at once, at its full rate"
        tables.insert(0, Table(_LINKS, links.links, None, title))
    # the collectives of stages on the critical path, whose exposed times add up to those of the
    # parts
    paced = _table(result)._replace(
        records=tuple(collective for collective in result.collectives if collective.paces)
    )
    facts: list[Block] = [Lines("the step", tuple(_facts(result))), paced]
    if others := len(result.collectives) - len(paced.records):
        facts[1] = paced._replace(title=f"{paced.title}, on the critical path")
        facts.append(
            Lines(
                f"{counted(others, 'row')} of stages off the critical path are in JSON and CSV", ()
            )
        )
    busiest = Table(_BUSIEST, result.wires, None, "how long the links of each tier are busy")
    notes = listed("notes", links.notes if links else ())
    first = [*_needed(result), tables[0]]
    return [Headline(answer(result)), *first, *map(later, [*tables[1:], *facts, busiest]), *notes]


def _needed(result: Plan) -> list[Block]:
    """The table of a target, or the line that no network reaches it."""
    if (found := result.targeted) is None:
        return []
    if not found.possible:
        free = (
            f"the step of a free network is {format_time(result.control_step_s)},"
            f" {format_time(found.limit_s)} is asked"
        )
        return [Lines("target", (f"no network reaches {found.target.spoken}: {free}",))]
    now = "reached as it is" if found.reached else "not reached as it is"
    title = (
        f"the least network for {found.target.spoken}, {format_time(found.limit_s)}, each alone"
        f" ({now})"
    )
    return [Table(_NEEDED, found.needed, None, title)]


def _worth(value: float | None, what: str) -> str:
    if value is None:
        return "none does it"
    return format_rate(value) if what.startswith("slowest") else f"{value:.4g}"


def _document(result: Plan) -> Document:
    job, kept, links, small = result.job, result.memory, result.links, result.compression
    pressed = None
    if small is not None:
        runs = (
            (None, None)
            if job.steps is None
            else (small.run_s(job.steps), small.plain_run_s(job.steps))
        )
        pressed = (
            fields(small.given, "on scheme")
            | fields(small, "ratio times_fewer")
            | fields(small.given, "overhead_s")
        )
        pressed |= fields(
            small, "largest_overhead_s pays each_s plain_each_s plain_step_s"
        ) | fields(small.given, "extra_steps")
        pressed |= fields(small, "break_even_extra_steps gains") | {
            "run_s": runs[0],
            "plain_run_s": runs[1],
        }
    return (
        {"job": job.name, "fabric": result.fabric, "ranks": result.ranks}
        | set_field(result.fabric_overrides)
        | {
            "job_set": dict(job.overrides),
            "device": result.device,
            "device_from": job.device_from or None,
        }
        | fields(result, "step_s control_step_s network_share wire exposed_s hidden_s")
        | {"error": result.error and result.error._asdict()}
        | {"measured_step_s": job.measured_step_s, **fields(result, "measured_error anchor")}
        | {"measured_memory_bytes": job.measured_memory_bytes, "memory_error": result.memory_error}
        | {"goodput": result.goodput and result.goodput._asdict(), "target": _target(result)}
        | {"steps": job.steps, "run_s": result.run_s, "compression": pressed}
        | fields(result, "energy_J grounds tokens_per_s mfu")
        | {"mfu_convention": MFU_CONVENTION, "parts": plain(result.parts)}
        | {"collectives": [_planned(collective) for collective in result.collectives]}
        | {
            "memory": plain(kept.parts) if kept else [],
            "memory_bytes": kept and kept.bytes,
            "fits": kept and kept.fits,
        }
        | {"busiest": plain(result.wires)}
        | (
            {
                "busiest_links": [_link(link) for link in links.links],
                "link_notes": list(links.notes),
            }
            if links
            else {}
        )
        | {"changes": [change._asdict() | {"set": dict(change.set)} for change in result.changes]}
    )


def _target(result: Plan) -> Document | None:
    if (found := result.targeted) is None:
        return None
    needed = [need._asdict() | {"set": dict(need.set)} for need in found.needed]
    return found.target._asdict() | fields(found, "limit_s reached possible") | {"needed": needed}


def _link(link: JobLink) -> Document:
    return link._asdict() | {
        "bytes": whole_bytes(link.bytes),
        "by": {name: whole_bytes(size) for name, size in link.by},
    }


def _planned(planned: PlannedCall) -> Document:
    call = planned.sent.call
    cost = planned.sent.cost
    return (
        fields(call, "dimension primitive")
        | {
            "group": fields(call.group, "ranks stride") | fields(cost, "per_domain"),
            "tiers": list(cost.tiers),
        }
        | {"phase": call.phase, "count": whole_bytes(call.calls), "bytes": whole_bytes(call.bytes)}
        | {
            "algorithm": cost.algorithm,
            "protocol": cost.protocol or None,
            "picked_by": cost.pick or None,
        }
        | fields(planned.sent, "each_s total_s hidden_s exposed_s")
        | {"bound": cost.bound, "energy_J": planned.energy_J, "hides": call.hides}
        | {"accuracy": planned.accuracy and planned.accuracy._asdict()}
        | interval_field(planned.interval, _NOT_JUDGED)
        | fields(planned, "stages paces")
    )


def _facts(result: Plan) -> Iterator[str]:
    free = f"{format_time(result.control_step_s)} with a free network"
    yield (
        f"step {format_time(result.step_s)}; {free}: {percent(result.network_share)} of the step is"
        " network"
    )
    if result.collectives:
        yield (
            f"communication: {format_time(result.exposed_s)} exposed,"
            f" {format_time(result.hidden_s)} hidden"
        )
    yield layout_text(result.setup)
    if result.tokens_per_s is not None and result.setup.sequence > 1:
        yield f"{result.tokens_per_s:.4g} tokens/s, {result.tokens_per_s / result.ranks:.4g} a rank"
    if result.mfu is not None:
        yield f"MFU {percent(result.mfu)} ({MFU_CONVENTION})"
    if (stack := result.setup.stack) is not None:
        off = "no published run beside it"
        if found := result.error:
            free = f"{percent(found.control)} with a free network"
            memory = f"memory of {memory_error().runs} by {percent(memory_error().median)}"
            runs = f"{found.runs} published runs of sources left out"
            off = f"{runs} were off by {percent(found.median)} ({free}), {memory} (medians)"
        yield f"compute: kernel efficiencies of stack {stack.name}; {off}"
    yield from result.grounds
    if (kept := result.memory) is not None:
        room = fits = ""
        if kept.capacity_bytes is not None:
            room = f" of {format_bytes(kept.capacity_bytes, 3)}"
            usual = memory_error().median
            close = kept.fits is not None and abs(kept.bytes / kept.capacity_bytes - 1) <= usual
            off = f", by less than such figures were off ({percent(usual)})" if close else ""
            fits = f": DOES NOT FIT{off}" if kept.fits is False else f": fits{off}" if close else ""
        yield (
            f"memory: {format_bytes(kept.bytes, 3)}{room} on the worst stage,"
            f" {kept.worst_stage}{fits}"
        )
    yield from _measured(result)
    yield from _run(result)


def _known_error(result: Plan) -> str:
    """How far off the step may be: against the measured step, else by published runs like it; may
    be empty."""
    if result.measured_error is not None and result.job.measured_step_s is not None:
        off = percent(result.measured_error, sign="+")
        return (
            f"{off} off the measured step"
            if result.anchor is None
            else f"as measured; compute as modelled is {off} off"
        )
    if result.setup.stack is None or result.setup.compute is not None:
        return ""
    if (found := result.error) is None:
        return "no published run beside it"
    low, high = (format_time(time, 2) for time in found.spread(result.step_s))
    return f"{low} to {high} in nine runs of ten like it"


def _measured(result: Plan) -> Iterator[str]:
    job, anchor = result.job, result.anchor
    if job.measured_step_s is not None and result.measured_error is not None:
        planned = "" if anchor is None else f" at {format_time(anchor.before_s)}"
        off = percent(result.measured_error, sign="+")
        yield f"measured {format_time(job.measured_step_s)}: the plan{planned} is off by {off}"
    if anchor is not None and result.setup.stack is not None:
        stack = result.setup.stack.name
        yield (
            f"fitted to the measured step: compute takes {anchor.factor:.4g} times as long as stack"
            f" {stack} says"
        )
        yield (
            f"for another layout or fabric at that speed: write slower: {anchor.factor:.6g} instead"
            " of measured.step"
        )
        if not anchor.believable:
            beyond = (
                "stacks are off by less: look for another reason in the layout, the device, or the"
                " measurement"
            )
            yield f"{anchor.factor:.3g} is beyond {BELIEVED[0]:g} to {BELIEVED[1]:g}: {beyond}"
    if job.measured_memory_bytes is not None and result.memory_error is not None:
        off = percent(result.memory_error, sign="+")
        yield (
            f"measured memory {format_bytes(job.measured_memory_bytes, 3)}: the plan is off by"
            f" {off}"
        )


def _run(result: Plan) -> Iterator[str]:
    small, steps = result.compression, result.job.steps
    if result.energy_J is not None:
        yield f"energy of communication: {format_energy(result.energy_J)} a step"
    if small is not None:
        given, more = small.given, f"{percent(small.given.extra_steps)} more steps"
        blocks = f" in blocks of {given.block}" if given.block else ""
        fewer = (
            f"{small.times_fewer:.4g} times fewer bytes sent ({small.ratio:.4g} against 4-byte"
            " elements)"
        )
        yield f"{given.scheme}{blocks} on {given.on}: {fewer}"
        pays = (
            f"{'pays' if small.pays else 'does not pay'}; it pays below"
            f" {format_time(small.largest_overhead_s)}"
        )
        each = f"{format_time(small.each_s)} instead of {format_time(small.plain_each_s)}"
        yield f"a call takes {each}: an overhead of {format_time(given.overhead_s)} {pays}"
        change = (
            percent(small.step_s / small.plain_step_s - 1, sign="+") if small.plain_step_s else "0%"
        )
        step = (
            f"{format_time(small.step_s)} instead of {format_time(small.plain_step_s)} ({change})"
        )
        same = f"with {more} the same accuracy is {'' if small.gains else 'not '}reached sooner"
        yield (
            f"a step takes {step}: {same}; break-even is at {percent(small.break_even_extra_steps)}"
            " more steps"
        )
    if (rate := result.goodput) is not None:
        size, write = format_bytes(rate.checkpoint_bytes, 3), format_duration(rate.write_s)
        yield (
            f"a failure every {format_duration(rate.job_mtbf_s)}; a checkpoint of {size} takes"
            f" {write} to write"
        )
        every = (
            f"every {format_duration(rate.interval_s)}: {rate.steps_per_day:,.0f} steps a day,"
            f" {percent(rate.share)} of the time"
        )
        best = (
            f"; best is every {format_duration(rate.best_interval_s)},"
            f" {rate.best_steps_per_day:,.0f} steps a day"
        )
        yield every + (
            best if rate.interval_s != rate.best_interval_s else ", the best interval (Daly 2006)"
        )
    if steps is not None and result.run_s is not None:
        run = f"{steps:,} steps take {format_duration(result.run_s)}"
        plainly = (
            f"{format_duration(small.plain_run_s(steps))} without compression" if small else ""
        )
        yield f"{run} with {more} counted, {plainly}" if small else run


VIEWS = {Plan: View("plan", _blocks, _document, _table, answer)}
