"""A step out of Chakra traces, as ``plan`` answers for a job: compute as recorded, collectives
priced, the graph walked."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, given, printable
from colltool.base.files import AnyPath
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.diagnosis.rank_map import CallPrices, ExpectedTime, load_map
from colltool.diagnosis.replay import PricedNode, Replayed, priced_nodes, replay, span_s
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.logs.activity import BusyIntervals
from colltool.logs.call_metadata import CallMetadata
from colltool.logs.chakra import ChakraTrace, Timed
from colltool.logs.traced_calls import RankTrace, read_traces, world_of
from colltool.training.parallel_config import Axes


class PlannedTraceCall(NamedTuple):
    """Calls of one kind in the graph of the slowest rank; ``exposed_s``: of ``total_s`` what no
    compute of the rank covers."""

    primitive: Primitive
    bytes: int
    group_size: int
    axes: Axes
    tiers: tuple[str, ...]
    algorithm: str
    calls: int
    each_s: float
    total_s: float
    exposed_s: float


class TierTime(NamedTuple):
    """Calls whose outermost tier is this one, ``share`` of the step that they are exposed."""

    tier: str
    calls: int
    total_s: float
    exposed_s: float
    share: float


@dataclass(frozen=True, eq=False, repr=False)
class TracePlan(Result):
    """A step as traces have it, on a fabric. ``slowest``: the rank whose graph takes longest;
    ``control_step_s``: its graph where communication takes no time; ``compute_s``: of its nodes on
    the GPU, as recorded; ``ranks``: all graphs."""

    subject: ClassVar[str] = "plan_traces"
    fabric: str
    overrides: tuple[tuple[str, str], ...]
    library: str
    world: int | None
    slowest: Replayed
    control_step_s: float
    compute_s: float
    collectives: tuple[PlannedTraceCall, ...]
    ranks: tuple[Replayed, ...]

    @property
    def step_s(self) -> float:
        return self.slowest.priced_s

    @property
    def exposed_s(self) -> float:
        """What a free network would save."""
        return self.step_s - self.control_step_s

    @property
    def network_share(self) -> float:
        return self.exposed_s / self.step_s if self.step_s else 0.0

    @property
    def tiers(self) -> tuple[TierTime, ...]:
        """By outermost tier, the most exposed first."""
        crossing: dict[str, list[PlannedTraceCall]] = defaultdict(list)
        for one in self.collectives:
            crossing[one.tiers[-1]].append(one)
        found = []
        for tier, some in crossing.items():
            exposed_s = sum(one.exposed_s for one in some)
            total_s = sum(one.total_s for one in some)
            found.append(
                TierTime(
                    tier,
                    sum(one.calls for one in some),
                    total_s,
                    exposed_s,
                    exposed_s / (self.step_s or 1.0),
                )
            )
        return tuple(sorted(found, key=lambda one: -one.exposed_s))


def plan_traces(
    fabric: Fabric, files: Sequence[AnyPath], readings: Readings | None = None
) -> TracePlan:
    """ColltoolError for a file that is no Chakra trace, and as
    :func:`colltool.diagnosis.trace.trace`."""
    rank_map = load_map(None, fabric)
    traces = read_traces(files)
    world = world_of(traces)
    prices = CallPrices(fabric, readings or Readings(), rank_map.of(fabric, world))
    ranks: list[Replayed] = []
    longest_s = -1.0
    for one in map(_graph, traces):
        made, walk = replay(one, priced := priced_nodes(one, prices.seconds))
        ranks.append(made)
        if made.priced_s > longest_s:  # of the others nothing else is kept
            longest_s, graph, nodes, slowest, walked = made.priced_s, one, priced, made, walk
    return TracePlan(
        fabric=fabric.name,
        overrides=fabric.overrides,
        library=fabric.library_facts.name if fabric.library_facts else "",
        world=world,
        slowest=slowest,
        control_step_s=span_s(graph.walked(lambda one: 0 if one.labels else one.node.duration_us)),
        compute_s=sum(one.node.duration_us for one in graph.timed if one.stream == "compute")
        * 1e-6,
        collectives=_collectives(walked, nodes, prices),
        ranks=tuple(ranks),
    )


def _graph(trace: RankTrace) -> ChakraTrace:
    if trace.graph is not None:
        return trace.graph
    file = printable(trace.file)
    fix = (
        f"colltool trace writes its calls as a job, with {given('calls', 'calls.yaml')}, and plan"
        " prices that"
    )
    raise ColltoolError(
        "is no Chakra trace: it does not say what waits for what", where=file, fix=fix
    )


def _collectives(
    walked: Sequence[Timed], nodes: dict[int, PricedNode], prices: CallPrices
) -> tuple[PlannedTraceCall, ...]:
    """Calls with a price, by kind, what is exposed most first."""
    computing = [one for one in walked if one.stream == "compute" and one.end_us > one.start_us]
    busy = BusyIntervals(
        array("d", (one.start_us for one in computing)),
        array("d", (one.end_us for one in computing)),
    )
    alike: dict[object, list[tuple[CallMetadata, ExpectedTime, Timed]]] = defaultdict(list)
    for one in walked:
        priced = nodes.get(one.node.id)
        if priced is None or priced.call is None or priced.seconds is None:
            continue
        expected = prices.of(priced.call)
        alike[priced.call.primitive, priced.call.bytes, expected.axes, expected.tiers].append(
            (priced.call, expected, one)
        )
    rows = []
    for several in alike.values():
        call, expected, _ = several[0]
        hidden_s = busy.within((one.start_us, one.end_us) for _, _, one in several) * 1e-6
        each_s = expected.seconds or 0.0
        total_s = each_s * len(several)
        row = PlannedTraceCall(
            primitive=call.primitive,
            bytes=call.bytes,
            group_size=call.size,
            axes=expected.axes,
            tiers=expected.tiers,
            algorithm=expected.algorithm,
            calls=len(several),
            each_s=each_s,
            total_s=total_s,
            exposed_s=max(0.0, total_s - hidden_s),
        )
        rows.append(row)
    return tuple(
        sorted(rows, key=lambda one: (-one.exposed_s, -one.total_s, one.primitive, one.bytes))
    )
