"""Trials of damages: NCCL's search run on a damaged node, its graphs compared with those of a log.

:class:`DamageTrials` runs them for :mod:`colltool.diagnosis.channel_damages`, on a :class:`RunNode`,
the node as the log's run used it. A search may take seconds, so all share a budget of visits (steps
of NCCL's search), and a damage is first asked whether it :meth:`may fit <DamageTrials.may_fit>`.

A :class:`~colltool.libraries.nccl.topology.damages.Damage` has a ``kind``, the ``names`` of the parts
that it is of (or is of ``all`` parts of the kind), and how much of what it lowers is left (``now``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.files import AnyPath
from colltool.base.xml_tree import Element, read_xml
from colltool.diagnosis.logged_channels import (
    DamageExplanation,
    compared_graphs,
    domain_of,
    gpu_places,
)
from colltool.libraries.nccl.topology.changes import slots_with
from colltool.libraries.nccl.topology.damages import WHOLE, Damage, Parts
from colltool.libraries.nccl.topology.domains import domains_of
from colltool.libraries.nccl.topology.graphs import NodeGraphs, WantedRing, graphs_of_xml
from colltool.libraries.nccl.topology.paths import Paths, paths_of
from colltool.libraries.nccl.topology.rates import number
from colltool.libraries.nccl.topology.rings import NamedChannel, NamedRing, carries, ring_of
from colltool.libraries.nccl.topology.system import bus_number
from colltool.libraries.nccl.topology.system_reader import FORMAT, system_of
from colltool.libraries.nccl.topology.versions import Version, with_settings
from colltool.logs.nccl_graph_lines import GraphLines, LoggedNode

# Visits that all trials may take, some seconds of time; and those after the first damage that fits.
_VISITS = 10_000_000
_VISITS_AFTER_FIT = 3_000_000
# Finding the paths of a node takes as long as this many visits, times its number of parts squared.
_VISITS_OF_PATHS = 4
# GPUs of a usual node: with more of them, a visit takes longer in proportion.
_USUAL_GPUS = 8


class RunNode(NamedTuple):
    """The node of a topology file as the run of a log used it.

    Args:
        name: the file's, for errors.
        node_count: nodes of the run.
        version: NCCL's search of the log's release.
        gpus_used: bus ids of the GPUs that the run used; empty if it used all.
    """

    path: AnyPath
    name: str
    node_count: int
    version: Version
    gpus_used: tuple[int, ...] = ()

    def damaged_xml(self, damage: Damage = WHOLE) -> Element:
        """The file's elements for the GPUs used, with a damage."""
        root = read_xml(self.path, FORMAT)
        if self.gpus_used:
            _drop_other_gpus(root, self.gpus_used)
        damage.edit(root)
        return root

    def paths(self, damage: Damage) -> Paths:
        """Paths of the damaged node."""
        version = with_settings(self.version, damage.settings)
        return paths_of(system_of(self.damaged_xml(damage), self.name, version))

    def graphs(self, damage: Damage = WHOLE, wanted: WantedRing | None = None) -> NodeGraphs:
        """Graphs that NCCL finds on the damaged node; none in a domain whose ring is not the
        ``wanted`` one."""
        version = with_settings(self.version, damage.settings)
        root = self.damaged_xml(damage)
        return graphs_of_xml(root, self.name, self.node_count, version, wanted=wanted)


def _drop_other_gpus(root: Element, busids: Sequence[int]) -> None:
    """Leave only the GPUs of these bus ids, and number their ranks from 0 in the old order."""
    ranked: list[tuple[int, Element]] = []
    for slot in slots_with(root, "gpu"):
        for gpu in list(slot.each("gpu")):
            if bus_number(slot.get("busid")) in busids:
                ranked.append((number(gpu.get("rank")), gpu))
            else:
                slot.children.remove(gpu)
    ranked.sort(key=itemgetter(0))
    for rank, (_, gpu) in enumerate(ranked):
        gpu.attributes["rank"] = str(rank)


