"""The tiers of a fabric file written out from dumps, each number with its source:
:func:`inner_tier` inside a node, :func:`network_tier` between nodes.

Numbers that no dump has are those of a :class:`~colltool.fabric.dumps.rates.StandIn`.
"""

from __future__ import annotations

from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.formatting import parse_rate, parse_time
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.link_rates import link_rate
from colltool.fabric.dumps.node import InnerTier, NodeDump
from colltool.fabric.dumps.rates import OTHER_MEDIA, Data, DumpedMachine, StandIn
from colltool.fabric.dumps.usual_machine import PCIE
from colltool.fabric.load import fabric_data
from colltool.fabric.media import medium_of
from colltool.fabric.tier_line import uplink_ratio
from colltool.network.sizing.size_clos import level_names

# Seconds that each further level adds where the stand-in has one level. Source: the shipped dgx-h100.
_SPINE_S = 6e-6


def inner_tier(node: NodeDump, inner: InnerTier, base: str) -> Data:
    """Return a tier inside a node; ``base``: the bundled fabric whose innermost tier is the stand-in (of
    PCIe always that of ``PCIE``).

    Raises:
        ColltoolError: no bandwidth is known for links that join the accelerators otherwise than in
            the stand-in.
    """
    fabric = PCIE if inner.link == "pcie" else base
    stand_in = StandIn(fabric, fabric_data(fabric)["tiers"][0])
    usual = stand_in.tier
    is_usual_topology = usual["topology"] == inner.topology
    bandwidth = usual["bandwidth"]
    bandwidth_source = stand_in.source
    rate = link_rate(node, inner, fabric)
    if rate is not None:
        bandwidth = rate.text
        bandwidth_source = rate.source
    elif not is_usual_topology:
        what = (
            f"does not tell one bandwidth of its {inner.link} links, and {fabric} has no"
            f" {inner.topology} of them"
        )
        raise ColltoolError(
            what, where=node.file, fix="give their bandwidth, or a dump of nccl-topo"
        )
    tier: Data = {"name": inner.link, "topology": inner.topology}
    # a graph has as many endpoints as its edges name
    if not inner.edges:
        tier["size"] = inner.size
    tier |= {"alpha": usual["alpha"], "bandwidth": bandwidth, "eta": usual["eta"]}
    medium = medium_of(None, inner.link, parse_rate(bandwidth), node.model)
    if medium is not None:
        tier["medium"] = medium.name
    if inner.edges:
        tier["edges"] = _edges(inner)
    source = stand_in.source
    if not is_usual_topology:
        source += f", a {usual['topology']}"
    tier["source"] = {"bandwidth": bandwidth_source, "alpha": source, "eta": source}
    return tier


def _edges(inner: InnerTier) -> list[Any]:
    """The key ``edges`` of a graph: ``[0, 1]``, or a mapping where a pair has several links."""
    edges: list[Any] = []
    for pair, links in inner.edges:
        edge: Any = list(pair)
        if links > 1:
            edge = {"between": edge, "links": links}
        edges.append(edge)
    return edges


def network_tier(dumps: DumpedMachine, outer: StandIn) -> Data:
    """Return a Clos tier with the rates and levels of the dumps, and the rest of a stand-in, whose
    ``name`` it has too.

    Raises:
        ColltoolError: a switch of the network joins no whole number of the endpoints.
    """
    network = dumps.network
    tier: Data = {"name": outer.tier["name"], "topology": "clos", "size": dumps.size}
    tier["bandwidth"] = outer.tier["bandwidth"]
    source = {"bandwidth": outer.source, "eta": outer.source}
    rate = dumps.rate()
    if rate is not None:
        tier["bandwidth"] = rate.text
        source["bandwidth"] = rate.source
    # where no node was dumped the endpoints are hosts, with all their ports; else the rate is a rank's
    # share of them
    if dumps.node is None and network is not None and (network.ports or 1) > 1:
        tier["ports"] = network.ports
    tier["eta"] = outer.tier["eta"]
    if dumps.medium in OTHER_MEDIA:
        tier["medium"] = dumps.medium
    if network is None:
        # a tier without levels has its alpha itself
        leaf = outer.tier.get("levels", [outer.tier])[0]
        tier["alpha"] = leaf["alpha"]
        source["alpha"] = f"not told; of a leaf of {outer.fabric}"
    else:
        source = {"size": f"{network.tool}: {network.file}", **source}
        # an endpoint is several hosts where NVLinks join them, as in NVL72
        hosts_each = network.hosts // dumps.size
        tier["levels"] = _levels(outer, network, hosts_each)
        if network.radix is not None and network.ports is not None:
            nics_per_rail = max(1, network.ports // network.rails)
            tier["sizing"] = {
                "rails": network.rails,
                "nics_per_rail": nics_per_rail * hosts_each,
                "radix": network.radix,
            }
    tier["source"] = source
    return tier


def _levels(outer: StandIn, network: ClosNetwork, hosts_each: int) -> list[Data]:
    """The levels of a Clos, bottom up, whose endpoints have ``hosts_each`` hosts.

    The leaf has the alpha of the stand-in's, and each level above adds what its second one adds. A
    stand-in for a network with levels has levels itself (``_check_like`` of ``fabric_file``).
    """
    # seconds of alpha, bottom up
    leaf_s, *higher_s = (parse_time(level["alpha"]) for level in outer.tier["levels"])
    step_s = _SPINE_S
    if higher_s:
        step_s = higher_s[0] - leaf_s
    levels: list[Data] = []
    for name, dumped in zip(level_names(len(network.levels)), network.levels, strict=True):
        if dumped.group % hosts_each:
            what = f"{dumped.group} hosts under a {name} are no whole domains of {hosts_each}"
            raise ColltoolError(what, where=network.file, fix="give the dump of one host")
        alpha_us = (leaf_s + len(levels) * step_s) * 1e6
        level: Data = {
            "name": name,
            "group": dumped.group // hosts_each,
            "alpha": f"{alpha_us:g}us",
        }
        # nothing enters the first level from below
        if levels:
            level["oversubscription"] = uplink_ratio(dumped.oversubscription, len(network.levels))
        switches = f"{dumped.switches} of its switches: {network.file}"
        level["source"] = {"group": switches, "alpha": outer.source}
        levels.append(level)
    return levels
