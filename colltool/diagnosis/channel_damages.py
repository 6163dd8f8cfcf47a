"""Why the graphs that a log states are not those of a topology file: the damage to the file's node
with which NCCL finds the log's graphs.

:func:`compared_nodes` compares each kind of host of a log with the file, and where they differ
lists the damages that a node may have, the likeliest first, for
:class:`~colltool.diagnosis.damage_trials.DamageTrials` to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from colltool.base.files import AnyPath
from colltool.diagnosis.damage_trials import DamageTrials, RunNode
from colltool.diagnosis.logged_channels import ComparedNode, DamageExplanation, compared_graphs
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
from colltool.libraries.nccl.topology.graphs import NodeGraphs
from colltool.libraries.nccl.topology.kinds import PXB
from colltool.libraries.nccl.topology.system import bus_number
from colltool.libraries.nccl.topology.versions import RELEASE, version_of, with_settings
from colltool.logs.nccl_graph_lines import GraphLines, LoggedNode

_DEFAULT = version_of(RELEASE)


def compared_nodes(
    path: AnyPath, name: str, lines: GraphLines, env: Mapping[str, str], nodes: int
) -> list[ComparedNode]:
    """Compare each kind of host that a log states graphs of with a topology file.

    Args:
        name: the file's, for errors.
        env: NCCL's settings in the log.
        nodes: of the run.
    """
    whole = RunNode(path, name, nodes, version_of(lines.release or RELEASE))
    compared = []
    for hosts, logged in _hosts_alike(lines):
        busids = lines.busids.get(logged.host, ())
        node = whole._replace(gpus_used=_gpus_used(whole, logged, busids))
        compared.append(_compared_node(node, hosts, logged, lines, env))
    return compared


def _hosts_alike(lines: GraphLines) -> Iterator[tuple[tuple[str, ...], LoggedNode]]:
    """Hosts of the largest communicator whose graphs have the same figures, and the graphs of the
    first of them. Nodes without a ring, cut off in the log, are left out."""
    largest = max((node.ranks for node in lines.nodes), default=0)
    alike: dict[object, list[LoggedNode]] = {}
    for node in lines.nodes:
        if node.ranks == largest and "ring" in node.graphs:
            figures = tuple((name, graph.figures) for name, graph in node.graphs.items())
            gpus = sum(len(channel.gpus) for channel in node.graphs["ring"].orders)
            alike.setdefault((figures, gpus), []).append(node)
    for nodes in alike.values():
        hosts = dict.fromkeys(node.host for node in nodes)
        yield tuple(filter(None, hosts)), nodes[0]


def _gpus_used(node: RunNode, logged: LoggedNode, busids: Sequence[int]) -> tuple[int, ...]:
    """Bus ids of the GPUs that a host's run used, ascending; empty where it used all of the file,
    or others.

    Args:
        busids: of the GPUs that ranks of the host name; empty if they name none.
    """
    in_file = {bus_number(slot.get("busid")) for slot in slots_with(node.damaged_xml(), "gpu")}
    ring = logged.graphs["ring"]
    used = set(busids)
    # where nodes have as many ranks each, the ring may be that of an NVLink domain, a part of the
    # file's node which NCCL counts as a node
    may_be_domain = logged.nodes * logged.local == logged.ranks
    if not used and ring.by_busid and not may_be_domain:
        used = set(ring.orders[0].gpus)
    if used and used < in_file:
        return tuple(sorted(used))
    return ()


def _compared_node(
    node: RunNode,
    hosts: tuple[str, ...],
    logged: LoggedNode,
    lines: GraphLines,
    env: Mapping[str, str],
) -> ComparedNode:
    """Compare hosts that are alike with a file's node, and explain what differs."""
    before = node.graphs()
    graphs = compared_graphs(before, logged, lines.nics)
    compared = ComparedNode(
        hosts,
        logged.where,
        graphs,
        gpus_used=len(node.gpus_used),
    )
    if not any(graph.differs for graph in graphs):
        return compared
    trials = DamageTrials(
        node,
        before,
        logged,
        lines,
        Parts(node.damaged_xml(), before),
        is_order_alone=not any(graph.has_other_figures for graph in graphs),
    )
    explained = _explanation(trials, env)
    compared = compared._replace(explained=explained, owners=_nic_owners(before))
    ring_gpus = len(logged.graphs["ring"].gpus)
    if not explained.damages and ring_gpus != len(before.system.gpus):
        compared = compared._replace(other_gpu_count=ring_gpus)
    return compared


def _nic_owners(node: NodeGraphs) -> dict[str, int]:
    """The rank of the GPU that a NIC is near to (behind the same PCI switches), by the NIC's name;
    only of NICs that are near to one GPU alone."""
    owners = {}
    for net in node.system.nets:
        near = [gpu for gpu in node.system.gpus if node.paths.get(net, gpu).kind <= PXB]
        if len(near) == 1:
            owners[net.name] = near[0].rank
    return owners


def _explanation(trials: DamageTrials, env: Mapping[str, str]) -> DamageExplanation:
    """Try each damage that a node may have, those first that the log itself tells of, and tell which
    explain the log."""
    parts = trials.parts
    damages: Iterator[Damage] = chain(
        damages_stated(parts, trials.logged, env),
        damages_of(parts, _least_nics(trials)),
    )
    unlisted = trials.lines.unlisted(parts.ports)
    if unlisted:
        # whatever else is damaged, these NICs are missing: tried alone, then with every other damage
        missing = without_nics(unlisted)
        trials.try_damage(missing)
        if trials.exact:
            return trials.explanation
        damages = (together([missing, damage]) for damage in damages)
    trials.try_all(damages)
    return trials.explanation


def _least_nics(trials: DamageTrials) -> int | None:
    """How many NICs the run had at least; None if no line says."""
    listed = trials.lines.nics
    if listed and not set(trials.parts.ports) - set(listed):
        return len(trials.parts.ports)
    return len(trials.logged.nets) or None


def damages_stated(parts: Parts, logged: LoggedNode, env: Mapping[str, str]) -> Iterator[Damage]:
    """The damages that a log tells of: settings of ``env`` that change NCCL's search, all at once;
    and what NCCL's own tree lacks."""
    settings = {}
    for name, value in env.items():
        if with_settings(_DEFAULT, {name: value}) != _DEFAULT:
            settings[name] = value
    if settings:
        names = tuple(f"{name}={value}" for name, value in settings.items())
        yield WHOLE._replace(kind="setting", names=names, settings=settings)
    if logged.tree:
        yield from damage_in_tree(parts, logged.tree)
