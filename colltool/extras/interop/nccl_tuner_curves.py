"""The time of each of NCCL's algorithms and protocols on a group, in lines over size: :func:`curves`.

A combination of an algorithm and a protocol, such as ring under LL128, is called a way.

A tuner file overrides NCCL's choice. Only numbers of NCCL's own protocols (LL, LL128 and Simple) justify
that: measured ones, or those that a fabric without measurements lists under these names. Then times are by
the fabric's protocols, else by NCCL's model, so that the file says what NCCL would do anyway.

Three kinds of names: NCCL's algorithms and protocols (``ring``, ``ll128``); our specs, which price them
(``spec_of``; "" where no schedule of ours does what NCCL does); protocols as a fabric's file lists them
(``ib-LL128``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted, range_text
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import named_candidates
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.machine_protocols import numbers_of, priced_under, protocols_of
from colltool.estimate.nccl_hardware import hardware_of
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.running import library_runs
from colltool.extras.interop.nccl_tuner_rows import GUARD_FACTOR
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_media import scope_of
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.hardware import PROTOCOLS, Hardware
from colltool.libraries.nccl.model import Combination, Piece, pieces
from colltool.libraries.nccl.names import protocol_of, spec_of
from colltool.libraries.nccl.rules import rules_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.machines.factor import CustomProtocol

# what NCCL's plugin tunes, by its word for it, in NCCL's order
COLLECTIVES = {
    "broadcast": BC,
    "reduce": REDUCE,
    "allgather": AG,
    "reducescatter": RS,
    "allreduce": AR,
}
_PRINTED = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints what runs"


class Cluster(NamedTuple):
    """A group on a fabric, and what NCCL's model knows of it."""

    placed: PlacedGroup
    hardware: Hardware  # what NCCL's model asks of a machine

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return self.hardware.ranks

    @property
    def nodes(self) -> int:
        """NCCL's nodes: innermost domains; below a Clos each endpoint is one."""
        return self.hardware.nodes

    @property
    def tiers(self) -> list[Tier]:
        """The tiers that the group spans, innermost first."""
        return [span.tier for span in self.placed.spans]

    @property
    def label(self) -> str:
        """The group in words: ``16 ranks on 2 nodes``."""
        return f"{self.ranks} ranks on {counted(self.nodes, 'node')}"


def cluster_of(fabric: Fabric, group: AnyGroup) -> Cluster:
    """Place a group (None: all ranks) on a fabric that NCCL can run on.

    Raises:
        ColltoolError: a tier is no star or Clos, the fabric runs another library, the group does not fit,
            or NCCL's model does not know the hardware.
    """
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        if kind.joined_by != "switches":
            shape = kind.label.replace("_", " ")
            raise ColltoolError(
                f"NCCL does not run on {fabric.name}: '{tier.name}' is a {shape}",
                argument="fabric",
                fix="NCCL's tuner needs tiers that are a star or a Clos; RCCL's plugin is not NCCL's",
            )
    facts = fabric.library_facts
    if facts is not None and facts.name not in ("nccl", "all"):
        raise ColltoolError(
            f"{fabric.name} runs {facts.name} by its key library, and this file is for NCCL",
            argument="fabric",
            fix="write library: {name: nccl, gpu: hopper, cpu: intel} with your facts",
        )
    placed = place(fabric, group)
    return Cluster(placed, hardware_of(placed))


def clusters_of(fabric: Fabric, groups: Sequence[AnyGroup]) -> list[Cluster]:
    """Place the groups, in the order given; without any, all of the fabric.

    A file's rows are told apart by ranks: of groups with as many ranks only the last is kept.
    """
    by_ranks = {}
    for group in groups or [None]:
        cluster = cluster_of(fabric, group)
        by_ranks[cluster.ranks] = cluster
    return list(by_ranks.values())


class Curves(NamedTuple):
    """NCCL's algorithm and protocol combinations for one collective.

    Args:
        ways: with the lines of their times over size; a way of NCCL's model that cannot run has none.
        own: whether their times are by the fabric's protocols, not by NCCL's model.
        notes: where the numbers are from, for the file's comments.
    """

    ways: tuple[Combination, ...]
    own: bool
    notes: tuple[str, ...]


