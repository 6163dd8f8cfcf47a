"""An execution plan of MSCCL++ in memory (:class:`ExecutionPlan`): its operations (:class:`PlanOp`), the
places they move, and what the names of operations mean.

``mscclpp_file`` reads a plan whose places are counted in chunks, maybe in fractions of one; :func:`in_parts`
counts them in equal parts of a chunk, in whole numbers; ``mscclpp_machine`` executes that.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.custom.schedule import MOST_MOVES

# Operations of all threadblocks together: what is executed in seconds. ``PlanFile.plan`` counts them.
MOST_STEPS = 200_000

# Operations by what they do, in MSCCL++'s names.
#
# Copies write their source to all targets: put writes to peers, pws then signals, pwsf also flushes; get reads
# from a peer. Packets carry a flag that says when they are there: ppkt puts them, rppkt reads and puts them on,
# cpkt copies into packets, upkt out of them. gstore stores to all ranks of a switch channel.
COPIES = frozenset(("copy", "put", "pws", "pwsf", "get", "ppkt", "rppkt", "cpkt", "upkt", "gstore"))
# Sums write the sum of their sources to all targets: re of this rank's memory, rre with reads from peers; res and
# rres send it as well. With packets: repkt, and with a send (s), a copy (c) or both respkt, recpkt and recspkt.
# glres reads the sum from a switch and stores it through the switch.
SUMS = frozenset(("re", "rre", "rres", "res", "repkt", "respkt", "recspkt", "recpkt", "glres"))
# MSCCL++'s language joins several of these copies to one operation with as many sources as targets: the n-th
# source goes to the n-th target.
PAIRED = frozenset(("put", "pws", "pwsf", "get", "ppkt"))
# A signal goes to the peer of each channel, a wait takes one from each; rlx: without ordering of memory.
SIGNALS = frozenset(("signal", "rlxsignal", "pws", "pwsf"))
WAITS = frozenset(("wait", "rlxwait"))
# These join the threadblocks of one GPU.
SEMAPHORES = frozenset(("sem_acquire", "sem_release"))
NOTHING = frozenset(("nop", "flush"))
# Operations that wait until the packets have arrived in those of their sources that lie in the rank's scratch.
PACKETS = frozenset(("upkt", "rppkt", "repkt", "respkt", "recspkt", "recpkt"))
# Operations that a pipeline does not cut into pieces: all that read or write packets.
UNCUT = PACKETS | {"ppkt", "cpkt"}
# Operations that a switch carries out for all ranks of a channel.
IN_SWITCH = frozenset(("glres", "gstore"))
SWITCH = "switch"  # the type of such a channel
PIPELINE = "pipeline"  # the name of an entry that holds operations; it is none itself
NAMES = COPIES | SUMS | SIGNALS | WAITS | SEMAPHORES | NOTHING | {"barrier"}

Chunks = int | Fraction
"""An offset or a count. As read it is of chunks, a fraction where a group of threadblocks or a pipeline takes a
part of a chunk; after :func:`in_parts` it is a whole number of parts."""


class PlanPlace(NamedTuple):
    """Consecutive chunks of a buffer, maybe a peer's; after :func:`in_parts` parts of chunks."""

    rank: int
    buffer: str  # i, o or s: input, output or scratch
    first: Chunks
    chunks: Chunks  # how many; 0 of a piece behind the end of the place

    def part(self, begin: Chunks, end: Chunks) -> PlanPlace:
        """Return the chunks from ``begin`` to before ``end``, both counted from the start of this place."""
        return PlanPlace(self.rank, self.buffer, self.first + begin, end - begin)


class PlanOp(NamedTuple):
    """An operation of a threadblock, on all or a part of its places."""

    name: str  # one of NAMES
    sources: tuple[PlanPlace, ...]
    targets: tuple[PlanPlace, ...]
    channels: tuple[tuple[int, int], ...]  # each the peer, and the number of the channel to it
    barrier: int  # the number of the barrier; -1 of other operations
    barrier_members: int  # threadblocks that the barrier is for; 0 where the file does not say
    semaphores: tuple[int, ...]  # their numbers
    # of an operation that a group of threadblocks shares: a text that is the same for all of them, and the
    # number of this threadblock's part, from 0; None without a group
    group: tuple[str, int] | None
    where: str  # its path in the file, and its name, for errors


class ExecutionPlan(NamedTuple):
    """All threadblocks of a plan and what they work on. Places and sizes are in chunks as it is read, and in
    parts of chunks as it is executed; :func:`in_parts` makes the second of the first."""

    parts: int  # into which a chunk is cut: so many that every place is a whole number of them
    sizes: dict[
        tuple[int, str], int
    ]  # of each buffer, by rank and buffer; in chunks or parts as the places
    blocks: list[tuple[int, list[PlanOp]]]  # the rank and the operations of each threadblock
    semaphores: dict[tuple[int, int], int]  # the value that each begins with, by rank and number
    file: str  # for errors

    @property
    def has_groups(self) -> bool:
        """Whether threadblocks share an operation."""
        return any(op.group for op in self.ops())

    def names(self) -> set[str]:
        """Return the names of all operations of the plan."""
        return {op.name for op in self.ops()}

    def ops(self) -> Iterator[PlanOp]:
        """Yield the operations of all threadblocks."""
        for _, ops in self.blocks:
            yield from ops


def in_parts(plan: ExecutionPlan) -> ExecutionPlan:
    """Return a plan that was read in chunks with all places and sizes in parts of chunks.

    Args:
        plan: its ``parts`` are known already: every place is a whole number of them.

    Raises:
        ColltoolError: all sources and targets together are more than ``MOST_MOVES`` parts.
    """
    moves = 0
    blocks = []
    for rank, ops in plan.blocks:
        scaled = []
        for op in ops:
            sources = tuple(_place_in_parts(place, plan.parts) for place in op.sources)
            targets = tuple(_place_in_parts(place, plan.parts) for place in op.targets)
            moves += sum(int(place.chunks) for place in (*sources, *targets))
            if moves > MOST_MOVES:
                raise too_long(plan.file)
            scaled.append(op._replace(sources=sources, targets=targets))
        blocks.append((rank, scaled))
    sizes = {key: chunks * plan.parts for key, chunks in plan.sizes.items()}
    return plan._replace(sizes=sizes, blocks=blocks)


def _place_in_parts(place: PlanPlace, parts: int) -> PlanPlace:
    """A place of chunks as one of parts; int() rounds nothing, as the place is a whole number of these."""
    first = int(place.first * parts)
    return PlanPlace(place.rank, place.buffer, first, int(place.chunks * parts))


def too_long(file: str) -> ColltoolError:
    """The error to raise about a plan beyond either limit: ``MOST_STEPS`` when it is read, ``MOST_MOVES`` in
    :func:`in_parts`."""
    what = f"more than {MOST_STEPS} operations, or {MOST_MOVES} chunks moved, are not followed"
    return ColltoolError(what, where=file, fix="fewer threadblocks or chunks")
