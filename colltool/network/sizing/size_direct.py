"""Sizes dragonflies, dragonfly+ and HyperX networks: the fewest equal switches for a number of
endpoints, by search over all shapes.

A shape qualifies if its switches have enough ports, and if no cable between switches carries more
than ``oversubscription`` times its rate under uniform traffic: every endpoint sends to all others at
full rate, on minimal routes. At 1 the bisection is then at least half of what half of the endpoints
inject, which is enough for uniform traffic; a Clos at 1:1 has all of it.

:func:`direct_plan` is the entry. Each topology has a search (``_best_dragonfly``, ``_best_dragonfly_plus``,
``_best_hyperx``) that returns the best network of one rail, a function that builds the network of a given
shape (``_dragonfly_of`` ...), and one that lists its levels (``_group_levels``, ``_hyperx_levels``).

Sources: J. Kim, W. Dally, S. Scott, D. Abts,
"Technology-driven, highly-scalable dragonfly topology", ISCA 2008, 77-88 (a = 2p = 2h is the
largest balanced one); A. Shpiner et al., "Dragonfly+: low cost topology for scaling datacenters",
HiPINEB 2017, 1-8; J. Ahn, N. Binkert, A. Davis, M. McLaren, R. Schreiber, "HyperX: topology,
routing, and packaging of efficient large-scale networks", SC 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, comb, inf, prod
from typing import ClassVar, Literal, NamedTuple, assert_never, get_args

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import ceil_div
from colltool.definitions.field_types import MAX_RANKS
from colltool.network.sizing.size_clos import check_counts

Direct = Literal["dragonfly", "dragonfly_plus", "hyperx"]
DIRECT: tuple[Direct, ...] = get_args(Direct)
MOST_AXES = 5  # of a HyperX; a fabric file has no more

_ROUNDED = 1e-9  # tolerance for ratios of integers before they are rounded up


@dataclass(frozen=True)
class DirectLevel:
    """A row of the plan's table: switches of a kind with the cables below them, or cables of a kind
    between switches, with no switches of their own."""

    name: str
    switches: int  # on all rails
    ports: int  # of one switch that the cables use, at most
    others: int  # endpoints' ports, switches or groups at the other ends of one switch's cables
    parallel: int  # cables to each of these
    cables: int  # on all rails
    load: float  # of the busiest cable under uniform traffic, over its rate


@dataclass(frozen=True)
class DirectPlan:
    """A network with endpoints at all of its switches, or all leaves; no cable joins two rails."""

    split: ClassVar[int] = 1  # as of a ClosPlan: no rails are planes
    topology: Direct
    rails: int
    radix: int
    ports: int  # of all endpoints, on all rails
    spare_ports: int  # for further endpoints, on all rails
    hosts: int  # endpoints at a switch
    shape: tuple[int, ...]  # (switches of a group, groups), or switches along each axis
    spines: int  # of a group
    levels: tuple[DirectLevel, ...]
    switches: int
    cables: int  # between switches
    diameter: int  # links of the longest minimal route, with those of both endpoints
    # The keys of a tier in a fabric file; empty where no single tier can describe the network.
    tier: dict[str, object]
    notes: tuple[str, ...] = ()  # sentences

    @property
    def oversubscription(self) -> float:
        """The load of the busiest cable between switches, over its rate; 0 where there are none."""
        # the first level is the endpoints'
        return max((level.load for level in self.levels[1:]), default=0.0)

    @property
    def bisection(self) -> float:
        """A lower bound of the bisection bandwidth, over what half of the endpoints inject.

        Under uniform traffic half of it crosses the bisection, where no cable has more than
        :attr:`oversubscription` times its rate.
        """
        return 1 / max(1.0, 2 * self.oversubscription)


class _RailRequest(NamedTuple):
    """What a network has to join on one rail."""

    endpoints: int
    unit: int  # ports of an endpoint
    radix: int  # ports of a switch
    most_load: float  # of a cable between switches, over its rate

    def hosts_at(self, switches: int) -> int:
        """Endpoints at the fullest of this many switches."""
        return ceil(self.endpoints / switches)

    def most_hosts(self, ports: int) -> int:
        """The most endpoints that fit this many ports of a switch, at least 1."""
        return max(1, ports // self.unit)

    def cables_for(self, load: float) -> int:
        """The fewest parallel cables that share a load, which is given in units of a cable's
        rate."""
        return max(1, ceil(load / self.most_load - _ROUNDED))


class _RailNetwork(NamedTuple):
    """A network of one rail."""

    nodes: int  # switches
    cables: int  # between switches
    hosts: int  # endpoints at a switch or leaf
    shape: tuple[int, ...]  # (switches or leaves of a group, groups), or switches along each axis
    parallel: tuple[int, ...]  # cables between two switches or groups, by kind of cable
    spines: int = 0  # of a group

    @property
    def cost(self) -> tuple[int, int]:
        """What the search minimises: switches, then cables."""
        return self.nodes, self.cables


_NAMES: dict[Direct, str] = {
    "dragonfly": "dragonfly",
    "dragonfly_plus": "dragonfly+",
    "hyperx": f"HyperX of up to {MOST_AXES} axes",
}


def direct_plan(
    topology: Direct, endpoints: int, ports: int, radix: int, *, rails: int = 1, most: float = 1.0
) -> DirectPlan:
    """The shape of fewest switches, then of fewest cables, among all that carry uniform traffic at
    ``most`` times a cable's rate.

    Args:
        ports: of one endpoint, divided evenly over the rails; all those of a rail are at one switch.
        radix: ports per switch.
        most: load of the busiest cable under uniform traffic, over its rate.

    Raises:
        ColltoolError: counts out of range, ports that rails do not divide, or no such network.
    """
    check_counts(endpoints, ports, radix, rails)
    if endpoints > MAX_RANKS:
        raise ColltoolError(
            f"{endpoints} endpoints are more than {MAX_RANKS}",
            argument="endpoints",
            fix="size one part of it",
        )
    if ports % rails:
        raise ColltoolError(
            f"{rails} rails do not divide the {ports} ports of an endpoint",
            argument="rails",
            fix=f"write {argument_text('rails', 1)}, or a number that divides {ports}",
        )
    request = _RailRequest(endpoints, ports // rails, radix, most)
    network = _search(topology, request)
    if network is None:
        raise ColltoolError(
            f"no {_NAMES[topology]} of {radix}-port switches joins {endpoints * request.unit} ports"
            f" at {most:g}:1",
            argument="endpoints",
            fix="use a larger radix, more rails, or more oversubscription",
        )
    return _plan(topology, request, rails, network)


def _search(topology: Direct, request: _RailRequest) -> _RailNetwork | None:
    """The best network of one rail; None where there is none."""
    match topology:
        case "dragonfly":
            return _best_dragonfly(request)
        case "dragonfly_plus":
            return _best_dragonfly_plus(request)
        case "hyperx":
            return _best_hyperx(request)
        case _:
            assert_never(topology)


def _plan(topology: Direct, request: _RailRequest, rails: int, network: _RailNetwork) -> DirectPlan:
    """The plan that repeats a network of one rail on all rails."""
    level_makers = _hyperx_levels if topology == "hyperx" else _group_levels
    of_rail = tuple(level_makers(request, network))
    levels = []
    for level in of_rail:
        switches, cables = rails * level.switches, rails * level.cables
        levels.append(replace(level, switches=switches, cables=cables))
    # `shape` counts the switches that have endpoints: of a dragonfly+ no spines
    most_endpoints = network.hosts * prod(network.shape)
    # A tier in a fabric file has one port per endpoint.
    has_single_ports = rails == request.unit == 1
    return DirectPlan(
        topology=topology,
        rails=rails,
        radix=request.radix,
        ports=rails * request.unit * request.endpoints,
        spare_ports=rails * request.unit * (most_endpoints - request.endpoints),
        hosts=network.hosts,
        shape=network.shape,
        spines=network.spines,
        levels=tuple(levels),
        switches=rails * network.nodes,
        cables=rails * network.cables,
        diameter=2 + _hops(topology, network),
        tier=_tier(topology, network) if has_single_ports else {},
        notes=tuple(_notes(of_rail, request, network)),
    )


def _hops(topology: Direct, network: _RailNetwork) -> int:
    """Cables between switches on the longest minimal route."""
    if topology == "hyperx":
        return sum(size > 1 for size in network.shape)
    switches, groups = network.shape
    if network.spines:
        return 3 if groups > 1 else 2
    inside = min(1, switches - 1)
    return 2 * inside + 1 if groups > 1 else inside


def _tier(topology: Direct, network: _RailNetwork) -> dict[str, object]:
    """The keys of a tier in a fabric file that describe a network."""
    # of each kind of cable in the order of the network: each axis, or local and global
    links = [{"links": count} for count in network.parallel]
    tier: dict[str, object] = {"topology": topology, "hosts": network.hosts}
    if topology == "hyperx":
        return tier | {"shape": list(network.shape), "links": links}
    tier["switches"], groups = network.shape
    if network.spines:
        tier["spines"] = network.spines
    local, global_links = links
    return tier | {"groups": groups, "local": local, "global": global_links}


def _notes(
    levels: tuple[DirectLevel, ...], request: _RailRequest, network: _RailNetwork
) -> Iterator[str]:
    """What a reader of the plan's table may not see in it, in sentences."""
    if network.nodes == 1:
        yield "one switch joins everything"
    unused = request.radix - sum(level.ports for level in levels)
    # Of leaves and spines the rows of the table already show it.
    if unused and not network.spines:
        yield f"a switch leaves at least {unused} of its {request.radix} ports unused"


