"""The hop between nodes under LL, LL128 and Simple, and the software terms of what NCCL picks, from rows across nodes.

One hop for all machines on InfiniBand or RoCE (a NIC is a NIC): latency of each protocol and the bandwidth of LL and LL128 are
fitted together by coordinate descent, the price of a too slow schedule counting more than that of a too fast one: what is
missing becomes ``library.reached`` software, by ranks and size, of each schedule that NCCL picks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import log, log2
from statistics import fmean
from typing import Any, NamedTuple

from measured_rows import Row, rows

import colltool
from colltool.calibration.serialise import exact_size as size_of
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.fabric.model import Fabric
from colltool.fabric.templates import OneLine

Data = dict[str, Any]

NETWORKS: dict[str, tuple[str, ...]] = {
    "dgx-h100": ("dgx-h100", "hgx-h200"),
    "hgx-h200": ("hgx-h200", "dgx-h100"),
    "dgx-a100": ("dgx-a100",),
    "dgx-b200": ("dgx-b200",),
    "gh200": ("gh200",),
}
"""Fabrics with nodes on a NIC a GPU, and whose rows say what NCCL takes beside the model on them."""
SLINGSHOT = ("gh200",)
KINDS = {**NETWORKS, "nvl72": ("nvl72",)}
"""Whose rows say what NCCL takes beside the model, inside a node and across."""
ACROSS = [
    "hierarchical:in-network/double-binary-tree", "hierarchical:ring/double-binary-tree", "multi-rail-ring",
    "hierarchical:in-network/in-network", "hierarchical:ring/in-network", "hierarchical:direct/in-network",
]  # fmt: skip
_FELT = 8 * 2**20
_LENT = 128 * 2**20  # beyond it the bandwidth of a machine's own switches tells
FALLBACK = {"dgx-h100": "dgx-b200", "hgx-h200": "dgx-b200", "dgx-b200": "dgx-h100"}
"""Whose terms a machine takes at rank counts that it was not measured on: the same schedules over the same NICs."""
SCOPES: dict[tuple[str, bool], list[str]] = {
    ("all_reduce", False): ["in-network"],
    ("all_reduce", True): ACROSS,
    ("all_gather", True): ["multi-rail-ring"],
    ("reduce_scatter", True): ["multi-rail-ring"],
    ("all_to_all", False): ["pairwise"],  # in a rack, whose protocols are fitted on fewer ranks
}
"""Schedules that share a software term, by collective and whether ranks of several nodes take part: what NCCL takes at a size
beside the model of its pick it is taken to take for the others that it could run."""
_TOO_SLOW = 2.0  # a schedule priced too slow cannot be mended by a software term


_TOLD = "One fit over rows across nodes of all machines with %s (tests/benchmarks/fit_across.py)"
_SIMPLE_SAID = "NCCL 2.30, its own model (src/graph/tuning.cc): 14 us per network hop under Simple"


class Hop(NamedTuple):
    """Latency (us) of a hop under each protocol; GB/s a NIC under LL and LL128.

    Simple's latency is NCCL's own; LL128's bandwidth what 128 nodes reach in a ring tuned to it (NVIDIA/nccl-tests issue 322).
    """

    ll_us: float = 6.0
    ll128_us: float = 8.0
    ll_GBps: float = 2.3
    ll128_GBps: float = 44.0
    simple_us: float = 14.0


def fit_rows(fabrics: Collection[str], without: Collection[str] = ()) -> list[Row]:
    return [
        row
        for row in rows()
        if row.source.fabric in fabrics
        and row.role == "fit"
        and row.collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
        and row.source.source_id not in without
    ]


def with_hop(data: Data, hop: Hop) -> Data:
    """A fabric's data whose outer tier has the hop's protocols."""
    *inner, outer = data["tiers"]
    nic = float(outer["bandwidth"].removesuffix("GB/s"))
    share = outer["eta"]["beta"]

    def line(name: str, alpha_us: float, beta: float, source: str) -> OneLine:
        return OneLine(name=name, alpha=f"{alpha_us:.3g}us", eta=OneLine(alpha=1.0, beta=round(beta, 4)), source=source)

    told = _TOLD % ("Slingshot" if data["name"] in SLINGSHOT else "InfiniBand or RoCE")
    lines = [
        line("LL", hop.ll_us, min(hop.ll_GBps / nic, 0.5), told),
        line("LL128", hop.ll128_us, min(hop.ll128_GBps / nic, 0.9375 * share), told),
        line("Simple", hop.simple_us, share, _SIMPLE_SAID),
    ]
    outer = outer | {"protocols": lines}
    if switch := outer.get("in_network"):
        said = {"protocols": "CollNet runs only under Simple: NCCL 2.30, src/graph/tuning.cc"}
        outer["in_network"] = switch | {"protocols": ["Simple"], "source": switch["source"] | said}
    return data | {"tiers": [*inner, outer]}


def picked(fabric: Fabric, row: Row) -> AlgorithmEstimate:
    """The price of what NCCL picks, of a forced algorithm, or of the fastest where NCCL has no choice."""
    found = colltool.price(fabric, row.collective, size=row.bytes, ranks=row.ranks, algorithms=row.algorithm or ())
    runs = found.library.runs if found.library and not row.algorithm else None
    return runs or found.best


def loaded(data: Data, several: Iterable[Row]) -> dict[str, Fabric]:
    """The fabric under each set of overrides that the rows need."""
    return {change: colltool.load_fabric(data, overrides=change.split()) for change in {row.source.set for row in several}}


_SHARES = [(4, 1.0), (8, 0.96), (16, 0.90), (32, 0.85), (64, 0.80), (128, 0.77)]
_SHARES_SAID = (
    "NVIDIA/nccl issue 1229, reduce-scatter on H100: 360, 345, 320, 300, 280 and 260 GB/s busbw on 4 to 128 nodes, less what the "
    "latency of so long a ring takes of 8 GiB; a ring tuned to LL128 keeps 367 on 128 nodes (NVIDIA/nccl-tests issue 322)"
)
_TREE_SHARE = {"dgx-a100": 0.92}
_TREE_SAID = (
    "NCCL 2.30, its own model (src/graph/tuning.cc): 0.92 for trees, and 0.85 where all traffic of a NIC goes through one GPU, "
    "as on H100; NVIDIA/nccl issue 1368 measures 150 of 190 GB/s on 5 nodes of 8 H100"
)
_POSTED = {16: 37, 32: 42, 64: 60, 128: 98, 256: 290}  # us
_POSTED_SAID = "Measured on nodes of 8 H100: an all-to-all of small messages takes 37, 42, 60, 98 and 290 us on 2 to 32 nodes"


_RACKS_SAID = (
    "coreweave/nccl-tests pull request 48, 20 racks of GB200 NVL72, all-reduce of 0.5 to 4 GiB: a line of 4.67 ms + M / 213 GB/s,"
    " as of a ring over all 1440, and no schedule of NCCL beats it; on two racks as inside one"
)


def racks_reached() -> list[Data]:
    """What of NCCL's efficiency over racks of NVL72 is known by itself."""
    rings = ["all_reduce", "all_gather", "reduce_scatter"]
    ring = {"algorithm": "multi-rail-ring", "primitives": rings, "share": _by_nodes((2, 0.89), (20, 0.59))}
    found = [ring | {"source": {"share": _RACKS_SAID}}]
    return found + posted()


