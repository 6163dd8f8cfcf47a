"""Terms: what a formula returns, how its messages travel, and the one line that turns counts into seconds.

A formula never sees α, bandwidth or contention. It says how many sequential messages a schedule needs, how many bytes pass
its busiest port, and by which route they go; pricing knows what a route costs on a given fabric.
"""

from math import ceil, floor, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from colltool.primitives import Primitive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = float | NDArray[np.float64]
else:
    Number = Any

Pipelining = Literal["asymptotic", "optimal"] | int


class Ring(NamedTuple):
    """Every rank sends to the next one, all at once, step after step.

    ``via`` says over which wires when the group spans several tiers: ``packed`` (each hop by its shortest way),
    ``outermost`` (all hops over the outer tier), ``innermost`` (the inner tier stretched over the group), ``rails`` (one ring
    for every NIC of a domain, each with its share of the payload).
    """

    via: Literal["packed", "outermost", "innermost", "rails"] = "packed"


class Chain(NamedTuple):
    """The payload walks from the first rank to the last, segment behind segment."""


class Trees(NamedTuple):
    """Two complementary binary trees, each with half of the payload; ``both_ways`` when it goes up and down again."""

    both_ways: bool


class Rounds(NamedTuple):
    """Rounds with a new partner each: ``steps`` are (stride between partners, bytes sent in units of M).

    ``partner``: ``xor`` (rank xor stride, everybody), ``shift`` (rank + stride, everybody), ``fanout`` (a binomial tree: one
    sender in every block of 2·stride ranks).
    """

    partner: Literal["xor", "shift", "fanout"]
    steps: tuple[tuple[int, float], ...]


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
    """Up into the switches and down again; ``own_eta`` when the reduction unit has its own bandwidth coefficient."""

    own_eta: bool = False


Route = Ring | Chain | Trees | Rounds | Peers | AllPeers | Pair | Links | Switch


class Terms(NamedTuple):
    """The coefficients of one part of a schedule.

    Args:
        n_alpha: sequential messages. With ``pipelined``, the depth L of the schedule.
        n_beta: bytes through the busiest port or link, in units of this part's payload. With ``pipelined``, the load b.
        route: how the messages travel.
        payload: this part's payload in units of M.
        pipelined: whether the payload may be cut in segments.
        primitive: what this part does, where that is not the whole collective (a reduce-scatter inside an all-reduce).
        label: the axis or step, for breakdowns.
        ranks: of one ring or line of this part, where that is not the whole group.
    """

    n_alpha: float
    n_beta: float
    route: Route
    payload: float = 1.0
    pipelined: bool = False
    primitive: Primitive | None = None
    label: str = ""
    ranks: int | None = None


Schedule = tuple[Terms, ...]


def total_n_alpha(schedule: Schedule) -> float:
    """n_α of a whole schedule: sequential messages."""
    return sum(terms.n_alpha for terms in schedule)


def total_n_beta(schedule: Schedule) -> float:
    """n_β of a whole schedule: bytes through the busiest port, in units of M."""
    return sum(terms.n_beta * terms.payload for terms in schedule)


def split_seconds(n_alpha: Number, n_beta: Number, size: Number, alpha_s: float, bandwidth_Bps: float) -> tuple[Number, Number]:
    """``t = n_α·α + n_β·M/BW`` as its two summands, in seconds. α and BW carry η and shares already. ``size`` may be an array."""
    return n_alpha * alpha_s, (n_beta / bandwidth_Bps) * size


def segmented(
    depth: float, load: float, size: Number, alpha_s: float, bandwidth_Bps: float, reading: Pipelining
) -> tuple[Number, Number]:
    """(n_α, n_β) of a pipelined schedule under one of the three readings.

    ``t(P) = (L+P-1)·(α + b·M/(P·BW))``: at P segments n_α = L+P-1 and n_β = b·(L+P-1)/P. ``asymptotic`` takes L and b, the
    limit in which filling the pipeline costs nothing; ``optimal`` the best whole number P for each size; a number is P.
    """
    if reading == "asymptotic":
        return depth, load
    segments = best_segments(depth, load, size, alpha_s, bandwidth_Bps) if reading == "optimal" else reading
    steps = depth + segments - 1
    return steps, load * steps / segments


def best_segments(depth: float, load: float, size: Number, alpha_s: float, bandwidth_Bps: float) -> Number:
    """The whole number P >= 1 that minimises t(P); around ``P* = sqrt((L-1)·b·M/(α·BW))``, where t is convex in P."""
    ratio = load * size / (alpha_s * bandwidth_Bps)
    if isinstance(ratio, float):
        exact = sqrt((depth - 1) * ratio)
        low, high = max(1, floor(exact)), max(1, ceil(exact))
        return low if (depth + low - 1) * (1 + ratio / low) <= (depth + high - 1) * (1 + ratio / high) else high
    import numpy as np

    smooth = np.sqrt((depth - 1) * ratio)
    below, above = np.maximum(1, np.floor(smooth)), np.maximum(1, np.ceil(smooth))
    return np.where((depth + below - 1) * (1 + ratio / below) <= (depth + above - 1) * (1 + ratio / above), below, above)
