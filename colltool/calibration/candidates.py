"""Which algorithms a library may have run: what ``calibrate --algorithm auto`` tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from colltool.algorithms.group import JoinedBy
from colltool.algorithms.libraries import LibraryName, Running
from colltool.algorithms.registry import algorithms, selectable
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, own_share
from colltool.estimate.algorithm_estimate import Curve
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, named_candidates
from colltool.estimate.groups import PlacedGroup, Span, flat_group
from colltool.estimate.protocols import tier_under
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_parts import Eta, Protocol
from colltool.fabric.topology import capabilities_of
from colltool.measurements.series import LogLibrary, Series, log_library
from colltool.nccl.hardware import Hardware
from colltool.nccl.model import picks
from colltool.nccl.nccl_choice import hardware_of
from colltool.nccl.rules import spec_of

_NCCL: dict[Primitive, tuple[str, ...]] = {
    AR: (
        "ring", "multi-rail-ring", "double-binary-tree", "hierarchical:ring/double-binary-tree", "in-network",
        "hierarchical:in-network/double-binary-tree",
        "dim-ring", "dim-ring-bidirectional", "multi-ring",
    ),
    AG: ("ring", "multi-rail-ring", "pat", "dim-ring", "multi-ring"),
    RS: ("ring", "multi-rail-ring", "pat", "dim-ring", "multi-ring"),
    A2A: ("direct", "pairwise", "shortest-path"),
    BC: ("multi-rail-chain", "chain", "dim-chain"),
    REDUCE: ("multi-rail-chain", "chain", "dim-chain"),
    P2P: ("send",),
}  # fmt: skip
_MPI: dict[Primitive, tuple[str, ...]] = {
    AR: ("ring", "recursive-doubling", "rabenseifner"),
    AG: ("ring", "recursive-doubling"),
    RS: ("ring", "recursive-halving"),
    A2A: ("pairwise", "bruck", "direct"),
    BC: ("binomial", "chain", "scatter-allgather"),
    REDUCE: ("binomial", "chain"),
    P2P: ("send",),
}
# full mesh: a library would not leave six of seven links idle
_DIRECT = {AR: ("two-shot", "ring"), AG: ("direct", "ring"), RS: ("direct", "ring"), A2A: ("direct", "pairwise")}
IN_SWITCH = "in-network"


def tried(primitive: Primitive, library: str, joined_by: JoinedBy, tiers: int) -> tuple[str, ...]:
    """Algorithms to try, likeliest first; some may not run there. ``joined_by`` is of the outermost tier."""
    if joined_by == "pair_links" and primitive in _DIRECT:
        return _DIRECT[primitive]
    if log_library(library) is LogLibrary.MPI:
        return _MPI[primitive]
    if primitive is A2A and tiers > 1:  # every message to another node is sent by its host: they queue
        return ("pairwise", "direct")
    return tuple(name for name in _NCCL[primitive] if name != "ring" or tiers == 1)  # across nodes NCCL's rings use every NIC


_ALPHA_S = 1e-6
_FAR_BELOW = 1e-3  # of any other tier's bandwidth: the tier under test is then the bottleneck, and prices are affine in 1/BW


class AlgorithmCosts(NamedTuple):
    """``t = base_s + base_s_per_byte·M + n_alpha·α + n_beta·M/BW + own·M/copy``: the base is what the other tiers take.
    ``switched`` costs follow the switch's own parameters, not the tier's."""

    algorithm: str
    n_alpha: float
    n_beta: float
    own: float
    base_s: float
    base_s_per_byte: float
    switched: bool


def costs(
    placed: PlacedGroup, tier: str, primitive: Primitive, algorithm: str, inner: Mapping[str, Protocol]
) -> AlgorithmCosts | None:
    """The coefficients of an algorithm in the parameters of ``tier``; None if it cannot run on the group. ``inner``: the protocol
    of each other tier by tier name; a tier without one keeps its own numbers."""
    others = [span.tier.bandwidth for span in placed.spans if span.tier.name != tier]
    slow = _FAR_BELOW * min(others, default=1e12)

    def curve(alpha_s: float, bandwidth_Bps: float) -> Curve:
        probe = Protocol(name="probe", eta=Eta()).model_copy(update={"alpha": alpha_s, "bandwidth": bandwidth_Bps})
        spans = [_probed(span, probe if span.tier.name == tier else inner.get(span.tier.name)) for span in placed.spans]
        bare = replace(placed, spans=tuple(spans), overhead_s=0.0, local_copy_Bps=None)
        return named_candidates(bare, primitive, Readings(), [algorithm])[0].curve

    try:
        near = curve(_ALPHA_S, slow)
    except ColltoolError:
        return None
    later, slower = curve(2 * _ALPHA_S, slow), curve(_ALPHA_S, slow / 2)
    n_alpha, n_beta = (later.a - near.a) / _ALPHA_S, (slower.b - near.b) * slow
    own = own_share(primitive, placed.ranks)
    copies = [protocol.local_copy for name, protocol in inner.items() if name != tier and protocol.local_copy]
    shared, kept = (0.0, own / copies[-1]) if copies else (own, 0.0)
    base, per_byte = near.a - n_alpha * _ALPHA_S, near.b - n_beta / slow
    per_byte = per_byte if per_byte > 1e-9 * near.b else 0.0
    switched = algorithm == IN_SWITCH
    return AlgorithmCosts(algorithm, n_alpha, n_beta, shared, max(base, 0.0), per_byte + kept, switched=switched)


def _probed(span: Span, protocol: Protocol | None) -> Span:
    """A span under one protocol's numbers only; the switch of the tier under test is made ideal."""
    tier: Tier = span.tier if protocol is None else tier_under(span.tier, protocol)
    update: dict[str, object] = {"protocols": None}
    kind = capabilities_of(tier)
    if protocol is not None and protocol.name == "probe" and kind.in_network is not None:
        update |= kind.with_switch(kind.in_network.model_copy(update={"alpha_switch": 1e-12, "eta_beta": 1.0}))
    return replace(span, tier=tier.model_copy(update=update))


