"""NCCL's hop between nodes under LL, LL128 and Simple, from rows across nodes.

One hop for all machines on InfiniBand or RoCE (a NIC is a NIC): latency of each protocol and the
bandwidth of LL and LL128 are fitted together by coordinate descent, the price of a too slow
schedule counting more than that of a too fast one: a machine's factor (:mod:`fit_machines`) mends
what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log
from statistics import fmean
from typing import Any, NamedTuple

import library_file
from measured_rows import Row, rows

import colltool
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.fabric.model import Fabric
from colltool.fabric.yaml_writer import OneLine

Data = dict[str, Any]

NETWORKS: dict[str, tuple[str, ...]] = {
    "dgx-h100": ("dgx-h100", "hgx-h200"),
    "hgx-h200": ("hgx-h200", "dgx-h100"),
    "dgx-a100": ("dgx-a100",),
    "dgx-b200": ("dgx-b200",),
    "gh200": ("gh200",),
}
"""Fabrics with nodes on a NIC a GPU, and whose rows say what NCCL takes beside the model on
them."""
SLINGSHOT = ("gh200",)
KINDS = {**NETWORKS, "nvl72": ("nvl72",)}
"""Whose rows say what NCCL takes beside the model, inside a node and across."""
_LL128 = 0.9375
"""120 of 128 bytes are data."""
_TOO_SLOW = 2.0  # a schedule priced too slow cannot be mended by a software term


_SIMPLE_SAID = "Simple: NCCL 2.30, its own model (src/graph/tuning.cc), 14 us per network hop"
_TOLD = (
    "One fit over rows across nodes of all machines with %s (tests/benchmarks/fit_across.py);"
    f" {_SIMPLE_SAID}"
)


class Hop(NamedTuple):
    """Latency (us) of a hop under each protocol; GB/s a NIC under LL and LL128; LL128's and
    Simple's shares of the tier's.

    Simple's latency is NCCL's own; LL128's bandwidth what 128 nodes reach in a ring tuned to it
    (NVIDIA/nccl-tests issue 322).
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
        return OneLine(
            name=name, alpha=f"{alpha_us:.3g}us", eta=OneLine(alpha=1.0, beta=round(beta, 4))
        )

    lines = [
        line("LL", hop.ll_us, min(hop.ll_GBps / nic, 0.5)),
        line("LL128", hop.ll128_us, min(hop.ll128_GBps / nic, hop.ll128_share * share)),
        line("Simple", hop.simple_us, share * hop.simple_share),
    ]
    outer = outer | {"protocols": lines}
    if switch := outer.get("in_network"):
        outer["in_network"] = switch | {"protocols": ["Simple"]}
    return data | {"tiers": [*inner, outer]}


def picked(fabric: Fabric, row: Row, **readings: Any) -> AlgorithmEstimate:
    """The price of what NCCL picks, of a forced algorithm, or of the fastest where NCCL has no
    choice."""
    found = colltool.price(
        fabric,
        row.collective,
        size=row.bytes,
        ranks=row.ranks,
        algorithms=row.algorithm or (),
        **readings,
    )
    runs = found.library.runs if found.library and not row.algorithm else None
    return runs or found.best


def loaded(data: Data, several: Iterable[Row]) -> dict[str, Fabric]:
    """The fabric under each set of overrides that the rows need."""
    return {
        change: colltool.load_fabric(data, overrides=change.split())
        for change in {"", *(row.source.set for row in several)}
    }


_SHARES = [(4, 1.0), (8, 0.96), (16, 0.90), (32, 0.85), (64, 0.80), (128, 0.77)]
_SHARES_SAID = (
    "NVIDIA/nccl issue 1229, reduce-scatter on H100: 360, 345, 320, 300, 280 and 260 GB/s busbw on"
    " 4 to 128 nodes, less what the latency of so long a ring takes of 8 GiB; a ring tuned to LL128"
    " keeps 367 on 128 nodes (NVIDIA/nccl-tests issue 322)"
)
_TREE_SHARE = {"dgx-a100": 0.92}
_TREE_SAID = (
    "NCCL 2.30, its own model (src/graph/tuning.cc): 0.92 for trees, and 0.85 where all traffic of"
    " a NIC goes through one GPU, as on H100; NVIDIA/nccl issue 1368 measures 150 of 190 GB/s on 5"
    " nodes of 8 H100"
)
_POSTED = {16: 37, 32: 42, 64: 60, 128: 98, 256: 290}  # us
_POSTING = (
    "direct",
    "two-level:direct/direct",
    "two-level:pairwise/direct",
    "two-level:pairwise/pairwise",
)
_POSTED_SAID = (
    "Measured on nodes of 8 H100: an all-to-all of small messages takes 37, 42, 60, 98 and 290 us"
    " on 2 to 32 nodes"
)


