"""A HyperX without switches, that is nested full meshes: all axes busy at once.

``bandwidth`` is of one link, and each axis may have its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import combinations
from math import inf, prod

from colltool.algorithms.program import (
    Batches,
    Program,
    Step,
    equal_chunks,
    gathered,
    schedule,
    step,
)
from colltool.algorithms.registry import JAIN_SABHARWAL, UB_MESH, algorithm
from colltool.base.primitives import AG, AR, RS, Links, Primitive, Terms
from colltool.network.arrays import Indices, np
from colltool.network.group import Group, Topology, all_ports
from colltool.network.wires import HyperXWires

HYPERX: frozenset[Topology] = frozenset({"hyperx"})
_DUST = 1e-12


def several_axes(group: Group) -> str | None:
    """Links between the ranks themselves, along several axes, all of which the group fills."""
    wires = _axes(group)
    if wires is None:
        return "needs links between the ranks themselves: a HyperX without hosts"
    if sum(size > 1 for size in wires.shape) < 2:
        return "one axis is a full mesh: that is direct or two-shot"
    return (
        None
        if wires.endpoints == group.ranks == prod(wires.shape)
        else "the group does not fill every axis"
    )


def _axes(group: Group) -> HyperXWires | None:
    return group.wires if isinstance(group.wires, HyperXWires) and not group.wires.hosts else None


def turned_axes(wires: HyperXWires) -> list[list[int]]:
    """The orders of axes, of which each starts at one and goes round; those of one place left
    out."""
    axes = [axis for axis, size in enumerate(wires.shape) if size > 1]
    return [axes[first:] + axes[:first] for first in range(len(axes))]


@lru_cache(maxsize=64)
def shares(wires: HyperXWires) -> tuple[float, tuple[float, ...]]:
    """Seconds a byte of M that a reduce-scatter takes when parts go over :func:`turned_axes` at
    once, and the part of each.

    Of the parts that make the busiest axis as idle as can be: as many parts as axes that are all
    equally busy, whichever do best.
    """
    orders = turned_axes(wires)
    # of each axis, for a whole payload over each order
    busy = [[0.0] * len(orders) for _ in orders]
    for part, order in enumerate(orders):
        left = 1.0
        for axis in order:
            left /= wires.shape[axis]
            busy[orders[0].index(axis)][part] = left / wires.Bps[axis]
    best: tuple[float, tuple[float, ...]] = (inf, ())
    some = range(len(orders))
    for count in range(1, len(orders) + 1):
        for parts in combinations(some, count):
            for axes in combinations(some, count):
                found = _level([[busy[axis][part] for part in parts] for axis in axes])
                if found is None or min(found) < -_DUST:
                    continue
                whole = [dict(zip(parts, found, strict=True)).get(part, 0.0) for part in some]
                took = max(sum(row[part] * whole[part] for part in some) for row in busy)
                best = min(best, (took, tuple(whole)))
    return best


def _level(busy: Sequence[Sequence[float]]) -> list[float] | None:
    """Parts that add up to 1 and make each row's sum the same; None where there is no such."""
    count = len(busy)
    rows = [[*row, -1.0, 0.0] for row in busy] + [[1.0] * count + [0.0, 1.0]]
    for at in range(count + 1):
        pivot = max(range(at, count + 1), key=lambda one: abs(rows[one][at]))
        if abs(rows[pivot][at]) < _DUST * max(abs(one) for row in rows for one in row):
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for other in range(count + 1):
            if other != at:
                factor = rows[other][at] / rows[at][at]
                rows[other] = [
                    one - factor * here for one, here in zip(rows[other], rows[at], strict=True)
                ]
    return [rows[at][-1] / rows[at][at] for at in range(count)]


_on_all_axes = partial(
    algorithm,
    "all-axes",
    on=HYPERX,
    requires=(several_axes, all_ports),
    source=f"{UB_MESH}; parts in turned orders, as multi-ring on a torus: {JAIN_SABHARWAL}",
    note="phases of the parts overlap: cut finely enough, no link waits for another",
)


