"""A planned training step as Chakra execution traces: for each rank its compute and its
collectives, in the order in which they depend on each other.

Every rank gets the load of the stage that sets the pace, which the plan's parts describe, with its
own groups. A micro-batch is its forward and its backward pass; the calls of a pass are spread
evenly between slices of its compute. A call that the plan hides for more than half of its time
starts with the next slice; the others delay it. Durations are whole microseconds in the format:
what rounding takes from one node the next one gets, so that sums are those of the plan.

A plan's ``collectives`` have the calls of all stages; those that ``paces`` marks are of the stage that sets
the pace. ``total_s`` of a call is over all of its calls in a step, hidden or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import format_time
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, ceil_div
from colltool.logs.chakra_encode import encode_trace
from colltool.logs.chakra_format import (
    COLLECTIVES,
    PROCESS_GROUPS,
    ChakraNode,
    NodeType,
    Value,
)
from colltool.training.calls import Call, Hiding
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import RankGroup
from colltool.training.plan import Plan

MOST_WRITTEN = 1_000_000  # nodes of all ranks: about 100 MB
WORKLOAD = "workload"  # the traces are WORKLOAD.RANK.et
GROUPS = "comm_groups.json"
_TYPES: dict[Primitive, str] = {
    AR: "ALL_REDUCE",
    REDUCE: "REDUCE",
    AG: "ALL_GATHER",
    RS: "REDUCE_SCATTER",
    A2A: "ALL_TO_ALL",
    BC: "BROADCAST",
}
# Names of a plan's parts.
_COMPUTE = "compute"
_OTHER_WORKS = ("optimizer", "overlap slows compute")  # compute outside of the passes, at the end
_WAITS = ("bubble", "fixed", "jitter")  # no work: a rank waits


class Work(NamedTuple):
    """A node before it has a rank: compute, or one call of a collective.

    Args:
        seconds: of this node alone.
        sent: the collective that it is a call of; None for compute.
        detached: nothing of its pass waits for it, only the end of the step.
    """

    name: str
    seconds: float
    sent: PricedCall | None = None
    detached: bool = False


class _RepeatedCall(NamedTuple):
    """A collective of the step.

    Args:
        priced: all of its calls, with their price.
        work: of one call.
        calls: how many there are in a step.
    """

    priced: PricedCall
    work: Work
    calls: int


def chakra(plan: Plan) -> dict[str, bytes]:
    """Return files by name: ``workload.RANK.et`` for every rank, and ``comm_groups.json``, which has the
    ranks of each group by its number.

    Raises:
        ColltoolError: more than :data:`MOST_WRITTEN` nodes.
    """
    works = list(step_works(plan))
    ranks = plan.ranks
    if len(works) * ranks > MOST_WRITTEN:
        what = f"{len(works):,} nodes for each of {ranks} ranks are more than {MOST_WRITTEN:,}"
        fewer = argument_text(
            "job_overrides", [f"batch.global={max(1, plan.setup.global_batch // 8)}"]
        )
        raise ColltoolError(
            what, argument="ranks", fix=f"take a smaller batch, {fewer}, or fewer ranks"
        )
    groups = _CommGroups(plan.setup.layout.group("pp"), ranks)
    files = {}
    for rank in range(ranks):
        # The groups of a rank get their numbers while its nodes are made.
        nodes = list(_nodes(works, rank, groups))
        metadata: dict[str, Value] = {
            "rank": rank,
            "world_size": ranks,
            PROCESS_GROUPS: groups.listed(rank),
        }
        files[f"{WORKLOAD}.{rank}.et"] = encode_trace(nodes, metadata)
    # Keys of JSON are texts, and its lists are Python's tuples.
    numbered = {number: members for members, number in groups.numbers.items()}
    files[GROUPS] = (json.dumps(numbered) + "\n").encode()
    return files


def usage_notes(plan: Plan) -> Iterator[str]:
    """Say what the files hold, what they leave out, and how ASTRA-sim takes them."""
    compute_s = 0.0
    left_out = []
    for part in plan.parts:
        if part.name == _COMPUTE or part.name in _OTHER_WORKS:
            compute_s += part.exposed_s
        elif part.name in _WAITS and not part.hidden_s:
            left_out.append(f"{part.name} {format_time(part.exposed_s)}")
    calls_s = sum(planned.sent.total_s for planned in plan.collectives if planned.paces)
    yield (
        f"compute {format_time(compute_s)} and collectives {format_time(calls_s)} a rank,"
        " as planned"
    )
    if left_out:
        yield f"left out, it is no work: {', '.join(left_out)}"
    yield (
        f"ASTRA-sim takes them with --workload-configuration=DIR/{WORKLOAD}"
        f" --comm-group-configuration=DIR/{GROUPS}"
    )


def step_works(plan: Plan) -> Iterator[Work]:
    """The works of a step on the stage that sets the pace, in order: the passes of each micro-batch, then
    what is sent once a step and no pass hides, then other compute."""
    # seconds a micro-batch
    times = plan.step.slowest.compute.all
    micro_batches = max(1, plan.setup.micro_batches)
    forward = []
    backward = []
    once = []
    for planned in plan.collectives:
        if planned.paces:
            repeated = _repeated_call(planned.sent)
            if repeated.priced.call.per == "step":
                once.append(repeated)
            elif repeated.priced.backward:
                backward.append(repeated)
            else:
                forward.append(repeated)
    under_forward = _hidden_under(once, "first forward")
    under_backward = _hidden_under(once, "last backward")
    for number in range(micro_batches):
        yield from _pass(
            f"forward {number}",
            times.forward_s,
            _spread_evenly(forward, number, micro_batches),
            under_forward if number == 0 else [],
            back=False,
        )
        yield from _pass(
            f"backward {number}",
            times.backward_s + times.again_s,
            _spread_evenly(backward, number, micro_batches),
            under_backward if number == micro_batches - 1 else [],
            back=True,
        )
    for repeated in once:
        if repeated.priced.call.hides not in ("first forward", "last backward"):
            yield from [repeated.work] * repeated.calls
    for part in plan.parts:
        if part.name in _OTHER_WORKS:
            yield Work(part.name, part.exposed_s)


def _repeated_call(priced: PricedCall) -> _RepeatedCall:
    """The calls of a collective as equal works, a whole number of them; one at least."""
    call = priced.call
    calls = max(1, round(call.calls))
    name = f"{call.dimension} {call.primitive.label} {call.phase}"
    detached = priced.exposed_s < priced.total_s / 2
    return _RepeatedCall(priced, Work(name, priced.total_s / calls, priced, detached), calls)


def _hidden_under(once: Sequence[_RepeatedCall], hides: Hiding) -> list[Work]:
    """The calls sent once a step that one of its passes hides, in the order in which they are
    sent."""
    calls = [repeated for repeated in once if repeated.priced.call.hides == hides]
    return _spread_evenly(calls, 0, micro_batches=1)


def _spread_evenly(calls: Sequence[_RepeatedCall], number: int, micro_batches: int) -> list[Work]:
    """The calls of one micro-batch, each kind evenly over the pass: the k-th of n at (k + 1/2)/n.

    Of 3 calls a step, the first of two micro-batches has 1 and the second 2.
    """
    placed: list[tuple[float, Work]] = []
    for repeated in calls:
        sent_before = number * repeated.calls // micro_batches
        n = (number + 1) * repeated.calls // micro_batches - sent_before
        # the k-th of n, at the middle of its n-th part
        for k in range(n):
            placed.append(((k + 0.5) / n, repeated.work))
    # of equal places the order stays that of the kinds
    placed.sort(key=itemgetter(0))
    return [work for _, work in placed]


def _pass(
    name: str, compute_s: float, calls: Sequence[Work], buckets: Sequence[Work], *, back: bool
) -> Iterator[Work]:
    """The compute of a pass in slices, its calls between them, and the buckets that it hides: calls that
    are sent once a step under this pass.

    Going backward, buckets become ready evenly over the pass, the last at its end. Going forward
    that is reversed: the first must be there before anything, the others come while it computes.
    Three buckets of a pass of 4 slices are ready before slices 2, 3 and 4 (its end) going backward,
    and needed before slices 0, 1 and 2 going forward.
    """
    slices = max(len(calls), len(buckets)) + 1
    before_slice: list[list[Work]] = [[] for _ in range(slices + 1)]  # the last: after all slices
    for k, bucket in enumerate(buckets):
        ready = k * slices // len(buckets)
        if back:
            # the ceiling of (k + 1)/n of the slices
            ready = min(slices, ceil_div((k + 1) * slices, len(buckets)))
        before_slice[ready].append(bucket._replace(detached=back or ready > 0))
    for k, call in enumerate(calls):
        before_slice[(k + 1) * slices // (len(calls) + 1)].append(call)
    for number, works in enumerate(before_slice):
        yield from works
        if compute_s and number < slices:
            yield Work(f"{name} {number + 1}/{slices}", compute_s / slices)


class _CommGroups:
    """Groups of ranks, numbered from 1 as they come up.

    Args:
        stages: the ranks of a pipeline.
        ranks: of the step.
    """

    def __init__(self, stages: RankGroup, ranks: int) -> None:
        self.stages = stages
        self.ranks = ranks
        self.numbers: dict[tuple[int, ...], int] = {}

    def members(self, call: Call, rank: int) -> tuple[int, ...]:
        """The ranks of a call's group around a rank; for a tied embedding those of the first and
        the last stage."""
        if call.dimension == "embedding":
            stages = _members_around(self.stages, rank)
            return stages[0], stages[-1]
        return _members_around(call.group, rank)

    def number(self, members: tuple[int, ...]) -> int:
        """The number of a group, a new one where it has none yet."""
        return self.numbers.setdefault(members, len(self.numbers) + 1)

    def listed(self, rank: int) -> str:
        """The groups of a rank as JSON, as PyTorch's profiler lists them."""
        groups = []
        for members, number in self.numbers.items():
            if rank in members:
                groups.append({"pg_name": str(number), "ranks": members})
        return json.dumps(groups)


