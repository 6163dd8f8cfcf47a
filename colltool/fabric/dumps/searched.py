"""What NCCL's topology search finds on a node of a topology file, for its fabric file:
:func:`search_node`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from colltool.base.errors import ColltoolError, clipped
from colltool.base.formatting import counted
from colltool.base.xml_tree import Element
from colltool.fabric.dumps import pci
from colltool.fabric.dumps.node import NVLINK_5_BPS, NVLINK_BPS, NodeSearch
from colltool.fabric.dumps.sentences import said
from colltool.libraries.nccl.topology.binding import binding_of, carried_MBps
from colltool.libraries.nccl.topology.changes import MAX_VISITS
from colltool.libraries.nccl.topology.connect import Communicator, Joined, communicator_of
from colltool.libraries.nccl.topology.graphs import NodeGraphs, graphs_of_xml
from colltool.libraries.nccl.topology.kinds import KINDS, NVL, PXN
from colltool.libraries.nccl.topology.rates import TRANSFERS_COUNTED, number, nvlink_MBps
from colltool.libraries.nccl.topology.to_hardware import cpu_of, generation
from colltool.libraries.nccl.topology.versions import RELEASE, version_of

# What a slot carries of the rate that NCCL counts for it: of GPUs all that it transfers, of NICs 50 GB/s
# in one that is counted with 48.
_GPU_IN_SLOT = 1 / TRANSFERS_COUNTED
_NIC_IN_SLOT = 50 / 48
_GRAPHS = {"ring": "ring", "tree": "tree", "nvls": "nvls", "collnet": "collnet_chain"}
_BLACKWELL_SM = 100
# A search of a whole rack takes minutes, and NCCL's own graphs of one were never compared.
_MOST_GPUS = 16


def search_node(root: Element, name: str, model: str) -> NodeSearch | None:
    """Search the channels of a file's GPUs of a model, one rank of each, and of fewer of them; None of a
    file that NCCL completes when it runs, of racks, and of accelerators that are not NVIDIA's.

    Raises:
        ColltoolError: as :func:`colltool.libraries.nccl.topology.graphs.graphs_of`; GPUs that NCCL
            makes nodes of different size of.
    """
    ranks = _ranks(root)
    if not 0 < len(ranks) <= _MOST_GPUS or next(root.each("xgmi"), None):
        return None

    def search(kept: Sequence[int], nodes: int) -> NodeGraphs:
        return graphs_of_xml(root, name, nodes, version_of(RELEASE), collnet=collnet, ranks=kept)

    assumed = _complete_slots(root, model)
    collnet = any(net.get("coll") == "1" for net in root.each("net"))
    # All GPUs of the host. Where a NIC is nearer to a GPU than other GPUs are, NCCL makes several nodes
    # (domains) of them, which the network joins: these graphs are then those across nodes.
    of_host = search(ranks, 1)
    ranks_of_node = sorted(of_host.first.ranks)
    domains = len(of_host.domains)
    for domain in of_host.domains:
        if len(domain.ranks) != len(ranks_of_node):
            raise _uneven(of_host, name)
    inside = of_host
    across = None
    if domains > 1:
        inside = search(ranks_of_node, 1)
        across = of_host
    elif of_host.system.nets:
        across = search(ranks, 2)
    visits = sum(domain.visits for domain in (across or of_host).domains)
    groups = []
    if domains == 1 and visits < MAX_VISITS:
        groups = list(_of_fewer(search, ranks_of_node, across is not None))
    groups.append(_group(len(ranks_of_node), 1, communicator_of(inside)))
    if across is not None:
        groups.append(_group(len(ranks_of_node), 2, communicator_of(across), across))
    return _found(inside, across, groups)._replace(assumed=tuple(assumed))


def _found(
    inside: NodeGraphs, across: NodeGraphs | None, groups: list[dict[str, Any]]
) -> NodeSearch:
    """What is read from the graphs of a node, and of several."""
    system = inside.system
    counted_MBps = nvlink_MBps(system.least_sm, system.version)
    link_Bps = NVLINK_BPS
    if system.least_sm >= _BLACKWELL_SM:
        link_Bps = NVLINK_5_BPS
    of_nvlink = link_Bps / 1e6 / counted_MBps
    notes = []
    inside_Bps = None
    if len(system.gpus) > 1:
        inside_Bps = _carried_Bps(inside, of_nvlink, _GPU_IN_SLOT)
        notes.append(_note("rings-inside", inside))
    across_Bps = None
    used: set[int] = set()
    domains = 1
    gpudirect = True
    if across is not None:
        domains = len(across.domains)
        used = set(_used(across))
        # what NVLinks carry is another tier's
        across_Bps = _carried_Bps(across, inf, _NIC_IN_SLOT)
        notes.append(_note("rings-across", across))
        gpudirect = across.first.graphs["ring"].across <= PXN
        if domains > 1:
            notes.append(said("domains", count=domains, gpus=len(across.first.ranks)))
    return NodeSearch(
        release=RELEASE,
        gpu=generation(system.least_sm),
        cpu=cpu_of(system),
        link="nvlink" if inside.first.graphs["ring"].inside == NVL else "pci",
        ranks=tuple(sorted(inside.first.ranks)),
        domains=domains,
        groups=tuple(groups),
        nics=frozenset(used),
        inside_Bps=inside_Bps,
        across_Bps=across_Bps,
        gpudirect=gpudirect,
        notes=tuple(notes),
    )


def _complete_slots(system: Element, model: str) -> list[str]:
    """Give slots without ``link_speed``, which NCCL looks up where the job runs, the usual one of the
    accelerators; what was assumed."""
    unknown = [slot for slot in system.each("pci") if "link_speed" not in slot.attributes]
    usual_Bps = pci.usual_host(model).slot_Bps
    if not unknown or usual_Bps is None:
        return []
    for slot in unknown:
        slot.attributes["link_speed"] = f"{pci.lane_GTps(usual_Bps):.1f} GT/s PCIe"
    return [said("usual-slot", rate=f"{usual_Bps / 1e9:g}GB/s", model=model)]


def _ranks(root: Element) -> list[int]:
    """One rank of each GPU; none of files that were put together of several communicators."""
    found: dict[int, int] = {}
    for gpu in root.each("gpu"):
        if gpu.get("rank") and not gpu.get("gcn"):
            found.setdefault(id(gpu.parent), number(gpu.get("rank")))
    ranks = sorted(found.values())
    return ranks if len(set(ranks)) == len(ranks) else []


def _uneven(of_host: NodeGraphs, name: str) -> ColltoolError:
    sizes = " and ".join(str(len(domain.ranks)) for domain in of_host.domains)
    ranks = ",".join(map(str, sorted(of_host.first.ranks)))
    return ColltoolError(
        f"NCCL makes nodes of {sizes} GPUs of it, which the network alone joins; those of a fabric file"
        " have one size",
        where=name,
        fix=f"dump a job on the GPUs of one: CUDA_VISIBLE_DEVICES={clipped(ranks)}",
    )


def _of_fewer(
    search: Callable[[Sequence[int], int], NodeGraphs], ranks: Sequence[int], has_network: bool
) -> Iterator[dict[str, Any]]:
    """The graphs of the first 1, 2, 4 ... of a node's ranks."""
    count = 1
    while count < len(ranks):
        kept = ranks[:count]
        inside = search(kept, 1)
        # several domains are joined by the network alone: no node of so many
        if len(inside.domains) == 1:
            if count > 1:
                yield _group(count, 1, communicator_of(inside))
            if has_network:
                across = search(kept, 2)
                yield _group(count, 2, communicator_of(across), across)
        count *= 2


