"""Whether a file is a profiler's trace, told from how it begins."""

from __future__ import annotations

import os
import re
import stat
import zlib

from colltool.base.inputs import AnyPath
from colltool.traces.reader import EVENTS

_HEAD = 2**16  # bytes: deviceProperties of 16 devices take 6 kB
_MEMBER = re.compile(rf'"(?:{EVENTS}|deviceProperties|distributedInfo)"\s*:'.encode())
_EVENT = re.compile(rb'\[\s*\{[^}]{0,1000}"ph"\s*:')


def is_trace(path: AnyPath) -> bool:
    """Whether a file begins as a trace of the PyTorch profiler, plain or gzipped: 64 KiB are read.

    False of a pipe, which can be read only once, and of what cannot be read: whoever reads it says why.
    """
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
    """What stands at the beginning of a packed file; other files as they are."""
    if not head.startswith(b"\x1f\x8b"):
        return head
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, _HEAD)
    except zlib.error:
        return b""
