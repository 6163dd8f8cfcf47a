"""Tori and k-D meshes: axis by axis, over links to neighbours. ``bandwidth`` is one link's, one direction.

An axis of 1 has no link, of 2 one link, of 3 or more two per rank. On a mesh an axis is an open line, which uses both
directions of its links and so needs the same steps and bytes as a ring in one direction.
"""

from __future__ import annotations

from colltool.algorithms.registry import LATTICE, Axis, Group, Topology, algorithm
from colltool.cost import Links, Schedule, Terms
from colltool.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive, log2_ceil

_CHPV07 = "Chan, Heimlich, Purkayastha, van de Geijn 2007, CCPE 19(13)"
_SHIPPED_BY = ("XLA", "NeuronX CCL")
TORUS: frozenset[Topology] = frozenset({"torus"})


def closed_axes(group: Group) -> str | None:
    """Both directions of a ring exist only where the group covers the whole axis of a torus."""
    for number, axis in enumerate(group.axes, start=1):
        if axis.size >= 3 and not axis.wrap:
            return f"needs wraparound on every axis; the group's {axis.size} ranks along axis {number} are an open line"
    return None


def power_of_two_axes(group: Group) -> str | None:
    """Halving and doubling along an axis needs a power of two."""
    odd = [axis.size for axis in group.axes if axis.size & (axis.size - 1)]
    return f"needs a power-of-two size on every axis, got {odd[0]}" if odd else None


def busiest_link(axis: Axis) -> float:
    """f(d): bytes through the busiest link of an axis in a uniform all-to-all, in units of M, ties split over both ways.

    Torus, d >= 3: floor(d²/4)/(2d); d = 2: 1/2; line: floor(d²/4)/d; d = 1: 0. For even d >= 4 on a torus it is d/8.
    """
    crossing = (axis.size * axis.size) // 4 / axis.size
    return crossing / 2 if axis.is_ring else crossing


def _axis_phases(group: Group, steps: dict[int, int], loads: dict[int, float], primitive: Primitive) -> Schedule:
    """A reduce-scatter axis by axis, its payload shrinking; an all-gather is that backwards, an all-reduce both.

    ``steps`` and ``loads`` give each axis number its n_α, and its n_β in units of the payload that reaches it.
    """
    payload, scatter = 1.0, []
    for number, axis in enumerate(group.axes):
        if axis.size > 1:
            label = f"axis {number + 1} ({axis.size})"
            scatter.append(Terms(steps[number], loads[number], Links(), payload, primitive=RS, label=label, ranks=axis.size))
        payload /= axis.size
    gather = [terms._replace(primitive=AG) for terms in reversed(scatter)]
    return tuple({AR: scatter + gather, RS: scatter, AG: gather}[primitive])


def _ring_loads(group: Group) -> dict[int, float]:
    return {number: (axis.size - 1) / axis.size for number, axis in enumerate(group.axes)}


def _bidirectional_loads(group: Group) -> dict[int, float]:
    return {number: load / (2 if group.axes[number].is_ring else 1) for number, load in _ring_loads(group).items()}


def _dim_ring(group: Group, primitive: Primitive) -> Schedule:
    return _axis_phases(group, {k: axis.size - 1 for k, axis in enumerate(group.axes)}, _ring_loads(group), primitive)


