"""Dragonflies, dragonfly+ and HyperX of the fewest equal switches for so many endpoints, by search
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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, prod
from typing import ClassVar, Literal, NamedTuple, get_args

from colltool.base.errors import ColltoolError, given
from colltool.definitions.field_types import MAX_RANKS
from colltool.sizing.size_clos import check_counts

Direct = Literal["dragonfly", "dragonfly_plus", "hyperx"]
DIRECT: tuple[Direct, ...] = get_args(Direct)
MOST_AXES = 5
"""Of a HyperX; a fabric file has no more."""

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
    """A network whose endpoints stand at all its switches, or at all leaves; no cable joins two
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
        return max((one.load for one in self.levels[1:]), default=0.0)

    @property
    def bisection(self) -> float:
        """Of what half of the endpoints inject, at least.

        Half of that crosses when all send alike to all, which no cable slows by more than
        :attr:`oversubscription`.
        """
        return 1 / max(1.0, 2 * self.oversubscription)


class _Sought(NamedTuple):
    """On one rail: endpoints of ``unit`` ports, switches of ``radix``, the most load of a cable."""

    endpoints: int
    unit: int
    radix: int
    most: float

    def hosts_at(self, switches: int) -> int:
        return -(-self.endpoints // switches)

    def cables_for(self, load: float) -> int:
        """The fewest parallel ones; ``load``: of one alone."""
        return max(1, ceil(load / self.most - _ROUNDED))


class _Made(NamedTuple):
    """One rail. ``shape``: switches (leaves) and groups, or of each axis; ``parallel``: cables of
    each kind."""

    nodes: int
    cables: int
    hosts: int
    shape: tuple[int, ...]
    parallel: tuple[int, ...]
    spines: int = 0


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
        raise ColltoolError(
            f"{endpoints} endpoints are more than {MAX_RANKS}",
            argument="endpoints",
            fix="size one part of it",
        )
    if ports % rails:
        fix = f"write {given('rails', 1)}, or a number that divides {ports}"
        raise ColltoolError(
            f"{rails} rails do not divide the {ports} ports of an endpoint",
            argument="rails",
            fix=fix,
        )
    asked = _Sought(endpoints, ports // rails, radix, most)
    search: dict[Direct, Callable[[_Sought], _Made | None]]
    search = {"dragonfly": _dragonfly, "dragonfly_plus": _dragonfly_plus, "hyperx": _hyperx}
    found = search[topology](asked)
    if found is None:
        name = {
            "dragonfly": "dragonfly",
            "dragonfly_plus": "dragonfly+",
            "hyperx": f"HyperX of up to {MOST_AXES} axes",
        }[topology]
        what = (
            f"no {name} of {radix}-port switches joins {endpoints * asked.unit} ports at {most:g}:1"
        )
        raise ColltoolError(
            what,
            argument="endpoints",
            fix="use a larger radix, more rails, or more oversubscription",
        )
    return _plan(topology, asked, rails, found)


def _plan(topology: Direct, asked: _Sought, rails: int, made: _Made) -> DirectPlan:
    levels = tuple(
        _hyperx_levels(asked, made) if topology == "hyperx" else _group_levels(asked, made)
    )
    room = made.hosts * prod(made.shape)
    alone = rails == asked.unit == 1
    return DirectPlan(
        topology=topology,
        rails=rails,
        radix=asked.radix,
        ports=rails * asked.unit * asked.endpoints,
        spare_ports=rails * asked.unit * (room - asked.endpoints),
        hosts=made.hosts,
        shape=made.shape,
        spines=made.spines,
        levels=tuple(
            replace(one, switches=rails * one.switches, cables=rails * one.cables) for one in levels
        ),
        switches=rails * made.nodes,
        cables=rails * made.cables,
        diameter=2 + _hops(topology, made),
        tier=_tier(topology, made) if alone else {},
        notes=tuple(_notes(levels, asked, made)),
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
    links = [{"links": count} for count in made.parallel]
    if topology == "hyperx":
        return {
            "topology": topology,
            "hosts": made.hosts,
            "shape": list(made.shape),
            "links": links,
        }
    switches, groups = made.shape
    spines = {"spines": made.spines} if made.spines else {}
    sizes = {"hosts": made.hosts, "switches": switches} | spines | {"groups": groups}
    return {"topology": topology} | sizes | dict(zip(("local", "global"), links, strict=True))


def _notes(levels: tuple[DirectLevel, ...], asked: _Sought, made: _Made) -> Iterator[str]:
    if made.nodes == 1:
        yield "one switch joins everything"
    # of a leaf; spines are shown by their row
    used = sum(one.ports for one in levels if not made.spines or one.name != "global")
    if not made.spines and (unused := asked.radix - used):
        yield f"a switch leaves at least {unused} of its {asked.radix} ports unused"


# groups


def _out_of_group(groups: int, parallel: int, gateways: int) -> int:
    """Cables between groups at the gateway that has most."""
    return -(-(groups - 1) * parallel // gateways)


def _local_load(hosts: int, made: tuple[int, int, int, int]) -> float:
    """Of uniform traffic on one cable of two switches of a group, or from leaf to spine, at the
    gateway with most cables.

    ``hosts``: ports of endpoints at a switch; ``made``: switches, spines, groups and cables between
    two of these. With x of C cables at a gateway, (g-1)/g of a switch's p leave by it in the ratio
    x/C and, without spines, as many come in; 1/g stays.
    """
    switches, spines, groups, parallel = made
    leaving = (
        (groups - 1)
        / groups
        * _out_of_group(groups, parallel, spines or switches)
        / ((groups - 1) * parallel or 1)
    )
    if spines:
        return hosts * (leaving + (switches - 1) / (switches * groups * spines))
    return hosts * (2 * leaving + 1 / (groups * switches)) if switches > 1 else 0.0


def _dragonfly(asked: _Sought) -> _Made | None:
    """Over switches a of a group and groups g; hosts, then cables are the fewest that serve
    them."""
    best: _Made | None = None
    for switches in range(1, asked.radix + 1):
        groups = max(
            1, -(-asked.endpoints // (switches * _most_hosts(asked, asked.radix - switches + 1)))
        )
        while (
            switches * groups <= (best.nodes if best else inf)
            and groups - 1 <= switches * asked.radix
        ):
            made = _one_dragonfly(asked, switches, groups)
            if made:
                best = made if best is None or made[:2] < best[:2] else best
                break
            groups += 1
    return best


def _most_hosts(asked: _Sought, ports: int) -> int:
    """Endpoints at a switch at most, one for one with its ports."""
    return max(1, ports // asked.unit)


def _one_dragonfly(asked: _Sought, switches: int, groups: int) -> _Made | None:
    hosts = asked.hosts_at(switches * groups)
    ends = hosts * asked.unit
    far = asked.cables_for(switches * ends / groups if groups > 1 else 0)
    local = asked.cables_for(_local_load(ends, (switches, 0, groups, far)))
    if ends + (switches - 1) * local + _out_of_group(groups, far, switches) > asked.radix:
        return None
    cables = groups * switches * (switches - 1) // 2 * local + groups * (groups - 1) // 2 * far
    return _Made(switches * groups, cables, hosts, (switches, groups), (local, far))


def _dragonfly_plus(asked: _Sought) -> _Made | None:
    """Over leaves of a group and groups; of spines the fewest that serve them."""
    best: _Made | None = None
    for leaves in range(1, asked.radix + 1):
        groups = max(1, -(-asked.endpoints // (leaves * _most_hosts(asked, asked.radix))))
        while (leaves + 1) * groups <= (
            best.nodes if best else inf
        ) and groups - 1 <= asked.radix**2:
            made = _one_dragonfly_plus(asked, leaves, groups, best.nodes if best else inf)
            if made and (best is None or made[:2] < best[:2]):
                best = made
            groups += 1
    return best


def _one_dragonfly_plus(asked: _Sought, leaves: int, groups: int, most: float) -> _Made | None:
    """With the fewest spines, from those that have the ports for all that passes them; of at most
    so many switches."""
    hosts = asked.hosts_at(leaves * groups)
    ends = hosts * asked.unit
    far = asked.cables_for(leaves * ends / groups if groups > 1 else 0)
    passing = (leaves - 1 / groups) * ends / asked.most + (groups - 1) * far
    for spines in range(max(1, ceil(passing / asked.radix - _ROUNDED)), asked.radix - ends + 1):
        if (leaves + spines) * groups > most:
            break
        local = asked.cables_for(_local_load(ends, (leaves, spines, groups, far)))
        at_leaf, at_spine = (
            ends + spines * local,
            leaves * local + _out_of_group(groups, far, spines),
        )
        if max(at_leaf, at_spine) <= asked.radix:
            cables = groups * leaves * spines * local + groups * (groups - 1) // 2 * far
            return _Made(
                (leaves + spines) * groups, cables, hosts, (leaves, groups), (local, far), spines
            )
    return None


def _ends(asked: _Sought, made: _Made, name: str) -> DirectLevel:
    """The switches that endpoints stand at."""
    ends, cables = made.hosts * asked.unit, asked.endpoints * asked.unit
    return DirectLevel(
        name,
        switches=prod(made.shape),
        ports=ends,
        others=ends,
        parallel=1,
        cables=cables,
        load=1.0,
    )


def _group_levels(asked: _Sought, made: _Made) -> Iterator[DirectLevel]:
    (switches, groups), (local, far), spines = made.shape, made.parallel, made.spines
    ends, own = made.hosts * asked.unit, switches * groups
    load = _local_load(ends, (switches, spines, groups, far)) / local
    yield _ends(asked, made, "leaf" if spines else "switch")
    if spines:
        ports, cables = switches * local, own * spines * local
        many = spines * groups
        yield DirectLevel(
            "spine",
            switches=many,
            ports=ports,
            others=switches,
            parallel=local,
            cables=cables,
            load=load,
        )
    else:
        ports = (switches - 1) * local
        cables = own * ports // 2
        yield DirectLevel(
            "local",
            switches=0,
            ports=ports,
            others=switches - 1,
            parallel=local,
            cables=cables,
            load=load,
        )
    ports, cables = _out_of_group(groups, far, spines or switches), groups * (groups - 1) // 2 * far
    load = own * ends / groups**2 / far if groups > 1 else 0.0
    yield DirectLevel(
        "global", switches=0, ports=ports, others=groups - 1, parallel=far, cables=cables, load=load
    )


# axes


def _hyperx(asked: _Sought) -> _Made | None:
    """Over all sizes of one to :data:`MOST_AXES` axes, in rising order."""
    best: _Made | None = None
    least = -(-asked.endpoints // _most_hosts(asked, asked.radix))

    def grow(shape: tuple[int, ...], left: int) -> None:
        """``left``: ports that the cables of further axes may take."""
        nonlocal best
        nodes = prod(shape)
        size = max(shape[-1] if shape else 1, -(-least // nodes))
        while size - 1 <= left and nodes * size <= (best.nodes if best else inf):
            made = _one_hyperx(asked, (*shape, size))
            if made:
                best = made if best is None or made[:2] < best[:2] else best
                break
            size += 1
        if len(shape) + 1 < MOST_AXES:
            for size in range(max(2, shape[-1] if shape else 2), left + 2):
                if nodes * size * size > (best.nodes if best else inf):
                    break
                grow((*shape, size), left - size + 1)

    grow((), asked.radix - asked.unit)
    return best


def _one_hyperx(asked: _Sought, shape: tuple[int, ...]) -> _Made | None:
    hosts = asked.hosts_at(prod(shape))
    ends = hosts * asked.unit
    parallel = tuple(asked.cables_for(ends / size if size > 1 else 0) for size in shape)
    between = [(size - 1) * each for size, each in zip(shape, parallel, strict=True)]
    if ends + sum(between) > asked.radix:
        return None
    nodes = prod(shape)
    return _Made(nodes, sum(nodes * one // 2 for one in between), hosts, shape, parallel)


def _hyperx_levels(asked: _Sought, made: _Made) -> Iterator[DirectLevel]:
    yield _ends(asked, made, "switch")
    for axis, (size, each) in enumerate(zip(made.shape, made.parallel, strict=True), start=1):
        ports = (size - 1) * each
        cables, load = (
            made.nodes * ports // 2,
            made.hosts * asked.unit / size / each if size > 1 else 0.0,
        )
        yield DirectLevel(
            f"axis-{axis}",
            switches=0,
            ports=ports,
            others=size - 1,
            parallel=each,
            cables=cables,
            load=load,
        )