def _by_nodes(*shares: tuple[int, float]) -> list[Data]:
    return [OneLine(nodes=nodes, share=share) for nodes, share in shares]


def posted() -> list[Data]:
    took = [OneLine(ranks=ranks, size="1KiB", time=f"{max(us - 14, 0)}us") for ranks, us in _POSTED.items()]
    ways = ("direct", "two-level:direct/direct", "two-level:pairwise/direct", "two-level:pairwise/pairwise")
    return [
        {"algorithm": way, "primitives": ["all_to_all"], "software": took, "source": {"software": _POSTED_SAID}} for way in ways
    ]


def base_reached(name: str) -> list[Data]:
    """What of NCCL's efficiency is known by itself: rings by nodes, trees, and the posting of an all-to-all."""
    if name in SLINGSHOT:  # its rings and trees keep the NIC's share on 2 to 32 nodes
        return posted()
    if name not in NETWORKS:
        return racks_reached()
    rings = ["all_reduce", "all_gather", "reduce_scatter"]
    flat = {"algorithm": "multi-rail-ring", "primitives": rings, "protocols": ["Simple"], "share": _by_nodes(*_SHARES)}
    tree = {
        "algorithm": "hierarchical:ring/double-binary-tree",
        "primitives": ["all_reduce"],
        "share": _TREE_SHARE.get(name, 0.78),
    }
    return [flat | {"source": {"share": _SHARES_SAID}}, tree | {"source": {"share": _TREE_SAID}}, *posted()]


