"""Cables of a fabric that is calibrated: what was measured went through them, so they go into its α."""

from __future__ import annotations

from typing import Any

from colltool.base.units import parse_length, parse_time
from colltool.calibration.entries import time_text
from colltool.fabric.capabilities import cable_s


def without_cables(data: dict[str, Any]) -> None:
    """Puts the delay of every cable into the α of its tier, level, protocols and switches, in place."""
    for tier in data["tiers"]:
        whole = tier.pop("cable", None)
        levels = tier.get("levels") or ()
        lengths = [level.pop("cable", None) or whole for level in levels]
        for one, length in [
            *zip(levels, lengths, strict=True),
            *((one, whole) for one in (tier, *(tier.get("protocols") or ()))),
        ]:
            _add(one, "alpha", length)
        switch = tier.get("in_network") or {}
        _add(switch, "alpha_switch", lengths[-1] if levels else whole, 2 * (switch.get("levels") or max(1, len(levels))))


def _add(part: dict[str, Any], key: str, length: str | None, passes: int = 1) -> None:
    """The delay of a cable, in so many parts, on top of a time of the file, where both are given."""
    if length and part.get(key) is not None:
        part[key] = time_text(parse_time(part[key]) + cable_s(parse_length(length)) / passes)
