"""Every cause that the model can price: the scenario of each, a fabric as it would be, and what
reveals it on the machine.

A cause is a setting (one scenario) or has one number that is fitted to the times, such as a share
or a count of links.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache, lru_cache, partial
from typing import Any, Literal, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, format_time, whole_percent
from colltool.base.primitives import Primitive
from colltool.calibration.series_prices import price_series
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import SameFabric
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, scaled_bandwidth, with_tiers, without_in_network
from colltool.logs.series import LogLibrary, Point, Series, log_library

NVLINKS = {"ampere": 12, "hopper": 18, "blackwell": 18}
"""NVLinks per GPU: NVIDIA's A100 and H100 whitepapers, NVLink 5 specification."""

PCIE = {"PCIe Gen3 x16": 15.75e9, "PCIe Gen4 x16, or Gen5 x8": 31.5e9, "PCIe Gen5 x16": 63.0e9}
"""Bytes/s one way: lanes x GT/s x 128/130 / 8; PCI Express Base Specification."""

SOCKETS = 0.12
"""Of the rate of RDMA NICs, at most, that TCP reaches: 3.2 GB/s of 8 x 200G over IPoIB in Azure's
published log."""
NO_GPUDIRECT = 0.75
"""Of a network's rate, at most, through host memory: 49 and 30 of 93 GB/s on A100 with 4 x 200G
(nccl-tests 152)."""
RARER = 0.03  # handicap of what is seen less often than a slow network
LEAST_SHARE = 0.002  # of a network that carries anything
INSIDE = 0.15  # handicap of causes inside hosts, where what is slow spans them
LATENCY_FIRST = 0.02  # handicap of the host, where NICs and plugins delay as well
LATEST = 1e-3  # seconds: no host launches later than this; what takes longer is on the link
LEAST_OVER_PCIE = 2e9  # bytes/s, with copies through host memory and GPUs that share a root port
LL_SHARE = 0.5
"""LL's share of ring bandwidth, a flag per four bytes: NCCL 2.30's own model
(src/graph/tuning.cc)."""

CauseName = Literal[
    "nvls-off",
    "protocol-ll",
    "algorithm-ring",
    "algorithm-tree",
    "nvlinks",
    "links",
    "pcie",
    "slow-rank",
    "rails",
    "sockets",
    "gpudirect",
    "network",
    "latency",
    "collapse",
    "failed",
    "clocks",
    "launch",
]
Fitted = Literal["setting", "share", "factor", "extra"]
"""What a cause's number is: none, a share of a rate (seen in large messages), a factor of all
times, extra seconds per call."""

