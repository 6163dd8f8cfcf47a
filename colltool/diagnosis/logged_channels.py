"""The graphs that a log states beside those that NCCL finds from a topology file.

Rates are bytes/s here, MB/s in the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from colltool.base.statements import NOTHING, Statement
from colltool.diagnosis.sentences import statement
from colltool.libraries.nccl.topology.damages import Damage
from colltool.libraries.nccl.topology.graphs import (
    DomainGraphs,
    NodeGraphs,
)
from colltool.libraries.nccl.topology.kinds import DIRECT, KINDS, NVLS
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.system import bus_number
from colltool.logs.nccl_graph_lines import GraphFigures, LoggedChannel, LoggedGraph, LoggedNode

GRAPH_NAMES = {"ring": "ring", "tree": "tree", "nvls": "NVLS"}
"""The graphs that are compared; CollNet depends on settings and plugins."""
NO_OWNERS: Mapping[str, int] = MappingProxyType({})
# a log's six digits
_SAME_Bps = 1e6


class GraphDifference(NamedTuple):
    """A graph of a log and the one that the topology allows, None if that has none; ``differs``:
    fields of the figures, or ``order``."""

    graph: str
    found: GraphFigures
    allowed: GraphFigures | None
    differs: tuple[str, ...]


class Explained(NamedTuple):
    """The damages that give a log's graphs, the likeliest first; ``exact``: also the order of GPUs
    and NICs. ``tried``: how many were searched."""

    damages: tuple[Damage, ...] = ()
    exact: bool = True
    tried: int = 0


class ComparedNode(NamedTuple):
    """The graphs of hosts that are alike, beside what the topology allows.

    Args:
        hosts: as the log names them; empty if it does not.
        where: file and line of the first graph.
        graphs: those that both may have.
        kept: how many of the file's GPUs the log's run used; 0 if it used all.
        explained: None where nothing differs.
        owners: ranks of the GPUs that have a NIC of their own, by the NIC's name.
        unlike: how many GPUs the log's ring has, where the file's node has others and no damage
            explains that; else 0.
    """

    hosts: tuple[str, ...]
    where: str
    graphs: tuple[GraphDifference, ...]
    kept: int = 0
    explained: Explained | None = None
    owners: Mapping[str, int] = NO_OWNERS
    unlike: int = 0

    @property
    def differs(self) -> bool:
        """Whether a figure differs, or an order that a damage explains."""
        if self.unlike:
            return False
        if self.explained is not None and self.explained.damages:
            return True
        return any(set(graph.differs) - {"order"} for graph in self.graphs)


class TopologyCompared(NamedTuple):
    """A log's channels beside those that a topology file allows.

    Args:
        file: the topology file.
        release: of NCCL, as the log says; empty if it does not.
        nodes: of the run.
        compared: each kind of host that the log has graphs of.
        missing: NICs of the file that the log does not list.
        notes: what was not compared, and why.
    """

    file: str
    release: str
    nodes: int
    compared: tuple[ComparedNode, ...]
    missing: tuple[str, ...]
    notes: tuple[Statement, ...]

    @property
    def agrees(self) -> bool:
        """Whether there were graphs, and none differs."""
        if not self.compared:
            return False
        return not any(node.differs or node.unlike for node in self.compared)

    @property
    def said(self) -> Statement:
        """Say in a line that they agree, or that nothing could be compared; nothing where they
        differ."""
        if self.agrees:
            graphs = []
            for graph in self.compared[0].graphs:
                found = graph.found
                graphs.append(
                    statement(
                        "graph-found",
                        name=GRAPH_NAMES[graph.graph],
                        count=found.channels,
                        rate=found.inside_Bps,
                    )
                )
            return statement("channels-agree", file=self.file, graphs=tuple(graphs))
        if not self.compared:
            return statement("no-graph-lines", file=self.file)
        unlike = max(node.unlike for node in self.compared)
        if unlike:
            return statement("other-gpus", count=unlike, file=self.file)
        return NOTHING


def compared_graphs(
    node: NodeGraphs, logged: LoggedNode, nics: Sequence[str]
) -> tuple[GraphDifference, ...]:
    """Each graph of a log beside that of a node; ``nics``: names by NCCL's number.

    CollNet, and NVLS where one of them lacks it, are left out: settings decide these.
    """
    domain = domain_of(node, logged)
    found = []
    for name in GRAPH_NAMES:
        stated = logged.graphs.get(name)
        result = domain.graphs.get(name)
        if stated is None or (result is None and not stated.figures.channels):
            continue
        figures = stated.figures
        if result is None:
            found.append(GraphDifference(name, figures, None, ("channels",)))
            continue
        allowed = figures_of(result)
        differs = _figures_differ(figures, allowed)
        if not differs and not _same_order(stated, result, domain, nics):
            differs = ("order",)
        found.append(GraphDifference(name, figures, allowed, differs))
    return tuple(found)


def figures_of(result: Searched) -> GraphFigures:
    request = result.best.request
    return GraphFigures(
        pattern=request.pattern,
        cross_nic=bool(request.cross_nic),
        channels=result.best.channel_count,
        inside_Bps=result.inside_MBps * 1e6,
        across_Bps=result.across_MBps * 1e6,
        between_gpus=KINDS[result.inside],
        to_nics=KINDS[result.across],
    )


def _figures_differ(found: GraphFigures, allowed: GraphFigures) -> tuple[str, ...]:
    differs = []
    for field in GraphFigures._fields:
        value = getattr(found, field)
        other = getattr(allowed, field)
        near = field.endswith("Bps") and abs(value - other) <= _SAME_Bps
        if value != other and not near:
            differs.append(field)
    return tuple(differs)


def domain_of(node: NodeGraphs, logged: LoggedNode) -> DomainGraphs:
    """The GPUs that a log's rank shares a node with: by bus id, else by rank."""
    ring = logged.graphs["ring"]
    if not ring.orders:
        return node.first
    stated = set(ring.orders[0].gpus)
    for domain in node.domains:
        if ring.by_busid:
            own = {bus_number(gpu.name) for gpu in domain.paths.system.gpus}
        else:
            own = set(domain.ranks)
            stated = {rank % node.system.ranks for rank in stated}
        if stated == own:
            return domain
    return node.first


