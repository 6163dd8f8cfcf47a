"""Every cause that prices can support: what it is, what shows it on the machine, and the worlds in which it is true.

A hypothesis either has values of its own (so many links, such a bus), each a world, or one number that is fitted to the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from colltool.diagnosis.worlds import World, at_share, changed, switchless
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of
from colltool.words import format_rate, format_time, whole_percent

NVLINKS = {"ampere": 12, "hopper": 18, "blackwell": 18}
"""NVLinks of a GPU by generation: NVIDIA's whitepapers of A100 and H100, NVLink 5 specification."""

PCIE = {"PCIe Gen3 x16": 15.75e9, "PCIe Gen4 x16, or Gen5 x8": 31.5e9, "PCIe Gen5 x16": 63.0e9}
"""Bytes/s one way: lanes x GT/s x 128/130 / 8; PCI Express Base Specification."""

LL_SHARE = 0.5
"""Of ring's bandwidth under LL: NCCL 2.30's own model (src/graph/tuning.cc): a flag beside every four bytes."""


class Hypothesis(NamedTuple):
    """A cause.

    Args:
        name: for machines.
        said: what it is, given the value that explains the times.
        look: what shows it on the machine.
        world: what prices are made of, given a value.
        values: all that it may have; empty where the value is fitted.
        fits: what a fitted value follows: ``share`` of the rate of large messages, ``extra`` seconds of small ones.
        of: the parts that a share is counted in, the value then a count: 18 links; 0 where any share will do.
        least: that a fitted share may be.
        spares: experiments that it leaves as the fabric says, in at least one of their runs.
    """

    name: str
    said: Callable[[float], str]
    look: str
    world: Callable[[float], World]
    values: tuple[float, ...] = ()
    fits: str = ""
    spares: frozenset[str] = frozenset()
    least: float = 0.02
    of: int = 0

    def at_share(self, share: float) -> World:
        """The world of a share, counted or not."""
        return self.world(share * (self.of or 1))


def hypotheses(base: World, spans: int, ranks_inside: int, library: str) -> tuple[Hypothesis, ...]:
    """All that this machine can have.

    Args:
        base: as the fabric says.
        spans: tiers that the largest group crosses.
        ranks_inside: ranks of an innermost domain.
        library: as the logs have it.
    """
    ours = library in ("", "NCCL")
    # A world is made once, for all causes that it is of: what was priced in it is remembered by its fabric.
    inner_at = cache(lambda share: base._replace(fabric=changed(base.fabric, _first(partial(at_share, share=share)))))
    outer_at = cache(lambda share: base._replace(fabric=_network_at(base.fabric, share)))
    found = [*(_of_nccl(base, spans) if ours else ()), *(_links(base, inner_at) if ours else ()), _slow_rank(base, inner_at)]
    found += _outer(base, ranks_inside, outer_at) if spans > 1 else ()
    return tuple(one._replace(world=cache(one.world)) for one in (*found, *_of_hosts(base)))


def _of_nccl(base: World, spans: int) -> Iterator[Hypothesis]:
    """What a setting of NCCL does."""
    inner = base.fabric.tiers[0]
    facts = base.fabric.library_facts
    if facts is None or facts.name != "nccl":
        return
    if kind_of(inner).in_network is not None:
        yield Hypothesis(
            "nvls-off",
            lambda _: "NVLS is off: NCCL reduces in rings and not in the NVSwitch (NCCL_NVLS_ENABLE=0, NCCL_ALGO, no multicast)",
            "env | grep NCCL; 'NVLS' in the output of NCCL_DEBUG=INFO; the fabric manager: systemctl status nvidia-fabricmanager",
            lambda _: base._replace(fabric=changed(base.fabric, _first(switchless))),
            (0.0,),
        )
    yield Hypothesis(
        "protocol-ll",
        lambda _: "NCCL_PROTO=LL is set: every message carries as many flags as data",
        "env | grep NCCL_PROTO; /etc/nccl.conf",
        lambda _: base._replace(fabric=changed(base.fabric, lambda _, tier: at_share(switchless(tier), LL_SHARE))),
        (0.0,),
    )
    if spans > 1:
        for name, algorithms in (("ring", ("multi-rail-ring", "ring")), ("tree", ("hierarchical:ring/double-binary-tree",))):
            yield Hypothesis(
                f"algorithm-{name}",
                lambda _, name=name: f"NCCL_ALGO={name} is set: no other algorithm runs",  # type: ignore[misc]
                "env | grep NCCL_ALGO; /etc/nccl.conf; a tuner plugin (NCCL_TUNER_PLUGIN)",
                lambda _, algorithms=algorithms: base._replace(only=algorithms),  # type: ignore[misc]
                (0.0,),
            )


