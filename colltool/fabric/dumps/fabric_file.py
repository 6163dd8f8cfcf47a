"""A fabric file from dumps of a node and of the network between nodes: :func:`fabric_file`.

What no dump has, latencies above all, is taken from the bundled fabric of the usual machine (the
stand-in). If the scale-up network is of the same kind, the file is ``like`` that fabric, with the
numbers of the dumps under ``set`` (``_like``); else the tiers are written out, each with its source
(``_inner_tier``, ``_network_tier``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.base.formatting import counted, parse_rate, parse_time
from colltool.fabric.bundled_for import DeviceMatch, bundled_for
from colltool.fabric.dumps.assumed import assumed_of_network, assumed_of_node, few_links
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.link_rates import link_rate
from colltool.fabric.dumps.node import InnerTier, NodeDump, NodeSearch, inner_tiers, odd_links
from colltool.fabric.dumps.rates import (
    INFINIBAND_FABRIC,
    OTHER_MEDIA,
    Data,
    DumpedMachine,
    StandIn,
    outer_tier,
)
from colltool.fabric.dumps.sentences import said
from colltool.fabric.dumps.usual_machine import PCIE, machine_like
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.media import DEVICES, medium_of
from colltool.fabric.tier_line import uplink_ratio
from colltool.network.sizing.size_clos import level_names

# what holds of a key of ``library`` that is not there
_USUAL = {"link": "nvlink"}
# The latency that a further level adds. Source: the shipped dgx-h100.
_SPINE_S = 6e-6


def fabric_file(
    node: NodeDump | None,
    network: ClosNetwork | None,
    *,
    name: str,
    like: str | None = None,
    nodes: int | None = None,
    nic_Bps: float | None = None,
) -> tuple[Data, list[str]]:
    """Return the data of a fabric file, and lines for its head.

    Args:
        node, network: what the dumps have; one of them at least.
        name: name of the fabric.
        like: the fabric whose numbers are taken where the dumps have none; default: the usual one
            with such accelerators.
        nodes: nodes of the network if only a node was dumped; default: 1.
        nic_Bps: the rate of each NIC, one way, instead of what the dumps say.

    Raises:
        ColltoolError: accelerators that no bundled fabric has and no ``like``; node and network
            that do not fit together; several nodes, and nothing that tells what joins them.
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
        dumps, body = _of_node(node, network, like, nodes or 1, nic_Bps)
    else:
        assert network is not None, "something was read"
        dumps, body = _of_network(network, like, nic_Bps)
    return head | body, _comments(node, dumps, body)


def _of_network(
    network: ClosNetwork, like: str | None, nic_Bps: float | None
) -> tuple[DumpedMachine, Data]:
    """A file of the network alone: the dump with what the user stated, and the keys of the file."""
    dumps = DumpedMachine(None, network, network.hosts, nic_Bps=nic_Bps, like=like)
    if like is None and dumps.rate() is None:
        fix = f"state it, or name such a machine: {argument_text('nic', '200Gbps')}"
        raise ColltoolError("does not give the rate of a NIC", where=network.file, fix=fix)
    outer = outer_tier(like or INFINIBAND_FABRIC)
    tiers = [_network_tier(dumps, outer)]
    description = counted(network.hosts, "host")
    if network.ports is not None:
        description += f" with {counted(network.ports, 'port')} each"
    assumed = assumed_of_network(dumps, outer)
    return dumps, {"description": description, "assumed": assumed, "tiers": tiers}


def _of_node(
    node: NodeDump, network: ClosNetwork | None, like: str | None, nodes: int, nic_Bps: float | None
) -> tuple[DumpedMachine, Data]:
    """A file of a node, in its network if there is one: the dumps with what the user stated, and the
    keys of the file."""
    # what is wrong with the node is reported before what is wrong with the network
    base = machine_like(node, network, like)
    if network is not None:
        nodes = _domains(node, network)
    size = nodes
    if node.search is not None:
        size *= node.search.domains
    device = node.model or (load_fabric(base.fabric).device or "").upper()
    dumps = DumpedMachine(node, network, size, device, nic_Bps, like)
    _check_network(node, dumps, base)
    body = _with_node(node, dumps, base, like)
    description = _description(node, nodes * node.hosts)
    assumed = assumed_of_node(node, dumps, base, body)
    return dumps, {"description": description, "assumed": assumed, **body}


