"""``diff``: what changed between two JSON documents of the same command.

:func:`read_document` reads a file, refusing numbers that cannot be compared; :func:`diff` flattens
both documents to leaves by path and compares these. Records in lists are matched by their identity,
not their position, so a row that only changed its rank has not changed. The fabric is part of the
identity only if a document has several.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.files import read_text
from colltool.base.result import Result, result
from colltool.estimate.assumptions import USUAL

# Keys by which records of a list are recognised in the other document.
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
# The version of colltool, and a share of another number of the document.
_IGNORED = ("colltool", "of_expected")
# Keys derived from another key: ignored where that one is present.
_DERIVED_FROM = {
    "alpha_share": "alpha_s",
    "bandwidth_share": "bandwidth_s",
    "of_total": "alpha_s",
    "compression": "gap_ideal",
    "span_s": "low_s",
    "rank": "tie",
}
# Suffix of keys that repeat other fields (``spec``, ``a_spec``) and are ignored.
_SPEC = "spec"
_COMPARE_FABRICS = "fabric files are compared by colltool compare; for CI, see colltool guide ci"
_WRITE_ONE = (
    "write one with"
    f" {either(shell='--format json -o FILE', python='colltool price --format json -o FILE')}"
)


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """Compare two documents as ``--format json`` writes them; ``rtol`` is a tolerance relative to
    the old number."""
    if not (isfinite(rtol) and rtol >= 0):
        raise ColltoolError(
            f"the tolerance must be a number of at least 0, got {rtol}",
            argument="rtol",
            fix="write a share such as 1e-6, or 1%",
        )
    for document, which in ((old, "old"), (new, "new")):
        if not str(document.get("schema", "")).startswith("colltool."):
            raise ColltoolError("not a JSON document of colltool", argument=which, fix=_WRITE_ONE)
    if old["schema"] != new["schema"]:
        what = f"documents of different commands: {old['schema']} and {new['schema']}"
        raise ColltoolError(what, fix="compare two outputs of the same command")
    try:
        old_fabrics = list(dict.fromkeys(_fabrics(old)))
        new_fabrics = list(dict.fromkeys(_fabrics(new)))
        several_fabrics = len(old_fabrics) > 1 or len(new_fabrics) > 1
        identity = tuple(key for key in _IDENTITY if key != "fabric" or several_fabrics)
        single_size = "results" in old and "results" in new
        before = _without_repeated(_with_options(old, new), single_size=single_size)
        after = _without_repeated(_with_options(new, old), single_size=single_size)
        leaves_before = _flat(before, "old", old_fabrics, identity)
        leaves_after = _flat(after, "new", new_fabrics, identity)
    except RecursionError as error:
        what = "a document is nested too deeply"
        raise ColltoolError(what, argument="old", fix=_WRITE_ONE) from error
    changed = []
    for where, value in leaves_before.items():
        change = _change(where, value, leaves_after[where]) if where in leaves_after else None
        if change is not None and (change.relative is None or abs(change.relative) > rtol):
            changed.append(change)
    added = _only_in(leaves_after, leaves_before)
    removed = _only_in(leaves_before, leaves_after)
    winners = tuple(_winner_changes(old, new, rtol))
    return Diff(rtol, tuple(changed), added, removed, winners)


_Winners = dict[tuple[str, float], tuple[str, float]]
"""Name and seconds of what wins, by what it is a price of and its bytes; 0 where it has none."""


def _winner_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], rtol: float
) -> Iterator[TotalChange]:
    """How the total of the winner changed at each size; also where both documents have one winner,
    at different sizes."""
    before = _winners(old)
    after = _winners(new)
    pairs = [(key, key) for key in before if key in after]
    if not pairs and len(before) == len(after) == 1:
        pairs = [(next(iter(before)), next(iter(after)))]
    for old_key, new_key in pairs:
        old_name, old_s = before[old_key]
        new_name, new_s = after[new_key]
        if old_s > 0 and (abs(new_s / old_s - 1) > rtol or old_name != new_name):
            _, old_bytes = old_key
            what, new_bytes = new_key
            yield TotalChange(
                what=what,
                old_bytes=old_bytes,
                new_bytes=new_bytes,
                old_name=old_name,
                new_name=new_name,
                old_s=old_s,
                new_s=new_s,
            )


def _winners(document: Mapping[str, Any]) -> _Winners:
    """The winner at each size of a document of prices or a ladder, or the step of a plan."""
    found: _Winners = {}
    if _is_number(document.get("step_s")):
        return {("step", 0.0): ("", document["step_s"])}
    for size in document.get("sizes") or [document]:
        if isinstance(size, Mapping) and isinstance(size.get("results"), list) and size["results"]:
            _add_winner(found, size, size["results"][0])
    is_ladder = str(document["schema"]).startswith("colltool.ladder/")
    for row in document["rows"] if is_ladder and isinstance(document.get("rows"), list) else ():
        if isinstance(row, Mapping) and isinstance(row.get("realistic"), Mapping):
            size = {"bytes": document.get("bytes"), **row}
            where = f"{row.get('name') or row.get('algorithm')} on {row.get('fabric')}"
            _add_winner(found, size, {**row["realistic"], "name": where}, fastest=True)
    return found


def _add_winner(
    found: _Winners, size: Mapping[str, Any], row: Mapping[str, Any], *, fastest: bool = False
) -> None:
    """Add a row as the winner of its primitive and size; with ``fastest`` only where it beats what
    is there."""
    total_s = row.get("total_s")
    if not isinstance(total_s, int | float) or not _is_number(size.get("bytes")):
        return
    key = str(size.get("primitive")).replace("_", "-"), float(size["bytes"])
    if fastest and key in found:
        _, fastest_s = found[key]
        if fastest_s <= total_s:
            return
    found[key] = str(row.get("name") or row.get("algorithm") or ""), total_s


def _with_options(document: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document; a ladder, which leaves usual options out, with these written out if the other
    document states its own."""
    theirs = other.get("model")
    is_ladder = str(document["schema"]).startswith("colltool.ladder/")
    if "model" in document or not isinstance(theirs, Mapping) or not is_ladder:
        return document
    return {**document, "model": {name: getattr(USUAL, name, None) for name in theirs}}


