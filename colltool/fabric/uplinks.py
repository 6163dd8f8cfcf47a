"""A Clos with one level and an oversubscription is written as two: a leaf under each endpoint, and
the spine that its uplinks enter. Then a ratio stands where every reader of levels looks for it."""

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
    """Return the fields of a tier that change so; empty if none does. The tier, already validated,
    overwrites its own with them (``ClosTier._levels_agree``).

    ``ratio``: oversubscription of the tier, in place of the level's own.

    Raises:
        FieldErrors: a ratio next to several levels, which have their own, or next to a trunk. The
            key is printed in front of each.
    """
    if ratio is not None and trunk_Bps is not None:
        raise FieldErrors(
            FieldError("a trunk is an uplink itself", "remove this one", ("oversubscription",))
        )
    if ratio is not None and len(levels) > 1:
        level = f"levels.{levels[-1].name}.oversubscription"
        fix = f"give it to the level that the uplinks enter: {level}"
        raise FieldErrors(FieldError("is that of a single level", fix, ("oversubscription",)))
    # A level is given, and the tier or the level itself says how much it is oversubscribed.
    if len(levels) == 1 and (ratio is not None or levels[0].oversubscription != 1):
        spine = levels[0]
    # No level is given: the spine joins all endpoints at the tier's alpha. Its values were checked as
    # those of the tier, in SI units, which validation would take for text of a file.
    elif not levels and ratio is not None and alpha_s is not None:
        spine = Level.model_construct(
            name="spine", group=size, alpha=alpha_s, oversubscription=ratio
        )
    else:  # not oversubscribed, several levels, or a tier whose lack of an alpha is refused later
        return {}
    if ratio is not None:
        spine = spine.model_copy(update={"oversubscription": ratio})
    # Two levels of a tier may not have one name.
    below = "endpoint" if spine.name == "leaf" else "leaf"
    leaf = spine.model_copy(update={"name": below, "group": 1, "oversubscription": 1.0})
    return {"alpha": None, "oversubscription": None, "levels": (leaf, spine)}
