"""Every cause that the model can price: its scenario (a fabric as it would be), and what reveals
the cause on the machine.

A cause is a setting (one scenario) or has one number that is fitted to the times, such as a share
or a count of links. :func:`hypotheses` yields those that a fabric and a library may have;
:mod:`colltool.diagnosis.causes` decides which of them the times support.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from colltool.base.statements import Statement, word_table
from colltool.diagnosis.scenario import Scenario
from colltool.diagnosis.sentences import statement
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.tier_media import media_of
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, scaled_bandwidth, without_in_network
from colltool.logs.series import LogLibrary, log_library, on_devices

NVLINKS = {"ampere": 12, "hopper": 18, "blackwell": 18}
"""NVLinks per GPU by generation: NVIDIA's A100 and H100 whitepapers, NVLink 5 specification."""

PCIE = {"PCIe Gen3 x16": 15.75e9, "PCIe Gen4 x16, or Gen5 x8": 31.5e9, "PCIe Gen5 x16": 63.0e9}
"""Bytes/s one way, the slowest first: lanes x GT/s x 128/130 / 8; PCI Express Base
Specification."""

SOCKETS = 0.12
"""Largest share of the rate of RDMA NICs that TCP reaches: 3.2 GB/s of 8 x 200G over IPoIB in
Azure's published log."""
NO_GPUDIRECT = 0.75
"""Largest share of a network's rate through host memory: 49 and 30 of 93 GB/s on A100 with 4 x 200G
(nccl-tests 152)."""
# Handicaps are added to a cause's error (by log ratio, 0.13 is usual: ACCURACY in causes.py); small
# ones only decide between causes that fit alike.
RARER = 0.03  # of what is seen less often than a slow network
INSIDE = 0.15  # of causes inside hosts, where what is slow spans hosts: more than ACCURACY
LATENCY_FIRST = 0.02  # of late launches, where NICs and plugins delay as well

LEAST_SHARE = 0.002  # least share of its rate at which a network carries anything
LEAST_CLOCK = 0.3  # least share of its speed that a cap of power or a low clock leaves
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
STATED: frozenset[CauseName] = frozenset(
    {"nvls-off", "protocol-ll", "algorithm-ring", "algorithm-tree", "pcie"}
)
"""Causes that are a setting, which a log may state: then nothing is left to check."""

NumberKind = Literal["setting", "share", "factor", "extra"]
"""What a cause's number is: none, a share of a rate (seen in large messages) or a count of the parts
that make it up, a factor of all times, extra seconds per call."""

Maker = Literal["NVIDIA", "AMD", ""]  # of the devices; empty if unknown
Unaffected = Literal["half", "nic", "host"]
"""An experiment that runs as the fabric says despite a cause: on half of the devices, on each NIC
in turn, inside a host."""
# "AMD Instinct MI300X", "MI250"
_AMD = re.compile(r"\bAMD\b|Instinct|\bMI\d{3}")


@cache
def _checks() -> Mapping[str, Mapping[str, str]]:
    """What reveals each cause, by cause and maker in lower case."""
    return word_table("colltool.diagnosis", "checks.toml")


def check_of(cause: CauseName, maker: Maker = "NVIDIA") -> str:
    """What reveals a cause on the machine; on either maker's where it is unknown."""
    checks = _checks()[cause]
    if not maker:
        return "; or ".join(checks.values())
    # NVIDIA's serve for AMD where there are no others
    return checks.get(maker.lower(), checks["nvidia"])


class Hypothesis(NamedTuple):
    """A cause that a machine may have, and how to price it.

    Its number is what the times are fitted with: a share, a count, a factor or seconds. A setting
    has none, and is handed any value.
    """

    name: CauseName
    scenario: Callable[[float], Scenario]  # the fabric with it, at a value of its number
    # the fields of its sentence, at a value of its number
    fields: Callable[[float], Mapping[str, Any]] = lambda value: {"value": value}
    number: NumberKind = "setting"  # what its number is
    # where the number counts parts, such as links, how many there are (18); else 0
    parts: int = 0
    # range of the number, of a count that of its share of the parts; extra seconds begin at 0
    least: float = 0.02
    most: float = 1.0
    # nothing else bounds the number, so the cause fits any times of its kind
    any_value: bool = False
    # experiments that run as the fabric says despite it, in at least one of their runs
    unaffected: frozenset[Unaffected] = frozenset()
    look: str = ""  # what reveals it on the machine; filled in by ``hypotheses``
    handicap: float = 0.0  # of what is rarer than others that fit as well
    must_fit_closely: bool = False  # a setting that must fit closely to lead
    quoted: str = ""  # what the log says of it itself; filled in from its lines, empty if none does

    def text_at(self, value: float) -> Statement:
        """The cause at a value of its number, with what the log says of it."""
        fields = self.fields(value)
        if self.quoted and self.name in STATED:
            return statement(f"stated-{self.name}", quoted=self.quoted, **fields)
        cause = statement(f"cause-{self.name}", **fields)
        return statement("logged", cause=cause, quoted=self.quoted) if self.quoted else cause


