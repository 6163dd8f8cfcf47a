"""``plan --search``: the fastest layouts of a job, and the job's own beside them.

:func:`_blocks` is the screen: the headline (:func:`_answer`), the command that plans the best layout
again, the table (:func:`_layouts`), and what was searched (:func:`_facts`). The job's own layout is
the one that its file gives.

Layouts that fill the ranks are ``valid``; of these ``fit`` fit the memory, of which ``priced`` can be placed on the
fabric; ``layouts`` are the fastest of them. ``kept`` are (key, value) that the user held fixed. A ``tie`` is a
layout too close to the best to call.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from colltool.base.formatting import counted, format_bytes, format_time, percent, whole_percent
from colltool.render.blocks import Block, Column, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, context, on_fabric, signed_percent
from colltool.render.documents import Document, derived, or_null
from colltool.render.shared_documents import mapping
from colltool.render.views.plan import pinned_command, rate_text
from colltool.render.views.plan_answer import titled_overrides
from colltool.render.views.plan_document import PlannedDocument
from colltool.training.files import written
from colltool.training.layout_results import TIE, LayoutSearch, PricedLayout
from colltool.training.sentences import MFU_CONVENTION, tokens_text

_MOST_LAYOUTS = 4  # rows without --all


class _RankedLayout(NamedTuple):
    """A layout and its place among all, from 1."""

    rank: int
    layout: PricedLayout

    @property
    def tie(self) -> str:
        """``best``, ``tie`` where it is too close to the best to call, else empty."""
        if self.rank == 1:
            return "best"
        return "tie" if self.layout.tie else ""


def _choice(key: str) -> Column[_RankedLayout]:
    """The column of a number that the search chooses, by its field."""
    return number(key, key, path=f"layout.choice.{key}")


def _named_choice(key: str, *, hidden: bool = False) -> Column[_RankedLayout]:
    """The column of a word that it chooses."""
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
    number(
        "memory_bytes",
        "memory",
        partial(format_bytes, digits=3),
        drop=2,
        path="layout.memory_bytes",
    ),
)
# columns that are left out where every layout has the default
_DEFAULTS = {"cp": 1, "ep": 1, "etp": 1, "virtual": 1, "recompute": "none"}


def _layouts(result: LayoutSearch) -> Table:
    """The table of the layouts that were kept, the fastest first."""
    columns = (*context(job=result.job.name, fabric=result.fabric, ranks=result.ranks), *_LAYOUTS)
    rows = tuple(map(_RankedLayout._make, enumerate(result.layouts, 1)))
    draft = result.job.draft
    tokens = tokens_text(draft.global_batch * draft.sequence)
    title = (
        f"fastest of {result.priced:,} layouts; sequence {draft.sequence}, global batch"
        f" {draft.global_batch} ({tokens} tokens)"
    )
    return Table(columns, rows, best=0, title=title, first=_MOST_LAYOUTS)


def _blocks(result: LayoutSearch) -> list[Block]:
    """The answer, the command for the best layout and the table; what was searched is for ``--all``."""
    table = _layouts(result)
    for key, default in _DEFAULTS.items():
        if all(getattr(layout.choice, key) == default for layout in result.layouts):
            table = table.without(key)
    facts = Lines("the search", tuple(_facts(result)), first=0)
    recipe = pinned_command(
        "full breakdown of this layout", result.typed, result.job.overrides, result.values
    )
    return [Headline(_answer(result)), recipe, table, facts]


def _answer(result: LayoutSearch) -> str:
    """Say which layout is the fastest, how many are as fast, and how the job's own does."""
    best = result.best
    where = f"{result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"
    job = on_fabric(result.job.name, titled_overrides(result.job))
    rate = f"{rate_text(best.tokens_per_s)} tokens/s, MFU {percent(best.mfu)}"
    sentences = [
        f"{job} on {where}: the fastest layout takes {format_time(best.step_s)} per step ({rate})",
        f"It is {best.choice.text}",
    ]
    if result.ties.layouts > 1:
        count = result.ties.layouts
        sentences.append(f"{count} layouts are within {whole_percent(TIE)}, too close to call")
    own = _own_layout_text(result)
    if own:
        sentences.append(own)
    return f"{'. '.join(sentences)}."


def _own_layout_text(result: LayoutSearch) -> str:
    """Say how the job's own layout compares with the best, or why it does not run; empty where the file gives
    none."""
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
    """Lines on how many layouts there were, what their prices rest on, and what holds of the best."""
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
    """A base of its own, so that the rank is the first key."""

    rank: int


class RankedLayoutDocument(_RankDocument, PricedLayoutDocument):
    """A layout, and its place among all, from 1."""


class OwnLayoutDocument(PricedLayoutDocument):
    """The job's own layout, and whether it fits the memory."""

    fits: bool | None


def _ranked_layouts(result: LayoutSearch) -> list[dict[str, Any]]:
    layouts = enumerate(result.layouts, 1)
    return [RankedLayoutDocument.of(layout, rank=rank) for rank, layout in layouts]


def _own_layout_document(result: LayoutSearch) -> dict[str, Any] | None:
    """The job's own layout; None where it gives none, or it does not run."""
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
    best: RankedLayoutDocument = derived(lambda result: _ranked_layouts(result)[0])
    best_job_set: dict[str, str] = mapping("values")
    own: OwnLayoutDocument | None = derived(_own_layout_document)
    own_refused: str | None = or_null("own.why")
    mfu_convention: str = derived(lambda _: MFU_CONVENTION)
    layouts: list[RankedLayoutDocument] = derived(_ranked_layouts)


VIEWS = {LayoutSearch: View("plan-search", _blocks, PlanSearchDocument.of, _layouts, _answer)}
