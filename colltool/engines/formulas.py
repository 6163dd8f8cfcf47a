"""Formulas of kernels: seconds of a call from its ranks, bytes and experts.

Each formula has two to six measured parameters, with their unit in the name: ``_us``, ``GBps`` and
``MB_us`` (us for each MB), as in library files. n is the number of ranks, M the bytes of the vector
that each rank reduces or, for experts, that each rank sends (:mod:`colltool.engines.tokens`).

:data:`FORMULAS`, at the end, has each by its name in library files. All take the kernel's parameters,
which were checked when the file was read, and the call, and return a :class:`KernelTimes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Literal, NamedTuple

from colltool.engines.tokens import WIDTHS

FormulaName = Literal[
    "one-shot",
    "two-shot",
    "one-shot-passes",
    "two-shot-passes",
    "multimem",
    "split",
    "mnnvl-two-shot",
    "gather",
    "switch",
    "exchange",
    "exchange-copy",
    "exchange-sm",
    "exchange-nic",
    "exchange-nic-copy",
    "exchange-nic-sm",
    "exchange-host",
    "counts",
    "transfer",
    "messages",
]


class KernelCall(NamedTuple):
    """The arguments of a formula.

    Args:
        ranks: n; of a transfer the pairs of ranks that send at once.
        bytes: M of an all-reduce; for experts the bytes that leave a rank; of a transfer those of all
            pairs together.
        experts: experts in all; 0 without any.
        nic_Bps: bandwidth of a rank's share of the NICs, bytes/s; 0 for formulas without NICs.
        token_bytes: bytes of a rank's own tokens, each counted once, in the format that is sent.
        values: values of a rank's own tokens.
        tokens: tokens of a rank.
        copies: copies of a token that leave its rank.
        sms: streaming multiprocessors that the kernel runs on.
        messages: of a pair of ranks.
    """

    ranks: int
    bytes: float
    experts: int = 0
    nic_Bps: float = 0.0
    token_bytes: float = 0.0
    values: int = 0
    tokens: int = 0
    copies: float = 0.0
    sms: int = 1
    messages: int = 0


class KernelTimes(NamedTuple):
    """Seconds that do not grow with bytes, and seconds that do."""

    latency_s: float
    bandwidth_s: float

    @property
    def total_s(self) -> float:
        return self.latency_s + self.bandwidth_s


Parameters = Mapping[str, float]


class Formula(NamedTuple):
    """A formula of kernels.

    Args:
        parameters: names of the numbers that a kernel's file must have.
        words: the formula as ``library show`` prints it.
        of: computes the times of a call from a kernel's numbers.
        optional: names of numbers that are 0 where the file has none.
    """

    parameters: tuple[str, ...]
    words: str
    of: Callable[[Parameters, KernelCall], KernelTimes]
    optional: tuple[str, ...] = ()


def _latency_s(parameters: Parameters, ranks: int, experts: int = 0) -> float:
    """A base, and a time for each of so many ranks and experts where the kernel has one."""
    per_rank_us = parameters.get("per_rank_us", 0.0)
    per_expert_us = parameters.get("per_expert_us", 0.0)
    return (parameters["base_us"] + per_rank_us * ranks + per_expert_us * experts) * 1e-6


def _rate_Bps(parameters: Parameters) -> float:
    """The measured rate of a rank's port."""
    return parameters["GBps"] * 1e9


def _over_port(parameters: Parameters, call: KernelCall, port_bytes: float) -> KernelTimes:
    """Bytes over a rank's port, and a latency for each other rank."""
    return KernelTimes(_latency_s(parameters, call.ranks - 1), port_bytes / _rate_Bps(parameters))


