"""Terms: what a formula returns, how its messages travel, and the one line that turns counts into seconds.

A formula never sees α, bandwidth or contention: it counts sequential messages and bytes through the busiest port, and names the
route; pricing knows what a route costs on a given fabric.
"""

from math import ceil, floor, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from colltool.base.primitives import Primitive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = float | NDArray[np.float64]
else:
    Number = Any

Pipelining = Literal["asymptotic", "optimal"] | int


class Ring(NamedTuple):
    """Every rank sends to the next one, all at once, step after step.

    ``via``, for a group over several tiers: ``packed`` (each hop by its shortest way), ``outermost`` (all hops over the outer
    tier), ``innermost`` (the inner tier stretched over the group), ``rails`` (one ring for every NIC of a domain, each with its
    share of the payload), ``links`` (rings that share out all links of a full mesh).
    """

    via: Literal["packed", "outermost", "innermost", "rails", "links"] = "packed"


class Chain(NamedTuple):
    """A pipeline of segments from the first rank to the last; ``via`` as in :class:`Ring`."""

    via: Literal["packed", "rails", "links"] = "packed"


class Trees(NamedTuple):
    """Two complementary binary trees with half of the payload each; ``both_ways``: up and down again."""

    both_ways: bool


class Rounds(NamedTuple):
    """Rounds with a new partner each: ``steps`` are (stride between partners, bytes sent in units of M).

    ``partner``: ``xor`` (rank xor stride, everybody), ``shift`` (rank + stride, everybody), ``fanout`` (binomial tree: one sender
    in every block of 2·stride ranks). ``folded``: the first ranks, this many pairs, act as one rank per pair.
    """

    partner: Literal["xor", "shift", "fanout"]
    steps: tuple[tuple[int, float], ...]
    folded: int = 0


class Peers(NamedTuple):
    """One message to each other rank, one after the other. ``via`` as in :class:`Ring`."""

    via: Literal["packed", "outermost", "innermost"] = "packed"


class AllPeers(NamedTuple):
    """A message of ``per_peer``·M to each other rank, all at once."""

    per_peer: float


class Pair(NamedTuple):
    """One message between the two ranks of the group that are farthest apart."""


class Links(NamedTuple):
    """Hops between neighbours of a lattice."""


class Switch(NamedTuple):
    """Up into the switches and down again; ``does``: the primitive they compute, which may have its own share of bandwidth."""

    does: Primitive


class Servers(NamedTuple):
    """To servers apart from the ranks and back, both ways at once."""


Route = Ring | Chain | Trees | Rounds | Peers | AllPeers | Pair | Links | Switch | Servers


class Terms(NamedTuple):
    """One part of a schedule: its coefficients and route.

    ``n_alpha``: sequential messages; of a pipeline its depth L. ``n_beta``: bytes through the busiest port or link in units of
    this part's payload; of a pipeline its load b. ``payload``: in units of M. ``fill``: F of a pipeline, the segments that pass
    the busiest port while it fills; None where the payload cannot be cut. ``primitive``: where it is not the whole collective (a
    reduce-scatter inside an all-reduce). ``label``: the axis or step, for breakdowns. ``ranks``: of one ring or line, where that
    is not the whole group.
    """

    n_alpha: float
    n_beta: float
    route: Route
    payload: float = 1.0
    fill: float | None = None
    primitive: Primitive | None = None
    label: str = ""
    ranks: int | None = None


Schedule = tuple[Terms, ...]


def total_n_alpha(schedule: Schedule) -> float:
    return sum(terms.n_alpha for terms in schedule)


def total_n_beta(schedule: Schedule) -> float:
    """In units of M."""
    return sum(terms.n_beta * terms.payload for terms in schedule)


def totals(returned: Terms | Schedule) -> tuple[float, float]:
    """(n_α, n_β) of what a formula returned."""
    schedule = (returned,) if isinstance(returned, Terms) else returned
    return total_n_alpha(schedule), total_n_beta(schedule)


def split_seconds(n_alpha: Number, n_beta: Number, size: Number, alpha_s: float, bandwidth_Bps: float) -> tuple[Number, Number]:
    """``n_α·α`` and ``n_β·M/BW``, the summands of t in seconds; α and BW include η and shares. ``size`` may be an array."""
    return n_alpha * alpha_s, (n_beta / bandwidth_Bps) * size


def energy_J(ranks: int, n_beta: Number, size: Number, J_per_bit: float) -> Number:
    """Joule of a collective on one tier: N·n_β·M·8·(energy per bit), as each of N ranks moves n_β·M bytes over it."""
    return ranks * n_beta * size * 8 * J_per_bit


class Pipeline(NamedTuple):
    """A schedule that streams segments.

    ``depth``: L, steps that the first segment takes. ``fill``: F, segments that pass the busiest port while the pipeline fills:
    L, unless ways use different directions of it. ``load``: b, what each segment loads that port with, in units of the segment.
    """

    depth: float
    fill: float
    load: float

    def counts(self, segments: Number) -> tuple[Number, Number]:
        """(n_α, n_β) at P segments: n_α = L+P-1 and n_β = b·(F+P-1)/P."""
        return self.depth + segments - 1, self.load * (self.fill + segments - 1) / segments

    def counted(self, size: Number, alpha_s: float, bandwidth_Bps: float, reading: Pipelining) -> tuple[Number, Number]:
        """(n_α, n_β): ``asymptotic`` is (L, b), where filling costs nothing; ``optimal`` the best P for each size; a number is P
        itself.
        """
        if reading == "asymptotic":
            return self.depth, self.load
        return self.counts(self.best_segments(size, alpha_s, bandwidth_Bps) if reading == "optimal" else reading)

    def best_segments(self, size: Number, alpha_s: float, bandwidth_Bps: float) -> Number:
        """The whole number P >= 1 that minimises t(P), next to ``P* = sqrt((F-1)·b·M/(α·BW))``: t is convex in P."""
        ratio = self.load * size / (alpha_s * bandwidth_Bps)

        def steps(segments: Number) -> Number:
            """t(P)/α."""
            return self.depth + segments - 1 + ratio * (self.fill + segments - 1) / segments

        if isinstance(ratio, float):
            exact = sqrt((self.fill - 1) * ratio)
            return min((max(1, floor(exact)), max(1, ceil(exact))), key=steps)
        import numpy as np

        smooth = np.sqrt((self.fill - 1) * ratio)
        below, above = np.maximum(1, np.floor(smooth)), np.maximum(1, np.ceil(smooth))
        return np.where(steps(below) <= steps(above), below, above)
