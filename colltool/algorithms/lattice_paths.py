"""What leaves the rings of tori and k-D meshes: chains from a root, and all-to-all by shortest paths."""

from __future__ import annotations

from colltool.algorithms.group import LATTICE, Axis, Group, all_ports
from colltool.algorithms.lattice import BOTH_WAYS, LATTICE_LIBRARIES, TORUS, closed_axes
from colltool.algorithms.references import CHAN
from colltool.algorithms.registry import algorithm
from colltool.base.primitives import A2A, BC, REDUCE, Links, Schedule, Terms, totals  # noqa: F401  (totals: of the examples)


def busiest_link(axis: Axis) -> float:
    """f(d): bytes through the busiest link of an axis in a uniform all-to-all, in units of M, ties split over both ways.

    Torus, d >= 3: floor(d²/4)/(2d); d = 2: 1/2; line: floor(d²/4)/d; d = 1: 0. For even d >= 4 on a torus it is d/8.
    """
    crossing = (axis.size * axis.size) // 4 / axis.size
    return crossing / 2 if axis.is_ring else crossing


@algorithm(
    "dim-chain",
    BC,
    REDUCE,
    on=LATTICE,
    source=f"{CHAN}; a pipelined chain per axis",
    baseline=True,
    usual=True,
    equation="t = Σ(d_i - 1) α + M/BW (asymptotic); t(P) with L = Σ(d_i - 1)",
)
def dim_chain(group: Group) -> Terms:
    """Dimension-ordered chain, pipelined: along axis 1, then all lines of axis 2, and so on.

    >>> dim_chain(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True))))[:2]
    (4, 1)
    """
    depth = sum(axis.size - 1 for axis in group.axes)
    return Terms(depth, 1, Links(), fill=depth)


@algorithm(
    "dim-chain-bidirectional",
    BC,
    REDUCE,
    on=TORUS,
    requires=(closed_axes, all_ports),
    shipped_by=LATTICE_LIBRARIES,
    source=BOTH_WAYS,
    usual=True,
    equation="t = Σ floor(d_i/2) α + M/BW (asymptotic); t(P) with L = Σ floor(d_i/2)",
)
def dim_chain_bidirectional(group: Group) -> Terms:
    """Dimension-ordered chain that leaves the root both ways round each ring, pipelined.

    >>> dim_chain_bidirectional(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True))))[:2]
    (3, 1)
    """
    depth = sum(axis.size // 2 for axis in group.axes)
    return Terms(depth, 1, Links(), fill=depth)


@algorithm(
    "dim-chain-middle",
    BC,
    REDUCE,
    on=frozenset({"mesh"}),
    requires=(all_ports,),
    source=f"{CHAN}; chains both ways from a root in the middle",
    note="takes the root to stand in the middle of the mesh; from a corner it is dim-chain",
    status="idealised",
    equation="t = Σ ceil((d_i - 1)/2) α + M/BW (asymptotic); t(P) with L = Σ ceil((d_i - 1)/2)",
)
def dim_chain_middle(group: Group) -> Terms:
    """Dimension-ordered chain from a root in the middle of a mesh, both ways along each axis, pipelined.

    Half the depth of a root in a corner. On a torus every rank is in the middle: dim-chain-bidirectional.

    >>> dim_chain_middle(Group(512, "mesh", (Axis(8, wrap=False),) * 3))[:2]
    (12, 1)
    """
    depth = sum(axis.size // 2 for axis in group.axes)
    return Terms(depth, 1, Links(), fill=depth)


def _diameter(group: Group) -> int:
    return sum(axis.size // 2 if axis.is_ring else axis.size - 1 for axis in group.axes)


@algorithm(
    "shortest-path",
    A2A,
    on=LATTICE,
    shipped_by=LATTICE_LIBRARIES,
    source="the bisection bound, reached: loads counted link by link by executing it (colltool verify)",
    baseline=True,
    usual=True,
    equation="t = diameter α + max_i f(d_i) M/BW, f the load of the busiest link of an axis",
)
def shortest_path(group: Group) -> Terms:
    """All-to-all along shortest paths, all axes at once.

    f(d) is d/8 on a torus axis of even d >= 4, d/4 on a mesh: the longest axis sets the time. Ring relay is this, on a ring.

    >>> shortest_path(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True))))[:2]
    (3, 0.5)
    >>> shortest_path(Group(16, "mesh", (Axis(4, wrap=False), Axis(4, wrap=False))))[:2]
    (6, 1.0)
    """
    return Terms(_diameter(group), max(busiest_link(axis) for axis in group.axes), Links())


@algorithm(
    "dim-by-dim",
    A2A,
    on=LATTICE,
    source="loads counted link by link by executing it (colltool verify)",
    usual=True,
    equation="t = diameter α + Σ_i f(d_i) M/BW",
)
def dim_by_dim(group: Group) -> Schedule:
    """All-to-all one axis after the other, regrouping the chunks in between.

    >>> totals(dim_by_dim(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 1.0)
    """
    parts = []
    for number, axis in enumerate(group.axes, start=1):
        if axis.size > 1:
            hops = axis.size // 2 if axis.is_ring else axis.size - 1
            parts.append(Terms(hops, busiest_link(axis), Links(), label=f"axis {number} ({axis.size})", ranks=axis.size))
    return tuple(parts)