def _one_shot(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Each rank reads the whole vector of every other: (n-1) M over its port."""
    return _over_port(parameters, call, (call.ranks - 1) * call.bytes)


def _two_shot(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Reduce-scatter, then all-gather: 2(n-1)/n M over its port."""
    return _over_port(parameters, call, 2 * (call.ranks - 1) / call.ranks * call.bytes)


def _passes(parameters: Parameters, share_bytes: float) -> int:
    """How often a kernel with a grid of fixed size runs over its share of the vector: 4 times over
    900 KiB with a ``pass_KiB`` of 256."""
    return max(1, ceil(share_bytes / (parameters["pass_KiB"] * 1024)))


def _one_shot_passes(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """A one-shot whose blocks start over once for each pass after the first."""
    times = _one_shot(parameters, call)
    again_s = parameters["pass_us"] * (_passes(parameters, call.bytes) - 1) * 1e-6
    return times._replace(latency_s=times.latency_s + again_s)


def _two_shot_passes(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """A two-shot in passes over a rank's share, each of which waits for every other rank."""
    times = _two_shot(parameters, call)
    passes = _passes(parameters, call.bytes / call.ranks)
    waits_s = parameters["pass_us"] * (call.ranks - 1) * passes * 1e-6
    return times._replace(latency_s=times.latency_s + waits_s)


def _multimem(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """The switch reduces; the vector is copied once, and each rank's share once."""
    return _over_port(parameters, call, (1 + 1 / call.ranks) * call.bytes)


def _split(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """A time for each MB of the vector, and for each MB of a rank's share of it."""
    MB_us = parameters["MB_us"] + parameters["share_MB_us"] / call.ranks
    # 1e-12: microseconds a megabyte to seconds a byte
    return KernelTimes(_latency_s(parameters, 0), MB_us * call.bytes * 1e-12)


def _mnnvl_two_shot(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """All but its share out to the others, then the vector back by multicast, which reaches the
    sender too: (2 - 1/n) M over its port. On many ranks the waits for each of them take longer."""
    moved_s = (2 - 1 / call.ranks) * call.bytes / _rate_Bps(parameters)
    waits_s = parameters["rank_MB_us"] * call.ranks * call.bytes * 1e-12
    return KernelTimes(_latency_s(parameters, 0), max(moved_s, waits_s))


def _gather(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """An all-gather or reduce-scatter: every part but one's own, once."""
    return _over_port(parameters, call, (call.ranks - 1) / call.ranks * call.bytes)


def _switch(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """The switch reduces (multimem): M once, of which ``free_KiB`` hide behind the latency."""
    return _over_port(parameters, call, max(0.0, call.bytes - parameters["free_KiB"] * 1024))


def _exchange(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Bytes that leave a rank over its port, and a latency for each peer and each expert.

    Each expert's tokens are sent by a block of threads, up to 128 of them: few experts have few
    blocks. GPUs that are joined in pairs (xGMI) send each peer's bytes over the link to it: few peers
    have few links.
    """
    rate_Bps = _rate_Bps(parameters)
    if "link_GBps" in parameters:
        rate_Bps = min(rate_Bps, parameters["link_GBps"] * 1e9 * (call.ranks - 1))
    blocks = max(1, min(call.experts, _MOST_BLOCKS))
    blocks_s = call.tokens / blocks * parameters.get("block_us", 0.0) * 1e-6
    sent_s = call.bytes / rate_Bps
    return KernelTimes(_latency_s(parameters, call.ranks, call.experts), max(sent_s, blocks_s))


def _exchange_copy(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Bytes that leave a rank, after every token was copied once, in 16 bits, into a buffer."""
    copy_s = call.values * WIDTHS["bf16"] / (parameters["own_GBps"] * 1e9)
    return KernelTimes(
        _latency_s(parameters, call.ranks), call.bytes / _rate_Bps(parameters) + copy_s
    )


def _exchange_sm(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Each token costs an SM some time, more with its copies, and bytes then leave as fast as the SMs
    or the port send them.

    128 tokens on 24 SMs at 1.5 us each take 8 us before the bytes.
    """
    token_us = parameters["token_us"] + parameters["copy_us"] * call.copies
    busy_s = call.tokens / call.sms * token_us * 1e-6
    sent_s = call.bytes / min(_sms_Bps(parameters, call), _rate_Bps(parameters))
    latency_s = _latency_s(parameters, call.ranks) + _hidden_size_s(parameters, call)
    return KernelTimes(latency_s, busy_s + sent_s)


def _hidden_size_s(parameters: Parameters, call: KernelCall) -> float:
    """Seconds that the first token takes to go through, longer with a larger hidden size (values of a
    token): ``hidden_us`` for each 1000 of them."""
    hidden_size = call.values / max(1, call.tokens)
    return parameters.get("hidden_us", 0.0) * hidden_size / 1000 * 1e-6


def _sms_Bps(parameters: Parameters, call: KernelCall) -> float:
    """The rate of all SMs that the kernel runs on."""
    return parameters["GBps_per_sm"] * 1e9 * call.sms


def _exchange_nic_copy(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Bytes that leave a rank over its NIC, and those of its own node, which go through it too."""
    nic_bytes = call.bytes + call.token_bytes
    return KernelTimes(
        _latency_s(parameters, call.ranks), nic_bytes / (parameters["eta"] * call.nic_Bps)
    )


def _exchange_host(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """An exchange that the engine's host launches: not below the time that the host takes, which
    hides the bytes as well."""
    floor_s = parameters["floor_us"] * 1e-6
    start_s = _latency_s(parameters, call.ranks) + _hidden_size_s(parameters, call)
    start_s += call.tokens * parameters["token_us"] * 1e-6
    sent_s = call.bytes / _rate_Bps(parameters)
    # total_s is the larger of floor_s and start_s + sent_s
    return KernelTimes(max(floor_s - sent_s, start_s), sent_s)


def _counts(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Counts of tokens that ranks tell each other: no values, but a time for each token, which is
    given as ``bandwidth_s``."""
    return KernelTimes(
        _latency_s(parameters, call.ranks), call.tokens * parameters["token_us"] * 1e-6
    )


def _exchange_nic(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Bytes that leave a rank over its NIC, at a measured share ``eta`` of the NIC's rate, or as fast
    as its SMs feed it where these were measured."""
    rate_Bps = parameters["eta"] * call.nic_Bps
    if "GBps_per_sm" in parameters:
        rate_Bps = min(rate_Bps, _sms_Bps(parameters, call))
    return KernelTimes(_latency_s(parameters, call.ranks, call.experts), call.bytes / rate_Bps)


def _transfer(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Bytes over the NICs of all pairs of ranks, at most at the rate of the software."""
    nics_Bps = parameters["eta"] * call.nic_Bps * call.ranks
    return KernelTimes(
        _latency_s(parameters, call.ranks), call.bytes / min(nics_Bps, _rate_Bps(parameters))
    )


def _messages(parameters: Parameters, call: KernelCall) -> KernelTimes:
    """Bytes over the NICs of all pairs of ranks, and a time for each message of a pair."""
    nics_Bps = parameters["eta"] * call.nic_Bps * call.ranks
    messages_s = parameters["per_message_us"] * 1e-6 * call.messages
    return KernelTimes(_latency_s(parameters, call.ranks), call.bytes / nics_Bps + messages_s)


# blocks of threads that send tokens at once, one an expert; the 128 in the words of "exchange"
_MOST_BLOCKS = 128
# parameters of most formulas; B in their words is GBps
_PER_RANK = ("base_us", "per_rank_us", "GBps")
FORMULAS: dict[FormulaName, Formula] = {
    "one-shot": Formula(_PER_RANK, "base + per_rank (n-1) + (n-1) M / B", _one_shot),
    "two-shot": Formula(_PER_RANK, "base + per_rank (n-1) + 2(n-1)/n M / B", _two_shot),
    "one-shot-passes": Formula(
        (*_PER_RANK, "pass_us", "pass_KiB"),
        "base + per_rank (n-1) + pass (ceil(M / P) - 1) + (n-1) M / B",
        _one_shot_passes,
    ),
    "two-shot-passes": Formula(
        (*_PER_RANK, "pass_us", "pass_KiB"),
        "base + per_rank (n-1) + pass (n-1) ceil(M / n P) + 2(n-1)/n M / B",
        _two_shot_passes,
    ),
    "multimem": Formula(_PER_RANK, "base + per_rank (n-1) + (1 + 1/n) M / B", _multimem),
    "split": Formula(
        ("base_us", "MB_us", "share_MB_us"), "base + (per_MB + per_share_MB / n) M", _split
    ),
    "mnnvl-two-shot": Formula(
        ("base_us", "GBps", "rank_MB_us"),
        "base + max((2 - 1/n) M / B, per_rank_MB n M)",
        _mnnvl_two_shot,
    ),
    "gather": Formula(_PER_RANK, "base + per_rank (n-1) + (n-1)/n M / B", _gather),
    "switch": Formula((*_PER_RANK, "free_KiB"), "base + per_rank (n-1) + (M - free) / B", _switch),
    "exchange": Formula(
        (*_PER_RANK, "per_expert_us"),
        "base + per_rank n + per_expert E + max(bytes sent / B, block tokens / min(E, 128))",
        _exchange,
        ("block_us", "link_GBps"),
    ),
    "exchange-copy": Formula(
        ("base_us", "GBps", "own_GBps"),
        "base + per_rank n + bytes sent / B + bytes of own tokens in bf16 / B own",
        _exchange_copy,
        ("per_rank_us",),
    ),
    "exchange-sm": Formula(
        ("base_us", "token_us", "copy_us", "GBps_per_sm", "GBps"),
        "base + hidden h / 1000 + tokens/SMs (token + copy D) + bytes sent / min(SMs B of one, B)",
        _exchange_sm,
        ("hidden_us",),
    ),
    "exchange-nic-sm": Formula(
        ("base_us", "GBps_per_sm", "eta"),
        "base + bytes sent / min(eta NIC, SMs B of one)",
        _exchange_nic,
    ),
    "exchange-nic-copy": Formula(
        ("base_us", "eta"),
        "base + (bytes sent + bytes of own tokens) / (eta NIC)",
        _exchange_nic_copy,
    ),
    "exchange-host": Formula(
        ("floor_us", "base_us", "token_us", "GBps"),
        "max(floor, base + hidden h / 1000 + token T + bytes sent / B)",
        _exchange_host,
        ("hidden_us",),
    ),
    "counts": Formula(
        ("base_us", "per_rank_us", "token_us"), "base + per_rank n + token T", _counts
    ),
    "exchange-nic": Formula(
        ("base_us", "per_rank_us", "per_expert_us", "eta"),
        "base + per_rank n + per_expert E + bytes sent / (eta NIC)",
        _exchange_nic,
    ),
    "transfer": Formula(
        ("base_us", "eta", "GBps"), "base + bytes / min(eta NIC pairs, B)", _transfer
    ),
    "messages": Formula(
        ("base_us", "per_message_us", "eta"),
        "base + per_message messages + bytes / (eta NIC pairs)",
        _messages,
    ),
}
