"""What a question returns: frozen records in SI units. Numbers are floats, or arrays where the sizes were an array."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from colltool.algorithms.registry import Status
from colltool.cost import Number
from colltool.primitives import Primitive


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a schedule on one distance class.

    ``ranks`` take part; ``bytes`` is the payload that reaches the phase, in which ``n_beta`` counts; ``alpha_s`` and
    ``bandwidth_s`` are its seconds, η included.
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
    eta_alpha: float
    eta_beta: float
    bandwidth_Bps: float
    share: float
    label: str = ""

    @property
    def total_s(self) -> Number:
        """Seconds of the phase alone."""
        return self.alpha_s + self.bandwidth_s


@dataclass(frozen=True)
class Row:
    """One priced schedule.

    ``n_alpha``, ``n_beta`` are None where phases differ in α or bandwidth. ``alpha_s + bandwidth_s + overhead_s`` is the
    total; under pipelined phases ``bandwidth_s`` is less than the phases' sum.
    """

    algorithm: str
    detail: str
    n_alpha: Number | None
    n_beta: Number | None
    alpha_s: Number
    bandwidth_s: Number
    overhead_s: float
    status: Status
    shipped_by: tuple[str, ...]
    notes: tuple[str, ...]
    phases: tuple[Phase, ...]
    bytes: Number
    busbw_factor: float

    @cached_property
    def total_s(self) -> Number:
        """Seconds of the whole call."""
        return (self.alpha_s + self.overhead_s) + self.bandwidth_s

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
        """What takes most of a single-size price: ``latency``, ``bandwidth`` or ``overhead``."""
        parts = {"latency": self.alpha_s, "bandwidth": self.bandwidth_s, "overhead": self.overhead_s}
        return max(parts, key=lambda part: float(parts[part]))

    @property
    def title(self) -> str:
        """The row's name with its choices: ``hierarchical (ring / ring)``."""
        return f"{self.algorithm} ({self.detail})" if self.detail else self.algorithm


@dataclass(frozen=True, slots=True)
class Infeasible:
    """An algorithm that cannot run here, and why."""

    algorithm: str
    reason: str


@dataclass(frozen=True, slots=True)
class Model:
    """The readings that a price was made with, as machine output echoes them."""

    pipelining: str | int
    phases: str
    placement: str
    ring_alpha: str
    tree_beta: float
    order: str | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """Every algorithm for one primitive, group and size, fastest first (registry order for arrays of sizes)."""

    fabric: str
    primitive: Primitive
    ranks: int
    bytes: Number
    mode: str
    model: Model
    results: tuple[Row, ...]
    infeasible: tuple[Infeasible, ...]

    @property
    def best(self) -> Row:
        """The fastest row of a single size, among those that exist."""
        return next((row for row in self.results if row.status != "hypothetical"), self.results[0])


@dataclass(frozen=True, slots=True)
class PriceList:
    """One :class:`Price` per size, smallest question first as asked."""

    prices: tuple[Price, ...]
    winners_only: bool = False


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the time of one schedule goes, beside the flat baselines."""

    price: Price
    baselines: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """A size at which the faster of two algorithms changes."""

    bytes: float
    faster_below: str
    faster_above: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two algorithms and every size at which one takes over from the other."""

    a: str
    b: str
    crossings: tuple[Crossing, ...]
    dominates: str | None
    approximations: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Winner:
    """An interval of sizes and the algorithm that is fastest in it; ``to_bytes`` None means without end."""

    from_bytes: float
    to_bytes: float | None
    algorithm: str


@dataclass(frozen=True, slots=True)
class Crossover:
    """The crossovers of one primitive on one group, and who wins at which size among all that can run."""

    fabric: str
    primitive: Primitive
    ranks: int
    mode: str
    model: Model
    pairs: tuple[Pair, ...]
    winners: tuple[Winner, ...]
    balance: dict[str, float]


@dataclass(frozen=True, slots=True)
class Rung:
    """One row of a ladder: ideal beside realistic, and how far from the best of its primitive."""

    primitive: Primitive
    fabric: str
    algorithm: str
    ranks: int
    ideal: Row
    realistic: Row
    gap_ideal: float
    gap_realistic: float


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs by primitive, in the order of the definition."""

    name: str
    description: str
    bytes: float
    rows: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """One algorithm for one primitive in words, and priced where a fabric was given."""

    algorithm: str
    primitive: Primitive
    title: str
    formula: tuple[str, ...]
    text: str
    size_means: str
    runs_on: str
    requires: tuple[str, ...]
    status: Status
    shipped_by: tuple[str, ...]
    source: str
    note: str
    row: Row | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every use of one algorithm name; ``fabric``, ``ranks`` and ``bytes`` when numbers are put in."""

    algorithm: str
    entries: tuple[Explained, ...]
    fabric: str = ""
    ranks: int = 0
    bytes: float = 0.0
    mode: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A value of two documents that moved; ``relative`` is new/old - 1 for numbers."""

    where: str
    old: Any
    new: Any
    relative: float | None


@dataclass(frozen=True, slots=True)
class Diff:
    """What moved between two documents of the same command, past ``rtol``."""

    rtol: float
    changed: tuple[Change, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Whether anything did."""
        return bool(self.changed or self.added or self.removed)
