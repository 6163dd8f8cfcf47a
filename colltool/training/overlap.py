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


class Corner(NamedTuple):
    """A bucket that may set the end: it is ready after this share of the pass, and it and all behind it take so many seconds."""

    ready: float
    rest_s: float


class Buckets(NamedTuple):
    """Buckets that go out one after the other: their number, their seconds together, and the corners that set the last end."""

    calls: int
    total_s: float
    corners: tuple[Corner, ...]


def in_a_row(takes_s: Sequence[float]) -> Buckets:
    """Buckets that become ready evenly over a pass: end_k = max(ready_k, end_(k-1)) + t_k, eq P8, worked out for any pass.

    The last end is max(ready_k + t_k + t_(k+1) + ...) over k: of lines in the length of the pass only the upper envelope counts.
    Equal buckets have two, however many there are.
    """
    count, rest = len(takes_s), 0.0
    found: list[Corner] = []
    for index in range(count - 1, -1, -1):
        rest += takes_s[index]
        now = Corner((index + 1) / count, rest)
        while len(found) > 1 and _below(now, found[-1], found[-2]):
            found.pop()
        found.append(now)
    return Buckets(count, rest, tuple(found))


def _below(one: Corner, middle: Corner, other: Corner) -> bool:
    """Whether the middle of three corners never sets the end."""
    slope = (other.rest_s - one.rest_s) * (middle.ready - one.ready)
    return (middle.rest_s - one.rest_s) * (other.ready - one.ready) <= slope


def behind_pass(pass_s: float, buckets: Buckets, overhead_s: float = 0.0) -> Overlapped:
    """Buckets behind a pass, each call costing it 2 o. The last is ready when the pass ends, so that it is always exposed."""
    if not buckets.calls:
        return Overlapped(0.0, 0.0)
    calls_s = 2 * overhead_s * buckets.calls
    exposed = max((pass_s + calls_s) * ready + rest for ready, rest in buckets.corners) - pass_s
    return Overlapped(max(0.0, buckets.total_s + calls_s - exposed), exposed)


def behind_backward(backward_s: float, takes_s: Sequence[float], overhead_s: float = 0.0) -> Overlapped:
    """Buckets that become ready evenly over a backward pass; see :func:`behind_pass`."""
    return behind_pass(backward_s, in_a_row(takes_s), overhead_s)


def best_bucket(size: float, n_alpha: float, alpha_s: float, overhead_s: float, backward_s: float) -> float:
    """Bytes of the best bucket where communication sets the time: B* = M sqrt((n_alpha alpha + 2 o)/T_b)."""
    return size * min(1.0, sqrt((n_alpha * alpha_s + 2 * overhead_s) / backward_s))