@dataclass
class DamageTrials:
    """Trials of damages to one node.

    Attributes:
        node: as the run used it; ``parts``, ``before``: of it without damage.
        logged: the host's graphs in the log, among them the ring; ``lines``: of the whole log.
        is_order_alone: the log's graphs differ from ``before`` in the order of GPUs or NICs alone.
        visits_left: of the budget.
        tried: damages tried so far.
        exact: damages with which NCCL finds the log's graphs, in the order of trials.
        order_differs: those with which only the order of GPUs or NICs is another.
    """

    node: RunNode
    before: NodeGraphs
    logged: LoggedNode
    lines: GraphLines
    parts: Parts
    is_order_alone: bool
    visits_left: int = field(default_factory=lambda: _VISITS)
    tried: int = 0
    exact: list[Damage] = field(default_factory=list)
    order_differs: list[Damage] = field(default_factory=list)

    @property
    def explanation(self) -> DamageExplanation:
        """The damages that fit. What differs in the order alone is no explanation of an order."""
        is_exact = bool(self.exact) or self.is_order_alone
        damages = self.exact if is_exact else self.order_differs
        return DamageExplanation(tuple(damages), is_exact, self.tried)

    def try_all(self, damages: Iterable[Damage]) -> None:
        """Try damages in turn while visits are left; after one fits, only its rivals.

        GPUs as a rule have the same number of links to NVSwitches: where a number does not fit one
        GPU, the same number at another waits until all else was tried.
        """
        postponed: list[Damage] = []
        unfit_link_counts: set[int] = set()
        for damage in damages:
            if self.visits_left <= 0:
                break
            is_nvlinks = damage.kind == "nvlinks"
            if is_nvlinks and not damage.all and damage.now in unfit_link_counts:
                postponed.append(damage)
            elif not self.exact or self._is_rival(damage):
                fits = self.try_damage(damage)
                if is_nvlinks and not fits:
                    unfit_link_counts.add(damage.now)
        for damage in postponed:
            if self.visits_left > 0 and not self.exact:
                self.try_damage(damage)

    def _is_rival(self, damage: Damage) -> bool:
        """Whether a damage may well fit as the first exact one does: the same change of other
        parts, or a change of its parts or of those beside them."""
        first = self.exact[0]
        if (damage.kind, damage.now, damage.all) == (first.kind, first.now, first.all):
            return True
        # kinds of GPUDirect RDMA: gdr, gdr-nic, gdr-gpu
        if damage.kind.startswith("gdr") and first.kind.startswith("gdr"):
            return True
        # its names are the NICs that are left, so that nothing tells what is beside the others
        if first.kind == "nics-few":
            return True
        if damage.all or first.all:
            return damage.all == first.all
        return set(damage.names) <= self.parts.related(first.names)

    def try_damage(self, damage: Damage) -> bool:
        """Run NCCL's search with a damage, and keep it if it fits.

        Returns:
            Whether it fits: all figures of the graphs are the log's, perhaps not the order.
        """
        self.tried += 1
        self.visits_left -= _VISITS_OF_PATHS * len(self.before.system.nodes) ** 2
        try:
            if not self.may_fit(damage):
                return False
            node = self.node.graphs(damage, self._wanted_ring())
        except ColltoolError:  # such a node cannot run at all: no NIC is left, say
            return False
        slower = max(len(node.system.gpus) / _USUAL_GPUS, 1)
        self.visits_left -= round(slower * sum(domain.visits for domain in node.domains))
        # empty where the ring is not the wanted one
        if not domain_of(node, self.logged).graphs:
            return False
        graphs = compared_graphs(node, self.logged, self.lines.nics)
        if any(graph.has_other_figures for graph in graphs):
            return False
        if any(graph.differs for graph in graphs):
            self.order_differs.append(damage)
            return True
        if not self.exact:
            self.visits_left = min(self.visits_left, _VISITS_AFTER_FIT)
        self.exact.append(damage)
        return True

    def _wanted_ring(self) -> WantedRing:
        """The log's ring, as the search takes it: the search ends early where it finds another."""
        ring = self.logged.graphs["ring"].figures
        return WantedRing(ring.channels, ring.inside_Bps / 1e6, ring.between_gpus, ring.to_nics)

    def may_fit(self, damage: Damage) -> bool:
        """Whether a damaged node could give the log's ring, as its paths alone say, without a
        search: it carries that ring, and not the undamaged node's where that one is better, which
        NCCL would take."""
        paths = self.node.paths(damage)
        if len(self.before.domains) > 1 or len(domains_of(paths)) > 1:
            return True
        logged_rings = list(self._logged_rings(paths))
        if logged_rings and not any(carries(paths, ring) for ring in logged_rings):
            return False
        undamaged_ring = ring_of(self.before.first)
        ring = self.logged.graphs["ring"].figures
        logged_Bps = ring.channels * ring.inside_Bps
        return undamaged_ring.total_MBps * 1e6 <= logged_Bps or not carries(paths, undamaged_ring)

    def _logged_rings(self, paths: Paths) -> Iterator[NamedRing]:
        """The log's ring by names of parts, once for each way to read its numbers of NICs; none
        where the log has no channels, or GPUs that the node has not."""
        logged_ring = self.logged.graphs["ring"]
        places = gpu_places(logged_ring, self.before.first)
        if not logged_ring.orders or not logged_ring.gpus <= places.keys():
            return
        busids = {}
        for gpu, place in places.items():
            busids[gpu] = bus_number(self.before.system.gpus[place].name)
        figures = logged_ring.figures
        for nic_names in self._nic_numberings(paths):
            channels = []
            for channel in logged_ring.orders:
                gpus = tuple(busids[gpu] for gpu in channel.gpus)
                nets = tuple(nic_names.get(net, "") for net in channel.nets)
                channels.append(NamedChannel(gpus, nets))
            yield NamedRing(
                tuple(channels),
                inside_MBps=figures.inside_Bps / 1e6,
                across_MBps=figures.across_Bps / 1e6,
                inside=figures.between_gpus,
                across=figures.to_nics,
            )

    def _nic_numberings(self, paths: Paths) -> Iterator[dict[int, str]]:
        """Names of NICs by NCCL's number: as the log lists them, as the file numbers them, and
        counted anew over those that the damaged node still has."""
        nics_left = sorted(paths.system.nets, key=attrgetter("dev"))
        numberings = (
            dict(enumerate(self.lines.nics)),
            {net.dev: net.name for net in self.before.system.nets},
            {place: net.name for place, net in enumerate(nics_left)},
        )
        yield from filter(None, numberings)
