"""What each of NCCL's algorithms and protocols takes, and which is best at each size and next best
where that one is off.

Times are by the fabric's protocols where they are NCCL's, else by NCCL's model: a tuner file
overrides NCCL's choice, which only numbers of LL, LL128 and Simple justify, measured ones, or those
that a fabric without measurements lists under these names.

The plugin takes the first matching row that NCCL can run. So the rows of a size go from fastest to
slowest, each only if it needs less than every one before it, down to one that needs nothing:
whatever is switched off, the first row left is the fastest one left. Curves are piecewise linear,
so the borders are exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from math import ceil, inf
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError
from colltool.base.formatting import range_text
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import named_candidates
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, library_runs, place
from colltool.estimate.library_pick import hardware_of
from colltool.estimate.own_protocols import numbers_of, own_of, priced_under
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.fabric.ground import scope_of
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.hardware import PROTOCOLS, Hardware
from colltool.libraries.nccl.model import Combination, Piece, pieces
from colltool.libraries.nccl.rules import protocol_of, rules_of, spec_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.machines.factor import OwnProtocol

_PRINTED = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints what runs"


class Curves(NamedTuple):
    """NCCL's algorithm and protocol combinations for one collective; ``own``: by the fabric's
    protocols, not NCCL's model."""

    ways: tuple[Combination, ...]
    own: bool
    notes: tuple[str, ...]


def curves(cluster: Cluster, primitive: Primitive) -> Curves:
    hardware = cluster.hardware
    measured = any(
        row.measured
        for tier in cluster.placed.fabric.tiers
        if tier.library
        for row in tier.library.protocols
    )
    listed = any(span.tier.protocols_for(primitive) for span in cluster.placed.spans)
    owned = [
        way
        for name in hardware.constants.algorithms[primitive]
        for way in _own_protocols(cluster, primitive, name).values()
    ]
    if not listed or (measured and not owned and not _measured(cluster, primitive)):
        note = f"not measured on this group: what NCCL {hardware.version} picks by its own model"
        return Curves(pieces(hardware, primitive), False, (note,) if measured else ())
    protocols = _named(cluster, primitive)
    every = tuple(_priced(cluster, primitive, protocols))
    runs = library_runs(cluster.placed, primitive)
    specs = {
        name: spec_of(name, primitive, hardware)
        for name in hardware.constants.algorithms[primitive]
    }
    ran = tuple(
        way
        for way in every
        if {specs[way.algorithm], parse_choice(specs[way.algorithm]).base} & set(runs)
    )
    ways = ran or every
    notes = [
        *_owner_notes(cluster, owned),
        *_own_notes(cluster, primitive, protocols, ways, runs if ran or runs else ()),
    ]
    return Curves(ways, True, tuple(notes))


def _owner_notes(cluster: Cluster, owned: Sequence[OwnProtocol]) -> Iterator[str]:
    machine = cluster.placed.fabric.machine
    if machine is not None and owned:
        yield (
            f"as {machine.file} has it:"
            f" {', '.join(f'{way.algorithm} under {way.protocol}' for way in owned)}"
        )


def _priced(
    cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]
) -> Iterator[Combination]:
    hardware = cluster.hardware
    for algorithm in hardware.constants.algorithms[primitive]:
        if not (spec := spec_of(algorithm, primitive, hardware)):
            continue
        try:
            candidates = named_candidates(cluster.placed, primitive, Readings(), [spec])
        except ColltoolError:  # cannot run on this group
            continue
        own = _own_protocols(cluster, primitive, algorithm)
        known = [(protocols[one.protocol], one) for one in candidates if one.protocol in protocols]
        known = [
            (name, _by_owner(cluster, primitive, spec, one, own.get(name))) for name, one in known
        ]
        for protocol, one in sorted(known, key=lambda named: PROTOCOLS.index(named[0])):
            if not rules_of(hardware.constants).why_not(hardware, primitive, algorithm, protocol):
                lines = tuple(Piece(max(1.0, start), line.a, line.b) for start, line in one.pieces)
                yield Combination(algorithm, protocol, lines)


