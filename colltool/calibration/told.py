"""The 95% intervals of a fit as the fabric file's ``uncertainty``: what ``sensitivity`` draws from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from colltool.calibration.entries import rate_text, time_text
from colltool.calibration.results import Fitted

_FIELDS = (("launch_overhead_s", "launch_overhead", time_text), ("alpha_s", "alpha", time_text),
           ("bandwidth_Bps", "bandwidth", rate_text))  # fmt: skip


def without_intervals(data: dict[str, Any]) -> None:
    """Take the ranges of protocols out of a fabric's data: a new fit has protocols of its own."""
    kept = {key: how for key, how in (data.pop("uncertainty", None) or {}).items() if ".protocols." not in key}
    if kept:
        data["uncertainty"] = kept


def note_intervals(data: dict[str, Any], fitted: Mapping[str, Sequence[Fitted]]) -> None:
    """Put the ranges of every protocol that the data tell into the fabric's data.

    Args:
        data: of the calibrated fabric.
        fitted: the protocols of each tier that was fitted. Where two collectives share a name its key would mean both: left out.
    """
    found = dict(data.get("uncertainty") or {})
    for tier in data["tiers"]:
        listed = {one["name"]: one for one in tier.get("protocols") or ()}
        names = [one["name"] for one in tier.get("protocols") or ()]
        for one in fitted.get(tier["name"], ()):
            if names.count(one.name) == 1:
                found |= {f"{tier['name']}.protocols.{one.name}.{key}": text for key, text in _ranges(one, listed[one.name])}
    if found:
        data["uncertainty"] = found


def _ranges(one: Fitted, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field, key, text in _FIELDS:
        low, high = one.ci95.get(field, (0.0, 0.0))
        if key in entry and 0 < low < high and text(low) != text(high):
            yield key, f"{text(low)}:{text(high)}"
