"""Collectives of profiler traces against a fabric's prices: :func:`trace`, and ``colltool trace``, which
also writes their calls as a job file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import remembering
from colltool.commands.command import command
from colltool.commands.options import DRAWN_RESULT, FABRIC, READINGS, FabricChoice, Out, option
from colltool.commands.output import write_bytes
from colltool.estimate.assumptions import ModelOptions, checked

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.diagnosis.trace_results import TraceComparison
    from colltool.fabric.custom_machine import CustomMachine


@remembering()
def trace(
    fabric: AnyFabric,
    files: AnyPath | Sequence[AnyPath],
    *,
    placed: AnyPath | Sequence[int] | None = None,
    against: AnyPath | Sequence[AnyPath] = (),
    library: str | None = None,
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> TraceComparison:
    """The collectives of profiler traces: what each took, what it should take, and what compute hid
    of it.

    Args:
        fabric: where they ran, as :func:`price`.
        files: traces of the PyTorch profiler or Chakra, one per rank, plain or gzipped; one path or
            several.
        placed: which rank of the fabric each rank of the job is: a list; ``block`` or ``cyclic``,
            as Slurm deals ranks to hosts; a file with a rank of the fabric, a host or host:slot in
            each line, or a layout file with a ``map``. Rank r is rank r when None.
        against: traces of the same job from before a change, to say what changed.
        library: library that runs the collectives; default: the fabric's own.
        machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.trace_results.TraceComparison`; seconds, bytes. Its ``job`` is a job
        file for :func:`plan`.

    Raises:
        ColltoolError: a file that is no trace, two of one rank, no call that can be told, a rank
            that the fabric does not have, a map of ranks that is none.
    """
    from colltool.commands.reading import is_nothing, paths_of
    from colltool.commands.requests import fabric_of
    from colltool.diagnosis.trace import trace as trace_files
    from colltool.estimate.machine_factor import as_read

    paths = paths_of(files, "files", "traces", "rank0.json.gz")
    rank_map = _checked_map(placed)
    model = checked(readings, **parts)
    loaded = as_read(fabric_of(fabric, library, machine), model)
    traced = trace_files(loaded, paths, model, rank_map)
    if is_nothing(against):
        return traced
    paths_before = paths_of(against, "against", "traces", "rank0.json.gz")
    return replace(traced, against=trace_files(loaded, paths_before, model, rank_map))


def _checked_map(placed: AnyPath | Sequence[int] | None) -> AnyPath | Sequence[int] | None:
    """A map of ranks: a word or a file's path as it is, or a list of checked ranks; None for none."""
    from colltool.commands.reading import count_of, wrong

    if placed is None or isinstance(placed, str | os.PathLike):
        return placed
    if not isinstance(placed, Sequence) or not placed:
        raise wrong(
            placed,
            "placed",
            "a map of ranks",
            f"write {argument_text('placed', 'cyclic')}, a path, or a list of ranks",
        )
    return [count_of(rank, "placed") for rank in placed]


@command(
    [
        option(
            "files", "Traces of the PyTorch profiler or Chakra, one per rank, plain or gzipped."
        ),
        FABRIC,
        "calls",
        "against",
        "placed",  # --map
        "library",
        DRAWN_RESULT,
        READINGS,
    ],
    public=trace,
)
def trace_command(
    fabric: FabricChoice, out: Out, calls: Path | None = None, **arguments: Any
) -> None:
    """Compare the collectives in profiler traces with the prices of a fabric: what ran, what it should
    take, and what compute hides.

    Overlap and exposed time count all communication kernels, whether or not the trace states their
    bytes. Rank r of the job is rank r of the fabric, unless --map says otherwise. If every rank of a
    group was traced, a call takes as long as its shortest kernel; otherwise its time is an upper bound,
    because a kernel waits for the slowest rank.

    Examples:
      colltool trace rank0.json.gz -f dgx-h100
      colltool trace traces/*.pt.trace.json.gz -f my-cluster.yaml --format json -o trace.json
      colltool trace after.json.gz -f dgx-h100 --against before.json.gz
      colltool trace rank*.json -f dgx-h100 --map cyclic
      colltool trace workload.*.et -f dgx-h100
      colltool trace rank*.json -f dgx-a100 --calls job.yaml && colltool plan job.yaml -f dgx-h100
    """
    result = trace(fabric.load(), **arguments)
    if calls is not None:
        _write_job(result, calls)
    out.emit(result)


def _write_job(result: TraceComparison, file: Path) -> None:
    """Write the calls of a trace as a job file.

    Raises:
        ColltoolError: no call has a size and a time; calls without sizes cannot be priced on another
            fabric.
    """
    if result.calls:
        write_bytes(file, result.job.encode(), "calls")
        return
    what = "no call of the trace has a size, so there is no job to write"
    fix = "profile with PyTorch 2.1 or newer, whose traces name sizes"
    if result.replayed:
        what = "no call of the traces has a recorded time, so there is no job to write"
        fix = "colltool plan prices the graphs themselves: give it these files"
    raise ColltoolError(what, argument="calls", fix=fix)
