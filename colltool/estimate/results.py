"""What pricing returns: frozen records in SI units; numbers are arrays if the sizes were an array.

:class:`Price` and :class:`PriceList` are the results of ``price``, :class:`Breakdown` of ``breakdown``,
:class:`Crossover` of ``crossover`` and :class:`Ladder` of ``ladder``, each with the records that it
consists of above it. :mod:`colltool.estimate.algorithm_estimate` has a price's rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Number, Primitive
from colltool.base.result import Result, result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.leading import may_lead
from colltool.estimate.placement import GroupPlacement

if TYPE_CHECKING:
    from colltool.estimate.segments import BestSegments
    from colltool.libraries.nccl.model import NcclEstimate

Overrides = tuple[tuple[str, str], ...]
"""Keys and values of ``--set``, as typed."""


class Infeasible(NamedTuple):
    """An algorithm that has no price here, and why."""

    algorithm: str
    reason: str


class LibraryChoice(NamedTuple):
    """The library that a price is for, and its own choice for the call if its cost model is known.

    Args:
        version: of the cost model's data; empty without these.
        pick: the algorithm and protocol that its cost model takes to be the fastest; None if unknown.
        ways: every algorithm and protocol in the cost model's order, with the reason if one cannot
            run.
        runs: our price of the pick; None if no schedule of ours corresponds to it.
        reason: why there is no pick; empty for libraries without a cost model here.
    """

    name: str
    version: str = ""
    pick: NcclEstimate | None = None
    ways: tuple[NcclEstimate, ...] = ()
    runs: AlgorithmEstimate | None = None
    reason: str = ""


class Accuracy(NamedTuple):
    """How far off similar prices were, over measured rows that no fit had seen.

    Args:
        median: of |price / measured - 1|.
        p90: the 90th percentile of the same; None if unknown.
        rows: how many rows these are of.
        like: what these are; ``no measured row`` or ``datasheet`` where there are none and the error
            is that of others.
    """

    median: float
    p90: float | None
    rows: int
    like: str


class AssumptionsUsed(NamedTuple):
    """The readings in force, and the usual ones for the primitive."""

    readings: ModelOptions
    usual: ModelOptions

    def echo(self) -> dict[str, Any]:
        """The options that JSON repeats, with their values."""
        return self.readings.echo()

    def unusual(self) -> dict[str, Any]:
        """The options whose values differ from the usual ones."""
        return self.readings.unlike(self.usual)


GainKind = Literal["bandwidth", "alpha", "launch_overhead"]


class Gain(NamedTuple):
    """The time of a schedule when one kind of number is better by a factor of two.

    Args:
        kind: what was changed: a tier's bandwidth, its latencies, or launches.
        tier: whose; empty for launches.
        set: the same change as ``--set`` takes it, ``KEY=VALUE`` each.
        total_s: the seconds that the schedule then takes.
    """

    kind: GainKind
    tier: str
    set: tuple[str, ...]
    total_s: float


class Inert(NamedTuple):
    """A key that was set and does not move an answer, and why."""

    key: str
    reason: str


@result
class Price(Result):
    """Every algorithm for one primitive, group and size.

    Args:
        fabric: its name.
        bytes: M, or an array of sizes, of which every number of a row is then an array.
        mode: ``ideal`` without contention, else ``realistic``.
        results: first :attr:`leading`, the rows that may be called the fastest: the library's own
            pick where it is one of the rows, then the fastest first (for arrays in the registry's
            order). Then :attr:`others`, kind by kind from other libraries' to hypothetical ones,
            each kind in that order too.
        infeasible: the algorithms without a row; empty if algorithms were named.
        overrides: the values that were set.
        library: None if any may run.
        leads_on_one_port: title of the leader under ``ports="one"`` if it is another one (for
            arrays a tuple, one for each size); empty if algorithms were named.
        accuracy: of the first row; None for an ideal price and arrays.
        failed: plugins of the group ``colltool.algorithms`` that offered nothing usable, and why.
        asked: the algorithms that were named; empty for all.
        inert: values that were set and do not move the first row.
        as_filed_s: seconds of the first row without the values that were set; None if there are none.
        assumed: tiers and the media that their names or devices were taken for.
    """

    subject: ClassVar[str] = "price"
    fabric: str
    primitive: Primitive
    group: GroupPlacement
    bytes: Number
    mode: str
    model: AssumptionsUsed
    results: tuple[AlgorithmEstimate, ...]
    infeasible: tuple[Infeasible, ...]
    overrides: Overrides = ()
    library: LibraryChoice | None = None
    leads_on_one_port: str | tuple[str, ...] = ""
    accuracy: Accuracy | None = None
    failed: tuple[Infeasible, ...] = ()
    asked: tuple[str, ...] = ()
    inert: tuple[Inert, ...] = ()
    as_filed_s: float | None = None
    assumed: tuple[tuple[str, str], ...] = ()

    @property
    def ranks(self) -> int:
        return self.group.ranks

    @property
    def leading(self) -> tuple[AlgorithmEstimate, ...]:
        """The rows that may be called the fastest: what the user can run, or what was named."""
        return tuple(may_lead(self.results, self.asked))

    @property
    def others(self) -> tuple[AlgorithmEstimate, ...]:
        """The rows that may not: those of other libraries, references, idealised and hypothetical
        ones."""
        return tuple(estimate for estimate in self.results if not self.leads(estimate))

    def leads(self, estimate: AlgorithmEstimate) -> bool:
        """Whether a row of this price may be called the fastest; an equal one of another price does not
        count."""
        return any(estimate is leader for leader in self.leading)

    @property
    def runnable(self) -> tuple[AlgorithmEstimate, ...]:
        """The rows that the user can run."""
        return tuple(estimate for estimate in self.results if estimate.selectable)

    @property
    def shows_pick(self) -> bool:
        """Whether the first row is our price of what the library picks; the price must have a row."""
        runs = self.library.runs if self.library else None
        return runs is not None and runs is self.results[0]

    @property
    def fastest(self) -> AlgorithmEstimate:
        """The fastest row that may lead, whatever the library picks; :attr:`best` if none may.

        Raises:
            ColltoolError: the price is of an array of sizes.
        """
        # of an array the default raises, which is worked out in any case
        return min(self.leading, key=lambda row: float(row.total_s), default=self.best)

    @property
    def slower_pick(self) -> float | None:
        """Our price of the library's pick over that of the fastest row that the library can run: 1 if it
        picks that, else more. None without a price of the pick; one size only."""
        if self.library is None or self.library.runs is None:
            return None
        picked_s = float(self.library.runs.total_s)
        # a library cannot pick the user's own schedules
        runnable_s = [
            float(estimate.total_s) for estimate in self.runnable if estimate.status != "own"
        ]
        return picked_s / min([picked_s, *runnable_s])

    def top(self, count: int) -> Price:
        """Return the price with only the first ``count`` of the leading rows, or of the others if none may
        lead, in their order: the library's pick stays first, and of arrays these are not the fastest."""
        return replace(self, results=(self.leading or self.others)[:count])

    @property
    def best(self) -> AlgorithmEstimate:
        """What the library picks, where known, else the fastest row that may lead, else the first
        of the others.

        Raises:
            ColltoolError: the price is of an array of sizes.
        """
        if hasattr(self.bytes, "__len__"):
            raise ColltoolError(
                "an array of sizes has no single best",
                fix="compare total_s of the rows element by element",
            )
        return self.results[0]