def curves(cluster: Cluster, primitive: Primitive) -> Curves:
    """Price the ways of a collective: by the fabric's protocols where it lists some for the collective,
    unless other collectives were measured and this one was not; else by NCCL's model.

    Raises:
        ColltoolError: a protocol of the fabric has no name that NCCL knows, or NCCL has a single way.
    """
    hardware = cluster.hardware
    is_measured = _anything_measured(cluster.placed.fabric)
    machine_protocols: list[CustomProtocol] = []
    for algorithm in hardware.constants.algorithms[primitive]:
        machine_protocols += _machine_file_protocols(cluster, primitive, algorithm).values()
    is_listed = any(tier.protocols_for(primitive) for tier in cluster.tiers)
    only_others = is_measured and not machine_protocols and not _is_measured(cluster, primitive)
    if not is_listed or only_others:
        note = f"not measured on this group: what NCCL {hardware.version} picks by its own model"
        return Curves(pieces(hardware, primitive), own=False, notes=(note,) if is_measured else ())
    protocols = _nccl_protocols(cluster, primitive)
    ways = tuple(_priced_ways(cluster, primitive, protocols))
    # specs of what the fabric's file lists as run for the collective; empty where it lists none
    runs = library_runs(cluster.placed, primitive)
    # only those ways, unless NCCL has none of them
    listed_ways = []
    for way in ways:
        spec = spec_of(way.algorithm, primitive, hardware)
        if spec in runs or parse_choice(spec).base in runs:
            listed_ways.append(way)
    ways = tuple(listed_ways) or ways
    notes = [
        *_machine_notes(cluster, machine_protocols),
        *_measured_notes(cluster, primitive, protocols),
        *_choice_notes(cluster, primitive, ways, runs),
    ]
    return Curves(ways, own=True, notes=tuple(notes))


def _anything_measured(fabric: Fabric) -> bool:
    """Whether any protocol of a fabric was measured."""
    rows: list[ProtocolNumbers] = []
    for tier in fabric.tiers:
        if tier.library:
            rows += tier.library.protocols
    return any(row.measured for row in rows)


def _is_measured(cluster: Cluster, primitive: Primitive) -> bool:
    """Whether this collective itself was measured on the group's outermost tier, and not only another
    whose numbers stand in for it."""
    tier = cluster.tiers[-1]
    rows = _measured_rows(tier, primitive)
    # `calibrate` writes files of two kinds. Collectives fitted together share protocols without a list of
    # primitives, and `runs` lists what ran for each measured one; protocols of a collective fitted apart
    # list the measured primitive first, then those it stands in for.
    is_fitted_together = (
        tier.library is None or not tier.library.runs or primitive in tier.library.runs
    )
    for row in rows:
        if row.primitives is None:
            if not is_fitted_together:
                return False
        elif row.primitives[0] is not primitive:
            return False
    return bool(rows)


def _measured_rows(tier: Tier, primitive: Primitive) -> list[ProtocolNumbers]:
    """The protocols of a collective that were measured on a tier (``measured``: the sizes; None if not);
    others of its list may stand in for what larger groups run."""
    return [protocol for protocol in tier.protocols_for(primitive).values() if protocol.measured]


def _priced_ways(
    cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]
) -> Iterator[Combination]:
    """Price NCCL's ways by the fabric's protocols, algorithm by algorithm, each under its protocols in
    NCCL's order; without those that NCCL would not run. ``protocols``: NCCL's name of each of the
    fabric's."""
    hardware = cluster.hardware
    rules = rules_of(hardware.constants)
    for algorithm in hardware.constants.algorithms[primitive]:
        spec = spec_of(algorithm, primitive, hardware)
        if not spec:
            continue
        try:
            candidates = named_candidates(cluster.placed, primitive, ModelOptions(), [spec])
        except ColltoolError:
            # it cannot run on this group
            continue
        # one candidate under each protocol of the fabric; the name is empty where it lists none
        from_machine = _machine_file_protocols(cluster, primitive, algorithm)
        named_costs = []
        for candidate in candidates:
            protocol = protocols.get(candidate.protocol)
            if protocol is not None:
                cost = _with_machine_numbers(
                    cluster, primitive, spec, candidate, from_machine.get(protocol)
                )
                named_costs.append((protocol, cost))
        named_costs.sort(key=lambda named: PROTOCOLS.index(named[0]))
        for protocol, cost in named_costs:
            if not rules.why_not(hardware, primitive, algorithm, protocol):
                lines = [Piece(max(1.0, start), line.a, line.b) for start, line in cost.pieces]
                yield Combination(algorithm, protocol, tuple(lines))


def _machine_file_protocols(
    cluster: Cluster, primitive: Primitive, algorithm: str
) -> dict[str, CustomProtocol]:
    """A machine file's numbers for an algorithm on the group's outermost tier, by NCCL's protocol; empty
    without a machine file."""
    machine = cluster.placed.fabric.machine
    if machine is None or not machine.protocols:
        return {}
    scope = scope_of(cluster.placed.fabric, [tier.name for tier in cluster.tiers])
    return protocols_of(machine.protocols, primitive, scope, algorithm)


