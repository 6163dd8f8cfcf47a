"""Shipped and drafted jobs, fitted to a fabric where their layout does not fit.

:func:`fit_to_fabric` takes another stack or precision for the fabric's device, whole powers of two
of its innermost domains, fewer ranks, or the fastest layout of a search, and says what it changed.
A user's own job is not changed, and refused where it does not fit. :func:`search_on_fabric` searches
on the same fabric with the same job, so that both find the same layout.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.fabric.variants import with_tiers
from colltool.training.fastest_layout import fastest_layout
from colltool.training.files.presets import preset_names
from colltool.training.job import Job
from colltool.training.job_device import on_fabric
from colltool.training.layout_constraints import CHOICE_OF_KEY, Keep
from colltool.training.layout_results import LayoutSearch
from colltool.training.layout_search import search
from colltool.training.memory import memory
from colltool.training.registry import members, proposal
from colltool.training.search_request import Progress
from colltool.training.search_space import leaves_nothing_open
from colltool.training.sentences import Remark, remark, sentence
from colltool.training.stack import Accelerator, shipped_device, shipped_stack

# shipped stacks to try, in this order, for a device that a job's stack has no efficiency for
STACKS = ("megatron", "jax", "fsdp")


class FittedJob(NamedTuple):
    """A job that fits a fabric, with the ranks that it runs on."""

    fabric: Fabric  # or the part of it that layouts use
    job: Job
    ranks: int | None  # None: not decided yet, or those of the job or the fabric
    readings: ModelOptions | None = None
    changes: tuple[Remark, ...] = ()  # what differs from the file
    # where the layout was searched: the keys and values that pin it
    searched: tuple[tuple[str, str], ...] = ()

    def changed(self, change: Remark, **values: Any) -> FittedJob:
        """Return the job with other values of these fields, and what was changed."""
        return self._replace(changes=(*self.changes, change), **values)


def fit_to_fabric(
    job: Job, fabric: Fabric, ranks: int | None, readings: ModelOptions | None = None
) -> FittedJob:
    """Return the job as it runs on ``ranks`` of a fabric; unchanged where it fits, or is a user's.

    ``ranks`` None: those of the job or the fabric, or as many as a changed layout takes.

    Raises:
        ColltoolError: no layout fits the ranks and the memory, and why.
    """
    current = _on_device(FittedJob(fabric, job, ranks, readings))
    if not _may_be_fitted(job) or _keeps_layout(current):
        return current
    for member in members("layout", "job"):
        fitted: FittedJob | None = member.make(current)
        if fitted is not None:
            return fitted
    return current


def search_on_fabric(
    job: Job,
    fabric: Fabric,
    ranks: int | None = None,
    keep: Keep | None = None,
    *,
    top: int | None = None,
    readings: ModelOptions | None = None,
    watch: Progress | None = None,
    headroom: float | None = None,
) -> LayoutSearch:
    """Search the layouts of a job as it runs on a fabric; see :func:`search`."""
    current = _on_device(FittedJob(fabric, job, ranks))
    if job.drafted and ranks is None:
        ranks = _power_below(current.fabric.ranks)
    searched = search(
        current.job,
        current.fabric,
        ranks,
        keep,
        top=top,
        readings=readings,
        watch=watch,
        headroom=headroom,
    )
    return replace(searched, grounds=tuple(map(sentence, current.changes)))


def _may_be_fitted(job: Job) -> bool:
    """Whether a job may be changed to fit a fabric; a user's own is meant as it is."""
    return job.adaptable and job.draft.model is not None and job.draft.compute is None


def _on_device(current: FittedJob) -> FittedJob:
    """Return the job on a stack that knows the fabric's device, and the part of the fabric that
    layouts use; as it is for a user's own job."""
    check_even(current.fabric)
    if _may_be_fitted(current.job):
        for member in members("device", "job", "fabric"):
            current = member.make(current)
    return current


def _keeps_layout(current: FittedJob) -> bool:
    """Whether a job runs in its own layout: where a user says it, or where it fits."""
    if current.job.drafted:
        return leaves_nothing_open(current.job)
    # a user who sets any key of the layout, its schedule, batch or sharding means the rest of it
    sections = {key.partition(".")[0] for key in CHOICE_OF_KEY}
    if any(key.partition(".")[0] in sections for key, _ in current.job.overrides):
        return True
    return _fits(current.job, current.fabric, current.ranks or current.fabric.ranks)


