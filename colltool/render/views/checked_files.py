"""``fabric check``, ``job check`` and ``library check``: what was read from files without mistakes. Mistakes
are errors, which no view shows.

:func:`view_of_checks` makes the view of each. Their results have ``checks``, one for each file in the order given.
A check has the path ``file``, what was read in fields of its own, and ``warnings``: each says ``what`` is
doubted, ``where`` (the key of the file) and ``why``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from colltool.base.formatting import counted
from colltool.render.blocks import Block, Columns, Lines, Table, label
from colltool.render.dispatch import View
from colltool.render.documents import Document, derived


class _CheckedLine(NamedTuple):
    """A row of CSV: a line that was read from a file, or a warning."""

    file: str
    kind: str  # "value" or "warning"
    what: str
    where: str = ""  # empty of a value, as is ``why``
    why: str = ""


_CHECKED: Columns[_CheckedLine] = (
    label("file"),
    label("kind"),
    label("where"),
    label("what"),
    label("why"),
)


class WarningDocument(Document):
    """What a check doubts in a file."""

    file: str
    where: str
    what: str
    why: str


class CheckDocument(Document):
    """Files that can be read, and what is doubtful in them."""

    valid: list[str] = derived(lambda result: [check.file for check in result.checks])
    warnings: list[WarningDocument] = derived(lambda result: _warnings(result.checks))


def _warnings(checks: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The warnings of all files, as :class:`WarningDocument` has them."""
    for check in checks:
        for warning in check.warnings:
            yield WarningDocument.of(warning, file=check.file)


def view_of_checks(
    noun: str,
    values: Callable[[Any], Iterable[str]],
    document: type[Document] = CheckDocument,
    table: Callable[[Any], Table] | None = None,
) -> View:
    """Make the view of checked files.

    Args:
        noun: what a file is, such as ``fabric``; the view is then called ``fabric-check``.
        values: takes the check of a file and returns what was read from it, a line each.
        document: the JSON, where it has other keys than :class:`CheckDocument`.
        table: takes the result and returns the table of CSV; by default a row for each line read and
            each warning.
    """

    def lines_table(result: Any) -> Table:
        """The table of CSV by default."""
        rows = []
        for check in result.checks:
            rows += [_CheckedLine(check.file, "value", line) for line in values(check)]
            for warning in check.warnings:
                rows.append(
                    _CheckedLine(check.file, "warning", warning.what, warning.where, warning.why)
                )
        return Table(_CHECKED, rows)

    def blocks(result: Any) -> Iterator[Block]:
        """A list for each file, of what was read and of warnings."""
        for check in result.checks:
            lines = list(values(check))
            # as in CSV, in words
            for warning in check.warnings:
                lines.append(f"warning: {warning.where}: {warning.what} ({warning.why})")
            yield Lines(f"{check.file}: ok", lines)

    def summary(result: Any) -> str:
        """How many files are right, with how many warnings, and which."""
        names = [check.file for check in result.checks]
        text = f"{counted(len(names), noun)} ok"
        warnings = sum(len(check.warnings) for check in result.checks)
        if warnings:
            text += f", {counted(warnings, 'warning')}"
        return f"{text}: {', '.join(names)}"

    return View(f"{noun}-check", blocks, document.of, table or lines_table, summary)