@result
class PriceList(Result):
    """One :class:`Price` per size, in the order of the sizes.

    Args:
        winners_only: no sizes were named, so that each price has its first two rows alone.
        crossover: without sizes, which algorithm runs from which size; None where algorithms were
            named.
    """

    subject: ClassVar[str] = "price"
    prices: tuple[Price, ...]
    winners_only: bool = False
    crossover: Crossover | None = None

    def top(self, count: int) -> PriceList:
        """Return the list with :meth:`Price.top` of each price."""
        return replace(self, prices=tuple(price.top(count) for price in self.prices))


@result
class Breakdown(Result):
    """Where the time of one schedule goes.

    Args:
        price: of this schedule: its only row.
        baselines: flat algorithms to compare it with.
        segments: the best cut of what it pipelines.
        gains: what would make it faster, the largest first.
    """

    subject: ClassVar[str] = "breakdown"
    price: Price
    baselines: tuple[AlgorithmEstimate, ...]
    segments: tuple[BestSegments, ...] = ()
    gains: tuple[Gain, ...] = ()


class Crossing(NamedTuple):
    """A size at which one of two algorithms, by their titles, overtakes the other."""

    bytes: float
    faster_below: str
    faster_above: str


class AlgorithmPair(NamedTuple):
    """Two algorithms and every size at which one overtakes the other.

    Args:
        a, b: their titles, which crossings name them by.
        crossings: ascending by size; empty where one dominates.
        dominates: the title of the one that is faster at any size, of equal ones ``a``; None where
            they cross.
        approximations: sizes at which textbooks have them cross, by formula.
        a_spec, b_spec: as ``--algorithm`` takes them.
        a_name, b_name: as outputs lead with them.
    """

    a: str
    b: str
    crossings: tuple[Crossing, ...]
    dominates: str | None
    approximations: dict[str, float]
    a_spec: str = ""
    b_spec: str = ""
    a_name: str = ""
    b_name: str = ""

    def named(self, title: str | None) -> str | None:
        """The name that outputs lead with of one of the two, by its title; None for None, or another title."""
        return {self.a: self.a_name, self.b: self.b_name}.get(title or "")

    def spec(self, title: str | None) -> str | None:
        """How to type one of the two, by its title; None for None, or another title."""
        return {self.a: self.a_spec, self.b: self.b_spec}.get(title or "")