_RACKS_SAID = (
    "coreweave/nccl-tests pull request 48, 20 racks of GB200 NVL72, all-reduce of 0.5 to 4 GiB: a"
    " line of 4.67 ms + M / 213 GB/s, as of a ring over all 1440, and no schedule of NCCL beats it;"
    " on two racks as inside one"
)


def racks_reached() -> list[Data]:
    """What of NCCL's efficiency over racks of NVL72 is known by itself."""
    rings = ["all_reduce", "all_gather", "reduce_scatter"]
    ring = {
        "algorithm": "multi-rail-ring",
        "primitives": rings,
        "share": by_nodes((2, 0.89), (20, 0.59)),
    }
    found = [ring | {"source": {"share": _RACKS_SAID}}]
    return found + posted()


def by_nodes(*shares: tuple[int, float]) -> list[Data]:
    return [OneLine(nodes=nodes, share=share) for nodes, share in shares]


def posted() -> list[Data]:
    took = [
        OneLine(ranks=ranks, size="1KiB", time=f"{max(us - 14, 0)}us")
        for ranks, us in _POSTED.items()
    ]
    return [
        {
            "algorithm": way,
            "primitives": ["all_to_all"],
            "software": took,
            "source": {"software": _POSTED_SAID},
        }
        for way in _POSTING
    ]


def base_reached(name: str) -> list[Data]:
    """What of NCCL's efficiency is known by itself: rings by nodes, trees, and the posting of an
    all-to-all."""
    if name in SLINGSHOT:  # its rings and trees keep the NIC's share on 2 to 32 nodes
        return posted()
    if name not in NETWORKS:
        return racks_reached()
    rings = ["all_reduce", "all_gather", "reduce_scatter"]
    flat = {
        "algorithm": "multi-rail-ring",
        "primitives": rings,
        "protocols": ["Simple"],
        "share": by_nodes(*_SHARES),
    }
    tree = {
        "algorithm": "hierarchical:ring/double-binary-tree",
        "primitives": ["all_reduce"],
        "share": _TREE_SHARE.get(name, 0.78),
    }
    return [
        flat | {"source": {"share": _SHARES_SAID}},
        tree | {"source": {"share": _TREE_SAID}},
        *posted(),
    ]


def _loss(ratio: float) -> float:
    off = log(ratio)
    return off * _TOO_SLOW if off > 0 else -off


def same_network(name: str) -> tuple[str, ...]:
    """The fabrics with nodes on the same kind of network, fitted together."""
    return tuple(one for one in NETWORKS if (one in SLINGSHOT) == (name in SLINGSHOT))


def fitted_hop(bases: dict[str, Data], without: Collection[str] = ()) -> Hop:
    """The hop that prices all rows of reductions and gathers across nodes best; ``bases``: data of
    each fabric without a hop."""
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
            total += [
                _loss(float(picked(fabrics[row.source.set], row).total_s) / row.time_s)
                for row in several[name]
            ]
        return fmean(total)

    best = Hop()
    least = loss(best)
    for step in (0.3, 0.15, 0.07):
        for field in ("ll_us", "ll128_us", "ll_GBps"):
            for sign in (1, -1):
                while (
                    tried := loss(
                        other := best._replace(**{field: getattr(best, field) * (1 + step) ** sign})
                    )
                ) < least:
                    best, least = other, tried
    return best


_ALL = ("ampere", "hopper", "blackwell", "vr200")
_EIGHTS = ("ampere", "hopper", "b200", "b300")
RACKS = ("gb200", "gb300", "vr200")
_CLOUDS = ("ib", "roce", "efa", "tcpx")
_HOST = "LL's rate is a CPU's and a proxy's, not the NIC's: by tests/benchmarks/fit_media.py"
_COLLNET = (
    "Switches: NCCL's own model, 31 us for the network hop of CollNetDirect, over two passes of two"
    " levels"
)
_HAND = "by coordinate descent, as tests/benchmarks/fit_across.py does it"
EFA = Hop(ll_us=27.1, ll128_us=40.4, ll_GBps=0.1325, simple_us=52.1)
_TCPXO = Hop(ll_us=88.3, ll128_us=86.5, ll_GBps=0.0121, simple_us=44.8)
_SPARK = (
    "NVIDIA/dgx-spark-playbooks pull request 103, MTU 9000: all-reduce of 8, 16, 32 and 64 KiB in"
    " 27.8, 31.9, 39.5 and 67.3 us"
)


