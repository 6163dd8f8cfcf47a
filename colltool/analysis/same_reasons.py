"""Why a changed value makes no difference to a price: :func:`reasons_for_same` gives a reason for each
key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.analysis.cells import PriceRequest, winner
from colltool.analysis.outcomes import Reason, SameReason
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.path_classes import tier_paths
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

# A relative difference below this is rounding.
ROUNDING = 1e-9


def reasons_for_same(
    fabric: Fabric,
    request: PriceRequest,
    group: GroupSpec,
    size: float,
    keys: Sequence[str],
    most: float,
) -> Iterator[SameReason]:
    """Why the values of ``keys`` (empty between two files) make no difference at a size in bytes.

    ``most``: the largest relative difference seen. Where there is one, or there are no keys, one reason
    is given for all keys together; else one for each.
    """
    algorithm = winner(fabric, request, group, size).title
    if most > ROUNDING or not keys:
        kind: Reason = "small" if most > ROUNDING else "unpaid"
        yield SameReason(kind, " and ".join(keys), algorithm=algorithm, most=most)
        return
    placed = place(fabric, group)
    for key in keys:
        reason = _reason_of_key(fabric, placed, request.readings, key)
        yield reason._replace(algorithm=algorithm)


def _reason_of_key(
    fabric: Fabric, placed: PlacedGroup, readings: ModelOptions, key: str
) -> SameReason:
    """Why a key such as ``ib.levels.spine.oversubscription`` makes no difference to a group; the
    reason still lacks the algorithm."""
    # tiers stand by name or by number: tiers.1.levels.spine.oversubscription
    tier_name, *path = key.removeprefix("tiers.").split(".")
    tier = _tier_called(fabric, tier_name)
    if tier is None:
        return SameReason("unpaid", key)
    span = next((span for span in placed.spans if span.tier.name == tier.name), None)
    if span is None:
        return SameReason("tier", key, tier=tier.name)
    if len(path) < 2 or path[0] != "levels":
        return SameReason("unpaid", key, tier=tier.name)
    _, level, *field = path
    levels = [distance.name for distance in capabilities_of(span.tier).levels]
    # a level by name or by number
    number = levels.index(level) if level in levels else int(level)
    reason = SameReason("unpaid", key, tier=tier.name, level=levels[number])
    used = [distance.name for distance in tier_paths(span.position, readings).used]
    if number and levels[number] not in used:
        return reason._replace(
            reason="level",
            below=levels[number - 1],
            endpoints=span.endpoints,
        )
    if field and field[-1] in ("oversubscription", "uplinks"):
        return reason._replace(reason="share")
    return reason


def _tier_called(fabric: Fabric, name: str) -> Tier | None:
    """A tier by name or by number; None without such a tier, as for ``launch_overhead``."""
    for number, tier in enumerate(fabric.tiers):
        if name in (tier.name, str(number)):
            return tier
    return None
