"""The graphs that a log states beside those that NCCL finds from a topology file, and the damage to
the file's node that gives the log's.

Rates are bytes/s here, MB/s in the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.files import AnyPath
from colltool.base.statements import NOTHING, Statement
from colltool.base.xml_tree import Element, read_xml
from colltool.diagnosis.logged_tree import damage_in_tree
from colltool.diagnosis.sentences import statement
from colltool.libraries.nccl.topology.damages import Damage, Parts, damages_of, without_nics
from colltool.libraries.nccl.topology.domains import domains_of
from colltool.libraries.nccl.topology.graphs import (
    DomainGraphs,
    NodeGraphs,
    WantedRing,
    graphs_of_xml,
)
from colltool.libraries.nccl.topology.kinds import DIRECT, KINDS, NVLS, PXB
from colltool.libraries.nccl.topology.paths import Paths, paths_of
from colltool.libraries.nccl.topology.rings import NamedChannel, NamedRing, carries, ring_of
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.system import FORMAT, bus_number, system_of
from colltool.libraries.nccl.topology.versions import Version, version_of, with_settings
from colltool.logs.nccl_graph_lines import GraphLines, LoggedChannel, LoggedGraph, LoggedNode

# visits of GPUs, of all searches for a damage: some seconds; and after one was found that fits
_VISITS = 10_000_000
_VISITS_AFTER = 3_000_000
# what it takes to read a file and find its paths, in visits
_VISITS_OF_READING = 10_000
GRAPH_NAMES = {"ring": "ring", "tree": "tree", "nvls": "NVLS"}
"""The graphs that are compared; CollNet depends on settings and plugins."""
NO_OWNERS: Mapping[str, int] = MappingProxyType({})
_DEFAULT = version_of("2.30.7")
# a log's six digits
_SAME_MBps = 1


class GraphFigures(NamedTuple):
    """What NCCL's line says of a graph; ``between_gpus``, ``to_nics``: the farthest types of
    path."""

    pattern: int
    cross_nic: bool
    channels: int
    inside_Bps: float
    across_Bps: float
    between_gpus: str
    to_nics: str


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

    damages: tuple[Damage, ...]
    exact: bool
    tried: int


class ComparedNode(NamedTuple):
    """The graphs of hosts that are alike, beside what the topology allows.

    Args:
        hosts: as the log names them; empty if it does not.
        where: file and line of the first graph.
        graphs: those that both may have.
        kept: ranks of the file's GPUs that the log's run used; empty if it used all.
        explained: None where nothing differs.
        owners: ranks of the GPUs that have a NIC of their own, by the NIC's name.
    """

    hosts: tuple[str, ...]
    where: str
    graphs: tuple[GraphDifference, ...]
    kept: tuple[int, ...] = ()
    explained: Explained | None = None
    owners: Mapping[str, int] = NO_OWNERS

    @property
    def differs(self) -> bool:
        """Whether a figure differs, or an order that a damage explains."""
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
        return bool(self.compared) and not any(node.differs for node in self.compared)

    @property
    def said(self) -> Statement:
        """In a line: that they agree, or that nothing could be compared; nothing where they differ."""
        if self.agrees:
            graphs = []
            for graph in self.compared[0].graphs:
                found = graph.found
                name = GRAPH_NAMES[graph.graph]
                graphs.append(
                    statement("graph-found", name=name, count=found.channels, rate=found.inside_Bps)
                )
            return statement("channels-agree", file=self.file, graphs=tuple(graphs))
        if not self.compared:
            return statement("no-graph-lines", file=self.file)
        return NOTHING


class _Node(NamedTuple):
    """A topology file as the run of a log had it: ``kept`` bus ids of GPUs, all if there are
    none."""

    path: AnyPath
    name: str
    nodes: int
    version: Version
    kept: tuple[int, ...] = ()

    def read(self) -> Element:
        root = read_xml(self.path, FORMAT)
        if self.kept:
            _drop_gpus(root, self.kept)
        return root

    def paths(self, damage: Damage) -> Paths:
        """The paths with a damage."""
        root = self.read()
        damage.edit(root)
        version = with_settings(self.version, damage.settings)
        return paths_of(system_of(root, self.name, version))

    def graphs(self, damage: Damage | None = None, wanted: WantedRing | None = None) -> NodeGraphs:
        """The graphs, with a damage; none where the ring is not the ``wanted`` one."""
        root = self.read()
        version = self.version
        if damage is not None:
            damage.edit(root)
            version = with_settings(version, damage.settings)
        return graphs_of_xml(root, self.name, self.nodes, version, wanted=wanted)


def _drop_gpus(root: Element, kept: Sequence[int]) -> None:
    """Leave only GPUs of these bus ids, their ranks anew from 0."""
    ranks = []
    for slot in root.each("pci"):
        for gpu in slot.children:
            if gpu.tag == "gpu" and bus_number(slot.get("busid")) in kept:
                ranks.append(gpu)
    ranks.sort(key=lambda gpu: int(gpu.get("rank") or 0))
    for rank, gpu in enumerate(ranks):
        gpu.attributes["rank"] = str(rank)
    for gpu in list(root.each("gpu")):
        if gpu not in ranks and gpu.parent is not None:
            gpu.parent.children.remove(gpu)


def compared_nodes(
    path: AnyPath, name: str, lines: GraphLines, env: Mapping[str, str], nodes: int
) -> list[ComparedNode]:
    """Compare each kind of host that a log states graphs of with a topology file.

    Args:
        env: NCCL's settings in the log.
        nodes: of the run.
    """
    node = _Node(path, name, nodes, version_of(lines.release or "2.30.7"))
    found = []
    for hosts, logged in _distinct(lines):
        used = node._replace(kept=_gpus_used(node, logged, lines.busids.get(logged.host, ())))
        before = used.graphs()
        graphs = compared_graphs(before, logged, lines.nics)
        kept: tuple[int, ...] = ()
        if used.kept:
            kept = tuple(
                gpu.rank for gpu in node.graphs().system.gpus if bus_number(gpu.name) in used.kept
            )
        compared = ComparedNode(hosts, logged.where, graphs, kept)
        if any(graph.differs for graph in graphs):
            explained = _explained(used, before, logged, lines, env)
            compared = compared._replace(explained=explained, owners=_owners(before))
        found.append(compared)
    return found


def _owners(node: NodeGraphs) -> dict[str, int]:
    """The rank of the GPU that a NIC is near to, where it is near to one alone."""
    found = {}
    for net in node.system.nets:
        near = [gpu for gpu in node.system.gpus if node.paths.get(net, gpu).kind <= PXB]
        if len(near) == 1:
            found[net.name] = near[0].rank
    return found


def _distinct(lines: GraphLines) -> Iterator[tuple[tuple[str, ...], LoggedNode]]:
    """Hosts with the same graphs, of the largest communicator."""
    most = max((node.ranks for node in lines.nodes), default=0)
    alike: dict[object, list[LoggedNode]] = {}
    for node in lines.nodes:
        if node.ranks == most and "ring" in node.graphs:
            figures = tuple(
                (name, graph._replace(orders=())) for name, graph in node.graphs.items()
            )
            sizes = tuple(len(channel.gpus) for channel in node.graphs["ring"].orders)
            alike.setdefault((figures, sizes), []).append(node)
    for same in alike.values():
        yield tuple(dict.fromkeys(node.host for node in same if node.host)), same[0]


def _gpus_used(node: _Node, logged: LoggedNode, busids: Sequence[int]) -> tuple[int, ...]:
    """The bus ids of the GPUs that a run used, where these are not all of the file."""
    known = {bus_number(slot.get("busid")) for slot in node.read().each("pci") if _has_gpu(slot)}
    ring = logged.graphs["ring"]
    used = set(busids)
    if not used and ring.by_busid and logged.nodes * logged.local != logged.ranks:
        used = set(ring.orders[0].gpus)
    if used and used < known:
        return tuple(sorted(used))
    return ()


def _has_gpu(slot: Element) -> bool:
    return any(child.tag == "gpu" for child in slot.children)


# --- graphs beside each other


def compared_graphs(
    node: NodeGraphs, logged: LoggedNode, nics: Sequence[str]
) -> tuple[GraphDifference, ...]:
    """Each graph of a log beside that of a node; ``nics``: names by NCCL's number.

    CollNet, and NVLS where one of them lacks it, are left out: settings decide these.
    """
    domain = _domain_of(node, logged)
    found = []
    for name in GRAPH_NAMES:
        stated = logged.graphs.get(name)
        result = domain.graphs.get(name)
        if stated is None or (result is None and not stated.channels):
            continue
        figures = figures_logged(stated)
        if result is None:
            found.append(GraphDifference(name, figures, None, ("channels",)))
            continue
        allowed = figures_of(result)
        differs = _figures_differ(figures, allowed)
        if not differs and not _same_order(stated, result, domain, nics):
            differs = ("order",)
        found.append(GraphDifference(name, figures, allowed, differs))
    return tuple(found)


def figures_logged(graph: LoggedGraph) -> GraphFigures:
    return GraphFigures(
        graph.pattern,
        bool(graph.cross_nic),
        graph.channels,
        graph.inside_MBps * 1e6,
        graph.across_MBps * 1e6,
        graph.near,
        graph.far,
    )


def figures_of(result: Searched) -> GraphFigures:
    request = result.found.request
    return GraphFigures(
        request.pattern,
        bool(request.cross_nic),
        result.found.channel_count,
        result.inside_MBps * 1e6,
        result.across_MBps * 1e6,
        KINDS[result.inside],
        KINDS[result.across],
    )


def _figures_differ(found: GraphFigures, allowed: GraphFigures) -> tuple[str, ...]:
    differs = []
    for field in GraphFigures._fields:
        value = getattr(found, field)
        other = getattr(allowed, field)
        if field.endswith("Bps"):
            if abs(value - other) > _SAME_MBps * 1e6:
                differs.append(field)
        elif value != other:
            differs.append(field)
    return tuple(differs)


def _domain_of(node: NodeGraphs, logged: LoggedNode) -> DomainGraphs:
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

    NICs are numbered anew where one is missing: either numbering will do.
    """
    pattern = result.found.request.pattern
    if not stated.orders or pattern == DIRECT:
        return True
    system = domain.paths.system
    numbers = gpu_numbers(stated, domain)
    wanted = []
    for channel in result.found.channels:
        names = tuple(system.nets[net].name for net in channel.nets)
        wanted.append((channel.gpus, channel.nets, names))
    present = sorted(range(len(system.nets)), key=lambda place: system.nets[place].dev)
    if len(stated.orders) != len(wanted):
        return False
    for number, found in enumerate(stated.orders):
        gpus, nets, names = wanted[number]
        given = tuple(numbers.get(gpu, -1) for gpu in found.gpus)
        if pattern == NVLS:
            given = given[:1]
            gpus = gpus[:1]
        if given != gpus:
            return False
        if nets and not _same_nics(found, nets, names, nics, present, domain):
            return False
    return True


