"""Communication beside compute: LogP's overhead, buckets behind a backward pass, layers behind each other."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple


class Overlapped(NamedTuple):
    """Seconds of communication that hide under compute, and those that do not."""

    hidden_s: float
    exposed_s: float


def logp_step(compute_s: float, latency_s: float, overhead_s: float) -> float:
    """T = 2 o + max(T_compute, L), eq P7 (Culler 1993, LogP): the overhead is paid on the compute side.

    >>> round(logp_step(500e-6, 100e-6, 50e-6) * 1e6)
    600
    """
    return 2 * overhead_s + max(compute_s, latency_s)


def logp(compute_s: float, latency_s: float, overhead_s: float) -> Overlapped:
    """What of one message hides under a stretch of compute: exposed = 2 o + max(0, L - T_compute)."""
    exposed = 2 * overhead_s + max(0.0, latency_s - compute_s)
    return Overlapped(min(latency_s, compute_s), exposed)


def behind_layers(layers: int, backward_s: float, collective_s: float) -> float:
    """Equal layers, a collective each behind its backward: L t_b + t + (L-1) max(0, t - t_b), eq P8.

    >>> round(behind_layers(32, 15e-3, 26.4e-3) * 1e3, 1)
    859.8
    """
    return layers * backward_s + collective_s + (layers - 1) * max(0.0, collective_s - backward_s)


def hidden_share(layers: int) -> float:
    """The share of collectives that hide where each fits under a layer's backward: all but the last, 1 - 1/L."""
    return 1 - 1 / layers


def bucket_ends(ready_s: Sequence[float], takes_s: Sequence[float]) -> list[float]:
    """When each bucket has gone out, one after the other: end_k = max(ready_k, end_(k-1)) + t_k."""
    ends: list[float] = []
    for ready, takes in zip(ready_s, takes_s, strict=True):
        ends.append(max(ready, ends[-1] if ends else 0.0) + takes)
    return ends


def behind_backward(backward_s: float, takes_s: Sequence[float], overhead_s: float = 0.0) -> Overlapped:
    """Buckets of one size that become ready evenly over a backward pass, each call costing it 2 o.

    The last is ready when the pass ends, so that it is always exposed.
    """
    count = len(takes_s)
    if not count:
        return Overlapped(0.0, 0.0)
    whole = backward_s + 2 * overhead_s * count
    ready = [whole * (index + 1) / count for index in range(count)]
    exposed = bucket_ends(ready, takes_s)[-1] - backward_s
    return Overlapped(max(0.0, sum(takes_s) + 2 * overhead_s * count - exposed), exposed)


def best_bucket(size: float, n_alpha: float, alpha_s: float, overhead_s: float, backward_s: float) -> float:
    """Bytes of the best bucket where communication sets the time: B* = M sqrt((n_alpha alpha + 2 o)/T_b)."""
    return size * min(1.0, sqrt((n_alpha * alpha_s + 2 * overhead_s) / backward_s))
