"""A rank's share of a network as the dumps of a machine state it: :meth:`DumpedMachine.rate`.

The links inside a node: :mod:`colltool.fabric.dumps.link_rates`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.base.formatting import counted, parse_rate
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.nics import Nic, together_Bps
from colltool.fabric.dumps.node import NodeDump, NodeSearch
from colltool.fabric.dumps.pci import usual_host
from colltool.fabric.dumps.sentences import sentence_of
from colltool.fabric.load import fabric_data

Data = dict[str, Any]

INFINIBAND_FABRIC = "dgx-h100"
# The fabric whose outermost tier stands in for a network that the usual machine does not have, by the
# network's medium.
_NETWORKS = {
    "ib": INFINIBAND_FABRIC,
    "roce": "hgx-h200",
    "efa": "aws-p5",
    "slingshot": "gh200",
    "socket": "sockets",
}
# The names of tiers of media whose numbers are unlike those of InfiniBand and RoCE.
OTHER_MEDIA = {"efa": "efa", "slingshot": "slingshot", "socket": "tcp"}


class DumpedRate(NamedTuple):
    """A bandwidth in bytes/s, one way; where it is from, as the key ``source`` of a fabric file has it; and
    a sentence on what was assumed for it, empty if nothing was."""

    rate_Bps: float
    source: str
    assumed: str = ""

    @property
    def text(self) -> str:
        """The bandwidth as a fabric file has it."""
        return rate_text(self.rate_Bps)


class _NicRate(NamedTuple):
    """Bytes/s, one way, of each NIC whose own rate is unknown, and a sentence on how it was assumed; empty
    if it was stated."""

    each_Bps: float
    assumed: str = ""


class StandIn(NamedTuple):
    """A tier of a bundled fabric whose numbers are taken where no dump has them."""

    fabric: str
    tier: Data

    @property
    def source(self) -> str:
        """The source of a number that is taken."""
        return f"not told; of {self.fabric}"


def outer_tier(fabric: str) -> StandIn:
    """Return the outermost tier of a bundled fabric, the network between nodes."""
    return StandIn(fabric, fabric_data(fabric)["tiers"][-1])


class DumpedMachine(NamedTuple):
    """The dumps of a machine: of a node, of the network, or of both.

    Args:
        node, network: None if not dumped; one of the two was.
        size: endpoints of its outermost tier: nodes, or the domains that NCCL makes of them.
        device: the model of the accelerators: the node's, or that of the fabric it is like, in
            capitals; empty if unknown.
        nic_Bps: the rate of each NIC, one way, if the user stated it.
        like: the fabric that the user named, None if none.
    """

    node: NodeDump | None
    network: ClosNetwork | None
    size: int
    device: str = ""
    nic_Bps: float | None = None
    like: str | None = None

    @property
    def medium(self) -> str:
        """The medium of the network between nodes: InfiniBand if the network's dump says so, else that of
        the first NIC that has one; empty if no dump tells."""
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
        """Return the stand-in for the network between nodes; an unknown medium is taken for RoCE."""
        return outer_tier(_NETWORKS[self.medium or "roce"])

    def network_name(self, outer: StandIn) -> str:
        """Return the name of the tier between nodes: the stand-in's, unless that is of another medium."""
        name = str(outer.tier["name"])
        if self.medium in OTHER_MEDIA and outer.tier.get("medium") != self.medium:
            return OTHER_MEDIA[self.medium]
        # InfiniBand NICs, and the user named a fabric of RoCE
        if name == "roce" and self.medium == "ib":
            return "ib"
        return name

    def rate(self) -> DumpedRate | None:
        """Return a rank's share of what joins its node to the network: of the ports that the network's dump
        lists, else of the node's NICs; None if nothing tells it."""
        network = self.network
        if network is not None and network.port_Bps is not None:
            return self._share_of_ports(network, network.ports or 1, network.port_Bps)
        if self.node is not None:
            return self._share_of_nics(self.node)
        if self.nic_Bps is None:
            return None
        return DumpedRate(self.nic_Bps, "stated: a NIC of a host")

    def _share_of_ports(self, network: ClosNetwork, count: int, port_Bps: float) -> DumpedRate:
        """A rank's share of the ports (``count`` of them) of a host in a network; of a network without a
        node the rate of one port."""
        ports = f"{counted(count, 'port')} of {gbps_text(port_Bps)}"
        if self.node is None:
            return DumpedRate(port_Bps, f"{ports}: {network.file}")
        ranks = len(self.node.accelerators) // self.node.hosts
        source = f"{ports} for {counted(ranks, 'accelerator')}: {network.file}"
        return self._within_node(self.node, DumpedRate(count * port_Bps / ranks, source))

    def _share_of_nics(self, node: NodeDump) -> DumpedRate | None:
        """Each rank's share of the node's NICs; None where no rate is known."""
        rate = self._nic_rate(node.nics)
        if rate is None:
            return None
        ranks = len(node.accelerators)
        # none is listed where the user states the rate: one for each accelerator
        nics = node.nics or (Nic("NIC"),) * ranks
        if self.nic_Bps is not None:
            nics = tuple(nic._replace(rate_Bps=self.nic_Bps) for nic in nics)
        rates_Bps = [nic.rate_Bps or rate.each_Bps for nic in nics]
        ports_Bps = sum(rates_Bps)
        carried_Bps = ports_Bps
        # NCCL's search has looked at the slots
        if node.search is None:
            carried_Bps = together_Bps(nics, rate.each_Bps)
        source = f"{counted(len(nics), 'NIC')} of {gbps_text(min(rates_Bps))}"
        if gbps_text(max(rates_Bps)) != gbps_text(min(rates_Bps)):
            source += f" to {gbps_text(max(rates_Bps))}"
        if carried_Bps < ports_Bps:
            source += f" in slots that carry {carried_Bps / 1e9:g} GB/s of {ports_Bps / 1e9:g}"
        source += f" for {counted(ranks, 'accelerator')}: {node.file}"
        if rate.assumed:
            source += f"; {rate.assumed}"
        return self._within_node(node, DumpedRate(carried_Bps / ranks, source, rate.assumed))

    def _nic_rate(self, nics: tuple[Nic, ...]) -> _NicRate | None:
        """The rate of NICs whose own is unknown: the user's, that of the first NIC by the dump or by its
        model, as usual for the accelerators, or that of the user's ``like``. None if none of these has
        one."""
        if self.nic_Bps is not None:
            return _NicRate(self.nic_Bps, "" if nics else sentence_of("one-nic-each"))
        if not nics:
            return None
        first = nics[0]
        if first.rate_Bps is not None:
            if first.by_model:
                return _assumed_nics(first.rate_Bps, f"as {first.model} by its PCI id")
            return _NicRate(first.rate_Bps)
        usual_Bps = usual_host(self.device).nic_Bps
        if usual_Bps is not None:
            return _assumed_nics(usual_Bps, f"as usual for {self.device}")
        if self.like is not None:
            _, *between_nodes = fabric_data(self.like)["tiers"]
            if between_nodes:
                rate_Bps = parse_rate(between_nodes[-1]["bandwidth"])
                return _assumed_nics(rate_Bps, f"as in {self.like}")
        return None

    def _within_node(self, node: NodeDump, rate: DumpedRate) -> DumpedRate:
        """A rank's share of the NICs, no more than NCCL's rings carry, or where they were not searched
        the slot of the accelerator: of 100 GB/s in a slot of 64 GB/s, 64."""
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
    across_Bps = search.across_Bps
    # where the file states no rate NCCL took 10 Gb/s, which is not what the rings would carry
    if across_Bps is None or rate.assumed:
        return rate
    share_Bps = across_Bps / len(node.accelerators)
    if rate.rate_Bps <= share_Bps:
        return rate
    source = f"{rate.source}; NCCL's rings carry {rate_text(across_Bps)} of it"
    return DumpedRate(share_Bps, source)


def _assumed_nics(each_Bps: float, why: str) -> _NicRate:
    """A rate that no dump states, with the reason for it."""
    return _NicRate(each_Bps, sentence_of("nics", rate=gbps_text(each_Bps), why=why))


def rate_text(rate_Bps: float) -> str:
    """``450GB/s``."""
    return f"{rate_Bps / 1e9:.10g}GB/s"


def gbps_text(rate_Bps: float) -> str:
    """``400 Gb/s``."""
    return f"{8e-9 * rate_Bps:g} Gb/s"
