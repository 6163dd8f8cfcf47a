"""A fabric file from dumps of a node and of the network between nodes: :func:`fabric_file`.

What no dump has, latencies above all, is taken from the bundled fabric of the usual machine (the
stand-in). If the scale-up network is of the same kind, the file is ``like`` that fabric, with the
numbers of the dumps under ``set`` (``_like``); else the tiers are written out, each with its source
(``_inner_tier``, ``_network_tier``).
"""

from __future__ import annotations

import re
from math import ceil
from typing import Any, NamedTuple, assert_never

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.base.formatting import counted, parse_rate, parse_time
from colltool.fabric.bundled_for import CLUSTERS, DeviceMatch, bundled_for
from colltool.fabric.dumps.clos import ClosNetwork, SwitchLevel, levels_named
from colltool.fabric.dumps.nics import Nic, together_Bps
from colltool.fabric.dumps.node import InnerTier, NodeDump, inner_tiers, odd_links
from colltool.fabric.dumps.pci import LANE_BPS, SLOT_LANES, usual_host
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.media import DEVICES, medium_of

Data = dict[str, Any]

# The fabrics whose tiers are used for PCIe, and for a network that the usual machine does not have,
# by its medium.
_PCIE = "l40s-pcie"
_INFINIBAND = "dgx-h100"
_ETHERNET = "hgx-h200"
_NETWORKS = {
    "ib": _INFINIBAND,
    "roce": _ETHERNET,
    "efa": "aws-p5",
    "slingshot": "gh200",
    "socket": "sockets",
}
_MEDIUM_NAMES = {"ib": "InfiniBand", "roce": "RoCE", "efa": "EFA", "socket": "sockets"}
# Media whose numbers are unlike those of InfiniBand and RoCE: a stand-in is told which it is.
_OTHER_MEDIA = ("efa", "slingshot", "socket")

# A host with more accelerators is several, whose links are one network.
_MOST_OF_A_HOST = 16

# Machines by the rate of their accelerators' slots, for hints.
_BY_SLOT = {
    16e9: ("V100 hosts", ("dgx-1v",)),
    32e9: ("A100 hosts", ("dgx-a100",)),
    64e9: ("H100, H200 and B200 hosts", ("dgx-h100", "hgx-h200", "dgx-b200")),
    128e9: ("B300 hosts", ("dgx-b300",)),
}

# What the bandwidth of a tier is of, by topology; part of its source.
_BANDWIDTH_OF = {"star": "of an accelerator", "full_mesh": "of a pair", "graph": "of a link"}

_SPINE_S = 6e-6
"""Latency that a further level adds. Source: the shipped dgx-h100."""

_NVLINK_5 = re.compile(r"\bG?B[23]00\b")
NVLINK_BPS = 25e9
"""One link, one way, of V100 to H200. Source: NVIDIA H100 data sheet (18: 900 GB/s both ways)."""
NVLINK_5_BPS = 50e9
"""One link, one way, of Blackwell. Source: NVIDIA B200 data sheet."""


class _Rate(NamedTuple):
    """A bandwidth in bytes/s, where it is from, and what was assumed for it."""

    rate_Bps: float
    source: str
    assumed: str = ""

    @property
    def text(self) -> str:
        return _rate_text(self.rate_Bps)


class _StandIn(NamedTuple):
    """A tier of a bundled fabric whose numbers are taken where no dump has them."""

    fabric: str
    tier: Data

    @property
    def source(self) -> str:
        return f"not told; of {self.fabric}"


