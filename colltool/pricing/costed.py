"""A costed schedule: its charges, before any size. Pricing it is one multiply-add; its curve gives exact crossovers."""

from collections import defaultdict
from functools import reduce
from math import sqrt
from operator import add
from typing import NamedTuple

from colltool.algorithms.registry import Algorithm, Group, Status
from colltool.cost import AllPeers, Chain, Number, Pair, Ring, Route, Trees, segmented, split_seconds
from colltool.pricing.charge import Charge, charge
from colltool.pricing.distances import Reach
from colltool.pricing.groups import Placed
from colltool.pricing.readings import Phases, Readings
from colltool.pricing.results import Phase, Row, titled
from colltool.primitives import Primitive, busbw_factor, own_share


class Part(NamedTuple):
    """One charge with what it belongs to. ``payload`` in units of the whole collective's M; no ``route``: nothing is sent."""

    primitive: Primitive
    algorithm: str
    ranks: int
    payload: float
    charge: Charge
    pipelined: bool
    label: str
    route: Route | None


class Curve(NamedTuple):
    """``t(M) = a + b·M + c·sqrt(M)``, seconds and bytes; exact but for the rounding of P to a whole number."""

    a: float
    b: float
    c: float = 0.0

    def at(self, size: float) -> float:
        """Seconds at one size."""
        return self.a + self.b * size + self.c * sqrt(size)


class Costed(NamedTuple):
    """A schedule ready to be priced at any size.

    Args:
        algorithm, detail: its name, and the choices of a composition.
        parts: its charges in order.
        phases: ``sequential`` adds all parts up; ``pipelined`` adds α and takes the largest bandwidth term of a tier.
        composed: whether parts stand on several tiers.
        protocol: under which it runs; empty where the fabric lists none.
    """

    primitive: Primitive
    ranks: int
    algorithm: str
    detail: str
    parts: tuple[Part, ...]
    overhead_s: float
    phases: Phases
    composed: bool
    status: Status
    shipped_by: tuple[str, ...]
    notes: tuple[str, ...]
    protocol: str = ""

    @property
    def title(self) -> str:
        """The name with its choices."""
        return titled(self.algorithm, self.detail)

    def at(self, size: Number, readings: Readings) -> Row:
        """The price at one size or an array of sizes, in bytes."""
        phases = tuple(_phase(part, size, readings) for part in self.parts)
        alpha = reduce(add, (phase.alpha_s for phase in phases))
        n_alpha, n_beta = self._counts(phases)
        return Row(
            self.algorithm,
            self.detail,
            n_alpha,
            n_beta,
            alpha,
            _bandwidth(phases, self.phases),
            self.overhead_s,
            self.status,
            self.shipped_by,
            self.notes,
            phases,
            size,
            busbw_factor(self.primitive, self.ranks),
            self.protocol,
        )

    def seconds(self, size: float, readings: Readings) -> float:
        """The total at one size; by the curve where that is exact."""
        if readings.pipelining == "optimal":
            return float(self.at(size, readings).total_s)
        return self.curve(readings).at(size)

    def _counts(self, phases: tuple[Phase, ...]) -> tuple[Number | None, Number | None]:
        """n_α and n_β of the whole, where every part pays the same α and bandwidth."""
        sent = [(phase, part) for phase, part in zip(phases, self.parts, strict=True) if part.route is not None]
        classes = {(part.charge.alpha_s, part.charge.effective_Bps) for _, part in sent}
        if self.composed or len(classes) > 1:
            return None, None
        n_alpha = reduce(add, (phase.n_alpha for phase, _ in sent))
        return n_alpha, reduce(add, (_scaled(phase.n_beta, part.payload) for phase, part in sent))

    def curve(self, readings: Readings) -> Curve:
        """The price as a curve over M."""
        pieces = [(part, _part_curve(part, readings)) for part in self.parts]
        by_tier: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for part, piece in pieces:
            by_tier[part.charge.tier][0] += piece.b
            by_tier[part.charge.tier][1] += piece.c
        slopes = list(by_tier.values())
        if self.phases == "pipelined":
            slopes = [max(slopes)]
        overhead = self.overhead_s
        return Curve(overhead + sum(p.a for _, p in pieces), sum(b for b, _ in slopes), sum(c for _, c in slopes))


def parts_of(row: Algorithm, group: Group, reach: Reach, readings: Readings, payload: float = 1.0) -> tuple[Part, ...]:
    """The parts of one registered algorithm on one reach, its payload a fraction of M."""
    return tuple(
        Part(
            terms.primitive or row.primitive,
            row.name,
            terms.ranks or group.ranks,
            payload * terms.payload,
            one,
            terms.pipelined,
            terms.label,
            terms.route,
        )
        for terms in row.schedule(group)
        for one in charge(terms, reach, readings)
    )


def cost_flat(row: Algorithm, group: Group, reach: Reach, readings: Readings, placed: Placed | None = None) -> Costed:
    """The costs of a registered algorithm that runs on the whole group at once; without ``placed``, of its messages alone."""
    parts = parts_of(row, group, reach, readings)
    status, notes = row_status(row, group), row_notes(row, group)
    notes += wire_notes(group, parts) + share_notes(parts)
    kept = own_part(placed, row.primitive, row.name) if placed else ()
    overhead, protocol = (placed.overhead_s, placed.protocol) if placed else (0.0, "")
    return Costed(
        row.primitive,
        group.ranks,
        row.name,
        "",
        parts + kept,
        overhead,
        "sequential",
        False,
        status,
        row.shipped_by,
        tuple(notes),
        protocol,
    )


