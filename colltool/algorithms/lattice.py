"""Rings on tori and k-D meshes: axis by axis, over links to neighbours. ``bandwidth`` is one link's, one direction.

An axis of 1 has no link, of 2 one link, of 3 or more two per rank. On a mesh an axis is an open line, which uses both
directions of its links and so needs the same steps and bytes as a ring in one direction.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.group import LATTICE, Group, Topology, all_ports
from colltool.algorithms.references import CHAN, JAIN_SABHARWAL
from colltool.algorithms.registry import algorithm
from colltool.base.cost import Links, Schedule, Terms
from colltool.base.primitives import AG, AR, RS, Primitive, log2_ceil

LATTICE_LIBRARIES = ("XLA", "NeuronX CCL")
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
    steps = {number: axis.ring_steps(one_port=group.one_port) for number, axis in enumerate(group.axes)}
    return {number: steps[number] / axis.size for number, axis in enumerate(group.axes)}


def _bidirectional_loads(group: Group) -> dict[int, float]:
    return {number: load / (2 if group.axes[number].is_ring else 1) for number, load in _ring_loads(group).items()}


def _dim_ring(group: Group, primitive: Primitive) -> Schedule:
    steps = {k: axis.ring_steps(one_port=group.one_port) for k, axis in enumerate(group.axes)}
    return _axis_phases(group, steps, _ring_loads(group), primitive)


def _bidirectional(group: Group, primitive: Primitive) -> Schedule:
    return _axis_phases(group, {k: axis.size // 2 for k, axis in enumerate(group.axes)}, _bidirectional_loads(group), primitive)


@algorithm("dim-ring", AR, on=LATTICE, shipped_by=LATTICE_LIBRARIES, source=f"{CHAN}; rings per axis", baseline=True, usual=True)
def dim_ring_all_reduce(group: Group) -> Schedule:
    """Dimension-decomposed ring: reduce-scatter along each axis in turn, then all-gather in reverse.

    t = 2 Σ(d_i - 1) α + 2(N-1)/N M/BW

    The payload shrinks by d_i at each axis, and the sum telescopes. One direction of each ring; both on an open line, which on
    one port (--ports one) takes ceil(d_i/2) steps more and as many bytes of M/d_i.

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(dim_ring_all_reduce(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (8, 1.75)
    """
    return _dim_ring(group, AR)


@algorithm("dim-ring", RS, on=LATTICE, shipped_by=LATTICE_LIBRARIES, source=f"{CHAN}; rings per axis", baseline=True, usual=True)
def dim_ring_reduce_scatter(group: Group) -> Schedule:
    """Dimension-decomposed ring reduce-scatter, axis after axis.

    t = Σ(d_i - 1) α + (N-1)/N M/BW

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(dim_ring_reduce_scatter(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (4, 0.875)
    """
    return _dim_ring(group, RS)


@algorithm("dim-ring", AG, on=LATTICE, shipped_by=LATTICE_LIBRARIES, source=f"{CHAN}; rings per axis", baseline=True, usual=True)
def dim_ring_all_gather(group: Group) -> Schedule:
    """Dimension-decomposed ring all-gather, last axis first.

    t = Σ(d_i - 1) α + (N-1)/N M/BW

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(dim_ring_all_gather(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (4, 0.875)
    """
    return _dim_ring(group, AG)


BOTH_WAYS = f"{CHAN}; both directions of each ring: {JAIN_SABHARWAL}"


@algorithm(
    "dim-ring-bidirectional", AR, on=TORUS, requires=(closed_axes, all_ports), shipped_by=("XLA",), source=BOTH_WAYS, usual=True
)
def bidirectional_all_reduce(group: Group) -> Schedule:
    """Dimension-decomposed ring, both directions at once.

    t = 2 Σ floor(d_i/2) α + bytes halved on axes of 3 and more

    An axis of 2 has a single link and gains nothing.

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(bidirectional_all_reduce(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (6, 1.0)
    """
    return _bidirectional(group, AR)


@algorithm(
    "dim-ring-bidirectional", RS, on=TORUS, requires=(closed_axes, all_ports), shipped_by=("XLA",), source=BOTH_WAYS, usual=True
)
def bidirectional_reduce_scatter(group: Group) -> Schedule:
    """Dimension-decomposed ring reduce-scatter, both directions at once.

    t = Σ floor(d_i/2) α + bytes halved on axes of 3 and more

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(bidirectional_reduce_scatter(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.5)
    """
    return _bidirectional(group, RS)


@algorithm(
    "dim-ring-bidirectional", AG, on=TORUS, requires=(closed_axes, all_ports), shipped_by=("XLA",), source=BOTH_WAYS, usual=True
)
def bidirectional_all_gather(group: Group) -> Schedule:
    """Dimension-decomposed ring all-gather, both directions at once.

    t = Σ floor(d_i/2) α + bytes halved on axes of 3 and more

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(bidirectional_all_gather(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.5)
    """
    return _bidirectional(group, AG)


def _multi_ring(group: Group, primitive: Primitive) -> Schedule:
    """k parts, each over the axes in its own rotation; step p costs its slowest part, in α and in bytes.

    A ring goes both ways at once; an open line, part of an axis, already does in a single pass of d - 1 steps.
    """
    axes = [axis for axis in group.axes if axis.size > 1]
    k = len(axes)
    shrunk = [1.0 / k] * k
    scatter = []
    for step in range(k):
        used = [axes[(part + step) % k] for part in range(k)]
        loads = [shrunk[part] * (axis.size - 1) / axis.size / (2 if axis.is_ring else 1) for part, axis in enumerate(used)]
        hops = max(axis.size // 2 if axis.is_ring else axis.size - 1 for axis in used)
        scatter.append(Terms(hops, max(loads), Links(), primitive=RS, label=f"step {step + 1} of {k}"))
        shrunk = [payload / axis.size for payload, axis in zip(shrunk, used, strict=True)]
    gather = [terms._replace(primitive=AG) for terms in reversed(scatter)]
    return tuple({AR: scatter + gather, RS: scatter, AG: gather}[primitive])


_ALL_AXES = f"{JAIN_SABHARWAL}; all axes busy at once, as jax-ml.github.io/scaling-book prices them"


@algorithm("multi-ring", AR, on=TORUS, requires=(all_ports,), shipped_by=("XLA",), source=_ALL_AXES)
def multi_ring_all_reduce(group: Group) -> Schedule:
    """Multi-ring: the payload in k parts, each running the axes in a rotated order, every ring in both directions.

    t = per step the slowest of its k parts; on a cube of k axes n_α = 2k floor(d/2) and n_β = 2(N-1)/N / (2k)

    In a slice without wraparound an axis is an open line: d - 1 steps instead of floor(d/2), and twice the bytes.

    On unequal axes a step takes the longest α and the largest load of its parts: what it costs when parts wait for each other
    only between phases.

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(multi_ring_all_reduce(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True)))))
    (8, 0.46875)
    """
    return _multi_ring(group, AR)


@algorithm("multi-ring", RS, on=TORUS, requires=(all_ports,), shipped_by=("XLA",), source=_ALL_AXES)
def multi_ring_reduce_scatter(group: Group) -> Schedule:
    """Multi-ring reduce-scatter: k parts on k axes at once, every ring in both directions.

    t = per step the slowest of its k parts; on a cube n_β = (N-1)/N / (2k)

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(multi_ring_reduce_scatter(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True)))))
    (4, 0.234375)
    """
    return _multi_ring(group, RS)


@algorithm("multi-ring", AG, on=TORUS, requires=(all_ports,), shipped_by=("XLA",), source=_ALL_AXES)
def multi_ring_all_gather(group: Group) -> Schedule:
    """Multi-ring all-gather: k parts on k axes at once, every ring in both directions.

    t = per step the slowest of its k parts; on a cube n_β = (N-1)/N / (2k)

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(multi_ring_all_gather(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True)))))
    (4, 0.234375)
    """
    return _multi_ring(group, AG)


def _dim_rabenseifner(group: Group, primitive: Primitive) -> Schedule:
    steps = {k: log2_ceil(axis.size) for k, axis in enumerate(group.axes)}
    return _axis_phases(group, steps, _ring_loads(group), primitive)


_on_ideal_wires = partial(
    algorithm,
    "dim-rabenseifner",
    on=LATTICE,
    requires=(power_of_two_axes,),
    source=f"{CHAN}; halving and doubling per axis",
    note="takes every partner to be one hop away and links unshared; on ring wiring they are up to d/2 hops away",
    status="idealised",
)


@_on_ideal_wires(AR)
def dim_rabenseifner(group: Group) -> Schedule:
    """Rabenseifner along each axis in turn, idealised.

    t = 2 Σ lg d_i α + 2(N-1)/N M/BW

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links, neither of which is
    counted. Needs a power of two on every axis.

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(dim_rabenseifner(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (6, 1.75)
    """
    return _dim_rabenseifner(group, AR)


@_on_ideal_wires(RS)
def dim_rabenseifner_halving(group: Group) -> Schedule:
    """The first half of Rabenseifner along each axis: recursive halving axis after axis, idealised.

    t = Σ lg d_i α + (N-1)/N M/BW

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links.

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(dim_rabenseifner_halving(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.875)
    """
    return _dim_rabenseifner(group, RS)


@_on_ideal_wires(AG)
def dim_rabenseifner_doubling(group: Group) -> Schedule:
    """The second half of Rabenseifner along each axis: recursive doubling, last axis first, idealised.

    t = Σ lg d_i α + (N-1)/N M/BW

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links.

    >>> from colltool.algorithms.group import Axis
    >>> from colltool.base.cost import totals
    >>> totals(dim_rabenseifner_doubling(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.875)
    """
    return _dim_rabenseifner(group, AG)