# Dragonflies and dragonfly+: groups of switches.


def _out_of_group(groups: int, parallel: int, gateways: int) -> int:
    """Cables to other groups at the gateway that has most of them: of 8 on 4 gateways 2, of 9 3."""
    return ceil_div((groups - 1) * parallel, gateways)


def _local_load(
    host_ports: int, *, switches: int, spines: int, groups: int, parallel: int
) -> float:
    """Load of uniform traffic between a switch and the gateway with most cables, in units of the
    rate of a single cable between the two.

    Of the traffic of a switch's ``host_ports``, (g-1)/g leaves the group, of which x/C passes a
    gateway with x of the group's C cables; without spines as much comes in. The rest, 1/g, stays.

    2 ports a switch, 9 groups of 4 switches, single cables: a gateway has 2 of the 8 cables, so that
    2 x (2 x 8/9 x 2/8 + 1/36) = 0.94.
    """
    if not spines and switches == 1:
        # there is no other switch in the group
        return 0.0
    at_gateway = _out_of_group(groups, parallel, spines or switches)
    # a single group has no cables, and none leaves it
    group_cables = max(1, (groups - 1) * parallel)
    leaving = (groups - 1) / groups * at_gateway / group_cables
    if spines:
        return host_ports * (leaving + (switches - 1) / (switches * groups * spines))
    return host_ports * (2 * leaving + 1 / (groups * switches))


