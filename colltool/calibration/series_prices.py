"""What a library may have run: which algorithms, what each costs, and the price of a measured
series at all its sizes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import gcd, log, prod
from typing import NamedTuple

from colltool.algorithms.composed import compositions, every_composition
from colltool.algorithms.libraries import LibraryName, Running
from colltool.algorithms.registry import algorithms, every_algorithm, parse_choice, selectable
from colltool.base.errors import ColltoolError, clipped, either, given, nearest, spell
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, own_share
from colltool.estimate.algorithm_estimate import bound_by
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, named_candidates
from colltool.estimate.groups import PlacedGroup, Span, flat_group, library_runs, place
from colltool.estimate.library_pick import hardware_of
from colltool.estimate.price import price
from colltool.estimate.protocols import tier_under
from colltool.estimate.software_time import Curve
from colltool.fabric.ground import under_library
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import picks
from colltool.libraries.nccl.rules import spec_of
from colltool.libraries.numbers import ProtocolNumbers, TierLibrary
from colltool.logs.series import LogLibrary, Series, check_timing, log_library
from colltool.network.group import JoinedBy


class Quote(NamedTuple):
    """What one algorithm takes at one size under its fastest protocol; ``spec`` is its name as an
    option."""

    algorithm: str
    protocol: str
    seconds: float
    bound: str
    spec: str


class Priced(NamedTuple):
    """Quotes of every algorithm by title, and the fastest one of each size."""

    by_title: dict[str, tuple[Quote, ...]]
    best: tuple[Quote, ...]

    def nearest(self, index: int, seconds: float) -> Quote:
        """The quote at a size that is nearest to a measured time, by ratio."""
        return min(
            (quotes[index] for quotes in self.by_title.values()),
            key=lambda quote: abs(log(quote.seconds / seconds)),
        )


def price_series(
    fabric: Fabric, series: Series, readings: Readings, only: Sequence[str] = ()
) -> Priced:
    import numpy as np

    sizes, primitive, placed = (
        [point.bytes for point in series.points],
        series.primitive,
        place(fabric, series.ranks),
    )
    names = own_names(series, only) if only else []
    if not names and not library_runs(placed, primitive):
        names = _library_candidates(placed, series, readings)
        if not names:
            who = series.library or "a library"
            what = (
                f"{series.title}: nothing that {who} ships for {primitive.spoken} runs on"
                f" {fabric.name}"
            )
            fix = (
                f"name what ran with {given('algorithms')};"
                f" {either(shell='colltool price', python='colltool.price')} lists all"
            )
            raise ColltoolError(what, where=series.points[0].where, fix=fix)
    rows = price(fabric, primitive, np.array(sizes), series.ranks, readings, names).results
    by_title = {}
    for row in rows:
        parts = (row.steps_s, row.moved_s, row.overhead_s, row.rest_s, row.total_s, row.protocol)
        columns = zip(
            *(np.broadcast_to(np.asarray(part), len(sizes)).tolist() for part in parts), strict=True
        )
        by_title[row.title] = tuple(
            Quote(row.title, how, total, bound_by(*split), row.spec)
            for *split, total, how in columns
        )
    best = tuple(
        min(quotes, key=lambda quote: quote.seconds)
        for quotes in zip(*by_title.values(), strict=True)
    )
    return Priced(by_title, best)


def own_names(series: Series, only: Sequence[str]) -> list[str]:
    """The named algorithms that compute this series' collective; the others may be meant for
    another series."""
    everything = sorted(
        {row.name for row in every_algorithm()} | {row.name for row in every_composition()}
    )
    known = {row.name for row in algorithms(series.primitive)} | {
        row.name for row in compositions(series.primitive)
    }
    for name in only:
        if (base := parse_choice(name).base) not in everything:
            raise ColltoolError(
                f"no algorithm '{clipped(base)}'", argument="algorithms", fix=_those(base, known)
            )
    mine = [name for name in only if parse_choice(name).base in known]
    if not mine:
        what = (
            f"{series.title}: {', '.join(only)} is not an algorithm for {series.primitive.spoken}"
        )
        raise ColltoolError(what, argument="algorithms", fix=_those(only[0], known))
    return mine


def _those(name: str, known: Collection[str]) -> str:
    return f"{nearest(name, sorted(known))} known: {', '.join(sorted(known))}".strip()


MOST_IN_A_HOST = 16
"""Accelerators in one host, of any vendor; larger scale-up domains (NVL72 racks) span hosts."""


def check_fits(fabric: Fabric, series: Series) -> PlacedGroup:
    """The series' ranks placed on the fabric; an error with a fix where fabric and log disagree."""
    for point in series.points:
        for seconds in (point.seconds, point.low_s, point.high_s):
            check_timing(point.bytes, seconds, point.where)
    where = series.points[0].where
    try:
        placed = place(fabric, series.ranks)
    except ColltoolError as error:
        raise ColltoolError(
            f"{series.title}: {error.what}", where=where, fix=_settings(fabric, series, error.fix)
        ) from error
    reason = _elsewhere(fabric, series)
    if reason:
        raise ColltoolError(f"{series.title}: {reason}", where=where, fix=_settings(fabric, series))
    return placed


