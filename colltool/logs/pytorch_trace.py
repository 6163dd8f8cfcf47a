"""Stream a PyTorch profiler trace (Kineto): its events one by one.

:func:`collect` is the entry, :func:`is_trace` tells traces from logs; what of an event is kept is
said in :mod:`colltool.logs.trace_events`.

What is read is what Kineto and torch.profiler have written since 2021. The outer object has its
keys in any order: ``schemaVersion``, ``deviceProperties`` and ``distributedInfo`` mostly stand
before ``traceEvents``, from some versions behind it; ``distributedInfo`` is missing in jobs that
joined no process group and may be JSON or the text of it, as may its ``pg_config`` (torch 2.1 on).
A bare list of events is what torch.autograd.profiler exports. A kernel is an event of the category
``kernel`` (``Kernel`` before 1.12), linked to the call that launched it by ``External id``
(``external id`` before 1.13). The call's labels stand on ``record_param_comms`` (names from 2.1,
dimensions alone before), on the ``nccl:...`` annotation inside it, and from 2.4 on the kernel
itself. AMD's traces have the same form, with device properties of HIP.
"""

from __future__ import annotations

import os
import re
import stat
import zlib

from colltool.base.errors import ColltoolError, clipped, printable
from colltool.base.files import TRACE, AnyPath, not_utf8, opened
from colltool.base.reach import within_reach
from colltool.logs.chakra import is_chakra, read_chakra
from colltool.logs.json_stream import (
    EVENTS,
    GZIP,
    MOST_TIMES_PACKED,
    NotJson,
    Reader,
    TooPacked,
    first_keys,
    unpacked_head,
)
from colltool.logs.trace_events import UNNAMED, TraceEvents, events_of_chakra
from colltool.logs.trace_header import checked_header

# bytes of a file that tell its kind, by its keys: deviceProperties of 16 devices take 6 kB
_HEAD = 2**16
_FIRST_BYTES = 64  # that tell whether it is text: UTF-16 has a zero among them
_PACKED = 4096  # bytes of a packed file that yield as many: more than its tables take
_HEADER_KEYS = ("distributedInfo", "deviceProperties")
# keys of the outer object that no other format has
_KEYS = {EVENTS, "schemaVersion", *_HEADER_KEYS}
# a list of events: [{"ph": "X", ...
_EVENT = re.compile(rb'\[\s*\{[^}]{0,1000}"ph"\s*:')
_NCCL_PROFILER = b'"CommHash"'  # events of NCCL's own profiler
_GIVE = (
    "give what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote, or a Chakra"
    " trace; gzipped or not"
)


def is_trace(path: AnyPath) -> bool:
    """Whether a file's first 64 KiB look like a PyTorch profiler trace, plain or gzipped; False for
    pipes and unreadable files."""
    head = _head_of(path)
    if _NCCL_PROFILER in head:
        return False
    if _EVENT.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return True
    return not _KEYS.isdisjoint(first_keys(head))


def is_chakra_file(path: AnyPath) -> bool:
    """Whether a file is a Chakra trace by its beginning, as :func:`is_trace`."""
    return is_chakra(_head_of(path))


def _head_of(path: AnyPath) -> bytes:
    """The first bytes of a file, unpacked. Empty for pipes and unreadable files."""
    try:
        if not (within_reach(path) and stat.S_ISREG(os.stat(path).st_mode)):
            return b""
        with open(path, "rb") as stream:
            return unpacked_head(stream.read(_HEAD), _HEAD)
    except (OSError, ValueError, zlib.error):
        return b""


def collect(path: AnyPath) -> TraceEvents:
    """The events of one trace, or of a Chakra graph.

    Raises:
        ColltoolError: any other file, one without events, and one that unpacks to far too much.
    """
    with opened(path, TRACE) as (stream, name):
        where = printable(name)
        try:
            head = stream.peek(_PACKED)
            if _holds_chakra(head):
                return events_of_chakra(name, read_chakra(stream, name))
            first_bytes = head[:_FIRST_BYTES]
            if b"\0" in first_bytes and not first_bytes.startswith(GZIP):
                raise not_utf8(first_bytes, where, where)
            events = TraceEvents(name)
            reader = Reader(stream)
            _take_members(events, reader)
        except TooPacked as error:
            raise ColltoolError(
                f"unpacks to more than {MOST_TIMES_PACKED} times its size, which no trace does:"
                " it is damaged, or made to fill memory",
                where=where,
                fix="profile again",
            ) from error
    if not events.kinds and not events.kernels:
        raise _without_events(reader, where)
    if events.kinds.keys() == {UNNAMED}:
        raise ColltoolError(
            "is a trace of another program: its events have no category (cat), kernels neither",
            where=where,
            fix=_GIVE,
        )
    events.header = checked_header(events.header, where)
    events.broken = reader.broken
    return events


def _take_members(events: TraceEvents, reader: Reader) -> None:
    """Keep what matters of a file; nothing where it is no JSON."""
    try:
        for key, value in reader.members():
            if key == EVENTS:
                events.take(value)
            elif key in _HEADER_KEYS:
                events.header[key] = value
    except NotJson:
        return


def _without_events(reader: Reader, where: str) -> ColltoolError:
    """Why a file without a single event is no trace that can be used."""
    fix = _GIVE
    if reader.listed and not reader.keys:
        what = "is a JSON list without complete events (ph: X) of torch.profiler: no trace"
    elif reader.listed and not reader.broken:
        what = f"is a trace without events: no complete event (ph: X) stands in its {EVENTS}"
        fix = "profile for longer: nothing was recorded between start and stop"
    elif reader.listed:
        what = f"ends within its first events, or is damaged: no trace is left of its {EVENTS}"
        fix = "copy the file again, or profile again"
    elif EVENTS in reader.keys and not reader.broken:
        what = f"{EVENTS} is no list of events: no trace"
    elif not _KEYS.isdisjoint(reader.keys):
        what = f"is not a PyTorch profiler trace: it has no {EVENTS}"
        if reader.broken:
            what = f"ends too early, or is damaged, before its {EVENTS}: no trace is left"
            fix = "copy the file again, or profile again"
    elif {"entries", "pg_config"} <= set(reader.keys):
        what = "is a dump of PyTorch's Flight Recorder, not a trace of the profiler"
        fix = f"colltool doctor reads it: colltool doctor {where}"
    else:
        what = f"is not a PyTorch profiler trace: it has no {EVENTS}"
        if reader.keys:
            what += f" (its keys: {', '.join(map(clipped, reader.keys[:4]))})"
    return ColltoolError(what, where=where, fix=fix)


def _holds_chakra(head: bytes) -> bool:
    """Whether a file that begins so is a Chakra trace, plain or gzipped."""
    try:
        unpacked = unpacked_head(head, _HEAD)
    except zlib.error:
        return False
    return is_chakra(unpacked)
