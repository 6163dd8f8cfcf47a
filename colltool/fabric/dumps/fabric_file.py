"""A fabric file from what dumps tell of nodes and of the network between them.

What no dump tells, latencies above all, is that of the bundled fabric of the usual machine. Where
the scale-up network is of its kind, the file is ``like`` it, and what was told stands under
``set``; else the tiers are written out, each with its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted, parse_rate
from colltool.base.primitives import ceil_div
from colltool.fabric.by_device import CLUSTERS, Known, known
from colltool.fabric.dumps.clos import ClosNetwork, levels_named
from colltool.fabric.dumps.node import InnerTier, NodeDump, inner_tiers, odd_links
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.media import DEVICES, medium_of

Data = dict[str, Any]

_PCIE, _INFINIBAND, _ETHERNET = "l40s-pcie", "dgx-h100", "hgx-h200"
"""Whose tiers stand in for PCIe and for a network that the usual machine has not."""
_WHOSE = {"star": "of an accelerator", "full_mesh": "of a pair", "graph": "of a link"}
_SPINE_S = 6e-6
"""What a further level adds. Source: the shipped dgx-h100."""
_NVLINK_5 = re.compile(r"\bG?B[23]00\b")
NVLINK_BPS, NVLINK_5_BPS = 25e9, 50e9
"""One link, one way, of V100 to H200 and of Blackwell. Source: NVIDIA data sheets of H100 (18: 900
GB/s both ways), B200."""


def fabric_file(
    node: NodeDump | None,
    network: ClosNetwork | None,
    *,
    name: str,
    like: str | None = None,
    nodes: int | None = None,
) -> tuple[Data, list[str]]:
    """The data of a fabric file, and lines for its head.

    Args:
        node, network: what the dumps tell; one of them at least.
        name: of the fabric.
        like: the fabric that stands in for what they do not tell; default: the usual one with such
            accelerators.
        nodes: of the network, where only a node was dumped; default: 1.

    Raises:
        ColltoolError: accelerators that no bundled fabric has and no ``like``; node and network
            that do not fit together.
    """
    if nodes is not None and network is not None:
        raise ColltoolError(
            f"{network.file} tells how many there are: {network.hosts}",
            argument="network_nodes",
            fix=f"leave out {given('network_nodes')}",
        )
    head: Data = {"schema": "colltool.fabric/2", "name": name}
    if node is None:
        assert network is not None, "something was read"
        body = {"tiers": [_network_tier(_outer(like or _INFINIBAND), network=network)]}
        description = f"{counted(network.hosts, 'host')} with {counted(network.ports, 'port')} each"
    else:
        body = _with_node(node, network, like, nodes or 1)
        description = _description(node, network, nodes or 1)
    return {**head, "description": description, **body}, [*_comments(node, network, body)]


def _with_node(node: NodeDump, network: ClosNetwork | None, like: str | None, nodes: int) -> Data:
    base = _stand_in(node, network, like)
    data = fabric_data(base.fabric)
    own = data["tiers"][0]
    inner = inner_tiers(node)
    if not node.links_told:
        inner = (InnerTier(own["name"], own["topology"], len(node.accelerators), links=0),)
    domains = _domains(node, network) if network else nodes
    if (
        len(inner) == 1
        and not inner[0].edges
        and (inner[0].link, inner[0].topology) == (own["name"], own["topology"])
    ):
        return {
            **_other_device(node, data, like),
            **_like(node, inner[0], network, base, data, domains),
        }
    tiers = [_inner_tier(node, one, base) for one in inner]
    if node.nics or network:
        outer = _outer(_INFINIBAND if _is_infiniband(node, network) else _ETHERNET)
        tiers.append(_network_tier(outer, node=node, network=network, nodes=domains))
    device = _device(node.model)
    return {
        **({"device": device} if device in DEVICES else {}),
        "tiers": tiers,
        **_launch(base.fabric, data),
    }


def _other_device(node: NodeDump, data: Data, like: str | None) -> Data:
    """The key ``device`` where the stand-in's is another, or nobody knows."""
    device, own = _device(node.model), str(data.get("device"))
    if (
        not node.links_told
        or (like is not None and known(node.model) is None)
        or (device and own.startswith(device))
    ):
        return {}
    return {"device": device if device in DEVICES else None}


