"""What a question returns: frozen records in SI units. Numbers are floats, or arrays where the sizes were an array."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from colltool.base.cost import Number
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.group_spec import GroupPlacement

if TYPE_CHECKING:
    from colltool.nccl.model import NcclEstimate

Overrides = tuple[tuple[str, str], ...]
"""Keys and values of ``--set``, as somebody wrote them."""


class Infeasible(NamedTuple):
    """An algorithm that cannot run here, and why."""

    algorithm: str
    reason: str


class LibraryChoice(NamedTuple):
    """The library that a price is for, and its own choice for the call where its cost model is known.

    Args:
        name: of the library, as ``--library`` takes it.
        version: of the data that its model is computed from.
        pick: what it takes to be fastest, with its estimate; None where ``reason`` says why.
        ways: every combination of algorithm and protocol in its order, with the reason where one cannot run.
        runs: our price of what is picked; None where no schedule of ours is that one.
        reason: why there is no pick; empty also for a library without a cost model here.
    """

    name: str
    version: str = ""
    pick: NcclEstimate | None = None
    ways: tuple[NcclEstimate, ...] = ()
    runs: AlgorithmEstimate | None = None
    reason: str = ""


class AssumptionsUsed(NamedTuple):
    """The readings in force of a price, beside what is usual for its primitive."""

    readings: Readings
    usual: Readings

    def echo(self) -> dict[str, Any]:
        """As machine output repeats them."""
        return self.readings.echo()

    def unusual(self) -> dict[str, Any]:
        """Those that people are told of."""
        return self.readings.unlike(self.usual)


@dataclass(frozen=True, eq=False, repr=False)
class Price(Result):
    """Every algorithm for one primitive, group and size.

    ``results``: those that somebody can run, fastest first (in registry order for arrays of sizes); then in the same order the
    references, what is idealised and what is hypothetical, none of which is ever called the fastest. ``library``: whose schedules
    are ranked, with its own choice; those of others follow the ranking. None where any may run. ``leads_on_one_port``: what leads
    under ``ports="one"`` where that is another schedule, else empty; of an array of sizes a tuple, one for each. Empty where
    algorithms are named.
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

    @property
    def ranks(self) -> int:
        """N."""
        return self.group.ranks

    @property
    def leading(self) -> tuple[AlgorithmEstimate, ...]:
        """The rows that may be called the fastest."""
        return tuple(row for row in self.results if row.selectable)

    @property
    def others(self) -> tuple[AlgorithmEstimate, ...]:
        """Rows of other libraries, references, idealised and hypothetical rows."""
        return tuple(row for row in self.results if not row.selectable)

    @property
    def slower_pick(self) -> float | None:
        """Our price of what the library picks in units of the fastest that it has; None without a price of the pick."""
        if self.library is None or self.library.runs is None:
            return None
        picked = float(self.library.runs.total_s)
        return picked / min([picked, *(float(row.total_s) for row in self.leading)])

    def top(self, count: int) -> Price:
        """Only the fastest ``count`` of those that may lead; where none may, of the others."""
        return replace(self, results=(self.leading or self.others)[:count])

    @property
    def best(self) -> AlgorithmEstimate:
        """The fastest row of a single size, among those that somebody can run; without any the first of the others.

        Raises:
            ColltoolError: an array of sizes has no single best.
        """
        if hasattr(self.bytes, "__len__"):
            raise ColltoolError("an array of sizes has no single best", fix="compare total_s of the rows element by element")
        return self.results[0]


@dataclass(frozen=True, eq=False, repr=False)
class PriceList(Result):
    """One :class:`Price` per size, smallest question first as asked."""

    subject: ClassVar[str] = "price"
    prices: tuple[Price, ...]
    winners_only: bool = False

    def top(self, count: int) -> PriceList:
        """Each price with the fastest ``count`` of those that may lead."""
        return replace(self, prices=tuple(one.top(count) for one in self.prices))


@dataclass(frozen=True, eq=False, repr=False)
class Breakdown(Result):
    """Where the time of one schedule goes, beside the flat baselines."""

    subject: ClassVar[str] = "breakdown"
    price: Price
    baselines: tuple[AlgorithmEstimate, ...]


class Crossing(NamedTuple):
    """A size at which the faster of two algorithms changes."""

    bytes: float
    faster_below: str
    faster_above: str


class AlgorithmPair(NamedTuple):
    """Two algorithms and every size at which one takes over from the other; of each the text that ``--algorithm`` takes."""

    a: str
    b: str
    crossings: tuple[Crossing, ...]
    dominates: str | None
    approximations: dict[str, float]
    a_spec: str = ""
    b_spec: str = ""

    def spec(self, title: str | None) -> str | None:
        """The text of whichever of the two is so called."""
        return {self.a: self.a_spec, self.b: self.b_spec}.get(title or "")


class Winner(NamedTuple):
    """An interval of sizes and the algorithm that is fastest in it; ``to_bytes`` None means without end.

    ``balance`` is its n*, bytes: below it latency takes most of its time; None where its price has no closed form.
    """

    from_bytes: float
    to_bytes: float | None
    algorithm: str
    protocol: str = ""
    spec: str = ""
    balance: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Crossover(Result):
    """The crossovers of one primitive on one group, and who wins at which size among what the library runs; all without one.

    ``library_leads``: whether it runs any of them. ``uneven``: of the pairs some schedules pay what it was measured to take,
    and others, which it does not run, do not. ``picks``: what the library itself takes at which size, by its own cost model
    where that is known.
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

    @property
    def ranks(self) -> int:
        """N."""
        return self.group.ranks


class Rung(NamedTuple):
    """One row of a ladder: ideal beside realistic, and how far from the best of its primitive."""

    primitive: Primitive
    fabric: str
    algorithm: str
    ranks: int
    ideal: AlgorithmEstimate
    realistic: AlgorithmEstimate
    gap_ideal: float
    gap_realistic: float


@dataclass(frozen=True, eq=False, repr=False)
class Ladder(Result):
    """Rungs by primitive, in the order of the definition."""

    subject: ClassVar[str] = "ladder"
    name: str
    description: str
    bytes: float
    rows: tuple[Rung, ...]
    readings: Readings = USUAL