class _Dumps(NamedTuple):
    """The dumps of a machine.

    Args:
        size: endpoints of its outermost tier.
        device: the model of the accelerators: the node's, or that of the fabric it is like.
        nic_Bps: the rate of each NIC, if the user stated it.
        like: the fabric that the user named.
    """

    node: NodeDump | None
    network: ClosNetwork | None
    size: int
    device: str = ""
    nic_Bps: float | None = None
    like: str | None = None

    @property
    def medium(self) -> str:
        """The medium of the network between nodes; empty if no dump has it."""
        if self.network is not None and self.network.infiniband:
            return "ib"
        nics = self.node.nics if self.node is not None else ()
        media = [nic.medium for nic in nics if nic.medium]
        return media[0] if media else ""

    @property
    def has_network(self) -> bool:
        """Whether a dump or the user says what the network between nodes carries."""
        return self.rate() is not None

    def outer(self) -> _StandIn:
        """Return the stand-in for the network between nodes."""
        return _outer_tier(_NETWORKS[self.medium or "roce"])

    def rate(self) -> _Rate | None:
        """Return a rank's share of its node's NICs; None if nothing tells it."""
        network = self.network
        if network is not None and network.port_Bps is not None:
            return self._share_of_ports(network, network.ports or 1, network.port_Bps)
        if self.node is None:
            return None if self.nic_Bps is None else _Rate(self.nic_Bps, "stated: a NIC of a host")
        return self._share_of_nics(self.node)

    def _share_of_ports(self, network: ClosNetwork, count: int, port_Bps: float) -> _Rate:
        ports = f"{counted(count, 'port')} of {_gbps(port_Bps)}"
        if self.node is None:
            return _Rate(port_Bps, f"{ports}: {network.file}")
        ranks = len(self.node.accelerators) // self.node.hosts
        source = f"{ports} for {counted(ranks, 'accelerator')}: {network.file}"
        return self._within_slot(self.node, _Rate(count * port_Bps / ranks, source))

    def _share_of_nics(self, node: NodeDump) -> _Rate | None:
        ranks = len(node.accelerators)
        nics = node.nics
        if not nics and self.nic_Bps is not None:
            nics = (Nic("NIC"),) * ranks
        each_Bps, assumed = self._nic_rate(nics)
        if each_Bps is None:
            return None
        if self.nic_Bps is not None:
            nics = tuple(nic._replace(rate_Bps=self.nic_Bps) for nic in nics)
        total_Bps = together_Bps(nics, each_Bps)
        source = f"{counted(len(nics), 'NIC')} of {_gbps(each_Bps)}"
        unlimited_Bps = len(nics) * each_Bps
        if total_Bps < unlimited_Bps:
            source += f" in slots that carry {total_Bps / 1e9:g} GB/s of {unlimited_Bps / 1e9:g}"
        source += f" for {counted(ranks, 'accelerator')}: {node.file}"
        if assumed:
            source += f"; {assumed}"
        return self._within_slot(node, _Rate(total_Bps / ranks, source, assumed))

    def _nic_rate(self, nics: tuple[Nic, ...]) -> tuple[float | None, str]:
        """The rate of each NIC, and how it was assumed; empty if it was stated."""
        if self.nic_Bps is not None:
            known = self.node is not None and self.node.nics
            return self.nic_Bps, "" if known else "one NIC for each accelerator; none is listed"
        if not nics:
            return None, ""
        first = nics[0]
        if first.rate_Bps is not None:
            if not first.by_model:
                return first.rate_Bps, ""
            rate = _gbps(first.rate_Bps)
            return (
                first.rate_Bps,
                f"NICs of {rate}, as {first.model} by its PCI id; no rate is given",
            )
        usual_Bps = usual_host(self.device).nic_Bps
        around = f"as usual for {self.device}"
        if self.like is not None and usual_Bps is None:
            tiers = fabric_data(self.like)["tiers"]
            usual_Bps = parse_rate(tiers[-1]["bandwidth"]) if len(tiers) > 1 else None
            around = f"as in {self.like}"
        if usual_Bps is None:
            return None, ""
        return usual_Bps, f"NICs of {_gbps(usual_Bps)}, {around}; no rate is given"

    def _within_slot(self, node: NodeDump, rate: _Rate) -> _Rate:
        """A rank's share of the NICs, no more than the slot of its accelerator carries."""
        slot_Bps = node.pcie_Bps
        whose = ""
        if slot_Bps is None:
            slot_Bps = usual_host(self.device).slot_Bps
            whose = f" of {self.device}"
        if not node.has_slots or slot_Bps is None or rate.rate_Bps <= slot_Bps:
            return rate
        source = f"{rate.source}; no more than the PCIe slot{whose}: {slot_Bps / 1e9:g} GB/s"
        return _Rate(slot_Bps, source, rate.assumed)


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
    if node is None:
        assert network is not None, "something was read"
        dumps = _Dumps(None, network, network.hosts, nic_Bps=nic_Bps, like=like)
        if like is None and dumps.rate() is None:
            fix = f"state it, or name such a machine: {argument_text('nic', '200Gbps')}"
            raise ColltoolError("does not give the rate of a NIC", where=network.file, fix=fix)
        outer = _outer_tier(like or _INFINIBAND)
        body: Data = {"tiers": [_network_tier(dumps, outer)]}
        assumed = _network_assumed(dumps, outer)
        ports = "" if network.ports is None else f" with {counted(network.ports, 'port')} each"
        description = f"{counted(network.hosts, 'host')}{ports}"
    else:
        # what is wrong with the node is reported before what is wrong with the network
        base = _machine_like(node, network, like)
        size = _domains(node, network) if network else nodes or 1
        device = node.model or (load_fabric(base.fabric).device or "").upper()
        dumps = _Dumps(node, network, size, device, nic_Bps, like)
        _check_network(node, dumps, base)
        body = _with_node(node, dumps, base, like)
        assumed = _assumed(node, dumps, base, body)
        description = _description(node, network.hosts if network else size * node.hosts)
    head: Data = {"schema": "colltool.fabric/2", "name": name, "description": description}
    return {**head, "assumed": assumed, **body}, _comments(node, dumps, body)


