"""What NCCL should run at which size: colltool's winners among the schedules that NCCL has a name for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from colltool.algorithms.choice import parse_choice
from colltool.errors import ColltoolError
from colltool.export.nccl.protocols import BY_POSITION, PROTOCOLS, Call, named, published, runs_under
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of
from colltool.library.facts import can_nvls, nodes_of
from colltool.library.ways import WAYS, Way
from colltool.pricing.catalogue import library_runs, named_candidates
from colltool.pricing.costed import Costed, Curve
from colltool.pricing.crossover import lower_envelope
from colltool.pricing.groups import Placed, place
from colltool.pricing.protocols import under_protocols
from colltool.pricing.readings import Readings
from colltool.primitives import AG, AR, BC, REDUCE, RS, Primitive

COLLECTIVES = {"broadcast": BC, "reduce": REDUCE, "allgather": AG, "reducescatter": RS, "allreduce": AR}
"""All that NCCL's plugin tunes, in NCCL's order; all-to-all is not among them."""

_PUBLISHED_NOTE = (
    "the fabric lists none. Latencies are NCCL's published ones (2.30, NVLink, H100) where they exceed the fabric's; bandwidths"
    " are the fabric's, times NCCL's share for each protocol, and LL is no faster than NCCL has it"
)
_FITTED_NOTE = (
    "only what the fabric's algorithms list: where colltool calibrate wrote them, what ran was fitted, not seen in the log"
)


class Cluster(NamedTuple):
    """A group as NCCL counts it."""

    placed: Placed
    ranks: int
    nodes: int

    @property
    def nvls(self) -> bool:
        """Whether the switch of a node reduces and multicasts."""
        return can_nvls(self.placed.spans[0].tier)


class Choice(NamedTuple):
    """From this size on: NCCL's algorithm and protocol, and the schedule of ours behind it."""

    from_bytes: float
    algorithm: str
    protocol: str
    title: str


class Choices(NamedTuple):
    """One collective over all sizes.

    Args:
        choices: the winners.
        fallback: rings alone, where something else wins at some size.
        listed: whether the fabric lists protocols.
        protocol_note: how protocols were chosen.
        notes: what else a reader should know.
    """

    choices: tuple[Choice, ...]
    fallback: tuple[Choice, ...]
    listed: bool
    protocol_note: str
    notes: tuple[str, ...]


def needs_sharp(algorithm: str, nodes: int) -> bool:
    """Whether NCCL runs it only with CollNet enabled and a SHARP plugin loaded."""
    return algorithm.startswith("collnet") or (algorithm == "nvls" and nodes > 1)


def cluster_of(fabric: Fabric, ranks: int | None) -> Cluster:
    """A group on a fabric that NCCL can run on; its nodes are innermost domains, and below a Clos each endpoint is one.

    Raises:
        ColltoolError: a lattice, a full mesh, or a rank count that does not fit.
    """
    for tier in fabric.tiers:
        if kind_of(tier).joined_by != "switches":
            what = f"NCCL does not run on {fabric.name}: '{tier.name}' is a {tier.topology.replace('_', ' ')}"
            fix = "NCCL's tuner needs tiers that are a star or a Clos; RCCL's plugin is not NCCL's"
            raise ColltoolError(what, argument="fabric", fix=fix)
    placed = place(fabric, ranks)
    return Cluster(placed, placed.ranks, nodes_of(placed))


def choices(cluster: Cluster, primitive: Primitive) -> Choices:
    """Who wins at which size among what NCCL has, under which protocol: one lower envelope of all of them.

    Raises:
        ColltoolError: the fabric lists a protocol that is none of NCCL's, or its tiers share none.
    """
    protocols = _protocols(cluster, primitive)
    ways, notes = _ways(cluster, primitive, protocols)
    found = _winners(cluster, primitive, ways, protocols)
    rings = [way for way in WAYS if way.algorithm == "ring" and primitive in way.primitives]
    others = any(choice.algorithm != "ring" for choice in found)
    fallback = _winners(cluster, primitive, rings, protocols) if others else ()
    return Choices(found, fallback, any(protocols), _protocol_note(cluster, primitive, protocols), tuple(notes))


