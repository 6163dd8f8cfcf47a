"""Every cause that prices can support: what it is, what shows it on the machine, and the worlds in which it is true.

A hypothesis is either a setting, which is one world, or has one number that is fitted to the times: a share, or a count of links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from colltool.base.formatting import format_rate, format_time, whole_percent
from colltool.diagnosis.checks_to_run import Maker, look_for
from colltool.diagnosis.scenario import Scenario
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import INNERMOST, scaled_bandwidth, with_tiers, without_in_network

NVLINKS = {"ampere": 12, "hopper": 18, "blackwell": 18}
"""NVLinks of a GPU by generation: NVIDIA's whitepapers of A100 and H100, NVLink 5 specification."""

PCIE = {"PCIe Gen3 x16": 15.75e9, "PCIe Gen4 x16, or Gen5 x8": 31.5e9, "PCIe Gen5 x16": 63.0e9}
"""Bytes/s one way: lanes x GT/s x 128/130 / 8; PCI Express Base Specification."""

LATEST = 1e-3
"""No host launches later than this many seconds, call by call: what takes longer is on the wire."""

LEAST_OVER_PCIE = 2e9
"""What is left where copies go through the host's memory and GPUs share a root port: bytes/s."""

LL_SHARE = 0.5
"""Of ring's bandwidth under LL: NCCL 2.30's own model (src/graph/tuning.cc): a flag beside every four bytes."""


class Hypothesis(NamedTuple):
    """A cause.

    Args:
        name: for machines.
        said: what it is, given the value that explains the times.
        look: what shows it on the machine.
        world: what prices are made of, given a value; 0 where it has none.
        fits: what its value is: a ``share`` of a rate, which large messages tell, a ``factor`` of all times, or ``extra`` seconds
            of each call, which small ones tell; empty: a setting.
        of: the parts that a share is counted in, the value then a count: 18 links; 0 where any share will do.
        least, most: that a fitted number may be.
        free: whether that may be anything, so that such a cause meets any times of its kind.
        spares: experiments that it leaves as the fabric says, in at least one of their runs.
    """

    name: str
    said: Callable[[float], str]
    look: str
    world: Callable[[float], Scenario]
    fits: str = ""
    of: int = 0
    least: float = 0.02
    most: float = 1.0
    free: bool = False
    spares: frozenset[str] = frozenset()

    def at_share(self, share: float) -> Scenario:
        """The world of a share, counted or not."""
        return self.world(share * (self.of or 1))


class HostFacts(NamedTuple):
    """What causes hang on beside the fabric.

    Args:
        spans: tiers that the largest group crosses.
        ranks_inside: ranks of an innermost domain.
        library: as the logs have it.
        maker: of the devices.
    """

    spans: int
    ranks_inside: int
    library: str
    maker: Maker


def hypotheses(base: Scenario, host: HostFacts) -> tuple[Hypothesis, ...]:
    """All that this machine can have."""
    # A world is made once, for all causes that it is of: what was priced in it is remembered by its fabric.
    inner_at = cache(
        lambda share: base._replace(fabric=with_tiers(base.fabric, partial(scaled_bandwidth, share=share), INNERMOST))
    )
    outer_at = cache(lambda share: base._replace(fabric=_network_at(base.fabric, share)))
    found = [*_settings(base, host), *_links(base, host, inner_at), _slow_rank(base, host, inner_at)]
    found += _outer(base, host, outer_at) if host.spans > 1 else ()
    return tuple(one._replace(world=cache(one.world)) for one in (*found, *_of_hosts(base, host)))