def _check_network(node: NodeDump, dumps: _Dumps, base: DeviceMatch) -> None:
    """Raise an error if several nodes are asked for, and nothing tells what joins them."""
    if dumps.size == 1 or dumps.has_network or len(fabric_data(base.fabric)["tiers"]) > 1:
        return
    what = "does not give the rate of its NICs" if node.nics else "has no NIC of a network"
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


def _machine_like(node: NodeDump, network: ClosNetwork | None, like: str | None) -> DeviceMatch:
    """The bundled fabric whose numbers are taken where the dumps have none."""
    if like is not None:
        return DeviceMatch("", like)
    if not node.has_links:
        why, fits = _fitting(node)
        raise ColltoolError(
            f"{node.no_links}; {why}" if why else node.no_links,
            where=node.file,
            fix=f"dump a running job's (NCCL_TOPO_DUMP_FILE), or name such a machine: {fits}",
        )
    machine = bundled_for(node.model)
    if inner_tiers(node)[0].link == "pcie":
        if machine is not None and machine.fabric.endswith("-pcie"):
            return machine
        return DeviceMatch("", _PCIE)
    if machine is None:
        model = f"colltool knows no machine of {clipped(node.model)}"
        what = model if node.model else "does not tell which accelerators it has"
        why, fits = _fitting(node)
        raise ColltoolError(
            f"{what}; {why}" if why else what,
            where=node.file,
            fix=f"name a fabric of such: {fits}",
        )
    if node.nics or network:
        return machine._replace(fabric=CLUSTERS.get(machine.fabric, machine.fabric))
    return machine


def _fitting(node: NodeDump) -> tuple[str, str]:
    """What fits a node without a model or links, and the option that names such a fabric."""
    machine = bundled_for(node.model)
    why = ""
    fabrics: tuple[str, ...] = node.fits
    if machine is not None:
        why = f"they are {node.model}"
        fabrics = (machine.fabric,)
    elif node.link == "xgmi":
        fabrics = ("mi300x-cluster", "mi355x")
    elif not fabrics and node.pcie_Bps in _BY_SLOT:
        hosts, fabrics = _BY_SLOT[node.pcie_Bps]
        transfers = node.pcie_Bps / SLOT_LANES / LANE_BPS
        why = f"PCIe slots of {transfers:g} GT/s are those of {hosts}"
    elif node.fits and node.pairs:
        links = max(node.pairs.values())
        grace = " and Grace CPUs" if node.cpu == "arm" else ""
        why = f"{counted(links, 'NVLink')}{grace} fit {', '.join(node.fits)}"
    options = [argument_text("like", fabric) for fabric in fabrics or ("dgx-h100", "dgx-b200")]
    return why, " or ".join(options)


def _with_node(node: NodeDump, dumps: _Dumps, base: DeviceMatch, like: str | None) -> Data:
    """The keys of a file with a node: like a fabric, or with its tiers written out."""
    data = fabric_data(base.fabric)
    first = data["tiers"][0]
    inner = inner_tiers(node)
    if not node.has_links:
        inner = (InnerTier(first["name"], first["topology"], len(node.accelerators), links=0),)
    innermost = inner[0]
    same_kind = (innermost.link, innermost.topology) == (first["name"], first["topology"])
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
    return body


