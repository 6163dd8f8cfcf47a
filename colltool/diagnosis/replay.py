"""A Chakra graph walked with a fabric's prices in place of its collectives' durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from colltool.base.primitives import Primitive
from colltool.base.statements import Statement
from colltool.diagnosis.call_prices import CallPrices, ExpectedTime
from colltool.logs.call_metadata import CallMetadata, call_metadata
from colltool.logs.chakra import ChakraTrace, NodeEvent
from colltool.logs.kernel_names import kernel_name


class ReplayedCall(NamedTuple):
    """The calls of a graph of one primitive, size, number of ranks and price."""

    primitive: Primitive
    bytes: int
    ranks: int
    calls: int
    each_s: float | None  # the price of one, None without


class Replayed(NamedTuple):
    """A file's graph, walked once with the durations as recorded and once with a fabric's prices
    for its collectives."""

    file: str
    rank: int | None  # None where the file does not say
    recorded_s: float  # to the end of the last node, with the durations as recorded
    priced_s: float  # the same, with prices
    priced: int  # collectives and messages with a price
    kept: tuple[tuple[Statement, int], ...]  # those that keep their duration, by reason
    calls: tuple[ReplayedCall, ...] = ()  # that are known, those that take longest first

    @property
    def unpriced(self) -> int:
        """Collectives and messages without a price."""
        return sum(calls for _, calls in self.kept)


class PricedNode(NamedTuple):
    """A call of a graph with its price; it keeps its duration where it has none."""

    call: CallMetadata | None  # None if it is unknown
    expected: ExpectedTime


def priced_nodes(graph: ChakraTrace, prices: CallPrices) -> dict[int, PricedNode]:
    """The collectives and messages of a graph, by id of the node."""
    nodes = {}
    for event in graph.timed:
        if not event.labels:
            continue
        primitives = kernel_name(event.node.name).primitives
        call = call_metadata(event.labels, graph.header, primitives)
        if isinstance(call, Statement):
            nodes[event.node.id] = PricedNode(None, ExpectedTime(reason=call))
        else:
            nodes[event.node.id] = PricedNode(call, prices.of(call))
    return nodes


def replay(graph: ChakraTrace, nodes: Mapping[int, PricedNode]) -> tuple[Replayed, list[NodeEvent]]:
    """A graph walked with the prices of its ``nodes``: the result, and all nodes with the times
    that they then have."""

    def lasts_us(event: NodeEvent) -> float:
        priced = nodes.get(event.node.id)
        if priced is None or priced.expected.seconds is None:
            return event.node.duration_us
        return priced.expected.seconds * 1e6

    walked = graph.walked(lasts_us)
    expected = [node.expected for node in nodes.values()]
    kept = Counter(time.reason for time in expected if time.seconds is None)
    replayed = Replayed(
        file=graph.name,
        rank=graph.rank,
        recorded_s=span_s(graph.walked(lambda event: event.node.duration_us)),
        priced_s=span_s(walked),
        priced=len(nodes) - kept.total(),
        kept=tuple(kept.most_common()),
        calls=_calls(nodes.values()),
    )
    return replayed, walked


def _calls(nodes: Iterable[PricedNode]) -> tuple[ReplayedCall, ...]:
    """The known calls by kind, what takes longest first."""
    rows: dict[object, ReplayedCall] = {}
    for node in nodes:
        if node.call is None:
            continue
        call = node.call
        # calls of one kind may lie otherwise, and have another price
        each_s = node.expected.seconds
        kind = (call.primitive, call.bytes, call.size, each_s)
        row = rows.get(kind) or ReplayedCall(
            call.primitive, call.bytes, call.size, calls=0, each_s=each_s
        )
        rows[kind] = row._replace(calls=row.calls + 1)
    return tuple(sorted(rows.values(), key=_longest_first))


def _longest_first(row: ReplayedCall) -> tuple[float, Primitive, int]:
    """Sort key: what takes longest in all, then by primitive and size."""
    return -(row.each_s or 0.0) * row.calls, row.primitive, row.bytes


def span_s(walked: Iterable[NodeEvent]) -> float:
    """Seconds from the start of a walk to the end of its last node."""
    return max((event.end_us for event in walked), default=0.0) * 1e-6
