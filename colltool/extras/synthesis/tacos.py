"""All-gathers found link by link: in every step each link takes a piece that its far end still
lacks.

Links into ranks that have few links choose first. Of the pieces that it could take, a link takes
one that the fewest ranks hold, drawn by a generator of fixed seed: links stay busy to the last
steps, and the same network always gives the same schedule. A reduce-scatter is that backwards, an
all-reduce both.

Source: TACOS, arXiv 2304.05301; rarest pieces first, as BitTorrent takes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial

from colltool.algorithms.program import (
    Batches,
    Program,
    gathered,
    schedule,
    step,
)
from colltool.algorithms.registry import TACOS, algorithm
from colltool.base.primitives import AG, AR, RS, Links, Primitive, Terms
from colltool.extras.synthesis.forest import (
    ON_LINKS,
    common_unit,
    joined_by_links,
    rates_of,
    wires_between,
)
from colltool.network.arrays import np
from colltool.network.group import Group, all_ports
from colltool.network.wires import GraphWires

MOST_RANKS = 512  # beyond it matching takes seconds
_MOST_PARTS, _MOST_PARALLEL = 4, 64  # of the slowest link's rate, and of a link's in a step
_FINE = 256  # pieces in all, at least: each rank's part in several where ranks are few

Moved = list[tuple[int, int, int]]  # from a rank to its neighbour a piece


def links_in_proportion(group: Group) -> str | None:
    """Links between ranks, of one rate or of rates like 2 to 3, and not all in rings that
    multi-ring keeps busy."""
    if why := joined_by_links(group):
        return why
    if group.ranks > MOST_RANKS:
        return f"links are matched for {MOST_RANKS} ranks at most"
    if len(group.axes) > 1 and all(
        axis.is_ring and axis.size == group.axes[0].size for axis in group.axes
    ):
        return "all axes are rings of one length: multi-ring keeps every link busy"
    wires = wires_between(group)
    in_proportion = wires is not None and _unit(wires) is not None
    return (
        None
        if in_proportion
        else f"needs links of one rate, or of whole multiples of a {_MOST_PARTS}th of the slowest"
    )


def _unit(wires: GraphWires) -> float | None:
    """The rate of which all links have a whole multiple, bytes/s; None where that would be a small
    part of the slowest."""
    rates = rates_of(wires).values()
    unit = common_unit(rates, _MOST_PARTS)
    return unit if unit and max(rates) < (_MOST_PARALLEL + 1) * unit else None


def _links(wires: GraphWires) -> list[tuple[int, int]]:
    """From rank to rank, as often as there are pieces in a step, those into ranks of few links
    first."""
    unit, rates = _unit(wires), rates_of(wires)
    assert unit is not None  # links_in_proportion let nobody else in
    every = [ends for ends, rate in rates.items() for _ in range(round(rate / unit))]
    into = Counter(b for _, b in every)
    return sorted(every, key=lambda ends: (into[ends[1]], ends))


def pieces_of(ranks: int) -> int:
    """How many pieces each rank's part is cut in."""
    return max(1, _FINE // ranks)


def steps(wires: GraphWires) -> Iterator[Moved]:
    """What each step of an all-gather moves; piece ``c`` of rank ``r`` is ``r * pieces + c``."""
    links, ranks, pieces = _links(wires), wires.endpoints, pieces_of(wires.endpoints)
    held, swarm = (
        [((1 << pieces) - 1) << rank * pieces for rank in range(ranks)],
        _Swarm(ranks * pieces, ranks),
    )
    while swarm.rarest < ranks:
        before, moved = list(held), []
        for a, b in links:
            if lacking := before[a] & ~held[b]:
                piece = swarm.taken(lacking)
                held[b] |= 1 << piece
                moved.append((a, b, piece))
        assert moved, "every rank reaches every other"
        yield moved


class _Swarm:
    """Which pieces so many ranks hold, as bits of a number."""

    def __init__(self, pieces: int, ranks: int) -> None:
        self.pieces, self.drawn, self.rarest = pieces, 1, 1
        self.held_by = [0, (1 << pieces) - 1, *[0] * ranks]

    def taken(self, among: int) -> int:
        """One of the rarest of these pieces, which one more rank holds now."""
        many = self.rarest
        while not among & self.held_by[many]:
            many += 1
        # Knuth's MMIX
        self.drawn = (self.drawn * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        first, rare = (self.drawn >> 33) % self.pieces, among & self.held_by[many]
        piece = _lowest(rare >> first << first or rare)
        self.held_by[many] ^= 1 << piece
        self.held_by[many + 1] |= 1 << piece
        while self.rarest < len(self.held_by) - 2 and not self.held_by[self.rarest]:
            self.rarest += 1
        return piece


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


@lru_cache(maxsize=64)
def step_count(wires: GraphWires) -> int:
    return sum(1 for _ in steps(wires))


_matched = partial(
    algorithm,
    "tacos",
    on=ON_LINKS,
    requires=(links_in_proportion, all_ports),
    source=TACOS,
    note=(
        "a synthesised schedule: no library runs it as it is; colltool export msccl writes it for"
        " those that run schedules"
    ),
)


@_matched(
    AG,
    RS,
    equation="t = T (α + M/(N c BW)), T steps of the schedule found, each part of M in c pieces",
)
@_matched(
    AR,
    twice=True,
    equation="t = 2T (α + M/(N c BW)), T steps of the schedule found, each part of M in c pieces",
)
def tacos(group: Group) -> Terms:
    """Pieces drawn for every link and step, such that no link idles that has something to bring.

    >>> from colltool.extras.synthesis.forest import ring_wires
    >>> tacos(Group(4, "graph", wires=ring_wires(4)))[:2]
    (96, 0.375)
    """
    wires = wires_between(group)
    assert wires is not None  # links_in_proportion let nobody else in
    count, unit = step_count(wires), _unit(wires)
    assert unit is not None
    return Terms(count, count / (group.ranks * pieces_of(group.ranks)) / unit, Links())


@schedule("tacos", AR, AG, RS, per_pair=lambda ranks: 2 * pieces_of(ranks))
def _tacos(primitive: Primitive, group: Group, _segments: int) -> Program:
    wires = wires_between(group)
    assert wires is not None  # links_in_proportion let nobody else in

    def gather() -> Batches:
        for moved in steps(wires):
            src, dst, piece = np.array(moved, dtype=np.int64).T
            yield (step(src, dst, piece),)

    pieces = pieces_of(group.ranks)
    home = np.repeat(np.arange(group.ranks), pieces)
    sizes = np.full(len(home), 1 / len(home))
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        sizes,
        home=home,
        target=home,
        batches=gathered(primitive, gather),
    )
