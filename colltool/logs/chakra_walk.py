"""When each node of a Chakra trace runs: as recorded (:func:`times_of`), or by its dependencies
(:func:`walk`).

Where nodes have no start times, as PyTorch's converter leaves them out, each starts when what it
depends on has ended and its stream is free: the CPU, compute on the GPU, and communication of each
process group are a stream each. Order is ``data_deps``, as Chakra's feeder takes it: ``ctrl_deps``
name the caller, which ends after what it calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Literal

from colltool.base.errors import ColltoolError
from colltool.logs.chakra_format import ChakraNode

Stream = Literal["cpu", "compute", "communication", "receiving"]
"""What runs one node at a time; a rank sends and receives at once."""
CALLING = ("communication", "receiving")
"""The streams whose nodes are calls, of which each process group has its own."""
_WRITE_AGAIN = "write the trace again"
TimedNode = tuple[ChakraNode, float, float]
"""A node, its start and its end in us."""


def times_of(
    nodes: list[ChakraNode], streams: Mapping[int, Stream], where: str
) -> Iterator[TimedNode]:
    """Each node with its times: as recorded, in the order of the file; where no node has a start,
    as :func:`walk` finds them, in order of start.

    Args:
        streams: by the node's id.
        where: the file, for errors.
    """
    if not any(node.start_us for node in nodes):
        yield from walk(nodes, streams, lambda node: node.duration_us, where)
        return
    for node in nodes:
        yield node, float(node.start_us), float(node.start_us + node.duration_us)


def walk(
    nodes: list[ChakraNode],
    streams: Mapping[int, Stream],
    lasts_us: Callable[[ChakraNode], float],
    where: str,
) -> Iterator[TimedNode]:
    """Start each node as early as its dependencies and its stream let it; the nodes in that order.

    Dependencies on nodes that the file does not have, and on itself, delay nothing.

    Args:
        streams: by the node's id.
        lasts_us: a node's duration.
        where: the file, for errors.

    Raises:
        ColltoolError: two nodes of one id, or dependencies that go round in a circle.
    """
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ColltoolError("has two nodes of one number", where=where, fix=_WRITE_AGAIN)
    followers: dict[int, list[int]] = defaultdict(list)
    unfinished: dict[int, int] = {}  # by id, how many nodes it still waits for
    for node in nodes:
        predecessors = by_id.keys() & node.data_deps
        predecessors.discard(node.id)
        unfinished[node.id] = len(predecessors)
        for predecessor in predecessors:
            followers[predecessor].append(node.id)
    # by id, the latest end of what it depends on, of those that have ended so far
    earliest_us = dict.fromkeys(by_id, 0.0)
    # when a node may start at the earliest, and its id; those that wait for nothing
    ready = [(0.0, node_id) for node_id, count in unfinished.items() if not count]
    heapify(ready)
    stream_free_us: dict[object, float] = defaultdict(float)
    started = 0
    while ready:
        ready_us, node_id = heappop(ready)
        node = by_id[node_id]
        started += 1
        stream = _exclusive_stream(node, streams[node_id])
        start_us = max(ready_us, stream_free_us[stream])
        end_us = start_us + lasts_us(node)
        stream_free_us[stream] = end_us
        yield node, start_us, end_us
        for follower in followers[node_id]:
            earliest_us[follower] = max(earliest_us[follower], end_us)
            unfinished[follower] -= 1
            if not unfinished[follower]:
                heappush(ready, (earliest_us[follower], follower))
    if started < len(nodes):
        raise ColltoolError(
            "has dependencies that go round in a circle", where=where, fix=_WRITE_AGAIN
        )


def _exclusive_stream(node: ChakraNode, stream: Stream) -> object:
    """What runs a node alone: its stream, of communication that of its process group, as PyTorch
    gives every process group a stream of its own (ProcessGroupNCCL)."""
    if stream in CALLING:
        return stream, node.attributes.get("pg_name", "")
    return stream
