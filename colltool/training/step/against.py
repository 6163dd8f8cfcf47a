"""How far steps like these were off: published training runs planned from their own layouts, by stack, dense and MoE apart."""

from __future__ import annotations

from typing import NamedTuple


class Against(NamedTuple):
    """Runs that were planned, and the median of |plan / measured - 1| over them."""

    runs: int
    median_error: float


DENSE = {
    "fsdp": Against(9, 0.071),
    "megatron": Against(69, 0.068),
    "megatron-2021": Against(10, 0.021),
}
"""Steps of dense runs: torchtitan; NeMo, Megatron-LM and Megatron-Bridge; Narayanan 2021.

No constant was fitted to them, though their errors had been seen when it was decided what to count. They stand in
``tests/data/training_runs.csv``; ``tests/benchmarks/bench_plan.py`` plans them, and a test holds these figures to it.
"""

MOE = {"megatron": Against(21, 0.194)}
"""Steps of runs with experts whose tokens were dealt out evenly by force: Megatron-Bridge and NeMo AutoModel, 2025."""

MEMORY = Against(7, 0.090)
"""Peak memory of the runs above that print it: torchtitan and NeMo."""


def against(stack: str, *, moe: bool = False) -> Against | None:
    """Of a stack; None where no published runs were planned under it.

    >>> against("megatron-2021").runs, against("megatron", moe=True).runs
    (10, 21)
    """
    return (MOE if moe else DENSE).get(stack)
