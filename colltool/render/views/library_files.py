"""``library list``, ``show`` and ``check``, and ``diff --library``: files of measured kernels.

Four parts in this order: the list of libraries (``_list_*``), what ``check`` echoes, one file
(``_file_*``), and two versions of a library (``_diff_*``). An operation is a collective, or a call of
experts; a dispatch table says which kernel a library picks at which sizes. ``spoken`` is the library's name as
people write it, and ``ranks`` of a row the least and the most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_time,
    ordinal,
    size_text,
    whole_percent,
)
from colltool.engines.library_diff import LibraryDiff, PickChange
from colltool.engines.results import (
    CheckedLibrary,
    DispatchRow,
    KernelRow,
    LibraryChecks,
    LibraryList,
    LibraryRow,
    LibraryShown,
)
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Table,
    flag,
    label,
    number,
    span_text,
)
from colltool.render.dispatch import View, context, listed
from colltool.render.documents import Document, derived
from colltool.render.shared_documents import FabricDocument
from colltool.render.views.checked_files import CheckDocument, view_of_checks

_MOST_LIBRARIES = 16  # rows without --all, which fit a screen
_MOST_OPERATIONS = 4  # that a row of the list names
_MOST_KERNELS = 10  # rows without --all
_MOST_CHANGES = 12  # rows without --all, which fit a screen below the sentences
_NO_END_BYTES = 2**50  # an upper end from this size on stands for none
_SAME_TIME = 0.01  # a time that changes by less than this share counts as the same


# --- words


def _gpus(row: LibraryRow | KernelRow | DispatchRow) -> str:
    return ", ".join(row.gpus)


def _rank_range(row: KernelRow | DispatchRow) -> str:
    """``2-8``, or ``8`` where both ends are the same."""
    return "-".join(map(str, dict.fromkeys(row.ranks)))


def _operations(row: LibraryRow) -> str:
    return ", ".join(row.operations)


def _operation_name(operation: str) -> str:
    """The name as people write it: ``all-reduce``."""
    return operation.replace("_", "-")


def _first_operations(operations: str) -> str:
    """Operations, separated by commas, on a line of the list: of too many the first."""
    names = _operation_name(operations).split(", ")
    if len(names) > _MOST_OPERATIONS:
        return f"{names[0]} and {len(names) - 1} more"
    return ", ".join(names)


def _range_end(size: float) -> str:
    """The upper end of a row of a dispatch table; ``any`` where it has none."""
    return size_text(size) if size < _NO_END_BYTES else "any"


# --- the list


_LIBRARY: Columns[LibraryRow] = (
    label("name"),
    label("version"),
    label("spoken", "of", drop=3),
    label("operations", "kernels for", _first_operations, get=_operations),
    label("gpus", "measured on", drop=1, get=_gpus),
)


def _list_table(result: LibraryList) -> Table:
    return Table(_LIBRARY, result.rows)


def _by_name(rows: Sequence[LibraryRow]) -> tuple[LibraryRow, ...]:
    """Versions of a library that price the same operations in one row, those with an all-reduce
    first, to fit a screen."""
    merged: dict[tuple[str, str], LibraryRow] = {}
    # False sorts before True
    for row in sorted(rows, key=lambda row: "all_reduce" not in row.operations):
        key = (row.name, _operations(row))
        version = row.version
        if key in merged:
            version = f"{merged[key].version},{version}"
        merged[key] = row._replace(version=version)
    return tuple(merged.values())


def _list_blocks(result: LibraryList) -> list[Block]:
    """How many libraries ship, how to price with one, and which they are."""
    example = localize(
        either(
            shell="--library vllm@0.24.0 prices with one",
            python='library="vllm@0.24.0" prices with one',
        )
    )
    table = Table(_LIBRARY, _by_name(result.rows), first=_MOST_LIBRARIES)
    return [Headline(f"{len(result.rows)} libraries ship: {example}."), table]


def _list_summary(result: LibraryList) -> str:
    names = ", ".join(f"{row.name}@{row.version}" for row in result.rows)
    return f"{len(result.rows)} libraries: {names}"


# --- what was read of a file


def _check_values(check: CheckedLibrary) -> Iterator[str]:
    """Lines that echo a checked file: its kernels, GPUs and the size of its dispatch table."""
    row = check.row
    kernels = counted(check.kernels, "kernel")
    yield f"{row.name}@{row.version}: {kernels} for {_operation_name(_operations(row))}"
    if row.gpus:
        yield f"measured on {_gpus(row)}"
    if check.thresholds:
        yield f"{counted(check.thresholds, 'row')} of what it picks at which size"


class LibrariesDocument(Document):
    """The library files that are known, or were checked."""

    libraries: list[LibraryRow] = derived("rows")


class LibraryCheckDocument(CheckDocument, LibrariesDocument):
    """Library files that can be read."""


# --- a file


_KERNEL: Columns[KernelRow] = (
    label("kernel"),
    label("operation", "for", _operation_name),
    label("gpus", "GPU", get=_gpus),
    label("ranks", get=_rank_range),
    label("sizes", drop=2),
    label("formula", "seconds", drop=4),
    label("parameters", "with", drop=3),
    number("error", "median error", whole_percent, drop=1),
    label("said", "note", drop=5),
)
_DISPATCH: Columns[DispatchRow] = (
    label("kernel"),
    label("gpus", "GPU", get=_gpus),
    label("ranks", get=_rank_range),
    number("from_bytes", "from", size_text),
    number("to_bytes", "to", _range_end),
    flag("to_included", drop=1),
    label("per", drop=2),
)


def _file_table(result: LibraryShown) -> Table:
    return Table(_KERNEL, result.kernels)


def _file_blocks(result: LibraryShown) -> Iterator[Block]:
    """What a library's file holds: rules, kernels or a dispatch table, and their sources."""
    yield Headline(f"{_file_summary(result)}.")
    # a table that is the whole answer is the one that is cut short
    picks = Table(_DISPATCH, result.dispatch, title="what it picks", first=_MOST_KERNELS)
    if result.kernels:
        yield _file_table(result)._replace(first=_MOST_KERNELS)
        picks = picks._replace(first=0)
    if result.dispatch:
        yield picks
    yield from listed("rules", [f"{rule}: {value}" for rule, value in result.rules], first=12)
    yield from listed("versions measured", result.versions, first=0)
    stand_ins = (f"{gpu}: the numbers of {other} are used" for gpu, other in result.like)
    yield from listed("not measured", stand_ins, first=2)
    yield from listed("sources", result.sources, first=0 if result.kernels else 2)