def _elsewhere(fabric: Fabric, series: Series) -> str:
    """Why the fabric's hosts are not those of the log; empty where they agree, the log names none,
    or the inner tier (a Clos, a lattice) does not stand for hosts."""
    inner = fabric.tiers[0]
    if series.nodes is None or capabilities_of(inner).joins != "accelerators":
        return ""
    if series.ranks % series.nodes:
        return "the ranks are not spread evenly over the nodes, and prices assume equal nodes"
    per_node = series.ranks // series.nodes
    spans_hosts = per_node <= MOST_IN_A_HOST < inner.endpoints
    if (
        spans_hosts
        or per_node == inner.endpoints
        or (series.nodes == 1 and per_node < inner.endpoints)
    ):
        return ""
    return (
        f"{fabric.name} puts {inner.endpoints} ranks in each domain of {inner.name}, the log has"
        f" {per_node} on a node"
    )


def _settings(fabric: Fabric, series: Series, nearest: str = "") -> str:
    tiers = list(fabric.tiers)
    inner, last, wanted = tiers[0], tiers[-1], dict[int, int]()
    if series.nodes is not None:
        per_domain = 0 if series.ranks % series.nodes else series.ranks // series.nodes
    else:
        shared = gcd(series.ranks, inner.endpoints)
        per_domain = shared if shared > 1 else 0
    if per_domain and len(tiers) > 1:
        inside = per_domain * prod(tier.endpoints for tier in tiers[1:-1])
        wanted = {0: per_domain, len(tiers) - 1: max(last.endpoints, -(-series.ranks // inside))}
    elif len(tiers) == 1 or series.ranks < inner.endpoints:
        wanted = {0: series.ranks}
    changed = {index: size for index, size in wanted.items() if size != tiers[index].endpoints}
    can = all(
        size <= min(capabilities_of(tiers[i]).most, tiers[i].max_size or size)
        for i, size in changed.items()
    )
    for index, size in changed.items():
        tiers[index] = tiers[index].model_copy(update={"size": size})
    if changed and can and _holds(fabric.model_copy(update={"tiers": tuple(tiers)}), series):
        sizes = [f"{tiers[index].name}.size={size}" for index, size in changed.items()]
        typed = " ".join(spell(given("overrides", [size]), "shell") for size in sizes)
        written = spell(given("overrides", sizes), "python")
        return either(
            shell=f"type {typed}, or take another fabric with -f",
            python=f"load it with {written}, or take another",
        )
    near = f"{nearest}; or " if nearest else ""
    return (
        f"{near}use a fabric with the tiers and sizes of the machine that ran"
        f" this{either(shell=', with -f', python='')}"
    )


def _holds(fabric: Fabric, series: Series) -> bool:
    try:
        place(fabric, series.ranks)
    except ColltoolError:
        return False
    return not _elsewhere(fabric, series)


_NCCL: dict[Primitive, tuple[str, ...]] = {
    AR: (
        "ring",
        "multi-rail-ring",
        "double-binary-tree",
        "hierarchical:ring/double-binary-tree",
        "in-network",
        "hierarchical:in-network/double-binary-tree",
        "dim-ring",
        "dim-ring-bidirectional",
        "multi-ring",
    ),
    AG: ("ring", "multi-rail-ring", "pat", "dim-ring", "multi-ring"),
    RS: ("ring", "multi-rail-ring", "pat", "dim-ring", "multi-ring"),
    A2A: ("direct", "pairwise", "shortest-path"),
    BC: ("multi-rail-chain", "chain", "dim-chain"),
    REDUCE: ("multi-rail-chain", "chain", "dim-chain"),
    P2P: ("send",),
}
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
_DIRECT = {
    AR: ("two-shot", "ring"),
    AG: ("direct", "ring"),
    RS: ("direct", "ring"),
    A2A: ("direct", "pairwise"),
}
IN_SWITCH = "in-network"


def tried(primitive: Primitive, library: str, joined_by: JoinedBy, tiers: int) -> tuple[str, ...]:
    """Algorithms to try, likeliest first; some may not run there. ``joined_by`` is of the outermost
    tier."""
    if joined_by == "pair_links" and primitive in _DIRECT:
        return _DIRECT[primitive]
    if log_library(library) is LogLibrary.MPI:
        return _MPI[primitive]
    # every message to another node is sent by its host: they queue
    if primitive is A2A and tiers > 1:
        return ("pairwise", "direct")
    # across nodes NCCL's rings use every NIC
    return tuple(name for name in _NCCL[primitive] if name != "ring" or tiers == 1)


_ALPHA_S = 1e-6
# of any other tier's bandwidth: the tier under test is then the bottleneck, and prices are affine
# in 1/BW
_FAR_BELOW = 1e-3


class AlgorithmCosts(NamedTuple):
    """``t = base_s + base_s_per_byte·M + n_alpha·α + n_beta·M/BW + own·M/copy``: the base is what
    the other tiers take.
    ``switched`` costs follow the switch's own parameters, not the tier's."""

    algorithm: str
    n_alpha: float
    n_beta: float
    own: float
    base_s: float
    base_s_per_byte: float
    switched: bool


def costs(
    placed: PlacedGroup,
    tier: str,
    primitive: Primitive,
    algorithm: str,
    inner: Mapping[str, ProtocolNumbers],
) -> AlgorithmCosts | None:
    """The coefficients of an algorithm in the parameters of ``tier``; None if it cannot run on the
    group. ``inner``: the protocol of each other tier by tier name; a tier without one keeps its own
    numbers."""
    others = [span.tier.bandwidth for span in placed.spans if span.tier.name != tier]
    slow = _FAR_BELOW * min(others, default=1e12)

    def curve(alpha_s: float, bandwidth_Bps: float) -> Curve:
        spans = []
        for span in placed.spans:
            own = (
                _probe(span.tier, alpha_s, bandwidth_Bps)
                if span.tier.name == tier
                else inner.get(span.tier.name)
            )
            spans.append(_probed(span, own))
        bare = replace(placed, spans=tuple(spans), overhead_s=0.0, local_copy_Bps=None)
        return named_candidates(bare, primitive, Readings(), [algorithm])[0].curve

    try:
        near = curve(_ALPHA_S, slow)
    except ColltoolError:
        return None
    later, slower = curve(2 * _ALPHA_S, slow), curve(_ALPHA_S, slow / 2)
    n_alpha, n_beta = (later.a - near.a) / _ALPHA_S, (slower.b - near.b) * slow
    own = own_share(primitive, placed.ranks)
    copies = [
        protocol.copy_Bps for name, protocol in inner.items() if name != tier and protocol.copy_Bps
    ]
    shared, kept = (0.0, own / copies[-1]) if copies else (own, 0.0)
    base, per_byte = near.a - n_alpha * _ALPHA_S, near.b - n_beta / slow
    per_byte = per_byte if per_byte > 1e-9 * near.b else 0.0
    switched = algorithm == IN_SWITCH
    return AlgorithmCosts(
        algorithm, n_alpha, n_beta, shared, max(base, 0.0), per_byte + kept, switched=switched
    )


def _probe(tier: Tier, alpha_s: float, bandwidth_Bps: float) -> ProtocolNumbers:
    """A protocol under which a tier has this latency and bandwidth, and no contention."""
    return ProtocolNumbers(
        name="probe",
        step_s=alpha_s - capabilities_of(tier).nearest_alpha_s,
        share=1 / tier.eta.beta,
        stretch=1 / tier.eta.alpha,
        line=bandwidth_Bps / tier.bandwidth,
    )


def _probed(span: Span, protocol: ProtocolNumbers | None) -> Span:
    """A span under one protocol's numbers only; the switch of the tier under test is made ideal."""
    tier: Tier = span.tier if protocol is None else tier_under(span.tier, protocol, span.endpoints)
    update: dict[str, object] = {}
    kind = capabilities_of(tier)
    if protocol is not None and protocol.name == "probe" and kind.in_network is not None:
        update |= kind.with_switch(
            kind.in_network.model_copy(update={"alpha_switch": 1e-12, "eta_beta": 1.0})
        )
    runs = None if tier.library is None else TierLibrary(runs=tier.library.runs)
    return replace(span, tier=tier.model_copy(update=update).with_library(runs))


def _library_candidates(placed: PlacedGroup, series: Series, readings: Readings) -> list[str]:
    """Specs of what a library ships and the group can run. A fabric without library facts may be
    GPUs or hosts: what the library runs on either counts."""
    import numpy as np

    primitive, sizes = series.primitive, np.array([point.bytes for point in series.points])
    own: LibraryName = "all" if series.library else placed.fabric.library_name
    known: LibraryName = log_library(series.library).in_fabrics or own
    under = replace(placed, fabric=under_library(placed.fabric, known))
    found = [
        one.choice.spec
        for one in Candidates(under, primitive, readings).all([sizes])
        if one.rank_class == 0
    ]
    if known == "all" or placed.fabric.library_facts:
        return list(dict.fromkeys(found))
    # flat schedules that the library runs where every rank is a host of its own
    whole, _ = flat_group(placed, readings)
    rows = [
        row
        for row in algorithms(primitive)
        if row.why_not(whole) is None and selectable(row.status_on(whole))
    ]
    hosts = [
        row.name
        for row in rows
        if not row.not_run_by(Running(known), whole._replace(scale_out=True))
    ]
    return list(dict.fromkeys([*hosts, *found]))


# From so many bytes a rank on (all-reduce: of the vector; all-to-all: to each peer), for powers of
# two. MPICH, src/mpi/coll: ALLREDUCE_SHORT_MSG_SIZE, ALLGATHER_LONG_MSG_SIZE (of the total),
# ALLTOALL_SHORT_MSG_SIZE; R. Thakur, R. Rabenseifner, W. Gropp, Optimization of Collective
# Communication Operations in MPICH, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
_MPICH = {
    AR: ("recursive-doubling", 2048, "rabenseifner"),
    AG: ("recursive-doubling", 524288, "ring"),
    A2A: ("bruck", 256, "pairwise"),
}


class Authority(NamedTuple):
    """Whose word it is, and the factor by which other algorithms must predict unseen sizes better
    to overrule it."""

    said: str
    worth: float


class LibraryRun(NamedTuple):
    """One call: our schedule, and NCCL's protocol (``ll``, ``ll128``, ``simple``; empty for other
    libraries)."""

    spec: str
    protocol: str = ""


class LibraryRuns(NamedTuple):
    """What the library would run: for each series, at each of its points."""

    by: Authority
    runs: tuple[tuple[LibraryRun, ...], ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.spec for runs in self.runs for run in runs))


def nccl_on(fabric: Fabric, placed: Sequence[PlacedGroup], library: str) -> tuple[Hardware, ...]:
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
            runs.append(
                tuple(LibraryRun(high if point.bytes > most else low) for point in one.points)
            )
        # other MPIs have rules of their own
        return LibraryRuns(Authority("MPICH's rules pick", 1.2), tuple(runs))
    if not on or primitive not in on[0].constants.algorithms:
        return None
    for hardware, one in zip(on, series, strict=True):
        chosen = picks(hardware, primitive, [max(point.bytes, 1.0) for point in one.points])
        runs.append(
            tuple(
                LibraryRun(spec_of(pick.algorithm, primitive, hardware), pick.protocol)
                for pick in chosen
            )
        )
    found = LibraryRuns(Authority(f"NCCL {on[0].version}'s own model picks", 1.5), tuple(runs))
    return found if all(found.algorithms) else None  # None if one is not a schedule of ours
