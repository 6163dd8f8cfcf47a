"""The hardware of a group as NCCL's cost model asks for it: nodes, GPUs, NICs and the channels of its
search, as the fabric's file states them or as they follow from it.

:func:`hardware_on` is the entry, :func:`modelled_hardware` the same where a missing fact is no error.
Both cache :func:`hardware_of`, which gathers what the rest of the module works out. Errors name the
facts that are missing, and how to state them.

*Facts* are the ``library:`` block of the fabric's file; a *graph* is what NCCL's search found for an
algorithm: its number of channels, and the rate of one inside and between nodes. A graph that the file
does not state is *derived*: the rules of the NCCL version search for it as NCCL does. Rates of the
fabric are bytes/s (``_Bps``), those of NCCL's model GB/s (``_GBps``).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from colltool.algorithms.libraries import FROM_HOPPER
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, P2P, Primitive
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.fabric.library import GroupChannels, LibraryChannels, LibraryFacts, LibraryGraph
from colltool.fabric.model import Fabric
from colltool.fabric.same_fabric import SameFabric
from colltool.fabric.tier_media import has_gpudirect
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text, even_domains
from colltool.libraries.nccl.graphs import has_one_order, sent_channels
from colltool.libraries.nccl.hardware import (
    CACHE_CLEARS,
    Constants,
    Gpu,
    GpuNodes,
    Graph,
    Hardware,
    constants,
)
from colltool.libraries.nccl.names import ALGORITHM_NAMES, name_of
from colltool.libraries.nccl.rules import rules_of
from colltool.libraries.nccl.topology.kinds import KINDS, NVL, TREE, keeps_order

Channels = TypeVar("Channels", bound=LibraryChannels)

MODELLED_LIBRARIES = ("nccl",)
"""Names of the libraries whose cost model is known."""
# All NVLinks of a GPU by generation, bytes/s one way. Source: NVIDIA A100, H100 and B200 data sheets
_NVLINK_BPS = {"ampere": 300e9, "hopper": 450e9, "blackwell": 900e9}
# bytes/s one way of a slot of 16 lanes of PCIe 5, as most hosts of Blackwell have
_PCIE_5_BPS = 64e9
_HOW_TO_PRINT_CHANNELS = "NCCL prints them: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH"


def hardware_on(fabric: Fabric, group: AnyGroup = None) -> Hardware:
    """The hardware of a group (by default the whole fabric) as :func:`hardware_of` finds it,
    cached. Raises ColltoolError also if the group does not fit."""
    hardware = _cached_hardware(SameFabric(fabric), group)
    if isinstance(hardware, ColltoolError):
        # a copy: the traceback of the cached error would grow with every raise
        raise ColltoolError(
            hardware.what, where=hardware.where, argument=hardware.argument, fix=hardware.fix
        )
    return hardware


def modelled_hardware(fabric: Fabric, group: AnyGroup) -> Hardware | None:
    """The hardware of a group. None where another library runs there, or a fact is missing."""
    if fabric.library_name not in MODELLED_LIBRARIES:
        return None
    hardware = _cached_hardware(SameFabric(fabric), group)
    return None if isinstance(hardware, ColltoolError) else hardware


@lru_cache(maxsize=256)
def _cached_hardware(same_fabric: SameFabric, group: AnyGroup) -> Hardware | ColltoolError:
    """The hardware, or the error: every price on a fabric that lacks a fact comes here again."""
    try:
        return hardware_of(place(same_fabric.fabric, group))
    except ColltoolError as error:
        return error


# hardware holds channels that follow from a version's data, which a user's file may replace
CACHE_CLEARS.append(_cached_hardware.cache_clear)


def hardware_of(placed: PlacedGroup) -> Hardware:
    """The hardware of a group.

    Nodes are NVLink domains: those of the innermost tier if it joins accelerators, else each rank
    is one; where the file states graphs of groups, :func:`_ranks_of_node`. A node has the NICs that
    the file states, else those that the next tier's ``sizing`` counts, at most ``ports`` per rank of
    the group; each has the bandwidth of that tier.

    Raises:
        ColltoolError: NCCL does not run on the fabric, there is no data for its version, or facts
            are missing.
    """
    fabric = placed.fabric
    facts = fabric.library_facts or LibraryFacts(name="nccl")
    _check_nodes(placed, facts)
    ranks_per_node = _ranks_of_node(placed, facts)
    nodes = placed.ranks // ranks_per_node
    facts = _facts_of_group(facts, placed, ranks_per_node)
    stated = _stated_graphs(facts)
    constants_of_version = constants(facts.version or "")
    over_nodes = nodes > 1
    nics = 0
    nic_GBps = 0.0
    if over_nodes:
        nics, nic_GBps = _nics(placed, facts)
    _refuse_missing(
        fabric, facts, constants_of_version, nodes=nodes, gpus=ranks_per_node, nics=nics
    )
    # else refused just now
    assert facts.gpu is not None
    staged = over_nodes and not has_gpudirect(fabric)
    machine = GpuNodes(
        gpu=facts.gpu,
        nodes=nodes,
        gpus=ranks_per_node,
        nic_GBps=nic_GBps,
        staged=staged,
        # none is stated on one node alone, where nothing depends on it
        cpu=facts.cpu or "intel",
        link_share=_link_share(placed, facts),
        wide_slots=_has_wide_slots(fabric, facts),
    )
    # what derives the graphs that the file does not state
    rules = rules_of(constants_of_version)
    ring = _graph_of(stated.ring, facts.gpu) or rules.ring_graph(constants_of_version, machine)
    nvls = _nvls_graph(placed, facts, constants_of_version, machine)
    return Hardware(
        version=constants_of_version.version,
        gpu=facts.gpu,
        cpu=machine.cpu,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        nics=nics,
        link=facts.link or "nvlink",
        nvswitch=ranks_per_node > 1 and facts.link != "pci",
        nvls=nvls is not None,
        collnet=bool(facts.collnet),
        ring=ring,
        tree=_graph_of(stated.tree, facts.gpu) or rules.tree_graph(constants_of_version, machine),
        nvls_graph=nvls,
        collnet_graph=_collnet_graph(facts, constants_of_version, machine, ring),
        channels=stated.total or rules.communicator_channels(constants_of_version, machine, ring),
        simple_tree=_is_simple_tree(stated, machine),
        gpudirect=not staged,
        same_channels=_has_same_channels(stated, machine, ring),
    )


def _nvls_graph(
    placed: PlacedGroup, facts: LibraryFacts, constants_of_version: Constants, machine: GpuNodes
) -> Graph | None:
    """The channels of NVLS, as stated or derived. None where it does not run: it is switched off, a
    node has one GPU, its links or GPUs cannot do it, or the graphs stated for the group lack it."""
    inside = placed.spans[0].kind
    multicast = inside.joins == "accelerators" and {"reduce", "multicast"} <= inside.operations
    if facts.nvls is False or machine.gpus == 1 or not multicast or not machine.from_hopper:
        return None
    stated = _stated_graphs(facts)
    nvls = _graph_of(stated.nvls, machine.gpu)
    # graphs stated for groups are all that NCCL's search found: without NVLS it does not run
    if nvls is None and not isinstance(stated, GroupChannels):
        nvls = rules_of(constants_of_version).nvls_graph(constants_of_version, machine)
    return nvls


def _collnet_graph(
    facts: LibraryFacts, constants_of_version: Constants, machine: GpuNodes, ring: Graph
) -> Graph | None:
    """The channels of CollNet, as stated or derived; the ring's where NCCL's search of such a GPU is
    not known, None where CollNet does not run."""
    if not facts.collnet or machine.nodes == 1:
        return None
    stated = _graph_of(_stated_graphs(facts).collnet, machine.gpu)
    # ``search``: GPU generations whose channel search is known
    if stated is None and machine.gpu in constants_of_version.search:
        return rules_of(constants_of_version).collnet_graph(constants_of_version, machine)
    return stated or ring


def _has_same_channels(stated: LibraryChannels, machine: GpuNodes, ring: Graph) -> bool:
    """Whether all channels visit the GPUs of a node in one order: as the stated ring says (``same``),
    else as NCCL's search on one node ends (:func:`has_one_order`), and never across nodes."""
    if stated.ring is not None and stated.ring.same is not None:
        return stated.ring.same
    return machine.gpus == 1 or (machine.nodes == 1 and has_one_order(ring, machine.gpus))


