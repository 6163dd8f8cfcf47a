"""Overlap that a job asks for where nothing can hide, each at its key path.

Only what a file says itself: a default hides what there is. Search candidates are not checked, as their layouts differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.training.constraint_violations import Violation
from colltool.training.files.job import OverlapFile
from colltool.training.parallel_config import Overlap, ParallelConfig, pipeline_stages
from colltool.training.resolve import overlap_of
from colltool.training.traffic import stage_calls

_NO_COVER = ("nothing", "steady pipeline")  # messages between stages are copied by no multiprocessor


def invalid_overlaps(config: ParallelConfig) -> list[Violation]:
    """Checks that need dp are skipped while ``layout.dp`` is 0, unknown."""
    if config.model is None:  # plain calls name their groups themselves
        return []
    found = [*_alone(config), *_batches(config), *_given_times(config)]
    return found or list(_shared_multiprocessors(config))


def _asked(config: ParallelConfig, name: str) -> bool:
    return name in config.overlap.asked


def _alone(config: ParallelConfig) -> Iterator[Violation]:
    layout = config.layout
    if _asked(config, "dp") and layout.dp and config.gradient_ranks == 1:
        what = "dp x cp is 1: there are no gradient collectives to hide"
        yield Violation(("overlap", "dp"), what, "leave overlap.dp out, or more ranks")
    if _asked(config, "pp") and layout.pp == 1:
        yield Violation(("overlap", "pp"), "pp is 1: there are no borders to hide", "leave overlap.pp out, or pp of at least 2")
    if _asked(config, "cp") and layout.cp == 1:
        yield Violation(("overlap", "cp"), "cp is 1: there is nothing to hide", "leave overlap.cp out, or cp of at least 2")
    elif _asked(config, "cp") and layout.cp_mode != "ring":
        what = f"cp_mode {layout.cp_mode} needs all keys and values before attention starts, so nothing hides"
        yield Violation(("overlap", "cp"), what, "leave overlap.cp out, or layout.cp_mode: ring")
    on = config.compression.on if config.compression else ""
    if on == "dp" and layout.dp and config.gradient_ranks == 1:
        yield Violation(("compression", "on"), "dp x cp is 1: there is nothing to compress", "more ranks, or no compression")


def _batches(config: ParallelConfig) -> Iterator[Violation]:
    if _asked(config, "ep") and config.layout.ep > 1 and config.layout.dp and config.micro_batches == 1:
        what = "tokens hide under another micro-batch, and a replica has only one a step"
        fix = f"batch.global: {2 * config.global_batch}, a smaller batch.micro, overlap.ep: shared (a shared expert), or false"
        yield Violation(("overlap", "ep"), what, fix)


def _given_times(config: ParallelConfig) -> Iterator[Violation]:
    if config.compute is None:
        return
    overlap, layers = config.overlap, "compute: {forward_per_layer: ..., backward_per_layer: ...}"
    if config.compute.per_layer:
        if _asked(config, "cp") and config.layout.cp > 1 and config.layout.cp_mode == "ring":
            what = "the ring hides under attention, whose time is not among the given times of a layer"
            yield Violation(("overlap", "cp"), what, "a device and a stack in place of compute, or leave overlap.cp out")
        return
    wanted = {"tp": overlap.tp, "cp": _asked(config, "cp"), "ep": bool(overlap.ep),
              "dp": _asked(config, "dp") and config.shard.layers and config.shard.reshard}  # fmt: skip
    for name in (name for name, there in wanted.items() if there):
        what = f"{name} hides under single layers, but compute gives times of a whole step"
        yield Violation(("overlap", name), what, f"{layers}, or leave overlap.{name} out")


def _shared_multiprocessors(config: ParallelConfig) -> Iterator[Violation]:
    if not _asked(config, "sm_share") or not config.layout.dp:
        return
    sent = (call for stage in pipeline_stages(config) for call in stage_calls(config, stage))
    if all(call.hides in _NO_COVER for call in sent):
        what = "sm_share slows compute while communication runs beside it, and none does here"
        yield Violation(("overlap", "sm_share"), what, "leave sm_share out, or let something hide")


def possible_overlap(file: OverlapFile, config: ParallelConfig) -> tuple[Overlap, tuple[str, ...]]:
    """What hides in a layout, and the keys that the file would have to leave out there."""
    slowed = config.stack.slowed if config.stack is not None else 0.0
    left: tuple[str, ...] = ()
    while True:
        config = config._replace(overlap=overlap_of(file, config.layout, config.schedule, slowed))
        more = tuple(name for name in _idle(config) if getattr(file, name) is not None)
        if not more:
            return config.overlap, left
        file, left = file.model_copy(update=dict.fromkeys(more)), left + more


def _idle(config: ParallelConfig) -> Iterator[str]:
    layout, overlap = config.layout, config.overlap
    if overlap.tp and not (layout.sp and layout.tp > 1):
        yield "tp"
    if overlap.ep and layout.ep == 1:
        yield "ep"
    yield from (str(one.path[1]) for one in invalid_overlaps(config) if one.path[0] == "overlap")
