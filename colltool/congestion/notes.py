"""What a reader of a result should know."""

from collections.abc import Sequence

from colltool.congestion.arrays import Floats
from colltool.congestion.groups import GroupLayout
from colltool.congestion.hottest import Heat
from colltool.congestion.runs import Batch

_ALWAYS = (
    "ideal: the same collective alone, packed in as few domains as possible, ring neighbours one hop apart on a lattice; "
    "slowdown: busiest load/capacity against the ideal's; eta_beta = 1/slowdown, at most 1",
    "neighbours: the busiest load/capacity against that of the same group in the same places alone; "
    "tail/mean: its busiest port or link over the mean of that kind",
    "eta_alpha: mean alpha of the paths against the ideal's; extra hops: links of the longest path beyond the ideal's",
)
_LINES_APART = (
    "no link carries two groups: lines along one axis have links of their own, however many groups run at once, so "
    "replicas on whole lines do not contend; they do where they interleave, or where paths turn between axes"
)
_DIFFERENT = "groups differ: a slowdown is how long the busiest link needs for all of them, not only while they overlap"
_RAILS = (
    "rails: a leaf joins ports of one rail (position in the domain modulo rails). A message changes rail inside its "
    "domain where its group has the neighbour on that rail; otherwise it climbs to the last level"
)
_SKEW = "skew: compared with the uniform all-to-all that moves as many bytes; the diagonal stays at home"
_LIMITS = (
    "Static loads: no packets, queues, congestion control or adaptive routing, and steps are added up. For those turn to a "
    "simulator: ns-3, htsim, SST or ASTRA-sim."
)


def notes(
    batches: Sequence[Batch], groups: Sequence[GroupLayout], slowdowns: Floats, heat: Heat, *, skewed: bool
) -> tuple[str, ...]:
    """What holds for this result, what always does first and last."""
    out = list(_ALWAYS)
    used = [heat.wires[tier] for tier in heat.tiers]
    lattice = any(one.hop_alpha_s is not None for one in used)
    rings = all(batch.run.algorithm == "ring" for batch in batches)
    if lattice and rings and len(groups) > 1 and not heat.shared and float(slowdowns.max()) == 1:
        out.append(_LINES_APART)
    if float(slowdowns.min()) < 1 - 1e-9:
        best, share = groups[int(slowdowns.argmin())].name, f"{float(slowdowns.min()):.4g} of its load"
        out.append(f"better than the packed ideal, which is what price assumes: group '{best}', {share}")
    if len({(batch.run.primitive, batch.run.size, batch.ends.shape[1]) for batch in batches}) > 1:
        out.append(_DIFFERENT)
    if any(one.rails > 1 for one in used):
        out.append(_RAILS)
    if skewed:
        out.append(_SKEW)
    return (*out, _LIMITS)
