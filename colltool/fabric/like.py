"""A fabric file that is ``like`` another one: the other's data with this file's keys in place of its
own, and what the file changes of it under ``set``.

``load`` calls :func:`like_and_changes`, finds and reads the other, then calls
:func:`merged_with_like`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colltool.base.errors import ColltoolError, quote
from colltool.definitions.overrides import Requested
from colltool.definitions.source import KeyPath, Position, Source, value_at

# Keys that a fabric does not inherit from the one that it is like.
_NOT_INHERITED = frozenset({"name", "description", "notes"})


def like_and_changes(source: Source) -> tuple[str, dict[str, Any]]:
    """Return the name of the fabric that a file is like, and its values by key under ``set``.

    Raises:
        ColltoolError: one of the two keys holds something else.
    """
    like = source.data["like"]
    if not isinstance(like, str) or not like:
        raise ColltoolError(
            "expected the name of a shipped fabric, or a file",
            where=source.at(("like",)),
            fix="like: dgx-h100",
        )
    changes = source.data.get("set", {})
    if not isinstance(changes, dict):
        raise ColltoolError(
            f"expected values by key, got {quote(changes)}",
            where=source.at(("set",)),
            fix="set: {ib.bandwidth: 100GB/s}",
        )
    return like, changes


def merged_with_like(
    source: Source, other: dict[str, Any], changes: dict[str, Any]
) -> tuple[Source, list[Requested]]:
    """Return the data of the other fabric with the keys of a file in place of its own and the file's
    tiers outside of its own, without ``like`` and ``set``; and the changes as overrides.

    Args:
        source: the file.
        other: the data of a valid fabric, the one that ``like`` names.
        changes: values by key, those under ``set``.

    Raises:
        ColltoolError: the file's ``tiers`` are no list.
    """
    data = dict(source.data)
    del data["like"]
    data.pop("set", None)
    merged = {key: value for key, value in other.items() if key not in _NOT_INHERITED}
    merged |= data
    if isinstance(data.get("source"), dict) and isinstance(other.get("source"), dict):
        merged["source"] = other["source"] | data["source"]
    # sizes alone leave it the machine that was measured
    changes_more = any(not key.endswith(".size") for key in changes)
    if "device" in data or "tiers" in data or changes_more:
        merged.setdefault("measured_on", other["name"])
    merged_source = source._replace(data=merged)
    if "tiers" in data:
        merged_source = _with_outer_tiers(merged_source, other["tiers"])
    _drop_sources(merged, changes)
    overrides = []
    for key, value in changes.items():
        overrides.append(Requested(source.at(("set", key)), key, value))
    return merged_source, overrides


def _with_outer_tiers(source: Source, inner: list[Any]) -> Source:
    """Put the file's tiers outside of the ``inner`` ones of the other fabric; their positions move
    along."""
    outer = source.data["tiers"]
    if not isinstance(outer, list):
        raise ColltoolError(
            "expected a list of tiers",
            where=source.at(("tiers",)),
            fix="leave tiers out, or list further ones",
        )
    source.data["tiers"] = [*inner, *outer]
    return source._replace(
        positions=_moved(source.positions, len(inner)),
        keys=_moved(source.keys, len(inner)),
    )


def _moved(places: Mapping[KeyPath, Position], inner: int) -> dict[KeyPath, Position]:
    """The places of a file by key path, with its tiers behind so many inner ones."""
    moved = {}
    for path, place in places.items():
        if path[:1] == ("tiers",) and len(path) > 1:
            path = ("tiers", int(path[1]) + inner, *path[2:])
        moved[path] = place
    return moved


def _drop_sources(data: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Drop the source of each value of a tier that is changed: it is not the source of the new
    value."""
    for tier in data["tiers"]:
        # this file's own tiers are not checked yet
        source = value_at(("source",), tier)
        if not isinstance(source, dict):
            continue
        kept_source = dict(source)
        for key in changes:
            # nvlink.eta.beta changes ``eta`` of the tier ``nvlink``
            owner, *steps = key.split(".")
            if steps and owner == tier.get("name"):
                kept_source.pop(steps[0], None)
        tier["source"] = kept_source