def _group(
    gpus: int, nodes: int, communicator: Communicator, across: NodeGraphs | None = None
) -> dict[str, Any]:
    """The graphs of a communicator as ``library.channels`` of a fabric file has them."""
    made: dict[str, Any] = {"gpus": gpus, "nodes": nodes}
    graphs = communicator.graphs
    if across is not None:
        # a group takes CollNet's graphs only if it is enabled
        graphs = communicator_of(across, collnet=True).graphs | graphs
    for key, name in _GRAPHS.items():
        if name in graphs:
            made[key] = _graph(graphs[name], key)
    return {**made, "total": communicator.channels}


def _graph(joined: Joined, key: str) -> Mapping[str, Any]:
    made: dict[str, Any] = {"channels": joined.channels, "inside": _rate(joined.inside_MBps)}
    if joined.across_MBps != joined.inside_MBps:
        made["across"] = _rate(joined.across_MBps)
    made["type"] = f"{KINDS[joined.inside]}/{KINDS[joined.across]}"
    if key == "tree":
        made["pattern"] = joined.pattern
    if key == "ring":
        made["same"] = joined.same
    if joined.latency_us:
        made["latency"] = f"{joined.latency_us:.10g}us"
    return made


def _rate(MBps: float) -> str:
    return f"{MBps / 1000:.10g}GB/s"


def _carried_Bps(node: NodeGraphs, of_nvlink: float, of_slot: float) -> float:
    """What the rings of a node carry, of the least of its domains.

    Args:
        of_nvlink, of_slot: what such a part carries of the rate that NCCL counts for it.
    """
    shares = {"nvlink": of_nvlink, "c2c": 1.0, "port": 1.0}
    carried = []
    for domain in node.domains:
        ring = domain.graphs["ring"]
        carried.append(carried_MBps(domain, ring, lambda part: shares.get(part, of_slot)))
    return round(min(carried), 3) * 1e6


def _used(node: NodeGraphs) -> Iterator[int]:
    """The ids of the elements of the NICs that channels use."""
    domain = node.first
    for result in domain.graphs.values():
        for channel in result.best.channels:
            for place in channel.nets:
                yield id(domain.paths.system.nets[place].element)


def _note(code: str, node: NodeGraphs) -> str:
    """How many rings there are, and what binds them."""
    result = node.first.graphs["ring"]
    channels = counted(result.best.channel_count, "ring channel")
    binding = binding_of(node.first, result)
    text = said(code, release=RELEASE, channels=channels, rate=_rate(result.inside_MBps))
    if binding is None:
        return text
    return f"{text}; what binds: {binding.text}"
