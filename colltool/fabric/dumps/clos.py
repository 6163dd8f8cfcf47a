"""Hosts, switches and the cables between them, as the levels of a Clos; a network that is none is
refused with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.formatting import counted
from colltool.base.primitives import ceil_div

_FIX = "describe it by hand: colltool fabric init, colltool guide fabrics"
_SHOWN = 3  # names in a note


@dataclass(frozen=True)
class Wiring:
    """A network as it was found. Every cable stands once.

    Args:
        ports: of each switch.
        hosts: the switch and the rate in bytes/s, one way, of each port of each host.
        cables: between two switches, with their rates.
        names: what people call a switch.
        infiniband: whether it is InfiniBand for sure.
        reduces: whether switches answer as aggregation nodes (SHARP); None where that is not told.
    """

    file: str
    tool: str
    ports: Mapping[str, int]
    hosts: Mapping[str, Sequence[tuple[str, float]]]
    cables: Sequence[tuple[str, str, float]]
    names: Mapping[str, str] = field(default_factory=dict)
    infiniband: bool = False
    reduces: bool | None = None

    def named(self, switch: str) -> str:
        return clipped(self.names.get(switch) or switch)

    def refuse(self, what: str) -> ColltoolError:
        return ColltoolError(f"is not a Clos: {what}", where=self.file, fix=_FIX)


class SwitchLevel(NamedTuple):
    """``group``: hosts under one switch of it, or under what stands in its place on every rail.
    ``uplinks``: oversubscription of the switches below, 1 on the first level."""

    group: int
    switches: int
    uplinks: float


@dataclass(frozen=True, kw_only=True)
class ClosNetwork:
    """A Clos of hosts that each have ``ports`` of ``port_Bps``, on ``rails`` leaves."""

    file: str
    tool: str
    hosts: int
    ports: int
    port_Bps: float
    rails: int
    levels: tuple[SwitchLevel, ...]
    radix: int
    infiniband: bool
    reduces: bool | None
    notes: tuple[str, ...]


def clos_of(wiring: Wiring) -> ClosNetwork:
    """The levels of a network.

    Level 1 has the switches with hosts, level n+1 those one cable above; every cable joins
    neighbouring levels. Hosts share either all leaves or none, and any two groups under one level
    meet under a switch of the next.

    Raises:
        ColltoolError: there are no hosts, or it is not a Clos; says by which cable or hosts.
    """
    hosts, notes = _alike(wiring)
    height = _heights(wiring, hosts)
    cables = [cable for cable in wiring.cables if height[cable[0]] and height[cable[1]]]
    for a, b, _ in cables:
        if abs(height[a] - height[b]) != 1:
            at = (
                "both have hosts"
                if height[a] == height[b] == 1
                else f"both are on level {height[a]}"
            )
            raise wiring.refuse(f"a cable joins {wiring.named(a)} and {wiring.named(b)}, and {at}")
    above: dict[str, list[tuple[str, float]]] = {
        switch: [] for switch, level in height.items() if level
    }
    for a, b, rate in cables:
        low, high = (a, b) if height[a] < height[b] else (b, a)
        above[low].append((high, rate))
    below_Bps = _below(hosts, above)
    groups = _leaf_groups(wiring, hosts)
    levels = [
        SwitchLevel(
            max(map(len, groups.values())), sum(1 for one in height.values() if one == 1), 1.0
        )
    ]
    for level in range(2, max(height.values()) + 1):
        lower = [switch for switch, one in height.items() if one == level - 1]
        uplinks = max(
            below_Bps[one] / sum(rate for _, rate in above[one]) for one in lower if above[one]
        )
        groups = _joined(wiring, groups, {one: {high for high, _ in above[one]} for one in lower})
        largest, group = max(map(len, groups.values())), levels[-1].group
        nested = ceil_div(largest, group) * group
        count = sum(1 for one in height.values() if one == level)
        if nested > group:
            levels.append(SwitchLevel(nested, count, max(1.0, round(uplinks, 4))))
    if len(groups) > 1:
        shown = " and ".join(_some(sorted(members)[:1]) for members in list(groups.values())[:2])
        raise wiring.refuse(
            f"{len(groups)} parts have no switch in common, such as those of {shown}"
        )
    (ports, rate), rails = _ports(hosts), len({switch for switch, _ in next(iter(hosts.values()))})
    leaves = [switch for switch, one in height.items() if one == 1]
    return ClosNetwork(
        file=wiring.file,
        tool=wiring.tool,
        hosts=len(hosts),
        ports=ports,
        port_Bps=rate,
        rails=rails,
        levels=tuple(levels),
        radix=max(wiring.ports[leaf] for leaf in leaves),
        infiniband=wiring.infiniband,
        reduces=wiring.reduces,
        notes=tuple(notes),
    )


Hosts = dict[str, Sequence[tuple[str, float]]]


def _alike(wiring: Wiring) -> tuple[Hosts, list[str]]:
    """The largest class of hosts with equal ports, and what others are left out."""
    if not wiring.hosts:
        raise ColltoolError(
            "has no hosts on switches",
            where=wiring.file,
            fix="let it run on the whole subnet, with switches",
        )
    shapes = {
        host: (len(ports), sum(rate for _, rate in ports)) for host, ports in wiring.hosts.items()
    }
    ranked = Counter(shapes.values()).most_common()
    usual = max((one for one in ranked if one[1] == ranked[0][1]), key=lambda one: one[0])[0]
    kept = {host: ports for host, ports in wiring.hosts.items() if shapes[host] == usual}
    notes = []
    for shape, number in ranked:
        if shape != usual:
            names = _some(sorted(host for host, one in shapes.items() if one == shape))
            notes.append(
                f"{counted(number, 'host')} with {counted(shape[0], 'port')}, {8e-9 * shape[1]:g}"
                f" Gb/s in all: {names}"
            )
    return kept, notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(clipped, names[:_SHOWN])) + (" ..." if len(names) > _SHOWN else "")


def _ports(hosts: Hosts) -> tuple[int, float]:
    ports = next(iter(hosts.values()))
    return len(ports), sum(rate for _, rate in ports) / len(ports)


def _heights(wiring: Wiring, hosts: Hosts) -> dict[str, int]:
    """The level of each switch; 0 where no cable leads to one with hosts."""
    beside: dict[str, set[str]] = {switch: set() for switch in wiring.ports}
    for a, b, _ in wiring.cables:
        beside[a].add(b)
        beside[b].add(a)
    height = dict.fromkeys(wiring.ports, 0)
    front = {switch for ports in hosts.values() for switch, _ in ports}
    level = 0
    while front:
        level += 1
        height |= dict.fromkeys(front, level)
        front = {other for switch in front for other in beside[switch] if not height[other]}
    return height


def _below(hosts: Hosts, above: Mapping[str, Sequence[tuple[str, float]]]) -> Counter[str]:
    """Bytes/s of all cables from below into each switch."""
    found: Counter[str] = Counter()
    for cables in (*hosts.values(), *above.values()):
        for switch, rate in cables:
            found[switch] += rate  # type: ignore[assignment]  # a Counter adds up floats as well
    return found


def _leaf_groups(wiring: Wiring, hosts: Hosts) -> dict[frozenset[str], list[str]]:
    """Hosts by their leaves."""
    groups: dict[frozenset[str], list[str]] = {}
    for host, ports in hosts.items():
        groups.setdefault(frozenset(switch for switch, _ in ports), []).append(host)
    home: dict[str, frozenset[str]] = {}
    for leaves, members in groups.items():
        for leaf in leaves:
            other = home.setdefault(leaf, leaves)
            if other != leaves:
                one, two = clipped(groups[other][0]), clipped(members[0])
                raise wiring.refuse(
                    f"{one} and {two} share {wiring.named(leaf)}, but not their other leaves"
                )
    return groups


def _joined(
    wiring: Wiring, groups: dict[frozenset[str], list[str]], above: Mapping[str, set[str]]
) -> dict[frozenset[str], list[str]]:
    """Groups under the switches of the next level: what meets there becomes one, any two of it
    under a switch they share."""
    ups = {group: frozenset().union(*(above[switch] for switch in group)) for group in groups}
    found: list[list[frozenset[str]]] = []
    for group in groups:
        meeting = [part for part in found if any(ups[group] & ups[other] for other in part)]
        found = [part for part in found if part not in meeting] + [
            [one for part in meeting for one in part] + [group]
        ]
    for part in found:
        if not frozenset.intersection(*(ups[group] for group in part)):
            _check_pairs(wiring, [(groups[group][0], ups[group]) for group in part])
    return {
        frozenset().union(*(ups[group] for group in part)) or part[0]: [
            host for group in part for host in groups[group]
        ]
        for part in found
    }


def _check_pairs(wiring: Wiring, ups: Sequence[tuple[str, frozenset[str]]]) -> None:
    for (one, above), (two, others) in combinations(ups, 2):
        if not above & others:
            raise wiring.refuse(
                f"the leaves of {clipped(one)} and {clipped(two)} share no switch above, though"
                " others join them"
            )


def levels_named(count: int) -> Iterator[str]:
    """leaf, spine, core, and numbers above."""
    from colltool.network.sizing.size_clos import LEVELS

    yield from (LEVELS[at] if at < len(LEVELS) else f"level{at + 1}" for at in range(count))
