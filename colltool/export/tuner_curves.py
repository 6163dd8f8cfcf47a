"""What each of NCCL's algorithms and protocols takes: by the fabric's protocols where they are NCCL's, else by NCCL's model.

A tuner file overrides NCCL's choice, which only numbers of LL, LL128 and Simple justify: measured ones, or those that a fabric
without measurements lists under these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError
from colltool.base.formatting import range_text
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import named_candidates
from colltool.estimate.groups import PlacedGroup, library_runs, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.export.tuner_ranking import HURTS
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_parts import Protocol
from colltool.fabric.topology import capabilities_of
from colltool.nccl.hardware import PROTOCOLS, Hardware
from colltool.nccl.model import Combination, Piece, pieces
from colltool.nccl.rules import protocol_of, rules_of, spec_of
from colltool.nccl.topology_inputs import hardware_of

_PRINTED = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints what runs"


class Curves(NamedTuple):
    """NCCL's algorithm and protocol combinations for one collective; ``own``: by the fabric's protocols, not NCCL's model."""

    ways: tuple[Combination, ...]
    own: bool
    notes: tuple[str, ...]


def curves(cluster: Cluster, primitive: Primitive) -> Curves:
    fabric = cluster.placed.fabric
    listed = any(span.tier.protocols_for(primitive) for span in cluster.placed.spans)
    if listed and (_measured(cluster, primitive) or not _has_measurements(fabric)):
        return _own(cluster, primitive)
    note = f"not measured on this group: what NCCL {cluster.hardware.version} picks by its own model"
    return Curves(pieces(cluster.hardware, primitive), False, (note,) if _has_measurements(fabric) else ())


def _own(cluster: Cluster, primitive: Primitive) -> Curves:
    protocols = _named(cluster, primitive)
    every = tuple(_priced(cluster, primitive, protocols))
    runs = library_runs(cluster.placed, primitive)
    specs = {name: spec_of(name, primitive, cluster.hardware) for name in cluster.hardware.constants.algorithms[primitive]}
    ran = tuple(way for way in every if {specs[way.algorithm], parse_choice(specs[way.algorithm]).base} & set(runs))
    ways = ran or every
    return Curves(ways, True, tuple(_own_notes(cluster, primitive, protocols, ways, runs if ran or runs else ())))


def _priced(cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]) -> Iterator[Combination]:
    for algorithm in cluster.hardware.constants.algorithms[primitive]:
        if not (spec := spec_of(algorithm, primitive, cluster.hardware)):
            continue
        try:
            candidates = named_candidates(cluster.placed, primitive, Readings(), [spec])
        except ColltoolError:  # cannot run on this group
            continue
        known = [one for one in candidates if one.protocol in protocols]
        for one in sorted(known, key=lambda costed: PROTOCOLS.index(protocols[costed.protocol])):
            protocol = protocols[one.protocol]
            if not rules_of(cluster.hardware.constants).why_not(cluster.hardware, primitive, algorithm, protocol):
                yield Combination(
                    algorithm, protocol, tuple(Piece(max(1.0, start), line.a, line.b) for start, line in one.pieces)
                )


def _has_measurements(fabric: Fabric) -> bool:
    return any(one.measured for tier in fabric.tiers for one in tier.protocols or ())


def _measured(cluster: Cluster, primitive: Primitive) -> bool:
    """Whether this collective, not one it stands in for, was measured on the group's outermost tier."""
    tier = cluster.placed.spans[-1].tier
    own = _seen(tier, primitive)
    if not own:
        return False
    # calibrate fits collectives together, and lists what ran for each; or apart, and names the measured one first
    together = tier.algorithms is None or primitive in tier.algorithms
    return all(together if one.primitives is None else one.primitives[0] is primitive for one in own)


def _seen(tier: Tier, primitive: Primitive) -> list[Protocol]:
    """The protocols measured on a tier; others may stand in for what larger groups run."""
    return [one for one in tier.protocols_for(primitive).values() if one.measured]


def _named(cluster: Cluster, primitive: Primitive) -> dict[str, str]:
    tiers = [span.tier for span in cluster.placed.spans]
    names = [tier.name for tier in tiers]
    seen = {one.name for one in _seen(tiers[-1], primitive)}
    found = {}
    for listed in (under.protocol for under in under_protocols(cluster.placed, primitive)):
        if seen and listed not in seen:
            continue
        bare = protocol_of(next((listed.removeprefix(f"{name}-") for name in names if listed.startswith(f"{name}-")), listed))
        if not bare:
            raise _unknown(listed, [tier for tier in tiers if listed in tier.protocols_for(primitive)], primitive)
        found[listed] = bare
    return found