def _is_infiniband(node: NodeDump, network: ClosNetwork | None) -> bool:
    return (network is not None and network.infiniband) or any(
        nic.infiniband for nic in node.fast_nics
    )


def _device(model: str) -> str | None:
    """``NVIDIA H100 PCIe`` as fabrics call it."""
    found = re.search(r"\b[A-Z]{1,2}\d{2,3}[A-Z]?\b", model)
    return found[0].lower() if found else None


def _stand_in(node: NodeDump, network: ClosNetwork | None, like: str | None) -> Known:
    if like is not None:
        return Known("", like)
    if not node.links_told:
        what = (
            "has no <gpu> elements, as files for NCCL_TOPO_FILE: it does not tell which links join"
            " them"
        )
        raise ColltoolError(
            what,
            where=node.file,
            fix=f"dump a running job's, or name such a machine: {given('like', 'dgx-a100')}",
        )
    found = known(node.model)
    if inner_tiers(node)[0].link == "pcie":
        return found if found is not None and found.fabric.endswith("-pcie") else Known("", _PCIE)
    if found is None:
        what = (
            "does not tell which accelerators it has, or colltool knows none such"
            f" ({node.model or 'no name'})"
        )
        raise ColltoolError(
            what, where=node.file, fix=f"name a fabric of such: {given('like', 'dgx-h100')}"
        )
    if (node.nics or network) and found.fabric in CLUSTERS:
        return found._replace(fabric=CLUSTERS[found.fabric])
    return found


def _like(
    node: NodeDump,
    inner: InnerTier,
    network: ClosNetwork | None,
    base: Known,
    data: Data,
    domains: int,
) -> Data:
    """A fabric that is the stand-in but for what was told."""
    own, tiers = data["tiers"][0], data["tiers"]
    key = own["name"]
    changes: Data = dict(one.split("=") for one in base.differs)
    changes |= {
        f"{key}.size": inner.size,
        f"{key}.source.size": f"{counted(inner.size, 'accelerator')}: {node.file}",
    }
    if inner.size > int(changes.get(f"{key}.max_size", own.get("max_size", inner.size))):
        changes[f"{key}.max_size"] = inner.size
    if (told := _link_rate(node, inner, base.fabric)) is not None:
        changes |= {f"{key}.bandwidth": _rate(told[0]), f"{key}.source.bandwidth": told[1]}
    library = data.get("library")
    if isinstance(library, dict) and node.cpu and library.get("cpu", node.cpu) != node.cpu:
        changes["library.cpu"] = node.cpu
    body: Data = {"like": base.fabric}
    if len(tiers) > 1:
        changes |= _network_changes(tiers[-1], base.fabric, node, network, domains)
    elif node.nics or network:
        outer = _outer(_INFINIBAND if _is_infiniband(node, network) else _ETHERNET)
        return {
            **body,
            "set": changes,
            "tiers": [_network_tier(outer, node=node, network=network, nodes=domains)],
        }
    return {**body, "set": changes}


def _network_changes(
    tier: Data, base: str, node: NodeDump, network: ClosNetwork | None, domains: int
) -> Data:
    """What is told of the outermost tier of the stand-in."""
    key, outer = tier["name"], {**tier, "of": base}
    made = _network_tier(outer, node=node, network=network, nodes=domains)
    changes: Data = {f"{key}.size": domains}
    if _rank_rate(node, network, outer) is not None:
        changes |= {
            f"{key}.bandwidth": made["bandwidth"],
            f"{key}.source.bandwidth": made["source"]["bandwidth"],
        }
    if network is not None:
        changes |= {f"{key}.levels": made["levels"], f"{key}.sizing": made["sizing"]}
        switch = tier.get("in_network")
        if switch and network.reduces is False:
            changes |= {
                f"{key}.in_network.{what}": False
                for what in ("reduce", "multicast")
                if switch.get(what)
            }
            changes[f"{key}.in_network.source.reduce"] = (
                f"no aggregation node answers: {network.file}"
            )
        if switch and (switch.get("levels") or 1) > len(network.levels):
            changes[f"{key}.in_network.levels"] = len(network.levels)
    elif domains > (last := tier["levels"][-1])["group"]:
        group = tier["levels"][-2]["group"] if len(tier["levels"]) > 1 else 1
        changes[f"{key}.levels.{last['name']}.group"] = ceil_div(domains, group) * group
    if key == "roce" and _is_infiniband(node, network):
        changes[f"{key}.name"] = "ib"
    return changes


