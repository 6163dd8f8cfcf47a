"""``colltool diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltool.cli import options as o
from colltool.errors import EXIT_CHECK_FAILED, ColltoolError

if TYPE_CHECKING:
    from colltool.study.results import Diff

DEFAULT_RTOL = 1e-6

EXAMPLES = """
\b
Examples:
  colltool diff old.json new.json
  colltool diff old.json new.json --rtol 0.01 --format markdown
"""


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A JSON output of colltool.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later output of the same command.")],
    rtol: o.RtolOption = None,
    form: o.FormatOption = None,
    output: o.OutputOption = None,
) -> None:
    """What moved between two JSON outputs of the same command; exit 1 if anything did.

    Rows are matched by what they are, not by where they stand.
    """
    from colltool import api

    finish(api.diff(read_document(old), read_document(new), DEFAULT_RTOL if rtol is None else rtol), form, output)


def finish(result: Diff, form: o.Format | None, output: Path | None) -> None:
    """Write a comparison; exit 1 where something moved."""
    from colltool.cli.output import emit

    emit(result, form, output)
    if result.moved:
        raise typer.Exit(EXIT_CHECK_FAILED)


def read_document(path: Path) -> dict[str, Any]:
    """A JSON document from a file.

    Raises:
        ColltoolError: cannot be read, or not a JSON object; with the place.
    """
    import json

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ColltoolError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise ColltoolError("is not UTF-8 text", where=str(path)) from error
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"{path}:{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else str(path)
        fix = "write one with --format json -o FILE"
        raise ColltoolError(f"not JSON: {getattr(error, 'msg', 'nested too deeply')}", where=place, fix=fix) from error
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith("colltool."):
        raise ColltoolError("not a JSON document of colltool", where=str(path), fix="write one with --format json -o FILE")
    return content
