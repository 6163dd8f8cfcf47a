"""Trees over all links of a graph or lattice at once: as many bytes a second as any all-gather or
broadcast can reach there.

Edmonds: trees from given roots, each link used no more than it carries, exist if and only if every
    set of ranks can send out what
its roots owe the rest. So the best rate follows from cuts alone, and the trees can be built one
link at a time.

Sources: Edmonds, "Edge-disjoint branchings", 1973; Bérczi and Frank, "Packing arborescences", 2009;
    ForestColl, arXiv 2402.06787.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    backwards,
    fired,
    schedule,
)
from colltool.algorithms.registry import FORESTCOLL, NCCL_RINGS, Caveat, algorithm
from colltool.base.primitives import (
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Links,
    Primitive,
    Schedule,
    Terms,
)
from colltool.extras.synthesis.splitting import Standing, split_off, through
from colltool.network.arrays import Floats, np
from colltool.network.group import LATTICE, Axis, Group, Topology, all_ports
from colltool.network.max_flow import ENDLESS, Capacities, max_flow
from colltool.network.wires import Edge, GraphWires

if TYPE_CHECKING:
    from fractions import Fraction

ON_LINKS = LATTICE | frozenset[Topology](("graph", "hyperx"))
# from every rank, from one, over so many links: else it takes seconds
MOST_RANKS, MOST_FROM_ROOT, MOST_LINKS = 24, 256, 480
MOST_AT_SWITCHES, MOST_SWITCHES = 16, 16  # ranks where there are switches, and how many of these
NO_LINKS = "needs links between the ranks themselves, without switches"
# rates that are no multiples of a part of the slowest are rounded down to those of its 1024th
_FEW_PARTS, _FINEST = 60, 1024
_DUST = 1e-6


class Tree(NamedTuple):
    """From a root to all ranks, links in the order in which they were added; ``share`` of what the
    root sends in all."""

    root: int
    share: Fraction | float
    links: tuple[tuple[int, int], ...]

    @property
    def depths(self) -> dict[int, int]:
        """Links from the root to each rank."""
        return _depths(self.root, self.links)


def _depths(root: int, links: Sequence[tuple[int, int]]) -> dict[int, int]:
    found = {root: 0}
    for a, b in links:
        found[b] = found[a] + 1
    return found


class Forest(NamedTuple):
    """``rate``: bytes/s of every root at once; ``trees``: how to reach it; ``fill``: F of a
    pipeline down these.

    ``switches``: where the nodes after the ranks stand; a tree that passes a switch more than once
    has a node there each time.
    """

    rate: float
    trees: tuple[Tree, ...]
    fill: float
    switches: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        return max(max(tree.depths.values()) for tree in self.trees)


@lru_cache(maxsize=128)
def forest_of(wires: GraphWires, roots: tuple[int, ...]) -> Forest:
    """The best packing from these roots, each of which sends to all ranks, over links between ranks
    and through switches."""
    from fractions import Fraction  # which prices on other networks do without

    ranks, rates = wires.endpoints, rates_of(wires)
    unit = common_unit(rates.values(), _FEW_PARTS) or min(rates.values()) / _FINEST
    links: Capacities = {node: {} for node in range(wires.nodes)}
    for (a, b), rate_Bps in rates.items():
        links[a][b] = int(rate_Bps / unit + _DUST)
    rate = _best_rate(links, ranks, roots)
    fine = rate.denominator  # so many times finer units make whole trees
    common = gcd(
        *(units * fine for row in links.values() for units in row.values()), rate.numerator
    )
    scaled = {
        node: {to: units * fine // common for to, units in row.items()}
        for node, row in links.items()
    }
    each = rate.numerator // common
    between, ways = split_off(scaled, ranks, roots, each)
    standing = Standing(ranks)
    trees = tuple(
        Tree(batch.root, Fraction(some, each), standing.hops(laid))
        for batch in _packed(between, roots, each)
        for some, laid in through(batch.links, batch.alike, ways)
    )
    switches = tuple(switch for switch, _ in standing)
    at = (*range(ranks), *switches)
    takes: dict[tuple[int, int], dict[Hashable, float]] = {
        (a, b): {(at[a], at[b]): 1 / scaled[at[a]][at[b]]} for tree in trees for a, b in tree.links
    }
    return Forest(float(rate) * unit, trees, fill_of(trees, takes), switches)


def rates_of(wires: GraphWires) -> dict[tuple[int, int], float]:
    """Bytes/s from node to node, parallel links together."""
    found = defaultdict[tuple[int, int], float](float)
    for edge in wires.edges:
        found[edge.a, edge.b] += edge.Bps
    return found


def common_unit(rates: Collection[float], most_parts: int) -> float | None:
    """The rate of which all are whole multiples, if it is one of so many parts of the slowest."""
    slowest = min(rates)
    for parts in range(1, most_parts + 1):
        if all(
            abs(many - round(many)) < _DUST for many in (rate / slowest * parts for rate in rates)
        ):
            return slowest / parts
    return None


def fill_of(trees: Sequence[Tree], takes: Mapping[tuple[int, int], dict[Hashable, float]]) -> float:
    """Segments that pass the busiest link before and after all trees are busy, and one; for P from
    L on.

    In moment m a tree's hop of depth d carries segment m - d + 1. ``takes``: what a hop takes of
    each link.
    """
    loads: dict[Hashable, dict[int, float]] = {}
    for tree in trees:
        depths = tree.depths
        for a, b in tree.links:
            for link, part in takes[a, b].items():
                load = loads.setdefault(link, {})
                load[depths[b]] = load.get(depths[b], 0.0) + float(tree.share) * part
    most, depth = (
        max(sum(load.values()) for load in loads.values()),
        max(max(load) for load in loads.values()),
    )
    filling = 0.0
    for moment in range(depth - 1):
        early = max(
            sum(part for at, part in load.items() if at - 1 <= moment) for load in loads.values()
        )
        late = max(
            sum(part for at, part in load.items() if at - 1 > moment) for load in loads.values()
        )
        filling += (early + late) / most
    return filling - depth + 2


def _best_rate(links: Capacities, ranks: int, roots: Sequence[int]) -> Fraction:
    """Units of each root such that no set of ranks owes the rest more than it can send: from one
    violated cut to the next."""
    from fractions import Fraction  # which prices on other networks do without

    source = -1
    rate = Fraction(min(sum(links[rank].values()) for rank in range(ranks)))
    while True:
        fine = rate.denominator
        network = {
            rank: {to: units * fine for to, units in row.items()} for rank, row in links.items()
        }
        network[source] = dict.fromkeys(roots, rate.numerator)
        for rank in range(ranks):
            moved, side = max_flow(network, source, rank)
            if moved < rate.numerator * len(roots):
                out = sum(
                    units
                    for one in side - {source}
                    for to, units in links[one].items()
                    if to not in side
                )
                rate = Fraction(out, sum(root in side for root in roots))
                break
        else:
            return rate


class _Batch(NamedTuple):
    """Trees that are alike so far."""

    root: int
    alike: int
    reached: frozenset[int]
    links: tuple[tuple[int, int], ...]


def _packed(links: Capacities, roots: Sequence[int], each: int) -> list[_Batch]:
    """Trees grown link by link, never one that would leave another tree without a way (Bérczi and
    Frank)."""
    left = {rank: dict(row) for rank, row in links.items()}
    growing = [_Batch(root, each, frozenset({root}), ()) for root in roots]
    done: list[_Batch] = []
    while growing:
        batch = growing.pop()
        if len(batch.reached) == len(links):
            done.append(batch)
            continue
        a, b, count = _next_link(left, batch, growing)
        left[a][b] -= count
        if count < batch.alike:
            growing.append(batch._replace(alike=batch.alike - count))
        growing.append(_Batch(batch.root, count, batch.reached | {b}, (*batch.links, (a, b))))
    return done


def _next_link(left: Capacities, batch: _Batch, others: Sequence[_Batch]) -> tuple[int, int, int]:
    """A link out of what a batch has reached, nearest its root first, and how many of its trees may
    take it."""
    depths = _depths(batch.root, batch.links)
    for a in sorted(batch.reached, key=lambda rank: (depths[rank], rank)):
        for b, units in left[a].items():
            if units and b not in batch.reached and (count := _may_take(left, a, b, batch, others)):
                return a, b, count
    raise AssertionError("by Edmonds some link can always be taken")


def _may_take(left: Capacities, a: int, b: int, batch: _Batch, others: Sequence[_Batch]) -> int:
    """How many trees may take a link: what a set with ``a`` and without ``b`` can send beyond what
    other batches owe."""
    network: dict[int, dict[int, int]] = {rank: dict(row) for rank, row in left.items()}
    owed = 0
    for number, other in enumerate(others):
        if b not in other.reached:  # what has reached it already owes it nothing
            node = -2 - number
            network[a][node] = other.alike
            network[node] = dict.fromkeys(other.reached, ENDLESS)
            owed += other.alike
    most = min(left[a][b], batch.alike)
    moved, _ = max_flow(network, a, b, enough=owed + most)
    return max(0, min(most, moved - owed))


@lru_cache(maxsize=32)
def lattice_wires(axes: tuple[Axis, ...]) -> GraphWires:
    """The links of a torus, mesh or twisted torus, each of 1: a lattice prices bytes by those of
    one link."""
    places = [place[::-1] for place in product(*(range(axis.size) for axis in reversed(axes)))]
    number = {place: rank for rank, place in enumerate(places)}
    up = [
        (rank, number[there])
        for rank, place in enumerate(places)
        for there in _neighbours_up(place, axes)
    ]
    ends = [ends for a, b in up for ends in ((a, b), (b, a))]
    return GraphWires(len(places), len(places), tuple(Edge(a, b, 1.0, 0.0) for a, b in ends))


def _neighbours_up(place: tuple[int, ...], axes: Sequence[Axis]) -> Iterator[tuple[int, ...]]:
    for number, axis in enumerate(axes):
        there = list(place)
        there[number] += 1
        if there[number] < axis.size:
            yield tuple(there)
        elif axis.closed:
            there[number] = 0
            twist = axis.twist or (0,) * len(axes)
            yield tuple(
                (one + by) % other.size for one, by, other in zip(there, twist, axes, strict=True)
            )


def wires_between(group: Group) -> GraphWires | None:
    """The links that join a group's ranks; None where some of these stand at switches, or others of
    the network in between."""
    if group.topology in LATTICE:
        return lattice_wires(group.axes)
    found = group.wires and group.wires.between_ranks
    return found if found and found.endpoints == group.ranks else None


def joined_by_links(group: Group) -> str | None:
    """Links that join its ranks, without switches or other ranks between."""
    if group.topology in LATTICE or wires_between(group):
        return None
    strided = group.wires is not None and group.wires.between_ranks is not None
    return (
        "needs consecutive ranks: links between these lead through others" if strided else NO_LINKS
    )


def wires_of(group: Group) -> GraphWires | None:
    """The links that join a group's ranks, those of a graph through switches too; None where ranks
    have ports at switches."""
    own = group.wires
    return (
        own
        if isinstance(own, GraphWires) and own.endpoints == group.ranks
        else wires_between(group)
    )


def links_between_ranks(group: Group) -> str | None:
    """Links that join ranks, of a graph through switches too, and few enough ranks to pack trees
    over."""
    return _too_many(group, MOST_RANKS)


def links_from_root(group: Group) -> str | None:
    """Links that join ranks, of a graph through switches too, and few enough of these to pack trees
    from one rank over."""
    if why := _too_many(group, MOST_FROM_ROOT):
        return why
    wires = wires_of(group)
    few = group.ranks <= MOST_RANKS or (wires is not None and len(wires.edges) <= MOST_LINKS)
    return None if few else f"trees from one rank are packed over {MOST_LINKS} links at most"


def _too_many(group: Group, most: int) -> str | None:
    """More than trees are packed for; the links of a large lattice are not listed to say so."""
    wires = None if group.topology in LATTICE else group.wires
    if wires is not None and wires_of(group) is None:
        return joined_by_links(group)
    switches = wires.nodes - wires.endpoints if isinstance(wires, GraphWires) else 0
    if switches and (group.ranks > MOST_AT_SWITCHES or switches > MOST_SWITCHES):
        return (
            f"through switches trees are packed for {MOST_AT_SWITCHES} ranks and {MOST_SWITCHES}"
            " switches at most"
        )
    return f"trees are packed for {most} ranks at most" if group.ranks > most else None


_AS_RINGS = (
    "on a graph NCCL's and RCCL's rings are as fast where they use all links, as on DGX-1, and"
    " nowhere faster"
)


def _who_runs(group: Group) -> Caveat:
    if group.topology in LATTICE:
        return Caveat("reference", "no library is known to pack trees on a torus or mesh")
    if isinstance(group.wires, GraphWires) and not group.wires.between_ranks:
        return Caveat("reference", "no library is known to pack trees through switches")
    return Caveat("shipped", _AS_RINGS)


_over_all_links = partial(
    algorithm,
    "forest",
    on=ON_LINKS,
    caveat=_who_runs,
    shipped_by=("NCCL", "RCCL", "MSCCL++"),
    source=f"{FORESTCOLL}; NCCL and RCCL search for rings over all links: {NCCL_RINGS}",
)
_from_every_rank = partial(_over_all_links, requires=(links_between_ranks, all_ports))


@_from_every_rank(
    AR,
    equation=(
        "t = 2L α + 2/N M / R, R the most that every rank can send to all others at once (cuts)"
    ),
)
def forest_all_reduce(group: Group) -> Schedule:
    """Trees from every rank over all links: sums up to their roots, then down again.

    >>> totals(forest_all_reduce(Group(4, "graph", wires=ring_wires(4))))
    (6, 0.75)
    """
    there = _trees(group, tuple(range(group.ranks)))._replace(primitive=RS, label="up")
    return there, there._replace(primitive=AG, label="down")


@_from_every_rank(
    AG,
    RS,
    equation=(
        "t = L α + 1/N M / R, R the most that every rank can send to all others at once (cuts)"
    ),
)
def forest(group: Group) -> Terms:
    """Trees from every rank over all links at once, as deep as L.

    >>> forest(Group(4, "graph", wires=ring_wires(4)))[:2]
    (3, 0.375)
    """
    return _trees(group, tuple(range(group.ranks)))


@_over_all_links(
    BC,
    REDUCE,
    requires=(links_from_root, all_ports),
    equation="t = L α + M / R, R the least cut between the root and any rank",
)
def forest_from_root(group: Group) -> Terms:
    """Trees from the root over all links at once, as deep as L.

    >>> forest_from_root(Group(4, "graph", wires=ring_wires(4)))[:2]
    (3, 0.5)
    """
    return _trees(group, (0,))


def ring_wires(ranks: int) -> GraphWires:
    """A ring of links of 1 byte/s, for the examples."""
    ends = [
        pair
        for rank in range(ranks)
        for pair in ((rank, (rank + 1) % ranks), ((rank + 1) % ranks, rank))
    ]
    return GraphWires(ranks, ranks, tuple(Edge(*pair, 1.0, 0.0) for pair in ends))


def roots_of(primitive: Primitive, group: Group) -> tuple[int, ...]:
    return (0,) if primitive in (BC, REDUCE) else tuple(range(group.ranks))


def forest_on(group: Group, roots: tuple[int, ...]) -> Forest:
    wires = wires_of(group)
    assert wires is not None  # links_between_ranks let nobody else in
    return forest_of(wires, roots)


def _trees(group: Group, roots: tuple[int, ...]) -> Terms:
    found = forest_on(group, roots)
    return Terms(found.depth, 1 / (len(roots) * found.rate), Links(), fill=found.fill)


@schedule("forest", AR, AG, RS, BC, REDUCE)
def _forest(primitive: Primitive, group: Group, segments: int) -> Program:
    roots = roots_of(primitive, group)
    found = forest_on(group, roots)
    up = backwards(down(found, segments)) if primitive in (AR, RS, REDUCE) else iter(())
    root = np.repeat([tree.root for tree in found.trees], segments)
    batches = up if primitive in (RS, REDUCE) else chain(up, down(found, segments))
    sizes = chunk_sizes(found, len(roots), segments)
    stands = np.array([*range(group.ranks), *found.switches]) if found.switches else None
    nodes = group.ranks + len(found.switches)
    return Program(
        primitive, group.ranks, nodes, sizes, home=root, target=root, batches=batches, stands=stands
    )


def chunk_sizes(found: Forest, parts: int, segments: int) -> Floats:
    """Bytes of each chunk in units of M, of which a root sends so many parts."""
    return np.repeat([float(tree.share) / parts / segments for tree in found.trees], segments)


def down(found: Forest, segments: int) -> Batches:
    edges = _edges(found)
    for moment in range(found.depth + segments - 1):
        yield (fired(edges, edges.depth - 1, segments, moment),)


def _edges(found: Forest) -> Edges:
    rows = []
    for number, tree in enumerate(found.trees):
        depths = tree.depths
        rows += [(b, a, number, depths[b]) for a, b in tree.links]
    return Edges(*np.array(rows, dtype=np.int64).T)