def library_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: Readings, library: str, sizes: Sequence[float]
) -> list[str]:
    """Specs of what a library ships and the group can run. A fabric without library facts may be GPUs or hosts: what the library
    runs on either counts."""
    own: LibraryName = "all" if library else placed.fabric.library_name
    known: LibraryName = log_library(library).in_fabrics or own
    under = replace(placed, fabric=placed.fabric.under(known))
    found = [one.choice.spec for one in Candidates(under, primitive, readings).all(sizes) if one.rank_class == 0]
    if known == "all" or placed.fabric.library_facts:
        return list(dict.fromkeys(found))
    whole, _ = flat_group(placed, readings)  # flat schedules that the library runs where every rank is a host of its own
    rows = [row for row in algorithms(primitive) if row.why_not(whole) is None and selectable(row.status_on(whole))]
    hosts = [row.name for row in rows if not row.not_run_by(Running(known), whole._replace(scale_out=True))]
    return list(dict.fromkeys([*hosts, *found]))


# From so many bytes a rank on (all-reduce: of the vector; all-to-all: to each peer), for powers of two. MPICH, src/mpi/coll:
# ALLREDUCE_SHORT_MSG_SIZE, ALLGATHER_LONG_MSG_SIZE (of the total), ALLTOALL_SHORT_MSG_SIZE; R. Thakur, R. Rabenseifner, W. Gropp,
# Optimization of Collective Communication Operations in MPICH, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
_MPICH = {
    AR: ("recursive-doubling", 2048, "rabenseifner"),
    AG: ("recursive-doubling", 524288, "ring"),
    A2A: ("bruck", 256, "pairwise"),
}


class Authority(NamedTuple):
    """Whose word it is, and the factor by which other algorithms must predict unseen sizes better to overrule it."""

    said: str
    worth: float


class LibraryRun(NamedTuple):
    """One call: our schedule, and NCCL's protocol (``ll``, ``ll128``, ``simple``; empty for other libraries)."""

    spec: str
    protocol: str = ""


class LibraryRuns(NamedTuple):
    """What the library would run: for each series, at each of its points."""

    by: Authority
    runs: tuple[tuple[LibraryRun, ...], ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Every algorithm once, small sizes first."""
        return tuple(dict.fromkeys(run.spec for runs in self.runs for run in runs))


def nccl_on(fabric: Fabric, placed: Sequence[PlacedGroup], library: str) -> tuple[Hardware, ...]:
    """The hardware of each group if NCCL ran; empty for other libraries, or where the fabric lacks facts."""
    facts = fabric.library_facts
    if not log_library(library).may_be_nccl or facts is None or facts.name != "nccl":
        return ()
    try:
        return tuple(hardware_of(group) for group in placed)
    except ColltoolError:  # facts are missing, or NCCL's model knows no such fabric
        return ()


def library_runs_of(series: Sequence[Series], on: Sequence[Hardware]) -> LibraryRuns | None:
    primitive, runs = series[0].primitive, []
    if log_library(series[0].library) is LogLibrary.MPI:
        if primitive not in _MPICH:
            return None
        low, limit, high = _MPICH[primitive]
        for one in series:
            most = limit * (one.ranks if primitive is A2A else 1)
            runs.append(tuple(LibraryRun(high if point.bytes > most else low) for point in one.points))
        return LibraryRuns(Authority("MPICH's rules pick", 1.2), tuple(runs))  # other MPIs have rules of their own
    if not on or primitive not in on[0].constants.algorithms:
        return None
    for hardware, one in zip(on, series, strict=True):
        chosen = picks(hardware, primitive, [max(point.bytes, 1.0) for point in one.points])
        runs.append(tuple(LibraryRun(spec_of(pick.algorithm, primitive, hardware), pick.protocol) for pick in chosen))
    found = LibraryRuns(Authority(f"NCCL {on[0].version}'s own model picks", 1.5), tuple(runs))
    return found if all(found.algorithms) else None  # None if one is not a schedule of ours
