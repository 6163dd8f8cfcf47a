"""``diff``: what moved between two JSON documents of the same command.

Lists of records are matched by what identifies a record, not by position: a row that only changed its rank has not moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from colltool.errors import ColltoolError
from colltool.study.results import Change, Diff

_IDENTITY = ("primitive", "fabric", "algorithm", "detail", "ranks", "bytes", "tier", "level", "label", "a", "b", "name", "where")
_IGNORED = ("colltool",)  # the version: another one is no change of a price


def diff(old: dict[str, Any], new: dict[str, Any], rtol: float = 1e-6) -> Diff:
    """Compare two documents.

    Args:
        old, new: as ``--format json`` writes them.
        rtol: numbers that differ by at most this fraction of the old one are the same.

    Raises:
        ColltoolError: documents without a colltool schema, or of different commands.
    """
    if not (isfinite(rtol) and rtol >= 0):
        raise ColltoolError(f"the tolerance must be a number of at least 0, got {rtol}", where="--rtol")
    for document, which in ((old, "OLD"), (new, "NEW")):
        if not str(document.get("schema", "")).startswith("colltool."):
            raise ColltoolError("not a JSON document of colltool", where=which, fix="write one with --format json -o FILE")
    if old["schema"] != new["schema"]:
        what = f"documents of different commands: {old['schema']} and {new['schema']}"
        raise ColltoolError(what, fix="compare two outputs of the same command")
    before, after = dict(_leaves(old, "")), dict(_leaves(new, ""))
    moved = (_change(where, before[where], after[where]) for where in before if where in after)
    changed = tuple(change for change in moved if change is not None and _past(change, rtol))
    return Diff(rtol, changed, _only(after, before), _only(before, after))


def _only(these: dict[str, Any], those: dict[str, Any]) -> tuple[str, ...]:
    """What only one side has: a whole record by its name, else a value by its path; each once."""
    known = {prefix for where in those for prefix in _records(where)}
    missing = (where for where in these if where not in those)
    named = (next((prefix for prefix in _records(where) if prefix not in known), where) for where in missing)
    return tuple(dict.fromkeys(named))


def _records(where: str) -> Iterator[str]:
    """``results[ring]`` and ``results[ring].phases[nvlink]`` of a path into the latter."""
    return (where[: index + 1] for index, char in enumerate(where) if char == "]")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _IGNORED:
                yield from _leaves(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        seen: dict[str, int] = {}
        for item in value:
            parts = [item.get(key) for key in _IDENTITY]
            name = " ".join(str(part) for part in parts if part != "" and isinstance(part, str | int | float)) or "item"
            seen[name] = seen.get(name, 0) + 1
            suffix = f" #{seen[name]}" if seen[name] > 1 else ""
            yield from _leaves(item, f"{where}[{name}{suffix}]")
    else:
        yield where, value


def _change(where: str, old: Any, new: Any) -> Change | None:
    if old == new:
        return None
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
    relative = (new / old - 1 if old else None) if numbers else None
    return Change(where, old, new, relative)


def _past(change: Change, rtol: float) -> bool:
    return change.relative is None or abs(change.relative) > rtol
