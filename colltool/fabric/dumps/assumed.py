"""What a fabric file of dumps assumes: neither they nor the user told it."""

from __future__ import annotations

from typing import Any

from colltool.fabric.bundled_for import DeviceMatch
from colltool.fabric.dumps.link_rates import link_rate
from colltool.fabric.dumps.node import NodeDump, inner_tiers
from colltool.fabric.dumps.pci import usual_host
from colltool.fabric.dumps.rates import DumpedMachine, StandIn
from colltool.fabric.dumps.sentences import said
from colltool.fabric.load import fabric_data

_MEDIUM_NAMES = {"ib": "InfiniBand", "roce": "RoCE", "efa": "EFA", "socket": "sockets"}
# A host with more accelerators is several, whose links are one network.
_MOST_OF_A_HOST = 16


def assumed_of_node(
    node: NodeDump, dumps: DumpedMachine, base: DeviceMatch, body: dict[str, Any]
) -> list[str]:
    """Return what neither the dumps nor the user told, what matters most first."""
    scale_up, *others = fabric_data(base.fabric)["tiers"]
    assumed = []
    usual = _usual_links(node)
    joined = bool(node.pairs) or any(node.to_switch)
    # links that are down, or that a virtual machine hides
    if usual is not None and not joined:
        assumed.append(said("no-nvlink", model=node.model, links=usual))
    stand_ins = [base.fabric]
    is_like = "like" in body
    outer = dumps.outer()
    if is_like and others:
        outer = StandIn(base.fabric, others[-1])
    if dumps.has_network or (is_like and others and dumps.size > 1):
        assumed += assumed_of_network(dumps, outer)
        stand_ins.append(outer.fabric)
    assumed += node.assumed
    if node.has_links:
        assumed += _assumed_of_links(node, base)
    else:
        assumed.append(said("links-of", key=scale_up["name"], fabric=base.fabric))
    # links of a rack join several hosts, of which one was dumped
    if is_like and node.hosts == 1 and scale_up.get("size", 1) > _MOST_OF_A_HOST:
        count = len(node.accelerators)
        assumed.append(
            said(
                "one-host",
                key=scale_up["name"],
                count=count,
                fabric=base.fabric,
            )
        )
    assumed.append(said("stand-in", fabrics=" and ".join(dict.fromkeys(stand_ins))))
    return assumed


def assumed_of_network(dumps: DumpedMachine, outer: StandIn) -> list[str]:
    """Return what was assumed of the network between nodes."""
    key = dumps.network_name(outer)
    fabric = outer.fabric
    found = []
    rate = dumps.rate()
    if rate is None:
        found.append(said("network-of", key=key, fabric=fabric))
    elif rate.assumed:
        found.append(said("rate", key=key, what=rate.assumed))
    own = str(outer.tier.get("medium", outer.tier["name"]))
    medium = _MEDIUM_NAMES.get(own, own)
    if not dumps.medium:
        found.append(
            said(
                "medium-unknown",
                key=key,
                medium=medium,
                fabric=fabric,
            )
        )
    elif (dumps.medium, own) == ("roce", "ib"):
        found.append(
            said(
                "medium-unlike",
                key=key,
                medium=medium,
                fabric=fabric,
            )
        )
    if dumps.network is not None:
        found += dumps.network.assumed
    return found


def _assumed_of_links(node: NodeDump, base: DeviceMatch) -> list[str]:
    """What was assumed of the outermost links in a node."""
    innermost = inner_tiers(node)[-1]
    rate = link_rate(node, innermost, base.fabric)
    if rate is None or not rate.assumed:
        return []
    return [said("rate", key=innermost.link, what=rate.assumed)]


def _usual_links(node: NodeDump) -> int | None:
    """The NVLinks that the accelerators should have to each other. None if unknown or none."""
    if not node.has_links or len(node.accelerators) == 1:
        return None
    return usual_host(node.model).links


def few_links(node: NodeDump) -> list[str]:
    """Return a note if the accelerators have fewer NVLinks to switches than their model."""
    usual = _usual_links(node)
    most = max(node.to_switch, default=0)
    if usual is None or not 0 < most < usual:
        return []
    return [
        said(
            "few-links",
            model=node.model,
            links=usual,
            most=most,
        )
    ]
