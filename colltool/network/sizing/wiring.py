"""Even wiring of equal switches into a Clos of one to three levels.

Every leaf has equally many cables to each spine of its pod, every spine to each top switch of its
plane. Over all splits of a switch's ports into down, up and unused that keep the oversubscription,
and all pods and planes, :func:`wired` minimises switches, then cables between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import ceil, floor, gcd, inf, isqrt, prod
from typing import Any, NamedTuple

# Tolerance for ratios that round a fraction, such as 1.333 for 4/3.
_ROUNDED = 1e-9


class Split(NamedTuple):
    """The ports of a switch below the top, and its downlink over its uplink bandwidth."""

    down: int
    up: int
    ratio: float


# The most oversubscription of one level, or its ports as they are.
Hop = float | Split


class Grouping(NamedTuple):
    """What the fabric fixes of leaves and pods; None is free.

    ``unit``: ports of one endpoint on a rail, which go to one leaf if that takes no more switches;
    ``leaf_down``: down-ports of a leaf on one rail; ``leaves_in_pod``: leaves that share spines.
    """

    unit: int = 1
    leaf_down: int | None = None
    leaves_in_pod: int | None = None


FREE = Grouping()


class Wired(NamedTuple):
    """One rail, bottom up.

    ``splits``: of each level below the top. ``switches``: 0 at a top that is not needed; ``least``:
    the same by ports alone.
    ``parallel``: cables between a switch and each switch above that it reaches. ``pods``: groups of
    leaves that share spines; ``planes``: groups of top switches, each reached by other spines of a
    pod.
    """

    splits: tuple[Split, ...]
    switches: tuple[int, ...]
    least: tuple[int, ...]
    parallel: tuple[int, ...]
    pods: int = 1
    planes: int = 1


def _order(made: Wired, unit: int) -> tuple[Any, ...]:
    """Fewest switches, endpoints whole on a leaf, fewest cables between switches, fewest pods, most
    planes, room to grow."""
    rising = zip(made.switches, made.switches[1:], made.splits, strict=False)
    cables = sum(below * split.up for below, above, split in rising if above)
    straddles = made.switches[0] > 1 and made.splits[0].down % unit > 0
    room = [(-split.down, split.up) for split in made.splits]
    return sum(made.switches), straddles, cables, made.pods, -made.planes, room


def wired(
    ports: int, radix: int, hops: Sequence[Hop], wanted: Grouping = FREE, most: float = inf
) -> Wired | None:
    """The best wiring of one rail by :func:`_order`, of at most ``most`` switches; None where none
    fits. No hops: a single switch.
    """
    if not hops:
        return Wired((), (1,), (1,), ()) if ports <= radix else None
    if ports > most_ports(radix, hops, wanted):
        return None
    bounds = []
    for leaf in _leaves(hops[0], radix, wanted):
        bounds.append((_fewest(ceil(ports / leaf.down), leaf, radix, hops[1:]), leaf))
    found: Wired | None = None
    for fewest, leaf in sorted(bounds):
        # no leaf that follows can do with fewer
        if fewest > most:
            break
        leaves = ceil(ports / leaf.down)
        if len(hops) == 1 or leaves == 1:
            several: Iterable[Wired] = _two(leaves, radix, leaf)
        else:
            several = _three(leaves, radix, leaf, hops[1], wanted, most)
        for made in several:
            if sum(made.switches) > most:
                continue
            if found is None or _order(made, wanted.unit) < _order(found, wanted.unit):
                found = made
                most = sum(made.switches)
    return found


def most_ports(radix: int, hops: Sequence[Hop], wanted: Grouping) -> int:
    """Endpoint ports that this many levels can join."""
    down = [max_down(hop, radix) for hop in hops]
    if down and wanted.leaf_down:
        down[0] = wanted.leaf_down
    return prod(down) * radix


def _leaves(hop: Hop, radix: int, wanted: Grouping) -> Iterator[Split]:
    """Each number of uplinks with the most down-ports that they carry, and with those of whole
    endpoints."""
    if isinstance(hop, Split):
        yield hop
        return
    for up in range(1, radix):
        most = _carried(hop, up, radix)
        downs = {most, most - most % wanted.unit}
        if wanted.leaf_down:
            downs = {wanted.leaf_down}
        for down in downs:
            if 0 < down <= most:
                yield Split(down, up, down / up)


def _carried(ratio: float, up: int, radix: int) -> int:
    """The most down-ports that this many uplinks carry."""
    return min(radix - up, floor(ratio * up + _ROUNDED))


@cache
def max_down(hop: Hop, radix: int) -> int:
    """The most down-ports of a switch below the top."""
    if isinstance(hop, Split):
        return hop.down
    return max(_carried(hop, up, radix) for up in range(1, radix))


def _fewest(leaves: int, leaf: Split, radix: int, above: Sequence[Hop]) -> int:
    """Lower bound on the switches of any wiring of such leaves, from the ports for their
    uplinks."""
    if leaves == 1:
        return 1
    rising = float(leaves * leaf.up)
    total = leaves
    for hop in above:
        down = max_down(hop, radix)
        total += ceil(rising / down - _ROUNDED)
        if leaves <= down:  # one pod may do
            return total
        rising *= hop.up / hop.down if isinstance(hop, Split) else 1 / hop
    return total + ceil(rising / radix - _ROUNDED)


def _two(leaves: int, radix: int, leaf: Split) -> Iterator[Wired]:
    """Leaves and spines, or the only leaf."""
    if leaves == 1:
        yield Wired((leaf,), (1, 0), (1, 0), (0,))
        return
    spines = _sharing(leaves * leaf.up, leaf.up, radix)
    if spines is not None:
        least = (leaves, ceil(leaves * leaf.up / radix))
        yield Wired((leaf,), (leaves, spines), least, (leaf.up // spines,))


def _three(
    leaves: int, radix: int, leaf: Split, hop: Hop, wanted: Grouping, most: float
) -> Iterator[Wired]:
    """Leaves, spines and a top, over all pods and numbers of cables between leaf and spine."""
    # cables from a leaf to each spine of its pod: an even share of its uplinks
    for each in _divisors(leaf.up):
        of_pod = leaf.up // each
        for in_pod in _pods(leaves, max_down(hop, radix) // each, hop, wanted):
            pods = ceil(leaves / in_pod)
            spines = pods * of_pod
            # a switch at the top has a cable to every pod
            if leaves + spines > most or pods > radix:
                break
            for spine in _spines(in_pod * each, hop, radix):
                least = (
                    leaves,
                    ceil(leaves * leaf.up / spine.down),
                    ceil(spines * spine.up / radix),
                )
                # one pod joins everything, and its spines need no top
                if pods == 1:
                    yield Wired((leaf, spine), (leaves, of_pod, 0), (*least[:2], 0), (each, 0))
                    break
                if leaves + spines + ceil(of_pod * spine.up / (radix // pods)) > most:
                    break
                top = _sharing(spines * spine.up, of_pod * spine.up, radix)
                if top is not None:
                    most = min(most, leaves + spines + top)
                    planes = gcd(top, of_pod)
                    parallel = (each, spine.up * planes // top)
                    yield Wired((leaf, spine), (leaves, spines, top), least, parallel, pods, planes)


def _spines(down: int, hop: Hop, radix: int) -> Iterator[Split]:
    """Spines with ``down`` cables from below, the fewest uplinks first."""
    if isinstance(hop, Split):
        yield hop
        return
    for up in range(max(1, ceil(down / hop - _ROUNDED)), radix - down + 1):
        yield Split(down, up, down / up)


def _pods(leaves: int, most: int, hop: Hop, wanted: Grouping) -> Iterable[int]:
    """Leaves per pod: the fewest for each number of pods, fewest pods first; or what the fabric
    fixes."""
    if wanted.leaves_in_pod:
        return [wanted.leaves_in_pod] if wanted.leaves_in_pod <= most else []
    if isinstance(hop, Split):
        return [most] if most else []
    counts = {ceil(leaves / each) for each in range(1, most + 1)}
    return sorted({ceil(leaves / pods) for pods in counts}, reverse=True)


def _sharing(cables: int, groups: int, radix: int) -> int | None:
    """The fewest switches, a divisor of ``groups``, that share the cables evenly and have ports for
    all; None if none do."""
    return next((count for count in _divisors(groups) if cables <= count * radix), None)


@cache
def _divisors(number: int) -> list[int]:
    """Divisors of a number, ascending."""
    small = [factor for factor in range(1, isqrt(number) + 1) if number % factor == 0]
    return sorted({*small, *(number // factor for factor in small)})