def _links(base: World, inner_at: Callable[[float], World]) -> Iterator[Hypothesis]:
    """What is wrong with the NVLinks of a host."""
    fabric, inner = base.fabric, base.fabric.tiers[0]
    facts = fabric.library_facts
    links = NVLINKS.get(facts.gpu or "", 0) if facts and kind_of(inner).joined_by == "switches" else 0
    if links and inner.endpoints > 1:
        yield Hypothesis(
            "nvlinks",
            lambda count: f"{count:.0f} of the {links} NVLinks of a GPU carry data",
            "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
            lambda count: inner_at(count / links),
            fits="share",
            of=links,
        )
        yield Hypothesis(
            "pcie",
            lambda rate: f"traffic between GPUs goes over {_bus(rate)} and not over NVLink (NCCL_P2P_DISABLE, no fabric manager)",
            "nvidia-smi topo -m (NV18, not SYS or PHB); 'via P2P' and not 'via SHM' in the output of NCCL_DEBUG=INFO",
            lambda rate: base._replace(fabric=changed(fabric, _first(partial(_over_bus, rate=rate)))),
            tuple(PCIE.values()),
        )


def _slow_rank(base: World, inner_at: Callable[[float], World]) -> Hypothesis:
    """A straggler: a ring runs at the rate of its slowest rank."""
    inner = base.fabric.tiers[0]
    return Hypothesis(
        "slow-rank",
        lambda share: f"one rank, or all, at {whole_percent(share)} of {inner.name}'s bandwidth: a ring runs at its slowest rank",
        "one device apart from the others: nvidia-smi dmon -s pucv, or rocm-smi; other jobs on the host",
        inner_at,
        fits="share",
        spares=frozenset({"half"}),
    )


def _outer(base: World, ranks_inside: int, outer_at: Callable[[float], World]) -> Iterator[Hypothesis]:
    """What is wrong between hosts."""
    network = base.fabric.tiers[-1].name
    if ranks_inside > 1:
        yield Hypothesis(
            "rails",
            lambda used: f"{used:.0f} of {ranks_inside} NICs of a host carry data",
            "'NET/IB' lines of NCCL_DEBUG=INFO list the NICs in use; NCCL_IB_HCA; ibstat",
            lambda used: outer_at(used / ranks_inside),
            fits="share",
            of=ranks_inside,
        )
    yield Hypothesis(
        "network",
        lambda share: f"{network} at {whole_percent(share)} of its bandwidth: slow NICs, oversubscribed uplinks, other traffic",
        "ibstat | grep Rate; ib_write_bw between two hosts; counters of the switches; no GPUDirect RDMA ('GDRDMA' is missing)",
        outer_at,
        fits="share",
        spares=frozenset({"host"}),
    )


def _of_hosts(base: World) -> Iterator[Hypothesis]:
    yield Hypothesis(
        "clocks",
        lambda share: f"everything takes {1 / share:.2f} times as long, small messages too: clocks, a power cap, or busy hosts",
        "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER, or rocm-smi --showclocks --showpower",
        lambda share: base._replace(factor=1 / share),
        fits="share",
        least=0.5,  # no cap and no clock leaves less
    )
    yield Hypothesis(
        "launch",
        lambda extra: f"every call takes {format_time(extra, 3)} more: the host launches late",
        "NCCL_DEBUG, CUDA_LAUNCH_BLOCKING and profilers off; cores pinned (numactl); or measure graphs (-G 1)",
        lambda extra: base._replace(extra_s=extra),
        fits="extra",
    )


def _first(change: Callable[[Tier], Tier]) -> Callable[[int, Tier], Tier]:
    """A change of the innermost tier alone."""
    return lambda at, tier: change(tier) if at == 0 else tier


def _network_at(fabric: Fabric, share: float) -> Fabric:
    return changed(fabric, lambda at, tier: at_share(tier, share) if at else tier)


def _over_bus(tier: Tier, rate: float) -> Tier:
    return at_share(switchless(tier), rate / tier.bandwidth)


def _bus(rate: float) -> str:
    name = next(name for name, known in PCIE.items() if known == rate)
    return f"{name} ({format_rate(rate, 3)})"