def _outer(fabric: str) -> Data:
    """The outermost tier of a fabric as a stand-in."""
    return {**fabric_data(fabric)["tiers"][-1], "of": fabric}


def _network_tier(
    outer: Data,
    *,
    node: NodeDump | None = None,
    network: ClosNetwork | None,
    nodes: int | None = None,
) -> Data:
    """A Clos tier with the rates and levels that were told, and the latencies of a stand-in."""
    source = {"size": f"{network.tool}: {network.file}"} if network else {}
    made: Data = {
        "name": outer["name"],
        "topology": "clos",
        "size": nodes or (network.hosts if network else 1),
    }
    rate = _rank_rate(node, network, outer)
    made["bandwidth"] = _rate(rate[0]) if rate else outer["bandwidth"]
    source["bandwidth"] = rate[1] if rate else f"not told; of {outer['of']}"
    if node is None and network is not None and network.ports > 1:
        made["ports"] = network.ports
    made["eta"] = outer["eta"]
    source["eta"] = f"not told; of {outer['of']}"
    if network is None:
        alpha = outer["levels"][0]["alpha"]
        return {
            **made,
            "alpha": alpha,
            "source": {**source, "alpha": f"not told; of a leaf of {outer['of']}"},
        }
    made["levels"] = [*_levels(outer, network, network.hosts // (nodes or network.hosts))]
    made["sizing"] = {
        "rails": network.rails,
        "nics_per_rail": max(1, network.ports // network.rails),
        "radix": network.radix,
    }
    if nodes and network.hosts > nodes:
        made["sizing"]["nics_per_rail"] *= network.hosts // nodes
    return {**made, "source": source}


def _levels(outer: Data, network: ClosNetwork, hosts_each: int) -> Iterator[Data]:
    from colltool.base.formatting import parse_time

    first, *others = (parse_time(one["alpha"]) for one in outer["levels"])
    step = others[0] - first if others else _SPINE_S
    of = f"not told; of {outer['of']}"
    for at, (name, level) in enumerate(
        zip(levels_named(len(network.levels)), network.levels, strict=True)
    ):
        if level.group % hosts_each:
            raise ColltoolError(
                f"{level.group} hosts under a {name} are no whole domains of {hosts_each}",
                where=network.file,
                fix="give the dump of one host",
            )
        made: Data = {
            "name": name,
            "group": level.group // hosts_each,
            "alpha": f"{(first + at * step) * 1e6:g}us",
        }
        if at:
            plain = int(level.uplinks) if level.uplinks == int(level.uplinks) else level.uplinks
            made["oversubscription"] = plain if len(network.levels) == 2 else {"uplinks": plain}
        yield {
            **made,
            "source": {"group": f"{level.switches} of its switches: {network.file}", "alpha": of},
        }


def _rank_rate(
    node: NodeDump | None, network: ClosNetwork | None, outer: Data
) -> tuple[float, str] | None:
    """Bytes/s of a rank's share of its node's NICs, and who says so; None where nobody does."""
    if network is not None:
        ranks = len(node.accelerators) // node.hosts if node else 1
        said = f"{counted(network.ports, 'port')} of {8e-9 * network.port_Bps:g} Gb/s"
        if node is None:
            return network.port_Bps, f"{said}: {network.file}"
        return (
            network.ports * network.port_Bps / ranks,
            f"{said} for {counted(ranks, 'accelerator')}: {network.file}",
        )
    nics = node.fast_nics if node else ()
    if node is None or not nics:
        return None
    ranks, each = len(node.accelerators), nics[0].rate_Bps or parse_rate(outer["bandwidth"])
    said = (
        f"{counted(len(nics), 'NIC')} of {8e-9 * each:g} Gb/s for {counted(ranks, 'accelerator')}:"
        f" {node.file}"
    )
    if nics[0].rate_Bps is None:
        said += f"; their rate is not told, taken as of {outer['of']}"
    return len(nics) * each / ranks, said


def _domains(node: NodeDump, network: ClosNetwork) -> int:
    if network.hosts % node.hosts:
        raise ColltoolError(
            f"{network.hosts} hosts are no whole domains of the {node.hosts} of {node.file}",
            where=network.file,
            fix="give the dump of one host",
        )
    return network.hosts // node.hosts


def _link_rate(node: NodeDump, inner: InnerTier, base: str) -> tuple[float, str] | None:
    """Bytes/s of a port to switches, or of a pair's links, and where that is from."""
    if node.link_Bps is not None and inner.link != "pcie":
        return node.link_Bps, f"{_WHOSE[inner.topology]}: {node.file}"
    if not inner.links or not node.counts_told:
        return None
    if inner.link == "pcie":
        return (
            (node.pcie_Bps, f"link_speed and link_width of a slot: {node.file}")
            if node.pcie_Bps
            else None
        )
    if inner.link == "xgmi":
        each = load_fabric(base).tiers[0].bandwidth
        said = f"{counted(inner.links, 'link')} a pair: {node.file}; {_rate(each)} each: {base}"
        return each * inner.links, said
    each = (
        NVLINK_5_BPS
        if _NVLINK_5.search(node.model or (load_fabric(base).device or "").upper())
        else NVLINK_BPS
    )
    whose = "a GPU" if inner.topology == "star" else "a pair"
    return (
        each * inner.links,
        (
            f"{counted(inner.links, 'NVLink')} {whose}: {node.file}; {_rate(each)} each, one way:"
            " NVIDIA data sheets"
        ),
    )


def _inner_tier(node: NodeDump, inner: InnerTier, base: Known) -> Data:
    """A tier inside the node, written out."""
    of = _PCIE if inner.link == "pcie" else base.fabric
    tier = fabric_data(of)["tiers"][0]
    told = _link_rate(node, inner, of)
    if told is None and tier["topology"] != inner.topology:
        what = (
            f"does not tell one bandwidth of its {inner.link} links, and {of} has no"
            f" {inner.topology} of them"
        )
        raise ColltoolError(
            what, where=node.file, fix="give their bandwidth, or a dump of nccl-topo"
        )
    rate, said = (_rate(told[0]), told[1]) if told else (tier["bandwidth"], f"not told; of {of}")
    made: Data = {"name": inner.link, "topology": inner.topology}
    made |= {} if inner.edges else {"size": inner.size}
    made |= {"alpha": tier["alpha"], "bandwidth": rate, "eta": tier["eta"]}
    if (medium := medium_of(None, inner.link, parse_rate(rate), node.model)) is not None:
        made["medium"] = medium.name
    if inner.edges:
        made["edges"] = [
            [*pair] if links == 1 else {"between": [*pair], "links": links}
            for pair, links in inner.edges
        ]
    other = "" if tier["topology"] == inner.topology else f", a {tier['topology']}"
    marks = f"not told; of {of}{other}"
    return {**made, "source": {"bandwidth": said, "alpha": marks, "eta": marks}}


def _launch(base: str, data: Data) -> Data:
    if "launch_overhead" not in data:
        return {}
    return {
        "launch_overhead": data["launch_overhead"],
        "source": {"launch_overhead": f"not told; of {base}"},
    }


def _rate(rate_Bps: float) -> str:
    return f"{rate_Bps / 1e9:.10g}GB/s"


def _description(node: NodeDump, network: ClosNetwork | None, nodes: int) -> str:
    count = network.hosts if network else nodes * node.hosts
    each = len(node.accelerators) // node.hosts
    return (
        f"{counted(count, 'node')} of"
        f" {f'{each} {node.model}' if node.model else counted(each, 'accelerator')}"
    )


def _comments(node: NodeDump | None, network: ClosNetwork | None, body: Data) -> Iterator[str]:
    files = dict.fromkeys(f"{one.file} ({one.tool})" for one in (node, network) if one)
    yield f"Read from {' and '.join(files)} by colltool fabric import."
    if "like" in body:
        yield (
            "What they tell stands under set. All else, alpha and eta above all, is that of"
            f" {body['like']}."
        )
    else:
        yield (
            "What they do not tell, alpha and eta above all, is marked as not told: measure it,"
            " colltool guide measurements."
        )
    if node is not None and network is None:
        yield (
            "Levels of switches are not told: colltool fabric import with an ibnetdiscover beside"
            " it, or by hand."
        )
    for said in (*(node.notes if node else ()), *(odd_links(node) if node else ())):
        yield f"Note: {said}"
    for left in network.notes if network else ():
        yield f"Left out: {left}"