def gpu_numbers(stated: LoggedGraph, domain: DomainGraphs) -> dict[int, int]:
    """Places of GPUs by what a log calls them: bus ids, or ranks, which count on from host to
    host."""
    gpus = domain.paths.system.gpus
    if stated.by_busid:
        return {bus_number(gpu.name): place for place, gpu in enumerate(gpus)}
    ranks = sorted({gpu for channel in stated.orders for gpu in channel.gpus})
    # NVLS names heads alone
    if len(ranks) < len(gpus):
        first = ranks[0] // len(gpus) * len(gpus)
        return {first + gpu.rank: place for place, gpu in enumerate(gpus)}
    places = sorted(range(len(gpus)), key=lambda place: gpus[place].rank)
    return dict(zip(ranks, places, strict=False))


def _same_nics(
    found: LoggedChannel,
    nets: Sequence[int],
    names: Sequence[str],
    nics: Sequence[str],
    present: Sequence[int],
    domain: DomainGraphs,
) -> bool:
    if tuple(nics[number] for number in found.nets if number < len(nics)) == tuple(names):
        return True
    own = tuple(domain.paths.system.nets[net].dev for net in nets)
    renumbered = tuple(present.index(net) for net in nets)
    return tuple(found.nets) in (own, renumbered)


# --- what explains the difference


