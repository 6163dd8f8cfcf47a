"""Even wiring of equal switches into a Clos of one to three levels.

Every leaf has equally many cables to each spine of its pod, and every spine to each top switch of
its plane. :func:`best_wiring` searches all splits of a switch's ports into down, up and unused that
keep the oversubscription, and all numbers of pods and planes, for the fewest switches and then the
fewest cables between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import ceil, floor, gcd, inf, isqrt, prod
from typing import Any, NamedTuple

# Tolerance for ratios that are typed as rounded fractions, such as 1.333333333 for 4/3.
_ROUNDED = 1e-9


class Split(NamedTuple):
    """The ports of a switch below the top level."""

    down: int
    up: int
    ratio: float  # downlink over uplink bandwidth


# From a level to the next above: the most oversubscription (2.0 is 2:1), or the ports as they are.
Hop = float | Split


class Grouping(NamedTuple):
    """Sizes of leaves and pods that the fabric fixes; None where the search is free."""

    # Ports of one endpoint on a rail; they go to one leaf if that takes no more switches.
    unit: int = 1
    leaf_down: int | None = None  # down-ports of a leaf on one rail
    leaves_in_pod: int | None = None  # leaves that share spines


FREE = Grouping()


class RailWiring(NamedTuple):
    """The wiring of one rail; tuples are per level, bottom up.

    The first level that is not needed has 0 switches, and ends the tuples: where a single leaf joins
    everything, ``switches`` is (1, 0), however many levels there might be.
    """

    splits: tuple[Split, ...]  # without the last level
    switches: tuple[int, ...]
    least: tuple[int, ...]  # switches that the number of ports alone would need
    # cables between a switch and each it reaches one level above; without the last level
    parallel: tuple[int, ...]
    pods: int = 1  # groups of leaves that share spines
    planes: int = 1  # groups of top switches, each reached by different spines of a pod


def _sort_key(wiring: RailWiring, unit: int) -> tuple[Any, ...]:
    """The sort key of wirings, best first: fewest switches, no endpoint with ports at two leaves,
    fewest cables, fewest pods, most planes, most ports down and then fewest up."""
    cables = 0
    levels = zip(wiring.switches[:-1], wiring.switches[1:], wiring.splits, strict=True)
    for switches, switches_above, split in levels:
        if switches_above:
            cables += switches * split.up
    straddles = wiring.switches[0] > 1 and wiring.splits[0].down % unit > 0
    ports = [(-split.down, split.up) for split in wiring.splits]
    return sum(wiring.switches), straddles, cables, wiring.pods, -wiring.planes, ports


def best_wiring(
    ports: int,
    radix: int,
    hops: Sequence[Hop],
    wanted: Grouping = FREE,
    most_switches: float = inf,
) -> RailWiring | None:
    """The best wiring of one rail by :func:`_sort_key`, with at most ``most_switches``. None where
    none fits.

    Args:
        ports: of all endpoints on the rail.
        radix: ports per switch.
        hops: oversubscription or ports of each of at most two levels below the top, bottom up; none for a
            single switch.
        wanted: sizes that the fabric fixes.
    """
    if not hops:
        return RailWiring((), (1,), (1,), ()) if ports <= radix else None
    if ports > most_ports(radix, hops, wanted):
        return None
    # of each leaf the fewest switches that any wiring of it may have; sorted by these, then by ports
    bounds = []
    for leaf in _leaf_splits(hops[0], radix, wanted):
        bounds.append((_fewest_switches(ceil(ports / leaf.down), leaf, radix, hops[1:]), leaf))
    best: RailWiring | None = None
    for fewest, leaf in sorted(bounds):
        # No leaf that follows needs fewer.
        if fewest > most_switches:
            break
        leaves = ceil(ports / leaf.down)
        # A single leaf joins everything, however many levels there might be.
        if len(hops) == 1 or leaves == 1:
            wirings: Iterable[RailWiring] = _two_levels(leaves, radix, leaf)
        else:
            wirings = _three_levels(leaves, radix, leaf, hops[1], wanted, most_switches)
        for wiring in wirings:
            if sum(wiring.switches) > most_switches:
                continue
            if best is None or _sort_key(wiring, wanted.unit) < _sort_key(best, wanted.unit):
                best = wiring
                most_switches = sum(wiring.switches)
    return best


def most_ports(radix: int, hops: Sequence[Hop], wanted: Grouping) -> int:
    """The most endpoint ports that a Clos of one level more than hops can join, with all ports used."""
    down = [max_down(hop, radix) for hop in hops]
    if down and wanted.leaf_down:
        down[0] = wanted.leaf_down
    return prod(down) * radix


def _leaf_splits(hop: Hop, radix: int, wanted: Grouping) -> Iterator[Split]:
    """The splits of a leaf to try: for each number of uplinks the most down-ports, and the most that
    hold whole endpoints; or as many as the fabric fixes."""
    if isinstance(hop, Split):
        yield hop
        return
    for up in range(1, radix):
        most_down = _most_down(hop, up, radix)
        downs = {most_down, most_down - most_down % wanted.unit}
        if wanted.leaf_down:
            downs = {wanted.leaf_down}
        for down in downs:
            if 0 < down <= most_down:
                yield Split(down, up, down / up)


def _most_down(ratio: float, up: int, radix: int) -> int:
    """The most down-ports for this many uplinks at an oversubscription: of 64 ports 32 for 16 at
    2:1, and 40 for 24."""
    return min(radix - up, floor(ratio * up + _ROUNDED))


@cache
def max_down(hop: Hop, radix: int) -> int:
    """The most down-ports of a switch below the top, with any number of uplinks."""
    if isinstance(hop, Split):
        return hop.down
    return max(_most_down(hop, up, radix) for up in range(1, radix))


def _fewest_switches(leaves: int, leaf: Split, radix: int, above: Sequence[Hop]) -> int:
    """Lower bound on the switches of any wiring of such leaves, from the ports for their uplinks:
    32 leaves with 32 uplinks need 1024 / 64 = 16 spines of 64 ports, in all 48.

    ``above``: the hops from the spines on; none if the spines are the top.
    """
    if leaves == 1:
        return 1
    uplinks = float(leaves * leaf.up)
    switches = leaves
    for hop in above:
        down = max_down(hop, radix)
        switches += ceil(uplinks / down - _ROUNDED)
        if leaves <= down:  # a single pod may be enough
            return switches
        uplinks *= hop.up / hop.down if isinstance(hop, Split) else 1 / hop
    return switches + ceil(uplinks / radix - _ROUNDED)


def _two_levels(leaves: int, radix: int, leaf: Split) -> Iterator[RailWiring]:
    """The wiring of leaves and spines, or of a single leaf; none where the spines' ports do not suffice
    evenly."""
    if leaves == 1:
        yield RailWiring(splits=(leaf,), switches=(1, 0), least=(1, 0), parallel=(0,))
        return
    spines = _fewest_sharing(leaves * leaf.up, leaf.up, radix)
    if spines is not None:
        least = (leaves, ceil(leaves * leaf.up / radix))
        yield RailWiring(
            splits=(leaf,),
            switches=(leaves, spines),
            least=least,
            parallel=(leaf.up // spines,),
        )


def _three_levels(
    leaves: int, radix: int, leaf: Split, hop: Hop, wanted: Grouping, most_switches: float
) -> Iterator[RailWiring]:
    """Wirings of leaves, spines and a top level, for all numbers of pods and of cables between a
    leaf and a spine.

    Args:
        hop: oversubscription or ports of a spine.
        most_switches: wirings of more may be left out, as may those of more than one that was yielded.
    """
    # A leaf has the same number of cables to each spine of its pod.
    for to_spine in _divisors(leaf.up):
        spines_in_pod = leaf.up // to_spine
        for in_pod in _pod_sizes(leaves, max_down(hop, radix) // to_spine, hop, wanted):
            pods = ceil(leaves / in_pod)
            spines = pods * spines_in_pod
            # A top switch has a cable to every pod. What follows has more pods and more spines.
            if leaves + spines > most_switches or pods > radix:
                break
            for spine in _spine_splits(in_pod * to_spine, hop, radix):
                least = (
                    leaves,
                    ceil(leaves * leaf.up / spine.down),
                    ceil(spines * spine.up / radix),
                )
                # A single pod joins everything, and its spines need no top level. What follows has
                # more uplinks, which lead nowhere.
                if pods == 1:
                    yield RailWiring(
                        splits=(leaf, spine),
                        switches=(leaves, spines_in_pod, 0),
                        least=(*least[:2], 0),
                        parallel=(to_spine, 0),
                    )
                    break
                # A top switch has as many cables to one pod as to another: at most radix // pods. What
                # follows has more uplinks, for more of them.
                pod_uplinks = spines_in_pod * spine.up
                if leaves + spines + ceil(pod_uplinks / (radix // pods)) > most_switches:
                    break
                top = _fewest_sharing(pods * pod_uplinks, pod_uplinks, radix)
                if top is not None:
                    most_switches = min(most_switches, leaves + spines + top)
                    # Of 4 spines a pod and 6 top switches: 2 planes, in each of which 2 spines of every
                    # pod reach 3 top switches, with 6 uplinks by 2 cables each.
                    planes = gcd(top, spines_in_pod)
                    parallel = (to_spine, spine.up * planes // top)
                    yield RailWiring(
                        splits=(leaf, spine),
                        switches=(leaves, spines, top),
                        least=least,
                        parallel=parallel,
                        pods=pods,
                        planes=planes,
                    )


def _spine_splits(down: int, hop: Hop, radix: int) -> Iterator[Split]:
    """The splits of a spine with ``down`` cables from below, fewest uplinks first; or the ports as they
    are typed."""
    if isinstance(hop, Split):
        yield hop
        return
    for up in range(max(1, ceil(down / hop - _ROUNDED)), radix - down + 1):
        yield Split(down, up, down / up)


def _pod_sizes(leaves: int, most_leaves: int, hop: Hop, wanted: Grouping) -> Iterable[int]:
    """Leaves per pod to try: the fewest for each number of pods, fewest pods first. Of 10 leaves, at
    most 6 in a pod: 5, 4, 3, 2 and 1, for 2, 3, 4, 5 and 10 pods.

    Where the fabric fixes the number it is that alone; under spines of typed ports as many as fit.
    """
    if wanted.leaves_in_pod:
        return [wanted.leaves_in_pod] if wanted.leaves_in_pod <= most_leaves else []
    if isinstance(hop, Split):
        return [most_leaves] if most_leaves else []
    pod_counts = {ceil(leaves / in_pod) for in_pod in range(1, most_leaves + 1)}
    return sorted({ceil(leaves / pods) for pods in pod_counts}, reverse=True)


def _fewest_sharing(cables: int, groups: int, radix: int) -> int | None:
    """The fewest switches that have ports for all cables and divide ``groups``, so that each serves
    equally many. None if there is no such number. Of 64 ports for 320 cables in 32 groups: 8, as 5
    do not divide 32."""
    return next((count for count in _divisors(groups) if cables <= count * radix), None)


@cache
def _divisors(number: int) -> list[int]:
    """Divisors of a number, ascending."""
    small = [factor for factor in range(1, isqrt(number) + 1) if number % factor == 0]
    return sorted({*small, *(number // factor for factor in small)})