def _unknown(listed: str, tiers: list[Tier], primitive: Primitive) -> ColltoolError:
    where = " and ".join(f"'{tier.name}'" for tier in tiers)
    what = f"cannot tell which of NCCL's protocols '{listed}' is, listed by {where} for {primitive.spoken}"
    fix = (
        f"where you know it, call it LL, LL128 or Simple in the fabric's file ({_PRINTED}); else take these protocols out for"
        f" {primitive.spoken}, and its rows are NCCL's own choice"
    )
    return ColltoolError(what, argument="fabric", fix=fix)


def _own_notes(
    cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str], ways: tuple[Combination, ...], runs: tuple[str, ...]
) -> Iterator[str]:
    yield _source_note(cluster, primitive, protocols)
    algorithms = dict.fromkeys(way.algorithm for way in ways)
    yield from (f"  {algorithm}: {spec_of(algorithm, primitive, cluster.hardware)}" for algorithm in algorithms)
    yield (
        f"where NCCL {cluster.hardware.version}'s own model takes that to cost {HURTS - 1:.0%} more than its best, or worse, that"
        " best stands first"
    )
    tiers = [span.tier for span in cluster.placed.spans]
    if silent := [f"'{tier.name}'" for tier in tiers if not tier.protocols_for(primitive)]:
        yield f"{' and '.join(silent)} lists no protocols: the same numbers under all"
    if not any(way.algorithm == "ring" and way.protocol != "ll128" for way in ways):
        yield f"no ring under LL or Simple is among them: those behind are NCCL {cluster.hardware.version}'s own, by its model"
    listed = {parse_choice(spec_of(algorithm, primitive, cluster.hardware)).base for algorithm in algorithms}
    bases = {parse_choice(name).base for name in runs}
    if runs and listed & bases:
        yield f"only what the fabric's algorithms list ({', '.join(runs)}): what ran was fitted, not seen in a log"
    elif runs:
        yield f"NCCL runs none of the fabric's algorithms for it here ({', '.join(runs)}): chosen among all of NCCL's"


def _source_note(cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]) -> str:
    names = ", ".join(protocols)
    own = cluster.placed.spans[-1].tier.protocols_for(primitive).values()
    ranges = [one.measured for one in own if one.measured]
    if not ranges:
        return f"by the fabric's protocols {names}: as it lists them, not measured"
    least, most = min(one.smallest for one in ranges), max(one.largest for one in ranges)
    return f"measured from {range_text(least, most)} under {names}; rows for smaller and larger messages are extrapolated"


# all that NCCL's plugin tunes, in NCCL's order
COLLECTIVES = {"broadcast": BC, "reduce": REDUCE, "allgather": AG, "reducescatter": RS, "allreduce": AR}


class Cluster(NamedTuple):
    """A group on a fabric, and what NCCL's model knows of it."""

    placed: PlacedGroup
    hardware: Hardware

    @property
    def ranks(self) -> int:
        return self.hardware.ranks

    @property
    def nodes(self) -> int:
        """NCCL's nodes: innermost domains; below a Clos each endpoint is one."""
        return self.hardware.nodes

    @property
    def spoken(self) -> str:
        return f"{self.ranks} ranks on {self.nodes} node{'s' if self.nodes > 1 else ''}"


def cluster_of(fabric: Fabric, group: AnyGroup) -> Cluster:
    """A group on a fabric that NCCL can run on."""
    for tier in fabric.tiers:
        if capabilities_of(tier).joined_by != "switches":
            what = f"NCCL does not run on {fabric.name}: '{tier.name}' is a {tier.topology.replace('_', ' ')}"
            fix = "NCCL's tuner needs tiers that are a star or a Clos; RCCL's plugin is not NCCL's"
            raise ColltoolError(what, argument="fabric", fix=fix)
    facts = fabric.library_facts
    if facts is not None and facts.name not in ("nccl", "all"):
        what = f"{fabric.name} runs {facts.name} by its key library, and this file is for NCCL"
        raise ColltoolError(what, argument="fabric", fix="write library: {name: nccl, gpu: hopper, cpu: intel} with your facts")
    placed = place(fabric, group)
    return Cluster(placed, hardware_of(placed))


def clusters_of(fabric: Fabric, groups: Sequence[AnyGroup]) -> list[Cluster]:
    """The groups in the order given, each once; all of the fabric without any."""
    return list({cluster.ranks: cluster for cluster in (cluster_of(fabric, group) for group in groups or [None])}.values())
