"""Which algorithms a library may have run: what ``calibrate --algorithm auto`` tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

from colltool.algorithms.group import JoinedBy
from colltool.algorithms.libraries import LibraryName, Running
from colltool.algorithms.registry import algorithms, selectable
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, own_share
from colltool.estimate.assumptions import Readings
from colltool.estimate.best_protocol import tier_under
from colltool.estimate.candidates import Candidates, named_candidates
from colltool.estimate.curve import Curve
from colltool.estimate.groups import PlacedGroup, Span, flat_group
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_parts import Eta, Protocol
from colltool.fabric.topology import capabilities_of
from colltool.measurements.series import LogLibrary, Series, log_library
from colltool.nccl.algorithm_map import spec_of
from colltool.nccl.hardware import Hardware
from colltool.nccl.model import picks
from colltool.nccl.topology_inputs import hardware_of

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
_DIRECT = {AR: ("two-shot", "ring"), AG: ("direct", "ring"), RS: ("direct", "ring"), A2A: ("direct", "pairwise")}
"""On a full mesh: a library that leaves six of seven links idle would not be kept."""

IN_SWITCH = "in-network"

ONLY_ONE = frozenset({A2A})
"""Where two algorithms differ in latency alone, their union is the faster one."""


def tried(primitive: Primitive, library: str, joined_by: JoinedBy, tiers: int) -> tuple[str, ...]:
    """Algorithms to try on a group over so many tiers, the likeliest first; ``joined_by`` is of the outermost one.

    Some may not run there.
    """
    if joined_by == "pair_links" and primitive in _DIRECT:
        return _DIRECT[primitive]
    if log_library(library) is LogLibrary.MPI:
        return _MPI[primitive]
    if primitive is A2A and tiers > 1:  # every message to another node is sent by its host: they queue
        return ("pairwise", "direct")
    return tuple(name for name in _NCCL[primitive] if name != "ring" or tiers == 1)  # across nodes its rings use every NIC


def sets(primitive: Primitive, names: tuple[str, ...], *, told_apart: bool) -> list[tuple[str, ...]]:
    """One algorithm alone, or two that share the sizes; simplest first.

    ``told_apart``: whether two algorithms differ from one under one more protocol, as they do over several rank counts or
    tiers.
    """
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return alone + list(combinations(names, 2)) if told_apart and primitive not in ONLY_ONE else alone


_ALPHA_S = 1e-6
_FAR_BELOW = 1e-3  # of any other tier's bandwidth: there the tier under test is the bottleneck, and a price affine in 1/BW


class AlgorithmCosts(NamedTuple):
    """One algorithm: ``t = base_s + base_s_per_byte·M + n_alpha·α + n_beta·M/BW + own·M/copy``.

    The base is what the other tiers take. ``switched`` prices follow a switch's own numbers, not the tier's.
    """

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
    """The coefficients of an algorithm in one tier's numbers; None where it cannot run on the group.

    Args:
        placed: the group.
        tier: the tier under test, spanned by the group.
        primitive, algorithm: what runs; a composition with its choices.
        inner: the protocol of each other tier, by the tier's name; its own numbers where there is none.
    """
    others = [span.tier.bandwidth for span in placed.spans if span.tier.name != tier]
    slow = _FAR_BELOW * min(others, default=1e12)
    curve = partial(_curve, placed, tier, primitive, algorithm, inner)
    try:
        near = curve(_ALPHA_S, slow)
    except ColltoolError:
        return None
    later, slower = curve(2 * _ALPHA_S, slow), curve(_ALPHA_S, slow / 2)
    n_alpha, n_beta = (later.a - near.a) / _ALPHA_S, (slower.b - near.b) * slow
    own = own_share(primitive, placed.ranks)
    copies = [protocol.local_copy for name, protocol in inner.items() if name != tier and protocol.local_copy]
    kept = own / copies[-1] if copies else 0.0
    base, per_byte = near.a - n_alpha * _ALPHA_S, near.b - n_beta / slow
    per_byte = per_byte if per_byte > 1e-9 * near.b else 0.0
    return AlgorithmCosts(
        algorithm=algorithm,
        n_alpha=n_alpha,
        n_beta=n_beta,
        own=0.0 if copies else own,
        base_s=max(base, 0.0),
        base_s_per_byte=per_byte + kept,
        switched=algorithm == IN_SWITCH,
    )


def _curve(placed: PlacedGroup, tier: str, primitive: Primitive, algorithm: str, inner: Mapping[str, Protocol], alpha_s: float,
           bandwidth_Bps: float) -> Curve:  # fmt: skip
    probe = Protocol(name="probe", eta=Eta()).model_copy(update={"alpha": alpha_s, "bandwidth": bandwidth_Bps})
    spans = [_probed(span, probe if span.tier.name == tier else inner.get(span.tier.name)) for span in placed.spans]
    bare = replace(placed, spans=tuple(spans), overhead_s=0.0, local_copy_Bps=None)
    return named_candidates(bare, primitive, Readings(), [algorithm])[0].curve


def _probed(span: Span, protocol: Protocol | None) -> Span:
    """A tier under one protocol's numbers, without a list to choose from; an ideal switch on the tier under test."""
    tier: Tier = span.tier if protocol is None else tier_under(span.tier, protocol)
    update: dict[str, object] = {"protocols": None}
    kind = capabilities_of(tier)
    if protocol is not None and protocol.name == "probe" and kind.in_network is not None:
        update |= kind.with_switch(kind.in_network.model_copy(update={"alpha_switch": 1e-12, "eta_beta": 1.0}))
    return replace(span, tier=tier.model_copy(update=update))


