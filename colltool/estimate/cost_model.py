"""A schedule's cost before any size is known: one multiply-add gives a price, and its curve gives
exact crossovers.

A :class:`CostModel` is made of :class:`CostTerm`, one for each run of messages that pay the same α and
bandwidth. :meth:`CostModel.at` prices a size with all phases, :meth:`CostModel.seconds` the time alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, NamedTuple

from colltool.algorithms.libraries import NotRun
from colltool.algorithms.registry import Choice, Status, rank_class
from colltool.base.arrays import anywhere, largest, pick
from colltool.base.errors import localize
from colltool.base.primitives import (
    Number,
    Pipeline,
    Primitive,
    Route,
    busbw_factor,
    energy_J,
    split_seconds,
)
from colltool.base.result import same
from colltool.estimate.algorithm_estimate import (
    NO_SECONDS,
    NO_SOFTWARE_TIME,
    AlgorithmEstimate,
    Constant,
    LateNumber,
    PhaseCost,
    titled,
)
from colltool.estimate.assumptions import ModelOptions, Phases
from colltool.estimate.cut_bound import CutBound
from colltool.estimate.link_cost import LinkCost
from colltool.estimate.software_time import Curve, Pieces, SoftwareTime

ALL_OF_IT = 1.0
"""Sentinel for the default share of a bandwidth (compared by identity)."""


class CostTerm(NamedTuple):
    """A link cost with what it belongs to; ``payload`` in units of the collective's M, ``route``
    None if nothing is sent.

    ``fill``: F of a pipeline, None if not pipelined. ``reached``: share of the bandwidth that the
    library is known to reach.
    """

    primitive: Primitive
    algorithm: str
    ranks: int
    payload: float
    cost: LinkCost
    fill: float | None = None
    label: str = ""
    route: Route | None = None
    reached: Any = ALL_OF_IT

    @property
    def pipeline(self) -> Pipeline | None:
        """Its pipeline; None if its messages are not cut into segments."""
        if self.fill is None:
            return None
        return Pipeline(self.cost.n_alpha, self.fill, self.cost.n_beta)

    def counts(self, payload: Number, readings: ModelOptions) -> tuple[Number, Number]:
        """n_α and n_β for a payload in bytes."""
        cost = self.cost
        pipeline = self.pipeline
        if pipeline is None:
            return cost.n_alpha, cost.n_beta
        return pipeline.counted(payload, cost.alpha_s, cost.effective_Bps, readings.pipelining)

    def phase(self, size: Number, readings: ModelOptions, ranks: int) -> PhaseCost:
        """The term as a phase of the price, at a size or at many."""
        cost = self.cost
        payload = _scaled(size, self.payload)
        n_alpha, n_beta = self.counts(payload, readings)
        alpha, bandwidth = split_seconds(n_alpha, n_beta, payload, cost.alpha_s, cost.effective_Bps)
        return PhaseCost(
            tier=cost.tier,
            level=cost.level,
            primitive=self.primitive,
            algorithm=self.algorithm,
            ranks=self.ranks,
            bytes=payload,
            n_alpha=n_alpha,
            n_beta=n_beta,
            alpha_s=alpha,
            bandwidth_s=bandwidth,
            eta_alpha=cost.eta_alpha,
            eta_beta=cost.eta_beta,
            bandwidth_Bps=cost.bandwidth_Bps,
            share=cost.share,
            label=self.label,
            energy_J=None if cost.energy is None else energy_J(ranks, n_beta, payload, cost.energy),
        )

    def curve(self, readings: ModelOptions) -> Curve:
        """Seconds over M; with optimal pipelining (L-1)·α + b·M/BW + 2·sqrt((F-1)·α·b·M/BW), the
        minimum of t(P) over P > 0."""
        cost = self.cost
        pipeline = self.pipeline
        slope = cost.n_beta * self.payload / cost.effective_Bps
        if pipeline is None or readings.pipelining == "asymptotic":
            return Curve(cost.n_alpha * cost.alpha_s, slope)
        if readings.pipelining == "optimal":
            filling = 2 * ((pipeline.fill - 1) * cost.alpha_s * slope) ** 0.5
            return Curve((cost.n_alpha - 1) * cost.alpha_s, slope, filling)
        n_alpha, n_beta = map(float, pipeline.counts(readings.pipelining))
        return Curve(n_alpha * cost.alpha_s, slope * n_beta / cost.n_beta)


@dataclass(frozen=True, eq=False)
class CostModel:
    """A schedule ready to be priced at any size.

    Args:
        variant: readings of a composition other than its own, such as ``pipelined``.
        phases: ``sequential`` sums all parts; ``pipelined`` sums α and takes the tier with the
            largest bandwidth term.
        composed: parts lie on several tiers.
        protocol: empty if the fabric lists none.
        not_selected_reason: why the user's library does not run it.
        library_name: what the user's library calls it; empty where it has no name for it.
        software_time: the library's measured time besides wires and latencies.
        cut_bound: None if it runs on other links than the group's.
        below: makes the same schedule on wires alone and on wires with contention; None for those
            schedules themselves.
        machine: exp(d) at a size (layer 4); None for 1.
    """

    primitive: Primitive
    ranks: int
    parts: tuple[CostTerm, ...]
    readings: ModelOptions
    choice: Choice
    variant: tuple[str, ...] = ()
    overhead_s: float = 0.0
    phases: Phases = "sequential"
    composed: bool = False
    status: Status = "reference"
    shipped_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    protocol: str = ""
    not_selected_reason: NotRun | None = None
    library_name: str = ""
    software_time: SoftwareTime = NO_SOFTWARE_TIME
    cut_bound: CutBound | None = None
    below: Callable[[], tuple[CostModel, CostModel]] | None = None
    machine: Callable[[Number], Number] | None = None

    @property
    def rank_class(self) -> int:
        return rank_class(self.status, self.not_selected_reason)

    @cached_property
    def title(self) -> str:
        return titled(self.choice, self.variant)

    @property
    def name(self) -> str:
        """The library's name where it has one, else ours."""
        return self.library_name or self.title

    def at(self, size: Number) -> AlgorithmEstimate:
        """The price at a size in bytes, or at each of an array."""
        # a frozen dataclass sets its fields one by one: longer than the rest
        made = object.__new__(AlgorithmEstimate)
        values = vars(made)
        values.update(self._same_at_any_size)
        values["bytes"] = size
        values["late_phases"] = partial(self._phases, size)
        values["notes"] = tuple(map(localize, self.notes))
        if self.below is not None:
            values["late_below"] = partial(self._below_at, size)
        if self.machine is not None:
            values["late_factor"] = partial(self.machine, size)
        term = self.software_time
        if term is not NO_SOFTWARE_TIME:
            values["late_software"] = partial(term.at, size)
            values["notes"] += term.notes(size)
        values.update(self._counted_at(size))
        return made

    def _counted_at(self, size: Number) -> dict[str, Any]:
        """The fields of a price that depend on the size and on how it is cut into segments."""
        if self.readings.pipelining == "optimal":
            phases = self._phases(size)
            n_alpha, n_beta = self._counts(size)
            return {
                "late_phases": Constant(phases),
                "late_n_alpha": n_alpha,
                "late_n_beta": n_beta,
                "late_steps": reduce(add, (phase.alpha_s for phase in phases)),
            } | self._bytes_of([phase.bandwidth_s for phase in phases])
        alpha_s, rates, (n_alpha, n_beta) = self._of_any_size
        same: dict[str, Any] = {
            "late_n_alpha": n_alpha,
            "late_n_beta": n_beta,
            "late_steps": alpha_s,
        }
        if isinstance(size, float):
            return same | self._bytes_of([rate * _scaled(size, share) for rate, share in rates])
        # one multiply-add for the whole array, and that only when a caller reads it
        line = self._line
        slowed = self._slowed
        same |= {"late_steps": line.a, "late_moved": partial(_moved, line, size)}
        if line is not slowed:
            rest = Curve(0.0, slowed.b - line.b, slowed.c - line.c)
            same["late_shortfall"] = partial(_moved, rest, size)
        return same

    def _bytes_of(self, took: Sequence[Number]) -> dict[str, LateNumber]:
        """Seconds of the bytes, from those of each part, and of what the library does not reach."""
        moved = self._bandwidth(took)
        if not self._falls_short:
            return {"late_moved": moved}
        slowed = [took_s / part.reached for took_s, part in zip(took, self.parts, strict=True)]
        return {"late_moved": moved, "late_shortfall": self._bandwidth(slowed) - moved}

    @cached_property
    def _below(self) -> tuple[CostModel, CostModel]:
        return (self, self) if self.below is None else self.below()

    def _below_at(self, size: Number) -> tuple[AlgorithmEstimate, AlgorithmEstimate]:
        wires, contended = self._below
        return wires.at(size), contended.at(size)

    @cached_property
    def _same_at_any_size(self) -> dict[str, Any]:
        """The fields of an estimate that do not depend on the size."""
        return {
            "choice": self.choice,
            "variant": self.variant,
            "late_overhead": self.overhead_s,
            "status": self.status,
            "shipped_by": self.shipped_by,
            "late_protocol": self.protocol,
            "not_selected_reason": self.not_selected_reason,
            "library_name": self.library_name,
            "cut_bound": self.cut_bound,
            "software_time": self.software_time,
            "busbw_factor": busbw_factor(self.primitive, self.ranks),
            # where neither measured times nor layers below stand behind the price
            "late_shortfall": NO_SECONDS,
            "late_software": NO_SECONDS,
            "late_below": None,
            "late_factor": None,
        }

    @cached_property
    def _of_any_size(
        self,
    ) -> tuple[Number, list[tuple[Number, float]], tuple[Number | None, Number | None]]:
        """α, seconds per byte and payload of each term, and the counts; not for optimal
        pipelining."""
        alphas: list[Number] = []
        rates: list[tuple[Number, float]] = []
        for part in self.parts:
            n_alpha, n_beta = part.counts(0.0, self.readings)
            alphas.append(n_alpha * part.cost.alpha_s)
            rates.append((n_beta / part.cost.effective_Bps, part.payload))
        return reduce(add, alphas), rates, self._counts(0.0)

    @cached_property
    def curve(self) -> Curve:
        """The price over M, without :attr:`software_time`."""
        line = self._slowed
        return Curve(self.overhead_s + line.a, line.b, line.c)

    @cached_property
    def pieces(self) -> Pieces:
        return tuple((start, self.curve.plus(term)) for start, term in self.software_time.pieces())

    @property
    def measured(self) -> bool:
        return self._falls_short or self.software_time is not NO_SOFTWARE_TIME

    @property
    def balance(self) -> float | None:
        """n* of the whole price, bytes (:attr:`Curve.balance`). None if its curve changes with
        size."""
        return self.pieces[0][1].balance if len(self.pieces) == 1 else None

    def seconds(self, size: Number) -> Any:
        """Layers 1 to 3, by the curve where that is exact; a machine's factor is alike for all ways
        of a group."""
        if self.readings.pipelining == "optimal":
            # the cut into segments differs between sizes: no curve is exact
            return self.at(size).modelled_s
        took = self.curve.at(size)
        if self.software_time is NO_SOFTWARE_TIME:
            return took
        return took + self.software_time.at(size)

    @cached_property
    def _falls_short(self) -> bool:
        return any(part.reached is not ALL_OF_IT for part in self.parts)

    @cached_property
    def _line(self) -> Curve:
        return self._lined(slowed=False)

    @cached_property
    def _slowed(self) -> Curve:
        return self._lined(slowed=True) if self._falls_short else self._line

    def _lined(self, *, slowed: bool) -> Curve:
        """The time over size as one curve; ``slowed``: with each part's share of its bandwidth."""
        a = 0.0
        by_tier: dict[str, Curve] = {}
        for part in self.parts:
            piece = part.curve(self.readings)
            share = part.reached if slowed else ALL_OF_IT
            a += piece.a
            moved = Curve(0.0, piece.b / share, piece.c / share)
            by_tier[part.cost.tier] = by_tier.get(part.cost.tier, Curve(0.0, 0.0)).plus(moved)
        slopes = list(by_tier.values())
        if self.phases == "pipelined":
            # streamed phases overlap: only the bytes of the busiest tier count
            slopes = [pick(slopes, [curve.b for curve in slopes], most=True)]
        return reduce(Curve.plus, slopes, Curve(a, 0.0))

    def _bandwidth(self, took: Sequence[Number]) -> Number:
        if self.phases == "sequential":
            return reduce(add, took)
        tiers: dict[str, Number] = defaultdict(float)
        for seconds, part in zip(took, self.parts, strict=True):
            tiers[part.cost.tier] += seconds
        return reduce(largest, tiers.values())

    def _phases(self, size: Number) -> tuple[PhaseCost, ...]:
        return tuple(part.phase(size, self.readings, self.ranks) for part in self.parts)

    def _counts(self, size: Number) -> tuple[Number | None, Number | None]:
        """Total (n_α, n_β), or None if parts differ in α or bandwidth."""
        sent = [part for part in self.parts if part.route is not None]
        if self.composed or not all(_same_rates(part.cost, sent[0].cost) for part in sent):
            return None, None
        alphas: list[Number] = []
        betas: list[Number] = []
        for part in sent:
            n_alpha, n_beta = part.counts(_scaled(size, part.payload), self.readings)
            alphas.append(n_alpha)
            betas.append(_scaled(n_beta, part.payload))
        return reduce(add, alphas), reduce(add, betas)


def _same_rates(cost: LinkCost, other: LinkCost) -> bool:
    return same(cost.alpha_s, other.alpha_s) and same(cost.effective_Bps, other.effective_Bps)


def _moved(line: Curve, size: Number) -> Number:
    if anywhere(line.c != 0):
        return line.b * size + line.c * size**0.5
    return line.b * size


def _scaled(number: Number, factor: float) -> Number:
    return number if factor == 1 else number * factor
