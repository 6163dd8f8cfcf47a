"""Output of commands: results to stdout and files, messages and progress to stderr.

In this order: the format by a file's suffix (:func:`chosen_format`); what is said while a command
works (:func:`announce`, :class:`ProgressLine`); the screen that a table is drawn for
(:func:`screen_of`); printing (:func:`print_text` to stdout, :func:`say` to stderr); and results that
are written at the end.

Within :func:`deferred_outputs`, :func:`write` and :func:`write_bytes` only collect; at the end of
the command :meth:`Outputs.write_all` writes everything, files first. A command that fails on the
way changes no file and prints nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from colltool.base.errors import ColltoolError
from colltool.base.files import STANDARD_INPUT, Inputs, remembering

if TYPE_CHECKING:
    from threading import Event, Thread

    from colltool.render.text import Screen

# seconds before progress is shown: shorter work needs none
FIRST_PROGRESS_S = 1.0
# seconds between two updates of the progress line
PROGRESS_INTERVAL_S = 0.2
# formats of a result by the suffix of its file, "" for none
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
    """The requested format, else the one of the file's suffix, else a table.

    Raises:
        ColltoolError: a suffix that is no format's.
    """
    if form is not None or output is None:
        return form or "table"
    by_suffix = BY_SUFFIX.get(output.suffix.lower())
    if by_suffix is None:
        known = ", ".join(suffix for suffix in BY_SUFFIX if suffix)
        raise ColltoolError(
            f"{output}: '{output.suffix}' is no format of a result",
            argument="output",
            fix=f"known suffixes: {known}; --format writes any name",
        )
    return by_suffix


def announce(text: str) -> None:
    """Print on stderr what takes a while, if stderr is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr)


