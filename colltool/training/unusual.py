"""What is odd about a job that holds: sizes that kernels do not like, batches too small for their pipeline."""

from __future__ import annotations

from typing import NamedTuple

from colltool.definitions.source_map import KeyPath
from colltool.training.job import Job
from colltool.training.setup import Setup

TILE = 64  # tensor cores work on tiles of 64 and 128: a side that is no multiple costs 30 to 50% of published GEMM rates
_SLOW = "tiles of the matrix units are not filled, which cost published runs 30 to 50%"


class Odd(NamedTuple):
    """Something that is allowed and that nobody may have meant: where, what, why."""

    where: str
    what: str
    why: str


def odd(job: Job) -> tuple[Odd, ...]:
    """Everything odd about a job."""
    return tuple(
        Odd(job.where(path), what, why) for path, what, why in (*_left_out(job.draft), *_sizes(job.draft), *_batch(job.draft))
    )


def _left_out(setup: Setup) -> list[tuple[KeyPath, str, str]]:
    left = setup.model.left_out if setup.model is not None else ()
    return [(("model",), f"not counted: {one}", "work and memory of it are missing from every figure") for one in left]


def _sizes(setup: Setup) -> list[tuple[KeyPath, str, str]]:
    shape = setup.model.shape if setup.model else None
    if shape is None:
        return []
    tp = setup.layout.tp
    sides = {
        "hidden": shape.hidden,
        "head_dim": shape.head_dim if shape.mla is None else TILE,
        "ffn / tp": shape.ffn // tp,
        "expert width / etp": shape.moe.ffn // setup.layout.etp if shape.moe else TILE,
    }
    return [(("model",), f"{name} is {size}, no multiple of {TILE}", _SLOW) for name, size in sides.items() if size % TILE]


def _batch(setup: Setup) -> list[tuple[KeyPath, str, str]]:
    layout = setup.layout
    if not layout.dp or layout.pp == 1 or setup.micro_batches >= layout.pp:
        return []
    what = f"{setup.micro_batches} micro-batches for {layout.pp} pipeline stages"
    return [(("batch",), what, "most of the step is bubble")]
