"""A schedule's cost before any size is known: one multiply-add gives a price, and its curve gives
exact crossovers.

A :class:`CostModel` is made of :class:`CostTerm`, one for each run of messages that pay the same α and
bandwidth. :meth:`CostModel.at` prices a size with all phases, :meth:`CostModel.seconds` the time alone.

Whatever has more than one segment count to choose from (``pipelining`` of
:class:`~colltool.estimate.assumptions.ModelOptions` is ``optimal``) differs in form from size to size:
such prices are worked out phase by phase, all others by one :class:`Curve`.

A curve is a + b·M + c·sqrt(M) seconds: a is all α, b and c are the bytes' time. Two are kept of a
model: with each part's whole bandwidth, and with the share of it that the
library is known to reach (:attr:`CostTerm.reached`). Their difference is the *shortfall*.

A price has four layers: 1 wires, 2 contention (η), 3 library and 4 measured machine. A model is of the
first three, its ``machine`` is the fourth; :attr:`CostModel.below` has those of wires alone and of wires
with contention. ``Number`` is a float or an array of floats, of sizes or of fabrics.

Three words lie near each other: ``parts`` are the terms of a model, which have no size; ``phases`` (with
``composed``) says whether they run in sequence or stream; :class:`PhaseCost` is a term at a size, a row of
the price's breakdown.
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

WHOLE_BANDWIDTH = 1.0
"""The share of a bandwidth that a library reaches where no measurement says. It is compared by identity,
as a measured share may be 1 as well, and is no None, since times are divided by it."""


class CostTerm(NamedTuple):
    """A link cost with what it belongs to.

    Args:
        primitive, algorithm: of the phase that the messages are part of.
        ranks: that take part in the phase.
        payload: bytes that reach the phase, in units of the collective's M.
        fill: F, the segments that pass the busiest port while a pipeline fills; None if its
            messages are not cut into segments.
        label: tells several terms of one algorithm apart; empty for a single one.
        route: None if nothing is sent, as by a local copy.
        reached: share of the bandwidth that the library is known to reach, in (0, 1]; an array for
            an array of fabrics.
    """

    primitive: Primitive
    algorithm: str
    ranks: int
    payload: float
    cost: LinkCost
    fill: float | None = None
    label: str = ""
    route: Route | None = None
    reached: Any = WHOLE_BANDWIDTH

    @property
    def pipeline(self) -> Pipeline | None:
        """Its pipeline, of depth L = n_alpha and load b = n_beta of the link cost; None if its messages
        are not cut into segments."""
        if self.fill is None:
            return None
        return Pipeline(self.cost.n_alpha, self.fill, self.cost.n_beta)

    def counts(self, payload: Number, readings: ModelOptions) -> tuple[Number, Number]:
        """n_α and n_β for a payload in bytes, n_β in units of it; of a pipeline as the readings cut
        it."""
        cost = self.cost
        pipeline = self.pipeline
        if pipeline is None:
            return cost.n_alpha, cost.n_beta
        return pipeline.counted(payload, cost.alpha_s, cost.effective_Bps, readings.pipelining)

    def phase(self, size: Number, readings: ModelOptions, ranks: int) -> PhaseCost:
        """The term as a phase of a collective of ``ranks`` (all of them: its energy is theirs), at a
        size or at many, with the whole bandwidth."""
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
        """Seconds over M, at the whole bandwidth.

        With optimal pipelining (L-1)·α + b·M/BW + 2·sqrt((F-1)·α·b·M/BW), the minimum over P > 0 of
        the time of L steps, fill F and load b (:attr:`pipeline`) in P segments.
        """
        cost = self.cost
        pipeline = self.pipeline
        per_byte_s = cost.n_beta * self.payload / cost.effective_Bps
        if pipeline is None or readings.pipelining == "asymptotic":
            return Curve(cost.n_alpha * cost.alpha_s, per_byte_s)
        if readings.pipelining == "optimal":
            per_sqrt_byte_s = 2 * ((pipeline.fill - 1) * cost.alpha_s * per_byte_s) ** 0.5
            return Curve((cost.n_alpha - 1) * cost.alpha_s, per_byte_s, per_sqrt_byte_s)
        # a number of segments, which loads the port with n_β instead of b
        n_alpha, n_beta = map(float, pipeline.counts(readings.pipelining))
        return Curve(n_alpha * cost.alpha_s, per_byte_s * n_beta / cost.n_beta)


@dataclass(frozen=True, eq=False)
class CostModel:
    """A schedule ready to be priced at any size.

    Args:
        variant: readings of a composition other than its own, such as ``pipelined``.
        parts: the terms, which :meth:`at` turns into the phases of a price.
        overhead_s: the launch, seconds a call.
        phases: how the parts follow each other: ``sequential`` sums all; ``pipelined`` sums α, and
            of the bytes takes those of the tier that needs longest for them.
        status: whether anybody can run it, of :data:`colltool.algorithms.registry.STATUSES`.
        shipped_by: the libraries that run it.
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
        """0 if the user can run it; larger for what others run or nobody does."""
        return rank_class(self.status, self.not_selected_reason)

    @cached_property
    def title(self) -> str:
        """Our name, with the choices of a composition: ``hierarchical (ring / ring)``."""
        return titled(self.choice, self.variant)

    @property
    def name(self) -> str:
        """The library's name where it has one, else ours."""
        return self.library_name or self.title

    def at(self, size: Number) -> AlgorithmEstimate:
        """The price at a size in bytes, or at each of an array.

        What takes long and is seldom read is left to the estimate's ``late_`` fields, as functions
        that :class:`AlgorithmEstimate` calls when a caller reads the number; its docstring says what
        each holds. The total is the sum of ``late_steps`` (α), ``late_moved`` (bytes),
        ``late_shortfall``, ``late_software`` and ``late_overhead``, times ``late_factor``.
        """
        # The fields are set at once: a frozen dataclass sets them one by one, which takes longer
        # than all the rest. Those left out, such as late_total, have the defaults of the class.
        estimate = object.__new__(AlgorithmEstimate)
        values = vars(estimate)
        values.update(self._fixed_fields)
        values["bytes"] = size
        values["late_phases"] = partial(self._phase_costs, size)
        values["notes"] = tuple(map(localize, self.notes))
        if self.below is not None:
            values["late_below"] = partial(self._below_at, size)
        if self.machine is not None:
            values["late_factor"] = partial(self.machine, size)
        software_time = self.software_time
        if software_time is not NO_SOFTWARE_TIME:
            values["late_software"] = partial(software_time.at, size)
            values["notes"] += software_time.notes(size)
        values.update(self._fields_at(size))
        return estimate

    def _fields_at(self, size: Number) -> dict[str, Any]:
        """The counts, α and bytes of a price: fields of AlgorithmEstimate by name.

        A single size is a float; anything else is an array.
        """
        if self.readings.pipelining == "optimal":
            phases = self._phase_costs(size)
            n_alpha, n_beta = self._counts(size)
            return {
                "late_phases": Constant(phases),
                "late_n_alpha": n_alpha,
                "late_n_beta": n_beta,
                "late_steps": reduce(add, (phase.alpha_s for phase in phases)),
            } | self._byte_fields([phase.bandwidth_s for phase in phases])
        alpha_s, rates, (n_alpha, n_beta) = self._alphas_and_rates
        counted: dict[str, Any] = {
            "late_n_alpha": n_alpha,
            "late_n_beta": n_beta,
            "late_steps": alpha_s,
        }
        if isinstance(size, float):
            return counted | self._byte_fields(
                [per_byte_s * _scaled(size, payload) for per_byte_s, payload in rates]
            )
        # one multiply-add for the whole array, and that only when a caller reads it
        whole = self._whole_curve
        reached = self._reached_curve
        counted |= {"late_steps": whole.a, "late_moved": partial(_seconds_of_bytes, whole, size)}
        if whole is not reached:
            shortfall = Curve(0.0, reached.b - whole.b, reached.c - whole.c)
            counted["late_shortfall"] = partial(_seconds_of_bytes, shortfall, size)
        return counted

    def _byte_fields(self, part_s: Sequence[Number]) -> dict[str, LateNumber]:
        """The fields of the bytes and of the shortfall, from the seconds of each part's bytes at its
        whole bandwidth."""
        moved_s = self._bytes_s(part_s)
        if not self._falls_short:
            return {"late_moved": moved_s}
        reached_s = [
            seconds / part.reached for seconds, part in zip(part_s, self.parts, strict=True)
        ]
        return {"late_moved": moved_s, "late_shortfall": self._bytes_s(reached_s) - moved_s}

    @cached_property
    def _below(self) -> tuple[CostModel, CostModel]:
        """The same schedule on wires alone, and on wires with contention."""
        # asked only where there is one
        assert self.below is not None
        return self.below()

    def _below_at(self, size: Number) -> tuple[AlgorithmEstimate, AlgorithmEstimate]:
        """The prices on wires alone and on wires with contention."""
        wires, contended = self._below
        return wires.at(size), contended.at(size)

    @cached_property
    def _fixed_fields(self) -> dict[str, Any]:
        """The fields of AlgorithmEstimate that do not depend on the size, by name; copied into every
        price by :meth:`at`."""
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
    def _alphas_and_rates(
        self,
    ) -> tuple[Number, list[tuple[Number, float]], tuple[Number | None, Number | None]]:
        """Seconds of all α; seconds per byte and payload (in units of M) of each part; the counts
        (n_α, n_β). Not for optimal pipelining, where all of these depend on the size."""
        alphas_s: list[Number] = []
        rates: list[tuple[Number, float]] = []
        # any size has the same counts
        for part in self.parts:
            n_alpha, n_beta = part.counts(0.0, self.readings)
            alphas_s.append(n_alpha * part.cost.alpha_s)
            rates.append((n_beta / part.cost.effective_Bps, part.payload))
        return reduce(add, alphas_s), rates, self._counts(0.0)

    @cached_property
    def curve(self) -> Curve:
        """The price over M, launch included, without :attr:`software_time` and the machine's
        factor."""
        reached = self._reached_curve
        return Curve(self.overhead_s + reached.a, reached.b, reached.c)

    @cached_property
    def pieces(self) -> Pieces:
        """The price over M with :attr:`software_time`: (size, curve) for each size in bytes from which
        another curve holds, ascending."""
        return tuple((start, self.curve.plus(term)) for start, term in self.software_time.pieces())

    @property
    def measured(self) -> bool:
        """Whether the library's measured efficiency or times are part of the price."""
        return self._falls_short or self.software_time is not NO_SOFTWARE_TIME

    @property
    def balance(self) -> float | None:
        """n* of the whole price, bytes (:attr:`Curve.balance`). None if its curve changes with
        size."""
        return self.pieces[0][1].balance if len(self.pieces) == 1 else None

    def seconds(self, size: Number) -> Any:
        """Seconds at a size by wires, contention and library (layers 1 to 3), by the curve where
        that is exact. The machine's factor, alike for all schedules of a group, changes no order."""
        if self.readings.pipelining == "optimal":
            # segments are whole numbers, which differ between sizes: no curve is exact
            return self.at(size).modelled_s
        seconds = self.curve.at(size)
        if self.software_time is NO_SOFTWARE_TIME:
            return seconds
        return seconds + self.software_time.at(size)

    @cached_property
    def _falls_short(self) -> bool:
        """Whether a measurement says what share of a part's bandwidth the library reaches."""
        return any(part.reached is not WHOLE_BANDWIDTH for part in self.parts)

    @cached_property
    def _whole_curve(self) -> Curve:
        """Seconds over M at each part's whole bandwidth, without launch and software time."""
        return self._summed_curve([WHOLE_BANDWIDTH for _ in self.parts])

    @cached_property
    def _reached_curve(self) -> Curve:
        """The same at the share of each part's bandwidth that the library reaches; the same object
        where it reaches all."""
        if not self._falls_short:
            return self._whole_curve
        return self._summed_curve([part.reached for part in self.parts])

    def _summed_curve(self, shares: Sequence[Any]) -> Curve:
        """The time of all parts over M as one curve, each with a share of its bandwidth."""
        alphas_s = 0.0
        bytes_of_tier: dict[str, Curve] = {}
        for part, share in zip(self.parts, shares, strict=True):
            curve = part.curve(self.readings)
            alphas_s += curve.a
            moved = Curve(0.0, curve.b / share, curve.c / share)
            tier = part.cost.tier
            bytes_of_tier[tier] = bytes_of_tier.get(tier, Curve(0.0, 0.0)).plus(moved)
        curves = list(bytes_of_tier.values())
        if self.phases == "pipelined":
            # streamed phases overlap: only the bytes of the busiest tier count
            curves = [pick(curves, [curve.b for curve in curves], most=True)]
        return reduce(Curve.plus, curves, Curve(alphas_s, 0.0))

    def _bytes_s(self, part_s: Sequence[Number]) -> Number:
        """The time of the bytes from those of each part: their sum, or that of the busiest tier
        where phases stream."""
        if self.phases == "sequential":
            return reduce(add, part_s)
        tier_s: dict[str, Number] = defaultdict(float)
        for seconds, part in zip(part_s, self.parts, strict=True):
            tier_s[part.cost.tier] += seconds
        return reduce(largest, tier_s.values())

    def _phase_costs(self, size: Number) -> tuple[PhaseCost, ...]:
        """The phases of a price, in order of the parts."""
        return tuple(part.phase(size, self.readings, self.ranks) for part in self.parts)

    def _counts(self, size: Number) -> tuple[Number | None, Number | None]:
        """Total (n_α, n_β), the latter in units of M; (None, None) if parts lie on several tiers or
        differ in α or bandwidth."""
        sent = [part for part in self.parts if part.route is not None]
        if self.composed or not all(_same_rates(part.cost, sent[0].cost) for part in sent):
            return None, None
        n_alphas: list[Number] = []
        n_betas: list[Number] = []
        for part in sent:
            n_alpha, n_beta = part.counts(_scaled(size, part.payload), self.readings)
            n_alphas.append(n_alpha)
            n_betas.append(_scaled(n_beta, part.payload))
        return reduce(add, n_alphas), reduce(add, n_betas)


def _same_rates(cost: LinkCost, other: LinkCost) -> bool:
    """Whether two runs have the same α and bandwidth, so that their counts add up."""
    return same(cost.alpha_s, other.alpha_s) and same(cost.effective_Bps, other.effective_Bps)


def _seconds_of_bytes(curve: Curve, size: Number) -> Number:
    """What a curve's bytes take at a size: all but its constant term, the α."""
    if anywhere(curve.c != 0):
        return curve.b * size + curve.c * size**0.5
    return curve.b * size


def _scaled(number: Number, factor: float) -> Number:
    """A number times a factor; arrays are not copied for a factor of 1."""
    return number if factor == 1 else number * factor