def library_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: Readings, library: str, sizes: Sequence[float]
) -> list[str]:
    """Names of what a library ships and the group can run, for :func:`colltool.estimate.price.price`; no choice of another's.

    A fabric that says nothing of its library may be any hardware: a star the GPUs of a node, or hosts on one switch. There what
    the library runs on either counts.
    """
    own: LibraryName = "all" if library else placed.fabric.library_name
    known: LibraryName = log_library(library).in_fabrics or own
    under = replace(placed, fabric=placed.fabric.under(known))
    found = [one.choice.spec for one in Candidates(under, primitive, readings).all(sizes) if one.rank_class == 0]
    hosts = [] if known == "all" or placed.fabric.library_facts else _between_hosts(placed, primitive, readings, known)
    return list(dict.fromkeys([*hosts, *found]))


def _between_hosts(placed: PlacedGroup, primitive: Primitive, readings: Readings, library: LibraryName) -> list[str]:
    """Flat schedules that the library runs where every rank is a host of its own."""
    whole, _ = flat_group(placed, readings)
    rows = [row for row in algorithms(primitive) if row.why_not(whole) is None and selectable(row.status_on(whole))]
    return [row.name for row in rows if not row.not_run_by(Running(library), whole._replace(scale_out=True))]


# From so many bytes a rank on (all-reduce: of the vector; all-to-all: to each peer), for powers of two. MPICH, src/mpi/coll:
# ALLREDUCE_SHORT_MSG_SIZE, ALLGATHER_LONG_MSG_SIZE (of the total), ALLTOALL_SHORT_MSG_SIZE; R. Thakur, R. Rabenseifner, W. Gropp,
# Optimization of Collective Communication Operations in MPICH, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
_MPICH = {
    AR: ("recursive-doubling", 2048, "rabenseifner"),
    AG: ("recursive-doubling", 524288, "ring"),
    A2A: ("bruck", 256, "pairwise"),
}


class Authority(NamedTuple):
    """Who says what is run, in words, and by what factor other algorithms have to predict unseen sizes better to be believed."""

    said: str
    worth: float


BY_MPICH = Authority("MPICH's rules pick", 1.2)  # other MPIs have rules of their own


class LibraryRun(NamedTuple):
    """One call: the schedule of ours that is run, and NCCL's protocol (``ll``, ``ll128``, ``simple``; empty of another)."""

    spec: str
    protocol: str = ""


class LibraryRuns(NamedTuple):
    """What is run: ``by`` whose word and how, ``runs`` of each series at each of its points."""

    by: Authority
    runs: tuple[tuple[LibraryRun, ...], ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """All that is run, each once, small sizes first."""
        return tuple(dict.fromkeys(run.spec for runs in self.runs for run in runs))


def nccl_on(fabric: Fabric, placed: Sequence[PlacedGroup], library: str) -> tuple[Hardware, ...]:
    """What NCCL ran on, group by group; empty where another library ran, or the fabric lacks what NCCL's model needs."""
    facts = fabric.library_facts
    if not log_library(library).may_be_nccl or facts is None or facts.name != "nccl":
        return ()
    try:
        return tuple(hardware_of(group) for group in placed)
    except ColltoolError:  # facts are missing, or NCCL's model knows no such fabric
        return ()


def library_runs_of(series: Sequence[Series], on: Sequence[Hardware]) -> LibraryRuns | None:
    """What a library would have run of one collective; None where nothing says."""
    primitive, library = series[0].primitive, series[0].library
    if log_library(library) is LogLibrary.MPI:
        return _mpich(primitive, series)
    return _nccl(primitive, series, on) if on and primitive in on[0].constants.algorithms else None


def _nccl(primitive: Primitive, series: Sequence[Series], on: Sequence[Hardware]) -> LibraryRuns | None:
    runs = []
    for hardware, one in zip(on, series, strict=True):
        chosen = picks(hardware, primitive, [max(point.bytes, 1.0) for point in one.points])
        runs.append(tuple(LibraryRun(spec_of(pick.algorithm, primitive, hardware), pick.protocol) for pick in chosen))
    found = LibraryRuns(Authority(f"NCCL {on[0].version}'s own model picks", 1.5), tuple(runs))
    return found if all(found.algorithms) else None  # one that no schedule of ours is


def _mpich(primitive: Primitive, series: Sequence[Series]) -> LibraryRuns | None:
    if primitive not in _MPICH:
        return None
    low, limit, high = _MPICH[primitive]
    runs = []
    for one in series:
        of_limit = one.ranks if primitive is A2A else 1
        runs.append(tuple(LibraryRun(high if point.bytes > limit * of_limit else low) for point in one.points))
    return LibraryRuns(BY_MPICH, tuple(runs))
