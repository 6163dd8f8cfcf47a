"""A fabric file from dumps of a node and of the network between nodes: :func:`fabric_file`.

What no dump has, latencies above all, is taken from the bundled fabric of the usual machine (the
stand-in). If the scale-up network is of the same kind, the file is ``like`` that fabric, with the
numbers of the dumps under ``set`` (``stand_in_overrides``); else the tiers are written out, each
number with its source (``written_tiers``).

A node is one host, or several that its links join, as in NVL72 (``node.hosts``); NCCL may make several
domains of a host (``node.search.domains``). The network joins nodes, or such domains: the endpoints of
the outermost tier (``DumpedMachine.size``).

``data`` or ``Data`` is the content of a fabric file as YAML would have it, texts with units; ``body`` its
keys behind schema and name. ``fabric_data(NAME)["tiers"]`` are those of a bundled fabric, innermost first.
A ``DeviceMatch`` (``base``) names the stand-in (``fabric``).
"""

from __future__ import annotations

import re
from dataclasses import replace

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.base.formatting import counted
from colltool.fabric.bundled_for import DeviceMatch, bundled_for
from colltool.fabric.dumps.assumed import assumed_of_network, assumed_of_node, few_links
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.node import InnerTier, NodeDump, inner_tiers, odd_links
from colltool.fabric.dumps.rates import INFINIBAND_FABRIC, Data, DumpedMachine, outer_tier
from colltool.fabric.dumps.sentences import sentence_of
from colltool.fabric.dumps.stand_in_overrides import library_of_search, overrides_of
from colltool.fabric.dumps.usual_machine import machine_like
from colltool.fabric.dumps.written_tiers import inner_tier, network_tier
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.media import DEVICES


def fabric_file(
    node: NodeDump | None,
    network: ClosNetwork | None,
    *,
    name: str,
    like: str | None = None,
    nodes: int | None = None,
    nic_Bps: float | None = None,
) -> tuple[Data, list[str]]:
    """Return the data of a fabric file in the order of its keys, and comment lines for its head.

    Args:
        node, network: what the dumps have; one of them at least.
        name: name of the fabric.
        like: the fabric whose numbers are taken where the dumps have none; default: the usual one
            with such accelerators.
        nodes: how many nodes there are, if only a node was dumped; default: 1.
        nic_Bps: the rate of each NIC, one way, instead of what the dumps say.

    Raises:
        ColltoolError: accelerators that no bundled fabric has and no ``like``; a ``like`` whose
            network is no Clos; node and network that do not fit together; ``nodes`` beside a
            network; several nodes, and nothing that tells what joins them.
    """
    if nodes is not None and network is not None:
        what = f"{network.file} tells how many there are: {network.hosts}"
        raise ColltoolError(
            what, argument="network_nodes", fix=f"leave out {argument_text('network_nodes')}"
        )
    if like is not None:
        _check_like(like, node, network)
    head: Data = {"schema": "colltool.fabric/2", "name": name}
    if node is not None:
        node = _without_hidden_links(node, like)
        dumps, body = _file_of_node(node, network, like, nodes or 1, nic_Bps)
    else:
        assert network is not None, "something was read"
        dumps, body = _file_of_network(network, like, nic_Bps)
    return head | body, _comments(node, dumps, body)


def _check_like(like: str, node: NodeDump | None, network: ClosNetwork | None) -> None:
    """Raise an error if the network of the named fabric is no Clos, whose sizes the dumps would
    change, or has no levels to take alphas from."""
    *inner, outermost = fabric_data(like)["tiers"]
    # a single tier is inside the node
    if node is not None and not inner:
        return
    is_clos = outermost["topology"] == "clos"
    if is_clos and (network is None or "levels" in outermost):
        return
    what = f"'{clipped(like)}' has no Clos of switches between nodes: its {outermost['name']}"
    if is_clos:
        what += " has no levels"
    else:
        what += f" is a {outermost['topology']}"
    raise ColltoolError(what, argument="like", fix="name a fabric with one, such as dgx-h100")


