"""From a group on a fabric to the hardware that NCCL's model prices; errors name missing facts and how to state them."""

from __future__ import annotations

from functools import lru_cache

from colltool.base.errors import ColltoolError
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.fabric.library import LibraryChannels, LibraryFacts, LibraryGraph
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.nccl.hardware import Constants, GpuNodes, Graph, Hardware, constants
from colltool.nccl.rules import rules_of

_MOST_GPUS = 8  # of a node whose channels are derived; NVL72 is not
_PRINTED = "NCCL prints them: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH"


def hardware_on(fabric: Fabric, group: AnyGroup = None) -> Hardware:
    """The hardware of a group (default: the whole fabric); a ColltoolError if it does not fit, or as :func:`hardware_of`."""
    found = _found_on(fabric, group)
    if isinstance(found, ColltoolError):
        raise ColltoolError(found.what, where=found.where, argument=found.argument, fix=found.fix)
    return found


@lru_cache(maxsize=256)
def _found_on(fabric: Fabric, group: AnyGroup) -> Hardware | ColltoolError:
    """Caches errors too: every price on a fabric that lacks a fact asks again."""
    try:
        return hardware_of(place(fabric, group))
    except ColltoolError as error:
        return error


def hardware_of(placed: PlacedGroup) -> Hardware:
    """The hardware of a group.

    Nodes are NVLink domains: those of the innermost tier if it joins accelerators, else each rank is one. A node has the NICs
    that ``sizing`` counts, at most ``ports`` per rank of the group; each has the bandwidth of the next tier.

    Raises:
        ColltoolError: NCCL does not run on the fabric, there is no data for its version, or facts are missing.
    """
    fabric, ranks = placed.fabric, placed.ranks_per_node
    check_switched(fabric)
    facts = _of_members(fabric.library_facts or LibraryFacts(name="nccl"), placed)
    numbers, nodes = constants(facts.version or ""), placed.ranks // ranks
    across, alone = nodes > 1, ranks == 1
    nics, nic_GBps = _nics(placed, facts) if across else (0, 0.0)
    _refuse_missing(fabric, facts, numbers, nics, GpuNodes(facts.gpu or "volta", nodes, ranks, nic_GBps))
    assert facts.gpu is not None  # not missing
    given, machine = facts.channels or LibraryChannels(), GpuNodes(facts.gpu, nodes, ranks, nic_GBps)
    rules = rules_of(numbers)
    ring = _given(given.ring) or rules.ring_graph(numbers, machine)
    nvls = collnet = None
    inside = capabilities_of(placed.spans[0].tier)
    multicast = inside.joins == "accelerators" and {"reduce", "multicast"} <= inside.operations
    if facts.nvls is not False and not alone and multicast and machine.from_hopper:
        nvls = _given(given.nvls) or rules.nvls_graph(numbers, machine)
    if facts.collnet and across:
        known = machine.gpu in numbers.search
        collnet = _given(given.collnet) or (rules.collnet_graph(numbers, machine) if known else ring)
    return Hardware(
        version=numbers.version,
        gpu=facts.gpu,
        cpu=facts.cpu or "intel",  # on one node nothing asks for it
        nodes=nodes,
        ranks_per_node=ranks,
        nics=nics,
        link=facts.link or "nvlink",
        nvswitch=not alone and facts.link != "pci",
        nvls=nvls is not None,
        collnet=bool(facts.collnet),
        ring=ring,
        tree=_given(given.tree) or rules.tree_graph(numbers, machine),
        nvls_graph=nvls,
        collnet_graph=collnet,
        channels=given.total or rules.communicator_channels(numbers, machine, ring),
        simple_tree=across and (alone or machine.from_hopper),
        same_channels=alone or not across,
    )


def _nics(placed: PlacedGroup, facts: LibraryFacts) -> tuple[int, float]:
    """Of a node, and the rate of each in GB/s."""
    tier = placed.spans[0 if placed.ranks_per_node == 1 else 1].tier
    sizing, most = capabilities_of(tier).sizing, placed.ranks_per_node * tier.ports
    return facts.nics or (min(most, sizing.rails * sizing.nics_per_rail) if sizing else most), tier.bandwidth / 1e9


