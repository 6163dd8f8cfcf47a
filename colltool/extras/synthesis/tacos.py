"""All-gathers found step by step: in every step each link sends a piece that its far end lacks.

Links into ranks with few links choose first. Of the pieces that it could send, a link picks one that
the fewest ranks hold, at random with a fixed seed: links stay busy to the last steps, and the same
network always gives the same schedule. A reduce-scatter runs the steps backwards, an all-reduce both.

Each rank's part of M is cut into pieces (:func:`pieces_of`). A step lasts as long as the slowest rate of which all
are multiples takes for a piece (:func:`_unit`); a faster link is listed several times, and sends as many.

Source: TACOS, arXiv 2304.05301; rarest pieces first, as BitTorrent takes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial

from colltool.algorithms.program import Batches, Program, gather_or_reverse, schedule, step
from colltool.algorithms.registry import TACOS, algorithm
from colltool.base.primitives import AG, AR, RS, Links, Primitive, Terms
from colltool.extras.synthesis.forest import ON_LINKS, joined_by_links, wires_between
from colltool.network.arrays import np
from colltool.network.group import Group, all_ports
from colltool.network.wires import GraphWires

MOST_RANKS = 512  # with more the search takes seconds
_MOST_PARTS = 4  # all rates must be multiples of the slowest, or of its half, third or fourth part
_MOST_PARALLEL = 64  # pieces that a link sends in a step, at most
_LEAST_PIECES = 256  # pieces in all, so that few ranks keep many links busy

StepMoves = list[tuple[int, int, int]]  # (sender, receiver, piece)


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
    """The rate in bytes/s that sends one piece in a step, of which all rates are multiples; None where
    there is none, or a link would send too many pieces."""
    from colltool.extras.synthesis.packing import common_unit, rates_of

    rates = rates_of(wires).values()
    unit = common_unit(rates, _MOST_PARTS)
    return unit if unit and max(rates) < (_MOST_PARALLEL + 1) * unit else None


def _links(wires: GraphWires) -> list[tuple[int, int]]:
    """Links from rank to rank, each listed once for every piece that it sends in a step. Links into
    ranks with few links come first."""
    from colltool.extras.synthesis.packing import rates_of

    unit = _unit(wires)
    assert unit is not None  # links_in_proportion requires it
    links_per_step: list[tuple[int, int]] = []
    for ends, rate in rates_of(wires).items():
        links_per_step += [ends] * round(rate / unit)
    into = Counter(b for _, b in links_per_step)
    return sorted(links_per_step, key=lambda ends: (into[ends[1]], ends))


def pieces_of(ranks: int) -> int:
    """Into how many pieces each rank's part of M is cut."""
    return max(1, _LEAST_PIECES // ranks)


def steps(wires: GraphWires) -> Iterator[StepMoves]:
    """Yield the moves of each step of an all-gather; piece ``c`` of rank ``r`` is ``r * pieces + c``."""
    ranks = wires.endpoints
    pieces = pieces_of(ranks)
    links = _links(wires)
    # Sets of pieces are numbers here: bit p is set where piece p is in the set.
    held = [((1 << pieces) - 1) << rank * pieces for rank in range(ranks)]  # by rank
    holders = _Holders(ranks * pieces, ranks)
    while holders.rarest < ranks:
        # what arrives in a step cannot be sent on in it
        held_before = list(held)
        moved = []
        for a, b in links:
            missing = held_before[a] & ~held[b]
            if missing:
                # counts the receiver, too
                piece = holders.pick_rarest(missing)
                held[b] |= 1 << piece
                moved.append((a, b, piece))
        assert moved, "every rank reaches every other"
        yield moved


class _Holders:
    """How many ranks hold each piece.

    Attributes:
        pieces: of all ranks together.
        random: state of the generator of random numbers, 64 bits; starts at a fixed seed.
        rarest: number of ranks that hold the rarest piece.
        by_count: ``by_count[n]`` has the pieces that n ranks hold, as bits.
    """

    def __init__(self, pieces: int, ranks: int) -> None:
        self.pieces = pieces
        self.random = 1
        self.rarest = 1
        self.by_count = [0, (1 << pieces) - 1, *[0] * ranks]

    def pick_rarest(self, candidates: int) -> int:
        """Pick one of the rarest of these pieces (bits), and count one more rank that holds it."""
        holders = self.rarest
        while not candidates & self.by_count[holders]:
            holders += 1
        # the linear congruential generator of Knuth's MMIX
        self.random = (self.random * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        start = (self.random >> 33) % self.pieces
        rare = candidates & self.by_count[holders]
        # The next rare piece from a random number on, else the lowest: of pieces 2, 5 and 7 it is 5 from
        # 3 on, 2 from 8 on.
        piece = _lowest(rare >> start << start or rare)
        self.by_count[holders] ^= 1 << piece
        self.by_count[holders + 1] |= 1 << piece
        while self.rarest < len(self.by_count) - 2 and not self.by_count[self.rarest]:
            self.rarest += 1
        return piece


def _lowest(bits: int) -> int:
    """The number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


@lru_cache(maxsize=64)
def step_count(wires: GraphWires) -> int:
    """How many steps an all-gather takes."""
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
    unit = _unit(wires)
    assert unit is not None
    # ring of the example: 96 steps, each of a piece of M/256 at 1 byte/s
    needed_steps = step_count(wires)
    pieces = group.ranks * pieces_of(group.ranks)
    return Terms(needed_steps, needed_steps / pieces / unit, Links())


@schedule("tacos", AR, AG, RS, per_pair=lambda ranks: 2 * pieces_of(ranks))
def _tacos(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The steps that were found, each link's pieces of a step at once."""
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
