"""The dimensions of ASTRA-sim's network that a group spans, and the algorithm that runs on each. A dimension has equal links of
one latency and bandwidth; a message through a Switch takes two links."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import shape_text
from colltool.base.primitives import A2A, AG, AR, RS, Primitive
from colltool.estimate.algorithm_estimate import Curve
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup, Span
from colltool.estimate.path_classes import PathClass, tier_paths
from colltool.fabric.model import Tier
from colltool.fabric.topology import capabilities_of

COLLECTIVES = (AR, AG, RS, A2A)
Topology = Literal["Switch", "Ring", "FullyConnected"]
AstraAlgorithm = Literal["ring", "direct", "direct1", "halvingDoubling"]
_LINKS: dict[Topology, int] = {"Switch": 2, "Ring": 1, "FullyConnected": 1}  # links per message between neighbours


class AstraDimension(NamedTuple):
    """One dimension; bandwidth and latency are per link, η included."""

    topology: Topology
    npus: int
    bandwidth_Bps: float
    latency_s: float


def dimensions_of(placed: PlacedGroup, readings: Readings) -> list[AstraDimension]:
    """Dimensions of a group, innermost tier first."""
    return [dimension for span in placed.spans for dimension in _dimensions(span, readings)]


def all_reduce(placed: PlacedGroup, dimensions: Sequence[AstraDimension]) -> Curve:
    """An all-reduce as ASTRA-sim runs it, dimension by dimension in and out again, plus the launch overhead it ignores."""
    a, b, held = placed.overhead_s, 0.0, 1.0
    for one in dimensions:
        messages, sent = _one_way(runs(one.topology, AR, one.npus), one.npus)
        a += 2 * messages * one.latency_s * _LINKS[one.topology]
        b += 2 * held * sent / one.bandwidth_Bps
        held /= one.npus
    return Curve(a, b)


def _one_way(algorithm: AstraAlgorithm, npus: int) -> tuple[int, float]:
    """Sequential messages and share of the vector per link, of the reduce-scatter half of an all-reduce."""
    match algorithm:
        case "direct":
            return 1, 1 / npus
        case "ring" | "direct1":
            return npus - 1, (npus - 1) / npus
        case "halvingDoubling":
            return npus.bit_length() - 1, (npus - 1) / npus
        case _:
            assert_never(algorithm)


def _dimensions(span: Span, readings: Readings) -> list[AstraDimension]:
    joined = capabilities_of(span.tier).joined_by
    match joined:
        case "neighbour_links":
            return _rings(span, readings)
        case "switches":
            return [_dimension("Switch", span.endpoints, _one_class(span, readings), 2)]
        case "pair_links":
            return [_dimension("FullyConnected", span.endpoints, _one_class(span, readings), 1)]
        case "tiers":
            raise AssertionError("a tier alone is not several")
        case _:
            assert_never(joined)


def _one_class(span: Span, readings: Readings) -> PathClass:
    name = span.tier.name
    used = tier_paths(span.tier, span.endpoints, readings, occupancy=span.occupancy).used
    thinned = max((boundary.oversubscription for boundary in used[-1].boundaries), default=1.0)
    if thinned > 1:
        what = f"'{name}' is oversubscribed {thinned:g}:1 within the group, which ASTRA-sim cannot express"
        change = _or_set(span.tier, "oversubscription=1")
        fix = f"take a group below that level with {given('ranks')}{change}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    if len({level.alpha_s for level in used}) > 1:
        levels = ", ".join(level.name for level in used)
        what = f"the group spans levels of '{name}' with different alpha ({levels}), which ASTRA-sim cannot express"
        change = _or_set(span.tier, "alpha=TIME")
        fix = f"take a group inside '{used[0].name}' with {given('ranks')}{change}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    return used[-1]


def _or_set(tier: Tier, setting: str) -> str:
    return f", or {given('overrides', [f'{tier.name}.levels.LEVEL.{setting}'])}" if capabilities_of(tier).levels else ""


def _rings(span: Span, readings: Readings) -> list[AstraDimension]:
    tier, kind = span.tier, capabilities_of(span.tier)
    axes = [axis for axis in kind.part(span.endpoints, span.occupancy.stride) or () if axis.size > 1]
    if any(axis.size > 2 and not axis.wrap for axis in axes):  # two ranks are a ring with and without
        what = f"'{tier.name}' is an open {shape_text([axis.size for axis in axes])} here, and ASTRA-sim has only rings"
        raise ColltoolError(what, argument="fabric", fix="take whole axes of a torus, or a slice that has wraparound")
    (level,) = tier_paths(tier, span.endpoints, readings, occupancy=span.occupancy).used
    return [_dimension("Ring", axis.size, level, 1) for axis in axes]


def _dimension(topology: Topology, npus: int, level: PathClass, links: int) -> AstraDimension:
    return AstraDimension(topology, npus, level.bandwidth_Bps * level.eta_beta, level.alpha_s * level.eta_alpha / links)


def runs(topology: Topology, primitive: Primitive, npus: int) -> AstraAlgorithm:
    """The algorithm of a dimension: the fewest messages that send no more than a ring's bytes; only neighbours on a Ring."""
    match topology:
        case "Ring":
            return "ring"
        case "FullyConnected":
            return "direct"
        case "Switch" if primitive is A2A:
            return "direct1"  # one message at a time: in the congestion-unaware binary those of direct do not share a port
        case "Switch":
            return "ring" if npus & (npus - 1) else "halvingDoubling"  # a ring's bytes in fewer messages, for a power of two
        case _:
            assert_never(topology)
