"""Stream a trace: the members of its JSON object and its events one by one, a few MB in memory.

Traces are gigabytes of small objects. Each is decoded by the standard library's C scanner out of a buffer that is refilled in the
middle of a value; a token-based streaming parser is several times slower.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from io import BufferedReader
from json import JSONDecoder
from typing import IO, Any, cast

from colltool.base.files import AnyPath

EVENTS = "traceEvents"
CHUNK = 2**20  # bytes read at once
MOST_VALUE = 2**23  # characters of one value: a header lists devices and groups, an event is far smaller

_SCAN: Callable[[str, int], tuple[Any, int]] = JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined] # its C scanner
_BLANK = re.compile(r"[ \t\r\n]*")


class NotJson(Exception):
    """The text does not begin as a trace does."""


class _Broken(Exception):
    """Truncated or malformed JSON."""


class Reader:
    """Members of a trace in file order, events one at a time under :data:`EVENTS`. ``broken`` says afterwards whether the file
    was truncated or malformed; what came before holds."""

    def __init__(self, stream: BufferedReader, chunk: int = CHUNK) -> None:
        packed = stream.peek(2)[:2] == b"\x1f\x8b"
        self._stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if packed else stream
        self._decoder = getincrementaldecoder("utf-8-sig")(errors="replace")  # names of kernels are cut within a character
        self._text, self._at, self._ended, self._chunk = "", 0, False, chunk
        self.broken = False

    def members(self) -> Iterator[tuple[str, Any]]:
        first = self._mark()
        if first not in ("{", "["):
            raise NotJson
        self._at += 1
        try:
            yield from self._object() if first == "{" else self._events()
        except (_Broken, RecursionError):
            self.broken = True

    def _object(self) -> Iterator[tuple[str, Any]]:
        while (mark := self._mark()) != "}":
            if mark == ",":
                self._at += 1
                continue
            key = self._value()
            if not isinstance(key, str) or self._mark() != ":":
                raise _Broken
            self._at += 1
            if self._mark() == "[" and key == EVENTS:
                self._at += 1
                yield from self._events()
            else:
                yield key, self._value()

    def _events(self) -> Iterator[tuple[str, Any]]:
        while (mark := self._mark()) != "]":
            if mark == ",":
                self._at += 1
            else:
                yield EVENTS, self._value()
        self._at += 1

    def _mark(self) -> str:
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self) -> Any:
        """The next value; one that ends at the buffer's end may go on, as a number does."""
        while True:
            try:
                value, end = _SCAN(self._text, self._at)
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            except (StopIteration, ValueError):
                pass
            if len(self._text) - self._at > MOST_VALUE or not self._more():
                raise _Broken

    def _more(self) -> bool:
        """Refill the buffer behind what is left, by as much again if a value does not fit; False at the end."""
        left = self._text[self._at :]
        chunk = b""
        if not self._ended:
            try:
                chunk = self._stream.read(max(self._chunk, len(left)))
            except (EOFError, zlib.error, gzip.BadGzipFile):  # the file ends in the middle of what was packed
                self.broken = True
        self._text, self._at = left + self._decoder.decode(chunk, final=not chunk), 0
        going, self._ended = not self._ended, not chunk
        return going


_HEAD = 2**16  # bytes: deviceProperties of 16 devices take 6 kB
_MEMBER = re.compile(rf'"(?:{EVENTS}|deviceProperties|distributedInfo)"\s*:'.encode())
_EVENT = re.compile(rb'\[\s*\{[^}]{0,1000}"ph"\s*:')


def is_trace(path: AnyPath) -> bool:
    """Whether a file's first 64 KiB look like a PyTorch profiler trace, plain or gzipped; False for pipes and unreadable
    files."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as stream:
            head = _unpacked(stream.read(_HEAD))
    except (OSError, ValueError):
        return False
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return bool(_MEMBER.search(text) if text.startswith(b"{") else _EVENT.match(text))


def _unpacked(head: bytes) -> bytes:
    if not head.startswith(b"\x1f\x8b"):
        return head
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, _HEAD)
    except zlib.error:
        return b""
