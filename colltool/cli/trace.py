"""``colltool trace``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out, Plots
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
    files: Annotated[list[str], o.option("files", "Traces of the PyTorch profiler, plain or gzipped, one a rank."), o.READ],
    fabric: FabricChoice,
    calls: Annotated[Path | None, o.option("calls"), o.WRITTEN] = None,
    map_: Annotated[str | None, o.option("placed"), o.READ] = None,
    library: o.Library = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Collectives of profiler traces against the prices of a fabric: what ran, what it should take, what compute hides.

    Rank r of the job is rank r of the fabric; --map says otherwise. With a trace of every rank of a group a call takes what its
    shortest kernel took; else that is an upper bound, for a kernel waits for the slowest rank.
    """
    import colltool
    from colltool.cli.output import write_bytes

    result = colltool.trace(fabric.load(), files, placed=map_, library=library, readings=readings)
    if calls is not None:
        write_bytes(calls, result.job.encode(), "calls")
    out.emit(result)
