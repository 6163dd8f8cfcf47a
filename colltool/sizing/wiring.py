"""Even wiring of equal switches into a Clos of one to three levels.

Every leaf has equally many cables to each spine of its pod, every spine to each top switch of its
plane. Over all splits of a switch's ports into down, up and unused that keep the oversubscription,
and all pods and planes, :func:`wired` minimises switches, then cables between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import ceil, floor, gcd, inf, prod
from typing import Any, NamedTuple

_ROUNDED = 1e-9
"""Tolerance for ratios that round a fraction, such as 1.333 for 4/3."""


class Split(NamedTuple):
    """The ports of a switch below the top, and its downlink over its uplink bandwidth."""

    down: int
    up: int
    ratio: float


Hop = float | Split
"""Of one level: the most oversubscription, or its ports as they are."""


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


def _order(one: Wired, unit: int) -> tuple[Any, ...]:
    """Fewest switches, endpoints whole on a leaf, fewest cables between switches, fewest pods, most
    planes, room to grow."""
    rising = zip(one.switches, one.switches[1:], one.splits, strict=False)
    cables = sum(below * split.up for below, above, split in rising if above)
    straddles = one.switches[0] > 1 and one.splits[0].down % unit > 0
    room = [(-split.down, split.up) for split in one.splits]
    return sum(one.switches), straddles, cables, one.pods, -one.planes, room


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
    found: Wired | None = None
    bounds = (
        (_fewest(ceil(ports / one.down), one, radix, hops[1:]), one)
        for one in _leaves(hops[0], radix, wanted)
    )
    for fewest, leaf in sorted(bounds):
        if fewest > most:
            break
        leaves = ceil(ports / leaf.down)
        two = len(hops) == 1 or leaves == 1
        for one in (
            [_two(leaves, radix, leaf)]
            if two
            else _three(leaves, radix, leaf, hops[1], wanted, most)
        ):
            if (
                one
                and sum(one.switches) <= most
                and (found is None or _order(one, wanted.unit) < _order(found, wanted.unit))
            ):
                found, most = one, sum(one.switches)
    return found


def most_ports(radix: int, hops: Sequence[Hop], wanted: Grouping = FREE) -> int:
    """Endpoint ports that this many levels can join."""
    down = [max_down(one, radix) for one in hops]
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
        several = [wanted.leaf_down] if wanted.leaf_down else {most, most - most % wanted.unit}
        yield from (Split(down, up, down / up) for down in several if 0 < down <= most)


def _carried(ratio: float, up: int, radix: int) -> int:
    return min(radix - up, floor(ratio * up + _ROUNDED))


@cache
def max_down(hop: Hop, radix: int) -> int:
    """The most down-ports of a switch below the top."""
    return (
        hop.down
        if isinstance(hop, Split)
        else max(_carried(hop, up, radix) for up in range(1, radix))
    )


def _fewest(leaves: int, leaf: Split, radix: int, above: Sequence[Hop]) -> int:
    """Lower bound on the switches of any wiring of such leaves, from the ports for their
    uplinks."""
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
    return Wired(
        (leaf,), (leaves, spines), (leaves, ceil(leaves * leaf.up / radix)), (leaf.up // spines,)
    )


def _three(
    leaves: int, radix: int, leaf: Split, hop: Hop, wanted: Grouping, most: float
) -> Iterator[Wired]:
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
    return sorted({ceil(leaves / ceil(leaves / one)) for one in range(1, most + 1)}, reverse=True)


def _sharing(cables: int, groups: int, radix: int) -> int | None:
    """The fewest switches, a divisor of ``groups``, that share the cables evenly and have ports for
    all; None if none do."""
    return next((count for count in _divisors(groups) if cables <= count * radix), None)


@cache
def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})
