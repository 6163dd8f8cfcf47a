"""A priced schedule, :class:`AlgorithmEstimate`, and its phases, :class:`PhaseCost`, in SI units.

Numbers are arrays if the sizes were an array. Those that a table of many sizes seldom reads are worked
out when they are read: fields ``late_`` hold the number, or the function that works it out.
:meth:`colltool.estimate.cost_model.CostModel.at` makes estimates; :data:`LATE` pairs their fields with
the properties that callers read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from colltool.algorithms.libraries import NotRun
from colltool.algorithms.registry import Choice, Status, rank_class
from colltool.base.arrays import largest
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, format_time
from colltool.base.primitives import Number, Primitive
from colltool.base.result import same
from colltool.estimate.cut_bound import CutBound
from colltool.estimate.software_time import SoftwareTime

if TYPE_CHECKING:
    from colltool.estimate.interval import Interval


NO_SOFTWARE_TIME = SoftwareTime()
"""Sentinel of schedules without measured times (compared by identity)."""


def titled(choice: Choice, variant: tuple[str, ...]) -> str:
    """A display name with choices: ``hierarchical (ring / ring, pipelined)``."""
    return f"{choice.base} ({_choices(choice, variant)})" if choice.tiers else choice.base


def _choices(choice: Choice, variant: tuple[str, ...]) -> str:
    """What a composition runs on its tiers: ``ring / ring, pipelined``."""
    return ", ".join((" / ".join(choice.tiers), *variant))


class PhaseCost(NamedTuple):
    """One phase of a schedule on one distance class.

    Args:
        tier, level: where its messages meet: the tier, and the distance class on it.
        ranks: that take part in the phase.
        bytes: the payload that reaches the phase, in which ``n_beta`` counts.
        alpha_s, bandwidth_s: seconds of all messages and of all bytes, η included.
        bandwidth_Bps: without η and share.
        share: what oversubscription leaves of the bandwidth.
        label: tells phases of one algorithm apart; empty for a single one.
        energy_J: for all ranks of the collective; None where the tiers state no energy per bit.
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
        """Seconds of the phase by itself."""
        return self.alpha_s + self.bandwidth_s

    def __eq__(self, other: object) -> bool:
        return type(other) is PhaseCost and all(map(same, self, other))


class SlowRank(NamedTuple):
    """The same schedule with one rank at a ``share`` of its bandwidth.

    Args:
        total_s: seconds of the whole call; None if they are not known, and ``reason`` says why.
        slowdown: ``total_s`` over the price without the slow rank.
        rank: the one whose slowness costs most, None if all cost the same.
    """

    share: float
    total_s: float | None = None
    slowdown: float | None = None
    rank: int | None = None
    reason: str = ""


LateNumber = Number | Callable[[], Number]
NO_SECONDS = 0.0
"""Sentinel of rows without such a term (compared by identity)."""
LATE = {
    "late_n_alpha": "n_alpha",
    "late_n_beta": "n_beta",
    "late_steps": "steps_s",
    "late_moved": "moved_s",
    "late_overhead": "overhead_s",
    "late_shortfall": "short_s",
    "late_software": "fitted_s",
    "late_protocol": "protocol",
    "late_factor": "factor",
    "late_total": "total_s",
}
"""Fields of a row that may be computed on demand, and the property that has their value."""


class Layers(NamedTuple):
    """What each layer of the model adds to a price, seconds; their sum is the price.

    Each is the same schedule and protocol with one layer more, minus the one before.

    Args:
        wires_s: n_α·α + n_β·M/(BW·share).
        contention_s: η.
        library_s: launch, time a step, share of the wire, copies.
        machine_s: what a measured machine does beyond these.
    """

    wires_s: Number
    contention_s: Number
    library_s: Number
    machine_s: Number


