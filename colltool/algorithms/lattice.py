"""Tori and k-D meshes: rings axis by axis, chains from a root, all-to-all by shortest paths.

BW is the bandwidth of one link. Along an axis of 1 a rank has no link, of 2 one, of 3 or more two.
On a mesh an axis is an open line, which uses both directions of its links and so needs the same
steps and bytes as a ring in one direction.

Three families follow each other, each with its formulas first and its executable schedules behind
them: reductions axis by axis (``dim-ring``, ``multi-ring``, ``dim-rabenseifner``), pipelined chains from
a root (``dim-chain`` ...), and the all-to-alls (``shortest-path``, ``dim-by-dim``). Formulas that are
registered with the same arguments share a decorator, made by ``partial`` above them; schedules that
run axis by axis are made by :func:`_by_axes`.

A formula returns :class:`~colltool.base.primitives.Terms`, or a tuple of one for each phase: n_α steps
and n_β of the phase's payload over :class:`~colltool.base.primitives.Links` between neighbours; a
pipeline's are its depth and load, and ``fill`` counts the segments until its last rank has one. The
examples print ``totals``: (n_α, n_β) of all phases, in units of α and M/BW. A schedule's functions return
steps: arrays of sender, receiver and chunk of all messages that start together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from math import prod

from colltool.algorithms.all_to_all import all_pairs_at_once
from colltool.algorithms.lines import (
    Dimension,
    LineCopies,
    Script,
    copy_offsets,
    from_reduce_scatter,
    halving,
    one_way,
    open_line,
    ring_both_ways,
)
from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    Step,
    equal_chunks,
    moves,
    pipelined,
    schedule,
    step,
)
from colltool.algorithms.registry import CHAN, JAIN_SABHARWAL, algorithm
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Links,
    Primitive,
    Schedule,
    Terms,
    log2_ceil,
)
from colltool.network.arrays import Indices, np
from colltool.network.group import LATTICE, Axis, Group, Topology, all_ports, sizes_of
from colltool.network.twisted import (
    diameter_of,
    is_twisted,
    mean_load,
    not_twisted,
    parts_of,
    ranks_at,
)

LATTICE_LIBRARIES = ("XLA", "NeuronX CCL")
TORUS: frozenset[Topology] = frozenset({"torus"})


# Requirements: why a group cannot run an algorithm, or None. Their docstrings are printed by ``explain``.


def closed_axes(group: Group) -> str | None:
    """Both directions of a ring exist only where the group covers the whole axis of a torus."""
    for number, axis in enumerate(group.axes, start=1):
        if axis.twist:
            return f"needs wraparound on every axis; that of axis {number} is twisted"
        if axis.size >= 3 and not axis.wrap:
            return (
                f"needs wraparound on every axis; the group's {axis.size} ranks along axis {number}"
                " are an open line"
            )
    return None


def power_of_two_axes(group: Group) -> str | None:
    """Halving and doubling along an axis needs a power of two."""
    for axis in group.axes:
        if axis.size & (axis.size - 1):
            return f"needs a power-of-two size on every axis, got {axis.size}"
    return None


# Formulas of the reductions: all are a reduce-scatter, and the same backwards.


def _there_and_back(scatter: list[Terms], primitive: Primitive) -> Schedule:
    """The phases of a primitive from those of its reduce-scatter: themselves, reversed as an
    all-gather, or both as an all-reduce."""
    gather = [terms._replace(primitive=AG) for terms in reversed(scatter)]
    if primitive is RS:
        return tuple(scatter)
    if primitive is AG:
        return tuple(gather)
    return (*scatter, *gather)


def _axis_by_axis(
    group: Group, primitive: Primitive, cost: Callable[[Axis, int], tuple[int, float]]
) -> Schedule:
    """A phase per axis, each on the payload that the axes before it leave.

    ``cost(axis, steps)`` returns the n_α of an axis and its n_β in units of that payload; ``steps`` are
    those of a ring in one direction, d-1, and more of an open line on one port.
    """
    # After an axis of d places each rank has 1/d of its payload left.
    payload = 1.0
    scatter = []
    for number, axis in enumerate(group.axes, start=1):
        if axis.size > 1:
            n_alpha, n_beta = cost(axis, axis.ring_steps(one_port=group.one_port))
            label = f"axis {number} ({axis.size})"
            scatter.append(
                Terms(
                    n_alpha,
                    n_beta,
                    Links(),
                    payload,
                    primitive=RS,
                    label=label,
                    ranks=axis.size,
                )
            )
        payload /= axis.size
    return _there_and_back(scatter, primitive)


# What an axis of d places takes, (n_α, n_β), for _axis_by_axis. A step of a ring moves 1/d of the payload;
# halving moves in log2(d) steps what a ring moves in d-1.


def _one_way(axis: Axis, steps: int) -> tuple[int, float]:
    return steps, steps / axis.size


def _both_ways(axis: Axis, steps: int) -> tuple[int, float]:
    ways = 2 if axis.is_ring else 1
    return axis.size // 2, steps / axis.size / ways


def _by_halves(axis: Axis, steps: int) -> tuple[int, float]:
    return log2_ceil(axis.size), steps / axis.size


def _multi_ring(group: Group, primitive: Primitive) -> Schedule:
    """k parts, each over the axes in a different rotation; a step costs the most α and the most
    bytes of any part.

    A ring is used in both directions at once, which an open line does in any pass of d - 1 steps.
    On a twisted torus every part begins with a ring of 2k.
    """
    axes_of_parts = parts_of([axis for axis in group.axes if axis.size > 1])
    k = len(axes_of_parts)  # as many parts as axes, and each part runs over all of them
    payloads = [1.0 / k] * k  # what each part has left
    scatter = []
    for number in range(k):
        hops = 0
        busiest = 0.0
        for part, axes in enumerate(axes_of_parts):
            axis = axes[number]
            ways = 2 if axis.is_ring else 1
            hops = max(hops, axis.diameter)
            busiest = max(busiest, payloads[part] * (axis.size - 1) / axis.size / ways)
            payloads[part] /= axis.size
        label = f"step {number + 1} of {k}"
        scatter.append(Terms(hops, busiest, Links(), primitive=RS, label=label))
    return _there_and_back(scatter, primitive)


_ALL_AXES = f"{JAIN_SABHARWAL}; all axes busy at once, as jax-ml.github.io/scaling-book prices them"

_rings_per_axis = partial(
    algorithm,
    "dim-ring",
    on=LATTICE,
    shipped_by=LATTICE_LIBRARIES,
    source=f"{CHAN}; rings per axis",
    baseline=True,
    usual=True,
)

_BOTH_WAYS = f"{CHAN}; both directions of each ring: {JAIN_SABHARWAL}"
_both_directions = partial(
    algorithm,
    on=TORUS,
    requires=(closed_axes, all_ports),
    source=_BOTH_WAYS,
    usual=True,
)
_rings_both_ways = partial(_both_directions, "dim-ring-bidirectional", shipped_by=("XLA",))
_rings_on_all_axes = partial(
    algorithm, "multi-ring", on=TORUS, requires=(all_ports,), shipped_by=("XLA",), source=_ALL_AXES
)

_on_ideal_wires = partial(
    algorithm,
    "dim-rabenseifner",
    on=LATTICE,
    requires=(not_twisted, power_of_two_axes),
    source=f"{CHAN}; halving and doubling per axis",
    note=(
        "takes every partner to be one hop away and links unshared; on ring wiring they are up to"
        " d/2 hops away"
    ),
    status="idealised",
)


@_rings_per_axis(AR, equation="t = 2 Σ(d_i - 1) α + 2(N-1)/N M/BW")
def dim_ring_all_reduce(group: Group) -> Schedule:
    """Dimension-decomposed ring: reduce-scatter along each axis in turn, then all-gather in
    reverse.

    The payload shrinks by d_i at each axis, and the sum telescopes. One direction of each ring;
    both on an open line, which on one port (--ports one) takes ceil(d_i/2) steps more and as many
    bytes of M/d_i.

    >>> totals(dim_ring_all_reduce(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (8, 1.75)
    """
    return _axis_by_axis(group, AR, _one_way)


@_rings_per_axis(RS, equation="t = Σ(d_i - 1) α + (N-1)/N M/BW")
def dim_ring_reduce_scatter(group: Group) -> Schedule:
    """Dimension-decomposed ring reduce-scatter, axis after axis.

    >>> totals(dim_ring_reduce_scatter(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (4, 0.875)
    """
    return _axis_by_axis(group, RS, _one_way)


@_rings_per_axis(AG, equation="t = Σ(d_i - 1) α + (N-1)/N M/BW")
def dim_ring_all_gather(group: Group) -> Schedule:
    """Dimension-decomposed ring all-gather, last axis first.

    >>> totals(dim_ring_all_gather(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (4, 0.875)
    """
    return _axis_by_axis(group, AG, _one_way)


@_rings_both_ways(AR, equation="t = 2 Σ floor(d_i/2) α + bytes halved on axes of 3 and more")
def bidirectional_all_reduce(group: Group) -> Schedule:
    """Dimension-decomposed ring, both directions at once.

    An axis of 2 has a single link and gains nothing.

    >>> totals(bidirectional_all_reduce(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (6, 1.0)
    """
    return _axis_by_axis(group, AR, _both_ways)


@_rings_both_ways(RS, equation="t = Σ floor(d_i/2) α + bytes halved on axes of 3 and more")
def bidirectional_reduce_scatter(group: Group) -> Schedule:
    """Dimension-decomposed ring reduce-scatter, both directions at once.

    >>> totals(bidirectional_reduce_scatter(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.5)
    """
    return _axis_by_axis(group, RS, _both_ways)


@_rings_both_ways(AG, equation="t = Σ floor(d_i/2) α + bytes halved on axes of 3 and more")
def bidirectional_all_gather(group: Group) -> Schedule:
    """Dimension-decomposed ring all-gather, both directions at once.

    >>> totals(bidirectional_all_gather(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.5)
    """
    return _axis_by_axis(group, AG, _both_ways)


@_rings_on_all_axes(
    AR,
    equation=(
        "t = per step the slowest of its k parts; on a cube of k axes n_α = 2k floor(d/2) and n_β ="
        " 2(N-1)/N / (2k)"
    ),
)
def multi_ring_all_reduce(group: Group) -> Schedule:
    """Multi-ring: the payload in k parts, each running the axes in a rotated order, every ring in
    both directions.

    In a slice without wraparound an axis is an open line: d - 1 steps instead of floor(d/2), and
    twice the bytes. On a twisted torus every part begins with a ring of 2k, through the twist on a
    short axis, and short axes are open lines after that.

    On unequal axes a step takes the longest α and the largest load of its parts: what it costs when
    parts wait for each other only between phases.

    >>> totals(multi_ring_all_reduce(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True)))))
    (8, 0.46875)
    """
    return _multi_ring(group, AR)


@_rings_on_all_axes(
    RS, equation="t = per step the slowest of its k parts; on a cube n_β = (N-1)/N / (2k)"
)
def multi_ring_reduce_scatter(group: Group) -> Schedule:
    """Multi-ring reduce-scatter: k parts on k axes at once, every ring in both directions.

    >>> totals(multi_ring_reduce_scatter(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True)))))
    (4, 0.234375)
    """
    return _multi_ring(group, RS)


@_rings_on_all_axes(
    AG, equation="t = per step the slowest of its k parts; on a cube n_β = (N-1)/N / (2k)"
)
def multi_ring_all_gather(group: Group) -> Schedule:
    """Multi-ring all-gather: k parts on k axes at once, every ring in both directions.

    >>> totals(multi_ring_all_gather(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True)))))
    (4, 0.234375)
    """
    return _multi_ring(group, AG)


@_on_ideal_wires(AR, equation="t = 2 Σ lg d_i α + 2(N-1)/N M/BW")
def dim_rabenseifner(group: Group) -> Schedule:
    """Rabenseifner along each axis in turn, idealised.

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links,
    neither of which is counted. Needs a power of two on every axis.

    >>> totals(dim_rabenseifner(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (6, 1.75)
    """
    return _axis_by_axis(group, AR, _by_halves)


@_on_ideal_wires(RS, equation="t = Σ lg d_i α + (N-1)/N M/BW")
def dim_rabenseifner_halving(group: Group) -> Schedule:
    """The first half of Rabenseifner along each axis: recursive halving axis after axis, idealised.

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links.

    >>> totals(dim_rabenseifner_halving(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.875)
    """
    return _axis_by_axis(group, RS, _by_halves)


@_on_ideal_wires(AG, equation="t = Σ lg d_i α + (N-1)/N M/BW")
def dim_rabenseifner_doubling(group: Group) -> Schedule:
    """The second half of Rabenseifner along each axis: recursive doubling, last axis first,
    idealised.

    A reference, not a schedule for real wiring: partners are up to d/2 hops apart and share links.

    >>> totals(dim_rabenseifner_doubling(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True)))))
    (3, 0.875)
    """
    return _axis_by_axis(group, AG, _by_halves)


# Messages of the reductions.

# The steps of a reduce-scatter along a single line of an axis.
Pattern = Callable[[Axis], list[Step]]


def _long_axes(group: Group) -> list[int]:
    """The numbers, from 0, of the axes with more than one rank."""
    return [number for number, axis in enumerate(group.axes) if axis.size > 1]


@schedule("dim-ring", AR, RS, AG, per_pair=1)
def _dim_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    return _axis_after_axis(primitive, group, _one_way_or_open)


@schedule("dim-ring-bidirectional", AR, RS, AG)
def _dim_ring_both_ways(primitive: Primitive, group: Group, _segments: int) -> Program:
    return _axis_after_axis(primitive, group, lambda axis: ring_both_ways(axis.size), parts=2)


@schedule("dim-rabenseifner", AR, RS, AG)
def _dim_halving(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Partners may be several hops apart: the links between them are loaded all the same."""
    return _axis_after_axis(primitive, group, lambda axis: halving(axis.size))


def _axis_after_axis(
    primitive: Primitive, group: Group, pattern: Pattern, parts: int = 1
) -> Program:
    """The program that runs a pattern along each axis in turn; ``parts``: chunks of a rank's block."""
    scripts = _by_axes(group.axes, _long_axes(group), pattern, parts=parts)
    return from_reduce_scatter(primitive, group.ranks, parts, list(chain.from_iterable(scripts)))


def _one_way_or_open(axis: Axis) -> list[Step]:
    """The reduce-scatter of whole blocks: one way round a ring, from both ends of an open line."""
    return one_way(axis.size) if axis.is_ring else open_line(axis.size)


def _both_ways_or_open(axis: Axis) -> list[Step]:
    """The reduce-scatter of blocks in two halves: the halves go opposite ways round a ring or between a
    pair, and together along an open line."""
    d = axis.size
    if axis.is_ring or d == 2:
        return ring_both_ways(d)
    # The second halves of blocks are numbered after all first ones.
    steps = []
    for half in open_line(d):
        chunk = np.append(half.chunk, half.chunk + d)
        steps.append(step(np.tile(half.src, 2), np.tile(half.dst, 2), chunk, add=True))
    return steps


def _by_axes(
    axes: Sequence[Axis],
    order: Sequence[int],
    pattern: Pattern,
    *,
    first_part: int = 0,
    parts: int,
) -> list[Script]:
    """The scripts of a reduce-scatter over the axes in that order, one per axis.

    Chunk ``c + N * part`` is a part of rank c's block; the scripts move ``parts`` parts from
    ``first_part`` on. After an axis a rank keeps the blocks whose owners share its place on it.
    """
    sizes = sizes_of(axes)
    strides = [prod(sizes[:number]) for number in range(len(sizes))]
    ranks = prod(sizes)
    scripts = []
    # ``along`` is the axis of this script, and the first ``done`` of the order are behind it
    for done, along in enumerate(order):
        d = sizes[along]
        others = []
        for number, size in enumerate(sizes):
            if number != along:
                # on axes that are done a block is where its owner is, on the others at all places
                places = np.arange(size) if number in order[:done] else None
                others.append(Dimension(size, strides[number], strides[number], size, places))
        node_offsets, chunk_offsets = copy_offsets(others)
        # a line's chunks: block y of each part in turn, as the steps of lines.py number them
        part, block = np.divmod(np.arange(d * parts), d)
        chunk_at = block * strides[along] + (first_part + part) * ranks
        lines = LineCopies(np.arange(d) * strides[along], chunk_at, node_offsets, chunk_offsets)
        scripts.append([[(lines, batch)] for batch in pattern(axes[along])])
    return scripts


@schedule("multi-ring", AR, RS, AG)
def _multi_ring_messages(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The payload in k parts; part j runs over the axes j, j+1, ... of the k long ones, in both
    directions.

    A phase is an axis of every part: all parts begin it together, and it takes as many steps as the
    longest of them.
    """
    axes = _long_axes(group)
    scripts_by_part = []
    for part in range(len(axes)):
        if is_twisted(group.axes):
            scripts = list(_by_twisted_axes(group.axes, part))
        else:
            order = axes[part:] + axes[:part]
            scripts = _by_axes(group.axes, order, _both_ways_or_open, first_part=2 * part, parts=2)
        scripts_by_part.append(scripts)
    script: Script = []
    # of each phase the scripts of all parts, of each step of it their batches; a part that is through has []
    for phase in zip(*scripts_by_part, strict=True):
        for batches in zip_longest(*phase, fillvalue=[]):
            script.append(list(chain.from_iterable(batches)))
    return from_reduce_scatter(primitive, group.ranks, 2 * len(axes), script)


def _by_twisted_axes(axes: Sequence[Axis], part: int) -> Iterator[Script]:
    """The scripts of part j of a multi-ring on a twisted torus, one per axis.

    They are made for an untwisted lattice of the axes that the part passes (:func:`parts_of`), whose
    nodes are then mapped to ranks.
    """
    part_axes = parts_of(axes)[part]
    # the place of each of its nodes on each axis, the first axis fastest; shape (axes, N)
    places = np.indices(sizes_of(reversed(part_axes))).reshape(len(part_axes), -1)[::-1]
    # Links from rank 0 along each axis of the torus: the part's first axis is that of its number.
    walked = list(np.roll(places, part, axis=0))
    ranks = ranks_at(walked, axes)
    order = range(len(part_axes))
    # a batch of a script of _by_axes is a single step on one set of lines
    for script in _by_axes(part_axes, order, _both_ways_or_open, first_part=2 * part, parts=2):
        yield [[(lines._replace(ranks=ranks), batch)] for ((lines, batch),) in script]


def busiest_link(axis: Axis) -> float:
    """f(d): bytes through the busiest link of an axis in a uniform all-to-all, in units of M, ties
    split over both ways.

    Torus, d >= 3: floor(d²/4)/(2d); d = 2: 1/2; line: floor(d²/4)/d; d = 1: 0. For even d >= 4 on a
    torus it is d/8.
    """
    # floor(d/2) * ceil(d/2) pairs of places lie on different sides of the middle.
    crossing = (axis.size * axis.size) // 4 / axis.size
    return crossing / 2 if axis.is_ring else crossing


def all_to_all_load(axes: tuple[Axis, ...]) -> float:
    """Bytes through the busiest link of a lattice in a uniform all-to-all on shortest paths, in
    units of M."""
    if is_twisted(axes):
        return mean_load(axes)
    return max(map(busiest_link, axes), default=0.0)


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


@_both_directions(
    "dim-chain-bidirectional",
    BC,
    REDUCE,
    shipped_by=LATTICE_LIBRARIES,
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
    """Dimension-ordered chain from a root in the middle of a mesh, both ways along each axis,
    pipelined.

    Half the depth of a root in a corner. On a torus every rank is in the middle:
    dim-chain-bidirectional.

    >>> dim_chain_middle(Group(512, "mesh", (Axis(8, wrap=False),) * 3))[:2]
    (12, 1)
    """
    depth = sum(axis.size // 2 for axis in group.axes)
    return Terms(depth, 1, Links(), fill=depth)


@schedule("dim-chain", BC, REDUCE)
def _dim_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    return _chains(primitive, group, segments, lambda d: np.arange(d))


@schedule("dim-chain-bidirectional", BC, REDUCE)
def _dim_chain_nearest(primitive: Primitive, group: Group, segments: int) -> Program:
    """Each ring is passed from the root in both directions, up to the farthest place."""

    def hops(d: int) -> Indices:
        # of 5 places 0, 1, 2, -2, -1
        downwards = (d - 1) // 2
        return (np.arange(d) + downwards) % d - downwards

    return _chains(primitive, group, segments, hops)


@schedule("dim-chain-middle", BC, REDUCE)
def _dim_chain_from_middle(primitive: Primitive, group: Group, segments: int) -> Program:
    return _chains(primitive, group, segments, lambda d: np.arange(d) - d // 2)


def _chains(
    primitive: Primitive, group: Group, segments: int, hops_of: Callable[[int], Indices]
) -> Program:
    """The pipelined broadcast or reduction along each axis in turn.

    A rank's parent is one hop nearer to the root on the last axis on which they differ. ``hops_of``
    returns for an axis of d places how many hops each is from the root's place, negative downwards.
    """
    ranks = np.arange(group.ranks)
    parent = ranks.copy()
    depth = np.zeros_like(ranks)
    stride = 1
    for axis in group.axes:
        place = ranks // stride % axis.size
        hops = hops_of(axis.size)[place]
        parent_place = (place - np.sign(hops)) % axis.size
        parent = np.where(hops != 0, ranks + (parent_place - place) * stride, parent)
        depth += np.abs(hops)
        stride *= axis.size
    child = np.flatnonzero(depth)
    root = np.full(segments, depth.argmin())  # of each segment: the rank of depth 0
    edges = Edges(child, parent[child], np.zeros_like(child), depth[child])
    return pipelined(primitive, group.ranks, segments, edges)._replace(home=root, target=root)


@algorithm(
    "shortest-path",
    A2A,
    on=LATTICE,
    shipped_by=LATTICE_LIBRARIES,
    source=(
        "the bisection bound, reached: loads counted link by link by executing it (colltool verify)"
    ),
    baseline=True,
    usual=True,
    equation=(
        "t = diameter α + max_i f(d_i) M/BW, f the load of the busiest link of an axis\n"
        "t = diameter α + (mean distance)/(2 axes) M/BW on a twisted torus"
    ),
)
def shortest_path(group: Group) -> Terms:
    """All-to-all along shortest paths, all axes at once.

    f(d) is d/8 on a torus axis of even d >= 4, d/4 on a mesh: the longest axis sets the time. Ring
    relay is this, on a ring.
    On a twisted torus shortest paths load all links alike.

    >>> shortest_path(Group(8, "torus", (Axis(4, wrap=True), Axis(2, wrap=True))))[:2]
    (3, 0.5)
    >>> shortest_path(Group(16, "mesh", (Axis(4, wrap=False), Axis(4, wrap=False))))[:2]
    (6, 1.0)
    """
    return Terms(diameter_of(group.axes), all_to_all_load(group.axes), Links())


# Messages go straight to their destination in one step: the link model of the lattice routes them.
moves("shortest-path", A2A)(all_pairs_at_once)


@algorithm(
    "dim-by-dim",
    A2A,
    on=LATTICE,
    requires=(not_twisted,),
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
            label = f"axis {number} ({axis.size})"
            parts.append(
                Terms(axis.diameter, busiest_link(axis), Links(), label=label, ranks=axis.size)
            )
    return tuple(parts)


@schedule("dim-by-dim", A2A)
def _dim_by_dim(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Every chunk to its destination's place on axis 1, then on axis 2, and so on."""

    def along_the_axes() -> Batches:
        # chunk src * N + dst is at src at first
        here, target = np.divmod(np.arange(group.ranks**2), group.ranks)
        stride = 1
        for axis in group.axes:
            place = here // stride % axis.size
            target_place = target // stride % axis.size
            there = here + (target_place - place) * stride
            moving = np.flatnonzero(here != there)
            if axis.size > 1:
                yield (step(here[moving], there[moving], moving),)
            here = there
            stride *= axis.size

    return equal_chunks(primitive, group.ranks, group.ranks**2, along_the_axes())
