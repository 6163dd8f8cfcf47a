"""What a fabric file of dumps assumes, because neither they nor the user told it: one sentence of
``sentences`` for each thing, written under the file's key ``assumed``.

:func:`assumed_of_node` is for a file with a node, :func:`assumed_of_network` for one of a network
alone. :func:`few_links` is no assumption but a note for the head of the file.
"""

from __future__ import annotations

from typing import Any

from colltool.fabric.bundled_for import DeviceMatch
from colltool.fabric.dumps.link_rates import link_rate
from colltool.fabric.dumps.node import NodeDump, inner_tiers
from colltool.fabric.dumps.pci import usual_host
from colltool.fabric.dumps.rates import DumpedMachine, StandIn
from colltool.fabric.dumps.sentences import sentence_of
from colltool.fabric.load import fabric_data

# What people call a medium of fabric files.
_MEDIUM_NAMES = {"ib": "InfiniBand", "roce": "RoCE", "efa": "EFA", "socket": "sockets"}
# A scale-up tier of more accelerators is a rack: its links join several hosts.
_MOST_ACCELERATORS_OF_A_HOST = 16


def assumed_of_node(
    node: NodeDump, dumps: DumpedMachine, base: DeviceMatch, body: dict[str, Any]
) -> list[str]:
    """Return what was assumed of a node and of its network if it has one, what matters most first.

    Args:
        node: that of ``dumps``.
        base: the bundled fabric whose numbers are taken where the dumps have none.
        body: the keys of the file: it is ``like`` that fabric, or has tiers of its own.
    """
    scale_up, *between_nodes = fabric_data(base.fabric)["tiers"]
    is_like = "like" in body
    has_network = dumps.has_network
    outer = dumps.outer()
    if is_like and between_nodes:
        # a file that is like a fabric has its network, whether a dump tells of one or not
        outer = StandIn(base.fabric, between_nodes[-1])
        has_network = has_network or dumps.size > 1
    stand_ins = [base.fabric]
    assumed = _assumed_without_nvlink(node)
    if has_network:
        assumed += assumed_of_network(dumps, outer)
        stand_ins.append(outer.fabric)
    assumed += node.assumed
    if node.has_links:
        assumed += _assumed_of_links(node, base)
    else:
        assumed.append(sentence_of("links-of", key=scale_up["name"], fabric=base.fabric))
    # the dump is of one host, and links of a rack join several; a lattice has no size
    is_rack = scale_up.get("size", 1) > _MOST_ACCELERATORS_OF_A_HOST
    if is_like and is_rack and node.hosts == 1:
        assumed.append(
            sentence_of(
                "one-host",
                key=scale_up["name"],
                count=len(node.accelerators),
                fabric=base.fabric,
            )
        )
    assumed.append(sentence_of("stand-in", fabrics=" and ".join(dict.fromkeys(stand_ins))))
    return assumed


def assumed_of_network(dumps: DumpedMachine, outer: StandIn) -> list[str]:
    """Return what was assumed of the network between nodes: its rate, its medium, and what its dump
    does not state. ``outer`` is the tier whose numbers are taken for it."""
    key = dumps.network_name(outer)
    fabric = outer.fabric
    assumed = []
    rate = dumps.rate()
    if rate is None:
        assumed.append(sentence_of("network-of", key=key, fabric=fabric))
    elif rate.assumed:
        assumed.append(sentence_of("rate", key=key, what=rate.assumed))
    # a tier that states no medium has it for a name
    medium = str(outer.tier.get("medium", outer.tier["name"]))
    code = ""
    if not dumps.medium:
        code = "medium-unknown"
    elif dumps.medium == "roce" and medium == "ib":
        code = "medium-unlike"
    if code:
        medium_name = _MEDIUM_NAMES.get(medium, medium)
        assumed.append(sentence_of(code, key=key, medium=medium_name, fabric=fabric))
    if dumps.network is not None:
        assumed += dumps.network.assumed
    return assumed


def few_links(node: NodeDump) -> list[str]:
    """Return a note if every accelerator has fewer NVLinks to switches than its model; empty if not,
    and where the dump lists none at all."""
    usual = _usual_nvlinks(node)
    most = max(node.to_switch, default=0)
    if usual is None or not 0 < most < usual:
        return []
    return [sentence_of("few-links", model=node.model, links=usual, most=most)]


def _assumed_without_nvlink(node: NodeDump) -> list[str]:
    """What is assumed where the model has NVLinks and the dump lists none: PCIe alone. They are down,
    or a virtual machine hides them."""
    usual = _usual_nvlinks(node)
    if usual is None or node.pairs or any(node.to_switch):
        return []
    return [sentence_of("no-nvlink", model=node.model, links=usual)]


def _assumed_of_links(node: NodeDump, base: DeviceMatch) -> list[str]:
    """What was assumed of the bandwidth of the outermost links in a node."""
    outermost = inner_tiers(node)[-1]
    rate = link_rate(node, outermost, base.fabric)
    if rate is None or not rate.assumed:
        return []
    return [sentence_of("rate", key=outermost.link, what=rate.assumed)]


def _usual_nvlinks(node: NodeDump) -> int | None:
    """The NVLinks that each accelerator usually has, by its model. None where the model has none or
    is unknown, where the dump tells of no links, and of a single accelerator."""
    if not node.has_links or len(node.accelerators) == 1:
        return None
    return usual_host(node.model).links