class Constant:
    """A value in the place of a function that would work it out."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmEstimate:
    """One priced schedule; its total is ``alpha_s + bandwidth_s + overhead_s + software_s``, as
    well as the sum of its layers.

    Fields named ``late_`` may be functions, called when the property in :data:`LATE` is read: for
    millions of sizes most callers want only the total.

    Args:
        variant: readings of a composition other than its own.
        late_n_alpha, late_n_beta: None if phases differ in α or bandwidth.
        late_steps: all α of its steps under the protocol, with what the library adds to each.
        late_moved: its bytes under the protocol; less than the sum over phases if they are
            pipelined.
        late_overhead: the launch.
        late_protocol: name of the fastest protocol (an array of names for an array of sizes); empty
            if the fabric lists none.
        library_name: what the user's library calls it; empty where it has no name for it.
        late_shortfall: extra time because the library reaches only a share of the bandwidth.
        late_software: measured time besides, from ``software_time``.
        late_factor: exp(d) of the machine (layer 4); None for 1.
        late_total: the total where it is known without the other numbers, else None.
        cut_bound: None if the schedule runs on other links than the group's.
        late_below: the same schedule on wires alone, and on wires with contention; None where the
            price has no layers.
        interval: where nine of ten measurements lie; None without one, and ``no_interval`` says
            why.
    """

    choice: Choice
    variant: tuple[str, ...]
    late_n_alpha: LateNumber | None
    late_n_beta: LateNumber | None
    late_steps: LateNumber
    late_moved: LateNumber
    late_overhead: LateNumber
    status: Status
    shipped_by: tuple[str, ...]
    notes: tuple[str, ...]
    late_phases: Callable[[], tuple[PhaseCost, ...]]
    bytes: Number
    busbw_factor: float
    late_protocol: Any = ""
    not_selected_reason: NotRun | None = None
    library_name: str = ""
    late_shortfall: LateNumber = NO_SECONDS
    late_software: LateNumber = NO_SECONDS
    slow: SlowRank | None = None
    cut_bound: CutBound | None = None
    software_time: SoftwareTime = NO_SOFTWARE_TIME
    late_below: Callable[[], tuple[AlgorithmEstimate, AlgorithmEstimate]] | None = None
    late_factor: LateNumber | None = None
    late_total: LateNumber | None = None
    interval: Interval | None = None
    no_interval: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AlgorithmEstimate):
            return NotImplemented
        names = [field.name for field in fields(self) if field.name not in _NOT_COMPARED]
        names += LATE.values()
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __getstate__(self) -> dict[str, Any]:
        """State with phases, layers below and the machine's factor worked out: the functions that do
        so cannot travel between processes."""
        below = None if self.late_below is None else Constant(self.below)
        return self.__dict__ | {
            "late_phases": Constant(self.phases),
            "late_below": below,
            "late_factor": self.factor,
        }

    __hash__ = None  # type: ignore[assignment]  # rows of arrays cannot be keys

    @cached_property
    def phases(self) -> tuple[PhaseCost, ...]:
        """The phases in their order, under the protocol."""
        return self.late_phases()

    @cached_property
    def below(self) -> tuple[AlgorithmEstimate, AlgorithmEstimate]:
        """The same schedule on wires alone, and on wires with contention."""
        return (self, self) if self.late_below is None else self.late_below()

    @cached_property
    def n_alpha(self) -> Number | None:
        """Messages one after the other. None if phases differ in α or bandwidth."""
        return _value_of(self.late_n_alpha)

    @cached_property
    def n_beta(self) -> Number | None:
        """Payloads that a rank sends; None if phases differ in α or bandwidth."""
        return _value_of(self.late_n_beta)

    @cached_property
    def steps_s(self) -> Number:
        """All α of its steps under the protocol, with what the library adds to each."""
        return _value_of(self.late_steps)

    @cached_property
    def moved_s(self) -> Number:
        """The bytes under the protocol."""
        return _value_of(self.late_moved)

    @cached_property
    def overhead_s(self) -> Number:
        """The launch."""
        return _value_of(self.late_overhead)

    @cached_property
    def short_s(self) -> Number:
        """Time due to bandwidth that the library's schedule does not reach."""
        return _value_of(self.late_shortfall)

    @cached_property
    def fitted_s(self) -> Number:
        """Measured time besides the bytes, from the fabric's file: start-up, and what grows with
        size and ranks."""
        return _value_of(self.late_software)

    @cached_property
    def protocol(self) -> Any:
        """Name of the fastest protocol, an array of names for an array of sizes. Empty if the
        fabric lists none."""
        return _value_of(self.late_protocol)

    @cached_property
    def factor(self) -> Number | None:
        """exp(d) of the machine (layer 4); None for 1."""
        return _value_of(self.late_factor)

    @cached_property
    def alpha_s(self) -> Number:
        """All α with contention, of wires alone: what a library adds to a step is in
        :attr:`software_s`."""
        return self.below[1].steps_s

    @cached_property
    def bandwidth_s(self) -> Number:
        """The bytes at bandwidth and contention, without what a library leaves of these."""
        return self.below[1].moved_s

    @cached_property
    def software_s(self) -> Number:
        """What the library and the machine add to wires, contention and launch; below 0 where they
        do better."""
        return self.rest_s + (self.steps_s - self.alpha_s) + (self.moved_s - self.bandwidth_s)

    @cached_property
    def rest_s(self) -> Number:
        """What is in no step, byte or launch under the protocol: bandwidth that is not reached, and
        the machine's part."""
        return self.short_s + self.fitted_s + (self.total_s - self.modelled_s)

    @cached_property
    def layers(self) -> Layers:
        """The price layer by layer."""
        wires, contended = self.below
        wires_s = wires.steps_s + wires.moved_s
        contended_s = contended.steps_s + contended.moved_s
        return Layers(
            wires_s,
            contended_s - wires_s,
            self.modelled_s - contended_s,
            self.total_s - self.modelled_s,
        )

    @property
    def algorithm(self) -> str:
        """The algorithm, of a composition without its choices: ``hierarchical``."""
        return self.choice.base

    @property
    def title(self) -> str:
        """The algorithm with its choices, by our names."""
        return titled(self.choice, self.variant)

    @property
    def name(self) -> str:
        """The library's name where it has one, else ours: what every output leads with."""
        return self.library_name or self.title

    @property
    def detail(self) -> str:
        """The choices of a composition, ``ring / ring, pipelined``. Empty for a plain algorithm."""
        return _choices(self.choice, self.variant) if self.choice.tiers else ""

    @property
    def how(self) -> str:
        """Words to follow a library's name: what runs on each tier of a hierarchical algorithm,
        else the title."""
        return self.detail if self.algorithm == "hierarchical" else self.title

    @property
    def spec(self) -> str:
        """The choice as ``--algorithm`` takes it: ``hierarchical:ring/ring``."""
        return self.choice.spec

    @cached_property
    def rank_class(self) -> int:
        """Sort class in listings; 0 is what the user can run."""
        return rank_class(self.status, self.not_selected_reason)

    @property
    def selectable(self) -> bool:
        """Whether the user can run it, so that it may be called the fastest."""
        return self.rank_class == 0

    @cached_property
    def total_s(self) -> Number:
        """max(t·exp(d), cut bound), where t is :attr:`modelled_s`."""
        if self.late_total is None:
            return self.on_the_machine(self.modelled_s)
        return _value_of(self.late_total)

    def on_the_machine(self, modelled_s: Number) -> Number:
        """Seconds of layers 1 to 3 with the machine's factor, but no fewer than the cut bound."""
        if self.factor is None:
            return modelled_s
        seconds = modelled_s * self.factor
        bound = self.lower_bound_s
        return seconds if bound is None else largest(seconds, bound)

    @property
    def modelled_s(self) -> Number:
        """Seconds by wires, contention and library (layers 1 to 3)."""
        seconds = (self.steps_s + self.overhead_s) + _value_of(self.late_moved)
        # adding a zero would be one more walk through an array
        if self.late_shortfall is not NO_SECONDS:
            seconds = seconds + _value_of(self.late_shortfall)
        if self.late_software is not NO_SECONDS:
            seconds = seconds + _value_of(self.late_software)
        return seconds

    @property
    def lower_bound_s(self) -> Number | None:
        """The group's cut bound: no schedule on its links is faster. None if this one uses other
        links or machines."""
        return None if self.cut_bound is None else self.cut_bound.seconds(self.bytes)

    @cached_property
    def energy_J(self) -> Number | None:
        """Joules on the wires for the whole collective, all ranks of one group: Σ over phases of N
        n_β M · 8 · J/bit.

        None if no tier states an ``energy``; tiers without one add nothing. Trees and single
        messages count only the ranks that send.
        """
        known = [phase.energy_J for phase in self.phases if phase.energy_J is not None]
        return sum(known[1:], start=known[0]) if known else None

    @property
    def algbw_Bps(self) -> Number:
        """The size over the total, as nccl-tests has it."""
        return self.bytes / self.total_s

    @property
    def busbw_Bps(self) -> Number:
        """algbw times the factor of nccl-tests."""
        return self.algbw_Bps * self.busbw_factor

    @property
    def streams(self) -> bool:
        """Whether phases of a single-size price overlap, so that only the busiest tier's bandwidth
        counts."""
        one_after_the_other_s = float(sum(phase.bandwidth_s for phase in self.phases))
        # more than by the rounding of sums
        return one_after_the_other_s > float(self.moved_s) * (1 + 1e-9)

    @property
    def bound(self) -> str:
        """The largest part of a single-size price: ``latency``, ``bandwidth``, ``overhead`` or
        ``software``."""
        if hasattr(self.bytes, "__len__"):
            raise ColltoolError(
                "an array of sizes has no single bound",
                fix="compare steps_s, moved_s, overhead_s and rest_s",
            )
        return bound_by(
            float(self.steps_s), float(self.moved_s), float(self.overhead_s), float(self.rest_s)
        )

    def __repr__(self) -> str:
        if hasattr(self.bytes, "__len__"):
            return f"<Row: {self.title}, {len(self.bytes)} sizes>"
        return (
            f"<Row: {self.title}, {format_time(float(self.total_s))}, busbw"
            f" {format_rate(float(self.busbw_Bps))}>"
        )


# Fields that __eq__ leaves out: how a number is made, and what is added to a row afterwards, is no
# part of a price. Of the former it compares the numbers, the properties of LATE.
_NOT_COMPARED = frozenset(
    {*LATE, "late_phases", "late_below", "cut_bound", "software_time", "interval", "no_interval"}
)


@overload
def _value_of(value: LateNumber) -> Number: ...


@overload
def _value_of(value: LateNumber | None) -> Number | None: ...


def _value_of(value: LateNumber | None) -> Number | None:
    """The number of a ``late_`` field, worked out now if it has not been."""
    return value() if callable(value) else value


def bound_by(alpha_s: float, bandwidth_s: float, overhead_s: float, software_s: float = 0.0) -> str:
    """The name of the largest of these parts, of equals the first."""
    parts = {
        "latency": alpha_s,
        "bandwidth": bandwidth_s,
        "overhead": overhead_s,
        "software": software_s,
    }
    return max(parts, key=parts.__getitem__)