def _bidirectional(group: Group, primitive: Primitive) -> Schedule:
    return _axis_phases(group, {k: axis.size // 2 for k, axis in enumerate(group.axes)}, _bidirectional_loads(group), primitive)


@algorithm("dim-ring", AR, on=LATTICE, shipped_by=_SHIPPED_BY, source=f"{_CHPV07}; rings per axis", baseline=True, usual=True)
def dim_ring_all_reduce(group: Group) -> Schedule:
    """Dimension-decomposed ring: reduce-scatter along each axis in turn, then all-gather in reverse.

    t = 2 Σ(d_i - 1) α + 2(N-1)/N M/BW

    The payload shrinks by d_i at each axis, and the sum telescopes. One direction of each ring; both on an open line.
    """
    return _dim_ring(group, AR)


@algorithm("dim-ring", RS, on=LATTICE, shipped_by=_SHIPPED_BY, source=f"{_CHPV07}; rings per axis", baseline=True, usual=True)
def dim_ring_reduce_scatter(group: Group) -> Schedule:
    """Dimension-decomposed ring reduce-scatter, axis after axis.

    t = Σ(d_i - 1) α + (N-1)/N M/BW
    """
    return _dim_ring(group, RS)


@algorithm("dim-ring", AG, on=LATTICE, shipped_by=_SHIPPED_BY, source=f"{_CHPV07}; rings per axis", baseline=True, usual=True)
def dim_ring_all_gather(group: Group) -> Schedule:
    """Dimension-decomposed ring all-gather, last axis first.

    t = Σ(d_i - 1) α + (N-1)/N M/BW
    """
    return _dim_ring(group, AG)


_BOTH_WAYS = "both directions of each ring: steps and bytes per direction halve; what torus stacks add to the textbooks"


@algorithm("dim-ring-bidirectional", AR, on=TORUS, requires=(closed_axes,), shipped_by=("XLA",), source=_BOTH_WAYS, usual=True)
def bidirectional_all_reduce(group: Group) -> Schedule:
    """Dimension-decomposed ring, both directions at once.

    t = 2 Σ floor(d_i/2) α + bytes halved on axes of 3 and more

    An axis of 2 has a single link and gains nothing.
    """
    return _bidirectional(group, AR)


@algorithm("dim-ring-bidirectional", RS, on=TORUS, requires=(closed_axes,), shipped_by=("XLA",), source=_BOTH_WAYS, usual=True)
def bidirectional_reduce_scatter(group: Group) -> Schedule:
    """Dimension-decomposed ring reduce-scatter, both directions at once.

    t = Σ floor(d_i/2) α + bytes halved on axes of 3 and more
    """
    return _bidirectional(group, RS)


@algorithm("dim-ring-bidirectional", AG, on=TORUS, requires=(closed_axes,), shipped_by=("XLA",), source=_BOTH_WAYS, usual=True)
def bidirectional_all_gather(group: Group) -> Schedule:
    """Dimension-decomposed ring all-gather, both directions at once.

    t = Σ floor(d_i/2) α + bytes halved on axes of 3 and more
    """
    return _bidirectional(group, AG)


def _multi_ring(group: Group, primitive: Primitive) -> Schedule:
    """k parts, each over the axes in its own rotation; step p costs its slowest part, in α and in bytes."""
    axes = [axis for axis in group.axes if axis.size > 1]
    k = len(axes)
    shrunk = [1.0 / k] * k
    scatter = []
    for step in range(k):
        used = [axes[(part + step) % k] for part in range(k)]
        loads = [shrunk[part] * (axis.size - 1) / axis.size / (2 if axis.is_ring else 1) for part, axis in enumerate(used)]
        hops = max(axis.size // 2 for axis in used)
        scatter.append(Terms(hops, max(loads), Links(), primitive=RS, label=f"step {step + 1} of {k}"))
        shrunk = [payload / axis.size for payload, axis in zip(shrunk, used, strict=True)]
    gather = [terms._replace(primitive=AG) for terms in reversed(scatter)]
    return tuple({AR: scatter + gather, RS: scatter, AG: gather}[primitive])


_ALL_AXES = "all axes busy at once: the bandwidth that the JAX scaling book prices as W_ici times axes"


@algorithm("multi-ring", AR, on=TORUS, requires=(closed_axes,), shipped_by=("XLA",), source=_ALL_AXES)
def multi_ring_all_reduce(group: Group) -> Schedule:
    """Multi-ring: the payload in k parts, each running the axes in a rotated order, every ring in both directions.

    t = per step the slowest of its k parts; on a cube of k axes n_α = 2k floor(d/2) and n_β = 2(N-1)/N / (2k)

    On unequal axes a step takes the longest α and the largest load of its parts: what it costs when parts wait for each other
    only between phases.
    """
    return _multi_ring(group, AR)


@algorithm("multi-ring", RS, on=TORUS, requires=(closed_axes,), shipped_by=("XLA",), source=_ALL_AXES)
def multi_ring_reduce_scatter(group: Group) -> Schedule:
    """Multi-ring reduce-scatter: k parts on k axes at once, every ring in both directions.

    t = per step the slowest of its k parts; on a cube n_β = (N-1)/N / (2k)
    """
    return _multi_ring(group, RS)


@algorithm("multi-ring", AG, on=TORUS, requires=(closed_axes,), shipped_by=("XLA",), source=_ALL_AXES)
def multi_ring_all_gather(group: Group) -> Schedule:
    """Multi-ring all-gather: k parts on k axes at once, every ring in both directions.

    t = per step the slowest of its k parts; on a cube n_β = (N-1)/N / (2k)
    """
    return _multi_ring(group, AG)


@algorithm(
    "dim-rabenseifner",
    AR,
    on=LATTICE,
    requires=(power_of_two_axes,),
    source=f"{_CHPV07}; halving and doubling per axis",
    note="takes every partner to be one hop away and links unshared; on ring wiring they are up to d/2 hops away",
    status="idealised",
)
def dim_rabenseifner(group: Group) -> Schedule:
    """Rabenseifner along each axis in turn, idealised.

    t = 2 Σ lg d_i α + 2(N-1)/N M/BW

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links, neither of which is
    counted. Needs a power of two on every axis.
    """
    steps = {k: log2_ceil(axis.size) for k, axis in enumerate(group.axes)}
    return _axis_phases(group, steps, _ring_loads(group), AR)


@algorithm("dim-chain", BC, REDUCE, on=LATTICE, source=f"{_CHPV07}; a pipelined chain per axis", baseline=True, usual=True)
def dim_chain(group: Group) -> Terms:
    """Dimension-ordered chain, pipelined: along axis 1, then all lines of axis 2, and so on.

    t = Σ(d_i - 1) α + M/BW (asymptotic); t(P) with L = Σ(d_i - 1)
    """
    depth = sum(axis.size - 1 for axis in group.axes)
    return Terms(depth, 1, Links(), fill=depth)


@algorithm(
    "dim-chain-bidirectional",
    BC,
    REDUCE,
    on=TORUS,
    requires=(closed_axes,),
    shipped_by=_SHIPPED_BY,
    source=_BOTH_WAYS,
    usual=True,
)
def dim_chain_bidirectional(group: Group) -> Terms:
    """Dimension-ordered chain that leaves the root both ways round each ring, pipelined.

    t = Σ floor(d_i/2) α + M/BW (asymptotic); t(P) with L = Σ floor(d_i/2)
    """
    depth = sum(axis.size // 2 for axis in group.axes)
    return Terms(depth, 1, Links(), fill=depth)


def _diameter(group: Group) -> int:
    return sum(axis.size // 2 if axis.is_ring else axis.size - 1 for axis in group.axes)


@algorithm(
    "shortest-path",
    A2A,
    on=LATTICE,
    shipped_by=_SHIPPED_BY,
    source="bisection bound; loads counted link by link",
    baseline=True,
    usual=True,
)
def shortest_path(group: Group) -> Terms:
    """All-to-all along shortest paths, all axes at once.

    t = diameter α + max_i f(d_i) M/BW, f the load of the busiest link of an axis

    f(d) is d/8 on a torus axis of even d >= 4, d/4 on a mesh: the longest axis sets the time. Ring relay is this, on a ring.
    """
    return Terms(_diameter(group), max(busiest_link(axis) for axis in group.axes), Links())


@algorithm("dim-by-dim", A2A, on=LATTICE, source="one axis after the other; loads counted link by link", usual=True)
def dim_by_dim(group: Group) -> Schedule:
    """All-to-all one axis after the other, regrouping the chunks in between.

    t = diameter α + Σ_i f(d_i) M/BW
    """
    parts = []
    for number, axis in enumerate(group.axes, start=1):
        if axis.size > 1:
            hops = axis.size // 2 if axis.is_ring else axis.size - 1
            parts.append(Terms(hops, busiest_link(axis), Links(), label=f"axis {number} ({axis.size})", ranks=axis.size))
    return tuple(parts)
