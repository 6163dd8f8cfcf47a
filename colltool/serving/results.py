"""Results of serving: the operations of a token, KV transfer, and what would change them.

A phase has these times:

    network_s      its collectives, priced
    floor_s        lower limit of its kernels, from memory bandwidth and FLOPs
    kernels_s      estimate of its kernels
    limit_s        network_s and floor_s together: the least time
    estimate_s     network_s and kernels_s together
    least_known_s  the best known of these: estimate_s, limit_s or network_s

Fields that end in ``tokens_s`` or ``tokens_per_s`` are tokens per second.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from colltool.base.result import Result, result
from colltool.engines.files import EXPERTS
from colltool.estimate.interval import Interval
from colltool.estimate.results import Overrides
from colltool.serving.deployment import Deployment
from colltool.serving.quantization import WeightFormat


class ServedOperation(NamedTuple):
    """A collective of a phase.

    Args:
        operation: ``all-reduce``, ``dispatch``, ``combine``, ``p2p`` or ``all-gather``.
        ranks, stride: the group: every ``stride``-th rank of the fabric.
        bytes: of one call, on a rank.
        kernel: the kernel or algorithm that runs it, for people.
        why: why that one runs.
        each_s: seconds of one call.
        wire: the tier of its last phase, of kernels the outermost one; empty if none is crossed.
        calls, total_s: calls, and their seconds, per token or per prefill.
        share: of the phase's network time.
        error: median relative error of the kernel's price; None if it was not measured.
        interval: where nine of ten times of one call lie; None if unknown.
    """

    operation: str
    ranks: int
    stride: int
    bytes: float
    kernel: str
    why: str
    each_s: float
    wire: str
    calls: float = 0.0
    total_s: float = 0.0
    share: float = 0.0
    error: float | None = None
    notes: tuple[str, ...] = ()
    interval: Interval | None = None

    @property
    def group(self) -> str:
        """The group for people: ``8``, or ``8, every 2``."""
        return f"{self.ranks}, every {self.stride}" if self.stride > 1 else f"{self.ranks}"


class ServedPhase(NamedTuple):
    """The network time of a token (decode) or of a prefill.

    Args:
        name: ``prefill`` or ``decode``.
        operations: its collectives, one entry for each kind and group.
        network_s: seconds of all operations, one after the other.
        floor_s: lower limit from memory bandwidth and FLOPs; None if the device is unknown.
        floor_by: which of the two limits it: ``memory`` or ``FLOPs``; None as above.
        tokens: tokens of a step, for each replica.
        kernels_s: estimate of what memory and compute take; None if the device is unknown, and of
            prefill.
        kernels_interval: where nine of ten times of the kernels lie.
        beside: the share of kernels that run beside the exchange of the other half of the batch;
            above 0 each step is two of half the batch. 0 without two-batch overlap.
    """

    name: str
    operations: tuple[ServedOperation, ...]
    network_s: float
    floor_s: float | None
    floor_by: str | None
    tokens: int
    kernels_s: float | None = None
    kernels_interval: Interval | None = None
    beside: float = 0.0

    def together_s(self, network_s: float, exchanged_s: float, kernels_s: float) -> float:
        """Network and kernels: one after the other, but for exchanges that run beside kernels. The
        times are arguments, as limits and ends of intervals are added in the same way.

        Args:
            exchanged_s: the part of ``network_s`` that is dispatch and combine.
            kernels_s: seconds of the kernels.
        """
        return network_s + kernels_s - min(exchanged_s, self.beside * kernels_s)

    @property
    def exchanged_s(self) -> float:
        """The part of the network time that is dispatch and combine."""
        return sum(call.total_s for call in self.operations if call.operation in EXPERTS)

    @property
    def hidden_s(self) -> float:
        """Exchanges that run beside kernels, or beside their lower limit where there is no
        estimate."""
        kernels_s = self.floor_s if self.kernels_s is None else self.kernels_s
        return min(self.exchanged_s, self.beside * (kernels_s or 0.0))

    @property
    def estimate_s(self) -> float | None:
        """Estimate of the phase: its network and its kernels; None where there is none."""
        if self.kernels_s is None:
            return None
        return self.together_s(self.network_s, self.exchanged_s, self.kernels_s)

    @property
    def least_known_s(self) -> float:
        """The estimate, or the least time where there is none (or it is 0), or the network alone."""
        return self.estimate_s or self.limit_s or self.network_s

    @property
    def estimate_interval(self) -> Interval | None:
        """Where nine of ten times of the phase lie, if network and kernels are off together: both
        low, or both high. That of the kernels where there is no network; None where either has no
        interval."""
        kernels = self.kernels_interval
        if kernels is None or not self.operations:
            return kernels
        network = self.network_interval
        if network is None:
            return None
        exchanged_share = self.exchanged_s / self.network_s if self.network_s else 0.0
        return kernels._replace(
            low_s=self.together_s(network.low_s, exchanged_share * network.low_s, kernels.low_s),
            high_s=self.together_s(
                network.high_s, exchanged_share * network.high_s, kernels.high_s
            ),
        )

    @property
    def limit_s(self) -> float | None:
        """Least time of the phase: its network, and memory or compute; None if the device is
        unknown."""
        if self.floor_s is None:
            return None
        return self.together_s(self.network_s, self.exchanged_s, self.floor_s)

    @property
    def limited_by(self) -> str | None:
        """The longest of the network (``network``) and the lower limit of the kernels (``memory`` or
        ``FLOPs``), whether or not they overlap; None if the device is unknown."""
        if self.floor_s is None:
            return None
        return "network" if self.network_s >= self.floor_s else self.floor_by

    @property
    def network_interval(self) -> Interval | None:
        """Where nine of ten network times lie, if all operations are off together; None without
        operations, or where one has no interval.

        Its basis and reason are those of the operation that takes most.
        """
        low_s = 0.0
        high_s = 0.0
        for operation in self.operations:
            if operation.interval is None:
                return None
            low_s += operation.interval.low_s * operation.calls
            high_s += operation.interval.high_s * operation.calls
        if not self.operations:
            return None
        most = max(self.operations, key=lambda operation: operation.total_s).interval
        return most and most._replace(low_s=low_s, high_s=high_s)


class KvTransfer(NamedTuple):
    """The transfer of one prompt's KV cache from prefill to decode machines.

    Args:
        bytes: of the cache once.
        pairs: of ranks that move it at once.
        kernel: library and kernel, for people.
        total_s, layer_s: of the whole cache; of a layer's, without latency.
        prefill_layer_s: lower limit of a layer's prefill; None if the device is unknown.
        hidden: whether a layer's transfer is shorter than the lower limit of its prefill.
        exposed_s: time after prefill has ended: the last layer, or all of it if not hidden.
        hiding_nic_Bps: the least NIC bandwidth of a rank with which it would be hidden; None if the
            device is unknown.
        error: median relative error of the kernel's price; None if it was not measured.
        interval: where nine of ten times lie.
        moved_bytes: into all ranks, of which several may hold the same.
        messages: of each pair.
        tier: between prefill and decode.
    """

    bytes: float
    pairs: int
    kernel: str
    total_s: float
    layer_s: float
    prefill_layer_s: float | None
    hidden: bool
    exposed_s: float
    hiding_nic_Bps: float | None
    error: float | None
    notes: tuple[str, ...] = ()
    interval: Interval | None = None
    moved_bytes: float = 0.0
    messages: int = 0
    tier: str = ""


class ServedChange(NamedTuple):
    """Another deployment, engine or link, and the time of a token under it.

    Args:
        change: what changes, for people: ``tp 4, pp 2``.
        network_s: the network time of a token.
        factor: its network time over that of today: below 1 is faster.
        time_per_token_s: with the lower limit of memory and compute; None if the device is unknown.
        tokens_per_s: of the whole deployment, at most; None as above.
        gain: its estimated tokens/s over those of today where both have an estimate, else today's
            network time over its own: above 1 is faster.
        estimated_time_per_token_s, estimated_tokens_per_s: by the estimate of decode; None without one.
    """

    change: str
    network_s: float
    factor: float
    time_per_token_s: float | None = None
    tokens_per_s: float | None = None
    gain: float = 1.0
    estimated_time_per_token_s: float | None = None
    estimated_tokens_per_s: float | None = None


@result
class Served(Result):
    """Least times of a served model, and what its network takes of them.

    Args:
        job, fabric, engine: their names; without an engine the fabric's library is named.
        deployment: as priced.
        phases: prefill and decode.
        tpot_s: the user's time per output token.
        weights: the format of the weights.
        memory_bytes: weights and KV cache of the busiest rank.
        capacity_bytes: memory of the device; None if unknown.
        kv: the transfer of a prompt's KV cache; None without machines for prefill.
        changes: single changes, the largest gain first.
        notes: what was assumed, for people.
        overrides: of the fabric, as key and value.
        most_batch: sequences in flight that fit beside the weights; None if unknown.
        whole: prefill and decode without two-batch overlap; None where it was not asked for.
        mode: ``graph`` or ``eager`` if it was asked for.
    """

    subject: ClassVar[str] = "serve"
    job: str
    fabric: str
    engine: str
    deployment: Deployment
    weights: WeightFormat
    phases: tuple[ServedPhase, ServedPhase]
    kv: KvTransfer | None
    tpot_s: float | None
    memory_bytes: float
    capacity_bytes: float | None
    changes: tuple[ServedChange, ...] = ()
    notes: tuple[str, ...] = ()
    overrides: Overrides = ()
    most_batch: int | None = None
    whole: tuple[ServedPhase, ServedPhase] | None = None
    mode: str | None = None

    @property
    def overlapped(self) -> list[tuple[ServedPhase, ServedPhase]]:
        """Each phase, decode first, with what it was without two-batch overlap; empty without it."""
        if self.whole is None:
            return []
        prefill, decode = self.whole
        return [(self.decode, decode), (self.prefill, prefill)]

    @property
    def prefill(self) -> ServedPhase:
        return self.phases[0]

    @property
    def decode(self) -> ServedPhase:
        return self.phases[1]

    @property
    def bound_tokens_s(self) -> float | None:
        """Tokens per second of the whole deployment if only the network took time; None without
        network."""
        return self._tokens_in(self.decode.network_s)

    @property
    def time_per_token_s(self) -> float | None:
        """Least time per token: its network, and memory or compute; None if the device is
        unknown."""
        return self.decode.limit_s

    @property
    def tokens_per_s(self) -> float | None:
        """Most tokens/s of the whole deployment; None if the device is unknown."""
        return self._tokens_in(self.decode.limit_s)

    @property
    def estimated_time_per_token_s(self) -> float | None:
        """Estimate of a token: its network and its kernels; None if the device is unknown."""
        return self.decode.estimate_s

    @property
    def estimated_tokens_per_s(self) -> float | None:
        """Estimate of the tokens/s of the whole deployment; None if the device is unknown."""
        return self._tokens_in(self.decode.estimate_s)

    def _tokens_in(self, token_s: float | None) -> float | None:
        """Tokens per second of the whole deployment where each sequence gets one in so many seconds;
        None where these are unknown or 0."""
        return self.deployment.batch / token_s if token_s else None

    @property
    def share(self) -> float | None:
        """The network's share of the user's time per token (``tpot_s``); None without one."""
        return None if self.tpot_s is None else self.decode.network_s / self.tpot_s

    @property
    def fits(self) -> bool | None:
        """Whether the busiest rank holds its weights and KV cache; None if the memory is unknown."""
        return None if self.capacity_bytes is None else self.memory_bytes <= self.capacity_bytes


@result
class ServeList(Result):
    """Deployments side by side; those of a search are ordered best first.

    Args:
        names: of each of ``served``: its fabric or values, or its layout.
        tried: how many were priced, refused ones included.
        refused: layouts of a search that cannot run, each with the reason.
        feasible: of a search: layouts that can run, listed or not; None without a search.
    """

    subject: ClassVar[str] = "serve_list"
    title: str
    served: tuple[Served, ...]
    names: tuple[str, ...]
    tried: int
    refused: tuple[tuple[str, str], ...] = ()
    feasible: int | None = None
