"""How far steps like these were off: published training runs planned from their own layouts, by stack."""

from __future__ import annotations

from typing import NamedTuple


class Against(NamedTuple):
    """Runs that were planned, and the median of |step / measured - 1| over them."""

    runs: int
    median_error: float


RUNS = {
    "fsdp": Against(216, 0.059),
    "megatron": Against(5, 0.036),
    "megatron-2021": Against(117, 0.096),
}
"""Dense runs of llm-foundry (2023), Megatron-Bridge (2025), vTrain and Korthikanti 2022: the set that this was developed beside,
so that other runs may be off by more. ``tests/benchmarks/bench_plan.py`` makes the figures from a table of runs.
"""


def against(stack: str) -> Against | None:
    """Of a stack; None where no published runs were planned under it.

    >>> against("megatron-2021").median_error
    0.096
    """
    return RUNS.get(stack)
