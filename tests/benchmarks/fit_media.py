"""A library's hop on media that have one or two tables: EFA by generation, RoCE under RCCL, TCP
sockets.

    python tests/benchmarks/fit_media.py

prints what each hop makes of sources that it was not fitted to. :mod:`fit_fabrics` writes the hops
into ``colltool/libraries``.
Latencies, LL's rate and the shares of LL128 and Simple are fitted by coordinate descent on ln(price
/ measured): no machine's factor stands on these media, so that too slow counts as too fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fit_across  # noqa: E402
import fit_fabrics  # noqa: E402
import fit_fills  # noqa: E402
import library_file  # noqa: E402
from fit_across import Hop  # noqa: E402
from measured_rows import Row, rows  # noqa: E402

from colltool.fabric.yaml_writer import OneLine  # noqa: E402

Data = dict[str, Any]


class Network(NamedTuple):
    """A medium under a library, for some GPUs.

    ``inside``: the fabric of :data:`fit_fabrics.KNOWN` whose nodes these are, with its outer tier
    changed by ``outer``; ``alpha_us``: of a leaf, η included; ``sources``: whose rows the hop is
    fitted to, ``held``: whose it is only shown on; ``fields``: of the hop, that are fitted, from
    ``start`` on.
    """

    library: str
    media: tuple[str, ...]
    gpus: tuple[str, ...]
    inside: str
    outer: Mapping[str, Any]
    alpha_us: float
    sources: tuple[str, ...]
    fields: tuple[str, ...]
    start: Hop
    held: tuple[str, ...] = ()
    largest: int = 2**40
    told: str = ""


_RCCL_ROCE = {
    "name": "roce",
    "topology": "clos",
    "size": 32,
    "bandwidth": "50GB/s",
    "eta": {"alpha": 1.2, "beta": 0.88},
    "levels": [{"name": "leaf", "group": 128, "alpha": "5us"}],
    "sizing": {"rails": 8, "nics_per_rail": 1, "radix": 128},
}
NETWORKS = {
    "efa-ampere": Network(
        library="nccl",
        media=("efa",),
        gpus=("ampere",),
        inside="dgx-a100",
        outer={"bandwidth": "6.25GB/s"},
        alpha_us=6.0,
        sources=("aws-p4de",),
        fields=("ll_us", "ll128_us", "simple_us", "ll_GBps", "ll128_share", "simple_share"),
        start=Hop(ll_us=70.0, ll128_us=90.0, ll_GBps=0.166, simple_us=200.0, ll128_share=0.6),
    ),
    "efa-blackwell": Network(
        library="nccl",
        media=("efa",),
        gpus=("blackwell",),
        inside="dgx-b200",
        outer={},
        alpha_us=2.4,
        sources=("dstack-p6-b200",),
        fields=("ll_us",),
        start=fit_across.EFA,
        told="; LL128, Simple and LL's rate are those of p5",
    ),
    "roce-rccl": Network(
        library="rccl",
        media=("roce", "ib"),
        gpus=("cdna3", "cdna4"),
        inside="mi300x",
        outer=_RCCL_ROCE,
        alpha_us=6.0,
        sources=("mi308x-2n",),
        fields=("ll_us", "ll128_us", "ll_GBps", "ll128_share"),
        start=Hop(ll_us=7.0, ll128_us=9.0, ll_GBps=10.0, simple_us=14.0),
        held=("mi350x-2n", "oke-mi300x-2n", "rocm-9442"),
        largest=4 * 2**20,
    ),
}


@cache
def base(name: str) -> Data:
    """The data of a network's fabric without a hop."""
    network = NETWORKS[name]
    data = fit_fabrics.with_inside(network.inside)
    if network.inside == "mi300x":
        inner = data["tiers"][0]
        tiers = [inner | {"algorithms": fit_fabrics.ACROSS_TOO["mi300x"]}, dict(network.outer)]
        return data | {"tiers": tiers, "library": {"name": "rccl"}}
    outer = data["tiers"][1] | network.outer
    library = data["library"] | {"reached": fit_across.base_reached(network.inside)}
    return data | {"tiers": [data["tiers"][0], outer], "library": library}


def descended(start: Any, fields: Collection[str], loss: Callable[[Any], float]) -> Any:
    """Coordinate descent, by factors that shrink; a share stays at or below 1."""
    best, least = start, loss(start)
    for step in (0.3, 0.15, 0.07, 0.03):
        for field in fields:
            for sign in (1, -1):
                while True:
                    value = getattr(best, field) * (1 + step) ** sign
                    other = best._replace(
                        **{field: min(value, 1.0) if field.endswith("share") else value}
                    )
                    tried = loss(other) if other != best else least
                    if tried >= least:
                        break
                    best, least = other, tried
    return best