def _fewest_nodes(best: _RailNetwork | None) -> float:
    """Switches of the best network so global_cables; infinite before one is found."""
    return best.nodes if best else inf


def _better_network(network: _RailNetwork | None, best: _RailNetwork | None) -> _RailNetwork | None:
    """The better of two networks, of equal ones ``best``; None if both are."""
    if network is None or best is None:
        return network or best
    return network if network.cost < best.cost else best


def _best_dragonfly(request: _RailRequest) -> _RailNetwork | None:
    """The best dragonfly, by search over the switches of a group and the number of groups."""
    best: _RailNetwork | None = None
    for switches in range(1, request.radix + 1):
        # A switch has a cable to each other of its group. More groups need more switches and more cables:
        # the first that has ports for them is the best of this size.
        hosts = request.most_hosts(request.radix - switches + 1)
        groups = ceil(request.endpoints / (switches * hosts))
        while switches * groups <= _fewest_nodes(best) and groups - 1 <= switches * request.radix:
            network = _dragonfly_of(request, switches, groups)
            if network:
                best = _better_network(network, best)
                break
            groups += 1
    return best


def _dragonfly_of(request: _RailRequest, switches: int, groups: int) -> _RailNetwork | None:
    """The dragonfly of these switches and groups. None where a switch has too few ports.

    72 endpoints on 9 groups of 4 switches: 2 ports of endpoints, 3 of local cables and 2 of global
    ones, 7 of a switch. In all 9 x 6 local and 36 global cables.
    """
    hosts = request.hosts_at(switches * groups)
    host_ports = hosts * request.unit
    global_cables = request.cables_for(switches * host_ports / groups if groups > 1 else 0)
    local = request.cables_for(
        _local_load(host_ports, switches=switches, spines=0, groups=groups, parallel=global_cables)
    )
    if (
        host_ports + (switches - 1) * local + _out_of_group(groups, global_cables, switches)
        > request.radix
    ):
        return None
    cables = groups * comb(switches, 2) * local + comb(groups, 2) * global_cables
    return _RailNetwork(
        switches * groups,
        cables=cables,
        hosts=hosts,
        shape=(switches, groups),
        parallel=(local, global_cables),
    )


