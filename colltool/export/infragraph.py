"""A fabric as an infrastructure of InfraGraph 3, which ASTRA-sim 3 takes as its network: devices, instances, links and edges.

Schema: infragraph 3.1.0 on PyPI, docs/openapi.yaml. The innermost tier is inside a device, ``node``; tiers around it join the
instances of it, by a NIC of each accelerator, over one switch in place of all that stand side by side. Rates are those of the
data sheet, without η. The latency of a path is alpha: half of it a link where pairs meet under one switch, the surplus of a
higher level on the links that enter it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from math import ceil, prod
from typing import Any, assert_never

from colltool.algorithms.twisted import is_twisted
from colltool.base.errors import ColltoolError, given
from colltool.fabric.capabilities import DistanceClass
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

Data = dict[str, Any]

MAX_PORTS = 100_000
_LEFT_OUT = "By colltool export infragraph: rates and latencies without eta; no protocols, launches or in-network reduction"


def infragraph(fabric: Fabric) -> str:
    """The JSON of an infrastructure, which any reader of YAML takes too.

    Raises:
        ColltoolError: an outer tier that is no star or Clos.
    """
    inner, *outer = fabric.tiers
    node = _node(inner, fabric)
    made: Data = {"name": fabric.name, "description": _LEFT_OUT, "devices": [node], "links": [], "instances": [], "edges": []}
    made["instances"].append({"name": "node", "device": "node", "count": prod(tier.endpoints for tier in outer)})
    nodes = 1  # in an endpoint of the tier
    for tier in outer:
        _add_tier(made, tier, inner.endpoints, nodes)
        nodes *= tier.endpoints
    return json.dumps(made, indent=1) + "\n"


def _component(name: str, choice: str, count: int, description: str = "") -> Data:
    return {"name": name, **({"description": description} if description else {}), "count": count, "choice": choice}


def _link(name: str, bandwidth_Bps: float | None = None, latency_s: float = 0.0) -> Data:
    if bandwidth_Bps is None:
        return {"name": name}
    rate = {"choice": "gigabytes_per_second", "gigabytes_per_second": bandwidth_Bps / 1e9}
    return {"name": name, "physical": {"bandwidth": rate, "latency": {"choice": "us", "us": latency_s * 1e6}}}


def _edge(one: str, other: str, link: str, scheme: str = "one2one") -> Data:
    return {"ep1": {"component": one}, "ep2": {"component": other}, "scheme": scheme, "link": link}


def _between(one: tuple[str, str], other: tuple[str, str], link: str) -> Data:
    """An edge between components of instances."""
    ends = {name: {"instance": end[0], "component": end[1]} for name, end in (("ep1", one), ("ep2", other))}
    return {**ends, "scheme": "one2one", "link": link}


def _node(tier: Tier, fabric: Fabric) -> Data:
    """The innermost tier as a device: accelerators, their links, and a NIC on each outer tier."""
    kind, count = capabilities_of(tier), tier.endpoints
    rate, alpha_s = tier.bandwidth * tier.ports, kind.reached[-1].alpha_s
    parts = [_component("xpu", "xpu", count, (fabric.device or fabric.name).upper())]
    links, edges = [], []
    joined = kind.joined_by
    if count > 1:
        match joined:
            case "switches":
                parts.append(_component(f"{tier.name}_switch", "switch", 1))
                links.append(_link(tier.name, rate, alpha_s / 2))
                edges.append(_edge("xpu", f"{tier.name}_switch", tier.name, "many2many"))
            case "pair_links":
                links.append(_link(tier.name, rate, alpha_s))
                edges.append(_edge("xpu", "xpu", tier.name, "many2many"))
            case "neighbour_links":
                links.append(_link(tier.name, rate, alpha_s))
                edges += _lattice(tier)
            case "routes":
                what = f"'{tier.name}' is routed link by link, which is not written"
                raise ColltoolError(what, argument="fabric", fix="take a star of its bandwidth")
            case "tiers":
                raise AssertionError("a tier alone is not several")
            case _:
                assert_never(joined)
    for outer in fabric.tiers[1:]:
        parts.append(_component(f"nic_{outer.name}", "nic", count))
        links.append(_link(f"slot_{outer.name}"))
        edges.append(_edge("xpu", f"nic_{outer.name}", f"slot_{outer.name}"))
    return {"name": "node", "components": parts, "links": links, "edges": edges}


def _lattice(tier: Tier) -> Iterator[Data]:
    """Neighbours along each axis, whole rows in one edge; the last axis runs fastest."""
    axes = capabilities_of(tier).axes
    if is_twisted(axes):
        fix = given("overrides", [f"{tier.name}.twist=false"])
        raise ColltoolError(f"'{tier.name}' is a twisted torus, which is not written", argument="fabric", fix=fix)
    for at, axis in enumerate(axes):
        stride = prod(one.size for one in axes[at + 1 :])
        block = stride * axis.size
        for start in range(0, tier.endpoints if axis.size > 1 else 0, block):
            end = start + block
            yield _edge(f"xpu[{start}:{end - stride}]", f"xpu[{start + stride}:{end}]", tier.name)
            if axis.is_ring and axis.size > 2:
                yield _edge(f"xpu[{start}:{start + stride}]", f"xpu[{end - stride}:{end}]", tier.name)


def _add_tier(made: Data, tier: Tier, ranks: int, nodes: int) -> None:
    """A star or Clos around ``nodes`` nodes of ``ranks`` accelerators for each of its endpoints, once for each of its domains."""
    kind = capabilities_of(tier)
    if kind.joined_by != "switches":
        what = f"'{tier.name}' is a {kind.spoken.replace('_', ' ')} around nodes, which is not written"
        raise ColltoolError(what, argument="fabric", fix="outer tiers are a star or a Clos")
    domains = made["instances"][0]["count"] // (nodes * tier.endpoints)
    classes = kind.reached
    each_Bps, ports = tier.bandwidth * tier.ports, ranks * nodes  # of an endpoint
    first = classes[0]
    _add_switch(made, tier, first, ports * min(first.group, tier.endpoints), domains)
    made["links"].append(_link(f"{tier.name}_{first.name}", each_Bps, first.alpha_s / 2))
    for domain in range(domains):
        for leaf, size in _groups(tier.endpoints, first.group, domain):
            start = (domain * tier.endpoints + leaf[1] * first.group) * nodes
            switch = f"{tier.name}_{first.name}[{leaf[0]}]"
            below = f"node[{start}:{start + size * nodes}]", f"nic_{tier.name}"
            made["edges"].append(_between(below, (switch, f"port[0:{size * ports}]"), f"{tier.name}_{first.name}"))
    for below_class, above in pairwise(classes):
        share = below_class.group * ports / above.oversubscription
        made["links"].append(_link(f"{tier.name}_{above.name}", each_Bps * share, (above.alpha_s - below_class.alpha_s) / 2))
        held = ceil(above.group / below_class.group)
        count = ceil(tier.endpoints / below_class.group)
        _add_switch(made, tier, above, min(held, count), domains)
        for domain in range(domains):
            for one, size in _groups(count, held, domain):
                start = domain * count + one[1] * held
                lower = f"{tier.name}_{below_class.name}[{start}:{start + size}]", "uplink"
                upper = f"{tier.name}_{above.name}[{one[0]}]", f"port[0:{size}]"
                made["edges"].append(_between(lower, upper, f"{tier.name}_{above.name}"))


def _groups(count: int, group: int, domain: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Each group of a domain by its index among all and in the domain, with its size; the last may be smaller."""
    several = ceil(count / group)
    for one in range(several):
        yield (domain * several + one, one), min(group, count - one * group)


def _add_switch(made: Data, tier: Tier, level: DistanceClass, ports: int, domains: int) -> None:
    name = f"{tier.name}_{level.name}"
    if ports > MAX_PORTS:
        what = f"a switch of '{name}' would have {ports} ports, more than {MAX_PORTS}"
        raise ColltoolError(what, argument="fabric", fix=f"take a smaller fabric: {given('overrides', [f'{tier.name}.size=64'])}")
    parts = [_component("asic", "switch", 1), _component("port", "port", ports), _component("uplink", "port", 1)]
    edges = [_edge("asic", part, "ic", "many2many") for part in ("port", "uplink")]
    made["devices"].append({"name": name, "components": parts, "links": [_link("ic")], "edges": edges})
    count = domains * ceil(tier.endpoints / level.group)
    made["instances"].append({"name": name, "device": name, "count": count})
