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
    gather_or_reverse,
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
_MOST_PARTS = 4  # parts of the slowest link's rate
_MOST_PARALLEL = 64  # pieces on a link in a step
_FINE = 256  # pieces in all, at least: each rank's part in several where ranks are few

Moved = list[tuple[int, int, int]]  # from a rank to its neighbour a piece


def links_in_proportion(group: Group) -> str | None:
    """Links between ranks, of one rate or of rates like 2 to 3, and not all in rings that
    multi-ring keeps busy."""
    why_not = joined_by_links(group)
    if why_not:
        return why_not
    if group.ranks > MOST_RANKS:
        return f"links are matched for {MOST_RANKS} ranks at most"
    sizes = {axis.size for axis in group.axes}
    if len(group.axes) > 1 and len(sizes) == 1 and all(axis.is_ring for axis in group.axes):
        return "all axes are rings of one length: multi-ring keeps every link busy"
    wires = wires_between(group)
    if wires is None or _unit(wires) is None:
        return f"needs links of one rate, or of whole multiples of a {_MOST_PARTS}th of the slowest"
    return None


def _unit(wires: GraphWires) -> float | None:
    """The rate of which all links have a whole multiple, bytes/s; None where that would be a small
    part of the slowest."""
    rates = rates_of(wires).values()
    unit = common_unit(rates, _MOST_PARTS)
    return unit if unit and max(rates) < (_MOST_PARALLEL + 1) * unit else None


def _links(wires: GraphWires) -> list[tuple[int, int]]:
    """Links from rank to rank, each as often as it carries pieces in a step, those into ranks of
    few links first."""
    unit = _unit(wires)
    assert unit is not None  # links_in_proportion requires it
    every: list[tuple[int, int]] = []
    for ends, rate in rates_of(wires).items():
        every += [ends] * round(rate / unit)
    into = Counter(b for _, b in every)
    return sorted(every, key=lambda ends: (into[ends[1]], ends))


def pieces_of(ranks: int) -> int:
    """How many pieces each rank's part is cut in."""
    return max(1, _FINE // ranks)


def steps(wires: GraphWires) -> Iterator[Moved]:
    """What each step of an all-gather moves; piece ``c`` of rank ``r`` is ``r * pieces + c``."""
    ranks = wires.endpoints
    pieces = pieces_of(ranks)
    links = _links(wires)
    # the pieces that each rank holds, as bits of a number
    held = [((1 << pieces) - 1) << rank * pieces for rank in range(ranks)]
    swarm = _Swarm(ranks * pieces, ranks)
    while swarm.rarest < ranks:
        before = list(held)
        moved = []
        for a, b in links:
            lacking = before[a] & ~held[b]
            if lacking:
                piece = swarm.taken(lacking)
                held[b] |= 1 << piece
                moved.append((a, b, piece))
        assert moved, "every rank reaches every other"
        yield moved


class _Swarm:
    """How many ranks hold each piece: ``held_by[n]`` are the pieces that n ranks hold, as bits of a
    number."""

    def __init__(self, pieces: int, ranks: int) -> None:
        self.pieces = pieces
        self.random = 1
        self.rarest = 1  # ranks that hold the rarest piece
        self.held_by = [0, (1 << pieces) - 1, *[0] * ranks]

    def taken(self, among: int) -> int:
        """One of the rarest of these pieces, which another rank holds now."""
        count = self.rarest
        while not among & self.held_by[count]:
            count += 1
        # the generator of Knuth's MMIX
        self.random = (self.random * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        first = (self.random >> 33) % self.pieces
        rare = among & self.held_by[count]
        # the next from a random number on, or the lowest
        piece = _lowest(rare >> first << first or rare)
        self.held_by[count] ^= 1 << piece
        self.held_by[count + 1] |= 1 << piece
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
    assert wires is not None  # links_in_proportion requires it
    count = step_count(wires)
    unit = _unit(wires)
    assert unit is not None
    pieces = group.ranks * pieces_of(group.ranks)
    return Terms(count, count / pieces / unit, Links())


@schedule("tacos", AR, AG, RS, per_pair=lambda ranks: 2 * pieces_of(ranks))
def _tacos(primitive: Primitive, group: Group, _segments: int) -> Program:
    wires = wires_between(group)
    assert wires is not None  # links_in_proportion requires it

    def gather() -> Batches:
        for moved in steps(wires):
            src, dst, piece = np.array(moved, dtype=np.int64).T
            yield (step(src, dst, piece),)

    home = np.repeat(np.arange(group.ranks), pieces_of(group.ranks))
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        np.full(len(home), 1 / len(home)),
        home=home,
        target=home,
        batches=gather_or_reverse(primitive, gather),
    )
