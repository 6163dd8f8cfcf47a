"""Finds the levels of a Clos in hosts, switches and the cables between them: :func:`clos_of`.

A network that is no Clos is an error with the reason. Rates are in bytes/s, one way. The hosts are put
in groups that share leaves, and level by level groups that share a switch there are merged, until one is
left; the number of hosts in the largest, in whole groups of the level below, is the level's ``group``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import ceil
from statistics import median
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.formatting import counted

_FIX = "describe it by hand: colltool fabric init, colltool guide fabrics"
# Names of hosts in a note.
_SHOWN = 3


@dataclass(frozen=True)
class Wiring:
    """A network as it was found; every cable is listed once.

    Args:
        file, tool: that listed it.
        ports: how many ports each switch has, by its name.
        hosts: the switch and the rate in bytes/s, one way, of each port of each host.
        cables: between two switches, with their rates.
        names: descriptions of switches, for errors.
        infiniband: whether it is InfiniBand for sure.
        reduces: whether switches answer as aggregation nodes (SHARP); None if unknown.
    """

    file: str
    tool: str
    ports: Mapping[str, int]
    hosts: Mapping[str, Sequence[tuple[str, float]]]
    cables: Sequence[tuple[str, str, float]]
    names: Mapping[str, str] = field(default_factory=dict)
    infiniband: bool = False
    reduces: bool | None = None

    def description(self, switch: str) -> str:
        """Return what errors call a switch."""
        return clipped(self.names.get(switch) or switch)

    def not_a_clos(self, what: str) -> ColltoolError:
        """Return the error for a network that is no Clos."""
        return ColltoolError(f"is not a Clos: {what}", where=self.file, fix=_FIX)


class SwitchLevel(NamedTuple):
    """A level of switches.

    Args:
        group: hosts under one switch, or under the same switch of every rail.
        switches: their number on all rails.
        oversubscription: of the switches below, what enters them from below over their uplinks; 1 on
            the first level.
    """

    group: int
    switches: int
    oversubscription: float


@dataclass(frozen=True, kw_only=True)
class ClosNetwork:
    """A Clos of hosts that each have ``ports`` of ``port_Bps``, on ``rails`` leaves.

    Attributes:
        file, tool: that listed it.
        ports, port_Bps, radix: None if unknown; bytes/s one way, ports of a leaf.
        levels: bottom up.
        infiniband: whether it is InfiniBand for sure.
        reduces: whether switches compute (SHARP); None if unknown.
        notes: what is left out.
        assumed: what was taken as usual.
    """

    file: str
    tool: str
    hosts: int
    ports: int | None
    port_Bps: float | None
    rails: int
    levels: tuple[SwitchLevel, ...]
    radix: int | None
    infiniband: bool
    reduces: bool | None
    notes: tuple[str, ...]
    assumed: tuple[str, ...] = ()


Cables = Sequence[tuple[str, float]]
"""Cables of a host or a switch upwards: the switch there, and the rate in bytes/s."""
# Cables by the name of the host, and of the switch below.
Hosts = Mapping[str, Cables]
Uplinks = Mapping[str, Cables]


def _switches(cables: Cables) -> frozenset[str]:
    """The switches that cables lead to."""
    return frozenset(switch for switch, _ in cables)


def _rate_Bps(cables: Cables) -> float:
    """Bytes/s of cables together."""
    return sum(rate for _, rate in cables)


class _Branch(NamedTuple):
    """Some hosts below a level, by the name of the first, and the switches of the level that they
    reach."""

    host: str
    switches: frozenset[str]


class _HostGroup(NamedTuple):
    """Hosts that switches of a level join, all such switches, and a branch for each group of the level
    below that was merged into this one; no branches on the first level."""

    switches: frozenset[str]
    hosts: list[str]
    branches: list[_Branch]


def clos_of(wiring: Wiring) -> ClosNetwork:
    """Return the levels of a network.

    Level 1 has the switches with hosts, level n+1 those one cable above; every cable joins
    neighbouring levels. Hosts share either all leaves or none, and any two branches of a group have
    a switch in common. Only the largest class of hosts with equal ports is counted.

    Raises:
        ColltoolError: there are no hosts, or it is not a Clos; says by which cable or hosts.
    """
    hosts, notes = _usual_hosts(wiring)
    switches = _switch_levels(wiring, hosts)
    uplinks = _uplinks(wiring, switches)
    # all that are left have as many, of one rate in all
    ports = next(iter(hosts.values()))
    levels, assumed = _measured_levels(wiring, hosts, switches, uplinks)
    return ClosNetwork(
        file=wiring.file,
        tool=wiring.tool,
        hosts=len(hosts),
        ports=len(ports),
        port_Bps=_rate_Bps(ports) / len(ports),
        rails=len(_switches(ports)),
        levels=tuple(levels),
        radix=max(wiring.ports[leaf] for leaf in switches[0]),
        infiniband=wiring.infiniband,
        reduces=wiring.reduces,
        notes=tuple(notes),
        assumed=tuple(assumed),
    )


def _usual_hosts(wiring: Wiring) -> tuple[Hosts, list[str]]:
    """The largest class of hosts with equal ports, and notes on those that are left out."""
    if not wiring.hosts:
        raise ColltoolError(
            "has no hosts on switches",
            where=wiring.file,
            fix="let it run on the whole subnet, with switches",
        )
    # hosts by the number of their ports, and the bytes/s of these together
    classes: dict[tuple[int, float], list[str]] = {}
    for host, cables in wiring.hosts.items():
        key = (len(cables), _rate_Bps(cables))
        classes.setdefault(key, []).append(host)
    # of two equally large classes the one with more ports
    usual = max(classes, key=lambda key: (len(classes[key]), key))
    notes = []
    for key, names in sorted(classes.items(), key=lambda item: -len(item[1])):
        if key == usual:
            continue
        ports, rate_Bps = key
        ports_text = f"{counted(ports, 'port')}, {8e-9 * rate_Bps:g} Gb/s in all"
        notes.append(f"{counted(len(names), 'host')} with {ports_text}: {_listed(sorted(names))}")
    return {host: wiring.hosts[host] for host in classes[usual]}, notes


def _listed(names: Sequence[str]) -> str:
    """The first few names, with an ellipsis if there are more."""
    more = " ..." if len(names) > _SHOWN else ""
    return ", ".join(map(clipped, names[:_SHOWN])) + more


def _switch_levels(wiring: Wiring, hosts: Hosts) -> list[set[str]]:
    """The switches of each level, leaves first: those with hosts, then those that a cable joins to the
    level before and that are on none yet."""
    neighbours: dict[str, set[str]] = {switch: set() for switch in wiring.ports}
    for low, high, _ in wiring.cables:
        neighbours[low].add(high)
        neighbours[high].add(low)
    level: set[str] = set()
    for cables in hosts.values():
        level |= _switches(cables)
    levels = []
    reached: set[str] = set()
    while level:
        levels.append(level)
        reached |= level
        level = set().union(*(neighbours[switch] for switch in level)) - reached
    return levels


def _uplinks(wiring: Wiring, switches: Sequence[set[str]]) -> Uplinks:
    """The cables of each switch to the level above, none of a switch without any.

    Raises:
        ColltoolError: a cable joins two switches of one level.
    """
    heights: dict[str, int] = {}
    for height, level in enumerate(switches, start=1):
        heights |= dict.fromkeys(level, height)
    uplinks: dict[str, list[tuple[str, float]]] = {switch: [] for switch in wiring.ports}
    for low, high, rate in wiring.cables:
        # between switches that no way joins to a leaf
        if low not in heights:
            continue
        if heights[low] > heights[high]:
            low, high = high, low
        # a level is one cable above the last, so no cable skips one
        if heights[low] == heights[high]:
            both = f"are on level {heights[low]}" if heights[low] > 1 else "have hosts"
            names = f"{wiring.description(low)} and {wiring.description(high)}"
            raise wiring.not_a_clos(f"a cable joins {names}, and both {both}")
        uplinks[low].append((high, rate))
    return uplinks


def _measured_levels(
    wiring: Wiring, hosts: Hosts, switches: Sequence[set[str]], uplinks: Uplinks
) -> tuple[list[SwitchLevel], list[str]]:
    """The levels that join more hosts than the ones below them, and sentences on what was assumed where
    the switches of a level differ.

    The oversubscription of a level is the median of the switches below it. Leaves with 32 ports of 50 GB/s
    to hosts and uplinks of 800 GB/s together have 2:1. If two of ten leaves have uplinks of 400 GB/s, 4:1,
    the median still is 2, and these two are pinched.
    """
    # into each switch
    rates_Bps = _rates_from_below(hosts, uplinks)
    groups = _leaf_groups(wiring, hosts)
    levels = [SwitchLevel(_largest(groups), len(switches[0]), oversubscription=1.0)]
    assumed = []
    for lower, level in pairwise(switches):
        up_Bps = {switch: _rate_Bps(uplinks[switch]) for switch in lower if uplinks[switch]}
        ratios = {switch: rates_Bps[switch] / rate_Bps for switch, rate_Bps in up_Bps.items()}
        usual_ratio = median(ratios.values())
        # 1.001: the last digits of sums of rates differ by their order
        pinched = [switch for switch in ratios if ratios[switch] > usual_ratio * 1.001]
        groups = _groups_above(wiring, groups, uplinks)
        # the groups of a Clos are whole groups of the level below
        group_below = levels[-1].group
        group = ceil(_largest(groups) / group_below) * group_below
        # switches above that join no more hosts add no level
        if group > group_below:
            levels.append(SwitchLevel(group, len(level), max(1.0, round(usual_ratio, 4))))
            if pinched and max(ratios.values()) > 1:
                ratio_in_all = sum(rates_Bps[switch] for switch in up_Bps) / sum(up_Bps.values())
                assumed.append(_pinched_text(wiring, ratios, pinched, usual_ratio, ratio_in_all))
    if len(groups) > 1:
        hosts_text = " and ".join(clipped(min(group.hosts)) for group in groups[:2])
        raise wiring.not_a_clos(
            f"{len(groups)} parts have no switch in common, such as those of {hosts_text}"
        )
    return levels, assumed


def _pinched_text(
    wiring: Wiring,
    ratios: Mapping[str, float],
    pinched: Sequence[str],
    usual_ratio: float,
    ratio_in_all: float,
) -> str:
    """What was assumed where some switches (``pinched``) are more oversubscribed than the median one.

    Args:
        ratios: oversubscription of each switch of the level.
        ratio_in_all: that of all of them together.
    """
    worst = max(pinched, key=lambda switch: ratios[switch])
    verb = "is" if len(pinched) == 1 else "are"
    return (
        f"uplinks at {max(1.0, usual_ratio):.4g}:1, the median; {len(pinched)} of {len(ratios)}"
        f" switches {verb} worse, {wiring.description(worst)} most: {ratios[worst]:.4g}:1;"
        f" {ratio_in_all:.4g}:1 in all"
    )


def _largest(groups: Sequence[_HostGroup]) -> int:
    """Hosts of the largest group."""
    return max(len(group.hosts) for group in groups)


def _rates_from_below(hosts: Hosts, uplinks: Uplinks) -> Mapping[str, float]:
    """Bytes/s of all cables from below into each switch."""
    rates_Bps: dict[str, float] = defaultdict(float)
    for cables in (*hosts.values(), *uplinks.values()):
        for switch, rate in cables:
            rates_Bps[switch] += rate
    return rates_Bps


def _leaf_groups(wiring: Wiring, hosts: Hosts) -> list[_HostGroup]:
    """The groups of the first level: hosts with the same leaves.

    Raises:
        ColltoolError: two hosts share some of their leaves, not all.
    """
    hosts_by_leaves: dict[frozenset[str], list[str]] = {}
    for host, cables in hosts.items():
        hosts_by_leaves.setdefault(_switches(cables), []).append(host)
    # of each leaf, all leaves of the first hosts on it
    leaves_of: dict[str, frozenset[str]] = {}
    for leaves, members in hosts_by_leaves.items():
        for leaf in leaves:
            first_leaves = leaves_of.setdefault(leaf, leaves)
            if first_leaves != leaves:
                first_host = hosts_by_leaves[first_leaves][0]
                names = f"{clipped(first_host)} and {clipped(members[0])}"
                raise wiring.not_a_clos(
                    f"{names} share {wiring.description(leaf)}, but not their other leaves"
                )
    return [_HostGroup(leaves, members, []) for leaves, members in hosts_by_leaves.items()]


def _groups_above(
    wiring: Wiring, groups: Sequence[_HostGroup], uplinks: Uplinks
) -> list[_HostGroup]:
    """The groups of the next level, in each of which groups of this level are merged: those that share
    a switch there, directly or by way of others.

    Raises:
        ColltoolError: two of those that were merged share no switch themselves.
    """
    joined: list[_HostGroup] = []
    for group in groups:
        reached = frozenset().union(*(_switches(uplinks[switch]) for switch in group.switches))
        meeting = []
        apart = []
        for earlier in joined:
            if earlier.switches & reached:
                meeting.append(earlier)
            else:
                apart.append(earlier)
        meeting.append(_HostGroup(reached, group.hosts, [_Branch(group.hosts[0], reached)]))
        joined = [*apart, _merged(meeting)]
    for group in joined:
        _check_branches(wiring, group.branches)
    return joined


def _merged(groups: Sequence[_HostGroup]) -> _HostGroup:
    """One group of the hosts, switches and branches of several."""
    merged = _HostGroup(frozenset().union(*(group.switches for group in groups)), [], [])
    for group in groups:
        merged.hosts.extend(group.hosts)
        merged.branches.extend(group.branches)
    return merged


def _check_branches(wiring: Wiring, branches: Sequence[_Branch]) -> None:
    """Raise an error if two branches of a group share no switch."""
    # with a switch that all share, thousands of pairs need no check
    if frozenset.intersection(*(branch.switches for branch in branches)):
        return
    for first, second in combinations(branches, 2):
        if not first.switches & second.switches:
            raise wiring.not_a_clos(
                f"the leaves of {clipped(first.host)} and {clipped(second.host)} share no switch"
                " above, though others join them"
            )