def _other_device(node: NodeDump, data: Data, like: str | None) -> Data:
    """The key ``device`` if the stand-in has another one; null if the file format has none of that
    name."""
    device = _device(node.model)
    if not node.has_links or (like is not None and bundled_for(node.model) is None):
        return {}
    if device and str(data.get("device")).startswith(device):
        return {}
    return {"device": device if device in DEVICES else None}


def _device(model: str) -> str | None:
    """The name in fabric files of a model such as ``NVIDIA H100 PCIe``."""
    name = re.search(r"\b[A-Z]{1,2}\d{2,3}[A-Z]?\b", model)
    return name[0].lower() if name else None


def _like(node: NodeDump, inner: InnerTier, dumps: _Dumps, base: DeviceMatch, data: Data) -> Data:
    """The keys of a file that is like the stand-in, with the numbers of the dumps under ``set``."""
    first, *others = data["tiers"]
    key = first["name"]
    changes: Data = dict(override.split("=") for override in base.differs)
    changes[f"{key}.size"] = inner.size
    changes[f"{key}.source.size"] = f"{counted(inner.size, 'accelerator')}: {node.file}"
    max_size = changes.get(f"{key}.max_size", first.get("max_size", inner.size))
    if inner.size > int(max_size):
        changes[f"{key}.max_size"] = inner.size
    rate = _link_rate(node, inner, base.fabric)
    if rate is not None:
        changes[f"{key}.bandwidth"] = rate.text
        changes[f"{key}.source.bandwidth"] = rate.source
    library = data.get("library")
    if isinstance(library, dict) and node.cpu and library.get("cpu", node.cpu) != node.cpu:
        changes["library.cpu"] = node.cpu
    body: Data = {"like": base.fabric, "set": changes}
    if isinstance(library, dict) and not node.gpudirect:
        changes["library.gpudirect"] = False
    if others:
        changes |= _network_changes(dumps, _StandIn(base.fabric, others[-1]))
    elif dumps.has_network:
        body["tiers"] = [_network_tier(dumps, dumps.outer())]
    return body


def _network_changes(dumps: _Dumps, outer: _StandIn) -> Data:
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
        changes |= _wider_top(key, tier["levels"], dumps.size)
    if key == "roce" and dumps.medium == "ib":
        changes[f"{key}.name"] = "ib"
    if dumps.medium in _OTHER_MEDIA and tier.get("medium") != dumps.medium:
        changes[f"{key}.medium"] = dumps.medium
        # a name last: the keys above have the name of the stand-in
        changes[f"{key}.name"] = dumps.medium
    return changes


def _in_network_changes(key: str, switch: Data, network: ClosNetwork) -> Data:
    """The overrides that remove in-network abilities which the network does not have."""
    changes: Data = {}
    if network.reduces is False:
        for ability in ("reduce", "multicast"):
            if switch.get(ability):
                changes[f"{key}.{ability}"] = False
        changes[f"{key}.source.reduce"] = f"no aggregation node answers: {network.file}"
    if (switch.get("levels") or 1) > len(network.levels):
        changes[f"{key}.levels"] = len(network.levels)
    return changes


def _wider_top(key: str, levels: list[Data], size: int) -> Data:
    """The override that widens the top level of the stand-in, in whole groups of the level below, if
    it has too few nodes."""
    *lower, top = levels
    if size <= top["group"]:
        return {}
    group = lower[-1]["group"] if lower else 1
    return {f"{key}.levels.{top['name']}.group": ceil(size / group) * group}


def _outer_tier(fabric: str) -> _StandIn:
    return _StandIn(fabric, fabric_data(fabric)["tiers"][-1])