def _check_like(like: str, node: NodeDump | None, network: ClosNetwork | None) -> None:
    """Raise an error if the network of the named fabric is no Clos, whose sizes the dumps would
    change."""
    *inner, outer = fabric_data(like)["tiers"]
    if node is not None and not inner:
        return
    is_clos = outer["topology"] == "clos"
    if is_clos and (network is None or "levels" in outer):
        return
    what = f"'{clipped(like)}' has no Clos of switches between nodes: its {outer['name']}"
    if is_clos:
        what += " has no levels"
    else:
        what += f" is a {outer['topology']}"
    raise ColltoolError(what, argument="like", fix="name a fabric with one, such as dgx-h100")


def _without_hidden_links(node: NodeDump, like: str | None) -> NodeDump:
    """A node whose file lists no link, where the user names a fabric with such: virtual machines hide
    them."""
    if like is None or not node.has_links or node.pairs or any(node.to_switch):
        return node
    if len(node.accelerators) == 1 or fabric_data(like)["tiers"][0]["name"] == "pcie":
        return node
    return replace(node, no_links="lists no links")


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


def _domains(node: NodeDump, network: ClosNetwork) -> int:
    """The number of such nodes that the network joins; a node may be several hosts, as NVL72."""
    if network.hosts % node.hosts:
        what = f"{network.hosts} hosts are no whole domains of the {node.hosts} of {node.file}"
        raise ColltoolError(what, where=network.file, fix="give the dump of one host")
    return network.hosts // node.hosts


def _with_node(node: NodeDump, dumps: DumpedMachine, base: DeviceMatch, like: str | None) -> Data:
    """The keys of a file with a node: like a fabric, or with its tiers written out."""
    data = fabric_data(base.fabric)
    usual = data["tiers"][0]
    inner = inner_tiers(node)
    if not node.has_links:
        inner = (InnerTier(usual["name"], usual["topology"], len(node.accelerators), links=0),)
    innermost = inner[0]
    same_kind = (innermost.link, innermost.topology) == (usual["name"], usual["topology"])
    if len(inner) == 1 and same_kind and not innermost.edges:
        return {**_other_device(node, data, like), **_like(node, innermost, dumps, base, data)}

    body: Data = {}
    device = _device(node.model)
    if device in DEVICES:
        body["device"] = device
    body["tiers"] = [_inner_tier(node, tier, base) for tier in inner]
    if dumps.has_network:
        body["tiers"].append(_network_tier(dumps, dumps.outer()))
    if "launch_overhead" in data:
        body["launch_overhead"] = data["launch_overhead"]
        body["source"] = {"launch_overhead": f"not told; of {base.fabric}"}
    if node.search is not None:
        library = {"name": "nccl", **_library(node, node.search)}
        library["source"] = {"channels": library.pop("source.channels")}
        body["library"] = library
    return body


def _library(node: NodeDump, search: NodeSearch) -> Data:
    """The keys of a file's ``library`` that NCCL's search tells, as overrides name them."""
    told: Data = {"gpu": search.gpu, "cpu": search.cpu, "link": search.link}
    if node.nics:
        told["nics"] = len(node.nics)
    if not node.gpudirect:
        told["gpudirect"] = False
    told["channels"] = [dict(group) for group in search.groups]
    told["source.channels"] = f"NCCL {search.release}'s topology search on {node.file}"
    return told


def _other_device(node: NodeDump, data: Data, like: str | None) -> Data:
    """The key ``device`` if the stand-in has another one; null if the file format has none of that
    name."""
    device = _device(node.model)
    if not node.has_links or (like is not None and bundled_for(node.model) is None):
        return {}
    if device and str(data.get("device")).startswith(device):
        return {}
    if device not in DEVICES:
        device = None
    return {"device": device}


def _device(model: str) -> str | None:
    """The name in fabric files of a model such as ``NVIDIA H100 PCIe``."""
    name = re.search(r"\b[A-Z]{1,2}\d{2,3}[A-Z]?\b", model)
    return name[0].lower() if name else None


