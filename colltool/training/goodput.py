"""Steps per day where ranks fail: checkpoints, the work that a failure loses, and the interval
between checkpoints that loses least.

Young 1974, Commun. ACM 17(9), 530: the best interval is sqrt(2 C M). Daly 2006, Future Gener.
Comput. Syst. 22(3), 303, eq 20 and 37: the wall time of an interval, and the best one to higher
order. C: seconds to write a checkpoint, M: mean seconds between failures, R: seconds to restart.
"""

from __future__ import annotations

from math import exp, expm1, sqrt
from typing import NamedTuple

from colltool.training.parallel_config import ParallelConfig

DAY_S = 86_400.0  # seconds of a day
# bytes of a parameter in a checkpoint: its weight in fp32 and Adam's two moments
CHECKPOINT_BYTES = 12.0


class Failures(NamedTuple):
    """How often ranks fail, and what a failure costs."""

    mtbf_s: float  # mean time between failures of one rank
    storage_Bps: float  # rate at which all ranks together write and read a checkpoint
    interval_s: float | None = None  # between checkpoints; None: the best
    restart_s: float = 600.0  # without reading the checkpoint


class Goodput(NamedTuple):
    """Progress of a job with failures and checkpoints."""

    job_mtbf_s: float  # mean time between failures of any rank
    checkpoint_bytes: float  # of all ranks together
    write_s: float  # to write a checkpoint
    best_interval_s: float  # between checkpoints
    interval_s: float  # that was asked for, else the best
    share: float  # of the time, in which steps are done that no failure loses
    steps_per_day: float  # that no failure loses
    best_steps_per_day: float  # with the best interval


def best_interval(write_s: float, mtbf_s: float) -> float:
    """Seconds between checkpoints that lose least, by Daly 2006, eq 37: sqrt(2CM) (1 + sqrt(C/2M)/3
    + (C/2M)/9) - C where C < 2M, else M."""
    if write_s >= 2 * mtbf_s:
        return mtbf_s
    half_ratio = write_s / (2 * mtbf_s)
    return sqrt(2 * write_s * mtbf_s) * (1 + sqrt(half_ratio) / 3 + half_ratio / 9) - write_s


def useful_share(interval_s: float, write_s: float, mtbf_s: float, restart_s: float) -> float:
    """Share of the time that is useful, by Daly 2006, eq 20: an interval of t useful seconds takes M
    e^(R/M) (e^((t+C)/M) - 1) where failures come at random."""
    # nothing is ever finished; beyond 700 the exponential overflows
    if (interval_s + write_s + restart_s) / mtbf_s > 500:
        return 0.0
    return interval_s / (mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + write_s) / mtbf_s))


def goodput(config: ParallelConfig, step_s: float, failures: Failures) -> Goodput:
    """Return the goodput of a job at the given interval between checkpoints, and at the best one."""
    mtbf_s = failures.mtbf_s / config.layout.ranks
    checkpoint_bytes = config.known_model.parameters * CHECKPOINT_BYTES
    write_s = checkpoint_bytes / failures.storage_Bps
    restart_s = failures.restart_s + write_s  # the checkpoint is read back
    # never more often than every step
    best_s = max(best_interval(write_s, mtbf_s), step_s)
    interval_s = best_s if failures.interval_s is None else failures.interval_s
    share = useful_share(interval_s, write_s, mtbf_s, restart_s)
    steps_per_day = DAY_S / step_s
    return Goodput(
        mtbf_s,
        checkpoint_bytes,
        write_s,
        best_s,
        interval_s,
        share=share,
        steps_per_day=share * steps_per_day,
        best_steps_per_day=useful_share(best_s, write_s, mtbf_s, restart_s) * steps_per_day,
    )