def _is_simple_tree(stated: LibraryChannels, machine: GpuNodes) -> bool:
    """Whether trees have all traffic of a NIC go through one GPU, as stated or derived."""
    if stated.tree is not None and stated.tree.pattern is not None:
        return stated.tree.pattern == TREE
    # in a tray of Grace Blackwell both GPUs of a CPU reach their NICs over it
    over_cpu = (machine.gpu, machine.cpu) == ("blackwell", "arm")
    return machine.nodes > 1 and (machine.gpus == 1 or (machine.from_hopper and not over_cpu))


def channels_of(fabric: Fabric, group: AnyGroup, primitive: Primitive, spec: str) -> int | None:
    """Channels that NCCL runs a large call on, each a thread block that holds a multiprocessor.

    ``spec``: the schedule, as ``--algorithm`` takes it. None where NCCL's model does not know.
    """
    hardware = modelled_hardware(fabric, group)
    if hardware is None:
        return None
    if primitive in (P2P, A2A):
        return sent_channels(hardware, to_all=primitive is A2A)
    name = name_of(spec, primitive, hardware.ranks, hardware.nodes)
    if name.startswith(ALGORITHM_NAMES["nvls"]):
        return hardware.nvls_channels
    return hardware.channels


def _ranks_of_node(placed: PlacedGroup, facts: LibraryFacts) -> int:
    """The group's ranks on a node.

    Where the file states graphs of groups, the largest of these is a whole node, and its GPUs may lie
    on several tiers: PCIe switches in a host. Otherwise a node is a domain of the innermost tier.
    """
    if not isinstance(facts.channels, tuple):
        return placed.ranks_per_node
    gpus_of_node = _most_gpus(facts.channels)
    members_inside = gpus_inside = 1
    for tier, members in zip(placed.fabric.tiers, placed.placement.per_domain, strict=True):
        gpus_inside *= tier.endpoints
        if gpus_inside > gpus_of_node:
            break
        members_inside *= members
    return members_inside