Maker = Literal["NVIDIA", "AMD", ""]  # of the devices; empty if unknown
_AMD = re.compile(r"\bAMD\b|Instinct|\bMI\d{3}")
_ALGORITHM = "env | grep NCCL_ALGO; /etc/nccl.conf; a tuner plugin (NCCL_TUNER_PLUGIN)"
_PROTOCOL = "env | grep NCCL_PROTO; /etc/nccl.conf"
_RAILS = "'NET/IB' lines of NCCL_DEBUG=INFO list the NICs in use; NCCL_IB_HCA; ibstat"
_NETWORK = (
    "ibstat | grep Rate; ib_write_bw between two hosts; counters of the switches; 'GDRDMA' with"
    " NCCL_DEBUG=INFO"
)
_SOCKETS = (
    "'Using network Socket' and 'via NET/Socket' with NCCL_DEBUG=INFO; NCCL_IB_DISABLE;"
    " ibv_devinfo; the network plugin"
)
_COPIES = "each byte sent is copied twice through host memory (140 GB: 280 GB of copies)"
_GPUDIRECT = (
    "'GDRDMA' behind 'via NET/IB' with NCCL_DEBUG=INFO; lsmod | grep -E"
    " 'nvidia_peermem|nv_peer_mem'; NCCL_NET_GDR_LEVEL; lspci -vvv | grep ACSCtl (SrcValid- on"
    " every bridge); iommu in /proc/cmdline"
)
_COLLAPSE = (
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING names the algorithm and protocol of each size: run"
    " again with NCCL_ALGO=Ring, then NCCL_PROTO=Simple; with hosts of one rack, then of two;"
    " drops, pauses and ECN marks of the switches"
)
_FAILED = (
    "the same hosts again, and each of them with a third one: the host whose runs all fail is it; "
    "dmesg -T | grep -iE 'xid|mlx5'; ibstat; NCCL_DEBUG=INFO"
)
_LATENCY = (
    "ib_write_lat between two hosts (fi_pingpong on EFA); the plugin named behind 'Using network'"
    " with NCCL_DEBUG=INFO"
)
_LINKS = (
    "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
    "rocm-smi --showxgmierr --shownodesbw; amd-smi xgmi; dmesg | grep -i xgmi",
)
# what reveals each cause: on NVIDIA, on AMD
CHECKS: dict[CauseName, tuple[str, str]] = {
    "nvls-off": (
        (
            "env | grep NCCL; 'NVLS' in the output of NCCL_DEBUG=INFO; the fabric manager:"
            " systemctl status nvidia-fabricmanager"
        ),
        "",
    ),
    "protocol-ll": (_PROTOCOL, _PROTOCOL),
    "algorithm-ring": (_ALGORITHM, _ALGORITHM),
    "algorithm-tree": (_ALGORITHM, _ALGORITHM),
    "nvlinks": _LINKS,
    "links": _LINKS,
    "pcie": (
        (
            "nvidia-smi topo -m (NV18, not SYS or PHB); 'via P2P' and not 'via SHM' in the output"
            " of NCCL_DEBUG=INFO"
        ),
        (
            "rocm-smi --showtopotype (XGMI, not PCIE); env | grep -E 'NCCL|RCCL|HSA'; 'via P2P'"
            " with NCCL_DEBUG=INFO"
        ),
    ),
    "slow-rank": (
        (
            "one device apart from the others: nvidia-smi dmon -s pucv; other jobs on the host;"
            " NCCL_MAX_NCHANNELS"
        ),
        (
            "one device apart from the others: rocm-smi --showuse; other jobs on the host;"
            " NCCL_MIN_NCHANNELS"
        ),
    ),
    "rails": (_RAILS, _RAILS),
    "sockets": (_SOCKETS, _SOCKETS),
    "network": (_NETWORK, _NETWORK),
    "gpudirect": (_GPUDIRECT, _GPUDIRECT),
    "latency": (_LATENCY, _LATENCY),
    "collapse": (_COLLAPSE, _COLLAPSE),
    "failed": (_FAILED, _FAILED),
    "clocks": (
        "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",
        "rocm-smi --showclocks --showpower --showperflevel",
    ),
    "launch": (
        (
            "NCCL_DEBUG, CUDA_LAUNCH_BLOCKING and profilers off; cores pinned (numactl); or measure"
            " graphs (-G 1)"
        ),
        (
            "NCCL_DEBUG, HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL and profilers off; cores pinned"
            " (numactl)"
        ),
    ),
}


class Scenario(NamedTuple):
    """What a cause changes: the fabric, a ``factor`` on every time, ``extra_s`` per call, or the
    ``only`` algorithms that run (any, for a primitive that has none of them)."""

    fabric: Fabric
    factor: float = 1.0
    extra_s: float = 0.0
    only: tuple[str, ...] = ()
    readings: Readings = Readings()

    def on(self, change: Callable[[Tier], Tier], only: Container[int] | None = None) -> "Scenario":
        """With changed tiers; as :func:`with_tiers`."""
        return self._replace(fabric=with_tiers(self.fabric, change, only))

    def times(self, series: Series) -> tuple[float, ...] | None:
        """Seconds at each size of a series; None where nothing runs."""
        # one price, whatever was measured
        points = tuple(Point(point.bytes, 1.0, 1.0, 1.0, 1, "") for point in series.points)
        bare = Series(series.primitive, series.ranks, series.nodes, points, series.library)
        found = _priced(SameFabric(self.fabric), self.only, self.readings, bare)
        return found and tuple(one * self.factor + self.extra_s for one in found)

    def time(self, primitive: Primitive, size: float, ranks: int, library: str) -> float | None:
        found = self.times(
            Series(primitive, ranks, None, (Point(size, 1.0, 1.0, 1.0, 1, ""),), library)
        )
        return None if found is None else found[0]


@lru_cache(maxsize=4096)
def _priced(
    same: SameFabric, only: tuple[str, ...], readings: Readings, series: Series
) -> tuple[float, ...] | None:
    for name in (*((one,) for one in only), ()):
        try:
            return tuple(
                quote.seconds for quote in price_series(same.fabric, series, readings, name).best
            )
        except ColltoolError:
            continue  # no algorithm of this primitive, or of this group
    return None


