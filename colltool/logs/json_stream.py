"""JSON of gigabytes read member by member, a few MB in memory, plain or gzipped.

:class:`Reader` yields the keys and values of the outer object, and of one list in it each item by
itself. Each value is decoded by the standard library's C scanner out of a buffer that is refilled
in the middle of a value; a token-based streaming parser is several times slower.

:class:`PackedStream` unpacks a file and refuses one that unpacks to far more than any trace does: a
profiler's events pack 10 to 30 times smaller, a bomb a thousand times.
"""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader, BytesIO
from json import JSONDecoder
from typing import Any

EVENTS = "traceEvents"
"""The key of the list in a profile."""
CHUNK = 2**20  # bytes read at once
# characters of one value: a header lists devices and groups, an event is far smaller
MOST_VALUE = 2**23
_SCAN: Callable[[str, int], tuple[Any, int]] = JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined] # its C scanner
_BLANK = re.compile(r"[ \t\r\n]*")
GZIP = b"\x1f\x8b"  # how a packed file begins
FREE_UNPACKED = 2**24  # bytes that any file may unpack to
MOST_TIMES_PACKED = 100  # unpacked bytes for one that is packed, beyond those
_HEAD = 2**16  # bytes that tell a file's kind: deviceProperties of 16 devices take 6 kB


class NotJson(Exception):
    """The text does not begin as a trace does."""


class TooPacked(Exception):
    """A file unpacks to more than :data:`MOST_TIMES_PACKED` times its size."""


class _Broken(Exception):
    """Truncated or malformed JSON."""


class Reader:
    """Members of a trace in file order, the items of a list under one of ``lists`` one at a time.

    Attributes:
        broken: the file is truncated or malformed; what was read before holds.
        keys: of the outer object so far, in order; the last one's value may be missing.
        listed: there was a list under one of ``lists``.
    """

    def __init__(
        self, stream: BufferedReader, chunk: int = CHUNK, lists: Sequence[str] = (EVENTS,)
    ) -> None:
        self._stream: BufferedReader | PackedStream = stream
        if stream.peek(2)[:2] == GZIP:
            self._stream = PackedStream(stream)
        self._lists = lists
        self.keys: list[str] = []
        self.listed = False
        # names of kernels are cut within a character
        self._decoder = getincrementaldecoder("utf-8-sig")(errors="replace")
        self._chunk = chunk
        self._text = ""
        self._position = 0
        self._ended = False
        self.broken = False

    def members(self) -> Iterator[tuple[str, Any]]:
        """Keys and values of the outer object, and under the key of one of ``lists`` each item; a
        file that is a list has its items under the first of ``lists``. NotJson where it is none."""
        first = self._next_character()
        if first not in ("{", "["):
            raise NotJson
        self._position += 1
        try:
            if first == "{":
                yield from self._object()
            else:
                yield from self._items(self._lists[0])
        except (_Broken, RecursionError):
            self.broken = True

    def _object(self) -> Iterator[tuple[str, Any]]:
        """The members of the outer object, those of a list one by one."""
        while (character := self._next_character()) != "}":
            if character == ",":
                self._position += 1
                continue
            key = self._value()
            if not isinstance(key, str) or self._next_character() != ":":
                raise _Broken
            self._position += 1
            self.keys.append(key)
            if self._next_character() == "[" and key in self._lists:
                self._position += 1
                yield from self._items(key)
            else:
                yield key, self._value()

    def _items(self, key: str) -> Iterator[tuple[str, Any]]:
        """The items of a list under a key."""
        self.listed = True
        while (character := self._next_character()) != "]":
            if character == ",":
                self._position += 1
            else:
                yield key, self._value()
        self._position += 1

    def _next_character(self) -> str:
        """The next character that is not blank, without passing it; empty at the end."""
        while True:
            match = _BLANK.match(self._text, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more():
                return ""

    def _value(self) -> Any:
        """The next value; _Broken where it does not end.

        One that ends at the buffer's end may go on, as a number does, and is read again with more.
        """
        while True:
            try:
                value, end = _SCAN(self._text, self._position)  # end: behind the value
                if end < len(self._text) or self._ended:
                    self._position = end
                    return value
            except (StopIteration, ValueError):
                pass
            if len(self._text) - self._position > MOST_VALUE or not self._more():
                raise _Broken

    def _more(self) -> bool:
        """Refill the buffer behind what was not read yet, by a chunk, or by as much again where a
        longer value did not fit.

        Returns:
            False if the file had ended before; True where it ends now, as a value may have waited
            for the end.
        """
        unread = self._text[self._position :]
        chunk = b""
        if not self._ended:
            try:
                chunk = self._stream.read(max(self._chunk, len(unread)))
            # the file ends in the middle of what was packed
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.broken = True
        self._text = unread + self._decoder.decode(chunk, final=not chunk)
        self._position = 0
        had_ended = self._ended
        self._ended = not chunk
        return not had_ended


class _CountedStream:
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        self.count += len(content)
        return content

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)


class PackedStream(gzip.GzipFile):
    """A gzipped file, read as it is unpacked. Raises :class:`TooPacked` where it unpacks out of
    proportion."""

    def __init__(self, stream: BufferedReader) -> None:
        self._packed = _CountedStream(stream)
        self._unpacked = 0
        super().__init__(fileobj=self._packed, mode="rb")

    def read(self, size: int | None = -1) -> bytes:
        """Read so many unpacked bytes, all of them by default."""
        content = super().read(size)
        self._unpacked += len(content)
        if self._unpacked > FREE_UNPACKED + MOST_TIMES_PACKED * self._packed.count:
            raise TooPacked
        return content


def unpacked_head(head: bytes, most: int) -> bytes:
    """The first bytes of a file; those of a packed one unpacked as far as they go, to at most
    ``most`` bytes. zlib.error where they are damaged."""
    if not head.startswith(GZIP):
        return head
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, most)


def first_keys(head: bytes) -> list[str]:
    """The keys of the outer object as far as a file's first bytes go, plain or gzipped; empty where
    it is no object."""
    try:
        reader = Reader(BufferedReader(BytesIO(unpacked_head(head, _HEAD))))
        # what it reads of these bytes is in its keys
        for _ in reader.members():
            pass
    except (NotJson, zlib.error):
        return []
    return reader.keys
