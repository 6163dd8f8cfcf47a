"""A bundled fabric as what logs were measured on: of their sizes, with the network and the P2P that
the logs, the user or the times name, and a statement of how each is known.

:func:`assumed_fabric` is the entry. Machines of one host in the bundled files are hosts of a
network where several ran: :func:`source_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

from colltool.base.errors import argument_text
from colltool.base.primitives import ceil_div
from colltool.base.statements import Statement
from colltool.calibration.log_fits import MOST_IN_A_HOST
from colltool.definitions.overrides import Overrides
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.networks import (
    NetworkMatch,
    matching_network,
    nics_of,
    per_host,
    share_reached,
)
from colltool.diagnosis.results import AssumedFabric
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.thresholds import FASTER
from colltool.estimate.interval import is_network
from colltool.fabric.bundled_for import CLUSTERS, DeviceMatch
from colltool.fabric.library_numbers import with_p2p
from colltool.fabric.load import FabricSource, fabric_data, load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import p2p_unknown
from colltool.fabric.variants import bandwidth_values

_P2P_WORKS = argument_text("overrides", ["library.p2p=true"])
# the fastest usual NIC of a host of PCIe cards, 400 Gbit/s; slower ones are found by the times
HOST_NIC_BPS = 50e9
# GPUs of a rack of 72 on which jobs of several racks run
USED_OF_RACK = 64


class MachineFabric(NamedTuple):
    """The fabric that logs are compared with, and how it was found."""

    fabric: Fabric
    assumed: AssumedFabric


class _KnownNetwork(NamedTuple):
    """The fabric with the network that the user, NCCL or the times name, and how it is known."""

    fabric: Fabric
    how: Statement
    match: NetworkMatch | None = None  # the usual NICs, if the times tell them, else None


def assumed_fabric(
    machine: DeviceMatch, seen: Evidence, overrides: Overrides, said: Sequence[Statement]
) -> MachineFabric:
    """A bundled fabric with the sizes and the network of the logs.

    Args:
        machine: the fabric's name, and how the named device differs from its own.
        overrides: the user's.
        said: what is known of the machine already, which comes first in what is said.
    """
    source = source_of(machine.fabric, seen)
    fabric, sizes = _resized_fabric(machine, source, seen, overrides)
    statements = [*said, *(statement("measured-size", size=size) for size in sizes)]
    if p2p_unknown(fabric):
        works, how = _peer_access(fabric, seen)
        statements.append(how)
        if works is not None:
            peers = {"library.p2p": str(works).lower()}
            fabric = load_fabric(source, {**dict(fabric.overrides), **peers})
    assumed = AssumedFabric(
        fabric=machine.fabric,
        overrides=(),
        devices=seen.named.devices,
        hosts=seen.named.hosts,
        said=(),
    )
    # inside one host nothing is known of the network, and nothing needed
    if len(fabric.tiers) > 1 and seen.most_ranks > per_host(fabric):
        network = _with_network(fabric, source, seen)
        statements.append(network.how)
        assumed = assumed._replace(own=nics_of(fabric))
        if network.match is not None:
            factor = network.fabric.tiers[-1].bandwidth / fabric.tiers[-1].bandwidth
            assumed = assumed._replace(
                network=network.match.said,
                network_share=network.match.share,
                network_factor=factor,
            )
        fabric = network.fabric
    assumed = assumed._replace(overrides=fabric.overrides, said=tuple(statements))
    return MachineFabric(fabric, assumed)


def _with_network(fabric: Fabric, source: FabricSource, seen: Evidence) -> _KnownNetwork:
    """The network between hosts, by the first that names it: the user, NCCL's lines, the times; the
    fabric's own where none does."""
    outer = fabric.tiers[-1]
    for key, _ in fabric.overrides:
        if key.startswith(f"{outer.name}.") and not key.endswith(".size"):
            return _KnownNetwork(fabric, statement("network-given", tier=outer.name))
    debug = seen.debug
    if debug.nics and debug.nic_GBps:
        rate_Bps = len(debug.nics) * debug.nic_GBps * 1e9 / per_host(fabric)
        how = statement("network-logged", nics=len(debug.nics), rate=debug.nic_GBps)
        return _KnownNetwork(_with_rate(fabric, source, rate_Bps), how)
    match = matching_network(fabric, seen.on(fabric).series)
    names = {"fabric": fabric.name, "tier": outer.name}
    if match is None:
        return _KnownNetwork(fabric, statement("network-assumed", **names))
    how = statement("network-fits", network=match.said, own=nics_of(fabric), **names)
    return _KnownNetwork(_with_rate(fabric, source, match.fabric.tiers[-1].bandwidth), how, match)


def _with_rate(fabric: Fabric, source: FabricSource, rate_Bps: float) -> Fabric:
    """The fabric of a source with another bandwidth of its outermost tier."""
    outer = fabric.tiers[-1]
    rates = bandwidth_values(outer, rate_Bps / outer.bandwidth)
    return load_fabric(source, {**dict(fabric.overrides), **rates})


