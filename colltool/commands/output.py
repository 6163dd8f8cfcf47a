"""What leaves the program: text to stdout, words for people to stderr, files whole or not at all,
and how far long work is.

What a command writes is kept until it is done: what fails on the way changes no file and prints
nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.files import Inputs, remembering

SOON_S = 1.0
"""How long work takes before it says how much is done, and after that how often."""
OFTEN_S = 0.2
BY_SUFFIX = {
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
    ".txt": "table",
    "": "table",
}


def chosen_format(form: str | None, output: Path | None) -> str:
    """The format asked for, else the one that the file's name says, else a table."""
    if form is not None or output is None:
        return form or "table"
    found = BY_SUFFIX.get(output.suffix.lower())
    if found is None:
        known = ", ".join(suffix for suffix in BY_SUFFIX if suffix)
        fix = f"known suffixes: {known}; --format writes any name"
        raise ColltoolError(
            f"{output}: '{output.suffix}' is no format of a result", argument="output", fix=fix
        )
    return found


def working(what: str) -> None:
    """Say on a terminal what takes a while; silent where stderr is none."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(what, file=sys.stderr)


class Counting:
    """How much is done, on one line of a terminal, from a second on; silent where stderr is
    none."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._next = monotonic() + SOON_S
        self._width = 0  # of what stands on the line, to be written over
        self._speaks = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, of: int) -> None:
        """Say it, a few times a second."""
        collect()
        now = monotonic()
        if self._speaks and now >= self._next:
            self._next = now + OFTEN_S
            self._write(f"{self.what}: {100 * done // of}% ...")

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        # what is shorter than the line before is filled with blanks; an empty text clears the line
        back = "" if text else "\r"
        print(f"\r{text:<{self._width}}{back}", end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))


def collect() -> None:
    """Long work begins: free its rings of objects, arrays and pictures among them, which main
    leaves out for short commands."""
    if not gc.isenabled():
        gc.freeze()  # what was loaded is here to stay
        gc.enable()


def screen_of(*, to_file: bool) -> Any:
    """What a table is drawn for: the terminal on stdout, or a pipe or file, whose tables are as
    wide as they need."""
    import shutil

    from colltool.render.text import Screen

    if to_file or sys.stdout is None or not sys.stdout.isatty():
        return Screen()
    dumb = os.environ.get("TERM") == "dumb"
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" and not dumb
    colour = not (os.environ.get("NO_COLOR") or dumb)
    return Screen(shutil.get_terminal_size().columns, colour=colour, unicode=unicode)


# DEL and C1, marks and overrides of direction, separators of lines and paragraphs, halves of
# surrogate pairs
_STEERING = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def escaped(text: str) -> str:
    """Text without a character that would steer a terminal or turn a line around, or that is none.

    What a line feed and colours need stays: names are escaped where they enter a cell. In JSON the
    escape means the same character, everywhere else it shows what is there.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    import re

    return re.sub(_STEERING, lambda match: f"\\u{ord(match[0]):04x}", text)


def put(text: str) -> None:
    """Write text to stdout; a reader that went away is no error."""
    # pythonw, or a host that closed it
    if sys.stdout is None:
        raise ColltoolError("is closed", where="stdout", fix="write to a file with -o")
    text = escaped(text)
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except OSError as error:
        # so that the flush at exit says nothing more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise unwritable(error) from error


def unwritable(error: OSError) -> ColltoolError:
    """The error for a stdout that takes no more."""
    fix = "free some space, or write elsewhere with -o"
    return ColltoolError(f"cannot write: {error.strerror or error}", where="stdout", fix=fix)


def say(*lines: str) -> None:
    """Lines for a person, on stderr, without a character that moves a cursor or breaks a line."""
    if sys.stderr is not None:
        from colltool.base.errors import printable

        print("\n".join(printable(line) for line in lines), file=sys.stderr)


@dataclass(frozen=True)
class Outputs:
    """Files with their content and the argument that names each, and the text for stdout."""

    inputs: Inputs
    files: dict[Path, tuple[bytes, str]] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def leave(self) -> None:
        """Write all of it, files before stdout; nothing where one of them cannot be written."""
        from colltool.base.files import new_folders, same_place, write_files

        # also what was read by a name within a list or another file is kept
        for index, (path, (_, argument)) in enumerate(self.files.items()):
            again = any(same_place(path, other) for other in list(self.files)[:index])
            refuse(path, argument, read=self.inputs.hold(path), again=again)
        with new_folders(self.folders):
            write_files({path: content for path, (content, _) in self.files.items()})
        for text in self.texts:
            put(text)


_OUTPUTS: ContextVar[Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def kept() -> Iterator[Outputs]:
    """Within it nothing is written until :meth:`Outputs.leave`."""
    with remembering() as inputs:
        outputs = Outputs(inputs)
        token = _OUTPUTS.set(outputs)
        try:
            yield outputs
        finally:
            _OUTPUTS.reset(token)


def write(text: str, output: Path | None) -> None:
    """Write text to a file, whole or not at all, or to stdout, at the end of the command that this
    is part of."""
    if output is not None and str(output) != "-":
        write_bytes(output, escaped(text).encode(), "output")
        return
    outputs = _OUTPUTS.get()
    if outputs is None:  # --version, before any command
        put(text)
    else:
        outputs.texts.append(text)


def write_bytes(path: Path, content: bytes, argument: str, *, folder: Path | None = None) -> None:
    """Write any content to a file at the end of the command that this is part of; ``argument``
    names the file in errors, ``folder`` is made where there is none."""
    outputs = _OUTPUTS.get()
    assert outputs is not None
    refuse(path, argument, again=path in outputs.files)
    outputs.files[path] = content, argument
    if folder is not None:
        outputs.folders.append(folder)


def refuse(path: Path, argument: str, *, read: bool = False, again: bool = False) -> None:
    """Refuse an output that is also an input, or a second one into the same file."""
    if read:
        raise is_read(path, argument)
    if again:
        raise ColltoolError(f"{path} is written twice", argument=argument, fix="name two files")


def is_read(path: Path, argument: str) -> ColltoolError:
    """The error for an output that is also an input."""
    fix = "name another file: what is read stays as it is"
    return ColltoolError(f"{path} is read by this command", argument=argument, fix=fix)
