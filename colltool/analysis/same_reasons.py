"""Why a changed value makes no difference to a price: :func:`why_same` gives a reason for each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.analysis.cells import PriceRequest, winner
from colltool.analysis.outcomes import (
    Reason,
    SameReason,
)
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.path_classes import tier_paths
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

# A relative difference below this is rounding.
ROUNDING = 1e-9


def why_same(
    fabric: Fabric,
    request: PriceRequest,
    group: GroupSpec,
    size: float,
    keys: Sequence[str],
    most: float,
) -> Iterator[SameReason]:
    """Why the values of ``keys`` (empty between two files) make no difference; ``most``: the
    largest relative difference seen."""
    algorithm = winner(fabric, request, group, size).title
    if most > ROUNDING or not keys:
        reason: Reason = "small" if most > ROUNDING else "unpaid"
        yield SameReason(reason, " and ".join(keys), algorithm=algorithm, most=most)
        return
    placed = place(fabric, group)
    for key in keys:
        yield _why_key(fabric, placed, request.readings, key)._replace(algorithm=algorithm)


def _why_key(fabric: Fabric, placed: PlacedGroup, readings: ModelOptions, key: str) -> SameReason:
    """Why a key such as ``ib.levels.spine.oversubscription`` makes no difference to a group; the
    reason still lacks the algorithm."""
    tier_name, *path = key.removeprefix("tiers.").split(".")
    tiers = [tier for at, tier in enumerate(fabric.tiers) if tier_name in (tier.name, str(at))]
    if not tiers:
        return SameReason("unpaid", key)
    tier = tiers[0]
    spans = [span for span in placed.spans if span.tier.name == tier.name]
    if not spans:
        return SameReason("tier", key, tier.name)
    span = spans[0]
    match path:
        case ["levels", level, *field]:
            names = [known.name for known in capabilities_of(span.tier).levels]
            at = names.index(level) if level in names else int(level)
        case _:
            return SameReason("unpaid", key, tier.name)
    reason = SameReason("unpaid", key, tier.name, names[at])
    used = [known.name for known in tier_paths(span.position, readings).used]
    if names[at] not in used and at:
        return reason._replace(reason="level", below=names[at - 1], endpoints=span.endpoints)
    if field[-1:] in (["oversubscription"], ["uplinks"]):
        return reason._replace(reason="share")
    return reason
