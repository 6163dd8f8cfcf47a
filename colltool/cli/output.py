"""Writing a result: to stdout, or to a file that is opened only now that there is something to put in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from colltool.cli.options import Format
from colltool.cli.streams import write

_BY_SUFFIX = {".json": Format.JSON, ".csv": Format.CSV, ".md": Format.MARKDOWN}


def chosen_format(form: Format | None, output: Path | None) -> Format:
    """The format asked for, else the one that the file's name says, else a table."""
    return form or _BY_SUFFIX.get(output.suffix if output else "", Format.TABLE)


def working(what: str) -> None:
    """Say on a terminal what takes a while; silent where stderr is none."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(what, file=sys.stderr)


def emit(result: Any, form: Format | None, output: Path | None) -> None:
    """Render a result (or a document for JSON, or blocks for the other formats) and write it."""
    write(_rendered(result, chosen_format(form, output), to_file=output is not None), output)


def _rendered(result: Any, form: Format, *, to_file: bool) -> str:
    if form is Format.JSON:
        from colltool.render.documents import document
        from colltool.render.machine import to_json

        return to_json(result if isinstance(result, dict) else document(result))
    from colltool.render.blocks import blocks

    parts = result if isinstance(result, list) else blocks(result)
    if form is Format.CSV:
        from colltool.render.delimited import to_csv

        return to_csv(parts)
    parts = [part for part in parts if getattr(part, "rows", True)]  # CSV alone keeps the header of an empty table
    if form is Format.MARKDOWN:
        from colltool.render.markdown import to_markdown

        return to_markdown(parts)
    from colltool.render.text import PIPE, to_text

    return to_text(parts, PIPE if to_file or sys.stdout is None or not sys.stdout.isatty() else screen())


def screen() -> Any:
    """The terminal on stdout: its width, and whether it shows colour and box-drawing characters."""
    import shutil

    from colltool.render.text import Screen

    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return Screen(shutil.get_terminal_size().columns, colour=not plain, unicode=unicode)
