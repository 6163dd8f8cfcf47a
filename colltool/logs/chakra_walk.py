"""When each node of a Chakra trace runs.

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
from colltool.logs.chakra_format import (
    ChakraNode,
)

# what runs one node at a time; a rank sends and receives at once
Stream = Literal["cpu", "compute", "communication", "receiving"]
CALLING = ("communication", "receiving")
_WRITE_AGAIN = "write the trace again"
TimedNode = tuple[ChakraNode, float, float]
"""A node, its start and its end in us."""


def times_of(
    nodes: list[ChakraNode], streams: Mapping[int, Stream], where: str
) -> Iterator[TimedNode]:
    """Each node as recorded, else by walking the dependencies."""
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
    """Start each node as early as its dependencies and its stream let it, and return the nodes in
    that order. Dependencies on nodes that the file does not have delay nothing. ColltoolError for a
    circle."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ColltoolError("has two nodes of one number", where=where, fix=_WRITE_AGAIN)
    followers: dict[int, list[int]] = defaultdict(list)
    waiting: dict[int, int] = {}  # how many nodes each still waits for
    for node in nodes:
        before = by_id.keys() & node.data_deps
        before.discard(node.id)
        waiting[node.id] = len(before)
        for number in before:
            followers[number].append(node.id)
    # when each node may start, as far as what it depends on is known
    earliest = dict.fromkeys(by_id, 0.0)
    ready = [(0.0, number) for number, left in waiting.items() if not left]
    heapify(ready)
    free: dict[object, float] = defaultdict(float)
    done = 0
    while ready:
        time, number = heappop(ready)
        node = by_id[number]
        done += 1
        stream = _exclusive_stream(node, streams[number])
        start = max(time, free[stream])
        end = start + lasts_us(node)
        free[stream] = end
        yield node, start, end
        for follower in followers[number]:
            earliest[follower] = max(earliest[follower], end)
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, (earliest[follower], follower))
    if done < len(nodes):
        raise ColltoolError(
            "has dependencies that go round in a circle", where=where, fix=_WRITE_AGAIN
        )


def _exclusive_stream(node: ChakraNode, stream: Stream) -> object:
    """The stream of a node; communication has one per process group."""
    # PyTorch gives every process group a stream of its own (ProcessGroupNCCL)
    if stream in CALLING:
        return stream, node.attributes.get("pg_name", "")
    return stream