def _own_protocols(
    cluster: Cluster, primitive: Primitive, algorithm: str
) -> dict[str, OwnProtocol]:
    """What a machine file says of an algorithm on the group's outermost tier, by protocol."""
    machine = cluster.placed.fabric.machine
    if machine is None or not machine.protocols:
        return {}
    scope = scope_of(cluster.placed.fabric, [span.tier.name for span in cluster.placed.spans])
    return own_of(machine.protocols, primitive, scope, algorithm)


def _by_owner(
    cluster: Cluster, primitive: Primitive, spec: str, known: CostModel, own: OwnProtocol | None
) -> CostModel:
    """A way by its owner's numbers where there are any."""
    if own is None:
        return known
    found = priced_under(cluster.placed, primitive, spec, numbers_of(own, known.protocol))
    return known if found is None else found


def _measured(cluster: Cluster, primitive: Primitive) -> bool:
    """Whether this collective, not one it stands in for, was measured on the group's outermost
    tier."""
    tier = cluster.placed.spans[-1].tier
    own = _seen(tier, primitive)
    if not own:
        return False
    # calibrate fits collectives together, and lists what ran for each; or apart, and names the
    # measured one first
    together = tier.library is None or not tier.library.runs or primitive in tier.library.runs
    return all(
        together if one.primitives is None else one.primitives[0] is primitive for one in own
    )


def _seen(tier: Tier, primitive: Primitive) -> list[ProtocolNumbers]:
    """The protocols measured on a tier; others may stand in for what larger groups run."""
    return [one for one in tier.protocols_for(primitive).values() if one.measured]


def _named(cluster: Cluster, primitive: Primitive) -> dict[str, str]:
    tiers = [span.tier for span in cluster.placed.spans]
    seen = {one.name for one in _seen(tiers[-1], primitive)}
    found = {}
    for listed in (under.protocol for under in under_protocols(cluster.placed, primitive)):
        if seen and listed not in seen:
            continue
        of_tier = [f"{tier.name}-" for tier in tiers if listed.startswith(f"{tier.name}-")]
        bare = protocol_of(listed.removeprefix(of_tier[0]) if of_tier else listed)
        if not bare:
            where = " and ".join(
                f"'{tier.name}'" for tier in tiers if listed in tier.protocols_for(primitive)
            )
            what = (
                f"cannot tell which of NCCL's protocols '{listed}' is, listed by {where} for"
                f" {primitive.spoken}"
            )
            fix = (
                f"where you know it, call it LL, LL128 or Simple in the fabric's file ({_PRINTED});"
                f" else take these protocols out for {primitive.spoken}, and its rows are NCCL's"
                " own choice"
            )
            raise ColltoolError(what, argument="fabric", fix=fix)
        found[listed] = bare
    return found


