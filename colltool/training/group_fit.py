"""Groups of a job on a fabric that they do not tile: what is priced in their place.

The fabric is padded to whole strides (:func:`in_strides`), the group is split along the axes of a
lattice (:func:`along_axes`), or a pair is the nearest one that there is (:func:`nearest_pair`).
:func:`job_slice` cuts a lattice to the ranks of the job, and :func:`slice_of` says which slice that
was. :func:`reordered_axes` words a hint for an error: another order of a lattice's axes.
"""

from __future__ import annotations

from itertools import permutations

from colltool.base.formatting import Shape
from colltool.base.primitives import ceil_div
from colltool.estimate.placement import every_stride
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.group import sizes_of
from colltool.training.parallel_config import EvenRanks, RankGroup


def in_strides(fabric: Fabric, stride: int) -> Fabric:
    """Return the fabric with an outermost tier that holds whole strides: for pipeline stages of 4
    nodes, 35 nodes become 36, and leaves of 18 nodes leaves of 16.

    The tier grows to the next whole stride, which changes no price of a group that ends before it.
    The nodes under a leaf shrink to whole strides, or to a part of one, so that slightly more pairs
    cross the switches above.

    The fabric itself where it is even already; where its outermost tier is a lattice; and where the
    stride is less than two nodes, no whole number of them, or the tier or more.
    """
    tier = fabric.tiers[-1]
    abilities = capabilities_of(tier)
    node_ranks = fabric.ranks // tier.endpoints  # behind an endpoint of the outermost tier
    nodes = stride // node_ranks  # of a stride
    # lattices have other ways, and shorter strides end inside a node
    if abilities.axes or nodes < 2 or stride % node_ranks or nodes >= tier.endpoints:
        return fabric
    size = ceil_div(tier.endpoints, nodes) * nodes
    levels = []
    for number, level in enumerate(abilities.levels, 1):
        # the last switches join everything, so they grow with the tier
        if number == len(abilities.levels):
            group = max(size, level.group)
        else:
            group = _aligned(level.group, nodes)
        levels.append(level.model_copy(update={"group": group}))
    if size == tier.endpoints and tuple(levels) == abilities.levels:
        return fabric
    changed: dict[str, object] = {"size": size}
    if levels:
        changed["levels"] = tuple(levels)
    grown = tier.model_copy(update=changed)
    return fabric.model_copy(update={"tiers": (*fabric.tiers[:-1], grown)})


def _aligned(group: int, nodes: int) -> int:
    """Nodes under a switch, ``group`` of them, rounded down to whole strides of ``nodes``, or to a
    divisor of a stride."""
    if group >= nodes:
        return group // nodes * nodes
    return max(part for part in range(1, group + 1) if nodes % part == 0)


# (the ranks on an axis, how many groups of the job share its links), innermost axis first
Parts = tuple[tuple[EvenRanks, float], ...]


def along_axes(fabric: Fabric, ranks: int, stride: int) -> Parts:
    """Split a group of evenly spaced ranks along the axes of a fabric's lattices.

    Tiers that are no lattice count as one axis. The parts are empty where the group does not tile the
    axes, and where no tier is a lattice.

    Where a group has every ``step``-th rank of an axis, ``step`` interleaved groups share its links.
    On 4x8 four ranks with stride 2 are two of the first axis, shared by two groups, times two of the
    second: ((2, 1), 2.0) and ((2, 4), 1.0).
    """
    sizes: list[int] = []
    for tier in fabric.tiers:
        axes = capabilities_of(tier).axes
        if axes:
            sizes += sizes_of(axes)
        else:
            sizes.append(tier.endpoints)
    # no tier is a lattice
    if len(sizes) == len(fabric.tiers):
        return ()
    parts: list[tuple[EvenRanks, float]] = []
    axis_stride = 1  # distance in ranks of two neighbours on the axis
    remaining = ranks  # of the group's members, those that no axis before has taken apart
    step = stride  # distance of neighbouring members, in places of the axis
    for size in sizes:
        if remaining == 1:
            break
        if step % size == 0:  # the group has no two members on this axis
            step //= size
        elif size % step:
            return ()
        else:
            members = min(remaining, size // step)
            if remaining % members:
                return ()
            parts.append((EvenRanks(members, axis_stride), float(step)))
            remaining //= members
            step = 1  # the group fills the axes beyond its first one
        axis_stride *= size
    if remaining > 1:
        return ()
    return tuple(parts)


def nearest_pair(fabric: Fabric, ranks: int, stride: int) -> Parts:
    """Return the next farther pair for two ranks at a distance that no group of the fabric has,
    such as the ends of a pipeline; the farthest that there is, where none is farther. Empty for
    groups of other than two ranks."""
    strides = every_stride(fabric)  # that pairs of the fabric may have
    if ranks != 2 or not strides:
        return ()
    farther = [distance for distance in strides if distance >= stride]
    nearest = min(farther, default=max(strides))
    return ((EvenRanks(2, nearest), 1.0),)


def job_slice(fabric: Fabric, ranks: int) -> Fabric:
    """Return the fabric with its lattice cut to the slice that the ranks of a job take.

    The fabric itself where they take all of it, or no slice has that many.

    Every group of the job lies in the slice and follows its axes: 256 chips are 4x8x8, so a tensor
    group of 16 is a box there, even if the whole lattice has axes of 16.
    """
    domain_ranks = 1  # behind an endpoint of the tier
    for index, tier in enumerate(fabric.tiers):
        # the job takes several domains of this tier: only the next one may be cut
        if domain_ranks * tier.endpoints < ranks:
            domain_ranks *= tier.endpoints
            continue
        abilities = capabilities_of(tier)
        if not abilities.axes or ranks % domain_ranks or ranks == domain_ranks * tier.endpoints:
            return fabric
        part = abilities.slice(ranks // domain_ranks)
        if part is None:
            return fabric
        tiers = list(fabric.tiers)
        tiers[index] = part
        return fabric.model_copy(update={"tiers": tuple(tiers)})
    return fabric


def slice_of(fabric: Fabric, cut: Fabric) -> tuple[Tier, Shape] | None:
    """Return the tier whose lattice :func:`job_slice` cut, and the shape of the slice; None where
    it cut none."""
    for tier, part in zip(fabric.tiers, cut.tiers, strict=True):
        if tier != part:
            return tier, sizes_of(capabilities_of(part).axes)
    return None


def reordered_axes(fabric: Fabric, group: RankGroup) -> str:
    """Return the override that orders the axes of a lattice so that a group is a box, such as
    ``ici.shape=[8,8,4]``; empty where no order does, or the fabric is more than one tier. ``group``
    has no box on the lattice as it is.

    Every 8th rank of 4x8x8 is no box, every 8th of 8x8x4 is.
    """
    tier = fabric.tiers[0]
    if len(fabric.tiers) > 1 or len(group.axes) > 1:
        return ""
    size, stride = group.axes[0]
    shape = sizes_of(capabilities_of(tier).axes)
    # the shape with the longest axes first that has the group as a box
    for other_shape in sorted(set(permutations(shape)), reverse=True):
        # wraparound is given by axis, so the default takes its place
        reordered = tier.model_copy(update={"shape": other_shape, "wrap": None})
        abilities = capabilities_of(reordered)
        if abilities.takes_stride(stride) and abilities.part(size, stride) is not None:
            axes = ",".join(map(str, other_shape))
            return f"{tier.name}.shape=[{axes}]"
    return ""
