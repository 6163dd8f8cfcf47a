"""NCCL's hop between nodes under LL, LL128 and Simple, from rows across nodes.

One hop for all machines on InfiniBand or RoCE (a NIC is a NIC): latency of each protocol and the bandwidth of LL and LL128 are
fitted together by coordinate descent, the price of a too slow schedule counting more than that of a too fast one: a machine's
factor (:mod:`fit_machines`) mends what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from math import log
from statistics import fmean, median
from typing import Any, NamedTuple

import library_file
from measured_rows import Row, rows

import colltool
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
_LL128 = 0.9375
"""120 of 128 bytes are data."""
_TOO_SLOW = 2.0  # a schedule priced too slow cannot be mended by a software term


_SIMPLE_SAID = "Simple: NCCL 2.30, its own model (src/graph/tuning.cc), 14 us per network hop"
_TOLD = f"One fit over rows across nodes of all machines with %s (tests/benchmarks/fit_across.py); {_SIMPLE_SAID}"


class Hop(NamedTuple):
    """Latency (us) of a hop under each protocol; GB/s a NIC under LL and LL128; LL128's and Simple's shares of the tier's.

    Simple's latency is NCCL's own; LL128's bandwidth what 128 nodes reach in a ring tuned to it (NVIDIA/nccl-tests issue 322).
    """

    ll_us: float = 6.0
    ll128_us: float = 8.0
    ll_GBps: float = 2.3
    ll128_GBps: float = 44.0
    simple_us: float = 14.0
    ll128_share: float = _LL128
    simple_share: float = 1.0


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

    def line(name: str, alpha_us: float, beta: float) -> OneLine:
        return OneLine(name=name, alpha=f"{alpha_us:.3g}us", eta=OneLine(alpha=1.0, beta=round(beta, 4)))

    lines = [
        line("LL", hop.ll_us, min(hop.ll_GBps / nic, 0.5)),
        line("LL128", hop.ll128_us, min(hop.ll128_GBps / nic, hop.ll128_share * share)),
        line("Simple", hop.simple_us, share * hop.simple_share),
    ]
    outer = outer | {"protocols": lines}
    if switch := outer.get("in_network"):
        outer["in_network"] = switch | {"protocols": ["Simple"]}
    return data | {"tiers": [*inner, outer]}


def picked(fabric: Fabric, row: Row) -> AlgorithmEstimate:
    """The price of what NCCL picks, of a forced algorithm, or of the fastest where NCCL has no choice."""
    found = colltool.price(fabric, row.collective, size=row.bytes, ranks=row.ranks, algorithms=row.algorithm or ())
    runs = found.library.runs if found.library and not row.algorithm else None
    return runs or found.best


def loaded(data: Data, several: Iterable[Row]) -> dict[str, Fabric]:
    """The fabric under each set of overrides that the rows need."""
    return {change: colltool.load_fabric(data, overrides=change.split()) for change in {"", *(row.source.set for row in several)}}


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
_POSTING = ("direct", "two-level:direct/direct", "two-level:pairwise/direct", "two-level:pairwise/pairwise")
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
    return [
        {"algorithm": way, "primitives": ["all_to_all"], "software": took, "source": {"software": _POSTED_SAID}}
        for way in _POSTING
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


NVLS_TREE = "hierarchical:in-network/double-binary-tree"
FILLED = {"dgx-h100": ("nccl-tests-309a", "nccl-tests-309b"), "dgx-b200": ("lambda-b200-2n",)}
"""Tables that show what NVLSTree takes to fill, by fabric."""
_NVLS_TREE_SHARE = ((2, 0.88), (4, 1.0))
_FILL_SIZES = tuple(2**power for power in range(20, 29))
_FILLED_SAID = (
    "What NVLSTree takes beside its bytes while chunks fill the tree: the median of %s (tests/data/measured), never falling; two"
    " nodes of Hopper keep 0.88 of the NICs (NVIDIA/nccl-tests issue 309)"
)
Fill = Sequence[tuple[int, float]]
"""Bytes and seconds."""


def filling(bases: dict[str, Data], sources: Collection[str], without: Collection[str] = (), hop: Hop | None = None) -> Fill:
    """What NVLSTree takes beside its bytes, by size: it rises with the chunks, up to full ones."""
    missing: dict[int, list[float]] = {size: [] for size in _FILL_SIZES}
    for name, data in bases.items():
        nvls = [_nvls_tree(name)]
        fabric = loaded(with_hop(data | {"library": data["library"] | {"reached": nvls}}, hop or Hop()), [])[""]
        for row in fit_rows([name], without):
            if row.source.source_id in sources and row.bytes in missing:
                priced = colltool.price(fabric, "all_reduce", size=row.bytes, ranks=row.ranks, algorithms=NVLS_TREE).best
                missing[row.bytes].append(row.time_s - float(priced.total_s))
    # what is left below 4 MiB is another protocol's
    found = [(size, max(median(times), 0.0) if size >= 4 * 2**20 else 0.0) for size, times in missing.items() if times]
    return list(zip((size for size, _ in found), accumulate((seconds for _, seconds in found), max), strict=True))


def _nvls_tree(name: str) -> Data:
    share = _by_nodes(*_NVLS_TREE_SHARE) if name != "dgx-b200" else 1.0
    return {"algorithm": NVLS_TREE, "primitives": ["all_reduce"], "share": share}


def filled(name: str, fill: Fill) -> Data:
    """What NVLSTree reaches, as a fabric file has it."""
    took = [OneLine(ranks=16, size=f"{size}B", time=f"{seconds * 1e6:.4g}us") for size, seconds in fill]
    return _nvls_tree(name) | {"software": took, "source": {"software": "see the library's file"}}


_TREE = "hierarchical:ring/double-binary-tree"
_TREE_FILL_SAID = (
    "What a tree takes beside its bytes while chunks fill it, the median of alps-gh200 and cscs-gh200 (tests/data/measured): of"
    " each rank count no more than at any larger size, so that a hump of one machine does not stand"
)
_TREE_SIZES = tuple(2**power for power in range(18, 28))
TreeFill = Sequence[tuple[int, int, float]]
"""Ranks, bytes and seconds."""


def tree_filling(data: Data, hop: Hop, without: Collection[str] = ()) -> TreeFill:
    """What a tree takes beside its bytes by ranks and size, where a tree is what NCCL runs."""
    fabric = loaded(with_hop(data, hop), [])[""]
    missing: dict[int, dict[int, list[float]]] = {}
    for row in fit_rows(["gh200"], without):
        if row.bytes in _TREE_SIZES and row.ranks > data["tiers"][0]["size"]:
            priced = picked(fabric, row)
            if priced.spec == _TREE:
                missing.setdefault(row.ranks, {}).setdefault(row.bytes, []).append(row.time_s - float(priced.total_s))
    found = []
    for ranks, by_size in sorted(missing.items()):
        if max(by_size) < 4 * 2**20:  # a ring from there on: nothing larger tells a hump from the tree
            continue
        times = [(size, max(median(several), 0.0)) for size, several in sorted(by_size.items())]
        least = list(accumulate((seconds for _, seconds in reversed(times)), min))[::-1]
        found += [(ranks, _TREE_SIZES[0] // 2, 0.0)]
        found += [(ranks, size, seconds) for (size, _), seconds in zip(times, least, strict=True)]
    return found


def tree_filled(fill: TreeFill) -> Data:
    took = [OneLine(ranks=ranks, size=f"{size}B", time=f"{seconds * 1e6:.4g}us") for ranks, size, seconds in fill]
    return {"algorithm": _TREE, "primitives": ["all_reduce"], "software": took, "source": {"software": _TREE_FILL_SAID}}


def _tree_table(fill: TreeFill) -> Data:
    took = [{"ranks": ranks, "size": size, "time": float(f"{seconds:.4g}")} for ranks, size, seconds in fill]
    entry = {"media": ("slingshot",), "gpus": ("hopper", "ampere"), "algorithm": [_TREE], "primitives": ["all_reduce"]}
    return entry | {"software": took, "source": _TREE_FILL_SAID}


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


_ALL = ("ampere", "hopper", "blackwell", "vr200")
_EIGHTS = ("ampere", "hopper", "b200", "b300")
_RACKS = ("gb200", "gb300", "vr200")
_CLOUDS = ("ib", "roce", "efa", "tcpxo")
_HOST = "LL's rate is a CPU's and a proxy's, not the NIC's: by tests/benchmarks/fit_media.py"
_COLLNET = "Switches: NCCL's own model, 31 us for the network hop of CollNetDirect, over two passes of two levels"
_HAND = "by coordinate descent, as tests/benchmarks/fit_across.py does it"
EFA = Hop(ll_us=27.1, ll128_us=40.4, ll_GBps=0.1325, simple_us=52.1)
_TCPXO = Hop(ll_us=88.3, ll128_us=86.5, ll_GBps=0.0121, simple_us=44.8)
_SPARK = (
    "NVIDIA/dgx-spark-playbooks pull request 103, MTU 9000: all-reduce of 8, 16, 32 and 64 KiB in 27.8, 31.9, 39.5 and 67.3 us"
)


_RACK_SHARES = ((2, 0.88), (20, 0.45))
RACK_SOURCES = ("oke-gb200-2racks", "coreweave-2racks", "oci-gb200-2")
_RACK_FILL_SAID = (
    "What NVLSTree takes beside its bytes over racks of NVL72, the median of oke-gb200-2racks, coreweave-2racks and oci-gb200-2"
    " (tests/data/measured), never falling; 20 racks (coreweave/nccl-tests pull request 48) take 4.67 ms + M / 213 GB/s, of which"
    " smaller sizes are given the same part as on two racks"
)
_RACK_SIZES = (2**10, 2**16, 2**20, 2**23, 2**25, 2**27, 2**29)
_RACKS_START_S = 4.5e-3
"""Of 1440 ranks at the largest sizes, beside what a step takes."""


def racks_filling(data: Data, without: Collection[str] = ()) -> TreeFill:
    """What NVLSTree takes beside its bytes over racks, by ranks and size."""
    way = {"algorithm": NVLS_TREE, "primitives": ["all_reduce"], "share": _by_nodes(*_RACK_SHARES)}
    reached = data | {"library": data["library"] | {"reached": [way]}}
    missing: dict[int, list[float]] = {}
    for row in fit_rows(["nvl72"], without):
        if row.source.source_id in RACK_SOURCES and row.collective == "all_reduce" and row.ranks == 128:
            fabric = loaded(with_hop(reached, Hop()), [row])[row.source.set]
            priced = colltool.price(fabric, "all_reduce", size=row.bytes, ranks=row.ranks, algorithms=NVLS_TREE).best
            missing.setdefault(row.bytes, []).append(row.time_s - float(priced.total_s))
    sizes = [size for size in _RACK_SIZES if size in missing]
    least = accumulate((max(median(missing[size]), 0.0) for size in sizes), max)
    two = list(zip(sizes, least, strict=True))
    return [
        *((128, size, seconds) for size, seconds in two),
        *((1440, size, seconds / two[-1][1] * _RACKS_START_S) for size, seconds in two),
    ]


def racks_filled(fill: TreeFill) -> Data:
    return tree_filled(fill) | {"algorithm": NVLS_TREE, "share": _by_nodes(*_RACK_SHARES)}


def _racks_table(fill: TreeFill) -> Data:
    shares = [{"nodes": nodes, "share": share} for nodes, share in _RACK_SHARES]
    entry = {"media": ("ib", "roce"), "gpus": _RACKS, "algorithm": [NVLS_TREE], "primitives": ["all_reduce"], "share": shares}
    took = [{"ranks": ranks, "size": size, "time": float(f"{seconds:.4g}")} for ranks, size, seconds in fill]
    return entry | {"software": took, "source": _RACK_FILL_SAID}


class Fills(NamedTuple):
    """What schedules take to fill: NVLSTree on InfiniBand and RoCE, on EFA and over racks; a tree on Slingshot."""

    network: Fill
    efa: Fill
    slingshot: TreeFill
    racks: TreeFill


def tables(
    network: Hop, slingshot: Hop, *, fills: Fills, ll_rates: Mapping[tuple[str, str], float], others: Sequence[str]
) -> list[str]:
    """NCCL's entries between nodes, and the shares that its schedules reach there.

    α of a leaf, η included, is 2.4 us on InfiniBand and Slingshot and 6 us on RoCE, EFA and TCPXO.
    """
    told = f"{_TOLD % 'InfiniBand or RoCE'}. {_HOST}"
    switch = {"step_us": 7.0, "protocols": ["Simple"]}
    return [
        *(
            hop_table(("ib",), gpus, f"{told}. {_COLLNET}", network._replace(ll_GBps=ll_rates["ib", gpus[0]]), 2.4)
            + f"switch = {library_file.text_of(switch)}\n"
            for gpus in (("ampere",), ("hopper",), ("blackwell", "vr200"))
        ),
        hop_table(("roce",), _ALL, told, network._replace(ll_GBps=ll_rates["roce", ""]), 6.0),
        hop_table(("efa",), ("hopper",), f"Fitted to aws-p5-efa (tests/data/measured) {_HAND}", EFA, 6.0),
        *others,
        hop_table(("tcpxo",), ("hopper",), f"Fitted to a3mega-2-nodes, dstack-a3mega (tests/data/measured) {_HAND}", _TCPXO, 6.0),
        hop_table(("slingshot",), ("hopper", "ampere"), _TOLD % "Slingshot", slingshot, 2.4),
        _spark_table(),
        *_reached_tables(fills),
    ]


def hop_table(media: tuple[str, ...], gpus: tuple[str, ...], source: str, hop: Hop, alpha_us: float) -> str:
    protocols = [
        {"name": "LL", "step_us": float(f"{hop.ll_us:.3g}") - alpha_us, "host_GBps": float(f"{hop.ll_GBps:.3g}")},
        {"name": "LL128", "step_us": float(f"{hop.ll128_us:.3g}") - alpha_us, "share": float(f"{hop.ll128_share:.4g}")},
        {
            "name": "Simple",
            "step_us": float(f"{hop.simple_us:.3g}") - alpha_us,
            "share": float(f"{hop.simple_share:.4g}"),
        },
    ]
    return library_file.table("tier", {"media": media, "gpus": gpus, "source": source, "protocols": protocols})


def _spark_table() -> str:
    """Two DGX Spark on a cable, whose α is 2 us."""
    protocols = [
        {"name": "LL", "launch_us": 10.2, "step_us": 4.0, "share": 0.06147},
        {"name": "Simple", "launch_us": 10.2, "step_us": 28.0, "share": 1.0},
    ]
    runs = {"all_reduce": ["ring"], "all_gather": ["ring"], "reduce_scatter": ["ring"], "all_to_all": ["pairwise"]}
    source = f"{_SPARK}. Simple's time a step: assumption"
    entry = {"media": ("roce",), "gpus": ("gb10",), "source": source, "protocols": protocols, "runs": runs}
    return library_file.table("tier", entry)


def _reached_tables(fills: Fills) -> list[str]:
    rings = ("all_reduce", "all_gather", "reduce_scatter")
    tree = {"algorithm": ["hierarchical:ring/double-binary-tree"], "primitives": ["all_reduce"], "source": _TREE_SAID}
    shares = [{"nodes": nodes, "share": share} for nodes, share in _SHARES]
    racks = [{"nodes": 2, "share": 0.89}, {"nodes": 20, "share": 0.59}]
    took = [{"ranks": ranks, "size": 1024, "time": max(us - 14, 0) * 1e-6} for ranks, us in _POSTED.items()]
    ring = {"algorithm": ["multi-rail-ring"], "primitives": rings}
    found = [
        {"media": _CLOUDS, "gpus": _EIGHTS, **ring, "protocols": ["Simple"], "share": shares, "source": _SHARES_SAID},
        {"media": _CLOUDS, "gpus": ("hopper", "b200", "b300"), **tree, "share": 0.78},
        {"media": _CLOUDS, "gpus": ("ampere",), **tree, "share": 0.92},
        *_filled_tables(("efa",), fills.efa, "aws-p5-efa"),
        *_filled_tables(("ib", "roce"), fills.network, ", ".join(source for several in FILLED.values() for source in several)),
        _tree_table(fills.slingshot),
        _racks_table(fills.racks),
        {"media": ("ib", "roce"), "gpus": _RACKS, **ring, "share": racks, "source": _RACKS_SAID},
        {
            "media": (*_CLOUDS, "slingshot"),
            "gpus": _ALL,
            "algorithm": list(_POSTING),
            "primitives": ["all_to_all"],
            "software": took,
            "source": _POSTED_SAID,
        },
    ]
    return [library_file.table("reached", entry) for entry in found]


def _filled_tables(media: tuple[str, ...], fill: Fill, sources: str) -> list[Data]:
    took = [{"ranks": 16, "size": size, "time": float(f"{seconds:.4g}")} for size, seconds in fill]
    shares = [{"nodes": nodes, "share": share} for nodes, share in _NVLS_TREE_SHARE]
    entry = {"algorithm": [NVLS_TREE], "primitives": ["all_reduce"], "software": took, "source": _FILLED_SAID % sources}
    return [
        {"media": media, "gpus": ("hopper",), **entry, "share": shares},
        {"media": media, "gpus": ("b200", "b300"), **entry},
    ]
