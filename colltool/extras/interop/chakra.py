"""A planned training step as Chakra execution traces: for each rank its compute and its
collectives, in the order they depend.

Every rank gets the load of the stage that sets the pace, which is what the plan's parts are of,
with its own groups. A micro-batch is its forward and its backward pass; the calls of a pass stand
evenly between slices of its compute. One that the plan hides for more than half of its time starts
with the slice beside it; the others hold the next slice up. Durations are whole microseconds in the
format: what rounding takes from one node the next one gets, so that sums are those of the plan.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import format_time
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.chakra_format import (
    COLLECTIVES,
    PROCESS_GROUPS,
    ChakraNode,
    NodeType,
    Value,
    encoded,
)
from colltool.training.calls import Call, Hiding
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import RankGroup
from colltool.training.plan import Plan

MOST_WRITTEN = 1_000_000  # nodes of all ranks: about 100 MB
WORKLOAD, GROUPS = "workload", "comm_groups.json"
# in the metadata of a file: its rank's groups, as PyTorch's profiler lists them
_TYPES: dict[Primitive, str] = {
    AR: "ALL_REDUCE",
    REDUCE: "REDUCE",
    AG: "ALL_GATHER",
    RS: "REDUCE_SCATTER",
    A2A: "ALL_TO_ALL",
    BC: "BROADCAST",
}
# parts of a plan that are compute; the others are waiting
_WORKS = ("compute", "optimizer", "overlap slows compute")


class Work(NamedTuple):
    """A node before it has a rank: seconds of compute, or one call of ``sent``; ``beside``: nothing
    of its pass waits for it."""

    name: str
    seconds: float
    sent: PricedCall | None = None
    beside: bool = False


def chakra(plan: Plan) -> dict[str, bytes]:
    """Files by name: ``workload.RANK.et`` for every rank, and ``comm_groups.json``, the ranks of
    each group by its number.

    ColltoolError for more than :data:`MOST_WRITTEN` nodes.
    """
    works, ranks = list(step_works(plan)), plan.ranks
    if len(works) * ranks > MOST_WRITTEN:
        what = f"{len(works):,} nodes for each of {ranks} ranks are more than {MOST_WRITTEN:,}"
        fewer = given("job_overrides", [f"batch.global={max(1, plan.setup.global_batch // 8)}"])
        raise ColltoolError(
            what, argument="ranks", fix=f"take a smaller batch, {fewer}, or fewer ranks"
        )
    groups = _CommGroups(plan.setup.layout.group("pp"), ranks)
    files = {}
    for rank in range(ranks):
        nodes = list(_nodes(works, rank, groups))
        mine = [
            {"pg_name": str(number), "ranks": members}
            for members, number in groups.numbers.items()
            if rank in members
        ]
        head: dict[str, Value] = {
            "rank": rank,
            "world_size": ranks,
            PROCESS_GROUPS: json.dumps(mine),
        }
        files[f"{WORKLOAD}.{rank}.et"] = encoded(nodes, head)
    numbered = {str(number): list(members) for members, number in groups.numbers.items()}
    return files | {GROUPS: (json.dumps(numbered) + "\n").encode()}


def to_know(plan: Plan) -> Iterator[str]:
    """What the files hold, and what they leave out."""
    works = sum(part.exposed_s for part in plan.parts if part.name in _WORKS)
    sent = [one.sent for one in plan.collectives if one.paces]
    yield (
        f"compute {format_time(works)} and collectives"
        f" {format_time(sum(one.total_s for one in sent))} a rank, as planned"
    )
    if left := [
        part
        for part in plan.parts
        if part.name not in _WORKS and not part.hidden_s and part.name in _WAITS
    ]:
        yield (
            "left out, it is no work:"
            f" {', '.join(f'{part.name} {format_time(part.exposed_s)}' for part in left)}"
        )
    yield (
        f"ASTRA-sim takes them with --workload-configuration=DIR/{WORKLOAD}"
        f" --comm-group-configuration=DIR/{GROUPS}"
    )


_WAITS = ("bubble", "fixed", "jitter")


def step_works(plan: Plan) -> Iterator[Work]:
    """A step of the rank that sets the pace, in order."""
    times, m = plan.step.slowest.compute.all, max(1, plan.setup.micro_batches)
    sent = [one.sent for one in plan.collectives if one.paces]
    often = [one for one in sent if one.call.per != "step"]
    counts = [max(1, round(one.call.calls)) for one in sent]
    shares = {
        id(one): (one.total_s / count, count) for one, count in zip(sent, counts, strict=True)
    }
    once = [one for one in sent if one.call.per == "step"]
    for number in range(m):
        for name, seconds, back in (
            ("forward", times.forward_s, False),
            ("backward", times.backward_s + times.again_s, True),
        ):
            calls = list(_spread([one for one in often if one.back is back], shares, number, m))
            under = [
                one
                for one in once
                if one.call.hides == _UNDER[back] and number == (m - 1 if back else 0)
            ]
            yield from _pass(
                f"{name} {number}", seconds, calls, list(_spread(under, shares, 0, 1)), back=back
            )
    for one in (one for one in once if one.call.hides not in _UNDER):
        seconds, count = shares[id(one)]
        yield from (_call(one, seconds) for _ in range(count))
    for part in plan.parts:
        if part.name in _WORKS[1:]:
            yield Work(part.name, part.exposed_s)


def _spread(
    sent: Sequence[PricedCall], shares: dict[int, tuple[float, int]], number: int, m: int
) -> Iterator[Work]:
    """The calls of one micro-batch, kinds in turn."""
    left = []
    for one in sent:
        seconds, count = shares[id(one)]
        left.append([_call(one, seconds)] * ((number + 1) * count // m - number * count // m))
    # each kind evenly over the pass: the k-th of n at (k + 1/2)/n
    placed = [
        ((k + 0.5) / len(some), kind, work)
        for kind, some in enumerate(left)
        for k, work in enumerate(some)
    ]
    yield from (work for _, _, work in sorted(placed, key=lambda one: one[:2]))


def _call(one: PricedCall, seconds: float) -> Work:
    name = f"{one.call.dimension} {one.call.primitive.spoken} {one.call.phase}"
    return Work(name, seconds, one, beside=one.exposed_s < one.total_s / 2)


_UNDER: tuple[Hiding, Hiding] = ("first forward", "last backward")


def _pass(
    name: str, seconds: float, calls: Sequence[Work], under: Sequence[Work], *, back: bool
) -> Iterator[Work]:
    """A pass's compute between its calls; the buckets ``under`` it are ready evenly over it, the
    last at its end.

    Going forward that is in reverse: the first bucket must be there before anything, the others
    come while it computes.
    """
    slices, most = max(len(calls), len(under)) + 1, len(under)
    ready = Counter(
        min(slices, -(-(k + 1) * slices // most)) if back else k * slices // most
        for k in range(most)
    )
    due = Counter((k + 1) * slices // (len(calls) + 1) for k in range(len(calls)))
    buckets, between = iter(under), iter(calls)
    for number in range(slices + 1):
        yield from (
            one._replace(beside=back or number > 0) for one in islice(buckets, ready[number])
        )
        yield from islice(between, due[number])
        if seconds and number < slices:
            yield Work(f"{name} {number + 1}/{slices}", seconds / slices)


class _CommGroups:
    """Numbers of groups from 1, as they are met; ``stages``: the ranks of a pipeline."""

    def __init__(self, stages: RankGroup, ranks: int) -> None:
        self.stages, self.ranks, self.numbers = stages, ranks, dict[tuple[int, ...], int]()

    def of(self, call: Call, rank: int) -> tuple[int, ...]:
        """The ranks of a call's group around a rank; of a tied embedding those of the first and the
        last stage."""
        if call.dimension == "embedding":
            stages = _around(self.stages, rank)
            return (stages[0], stages[-1])
        return _around(call.group, rank)

    def number(self, members: tuple[int, ...]) -> int:
        return self.numbers.setdefault(members, len(self.numbers) + 1)


@lru_cache(2**12)  # each call of a group asks again
def _around(group: RankGroup, rank: int) -> tuple[int, ...]:
    first = rank - sum(rank // stride % size * stride for size, stride in group.axes)
    return tuple(first + one for one in group.members)


def _nodes(works: Sequence[Work], rank: int, groups: _CommGroups) -> Iterator[ChakraNode]:
    """Nodes of one rank. A work waits for the one in line before it; what runs beside is waited for
    at the end."""
    first, line, beside = 0, tuple[int, ...](), list[int]()
    owed: dict[str, float] = {}
    for at, work in enumerate(works):
        made = list(_made(work, rank, groups, at))
        if not made:
            continue
        kind = "compute" if work.sent is None else work.sent.call.dimension
        exact = owed.get(kind, 0.0) + work.seconds * 1e6
        lasts = round(exact)
        owed[kind] = exact - lasts
        waits = (*line, *beside) if at == len(works) - 1 else line
        ids = tuple(range(first, first + len(made)))
        for number, (type_, attributes) in zip(ids, made, strict=True):
            of = {"is_cpu_op": False, **attributes}
            # of a message sent and one received the first has the time
            duration = lasts if number == first else 0
            yield ChakraNode(
                number, work.name, type_, data_deps=waits, duration_us=duration, attributes=of
            )
        first += len(made)
        if work.beside:
            beside += ids
        else:
            line = ids


def _made(
    work: Work, rank: int, groups: _CommGroups, at: int
) -> Iterator[tuple[NodeType, dict[str, Value]]]:
    """Types and attributes of the nodes that a work is on a rank: a message is one sent, one
    received."""
    if work.sent is None:
        yield "COMP_NODE", {}
        return
    call = work.sent.call
    members = groups.of(call, rank)
    # no group of its kind lies around this rank
    if rank not in members or members[-1] >= groups.ranks:
        return
    name: dict[str, Value] = {"pg_name": str(groups.number(members))}
    if call.primitive is not P2P:
        # what an NPU puts in
        size = call.bytes / len(members) if call.primitive is AG else call.bytes
        kind = COLLECTIVES.index(_TYPES[call.primitive])
        yield "COMM_COLL_NODE", {"comm_type": kind, "comm_size": round(size), **name}
        return
    place, way, of = (
        members.index(rank),
        -1 if work.sent.back else 1,
        {"comm_size": round(call.bytes), "comm_tag": at},
    )
    if call.closed or 0 <= place + way < len(members):
        yield (
            "COMM_SEND_NODE",
            {"comm_src": rank, "comm_dst": members[(place + way) % len(members)], **of, **name},
        )
    if call.closed or 0 <= place - way < len(members):
        yield (
            "COMM_RECV_NODE",
            {"comm_src": members[(place - way) % len(members)], "comm_dst": rank, **of, **name},
        )
