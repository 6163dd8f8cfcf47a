"""How equal switches are wired into a Clos of one to three levels, evenly: what :mod:`colltool.fabric.sizing` counts.

Every leaf has as many cables to each spine of its pod as to the next, every spine to each switch of its plane at the top. So the
switches above share the uplinks without a remainder, and may be more than their ports alone ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import ceil
from typing import NamedTuple

_SLACK = 0.9
"""Where ports do not split in the ratio asked for: splits down to this part of it are looked at for the fewest switches."""


class Split(NamedTuple):
    """The ports of a switch below the top, and the bandwidth of its downlinks over that of its uplinks."""

    down: int
    up: int
    ratio: float


class Pod(NamedTuple):
    """Leaves that share spines, and the oversubscription of such a spine."""

    leaves: int
    ratio: float


class Wired(NamedTuple):
    """One rail, wired.

    Args:
        splits: of each level below the top.
        switches: of each level, bottom up.
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


def splits_of(radix: int, ratio: float) -> list[Split]:
    """Whole ports down and up: exactly in the ratio where that is possible, else a little less oversubscribed."""
    fewest = max(1, ceil(radix / (1 + ratio) - 1e-9))
    exact = abs(radix - fewest - ratio * fewest) <= 1e-9 * radix
    found: list[Split] = []
    for up in range(fewest, radix):
        split = Split(radix - up, up, (radix - up) / up)
        if found and (exact or split.ratio < max(1.0, _SLACK * ratio)):
            break
        found.append(split)
    return found


def wired(ports: int, radix: int, splits: Sequence[Sequence[Split]], pod: Pod | None = None) -> Wired | None:
    """The wiring of fewest switches; of equally many that with the largest pods, then the fewest uplinks. None where none fits.

    Args:
        ports: of endpoints, on one rail.
        radix: ports of a switch.
        splits: those to choose from, for each level below the top.
        pod: of three levels, where the fabric says what one is.
    """
    if not splits:
        return Wired((), (1,), (1,), ()) if ports <= radix else None
    if len(splits) == 1:
        made = [_two(ports, radix, one) for one in splits[0]]
    else:
        made = [one for low in splits[0] for high in splits[1] for one in _three(ports, radix, (low, high), pod)]
    return min((one for one in made if one), key=lambda one: (sum(one.switches), one.pods, -one.planes), default=None)


def most_ports(radix: int, splits: Sequence[Sequence[Split]]) -> int:
    """Endpoint ports that so many levels join."""
    down = [max(one.down for one in several) for several in splits]
    most = radix
    for one in down:
        most *= one
    return most


def _two(ports: int, radix: int, leaf: Split) -> Wired | None:
    leaves = ceil(ports / leaf.down)
    if leaves == 1:
        return Wired((leaf,), (1, 0), (1, 0), (0,))
    spines = _sharing(leaves, leaf.up, radix)
    if spines is None:
        return None
    return Wired((leaf,), (leaves, spines), (leaves, ceil(leaves * leaf.up / radix)), (leaf.up // spines,))


def _three(ports: int, radix: int, splits: tuple[Split, Split], pod: Pod | None) -> Iterator[Wired]:
    leaf, full = splits
    leaves = ceil(ports / leaf.down)
    for each in _divisors(leaf.up):
        of_pod = leaf.up // each
        spine = full if pod is None else _filled(pod.leaves * each, pod.ratio, radix)
        if spine is None or spine.down < each:
            continue
        spines = ceil(leaves * leaf.up / spine.down)
        pods = ceil(leaves / (spine.down // each))
        if pods == 1:
            yield Wired((leaf, spine), (leaves, of_pod, 0), (leaves, spines, 0), (each, 0), 1, 1)
            continue
        for planes in reversed(_divisors(of_pod)):
            in_plane = _sharing(pods * of_pod // planes, spine.up, radix)
            if in_plane is not None:
                switches = (leaves, pods * of_pod, planes * in_plane)
                least = (leaves, spines, ceil(spines * spine.up / radix))
                yield Wired((leaf, spine), switches, least, (each, spine.up // in_plane), pods, planes)


def _filled(down: int, ratio: float, radix: int) -> Split | None:
    """The split of a switch with so many cables from below, in the ratio asked for or less; its other ports stay empty."""
    up = max(1, ceil(down / ratio - 1e-9))
    return Split(down, up, down / up) if down + up <= radix else None


def _sharing(below: int, uplinks: int, radix: int) -> int | None:
    """Switches that share the uplinks of each of so many below evenly: the fewest with ports for all, None where none has."""
    return next((count for count in _divisors(uplinks) if below * (uplinks // count) <= radix), None)


@cache
def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