def tables(
    network: Hop,
    slingshot: Hop,
    *,
    filled: Sequence[Data],
    ll_rates: Mapping[tuple[str, str], float],
    others: Sequence[str],
) -> list[str]:
    """NCCL's entries between nodes, and the shares that its schedules reach there.

    α of a leaf, η included, is 2.4 us on InfiniBand and Slingshot and 6 us on RoCE, EFA and TCPXO.
    """
    told = f"{_TOLD % 'InfiniBand or RoCE'}. {_HOST}"
    switch = {"step_us": 7.0, "protocols": ["Simple"]}
    return [
        *(
            hop_table(
                ("ib",),
                gpus,
                f"{told}. {_COLLNET}",
                network._replace(ll_GBps=ll_rates["ib", gpus[0]]),
                2.4,
            )
            + f"switch = {library_file.text_of(switch)}\n"
            for gpus in (("ampere",), ("hopper",), ("blackwell", "vr200"))
        ),
        hop_table(("roce",), _ALL, told, network._replace(ll_GBps=ll_rates["roce", ""]), 6.0),
        hop_table(
            ("efa",), ("hopper",), f"Fitted to aws-p5-efa (tests/data/measured) {_HAND}", EFA, 6.0
        ),
        *others,
        hop_table(
            ("tcpx",),
            ("hopper",),
            f"Fitted to a3mega-2-nodes, dstack-a3mega (tests/data/measured) {_HAND}",
            _TCPXO,
            6.0,
        ),
        hop_table(("slingshot",), ("hopper", "ampere"), _TOLD % "Slingshot", slingshot, 2.4),
        _spark_table(),
        *_reached_tables(filled),
    ]


def hop_table(
    media: tuple[str, ...], gpus: tuple[str, ...], source: str, hop: Hop, alpha_us: float
) -> str:
    protocols = [
        {
            "name": "LL",
            "step_us": float(f"{hop.ll_us:.3g}") - alpha_us,
            "host_GBps": float(f"{hop.ll_GBps:.3g}"),
        },
        {
            "name": "LL128",
            "step_us": float(f"{hop.ll128_us:.3g}") - alpha_us,
            "share": float(f"{hop.ll128_share:.4g}"),
        },
        {
            "name": "Simple",
            "step_us": float(f"{hop.simple_us:.3g}") - alpha_us,
            "share": float(f"{hop.simple_share:.4g}"),
        },
    ]
    return library_file.table(
        "tier", {"media": media, "gpus": gpus, "source": source, "protocols": protocols}
    )


def _spark_table() -> str:
    """Two DGX Spark on a cable, whose α is 2 us."""
    protocols = [
        {"name": "LL", "launch_us": 10.2, "step_us": 4.0, "share": 0.06147},
        {"name": "Simple", "launch_us": 10.2, "step_us": 28.0, "share": 1.0},
    ]
    runs = {
        "all_reduce": ["ring"],
        "all_gather": ["ring"],
        "reduce_scatter": ["ring"],
        "all_to_all": ["pairwise"],
    }
    source = f"{_SPARK}. Simple's time a step: assumption"
    entry = {
        "media": ("roce",),
        "gpus": ("gb10",),
        "source": source,
        "protocols": protocols,
        "runs": runs,
    }
    return library_file.table("tier", entry)


def _reached_tables(filled: Sequence[Data]) -> list[str]:
    rings = ("all_reduce", "all_gather", "reduce_scatter")
    tree = {
        "algorithm": ["hierarchical:ring/double-binary-tree"],
        "primitives": ["all_reduce"],
        "source": _TREE_SAID,
    }
    shares = [{"nodes": nodes, "share": share} for nodes, share in _SHARES]
    racks = [{"nodes": 2, "share": 0.89}, {"nodes": 20, "share": 0.59}]
    took = [
        {"ranks": ranks, "size": 1024, "time": max(us - 14, 0) * 1e-6}
        for ranks, us in _POSTED.items()
    ]
    ring = {"algorithm": ["multi-rail-ring"], "primitives": rings}
    found = [
        {
            "media": _CLOUDS,
            "gpus": _EIGHTS,
            **ring,
            "protocols": ["Simple"],
            "share": shares,
            "source": _SHARES_SAID,
        },
        {"media": _CLOUDS, "gpus": ("hopper", "b200", "b300"), **tree, "share": 0.78},
        {"media": _CLOUDS, "gpus": ("ampere",), **tree, "share": 0.92},
        *filled,
        {"media": ("ib", "roce"), "gpus": RACKS, **ring, "share": racks, "source": _RACKS_SAID},
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