def _file_summary(result: LibraryShown) -> str:
    """``vllm@0.24.0 (vLLM): 10 kernels for all-reduce, median error 4% to 24%``."""
    name = f"{result.library} ({result.spoken})"
    if result.rules:
        return f"{name}: what it picks follows from its constants and these rules"
    if not result.kernels:
        return f"{name}: what it picks is in a table of {counted(len(result.dispatch), 'row')}"
    operations = dict.fromkeys(_operation_name(row.operation) for row in result.kernels)
    text = f"{name}: {counted(len(result.kernels), 'kernel')} for {', '.join(operations)}"
    errors = [kernel.error for kernel in result.kernels if kernel.error is not None]
    if not errors:
        return text
    return (
        f"{text}, median error {span_text(whole_percent(min(errors)), whole_percent(max(errors)))}"
    )


class LibraryDocument(Document):
    """What a library file says."""

    library: str
    spoken: str
    kernels: list[KernelRow]
    dispatch: list[DispatchRow]
    versions: list[str]
    like: dict[str, str] = derived(lambda result: dict(result.like))
    sources: list[str]
    rules: dict[str, str] = derived(lambda result: dict(result.rules))


# --- two versions of a library


def _diff_answer(result: LibraryDiff) -> str:
    """Say how many picks or times change, and which time changes most."""
    versions = f"From {result.old} to {result.new} on {result.fabric}"
    if not result.changes:
        return f"{versions} nothing changes: {result.looked} sizes and groups compared."
    text = f"{versions}, {result.differ} of {result.looked} picks or times change"
    # a factor is None where one of the two has no price
    moved = [change for change in result.changes if abs((change.factor or 1) - 1) > _SAME_TIME]
    if not moved:
        return f"{text}; by colltool's prices no time changes by more than 1%."
    largest = max(moved, key=lambda change: abs(log(change.factor or 1)))
    group = f"{largest.ranks} ranks"
    if largest.stride > 1:
        group += f", every {ordinal(largest.stride)}"
    call = f"{_operation_name(largest.primitive)} of {size_text(largest.from_bytes)} on {group}"
    kernels = span_text(largest.old, largest.new)
    times = f"{format_time(largest.old_s or 0)} to {format_time(largest.new_s or 0)}"
    return f"{text}. Largest: {call}, {kernels}, {times}."


_CHANGE: Columns[PickChange] = (
    label("collective", get=lambda change: _operation_name(change.primitive)),
    number("ranks"),
    number("stride", drop=3),
    number("from_bytes", "from", size_text),
    number("to_bytes", "to", size_text),
    label("old", "before"),
    label("new", "after"),
    number("old_s", "before", drop=2),
    number("new_s", "after", drop=2),
    number("factor", "factor", "{:.3g}".format, drop=1),
)


def _changes(result: LibraryDiff) -> Table:
    versions = context(fabric=result.fabric, old_library=result.old, new_library=result.new)
    return Table((*versions, *_CHANGE), result.changes)


def _diff_blocks(result: LibraryDiff) -> Iterator[Block]:
    yield Headline(_diff_answer(result))
    yield _changes(result)._replace(first=_MOST_CHANGES)


class PickChangeDocument(Document, extends=PickChange):
    """A range of sizes in which two versions pick differently."""

    factor: float | None


class LibraryDiffDocument(FabricDocument):
    """Where two versions of a library pick differently."""

    old: str
    new: str
    looked: int
    differ: int
    moved: bool
    changes: list[PickChangeDocument]


VIEWS = {
    LibraryChecks: view_of_checks("library", _check_values, LibraryCheckDocument, _list_table),
    LibraryList: View(
        "library-list", _list_blocks, LibrariesDocument.of, _list_table, _list_summary
    ),
    LibraryShown: View(
        "library-show", _file_blocks, LibraryDocument.of, _file_table, _file_summary
    ),
    LibraryDiff: View("library-diff", _diff_blocks, LibraryDiffDocument.of, _changes, _diff_answer),
}