def _nics(placed: PlacedGroup, facts: LibraryFacts) -> tuple[int, float]:
    """NICs of a node, and the rate of each in GB/s, of a group across nodes."""
    # spans are tiers from the inside out: the first joins nodes where each rank is one
    first_between_nodes = 0 if placed.ranks_per_node == 1 else 1
    tier = placed.spans[first_between_nodes].tier
    sizing = capabilities_of(tier).sizing
    count = placed.ranks_per_node * tier.ports
    if sizing is not None:
        count = min(count, sizing.rails * sizing.nics_per_rail)
    return facts.nics or count, tier.bandwidth / 1e9


def _link_share(placed: PlacedGroup, facts: LibraryFacts) -> float:
    """The NVLinks of a GPU over those that its generation usually has: 8 of 18 of an H800."""
    usual_Bps = _NVLINK_BPS.get(facts.gpu or "")
    if usual_Bps is None or placed.ranks_per_node == 1:
        return 1.0
    tier = placed.fabric.tiers[0]
    return tier.bandwidth * tier.ports / usual_Bps


def _has_wide_slots(fabric: Fabric, facts: LibraryFacts) -> bool:
    """Whether GPUs reach their NICs at more than PCIe 5: those of B300, and those of Grace Blackwell,
    which have no slot between them (``slot_Bps`` is None)."""
    if facts.gpu != "blackwell":
        return False
    # what hosts are like is read from a table, which most prices do without
    from colltool.fabric.dumps.pci import usual_host

    slot_Bps = usual_host((fabric.device or "").upper()).slot_Bps
    return slot_Bps is None or slot_Bps > _PCIE_5_BPS


