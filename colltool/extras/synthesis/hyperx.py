"""Collectives that keep all axes of a HyperX without switches (nested full meshes) busy at once:
the algorithm all-axes.

The payload is cut into parts, which go over the axes in different orders (:func:`axis_orders`), with
sizes such that all axes are equally busy (:func:`axis_split`). Each axis has its own bandwidth of a link,
``wires.Bps[axis]``; rank numbers count along axis 0 first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain, combinations, product
from math import inf, prod
from operator import mul

from colltool.algorithms.program import (
    Batches,
    Program,
    Step,
    equal_chunks,
    gather_or_reverse,
    schedule,
    step,
)
from colltool.algorithms.registry import JAIN_SABHARWAL, UB_MESH, algorithm
from colltool.base.primitives import AG, AR, RS, Links, Primitive, Terms
from colltool.network.arrays import Indices, np
from colltool.network.group import Group, Topology, all_ports
from colltool.network.wires import HyperXWires

HYPERX: frozenset[Topology] = frozenset({"hyperx"})
# shares smaller than it, and pivots relative to the largest number, are rounding errors
_ROUNDING = 1e-12


def several_axes(group: Group) -> str | None:
    """Links between the ranks themselves, along several axes, all of which the group fills."""
    wires = _axes(group)
    if wires is None:
        return "needs links between the ranks themselves: a HyperX without hosts"
    if sum(size > 1 for size in wires.shape) < 2:
        return "one axis is a full mesh: that is direct or two-shot"
    if not wires.endpoints == group.ranks == prod(wires.shape):
        return "the group does not fill every axis"
    return None


def _axes(group: Group) -> HyperXWires | None:
    """The wires of a group whose ranks are the nodes of a HyperX; None of any other."""
    if isinstance(group.wires, HyperXWires) and not group.wires.hosts:
        return group.wires
    return None


def axis_orders(wires: HyperXWires) -> list[list[int]]:
    """The cyclic orders of the axes with more than one place, one starting at each: of axes 0, 1 and 2 these
    are 0 1 2, 1 2 0 and 2 0 1."""
    axes = [axis for axis, size in enumerate(wires.shape) if size > 1]
    return [axes[start:] + axes[:start] for start in range(len(axes))]


@lru_cache(maxsize=64)
def axis_split(wires: HyperXWires) -> tuple[float, tuple[float, ...]]:
    """Return the seconds per byte of M of a reduce-scatter over all :func:`axis_orders` at once, and the
    share of M that goes over each.

    The best shares minimise the time of the busiest axis: a linear programme, whose optimum is at a
    corner where as many parts as axes are used and these axes are equally busy. All corners are
    tried.

    On 4 x 2 ranks with links of 1 byte/s an axis is busy for 1/4 s a byte of the order that begins
    with it and 1/8 s of the other, the second axis for 1/2 and 1/8 s: with 3/4 of M in the first
    order both are busy for 7/32 s.
    """
    orders = axis_orders(wires)
    busy_s = _busy_s(wires, orders)  # busy_s[axis][part]: a part is what goes over one order
    every = range(len(orders))  # there are as many axes as orders
    best: tuple[float, tuple[float, ...]] = (inf, ())
    for used in range(1, len(orders) + 1):
        for parts, axes in product(combinations(every, used), repeat=2):
            rows = []
            for axis in axes:
                rows.append([busy_s[axis][part] for part in parts])
            # a corner that needs a negative share is outside of the problem
            corner = _equal_shares(rows)
            if corner is None or min(corner) < -_ROUNDING:
                continue
            split = [0.0] * len(orders)
            for part, share in zip(parts, corner, strict=True):
                split[part] = share
            seconds = max(sum(map(mul, row, split)) for row in busy_s)
            best = min(best, (seconds, tuple(split)))
    return best


def _busy_s(wires: HyperXWires, orders: list[list[int]]) -> list[list[float]]:
    """Seconds per byte that each axis is busy if all of the payload takes an order, by axis and order. An axis
    of 4 places leaves a quarter of the bytes to those after it."""
    rows = {axis: [0.0] * len(orders) for axis in orders[0]}
    for part, order in enumerate(orders):
        link_bytes = 1.0  # that a link of the axis carries, of a byte of the payload
        for axis in order:
            link_bytes /= wires.shape[axis]
            rows[axis][part] = link_bytes / wires.Bps[axis]
    return list(rows.values())


def _equal_shares(busy_s: Sequence[Sequence[float]]) -> list[float] | None:
    """Shares of the parts that add up to 1 and make all axes equally busy; None if there are none.
    ``busy_s``: by axis and part, as many of both.

    Gauss elimination by hand: numpy's result differs in the last digits, which recorded prices have.
    """
    count = len(busy_s)
    # unknowns: the shares, and the time t that all axes have in common; each row is an equation with
    # its right side last: busy_s · shares - t = 0 of each axis, and the sum of shares = 1
    rows = [[*row, -1.0, 0.0] for row in busy_s]
    rows.append([1.0] * count + [0.0, 1.0])
    for column in range(count + 1):
        pivot = max(range(column, count + 1), key=lambda row: abs(rows[row][column]))
        largest = max(map(abs, chain.from_iterable(rows)))
        if abs(rows[pivot][column]) < _ROUNDING * largest:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for other, row in enumerate(rows):
            if other != column:
                factor = row[column] / rows[column][column]
                rows[other] = [
                    value - factor * pivot_value
                    for value, pivot_value in zip(row, rows[column], strict=True)
                ]
    return [rows[column][-1] / rows[column][column] for column in range(count)]


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
    """The terms of so many passes over all axes."""
    wires = _axes(group)
    assert wires is not None  # several_axes requires it
    return Terms(times * len(axis_orders(wires)), times * axis_split(wires)[0], Links())


# Chunk n + N * part is a part of rank n's result. In a phase along an axis every rank sends each other
# rank on it the chunks that this one still has to hold: those whose owners share its place on the axes
# of this and the earlier phases.


@schedule("all-axes", AR, AG, RS, per_pair=lambda _: 8)
def _all_axes(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The phases of all parts at once, a part by its share of M."""
    wires = _axes(group)
    assert wires is not None  # several_axes requires it
    _, shares = axis_split(wires)
    batches = gather_or_reverse(primitive, lambda: _gather(wires))
    program = equal_chunks(
        primitive, group.ranks, group.ranks * len(shares), batches, streamed=True
    )
    return program._replace(chunk_bytes=np.repeat(np.array(shares) / group.ranks, group.ranks))