@proposal("device")
def known_stack(current: FittedJob) -> FittedJob:
    """Take a stack and a precision that work on the fabric's device; as it is where they do, or none
    is found."""
    job = current.job
    fabric = current.fabric
    stack = job.draft.stack
    precision = job.draft.precision.compute
    if stack is None or fabric.device is None or fabric.device not in preset_names("devices"):
        return current
    device = shipped_device(fabric.device)
    if stack.knows(device, precision) and precision in dict(device.peak):
        return current
    set_by_user = [key.split(".")[0] for key, _ in job.overrides]
    stacks = [stack.name] if "stack" in set_by_user else [stack.name, *STACKS]
    precisions = [precision] if "precision" in set_by_user else [precision, "bf16"]
    for other_precision in precisions:
        other_stack = _stack_for(device, other_precision, stacks)
        if other_stack is None:
            continue
        values = {}
        texts = []
        if other_stack != stack.name:
            values["stack"] = other_stack
            texts.append(f"stack {other_stack}")
        if other_precision != precision:
            values |= {"precision.compute": other_precision, "precision.dispatch": "bf16"}
            texts.append(f"precision {other_precision}")
        change = remark("device_runs", values=", ".join(texts), device=device.name)
        return current.changed(change, job=job.with_values(values))
    return current


@proposal("device", of="fabric")
def whole_domains(current: FittedJob) -> FittedJob:
    """Cut innermost domains to a power of two, such as racks of 72 used as 64, unless the ranks need
    them whole."""
    fabric = current.fabric
    tier = current.fabric.tiers[0]
    abilities = capabilities_of(tier)
    used = _power_below(tier.endpoints)
    has_form = abilities.axes or abilities.levels
    # domains of fewer than eight stay whole
    if used in (tier.endpoints, 1, 2, 4) or has_form or len(fabric.tiers) == 1:
        return current
    if current.ranks is not None and current.ranks > fabric.ranks // tier.endpoints * used:
        return current
    part = tier.model_copy(update={"size": used})
    change = remark("whole_domains", used=used, ranks=tier.endpoints, tier=tier.name)
    return current.changed(change, fabric=with_tiers(fabric, lambda _: part, [0]))


@proposal("layout")
def fewer_ranks(current: FittedJob) -> FittedJob | None:
    """Take the most ranks on which the job fits in its own layout; None where it fits on none."""
    if current.job.drafted or current.ranks is not None:
        return None
    layout = current.job.draft.layout
    ranks = current.fabric.ranks
    replica_ranks = layout.tp * layout.cp * layout.pp
    for dp in range(ranks // replica_ranks, 0, -1):
        used = replica_ranks * dp
        if _fits(current.job, current.fabric, used):
            return current.changed(remark("fewer_ranks", used=used, ranks=ranks), ranks=used)
    return None


@proposal("layout")
def searched_layout(current: FittedJob) -> FittedJob | None:
    """Take the fastest layout of a search that keeps what the user set; None where a shipped job is
    too large for its devices in any layout, and its plan says so."""
    job = current.job
    ranks = current.ranks or _power_below(current.fabric.ranks)
    try:
        fastest = fastest_layout(job, current.fabric, ranks, current.readings)
    except ColltoolError:
        if job.drafted or current.ranks is None or not _can_run(job, current.fabric, ranks):
            raise
        return None
    code = "fastest_layout" if job.drafted else "nearest_layout"
    return current.changed(
        remark(code, ranks=ranks, layout=fastest.choice.text),
        job=job.with_values(dict(fastest.values)),
        ranks=ranks,
        searched=fastest.values,
    )


def _power_below(count: int) -> int:
    """Return the largest power of two that is not above a number from 1.

    >>> _power_below(72), _power_below(64)
    (64, 64)
    """
    return 1 << (count.bit_length() - 1)


def _can_run(job: Job, fabric: Fabric, ranks: int) -> bool:
    """Whether the job in its own layout can be placed on so many ranks of a fabric."""
    try:
        on_fabric(job, fabric).setup(ranks)
    except ColltoolError:
        return False
    return ranks <= fabric.ranks


def _fits(job: Job, fabric: Fabric, ranks: int) -> bool:
    """Whether the job can run on so many ranks and fits their memory, as far as that is known."""
    if not _can_run(job, fabric, ranks):
        return False
    return memory(on_fabric(job, fabric).setup(ranks)).fits is not False


def _stack_for(device: Accelerator, precision: str, names: list[str]) -> str | None:
    """Return the first of these stacks with efficiencies for a device in a precision; None where none
    has them, or the device no such precision."""
    if precision not in dict(device.peak):
        return None
    for name in names:
        if name not in preset_names("stacks"):
            continue
        if shipped_stack(name).knows(device, precision):
            return name
    return None
