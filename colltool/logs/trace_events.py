"""The events of a trace that matter: kernels, when devices were busy, steps, and the labels of
calls.

:meth:`TraceEvents.take` keeps what matters of an event of a profile, as
:mod:`colltool.logs.pytorch_trace` streams it; :func:`events_of_chakra` does the same for a Chakra
graph. A kernel is linked to the call that launched it by its *external id*; the labels of the call
stand on events of the host with the same id, before torch 2.4 on these alone.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from colltool.base.statements import Statement
from colltool.logs.call_metadata import COMMS, LABELS, Labels, as_text
from colltool.logs.chakra import ChakraTrace
from colltool.logs.json_values import as_mapping
from colltool.logs.kernel_names import is_collective
from colltool.logs.sentences import statement

UNNAMED = "no category"
"""The kind of events whose category is no text."""
_IDS = ("External id", "external id")
_STEP = "ProfilerStep#"  # with which the name of a step begins
# categories of steps: the device's own before those of the host
_STEP_KINDS = ("gpu_user_annotation", "user_annotation", "cpu_op")
# what torch.distributed and its backends announce, such as nccl:all_reduce
_BACKENDS = ("nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:")
_TIMELESS = statement("timeless")
Window = tuple[float, float]
"""A start and an end, in us."""


class LaunchedKernel(NamedTuple):
    """A communication kernel, times in us on the trace's own clock."""

    name: str
    device: int
    start_us: float
    end_us: float
    external: int | str | None  # id of the call that launched it; None if unknown
    labels: Labels  # of the call, as far as the kernel has them itself

    @property
    def lasts_us(self) -> float:
        """Its duration."""
        return self.end_us - self.start_us


@dataclass
class TraceEvents:
    """What matters of one trace."""

    name: str  # of the file
    # ``distributedInfo`` of the job and ``deviceProperties``, each where the file has it
    header: Labels = field(default_factory=dict)
    launched: list[LaunchedKernel] = field(default_factory=list)  # that communicate
    labels: dict[Any, Labels] = field(default_factory=dict)  # metadata by external id
    # starts and ends of compute kernels by device
    busy: dict[int, tuple[array[float], array[float]]] = field(
        default_factory=lambda: defaultdict(lambda: (array("d"), array("d")))
    )
    # steps by category
    annotated: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    # communication kernels that cannot be used, by reason
    left_out: Counter[Statement] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)  # events by category
    # calls that the host announced, such as ``nccl:all_reduce``, whether or not a kernel of them
    # was recorded
    announced: Counter[str] = field(default_factory=Counter)
    kernels: int = 0  # of communication and compute, with a time and without
    first_us: float = float("inf")  # start of the first kernel
    last_us: float = float("-inf")  # end of the last one
    broken: bool = False  # the file is truncated or damaged
    graph: ChakraTrace | None = None  # of a Chakra trace
    # by thread, the last record_param_comms without labels: its id, and when it ended
    _bare: dict[Any, tuple[Any, float]] = field(default_factory=dict)

    @property
    def about(self) -> Labels:
        """What the header says of the job."""
        job: Labels = self.header.get("distributedInfo", {})
        return job

    @property
    def device(self) -> str:
        """The name of the first device; empty if the header lists none."""
        for properties in self.header.get("deviceProperties", ()):
            return as_text(properties.get("name"))
        return ""

    def step_windows(self) -> list[list[Window]]:
        """The annotated steps of each kind that there is, those of the device first."""
        return [sorted(self.annotated[kind]) for kind in _STEP_KINDS if self.annotated.get(kind)]

    def take(self, event: Any) -> None:
        """Keep an event of a profile if it is a kernel, the metadata of a call or a step."""
        # X: complete, with a start and a duration
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
        if kind in ("kernel", "Kernel"):
            self._take_kernel(name, event)
        elif name == COMMS:
            self._take_labels(event)
        elif name.startswith(_BACKENDS):
            self.announced[name] += 1
            self._take_labels(event, name)
        elif name.startswith(_STEP) and kind in _STEP_KINDS:
            times = _times(event)
            if times:
                self.annotated[kind].append(times)

    def _take_labels(self, event: Labels, announced: str = "") -> None:
        """Keep the metadata of a call by its external id.

        An event that a backend ``announced``, such as ``nccl:all_reduce``, is nested in the call's
        ``record_param_comms``; before torch 2.1 that has no labels of its own, and takes these.
        """
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
        start_us, end_us = _times(event) or (0.0, 0.0)
        self.labels[external] = labels
        if announced:
            outer, outer_end_us = self._bare.pop(thread, (None, 0.0))
            if outer is not None and start_us <= outer_end_us:
                self.labels[outer] = labels
        elif not labels:
            self._bare[thread] = (external, end_us)

    def _take_kernel(self, name: str, event: Labels) -> None:
        """Keep a kernel as communication or compute; one without a time is left out."""
        times = _times(event)
        if times is None:
            self.kernels += 1
            self.left_out[_TIMELESS] += 1
            return
        start_us, end_us = times
        args = as_mapping(event.get("args"))
        device = args.get("device", event.get("pid"))
        if not isinstance(device, int):
            device = 0
        if not is_collective(name):
            self.add_compute(device, start_us, end_us)
            return
        self.add_communication(
            LaunchedKernel(name, device, start_us, end_us, _external(args), _labels(args))
        )

    def add_compute(self, device: int, start_us: float, end_us: float) -> None:
        """Keep a kernel that computes."""
        self._count(start_us, end_us)
        starts, ends = self.busy[device]
        starts.append(start_us)
        ends.append(end_us)

    def add_communication(self, kernel: LaunchedKernel) -> None:
        """Keep a kernel that communicates."""
        self._count(kernel.start_us, kernel.end_us)
        self.launched.append(kernel)

    def _count(self, start_us: float, end_us: float) -> None:
        """Count a kernel, and widen the time of all of them."""
        self.kernels += 1
        self.first_us = min(self.first_us, start_us)
        self.last_us = max(self.last_us, end_us)


def events_of_chakra(name: str, trace: ChakraTrace) -> TraceEvents:
    """The events of a Chakra trace: communication nodes as kernels with their labels, compute of
    the GPU as kernels that hide them, all on device 0."""
    events = TraceEvents(name, trace.header, graph=trace)
    for node, stream, start_us, end_us, labels in trace.timed:
        if stream == "cpu":
            continue
        is_compute = stream == "compute"
        if end_us <= start_us:
            events.kernels += 1
            if not is_compute:
                events.left_out[_TIMELESS] += 1
        elif is_compute:
            events.add_compute(0, start_us, end_us)
        else:
            kernel = LaunchedKernel(node.name, 0, start_us, end_us, external=None, labels=labels)
            events.add_communication(kernel)
    return events


def _external(args: Mapping[str, Any]) -> int | str | None:
    """The id that links a kernel to the call that launched it; None without."""
    for key in _IDS:
        external = args.get(key)
        if isinstance(external, int | str):
            return external
    return None


def _labels(args: Mapping[str, Any]) -> Labels:
    """The labels of a call that an event has."""
    return {key: args[key] for key in LABELS if key in args}


def _times(event: Labels) -> Window | None:
    """Start and end in us; None unless both are finite numbers, and the event takes time."""
    start = event.get("ts")
    duration = event.get("dur")
    if not isinstance(start, int | float) or not isinstance(duration, int | float):
        return None
    try:
        start_us = float(start)
        end_us = start_us + float(duration)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    # the end is finite only if the start is
    return (start_us, end_us) if isfinite(end_us) and end_us > start_us else None
