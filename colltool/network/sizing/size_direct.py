"""Dragonflies, dragonfly+ and HyperX of the fewest equal switches for a number of endpoints, by search
over all shapes.

A shape is taken if its switches have the ports and if no cable between switches carries more than
``oversubscription`` times its rate when every endpoint sends alike to all at full rate, on minimal
routes. At 1 the bisection is then at least half of what half of the endpoints inject, enough for
such traffic; a Clos at 1:1 has all of it. Sources: J. Kim, W. Dally, S. Scott, D. Abts,
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
# Axes of a HyperX; a fabric file has no more.
MOST_AXES = 5

_ROUNDED = 1e-9


@dataclass(frozen=True)
class DirectLevel:
    """Switches of a kind, with the cables that come to them from below, or cables of a kind between
    switches.

    ``switches``, ``cables``: on all rails. ``ports``: that the cables take of one switch, at most.
    ``others``: switches or groups that they lead to; ``parallel``: cables to each. ``load``: of the
    busiest, when all send to all at full rate, over its rate.
    """

    name: str
    switches: int
    ports: int
    others: int
    parallel: int
    cables: int
    load: float


@dataclass(frozen=True)
class DirectPlan:
    """A network whose endpoints are at all its switches, or at all leaves; no cable joins two
    rails.

    ``hosts``: endpoints at a switch. ``shape``: switches of a group and groups, or of each axis;
    ``spines``: of a group.
    ``ports``: of all endpoints; ``spare_ports``: further ones for which there is room, both on all
    rails. ``cables``: between switches. ``diameter``: links of the longest minimal route, those of
    both endpoints included. ``tier``: the keys of a fabric file that state it; empty where it has
    no one tier.
    """

    split: ClassVar[int] = 1
    topology: Direct
    rails: int
    radix: int
    ports: int
    spare_ports: int
    hosts: int
    shape: tuple[int, ...]
    spines: int
    levels: tuple[DirectLevel, ...]
    switches: int
    cables: int
    diameter: int
    tier: dict[str, object]
    notes: tuple[str, ...] = ()

    @property
    def oversubscription(self) -> float:
        """The load of the busiest cable between switches."""
        return max((level.load for level in self.levels[1:]), default=0.0)

    @property
    def bisection(self) -> float:
        """Least share of what half of the endpoints inject.

        Half of that crosses when all send alike to all, which no cable slows by more than
        :attr:`oversubscription`.
        """
        return 1 / max(1.0, 2 * self.oversubscription)


class _Sought(NamedTuple):
    """What one rail has to join: endpoints of ``unit`` ports, switches of ``radix``, the most load
    of a cable."""

    endpoints: int
    unit: int
    radix: int
    most: float

    def hosts_at(self, switches: int) -> int:
        """Endpoints at the fullest of this many switches."""
        return ceil(self.endpoints / switches)

    def most_hosts(self, ports: int) -> int:
        """The most endpoints at a switch, one for one with its ports."""
        return max(1, ports // self.unit)

    def cables_for(self, load: float) -> int:
        """The fewest parallel cables; ``load``: of one alone."""
        return max(1, ceil(load / self.most - _ROUNDED))


class _Made(NamedTuple):
    """A network of one rail.

    ``shape``: switches (leaves) and groups, or of each axis; ``parallel``: cables of each kind.
    """

    nodes: int
    cables: int
    hosts: int
    shape: tuple[int, ...]
    parallel: tuple[int, ...]
    spines: int = 0

    @property
    def cost(self) -> tuple[int, int]:
        """The fewest switches are best, then the fewest cables."""
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

    ``ports``: of one endpoint, equally many on each of the ``rails``, there all at one switch.
    ``radix``: ports per switch.

    Raises:
        ColltoolError: counts out of range, ports that rails do not divide, or no such network.
    """
    check_counts(endpoints, ports, radix, rails)
    if endpoints > MAX_RANKS:
        what = f"{endpoints} endpoints are more than {MAX_RANKS}"
        raise ColltoolError(what, argument="endpoints", fix="size one part of it")
    if ports % rails:
        what = f"{rails} rails do not divide the {ports} ports of an endpoint"
        fix = f"write {argument_text('rails', 1)}, or a number that divides {ports}"
        raise ColltoolError(what, argument="rails", fix=fix)
    sought = _Sought(endpoints, ports // rails, radix, most)
    found = _search(topology, sought)
    if found is None:
        what = (
            f"no {_NAMES[topology]} of {radix}-port switches joins {endpoints * sought.unit} ports"
            f" at {most:g}:1"
        )
        fix = "use a larger radix, more rails, or more oversubscription"
        raise ColltoolError(what, argument="endpoints", fix=fix)
    return _plan(topology, sought, rails, found)


def _search(topology: Direct, sought: _Sought) -> _Made | None:
    match topology:
        case "dragonfly":
            return _dragonfly(sought)
        case "dragonfly_plus":
            return _dragonfly_plus(sought)
        case "hyperx":
            return _hyperx(sought)
        case _:
            assert_never(topology)


def _plan(topology: Direct, sought: _Sought, rails: int, made: _Made) -> DirectPlan:
    """A network of one rail on all rails."""
    level_makers = _hyperx_levels if topology == "hyperx" else _group_levels
    of_rail = tuple(level_makers(sought, made))
    levels = []
    for level in of_rail:
        switches, cables = rails * level.switches, rails * level.cables
        levels.append(replace(level, switches=switches, cables=cables))
    room = made.hosts * prod(made.shape)
    # one port of an endpoint: else no one tier states it
    alone = rails == sought.unit == 1
    return DirectPlan(
        topology=topology,
        rails=rails,
        radix=sought.radix,
        ports=rails * sought.unit * sought.endpoints,
        spare_ports=rails * sought.unit * (room - sought.endpoints),
        hosts=made.hosts,
        shape=made.shape,
        spines=made.spines,
        levels=tuple(levels),
        switches=rails * made.nodes,
        cables=rails * made.cables,
        diameter=2 + _hops(topology, made),
        tier=_tier(topology, made) if alone else {},
        notes=tuple(_notes(of_rail, sought, made)),
    )


def _hops(topology: Direct, made: _Made) -> int:
    """Cables between switches on the longest minimal route."""
    if topology == "hyperx":
        return sum(size > 1 for size in made.shape)
    switches, groups = made.shape
    if made.spines:
        return 3 if groups > 1 else 2
    inside = min(1, switches - 1)
    return 2 * inside + 1 if groups > 1 else inside


def _tier(topology: Direct, made: _Made) -> dict[str, object]:
    """The keys of a fabric file that state a network."""
    links = [{"links": count} for count in made.parallel]
    tier: dict[str, object] = {"topology": topology, "hosts": made.hosts}
    if topology == "hyperx":
        return tier | {"shape": list(made.shape), "links": links}
    tier["switches"], groups = made.shape
    if made.spines:
        tier["spines"] = made.spines
    local, far = links
    return tier | {"groups": groups, "local": local, "global": far}


def _notes(levels: tuple[DirectLevel, ...], sought: _Sought, made: _Made) -> Iterator[str]:
    if made.nodes == 1:
        yield "one switch joins everything"
    unused = sought.radix - sum(level.ports for level in levels)
    # those of leaves and spines are shown by their rows
    if unused and not made.spines:
        yield f"a switch leaves at least {unused} of its {sought.radix} ports unused"


# groups


def _out_of_group(groups: int, parallel: int, gateways: int) -> int:
    """Cables between groups at the gateway that has most."""
    return ceil_div((groups - 1) * parallel, gateways)


def _local_load(hosts: int, made: tuple[int, int, int, int]) -> float:
    """Load of uniform traffic on one cable of two switches of a group, or from leaf to spine, at the
    gateway with most cables.

    ``hosts``: ports of endpoints at a switch; ``made``: switches, spines, groups and cables between
    two of these. With x of C cables at a gateway, (g-1)/g of a switch's p leave by it in the ratio
    x/C and, without spines, as many come in; 1/g stays.
    """
    switches, spines, groups, parallel = made
    if not spines and switches == 1:
        return 0.0
    at_gateway = _out_of_group(groups, parallel, spines or switches)
    leaving = (groups - 1) / groups * at_gateway / ((groups - 1) * parallel or 1)
    if spines:
        return hosts * (leaving + (switches - 1) / (switches * groups * spines))
    return hosts * (2 * leaving + 1 / (groups * switches))


def _nodes(best: _Made | None) -> float:
    """Switches of the best network so far; no bound without one."""
    return best.nodes if best else inf


def _better(made: _Made | None, best: _Made | None) -> _Made | None:
    """The better of two networks, the first found of equals."""
    if made is None or best is None:
        return made or best
    return made if made.cost < best.cost else best


def _dragonfly(sought: _Sought) -> _Made | None:
    """Search over switches a of a group and groups g; hosts, then cables are the fewest that serve
    them."""
    best: _Made | None = None
    for switches in range(1, sought.radix + 1):
        hosts = sought.most_hosts(sought.radix - switches + 1)
        groups = ceil(sought.endpoints / (switches * hosts))
        while switches * groups <= _nodes(best) and groups - 1 <= switches * sought.radix:
            made = _one_dragonfly(sought, switches, groups)
            if made:
                best = _better(made, best)
                break
            groups += 1
    return best


def _one_dragonfly(sought: _Sought, switches: int, groups: int) -> _Made | None:
    hosts = sought.hosts_at(switches * groups)
    ends = hosts * sought.unit
    far = sought.cables_for(switches * ends / groups if groups > 1 else 0)
    local = sought.cables_for(_local_load(ends, (switches, 0, groups, far)))
    if ends + (switches - 1) * local + _out_of_group(groups, far, switches) > sought.radix:
        return None
    cables = groups * comb(switches, 2) * local + comb(groups, 2) * far
    return _Made(switches * groups, cables, hosts, (switches, groups), (local, far))


def _dragonfly_plus(sought: _Sought) -> _Made | None:
    """Search over leaves of a group and groups; of spines the fewest that serve them."""
    best: _Made | None = None
    for leaves in range(1, sought.radix + 1):
        groups = ceil(sought.endpoints / (leaves * sought.most_hosts(sought.radix)))
        while (leaves + 1) * groups <= _nodes(best) and groups - 1 <= sought.radix**2:
            made = _one_dragonfly_plus(sought, leaves, groups, _nodes(best))
            best = _better(made, best)
            groups += 1
    return best


def _one_dragonfly_plus(sought: _Sought, leaves: int, groups: int, most: float) -> _Made | None:
    """A dragonfly+ of the fewest spines that have the ports for all that passes them, of at most
    ``most`` switches."""
    hosts = sought.hosts_at(leaves * groups)
    ends = hosts * sought.unit
    # between two groups, each pair of which has an equal part of all traffic
    far = sought.cables_for(leaves * ends / groups if groups > 1 else 0)
    passing = (leaves - 1 / groups) * ends / sought.most + (groups - 1) * far
    for spines in range(max(1, ceil(passing / sought.radix - _ROUNDED)), sought.radix - ends + 1):
        if (leaves + spines) * groups > most:
            break
        local = sought.cables_for(_local_load(ends, (leaves, spines, groups, far)))
        at_leaf = ends + spines * local
        at_spine = leaves * local + _out_of_group(groups, far, spines)
        if max(at_leaf, at_spine) <= sought.radix:
            nodes = (leaves + spines) * groups
            cables = groups * leaves * spines * local + comb(groups, 2) * far
            return _Made(nodes, cables, hosts, (leaves, groups), (local, far), spines)
    return None


def _ends(sought: _Sought, made: _Made, name: str) -> DirectLevel:
    """The switches that have endpoints."""
    ends = made.hosts * sought.unit
    return DirectLevel(
        name,
        switches=prod(made.shape),
        ports=ends,
        others=ends,
        parallel=1,
        cables=sought.endpoints * sought.unit,
        load=1.0,
    )


def _group_levels(sought: _Sought, made: _Made) -> Iterator[DirectLevel]:
    switches, groups = made.shape
    local, far = made.parallel
    spines = made.spines
    ends = made.hosts * sought.unit
    own = switches * groups
    load = _local_load(ends, (switches, spines, groups, far)) / local
    yield _ends(sought, made, "leaf" if spines else "switch")
    if spines:
        yield DirectLevel(
            "spine",
            switches=spines * groups,
            ports=switches * local,
            others=switches,
            parallel=local,
            cables=own * spines * local,
            load=load,
        )
    else:
        ports = (switches - 1) * local
        yield DirectLevel(
            "local",
            switches=0,
            ports=ports,
            others=switches - 1,
            parallel=local,
            cables=own * ports // 2,
            load=load,
        )
    yield DirectLevel(
        "global",
        switches=0,
        ports=_out_of_group(groups, far, spines or switches),
        others=groups - 1,
        parallel=far,
        cables=comb(groups, 2) * far,
        load=own * ends / groups**2 / far if groups > 1 else 0.0,
    )


# axes


def _hyperx(sought: _Sought) -> _Made | None:
    """Search over all sizes of one to :data:`MOST_AXES` axes, in rising order."""
    best: _Made | None = None
    least = ceil(sought.endpoints / sought.most_hosts(sought.radix))

    def grow(shape: tuple[int, ...], left: int) -> None:
        """``left``: ports that the cables of further axes may take."""
        nonlocal best
        nodes = prod(shape)
        before = shape[-1] if shape else 1
        # as the last axis: long enough for all endpoints
        size = max(before, ceil(least / nodes))
        while size - 1 <= left and nodes * size <= _nodes(best):
            made = _one_hyperx(sought, (*shape, size))
            if made:
                best = _better(made, best)
                break
            size += 1
        # as one before others, which are at least as long
        if len(shape) + 1 < MOST_AXES:
            for size in range(max(2, before), left + 2):
                if nodes * size * size > _nodes(best):
                    break
                grow((*shape, size), left - size + 1)

    grow((), sought.radix - sought.unit)
    return best


def _one_hyperx(sought: _Sought, shape: tuple[int, ...]) -> _Made | None:
    nodes = prod(shape)
    hosts = sought.hosts_at(nodes)
    ends = hosts * sought.unit
    parallel = []
    # ports that a switch still has for the cables of further axes
    free = sought.radix - ends
    cables = 0
    for size in shape:
        each = sought.cables_for(ends / size if size > 1 else 0)
        ports = (size - 1) * each
        parallel.append(each)
        free -= ports
        cables += nodes * ports // 2
    return _Made(nodes, cables, hosts, shape, tuple(parallel)) if free >= 0 else None


def _hyperx_levels(sought: _Sought, made: _Made) -> Iterator[DirectLevel]:
    yield _ends(sought, made, "switch")
    ends = made.hosts * sought.unit
    for axis, (size, each) in enumerate(zip(made.shape, made.parallel, strict=True), start=1):
        ports = (size - 1) * each
        yield DirectLevel(
            f"axis-{axis}",
            switches=0,
            ports=ports,
            others=size - 1,
            parallel=each,
            cables=made.nodes * ports // 2,
            load=ends / size / each if size > 1 else 0.0,
        )
