"""A job for a model alone: what a job file for it would say, with a usual sequence and batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colltool.training.files.presets import longest_sequence

TOKENS = 4 * 2**20
"""Of a step where nothing says more: the first batch of Llama 3 (arXiv:2407.21783, section
3.4.1)."""
LONGEST = 8192
"""A sequence where a model takes longer ones: Llama 3 trained with it before it was made longer
(section 3.4.2)."""


def drafted_mapping(model: str) -> dict[str, Any]:
    """What a job file for a model would hold: usual sequence and batch, ZeRO-1."""
    called = Path(model).parent.name if Path(model).name == "config.json" else Path(model).stem
    sequence = min(LONGEST, longest_sequence(model) or LONGEST)
    return {
        "schema": "colltool.job/1",
        "name": called or "model",
        "model": model,
        "sequence": sequence,
        "batch": {"global": max(1, TOKENS // sequence), "micro": 1},
        "shard": {"mode": "zero1"},
        "stack": "megatron",
    }