# kept, as each call of a group asks again
@lru_cache(2**12)
def _members_around(group: RankGroup, rank: int) -> tuple[int, ...]:
    """The group that a rank is in: of groups of 4 ranks, 8 apart, rank 13 is in 5, 13, 21, 29."""
    # the rank less its places along the axes
    start = rank - sum(rank // stride % size * stride for size, stride in group.axes)
    return tuple(start + member for member in group.members)


def _nodes(works: Sequence[Work], rank: int, groups: _CommGroups) -> Iterator[ChakraNode]:
    """The nodes of one rank. Each work waits for the one before it in line, which is the last that was not
    detached; the last of all also waits for all that is detached."""
    next_id = 0
    line: tuple[int, ...] = ()  # ids of the last work in line
    detached: list[int] = []  # ids of what runs beside it
    rounded_off: dict[str, float] = {}  # microseconds not written yet, by dimension or compute
    for index, work in enumerate(works):
        parts = _parts(work, rank, groups, index)
        if not parts:
            continue
        dimension = "compute" if work.sent is None else work.sent.call.dimension
        exact_us = rounded_off.get(dimension, 0.0) + work.seconds * 1e6
        duration_us = round(exact_us)
        rounded_off[dimension] = exact_us - duration_us
        waits_for = line
        if index == len(works) - 1:
            waits_for = (*line, *detached)
        ids = tuple(range(next_id, next_id + len(parts)))
        next_id += len(parts)
        for node, (type_, attributes) in zip(ids, parts, strict=True):
            yield ChakraNode(
                node,
                work.name,
                type_,
                data_deps=waits_for,
                # Of a message sent and one received the first has the time.
                duration_us=duration_us if node == ids[0] else 0,
                attributes={"is_cpu_op": False, **attributes},
            )
        if work.detached:
            detached += ids
        else:
            line = ids


def _parts(
    work: Work, rank: int, groups: _CommGroups, index: int
) -> list[tuple[NodeType, dict[str, Value]]]:
    """The node types and attributes of a rank's work; none where the rank has no part in it. A
    message gives one for what the rank sends and one for what it receives; ``index`` of the work is
    its tag."""
    if work.sent is None:
        return [("COMP_NODE", {})]
    call = work.sent.call
    members = groups.members(call, rank)
    # No group of this kind lies around this rank.
    if rank not in members or members[-1] >= groups.ranks:
        return []
    group_name: dict[str, Value] = {"pg_name": str(groups.number(members))}
    if call.primitive is not P2P:
        # Chakra counts what an NPU puts in.
        input_bytes = call.bytes / len(members) if call.primitive is AG else call.bytes
        comm_type = COLLECTIVES.index(_TYPES[call.primitive])
        return [
            (
                "COMM_COLL_NODE",
                {"comm_type": comm_type, "comm_size": round(input_bytes), **group_name},
            )
        ]
    message: dict[str, Value] = {"comm_size": round(call.bytes), "comm_tag": index, **group_name}
    place = members.index(rank)
    step = -1 if work.sent.backward else 1
    parts: list[tuple[NodeType, dict[str, Value]]] = []
    if call.closed or 0 <= place + step < len(members):
        receiver = members[(place + step) % len(members)]
        parts.append(("COMM_SEND_NODE", {"comm_src": rank, "comm_dst": receiver, **message}))
    if call.closed or 0 <= place - step < len(members):
        sender = members[(place - step) % len(members)]
        parts.append(("COMM_RECV_NODE", {"comm_src": sender, "comm_dst": rank, **message}))
    return parts
