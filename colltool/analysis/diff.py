"""``diff``: what moved between two JSON documents of the same command.

Lists of records are matched by what identifies a record, not by position: a row that only changed its rank has not moved. The
fabric identifies a record only where a document speaks of several: two prices on two fabrics are compared row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from colltool.analysis.results import Change, Diff
from colltool.base.errors import ColltoolError, either

_IDENTITY = ("primitive", "fabric", "algorithm", "detail", "ranks", "bytes", "tier", "level", "label", "a", "b", "name", "where")
_IGNORED = ("colltool", "of_expected")
_AGAIN = {"alpha_share": "alpha_s", "bandwidth_share": "bandwidth_s", "of_total": "alpha_s", "compression": "gap_ideal",
          "span_s": "low_s", "rank": "tie"}  # fmt: skip
"""What only says again what stands beside the other key: where that is, it is no change of its own."""
_SPEC = "spec"
"""The version, and what only says other fields again (``of_expected``, ``spec``, ``a_spec``): no change of a price."""
_WRITE_ONE = f"write one with {either(shell='--format json -o FILE', python='colltool price --format json -o FILE')}"


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """Compare two documents.

    Args:
        old, new: as ``--format json`` writes them.
        rtol: numbers that differ by at most this fraction of the old one are the same.

    Raises:
        ColltoolError: documents without a colltool schema, or of different commands; a number that is not finite.
    """
    if not (isfinite(rtol) and rtol >= 0):
        fix = "write a share such as 1e-6, or 1%"
        raise ColltoolError(f"the tolerance must be a number of at least 0, got {rtol}", argument="rtol", fix=fix)
    for document, which in ((old, "old"), (new, "new")):
        if not str(document.get("schema", "")).startswith("colltool."):
            raise ColltoolError("not a JSON document of colltool", argument=which, fix=_WRITE_ONE)
    if old["schema"] != new["schema"]:
        what = f"documents of different commands: {old['schema']} and {new['schema']}"
        raise ColltoolError(what, fix="compare two outputs of the same command")
    try:
        several = any(len(set(_fabrics(document))) > 1 for document in (old, new))
        alone = all("results" in document for document in (old, new))
        before, after = (_flat(_said_once(one, alone), name, several) for one, name in ((old, "old"), (new, "new")))
    except RecursionError as error:
        raise ColltoolError("a document is nested too deeply", argument="old", fix=_WRITE_ONE) from error
    moved = (_change(where, before[where], after[where]) for where in before if where in after)
    changed = tuple(change for change in moved if change is not None and _past(change, rtol))
    return Diff(rtol, changed, _only(after, before), _only(before, after))


def _said_once(document: Mapping[str, Any], alone: bool) -> Mapping[str, Any]:
    """A document of one size has it at the top and as its list of sizes: without the list, or where the other has several, with
    nothing else."""
    if "results" not in document or "sizes" not in document:
        return document
    again = {"sizes"} if alone else set().union(*document["sizes"])
    return {key: value for key, value in document.items() if key not in again}


def _fabrics(value: Any) -> Iterator[str]:
    """The fabric of every record, at any depth."""
    if isinstance(value, Mapping):
        if isinstance(value.get("fabric"), str):
            yield value["fabric"]
        for item in value.values():
            yield from _fabrics(item)
    elif isinstance(value, list):
        for item in value:
            yield from _fabrics(item)


def _flat(document: Mapping[str, Any], argument: str, several: bool) -> dict[str, Any]:
    """Every value by its path; the fabric of a document that has only one stands once."""
    identity = _IDENTITY if several else tuple(key for key in _IDENTITY if key != "fabric")
    leaves = dict(_leaves(document, "", identity))
    for where, value in leaves.items():
        if not _finite(value):
            what = f"{where} is {_named(value)}, no number that can be compared"
            raise ColltoolError(what, argument=argument, fix="a price is finite: write the document again")
    if several:
        return leaves
    own = next(iter(_fabrics(document)), None)
    kept = {where: value for where, value in leaves.items() if not where.endswith("].fabric")}
    return kept if own is None else {"fabric": own} | kept


def _finite(value: Any) -> bool:
    """Whether a number can be compared; anything else can."""
    if isinstance(value, list):
        return all(_finite(item) for item in value)
    if not isinstance(value, int | float):
        return True
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _named(value: Any) -> str:
    if isinstance(value, list):
        return next(_named(item) for item in value if not _finite(item))
    return "a whole number beyond all floats" if isinstance(value, int) else str(value)


def _only(these: dict[str, Any], those: dict[str, Any]) -> tuple[str, ...]:
    """What only one side has: a whole record by its name, else a value by its path; each once."""
    known = {prefix for where in those for prefix in _records(where)}
    missing = (where for where in these if where not in those)
    named = (next((prefix for prefix in _records(where) if prefix not in known), where) for where in missing)
    return tuple(dict.fromkeys(named))


def _records(where: str) -> Iterator[str]:
    """``results[ring]`` and ``results[ring].phases[nvlink]`` of a path into the latter."""
    return (where[: index + 1] for index, char in enumerate(where) if char == "]")


def _leaves(value: Any, where: str, identity: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _IGNORED and not str(key).endswith(_SPEC) and _AGAIN.get(str(key)) not in value:
                yield from _leaves(item, f"{where}.{key}" if where else str(key), identity)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        seen: dict[str, int] = {}
        for item in value:
            parts = [item.get(key) for key in identity]
            name = " ".join(str(part) for part in parts if part != "" and isinstance(part, str | int | float)) or "item"
            seen[name] = seen.get(name, 0) + 1
            suffix = f" #{seen[name]}" if seen[name] > 1 else ""
            yield from _leaves(item, f"{where}[{name}{suffix}]", identity)
    else:
        yield where, value


def _change(where: str, old: Any, new: Any) -> Change | None:
    if old == new:
        return None
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
    relative = new / old - 1 if numbers and old else None
    return Change(where, old, new, relative if relative is not None and isfinite(relative) else None)


def _past(change: Change, rtol: float) -> bool:
    return change.relative is None or abs(change.relative) > rtol