def _best_dragonfly_plus(request: _RailRequest) -> _RailNetwork | None:
    """The best dragonfly+, by search over the leaves of a group and the number of groups."""
    best: _RailNetwork | None = None
    for leaves in range(1, request.radix + 1):
        groups = ceil(request.endpoints / (leaves * request.most_hosts(request.radix)))
        # More groups may need fewer spines in each: all are tried that may be no larger than the best.
        while (leaves + 1) * groups <= _fewest_nodes(best) and groups - 1 <= request.radix**2:
            network = _dragonfly_plus_of(request, leaves, groups, _fewest_nodes(best))
            best = _better_network(network, best)
            groups += 1
    return best


def _dragonfly_plus_of(
    request: _RailRequest, leaves: int, groups: int, most_switches: float
) -> _RailNetwork | None:
    """The dragonfly+ of these leaves and groups with the fewest spines that have enough ports. None
    where none has, or where it takes more than ``most_switches``."""
    hosts = request.hosts_at(leaves * groups)
    host_ports = hosts * request.unit
    # Uniform traffic: each pair of groups has an equal part of it.
    global_cables = request.cables_for(leaves * host_ports / groups if groups > 1 else 0)
    # Ports that all spines of a group need: for what leaves do not keep to themselves, and for cables.
    spine_ports = (leaves - 1 / groups) * host_ports / request.most_load + (
        groups - 1
    ) * global_cables
    fewest_spines = max(1, ceil(spine_ports / request.radix - _ROUNDED))
    # A leaf has a cable to each spine.
    for spines in range(fewest_spines, request.radix - host_ports + 1):
        if (leaves + spines) * groups > most_switches:
            break
        local = request.cables_for(
            _local_load(
                host_ports, switches=leaves, spines=spines, groups=groups, parallel=global_cables
            )
        )
        at_leaf = host_ports + spines * local
        at_spine = leaves * local + _out_of_group(groups, global_cables, spines)
        if max(at_leaf, at_spine) <= request.radix:
            nodes = (leaves + spines) * groups
            cables = groups * leaves * spines * local + comb(groups, 2) * global_cables
            return _RailNetwork(
                nodes,
                cables=cables,
                hosts=hosts,
                shape=(leaves, groups),
                parallel=(local, global_cables),
                spines=spines,
            )
    return None


def _endpoint_level(request: _RailRequest, network: _RailNetwork, name: str) -> DirectLevel:
    """The row of the switches that have endpoints, and of the endpoints' cables."""
    host_ports = network.hosts * request.unit
    return DirectLevel(
        name,
        switches=prod(network.shape),
        ports=host_ports,
        others=host_ports,
        parallel=1,
        cables=request.endpoints * request.unit,
        load=1.0,
    )