def _same_order(
    stated: LoggedGraph, result: Searched, domain: DomainGraphs, nics: Sequence[str]
) -> bool:
    """Whether channels visit the GPUs, and come and leave by the NICs, in the same order.

    NICs are numbered anew where one is missing (without mlx5_0, NET/0 is mlx5_1): either numbering
    will do.
    """
    pattern = result.best.request.pattern
    channels = result.best.channels
    if not stated.orders or pattern == DIRECT:
        return True
    if len(stated.orders) != len(channels):
        return False
    numbers = gpu_numbers(stated, domain)
    for logged, searched in zip(stated.orders, channels, strict=True):
        gpus = tuple(numbers.get(gpu, -1) for gpu in logged.gpus)
        # of NVLS only the head of a channel counts
        if pattern == NVLS and gpus[:1] != searched.gpus[:1]:
            return False
        if pattern != NVLS and gpus != searched.gpus:
            return False
        if searched.nets and not _same_nics(logged, searched.nets, nics, domain):
            return False
    return True


def gpu_numbers(stated: LoggedGraph, domain: DomainGraphs) -> dict[int, int]:
    """Places of GPUs by what a log calls them: bus ids, or ranks, which count on from host to
    host."""
    gpus = domain.paths.system.gpus
    if stated.by_busid:
        return {bus_number(gpu.name): place for place, gpu in enumerate(gpus)}
    ranks = sorted(stated.gpus)
    if not ranks:
        return {}
    # NVLS names heads alone
    if len(ranks) < len(gpus):
        first = ranks[0] // len(gpus) * len(gpus)
        return {first + gpu.rank: place for place, gpu in enumerate(gpus)}
    places = sorted(range(len(gpus)), key=lambda place: gpus[place].rank)
    return dict(zip(ranks, places, strict=False))


def _same_nics(
    logged: LoggedChannel, nets: Sequence[int], nics: Sequence[str], domain: DomainGraphs
) -> bool:
    """Whether a log's channel uses the NICs at these places of a node: by their names, by their own
    numbers, or by numbers that count only the NICs that are there."""
    system = domain.paths.system
    names = tuple(system.nets[net].name for net in nets)
    if tuple(nics[number] for number in logged.nets if number < len(nics)) == names:
        return True
    own = tuple(system.nets[net].dev for net in nets)
    present = sorted(range(len(system.nets)), key=lambda place: system.nets[place].dev)
    renumbered = tuple(present.index(net) for net in nets)
    return tuple(logged.nets) in (own, renumbered)
