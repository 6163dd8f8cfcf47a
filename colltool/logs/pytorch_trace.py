"""Stream a PyTorch profiler trace (Kineto): its events one by one, of which kernels, intervals,
steps and metadata are kept.

:func:`collect` is the entry, :func:`is_trace` tells traces from logs, :class:`TraceEvents` keeps
what matters.

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
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, printable
from colltool.base.files import TRACE, AnyPath, not_utf8, opened
from colltool.base.reach import within_reach
from colltool.base.statements import Statement
from colltool.logs.call_metadata import COMMS, LABELS, Labels, as_text
from colltool.logs.chakra import ChakraTrace, is_chakra, read_chakra
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
from colltool.logs.json_values import as_mapping
from colltool.logs.kernel_names import is_collective
from colltool.logs.sentences import statement
from colltool.logs.trace_header import checked_header

_HEAD = 2**16  # bytes: deviceProperties of 16 devices take 6 kB
# keys of the outer object that no other format has
_KEYS = {EVENTS, "schemaVersion", "deviceProperties", "distributedInfo"}
_EVENT = re.compile(rb'\[\s*\{[^}]{0,1000}"ph"\s*:')
_OTHER = b'"CommHash"'  # events of NCCL's own profiler


def is_trace(path: AnyPath) -> bool:
    """Whether a file's first 64 KiB look like a PyTorch profiler trace, plain or gzipped; False for
    pipes and unreadable files."""
    head = _head_of(path)
    if _OTHER in head:
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


IDS = ("External id", "external id")
STEP = "ProfilerStep#"
UNNAMED = "no category"
_GIVE = (
    "give what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote, or a Chakra"
    " trace; gzipped or not"
)
Window = tuple[float, float]
_TIMELESS = statement("timeless")
_LOOKED_AT = 64  # bytes of a file that tell its kind: UTF-16 has a zero among them
_PACKED = 4096  # bytes of a packed file that yield as many: more than its tables take
# the device's own steps before those of the host
_STEP_KINDS = ("gpu_user_annotation", "user_annotation", "cpu_op")
_HEADER = ("distributedInfo", "deviceProperties")
# what torch.distributed and its backends announce, such as nccl:all_reduce
_BACKENDS = ("nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:")


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
    """One trace."""

    name: str
    header: Labels = field(default_factory=dict)
    launched: list[LaunchedKernel] = field(default_factory=list)
    labels: dict[Any, Labels] = field(default_factory=dict)  # metadata by external id
    # starts and ends of compute kernels by device
    busy: dict[int, tuple[array[float], array[float]]] = field(
        default_factory=lambda: defaultdict(lambda: (array("d"), array("d")))
    )
    # steps by category
    annotated: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    left_out: Counter[Statement] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)  # events by category
    # calls that the host announced, such as ``nccl:all_reduce``, whether or not a kernel of them
    # was recorded
    announced: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    first_us: float = float("inf")
    last_us: float = float("-inf")
    broken: bool = False
    graph: ChakraTrace | None = None  # of a Chakra trace
    # by thread, the last record_param_comms without labels: its id, and when it ended
    _bare: dict[Any, tuple[Any, float]] = field(default_factory=dict)

    @property
    def about(self) -> Labels:
        """What the header says of the job."""
        about: Labels = self.header.get("distributedInfo", {})
        return about

    @property
    def device(self) -> str:
        """The name of the first device."""
        for properties in self.header.get("deviceProperties", ()):
            return as_text(properties.get("name"))
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
        if not isinstance(name, str):
            return
        if not isinstance(kind, str):
            self.kinds[UNNAMED] += 1
            return
        self.kinds[kind] += 1
        if kind == "kernel" or kind == "Kernel":
            self._take_kernel(name, event)
        elif name == COMMS:
            self._take_labels(event)
        elif name.startswith(_BACKENDS):
            self.announced[name] += 1
            self._take_labels(event, name)
        elif name.startswith(STEP) and kind in _STEP_KINDS:
            times = _times(event)
            if times:
                self.annotated[kind].append(times)

    def _take_labels(self, event: Labels, announced: str = "") -> None:
        """Keep the metadata of a call by its external id. One that was ``announced`` is nested in
        its ``record_param_comms``, which before torch 2.1 has no labels of its own."""
        args = as_mapping(event.get("args"))
        external = _external(args)
        if external is None:
            return
        labels = _labels(args)
        if announced:
            if "Input Dims" not in labels:
                return
            labels.setdefault("Collective name", announced.partition(":")[2])
        thread = (event.get("pid"), event.get("tid"))
        times = _times(event) or (0.0, 0.0)
        self.labels[external] = labels
        if announced:
            outer, end_us = self._bare.pop(thread, (None, 0.0))
            if outer is not None and times[0] <= end_us:
                self.labels[outer] = labels
        elif not labels:
            self._bare[thread] = (external, times[1])

    def _take_kernel(self, name: str, event: Labels) -> None:
        """Keep a kernel as communication or compute; without a time it is left out."""
        times = _times(event)
        if times is None:
            self.kernels += 1
            self.left_out[_TIMELESS] += 1
            return
        args = as_mapping(event.get("args"))
        device = args.get("device", event.get("pid"))
        if not isinstance(device, int):
            device = 0
        if not is_collective(name):
            self.add_compute(device, *times)
            return
        self.add_communication(
            LaunchedKernel(name, device, *times, external=_external(args), labels=_labels(args))
        )

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
    """The events of one trace, or of a Chakra graph. ColltoolError for any other file."""
    with opened(path, TRACE) as (stream, name):
        where = printable(name)
        try:
            head = stream.peek(_PACKED)
            if _holds_chakra(head):
                return events_of_chakra(name, read_chakra(stream, name))
            looked_at = head[:_LOOKED_AT]
            if b"\0" in looked_at and not looked_at.startswith(GZIP):
                raise not_utf8(looked_at, where, where)
            found = TraceEvents(name)
            reader = Reader(stream)
            _take_members(found, reader)
        except TooPacked as error:
            raise ColltoolError(
                f"unpacks to more than {MOST_TIMES_PACKED} times its size, which no trace does:"
                " it is damaged, or made to fill memory",
                where=where,
                fix="profile again",
            ) from error
    if not found.kinds and not found.kernels:
        raise _without_events(reader, where)
    if found.kinds.keys() == {UNNAMED}:
        raise ColltoolError(
            "is a trace of another program: its events have no category (cat), kernels neither",
            where=where,
            fix=_GIVE,
        )
    found.header = checked_header(found.header, where)
    found.broken = reader.broken
    return found


def _take_members(found: TraceEvents, reader: Reader) -> None:
    """Keep what matters of a file; nothing where it is no JSON."""
    try:
        for key, value in reader.members():
            if key == EVENTS:
                found.take(value)
            elif key in _HEADER:
                found.header[key] = value
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
    try:
        unpacked = unpacked_head(head, _HEAD)
    except zlib.error:
        return False
    return is_chakra(unpacked)


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
            found.add_communication(
                LaunchedKernel(node.name, 0, start, end, external=None, labels=labels)
            )
    return found


def _external(args: Mapping[str, Any]) -> int | str | None:
    """What links a kernel to the call that launched it."""
    for key in IDS:
        external = args.get(key)
        if isinstance(external, int | str):
            return external
    return None


def _labels(args: Mapping[str, Any]) -> Labels:
    return {key: args[key] for key in LABELS if key in args}


def _times(event: Labels) -> Window | None:
    """Start and end in us. None unless both are numbers, and the event takes time."""
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
