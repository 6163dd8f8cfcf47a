"""Stream a PyTorch profiler trace: its events one by one, a few MB in memory, of which kernels,
intervals, steps and metadata are kept.

:func:`collect` is the entry, :func:`is_trace` tells traces from logs; :class:`Reader` cuts the JSON
into members and :class:`TraceEvents` keeps what matters.

Traces are gigabytes of small objects. Each is decoded by the standard library's C scanner out of a
buffer that is refilled in the middle of a value; a token-based streaming parser is several times
slower.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from array import array
from codecs import getincrementaldecoder
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from json import JSONDecoder
from math import isfinite
from typing import IO, Any, NamedTuple, cast

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import TRACE, AnyPath, not_utf8, opened
from colltool.base.reach import within_reach
from colltool.base.statements import Statement
from colltool.logs.call_metadata import COMMS, LABELS, Labels, text
from colltool.logs.chakra import ChakraTrace, is_chakra, read_chakra
from colltool.logs.kernel_names import is_collective
from colltool.logs.sentences import statement

EVENTS = "traceEvents"
CHUNK = 2**20  # bytes read at once
# characters of one value: a header lists devices and groups, an event is far smaller
MOST_VALUE = 2**23
_SCAN: Callable[[str, int], tuple[Any, int]] = JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined] # its C scanner
_BLANK = re.compile(r"[ \t\r\n]*")
_GZIP = b"\x1f\x8b"


class NotJson(Exception):
    """The text does not begin as a trace does."""


class _Broken(Exception):
    """Truncated or malformed JSON."""


class Reader:
    """Members of a trace in file order, events one at a time under :data:`EVENTS`. ``broken`` says
    afterwards whether the file was truncated or malformed; what came before holds."""

    def __init__(self, stream: BufferedReader, chunk: int = CHUNK) -> None:
        packed = stream.peek(2)[:2] == _GZIP
        self._stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if packed else stream
        # names of kernels are cut within a character
        self._decoder = getincrementaldecoder("utf-8-sig")(errors="replace")
        self._chunk = chunk
        self._text = ""
        self._at = 0
        self._ended = False
        self.broken = False

    def members(self) -> Iterator[tuple[str, Any]]:
        """Keys and values of the outer object; each event by itself under :data:`EVENTS`."""
        first = self._mark()
        if first not in ("{", "["):
            raise NotJson
        self._at += 1
        try:
            if first == "{":
                yield from self._object()
            else:
                yield from self._events()
        except (_Broken, RecursionError):
            self.broken = True

    def _object(self) -> Iterator[tuple[str, Any]]:
        """The members of the outer object; those of its list of events one by one."""
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
        """The events of a list."""
        while (mark := self._mark()) != "]":
            if mark == ",":
                self._at += 1
            else:
                yield EVENTS, self._value()
        self._at += 1

    def _mark(self) -> str:
        """The next character that is not blank, without passing it; empty at the end."""
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
        """Refill the buffer behind what is left, by as much again if a value does not fit; False at
        the end."""
        left = self._text[self._at :]
        chunk = b""
        if not self._ended:
            try:
                chunk = self._stream.read(max(self._chunk, len(left)))
            # the file ends in the middle of what was packed
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.broken = True
        self._text = left + self._decoder.decode(chunk, final=not chunk)
        self._at = 0
        # once more after the end: a value may have waited for it
        had_ended = self._ended
        self._ended = not chunk
        return not had_ended


_HEAD = 2**16  # bytes: deviceProperties of 16 devices take 6 kB
_MEMBER = re.compile(rf'"(?:{EVENTS}|deviceProperties|distributedInfo)"\s*:'.encode())
_EVENT = re.compile(rb'\[\s*\{[^}]{0,1000}"ph"\s*:')


# JSON of NCCL's profiler and Inspector, of the Flight Recorder
_OTHERS = (b'"CommHash"', b'"coll_perf"', b'"pg_config"')


def is_trace(path: AnyPath) -> bool:
    """Whether a file's first 64 KiB look like a PyTorch profiler trace, plain or gzipped; False for
    pipes and unreadable files."""
    try:
        if not (within_reach(path) and stat.S_ISREG(os.stat(path).st_mode)):
            return False
        with open(path, "rb") as stream:
            head = _unpacked(stream.read(_HEAD), _HEAD)
    except (OSError, ValueError, zlib.error):
        return False
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if any(sign in start for sign in _OTHERS):
        return False
    if start.startswith(b"{"):
        return _MEMBER.search(start) is not None
    return _EVENT.match(start) is not None


def _unpacked(head: bytes, most: int) -> bytes:
    """The first bytes of a file, unpacked as far as they go."""
    if not head.startswith(_GZIP):
        return head
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, most)


ID = "External id"
STEP = "ProfilerStep#"
Window = tuple[float, float]
_TIMELESS = statement("timeless")
_LOOKED_AT = 64  # bytes of a file that tell its kind: UTF-16 has a zero among them
_PACKED = 4096  # bytes of a packed file that yield as many: more than its tables take
# the device's own steps before those of the host
_STEP_KINDS = ("gpu_user_annotation", "user_annotation", "cpu_op")
_HEADER = ("distributedInfo", "deviceProperties")


class LaunchedKernel(NamedTuple):
    """A communication kernel, times in us on the trace's own clock."""

    name: str
    device: int
    start_us: float
    end_us: float
    external: Any
    labels: Labels

    @property
    def lasts_us(self) -> float:
        return self.end_us - self.start_us


