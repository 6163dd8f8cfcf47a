"""One priced schedule and its phases: numbers in SI units, or arrays where the sizes were an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from colltool.algorithms.libraries import NotRun
from colltool.algorithms.registry import Choice, Status, rank_class
from colltool.base.cost import Number
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, format_time
from colltool.base.primitives import Primitive
from colltool.base.result import same
from colltool.estimate.curve import NO_SOFTWARE_TIME, SoftwareTime
from colltool.estimate.cut_bound import CutBound


def detailed(choice: Choice, variant: tuple[str, ...] = ()) -> str:
    """The choices of a composition: ``ring / ring, pipelined``; empty for an algorithm."""
    return ", ".join((" / ".join(choice.tiers), *variant)) if choice.tiers else ""


def titled(choice: Choice, variant: tuple[str, ...] = ()) -> str:
    """A name with its choices, for people: ``hierarchical (ring / ring)``."""
    detail = detailed(choice, variant)
    return f"{choice.base} ({detail})" if detail else choice.base


class PhaseCost(NamedTuple):
    """One phase of a schedule on one distance class.

    ``ranks`` take part; ``bytes`` is the payload that reaches the phase, in which ``n_beta`` counts; ``alpha_s`` and
    ``bandwidth_s`` are its seconds, η included; ``energy_J`` is what all ranks of the collective spend in it, None where the
    tiers give no energy of a bit.
    """

    tier: str
    level: str
    primitive: Primitive
    algorithm: str
    ranks: int
    bytes: Number
    n_alpha: Number
    n_beta: Number
    alpha_s: Number
    bandwidth_s: Number
    eta_alpha: Number
    eta_beta: Number
    bandwidth_Bps: Number
    share: Number
    label: str = ""
    energy_J: Number | None = None

    @property
    def total_s(self) -> Number:
        """Seconds of the phase alone."""
        return self.alpha_s + self.bandwidth_s

    def __eq__(self, other: object) -> bool:
        return type(other) is PhaseCost and all(map(same, self, other))


class SlowRank(NamedTuple):
    """The same schedule where one rank runs at a ``share`` of its bandwidth.

    ``total_s`` are seconds of the whole call, ``slowdown`` how many times as long that is; ``rank`` is the one whose slowness
    costs most, None where all cost alike. ``total_s`` None: ``reason`` says why that is not known.
    """

    share: float
    total_s: float | None = None
    slowdown: float | None = None
    rank: int | None = None
    reason: str = ""


LateSeconds = Number | Callable[[], Number]
NO_SECONDS = 0.0
"""Of a row that has no such term."""
LATE = {"late_bandwidth": "bandwidth_s", "late_shortfall": "short_s", "late_software": "fitted_s"}
"""The fields of a row that may be worked out late, and the seconds that they become."""
LatePhases = tuple[PhaseCost, ...] | Callable[[], tuple[PhaseCost, ...]]


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmEstimate:
    """One priced schedule: ``alpha_s + bandwidth_s + overhead_s + software_s`` is its total.

    What is ``late_`` may be a function that is called when somebody asks: of millions of sizes most people want the total alone.

    Args:
        choice: its name.
        variant: the assumptions of a composition that are not its own.
        n_alpha, n_beta: None where phases differ in α or bandwidth.
        late_bandwidth: the bandwidth term; of pipelined phases less than their sum.
        protocol: the fastest one, an array of names where the sizes were an array; empty where the fabric lists none.
        not_selected_reason: why the user's library does not run it.
        late_shortfall: what the bytes take more at the share of the bandwidth that the library reaches.
        late_software: what it was measured to take beside them, from ``software_time``.
        slow: the same with one slow rank, where somebody asked.
        cut_bound: of the group; None where the schedule runs on other links.
    """

    choice: Choice
    variant: tuple[str, ...]
    n_alpha: Number | None
    n_beta: Number | None
    alpha_s: Number
    late_bandwidth: LateSeconds
    overhead_s: Number
    status: Status
    shipped_by: tuple[str, ...]
    notes: tuple[str, ...]
    late_phases: LatePhases
    bytes: Number
    busbw_factor: float
    protocol: Any = ""
    not_selected_reason: NotRun | None = None
    late_shortfall: LateSeconds = NO_SECONDS
    late_software: LateSeconds = NO_SECONDS
    slow: SlowRank | None = None
    cut_bound: CutBound | None = None
    software_time: SoftwareTime = NO_SOFTWARE_TIME

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AlgorithmEstimate):
            return NotImplemented
        names = (one.name for one in fields(self) if one.name not in (*LATE, "late_phases", "cut_bound", "software_time"))
        return all(same(getattr(self, name), getattr(other, name)) for name in (*names, "bandwidth_s", "software_s"))

    __hash__ = None  # type: ignore[assignment]  # rows of arrays cannot be keys

    @cached_property
    def phases(self) -> tuple[PhaseCost, ...]:
        """The phases in order."""
        return self.late_phases() if callable(self.late_phases) else self.late_phases

    @cached_property
    def bandwidth_s(self) -> Number:
        """The bandwidth term, seconds."""
        return _now(self.late_bandwidth)

    @cached_property
    def software_s(self) -> Number:
        """What the library takes beside wires, latencies and its launch, as published or measured; in no tier's bandwidth."""
        return self.short_s + self.fitted_s

    @cached_property
    def fitted_s(self) -> Number:
        """Of :attr:`software_s` what was measured beside the bytes: start-up, and what rises with size and ranks."""
        return _now(self.late_software)

    @cached_property
    def short_s(self) -> Number:
        """Of :attr:`software_s` what grows with the bytes: the bandwidth that the library does not reach."""
        return _now(self.late_shortfall)

    @property
    def algorithm(self) -> str:
        """The name of the algorithm, or of the composition."""
        return self.choice.base

    @property
    def detail(self) -> str:
        """The choices of a composition, for people."""
        return detailed(self.choice, self.variant)

    @property
    def spec(self) -> str:
        """What ``--algorithm`` takes for it: ``hierarchical:ring/ring``."""
        return self.choice.spec

    @cached_property
    def rank_class(self) -> int:
        """Where it is listed: 0 is what the user can run."""
        return rank_class(self.status, self.not_selected_reason)

    @property
    def selectable(self) -> bool:
        """Whether it may be called the fastest: the user can run it."""
        return self.rank_class == 0

    @property
    def total_s(self) -> Number:
        """Seconds of the whole call."""
        seconds = (self.alpha_s + self.overhead_s) + _now(self.late_bandwidth)
        if self.late_shortfall is not NO_SECONDS:  # a walk through an array is not for nothing
            seconds = seconds + _now(self.late_shortfall)
        return seconds if self.late_software is NO_SECONDS else seconds + _now(self.late_software)

    @property
    def lower_bound_s(self) -> Number | None:
        """Seconds below which no schedule gets on the wires of the group: its cut bound, without latency and contention.

        None where the schedule runs on others: hypothetical ones, or machines beside the ranks.
        """
        return None if self.cut_bound is None else self.cut_bound.seconds(self.bytes)

    @cached_property
    def energy_J(self) -> Number | None:
        """Joule of the whole collective on its wires, all ranks of the one group together: Σ over its phases N n_β M · 8 · J/bit.

        None where no tier that it crosses gives an ``energy``; a tier without one adds nothing. Of trees and single messages what
        those ranks send that send. Sibling groups and repeated calls each spend it again.
        """
        known = [phase.energy_J for phase in self.phases if phase.energy_J is not None]
        return sum(known[1:], start=known[0]) if known else None

    @property
    def algbw_Bps(self) -> Number:
        """M/t, bytes/s."""
        return self.bytes / self.total_s

    @property
    def busbw_Bps(self) -> Number:
        """algbw times the factor of nccl-tests, bytes/s."""
        return self.algbw_Bps * self.busbw_factor

    @property
    def bound(self) -> str:
        """What takes most of a single-size price: ``latency``, ``bandwidth``, ``overhead`` or ``software``.

        Raises:
            ColltoolError: an array of sizes is bound by different things.
        """
        if hasattr(self.bytes, "__len__"):
            fix = "compare alpha_s, bandwidth_s, overhead_s and software_s"
            raise ColltoolError("an array of sizes has no single bound", fix=fix)
        return bound_by(float(self.alpha_s), float(self.bandwidth_s), float(self.overhead_s), float(self.software_s))

    @property
    def title(self) -> str:
        """The row's name with its choices: ``hierarchical (ring / ring)``."""
        return titled(self.choice, self.variant)

    def __repr__(self) -> str:
        if hasattr(self.bytes, "__len__"):
            return f"<Row: {self.title}, {len(self.bytes)} sizes>"
        return f"<Row: {self.title}, {format_time(float(self.total_s))}, busbw {format_rate(float(self.busbw_Bps))}>"


def _now(seconds: LateSeconds) -> Number:
    return seconds() if callable(seconds) else seconds


def bound_by(alpha_s: float, bandwidth_s: float, overhead_s: float, software_s: float = 0.0) -> str:
    """What takes most of a price: ``latency``, ``bandwidth``, ``overhead`` or ``software``."""
    parts = {"latency": alpha_s, "bandwidth": bandwidth_s, "overhead": overhead_s, "software": software_s}
    return max(parts, key=lambda part: parts[part])