def _winners(cluster: Cluster, primitive: Primitive, ways: Sequence[Way], protocols: Mapping[str, str]) -> tuple[Choice, ...]:
    """The lowest of these ways from size to size."""
    curves: dict[tuple[str, ...], Curve] = {}
    for algorithm, costed in _widest(cluster, primitive, ways):
        protocol = protocols[costed.protocol]
        if not protocol:
            own, call = _streamed(costed), Call(primitive, cluster.ranks, cluster.nodes)
            curves |= {(algorithm, name, costed.title): one.bound(own) for name, one in published(algorithm, call).items()}
        elif runs_under(algorithm, protocol):
            curves[algorithm, protocol, costed.title, costed.protocol] = costed.curve
    return tuple(Choice(start, *key[:3]) for start, key in lower_envelope(curves, 1.0))


def _widest(cluster: Cluster, primitive: Primitive, ways: Sequence[Way]) -> list[tuple[str, Costed]]:
    """Of each algorithm's ways the one with the most bandwidth: NCCL has one, over all NICs. Under every protocol."""
    found: dict[str, list[list[Costed]]] = {}
    for way in ways:
        if candidates := _candidates(cluster, primitive, way):
            found.setdefault(way.algorithm, []).append(candidates)
    return [(algorithm, costed) for algorithm, several in found.items() for costed in min(several, key=_least_slope)]


def _streamed(costed: Costed) -> Curve:
    """NCCL sends a chunk over the network while the next is still in the node: the slower of the two counts."""
    return (replace(costed, phases="pipelined") if costed.composed else costed).curve


def _least_slope(candidates: Sequence[Costed]) -> float:
    return min(costed.curve.b for costed in candidates)


def _ways(cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]) -> tuple[list[Way], list[str]]:
    """NCCL's ways on this group; where the fabric lists what its library runs, those among it."""
    runs = library_runs(cluster.placed, primitive)
    ours = [way for way in WAYS if primitive in way.primitives and way.where(cluster)]
    named_there = [way for way in ours if {way.name, parse_choice(way.name).base} & set(runs)]
    listed = [
        way
        for way in named_there
        if any(
            runs_under(way.algorithm, protocols[costed.protocol] or "simple") for costed in _candidates(cluster, primitive, way)
        )
    ]
    if listed:
        return listed, [f"{_FITTED_NOTE} ({', '.join(runs)})"]
    if not runs:
        return ours, []
    return ours, [f"NCCL runs none of the fabric's algorithms for it here ({', '.join(runs)}): chosen among all of NCCL's"]


def _candidates(cluster: Cluster, primitive: Primitive, way: Way) -> list[Costed]:
    try:
        return named_candidates(cluster.placed, primitive, Readings(), [way.name])
    except ColltoolError:  # cannot run on this group
        return []


def _protocols(cluster: Cluster, primitive: Primitive) -> dict[str, str]:
    """NCCL's name of each protocol that the fabric lists; one without a name where it lists none."""
    found = {}
    for listed in (under.protocol for under in under_protocols(cluster.placed, primitive)):
        protocol = named(listed) if listed else ""
        if protocol is None:
            tiers = " and ".join(f"'{tier.name}'" for tier in _tiers(cluster) if listed in tier.protocols_for(primitive))
            what = f"protocol '{listed}', listed by {tiers} for {primitive.spoken}, is none of NCCL's"
            raise ColltoolError(what, argument="fabric", fix=f"known: {', '.join((*PROTOCOLS, *BY_POSITION))}")
        found[listed] = protocol
    return found


def _tiers(cluster: Cluster) -> list[Tier]:
    return [span.tier for span in cluster.placed.spans]


def _protocol_note(cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]) -> str:
    if not any(protocols):
        return _PUBLISHED_NOTE
    taken = (name if name.lower() == theirs else f"{name} (by position taken for {theirs})" for name, theirs in protocols.items())
    silent = [tier.name for tier in _tiers(cluster) if not tier.protocols_for(primitive)]
    kept = f"; {' and '.join(silent)}: none listed, so the same numbers under all" if silent else ""
    return f"those the fabric lists: {', '.join(taken)}{kept}"
