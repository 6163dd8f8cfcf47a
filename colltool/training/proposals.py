"""What a plan proposes: the changes of a job and of its fabric that gain, the best first.

:func:`proposals` is the entry: it prices the step with each change of the registry that is for time,
and keeps those that gain. :func:`cures` are those with which a job fits its device.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.constraint_violations import constraint_violations
from colltool.training.fabric_changes import Knob
from colltool.training.job import Job, PlainCall
from colltool.training.job_changes import (
    FULL_RECOMPUTATION,
    LEAST_GAIN,
    Change,
    Situation,
    job_changes,
)
from colltool.training.memory import Memory, memory
from colltool.training.overlap_violations import invalid_overlaps
from colltool.training.parallel_config import ParallelConfig, with_values
from colltool.training.registry import members
from colltool.training.sentences import Remark, remark, sentence
from colltool.training.step_time import TrainingStep, step_time


class Proposal(NamedTuple):
    """A change of the fabric or of the job, and the step with it."""

    change: str  # in words
    where: str  # fabric or job
    set: tuple[tuple[str, str], ...]  # keys with their values, as ``--set`` or ``--job-set``
    step_s: float  # with the change
    gain: float  # share of the step that it saves
    fits: bool | None  # the memory of its device; None without one
    tight: bool = False  # whether it may not, within the error of the memory


def proposals(
    job: Job,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    priced_step: TrainingStep,
) -> tuple[Proposal, ...]:
    """Return the changes that gain, the best first; before them the smallest that a job needs to
    fit its device, whatever it costs.

    ``priced_step`` is the step of the job as it is. Changes that the job, its memory or the fabric
    cannot have are left out.
    """
    current = Situation(job, config, costs, priced_step, plain)
    gaining = [*_changes_of_fabric(current), *_changes_of_job(current)]
    # what does not fit never leads
    gaining.sort(key=lambda proposal: (proposal.fits is False, -proposal.gain))
    cure = _first_cure(current)
    if cure is None:
        return tuple(gaining)
    # a job that does not fit runs only with a cure, so it comes first whatever it gains
    if memory(config).fits is False:
        return cure, *gaining
    return *gaining, cure


def _changes_of_fabric(current: Situation) -> Iterator[Proposal]:
    """Yield the changes of the fabric that gain."""
    config = current.config
    for knob in _waited_for(current.fabric, current.step):
        assert knob.faster is not None
        label, share = knob.faster
        faster = knob.at(share)
        costs = current.prices.for_changed_tier(faster.fabric, knob.tier)
        step_s = _step_s(config, costs, current.plain)
        if _gains(config, faster.values, step_s, current.step):
            yield _proposal(label, "fabric", faster.values, config, step_s, current.step)


def _changes_of_job(current: Situation) -> Iterator[Proposal]:
    """Yield the changes of layout and settings of the job that gain."""
    config = current.config
    listed: set[ParallelConfig] = set()  # what proposals so far lead to
    for change in job_changes(current, "time"):
        setup = change.setup
        values = change.values | _speed_as_found(current)
        # another proposal leads to the same
        if change.plain is None and setup in listed:
            continue
        # what cannot be is left out before it is priced
        if constraint_violations(setup) or invalid_overlaps(setup) or _too_large(setup, config):
            continue
        plain = current.plain if change.plain is None else change.plain
        step_s = _step_s(setup, current.prices, plain)
        if _gains(setup, values, step_s, current.step) and current.job.accepts(values):
            yield _proposal(change.label, "job", values, setup, step_s, current.step)
            listed.add(setup)


def _first_cure(current: Situation) -> Proposal | None:
    """Return the cheapest change with which a job fits its device; None where it fits as it is, or
    with no change."""
    if current.config.model is None:
        return None
    for change, _ in cures(current.job, current.config):
        values = change.values | _speed_as_found(current)
        step_s = _step_s(change.setup, current.prices, current.plain)
        if step_s < inf and current.job.accepts(values):
            label = remark("fit_memory")
            return _proposal(label, "job", values, change.setup, step_s, current.step)
    return None


def _step_s(
    config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...]
) -> float:
    """Seconds of a step; infinite where a group cannot be placed on the fabric."""
    try:
        return step_time(config, costs, plain).step_s
    except ColltoolError:
        return inf


def cures(job: Job, config: ParallelConfig) -> Iterator[tuple[Change, Memory]]:
    """Yield changes with which a job that does not fit its device would, or with which a tight one
    has room, and its memory then: the cheapest in time first, then each with full recomputation;
    those that are still tight come last. Nothing where the job has room."""
    needed = memory(config)
    if needed.fits is not False and not needed.tight:
        return
    tried = [*job_changes(Situation(job, config), "memory")]
    if not config.recomputation.layers:
        for change in tried[:]:  # a copy, as the list grows
            if "recompute" not in change.values:
                values = change.values | FULL_RECOMPUTATION
                setup = with_values(change.setup, FULL_RECOMPUTATION)
                tried.append(change._replace(values=values, setup=setup))
    still_tight = []
    for change in tried:
        if constraint_violations(change.setup):
            continue
        after = memory(change.setup)
        if after.tight and after.fits:
            still_tight.append((change, after))
        elif after.fits:
            yield change, after
    if not needed.fits:
        yield from still_tight


def _speed_as_found(current: Situation) -> dict[str, str]:
    """Return values of a change, by key, that replace a measured step by the speed found from it, as
    the measured step is that of the job without the change; empty without a measured step."""
    slower = current.config.slower
    if slower == 1 or current.job.file.slower is not None:
        return {}
    return {"measured.step": "null", "slower": repr(slower)}


def _too_large(other: ParallelConfig, config: ParallelConfig) -> bool:
    """Whether a change does not fit its device and takes more memory than the job as it is."""
    if other.model is None:
        return False
    changed = memory(other)
    return changed.fits is False and changed.bytes > memory(config).bytes


def _gains(
    setup: ParallelConfig, values: dict[str, str], step_s: float, priced_step: TrainingStep
) -> bool:
    """Whether a change makes the step shorter by enough to be listed; extra steps to the same accuracy count against it."""
    steps_ratio = 1.0
    if setup.compression is not None and "compression.scheme" in values:
        steps_ratio += setup.compression.extra_steps
    return _gain(step_s, priced_step) > LEAST_GAIN and steps_ratio * step_s < priced_step.step_s


def _gain(step_s: float, priced_step: TrainingStep) -> float:
    """Share of the step that a change saves."""
    return 1 - step_s / priced_step.step_s if priced_step.step_s else 0.0


def _proposal(
    label: Remark,
    where: str,
    values: dict[str, str],
    setup: ParallelConfig,
    step_s: float,
    priced_step: TrainingStep,
) -> Proposal:
    """Return the proposal of a change with its priced step."""
    fits = None
    tight = False
    if setup.model is not None:
        needed = memory(setup)
        fits = needed.fits
        tight = needed.tight
    return Proposal(
        change=sentence(label),
        where=where,
        set=tuple(values.items()),
        step_s=step_s,
        gain=_gain(step_s, priced_step),
        fits=fits,
        tight=tight,
    )


def _waited_for(fabric: Fabric, priced_step: TrainingStep) -> Iterator[Knob]:
    """Yield what the registry makes faster of a fabric, of the tiers that the step waits for."""
    exposed_s = {tier.name: 0.0 for tier in fabric.tiers}
    for call in priced_step.critical_calls:
        for name in call.cost.tiers:
            exposed_s[name] += call.exposed_s
    for member in members("time", "fabric"):
        for knob in member.make(fabric):
            if knob.faster is not None and exposed_s[knob.tier] > LEAST_GAIN * priced_step.step_s:
                yield knob