RCCL_SOURCES = ("mi308x-2n", "mi350x-2n", "rocm-9442")
_RCCL_WAYS = ("multi-rail-ring", "hierarchical:multi-link-ring/double-binary-tree")
_RCCL_SIZES = tuple(2**power for power in range(23, 29))
_RCCL_SAID = (
    "What RCCL's own choice of protocol and channels takes beside the fastest of them, the median"
    " of %s (tests/data/measured); from 512 MiB on, and up to 4 MiB, nothing is missing"
)


def rccl_missing(without: Collection[str] = ()) -> fit_fills.Fill:
    """What RCCL takes across nodes beside its bytes and steps, bytes and seconds."""
    several = [row for row in rows_of(set(RCCL_SOURCES) - set(without)) if row.bytes in _RCCL_SIZES]
    missing: dict[int, list[float]] = {}
    for row, ratio in ratios(base("roce-rccl"), hop_of("roce-rccl"), several).items():
        missing.setdefault(row.bytes, []).append(row.time_s * (1 - ratio))
    found = [(size, max(median(times), 0.0)) for size, times in sorted(missing.items())]
    return [(4 * 2**20, 0.0), *found, (2**29, 0.0)]


def rccl_tables() -> list[str]:
    """What RCCL's schedules reach across nodes."""
    entry = {
        "media": NETWORKS["roce-rccl"].media,
        "gpus": NETWORKS["roce-rccl"].gpus,
        "algorithm": _RCCL_WAYS,
        "primitives": ["all_reduce"],
        "software": [
            {"ranks": 16, "size": size, "time": float(f"{seconds:.3g}")}
            for size, seconds in rccl_missing()
        ],
        "source": _RCCL_SAID % ", ".join(RCCL_SOURCES),
    }
    return [library_file.table("reached", entry)]


def _with_missing(data: Data, missing: fit_fills.Fill) -> Data:
    took = [
        OneLine(ranks=16, size=f"{size}B", time=f"{seconds * 1e6:.4g}us")
        for size, seconds in missing
    ]
    ways = [
        {"algorithm": way, "primitives": ["all_reduce"], "software": took} for way in _RCCL_WAYS
    ]
    return data | {"library": data["library"] | {"reached": ways}}


def tables(library: str) -> list[str]:
    """The entries of a library's hops on media of few tables."""
    found = []
    for name, network in NETWORKS.items():
        if network.library == library:
            said = (
                f"Fitted to {', '.join(network.sources)}"
                f" (tests/benchmarks/fit_media.py){network.told}"
            )
            found.append(
                fit_across.hop_table(
                    network.media, network.gpus, said, hop_of(name), network.alpha_us
                )
            )
    return found


LL_SOURCES: dict[tuple[str, str], dict[str, str]] = {
    ("ib", "ampere"): {"azure-aks-a100": "dgx-a100"},
    ("ib", "hopper"): {"nccl-tests-309a": "dgx-h100", "nccl-tests-309b": "dgx-h100"},
    ("ib", "blackwell"): {"lambda-b200-2n": "dgx-b200"},
    ("roce", ""): {"oke-a100-2n": "dgx-a100", "skypilot-a3ultra": "hgx-h200"},
}
"""Tables of small messages by medium and GPU generation, with the fabric that each is priced on."""
_LL_SIZES = range(32 * 1024, 512 * 1024 + 1)
"""Where LL's bytes show, and LL runs."""


@cache
def ll_rate(medium: str, generation: str, without: frozenset[str] = frozenset()) -> float:
    """LL's rate a NIC in GB/s, which a CPU and a proxy set: a generation's hosts differ more than
    its NICs."""
    shared = fit_fabrics.hop_of(fit_across.same_network("dgx-h100"))
    sources = {
        source: fabric
        for source, fabric in LL_SOURCES[medium, generation].items()
        if source not in without
    }

    def loss(hop: Hop) -> float:
        return fmean(
            abs(log(ratio))
            for source, fabric in sources.items()
            for ratio in ll_ratios(source, fabric, hop).values()
        )

    best: Hop = descended(shared, ("ll_GBps",), loss)
    return best.ll_GBps


def ll_ratios(source: str, fabric: str, hop: Hop) -> dict[Row, float]:
    several = [row for row in rows_of([source]) if row.bytes in _LL_SIZES]
    return ratios(fit_fabrics.based(fabric), hop, several)


def ll_rates() -> dict[tuple[str, str], float]:
    return {key: ll_rate(*key) for key in LL_SOURCES}


class Sockets(NamedTuple):
    """A call's launch and a hop's latency (us) beside the wire's, and rates of a socket (GB/s),
    under LL and Simple."""

    launch_us: float = 40.0
    ll_us: float = 7.0
    simple_us: float = 30.0
    ll_GBps: float = 0.7
    simple_GBps: float = 2.7