class Winner(NamedTuple):
    """The fastest algorithm in an interval of sizes."""

    from_bytes: float
    to_bytes: float | None  # None: without end
    algorithm: str  # its title; of a library's picks the name in its cost model
    protocol: str = ""  # empty where the fabric lists none
    spec: str = ""  # as ``--algorithm`` takes it; empty where no schedule of ours corresponds to it
    # n*, bytes, below which latency dominates; None if its price has no closed form
    balance: float | None = None
    name: str = ""  # what it goes by: the library's name, else ours


class PickCost(NamedTuple):
    """Where a library's choice costs most.

    Args:
        bytes: the size at which it does.
        factor: ``pick_s`` over ``fastest_s``.
        pick: the name of what it picks there, which takes ``pick_s``.
        fastest: the name of the fastest schedule that it has, which takes ``fastest_s``.
        close: the fastest is within the interval of the pick, so that either may be the faster.
    """

    bytes: float
    factor: float
    pick: str
    pick_s: float
    fastest: str
    fastest_s: float
    close: bool


@result
class Crossover(Result):
    """The crossovers of one primitive on one group.

    Args:
        fabric: its name.
        mode: as of :class:`Price`.
        pairs: the first of the compared algorithms with each of the others; empty if fewer than two
            are compared.
        winners: the fastest algorithm of each range of sizes, ascending: of those that were named,
            else of those that the user can run, or of the next best kind if there are none.
        balance: n*, bytes, of each compared algorithm by title, where it has one.
        overrides: the values that were set.
        library: its name; empty if any may run.
        library_leads: whether the library runs any of what may win; true if any may run.
        uneven: whether only some of the compared schedules include the library's measured times,
            and the library does not run them all.
        picks: the library's own choices, one for each range of sizes, ascending; empty where its
            cost model is not known.
        pick_cost: where they cost most, up to 16 GB; None where that is not known.
        asked: the algorithms that were named; empty for the usual ones.
    """

    subject: ClassVar[str] = "crossover"
    fabric: str
    primitive: Primitive
    group: GroupPlacement
    mode: str
    model: AssumptionsUsed
    pairs: tuple[AlgorithmPair, ...]
    winners: tuple[Winner, ...]
    balance: dict[str, float]
    overrides: Overrides = ()
    library: str = ""
    library_leads: bool = True
    uneven: bool = False
    picks: tuple[Winner, ...] = ()
    pick_cost: PickCost | None = None
    asked: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        return self.group.ranks


class Rung(NamedTuple):
    """One row of a ladder: a schedule without contention (ideal) and with it (realistic). A gap is its time
    over that of the fastest row of the same primitive and size."""

    primitive: Primitive
    fabric: str
    algorithm: str
    ranks: int
    ideal: AlgorithmEstimate
    realistic: AlgorithmEstimate
    gap_ideal: float = 1.0
    gap_realistic: float = 1.0


@result
class Ladder(Result):
    """Prices to follow by hand, one a row.

    Args:
        name, description: of the ladder's file.
        bytes: M of the rungs that state no size of their own.
        readings: those in force for all rows.
        skipped: rungs that the readings rule out, and why.
    """

    subject: ClassVar[str] = "ladder"
    name: str
    description: str
    bytes: float
    rows: tuple[Rung, ...]
    readings: ModelOptions = USUAL
    skipped: tuple[Infeasible, ...] = ()