def _explained(
    node: _Node, before: NodeGraphs, logged: LoggedNode, lines: GraphLines, env: Mapping[str, str]
) -> Explained:
    """Search with each damage that a node may have, those first that the log itself tells of."""
    parts = Parts(node.read(), before)
    stated = damages_stated(parts, logged, lines, env)
    damages = chain(stated, damages_of(parts, _nics_used(parts, logged, lines)))
    return _Trials(node, before, logged, lines, parts).over(damages)


def _nics_used(parts: Parts, logged: LoggedNode, lines: GraphLines) -> int | None:
    """How many NICs a log's run had at least; None if no line says."""
    if lines.nics and not set(parts.ports) - set(lines.nics):
        return len(parts.ports)
    used: set[int] = set()
    for graph in logged.graphs.values():
        for channel in graph.orders:
            used.update(channel.nets)
    return len(used) or None


def damages_stated(
    parts: Parts, logged: LoggedNode, lines: GraphLines, env: Mapping[str, str]
) -> Iterator[Damage]:
    """The damages that a log tells of: settings, NICs that are not listed, and NCCL's own tree."""
    known = {}
    for name, value in env.items():
        if with_settings(_DEFAULT, {name: value}) != _DEFAULT:
            known[name] = value
    if known:
        names = tuple(f"{name}={value}" for name, value in known.items())
        yield Damage("setting", names, lambda _root: None, settings=known)
    missing = [name for name in parts.ports if name not in lines.nics]
    if lines.nics and missing and len(missing) < len(parts.ports):
        yield without_nics(missing)
    if logged.tree:
        yield from damage_in_tree(parts, logged.tree)


