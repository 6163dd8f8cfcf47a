"""The graphs that a log states beside those that NCCL finds from a topology file.

:func:`compared_graphs` compares the graphs of one host with those of a node; the records are what
:mod:`colltool.diagnosis.channel_damages` and :mod:`colltool.diagnosis.topology` make of it. Rates
are bytes/s here, MB/s in NCCL's search.

A *graph* (ring, tree, NVLS) is a set of *channels*, each of which visits the GPUs in an *order* and comes and
leaves by NICs; its *figures* are its pattern, and the number, rates and types of path of these channels. NVLS
channels have a *head*, a GPU which all others send to. A *domain* is the GPUs that NCCL searches together, those
that NVLink joins: mostly all of the node. A *place* is an index in the lists of a ``System``: of its GPUs or of
its NICs.
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
"""The graphs that are compared, by their keys in logs and in the search, with their names for
people. CollNet is not: it depends on settings and plugins."""
NO_OWNERS: Mapping[str, int] = MappingProxyType({})
# what GraphDifference.differs holds where all figures are the same and an order is not
_ORDER = ("order",)
# logs are read in whole MB/s
_SAME_Bps = 1e6


class GraphDifference(NamedTuple):
    """A graph of a log and the one that the topology allows.

    Args:
        graph: a key of ``GRAPH_NAMES``.
        found: in the log.
        allowed: by the topology; None if that has no such graph.
        differs: names of the fields of the figures that differ; ``order`` alone where only the
            order of GPUs or NICs does; empty where nothing differs.
    """

    graph: str
    found: GraphFigures
    allowed: GraphFigures | None
    differs: tuple[str, ...]

    @property
    def has_other_figures(self) -> bool:
        """Whether a figure differs, not only the order."""
        return self.differs not in ((), _ORDER)


class DamageExplanation(NamedTuple):
    """The damages with which NCCL finds a log's graphs.

    Args:
        damages: each of them alone explains the graphs, the likeliest first; empty if none does.
        exact: whether they explain the order of GPUs and NICs too, not only the figures.
        tried: how many damages were tried.
    """

    damages: tuple[Damage, ...] = ()
    exact: bool = True
    tried: int = 0


class ComparedNode(NamedTuple):
    """The graphs of hosts that are alike, beside what the topology allows.

    Args:
        hosts: as the log names them; empty if it does not.
        where: file and line of the first graph.
        graphs: as :func:`compared_graphs` returns them, in the order of ``GRAPH_NAMES``.
        gpus_used: how many of the file's GPUs the log's run used; 0 if it used all.
        explained: what the search for damages that explain the log's graphs found, which may be none; None
            where nothing differs, not even an order.
        owners: ranks of the GPUs that have a NIC of their own, by the NIC's name.
        other_gpu_count: GPUs of the log's ring, where the file's node has more or fewer and no damage
            explains what differs: the log is of another machine; else 0.
    """

    hosts: tuple[str, ...]
    where: str
    graphs: tuple[GraphDifference, ...]
    gpus_used: int = 0
    explained: DamageExplanation | None = None
    owners: Mapping[str, int] = NO_OWNERS
    other_gpu_count: int = 0

    @property
    def differs(self) -> bool:
        """Whether a figure differs, or an order that a damage explains. A node of another machine, by its
        number of GPUs, does not differ; nor does it agree (:attr:`TopologyCompared.agrees`)."""
        if self.other_gpu_count:
            return False
        if self.explained is not None and self.explained.damages:
            return True
        return any(graph.has_other_figures for graph in self.graphs)


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
        """Whether there were graphs of this machine, and none differs."""
        if not self.compared:
            return False
        return not any(node.differs or node.other_gpu_count for node in self.compared)

    @property
    def said(self) -> Statement:
        """That log and file agree, that the log has no graphs, or that they are of machines with other
        numbers of GPUs, in a line; NOTHING where they differ."""
        if self.agrees:
            # the first kind of host stands for all: each agrees with the same file
            graphs = [_graph_statement(graph) for graph in self.compared[0].graphs]
            return statement("channels-agree", file=self.file, graphs=tuple(graphs))
        if not self.compared:
            return statement("no-graph-lines", file=self.file)
        other_gpu_count = max(node.other_gpu_count for node in self.compared)
        if other_gpu_count:
            return statement("other-gpus", count=other_gpu_count, file=self.file)
        return NOTHING


def _graph_statement(graph: GraphDifference) -> Statement:
    """A graph of a log by its channels and their rate."""
    return statement(
        "graph-found",
        name=GRAPH_NAMES[graph.graph],
        count=graph.found.channels,
        rate=graph.found.inside_Bps,
    )


def compared_graphs(
    node: NodeGraphs, logged: LoggedNode, nics: Sequence[str]
) -> tuple[GraphDifference, ...]:
    """Each graph of a host beside that which NCCL finds on a node.

    Left out are CollNet, which settings decide, graphs that the log does not state, and those that the node
    has not and of which the log has no channels.

    Args:
        logged: a host's graphs, among them the ring, which ``graphs`` must have.
        nics: names of NICs by NCCL's number in the log; empty if it does not list them.
    """
    domain = domain_of(node, logged)
    compared = []
    for name in GRAPH_NAMES:
        logged_graph = logged.graphs.get(name)
        searched = domain.graphs.get(name)
        if logged_graph is None or (searched is None and not logged_graph.figures.channels):
            continue
        figures = logged_graph.figures
        if searched is None:
            compared.append(GraphDifference(name, figures, None, ("channels",)))
            continue
        allowed = _figures_of(searched)
        differs = _figures_that_differ(figures, allowed)
        if not differs and not _is_same_order(logged_graph, searched, domain, nics):
            differs = _ORDER
        compared.append(GraphDifference(name, figures, allowed, differs))
    return tuple(compared)


def domain_of(node: NodeGraphs, logged: LoggedNode) -> DomainGraphs:
    """The NVLink domain of a node that has the GPUs of a log's ring: by bus id, or by rank where
    the log names ranks. The first one where the log has no channels, or none fits."""
    ring = logged.graphs["ring"]
    if not ring.orders:
        return node.first
    logged_gpus = set(ring.orders[0].gpus)
    if not ring.by_busid:
        # ranks count on from host to host, a file's from 0
        logged_gpus = {rank % node.system.ranks for rank in logged_gpus}
    for domain in node.domains:
        gpus = set(domain.ranks)
        if ring.by_busid:
            gpus = {bus_number(gpu.name) for gpu in domain.paths.system.gpus}
        if gpus == logged_gpus:
            return domain
    return node.first


def _figures_of(searched: Searched) -> GraphFigures:
    """What NCCL would print of a graph that the search found."""
    request = searched.best.request
    return GraphFigures(
        pattern=request.pattern,
        cross_nic=bool(request.cross_nic),
        channels=searched.best.channel_count,
        inside_Bps=searched.inside_MBps * 1e6,
        across_Bps=searched.across_MBps * 1e6,
        between_gpus=KINDS[searched.inside],
        to_nics=KINDS[searched.across],
    )


def _figures_that_differ(found: GraphFigures, allowed: GraphFigures) -> tuple[str, ...]:
    """Names of the fields that differ, rates by more than rounding."""
    differs = []
    for field in GraphFigures._fields:
        found_value = getattr(found, field)
        allowed_value = getattr(allowed, field)
        if field.endswith("Bps"):
            is_same = abs(found_value - allowed_value) <= _SAME_Bps
        else:
            is_same = found_value == allowed_value
        if not is_same:
            differs.append(field)
    return tuple(differs)


def _is_same_order(
    logged_graph: LoggedGraph, searched: Searched, domain: DomainGraphs, nics: Sequence[str]
) -> bool:
    """Whether channels visit the GPUs, and come and leave by the NICs, in the same order; True
    where the log does not state an order."""
    pattern = searched.best.request.pattern
    channels = searched.best.channels
    if not logged_graph.orders or pattern == DIRECT:
        return True
    if len(logged_graph.orders) != len(channels):
        return False
    places = gpu_places(logged_graph, domain)
    for logged_channel, channel in zip(logged_graph.orders, channels, strict=True):
        # -1, which is no place: a GPU that the node has not
        gpus = tuple(places.get(gpu, -1) for gpu in logged_channel.gpus)
        expected = channel.gpus
        if pattern == NVLS:
            # only the head of a channel counts, which the log names first, as the search does
            gpus = gpus[:1]
            expected = expected[:1]
        if gpus != expected:
            return False
        if channel.nets and not _has_nics(logged_channel, channel.nets, nics, domain):
            return False
    return True


def gpu_places(logged_graph: LoggedGraph, domain: DomainGraphs) -> dict[int, int]:
    """Places of GPUs by what a log calls them: bus ids as numbers where its graph is ``by_busid``, else
    ranks, which count on from host to host."""
    gpus = domain.paths.system.gpus
    if logged_graph.by_busid:
        return {bus_number(gpu.name): place for place, gpu in enumerate(gpus)}
    ranks = sorted(logged_graph.gpus)
    if not ranks:
        return {}
    # NVLS names the heads of channels alone, which may be some of the host's ranks
    if len(ranks) < len(gpus):
        # of hosts with 8 GPUs, rank 10 is on the one whose ranks begin at 8
        first_rank = ranks[0] // len(gpus) * len(gpus)
        return {first_rank + gpu.rank: place for place, gpu in enumerate(gpus)}
    places = sorted(range(len(gpus)), key=lambda place: gpus[place].rank)
    # more ranks than GPUs: the channels are another machine's, and differ in any case
    return dict(zip(ranks, places, strict=False))


def _has_nics(
    logged_channel: LoggedChannel,
    nets: Sequence[int],
    nics: Sequence[str],
    domain: DomainGraphs,
) -> bool:
    """Whether a log's channel uses the NICs at these places of a node.

    NCCL numbers NICs anew where one is missing (without mlx5_0, NET/0 is mlx5_1): they may agree by
    the names in the log's list, by the file's numbers, or by numbers that count only the NICs that
    are there.
    """
    system = domain.paths.system
    names = tuple(system.nets[net].name for net in nets)
    logged_names = tuple(nics[number] for number in logged_channel.nets if number < len(nics))
    if logged_names == names:
        return True
    in_file = tuple(system.nets[net].dev for net in nets)
    # the number of a NIC among those that are there is its position in the order of the file's numbers
    present = sorted(range(len(system.nets)), key=lambda place: system.nets[place].dev)
    renumbered = tuple(present.index(net) for net in nets)
    return logged_channel.nets in (in_file, renumbered)
