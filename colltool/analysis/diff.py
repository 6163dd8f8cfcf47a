"""``diff``: what changed between two JSON documents of the same command.

Records in lists are matched by their identity, not their position, so a row that only changed its
rank has not changed. The fabric is part of the identity only if a document has several.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.files import read_text
from colltool.base.result import Result
from colltool.estimate.assumptions import USUAL

_IDENTITY = (
    "primitive",
    "fabric",
    "algorithm",
    "detail",
    "ranks",
    "bytes",
    "tier",
    "level",
    "label",
    "a",
    "b",
    "name",
    "where",
)
_IGNORED = ("colltool", "of_expected")
_AGAIN = {
    "alpha_share": "alpha_s",
    "bandwidth_share": "bandwidth_s",
    "of_total": "alpha_s",
    "compression": "gap_ideal",
    "span_s": "low_s",
    "rank": "tie",
}
"""Keys derived from another key: ignored where that one is present."""
_SPEC = "spec"
"""Suffix of keys that repeat other fields (``spec``, ``a_spec``) and are ignored."""
_WRITE_ONE = (
    "write one with"
    f" {either(shell='--format json -o FILE', python='colltool price --format json -o FILE')}"
)


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """Compare two documents as ``--format json`` writes them; ``rtol`` is a tolerance relative to
    the old number."""
    if not (isfinite(rtol) and rtol >= 0):
        fix = "write a share such as 1e-6, or 1%"
        raise ColltoolError(
            f"the tolerance must be a number of at least 0, got {rtol}", argument="rtol", fix=fix
        )
    for document, which in ((old, "old"), (new, "new")):
        if not str(document.get("schema", "")).startswith("colltool."):
            raise ColltoolError("not a JSON document of colltool", argument=which, fix=_WRITE_ONE)
    if old["schema"] != new["schema"]:
        what = f"documents of different commands: {old['schema']} and {new['schema']}"
        raise ColltoolError(what, fix="compare two outputs of the same command")
    try:
        fabrics = [list(dict.fromkeys(_fabrics(document))) for document in (old, new)]
        identity = tuple(
            key for key in _IDENTITY if key != "fabric" or any(len(own) > 1 for own in fabrics)
        )
        alone = all("results" in document for document in (old, new))
        told = (
            (_with_model(old, new), "old", fabrics[0]),
            (_with_model(new, old), "new", fabrics[1]),
        )
        before, after = (
            _flat(_said_once(document, alone), which, own, identity)
            for document, which, own in told
        )
    except RecursionError as error:
        raise ColltoolError(
            "a document is nested too deeply", argument="old", fix=_WRITE_ONE
        ) from error
    moved = (
        _change(where, value, after[where]) for where, value in before.items() if where in after
    )
    changed = tuple(
        one
        for one in moved
        if one is not None and (one.relative is None or abs(one.relative) > rtol)
    )
    return Diff(rtol, changed, _only(after, before), _only(before, after))


def _with_model(document: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """A ladder with the usual readings written out, which it leaves out, where the other states its
    own."""
    theirs = other.get("model")
    if (
        "model" in document
        or not isinstance(theirs, Mapping)
        or not str(document["schema"]).startswith("colltool.ladder/")
    ):
        return document
    return {**document, "model": {name: getattr(USUAL, name, None) for name in theirs}}


def _said_once(document: Mapping[str, Any], alone: bool) -> Mapping[str, Any]:
    """Drop what a document of one size has twice: at the top and in its list of sizes."""
    if "results" not in document or "sizes" not in document:
        return document
    again = {"sizes"} if alone else set().union(*document["sizes"])
    return {key: value for key, value in document.items() if key not in again}


def _fabrics(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("fabric"), str):
            yield value["fabric"]
        for item in value.values():
            yield from _fabrics(item)
    elif isinstance(value, list):
        for item in value:
            yield from _fabrics(item)


def _flat(
    document: Mapping[str, Any], which: str, fabrics: list[str], identity: tuple[str, ...]
) -> dict[str, Any]:
    """Every leaf by its path; if there is only one fabric, it is named once."""
    leaves = dict(_leaves(document, "", identity))
    for where, value in leaves.items():
        if bad := next(_not_finite(value), ""):
            what = f"{where} is {bad}, which cannot be compared"
            raise ColltoolError(
                what, argument=which, fix="a price is finite: write the document again"
            )
    if "fabric" in identity:
        return leaves
    named = {"fabric": fabrics[0]} if fabrics else {}
    return named | {
        where: value for where, value in leaves.items() if not where.endswith("].fabric")
    }


def _not_finite(value: Any) -> Iterator[str]:
    """What in a leaf is no number that can be compared, in words."""
    if isinstance(value, list):
        for item in value:
            yield from _not_finite(item)
    elif isinstance(value, int | float):
        try:
            if not isfinite(value):
                yield str(value)
        except OverflowError:
            yield "a whole number beyond all floats"


def _only(these: dict[str, Any], those: dict[str, Any]) -> tuple[str, ...]:
    """What only one side has: whole records by name, else values by path."""

    def records(where: str) -> Iterator[str]:
        return (where[: index + 1] for index, char in enumerate(where) if char == "]")

    known = {prefix for where in those for prefix in records(where)}
    missing = (where for where in these if where not in those)
    return tuple(
        dict.fromkeys(
            next((one for one in records(where) if one not in known), where) for where in missing
        )
    )


def _leaves(value: Any, where: str, identity: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if (
                key not in _IGNORED
                and not str(key).endswith(_SPEC)
                and _AGAIN.get(str(key)) not in value
            ):
                yield from _leaves(item, f"{where}.{key}" if where else str(key), identity)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        seen: dict[str, int] = {}
        for item in value:
            parts = [item.get(key) for key in identity]
            name = (
                " ".join(
                    str(part)
                    for part in parts
                    if part != "" and isinstance(part, str | int | float)
                )
                or "item"
            )
            seen[name] = seen.get(name, 0) + 1
            suffix = f" #{seen[name]}" if seen[name] > 1 else ""
            yield from _leaves(item, f"{where}[{name}{suffix}]", identity)
    else:
        yield where, value


def _change(where: str, old: Any, new: Any) -> ValueChange | None:
    if old == new:
        return None
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new)
    )
    relative = new / old - 1 if numbers and old else None
    return ValueChange(
        where, old, new, relative if relative is not None and isfinite(relative) else None
    )


class ValueChange(NamedTuple):
    """``relative`` is new/old - 1, for numbers."""

    where: str
    old: Any
    new: Any
    relative: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Diff(Result):
    subject: ClassVar[str] = "ladder"
    rtol: float
    changed: tuple[ValueChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def moved(self) -> bool:
        return bool(self.changed or self.added or self.removed)

    @property
    def readings(self) -> tuple[ValueChange, ...]:
        """The readings under which the two were not made alike."""
        return tuple(change for change in self.changed if change.where.startswith("model."))


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d[\d.eE+-]*')
_MOST_DIGITS = 300  # of an integer: a float holds 308


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a document that ``--format json`` wrote; refused, with its place, is what cannot be
    compared."""
    name = os.fspath(path)
    text = read_text(path, "document", name)
    try:
        content = json.loads(text, parse_constant=_float, parse_float=_float, parse_int=_int)
    except _NotComparable:
        raise _refused(text, name) from None
    except (json.JSONDecodeError, RecursionError) as error:
        place = (
            f"{name}:{error.lineno}:{error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else name
        )
        raise ColltoolError(
            f"not JSON: {getattr(error, 'msg', 'nested too deeply')}", where=place, fix=_WRITE_ONE
        ) from error
    for match in _TOKEN.finditer(text) if "\\ud" in text or "\\uD" in text else ():
        if match[0][0] == '"' and any(
            "\ud800" <= char <= "\udfff" for char in json.loads(match[0], strict=False)
        ):
            raise _error(
                text,
                name,
                match.start(),
                "a text with half of a surrogate pair, which is no character",
            )
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith("colltool."):
        raise ColltoolError("not a JSON document of colltool", where=name, fix=_WRITE_ONE)
    return content


class _NotComparable(Exception):
    """A number that no output contains; the JSON reader does not say where it is."""


def _float(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise _NotComparable
    return number


def _int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _NotComparable
    return int(digits)


def _refused(text: str, name: str) -> ColltoolError:
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == '"':
            continue
        if token in ("NaN", "Infinity", "-Infinity"):
            return _error(text, name, match.start(), f"{token} cannot be compared")
        try:
            (_int if token.lstrip("-").isdigit() else _float)(token)
        except _NotComparable:
            what = (
                "a number that is too large to compare"
                if len(token) > 40
                else f"{token} is too large to compare"
            )
            return _error(text, name, match.start(), what)
        except ValueError:
            continue
    return ColltoolError("holds a number that cannot be compared", where=name, fix=_WRITE_ONE)


def _error(text: str, name: str, at: int, what: str) -> ColltoolError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return ColltoolError(what, where=f"{name}:{line}:{column}", fix=_WRITE_ONE)