def _facts_of_group(facts: LibraryFacts, placed: PlacedGroup, present: int) -> LibraryFacts:
    """The facts with the ``nics`` and ``channels`` of the ``present`` ranks of each node that are in
    the group; ``channels`` is then one record or None.

    NCCL searches anew for the ranks of a communicator. Across nodes, a group with a part of each node
    has the same part of its stated NICs, and of graphs that are stated for more ranks than it has. On
    one node both are taken as they stand.
    """
    over_nodes = present < placed.ranks
    channels = facts.channels
    if isinstance(channels, tuple):
        gpus_of_node = _most_gpus(channels)
        channels = _smallest_with_room(channels, present, over_nodes=over_nodes)
        stated_for = gpus_of_node if channels is None else channels.gpus
    else:
        inner = placed.fabric.tiers[0]
        joins_gpus = capabilities_of(inner).joins == "accelerators"
        gpus_of_node = inner.endpoints if joins_gpus else present
        stated_for = gpus_of_node
    nics = facts.nics
    if over_nodes and channels is not None and present < stated_for:
        channels = _share_of(channels, present, stated_for)
    if over_nodes and nics is not None and present < gpus_of_node:
        nics = max(1, nics * present // gpus_of_node)
    return facts.model_copy(update={"nics": nics, "channels": channels})


def _most_gpus(channels: tuple[GroupChannels, ...]) -> int:
    """The GPUs of a node, which are those of the largest group that the file states graphs of."""
    return max(graphs.gpus for graphs in channels)


def _smallest_with_room(
    channels: tuple[GroupChannels, ...], present: int, *, over_nodes: bool
) -> GroupChannels | None:
    """The graphs of the smallest stated group that has room for ``present`` ranks on each node."""
    # its ``nodes`` are 1, or 2 for two or more
    fitting = [
        graphs for graphs in channels if graphs.gpus >= present and (graphs.nodes > 1) is over_nodes
    ]
    return min(fitting, key=attrgetter("gpus"), default=None)


def _share_of(channels: Channels, present: int, whole: int) -> Channels:
    """The channels of ``present`` of the ``whole`` ranks of a node: every count in proportion,
    rounded down, at least 1."""

    def part(count: int | None) -> int | None:
        return None if count is None else max(1, count * present // whole)

    fewer: dict[str, Any] = {"total": part(channels.total)}
    for algorithm in ("ring", "tree", "nvls", "collnet"):
        graph: LibraryGraph | None = getattr(channels, algorithm)
        if graph is not None:
            fewer[algorithm] = graph.model_copy(update={"channels": part(graph.channels)})
    return channels.model_copy(update=fewer)


def _stated_graphs(facts: LibraryFacts) -> LibraryChannels:
    """The graphs that the facts state; all None where they state none."""
    # _facts_of_group has chosen those of this group
    assert not isinstance(facts.channels, tuple)
    return facts.channels or LibraryChannels()


def check_switched(fabric: Fabric) -> None:
    """Refuse a fabric with a lattice, a full mesh or a routed tier: NCCL's model covers switched
    tiers alone."""
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        if kind.joined_by != "switches":
            what = "NCCL does not run" if kind.axes else "NCCL's own choice is not known"
            topology = kind.label.replace("_", " ")
            raise ColltoolError(
                f"{what} on {fabric.name}: '{tier.name}' is a {topology}",
                argument="fabric",
                fix="its model needs tiers that are a star or a Clos",
            )


def _check_nodes(placed: PlacedGroup, facts: LibraryFacts) -> None:
    """Refuse nodes that differ in size, and tiers without switches unless the file states the
    graphs of groups on them."""
    if placed.domains:
        raise ColltoolError(
            f"NCCL's own choice is not known between domains of {domains_text(placed.domains)}"
            " ranks",
            argument="fabric",
            fix=f"for nodes of one size it is: {even_domains(placed.fabric)}",
        )
    if not isinstance(facts.channels, tuple):
        check_switched(placed.fabric)


def _refuse_missing(
    fabric: Fabric,
    facts: LibraryFacts,
    constants_of_version: Constants,
    *,
    nodes: int,
    gpus: int,
    nics: int,
) -> None:
    """Refuse a group of which the model lacks a fact, and say how to state it; ``gpus`` and ``nics``
    are of each node."""
    missing = []
    keys_to_write = []
    if facts.gpu is None:
        missing.append("the GPU generation")
        keys_to_write.append("gpu: hopper")
    if facts.cpu is None and nodes > 1:
        missing.append("the hosts' CPU")
        keys_to_write.append("cpu: intel")
    underivable = _underivable_kind(facts, constants_of_version, nodes, gpus, nics)
    unstated_graphs = _unstated_graphs(facts) if underivable else []
    if unstated_graphs:
        graph = "{channels: 8, inside: 40GB/s, across: 40GB/s}"
        missing.append(f"the channels of {underivable}")
        graphs = ", ".join([f"{name}: {graph}" for name in unstated_graphs])
        keys_to_write.append(f"channels: {{{graphs}}}")
    if not missing:
        return
    stated_keys = []
    for key in ("name", "version", "gpu", "cpu", "link", "nics", "collnet", "nvls", "gpudirect"):
        value = getattr(facts, key)
        if value is not None:
            stated_keys.append(
                f'{key}: "{value}"' if key == "version" else f"{key}: {value}".lower()
            )
    fix = f"write library: {{{', '.join(stated_keys + keys_to_write)}}}"
    if unstated_graphs:
        fix += f" with your numbers; {_HOW_TO_PRINT_CHANNELS}"
    raise ColltoolError(
        f"NCCL's model needs {' and '.join(missing)}, which {fabric.name} does not give",
        where="library",
        fix=fix,
    )


def _unstated_graphs(facts: LibraryFacts) -> list[str]:
    """The keys of ``channels`` that the model needs and the file does not state. Empty where it
    states graphs of groups: those are all that NCCL's search found."""
    stated = _stated_graphs(facts)
    if isinstance(stated, GroupChannels):
        return []
    needed = ["ring", "tree"]
    if facts.nvls is not False and facts.gpu in FROM_HOPPER:
        needed.append("nvls")
    return [name for name in needed if getattr(stated, name) is None]


def _underivable_kind(
    facts: LibraryFacts, constants_of_version: Constants, nodes: int, gpus: int, nics: int
) -> str:
    """The kind of machine, in words, whose graphs no rule derives. Empty if they are derived, or if
    the GPU is not stated, which is reported by itself."""
    if facts.gpu is None:
        return ""
    if facts.gpu not in constants_of_version.search or facts.link == "pci":
        link = "PCIe" if facts.link == "pci" else "NVLink"
        return f"GPUs of {facts.gpu} joined by {link}"
    if nodes > 1 and nics != gpus:
        return f"a node of {gpus} GPUs with {nics} NICs"
    return ""


def _graph_of(graph: LibraryGraph | None, gpu: Gpu) -> Graph | None:
    """A stated graph as the model reads it, in GB/s and microseconds; None if none is stated. A rate
    left out between nodes is the one inside."""
    if graph is None:
        return None
    across_Bps = graph.inside if graph.across is None else graph.across
    latency_us = (graph.latency or 0.0) * 1e6
    as_stated = Graph(graph.channels, graph.inside / 1e9, across_Bps / 1e9, latency_us)
    if graph.types is None:
        return as_stated
    # as numbers: the farther a path, the later its type stands in KINDS
    between_gpus, to_nics = map(KINDS.index, graph.types)
    return replace(
        as_stated,
        link="nvlink" if between_gpus == NVL else "pci",
        runs_ll128=keeps_order(between_gpus, to_nics, from_hopper=gpu in FROM_HOPPER),
    )
