"""The leaves of a JSON document by path, ``results[ring 8].total_s``: a record of a list is named
by its identity, not by its position.

:func:`leaves_by_path` is the entry; :func:`paths_only_in` says what one document has and the other
lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from colltool.base.errors import ColltoolError

# Keys by which records of a list are recognised in the other document.
IDENTITY: tuple[str, ...] = (
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


def leaves_by_path(
    document: Mapping[str, Any], argument: str, fabrics: list[str], identity: tuple[str, ...]
) -> dict[str, Any]:
    """Every leaf by its path; if there is only one fabric, it is named once.

    Args:
        argument: of the command that has the document, for errors.
        fabrics: those that the document names.
        identity: the keys by which records are named; without ``fabric`` where there is only one.
    """
    leaves = dict(_leaves(document, "", identity))
    for where, value in leaves.items():
        not_finite = next(_not_finite(value), "")
        if not_finite:
            raise ColltoolError(
                f"{where} is {not_finite}, which cannot be compared",
                argument=argument,
                fix="a price is finite: write the document again",
            )
    if "fabric" in identity:
        return leaves
    leaves_once = {"fabric": fabrics[0]} if fabrics else {}
    for where, value in leaves.items():
        if not where.endswith("].fabric"):
            leaves_once[where] = value
    return leaves_once


def _leaves(value: Any, where: str, identity: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The leaves below a path with their own paths: ``results[ring 8].total_s``."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            # of a key that is derived from none this asks for None, which is no key of JSON
            derived = _DERIVED_FROM.get(str(key)) in value or _repeats_algorithm(str(key), value)
            if key not in _IGNORED and not str(key).endswith(_SPEC) and not derived:
                yield from _leaves(item, f"{where}.{key}" if where else str(key), identity)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        times_named: Counter[str] = Counter()
        for item in value:
            name = _name_of(item, identity)
            times_named[name] += 1
            suffix = f" #{times_named[name]}" if times_named[name] > 1 else ""
            yield from _leaves(item, f"{where}[{name}{suffix}]", identity)
    else:
        yield where, value


def _name_of(record: Mapping[str, Any], identity: tuple[str, ...]) -> str:
    """A record's name among its neighbours: the values of its identity."""
    parts = [record.get(key) for key in identity if not _repeats_algorithm(key, record)]
    words = [str(part) for part in parts if isinstance(part, str | int | float) and part != ""]
    return " ".join(words) or "item"


def _repeats_algorithm(key: str, record: Mapping[str, Any]) -> bool:
    """Whether a key says again, in the library's words, which algorithm a record is of; documents
    of 0.20 lack it."""
    return key in ("a_name", "b_name") or (key == "name" and "algorithm" in record)


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


def paths_only_in(leaves: dict[str, Any], others: dict[str, Any]) -> tuple[str, ...]:
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


def is_number(value: Any) -> bool:
    """Whether a value of a document is a number: a flag, which Python takes for one, is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