def _without_repeated(document: Mapping[str, Any], *, single_size: bool) -> Mapping[str, Any]:
    """The document without what it has twice: at the top and in its list of sizes. ``single_size``:
    both documents have one size."""
    if "results" not in document or "sizes" not in document:
        return document
    repeated = {"sizes"} if single_size else set().union(*document["sizes"])
    return {key: value for key, value in document.items() if key not in repeated}


def _fabrics(value: Any) -> Iterator[str]:
    """Every fabric that a value names, at any depth."""
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
        bad = next(_not_finite(value), "")
        if bad:
            raise ColltoolError(
                f"{where} is {bad}, which cannot be compared",
                argument=which,
                fix="a price is finite: write the document again",
            )
    if "fabric" in identity:
        return leaves
    found = {"fabric": fabrics[0]} if fabrics else {}
    for where, value in leaves.items():
        if not where.endswith("].fabric"):
            found[where] = value
    return found


def _not_finite(value: Any) -> Iterator[str]:
    """The numbers in a leaf that cannot be compared, as text."""
    if isinstance(value, list):
        for item in value:
            yield from _not_finite(item)
    elif isinstance(value, int | float):
        try:
            if not isfinite(value):
                yield str(value)
        except OverflowError:
            yield "a whole number beyond all floats"


def _only_in(leaves: dict[str, Any], others: dict[str, Any]) -> tuple[str, ...]:
    """What only one side has: paths of whole records, else of values."""
    known: set[str] = set()
    for where in others:
        known.update(_records(where))
    missing = []
    for where in leaves:
        if where not in others:
            new_records = (record for record in _records(where) if record not in known)
            missing.append(next(new_records, where))
    return tuple(dict.fromkeys(missing))


def _records(where: str) -> Iterator[str]:
    """The paths of the records that a leaf lies in, outermost first."""
    for index, char in enumerate(where):
        if char == "]":
            yield where[: index + 1]