def _network_tier(dumps: _Dumps, outer: _StandIn) -> Data:
    """A Clos tier with the rates and levels of the dumps, and the latencies of a stand-in."""
    network = dumps.network
    rate = dumps.rate()
    made: Data = {"name": outer.tier["name"], "topology": "clos", "size": dumps.size}
    made["bandwidth"] = rate.text if rate is not None else outer.tier["bandwidth"]
    if dumps.node is None and network is not None and (network.ports or 1) > 1:
        made["ports"] = network.ports
    made["eta"] = outer.tier["eta"]
    if dumps.medium in _OTHER_MEDIA:
        made["medium"] = dumps.medium
    source = {} if network is None else {"size": f"{network.tool}: {network.file}"}
    source["bandwidth"] = rate.source if rate is not None else outer.source
    source["eta"] = outer.source
    if network is None:
        made["alpha"] = outer.tier["levels"][0]["alpha"]
        source["alpha"] = f"not told; of a leaf of {outer.fabric}"
    else:
        hosts_each = network.hosts // dumps.size
        made["levels"] = _levels(outer, network, hosts_each)
        if network.radix is not None and network.ports is not None:
            made["sizing"] = {
                "rails": network.rails,
                "nics_per_rail": max(1, network.ports // network.rails) * hosts_each,
                "radix": network.radix,
            }
    return {**made, "source": source}


def _levels(outer: _StandIn, network: ClosNetwork, hosts_each: int) -> list[Data]:
    """The levels of a Clos whose endpoints have ``hosts_each`` hosts."""
    first_s, *others_s = (parse_time(level["alpha"]) for level in outer.tier["levels"])
    step_s = others_s[0] - first_s if others_s else _SPINE_S
    levels: list[Data] = []
    for name, level in zip(levels_named(len(network.levels)), network.levels, strict=True):
        if level.group % hosts_each:
            what = f"{level.group} hosts under a {name} are no whole domains of {hosts_each}"
            raise ColltoolError(what, where=network.file, fix="give the dump of one host")
        made: Data = {
            "name": name,
            "group": level.group // hosts_each,
            "alpha": f"{(first_s + len(levels) * step_s) * 1e6:g}us",
        }
        if levels:
            made["oversubscription"] = _oversubscription(level, len(network.levels))
        switches = f"{level.switches} of its switches: {network.file}"
        made["source"] = {"group": switches, "alpha": outer.source}
        levels.append(made)
    return levels


def _oversubscription(level: SwitchLevel, levels: int) -> Any:
    uplinks = int(level.uplinks) if level.uplinks.is_integer() else level.uplinks
    # with one level above the leaves both forms mean the same
    return uplinks if levels == 2 else {"uplinks": uplinks}


def _link_rate(node: NodeDump, inner: InnerTier, base: str) -> _Rate | None:
    """The bandwidth of an accelerator's links to switches, or of a pair's links; None if unknown."""
    if node.link_Bps is not None and inner.link != "pcie":
        return _Rate(node.link_Bps, f"{_BANDWIDTH_OF[inner.topology]}: {node.file}")
    if not inner.links or not node.has_link_counts:
        return None
    match inner.link:
        case "pcie":
            if node.pcie_Bps:
                return _Rate(node.pcie_Bps, f"link_speed and link_width of a slot: {node.file}")
            usual_Bps = usual_host(node.model).slot_Bps
            if usual_Bps is None:
                return None
            what = f"slots of {_rate_text(usual_Bps)}, as {node.model} has"
            return _Rate(usual_Bps, what, f"{what}; the file does not say")
        case "xgmi":
            each_Bps = load_fabric(base).tiers[0].bandwidth
            links = f"{counted(inner.links, 'link')} a pair"
            source = f": {base}"
        case "nvlink":
            model = node.model or (load_fabric(base).device or "").upper()
            each_Bps = NVLINK_5_BPS if _NVLINK_5.search(model) else NVLINK_BPS
            end = "a GPU" if inner.topology == "star" else "a pair"
            links = f"{counted(inner.links, 'NVLink')} {end}"
            source = ", one way: NVIDIA data sheets"
        case _:
            assert_never(inner.link)
    source = f"{links}: {node.file}; {_rate_text(each_Bps)} each{source}"
    return _Rate(each_Bps * inner.links, source)


def _inner_tier(node: NodeDump, inner: InnerTier, base: DeviceMatch) -> Data:
    """A tier inside the node, written out."""
    fabric = _PCIE if inner.link == "pcie" else base.fabric
    outer = _StandIn(fabric, fabric_data(fabric)["tiers"][0])
    tier = outer.tier
    same_topology = tier["topology"] == inner.topology
    bandwidth = tier["bandwidth"]
    bandwidth_source = outer.source
    rate = _link_rate(node, inner, fabric)
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
            edge = [*pair] if links == 1 else {"between": [*pair], "links": links}
            made["edges"].append(edge)
    source = outer.source if same_topology else f"{outer.source}, a {tier['topology']}"
    return {**made, "source": {"bandwidth": bandwidth_source, "alpha": source, "eta": source}}


def _rate_text(rate_Bps: float) -> str:
    return f"{rate_Bps / 1e9:.10g}GB/s"


def _gbps(rate_Bps: float) -> str:
    return f"{8e-9 * rate_Bps:g} Gb/s"


def _few_links(node: NodeDump) -> list[str]:
    """A note if the accelerators have fewer NVLinks than their model."""
    usual = usual_host(node.model).links
    counts = node.to_switch if any(node.to_switch) else ()
    if usual is None or not node.has_links or len(node.accelerators) == 1 or "PCIe" in node.model:
        return []
    if not counts and not node.pairs:
        down = "they are down (nvidia-smi nvlink -s), or hidden in a virtual machine"
        return [
            f"{node.model} has {usual} NVLinks, and the file lists none: {down}; PCIe is priced"
        ]
    if counts and max(counts) < usual:
        return [f"{node.model} has {usual} NVLinks, and the file lists {max(counts)}"]
    return []


def _description(node: NodeDump, hosts: int) -> str:
    each = len(node.accelerators) // node.hosts
    accelerators = f"{each} {node.model}" if node.model else counted(each, "accelerator")
    return f"{counted(hosts, 'node')} of {accelerators}"


def _assumed(node: NodeDump, dumps: _Dumps, base: DeviceMatch, body: Data) -> list[str]:
    """What neither the dumps nor the user told, what matters most first."""
    first, *others = fabric_data(base.fabric)["tiers"]
    outer = dumps.outer()
    if others and "like" in body:
        outer = _StandIn(base.fabric, others[-1])
    has_outer = "like" in body and bool(others) and dumps.size > 1
    stand_ins = [base.fabric]
    found = []
    if dumps.has_network or has_outer:
        found += _network_assumed(dumps, outer)
        stand_ins.append(outer.fabric)
    found += node.assumed
    innermost = inner_tiers(node)[-1]
    rate = _link_rate(node, innermost, base.fabric) if node.has_links else None
    if rate is not None and rate.assumed:
        found.append(f"{innermost.link}.bandwidth: {rate.assumed}")
    if not node.has_links:
        found.append(f"{first['name']}.bandwidth: links as in {base.fabric}; the file lists none")
    if "like" in body and node.hosts == 1 and first.get("size", 1) > _MOST_OF_A_HOST:
        found.append(
            f"{first['name']}.size: the {len(node.accelerators)} of this host; links of"
            f" {base.fabric} join those of several hosts"
        )
    found.append(f"latencies and efficiencies as in {' and '.join(dict.fromkeys(stand_ins))}")
    return found


def _network_assumed(dumps: _Dumps, outer: _StandIn) -> list[str]:
    """What was assumed of the network between nodes."""
    key = outer.tier["name"]
    found = []
    rate = dumps.rate()
    if rate is None:
        found.append(f"{key}.bandwidth: the network of {outer.fabric}; no file gives its rate")
    elif rate.assumed:
        found.append(f"{key}.bandwidth: {rate.assumed}")
    own = str(outer.tier.get("medium", key))
    named = _MEDIUM_NAMES.get(own, own)
    if not dumps.medium:
        found.append(f"{key}.medium: {named}, as in {outer.fabric}; no file says")
    elif dumps.medium == "roce" and own == "ib":
        found.append(f"{key}.medium: {named}, as in {outer.fabric}, though the NICs run Ethernet")
    if dumps.network is not None:
        found += dumps.network.assumed
    return found


def _comments(node: NodeDump | None, dumps: _Dumps, body: Data) -> list[str]:
    """Lines for the head of the file: which dumps it is of, what they lack, what is odd."""
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
        lines += [f"Note: {note}" for note in (*node.notes, *odd_links(node), *_few_links(node))]
        if node.nics and not dumps.has_network:
            lines.append(
                "Note: the network between nodes is left out, as nothing gives the rate of the"
                f" NICs: {argument_text('nic', '100Gbps')} states it"
            )
    if network is not None:
        lines += [f"Left out: {note}" for note in network.notes]
    return lines
