"""The result of ``fabric channels``: what NCCL finds on the node of a topology file
(:func:`channels_found`), with rates in bytes/s."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.files import AnyPath
from colltool.base.primitives import AR
from colltool.base.result import Result
from colltool.base.xml_tree import read_xml
from colltool.libraries.nccl.hardware import known_version
from colltool.libraries.nccl.model import SwitchPoint, switch_points
from colltool.libraries.nccl.topology.binding import Binding, binding_of
from colltool.libraries.nccl.topology.changes import NodeChange, changes_of
from colltool.libraries.nccl.topology.connect import Communicator, communicator_of
from colltool.libraries.nccl.topology.graphs import DomainGraphs, NodeGraphs, graphs_of_xml
from colltool.libraries.nccl.topology.kinds import KINDS
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.system_reader import FORMAT
from colltool.libraries.nccl.topology.to_hardware import hardware_of
from colltool.libraries.nccl.topology.versions import RELEASE, version_of


class GraphFound(NamedTuple):
    """A graph of a domain, and what binds it; types of path by their names, such as NVL.

    Args:
        pattern: ring, tree, nvls, collnet_chain or collnet_direct.
        binding: the parts that its channels fill; None where they take nothing.
    """

    pattern: str
    domain: DomainGraphs
    searched: Searched
    binding: Binding | None

    @property
    def channels(self) -> int:
        return self.searched.best.channel_count

    @property
    def inside_Bps(self) -> float:
        return self.searched.inside_MBps * 1e6

    @property
    def across_Bps(self) -> float | None:
        """None on one node."""
        if not self.domain.across:
            return None
        return self.searched.across_MBps * 1e6

    @property
    def between_gpus(self) -> str:
        return KINDS[self.searched.inside]

    @property
    def to_nics(self) -> str | None:
        """None on one node."""
        if not self.domain.across:
            return None
        return KINDS[self.searched.across]


@dataclass(frozen=True, eq=False, repr=False)
class ChannelsFound(Result):
    """The channels that NCCL finds on a node.

    Args:
        file: the topology file.
        release: of NCCL.
        graphs: of the first domain, the one of rank 0.
        picks: for an all-reduce, by size; empty of a rank alone, and without data of the version's cost model.
    """

    subject: ClassVar[str] = "channels"
    file: str
    release: str
    node: NodeGraphs
    communicator: Communicator
    graphs: tuple[GraphFound, ...]
    picks: tuple[SwitchPoint, ...]
    changes: tuple[NodeChange, ...]  # each would give other channels


def channels_found(path: AnyPath, nodes: int = 1, release: str = "") -> ChannelsFound:
    """What a release of NCCL (default: :data:`RELEASE`) finds on ``nodes`` nodes like that of a file.

    Raises:
        ColltoolError: as :func:`colltool.libraries.nccl.topology.graphs.graphs_of`.
    """
    name = os.fsdecode(path)
    release = release or RELEASE
    root = read_xml(path, FORMAT)
    version = version_of(release)
    collnet = nodes > 1 and any(net.get("coll") == "1" for net in root.each("net"))
    node = graphs_of_xml(root, name, nodes, version, collnet=collnet)
    communicator = communicator_of(node)
    domain = node.first
    graphs = []
    for pattern, searched in domain.graphs.items():
        graphs.append(GraphFound(pattern, domain, searched, binding_of(domain, searched)))
    picks: tuple[SwitchPoint, ...] = ()
    version_with_data = known_version(release)
    if version_with_data and communicator.ranks > 1:
        picks = switch_points(hardware_of(node, communicator, version_with_data), AR)
    changes = tuple(changes_of(lambda: read_xml(path, FORMAT), name, node))
    return ChannelsFound(
        file=name,
        release=release,
        node=node,
        communicator=communicator,
        graphs=tuple(graphs),
        picks=picks,
        changes=changes,
    )