def _like(
    node: NodeDump, inner: InnerTier, dumps: DumpedMachine, base: DeviceMatch, data: Data
) -> Data:
    """The keys of a file that is like the stand-in, with the numbers of the dumps under ``set``."""
    usual, *others = data["tiers"]
    key = usual["name"]
    changes: Data = {}
    for override in base.differs:
        name, value = override.split("=")
        changes[name] = int(value) if value.isdigit() else value
    changes[f"{key}.size"] = inner.size
    changes[f"{key}.source.size"] = f"{counted(inner.size, 'accelerator')}: {node.file}"
    max_size = changes.get(f"{key}.max_size", usual.get("max_size", inner.size))
    if inner.size > int(max_size):
        changes[f"{key}.max_size"] = inner.size
    rate = link_rate(node, inner, base.fabric)
    if rate is not None:
        changes[f"{key}.bandwidth"] = rate.text
        changes[f"{key}.source.bandwidth"] = rate.source
    body: Data = {"like": base.fabric, "set": changes}
    changes |= _library_changes(node, data.get("library"))
    if others:
        changes |= _network_changes(dumps, StandIn(base.fabric, others[-1]))
    elif dumps.has_network:
        body["tiers"] = [_network_tier(dumps, dumps.outer())]
    return body


def _library_changes(node: NodeDump, library: Any) -> Data:
    """The overrides by which a node changes the library of the stand-in."""
    if not isinstance(library, dict):
        return {}
    if node.search is not None and library["name"] == "nccl":
        told = _library(node, node.search)
    else:
        told = {"gpudirect": False} if not node.gpudirect else {}
        if node.cpu and "cpu" in library:
            told["cpu"] = node.cpu
    changes: Data = {}
    for key, value in told.items():
        if library.get(key, _USUAL.get(key)) != value:
            changes[f"library.{key}"] = value
    return changes


def _network_changes(dumps: DumpedMachine, outer: StandIn) -> Data:
    """The overrides by which the dumps change the outermost tier of the stand-in."""
    tier = outer.tier
    key = tier["name"]
    dumped = _network_tier(dumps, outer)
    changes: Data = {f"{key}.size": dumps.size}
    if dumps.has_network:
        changes[f"{key}.bandwidth"] = dumped["bandwidth"]
        changes[f"{key}.source.bandwidth"] = dumped["source"]["bandwidth"]
    if dumps.network is not None:
        changes[f"{key}.levels"] = dumped["levels"]
        if "sizing" in dumped:
            changes[f"{key}.sizing"] = dumped["sizing"]
        if tier.get("in_network"):
            changes |= _in_network_changes(f"{key}.in_network", tier["in_network"], dumps.network)
    else:
        changes |= _wider_top(key, tier.get("levels", ()), dumps.size)
    if dumps.medium in OTHER_MEDIA and tier.get("medium") != dumps.medium:
        changes[f"{key}.medium"] = dumps.medium
        changes |= _without_abilities(f"{key}.in_network", tier.get("in_network") or {})
    name = dumps.network_name(outer)
    if name != key:
        # last, as the keys above have the name of the stand-in
        changes[f"{key}.name"] = name
    return changes


def _in_network_changes(key: str, switch: Data, network: ClosNetwork) -> Data:
    """The overrides that remove in-network abilities which the network does not have."""
    changes: Data = {}
    if network.reduces is False:
        changes |= _without_abilities(key, switch)
        changes[f"{key}.source.reduce"] = f"no aggregation node answers: {network.file}"
    if (switch.get("levels") or 1) > len(network.levels):
        changes[f"{key}.levels"] = len(network.levels)
    return changes


def _without_abilities(key: str, switch: Data) -> Data:
    """The overrides that remove what switches of InfiniBand do with a message."""
    changes = {}
    for ability in ("reduce", "multicast"):
        if switch.get(ability):
            changes[f"{key}.{ability}"] = False
    return changes


def _wider_top(key: str, levels: Sequence[Data], size: int) -> Data:
    """The override that widens the top level of the stand-in, in whole groups of the level below, if
    it has too few nodes."""
    if not levels or size <= levels[-1]["group"]:
        return {}
    *lower, top = levels
    group = 1
    if lower:
        group = lower[-1]["group"]
    return {f"{key}.levels.{top['name']}.group": ceil(size / group) * group}