def _loss(ratio: float) -> float:
    off = log(ratio)
    return off * _TOO_SLOW if off > 0 else -off


def same_network(name: str) -> tuple[str, ...]:
    """The fabrics with nodes on the same kind of network, fitted together."""
    return tuple(one for one in NETWORKS if (one in SLINGSHOT) == (name in SLINGSHOT))


def fitted_hop(bases: dict[str, Data], without: Collection[str] = ()) -> Hop:
    """The hop that prices all rows of reductions and gathers across nodes best; ``bases``: data of each fabric without a hop."""
    several = {
        name: [
            row
            for row in fit_rows([name], without)
            if row.ranks > data["tiers"][0].get("max_size", 8) and row.collective != "all_to_all"
        ]
        for name, data in bases.items()
    }

    def loss(hop: Hop) -> float:
        total = []
        for name, data in bases.items():
            fabrics = loaded(with_hop(data, hop), several[name])
            total += [_loss(float(picked(fabrics[row.source.set], row).total_s) / row.time_s) for row in several[name]]
        return fmean(total)

    best = Hop()
    least = loss(best)
    for step in (0.3, 0.15, 0.07):
        for field in ("ll_us", "ll128_us", "ll_GBps"):
            for sign in (1, -1):
                while (tried := loss(other := best._replace(**{field: getattr(best, field) * (1 + step) ** sign}))) < least:
                    best, least = other, tried
    return best


Taken = dict[int, dict[int, list[tuple[float, float]]]]  # seconds beside the model and measured, by ranks and size
Scope = tuple[str, bool]


class Beside(NamedTuple):
    """What NCCL's picks take beside the model on a machine, by collective and whether nodes take part, and the rows' sources."""

    taken: dict[Scope, Taken]
    used: dict[Scope, dict[str, None]]


def beside(data: Data, without: Collection[str] = ()) -> Beside:
    """From the rows of a machine's own kind."""
    several = [row for row in fit_rows(KINDS[data["name"]], without) if not row.algorithm or row.algorithm == "in-network"]
    tier, rack = data["tiers"][-1]["name"], data["name"] not in NETWORKS
    fabrics: dict[str, Fabric] = {}
    found = Beside({}, {})
    for row in several:
        change = row.source.set.replace("roce.", f"{tier}.").replace("ib.", f"{tier}.")
        fabric = fabrics.get(change) or fabrics.setdefault(change, colltool.load_fabric(data, overrides=change.split()))
        scope, priced = (row.collective, row.ranks > fabric.tiers[0].endpoints), picked(fabric, row)
        if priced.spec in SCOPES.get(scope, ()) and (rack or scope[0] != "all_to_all"):
            sizes = found.taken.setdefault(scope, {}).setdefault(row.ranks, {})
            sizes.setdefault(row.bytes, []).append((row.time_s - float(priced.total_s), row.time_s))
            found.used.setdefault(scope, {})[row.source.source_id] = None
    return found