class _Trials:
    """Searches for damages, within a budget of visits."""

    def __init__(
        self,
        node: _Node,
        before: NodeGraphs,
        logged: LoggedNode,
        lines: GraphLines,
        parts: Parts,
    ) -> None:
        self.node = node
        self.before = before
        self.parts = parts
        self.logged = logged
        self.lines = lines
        self.left = _VISITS
        self.tried = 0
        self.found: dict[bool, list[Damage]] = {True: [], False: []}

    def over(self, damages: Iterable[Damage]) -> Explained:
        """The damages that fit; after one does, only others of its parts, or beside them."""
        later: list[Damage] = []
        # what a GPU's links to NVSwitches do is as a rule the same for each GPU
        unfit: set[int] = set()
        for damage in damages:
            if self.left <= 0:
                break
            if damage.kind == "nvlinks" and damage.now in unfit and not damage.all:
                later.append(damage)
            elif not self.found[True] or self.is_rival(damage):
                fits = self.take(damage)
                if not fits and damage.kind == "nvlinks":
                    unfit.add(damage.now)
        for damage in later:
            if self.left > 0 and not self.found[True]:
                self.take(damage)
        exact = bool(self.found[True])
        return Explained(tuple(self.found[exact]), exact, self.tried)

    def is_rival(self, damage: Damage) -> bool:
        """Whether a damage is of the parts, or beside the parts, of the first that fits, or the same
        of other parts."""
        known = self.found[True][0]
        if (damage.kind, damage.now, damage.all) == (known.kind, known.now, known.all):
            return True
        if damage.kind.startswith("gdr") and known.kind.startswith("gdr"):
            return True
        if damage.all or known.all:
            return damage.all == known.all
        return set(damage.names) <= self.parts.related(known.names)

    def take(self, damage: Damage) -> bool:
        """Search with a damage, and keep it if all graphs are the log's: whether they are."""
        self.tried += 1
        self.left -= _VISITS_OF_READING
        ring = self.logged.graphs["ring"]
        wanted = WantedRing(ring.channels, ring.inside_MBps, ring.near, ring.far)
        try:
            if not self.may_fit(damage):
                return False
            node = self.node.graphs(damage, wanted)
        except ColltoolError:  # no NIC is left, say
            return False
        self.left -= sum(domain.visits for domain in node.domains)
        if not all(domain.graphs for domain in node.domains):
            return False
        graphs = compared_graphs(node, self.logged, self.lines.nics)
        if any(set(graph.differs) - {"order"} for graph in graphs):
            return False
        exact = not any(graph.differs for graph in graphs)
        if exact and not self.found[True]:
            self.left = min(self.left, _VISITS_AFTER)
        self.found[exact].append(damage)
        return True

    def may_fit(self, damage: Damage) -> bool:
        """Whether a damaged node carries the log's ring, and not the better one of the whole node;
        without a search."""
        paths = self.node.paths(damage)
        if len(self.before.domains) > 1 or len(domains_of(paths)) > 1:
            return True
        before = ring_of(self.before.first)
        stated = list(self.rings_stated(paths))
        if stated and not any(carries(paths, ring) for ring in stated):
            return False
        total = self.logged.graphs["ring"].channels * self.logged.graphs["ring"].inside_MBps
        return before.total_MBps <= total or not carries(paths, before)

    def rings_stated(self, paths: Paths) -> Iterator[NamedRing]:
        """The log's ring on a node, with NICs by the file's numbers, and by those of the NICs that
        are left."""
        stated = self.logged.graphs["ring"]
        system = self.before.system
        if not stated.orders:
            return
        numbers = gpu_numbers(stated, self.before.first)
        names: list[dict[int, str]] = [dict(enumerate(self.lines.nics))] if self.lines.nics else []
        names.append({net.dev: net.name for net in system.nets})
        left = sorted(paths.system.nets, key=lambda net: net.dev)
        names.append({place: net.name for place, net in enumerate(left)})
        for named in names:
            channels = []
            for channel in stated.orders:
                places = [numbers.get(gpu, -1) for gpu in channel.gpus]
                gpus = tuple(bus_number(system.gpus[place].name) for place in places)
                nets = tuple(named.get(net, "") for net in channel.nets)
                channels.append(NamedChannel(gpus, nets))
            yield NamedRing(
                tuple(channels), stated.inside_MBps, stated.across_MBps, stated.near, stated.far
            )
