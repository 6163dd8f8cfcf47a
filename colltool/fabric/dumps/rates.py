"""The rates of a machine as its dumps state them: each rank's share of a network
(:class:`DumpedMachine`), and the links inside a node (:func:`link_rate`)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, assert_never

from colltool.base.formatting import counted, parse_rate
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.nics import Nic, together_Bps
from colltool.fabric.dumps.node import NVLINK_5_BPS, NVLINK_BPS, InnerTier, NodeDump, NodeSearch
from colltool.fabric.dumps.pci import usual_host
from colltool.fabric.dumps.sentences import said
from colltool.fabric.load import fabric_data, load_fabric

Data = dict[str, Any]

# The fabrics whose tiers are used for a network that the usual machine does not have, by medium.
INFINIBAND = "dgx-h100"
_NETWORKS = {
    "ib": INFINIBAND,
    "roce": "hgx-h200",
    "efa": "aws-p5",
    "slingshot": "gh200",
    "socket": "sockets",
}
# Media whose numbers are unlike those of InfiniBand and RoCE, by the name of their tier.
OTHER_MEDIA = {"efa": "efa", "slingshot": "slingshot", "socket": "tcp"}

# What the bandwidth of a tier is of, by topology; part of its source.
_BANDWIDTH_OF = {"star": "of an accelerator", "full_mesh": "of a pair", "graph": "of a link"}

_NVLINK_5 = re.compile(r"\bG?B[23]00\b")


class DumpedRate(NamedTuple):
    """A bandwidth in bytes/s, where it is from, and what was assumed for it."""

    rate_Bps: float
    source: str
    assumed: str = ""

    @property
    def text(self) -> str:
        return rate_text(self.rate_Bps)


class StandIn(NamedTuple):
    """A tier of a bundled fabric whose numbers are taken where no dump has them."""

    fabric: str
    tier: Data

    @property
    def source(self) -> str:
        return f"not told; of {self.fabric}"


def outer_tier(fabric: str) -> StandIn:
    return StandIn(fabric, fabric_data(fabric)["tiers"][-1])


class DumpedMachine(NamedTuple):
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

    def outer(self) -> StandIn:
        """Return the stand-in for the network between nodes."""
        return outer_tier(_NETWORKS[self.medium or "roce"])

    def network_name(self, outer: StandIn) -> str:
        """Return the name of the tier between nodes, where that of the stand-in is of another
        medium."""
        name = str(outer.tier["name"])
        if self.medium in OTHER_MEDIA and outer.tier.get("medium") != self.medium:
            return OTHER_MEDIA[self.medium]
        return "ib" if (name, self.medium) == ("roce", "ib") else name

    def rate(self) -> DumpedRate | None:
        """Return a rank's share of its node's NICs; None if nothing tells it."""
        network = self.network
        if network is not None and network.port_Bps is not None:
            return self._share_of_ports(network, network.ports or 1, network.port_Bps)
        if self.node is not None:
            return self._share_of_nics(self.node)
        if self.nic_Bps is None:
            return None
        return DumpedRate(self.nic_Bps, "stated: a NIC of a host")

    def _share_of_ports(self, network: ClosNetwork, count: int, port_Bps: float) -> DumpedRate:
        ports = f"{counted(count, 'port')} of {gbps_text(port_Bps)}"
        if self.node is None:
            return DumpedRate(port_Bps, f"{ports}: {network.file}")
        ranks = len(self.node.accelerators) // self.node.hosts
        source = f"{ports} for {counted(ranks, 'accelerator')}: {network.file}"
        return self._within_slot(self.node, DumpedRate(count * port_Bps / ranks, source))

    def _share_of_nics(self, node: NodeDump) -> DumpedRate | None:
        """Each rank's share of the node's NICs; None where no rate is known."""
        ranks = len(node.accelerators)
        nics = node.nics
        if not nics and self.nic_Bps is not None:
            nics = (Nic("NIC"),) * ranks
        each_Bps, assumed = self._nic_rate(nics)
        if each_Bps is None:
            return None
        if self.nic_Bps is not None:
            nics = tuple(nic._replace(rate_Bps=self.nic_Bps) for nic in nics)
        rates = [nic.rate_Bps or each_Bps for nic in nics]
        least = gbps_text(min(rates))
        most = gbps_text(max(rates))
        source = f"{counted(len(nics), 'NIC')} of {least}"
        if most != least:
            source += f" to {most}"
        unlimited_Bps = sum(rates)
        total_Bps = unlimited_Bps
        if node.search is None:
            total_Bps = together_Bps(nics, each_Bps)
        if total_Bps < unlimited_Bps:
            source += f" in slots that carry {total_Bps / 1e9:g} GB/s of {unlimited_Bps / 1e9:g}"
        source += f" for {counted(ranks, 'accelerator')}: {node.file}"
        if assumed:
            source += f"; {assumed}"
        return self._within_slot(node, DumpedRate(total_Bps / ranks, source, assumed))

    def _nic_rate(self, nics: tuple[Nic, ...]) -> tuple[float | None, str]:
        """The rate of each NIC, and how it was assumed; empty if it was stated."""
        if self.nic_Bps is not None:
            if self.node is not None and self.node.nics:
                return self.nic_Bps, ""
            return self.nic_Bps, said("one-nic-each")
        if not nics:
            return None, ""
        first = nics[0]
        if first.rate_Bps is not None:
            if not first.by_model:
                return first.rate_Bps, ""
            why = f"as {first.model} by its PCI id"
            return first.rate_Bps, _assumed_nics(first.rate_Bps, why)
        usual_Bps = usual_host(self.device).nic_Bps
        around = f"as usual for {self.device}"
        if self.like is not None and usual_Bps is None:
            tiers = fabric_data(self.like)["tiers"]
            around = f"as in {self.like}"
            if len(tiers) > 1:
                usual_Bps = parse_rate(tiers[-1]["bandwidth"])
        if usual_Bps is None:
            return None, ""
        return usual_Bps, _assumed_nics(usual_Bps, around)

    def _within_slot(self, node: NodeDump, rate: DumpedRate) -> DumpedRate:
        """A rank's share of the NICs, no more than NCCL's rings carry, or where it is not searched for
        them the slot of the accelerator."""
        if node.search is not None:
            return _within_rings(node, node.search, rate)
        slot_Bps = node.pcie_Bps
        whose = ""
        if slot_Bps is None:
            slot_Bps = usual_host(self.device).slot_Bps
            whose = f" of {self.device}"
        if not node.has_slots or slot_Bps is None or rate.rate_Bps <= slot_Bps:
            return rate
        source = f"{rate.source}; no more than the PCIe slot{whose}: {slot_Bps / 1e9:g} GB/s"
        return DumpedRate(slot_Bps, source, rate.assumed)


def _within_rings(node: NodeDump, search: NodeSearch, rate: DumpedRate) -> DumpedRate:
    """A rank's share of the NICs, no more than NCCL's rings carry out of the node."""
    most_Bps = search.across_Bps
    # NCCL takes 10 Gb/s for a rate that the file does not state
    if most_Bps is None or rate.assumed:
        return rate
    share_Bps = most_Bps / len(node.accelerators)
    if rate.rate_Bps <= share_Bps:
        return rate
    carried = rate_text(most_Bps)
    source = f"{rate.source}; NCCL's rings carry {carried} of it"
    return DumpedRate(share_Bps, source)


def _assumed_nics(rate_Bps: float, why: str) -> str:
    return said("nics", rate=gbps_text(rate_Bps), why=why)


def link_rate(node: NodeDump, inner: InnerTier, base: str) -> DumpedRate | None:
    """The bandwidth of an accelerator's links to switches, or of a pair's links. None if unknown."""
    if node.link_Bps is not None and inner.link != "pcie":
        return DumpedRate(node.link_Bps, f"{_BANDWIDTH_OF[inner.topology]}: {node.file}")
    if not inner.links or not node.has_link_counts:
        return None
    carried_Bps = None
    if node.search is not None:
        carried_Bps = node.search.inside_Bps
    match inner.link:
        case "pcie":
            if carried_Bps is not None:
                # the ranks of an island share what goes to the next one
                islands = inner.size
                each = len(node.accelerators) // islands
                carried = rate_text(carried_Bps)
                source = f"NCCL's rings carry {carried} from GPU to GPU: {node.file}"
                return DumpedRate(carried_Bps / each, source)
            if node.pcie_Bps:
                return DumpedRate(
                    node.pcie_Bps, f"link_speed and link_width of a slot: {node.file}"
                )
            usual_Bps = usual_host(node.model).slot_Bps
            if usual_Bps is None:
                return None
            what = said("usual-slot", rate=rate_text(usual_Bps), model=node.model)
            return DumpedRate(usual_Bps, what, what)
        case "xgmi":
            each_Bps = load_fabric(base).tiers[0].bandwidth
            links = f"{counted(inner.links, 'link')} a pair"
            source = f": {base}"
        case "nvlink":
            model = node.model or (load_fabric(base).device or "").upper()
            each_Bps = nvlink_Bps(model)
            end = "a GPU" if inner.topology == "star" else "a pair"
            links = f"{counted(inner.links, 'NVLink')} {end}"
            source = ", one way: NVIDIA data sheets"
        case _:
            assert_never(inner.link)
    source = f"{links}: {node.file}; {rate_text(each_Bps)} each{source}"
    whole_Bps = each_Bps * inner.links
    if inner.topology == "star" and carried_Bps is not None and carried_Bps < whole_Bps:
        whole_Bps = carried_Bps
        carried = rate_text(carried_Bps)
        source += f"; NCCL's rings carry {carried} of it"
    return DumpedRate(whole_Bps, source)


def nvlink_Bps(model: str) -> float:
    """One NVLink of a model of GPUs, bytes/s one way."""
    return NVLINK_5_BPS if _NVLINK_5.search(model) else NVLINK_BPS


def rate_text(rate_Bps: float) -> str:
    return f"{rate_Bps / 1e9:.10g}GB/s"


def gbps_text(rate_Bps: float) -> str:
    return f"{8e-9 * rate_Bps:g} Gb/s"
