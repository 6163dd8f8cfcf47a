"""Writing a result: to stdout, or to a file that is opened only now that there is something to put in it."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.cli.options import OutputFormat
from colltool.cli.written import write

SOON_S, OFTEN_S = 1.0, 0.2
BY_SUFFIX = {
    ".json": OutputFormat.JSON,
    ".csv": OutputFormat.CSV,
    ".md": OutputFormat.MARKDOWN,
    ".html": OutputFormat.HTML,
    ".htm": OutputFormat.HTML,
    ".txt": OutputFormat.TABLE,
    "": OutputFormat.TABLE,
}


def chosen_format(form: OutputFormat | None, output: Path | None) -> OutputFormat:
    """The format asked for, else the one that the file's name says, else a table.

    Raises:
        ColltoolError: a name whose suffix says something else.
    """
    if form is not None or output is None:
        return form or OutputFormat.TABLE
    found = BY_SUFFIX.get(output.suffix.lower())
    if found is None:
        known = ", ".join(suffix for suffix in BY_SUFFIX if suffix)
        fix = f"known suffixes: {known}; --format writes any name"
        raise ColltoolError(f"{output}: '{output.suffix}' is no format of a result", argument="output", fix=fix)
    return found


def working(what: str) -> None:
    """Say on a terminal what takes a while; silent where stderr is none."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(what, file=sys.stderr)


class Counting:
    """How much is done, on one line of a terminal, from a second on; silent where stderr is none."""

    def __init__(self, what: str) -> None:
        self.what, self._next, self._width = what, monotonic() + SOON_S, 0
        self._speaks = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, of: int) -> None:
        """Say it, a few times a second."""
        collect()
        if self._speaks and (now := monotonic()) >= self._next:
            self._next = now + OFTEN_S
            self._write(f"{self.what}: {100 * done // of}% ...")

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        print(f"\r{text:<{self._width}}" + ("" if text else "\r"), end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))


def collect() -> None:
    """Long work begins: free its rings of objects, arrays and pictures among them, which main leaves out for short commands."""
    if not gc.isenabled():
        gc.freeze()  # what was loaded is here to stay
        gc.enable()


def emit(
    result: Any, form: OutputFormat | None, output: Path | None, columns: str | None = None, *, everything: bool = False
) -> None:
    """Render a result and write it.

    Args:
        result: what a public function returned.
        form, output, columns, everything: ``--format``, ``--output``, ``--columns`` and ``--all``.

    Raises:
        ColltoolError: a suffix or a column that is not known, a file that cannot be written.
    """
    from colltool.render.dispatch import rendered

    chosen = chosen_format(form, output)
    names = [] if columns is None else [name.strip() for name in columns.split(",")]
    screen = screen_of(to_file=output is not None) if chosen is OutputFormat.TABLE else None
    write(rendered(result, chosen.value, screen, names, everything=everything), output)


def screen_of(*, to_file: bool) -> Any:
    """What a table is drawn for: the terminal on stdout, or a pipe or file, whose tables are as wide as they need."""
    import shutil

    from colltool.render.text import Screen

    if to_file or sys.stdout is None or not sys.stdout.isatty():
        return Screen()
    dumb = os.environ.get("TERM") == "dumb"
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" and not dumb
    colour = not (os.environ.get("NO_COLOR") or dumb)
    return Screen(shutil.get_terminal_size().columns, colour=colour, unicode=unicode)