def _without_hidden_links(node: NodeDump, like: str | None) -> NodeDump:
    """The node, marked as one whose dump does not tell its links, where it lists none and the user
    names a fabric with links other than PCIe: virtual machines hide them."""
    if like is None or not node.has_links or node.pairs or any(node.to_switch):
        return node
    if len(node.accelerators) == 1 or fabric_data(like)["tiers"][0]["name"] == "pcie":
        return node
    return replace(node, no_links="lists no links")


def _file_of_network(
    network: ClosNetwork, like: str | None, nic_Bps: float | None
) -> tuple[DumpedMachine, Data]:
    """A file of the network alone: the dump with what the user stated, and the body of the file. An error
    if nothing tells the rate of a NIC."""
    dumps = DumpedMachine(None, network, network.hosts, nic_Bps=nic_Bps, like=like)
    if like is None and dumps.rate() is None:
        fix = f"state it, or name such a machine: {argument_text('nic', '200Gbps')}"
        raise ColltoolError("does not give the rate of a NIC", where=network.file, fix=fix)
    outer = outer_tier(like or INFINIBAND_FABRIC)
    description = counted(network.hosts, "host")
    if network.ports is not None:
        description += f" with {counted(network.ports, 'port')} each"
    return dumps, {
        "description": description,
        "assumed": assumed_of_network(dumps, outer),
        "tiers": [network_tier(dumps, outer)],
    }


def _file_of_node(
    node: NodeDump, network: ClosNetwork | None, like: str | None, nodes: int, nic_Bps: float | None
) -> tuple[DumpedMachine, Data]:
    """A file of a node, in its network if there is one: the dumps with what the user stated, and the
    body of the file. ``nodes``: how many there are, unless the network tells."""
    # what is wrong with the node is reported before what is wrong with the network
    base = machine_like(node, network, like)
    if network is not None:
        nodes = _nodes_joined(node, network)
    domains = nodes
    if node.search is not None:
        domains *= node.search.domains
    device = node.model or (load_fabric(base.fabric).device or "").upper()
    dumps = DumpedMachine(node, network, domains, device, nic_Bps, like)
    _check_network(node, dumps, base)
    body = _node_body(node, dumps, base, like)
    description = _description(node, nodes * node.hosts)
    assumed = assumed_of_node(node, dumps, base, body)
    return dumps, {"description": description, "assumed": assumed, **body}


def _nodes_joined(node: NodeDump, network: ClosNetwork) -> int:
    """The number of such nodes that the network joins; a node may be several hosts, as NVL72."""
    if network.hosts % node.hosts:
        what = f"{network.hosts} hosts are no whole domains of the {node.hosts} of {node.file}"
        raise ColltoolError(what, where=network.file, fix="give the dump of one host")
    return network.hosts // node.hosts


def _check_network(node: NodeDump, dumps: DumpedMachine, base: DeviceMatch) -> None:
    """Raise an error if several nodes are asked for, and nothing tells what joins them."""
    if dumps.size == 1 or dumps.has_network or len(fabric_data(base.fabric)["tiers"]) > 1:
        return
    what = "has no NIC of a network"
    if node.nics:
        what = "does not give the rate of its NICs"
    raise ColltoolError(
        f"{what}, so that nothing tells what joins {dumps.size} nodes",
        where=node.file,
        fix=f"state the rate of a NIC: {argument_text('nic', '100Gbps')}",
    )


