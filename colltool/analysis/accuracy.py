"""How near prices are to what was measured: the one table that verdicts hold a difference against."""

from __future__ import annotations

from math import inf

_DATASHEET = ((64e3, 0.23), (8e6, 0.40), (128e6, 0.26), (inf, 0.11))
"""Up to so many bytes the median of |price / measured - 1|, of fabrics that no log was fitted to. Source: 1,463 published rows of
nccl-tests, rccl-tests and OSU, 8 B to 16 GiB, on 2 to 3,072 ranks, that no coefficient of a shipped fabric was read from."""

_MEASURED_INSIDE, _MEASURED_ACROSS = 0.046, 0.15
"""The same of fabrics whose tiers list measured protocols, inside a node and across nodes. Source: series of published logs at
sizes that were not fitted, 36 inside a node; 12 to 15% across nodes, the upper end."""


def model_error(size: float, *, measured: bool, several_tiers: bool) -> float:
    """What the price of a call may be off by, as a share: the median of what is known of its class.

    Args:
        size: bytes by nccl-tests' convention.
        measured: the tiers list protocols that a log was fitted to.
        several_tiers: the group is on more than one tier.
    """
    if measured:
        return _MEASURED_ACROSS if several_tiers else _MEASURED_INSIDE
    return next(error for most, error in _DATASHEET if size <= most)


_STEP = 0.126
"""The median of |step / measured - 1|. Source: 678 published training runs of sources that no efficiency was read from."""

_OF_A_STEP = 0.26
"""What a step's collectives are off by: most are of 8 to 128 MB."""


def step_error(network_share: float, *, same_device: bool) -> float:
    """What the ratio of two steps may be off by, as a share: on one device the compute is the same number in both."""
    return min(_STEP, network_share * _OF_A_STEP) if same_device else _STEP