def _settings(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    facts = base.fabric.library_facts
    nccl = host.library in ("", "NCCL") and facts is not None and facts.name == "nccl"
    if nccl and capabilities_of(base.fabric.tiers[0]).in_network is not None:
        yield Hypothesis(
            "nvls-off",
            lambda _: "NVLS is off: NCCL reduces in rings and not in the NVSwitch (NCCL_NVLS_ENABLE=0, NCCL_ALGO, no multicast)",
            f"env | grep NCCL; {look_for('nvls-off', 'NVIDIA')}",
            lambda _: base._replace(fabric=with_tiers(base.fabric, without_in_network, INNERMOST)),
        )
    if nccl or host.library == "RCCL":
        yield Hypothesis(
            "protocol-ll",
            lambda _: "NCCL_PROTO=LL is set: every message carries as many flags as data",
            look_for("protocol", host.maker),
            lambda _: base._replace(
                fabric=with_tiers(base.fabric, lambda tier: scaled_bandwidth(without_in_network(tier), LL_SHARE))
            ),
        )
    if nccl and host.spans > 1:
        for name, algorithms in (("ring", ("multi-rail-ring", "ring")), ("tree", ("hierarchical:ring/double-binary-tree",))):
            yield Hypothesis(
                f"algorithm-{name}",
                lambda _, name=name: f"NCCL_ALGO={name} is set: no other algorithm runs",  # type: ignore[misc]
                look_for("algorithm", host.maker),
                lambda _, algorithms=algorithms: base._replace(only=algorithms),  # type: ignore[misc]
            )


def _links(base: Scenario, host: HostFacts, inner_at: Callable[[float], Scenario]) -> Iterator[Hypothesis]:
    fabric, inner = base.fabric, base.fabric.tiers[0]
    kind, facts = capabilities_of(inner), fabric.library_facts
    if inner.endpoints < 2 or kind.joins != "accelerators" or kind.axes:
        return
    links, name = (NVLINKS.get(facts.gpu or "", 0) if facts else 0), "nvlinks"
    called = "NVLinks of a GPU"
    if kind.joined_by != "switches":
        links, name, called = kind.neighbours, "links", f"{inner.name} links of a device"
    if links > 1:
        yield Hypothesis(
            name,
            lambda count: f"{count:.0f} of the {links} {called} carry data",
            look_for("links", host.maker),
            lambda count: inner_at(count / links),
            fits="share",
            free=True,
            of=links,
        )
    rate = inner.bandwidth * inner.eta.beta * kind.neighbours * inner.ports  # what collectives get
    most = max(PCIE.values()) / rate
    if most < 1:
        yield Hypothesis(
            "pcie",
            lambda share: (
                f"traffic between devices goes over {_bus(share * rate)} and not over {inner.name} (NCCL_P2P_DISABLE=1)"
            ),
            look_for("pcie", host.maker),
            lambda share: base._replace(
                fabric=with_tiers(fabric, lambda tier: scaled_bandwidth(without_in_network(tier), share), INNERMOST)
            ),
            fits="share",
            least=LEAST_OVER_PCIE / rate,
            most=most,
        )


def _slow_rank(base: Scenario, host: HostFacts, inner_at: Callable[[float], Scenario]) -> Hypothesis:
    """A straggler: a ring runs at the rate of its slowest rank."""
    inner = base.fabric.tiers[0]
    return Hypothesis(
        "slow-rank",
        lambda share: f"one rank, or all, at {whole_percent(share)} of {inner.name}'s bandwidth: a ring runs at its slowest rank",
        look_for("slow-rank", host.maker),
        inner_at,
        fits="share",
        free=True,
        spares=frozenset({"half"}),
    )


def _outer(base: Scenario, host: HostFacts, outer_at: Callable[[float], Scenario]) -> Iterator[Hypothesis]:
    network = base.fabric.tiers[-1].name
    if host.ranks_inside > 1:
        yield Hypothesis(
            "rails",
            lambda used: f"{used:.0f} of {host.ranks_inside} NICs of a host carry data",
            look_for("rails", host.maker),
            lambda used: outer_at(used / host.ranks_inside),
            fits="share",
            free=True,
            of=host.ranks_inside,
            spares=frozenset({"nic"}),
        )
    yield Hypothesis(
        "network",
        lambda share: f"{network} at {whole_percent(share)} of its bandwidth: slow NICs, oversubscribed uplinks, other traffic",
        look_for("network", host.maker),
        outer_at,
        fits="share",
        free=True,
        spares=frozenset({"host"}),
    )


def _of_hosts(base: Scenario, host: HostFacts) -> Iterator[Hypothesis]:
    yield Hypothesis(
        "clocks",
        lambda share: f"everything takes {1 / share:.2f} times as long, small messages too: clocks, a power cap, or busy hosts",
        look_for("clocks", host.maker),
        lambda share: base._replace(factor=1 / share),
        fits="factor",
        free=True,
        least=0.3,  # no cap and no clock leaves less
    )
    yield Hypothesis(
        "launch",
        lambda extra: f"every call takes {format_time(extra, 3)} more: the host launches late",
        look_for("launch", host.maker),
        lambda extra: base._replace(extra_s=extra),
        fits="extra",
        free=True,
        most=LATEST,
    )


def _network_at(fabric: Fabric, share: float) -> Fabric:
    return with_tiers(fabric, partial(scaled_bandwidth, share=share), range(1, len(fabric.tiers)))


def _bus(rate: float) -> str:
    name = next((name for name, carried in PCIE.items() if rate <= carried), "PCIe Gen5 x16")
    return f"{name} (at {format_rate(rate, 3)})"