def own_part(placed: Placed, primitive: Primitive, algorithm: str) -> tuple[Part, ...]:
    """The share of M that a rank keeps, copied by itself: no messages, but time where a protocol gives it a rate."""
    payload, rate = own_share(primitive, placed.ranks), placed.local_copy_Bps
    if rate is None or not payload:
        return ()
    tier = placed.spans[-1].tier.name
    charge = Charge(tier, tier, 0, 1, 0.0, 1.0, rate, 1.0)
    return (Part(primitive, algorithm, placed.ranks, payload, charge, False, "own share", None),)


def _two_ports(row: Algorithm, group: Group) -> bool:
    """Whether the double binary tree is read as on a rank with two ports."""
    return row.name == "double-binary-tree" and group.tree_beta < 2


def row_status(row: Algorithm, group: Group) -> Status:
    """An algorithm's status on a group: no rank is known to drive two full ports at once."""
    return "hypothetical" if _two_ports(row, group) else row.status


def row_notes(row: Algorithm, group: Group) -> list[str]:
    """What a reader of an algorithm's price should know."""
    ports = [f"c = {group.tree_beta:g}: a rank that drives two or more full-bandwidth ports at once"]
    return ([row.note] if row.note else []) + (ports if _two_ports(row, group) else [])


def wire_notes(group: Group, parts: tuple[Part, ...]) -> list[str]:
    """Wires that a flat schedule leaves idle: links of a full mesh, NICs of a domain."""
    routes = {type(part.route) for part in parts}
    if group.dedicated and AllPeers not in routes and Pair not in routes:
        return [f"one peer at a time: one of a rank's {group.ranks - 1} links is busy"]
    single = any(isinstance(r, Chain | Trees) or (isinstance(r, Ring) and r.via == "packed") for r in (p.route for p in parts))
    if group.joined_by == "tiers" and single:
        return ["one stream: a single NIC of each domain carries it"]
    return []


def share_notes(parts: tuple[Part, ...]) -> list[str]:
    """What oversubscription does to these parts: nothing, or which share it leaves."""
    if not any(part.charge.crosses for part in parts):
        return []
    least = min(part.charge.share for part in parts)
    if least < 1:
        return [f"oversubscription leaves {least:.3g} of the bandwidth to what crosses it"]
    return ["too few flows cross the oversubscribed boundary at once to feel it (packed)"]


def _phase(part: Part, size: Number, readings: Readings) -> Phase:
    """A part at a size."""
    own = part.charge
    payload = _scaled(size, part.payload)
    n_alpha: Number = own.n_alpha
    n_beta: Number = own.n_beta
    if part.pipelined:
        n_alpha, n_beta = segmented(own.n_alpha, own.n_beta, payload, own.alpha_s, own.effective_Bps, readings.pipelining)
    alpha, bandwidth = split_seconds(n_alpha, n_beta, payload, own.alpha_s, own.effective_Bps)
    return Phase(
        own.tier,
        own.level,
        part.primitive,
        part.algorithm,
        part.ranks,
        payload,
        n_alpha,
        n_beta,
        alpha,
        bandwidth,
        own.eta_alpha,
        own.eta_beta,
        own.bandwidth_Bps,
        own.share,
        part.label,
    )


def _scaled(number: Number, factor: float) -> Number:
    """A product that does not copy an array to multiply it by one."""
    return number if factor == 1 else number * factor


def _bandwidth(phases: tuple[Phase, ...], reading: Phases) -> Number:
    """The bandwidth term: all phases in turn, or only the tier with the most to do."""
    if reading == "sequential":
        return reduce(add, (phase.bandwidth_s for phase in phases))
    tiers: dict[str, Number] = {}
    for phase in phases:
        tiers[phase.tier] = tiers[phase.tier] + phase.bandwidth_s if phase.tier in tiers else phase.bandwidth_s
    return reduce(_larger, tiers.values())


def _larger(a: Number, b: Number) -> Number:
    if isinstance(a, float) and isinstance(b, float):
        return max(a, b)
    import numpy as np

    return np.maximum(a, b)


def _part_curve(part: Part, readings: Readings) -> Curve:
    """One part over M; pipelined at P*: (L-1)·α + b·M/BW + 2·sqrt((L-1)·α·b·M/BW), the least of t(P) over all P > 0."""
    own, load = part.charge, part.charge.n_beta * part.payload / part.charge.effective_Bps
    if not part.pipelined or readings.pipelining == "asymptotic":
        return Curve(own.n_alpha * own.alpha_s, load)
    if readings.pipelining == "optimal":
        return Curve((own.n_alpha - 1) * own.alpha_s, load, 2 * sqrt((own.n_alpha - 1) * own.alpha_s * load))
    steps = own.n_alpha + readings.pipelining - 1
    return Curve(steps * own.alpha_s, load * steps / readings.pipelining)
