"""Closed forms of what ``plan`` works out step by step, for tests to hold it to."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from colltool.training.flops import model_flops
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pass_buckets import behind_pass, queued


def logp_step(compute_s: float, latency_s: float, overhead_s: float) -> float:
    """T = 2 o + max(T_compute, L) (Culler 1993, LogP): the overhead is paid on the compute side.

    >>> round(logp_step(500e-6, 100e-6, 50e-6) * 1e6)
    600
    """
    return 2 * overhead_s + max(compute_s, latency_s)


def behind_layers(layers: int, backward_s: float, collective_s: float) -> float:
    """Equal layers, a collective each behind its backward: L t_b + t + (L-1) max(0, t - t_b).

    >>> round(behind_layers(32, 15e-3, 26.4e-3) * 1e3, 1)
    859.8
    """
    return layers * backward_s + collective_s + (layers - 1) * max(0.0, collective_s - backward_s)


def hidden_share(layers: int) -> float:
    """The share of collectives that hide where each fits under a layer's backward: all but the
    last, 1 - 1/L."""
    return 1 - 1 / layers


def behind_backward(backward_s: float, takes_s: Sequence[float], overhead_s: float = 0.0) -> float:
    """What shows of buckets that become ready evenly over a backward pass; see
    :func:`behind_pass`."""
    return behind_pass(backward_s, queued(takes_s), overhead_s)


def best_bucket(
    size: float, n_alpha: float, alpha_s: float, overhead_s: float, backward_s: float
) -> float:
    """Bytes of the best bucket where communication sets the time: B* = M sqrt((n_alpha alpha + 2
    o)/T_b)."""
    return size * min(1.0, sqrt((n_alpha * alpha_s + 2 * overhead_s) / backward_s))


def bubble_share(stages: int, micro_batches: int, virtual: int = 1) -> float:
    """The idle share of a step of equal stages: (p-1)/(v m + p - 1) (Narayanan 2021,
    arXiv:2104.04473, section 2.2).

    >>> round(bubble_share(8, 32), 4)
    0.1795
    """
    return (stages - 1) / (virtual * micro_batches + stages - 1)


def least_micro_batches(stages: int, limit: float) -> int:
    """The fewest micro-batches whose bubble is below a limit.

    >>> least_micro_batches(8, 0.20)
    29
    """
    found = 1
    while bubble_share(stages, found) >= limit - 1e-12:
        found += 1
    return found


def utilisation(config: ParallelConfig, step_s: float) -> float:
    """Model FLOPs utilisation of a step: of the dense peak in the precision of the GEMMs."""
    assert config.device is not None
    rate = config.device.peak_flops(config.precision.compute)
    return model_flops(config) / (step_s * config.layout.ranks * rate)
