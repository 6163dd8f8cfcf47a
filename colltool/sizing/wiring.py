"""How equal switches are wired into a Clos of one to three levels, evenly: what :mod:`colltool.sizing.size_clos` counts.

Every leaf has as many cables to each spine of its pod as to the next, every spine to each switch of its plane at the top. So the
switches above share the uplinks without a remainder. Of all splits of a switch's ports into down, up and unused that keep the
oversubscription, and of all pods and planes, :func:`wired` takes the fewest switches, then the fewest cables between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import ceil, floor, gcd, inf, prod
from typing import Any, NamedTuple

_ROUNDED = 1e-9
"""Of a ratio that stands for a fraction, as 1.333 for 4/3 after a few products."""


class Split(NamedTuple):
    """The ports of a switch below the top, and the bandwidth of its downlinks over that of its uplinks."""

    down: int
    up: int
    ratio: float


Hop = float | Split
"""Of one level: the oversubscription that may not be exceeded, or its ports as they are."""


class Grouping(NamedTuple):
    """What is wanted of the groups.

    Args:
        unit: ports of one endpoint on a rail: at equal switches they all go to one leaf.
        leaf_down: down-ports of a leaf on one rail, where the fabric says them; None where they are free.
        leaves_in_pod: that share spines, likewise.
    """

    unit: int = 1
    leaf_down: int | None = None
    leaves_in_pod: int | None = None


FREE = Grouping()


class Wired(NamedTuple):
    """One rail, wired.

    Args:
        splits: of each level below the top.
        switches: of each level, bottom up; 0 at a top that nothing needs.
        least: the same by their ports alone.
        parallel: cables between a switch and each that it reaches above it.
        pods: groups of leaves that share spines.
        planes: groups of top switches, each reached by other spines of a pod.
    """

    splits: tuple[Split, ...]
    switches: tuple[int, ...]
    least: tuple[int, ...]
    parallel: tuple[int, ...]
    pods: int = 1
    planes: int = 1


def _order(one: Wired, unit: int) -> tuple[Any, ...]:
    """Fewest switches, endpoints whole on a leaf, fewest cables between switches, largest pods, most planes, room to grow."""
    rising = zip(one.switches, one.switches[1:], one.splits, strict=False)
    cables = sum(below * split.up for below, above, split in rising if above)
    straddles = one.switches[0] > 1 and one.splits[0].down % unit > 0
    room = [(-split.down, split.up) for split in one.splits]
    return sum(one.switches), straddles, cables, one.pods, -one.planes, room


def wired(ports: int, radix: int, hops: Sequence[Hop], wanted: Grouping = FREE, most: float = inf) -> Wired | None:
    """The wiring of fewest switches, and of equally many the first by :func:`_order`. None where none fits.

    Args:
        ports: of endpoints, on one rail.
        radix: ports of a switch.
        hops: of each level below the top, none for a single switch.
        wanted: what is not to be chosen, or preferred.
        most: switches beyond which nothing is wanted.
    """
    if not hops:
        return Wired((), (1,), (1,), ()) if ports <= radix else None
    if ports > most_ports(radix, hops, wanted):
        return None
    found: Wired | None = None
    bounds = ((_fewest(ceil(ports / one.down), one, radix, hops[1:]), one) for one in _leaves(hops[0], radix, wanted))
    for fewest, leaf in sorted(bounds):
        if fewest > most:
            break
        leaves = ceil(ports / leaf.down)
        two = len(hops) == 1 or leaves == 1
        for one in [_two(leaves, radix, leaf)] if two else _three(leaves, radix, leaf, _Above(hops[1], wanted, most)):
            if one and sum(one.switches) <= most and (found is None or _order(one, wanted.unit) < _order(found, wanted.unit)):
                found, most = one, sum(one.switches)
    return found


def most_ports(radix: int, hops: Sequence[Hop], wanted: Grouping = FREE) -> int:
    """Endpoint ports that so many levels join."""
    down = [max_down(one, radix) for one in hops]
    if down and wanted.leaf_down:
        down[0] = wanted.leaf_down
    return prod(down) * radix


def _leaves(hop: Hop, radix: int, wanted: Grouping) -> Iterator[Split]:
    """A leaf by its uplinks: with as many down-ports as they carry and the switch has left, of whole endpoints too."""
    if isinstance(hop, Split):
        yield hop
        return
    for up in range(1, radix):
        most = _carried(hop, up, radix)
        several = [wanted.leaf_down] if wanted.leaf_down else {most, most - most % wanted.unit}
        yield from (Split(down, up, down / up) for down in several if 0 < down <= most)


def _carried(ratio: float, up: int, radix: int) -> int:
    return min(radix - up, floor(ratio * up + _ROUNDED))


@cache
def max_down(hop: Hop, radix: int) -> int:
    """Down-ports of a switch below the top, at most."""
    return hop.down if isinstance(hop, Split) else max(_carried(hop, up, radix) for up in range(1, radix))


def _fewest(leaves: int, leaf: Split, radix: int, above: Sequence[Hop]) -> int:
    """No more switches than any wiring of such leaves takes: those that have ports for the uplinks."""
    rising, total = float(leaves * leaf.up), leaves
    if leaves == 1:
        return total
    for hop in above:
        down = max_down(hop, radix)
        total += ceil(rising / down - _ROUNDED)
        if leaves <= down:  # one pod may do
            return total
        rising *= hop.up / hop.down if isinstance(hop, Split) else 1 / hop
    return total + ceil(rising / radix - _ROUNDED)


def _two(leaves: int, radix: int, leaf: Split) -> Wired | None:
    if leaves == 1:
        return Wired((leaf,), (1, 0), (1, 0), (0,))
    spines = _sharing(leaves * leaf.up, leaf.up, radix)
    if spines is None:
        return None
    return Wired((leaf,), (leaves, spines), (leaves, ceil(leaves * leaf.up / radix)), (leaf.up // spines,))


class _Above(NamedTuple):
    """What is asked of the spines of a three-level Clos, and the switches beyond which nothing is wanted."""

    hop: Hop
    wanted: Grouping
    most: float


def _three(leaves: int, radix: int, leaf: Split, above: _Above) -> Iterator[Wired]:
    hop, wanted, most = above
    for each in _divisors(leaf.up):
        of_pod = leaf.up // each
        for in_pod in _pods(leaves, max_down(hop, radix) // each, hop, wanted):
            pods = ceil(leaves / in_pod)
            spines = pods * of_pod
            if leaves + spines > most or pods > radix:  # a switch at the top has a cable to every pod
                break
            for spine in _spines(in_pod * each, hop, radix):
                least = (leaves, ceil(leaves * leaf.up / spine.down), ceil(spines * spine.up / radix))
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
    """A spine with so many cables from below, the fewest uplinks first."""
    if isinstance(hop, Split):
        yield hop
        return
    for up in range(max(1, ceil(down / hop - _ROUNDED)), radix - down + 1):
        yield Split(down, up, down / up)


def _pods(leaves: int, most: int, hop: Hop, wanted: Grouping) -> Iterable[int]:
    """Leaves in a pod of at most so many: the fewest for each number of pods, fewest pods first; or what is fixed."""
    if wanted.leaves_in_pod:
        return [wanted.leaves_in_pod] if wanted.leaves_in_pod <= most else []
    if isinstance(hop, Split):
        return [most] if most else []
    return sorted({ceil(leaves / ceil(leaves / one)) for one in range(1, most + 1)}, reverse=True)


def _sharing(cables: int, groups: int, radix: int) -> int | None:
    """Switches that share cables evenly, so that they divide the groups: the fewest with ports for all, None where none has."""
    return next((count for count in _divisors(groups) if cables <= count * radix), None)


@cache
def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})