class _HostNetwork(NamedTuple):
    """A usual network between hosts of PCIe cards."""

    medium: str
    tier: str  # its name in the fabric
    alpha_us: int  # of a port
    rate_share: float  # of the line's that messages get


_SOCKETS = _HostNetwork("socket", tier="tcp", alpha_us=15, rate_share=0.94)
_EFA = _HostNetwork("efa", tier="efa", alpha_us=10, rate_share=0.93)
_INFINIBAND = _HostNetwork("ib", tier="ib", alpha_us=2, rate_share=0.93)


def source_of(name: str, seen: Evidence) -> FabricSource:
    """The bundled fabric of that name, or that of a cluster of it where more ranks ran than it has.
    Where it is a single host and several hosts ran, the data of such hosts on a network."""
    if seen.most_ranks > load_fabric(name).ranks:
        name = CLUSTERS.get(name, name)
    fabric = load_fabric(name)
    hosts = seen.most_hosts
    has_network = len(fabric.tiers) > 1 or is_network(fabric, fabric.tiers[0])
    if has_network or hosts < 2:
        return name
    network = _INFINIBAND
    if seen.debug.on_sockets:
        network = _SOCKETS
    elif "libfabric" in seen.debug.network.lower():
        network = _EFA
    # the cards of a host share its NICs
    ranks_of_host = min(seen.ranks_per_host, default=fabric.tiers[0].endpoints)
    tier = {
        "name": network.tier,
        "topology": "star",
        "medium": network.medium,
        "size": hosts,
        "alpha": f"{network.alpha_us}us",
        "bandwidth": f"{HOST_NIC_BPS / 1e9 / ranks_of_host:.12g}GB/s",
        "eta": {"beta": network.rate_share},
    }
    data = deepcopy(fabric_data(name))
    data["tiers"].append(tier)
    return data


def _peer_access(fabric: Fabric, seen: Evidence) -> tuple[bool | None, Statement]:
    """Whether cards in PCIe slots reach each other's memory, None where nothing tells; and how that
    is known: from the logs, else from the times."""
    debug = seen.debug
    if debug.connections("P2P"):
        return True, statement("peers-logged")
    is_copied = debug.connections("SHM") or debug.connections("P2P refused")
    if is_copied or ("NCCL_P2P_DISABLE", "1") in debug.env:
        return False, statement("no-peers-logged")
    through_host = with_p2p(fabric, works=False)
    largest_share = 0.0  # of the price of copies through host memory
    for series in seen.on(through_host).series:
        largest_share = max(largest_share, share_reached(through_host, series) or 0.0)
    # such copies reach no more than that of their price
    if largest_share > FASTER:
        return True, statement("peers-by-times")
    if largest_share:
        return False, statement("no-peers-by-times", argument=_P2P_WORKS)
    return None, statement("peers-unknown", argument=_P2P_WORKS)


def _resized_fabric(
    machine: DeviceMatch, source: FabricSource, seen: Evidence, overrides: Overrides
) -> tuple[Fabric, list[str]]:
    """A bundled fabric of the sizes that ran, and those that differ from its own as overrides. What
    the user overrides comes last, and so wins."""
    as_shipped = load_fabric(source, list(machine.differs))
    sizes = _sizes(as_shipped, seen)
    our_overrides = [*machine.differs, *sizes]
    if isinstance(overrides, Mapping):
        merged = {**dict(load_fabric(source, our_overrides).overrides), **overrides}
        return load_fabric(source, merged), sizes
    return load_fabric(source, [*our_overrides, *overrides]), sizes


def _sizes(fabric: Fabric, seen: Evidence) -> list[str]:
    """Overrides such as ``nvlink.size=4`` for the innermost and outermost tier, where the logs ran
    on other sizes; traced ranks fill host after host."""
    inner = fabric.tiers[0]
    ranks = seen.most_ranks
    if len(fabric.tiers) == 1:
        # hosts of one device each, joined by nothing but a network
        if ranks <= inner.endpoints or not is_network(fabric, inner):
            return []
        return [f"{inner.name}.size={ranks}", f"{inner.name}.max_size={ranks}"]
    if inner.endpoints > MOST_IN_A_HOST:
        # racks of 72: 48, 72 and 144 ranks fill them, 128 are two racks used as 64
        if ranks <= inner.endpoints or ranks % inner.endpoints == 0:
            return []
        return [] if ranks % USED_OF_RACK else [f"{inner.name}.size={USED_OF_RACK}"]
    host_sizes = seen.ranks_per_host
    # runs on hosts of different sizes say nothing of the machine's
    if len(host_sizes) > 1:
        return []
    size = inner.endpoints
    if host_sizes:
        (host_size,) = host_sizes
        size = min(host_size, max(size, inner.max_size or 0))
    hosts = max(ceil_div(ranks, size), seen.most_hosts)
    sizes = []
    if size != inner.endpoints:
        sizes.append(f"{inner.name}.size={size}")
    outer = fabric.tiers[-1]
    if hosts > outer.endpoints:
        sizes.append(f"{outer.name}.size={hosts}")
    return sizes
