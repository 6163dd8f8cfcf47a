"""A fabric as an infrastructure of InfraGraph 3, which ASTRA-sim 3 takes as its network: devices,
instances, links and edges.

Schema: infragraph 3.1.0 on PyPI, docs/openapi.yaml. The innermost tier is inside a device,
``node``; tiers around it join the instances of it, by a NIC of each accelerator. In a star or Clos
one switch is in place of all that are parallel; any other tier has its links one by one. Rates are
those of the data sheet, without η. The latency of a path is alpha: half of it on each link where
pairs meet under one switch, the surplus of a higher level on the links that enter it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise, product
from math import ceil, prod
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.extras.interop.infragraph_links import LinkBundle, link_bundles, switch_count
from colltool.fabric.capabilities import DistanceClass
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even

Data = dict[str, Any]

MAX_PORTS = 100_000  # of one switch
MAX_EDGES = 100_000  # in one list of edges
_DESCRIPTION = (
    "By colltool export infragraph: rates and latencies without eta; no protocols, launches or"
    " in-network reduction"
)


def infragraph(fabric: Fabric) -> str:
    """Return the JSON of a fabric's infrastructure, which any reader of YAML takes too.

    Raises:
        ColltoolError: domains of unequal size, or more edges, or ports of a switch, than the limits here.
    """
    check_even(fabric)
    inner, *outer = fabric.tiers
    infrastructure = _Infrastructure(_node(inner, fabric), prod(tier.endpoints for tier in outer))
    nodes = 1  # in an endpoint of the tier, which is all that the tiers within it join
    for tier in outer:
        ports = inner.endpoints * nodes
        if capabilities_of(tier).joined_by == "switches":
            _add_switched_tier(infrastructure, tier, ports, nodes)
        else:
            _add_linked_tier(infrastructure, tier, ports, nodes)
        nodes *= tier.endpoints
    document = {
        "name": fabric.name,
        "description": _DESCRIPTION,
        "devices": infrastructure.devices,
        "links": infrastructure.links,
        "instances": infrastructure.instances,
        "edges": infrastructure.edges,
    }
    return json.dumps(document, indent=1) + "\n"


class _Infrastructure:
    """The lists of an infrastructure while they grow; ``nodes``: how many the fabric has of the
    device ``node``."""

    def __init__(self, node: Data, nodes: int) -> None:
        self.nodes = nodes
        self.devices = [node]
        self.links: list[Data] = []
        self.instances: list[Data] = [{"name": "node", "device": "node", "count": nodes}]
        self.edges: list[Data] = []

    def add_switches(self, name: str, ports: int, count: int, tier: Tier) -> None:
        """Add a switch of so many ports as a device, and ``count`` instances of it; ColltoolError beyond
        ``MAX_PORTS``."""
        if ports > MAX_PORTS:
            what = f"a switch of '{name}' would have {ports} ports, more than {MAX_PORTS}"
            fix = f"take a smaller fabric: {argument_text('overrides', [f'{tier.name}.size=64'])}"
            raise ColltoolError(what, argument="fabric", fix=fix)
        parts = [
            _component("asic", "switch", count=1),
            _component("port", "port", ports),
            _component("uplink", "port", count=1),
        ]
        edges = [_edge("asic", part, "ic", "many2many") for part in ("port", "uplink")]
        self.devices.append(
            {"name": name, "components": parts, "links": [_link("ic")], "edges": edges}
        )
        self.instances.append({"name": name, "device": name, "count": count})


def _component(name: str, choice: str, count: int) -> Data:
    """Components of one name; ``choice``: InfraGraph's word for their kind."""
    return {"name": name, "count": count, "choice": choice}


def _link(name: str, bandwidth_Bps: float | None = None, latency_s: float = 0.0) -> Data:
    """A kind of link; without a bandwidth it takes no time, as inside a switch."""
    if bandwidth_Bps is None:
        return {"name": name}
    rate = {"choice": "gigabytes_per_second", "gigabytes_per_second": bandwidth_Bps / 1e9}
    latency = {"choice": "us", "us": latency_s * 1e6}
    return {"name": name, "physical": {"bandwidth": rate, "latency": latency}}


# Schemes of an edge: "one2one" joins each to its counterpart, "many2many" each to each.


def _edge(a: str, b: str, link: str, scheme: str = "one2one") -> Data:
    """An edge between components of one device, by a link of that name."""
    return {"ep1": {"component": a}, "ep2": {"component": b}, "scheme": scheme, "link": link}


class _EdgeEnd(NamedTuple):
    """Where an edge between instances ends, such as ``node[0:8]`` and ``nic_ib``."""

    instance: str
    component: str


