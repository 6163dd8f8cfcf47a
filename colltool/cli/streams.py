"""What leaves the program: text to stdout, and words for people to stderr."""

from __future__ import annotations

import os
import sys

from colltool.base.errors import ColltoolError

# DEL and C1, marks and overrides of direction, separators of lines and paragraphs, halves of surrogate pairs
_STEERING = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def put(text: str) -> None:
    """Write text to stdout; a reader that went away is no error.

    Raises:
        ColltoolError: it cannot be written.
    """
    if sys.stdout is None:
        raise ColltoolError("is closed", where="stdout", fix="write to a file with -o")
    try:
        _print(text)
    except BrokenPipeError:
        silence()
    except OSError as error:
        silence()
        raise unwritable(error) from error


def encoded(text: str) -> bytes:
    """Text as it leaves the program, in UTF-8: see :func:`escaped`."""
    return escaped(text).encode("utf-8")


def escaped(text: str) -> str:
    """Text without a character that would steer a terminal or turn a line around, or that is none.

    What a line feed and colours need stays: names are escaped where they enter a cell. In JSON the escape means the same
    character, everywhere else it shows what is there.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    import re

    return re.sub(_STEERING, lambda match: f"\\u{ord(match[0]):04x}", text)


def _print(text: str) -> None:
    text = escaped(text)
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.flush()
        sys.stdout.buffer.write(encoded(text))
    sys.stdout.flush()


def silence() -> None:
    """Let stdout lead nowhere, so that the flush at exit says nothing more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def unwritable(error: OSError) -> ColltoolError:
    """The error of a stdout that takes no more."""
    fix = "free some space, or write elsewhere with -o"
    return ColltoolError(f"cannot write: {error.strerror or error}", where="stdout", fix=fix)


def say(*lines: str) -> None:
    """Lines for a person, on stderr, without a character that moves a cursor or breaks a line."""
    if sys.stderr is not None:
        from colltool.base.quoting import printable

        print("\n".join(printable(line) for line in lines), file=sys.stderr)
