"""Sentences beside the cost of a layout: how to read its numbers, and what is special about this one
(:func:`notes_of`)."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.congestion.heat import Heat
from colltool.congestion.jobs import JobBatch
from colltool.congestion.layout_groups import GroupLayout
from colltool.network.arrays import Floats
from colltool.network.links import LinkModel

# Notes of a result: those that every one has, then those of some.
_ALWAYS = (
    (
        "ideal: the same collective alone, packed in as few domains as possible, ring neighbours"
        " one hop apart on a lattice; slowdown: the busiest load/capacity, compared with the ideal's;"
        " eta beta = 1/slowdown, at most 1"
    ),
    (
        "by others: the busiest load/capacity, compared with that of the same group in the same"
        " places alone; tail/mean: its busiest port or link over the mean of that kind"
    ),
    (
        "eta alpha: mean alpha of the paths, compared with the ideal's; extra hops: links of the"
        " longest path beyond the ideal's"
    ),
)
_LINES_APART = (
    "no link carries two groups: lines along one axis have links of their own, however many groups"
    " run at once, so replicas on whole lines do not contend; they do where they interleave, or"
    " where paths turn between axes"
)
_DIFFERENT = (
    "groups differ: a slowdown counts the busiest link's time for all of them, not only while they"
    " overlap"
)
_RAILS = (
    "rails: a leaf joins ports of one rail (position in the domain modulo rails). A message changes"
    " rail inside its domain where its group has the neighbour on that rail; otherwise it climbs to"
    " the last level"
)
_SKEW = (
    "skew: compared with the uniform all-to-all that moves as many bytes; the diagonal stays at"
    " home"
)
_LIMITS = (
    "Static loads: no packets, queues, congestion control or adaptive routing, and steps are added"
    " up. For those use a simulator: ns-3, htsim, SST or ASTRA-sim."
)


def notes_of(
    models: Sequence[LinkModel],
    batches: Sequence[JobBatch],
    groups: Sequence[GroupLayout],
    slowdowns: Floats,
    heat: Heat,
    *,
    skewed: bool,
) -> tuple[str, ...]:
    """The notes of a result; those that always hold come first and last.

    Args:
        models: of all tiers, innermost first.
        slowdowns: of the groups, shape (groups,).
        heat: filled with the loads of all classes.
        skewed: an all-to-all is not uniform.
    """
    notes = list(_ALWAYS)
    used = [models[tier] for tier in heat.tiers]
    least = float(slowdowns.min())
    on_lattice = any(model.hop_alpha_s is not None for model in used)
    all_rings = all(batch.job.algorithm == "ring" for batch in batches)
    are_apart = len(groups) > 1 and not heat.shared and float(slowdowns.max()) == 1
    if on_lattice and all_rings and are_apart:
        notes.append(_LINES_APART)
    if least < 1 - 1e-9:  # not by the rounding of sums
        best = f"group '{groups[int(slowdowns.argmin())].name}', {least:.4g} of its load"
        notes.append(f"better than the packed ideal that price assumes: {best}")
    runs = {(batch.job.primitive, batch.job.size, batch.ends.shape[1]) for batch in batches}
    if len(runs) > 1:
        notes.append(_DIFFERENT)
    if any(model.rails > 1 for model in used):
        notes.append(_RAILS)
    if skewed:
        notes.append(_SKEW)
    return (*notes, _LIMITS)