def _network_tier(dumps: DumpedMachine, outer: StandIn) -> Data:
    """A Clos tier with the rates and levels of the dumps, and the latencies of a stand-in."""
    network = dumps.network
    rate = dumps.rate()
    made: Data = {"name": outer.tier["name"], "topology": "clos", "size": dumps.size}
    made["bandwidth"] = outer.tier["bandwidth"]
    source = {"bandwidth": outer.source, "eta": outer.source}
    if rate is not None:
        made["bandwidth"] = rate.text
        source["bandwidth"] = rate.source
    if dumps.node is None and network is not None and (network.ports or 1) > 1:
        made["ports"] = network.ports
    made["eta"] = outer.tier["eta"]
    if dumps.medium in OTHER_MEDIA:
        made["medium"] = dumps.medium
    if network is None:
        leaf = outer.tier.get("levels", [outer.tier])[0]
        made["alpha"] = leaf["alpha"]
        source["alpha"] = f"not told; of a leaf of {outer.fabric}"
    else:
        source = {"size": f"{network.tool}: {network.file}", **source}
        hosts_each = network.hosts // dumps.size
        made["levels"] = _levels(outer, network, hosts_each)
        if network.radix is not None and network.ports is not None:
            made["sizing"] = {
                "rails": network.rails,
                "nics_per_rail": max(1, network.ports // network.rails) * hosts_each,
                "radix": network.radix,
            }
    return {**made, "source": source}


def _levels(outer: StandIn, network: ClosNetwork, hosts_each: int) -> list[Data]:
    """The levels of a Clos whose endpoints have ``hosts_each`` hosts."""
    leaf_s, *higher_s = (parse_time(level["alpha"]) for level in outer.tier["levels"])
    step_s = _SPINE_S
    if higher_s:
        step_s = higher_s[0] - leaf_s
    levels: list[Data] = []
    for name, level in zip(level_names(len(network.levels)), network.levels, strict=True):
        if level.group % hosts_each:
            what = f"{level.group} hosts under a {name} are no whole domains of {hosts_each}"
            raise ColltoolError(what, where=network.file, fix="give the dump of one host")
        made: Data = {
            "name": name,
            "group": level.group // hosts_each,
            "alpha": f"{(leaf_s + len(levels) * step_s) * 1e6:g}us",
        }
        if levels:
            made["oversubscription"] = uplink_ratio(level.oversubscription, len(network.levels))
        switches = f"{level.switches} of its switches: {network.file}"
        made["source"] = {"group": switches, "alpha": outer.source}
        levels.append(made)
    return levels


def _inner_tier(node: NodeDump, inner: InnerTier, base: DeviceMatch) -> Data:
    """A tier inside the node, written out."""
    fabric = base.fabric
    if inner.link == "pcie":
        fabric = PCIE
    stand_in = StandIn(fabric, fabric_data(fabric)["tiers"][0])
    tier = stand_in.tier
    same_topology = tier["topology"] == inner.topology
    bandwidth = tier["bandwidth"]
    bandwidth_source = stand_in.source
    rate = link_rate(node, inner, fabric)
    if rate is not None:
        bandwidth = rate.text
        bandwidth_source = rate.source
    elif not same_topology:
        what = (
            f"does not tell one bandwidth of its {inner.link} links, and {fabric} has no"
            f" {inner.topology} of them"
        )
        raise ColltoolError(
            what, where=node.file, fix="give their bandwidth, or a dump of nccl-topo"
        )
    made: Data = {"name": inner.link, "topology": inner.topology}
    if not inner.edges:
        made["size"] = inner.size
    made |= {"alpha": tier["alpha"], "bandwidth": bandwidth, "eta": tier["eta"]}
    medium = medium_of(None, inner.link, parse_rate(bandwidth), node.model)
    if medium is not None:
        made["medium"] = medium.name
    if inner.edges:
        made["edges"] = []
        for pair, links in inner.edges:
            edge: Any = [*pair]
            if links > 1:
                edge = {"between": edge, "links": links}
            made["edges"].append(edge)
    source = stand_in.source
    if not same_topology:
        source += f", a {tier['topology']}"
    return {**made, "source": {"bandwidth": bandwidth_source, "alpha": source, "eta": source}}


def _description(node: NodeDump, hosts: int) -> str:
    each = len(node.accelerators) // node.hosts
    accelerators = counted(each, "accelerator")
    if node.model:
        accelerators = f"{each} {node.model}"
    return f"{counted(hosts, 'node')} of {accelerators}"


def _comments(node: NodeDump | None, dumps: DumpedMachine, body: Data) -> list[str]:
    """Lines for the head of the file: which dumps it was made from, what they lack, what is odd."""
    network = dumps.network
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
            notes.append(said("network-left-out", option=argument_text("nic", "100Gbps")))
        lines += [f"Note: {note}" for note in notes]
    if network is not None:
        lines += [f"Left out: {note}" for note in network.notes]
    return lines
