"""pydantic's errors in plain words: what was found, what is accepted, the nearest valid key.

:func:`findings` is the entry: it drops errors that only follow from others, and makes a
:class:`Finding` of each that is left. ``_in_words`` picks the words by the kind of the error (the
``type`` of pydantic's list of them, such as ``extra_forbidden``), the ``_repair`` functions say what
to write instead.

A :class:`FieldPlace` is a key path's place in the model: ``words`` for what is accepted there; where a
key of the mapping, its ``tag``, tells which of several models it has, the models by tag are ``kinds``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from colltool.base.errors import nearest, nearest_and_all, quote
from colltool.definitions.field_types import MIN_BANDWIDTH_BPS, FieldError, FieldErrors
from colltool.definitions.places import FieldPlace, keys_at, path_of, place_at, place_of
from colltool.definitions.source import MAX_ERRORS, Finding, KeyPath, value_at

# Ratios and shares as people write them: 3:1, 80%, 2x.
_RATIO = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(:1|%|x)")
# The unit that a bare number probably has.
_UNITS = {"length": "m", "energy": "pJ/bit", "power": "W", "energy price": "/kWh"}
# Words for true and false that YAML 1.2 reads as text.
_FLAGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
# Characters of a number in quotes that an error repeats.
_LONGEST_NUMBER = 20
# Seconds: a bare time below it is probably in seconds, above it in us or ns without its unit.
_SECONDS_BELOW = 1e-3


class _Mistake(NamedTuple):
    """One of pydantic's errors.

    Attributes:
        kind: pydantic's ``type`` of it.
        errors: those that a validator of ours raised; empty if pydantic found it.
        path: of the value, or of the key that is missing or unknown.
        on_branch: whether it is about one branch of a union as a whole, which may not be the one that
            was meant.
    """

    kind: str
    errors: tuple[FieldError, ...]
    path: KeyPath
    on_branch: bool


def findings(model: type[BaseModel], error: ValidationError, data: dict[str, Any]) -> list[Finding]:
    """Return the mistakes in ``data`` in pydantic's order, at most one for a path (or those that one
    validator raised together), without those that only follow from another; stops soon after
    ``MAX_ERRORS``."""
    mistakes = list(_mistakes(model, error, data))
    unknown = {mistake.path for mistake in mistakes if mistake.kind == "extra_forbidden"}
    explained = {mistake.path for mistake in mistakes if mistake.on_branch and mistake.errors}
    # paths of the mappings and lists that have a mistake further inside
    parents: set[KeyPath] = set()
    for mistake in mistakes:
        parents.update(mistake.path[:end] for end in range(len(mistake.path)))
    found: list[Finding] = []
    reported: set[KeyPath] = set()
    for mistake in mistakes:
        if len(reported) > MAX_ERRORS:
            break
        path = mistake.path
        # a missing key is reported at the unknown one that was written instead of it
        is_replaced = mistake.kind == "missing" and _key_of_other_kind(model, path, data) in unknown
        # a branch of a union that was not meant: the item inside is reported, or the branch whose
        # validator explains more
        is_less_specific = path in explained and not mistake.errors
        is_other_branch = mistake.on_branch and (path in parents or is_less_specific)
        if not is_replaced and not is_other_branch and path not in reported:
            reported.add(path)
            found += _in_words(model, mistake, data)
    return found


def _mistakes(
    model: type[BaseModel], error: ValidationError, data: dict[str, Any]
) -> Iterator[_Mistake]:
    """pydantic's errors with their key paths, each with the errors that a validator of ours raised in it."""
    # more than are reported: several may be of one value
    for item in error.errors(include_url=False)[: 20 * MAX_ERRORS]:
        context = item.get("ctx", {})
        # pydantic counts a list without its invalid items, which are reported themselves
        if item["type"] == "too_short" and len(item["input"]) >= context["min_length"]:
            continue
        raised = context.get("error")
        errors = raised.errors if isinstance(raised, FieldErrors) else ()
        yield _Mistake(item["type"], errors, *path_of(model, item["loc"], data))


def _in_words(model: type[BaseModel], mistake: _Mistake, data: dict[str, Any]) -> list[Finding]:
    """A mistake in words, what was found and how to fix it: one finding, or one for each error that a
    validator of ours raised."""
    path = mistake.path
    if mistake.errors:
        raised = []
        for error in mistake.errors:
            raised.append(Finding((*path, *error.at), error.what, error.fix, part=path))
        return raised
    place = place_at(model, path, data)
    value = value_at(path, data)
    if mistake.kind == "missing":
        fix = f"give {place.words if place else 'it'}"
        return [Finding(path[:-1], f"key '{path[-1]}' is missing", fix, about_key=True)]
    if mistake.kind == "extra_forbidden":
        return [_unknown_key(model, path, data)]
    place = place or FieldPlace(None)
    # union_tag_invalid, union_tag_not_found; a part that is no mapping has no tag to be wrong
    if mistake.kind.startswith("union_tag") and isinstance(value, dict):
        return [_bad_tag(place, path, value)]
    what = f"expected {place.words}, got {quote(value)}"
    return [Finding(path, what, _repair(place, mistake.kind, path, value))]