def _of_members(facts: LibraryFacts, placed: PlacedGroup) -> LibraryFacts:
    """Scale a node's NICs and channels to the ranks of it that are in the group.

    NCCL searches anew for the ranks of a communicator, but channels given by the user are for whole nodes.
    """
    whole, own = placed.fabric.tiers[0].endpoints, placed.ranks_per_node
    if placed.nodes == 1 or capabilities_of(placed.fabric.tiers[0]).joins != "accelerators" or own == whole:
        return facts

    def part(count: int | None) -> int | None:
        return None if count is None else max(1, count * own // whole)

    channels = facts.channels
    if channels is not None:
        graphs = {name: getattr(channels, name) for name in ("ring", "tree", "nvls", "collnet")}
        fewer = {name: one and one.model_copy(update={"channels": part(one.channels)}) for name, one in graphs.items()}
        channels = channels.model_copy(update=fewer | {"total": part(channels.total)})
    return facts.model_copy(update={"nics": part(facts.nics), "channels": channels})


def check_switched(fabric: Fabric) -> None:
    """NCCL's model only covers switched fabrics: a ColltoolError if a tier is a lattice or a full mesh."""
    for tier in fabric.tiers:
        if capabilities_of(tier).joined_by != "switches":
            where = f"on {fabric.name}: '{tier.name}' is a {tier.topology.replace('_', ' ')}"
            what = "NCCL does not run" if capabilities_of(tier).axes else "NCCL's own choice is not known"
            raise ColltoolError(f"{what} {where}", argument="fabric", fix="its model needs tiers that are a star or a Clos")


def _refuse_missing(fabric: Fabric, facts: LibraryFacts, numbers: Constants, nics: int, machine: GpuNodes) -> None:
    missing, channels = [], ""
    if facts.gpu is None:
        missing.append(("the GPU generation", "gpu: hopper"))
    if facts.cpu is None and machine.nodes > 1:
        missing.append(("the hosts' CPU", "cpu: intel"))
    if facts.gpu is not None and (why := _not_derived(facts, numbers, nics, machine)):
        wanted = ["ring", "tree", *(["nvls"] if facts.nvls is not False and machine.from_hopper else [])]
        absent = [name for name in wanted if getattr(facts.channels or LibraryChannels(), name) is None]
        channels = ", ".join(f"{name}: {{channels: 8, inside: 40GB/s, across: 40GB/s}}" for name in absent)
        if absent:
            missing.append((f"the channels of {why}", f"channels: {{{channels}}}"))
    if not missing:
        return
    keys = ("name", "version", "gpu", "cpu", "link", "nics", "collnet", "nvls")
    given = {key: value for key in keys if (value := getattr(facts, key)) is not None}
    told = [f'{key}: "{value}"' if key == "version" else f"{key}: {str(value).lower()}" for key, value in given.items()]
    what = f"NCCL's model needs {' and '.join(name for name, _ in missing)}, which {fabric.name} does not give"
    fix = f"write library: {{{', '.join([*told, *(key for _, key in missing)])}}}"
    raise ColltoolError(what, where="library", fix=f"{fix} with your numbers; {_PRINTED}" if channels else fix)


def _not_derived(facts: LibraryFacts, numbers: Constants, nics: int, machine: GpuNodes) -> str:
    """The kind of machine whose channels cannot be derived; empty if they can."""
    if facts.gpu not in numbers.search or facts.link == "pci":
        return f"GPUs of {facts.gpu} joined by {'PCIe' if facts.link == 'pci' else 'NVLink'}"
    if machine.gpus > _MOST_GPUS:
        return f"a node of {machine.gpus} GPUs"
    if machine.nodes > 1 and nics != machine.gpus:
        return f"a node of {machine.gpus} GPUs with {nics} NICs"
    return "NICs of more than 400 Gbps" if facts.gpu == "blackwell" and machine.nic_GBps > 50 else ""


def _given(graph: LibraryGraph | None) -> Graph | None:
    if graph is None:
        return None
    across = graph.inside if graph.across is None else graph.across
    return Graph(graph.channels, graph.inside / 1e9, across / 1e9)
