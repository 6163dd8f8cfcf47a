"""Joules a bit of what a charge carries: the mean of the tiers that its bytes go over."""

from collections.abc import Sequence

from colltool.base.cost import Chain, Ring, Rounds
from colltool.estimate.distances import Reach


def mean_energy(parts: Sequence[tuple[float | None, float]]) -> float | None:
    """J a bit of bytes that go over several tiers in such parts; a tier that gives none adds none, and all of them give None."""
    known = [energy * part for energy, part in parts if energy is not None]
    return sum(known) / sum(part for _, part in parts) if known else None


def part_of(energy: float | None, share: float) -> float | None:
    """Where so many of the ranks send."""
    return None if energy is None else energy * share


def walk_energy(route: Ring | Chain, reach: Reach, energy: float | None) -> float | None:
    """J a bit of a ring or chain; over all links of a full mesh n_β is one link's, and a rank's others carry as much."""
    return part_of(energy, reach.ranks - 1) if route.via == "links" else energy


def round_energy(route: Rounds, stride: int, reach: Reach, energy: float | None) -> float | None:
    """J a bit of a round; of a tree one in every block of 2·stride ranks sends."""
    if route.partner == "shift":
        return shift_energy(stride, reach)
    return part_of(energy, 1 / (2 * stride)) if route.partner == "fanout" else energy


def shift_energy(stride: int, reach: Reach) -> float | None:
    """J a bit where every rank sends ``stride`` further: of a domain as many messages leave as it is far, at most all."""
    far, parts = min(stride, reach.ranks - stride), []
    left = 1.0
    for level in reach.used():
        beyond = min(1.0, far / level.span) if level.span < reach.ranks else 0.0
        parts.append((level.energy, left - beyond))
        left = beyond
    return mean_energy(parts)