class Hypothesis(NamedTuple):
    """A cause.

    ``of``: a share is counted in so many parts (18 links), 0 for any share. ``least``, ``most``:
    range of the fitted number.
    ``free``: it may take any value, so such a cause fits any times of its kind. ``unaffected``:
    experiments that run as the fabric says despite it, in at least one of their runs. ``look``:
    what reveals it on the machine.
    """

    name: CauseName
    said: Callable[[float], str]
    scenario: Callable[[float], Scenario]
    fits: Fitted = "setting"
    of: int = 0
    least: float = 0.02
    most: float = 1.0
    free: bool = False
    unaffected: frozenset[Literal["half", "nic", "host"]] = frozenset()
    look: str = ""
    handicap: float = 0.0  # of what is rarer than others that fit as well
    exact: bool = False  # a setting that must fit closely to lead


class HostFacts(NamedTuple):
    """``spans``: tiers that the largest group crosses; ``ranks_inside``: ranks per innermost
    domain. ``small_seen``:
    small messages were measured, which tell clocks from wires."""

    spans: int
    ranks_inside: int
    library: str
    maker: Maker
    small_seen: bool = True


def maker_of(devices: Iterable[str], library: str, tier: str) -> Maker:
    """From device names, else the library, else the links between devices."""
    if named := " ".join(devices):
        return "AMD" if _AMD.search(named) else "NVIDIA"
    ran = log_library(library)
    if ran is LogLibrary.RCCL or "xgmi" in tier.lower():
        return "AMD"
    return "NVIDIA" if ran is LogLibrary.NCCL or "nvl" in tier.lower() else ""


def hypotheses(base: Scenario, host: HostFacts) -> tuple[Hypothesis, ...]:
    # cached, since prices are remembered by the scenario's fabric object
    @cache
    def inner_at(share: float) -> Scenario:
        return base.on(partial(scaled_bandwidth, share=share), INNERMOST)

    @cache
    def outer_at(share: float) -> Scenario:
        return base.on(partial(scaled_bandwidth, share=share), range(1, len(base.fabric.tiers)))

    found = [*_settings(base, host), *_links(base, inner_at)]
    if host.spans > 1:  # what is slow between hosts is first of all what joins them
        found = [
            (
                one._replace(handicap=INSIDE, free=True)
                if one.fits == "share"
                else one._replace(exact=True)
            )
            for one in found
        ]
    found += [*_between_hosts(base, host, outer_at)] if host.spans > 1 else []
    found += [
        Hypothesis(
            "clocks",
            lambda share: (
                f"everything takes {1 / share:.2f}x as long, small messages too: clocks, a power"
                " cap, or busy hosts"
            ),
            lambda share: base._replace(factor=1 / share),
            fits="factor",
            free=True,
            least=0.3,  # no cap and no clock leaves less
            handicap=INSIDE if host.spans > 1 and not host.small_seen else 0.0,
        ),
        Hypothesis(
            "launch",
            lambda extra: f"every call takes {format_time(extra, 3)} more: the host launches late",
            lambda extra: base._replace(extra_s=extra),
            fits="extra",
            free=True,
            most=LATEST,
            handicap=LATENCY_FIRST if host.spans > 1 else 0.0,
        ),
    ]

    def look(cause: CauseName) -> str:
        nvidia, amd = CHECKS[cause]
        known = {"NVIDIA": nvidia or amd, "AMD": amd or nvidia}
        return known.get(host.maker) or "; or ".join(dict.fromkeys(filter(None, (nvidia, amd))))

    return tuple(one._replace(look=look(one.name), scenario=cache(one.scenario)) for one in found)