def _own_notes(
    cluster: Cluster,
    primitive: Primitive,
    protocols: Mapping[str, str],
    ways: tuple[Combination, ...],
    runs: tuple[str, ...],
) -> Iterator[str]:
    tiers, version, names = (
        [span.tier for span in cluster.placed.spans],
        cluster.hardware.version,
        ", ".join(protocols),
    )
    if ranges := [
        one.measured for one in tiers[-1].protocols_for(primitive).values() if one.measured
    ]:
        least, most = min(one.smallest for one in ranges), max(one.largest for one in ranges)
        yield (
            f"measured from {range_text(least, most)} under {names}; rows for smaller and larger"
            " messages are extrapolated"
        )
    else:
        yield f"by the fabric's protocols {names}: as it lists them, not measured"
    algorithms = dict.fromkeys(way.algorithm for way in ways)
    yield from (
        f"  {algorithm}: {spec_of(algorithm, primitive, cluster.hardware)}"
        for algorithm in algorithms
    )
    yield (
        f"where NCCL {version}'s own model takes that to cost {HURTS - 1:.0%} more than its best,"
        " or worse, that best stands first"
    )
    if silent := [f"'{tier.name}'" for tier in tiers if not tier.protocols_for(primitive)]:
        yield f"{' and '.join(silent)} lists no protocols: the same numbers under all"
    if not any(way.algorithm == "ring" and way.protocol != "ll128" for way in ways):
        yield (
            f"no ring under LL or Simple is among them: those behind are NCCL {version}'s own, by"
            " its model"
        )
    listed = {
        parse_choice(spec_of(algorithm, primitive, cluster.hardware)).base
        for algorithm in algorithms
    }
    bases = {parse_choice(name).base for name in runs}
    if runs and listed & bases:
        yield (
            f"only what the fabric's algorithms list ({', '.join(runs)}): what ran was fitted, not"
            " seen in a log"
        )
    elif runs:
        yield (
            f"NCCL runs none of the fabric's algorithms for it here ({', '.join(runs)}): chosen"
            " among all of NCCL's"
        )


# all that NCCL's plugin tunes, in NCCL's order
COLLECTIVES = {
    "broadcast": BC,
    "reduce": REDUCE,
    "allgather": AG,
    "reducescatter": RS,
    "allreduce": AR,
}


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
            what = (
                f"NCCL does not run on {fabric.name}: '{tier.name}' is a"
                f" {capabilities_of(tier).spoken.replace('_', ' ')}"
            )
            fix = "NCCL's tuner needs tiers that are a star or a Clos; RCCL's plugin is not NCCL's"
            raise ColltoolError(what, argument="fabric", fix=fix)
    facts = fabric.library_facts
    if facts is not None and facts.name not in ("nccl", "all"):
        what = f"{fabric.name} runs {facts.name} by its key library, and this file is for NCCL"
        raise ColltoolError(
            what,
            argument="fabric",
            fix="write library: {name: nccl, gpu: hopper, cpu: intel} with your facts",
        )
    placed = place(fabric, group)
    return Cluster(placed, hardware_of(placed))


def clusters_of(fabric: Fabric, groups: Sequence[AnyGroup]) -> list[Cluster]:
    """The groups in the order given, each once; all of the fabric without any."""
    return list(
        {
            cluster.ranks: cluster
            for cluster in (cluster_of(fabric, group) for group in groups or [None])
        }.values()
    )


MAX_BYTES = 2**64 - 1

HURTS = 1.4

"""A choice that costs this many times the best by NCCL's own model is put behind that: fits may be
wrong about what ran."""

_Order = tuple[tuple[str, str], ...]  # (algorithm, protocol) at one size, fastest first


class Advice(NamedTuple):
    """A row for sizes up to and including ``max_bytes``; ``depth``: how many rows stand before it
    at these sizes."""

    depth: int
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str


def needs(algorithm: str, protocol: str, nodes: int) -> frozenset[str]:
    """What NCCL may have switched off by machine, variable or missing plugin; empty for rings and
    trees under LL and Simple.
    Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel)."""
    needed = {"LL128"} if protocol == "ll128" else set()
    if algorithm.startswith("nvls"):
        needed.add("NVLS")
    if algorithm.startswith("collnet") or (algorithm == "nvls" and nodes > 1):
        needed.add("SHARP")
    if algorithm == "pat":
        needed.add("PAT")
    return frozenset(needed)


def advised(
    ways: Sequence[Combination],
    nodes: int,
    spare: Sequence[Combination] = (),
    *,
    guarded: bool = False,
) -> tuple[Advice, ...]:
    """Rows for all sizes in file order: the best, those behind them, and last rings alone."""
    known = [way for way in ways if way.pieces]
    named = {way.algorithm for way in known}
    orders = _orders(
        known,
        nodes,
        [way for way in spare if way.pieces and way.algorithm in named] if guarded else [],
    )
    found = _by_depth(orders)
    if all(_always_a_ring(*order[-1], nodes) for _, order in orders):
        return tuple(found)
    last = max(one.depth for one in found) + 1
    rings = next(
        filter(
            None,
            (
                [way for way in some if way.pieces and _always_a_ring(*way[:2], nodes)]
                for some in (known, spare)
            ),
        ),
        [],
    )
    return (*found, *(one._replace(depth=last) for one in _by_depth(_orders(rings, nodes, []))))


