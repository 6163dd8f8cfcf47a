"""MSCCL++'s execution plans, JSON, read strictly: :class:`PlanFile`, of which
:mod:`colltool.custom.mscclpp_machine` executes the plan.

Each GPU has threadblocks of operations on its buffers and, through channels, on those of its peers.
What is read is what MSCCL++'s executor runs (microsoft/mscclpp, src/core/executor/execution_plan.cc
and src/core/include/execution_kernel.hpp; its language writes python/mscclpp/language/internal):

- copies, puts, gets, reductions that read or write a peer, packets, signals, waits, barriers;
- ``tbg_info``: an operation of a group of threadblocks, of which each moves its equal part of the
  whole place. MSCCL++ does not make them wait for each other;
- ``pipeline``: operations that run in turn on pieces of ``unit_size`` bytes of a chunk. Packets are
  not cut: each turn sends all of them;
- switch channels: ``glres`` reads the sum over a group's ranks and stores it to all of them,
  ``gstore`` stores to all;
- semaphores between the threadblocks of a GPU.

``glre``, which the language can write and the executor does not know, is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.execution_plan import (
    MOST_STEPS,
    PIPELINE,
    ExecutionPlan,
    PlanOp,
    in_parts,
    too_long,
)
from colltool.custom.plan_channels import GpuReach, reach_of
from colltool.custom.plan_mapping import PlanMapping
from colltool.custom.plan_operations import OperationReader, PlanPipeline
from colltool.custom.postcondition import MOST_CHUNKS


class PlanFile(NamedTuple):
    """The GPUs of a file, and what each of them can reach; both by rank."""

    gpus: list[PlanMapping]
    reaches: list[GpuReach]
    file: str  # its name, for errors

    @property
    def least_unit_bytes(self) -> int:
        """The smallest piece of a pipeline; 0 without pipelines."""
        units = []
        for gpu in self.gpus:
            for block in gpu.listed("threadblocks"):
                for entry in block.listed("ops", MOST_STEPS):
                    if entry.data.get("name") == PIPELINE:
                        units.append(PlanPipeline.of(entry).unit_bytes)
        return min(units, default=0)

    def plan(self, chunk_bytes: int = 0) -> ExecutionPlan:
        """Return the plan for chunks of so many bytes, which decide into how many pieces pipelines cut them; 0:
        into one. ColltoolError for more operations or parts of chunks than are followed."""
        sizes: dict[tuple[int, str], int] = {}
        semaphores: dict[tuple[int, int], int] = {}
        blocks: list[tuple[int, list[PlanOp]]] = []
        steps = 0
        for rank, gpu in enumerate(self.gpus):
            sizes[rank, INPUT] = gpu.number("input_chunks", MOST_CHUNKS)
            sizes[rank, OUTPUT] = gpu.number("output_chunks", MOST_CHUNKS)
            sizes[rank, SCRATCH] = gpu.number("scratch_chunks", MOST_CHUNKS)
            initial_values = [entry.number("init_value") for entry in gpu.listed("semaphores")]
            for number, value in enumerate(initial_values):
                semaphores[rank, number] = value
            for block in gpu.listed("threadblocks"):
                reader = OperationReader(
                    block, self.reaches, rank, len(initial_values), chunk_bytes
                )
                ops = []
                for entry in block.listed("ops", MOST_STEPS):
                    # counted as they come: a short pipeline can have millions of pieces
                    for op in reader.ops(entry):
                        ops.append(op)
                        steps += 1
                        if steps > MOST_STEPS:
                            raise too_long(self.file)
                blocks.append((rank, ops))
        parts = _parts_of_a_chunk(blocks)
        if parts > MOST_CHUNKS:
            what = f"its groups and pipelines cut a chunk into {clipped(str(parts))} parts"
            fix = f"sizes of groups with a common multiple up to {MOST_CHUNKS}"
            raise ColltoolError(what, where=self.file, fix=fix)
        return in_parts(ExecutionPlan(parts, sizes, blocks, semaphores, self.file))


def plan_file_of(gpus: list[PlanMapping], file: str) -> PlanFile:
    """Return the GPUs of a file, whose order is that of ranks, with what they reach."""
    return PlanFile(gpus, reach_of(gpus), file)


def _parts_of_a_chunk(blocks: Sequence[tuple[int, Sequence[PlanOp]]]) -> int:
    """Return the least number of equal parts of a chunk of which every place is a whole number."""
    parts = 1
    for _, ops in blocks:
        for op in ops:
            for place in (*op.sources, *op.targets):
                parts = lcm(parts, place.first.denominator, place.chunks.denominator)
    return parts