def _with_machine_numbers(
    cluster: Cluster,
    primitive: Primitive,
    spec: str,
    cost: CostModel,
    numbers: CustomProtocol | None,
) -> CostModel:
    """The cost by the numbers of a machine file; ``cost`` itself without numbers, or where they do not price
    this spec."""
    if numbers is None:
        return cost
    by_machine = priced_under(cluster.placed, primitive, spec, numbers_of(numbers, cost.protocol))
    return cost if by_machine is None else by_machine


def _nccl_protocols(cluster: Cluster, primitive: Primitive) -> dict[str, str]:
    """NCCL's name of each protocol that the fabric lists, such as ``ll128`` of ``ib-LL128``; only of the
    measured ones where the outermost tier has any. ColltoolError where NCCL has no such protocol."""
    tiers = cluster.tiers
    measured = {row.name for row in _measured_rows(tiers[-1], primitive)}
    names = {}
    for under in under_protocols(cluster.placed, primitive):
        listed = under.protocol
        if not measured or listed in measured:
            name = protocol_of(_without_tier(listed, tiers))
            if not name:
                raise _unknown_protocol(listed, tiers, primitive)
            names[listed] = name
    return names


def _without_tier(listed: str, tiers: Sequence[Tier]) -> str:
    """A protocol's name without that of its tier before it: ``LL128`` of ``ib-LL128``."""
    for tier in tiers:
        prefix = f"{tier.name}-"
        if listed.startswith(prefix):
            return listed.removeprefix(prefix)
    return listed


def _unknown_protocol(listed: str, tiers: Sequence[Tier], primitive: Primitive) -> ColltoolError:
    """Return the error of a protocol that NCCL has under no such name."""
    names = [f"'{tier.name}'" for tier in tiers if listed in tier.protocols_for(primitive)]
    what = (
        f"cannot tell which of NCCL's protocols '{listed}' is, listed by {' and '.join(names)} for"
        f" {primitive.label}"
    )
    fix = (
        f"where you know it, call it LL, LL128 or Simple in the fabric's file ({_PRINTED});"
        f" else take these protocols out for {primitive.label}, and its rows are NCCL's"
        " own choice"
    )
    return ColltoolError(what, argument="fabric", fix=fix)


def _machine_notes(cluster: Cluster, machine_protocols: Sequence[CustomProtocol]) -> Iterator[str]:
    """Say which numbers are those of a machine file."""
    machine = cluster.placed.fabric.machine
    if machine is not None and machine_protocols:
        names = ", ".join(f"{way.algorithm} under {way.protocol}" for way in machine_protocols)
        yield f"as {machine.file} has it: {names}"


def _measured_notes(
    cluster: Cluster, primitive: Primitive, protocols: Mapping[str, str]
) -> Iterator[str]:
    """Say by which protocols of the fabric the curves are, and for which sizes these were measured."""
    names = ", ".join(protocols)
    rows = cluster.tiers[-1].protocols_for(primitive).values()
    ranges = list(filter(None, map(attrgetter("measured"), rows)))
    if not ranges:
        yield f"by the fabric's protocols {names}: as it lists them, not measured"
        return
    least = min(map(attrgetter("smallest"), ranges))
    most = max(map(attrgetter("largest"), ranges))
    yield (
        f"measured from {range_text(least, most)} under {names}; rows for smaller and larger"
        " messages are extrapolated"
    )


def _choice_notes(
    cluster: Cluster, primitive: Primitive, ways: Sequence[Combination], runs: Sequence[str]
) -> Iterator[str]:
    """Say among which algorithms the rows choose, and where NCCL's own best stands first instead."""
    version = cluster.hardware.version
    bases = set()
    for algorithm in dict.fromkeys(way.algorithm for way in ways):
        spec = spec_of(algorithm, primitive, cluster.hardware)
        bases.add(parse_choice(spec).base)
        yield f"  {algorithm}: {spec}"
    yield (
        f"where NCCL {version}'s own model takes that to cost {GUARD_FACTOR - 1:.0%} more than its best,"
        " or worse, that best stands first"
    )
    silent = [f"'{tier.name}'" for tier in cluster.tiers if not tier.protocols_for(primitive)]
    if silent:
        yield f"{' and '.join(silent)} lists no protocols: the same numbers under all"
    if not any(way.algorithm == "ring" and way.protocol != "ll128" for way in ways):
        yield (
            f"no ring under LL or Simple is among them: those behind are NCCL {version}'s own, by"
            " its model"
        )
    if not runs:
        return
    listed = ", ".join(runs)
    if bases & {parse_choice(name).base for name in runs}:
        yield f"only what the fabric's algorithms list ({listed}): what ran was fitted, not seen in a log"
    else:
        yield (
            f"NCCL runs none of the fabric's algorithms for it here ({listed}): chosen among all"
            " of NCCL's"
        )