def with_software(data: Data, own: Beside, other: Beside | None = None) -> Data:
    """A fabric's data with software terms: its own, for rank counts that only another machine was measured on that one's.

    A reduce-scatter across nodes takes what an all-gather does, and that, not measured, half of an all-reduce.
    """
    for scope, taken in (other.taken if other else {}).items():
        for ranks, sizes in taken.items() if scope[1] else ():
            mine = own.taken.setdefault(scope, {}).get(ranks, {})
            lent = {size: times for size, times in sizes.items() if size < min([*mine, _LENT + 1])}
            if lent:
                own.taken[scope][ranks] = {**lent, **mine}
                own.used.setdefault(scope, {}).update((other or own).used[scope])
    _mirror(own)
    entries = []
    for scope, taken in sorted(own.taken.items()):
        knots = list(_knots(taken))
        if any(one["time"] != "0us" for one in knots):
            said = {"software": f"{', '.join(own.used[scope])} (tests/data/measured): what they take beside the model"}
            entries.append({"algorithm": SCOPES[scope], "primitives": [scope[0]], "software": knots, "source": said})
    return data | {"library": data["library"] | {"reached": [*entries, *data["library"]["reached"]]}}


def _mirror(own: Beside) -> None:
    """Gathers and reduce-scatters that were not measured on a count of ranks: each is half of an all-reduce."""
    whole = own.taken.get(("all_reduce", True), {})
    half: Taken = {ranks: {size: [(a / 2, t) for a, t in x] for size, x in sizes.items()} for ranks, sizes in whole.items()}
    for collective, other in (("all_gather", {}), ("reduce_scatter", own.taken.get(("all_gather", True), {}))):
        for ranks, sizes in {**half, **other}.items():
            own.taken.setdefault((collective, True), {}).setdefault(ranks, sizes)
            own.used.setdefault((collective, True), own.used.get(("all_reduce", True), {}))


def _knots(taken: Taken) -> Iterator[OneLine]:
    """By ranks and size; a rank count takes at sizes that it was not measured at what the nearest measured one takes there."""
    found = {ranks: dict(_rising(sizes)) for ranks, sizes in sorted(taken.items())}
    lines: dict[int, list[tuple[int, float]]] = {}
    for ranks, own in found.items():
        points = dict(own)
        for other in sorted(found, key=lambda count: abs(log2(count / ranks))):
            low, high = min(points), max(points)
            points |= {size: time for size, time in found[other].items() if not low <= size <= high}
        if min(points) > _FELT:  # nobody measured a small message: what a large one takes grew with it
            points[_FELT // 128] = 0.0
        lines[ranks] = _straightened(sorted(points.items()))
    counts = list(lines)
    for before, ranks, after in zip([0, *counts], counts, [*counts[1:], 0], strict=False):
        if not lines[ranks] == lines.get(before) == lines.get(after):
            yield from (OneLine(ranks=ranks, size=size_of(size), time=f"{took * 1e6:.3g}us") for size, took in lines[ranks])


_NEAR = 0.01  # of what a call takes beside the model
_DUST = 0.05e-6


def _straightened(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Without the points that the line between their neighbours meets."""
    kept = points[:1]
    for at in range(1, len(points) - 1):
        (low, before), (high, after) = kept[-1], points[at + 1]
        skipped = [one for one in points if low < one[0] < high]
        off = (abs(before + (after - before) * (size - low) / (high - low) - took) - _NEAR * took for size, took in skipped)
        if max(off) > _DUST:
            kept.append(points[at])
    return [*kept, *points[1:][-1:]]


def _rising(sizes: dict[int, list[tuple[float, float]]]) -> Iterator[tuple[int, float]]:
    """Isotonic regression of relative errors (pool adjacent violators): a larger message takes longer. Each level by its ends."""
    blocks: list[tuple[float, float, list[int]]] = []  # weighted sum, weight, sizes
    for size, times in sorted(sizes.items()):
        weights = [1 / took**2 for _, took in times]
        blocks.append((sum(w * beside for w, (beside, _) in zip(weights, times, strict=True)), sum(weights), [size]))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (first, mine, before), (second, other, after) = blocks[-2:]
            blocks[-2:] = [(first + second, mine + other, before + after)]
    for total, weight, same in blocks:
        yield from ((size, max(total / weight, 0.0)) for size in dict.fromkeys((same[0], same[-1])))