@dataclass
class TraceEvents:
    """One trace; ``busy``: starts and ends of compute kernels by device, ``labels``: metadata by
    external id."""

    name: str
    header: Labels = field(default_factory=dict)
    launched: list[LaunchedKernel] = field(default_factory=list)
    labels: dict[Any, Labels] = field(default_factory=dict)
    busy: dict[int, tuple[array[float], array[float]]] = field(
        default_factory=lambda: defaultdict(lambda: (array("d"), array("d")))
    )
    annotated: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    left_out: Counter[Statement] = field(default_factory=Counter)
    kernels: int = 0
    first_us: float = float("inf")
    last_us: float = float("-inf")
    broken: bool = False
    graph: ChakraTrace | None = None

    @property
    def about(self) -> Labels:
        """What the header says of the job."""
        about = self.header.get("distributedInfo")
        return about if isinstance(about, dict) else {}

    @property
    def device(self) -> str:
        """The name of the first device."""
        listed = self.header.get("deviceProperties")
        for properties in listed if isinstance(listed, list) else ():
            if isinstance(properties, dict):
                return text(properties.get("name"))
        return ""

    def step_windows(self) -> list[list[Window]]:
        """The annotated steps of each kind that there is, those of the device first."""
        return [sorted(self.annotated[kind]) for kind in _STEP_KINDS if self.annotated.get(kind)]

    def take(self, event: Any) -> None:
        """Keep an event if it is a kernel, the metadata of a call or a step."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        kind = event.get("cat")
        name = event.get("name")
        if not isinstance(name, str) or not isinstance(kind, str):
            return
        if kind.lower() == "kernel":
            self._take_kernel(name, event)
        elif name == COMMS:
            args = _args(event)
            if isinstance(args.get(ID), int | str):
                self.labels[args[ID]] = _labels(args)
        elif name.startswith(STEP) and kind in _STEP_KINDS:
            times = _times(event)
            if times:
                self.annotated[kind].append(times)

    def _take_kernel(self, name: str, event: Labels) -> None:
        """Keep a kernel as communication or compute; without a time it is left out."""
        times = _times(event)
        if times is None:
            self.kernels += 1
            self.left_out[_TIMELESS] += 1
            return
        args = _args(event)
        device = args.get("device", event.get("pid"))
        if not isinstance(device, int):
            device = 0
        if not is_collective(name):
            self.add_compute(device, *times)
            return
        external = args.get(ID)
        if not isinstance(external, int | str):
            external = None
        self.add_communication(LaunchedKernel(name, device, *times, external, _labels(args)))

    def add_compute(self, device: int, start_us: float, end_us: float) -> None:
        self._add(start_us, end_us)
        starts, ends = self.busy[device]
        starts.append(start_us)
        ends.append(end_us)

    def add_communication(self, kernel: LaunchedKernel) -> None:
        self._add(kernel.start_us, kernel.end_us)
        self.launched.append(kernel)

    def _add(self, start_us: float, end_us: float) -> None:
        self.kernels += 1
        self.first_us = min(self.first_us, start_us)
        self.last_us = max(self.last_us, end_us)


def collect(path: AnyPath) -> TraceEvents:
    """The events of one trace, or of a Chakra graph."""
    with opened(path, TRACE) as (stream, name):
        head = stream.peek(_PACKED)
        if _holds_chakra(head):
            return events_of_chakra(name, read_chakra(stream, name))
        head = head[:_LOOKED_AT]
        if b"\0" in head and not head.startswith(_GZIP):
            raise not_utf8(head, printable(name), printable(name))
        found = TraceEvents(name)
        reader = Reader(stream)
        events = 0
        try:
            for key, value in reader.members():
                if key == EVENTS:
                    events += 1
                    found.take(value)
                elif key in _HEADER:
                    found.header[key] = value
        except NotJson:
            events = 0
    if not events:
        fix = (
            "give what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote, or"
            " a Chakra trace; gzipped or not"
        )
        raise ColltoolError(
            f"is not a PyTorch profiler trace: it has no {EVENTS}", where=printable(name), fix=fix
        )
    found.broken = reader.broken
    return found


def _holds_chakra(head: bytes) -> bool:
    try:
        return is_chakra(_unpacked(head, _LOOKED_AT)[:_LOOKED_AT])
    except zlib.error:
        return False


def events_of_chakra(name: str, trace: ChakraTrace) -> TraceEvents:
    """The events of a Chakra trace: communication nodes as kernels with their labels, compute of
    the GPU as what hides them."""
    found = TraceEvents(name, trace.header, graph=trace)
    for node, stream, start, end, labels in trace.timed:
        if stream == "cpu":
            continue
        compute = stream == "compute"
        if end <= start:
            found.kernels += 1
            if not compute:
                found.left_out[_TIMELESS] += 1
        elif compute:
            found.add_compute(0, start, end)
        else:
            found.add_communication(LaunchedKernel(node.name, 0, start, end, None, labels))
    return found


def _args(event: Labels) -> Labels:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _labels(args: Labels) -> Labels:
    return {key: args[key] for key in LABELS if key in args}


def _times(event: Labels) -> Window | None:
    """Start and end in us; None unless both are numbers, and the event takes time."""
    start = event.get("ts")
    lasts = event.get("dur")
    if not isinstance(start, int | float) or not isinstance(lasts, int | float):
        return None
    try:
        begin = float(start)
        end = begin + float(lasts)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return (begin, end) if isfinite(begin) and isfinite(end) and end > begin else None
