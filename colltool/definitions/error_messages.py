"""pydantic's errors in plain words: what was found, what is accepted, the nearest valid key."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from colltool.base.errors import nearest, shown
from colltool.definitions.field_types import (
    MIN_BANDWIDTH_BPS,
    Slips,
    Spot,
    keys_at,
    path_of,
    spot_at,
    spot_of,
)
from colltool.definitions.source import MOST, Finding, KeyPath, value_at

_SPELT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(:1|%|x)")
"""Ratios and shares as people say them: 3:1, 80%, 2x."""
_UNITS = {"length": "m", "energy": "pJ/bit", "power": "W", "energy price": "/kWh"}
"""The unit that a bare number probably has."""
_SECONDS_BELOW = 1e-3
"""Below it a bare time is taken for seconds: nobody means a thousandth of a microsecond."""


def findings(model: type[BaseModel], error: ValidationError, data: dict[str, Any]) -> list[Finding]:
    """Each mistake in ``data`` once, without those that only follow from another; stops soon after
    ``MOST``."""
    raw = []
    for item in error.errors(include_url=False)[: 20 * MOST]:  # several may be of one value
        if item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
            continue  # a list counted as too short only because pydantic dropped its invalid items
        slips = (
            item["ctx"]["error"].slips
            if item["type"] == "value_error" and isinstance(item["ctx"]["error"], Slips)
            else None
        )
        raw.append((item["type"], slips, *path_of(model, item["loc"], data)))
    unknown = {path for kind, _, path, _ in raw if kind == "extra_forbidden"}
    inside = {path[:end] for _, _, path, _ in raw for end in range(len(path))}
    slipped = {path for _, slips, path, on_branch in raw if on_branch and slips}
    found: dict[KeyPath, list[Finding]] = {}
    for kind, slips, path, on_branch in raw:
        if len(found) > MOST:
            break
        if kind == "missing" and _instead(model, path, data) in unknown:
            continue  # reported at the key that stands in its place
        if on_branch and (path in inside or (path in slipped and not slips)):
            # a union's branch that is not meant: reported at the item within, or by the branch that
            # says more
            continue
        if path in found:
            continue
        spot = spot_at(model, path, data) or Spot(None)
        if slips:
            found[path] = [
                Finding((*path, *slip.at), slip.what, slip.fix, part=path) for slip in slips
            ]
        elif kind == "missing":
            words = "it" if spot == Spot(None) else spot.words
            found[path] = [
                Finding(path[:-1], f"key '{path[-1]}' is missing", f"give {words}", about_key=True)
            ]
        elif kind == "extra_forbidden":
            found[path] = [_unknown_key(model, path, data)]
        elif kind.startswith("union_tag"):
            found[path] = [_bad_tag(spot, path, value_at(path, data))]
        else:
            value = value_at(path, data)
            found[path] = [
                Finding(
                    path,
                    f"expected {spot.words}, got {shown(value)}",
                    _repair(spot, kind, path, value),
                )
            ]
    return [one for listed in found.values() for one in listed]


def _unknown_key(model: type[BaseModel], path: KeyPath, data: dict[str, Any]) -> Finding:
    key, known = str(path[-1]), keys_at(model, path[:-1], data)
    around = spot_at(model, path[:-1], data)
    if around and around.tag:
        kind = value_at((*path[:-1], around.tag), data)
        if other := _instead(model, path, data):
            spot = spot_at(model, other, data)
            what, fix = (
                f"a {kind} gives '{other[-1]}', not '{key}'",
                f"{other[-1]} is {spot.words if spot else ''}",
            )
            return Finding(path, what, fix, about_key=True)
        owners = [name for name, member in around.kinds.items() if key in member.model_fields]
        if owners:
            return Finding(
                path,
                f"a {kind} has no '{key}'",
                f"only {' and '.join(owners)} have one",
                about_key=True,
            )
    hint = nearest(key, known)
    return Finding(
        path,
        f"unknown key {shown(key)}",
        f"{hint} known: {', '.join(known)}".strip(),
        about_key=True,
    )


def _bad_tag(spot: Spot, path: KeyPath, value: Any) -> Finding:
    known = list(spot.kinds)
    if spot.tag not in value:
        return Finding(
            path, f"key '{spot.tag}' is missing", f"give one of {', '.join(known)}", about_key=True
        )
    word = value[spot.tag]
    hint = nearest(word, known) if isinstance(word, str) else ""
    return Finding(
        (*path, spot.tag),
        f"{shown(word)} is not a {spot.tag}",
        f"{hint} known: {', '.join(known)}".strip(),
    )


def _repair(spot: Spot, kind: str, path: KeyPath, value: Any) -> str:
    means = spot.accepted.kind if spot.accepted else ""
    if isinstance(value, str):
        if kind in ("int_type", "float_type") and len(value) <= 20 and _is_number(value):
            return f"write {value} without quotes"
        if kind == "float_type" and (spelt := _SPELT.fullmatch(value)):
            return _as_number(spot, float(spelt[1]), spelt[2])
        if kind == "bool_type" and value.lower() in ("yes", "on", "no", "off"):
            return f"write {'true' if value.lower() in ('yes', 'on') else 'false'}"
    if kind in ("int_type", "int_from_float") and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if get_origin(spot.annotation) is Literal:
        words = get_args(spot.annotation)
        if len(words) == 1:
            return f"write {path[-1]}: {words[0]}"
        return nearest(value, list(words)) if isinstance(value, str) else ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if means == "rate" and value < MIN_BANDWIDTH_BPS:
        units = (f"{value:g}GB/s", f"{value:g}Gbps")
        # NICs are sold in bits/s
        first, second = reversed(units) if path[:1] == ("tiers",) and path[1:2] != (0,) else units
        return f"is the unit missing? {value:g} is read as bytes/s: write {first} or {second}"
    if means == "time" and 0 < value < _SECONDS_BELOW:
        return f"are these seconds? write {value * 1e6:g}us"
    if means == "time":
        return f"is the unit missing? write {shown(value)}us or {shown(value)}ns"
    if means in _UNITS and value > 0:
        return f"is the unit missing? write {shown(value)}{_UNITS[means]}"
    return "put it in quotes" if means == "text" else ""


def _as_number(spot: Spot, number: float, unit: str) -> str:
    """``80%``, ``3:1`` or ``2x`` as a number within bounds, of a union its number's; where those
    start at 1, 30% is 1.3."""
    members = map(spot_of, get_args(spot.annotation)) if spot.is_union else ()
    bounds = next((one for one in members if one.annotation in (int, float)), spot)
    value = number / 100 if unit == "%" else number
    if unit == "%" and value < bounds.least == 1:
        value += 1
    return f"write {value:g}" if bounds.least <= value <= bounds.most else ""


def _instead(model: type[BaseModel], path: KeyPath, data: Any) -> KeyPath | None:
    """The key that another kind has in place of the last one of ``path``: ``shape`` for ``size``
    and vice versa."""
    around = spot_at(model, path[:-1], data)
    if not path or around is None or not around.tag:
        return None
    own = around.branch(value_at(path[:-1], data))
    for spot in filter(
        None, (kind.down(path[-1], {}) for kind in map(Spot, around.kinds.values()))
    ):
        other = spot.accepted.instead if spot.accepted else ""
        if other and own and (own.down(other, {}) or own.down(path[-1], {})):
            return (*path[:-1], other)
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
