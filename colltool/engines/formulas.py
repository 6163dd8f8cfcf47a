"""The laws of kernels: seconds of a call from its ranks, bytes and experts, with two to six
measured numbers each.

Times are in microseconds and rates in GB/s, as in the files. n ranks, M bytes of the vector that
each rank reduces or, for experts, that each sends over the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from colltool.base.errors import ColltoolError

FormulaName = Literal[
    "one-shot", "two-shot", "switch", "exchange", "exchange-copy", "exchange-nic", "transfer"
]
Copies = Literal["experts", "ranks", "nodes"]


class KernelCall(NamedTuple):
    """What a kernel is asked: ``bytes`` are M of an all-reduce, and of experts what leaves a rank.

    ``own_bytes``: of a rank's tokens, once each. ``nic_Bps``: of a rank.
    """

    ranks: int
    bytes: float
    experts: int = 0
    nic_Bps: float = 0.0
    own_bytes: float = 0.0


class KernelTimes(NamedTuple):
    """Seconds: what does not grow with bytes, and what does."""

    latency_s: float
    bandwidth_s: float

    @property
    def total_s(self) -> float:
        return self.latency_s + self.bandwidth_s


class Formula(NamedTuple):
    """``words``: the formula as people read it."""

    parameters: tuple[str, ...]
    words: str
    of: Callable[[Mapping[str, float], KernelCall], KernelTimes]


def _one_shot(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    """Each rank reads the whole vector of every other: (n-1) M over its port."""
    latency = own["base_us"] + own["per_rank_us"] * (call.ranks - 1)
    return KernelTimes(latency * 1e-6, (call.ranks - 1) * call.bytes / (own["GBps"] * 1e9))


def _two_shot(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    """Reduce-scatter, then all-gather: 2(n-1)/n M over its port."""
    latency = own["base_us"] + own["per_rank_us"] * (call.ranks - 1)
    return KernelTimes(
        latency * 1e-6, 2 * (call.ranks - 1) / call.ranks * call.bytes / (own["GBps"] * 1e9)
    )


def _switch(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    """The switch reduces (multimem): M once, of which the first ``free_KiB`` hide behind the
    latency."""
    latency = own["base_us"] + own["per_rank_us"] * (call.ranks - 1)
    return KernelTimes(
        latency * 1e-6, max(0.0, call.bytes - own["free_KiB"] * 1024) / (own["GBps"] * 1e9)
    )


def _exchange(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    latency = own["base_us"] + own["per_rank_us"] * call.ranks + own["per_expert_us"] * call.experts
    return KernelTimes(latency * 1e-6, call.bytes / (own["GBps"] * 1e9))


def _exchange_copy(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    """What leaves, and beside it every token once through a buffer of the rank's own."""
    return KernelTimes(
        own["base_us"] * 1e-6,
        call.bytes / (own["GBps"] * 1e9) + call.own_bytes / (own["own_GBps"] * 1e9),
    )


def _exchange_nic(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    latency = own["base_us"] + own["per_rank_us"] * call.ranks + own["per_expert_us"] * call.experts
    return KernelTimes(latency * 1e-6, call.bytes / (own["eta"] * call.nic_Bps))


def _transfer(own: Mapping[str, float], call: KernelCall) -> KernelTimes:
    """From one machine to another: what all pairs' NICs carry, or what the software reaches in
    all."""
    return KernelTimes(
        own["base_us"] * 1e-6,
        call.bytes / min(own["eta"] * call.nic_Bps * call.ranks, own["GBps"] * 1e9),
    )


_PER_RANK = ("base_us", "per_rank_us", "GBps")
FORMULAS: dict[FormulaName, Formula] = {
    "one-shot": Formula(_PER_RANK, "base + per_rank (n-1) + (n-1) M / B", _one_shot),
    "two-shot": Formula(_PER_RANK, "base + per_rank (n-1) + 2(n-1)/n M / B", _two_shot),
    "switch": Formula((*_PER_RANK, "free_KiB"), "base + per_rank (n-1) + (M - free) / B", _switch),
    "exchange": Formula(
        (*_PER_RANK, "per_expert_us"),
        "base + per_rank n + per_expert E + bytes sent / B",
        _exchange,
    ),
    "exchange-copy": Formula(
        ("base_us", "GBps", "own_GBps"),
        "base + bytes sent / B + bytes of own tokens / B own",
        _exchange_copy,
    ),
    "exchange-nic": Formula(
        ("base_us", "per_rank_us", "per_expert_us", "eta"),
        "base + per_rank n + per_expert E + bytes sent / (eta NIC)",
        _exchange_nic,
    ),
    "transfer": Formula(
        ("base_us", "eta", "GBps"), "base + bytes / min(eta NIC pairs, B)", _transfer
    ),
}


class Tokens(NamedTuple):
    """A call of dispatch or combine: T tokens a rank, k experts each, of hidden width h, E experts,
    sent as ``dtype``.

    ``groups``: nodes that routing limits a token to (0: any). ``skew``: bytes of the hottest rank
    over the mean.
    """

    tokens: int
    top_k: int
    hidden: int
    experts: int
    dtype: str
    groups: int = 0
    skew: float = 1.0


WIDTHS = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1 + 4 / 128,
    "int8": 1 + 4 / 128,
    "nvfp4": 0.5 + 1 / 16,
    "fp32": 4.0,
}
"""Bytes a value takes on the wire: fp8 with a scale of 4 bytes for 128 values, nvfp4 with one byte
for 16."""


def width(dtype: str) -> float:
    if dtype not in WIDTHS:
        raise ColltoolError(
            f"'{dtype}' is not known", argument="dtype", fix=f"one of {', '.join(WIDTHS)}"
        )
    return WIDTHS[dtype]


def copies_sent(copies: Copies, top_k: int, ranks: int, nodes: int, groups: int = 0) -> float:
    """How many copies of a token leave its rank, on average, for experts drawn evenly.

    For each expert: k, of which the share on other ranks (across nodes: on other nodes) leaves. For
    each rank or node: the expected number of distinct ones among k draws, G (1 - (1 - 1/G)^k), of
    which the others count. Routing that is limited to ``groups`` nodes draws from those.

    >>> copies_sent("experts", 8, 64, 8)
    7.0
    >>> round(copies_sent("nodes", 8, 64, 8), 2), round(copies_sent("nodes", 8, 64, 8, 4), 2)
    (4.59, 3.15)
    """
    parts = nodes if nodes > 1 else ranks
    away = (parts - 1) / parts
    if copies == "experts":
        return top_k * away
    drawn = {"ranks": ranks, "nodes": parts}[copies]
    if nodes > 1 and groups:
        drawn = min(groups * (ranks // nodes if copies == "ranks" else 1), drawn)
    return drawn * (1 - (1 - 1 / drawn) ** top_k) * away


def bytes_sent(copies: Copies, what: Tokens, ranks: int, nodes: int) -> float:
    """Bytes that leave the busiest rank."""
    return (
        what.tokens
        * what.hidden
        * width(what.dtype)
        * copies_sent(copies, what.top_k, ranks, nodes, what.groups)
        * what.skew
    )
