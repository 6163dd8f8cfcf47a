"""``plan``: the time of a training step on a fabric, what to change, its parts, collectives and
busiest links.

Read from :data:`VIEWS`: :func:`answer` is the headline, :func:`_blocks` the screen in its order,
:class:`PlanDocument` JSON. Blocks marked :func:`later` wait for ``--all``, as do the lines of
:mod:`colltool.render.views.plan_facts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter
from shlex import quote
from textwrap import wrap
from typing import Any

from colltool.base.errors import either, localize
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
from colltool.base.primitives import P2P
from colltool.estimate.placement import tiers_spanned
from colltool.estimate.results import Accuracy
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    flag,
    label,
    later,
    number,
)
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, derived, optional, or_null
from colltool.render.intervals import IntervalDocument, within_words
from colltool.render.shared_documents import (
    MachineDocument,
    assumed_with,
    machine_of,
    mapping,
    whole,
)
from colltool.render.views.job import layout_text, memory_parts, numbers_text, to_type
from colltool.render.views.plan_facts import step_facts
from colltool.training.goodput import Goodput
from colltool.training.job import Job
from colltool.training.job_links import JobLink
from colltool.training.layout_constraints import CHOICE_OF_KEY
from colltool.training.memory import Memory, MemoryPart
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import ParallelLayout
from colltool.training.plan import Plan, PlannedCall, TierUse
from colltool.training.proposals import Proposal
from colltool.training.published import PublishedError
from colltool.training.sentences import MFU_CONVENTION, tokens_text
from colltool.training.stack_choice import StackStep
from colltool.training.step_time import StepCalibration, StepPart
from colltool.training.targets import Needed, Targeted

Pairs = tuple[tuple[str, str], ...]
_PAIRS = 4
"""KEY=VALUE pairs shown of a change, of which each protocol of a tier may need one; JSON has all."""
_MOST_CHANGES = 3  # shown without --all
_USUAL_PREMISES = 4  # lines before the changes
_LONGEST = 72  # characters of a line to paste, so that a narrow terminal does not wrap it


def _group(call: PlannedCall) -> str:
    """``8 x 2``: members per domain of each tier, innermost first; ``16, every 8``: stride 8."""
    group = call.sent.call.group
    counts = [str(count) for count in call.sent.cost.per_domain if count > 1]
    if not counts or call.sent.call.primitive is P2P:
        counts = [str(group.ranks)]
    text = " x ".join(counts)
    if group.stride > 1:
        return f"{text}, every {group.stride}"
    return text


_NOT_JUDGED = "a price without contention, or a send beside others, which nobody measured"


def _nine_in_ten(call: PlannedCall) -> str:
    if call.interval is None:
        return ""
    return within_words(*call.interval.around(call.sent.each_s))


def _accuracy(call: PlannedCall) -> float | None:
    return None if call.accuracy is None else call.accuracy.median


_COLLECTIVES: Columns[PlannedCall] = (
    label("dimension", path="sent.call.dimension"),
    label("phase", drop=4, path="sent.call.phase"),
    label("primitive", "primitive", attrgetter("label"), path="sent.call.primitive"),
    label("group", get=_group),
    number("ranks", path="sent.call.group.ranks", hidden=True),
    number("stride", path="sent.call.group.stride", hidden=True),
    label("tiers", drop=3, get=lambda call: "+".join(call.sent.cost.tiers)),
    number("calls", "calls", format_count, path="sent.call.calls"),
    number("bytes", "bytes per call", format_bytes, path="sent.call.bytes"),
    label("algorithm", drop=2, path="sent.cost.algorithm"),
    label("protocol", drop=5, path="sent.cost.protocol", hidden=True),
    number("channels", path="sent.cost.channels", hidden=True),
    number("each_s", "each", format_time, path="sent.each_s"),
    label("within", "90% interval", drop=3, get=_nine_in_ten),
    number("accuracy", "+-", whole_percent, get=_accuracy, hidden=True),
    number("total_s", "total", format_time, path="sent.total_s"),
    number("hidden_s", "hidden", format_time, drop=1, path="sent.hidden_s"),
    number("exposed_s", "exposed", format_time, path="sent.exposed_s"),
    number("energy_J", "energy", format_energy, drop=8, hidden=True),
    label("bound", "bound by", drop=6, path="sent.cost.bound"),
    label("stages", drop=7, get=lambda call: numbers_text(call.stages), hidden=True),
    flag("paces", hidden=True),
)
_CHANGES: Columns[Proposal] = (
    label("change", "what to change"),
    label("set", "type", get=lambda change: _typed(change.set, change.where)),
    number("step_s", "step", format_time),
    number("gain", "gain", percent),
    flag("fits"),
)
_NEEDED: Columns[Needed] = (
    label("what", "least"),
    label("value", "is", get=lambda need: _value_text(need.value, need.what)),
    label("now", get=lambda need: _value_text(need.now, need.what)),
    label("set", "with", get=lambda need: _typed(need.set, "fabric")),
    number("step_s", "step", format_time),
)
_BUSIEST: Columns[TierUse] = (
    label("tier"),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    label("dimension", "mostly"),
)
_LINKS: Columns[JobLink] = (
    label("link", "busiest link"),
    label("kind", "kind", drop=3, get=lambda link: f"{link.tier} {link.kind}"),
    number("bytes", "carries", format_bytes),
    number("rate_Bps", "at", format_rate, drop=2),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    number("over_mean", "times the mean", format_factor, drop=1),
    label("by", "for", get=lambda link: _senders(link)),
)


def _senders(link: JobLink) -> str:
    """``ep 61%, expert dp 38%``: shares of its traffic, those below half a percent left out."""
    texts = []
    for name, size in link.by:
        share = size / link.bytes
        # less would read 0%
        if share >= 0.005:
            texts.append(f"{name} {whole_percent(share)}")
    return ", ".join(texts)


def _typed(values: tuple[tuple[str, str], ...], where: str) -> str:
    """What to type for a change of the fabric or the job: ``--job-set overlap.tp=true``. Empty for
    none."""
    if not values:
        return ""
    if where == "fabric":
        text = to_type(values[:_PAIRS], "--set", "overrides")
    else:
        text = to_type(values[:_PAIRS], "--job-set", "job overrides")
    more = len(values) - _PAIRS
    if more > 0:
        return f"{text} and {more} more"
    return text


def plan_title(result: Plan) -> str:
    name = on_fabric(result.job.name, asked_of(result.job))
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"


def asked_of(job: Job) -> Pairs:
    """The values of a job to name in its title: not those that the line of its layout repeats."""
    return tuple(pair for pair in job.overrides if pair[0] not in CHOICE_OF_KEY)


def slow_tier(result: Plan) -> str | None:
    """The tier that most exposed communication waits for; None if unsure.

    The calls of an algorithm that keeps several tiers busy at once count as unsure: the slower may
    be so by a hair.
    """
    by_tier: defaultdict[str, float] = defaultdict(float)
    unsure = 0.0
    for sent in _paced(result):
        if tiers_spanned(sent.cost.per_domain) > len(sent.cost.busy):
            unsure += sent.exposed_s
        else:
            by_tier[sent.cost.busiest_tier] += sent.exposed_s
    if not by_tier:
        return None
    worst = max(by_tier, key=by_tier.__getitem__)
    exposed = by_tier.pop(worst)
    second = max(by_tier.values(), default=0.0)
    # in the worst case all that is unsure is time of the second tier
    if worst and exposed > second + unsure:
        return worst
    return None


def _paced(result: Plan) -> list[PricedCall]:
    """The calls of stages on the critical path."""
    return [collective.sent for collective in result.collectives if collective.paces]


def answer(result: Plan) -> str:
    return f"{plan_title(result)} {'. '.join(_sentences(result))}."


def _sentences(result: Plan) -> Iterator[str]:
    """The answer: does it fit, how long a step takes, what is exposed, and what would help most."""
    took = format_time(result.step_s)
    memory = result.memory
    # a step that does not fit has no time worth showing first
    if memory is not None and memory.fits is False and memory.capacity_bytes is not None:
        needs = f"{format_bytes(memory.bytes, 3)} of {format_bytes(memory.capacity_bytes, 3)}"
        yield f"does not fit: stage {memory.worst_stage} needs {needs} per GPU; try {_cure(result)}"
        yield f"If it did fit, a step would take {took}"
        return
    tight = memory is not None and memory.tight
    if memory is not None and tight:
        yield f"{_tight_text(memory)}; for room try {_cure(result)}"
    error = _error_text(result)
    takes = f"takes {took} per step ({error})" if error else f"takes {took} per step"
    yield f"It {takes}" if tight else takes
    if result.collectives and result.step_s:
        exposed = percent(result.exposed_s / result.step_s)
        yield f"Exposed communication is {exposed} of it{_mostly(result)}"
    rate = result.goodput
    if rate is not None:
        share = percent(rate.share)
        yield f"With failures it makes {rate.steps_per_day:,.0f} steps per day ({share} of the time)"
    best = result.changes[0] if result.changes else None
    # the change that a tight job needs for room may cost time
    if best is not None and best.gain > 0:
        gain = percent(best.gain)
        yield f"Gains most: {best.change} ({gain}), {_typed(best.set, best.where)}"
    elif result.collectives:
        yield "None of the changes that were tried makes it faster"


def _cure(result: Plan) -> str:
    """The first change that makes the step fit, or where to look for a layout that does."""
    for change in result.changes:
        if change.fits and not change.tight and change.where == "job":
            return f"{_typed(change.set, change.where)} ({format_time(change.step_s)} per step)"
    return f"more ranks, or {localize(either(shell='plan --search', python='search_layouts()'))}"


def _mostly(result: Plan) -> str:
    """The dimension that most exposed communication is for, and the tier it waits for."""
    by_dimension: defaultdict[str, float] = defaultdict(float)
    for sent in _paced(result):
        by_dimension[sent.call.dimension] += sent.exposed_s
    most = max(by_dimension, key=by_dimension.__getitem__, default="")
    if not most or not by_dimension[most]:
        return ""
    text = f", mostly {most} ({format_time(by_dimension[most])})"
    tier = slow_tier(result)
    if tier:
        return f"{text}; {tier} is the bottleneck"
    return text


def _table(result: Plan) -> Table:
    columns = (*context(job=result.job.name, fabric=result.fabric), *_COLLECTIVES)
    table = Table(columns, result.collectives, title="collectives per step")
    return table.with_shown("energy_J") if result.energy_J is not None else table


def _blocks(result: Plan) -> list[Block]:
    """The answer, the busiest links and the changes first; all details after them."""
    links = result.links
    tables = []
    if links:
        title = "busiest link of each kind: all groups send at once, links at full rate"
        tables.append(Table(_LINKS, links.links, title=title))
    if result.changes:
        tables.append(_changes(result))
    tables.append(_parts(result))
    # the exposed times of collectives on the critical path add up to those of the parts
    every = _table(result)
    paced = tuple(collective for collective in result.collectives if collective.paces)
    table = every._replace(records=paced)
    others = len(result.collectives) - len(paced)
    facts: list[Block] = [Lines("more on the step", tuple(step_facts(result)))]
    if others:
        facts.append(table._replace(title=f"{table.title}, on the critical path"))
        rows = counted(others, "row")
        facts.append(Lines(f"JSON and CSV have {rows} more, of stages off the critical path", ()))
    else:
        facts.append(table)
    # a target is what was asked for: the rest is for --all
    first: list[Block] = _needed(result)
    more: list[Block] = [_premises(result), *tables]
    if not first:
        first, more = more[:2], more[2:]
    busiest = Table(
        _BUSIEST, result.wires, title="how long the links of each tier are busy per step"
    )
    return [
        Headline(answer(result)),
        *first,
        *map(later, [*more, *_recipe(result), *facts, busiest]),
        *listed("notes", links.notes if links else ()),
    ]


def _premises(result: Plan) -> Lines:
    """What the step is of: its batch and layout, and what comes out of it."""
    setup = result.setup
    lines = []
    if setup.model is not None and setup.sequence > 1:
        lines.append(_batch_line(result))
    lines.append(f"layout: {_layout_line(result)}")
    if result.tokens_per_s is not None and setup.sequence > 1:
        lines.append(_speed_line(result))
    if result.memory is not None:
        lines.append(_memory_text(result.memory))
    lines += [ground for ground in result.grounds if "grows to" in ground]
    return Lines("per step", tuple(lines))


def _batch_line(result: Plan) -> str:
    setup = result.setup
    count = setup.global_batch * setup.sequence
    text = f"sequence {setup.sequence}, global batch {setup.global_batch} ({tokens_text(count)} tokens)"
    if not result.job.drafted:
        return text
    given = {key for key, _ in result.job.overrides}
    assumed = {"sequence", "batch.global"} - given
    return f"assumed: {text}" if assumed else text


def _layout_line(result: Plan) -> str:
    """``tp 8 (sp) x pp 4 x dp 8, virtual 5; zero1, recompute none, micro-batch 1, interleaved``."""
    setup = result.setup
    text = layout_text(setup)
    if setup.model is not None:
        text += (
            f"; {setup.shard.mode}, recompute {setup.recompute}, micro-batch {setup.micro_batch}"
        )
        if setup.layout.pp > 1:
            text += f", {setup.schedule}"
    if result.searched:
        text += " (searched: the fastest that fits)"
    return text


def _speed_line(result: Plan) -> str:
    rate = result.tokens_per_s
    assert rate is not None
    text = f"speed: {rate_text(rate)} tokens/s, {rate_text(rate / result.ranks)} per GPU"
    if result.mfu is not None:
        text += f"; MFU {percent(result.mfu)}"
    return text


def rate_text(rate: float) -> str:
    """Four digits of a rate: ``190,800``, ``186.3``."""
    if rate < 1000:
        return f"{rate:.4g}"
    return f"{float(f'{rate:.4g}'):,.0f}"


def pinned_command(title: str, typed: str, overrides: Pairs, values: Pairs) -> Lines:
    """The complete command that plans a layout again, or the overrides of load_job for it."""
    pins = dict(values)
    pairs = [f"{key}={value}" for key, value in overrides if key not in pins]
    pairs += [f"{key}={value}" for key, value in pins.items()]
    # \0 keeps an option and its value on one line
    options = " ".join(f"--job-set\0{quote(pair)}" for pair in pairs)
    text = f"{typed} {options}".strip()
    lines = wrap(text, _LONGEST, break_long_words=False, break_on_hyphens=False)
    shell = " \\\n  ".join(lines).replace("\0", " ")
    pasted = localize(either(shell=shell, python=f"overrides={pairs!r}"))
    return Lines(title, tuple(pasted.split("\n")), verbatim=True)


def _recipe(result: Plan) -> list[Block]:
    """How to plan a searched layout again without a search."""
    if not result.searched:
        return []
    title = "to plan this layout again"
    return [pinned_command(title, result.typed, result.job.overrides, result.searched)]


def _changes(result: Plan) -> Table:
    """The changes that gain most. Where the job does not fit, those that make it fit come first."""
    most = _MOST_CHANGES
    # a first screen of 24 lines
    if result.anchor is not None or len(_premises(result).lines) > _USUAL_PREMISES:
        most -= 1
    table = Table(_CHANGES, result.changes, first=most)
    fits = [change.fits for change in result.changes]
    if False not in fits:
        return table.without("fits")
    if result.memory is None or result.memory.fits is not False:
        return table
    # changes that do not make it fit come last
    ordered = tuple(sorted(result.changes, key=lambda change: not change.fits))
    return table._replace(records=ordered, first=min(fits.count(True), _MOST_CHANGES) or None)


# what a part is, where its name does not say it
_PART_NAMES = {
    "norm": "gradient norm",
    "bubble": "pipeline bubble",
    "fixed": "overhead per step",
    "jitter": "variation between ranks",
}


def _parts(result: Plan) -> Table:
    def share(part: StepPart) -> float:
        if result.step_s:
            return part.exposed_s / result.step_s
        return 0.0

    columns: Columns[StepPart] = (
        label("name", "part", get=lambda part: _PART_NAMES.get(part.name, part.name)),
        number("hidden_s", "hidden", format_time, get=lambda part: part.hidden_s or None),
        number("exposed_s", "in the step", format_time),
        number("share", "of the step", percent, get=share),
    )
    return Table(columns, result.parts, title="parts of the step")


def _needed(result: Plan) -> list[Block]:
    """The table of a target, or the line that no network reaches it."""
    targeted = result.targeted
    if targeted is None:
        return []
    target = targeted.target.text
    limit = format_time(targeted.limit_s)
    if not targeted.possible:
        free = f"the step of a free network is {format_time(result.control_step_s)}"
        return [Lines("target", (f"no network reaches {target}: {free}, the target is {limit}",))]
    now = "it reaches it already" if targeted.reached else "it does not reach it now"
    title = f"least network for {target} ({limit}), one change each; {now}"
    return [Table(_NEEDED, targeted.needed, title=title)]


def _value_text(value: float | None, what: str) -> str:
    if value is None:
        return "none is enough"
    if what.startswith("slowest"):
        return format_rate(value)
    return f"{value:.4g}"


# --- the document


class PlannedDocument(Document):
    """The job and the fabric of a plan, and what was set of each."""

    job: str = derived("job.name")
    fabric: str
    ranks: int
    set: dict[str, str] = optional(lambda result: dict(result.fabric_overrides) or LEFT_OUT)
    fabric_assumed: list[str] = optional(lambda result: assumed_with(result.fabric_overrides))
    machine: MachineDocument | None = optional(lambda result: machine_of(result.fabric_overrides))
    job_set: dict[str, str] = mapping("job.overrides")
    device: str | None
    device_from: str | None = or_null("job.device_from")


class TargetDocument(Document, of=Targeted):
    """What a target takes of the network."""

    mfu: float | None = derived("target.mfu")
    over: float | None = derived("target.over")
    limit_s: float
    reached: bool
    possible: bool
    needed: list[NeededDocument]


class NeededDocument(Document, extends=Needed):
    """The least change of one kind that reaches a target."""

    set: dict[str, str] = mapping("set")


class ProposalDocument(Document, extends=Proposal):
    """A change, and the step with it."""

    set: dict[str, str] = mapping("set")


def _plain_run_s(result: Plan) -> float | None:
    """Seconds of all steps of the job without compression."""
    steps = result.job.steps
    if steps is None or result.compression is None:
        return None
    return result.compression.plain_run_s(steps)


class CompressionDocument(Document, at="compression"):
    """What compressed gradients gain."""

    on: str = derived("compression.given.on")
    scheme: str = derived("compression.given.scheme")
    ratio: float
    times_fewer: float
    overhead_s: float = derived("compression.given.overhead_s")
    largest_overhead_s: float
    pays: bool
    each_s: float
    plain_each_s: float
    plain_step_s: float
    extra_steps: float = derived("compression.given.extra_steps")
    break_even_extra_steps: float
    gains: bool
    run_s: float | None = derived("run_s")
    plain_run_s: float | None = derived(_plain_run_s)


def _compression(result: Plan) -> dict[str, Any] | None:
    return None if result.compression is None else CompressionDocument.of(result)


class PlannedGroupDocument(Document):
    """Where the ranks of a call are."""

    ranks: int = derived("call.group.ranks")
    stride: int = derived("call.group.stride")
    per_domain: list[int] = derived("cost.per_domain")


class PlannedCallDocument(Document, of=PlannedCall):
    """A collective of the step."""

    dimension: str = derived("sent.call.dimension")
    primitive: str = derived("sent.call.primitive")
    group: PlannedGroupDocument = derived(lambda planned: PlannedGroupDocument.of(planned.sent))
    tiers: list[str] = derived("sent.cost.tiers")
    phase: str = derived("sent.call.phase")
    count: float = whole("sent.call.calls")
    bytes: float = whole("sent.call.bytes")
    algorithm: str = derived("sent.cost.algorithm")
    protocol: str | None = or_null("sent.cost.protocol")
    picked_by: str | None = or_null("sent.cost.picked_by")
    # of the library's kernel; None where they are not known
    channels: int | None = derived("sent.cost.channels")
    each_s: float = derived("sent.each_s")
    total_s: float = derived("sent.total_s")
    hidden_s: float = derived("sent.hidden_s")
    exposed_s: float = derived("sent.exposed_s")
    bound: str = derived("sent.cost.bound")
    energy_J: float | None
    hides: str = derived("sent.call.hides")
    accuracy: Accuracy | None
    interval: IntervalDocument | None
    # why there is none
    no_interval: str = optional(lambda planned: LEFT_OUT if planned.interval else _NOT_JUDGED)
    stages: list[int]
    paces: bool


class JobLinkDocument(Document, extends=JobLink):
    """The busiest link of a kind."""

    bytes: float = whole("bytes")
    by: dict[str, float] = derived(lambda link: {name: whole_bytes(size) for name, size in link.by})


class PlanDocument(PlannedDocument):
    """The time of a training step on a fabric."""

    sequence: int | None = derived(lambda result: result.setup.model and result.setup.sequence)
    global_batch: int | None = derived(
        lambda result: result.setup.model and result.setup.global_batch
    )
    global_batch_tokens: int | None
    layout: ParallelLayout = derived("setup.layout")
    micro_batch: int = derived("setup.micro_batch")
    schedule: str = derived("setup.schedule")
    shard_mode: str = derived("setup.shard.mode")
    recompute: str = derived("setup.recompute")
    # of a searched layout: what --job-set takes to plan it again
    layout_set: dict[str, str] = optional(lambda result: dict(result.searched) or LEFT_OUT)
    step_s: float
    control_step_s: float
    network_share: float
    wire: str | None
    exposed_s: float
    hidden_s: float
    error: PublishedError | None
    measured_step_s: float | None = derived("job.measured_step_s")
    measured_error: float | None
    anchor: StepCalibration | None
    measured_memory_bytes: float | None = derived("job.measured_memory_bytes")
    memory_error: float | None
    goodput: Goodput | None
    target: TargetDocument | None = derived("targeted")
    steps: int | None = derived("job.steps")
    run_s: float | None
    compression: CompressionDocument | None = derived(_compression)
    energy_J: float | None
    # the same job under the other stacks of its family, where that changes the step
    stacks: list[StackStep]
    grounds: list[str]
    tokens_per_s: float | None
    mfu: float | None
    mfu_convention: str = derived(lambda _: MFU_CONVENTION)
    parts: list[StepPart]
    collectives: list[PlannedCallDocument]
    memory: list[MemoryPart] = derived(memory_parts)
    memory_bytes: float | None
    capacity_bytes: float | None = derived("memory.capacity_bytes")
    fits: bool | None = derived("memory.fits")
    tight: bool | None = derived("memory.tight")
    # nine runs in ten take from 1 - this to 1 + this of memory_bytes
    memory_within: float | None = derived("memory.within")
    busiest: list[TierUse] = derived("wires")
    busiest_links: list[JobLinkDocument] = optional(
        lambda result: result.links.links if result.links else LEFT_OUT
    )
    link_notes: list[str] = optional(
        lambda result: result.links.notes if result.links else LEFT_OUT
    )
    changes: list[ProposalDocument]


# --- whether it fits, and how far off it may be


def _memory_text(memory: Memory) -> str:
    """What the worst stage needs, and whether that is closer to its limit than such figures are
    exact."""
    size = format_bytes(memory.bytes, 3)
    if memory.capacity_bytes is None:
        return f"memory: {size} per GPU on the worst stage, {memory.worst_stage}"
    text = f"memory: {size} of {format_bytes(memory.capacity_bytes, 3)} per GPU"
    if memory.fits is False:
        return f"{text} on stage {memory.worst_stage}: DOES NOT FIT"
    if memory.tight:
        return f"{text}: {_tight_text(memory)}"
    return f"{text}: fits"


def _tight_text(memory: Memory) -> str:
    """``fits, tight: 97% +-4% of the memory of stage 0``."""
    assert memory.share is not None  # nothing is tight without a device
    share = f"{whole_percent(memory.share)} +-{whole_percent(memory.within)}"
    return f"fits, tight: {share} of the memory on stage {memory.worst_stage}"


def _error_text(result: Plan) -> str:
    """How far off the step may be: against the measured step, else by published runs like it; may
    be empty."""
    if result.measured_error is not None and result.job.measured_step_s is not None:
        off = percent(result.measured_error, sign="+")
        if result.anchor is None:
            return f"{off} against the measured step"
        return f"as measured; the model alone gives {off}"
    if result.setup.stack is None or result.setup.compute is not None:
        return ""
    if result.error is None:
        return "no published run to compare with"
    low, high = (format_time(seconds, 2) for seconds in result.error.spread(result.step_s))
    # the unit once: 20-25 s
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{low}-{high}, 90% interval"


VIEWS = {Plan: View("plan", _blocks, PlanDocument.of, _table, answer)}
