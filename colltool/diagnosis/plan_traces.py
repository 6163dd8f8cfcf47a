"""A step out of Chakra traces, as ``plan`` answers for a job: compute as recorded, collectives
priced, the graph walked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, printable
from colltool.base.files import AnyPath
from colltool.base.primitives import Primitive
from colltool.base.result import Result, result
from colltool.diagnosis.call_prices import CallPrices, ExpectedTime
from colltool.diagnosis.rank_map import load_map
from colltool.diagnosis.replay import PricedNode, Replayed, priced_nodes, replay, span_s
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.logs.activity import BusyIntervals
from colltool.logs.call_metadata import CallMetadata
from colltool.logs.chakra import ChakraTrace, NodeEvent
from colltool.logs.traced_calls import RankTrace, read_traces, world_of
from colltool.training.parallel_config import Axes


class PlannedTraceCall(NamedTuple):
    """Calls of one kind in the graph of the slowest rank."""

    primitive: Primitive
    bytes: int
    group_size: int
    axes: Axes
    tiers: tuple[str, ...]
    algorithm: str
    calls: int
    each_s: float  # the price of one
    total_s: float  # of all
    exposed_s: float  # of ``total_s`` what no compute of the rank covers


class TierTime(NamedTuple):
    """Calls of the slowest rank whose outermost tier is this one."""

    tier: str
    calls: int
    total_s: float  # their price
    exposed_s: float  # the part of it that no compute of the rank covers
    share: float  # that part as a share of the step


@result
class TracePlan(Result):
    """A step as traces have it, on a fabric."""

    subject: ClassVar[str] = "plan_traces"
    fabric: str
    overrides: tuple[tuple[str, str], ...]
    library: str
    world: int | None
    slowest: Replayed  # the rank whose graph takes longest
    # its graph on a free network, as plan has it: communication takes no time
    control_step_s: float
    compute_s: float  # of its nodes on the GPU, as recorded
    collectives: tuple[PlannedTraceCall, ...]
    ranks: tuple[Replayed, ...]  # all graphs

    @property
    def step_s(self) -> float:
        """The graph of the slowest rank, walked with prices."""
        return self.slowest.priced_s

    @property
    def exposed_s(self) -> float:
        """What a free network would save."""
        return self.step_s - self.control_step_s

    @property
    def network_share(self) -> float:
        """That as a share of the step."""
        return self.exposed_s / self.step_s if self.step_s else 0.0

    @property
    def tiers(self) -> tuple[TierTime, ...]:
        """Calls by outermost tier, the most exposed first."""
        crossing: dict[str, list[PlannedTraceCall]] = defaultdict(list)
        # calls with a price cross a tier
        for call in self.collectives:
            crossing[call.tiers[-1]].append(call)
        rows = []
        for tier, calls in crossing.items():
            exposed_s = sum(call.exposed_s for call in calls)
            rows.append(
                TierTime(
                    tier=tier,
                    calls=sum(call.calls for call in calls),
                    total_s=sum(call.total_s for call in calls),
                    exposed_s=exposed_s,
                    share=exposed_s / (self.step_s or 1.0),
                )
            )
        return tuple(sorted(rows, key=lambda row: -row.exposed_s))


class _Walk(NamedTuple):
    """A rank's graph, walked with prices in place of its collectives' durations."""

    graph: ChakraTrace
    nodes: dict[int, PricedNode]  # calls by id of the node
    replayed: Replayed
    walked: list[NodeEvent]  # all nodes, with the times that they then have


class _WalkedCall(NamedTuple):
    """A call with its price, and when it runs."""

    call: CallMetadata
    expected: ExpectedTime
    event: NodeEvent


def plan_traces(
    fabric: Fabric, files: Sequence[AnyPath], readings: ModelOptions | None = None
) -> TracePlan:
    """The step of Chakra traces on a fabric.

    Raises:
        ColltoolError: a file is no Chakra trace; and as :func:`colltool.diagnosis.trace.trace`.
    """
    rank_map = load_map(None, fabric)
    traces = read_traces(files, fabric.ranks)
    world = world_of(traces)
    prices = CallPrices(fabric, readings or ModelOptions(), rank_map.of(fabric, world))
    ranks: list[Replayed] = []
    slowest: _Walk | None = None  # of the others nothing but a row is kept
    for trace in traces:
        graph = _graph(trace)
        nodes = priced_nodes(graph, prices)
        replayed, walked = replay(graph, nodes)
        ranks.append(replayed)
        if slowest is None or replayed.priced_s > slowest.replayed.priced_s:
            slowest = _Walk(graph, nodes, replayed, walked)
    assert slowest is not None  # read_traces refuses no files
    return TracePlan(
        fabric=fabric.name,
        overrides=fabric.overrides,
        library=fabric.library_facts.name if fabric.library_facts else "",
        world=world,
        slowest=slowest.replayed,
        control_step_s=span_s(slowest.graph.walked(_without_communication)),
        compute_s=sum(event.node.duration_us for event in _kernels(slowest.graph.timed)) * 1e-6,
        collectives=_collectives(slowest),
        ranks=tuple(ranks),
    )


def _kernels(nodes: Sequence[NodeEvent]) -> list[NodeEvent]:
    """What hides communication: nodes on the GPU, not those of the CPU."""
    return [event for event in nodes if event.stream == "compute"]


def _without_communication(event: NodeEvent) -> float:
    """Microseconds of a node on a free network: only communication has labels."""
    return 0 if event.labels else event.node.duration_us


def _graph(trace: RankTrace) -> ChakraTrace:
    """The graph of a Chakra trace; ColltoolError for any other trace."""
    if trace.graph is not None:
        return trace.graph
    calls = argument_text("calls", "calls.yaml")
    raise ColltoolError(
        "is no Chakra trace: it does not say what waits for what",
        where=printable(trace.file),
        fix=f"colltool trace writes its calls as a job, with {calls}, and plan prices that",
    )


def _collectives(walk: _Walk) -> tuple[PlannedTraceCall, ...]:
    """Calls with a price, by kind, what is exposed most first."""
    kernels = [event for event in _kernels(walk.walked) if event.end_us > event.start_us]
    busy = BusyIntervals([event.start_us for event in kernels], [event.end_us for event in kernels])
    alike: dict[object, list[_WalkedCall]] = defaultdict(list)
    for event in walk.walked:
        priced = walk.nodes.get(event.node.id)
        if priced is None or priced.call is None or priced.expected.seconds is None:
            continue
        call = priced.call
        expected = priced.expected
        kind = (call.primitive, call.bytes, expected.axes, expected.tiers)
        alike[kind].append(_WalkedCall(call, expected, event))
    rows = []
    for of_kind in alike.values():
        call, expected, _ = of_kind[0]
        windows = ((event.start_us, event.end_us) for _, _, event in of_kind)
        hidden_s = busy.covered_in(windows) * 1e-6
        each_s = expected.seconds or 0.0
        total_s = each_s * len(of_kind)
        rows.append(
            PlannedTraceCall(
                primitive=call.primitive,
                bytes=call.bytes,
                group_size=call.size,
                axes=expected.axes,
                tiers=expected.tiers,
                algorithm=expected.algorithm,
                calls=len(of_kind),
                each_s=each_s,
                total_s=total_s,
                exposed_s=max(0.0, total_s - hidden_s),
            )
        )
    rows.sort(key=lambda row: (-row.exposed_s, -row.total_s, row.primitive, row.bytes))
    return tuple(rows)
