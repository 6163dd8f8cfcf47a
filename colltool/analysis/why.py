"""Why two columns of a comparison take the same time: what the value that tells them apart has no part in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from colltool.analysis.grid import Asked, winner
from colltool.estimate.distances import tier_reach
from colltool.estimate.groups import Placed, Span, place
from colltool.estimate.who import Who
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

Reason = Literal["tier", "level", "share", "unpaid", "small"]


class Why(NamedTuple):
    """A reason, and what it is about.

    Args:
        reason: ``tier``: the group has no two ranks that meet on it; ``level``: none meet at it, as one domain of the level below
            holds all; ``share``: few enough messages cross it at a time; ``unpaid``: the fastest schedule pays nothing of the
            kind; ``small``: it moves the time, by less than is called a difference.
        key: the value that differs; empty between fabrics.
        tier, level: where it stands.
        below: the level below, and ``endpoints`` of the group on the tier: a domain of it holds them all.
        algorithm: the fastest.
        most: the farthest that the time moves, as a share.
    """

    reason: Reason
    key: str = ""
    tier: str = ""
    level: str = ""
    below: str = ""
    endpoints: int = 0
    algorithm: str = ""
    most: float = 0.0


def why_same(fabric: Fabric, asked: Asked, group: Who, size: float, keys: Sequence[str], most: float) -> tuple[Why, ...]:
    """Why values of a fabric make no difference.

    Args:
        fabric: one of the two.
        asked, group, size: what runs.
        keys: those in which the two differ; none between two files.
        most: the farthest from 1 that the ratio of their times is.
    """
    algorithm = winner(fabric, asked, group, size).title
    if most > 1e-9 or not keys:
        return (Why("small" if most > 1e-9 else "unpaid", " and ".join(keys), algorithm=algorithm, most=most),)
    placed = place(fabric, group)
    return tuple(_unused(placed, asked, key, algorithm) for key in keys)


def _unused(placed: Placed, asked: Asked, key: str, algorithm: str) -> Why:
    parts = key.split(".")
    parts = parts[1:] if parts[0] == "tiers" else parts
    tiers = placed.fabric.tiers
    tier = next((one for at, one in enumerate(tiers) if parts[0] in (one.name, str(at))), None)
    if tier is None:
        return Why("unpaid", key, algorithm=algorithm)
    span = next((one for one in placed.spans if one.tier.name == tier.name), None)
    if span is None:
        return Why("tier", key, tier.name, algorithm=algorithm)
    if parts[1:2] == ["levels"] and len(parts) > 2:
        return _of_level(span, asked, key, parts, algorithm)
    return Why("unpaid", key, tier.name, algorithm=algorithm)


def _of_level(span: Span, asked: Asked, key: str, parts: Sequence[str], algorithm: str) -> Why:
    names = [level.name for level in capabilities_of(span.tier).levels]
    at = names.index(parts[2]) if parts[2] in names else int(parts[2])
    met = [level.name for level in tier_reach(span.tier, span.endpoints, asked.readings, sits=span.sits).used()]
    where = Why("unpaid", key, span.tier.name, names[at], algorithm=algorithm)
    if names[at] not in met and at:
        return where._replace(reason="level", below=names[at - 1], endpoints=span.endpoints)
    return where._replace(reason="share") if parts[-1] in ("oversubscription", "uplinks") else where
