"""``plan``: the time of a training step on a fabric, what to change, its parts, collectives and
busiest links.

:func:`_blocks` is the screen in its order; the tables and lists that it shows stand below it. The
headline is in ``plan_answer``, the lines on the step that wait for ``--all`` in ``plan_facts``, JSON
in ``plan_document``.

Seconds are per step, of the rank that sets the pace; ``exposed_s`` adds to the step, ``hidden_s`` does not. A
planned call's ``sent`` is one collective of the job with its price: ``sent.call`` what is sent,
``sent.cost`` by which algorithm. It ``paces`` where the step waits for its stage.
"""

from __future__ import annotations

from operator import attrgetter
from shlex import quote
from textwrap import wrap

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
    whole_percent,
)
from colltool.base.primitives import P2P
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
from colltool.render.dispatch import View, context, listed
from colltool.render.intervals import nine_in_ten
from colltool.render.views.job_words import layout_text, stages_text
from colltool.render.views.plan_answer import answer, memory_text, typed_change
from colltool.render.views.plan_document import PlanDocument
from colltool.render.views.plan_facts import step_facts
from colltool.training.job_links import JobLink
from colltool.training.plan import Plan, PlannedCall, TierUse
from colltool.training.proposals import Proposal
from colltool.training.sentences import tokens_text
from colltool.training.step_time import StepPart
from colltool.training.targets import Needed

Pairs = tuple[tuple[str, str], ...]
"""(KEY, VALUE) of a job."""

_MOST_CHANGES = 3  # rows without --all
_USUAL_PREMISES = 4  # lines before the changes; with more of them a row fewer fits the screen
_LINE_LENGTH = 72  # characters of a line to paste, so that a narrow terminal does not wrap it
_LEAST_SHARE = 0.005  # of a link's traffic; less would read 0%


# --- the screen


def _blocks(result: Plan) -> list[Block]:
    """The answer, then what was asked for beside it, or else the first two of premises, busiest links,
    changes and parts; all that is left, and all details, are for ``--all``."""
    blocks: list[Block] = [_premises(result)]
    if result.links:
        title = "busiest link of each kind: all groups send at once, links at full rate"
        blocks.append(Table(_LINKS, result.links.links, title=title))
    if result.changes:
        blocks.append(_changes(result))
    blocks.append(_parts(result))
    # shown without --all: what a target needs, else the first two blocks
    first = _target_blocks(result)
    if not first:
        first, blocks = blocks[:2], blocks[2:]
    busiest_title = "how long the links of each tier are busy per step"
    details: list[Block] = [
        *_recipe(result),
        Lines("more on the step", tuple(step_facts(result))),
        *_critical_collectives(result),
        Table(_BUSIEST, result.wires, title=busiest_title),
    ]
    return [
        Headline(answer(result)),
        *first,
        *map(later, [*blocks, *details]),
        *listed("notes", result.links.notes if result.links else ()),
    ]


# --- what the step is of


def _premises(result: Plan) -> Lines:
    """What the step is of: its batch and layout, its speed and memory, and a fabric that was grown for it."""
    setup = result.setup
    lines = []
    if setup.model is not None and setup.sequence > 1:
        lines.append(_batch_line(result))
    lines.append(f"layout: {_layout_line(result)}")
    if result.tokens_per_s is not None and setup.sequence > 1:
        lines.append(_speed_line(result))
    if result.memory is not None:
        lines.append(memory_text(result.memory))
    # of all assumptions only that on a shipped fabric that was enlarged for the job: its sentence, which
    # commands/plan_requests.py makes, is the one with these words
    lines += [ground for ground in result.grounds if "grows to" in ground]
    return Lines("per step", tuple(lines))


def _batch_line(result: Plan) -> str:
    """``sequence 8192, global batch 1024 (8.4M tokens)``, after ``assumed:`` where a job that is drafted
    from a model alone was not given both."""
    setup = result.setup
    tokens = tokens_text(setup.global_batch * setup.sequence)
    text = f"sequence {setup.sequence}, global batch {setup.global_batch} ({tokens} tokens)"
    if not result.job.drafted:
        return text
    stated = {key for key, _ in result.job.overrides}
    is_assumed = not {"sequence", "batch.global"} <= stated
    return f"assumed: {text}" if is_assumed else text


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
    """``speed: 190,800 tokens/s, 186.3 per GPU; MFU 41%``, of a plan with tokens."""
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


# --- changes, and what a target needs


_CHANGES: Columns[Proposal] = (
    label("change", "what to change"),
    label("set", "type", get=lambda change: typed_change(change.set, change.where)),
    number("step_s", "step", format_time),
    number("gain", "gain", percent),
    flag("fits"),
)


def _changes(result: Plan) -> Table:
    """The changes that gain most. Where the job does not fit, those that make it fit come first."""
    rows = _MOST_CHANGES
    # a row fewer where other lines take its place on a first screen of 24
    if result.anchor is not None or len(_premises(result).lines) > _USUAL_PREMISES:
        rows -= 1
    table = Table(_CHANGES, result.changes, first=rows)
    fits = [change.fits for change in result.changes]
    if False not in fits:
        return table.without("fits")
    if result.memory is None or result.memory.fits is not False:
        return table
    # False sorts before True: changes that do not make it fit come last
    ordered = tuple(sorted(result.changes, key=lambda change: not change.fits))
    # first=None, which shows all, where none makes it fit
    return table._replace(records=ordered, first=min(fits.count(True), _MOST_CHANGES) or None)