class HostFacts(NamedTuple):
    """What is known of the hosts, by which the machine may have a cause or not."""

    spans: int  # tiers that the largest group crosses
    ranks_inside: int  # of an innermost domain; 1 where the group crosses one tier
    library: str  # as the logs name it, such as ``NCCL 2.27``
    maker: Maker
    has_small_messages: bool = True  # small messages were measured, which tell clocks from wires

    @property
    def are_several(self) -> bool:
        """Whether runs went over several hosts."""
        return self.spans > 1

    @property
    def has_devices(self) -> bool:
        """Whether ranks are devices, and not processes on CPUs."""
        return on_devices(self.library)


def maker_of(devices: Iterable[str], library: str, tier: str) -> Maker:
    """The maker of the devices by their names, else by the library, else by the name of the
    innermost tier; empty where none says it."""
    names = " ".join(devices)
    if names:
        return "AMD" if _AMD.search(names) else "NVIDIA"
    ran = log_library(library)
    if ran is LogLibrary.RCCL or "xgmi" in tier.lower():
        return "AMD"
    if ran is LogLibrary.NCCL or "nvl" in tier.lower():
        return "NVIDIA"
    return ""


def hypotheses(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    """All causes that a fabric and a library may have; ``base``: the fabric as it is."""
    causes = [*_settings(base, host), *_links(base)]
    if host.are_several:
        # what is slow between hosts is first of all what joins them
        causes = [_less_likely(cause) for cause in causes]
        causes += _between_hosts(base, host)
    causes += _of_the_host(base, host)
    for cause in causes:
        # prices are remembered by the scenario's fabric object
        yield cause._replace(look=check_of(cause.name, host.maker), scenario=cache(cause.scenario))


def _less_likely(cause: Hypothesis) -> Hypothesis:
    """A cause inside hosts, or a setting, made less likely, as a network may be slow in its place:
    by a handicap, or by how closely it must fit."""
    if cause.number == "share":
        return cause._replace(handicap=INSIDE, any_value=True)
    # of settings, NVLS alone is also off without a variable that somebody set: no handicap
    if cause.name == "nvls-off":
        return cause._replace(must_fit_closely=True)
    return cause._replace(handicap=RARER, any_value=True)


def _settings(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    """Environment variables that restrict algorithms and protocols."""
    facts = base.fabric.library_facts
    ran = log_library(host.library)
    # the logs may say nothing of the library, the fabric does
    is_nccl = ran.may_be_nccl and facts is not None and facts.name == "nccl"
    if is_nccl and capabilities_of(base.fabric.tiers[0]).in_network is not None:
        yield Hypothesis(
            "nvls-off", lambda _: base.with_tiers_changed(without_in_network, INNERMOST)
        )
    if is_nccl or ran is LogLibrary.RCCL:
        yield Hypothesis(
            "protocol-ll",
            lambda _: base.with_tiers_changed(
                lambda tier: scaled_bandwidth(without_in_network(tier), LL_SHARE)
            ),
        )
    if is_nccl and host.are_several:
        yield Hypothesis(
            "algorithm-ring", lambda _: base._replace(only=("multi-rail-ring", "ring"))
        )
        yield Hypothesis(
            "algorithm-tree",
            lambda _: base._replace(only=("hierarchical:ring/double-binary-tree",)),
        )


def _links(base: Scenario) -> Iterator[Hypothesis]:
    """Links inside a host: fewer of them, PCIe in their place, or a slow rank."""
    inner = base.fabric.tiers[0]
    kind = capabilities_of(inner)

    @cache
    def inner_at(share: float) -> Scenario:
        return base.with_tiers_changed(partial(scaled_bandwidth, share=share), INNERMOST)

    if inner.endpoints > 1 and kind.joins == "accelerators" and not kind.axes:
        name: CauseName = "links"
        links = kind.neighbours
        if kind.joined_by == "switches":
            facts = base.fabric.library_facts
            name = "nvlinks"
            links = NVLINKS.get(facts.gpu or "", 0) if facts else 0
        if links > 1:
            yield Hypothesis(
                name,
                lambda count: inner_at(count / links),
                lambda count: {"value": count, "links": links, "tier": inner.name},
                number="share",
                any_value=True,
                parts=links,
            )
        yield from _over_pcie(base, kind)
    yield Hypothesis(
        "slow-rank",
        inner_at,
        lambda share: {"value": share, "tier": inner.name},
        number="share",
        any_value=True,
        unaffected=frozenset({"half"}),
    )


def _over_pcie(base: Scenario, kind: TierCapabilities[Any]) -> Iterator[Hypothesis]:
    """Traffic over PCIe in place of the links, which must be faster than it."""
    inner = base.fabric.tiers[0]
    # what collectives get of the links of a device: of all its ports, to all its neighbours
    links_Bps = inner.bandwidth * inner.eta.beta * kind.neighbours * inner.ports
    most_share = max(PCIE.values()) / links_Bps
    if most_share >= 1:
        return

    def fields(share: float) -> Mapping[str, Any]:
        # the slowest bus that carries as much; rounding may leave none but the fastest
        carrying = [name for name, bus_Bps in PCIE.items() if share * links_Bps <= bus_Bps]
        bus = carrying[0] if carrying else "PCIe Gen5 x16"
        return {"bus": bus, "rate": share * links_Bps, "tier": inner.name}

    yield Hypothesis(
        "pcie",
        lambda share: base.with_tiers_changed(
            lambda tier: scaled_bandwidth(without_in_network(tier), share), INNERMOST
        ),
        fields,
        number="share",
        least=LEAST_OVER_PCIE / links_Bps,
        most=most_share,
    )


def _between_hosts(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    """The network: fewer NICs, TCP, copies through host memory, a low rate, or latency."""
    outer = base.fabric.tiers[-1]
    inside_host: frozenset[Unaffected] = frozenset({"host"})
    medium = media_of(base.fabric)[-1]
    over_rdma = medium is None or medium.name != "socket"

    @cache
    def outer_at(share: float) -> Scenario:
        return base.with_tiers_changed(
            partial(scaled_bandwidth, share=share), range(1, len(base.fabric.tiers))
        )

    network = partial(
        Hypothesis,
        scenario=outer_at,
        fields=lambda share: {"value": share, "tier": outer.name, "rate": share * outer.bandwidth},
        number="share",
        least=LEAST_SHARE,
        unaffected=inside_host,
    )
    # processes on CPUs share the NICs of a host, and have no GPU memory
    if host.ranks_inside > 1 and host.has_devices:
        yield Hypothesis(
            "rails",
            lambda used: outer_at(used / host.ranks_inside),
            lambda used: {"value": used, "nics": host.ranks_inside},
            number="share",
            any_value=True,
            parts=host.ranks_inside,
            unaffected=frozenset({"nic"}),
        )
    # without RDMA to begin with, neither can be missing
    if over_rdma:
        yield network("sockets", most=SOCKETS)
    if over_rdma and host.has_devices:
        yield network("gpudirect", any_value=True, most=NO_GPUDIRECT, handicap=RARER)
    yield network("network", any_value=True)
    yield Hypothesis(
        "latency",
        lambda extra: base._replace(extra_s=extra),
        number="extra",
        any_value=True,
        most=LATEST,
        unaffected=inside_host,
    )


def _of_the_host(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    """Clocks that slow everything down, and late launches."""
    yield Hypothesis(
        "clocks",
        lambda share: base._replace(factor=1 / share),
        lambda share: {"factor": 1 / share},
        number="factor",
        any_value=True,
        least=LEAST_CLOCK,
        handicap=INSIDE if host.are_several and not host.has_small_messages else 0.0,
    )
    yield Hypothesis(
        "launch",
        lambda extra: base._replace(extra_s=extra),
        number="extra",
        any_value=True,
        most=LATEST,
        handicap=LATENCY_FIRST if host.are_several else 0.0,
    )
