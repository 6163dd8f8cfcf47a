"""The damage to a topology file's node with which NCCL finds the graphs that a log states: the
search is run with one after the other (:func:`compared_nodes`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.files import AnyPath
from colltool.base.xml_tree import Element, read_xml
from colltool.diagnosis.logged_channels import (
    ComparedNode,
    Explained,
    compared_graphs,
    domain_of,
    gpu_numbers,
)
from colltool.diagnosis.logged_tree import damage_in_tree
from colltool.libraries.nccl.topology.changes import slots_with
from colltool.libraries.nccl.topology.damages import (
    WHOLE,
    Damage,
    Parts,
    damages_of,
    together,
    without_nics,
)
from colltool.libraries.nccl.topology.domains import domains_of
from colltool.libraries.nccl.topology.graphs import NodeGraphs, WantedRing, graphs_of_xml
from colltool.libraries.nccl.topology.kinds import PXB
from colltool.libraries.nccl.topology.paths import Paths, paths_of
from colltool.libraries.nccl.topology.rates import number
from colltool.libraries.nccl.topology.rings import NamedChannel, NamedRing, carries, ring_of
from colltool.libraries.nccl.topology.system import bus_number
from colltool.libraries.nccl.topology.system_reader import FORMAT, system_of
from colltool.libraries.nccl.topology.versions import RELEASE, Version, version_of, with_settings
from colltool.logs.nccl_graph_lines import GraphLines, LoggedNode

# visits of GPUs, of all searches for a damage: some seconds; and after one was found that fits
_VISITS = 10_000_000
_VISITS_AFTER = 3_000_000
# what it takes to find the paths of a node, in visits, by the square of its parts
_VISITS_OF_PATHS = 4
# GPUs of most nodes: with more, visits take longer
_USUAL_GPUS = 8
_DEFAULT = version_of(RELEASE)


class _RunNode(NamedTuple):
    """A topology file as the run of a log had it: ``kept`` bus ids of GPUs, all if there are
    none."""

    path: AnyPath
    name: str
    nodes: int
    version: Version
    kept: tuple[int, ...] = ()

    def read(self, damage: Damage = WHOLE) -> Element:
        """The file's elements, with a damage."""
        root = read_xml(self.path, FORMAT)
        if self.kept:
            _drop_gpus(root, self.kept)
        damage.edit(root)
        return root

    def paths(self, damage: Damage) -> Paths:
        version = with_settings(self.version, damage.settings)
        return paths_of(system_of(self.read(damage), self.name, version))

    def graphs(self, damage: Damage = WHOLE, wanted: WantedRing | None = None) -> NodeGraphs:
        """The graphs, with a damage; none where the ring is not the ``wanted`` one."""
        version = with_settings(self.version, damage.settings)
        root = self.read(damage)
        return graphs_of_xml(root, self.name, self.nodes, version, wanted=wanted)


def _drop_gpus(root: Element, kept: Sequence[int]) -> None:
    """Leave only GPUs of these bus ids, their ranks anew from 0."""
    left: list[tuple[int, Element]] = []
    for slot in slots_with(root, "gpu"):
        for gpu in list(slot.each("gpu")):
            if bus_number(slot.get("busid")) in kept:
                left.append((number(gpu.get("rank")), gpu))
            else:
                slot.children.remove(gpu)
    left.sort(key=itemgetter(0))
    for rank, (_, gpu) in enumerate(left):
        gpu.attributes["rank"] = str(rank)


def compared_nodes(
    path: AnyPath, name: str, lines: GraphLines, env: Mapping[str, str], nodes: int
) -> list[ComparedNode]:
    """Compare each kind of host that a log states graphs of with a topology file.

    Args:
        env: NCCL's settings in the log.
        nodes: of the run.
    """
    node = _RunNode(path, name, nodes, version_of(lines.release or RELEASE))
    found = []
    for hosts, logged in _distinct(lines):
        used = node._replace(kept=_gpus_used(node, logged, lines.busids.get(logged.host, ())))
        before = used.graphs()
        graphs = compared_graphs(before, logged, lines.nics)
        compared = ComparedNode(hosts, logged.where, graphs, len(used.kept))
        if any(graph.differs for graph in graphs):
            explained = _explained(
                used,
                before,
                logged,
                lines,
                env,
                order_alone=all(set(graph.differs) <= {"order"} for graph in graphs),
            )
            compared = compared._replace(
                explained=explained,
                owners=_owners(before),
            )
            gpus = len(logged.graphs["ring"].gpus)
            if not explained.damages and gpus != len(before.system.gpus):
                compared = compared._replace(unlike=gpus)
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
            figures = tuple((name, graph.figures) for name, graph in node.graphs.items())
            gpus = sum(len(channel.gpus) for channel in node.graphs["ring"].orders)
            alike.setdefault((figures, gpus), []).append(node)
    for same in alike.values():
        hosts = dict.fromkeys(node.host for node in same)
        yield tuple(filter(None, hosts)), same[0]


def _gpus_used(node: _RunNode, logged: LoggedNode, busids: Sequence[int]) -> tuple[int, ...]:
    """The bus ids of the GPUs that a run used, where these are not all of the file."""
    known = {bus_number(slot.get("busid")) for slot in slots_with(node.read(), "gpu")}
    ring = logged.graphs["ring"]
    used = set(busids)
    if not used and ring.by_busid and logged.nodes * logged.local != logged.ranks:
        used = set(ring.orders[0].gpus)
    if used and used < known:
        return tuple(sorted(used))
    return ()


