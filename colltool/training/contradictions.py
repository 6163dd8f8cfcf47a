"""What a job asks to hide where nothing can: each thing at its key path.

Only what a file says itself: a default hides what there is. Not asked for the candidates of a search, whose layouts differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.training.misfits import Misfit
from colltool.training.setup import Setup, stages_of
from colltool.training.traffic.step import stage_calls

_NO_COVER = ("nothing", "steady pipeline")  # messages between stages are copied by no multiprocessor


def contradictions(setup: Setup) -> list[Misfit]:
    """Every ``true`` of ``overlap`` that nothing can follow; what needs dp is left out while ``layout.dp`` is 0."""
    if setup.model is None:  # plain calls name their groups themselves
        return []
    found = [*_alone(setup), *_batches(setup), *_given_times(setup)]
    return found or list(_shared_multiprocessors(setup))


def _asked(setup: Setup, name: str) -> bool:
    return name in setup.overlap.asked


def _alone(setup: Setup) -> Iterator[Misfit]:
    """A dimension of one rank, or one whose communication hides under nothing."""
    layout = setup.layout
    if _asked(setup, "dp") and layout.dp and setup.gradient_ranks == 1:
        what = "dp x cp is 1: no gradients are summed that could hide"
        yield Misfit(("overlap", "dp"), what, "leave overlap.dp out, or more ranks")
    if _asked(setup, "pp") and layout.pp == 1:
        yield Misfit(("overlap", "pp"), "pp is 1: there are no borders to hide", "leave overlap.pp out, or pp of at least 2")
    if _asked(setup, "cp") and layout.cp == 1:
        yield Misfit(("overlap", "cp"), "cp is 1: there is nothing to hide", "leave overlap.cp out, or cp of at least 2")
    elif _asked(setup, "cp") and layout.cp_mode != "ring":
        what = f"cp_mode {layout.cp_mode} has all keys and values before attention starts: nothing of it hides"
        yield Misfit(("overlap", "cp"), what, "leave overlap.cp out, or layout.cp_mode: ring")
    on = setup.compression.on if setup.compression else ""
    if on == "dp" and layout.dp and setup.gradient_ranks == 1:
        yield Misfit(("compression", "on"), "dp x cp is 1: it sends nothing to compress", "more ranks, or no compression")


def _batches(setup: Setup) -> Iterator[Misfit]:
    if _asked(setup, "ep") and setup.layout.ep > 1 and setup.layout.dp and setup.micro_batches == 1:
        what = "tokens hide under another batch, and a replica has one micro-batch in a step"
        fix = f"batch.global: {2 * setup.global_batch}, a smaller batch.micro, overlap.ep: shared (a shared expert), or false"
        yield Misfit(("overlap", "ep"), what, fix)


def _given_times(setup: Setup) -> Iterator[Misfit]:
    """Times that are given without the part that something should hide under."""
    if setup.compute is None:
        return
    overlap, layers = setup.overlap, "compute: {forward_per_layer: ..., backward_per_layer: ...}"
    if setup.compute.per_layer:
        if _asked(setup, "cp") and setup.layout.cp > 1 and setup.layout.cp_mode == "ring":
            what = "the ring hides under attention, and the given times of a layer say nothing of it"
            yield Misfit(("overlap", "cp"), what, "a device and a stack in place of compute, or leave overlap.cp out")
        return
    wanted = {"tp": overlap.tp, "cp": _asked(setup, "cp"), "ep": bool(overlap.ep),
              "dp": _asked(setup, "dp") and setup.shard.layers and setup.shard.reshard}  # fmt: skip
    for name in (name for name, there in wanted.items() if there):
        what = f"{name} hides under single layers, and compute gives the times of a whole step"
        yield Misfit(("overlap", name), what, f"{layers}, or leave overlap.{name} out")


def _shared_multiprocessors(setup: Setup) -> Iterator[Misfit]:
    if not _asked(setup, "sm_share") or not setup.layout.dp:
        return
    sent = (call for stage in stages_of(setup) for call in stage_calls(setup, stage))
    if all(call.hides in _NO_COVER for call in sent):
        what = "what hides takes multiprocessors from compute, and nothing hides here"
        yield Misfit(("overlap", "sm_share"), what, "leave sm_share out, or let something hide")