def _group_levels(request: _RailRequest, network: _RailNetwork) -> Iterator[DirectLevel]:
    """The rows of a dragonfly or dragonfly+, from the endpoints up: their switches, cables inside groups,
    cables between groups."""
    switches, groups = network.shape
    local, global_cables = network.parallel
    spines = network.spines
    host_ports = network.hosts * request.unit
    all_switches = switches * groups
    load = (
        _local_load(
            host_ports, switches=switches, spines=spines, groups=groups, parallel=global_cables
        )
        / local
    )
    yield _endpoint_level(request, network, "leaf" if spines else "switch")
    # cables: in one group
    name = "local"
    others = switches - 1
    cables = comb(switches, 2)
    if spines:
        name = "spine"
        others = switches
        cables = switches * spines
    yield DirectLevel(
        name,
        switches=spines * groups,
        ports=others * local,
        others=others,
        parallel=local,
        cables=groups * cables * local,
        load=load,
    )
    yield DirectLevel(
        "global",
        switches=0,
        ports=_out_of_group(groups, global_cables, spines or switches),
        others=groups - 1,
        parallel=global_cables,
        cables=comb(groups, 2) * global_cables,
        load=all_switches * host_ports / groups**2 / global_cables if groups > 1 else 0.0,
    )


# HyperX: switches along axes.


def _best_hyperx(request: _RailRequest) -> _RailNetwork | None:
    """The best HyperX, by search over all shapes of up to :data:`MOST_AXES` axes, sizes
    ascending."""
    best: _RailNetwork | None = None
    least_nodes = ceil(request.endpoints / request.most_hosts(request.radix))

    def grow(shape: tuple[int, ...], ports_left: int) -> None:
        """Try further axes after ``shape``; ``ports_left``: of a switch, for their cables."""
        nonlocal best
        nodes = prod(shape)
        before = shape[-1] if shape else 1
        # As the last axis, which has to be long enough for all endpoints.
        size = max(before, ceil(least_nodes / nodes))
        while size - 1 <= ports_left and nodes * size <= _fewest_nodes(best):
            network = _hyperx_of(request, (*shape, size))
            if network:
                best = _better_network(network, best)
                break
            size += 1
        # As an axis before others, which are at least as long.
        if len(shape) + 1 < MOST_AXES:
            for size in range(max(2, before), ports_left + 2):
                if nodes * size * size > _fewest_nodes(best):
                    break
                grow((*shape, size), ports_left - size + 1)

    grow((), request.radix - request.unit)
    return best


def _hyperx_of(request: _RailRequest, shape: tuple[int, ...]) -> _RailNetwork | None:
    """The HyperX of this shape; None where a switch lacks the ports.

    Along an axis of n switches each sends 1/n of its endpoints' uniform traffic to each other.
    """
    nodes = prod(shape)
    hosts = request.hosts_at(nodes)
    host_ports = hosts * request.unit
    parallel = []
    # ports that a switch has left for the cables of further axes
    free_ports = request.radix - host_ports
    cables = 0
    for size in shape:
        to_each_other = request.cables_for(host_ports / size if size > 1 else 0)
        ports = (size - 1) * to_each_other
        parallel.append(to_each_other)
        free_ports -= ports
        cables += nodes * ports // 2
    if free_ports < 0:
        return None
    return _RailNetwork(nodes, cables=cables, hosts=hosts, shape=shape, parallel=tuple(parallel))


def _hyperx_levels(request: _RailRequest, network: _RailNetwork) -> Iterator[DirectLevel]:
    """The rows of a HyperX: its switches, then the cables of each axis."""
    yield _endpoint_level(request, network, "switch")
    host_ports = network.hosts * request.unit
    for axis, (size, parallel) in enumerate(
        zip(network.shape, network.parallel, strict=True), start=1
    ):
        ports = (size - 1) * parallel
        yield DirectLevel(
            f"axis-{axis}",
            switches=0,
            ports=ports,
            others=size - 1,
            parallel=parallel,
            cables=network.nodes * ports // 2,
            load=host_ports / size / parallel if size > 1 else 0.0,
        )
