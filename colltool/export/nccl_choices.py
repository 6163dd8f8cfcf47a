"""What NCCL should run at which size: colltool's winners among the schedules that NCCL has a name for."""

from collections.abc import Callable, Hashable, Mapping
from itertools import combinations, pairwise
from math import inf, sqrt
from typing import NamedTuple, TypeVar

from colltool.engine.catalogue import library_runs, named_plans
from colltool.engine.crossover import positive_roots
from colltool.engine.placement import Placed, place
from colltool.engine.plan import Curve, Plan
from colltool.engine.protocols import under_protocols
from colltool.engine.readings import Readings
from colltool.errors import ColltoolError
from colltool.export.nccl_protocols import BY_POSITION, PROTOCOLS, PUBLISHED, guessed, named, published_curves
from colltool.fabric.model import ClosTier, Fabric, StarTier
from colltool.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.units import MAX_SIZE

COLLECTIVES = {"broadcast": BC, "reduce": REDUCE, "allgather": AG, "reducescatter": RS, "allreduce": AR}
"""All that NCCL's plugin tunes, in NCCL's order; all-to-all is not among them."""

_PUBLISHED_NOTE = "none in the fabric, so by NCCL's published latencies and bandwidth shares (2.30, NVLink), not by this model"

Key = TypeVar("Key", bound=Hashable)


class Cluster(NamedTuple):
    """A group as NCCL counts it."""

    placed: Placed
    ranks: int
    nodes: int


class Way(NamedTuple):
    """One schedule that NCCL has: its name there, ours, for which collectives, and where NCCL runs it.

    What our own registry refuses (two tiers for a composition, capable switches) is not repeated in ``where``.
    """

    algorithm: str
    name: str
    primitives: tuple[Primitive, ...]
    where: Callable[[Cluster], bool]


class Choice(NamedTuple):
    """From this size on: NCCL's algorithm and protocol, and the schedule of ours behind it."""

    from_bytes: float
    algorithm: str
    protocol: str
    title: str


class Choices(NamedTuple):
    """One collective over all sizes, how its protocols were chosen, and what else a reader should know."""

    choices: tuple[Choice, ...]
    protocol_note: str
    notes: tuple[str, ...]


def _anywhere(_: Cluster) -> bool:
    return True


def _one_rank_a_node(cluster: Cluster) -> bool:
    return cluster.nodes == cluster.ranks


def _nvswitch(cluster: Cluster) -> bool:
    """NVLS: the innermost domain is a star whose switch reduces and multicasts."""
    tier = cluster.placed.spans[0].tier
    spec = tier.in_network if isinstance(tier, StarTier) else None
    return not _one_rank_a_node(cluster) and spec is not None and spec.reduce and spec.multicast


def _nvswitch_alone(cluster: Cluster) -> bool:
    return cluster.nodes == 1 and _nvswitch(cluster)


# Inside a node NCCL's trees and CollNetChain are a chain of its GPUs, with a share of the vector on each NIC: a ring there costs
# the same. CollNetDirect reads all peers at once. NVLS between nodes is NVLS inside with SHARP outside, NCCL's "CollNet+NVLS":
# it, and not one of the two CollNet algorithms, is what in-network / in-network prices.
WAYS = (
    Way("ring", "ring", (AR, AG, RS), _anywhere),
    Way("ring", "multi-rail-ring", (AR, AG, RS), _anywhere),
    Way("ring", "chain", (BC, REDUCE), _anywhere),
    Way("tree", "double-binary-tree", (AR,), _anywhere),
    Way("tree", "hierarchical:ring/double-binary-tree", (AR,), _anywhere),
    Way("nvls", "in-network", (AR, AG, RS), _nvswitch_alone),
    Way("nvls", "hierarchical:in-network/in-network", (AR,), _nvswitch),
    Way("nvls_tree", "hierarchical:in-network/double-binary-tree", (AR,), _nvswitch),
    Way("collnet_direct", "hierarchical:direct/in-network", (AR,), _anywhere),
    Way("collnet_chain", "hierarchical:ring/in-network", (AR,), _anywhere),
    Way("collnet_chain", "in-network", (AR,), _one_rank_a_node),
    Way("pat", "pat", (AG, RS), _one_rank_a_node),
)
"""Conditions as in NCCL's src/graph/tuning.cc."""


def needs_sharp(algorithm: str, nodes: int) -> bool:
    """Whether NCCL runs it only with CollNet enabled and a SHARP plugin loaded."""
    return algorithm.startswith("collnet") or (algorithm == "nvls" and nodes > 1)