def _unknown_key(model: type[BaseModel], path: KeyPath, data: dict[str, Any]) -> Finding:
    """The finding for a key that a part does not have: the key that this kind of part has instead, the
    kinds that do have it, or else the nearest key."""
    key = str(path[-1])
    parent = place_at(model, path[:-1], data)
    if parent and parent.tag:
        kind = value_at((*path[:-1], parent.tag), data)
        other = _key_of_other_kind(model, path, data)
        if other:
            place = place_at(model, other, data)
            what = f"a {kind} gives '{other[-1]}', not '{key}'"
            fix = f"{other[-1]} is {place.words if place else ''}"
            return Finding(path, what, fix, about_key=True)
        owners = [name for name, member in parent.kinds.items() if key in member.model_fields]
        if owners:
            fix = f"only {' and '.join(owners)} have one"
            return Finding(path, f"a {kind} has no '{key}'", fix, about_key=True)
    fix = nearest_and_all(key, keys_at(model, path[:-1], data))
    return Finding(path, f"unknown key {quote(key)}", fix, about_key=True)


def _bad_tag(place: FieldPlace, path: KeyPath, value: dict[str, Any]) -> Finding:
    """The finding for a mapping whose tag, such as ``topology``, is missing, or its key misspelt, or its
    value unknown."""
    known = list(place.kinds)
    if place.tag not in value:
        # the key of the tag is there, but misspelt
        for key in value:
            hint = nearest(str(key), [place.tag])
            if hint and not any(key in member.model_fields for member in place.kinds.values()):
                return Finding((*path, key), f"unknown key {quote(key)}", hint, about_key=True)
        fix = f"give one of {', '.join(known)}"
        return Finding(path, f"key '{place.tag}' is missing", fix, about_key=True)
    word = value[place.tag]
    fix = nearest_and_all(word if isinstance(word, str) else "", known)
    return Finding((*path, place.tag), f"{quote(word)} is not a {place.tag}", fix)


def _repair(place: FieldPlace, kind: str, path: KeyPath, value: Any) -> str:
    """What to write in place of a value of the wrong type or out of bounds. Empty where nothing is
    near. ``kind``: pydantic's type of the error."""
    fix = ""
    if isinstance(value, str):
        fix = _repaired_text(place, kind, value)
    elif kind in ("int_type", "int_from_float") and isinstance(value, float) and value.is_integer():
        fix = f"write {int(value)}"
    if fix:
        return fix
    if get_origin(place.annotation) is Literal:
        words = get_args(place.annotation)
        if len(words) == 1:
            return f"write {path[-1]}: {words[0]}"
        if isinstance(value, str):
            return nearest(value, list(words))
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    quantity = place.hint.kind if place.hint else ""
    return _with_unit(quantity, path, value)


def _repaired_text(place: FieldPlace, kind: str, text: str) -> str:
    """What to write where a text means a number or a flag. Empty where it does not."""
    if (
        kind in ("int_type", "float_type")
        and len(text) <= _LONGEST_NUMBER
        and _reads_as_number(text)
    ):
        return f"write {text} without quotes"
    ratio = _RATIO.fullmatch(text)
    if kind == "float_type" and ratio is not None:
        return _as_number(place, float(ratio[1]), ratio[2])
    if kind == "bool_type" and text.lower() in _FLAGS:
        return f"write {_FLAGS[text.lower()]}"
    return ""


def _with_unit(quantity: str, path: KeyPath, value: float) -> str:
    """What to write in place of a number without its unit. Empty where the quantity (a ``FieldHint.kind``)
    has none, or a bare number of it is in order and only out of bounds."""
    match quantity:
        case "rate" if value < MIN_BANDWIDTH_BPS:
            units = [f"{value:g}GB/s", f"{value:g}Gbps"]
            # of a fabric's outer tiers, the network: NICs are sold in bits/s
            if path[:1] == ("tiers",) and path[1:2] != (0,):
                units.reverse()
            return f"is the unit missing? {value:g} is read as bytes/s: write {' or '.join(units)}"
        case "time" if 0 < value < _SECONDS_BELOW:
            return f"are these seconds? write {value * 1e6:g}us"
        case "time":
            return f"is the unit missing? write {quote(value)}us or {quote(value)}ns"
        case "text":
            return "put it in quotes"
    if quantity in _UNITS and value > 0:
        return f"is the unit missing? write {quote(value)}{_UNITS[quantity]}"
    return ""


def _as_number(place: FieldPlace, number: float, unit: str) -> str:
    """The fix for ``80%``, ``3:1`` or ``2x``: the number that is meant. Empty if it is outside the bounds
    of the field, or in a union of the number in it. Where bounds start at 1, 30% means 1.3."""
    bounds = place
    if place.is_union:
        members = map(place_of, get_args(place.annotation))
        bounds = next((member for member in members if member.annotation in (int, float)), place)
    if unit == "%":
        number /= 100
        if number < bounds.least == 1:
            number += 1
    if not bounds.least <= number <= bounds.most:
        return ""
    return f"write {number:g}"


def _key_of_other_kind(model: type[BaseModel], path: KeyPath, data: Any) -> KeyPath | None:
    """The path of the key that stands for the last one of ``path`` in another kind of the same thing:
    that of ``shape`` for ``size``, and vice versa. None if there is no such key, or the part as it is
    written has neither."""
    parent = place_at(model, path[:-1], data)
    if not path or parent is None or not parent.tag:
        return None
    written = parent.branch(value_at(path[:-1], data))
    if written is None:
        return None
    for kind in parent.kinds.values():
        place = FieldPlace(kind).child(path[-1], {})
        other = place.hint.other_key if place and place.hint else ""
        if other and (written.child(other, {}) or written.child(path[-1], {})):
            return (*path[:-1], other)
    return None


def _reads_as_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