def _settings(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    facts, ran = base.fabric.library_facts, log_library(host.library)
    nccl = ran.may_be_nccl and facts is not None and facts.name == "nccl"
    if nccl and capabilities_of(base.fabric.tiers[0]).in_network is not None:
        yield Hypothesis(
            "nvls-off",
            lambda _: (
                "NVLS is off: NCCL reduces in rings and not in the NVSwitch (NCCL_NVLS_ENABLE=0,"
                " NCCL_ALGO, no multicast)"
            ),
            lambda _: base.on(without_in_network, INNERMOST),
        )
    if nccl or ran is LogLibrary.RCCL:
        yield Hypothesis(
            "protocol-ll",
            lambda _: "NCCL_PROTO=LL is set: every message carries as many flags as data",
            lambda _: base.on(lambda tier: scaled_bandwidth(without_in_network(tier), LL_SHARE)),
        )
    if nccl and host.spans > 1:
        yield Hypothesis(
            "algorithm-ring",
            lambda _: "NCCL_ALGO=ring is set: no other algorithm runs",
            lambda _: base._replace(only=("multi-rail-ring", "ring")),
        )
        yield Hypothesis(
            "algorithm-tree",
            lambda _: "NCCL_ALGO=tree is set: no other algorithm runs",
            lambda _: base._replace(only=("hierarchical:ring/double-binary-tree",)),
        )


def _links(base: Scenario, inner_at: Callable[[float], Scenario]) -> Iterator[Hypothesis]:
    fabric, inner = base.fabric, base.fabric.tiers[0]
    kind, facts = capabilities_of(inner), fabric.library_facts
    if inner.endpoints > 1 and kind.joins == "accelerators" and not kind.axes:
        name: CauseName = "nvlinks" if kind.joined_by == "switches" else "links"
        called = "NVLinks of a GPU" if name == "nvlinks" else f"{inner.name} links of a device"
        links = (
            kind.neighbours if name == "links" else NVLINKS.get(facts.gpu or "", 0) if facts else 0
        )
        if links > 1:
            yield Hypothesis(
                name,
                lambda count: f"{count:.0f} of the {links} {called} carry data",
                lambda count: inner_at(count / links),
                fits="share",
                free=True,
                of=links,
            )
        yield from _over_pcie(base, kind)
    yield Hypothesis(
        "slow-rank",
        lambda share: (
            f"one rank, or all, at {whole_percent(share)} of {inner.name}'s bandwidth: a ring runs"
            " at its slowest rank"
        ),
        inner_at,
        fits="share",
        free=True,
        unaffected=frozenset({"half"}),
    )


def _over_pcie(base: Scenario, kind: TierCapabilities[Any]) -> Iterator[Hypothesis]:
    inner = base.fabric.tiers[0]
    rate = inner.bandwidth * inner.eta.beta * kind.neighbours * inner.ports  # what collectives get
    if (most := max(PCIE.values()) / rate) >= 1:
        return

    def said(share: float) -> str:
        bus = next(
            (name for name, carried in PCIE.items() if share * rate <= carried), "PCIe Gen5 x16"
        )
        at = format_rate(share * rate, 3)
        return (
            f"traffic between devices goes over {bus} (at {at}) and not over {inner.name}"
            " (NCCL_P2P_DISABLE=1)"
        )

    yield Hypothesis(
        "pcie",
        said,
        lambda share: base.on(
            lambda tier: scaled_bandwidth(without_in_network(tier), share), INNERMOST
        ),
        fits="share",
        least=LEAST_OVER_PCIE / rate,
        most=most,
    )


def _between_hosts(
    base: Scenario, host: HostFacts, outer_at: Callable[[float], Scenario]
) -> Iterator[Hypothesis]:
    outer, network = base.fabric.tiers[-1], base.fabric.tiers[-1].name
    of_network = partial(
        Hypothesis,
        scenario=outer_at,
        fits="share",
        least=LEAST_SHARE,
        unaffected=frozenset({"host"}),
    )
    if host.ranks_inside > 1:
        yield Hypothesis(
            "rails",
            lambda used: f"{used:.0f} of {host.ranks_inside} NICs of a host carry data",
            lambda used: outer_at(used / host.ranks_inside),
            fits="share",
            free=True,
            of=host.ranks_inside,
            unaffected=frozenset({"nic"}),
        )
    yield of_network(
        "sockets",
        lambda share: (
            "NCCL runs over TCP sockets and not over RDMA:"
            f" {format_rate(share * outer.bandwidth, 3)} a rank"
        ),
        most=SOCKETS,
    )
    yield of_network(
        "gpudirect",
        lambda share: (
            f"no GPUDirect RDMA: {whole_percent(share)} of {network}'s rate is left; {_COPIES}"
        ),
        free=True,
        most=NO_GPUDIRECT,
        handicap=RARER,
    )
    yield of_network(
        "network",
        lambda share: (
            f"{network} at {whole_percent(share)} of its bandwidth: slow NICs, oversubscribed"
            " uplinks, other traffic"
        ),
        free=True,
    )
    yield Hypothesis(
        "latency",
        lambda extra: (
            f"every call takes {format_time(extra, 3)} more between hosts: EFA, a network plugin,"
            " or distant racks"
        ),
        lambda extra: base._replace(extra_s=extra),
        fits="extra",
        free=True,
        most=LATEST,
        unaffected=frozenset({"host"}),
    )