def _node_body(node: NodeDump, dumps: DumpedMachine, base: DeviceMatch, like: str | None) -> Data:
    """The body of a file with a node, but for its description and what is assumed: like the stand-in if
    links of the same kind join all its accelerators, else with its tiers written out."""
    data = fabric_data(base.fabric)
    usual = data["tiers"][0]
    inner = inner_tiers(node)
    # a dump that does not tell them leaves the stand-in's
    if not node.has_links:
        inner = (InnerTier(usual["name"], usual["topology"], len(node.accelerators), links=0),)
    innermost = inner[0]
    is_usual_kind = (innermost.link, innermost.topology) == (usual["name"], usual["topology"])
    # edges are the machine's own: no graph is like another
    is_like = len(inner) == 1 and is_usual_kind and not innermost.edges
    if is_like:
        body = _other_device(node, data, like)
        body["like"] = base.fabric
        body["set"] = overrides_of(node, innermost, dumps, base)
        has_outer_tier = len(data["tiers"]) > 1
        if dumps.has_network and not has_outer_tier:
            body["tiers"] = [network_tier(dumps, dumps.outer())]
        return body

    body = {}
    device = _device(node.model)
    if device in DEVICES:
        body["device"] = device
    body["tiers"] = [inner_tier(node, tier, base.fabric) for tier in inner]
    if dumps.has_network:
        body["tiers"].append(network_tier(dumps, dumps.outer()))
    if "launch_overhead" in data:
        body["launch_overhead"] = data["launch_overhead"]
        body["source"] = {"launch_overhead": f"not told; of {base.fabric}"}
    if node.search is not None:
        body["library"] = {"name": "nccl", **library_of_search(node, node.search)}
    return body


def _other_device(node: NodeDump, data: Data, like: str | None) -> Data:
    """The key ``device`` if the stand-in (``data``) has another one; null if the file format has none of
    that name. Empty if it is the same, or the node's model is not known for sure: a virtual machine's, or
    one that no bundled fabric has, with the user's ``like`` in its place."""
    if not node.has_links or (like is not None and bundled_for(node.model) is None):
        return {}
    device = _device(node.model)
    if device and str(data.get("device")).startswith(device):
        return {}
    if device not in DEVICES:
        device = None
    return {"device": device}


def _device(model: str) -> str | None:
    """A model as fabric files would name it: ``h100`` of ``NVIDIA H100 PCIe``; None if it has no part
    such as H100 or MI300X."""
    name = re.search(r"\b[A-Z]{1,2}\d{2,3}[A-Z]?\b", model)
    return name[0].lower() if name else None


def _description(node: NodeDump, hosts: int) -> str:
    """``4 nodes of 8 NVIDIA H100``; ``hosts``: of all nodes together."""
    accelerators_each = len(node.accelerators) // node.hosts
    accelerators = counted(accelerators_each, "accelerator")
    if node.model:
        accelerators = f"{accelerators_each} {node.model}"
    return f"{counted(hosts, 'node')} of {accelerators}"


def _comments(node: NodeDump | None, dumps: DumpedMachine, body: Data) -> list[str]:
    """Lines for the head of the file: which dumps it was made from, what they lack, what is odd."""
    network = dumps.network
    # a dict keeps one of equal texts: one file may hold both node and network
    files = dict.fromkeys(f"{dump.file} ({dump.tool})" for dump in (node, network) if dump)
    lines = [f"Read from {' and '.join(files)} by colltool fabric import."]
    if "like" in body:
        lines.append(
            "What the files say is under set. The rest, alpha and eta above all, is that of"
            f" {body['like']}."
        )
    else:
        lines.append(
            "What the files do not say, alpha and eta above all, is marked as not told: colltool"
            " guide measurements shows how to measure it."
        )
    if network is None:
        lines.append(
            "The files do not say the levels of switches: add an ibnetdiscover file to the import,"
            " or write them by hand."
        )
    if node is not None:
        notes = [*node.notes, *odd_links(node), *few_links(node)]
        if node.nics and not dumps.has_network:
            notes.append(sentence_of("network-left-out", option=argument_text("nic", "100Gbps")))
        lines += [f"Note: {note}" for note in notes]
    if network is not None:
        lines += [f"Left out: {note}" for note in network.notes]
    return lines
