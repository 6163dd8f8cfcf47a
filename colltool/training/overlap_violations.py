"""Overlap and compression that a job asks for in vain, where its layout leaves nothing to hide.

:func:`invalid_overlaps` checks job files, and the changes and layouts that colltool derives from them.
It looks only at keys that a file sets itself: a default hides what there is. What contradicts itself
whatever the layout sends is in :mod:`colltool.training.constraint_violations`.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.training.calls import stage_calls
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.violation import Violation


def invalid_overlaps(config: ParallelConfig) -> list[Violation]:
    """Return overlap that a job asks for in vain; empty where all of it hides something. Checks that
    need dp are skipped while ``layout.dp`` is 0, not known yet."""
    if config.model is None:  # plain calls name their groups themselves
        return []
    violations = [*_nothing_to_hide(config), *_times_without_parts(config)]
    if violations or not config.layout.dp or "sm_share" not in config.overlap.requested:
        return violations
    for stage in pipeline_stages(config):
        for call in stage_calls(config, stage):
            # messages of a pipeline are sent without multiprocessors
            if call.hides not in ("nothing", "steady pipeline"):
                return []
    what = "sm_share slows compute down while communication overlaps it, and none does here"
    fix = "leave sm_share out, or let something hide"
    return [Violation(("overlap", "sm_share"), what, fix)]


def _nothing_to_hide(config: ParallelConfig) -> Iterator[Violation]:
    """Yield a violation for overlap and compression of calls that a layout does not send."""
    layout = config.layout
    requested = config.overlap.requested
    one_replica = layout.dp and config.gradient_ranks == 1
    if "dp" in requested and one_replica:
        yield Violation(
            ("overlap", "dp"),
            "dp x cp is 1: there are no gradient collectives to hide",
            "leave overlap.dp out, or more ranks",
        )
    if "pp" in requested and layout.pp == 1:
        yield Violation(
            ("overlap", "pp"),
            "pp is 1: there are no borders to hide",
            "leave overlap.pp out, or pp of at least 2",
        )
    if "cp" in requested and layout.cp == 1:
        yield Violation(
            ("overlap", "cp"),
            "cp is 1: there is nothing to hide",
            "leave overlap.cp out, or cp of at least 2",
        )
    elif "cp" in requested and layout.cp_mode != "ring":
        yield Violation(
            ("overlap", "cp"),
            f"cp_mode {layout.cp_mode} needs all keys and values before attention starts, so"
            " nothing hides",
            "leave overlap.cp out, or layout.cp_mode: ring",
        )
    if config.compression and config.compression.on == "dp" and one_replica:
        yield Violation(
            ("compression", "on"),
            "dp x cp is 1: there is nothing to compress",
            "more ranks, or no compression",
        )
    if "ep" in requested and layout.ep > 1 and layout.dp and config.micro_batches == 1:
        yield Violation(
            ("overlap", "ep"),
            "tokens hide under another micro-batch, and a replica has only one a step",
            f"batch.global: {2 * config.global_batch}, a smaller batch.micro, overlap.ep: shared (a"
            " shared expert), or false",
        )


def _times_without_parts(config: ParallelConfig) -> Iterator[Violation]:
    """Yield a violation for overlap under parts that the job's own times do not tell apart: attention
    in those of a layer, layers in those of a step."""
    layout = config.layout
    overlap = config.overlap
    times = config.compute
    if times is None:
        return
    if times.per_layer:
        if "cp" in overlap.requested and layout.cp > 1 and layout.cp_mode == "ring":
            yield Violation(
                ("overlap", "cp"),
                "the ring hides under attention, whose time is not among the given times of a layer",
                "a device and a stack in place of compute, or leave overlap.cp out",
            )
        return
    # dimensions whose calls hide under single layers
    under_layers: list[str] = [name for name in ("tp", "cp") if name in overlap.requested]
    if overlap.ep:
        under_layers.append("ep")
    if "dp" in overlap.requested and config.shard.shards_weights and config.shard.reshard:
        under_layers.append("dp")
    for name in under_layers:
        yield Violation(
            ("overlap", name),
            f"{name} hides under single layers, but compute gives times of a whole step",
            "compute: {forward_per_layer: ..., backward_per_layer: ...}, or leave"
            f" overlap.{name} out",
        )
