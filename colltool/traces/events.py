"""What is kept of a trace as its events stream by: communication kernels, compute intervals, steps, metadata."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from math import isfinite
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import TRACE, AnyPath, not_utf8, opened
from colltool.traces.metadata import LABELS, Labels, is_collective
from colltool.traces.reader import EVENTS, NotJson, Reader

ID = "External id"
STEP = "ProfilerStep#"
_LOOKED_AT = 64  # bytes: UTF-16 has a zero among them
_STEP_KINDS = ("gpu_user_annotation", "user_annotation", "cpu_op")  # the device's own steps before those of the host
_HEADER = ("distributedInfo", "deviceProperties")


class LaunchedKernel(NamedTuple):
    """A communication kernel, times in us on the trace's own clock."""

    name: str
    device: int
    start_us: float
    end_us: float
    external: Any
    labels: Labels


@dataclass
class TraceEvents:
    """One trace; ``busy``: starts and ends of compute kernels by device, ``labels``: metadata by external id."""

    name: str
    header: Labels = field(default_factory=dict)
    launched: list[LaunchedKernel] = field(default_factory=list)
    labels: dict[Any, Labels] = field(default_factory=dict)
    busy: dict[int, tuple[array[float], array[float]]] = field(
        default_factory=lambda: defaultdict(lambda: (array("d"), array("d")))
    )
    annotated: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    left_out: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    first_us: float = float("inf")
    last_us: float = float("-inf")
    broken: bool = False

    @property
    def steps(self) -> list[tuple[float, float]]:
        kind = next((one for one in _STEP_KINDS if self.annotated.get(one)), "")
        return sorted(self.annotated[kind]) if kind else []

    def take(self, event: Any) -> None:
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        kind, name = event.get("cat"), event.get("name")
        if not isinstance(name, str) or not isinstance(kind, str):
            return
        if kind.lower() == "kernel":
            self._kernel(name, event)
        elif name == "record_param_comms":
            args = _args(event)
            if isinstance(args.get(ID), int | str):
                self.labels[args[ID]] = _labels(args)
        elif name.startswith(STEP) and kind in _STEP_KINDS and (times := _times(event)):
            self.annotated[kind].append(times)

    def _kernel(self, name: str, event: Labels) -> None:
        self.kernels += 1
        times, args = _times(event), _args(event)
        if times is None:
            self.left_out["kernels without a time or a duration"] += 1
            return
        start, end = times
        device = args.get("device", event.get("pid"))
        device = device if isinstance(device, int) else 0
        self.first_us, self.last_us = min(self.first_us, start), max(self.last_us, end)
        if is_collective(name):
            external = args.get(ID)
            known = external if isinstance(external, int | str) else None
            self.launched.append(LaunchedKernel(name, device, start, end, known, _labels(args)))
        else:
            starts, ends = self.busy[device]
            starts.append(start)
            ends.append(end)


def collect(path: AnyPath) -> TraceEvents:
    """Read one trace, plain or gzipped."""
    with opened(path, TRACE) as (stream, name):
        head = stream.peek(_LOOKED_AT)[:_LOOKED_AT]
        if b"\0" in head and not head.startswith(b"\x1f\x8b"):
            raise not_utf8(head, printable(name), printable(name))
        found = TraceEvents(name)
        events = 0
        for event in _events(stream, found):
            events += 1
            found.take(event)
    if not events:
        raise no_trace(name)
    return found


def no_trace(name: str) -> ColltoolError:
    fix = "give what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote, as it is or gzipped"
    return ColltoolError(f"is not a PyTorch profiler trace: it has no {EVENTS}", where=printable(name), fix=fix)


def _events(stream: BufferedReader, found: TraceEvents) -> Iterator[Any]:
    reader = Reader(stream)
    try:
        for key, value in reader.members():
            if key == EVENTS:
                yield value
            elif key in _HEADER:
                found.header[key] = value
    except NotJson as error:
        raise no_trace(found.name) from error
    found.broken = reader.broken


def _args(event: Labels) -> Labels:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _labels(args: Labels) -> Labels:
    return {key: args[key] for key in LABELS if key in args}


def _times(event: Labels) -> tuple[float, float] | None:
    start, lasts = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(lasts, int | float):
        return None
    try:
        begin, end = float(start), float(start) + float(lasts)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return (begin, end) if isfinite(begin) and isfinite(end) and end > begin else None