def _always_a_ring(algorithm: str, protocol: str, nodes: int) -> bool:
    return algorithm == "ring" and not needs(algorithm, protocol, nodes)


def _orders(
    ways: Sequence[Combination], nodes: int, guard: Sequence[Combination]
) -> list[tuple[int, _Order]]:
    found: dict[int, _Order] = {}
    # where the guard puts a way behind, the order changes
    limits = [
        way._replace(pieces=tuple(Piece(at, a * HURTS, b * HURTS) for at, a, b in way.pieces))
        for way in guard
    ]
    for start, size in _stretches([*ways, *guard, *limits]):
        found[ceil(start) if found else 0] = _order(_ranked(ways, guard, size), nodes)
    return [next(same) for _, same in groupby(found.items(), key=lambda item: item[1])]


def _ranked(
    ways: Sequence[Combination], guard: Sequence[Combination], size: float
) -> list[Combination]:
    def seconds(way: Combination) -> float:
        piece = _piece(way, size)
        return piece.a_s + piece.b_s_per_byte * size

    fastest, others = sorted(ways, key=seconds), sorted(guard, key=seconds)
    slow = {way[:2] for way in others if seconds(way) > HURTS * seconds(others[0])}
    behind = [way for way in fastest if way[:2] in slow]
    return [*(way for way in fastest if way[:2] not in slow), *others, *behind]


def _stretches(ways: Sequence[Combination]) -> Iterator[tuple[float, float]]:
    """Where the order of the ways can change, and a size before the next such place."""
    starts = sorted({piece.from_bytes for way in ways for piece in way.pieces})
    for low, high in zip(starts, [*starts[1:], inf], strict=True):
        pairs = combinations([_piece(way, low) for way in ways], 2)
        crossings = {
            (two.a_s - one.a_s) / (one.b_s_per_byte - two.b_s_per_byte)
            for one, two in pairs
            if one.b_s_per_byte != two.b_s_per_byte
        }
        cuts = [low, *sorted(size for size in crossings if low < size < min(high, MAX_BYTES))]
        for start, end in zip(cuts, [*cuts[1:], high], strict=True):
            yield start, min((start + end) / 2, 2 * start)


def _piece(way: Combination, size: float) -> Piece:
    return way.pieces[bisect_right(way.pieces, size, key=lambda piece: piece.from_bytes) - 1]


def _order(ranked: Sequence[Combination], nodes: int) -> _Order:
    """From the first on, those that need less than all before them."""
    kept: dict[tuple[str, str], frozenset[str]] = {}
    for way in ranked:
        needed = needs(way.algorithm, way.protocol, nodes)
        if not any(before <= needed for before in kept.values()):
            kept[way.algorithm, way.protocol] = needed
        if not needed:
            break
    return tuple(kept)


def _by_depth(orders: Sequence[tuple[int, _Order]]) -> list[Advice]:
    """First the fastest of all sizes, then what stands behind them; each depth covers only sizes
    with that many rows."""
    found = []
    ends = [*(start - 1 for start, _ in orders[1:]), MAX_BYTES]
    for depth in range(max(len(order) for _, order in orders)):
        each = [
            (order[depth : depth + 1], start, end)
            for (start, order), end in zip(orders, ends, strict=True)
        ]
        for way, several in groupby(each, key=lambda one: one[0]):
            joined = list(several)
            found += [Advice(depth, joined[0][1], joined[-1][2], *names) for names in way]
    return found