class ProgressLine:
    """A line of the terminal that says what takes a while, how far it is and since when.

    A context, in which a thread writes it, so that it appears after a second whatever the work does,
    and is gone at the end. Of nested lines the innermost is shown. Silent if stderr is no terminal.
    """

    # the line that is shown, of all in the process
    _shown: ClassVar[ProgressLine | None] = None
    # the line that was shown when this one began, and is again when it ends
    _outer: ProgressLine | None
    # tells the thread to stop; there is one where there is a thread
    _ended: Event

    def __init__(self, what: str) -> None:
        """``what`` takes a while: ``pricing layouts``."""
        self.what = what
        self._started = monotonic()
        self._percent: int | None = None
        # what this line has written to the terminal and must overwrite; empty for nothing
        self._text = ""
        self._thread: Thread | None = None

    def __call__(self, done: int, of: int) -> None:
        """Take note that ``done`` of ``of`` items are done: work of many items, for which the garbage
        collector is turned on."""
        enable_garbage_collection()
        self._percent = 100 * done // of

    def __enter__(self) -> ProgressLine:
        """Show this line in place of the one that is shown, and begin to write it where a terminal
        reads it."""
        self._outer = ProgressLine._shown
        ProgressLine._shown = self
        if self._outer is not None:
            # this line overwrites what the outer one wrote, and clears the terminal's line at its end:
            # the outer one then has nothing there
            self._text, self._outer._text = self._outer._text, ""
        if sys.stderr is not None and sys.stderr.isatty():
            # threads take two milliseconds to import, which a pipe need not pay
            from threading import Event, Thread

            self._ended = Event()
            self._thread = Thread(target=self._write_until_the_end, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        ProgressLine._shown = self._outer
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._write("")

    @classmethod
    def end(cls) -> None:
        """Show no more: the command waits for a client, or the terminal is a pager's."""
        shown, cls._shown = cls._shown, None
        if shown is not None:
            shown._write("")

    @property
    def text(self) -> str:
        """Such as ``pricing layouts ... 25%, 3 s``."""
        seconds = f"{monotonic() - self._started:.0f} s"
        if self._percent is None:
            return f"{self.what} ... {seconds}"
        return f"{self.what} ... {self._percent}%, {seconds}"

    def _write_until_the_end(self) -> None:
        """Write the line again and again while it is the shown one; the thread's work."""
        wait_s = FIRST_PROGRESS_S
        while not self._ended.wait(wait_s):
            wait_s = PROGRESS_INTERVAL_S
            if ProgressLine._shown is self:
                self._write(self.text)

    def _write(self, text: str) -> None:
        """Write a text over the previous one, padded to its width; an empty text clears the line."""
        if text == self._text:
            return
        to_start = "" if text else "\r"
        print(f"\r{text:<{len(self._text)}}{to_start}", end="", file=sys.stderr, flush=True)
        self._text = text


def enable_garbage_collection() -> None:
    """Turn on the garbage collector for long work, whose cycles hold arrays and pictures.

    The entry point turns it off for short commands.
    """
    if not gc.isenabled():
        gc.freeze()  # loaded modules stay until the end: not worth scanning
        gc.enable()


def screen_of(*, to_file: bool) -> Screen:
    """The Screen that a table is drawn for: the terminal, or a pipe or file, which has no width."""
    import shutil

    from colltool.render.text import Screen

    if to_file or sys.stdout is None or not sys.stdout.isatty():
        return Screen()
    dumb = os.environ.get("TERM") == "dumb"
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" and not dumb
    colour = not (os.environ.get("NO_COLOR") or dumb)
    size = shutil.get_terminal_size()
    return Screen(size.columns, colour=colour, unicode=unicode, height=size.lines)


# all that moves a cursor or turns the text after it, but for ASCII's own controls: DEL and C1 controls,
# marks and overrides of writing direction, line and paragraph separators, lone surrogates
_CONTROL_CHARACTERS = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def escape_control_characters(text: str) -> str:
    r"""Text with control characters of terminals, of writing direction and lone surrogates as \uXXXX.

    ASCII's other controls stay, as a table has line feeds and the escape character of colours: they
    are escaped in names, where these enter it (:func:`colltool.base.errors.printable`). JSON reads
    the escape as the same character; elsewhere it shows what is in the text.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    import re

    return re.sub(_CONTROL_CHARACTERS, lambda match: f"\\u{ord(match[0]):04x}", text)


def print_text(text: str) -> None:
    """Write text to stdout; a closed pipe is no error."""
    # pythonw has no stdout, and a host may have closed it
    if sys.stdout is None:
        raise ColltoolError("is closed", where="stdout", fix="write to a file with -o")
    text = escape_control_characters(text)
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except OSError as error:
        # the flush at exit would fail again: let it write to nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise stdout_error(error) from error


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """A context in which what others print on stdout goes to stderr, also from C or a child process:
    it is no part of the answer."""
    # descriptor 1, stdout of C and of child processes, becomes a second descriptor of stderr, 2;
    # what we printed before goes out first
    real_stdout = None
    # a host may have closed stdout, or put something without a file in its place
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        real_stdout = os.dup(1)
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if real_stdout is not None:
            # what others wrote to sys.__stdout__ is in its buffer, and still goes to stderr
            sys.stdout.flush()
            os.dup2(real_stdout, 1)
            os.close(real_stdout)


def stdout_error(error: OSError) -> ColltoolError:
    """The error for a stdout that cannot be written."""
    return ColltoolError(
        f"cannot write: {error.strerror or error}",
        where="stdout",
        fix="free some space, or write elsewhere with -o",
    )


def say(*lines: str) -> None:
    """Print lines on stderr, if there is one, without characters that move a cursor or break a line."""
    if sys.stderr is not None:
        from colltool.base.errors import printable

        text = "\n".join(printable(line) for line in lines)
        print(text.replace(STANDARD_INPUT, "standard input"), file=sys.stderr)


@dataclass(frozen=True)
class Outputs:
    """Everything that a command will write once it is done.

    Args:
        inputs: the files that the command read, which no output may overwrite.
        files: content by path, each with the argument that names the file in errors.
        folders: folders to create first.
        texts: text for stdout, in order.
    """

    inputs: Inputs
    files: dict[Path, tuple[bytes, str]] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def write_all(self) -> None:
        """Write files, then stdout; no file is written if one of them cannot be."""
        from colltool.base.files import same_place

        # files that were read by a name within a list or another file are known only now
        for index, (path, (_, argument)) in enumerate(self.files.items()):
            is_second = any(same_place(path, other) for other in list(self.files)[:index])
            refuse_conflict(
                path, argument, is_input=self.inputs.has_opened(path), is_second=is_second
            )
        if self.files or self.folders:
            from colltool.base.whole_files import new_folders, write_files

            with new_folders(self.folders):
                write_files({path: content for path, (content, _) in self.files.items()})
        for text in self.texts:
            print_text(text)


# those of the running command; None outside of one
_OUTPUTS: ContextVar[Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def deferred_outputs() -> Iterator[Outputs]:
    """A context in which outputs are collected, and written by :meth:`Outputs.write_all`."""
    with remembering() as inputs:
        outputs = Outputs(inputs)
        token = _OUTPUTS.set(outputs)
        try:
            yield outputs
        finally:
            _OUTPUTS.reset(token)


def write(text: str, output: Path | None) -> None:
    """Write text to a file, or to stdout for None and ``-``, at the end of the running command."""
    if output is not None and str(output) != "-":
        write_bytes(output, escape_control_characters(text).encode(), "output")
        return
    outputs = _OUTPUTS.get()
    if outputs is None:  # --version, before any command
        print_text(text)
    else:
        outputs.texts.append(text)


def write_bytes(path: Path, content: bytes, argument: str, *, folder: Path | None = None) -> None:
    """Write content to a file at the end of the running command.

    Args:
        argument: names the file in errors.
        folder: created if it does not exist.
    """
    outputs = _OUTPUTS.get()
    assert outputs is not None
    refuse_conflict(path, argument, is_second=path in outputs.files)
    outputs.files[path] = content, argument
    if folder is not None:
        outputs.folders.append(folder)


def refuse_conflict(
    path: Path, argument: str, *, is_input: bool = False, is_second: bool = False
) -> None:
    """Raise ColltoolError for an output that is also an input, or the second into one file; which of
    these it is, the caller has found."""
    if is_input:
        raise overwrites_input(path, argument)
    if is_second:
        raise ColltoolError(f"{path} is written twice", argument=argument, fix="name two files")


def overwrites_input(path: Path, argument: str) -> ColltoolError:
    """The error for an output that is also an input."""
    return ColltoolError(
        f"{path} is read by this command",
        argument=argument,
        fix="name another file: what is read stays as it is",
    )