def _between(a: _EdgeEnd, b: _EdgeEnd, link: str, scheme: str = "one2one") -> Data:
    """An edge between instances, by a link of that name."""
    return {
        "ep1": a._asdict(),
        "ep2": b._asdict(),
        "scheme": scheme,
        "link": link,
    }


def _node(tier: Tier, fabric: Fabric) -> Data:
    """The innermost tier as a device: accelerators, their links, and a NIC of each on every outer tier."""
    tier_kind = capabilities_of(tier)
    accelerators = tier.endpoints
    device_name = (fabric.device or fabric.name).upper()
    parts = [{"name": "xpu", "description": device_name, "count": accelerators, "choice": "xpu"}]
    links: list[Data] = []
    edges: list[Data] = []
    switch = f"{tier.name}_switch"
    if accelerators > 1 and tier_kind.joined_by == "switches":
        parts.append(_component(switch, "switch", count=1))
        # one switch in place of a Clos: alpha is that of its farthest pairs (``reached`` goes outwards)
        links.append(
            _link(tier.name, tier.bandwidth * tier.ports, tier_kind.reached[-1].alpha_s / 2)
        )
        edges.append(_edge("xpu", switch, tier.name, "many2many"))
    elif accelerators > 1:
        switches = switch_count(tier)
        if switches:
            parts.append(_component(switch, "switch", switches))
        names = _LinkNames(tier)
        for bundle in link_bundles(tier):
            a = _slice_text(*_place(bundle.near, tier, "xpu"))
            b = _slice_text(*_place(bundle.far, tier, "xpu"))
            _append_edge(edges, _edge(a, b, names.name_of(bundle), _scheme(bundle)), tier)
        links += names.links
    for outer in fabric.tiers[1:]:
        parts.append(_component(f"nic_{outer.name}", "nic", accelerators))
        links.append(_link(f"slot_{outer.name}"))
        edges.append(_edge("xpu", f"nic_{outer.name}", f"slot_{outer.name}"))
    return {"name": "node", "components": parts, "links": links, "edges": edges}


class _LinkNames:
    """The links of a tier, one for each bandwidth and latency."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.names: dict[tuple[float, float], str] = {}
        self.links: list[Data] = []

    def name_of(self, bundle: LinkBundle) -> str:
        """The name of a bundle's link, which is added to the links if it is new."""
        key = bundle.Bps, bundle.alpha_s
        if key not in self.names:
            name = self.tier.name
            if self.names:
                name += f"_{len(self.names) + 1}"
            self.names[key] = name
            self.links.append(_link(name, *key))
        return self.names[key]


def _place(nodes: range, tier: Tier, endpoint: str) -> tuple[str, range]:
    """What these numbers stand for, and their indices: endpoints or, from their count on,
    switches.

    Of a tier of 8 endpoints called torus, 2 to 3 are ("node", 2 to 3) and 8 to 9
    ("torus_switch", 0 to 1).
    """
    endpoints = tier.endpoints
    if nodes.start < endpoints:
        return endpoint, nodes
    return f"{tier.name}_switch", range(nodes.start - endpoints, nodes.stop - endpoints, nodes.step)


def _slice_text(name: str, indices: range) -> str:
    """``node[3]`` or ``node[0:8:2]``."""
    if len(indices) == 1:
        return f"{name}[{indices.start}]"
    step = f":{indices.step}" if indices.step > 1 else ""
    return f"{name}[{indices.start}:{indices.stop}{step}]"


def _scheme(bundle: LinkBundle) -> str:
    """The scheme of an edge that stands for these links."""
    return "many2many" if bundle.all_pairs else "one2one"


def _append_edge(edges: list[Data], edge: Data, tier: Tier) -> None:
    """Append an edge; ColltoolError where there are already as many as ``MAX_EDGES``."""
    if len(edges) >= MAX_EDGES:
        smaller = argument_text("overrides", [f"{tier.name}.KEY=VALUE"])
        raise ColltoolError(
            f"'{tier.name}' would take more than {MAX_EDGES} edges",
            argument="fabric",
            fix=f"take a smaller one: {smaller}, of its size, shape or groups",
        )
    edges.append(edge)