def _leaves(value: Any, where: str, identity: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The leaves below a path with their own paths: ``results[ring 8].total_s``."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            derived = _DERIVED_FROM.get(str(key)) in value or _repeats_algorithm(str(key), value)
            if key not in _IGNORED and not str(key).endswith(_SPEC) and not derived:
                yield from _leaves(item, f"{where}.{key}" if where else str(key), identity)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        seen: Counter[str] = Counter()
        for item in value:
            name = _name_of(item, identity)
            seen[name] += 1
            suffix = f" #{seen[name]}" if seen[name] > 1 else ""
            yield from _leaves(item, f"{where}[{name}{suffix}]", identity)
    else:
        yield where, value


def _repeats_algorithm(key: str, record: Mapping[str, Any]) -> bool:
    """Whether a key says again, in the library's words, which algorithm a record is of; documents
    of 0.20 lack it."""
    return key in ("a_name", "b_name") or (key == "name" and "algorithm" in record)


def _name_of(record: Mapping[str, Any], identity: tuple[str, ...]) -> str:
    """A record's name among its neighbours: the values of its identity."""
    parts = [record.get(key) for key in identity if not _repeats_algorithm(key, record)]
    words = [str(part) for part in parts if isinstance(part, str | int | float) and part != ""]
    return " ".join(words) or "item"


def _change(where: str, old: Any, new: Any) -> ValueChange | None:
    """The change of a leaf; None if it has not changed."""
    if old == new:
        return None
    relative = None
    if _is_number(old) and _is_number(new) and old:
        change = new / old - 1
        relative = change if isfinite(change) else None
    return ValueChange(where, old, new, relative)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class ValueChange(NamedTuple):
    """A leaf that differs; ``relative`` is new/old - 1, for numbers."""

    where: str
    old: Any
    new: Any
    relative: float | None


class TotalChange(NamedTuple):
    """The total of the winner, old and new: of ``what``, a collective or a step, at a size in bytes
    (0 for none)."""

    what: str
    old_bytes: float
    new_bytes: float
    old_name: str
    new_name: str
    old_s: float
    new_s: float

    @property
    def relative(self) -> float:
        return self.new_s / self.old_s - 1


@result
class Diff(Result):
    """What changed from one document to another: numbers that moved by more than ``rtol``,
    relative; paths that only one side has; and, of prices, how the winner's total moved."""

    subject: ClassVar[str] = "ladder"
    rtol: float
    changed: tuple[ValueChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    winners: tuple[TotalChange, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether the documents differ at all."""
        return bool(self.changed or self.added or self.removed)

    @property
    def readings(self) -> tuple[ValueChange, ...]:
        """The options of the model that the two documents do not share."""
        return tuple(change for change in self.changed if change.where.startswith("model."))


# A string or a number of JSON text, to find where one stands.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d[\d.eE+-]*')
# Digits of an integer: a float holds 308.
_MOST_DIGITS = 300


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a document that ``--format json`` wrote.

    Raises:
        ColltoolError: no such document, or a number that cannot be compared, with its line.
    """
    name = os.fspath(path)
    text = read_text(path, "document", name)
    try:
        content = json.loads(text, parse_constant=_float, parse_float=_float, parse_int=_int)
    except _NotComparable:
        raise _number_error(text, name) from None
    except json.JSONDecodeError as error:
        fix = _COMPARE_FABRICS if name.endswith((".yaml", ".yml")) else _WRITE_ONE
        raise ColltoolError(
            f"not JSON: {error.msg}", where=f"{name}:{error.lineno}:{error.colno}", fix=fix
        ) from error
    except RecursionError as error:
        raise ColltoolError("not JSON: nested too deeply", where=name, fix=_WRITE_ONE) from error
    _check_characters(text, name)
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith("colltool."):
        raise ColltoolError("not a JSON document of colltool", where=name, fix=_WRITE_ONE)
    return content


def _check_characters(text: str, name: str) -> None:
    """Refuse half of a surrogate pair, which JSON can write and no text can hold."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    for match in _TOKEN.finditer(text):
        if match[0][0] != '"':
            continue
        characters = json.loads(match[0], strict=False)
        if any("\ud800" <= char <= "\udfff" for char in characters):
            what = "a text with half of a surrogate pair, which is no character"
            raise _error(text, name, match.start(), what)


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


def _number_error(text: str, name: str) -> ColltoolError:
    """The error of the first number that cannot be compared, with its place."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == '"':
            continue
        if token in ("NaN", "Infinity", "-Infinity"):
            return _error(text, name, match.start(), f"{token} cannot be compared")
        read = _int if token.lstrip("-").isdigit() else _float
        try:
            read(token)
        except _NotComparable:
            number = token if len(token) <= 40 else "a number that"
            return _error(text, name, match.start(), f"{number} is too large to compare")
        except ValueError:
            continue
    return ColltoolError("holds a number that cannot be compared", where=name, fix=_WRITE_ONE)


def _error(text: str, name: str, at: int, what: str) -> ColltoolError:
    """An error at an offset of the text, with its line and column."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return ColltoolError(what, where=f"{name}:{line}:{column}", fix=_WRITE_ONE)
