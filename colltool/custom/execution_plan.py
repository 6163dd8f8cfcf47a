"""An execution plan of MSCCL++ in memory (:class:`ExecutionPlan`): its operations (:class:`PlanOp`), the
places they move, and what the names of operations mean.

``mscclpp_file`` reads a plan in chunks, :func:`in_parts` makes whole numbers of it, and ``mscclpp_machine``
executes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.custom.schedule import MOST_MOVES

MOST_STEPS = 200_000  # of all threadblocks: what is executed in seconds
# Operations by what they do, in MSCCL++'s names.
# They copy their source, or add up their sources, to all targets.
COPIES = frozenset(("copy", "put", "pws", "pwsf", "get", "ppkt", "rppkt", "cpkt", "upkt", "gstore"))
SUMS = frozenset(("re", "rre", "rres", "res", "repkt", "respkt", "recspkt", "recpkt", "glres"))
# MSCCL++'s language joins several of these to one: the n-th source goes to the n-th target.
PAIRED = frozenset(("put", "pws", "pwsf", "get", "ppkt"))
SIGNALS = frozenset(("signal", "rlxsignal", "pws", "pwsf"))
WAITS = frozenset(("wait", "rlxwait"))
SEMAPHORES = frozenset(("sem_acquire", "sem_release"))
NOTHING = frozenset(("nop", "flush"))
# They wait for packets in their sources in scratch.
PACKETS = frozenset(("upkt", "rppkt", "repkt", "respkt", "recspkt", "recpkt"))
# A pipeline does not cut them.
UNCUT = PACKETS | {"ppkt", "cpkt"}
IN_SWITCH = frozenset(("glres", "gstore"))
SWITCH = "switch"
PIPELINE = "pipeline"
NAMES = COPIES | SUMS | SIGNALS | WAITS | SEMAPHORES | NOTHING | {"barrier"}

Chunks = int | Fraction
"""An offset or a number of chunks, of which groups and pipelines take parts."""


class PlanPlace(NamedTuple):
    """Consecutive chunks of a buffer, maybe a peer's."""

    rank: int
    buffer: str  # i, o or s: input, output or scratch
    first: Chunks
    chunks: Chunks  # how many

    def part(self, begin: Chunks, end: Chunks) -> PlanPlace:
        """Return the chunks from ``begin`` to ``end`` of this place."""
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
    # what the threadblocks of a group have in common, and which part is this one's; None without a
    # group
    group: tuple[str, int] | None
    where: str  # its path in the file, and its name, for errors


class ExecutionPlan(NamedTuple):
    """A plan as it is executed: in equal parts of chunks."""

    parts: int  # of a chunk, so many that every place is a whole number of them
    sizes: dict[tuple[int, str], int]  # parts of each buffer, by rank and buffer
    blocks: list[tuple[int, list[PlanOp]]]  # the rank and the operations of each threadblock
    semaphores: dict[tuple[int, int], int]  # what each begins with, by rank and number
    file: str  # for errors

    @property
    def has_groups(self) -> bool:
        """Whether threadblocks share an operation."""
        return any(op.group for op in self.ops())

    def names(self) -> set[str]:
        """Return the names of the operations that there are."""
        return {op.name for op in self.ops()}

    def ops(self) -> Iterator[PlanOp]:
        """Yield the operations of all threadblocks."""
        for _, ops in self.blocks:
            yield from ops


def in_parts(plan: ExecutionPlan) -> ExecutionPlan:
    """Return a plan, whose places and sizes are in chunks, with these in parts of chunks;
    ColltoolError for one that moves too many."""
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
    """A place in parts of chunks, of which it is a whole number."""
    first = int(place.first * parts)
    return PlanPlace(place.rank, place.buffer, first, int(place.chunks * parts))


def too_long(file: str) -> ColltoolError:
    """The error to raise about a plan that takes too long to execute."""
    what = f"more than {MOST_STEPS} operations, or {MOST_MOVES} chunks moved, are not followed"
    return ColltoolError(what, where=file, fix="fewer threadblocks or chunks")