def _add_linked_tier(infrastructure: _Infrastructure, tier: Tier, ports: int, nodes: int) -> None:
    """Add a tier that is no star or Clos; each of its endpoints is ``nodes`` nodes with together
    ``ports`` NICs on it.

    Between two endpoints each NIC has a link of its own to its counterpart; at a switch each has a
    port.
    """
    endpoints = tier.endpoints
    switches = switch_count(tier)
    domains = infrastructure.nodes // (nodes * endpoints)
    names = _LinkNames(tier)
    nic = f"nic_{tier.name}"

    def instances(numbers: range, domain: int) -> str:
        """The instances, counted over all domains, that stand for endpoints or switches of one domain.

        An endpoint is ``nodes`` consecutive instances; a step in ``numbers`` is kept as it is, so only
        consecutive numbers may be endpoints of several nodes.
        """
        name, indices = _place(numbers, tier, "node")
        # an endpoint is several nodes, a switch one instance
        instances_each = 1
        of_domain = switches
        if name == "node":
            instances_each = nodes
            of_domain = endpoints * nodes
        start = domain * of_domain + indices.start * instances_each
        end = domain * of_domain + indices.stop * instances_each
        return _slice_text(name, range(start, end, indices.step))

    most_ports = 1
    for domain, bundle in product(range(domains), link_bundles(tier)):
        links = [bundle]
        near_component = far_component = "uplink"
        scheme = _scheme(bundle)
        if bundle.far.start < endpoints:
            # The far end is an endpoint as well: no switch is between them.
            links = list(bundle.each())
            near_component = far_component = nic
            scheme = "one2one"
        elif bundle.near.start < endpoints:
            most_ports = len(bundle.near) * ports
            near_component = nic
            far_component = f"port[0:{most_ports}]"
            scheme = "one2one"
        for link in links:
            a = _EdgeEnd(instances(link.near, domain), near_component)
            b = _EdgeEnd(instances(link.far, domain), far_component)
            _append_edge(infrastructure.edges, _between(a, b, names.name_of(link), scheme), tier)
    if switches:
        infrastructure.add_switches(f"{tier.name}_switch", most_ports, domains * switches, tier)
    infrastructure.links += names.links


class _LevelMembers(NamedTuple):
    """What the switches of a level join: endpoints of the tier, or the switches below.

    Args:
        name: of their instances.
        component: at which links end in an instance.
        in_domain: how many members each domain has.
        instances: how many instances a member is.
        ports: how many ports of a switch a member takes.
    """

    name: str
    component: str
    in_domain: int
    instances: int = 1
    ports: int = 1


def _add_switched_tier(infrastructure: _Infrastructure, tier: Tier, ports: int, nodes: int) -> None:
    """Add a star or Clos, once for each of its domains; each of its endpoints is ``nodes`` nodes
    with together ``ports`` NICs on it."""
    # levels of switches, lowest first; ``group``: endpoints below one switch of the level
    classes = capabilities_of(tier).reached
    leaf = classes[0]
    endpoint_Bps = tier.bandwidth * tier.ports
    members = _LevelMembers("node", f"nic_{tier.name}", tier.endpoints, nodes, ports)
    name = f"{tier.name}_{leaf.name}"
    infrastructure.links.append(_link(name, endpoint_Bps, leaf.alpha_s / 2))
    domains = infrastructure.nodes // (nodes * tier.endpoints)
    _add_level(infrastructure, tier, leaf, members, leaf.group, domains)
    for lower, upper in pairwise(classes):
        members = _LevelMembers(name, "uplink", ceil(tier.endpoints / lower.group))
        name = f"{tier.name}_{upper.name}"
        uplinks = lower.group * ports / upper.oversubscription
        infrastructure.links.append(
            _link(name, endpoint_Bps * uplinks, (upper.alpha_s - lower.alpha_s) / 2)
        )
        _add_level(infrastructure, tier, upper, members, ceil(upper.group / lower.group), domains)


def _add_level(
    infrastructure: _Infrastructure,
    tier: Tier,
    level: DistanceClass,
    members: _LevelMembers,
    group: int,
    domains: int,
) -> None:
    """Add the switches of a level, each with ``group`` members below it (fewer below the last of a
    domain)."""
    name = f"{tier.name}_{level.name}"
    ports = members.ports * min(group, members.in_domain)
    infrastructure.add_switches(name, ports, domains * ceil(tier.endpoints / level.group), tier)
    for switch in _switches(members.in_domain, group, domains):
        start = switch.first_member * members.instances
        end = (switch.first_member + switch.members) * members.instances
        below = _EdgeEnd(f"{members.name}[{start}:{end}]", members.component)
        above = _EdgeEnd(f"{name}[{switch.number}]", f"port[0:{switch.members * members.ports}]")
        infrastructure.edges.append(_between(below, above, name))


class _LevelSwitch(NamedTuple):
    """A switch of a level, and the members below it."""

    number: int  # in the level
    first_member: int
    members: int  # how many


def _switches(members: int, group: int, domains: int) -> Iterator[_LevelSwitch]:
    """The switches of all domains over ``members`` of each, ``group`` below a switch. The last of a domain
    may have fewer: of 10 members, 4 to a switch, the third switch has 2."""
    of_domain = ceil(members / group)
    for domain, place in product(range(domains), range(of_domain)):
        first_member = place * group
        yield _LevelSwitch(
            domain * of_domain + place,
            domain * members + first_member,
            min(group, members - first_member),
        )