_NEEDED: Columns[Needed] = (
    label("what", "least"),
    label("value", "is", get=lambda need: _value_text(need.value, need.what)),
    label("now", get=lambda need: _value_text(need.now, need.what)),
    label("set", "with", get=lambda need: typed_change(need.set, "fabric")),
    number("step_s", "step", format_time),
)


def _target_blocks(result: Plan) -> list[Block]:
    """The table of a target, or the line that no network reaches it."""
    targeted = result.targeted
    if targeted is None:
        return []
    target = targeted.target.text
    limit = format_time(targeted.limit_s)
    if not targeted.possible:
        free = f"the step of a free network is {format_time(result.control_step_s)}"
        return [Lines("target", (f"no network reaches {target}: {free}, the target is {limit}",))]
    state = "it reaches it already" if targeted.reached else "it does not reach it now"
    title = f"least network for {target} ({limit}), one change each; {state}"
    return [Table(_NEEDED, targeted.needed, title=title)]


def _value_text(value: float | None, what: str) -> str:
    """A number of a :class:`Needed`, in the unit that its name ``what`` tells: "slowest ..." is a bandwidth,
    the others are factors. None: the least is nothing at all."""
    if value is None:
        return "none is enough"
    if what.startswith("slowest"):
        return format_rate(value)
    return f"{value:.4g}"


# --- parts and collectives


# what a part is, where its name does not say it
_PART_NAMES = {
    "norm": "gradient norm",
    "bubble": "pipeline bubble",
    "fixed": "overhead per step",
    "jitter": "variation between ranks",
}


def _parts(result: Plan) -> Table:
    """The parts of the step, whose exposed times add up to it."""

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
    label(
        "within",
        "90% interval",
        drop=3,
        get=lambda call: nine_in_ten(call.interval, call.sent.each_s),
    ),
    number("accuracy", "+-", whole_percent, path="accuracy.median", hidden=True),
    number("total_s", "total", format_time, path="sent.total_s"),
    number("hidden_s", "hidden", format_time, drop=1, path="sent.hidden_s"),
    number("exposed_s", "exposed", format_time, path="sent.exposed_s"),
    number("energy_J", "energy", format_energy, drop=8, hidden=True),
    label("bound", "bound by", drop=6, path="sent.cost.bound"),
    label("stages", drop=7, get=lambda call: stages_text(call.stages), hidden=True),
    flag("paces", hidden=True),
)


def _table(result: Plan) -> Table:
    """All collectives, for CSV."""
    columns = (*context(job=result.job.name, fabric=result.fabric), *_COLLECTIVES)
    table = Table(columns, result.collectives, title="collectives per step")
    return table.with_shown("energy_J") if result.energy_J is not None else table


def _critical_collectives(result: Plan) -> list[Block]:
    """The collectives that the step waits for, whose exposed times add up to those of the parts; and
    how many others there are."""
    table = _table(result)
    critical = tuple(planned for planned in result.collectives if planned.paces)
    others = len(result.collectives) - len(critical)
    if not others:
        return [table]
    rows = counted(others, "row")
    return [
        table._replace(records=critical, title=f"{table.title}, on the critical path"),
        Lines(f"JSON and CSV have {rows} more, of stages off the critical path", ()),
    ]


# --- links


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
        if share >= _LEAST_SHARE:
            texts.append(f"{name} {whole_percent(share)}")
    return ", ".join(texts)


# --- to plan it again


def pinned_command(title: str, command: str, overrides: Pairs, pinned: Pairs) -> Lines:
    """The complete command that plans a layout again, in lines to paste; in Python the overrides of
    load_job for it.

    Args:
        command: what was typed, without values of the job.
        overrides: values of the job that were typed.
        pinned: those of the layout, which replace them.
    """
    pins = dict(pinned)
    pairs = [f"{key}={value}" for key, value in overrides if key not in pins]
    pairs += [f"{key}={value}" for key, value in pins.items()]
    # \0 in place of a blank keeps an option and its value on one line
    options = " ".join(f"--job-set\0{quote(pair)}" for pair in pairs)
    text = f"{command} {options}".strip()
    lines = wrap(text, _LINE_LENGTH, break_long_words=False, break_on_hyphens=False)
    shell = " \\\n  ".join(lines).replace("\0", " ")
    pasted = localize(either(shell=shell, python=f"overrides={pairs!r}"))
    return Lines(title, tuple(pasted.split("\n")), verbatim=True)


def _recipe(result: Plan) -> list[Block]:
    """How to plan a searched layout again without a search."""
    if not result.searched:
        return []
    title = "to plan this layout again"
    return [pinned_command(title, result.typed, result.job.overrides, result.searched)]


VIEWS = {Plan: View("plan", _blocks, PlanDocument.of, _table, answer)}
