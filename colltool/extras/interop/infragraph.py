"""A fabric as an infrastructure of InfraGraph 3, which ASTRA-sim 3 takes as its network: devices,
instances, links and edges.

Schema: infragraph 3.1.0 on PyPI, docs/openapi.yaml. The innermost tier is inside a device,
    ``node``; tiers around it join the
instances of it, by a NIC of each accelerator. In a star or Clos one switch is in place of all that
stand side by side; any other tier has its links one by one. Rates are those of the data sheet,
without η. The latency of a path is alpha: half of it a link where pairs meet under one switch, the
surplus of a higher level on the links that enter it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise, product
from math import ceil, prod
from typing import Any

from colltool.base.errors import ColltoolError, given
from colltool.extras.interop.infragraph_links import Joined, joined_by_links, switch_count
from colltool.fabric.capabilities import DistanceClass
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even

Data = dict[str, Any]

MAX_PORTS = MAX_EDGES = 100_000
_LEFT_OUT = (
    "By colltool export infragraph: rates and latencies without eta; no protocols, launches or"
    " in-network reduction"
)


def infragraph(fabric: Fabric) -> str:
    """The JSON of an infrastructure, which any reader of YAML takes too.

    Raises:
        ColltoolError: more edges, or ports of a switch, than the limits here.
    """
    check_even(fabric)
    inner, *outer = fabric.tiers
    node = _node(inner, fabric)
    made: Data = {
        "name": fabric.name,
        "description": _LEFT_OUT,
        "devices": [node],
        "links": [],
        "instances": [],
        "edges": [],
    }
    made["instances"].append(
        {"name": "node", "device": "node", "count": prod(tier.endpoints for tier in outer)}
    )
    nodes = 1  # in an endpoint of the tier
    for tier in outer:
        add = _add_tier if capabilities_of(tier).joined_by == "switches" else _add_links
        add(made, tier, inner.endpoints, nodes)
        nodes *= tier.endpoints
    return json.dumps(made, indent=1) + "\n"


def _component(name: str, choice: str, count: int, description: str = "") -> Data:
    return {
        "name": name,
        **({"description": description} if description else {}),
        "count": count,
        "choice": choice,
    }


def _link(name: str, bandwidth_Bps: float | None = None, latency_s: float = 0.0) -> Data:
    if bandwidth_Bps is None:
        return {"name": name}
    rate = {"choice": "gigabytes_per_second", "gigabytes_per_second": bandwidth_Bps / 1e9}
    return {
        "name": name,
        "physical": {"bandwidth": rate, "latency": {"choice": "us", "us": latency_s * 1e6}},
    }


def _edge(one: str, other: str, link: str, scheme: str = "one2one") -> Data:
    return {"ep1": {"component": one}, "ep2": {"component": other}, "scheme": scheme, "link": link}


def _between(
    one: tuple[str, str], other: tuple[str, str], link: str, scheme: str = "one2one"
) -> Data:
    """An edge between components of instances."""
    ends = {
        name: {"instance": end[0], "component": end[1]}
        for name, end in (("ep1", one), ("ep2", other))
    }
    return {**ends, "scheme": scheme, "link": link}


def _node(tier: Tier, fabric: Fabric) -> Data:
    """The innermost tier as a device: accelerators, their links, and a NIC on each outer tier."""
    kind, count = capabilities_of(tier), tier.endpoints
    parts = [_component("xpu", "xpu", count, (fabric.device or fabric.name).upper())]
    links, edges = list[Data](), list[Data]()
    if count > 1 and kind.joined_by == "switches":
        parts.append(_component(f"{tier.name}_switch", "switch", 1))
        links.append(_link(tier.name, tier.bandwidth * tier.ports, kind.reached[-1].alpha_s / 2))
        edges.append(_edge("xpu", f"{tier.name}_switch", tier.name, "many2many"))
    elif count > 1:
        if switches := switch_count(tier):
            parts.append(_component(f"{tier.name}_switch", "switch", switches))
        named = _LinkNames(tier)
        for one in joined_by_links(tier):
            ends = _sliced(*_place(one.one, tier, "xpu")), _sliced(*_place(one.other, tier, "xpu"))
            _keep(edges, _edge(*ends, named.of(one), _scheme(one)), tier)
        links += named.links
    for outer in fabric.tiers[1:]:
        parts.append(_component(f"nic_{outer.name}", "nic", count))
        links.append(_link(f"slot_{outer.name}"))
        edges.append(_edge("xpu", f"nic_{outer.name}", f"slot_{outer.name}"))
    return {"name": "node", "components": parts, "links": links, "edges": edges}


class _LinkNames:
    """Links of a tier, one for each bandwidth and latency."""

    def __init__(self, tier: Tier) -> None:
        self.tier, self.names, self.links = tier, dict[tuple[float, float], str](), list[Data]()

    def of(self, joined: Joined) -> str:
        key = joined.Bps, joined.alpha_s
        if key not in self.names:
            self.names[key] = self.tier.name + (f"_{len(self.names) + 1}" if self.names else "")
            self.links.append(_link(self.names[key], *key))
        return self.names[key]


def _place(nodes: range, tier: Tier, endpoint: str) -> tuple[str, range]:
    """What these numbers are, and their indices: endpoints or, from their count on, switches."""
    first = tier.endpoints
    if nodes.start < first:
        return endpoint, nodes
    return f"{tier.name}_switch", range(nodes.start - first, nodes.stop - first, nodes.step)


def _sliced(name: str, indices: range) -> str:
    step = f":{indices.step}" if indices.step > 1 else ""
    return (
        f"{name}[{indices.start}:{indices.stop}{step}]"
        if len(indices) > 1
        else f"{name}[{indices.start}]"
    )


def _scheme(joined: Joined) -> str:
    return "many2many" if joined.all_pairs else "one2one"


def _keep(edges: list[Data], more: Data, tier: Tier) -> None:
    if len(edges) >= MAX_EDGES:
        what = f"'{tier.name}' would take more than {MAX_EDGES} edges"
        fix = (
            f"take a smaller one: {given('overrides', [f'{tier.name}.KEY=VALUE'])}, of its size,"
            " shape or groups"
        )
        raise ColltoolError(what, argument="fabric", fix=fix)
    edges.append(more)


def _add_links(made: Data, tier: Tier, ranks: int, nodes: int) -> None:
    """A tier that is no star or Clos around ``nodes`` nodes of ``ranks`` accelerators for each of
    its endpoints.

    Between two endpoints each NIC has a link of its own to its counterpart; at a switch each has a
    port.
    """
    count, switches, named = tier.endpoints, switch_count(tier), _LinkNames(tier)
    domains, ports = made["instances"][0]["count"] // (nodes * count), 1

    def instances(numbers: range, domain: int) -> str:
        name, at = _place(numbers, tier, "node")
        each, first = (nodes, domain * count * nodes) if name == "node" else (1, domain * switches)
        return _sliced(name, range(first + at.start * each, first + at.stop * each, at.step))

    nic = f"nic_{tier.name}"
    for domain, joined in product(range(domains), joined_by_links(tier)):
        every, parts, scheme = iter([joined]), ("uplink", "uplink"), _scheme(joined)
        if joined.other.start < count:  # no switch between
            every, parts, scheme = joined.each(), (nic, nic), "one2one"
        elif joined.one.start < count:
            ports = len(joined.one) * nodes * ranks
            parts, scheme = (nic, f"port[0:{ports}]"), "one2one"
        for one in every:
            ends = (instances(one.one, domain), parts[0]), (instances(one.other, domain), parts[1])
            _keep(made["edges"], _between(*ends, named.of(one), scheme), tier)
    if switches:
        _add_switch(made, f"{tier.name}_switch", ports, domains * switches, tier)
    made["links"] += named.links


def _add_tier(made: Data, tier: Tier, ranks: int, nodes: int) -> None:
    """A star or Clos around ``nodes`` nodes of ``ranks`` accelerators for each of its endpoints,
    once for each of its domains."""
    kind = capabilities_of(tier)
    domains = made["instances"][0]["count"] // (nodes * tier.endpoints)
    classes = kind.reached
    each_Bps, ports = tier.bandwidth * tier.ports, ranks * nodes  # of an endpoint
    first = classes[0]
    _add_level(made, tier, first, ports * min(first.group, tier.endpoints), domains)
    made["links"].append(_link(f"{tier.name}_{first.name}", each_Bps, first.alpha_s / 2))
    for domain in range(domains):
        for leaf, size in _groups(tier.endpoints, first.group, domain):
            start = (domain * tier.endpoints + leaf[1] * first.group) * nodes
            switch = f"{tier.name}_{first.name}[{leaf[0]}]"
            below = f"node[{start}:{start + size * nodes}]", f"nic_{tier.name}"
            made["edges"].append(
                _between(below, (switch, f"port[0:{size * ports}]"), f"{tier.name}_{first.name}")
            )
    for below_class, above in pairwise(classes):
        share = below_class.group * ports / above.oversubscription
        made["links"].append(
            _link(
                f"{tier.name}_{above.name}",
                each_Bps * share,
                (above.alpha_s - below_class.alpha_s) / 2,
            )
        )
        held = ceil(above.group / below_class.group)
        count = ceil(tier.endpoints / below_class.group)
        _add_level(made, tier, above, min(held, count), domains)
        for domain in range(domains):
            for one, size in _groups(count, held, domain):
                start = domain * count + one[1] * held
                lower = f"{tier.name}_{below_class.name}[{start}:{start + size}]", "uplink"
                upper = f"{tier.name}_{above.name}[{one[0]}]", f"port[0:{size}]"
                made["edges"].append(_between(lower, upper, f"{tier.name}_{above.name}"))


def _groups(count: int, group: int, domain: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Each group of a domain by its index among all and in the domain, with its size; the last may
    be smaller."""
    several = ceil(count / group)
    for one in range(several):
        yield (domain * several + one, one), min(group, count - one * group)


def _add_level(made: Data, tier: Tier, level: DistanceClass, ports: int, domains: int) -> None:
    _add_switch(
        made, f"{tier.name}_{level.name}", ports, domains * ceil(tier.endpoints / level.group), tier
    )


def _add_switch(made: Data, name: str, ports: int, count: int, tier: Tier) -> None:
    if ports > MAX_PORTS:
        what = f"a switch of '{name}' would have {ports} ports, more than {MAX_PORTS}"
        raise ColltoolError(
            what,
            argument="fabric",
            fix=f"take a smaller fabric: {given('overrides', [f'{tier.name}.size=64'])}",
        )
    parts = [
        _component("asic", "switch", 1),
        _component("port", "port", ports),
        _component("uplink", "port", 1),
    ]
    edges = [_edge("asic", part, "ic", "many2many") for part in ("port", "uplink")]
    made["devices"].append(
        {"name": name, "components": parts, "links": [_link("ic")], "edges": edges}
    )
    made["instances"].append({"name": name, "device": name, "count": count})