@_on_all_axes(
    AR,
    equation=(
        "t = 2k α + 2(N-1)/N M / Σ (d_i - 1) BW_i, where parts can keep every axis as busy as the"
        " others"
    ),
)
def all_axes_all_reduce(group: Group) -> Terms:
    """Direct reduce-scatters along k axes and back as all-gathers, k parts of the payload in turned
    orders at once.

    >>> all_axes_all_reduce(Group(16, "hyperx", wires=HyperXWires(16, 0, (4, 4), (1.0, 1.0), (0.0, 0.0))))[:2]
    (4, 0.3125)
    """
    return _over_all(group, 2)


@_on_all_axes(
    AG,
    RS,
    equation=(
        "t = k α + (N-1)/N M / Σ (d_i - 1) BW_i, where parts can keep every axis as busy as the"
        " others"
    ),
)
def all_axes(group: Group) -> Terms:
    """Direct exchanges along k axes in turn, k parts of the payload in turned orders at once.

    >>> all_axes(Group(16, "hyperx", wires=HyperXWires(16, 0, (4, 4), (1.0, 1.0), (0.0, 0.0))))[:2]
    (2, 0.15625)
    """
    return _over_all(group, 1)


def _over_all(group: Group, times: int) -> Terms:
    wires = _axes(group)
    assert wires is not None  # several_axes let nobody else in
    return Terms(times * len(turned_axes(wires)), times * shares(wires)[0], Links())


@schedule("all-axes", AR, AG, RS, per_pair=lambda _: 8)
def _all_axes(primitive: Primitive, group: Group, _segments: int) -> Program:
    wires = group.wires
    assert isinstance(wires, HyperXWires)  # several_axes let nobody else in
    parts, batches = shares(wires)[1], gathered(primitive, lambda: _gather(wires))
    made = equal_chunks(primitive, group.ranks, group.ranks * len(parts), batches, streamed=True)
    return made._replace(chunk_bytes=np.repeat(np.array(parts) / group.ranks, group.ranks))


def _gather(wires: HyperXWires) -> Batches:
    """Phases from the last axis of each order to its first, all parts at once."""
    orders = turned_axes(wires)
    for phase in reversed(range(len(orders))):
        yield tuple(_exchange(wires, part, order[: phase + 1]) for part, order in enumerate(orders))


def _exchange(wires: HyperXWires, part: int, done: list[int]) -> Step:
    """Along the last of the axes ``done``: each rank's chunks whose owners share its place on all
    of these."""
    ranks, axis = prod(wires.shape), done[-1]
    stride = prod(wires.shape[:axis])
    owner = np.arange(ranks)
    mine = _alike(wires, done)  # a row of ranks for each owner
    src, chunk = mine.ravel(), np.repeat(owner, mine.shape[1])
    turns = np.arange(1, wires.shape[axis])
    place = src // stride % wires.shape[axis]
    to = (place[:, None] + turns) % wires.shape[axis]
    dst = src[:, None] + (to - place[:, None]) * stride
    return step(src[:, None], dst, chunk[:, None] + ranks * part)


def _alike(wires: HyperXWires, done: list[int]) -> Indices:
    """For each rank all that share its place on the axes ``done``, shape (N, others)."""
    ranks = prod(wires.shape)
    places = np.stack(np.unravel_index(np.arange(ranks), wires.shape, order="F"))
    free = [axis for axis in range(len(wires.shape)) if axis not in done]
    sizes = [wires.shape[axis] for axis in free]
    box = np.indices(sizes).reshape(len(free), prod(sizes))
    found = np.repeat(places[:, :, None], box.shape[1], axis=2)
    found[free] = box[:, None, :]
    ranks_of: Indices = np.ravel_multi_index(tuple(found), wires.shape, order="F").astype(np.int64)
    return ranks_of