def cluster_of(fabric: Fabric, ranks: int | None) -> Cluster:
    """A group on a fabric that NCCL can run on; its nodes are innermost domains, and below a Clos each endpoint is one.

    Raises:
        ColltoolError: a lattice, a full mesh, or a rank count that does not fit.
    """
    for tier in fabric.tiers:
        if not isinstance(tier, StarTier | ClosTier):
            what = f"NCCL does not run on {fabric.name}: '{tier.name}' is a {tier.topology.replace('_', ' ')}"
            raise ColltoolError(what, where="--fabric", fix="NCCL's tuner needs tiers that are a star or a Clos")
    placed = place(fabric, ranks)
    inner = fabric.tiers[0]
    domain = 1 if isinstance(inner, ClosTier) else min(placed.ranks, inner.endpoints)
    return Cluster(placed, placed.ranks, placed.ranks // domain)


def choices(cluster: Cluster, primitive: Primitive) -> Choices:
    """Who wins at which size among what NCCL has, under which protocol.

    Raises:
        ColltoolError: the fabric lists a protocol that is none of NCCL's, or its tiers share none.
    """
    protocols = _protocols(cluster, primitive)
    ways, notes = _ways(cluster, primitive)
    plans = [(way.algorithm, protocols[plan.protocol], plan) for way in ways for plan in _plans(cluster, primitive, way)]
    options = {(name, protocol, plan.title, plan.protocol): plan for name, protocol, plan in plans if _runs(name, protocol)}
    curves = {key: plan.curve(Readings()) for key, plan in options.items()}
    cuts = lower_envelope(curves, 1.0)
    ends = [*(start for start, _ in cuts[1:]), inf]
    found: list[Choice] = []
    for (start, key), end in zip(cuts, ends, strict=True):
        choice = Choice(start, *key[:3])
        found += [choice] if choice.protocol else _published(cluster, primitive, choice, end, curves[key].b)
    return Choices(tuple(found), _protocol_note([name for name in protocols if name]), tuple(notes))


def lower_envelope(curves: Mapping[Key, Curve], start: float) -> list[tuple[float, Key]]:
    """Which curve is lowest from which size on; ties go to the first."""
    roots = {root for one, other in combinations(curves.values(), 2) for root in positive_roots(one, other)}
    borders = [start, *sorted(root for root in roots if start < root < MAX_SIZE), MAX_SIZE]
    found: list[tuple[float, Key]] = []
    for low, high in pairwise(borders):
        lowest = min(curves, key=lambda key: curves[key].at(sqrt(low * high)))
        if not found or found[-1][1] != lowest:
            found.append((low, lowest))
    return found


def _ways(cluster: Cluster, primitive: Primitive) -> tuple[list[Way], list[str]]:
    """NCCL's ways on this group; where the fabric lists what its library runs, those among it."""
    runs = library_runs(cluster.placed, primitive)
    ours = [way for way in WAYS if primitive in way.primitives and way.where(cluster)]
    listed = [way for way in ours if {way.name, way.name.partition(":")[0]} & set(runs) and _plans(cluster, primitive, way)]
    if listed or not runs:
        return listed or ours, []
    return ours, [f"the fabric's algorithms for it have no name in NCCL here ({', '.join(runs)}): chosen among all of NCCL's"]


def _plans(cluster: Cluster, primitive: Primitive, way: Way) -> list[Plan]:
    try:
        return named_plans(cluster.placed, primitive, Readings(), [way.name])
    except ColltoolError:  # cannot run on this group
        return []


def _protocols(cluster: Cluster, primitive: Primitive) -> dict[str, str]:
    """NCCL's name of each protocol that the fabric lists; one without a name where it lists none."""
    found = {}
    for listed in (under.protocol for under in under_protocols(cluster.placed, primitive)):
        protocol = named(listed) if listed else ""
        if protocol is None:
            known = ", ".join((*PROTOCOLS, *BY_POSITION))
            raise ColltoolError(f"protocol '{listed}' is none of NCCL's", where="protocols", fix=f"known: {known}")
        found[listed] = protocol
    return found


def _runs(algorithm: str, protocol: str) -> bool:
    """NVLS, CollNet and PAT run under Simple only."""
    return algorithm in PUBLISHED or protocol in ("", "simple")


def _published(cluster: Cluster, primitive: Primitive, choice: Choice, end: float, slope: float) -> list[Choice]:
    """One interval cut by NCCL's published protocol numbers."""
    curves = published_curves(choice.algorithm, primitive, cluster.ranks, cluster.nodes, slope)
    if not curves:
        return [choice._replace(protocol="simple")]
    cuts = lower_envelope(curves, choice.from_bytes)
    return [choice._replace(from_bytes=start, protocol=protocol) for start, protocol in cuts if start < end]


def _protocol_note(listed: list[str]) -> str:
    if not listed:
        return _PUBLISHED_NOTE
    guesses = [f"{name} taken for {guess}" for name in listed if (guess := guessed(name))]
    return "measured" + (f", their names by order and not known: {', '.join(guesses)}" if guesses else "")
