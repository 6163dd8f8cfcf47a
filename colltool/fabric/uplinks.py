"""Oversubscription of a Clos with one level: it is that of the uplinks of each endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colltool.definitions.field_types import FieldError, FieldErrors
from colltool.fabric.tier_parts import Level


def leaf_and_spine(
    levels: Sequence[Level],
    ratio: float | None,
    alpha_s: float | None,
    size: int,
    trunk_Bps: float | None,
) -> Mapping[str, Any]:
    """Return tier fields that write a single oversubscribed level as two: a leaf for each endpoint,
    and a spine above them. Empty if nothing is to change.

    ``ratio``: oversubscription of the tier, in place of the level's own.

    Raises:
        FieldErrors: a ratio next to several levels, which have their own, or next to a trunk.
    """
    if ratio is not None and trunk_Bps is not None:
        raise FieldErrors(
            FieldError("a trunk is an uplink itself", "remove this one", ("oversubscription",))
        )
    if ratio is not None and len(levels) > 1:
        level = f"levels.{levels[-1].name}.oversubscription"
        fix = f"give it to the level that the uplinks enter: {level}"
        raise FieldErrors(FieldError("is that of a single level", fix, ("oversubscription",)))
    if len(levels) == 1 and (ratio is not None or levels[0].oversubscription != 1):
        spine = levels[0]
    elif not levels and ratio is not None and alpha_s is not None:
        spine = Level.model_construct(
            name="spine", group=size, alpha=alpha_s, oversubscription=ratio
        )
    else:
        return {}
    if ratio is not None:
        spine = spine.model_copy(update={"oversubscription": ratio})
    below = "endpoint" if spine.name == "leaf" else "leaf"
    leaf = spine.model_copy(update={"name": below, "group": 1, "oversubscription": 1.0})
    return {"alpha": None, "oversubscription": None, "levels": (leaf, spine)}
