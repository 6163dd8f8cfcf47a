"""Sizes Clos networks: the fewest equal switches and the cables between them, on one rail or several:
:func:`clos_plan`.

A hop leads from a level of switches to the next above; it has an oversubscription, or ports down and
up (:mod:`colltool.network.sizing.typed_hops` reads what is typed for it).

With s the oversubscription of a hop (downlinks over uplinks of one switch, all of one rate), E
endpoint ports on a rail and r-port switches, the ports alone require d_i = r·s_i/(1+s_i) down,
u_i = r/(1+s_i) up, ceil(E/d_1) leaves, ceil(leaves·u_1/d_2) spines, ceil(spines·u_2/r) at the top.
Source: Collectives Explainer Series part 03 appendix A.3. :mod:`colltool.network.sizing.wiring` then wires whole
switches evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, inf, prod

from colltool.base.errors import ColltoolError, argument_text, quote
from colltool.base.formatting import counted
from colltool.base.primitives import ceil_div
from colltool.network.sizing.typed_hops import bad_oversubscription
from colltool.network.sizing.wiring import (
    FREE,
    Grouping,
    Hop,
    RailWiring,
    Split,
    best_wiring,
    most_ports,
)

LEVELS = ("leaf", "spine", "core")

MOST_ENDPOINTS = 10**9  # ports of all endpoints; far beyond any network

# Of a switch: the largest have 512. It also bounds the search for a wiring.
MOST_PORTS = 1024


@dataclass(frozen=True)
class ClosLevel:
    """A level of switches."""

    name: str
    switches: int  # on all rails
    per_rail: int  # switches on one rail
    least: int  # on one rail: what the number of ports alone would need, without even wiring
    down_ports: int  # of a switch
    up_ports: int  # of a switch
    oversubscription: float  # downlink over uplink bandwidth, 1 at the top
    cables: int  # from below, on all rails
    parallel: int  # cables between a switch and each switch below that it reaches


@dataclass(frozen=True)
class ClosPlan:
    """A Clos of equal switches; no cable joins two rails."""

    rails: int
    radix: int  # ports per switch
    ports: int  # of all endpoints, on all rails
    spare_ports: int  # unused down-ports of the leaves, on all rails
    levels: tuple[ClosLevel, ...]  # bottom up, without those that are not needed
    switches: int
    cables: int  # between switches
    oversubscription: float  # of the whole network: the product of the levels'
    pods: int  # on a rail: groups of leaves with spines of their own
    planes: int  # on a rail: groups of top switches
    paths: int  # separate ones between two pods or leaves: one per top switch
    tree_levels: int  # height of a reduction tree over all endpoints: every level of switches
    # ceil(log_r of a rail's ports): that height if switches had no uplinks.
    least_levels: int
    notes: tuple[str, ...] = ()
    split: int = 1  # rails that are planes of a single one, over which each NIC splits its links

    def levels_over(self, ports: int) -> int:
        """Switch levels up to where this many packed ports of a rail meet: 1 below a leaf, 2 in a pod."""
        leaves_in_pod = ceil_div(self.leaves, self.pods)
        ports_of_leaf = self.down_ports
        ports_below = (ports_of_leaf, ports_of_leaf * leaves_in_pod)
        # only levels that have another above them
        return 1 + sum(ports > most for most in ports_below[: len(self.levels) - 1])

    @property
    def leaves(self) -> int:
        """Leaves on one rail."""
        return self.levels[0].per_rail

    @property
    def spines(self) -> int:
        """Spines on one rail; 0 of a single leaf."""
        return self.levels[1].per_rail if len(self.levels) > 1 else 0

    @property
    def down_ports(self) -> int:
        """Down-ports of a leaf."""
        return self.levels[0].down_ports

    @property
    def up_ports(self) -> int:
        """Uplinks of a leaf."""
        return self.levels[0].up_ports

    @property
    def cables_per_pair(self) -> int:
        """Cables between a leaf and each of its spines; 0 of a single leaf."""
        return self.levels[1].parallel if len(self.levels) > 1 else 0


def level_names(count: int) -> list[str]:
    """Return names for so many levels of switches: leaf, spine, core, and numbers above."""
    numbered = [f"level{number}" for number in range(len(LEVELS) + 1, count + 1)]
    return [*LEVELS[:count], *numbered]


def tree_levels(endpoints: int, radix: int) -> int:
    """ceil(log_r N), at least 1: levels of a tree of r-port switches over N endpoints with one
    uplink each.

    A non-blocking network takes more: half of the ports below the top are uplinks. Source:
    Collectives Explainer Series part 04 §2.2.
    """
    levels = 1
    while radix**levels < endpoints:
        levels += 1
    return levels


@cache
def levels_under(endpoints: int, rails: int, nics_per_rail: int, radix: int, group: int) -> int:
    """The switch levels up to where ``group`` packed endpoints meet in the :func:`clos_plan` of
    all. If no plan fits, :func:`tree_levels`."""
    try:
        plan = clos_plan(endpoints, rails * nics_per_rail, radix, rails=rails)
    except ColltoolError:
        return tree_levels(group * nics_per_rail, radix)
    return plan.levels_over(group * nics_per_rail)


def clos_plan(
    endpoints: int,
    ports: int,
    radix: int,
    *,
    rails: int = 1,
    levels: int | None = None,
    hops: Sequence[Hop] = (),
    names: Sequence[str] = LEVELS,
    wanted: Grouping = FREE,
) -> ClosPlan:
    """The Clos of fewest equal switches that can be wired evenly, in whole ports and whole switches.

    Args:
        ports: of one endpoint.
        radix: ports per switch.
        rails: separate fabrics that share the ports.
        levels: 1 to 3, default those with the fewest switches, then the fewest levels.
        hops: the most oversubscription of each level below the top, bottom up, or its ports as they
            are; default 1.
        names: of the levels, bottom up.
        wanted: leaf and pod sizes that the fabric fixes.

    Raises:
        ColltoolError: counts out of range, or no such Clos.
    """
    check_counts(endpoints, ports, radix, rails)
    _check_levels(levels, hops)
    on_rail = ceil(endpoints * ports / rails)
    of_endpoint = max(1, ports // rails)
    grouping = wanted._replace(unit=of_endpoint)
    every_hop, wiring = _fewest_switches(on_rail, radix, levels, hops, grouping)
    stages = _stages(wiring, radix, rails, endpoints * ports, names)
    return ClosPlan(
        rails=rails,
        radix=radix,
        ports=endpoints * ports,
        spare_ports=stages[0].switches * stages[0].down_ports - endpoints * ports,
        levels=stages,
        switches=sum(stage.switches for stage in stages),
        cables=sum(stage.cables for stage in stages[1:]),
        oversubscription=prod(stage.oversubscription for stage in stages[:-1]),
        pods=wiring.pods,
        planes=wiring.planes,
        paths=stages[-1].per_rail,
        tree_levels=len(stages),
        least_levels=tree_levels(on_rail, radix),
        notes=(
            *_split_notes(wiring, stages, radix, every_hop),
            *_spread_notes(wiring, stages, on_rail, of_endpoint),
        ),
    )


def _check_levels(levels: int | None, hops: Sequence[Hop]) -> None:
    """Raise ColltoolError for levels that no Clos has here, and oversubscriptions that fit no level."""
    if levels is not None and not 1 <= levels <= len(LEVELS):
        raise ColltoolError(
            f"a Clos has 1 to {len(LEVELS)} levels here, got {levels}",
            argument="levels",
            fix="or leave it out",
        )
    most_hops = (levels or len(LEVELS)) - 1
    if len(hops) > most_hops:
        raise bad_oversubscription(
            f"{most_hops + 1} levels have {counted(most_hops, 'ratio')} below the top, got"
            f" {len(hops)}",
            "give one for each level with uplinks, bottom up",
        )
    for hop in hops:
        if not isinstance(hop, Split) and not hop >= 1:
            raise bad_oversubscription(
                f"oversubscription {hop:g} is below 1", "1 is non-blocking, 2 is 2:1"
            )


def _fewest_switches(
    on_rail: int, radix: int, levels: int | None, hops: Sequence[Hop], wanted: Grouping
) -> tuple[Sequence[Hop], RailWiring]:
    """The hops and the wiring with the fewest switches, of equal ones those of fewer levels. Hops are those
    that are asked for, then 1.0 for each further level.

    Raises:
        ColltoolError: no number of levels joins the ports.
    """
    # ports that are typed for a level ask for the level above it
    fewest_levels = 1
    for number, hop in enumerate(hops, start=1):
        if isinstance(hop, Split):
            fewest_levels = number + 1
    best: tuple[Sequence[Hop], RailWiring] | None = None
    most_switches = inf
    # a level more has to save switches
    for count in [levels] if levels else range(fewest_levels, len(LEVELS) + 1):
        every_hop = [*hops[: count - 1]]
        every_hop += [1.0] * (count - 1 - len(hops))
        wiring = best_wiring(on_rail, radix, every_hop, wanted, most_switches)
        if wiring:
            best = every_hop, wiring
            most_switches = sum(wiring.switches) - 1
    if best:
        return best
    # The error tells of the most levels that were tried: `count` and `every_hop` are the last ones.
    if every_hop and wanted.leaf_down and not isinstance(every_hop[0], Split):
        _check_leaf(wanted.leaf_down, every_hop[0], radix)
    joined = most_ports(radix, every_hop, wanted)
    more_levels = ", more levels" if count < len(LEVELS) else ""
    raise ColltoolError(
        f"{on_rail} ports on one rail do not fit: {counted(count, 'level')} of {radix}-port"
        f" switches join at most {joined}",
        argument="levels" if levels else "endpoints",
        fix=f"use a larger radix, more rails{more_levels}, or more oversubscription",
    )


def _check_leaf(down: int, ratio: float, radix: int) -> None:
    """Raise ColltoolError for a leaf whose ports down and up are more than the switch has."""
    up = max(1, ceil(down / ratio - 1e-9))
    if down + up > radix:
        raise ColltoolError(
            f"a leaf of {down} ports down needs {up} up at {ratio:g}:1, more than the {radix} of"
            " the switch",
            argument="radix",
            fix="use a smaller group, a larger radix, or more oversubscription",
        )


def _stages(
    wiring: RailWiring, radix: int, rails: int, ports: int, names: Sequence[str]
) -> tuple[ClosLevel, ...]:
    """The levels that have switches; one below an empty top keeps the uplinks it was bought with.

    Args:
        ports: of all endpoints, on all rails, which are the cables to the first level.
        names: of the levels, bottom up; at least as many.
    """
    splits = [*wiring.splits, Split(radix, 0, ratio=1.0)]
    # a leaf is reached by single cables of endpoints
    parallel = [1, *wiring.parallel]
    cables = ports
    stages = []
    for level, count in enumerate(wiring.switches):
        split = splits[level]
        if count:  # 0 at a top level that is not needed
            stages.append(
                ClosLevel(
                    name=names[level],
                    switches=rails * count,
                    per_rail=count,
                    least=wiring.least[level],
                    down_ports=split.down,
                    up_ports=split.up,
                    oversubscription=split.ratio,
                    cables=cables,
                    parallel=parallel[level],
                )
            )
        cables = rails * count * split.up
    return tuple(stages)


def _split_notes(
    wiring: RailWiring, stages: Sequence[ClosLevel], radix: int, every_hop: Sequence[Hop]
) -> Iterator[str]:
    """Sentences on where the ports of a switch differ from the request, or are left over. Ports that were
    typed are as asked."""
    for stage, split, hop in zip(stages, wiring.splits, every_hop, strict=False):
        if isinstance(hop, Split):
            continue
        if abs(hop - split.ratio) > 1e-9:
            yield (
                f"{stage.name}: {split.down} ports down and {split.up} up, {split.ratio:.4g}:1"
                f" instead of {hop:g}:1"
            )
        unused = radix - split.down - split.up
        if unused:
            yield f"{stage.name}: a switch leaves {unused} of its {radix} ports unused"


def _spread_notes(
    wiring: RailWiring, stages: Sequence[ClosLevel], on_rail: int, of_endpoint: int
) -> Iterator[str]:
    """Sentences on what is rounded up or left over on one rail; ``of_endpoint``: ports of an endpoint
    there."""
    leaf, top = stages[0], stages[-1]
    rail = " on a rail" if leaf.switches > leaf.per_rail else ""
    if wiring.splits and on_rail % leaf.down_ports:
        yield (
            f"{on_rail} ports{rail} only partly fill {leaf.per_rail} leaves of {leaf.down_ports}"
            " down-ports"
        )
    if leaf.down_ports % of_endpoint and on_rail > leaf.down_ports:
        yield (
            f"the {of_endpoint} ports of an endpoint do not divide a leaf's {leaf.down_ports}"
            " down-ports: some endpoints straddle two leaves"
        )
    for stage in stages[1:]:
        if stage.per_rail > stage.least:
            yield (
                f"{stage.name}: {stage.per_rail} switches{rail} to spread uplinks evenly; by ports"
                f" alone {stage.least} would do"
            )
    if len(stages) <= len(wiring.splits):
        part = "leaf" if len(stages) == 1 else "pod"
        yield f"one {part} joins everything{rail}: no switches are needed above it"
    elif len(stages) > 1:
        # uplinks are spread evenly over the top
        used = stages[-2].per_rail * stages[-2].up_ports // top.per_rail
        if used < top.down_ports:
            unused = top.down_ports - used
            yield f"{top.name}: a switch leaves {unused} of its {top.down_ports} ports unused"


def check_counts(endpoints: int, ports: int, radix: int, rails: int) -> None:
    """Raise ColltoolError for endpoints, ports of each, ports of a switch and rails that are none, too many
    or do not fit each other."""
    check_at_least_one(endpoints=endpoints, ports=ports, rails=rails)
    if endpoints * ports > MOST_ENDPOINTS:
        raise ColltoolError(
            f"{endpoints * ports} ports are more than {MOST_ENDPOINTS}",
            argument="endpoints",
            fix="size one part of it",
        )
    if rails > endpoints * ports:
        raise ColltoolError(
            f"{quote(rails)} rails are more than the {endpoints * ports} endpoint ports",
            argument="rails",
            fix=f"at most {endpoints * ports}",
        )
    if not 2 <= radix <= MOST_PORTS:
        raise ColltoolError(
            f"a switch has 2 to {MOST_PORTS} ports, got {radix}",
            argument="radix",
            fix=f"write {argument_text('radix', 64)}",
        )


def check_at_least_one(**counts: int) -> None:
    """Raise ColltoolError for a count below 1; its keyword is the argument that the error names."""
    for name, count in counts.items():
        if count < 1:
            raise ColltoolError(
                f"must be at least 1, got {count}",
                argument=name,
                fix=f"write {argument_text(name, 1)}",
            )