def _gather(wires: HyperXWires) -> Batches:
    """The phases of an all-gather, from the last axis of each order to its first, all parts at
    once."""
    orders = axis_orders(wires)
    for phase in reversed(range(len(orders))):
        yield tuple(_exchange(wires, part, order[: phase + 1]) for part, order in enumerate(orders))


def _exchange(wires: HyperXWires, part: int, done: list[int]) -> Step:
    """The messages of a part along the last of the axes ``done``: each rank's chunks whose owners
    share its place on all of these."""
    axis = done[-1]
    ranks = prod(wires.shape)
    stride = prod(wires.shape[:axis])
    owner, src = np.nonzero(_same_places(wires, done))  # shape (pairs,); messages: (pairs, turns)
    # Of 4 x 2 ranks along axis 0, rank 6 is at place 2 (stride 1): it sends to places 3, 0 and 1.
    place = src // stride % wires.shape[axis]
    turns = np.arange(1, wires.shape[axis])
    to = (place[:, None] + turns) % wires.shape[axis]
    dst = src[:, None] + (to - place[:, None]) * stride
    return step(src[:, None], dst, owner[:, None] + ranks * part)


def _same_places(wires: HyperXWires, axes: list[int]) -> Indices:
    """Whether each two ranks share their places on these axes, shape (N, N)."""
    ranks = np.arange(prod(wires.shape))
    same = np.ones((len(ranks), len(ranks)), dtype=bool)
    for axis in axes:
        place = ranks // prod(wires.shape[:axis]) % wires.shape[axis]
        same &= place[:, None] == place
    return same