def with_sockets(data: Data, hop: Sockets) -> Data:
    """The data of ``sockets`` with a hop."""
    (tier,) = data["tiers"]
    line_GBps = library_file.gigabytes(tier["bandwidth"])
    lines = []
    for name, us, rate in (
        ("LL", hop.ll_us, hop.ll_GBps),
        ("Simple", hop.simple_us, hop.simple_GBps),
    ):
        eta = OneLine(alpha=1.0, beta=min(rate / line_GBps, tier["eta"]["beta"]))
        # beside the wire's own latency, which the rows' overrides take away
        alpha = library_file.microseconds(tier["levels"][0]["alpha"]) + us
        lines.append(
            OneLine(name=name, launch_overhead=f"{hop.launch_us}us", alpha=f"{alpha}us", eta=eta)
        )
    # the form that may list protocols knows no medium, so that the file says what a socket implies
    return data | {
        "tiers": [tier | {"protocols": lines}],
        "library": data["library"] | {"gpudirect": False},
    }


@cache
def sockets(ranks: tuple[int, ...] = (2, 4)) -> Sockets:
    """Fitted to reductions of so many ranks over the loopback."""
    data = fit_fabrics.bare("sockets")
    several = [
        row for row in rows_of(["h100-loopback"]) if row.role == "fit" and row.ranks in ranks
    ]

    def loss(hop: Sockets) -> float:
        return fmean(abs(log(ratio)) for ratio in socket_ratios(data, hop, several).values())

    best: Sockets = descended(Sockets(), Sockets._fields, loss)
    return best


def socket_ratios(data: Data, hop: Sockets, several: Collection[Row]) -> dict[Row, float]:
    fabrics = fit_across.loaded(with_sockets(data, hop), several)
    return {
        row: float(fit_across.picked(fabrics[row.source.set], row).total_s) / row.time_s
        for row in several
    }


def socket_tables() -> list[str]:
    """NCCL's entry on TCP sockets."""
    hop = sockets()
    launch_us = float(f"{hop.launch_us:.3g}")
    protocols = [
        {
            "name": name,
            "launch_us": launch_us,
            "step_us": float(f"{us:.3g}"),
            "host_GBps": float(f"{rate:.3g}"),
        }
        for name, us, rate in (
            ("LL", hop.ll_us, hop.ll_GBps),
            ("Simple", hop.simple_us, hop.simple_GBps),
        )
    ]
    said = (
        "Fitted to 2 and 4 ranks of h100-loopback (tests/benchmarks/fit_media.py); a socket is a"
        " CPU's work, whatever the line"
    )
    entry = {
        "media": ("socket",),
        "gpus": ("ampere", "hopper", "blackwell", "ada"),
        "source": said,
        "protocols": protocols,
    }
    return [library_file.table("tier", entry)]


def rows_of(sources: Collection[str]) -> list[Row]:
    return [row for row in rows() if row.source.source_id in sources and not row.algorithm]


def ratios(data: Data, hop: Hop, several: Collection[Row]) -> dict[Row, float]:
    """Price over measured time of each row."""
    fabric = fit_across.loaded(fit_across.with_hop(data, hop), [])[""]
    return {row: float(fit_across.picked(fabric, row).total_s) / row.time_s for row in several}


@cache
def hop_of(name: str) -> Hop:
    network = NETWORKS[name]
    several = [row for row in rows_of(network.sources) if row.bytes <= network.largest]

    def loss(hop: Hop) -> float:
        return fmean(abs(log(ratio)) for ratio in ratios(base(name), hop, several).values())

    best: Hop = descended(network.start, network.fields, loss)
    return best


def main() -> int:
    for name, network in NETWORKS.items():
        hop = hop_of(name)
        print(name, hop)
        for source in (*network.sources, *network.held):
            data = (
                base(name)
                if name != "roce-rccl"
                else _with_missing(base(name), rccl_missing([source]))
            )
            off = ratios(data, hop, rows_of([source]))
            _told(f"{source} {'fitted' if source in network.sources else 'held out'}", off)
    shared = fit_fabrics.hop_of(fit_across.same_network("dgx-h100"))
    for (medium, generation), sources in LL_SOURCES.items():
        print(f"LL on {medium} {generation}: {ll_rate(medium, generation):.3g} GB/s")
        for source, fabric in sources.items() if len(sources) > 1 else ():
            rate = ll_rate(medium, generation, frozenset([source]))
            _told(f"{source} held out", ll_ratios(source, fabric, shared._replace(ll_GBps=rate)))
    print("sockets", sockets())
    for ranks, fitted in ((2, sockets((4,))), (4, sockets((2,))), (8, sockets())):
        for collective in ("all_reduce", "reduce_scatter"):
            several = [
                row
                for row in rows_of(["h100-loopback"])
                if row.ranks == ranks and row.collective == collective
            ]
            _told(
                f"{collective} of {ranks} ranks held out",
                socket_ratios(fit_fabrics.bare("sockets"), fitted, several),
            )
    return 0


def _told(what: str, off: Mapping[Row, float]) -> None:
    error = median(abs(ratio - 1) for ratio in off.values())
    print(f"  {what}: {error:.1%} of {len(off)} rows")
    print("   ", " ".join(f"{row.bytes}:{ratio:.2f}" for row, ratio in off.items()))


if __name__ == "__main__":
    sys.exit(main())
