"""The keys of a job file that turn the job into a given configuration.

:func:`changed_keys` returns those that differ from the file, :func:`pinning_keys` all that leave
nothing to a search.
"""

from __future__ import annotations

from typing import Any

from colltool.training.files import written
from colltool.training.files.job import OverlapFile
from colltool.training.job import Job
from colltool.training.job_configuration import default_etp, overlap_of
from colltool.training.layout_constraints import CHOICE_OF_KEY, stated_choice
from colltool.training.overlap_violations import invalid_overlaps
from colltool.training.parallel_config import Overlap, ParallelConfig, value_at_key
from colltool.training.strategies import RECOMPUTATIONS, default_schedule


def changed_keys(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Return keys and values that turn the job into this configuration, without those that its file
    has already."""
    file = job.file
    layout = config.layout
    shard = config.shard
    # what keys mean that a job leaves open; keys that are not here have no meaning until they are
    # chosen
    defaults = {
        "layout.etp": default_etp(layout.tp, sp=layout.sp, experts=config.moe),
        "schedule": default_schedule(layout.virtual),
        "recompute": job.draft.recompute,
    }
    changed: dict[str, Any] = {}  # None: the key has to be left out
    for key in CHOICE_OF_KEY:
        value = value_at_key(config, key)
        before = stated_choice(job, key)
        if before is None:
            before = defaults.get(key, value)
        if value != before and (key != "layout.sp" or layout.tp > 1):
            changed[key] = value
    if layout.stages != tuple(file.layout.stages or ()):
        changed["layout.stages"] = layout.stages or None
    # keys of the file's sharding that this one does not have
    foreign = []
    if not shard.group:
        foreign.append("group")
    if not shard.shards_weights:
        foreign += ["gathers", "reshard"]
    for name in foreign:
        if getattr(file.shard, name) is not None:
            changed[f"shard.{name}"] = None
    for name in possible_overlap(file.overlap, config)[1]:
        changed[f"overlap.{name}"] = None
    return tuple(
        (key, "null" if value is None else written(value)) for key, value in changed.items()
    )


def pinning_keys(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Return keys and values that turn the job into this configuration and leave nothing to a
    search: all that :func:`changed_keys` returns, and the values of choices that the file has
    already or leaves to their defaults."""
    layout = config.layout
    idle: list[str] = []  # choices that this layout does not have
    if layout.tp == 1:
        idle.append("sp")
    if config.moe is None:
        idle += ["ep", "etp"]
    if layout.pp == 1:
        idle += ["virtual", "schedule"]
    if not RECOMPUTATIONS[config.recompute].whole:
        idle.append("recompute")
    texts = {
        key: written(value_at_key(config, key))
        for key, choice in CHOICE_OF_KEY.items()
        if choice not in idle
    }
    return tuple((texts | dict(changed_keys(job, config))).items())


def possible_overlap(file: OverlapFile, config: ParallelConfig) -> tuple[Overlap, tuple[str, ...]]:
    """Return the overlap that is possible in a layout, and the keys of the file that would have to
    be left out for it."""
    layout = config.layout
    dropped: tuple[str, ...] = ()
    # until nothing is idle: leaving one key out may make another one so
    while True:
        overlap = overlap_of(file, layout, config.schedule, config.stack)
        idle = []
        if (
            "tp" in overlap.requested
            and overlap.tp == "split"
            and not (layout.sp and layout.tp > 1)
        ):
            idle.append("tp")
        if overlap.ep and layout.ep == 1:
            idle.append("ep")
        for violation in invalid_overlaps(config._replace(overlap=overlap)):
            if violation.path[0] == "overlap":
                idle.append(str(violation.path[1]))
        to_drop = tuple(name for name in idle if getattr(file, name) is not None)
        if not to_drop:
            return overlap, dropped
        file = file.model_copy(update=dict.fromkeys(to_drop))
        dropped += to_drop
