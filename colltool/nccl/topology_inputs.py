"""From a group on a fabric to the hardware that NCCL's model prices; errors name missing facts and how to state them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from colltool.algorithms.libraries import FROM_HOPPER
from colltool.base.errors import ColltoolError
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.fabric.library import LibraryChannels, LibraryFacts, LibraryGraph
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.nccl.hardware import Constants, GpuNodes, Graph, Hardware, constants
from colltool.nccl.rules import rules_of

_MOST_GPUS = 8  # of a node whose channels are derived; NVL72 is not
_PRINTED = "NCCL prints them: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH"


class _Node(NamedTuple):
    nodes: int
    ranks: int
    nics: int
    nic_GBps: float


def hardware_on(fabric: Fabric, group: AnyGroup = None) -> Hardware:
    """The hardware of a group (default: the whole fabric).

    Raises:
        ColltoolError: the group does not fit, or as :func:`hardware_of`.
    """
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
    fabric = placed.fabric
    check_switched(fabric)
    facts = _of_members(fabric.library_facts or LibraryFacts(name="nccl"), placed)
    numbers, node = constants(facts.version or ""), _node(placed, facts)
    _refuse_missing(fabric, facts, node, numbers)
    assert facts.gpu is not None  # not missing
    across, alone = node.nodes > 1, node.ranks == 1
    given, machine = facts.channels or LibraryChannels(), GpuNodes(facts.gpu, node.nodes, node.ranks, node.nic_GBps)
    rules = rules_of(numbers)
    ring = _given(given.ring) or rules.ring_graph(numbers, machine)
    nvls = collnet = None
    if _has_nvls(placed, facts) and machine.from_hopper:
        nvls = _given(given.nvls) or rules.nvls_graph(numbers, machine)
    if facts.collnet and across:
        known = machine.gpu in numbers.search
        collnet = _given(given.collnet) or (rules.collnet_graph(numbers, machine) if known else ring)
    return Hardware(
        version=numbers.version,
        gpu=facts.gpu,
        cpu=facts.cpu or "intel",  # on one node nothing asks for it
        nodes=node.nodes,
        ranks_per_node=node.ranks,
        nics=node.nics,
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


def _of_members(facts: LibraryFacts, placed: PlacedGroup) -> LibraryFacts:
    """Scale a node's NICs and channels to the ranks of it that are in the group.

    NCCL searches anew for the ranks of a communicator, but channels given by the user are for whole nodes.
    """
    whole, own = placed.fabric.tiers[0].endpoints, placed.ranks_per_node
    if placed.nodes == 1 or capabilities_of(placed.fabric.tiers[0]).joins != "accelerators" or own == whole:
        return facts

    def part(count: int | None) -> int | None:
        return None if count is None else max(1, count * own // whole)

    return facts.model_copy(update={"nics": part(facts.nics), "channels": facts.channels and _fewer(facts.channels, part)})


def _fewer(given: LibraryChannels, part: Callable[[int | None], int | None]) -> LibraryChannels:
    graphs = {name: getattr(given, name) for name in ("ring", "tree", "nvls", "collnet")}
    fewer = {
        name: graph.model_copy(update={"channels": part(graph.channels)}) for name, graph in graphs.items() if graph is not None
    }
    return given.model_copy(update=fewer | {"total": part(given.total)})


def check_switched(fabric: Fabric) -> None:
    """NCCL's model only covers switched fabrics.

    Raises:
        ColltoolError: a tier is a lattice or a full mesh.
    """
    for tier in fabric.tiers:
        if capabilities_of(tier).joined_by != "switches":
            where = f"on {fabric.name}: '{tier.name}' is a {tier.topology.replace('_', ' ')}"
            what = "NCCL does not run" if capabilities_of(tier).axes else "NCCL's own choice is not known"
            raise ColltoolError(f"{what} {where}", argument="fabric", fix="its model needs tiers that are a star or a Clos")


def _can_nvls(tier: Tier) -> bool:
    kind = capabilities_of(tier)
    return kind.joins == "accelerators" and {"reduce", "multicast"} <= kind.operations


def _node(placed: PlacedGroup, facts: LibraryFacts) -> _Node:
    ranks = placed.ranks_per_node
    nodes = placed.ranks // ranks
    if nodes == 1:
        return _Node(1, ranks, 0, 0.0)
    tier = placed.spans[1 if ranks > 1 else 0].tier
    sizing, most = capabilities_of(tier).sizing, ranks * tier.ports
    nics = min(most, sizing.rails * sizing.nics_per_rail) if sizing else most
    return _Node(nodes, ranks, facts.nics or nics, tier.bandwidth / 1e9)


def _has_nvls(placed: PlacedGroup, facts: LibraryFacts) -> bool:
    return facts.nvls is not False and placed.ranks_per_node > 1 and _can_nvls(placed.spans[0].tier)


def _refuse_missing(fabric: Fabric, facts: LibraryFacts, node: _Node, numbers: Constants) -> None:
    missing = []
    if facts.gpu is None:
        missing.append(("the GPU generation", "gpu: hopper"))
    if facts.cpu is None and node.nodes > 1:
        missing.append(("the hosts' CPU", "cpu: intel"))
    if facts.gpu is not None and (why := _not_derived(facts, node, numbers)):
        absent = [name for name in ("ring", "tree", "nvls") if _wanted(facts, name)]
        if absent:
            graphs = ", ".join(f"{name}: {{channels: 8, inside: 40GB/s, across: 40GB/s}}" for name in absent)
            missing.append((f"the channels of {why}", f"channels: {{{graphs}}}"))
    if not missing:
        return
    what = f"NCCL's model needs {' and '.join(name for name, _ in missing)}, which {fabric.name} does not give"
    told = [f"{key}: {value}" for key, value in _told(facts)]
    fix = f"write library: {{{', '.join([*told, *(key for _, key in missing)])}}}"
    channels = any(key.startswith("channels") for _, key in missing)
    raise ColltoolError(what, where="library", fix=f"{fix} with your numbers; {_PRINTED}" if channels else fix)


def _told(facts: LibraryFacts) -> Iterator[tuple[str, Any]]:
    for key in ("name", "version", "gpu", "cpu", "link", "nics", "collnet", "nvls"):
        if (value := getattr(facts, key)) is not None:
            yield key, f'"{value}"' if key == "version" else str(value).lower()


def _wanted(facts: LibraryFacts, name: str) -> bool:
    if name == "nvls" and (facts.nvls is False or facts.gpu not in FROM_HOPPER):
        return False
    return getattr(facts.channels or LibraryChannels(), name) is None


def _not_derived(facts: LibraryFacts, node: _Node, numbers: Constants) -> str:
    """The kind of machine whose channels cannot be derived; empty if they can."""
    search = numbers.search.get(facts.gpu) if facts.gpu else None
    if search is None or facts.link == "pci":
        return f"GPUs of {facts.gpu} joined by {'PCIe' if facts.link == 'pci' else 'NVLink'}"
    if node.ranks > _MOST_GPUS:
        return f"a node of {node.ranks} GPUs"
    if node.nodes > 1 and node.nics != node.ranks:
        return f"a node of {node.ranks} GPUs with {node.nics} NICs"
    if facts.gpu == "blackwell" and node.nic_GBps > 50:
        return "NICs of more than 400 Gbps"
    return ""


def _given(graph: LibraryGraph | None) -> Graph | None:
    if graph is None:
        return None
    across = graph.inside if graph.across is None else graph.across
    return Graph(graph.channels, graph.inside / 1e9, across / 1e9)
