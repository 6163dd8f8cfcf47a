"""``colltool trace``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli.command import FabricChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool trace rank0.json.gz -f dgx-h100
  colltool trace traces/*.pt.trace.json.gz -f my-cluster.yaml --format json -o trace.json
  colltool trace rank*.json -f dgx-h100 --map cyclic
  colltool trace rank*.json -f dgx-a100 --calls job.yaml && colltool plan job.yaml -f dgx-h100
"""


@command()
def trace(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Traces of the PyTorch profiler, plain or gzipped, one a rank."), o.READ
    ],
    fabric: FabricChoice,
    calls: Annotated[
        Path | None,
        typer.Option("--calls", metavar="FILE", help="Write the calls of a step as a job, for colltool plan on another fabric."),
        o.WRITTEN,
    ] = None,
    map_: Annotated[
        str | None,
        typer.Option(
            "--map", metavar="block|cyclic|FILE", help="How ranks sit on hosts; a file lists the fabric's rank or host of each."
        ),
        o.READ,
    ] = None,
    library: o.LibraryOption = None,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Collectives of profiler traces against the prices of a fabric: what ran, what it should take, what compute hides.

    Rank r of the job is rank r of the fabric; --map says otherwise. With a trace of every rank of a group a call takes what its
    shortest kernel took; else that is an upper bound, for a kernel waits for the slowest rank.
    """
    import colltool

    o.check_plot(plot)
    result = colltool.trace(fabric.load(), files, placed=map_, library=library, readings=readings)
    if calls is not None:
        from colltool.cli.written import write_bytes

        write_bytes(calls, result.job.encode(), "calls")
    o.draw(plot, result)
    out.emit(result)