def _explained(
    node: _RunNode,
    before: NodeGraphs,
    logged: LoggedNode,
    lines: GraphLines,
    env: Mapping[str, str],
    *,
    order_alone: bool,
) -> Explained:
    """Search with each damage that a node may have, those first that the log itself tells of;
    ``order_alone``: nothing but the order of GPUs or NICs differs."""
    parts = Parts(node.read(), before)
    damages: Iterator[Damage] = chain(
        damages_stated(parts, logged, env),
        damages_of(parts, _nics_used(parts, logged, lines)),
    )
    trials = _Trials(node, before, logged, lines, parts, order_alone)
    missing = lines.unlisted(parts.ports)
    if missing:
        # whatever else there is, these are missing
        sure = without_nics(missing)
        trials.take(sure)
        if trials.found[True]:
            return trials.explained
        damages = (together([sure, damage]) for damage in damages)
    trials.over(damages)
    return trials.explained


def _nics_used(parts: Parts, logged: LoggedNode, lines: GraphLines) -> int | None:
    """How many NICs a log's run had at least; None if no line says."""
    if lines.nics and not set(parts.ports) - set(lines.nics):
        return len(parts.ports)
    return len(logged.nets) or None


def damages_stated(parts: Parts, logged: LoggedNode, env: Mapping[str, str]) -> Iterator[Damage]:
    """The damages that a log tells of: settings, and what NCCL's own tree lacks."""
    known = {}
    names = []
    for name, value in env.items():
        if with_settings(_DEFAULT, {name: value}) != _DEFAULT:
            known[name] = value
            names.append(f"{name}={value}")
    if known:
        yield WHOLE._replace(kind="setting", names=tuple(names), settings=known)
    if logged.tree:
        yield from damage_in_tree(parts, logged.tree)


@dataclass
class _Trials:
    """Searches for damages, within a budget of visits; ``found``: those that fit, by whether all
    orders do."""

    node: _RunNode
    before: NodeGraphs
    logged: LoggedNode
    lines: GraphLines
    parts: Parts
    is_order_alone: bool
    left: int = _VISITS
    tried: int = 0
    found: dict[bool, list[Damage]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def explained(self) -> Explained:
        """The damages that fit; where only an order differs, those that give it."""
        exact = bool(self.found[True]) or self.is_order_alone
        return Explained(tuple(self.found[exact]), exact, self.tried)

    def over(self, damages: Iterable[Damage]) -> None:
        """Try damages; after one fits, only others of its parts, or beside them."""
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

    def is_rival(self, damage: Damage) -> bool:
        """Whether a damage is of the parts, or beside the parts, of the first that fits, or the
        same of other parts."""
        known = self.found[True][0]
        same_kind = damage.kind == known.kind and damage.now == known.now
        if same_kind and damage.all == known.all:
            return True
        if damage.kind.startswith("gdr") and known.kind.startswith("gdr"):
            return True
        if known.kind == "nics-few":
            return True
        if damage.all or known.all:
            return damage.all == known.all
        return set(damage.names) <= self.parts.related(known.names)

    def take(self, damage: Damage) -> bool:
        """Search with a damage, and keep it if all graphs are the log's: whether they are."""
        self.tried += 1
        self.left -= _VISITS_OF_PATHS * len(self.before.system.nodes) ** 2
        ring = self.logged.graphs["ring"].figures
        wanted = WantedRing(ring.channels, ring.inside_Bps / 1e6, ring.between_gpus, ring.to_nics)
        try:
            if not self.may_fit(damage):
                return False
            node = self.node.graphs(damage, wanted)
        except ColltoolError:  # no NIC is left, say
            return False
        slower = max(len(node.system.gpus) / _USUAL_GPUS, 1)
        self.left -= round(slower * sum(domain.visits for domain in node.domains))
        if not domain_of(node, self.logged).graphs:
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
        ring = self.logged.graphs["ring"].figures
        total_Bps = ring.channels * ring.inside_Bps
        return before.total_MBps * 1e6 <= total_Bps or not carries(paths, before)

    def rings_stated(self, paths: Paths) -> Iterator[NamedRing]:
        """The log's ring on a node, with NICs by the file's numbers, and by those of the NICs that
        are left."""
        stated = self.logged.graphs["ring"]
        system = self.before.system
        numbers = gpu_numbers(stated, self.before.first)
        if not stated.orders or not stated.gpus <= numbers.keys():
            return
        left = sorted(paths.system.nets, key=attrgetter("dev"))
        numberings = [
            dict(enumerate(self.lines.nics)),
            {net.dev: net.name for net in system.nets},
            {place: net.name for place, net in enumerate(left)},
        ]
        busids = {}
        for gpu, place in numbers.items():
            busids[gpu] = bus_number(system.gpus[place].name)
        figures = stated.figures
        for names in filter(None, numberings):
            channels = []
            for channel in stated.orders:
                gpus = tuple(busids[gpu] for gpu in channel.gpus)
                nets = tuple(names.get(net, "") for net in channel.nets)
                channels.append(NamedChannel(gpus, nets))
            yield NamedRing(
                tuple(channels),
                inside_MBps=figures.inside_Bps / 1e6,
                across_MBps=figures.across_Bps / 1e6,
                inside=figures.between_gpus,
                across=figures.to_nics,
            )
