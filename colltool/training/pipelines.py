"""Pipeline schedules: what a step of stages takes, and the share of it that is bubble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Pass(NamedTuple):
    """One micro-batch on one stage, its exposed communication included: forward, backward, and the part that waits for nobody."""

    forward_s: float
    backward_s: float
    weight_s: float = 0.0

    @property
    def total_s(self) -> float:
        """tau: forward and backward."""
        return self.forward_s + self.backward_s


def bubble_share(stages: int, micro_batches: int, virtual: int = 1) -> float:
    """The idle share of a step of equal stages: (p-1)/(v m + p - 1), eq P6 (Narayanan 2021, arXiv:2104.04473, section 2.2).

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


def pipeline_s(schedule: str, stages: Sequence[Pass], micro_batches: int, virtual: int = 1) -> float:
    """Seconds of all micro-batches through all stages.

    1F1B and GPipe (m-1) max tau + sum tau. Interleaved m max tau + (the others' sum)/v. Zero bubble (arXiv:2401.10241): ZB-H1 a
    third of 1F1B's bubble, ZB-V none. DualPipe (arXiv:2412.19437, table 2) m max tau + (p/2 - 1)(F&B + B - 3W), F&B of a forward
    and a backward that run at once: their sum here.
    """
    taus = [one.total_s for one in stages]
    slowest, m, p = max(taus), micro_batches, len(taus)
    others = sum(taus) - slowest
    steady = m * slowest
    if p == 1:
        return steady
    if schedule == "interleaved":
        return steady + others / virtual
    if schedule == "zb1p":
        return steady + others / 3
    if schedule == "zbv":
        return steady
    if schedule == "dualpipe":
        worst = max(stages, key=lambda one: one.total_s)
        return steady + max(0.0, (p / 2 - 1) * (worst.total_s + worst.backward_s - 3 * worst.weight_s))
    return steady + others
