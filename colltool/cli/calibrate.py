"""``colltool calibrate``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FABRIC_SUFFIXES, command
from colltool.cli.groups import FabricChoice, Out, check_plot, to_file

EXAMPLES = """
\b
Examples:
  colltool calibrate all_reduce.log -f dgx-h100 -o measured.yaml
  colltool calibrate logs/*.log -f my-cluster.yaml --tier ib -o measured.yaml --plot fit.svg
  colltool calibrate osu_allreduce.txt -f my-cluster.yaml -n 64 --algorithm ring -o measured.yaml
  colltool calibrate all_gather.log -f dgx-h100 --line-rate 450GB/s -o measured.yaml
"""


@command(primitive="--collective")
def calibrate(
    logs: o.Logs,
    fabric: FabricChoice,
    output: Annotated[
        Path | None, o.option("output", "Where to write the calibrated fabric.", metavar="OUT.yaml"), o.WRITTEN
    ] = None,
    tier: Annotated[str | None, o.option("tier")] = None,
    algorithm: Annotated[
        str, o.option("algorithms", "What ran, comma-separated; auto compares what the log's library implements.")
    ] = "auto",
    line_rate: Annotated[str | None, o.option("line_rate")] = None,
    ranks: o.LogRanks = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    plot: Annotated[Path | None, o.option("plot"), o.WRITTEN] = None,
    plot_what: Annotated[str, o.option("plot_what", words=("time", "busbw"))] = "time",
    form: Annotated[str | None, o.option("form", "How to print what was found. [default: table]")] = None,
    everything: Annotated[bool, o.option("everything")] = False,
) -> None:
    """Fit a fabric to measured times: launch overhead, alpha and bandwidth of one to three protocols per tier.

    The fabric gives shape and names, the logs the numbers. Prices of the new fabric are those of what was measured; the report
    says how far off they are on sizes that the fit has not seen.
    """
    import colltool
    from colltool.cli.output import working, write

    output = None if output is None else to_file(output) or Path("-")
    if output is not None and output.suffix not in FABRIC_SUFFIXES:
        fix = "name it OUT.yaml; what was found goes to the terminal in the format of --format"
        raise ColltoolError(f"a fabric file ends in .yaml, got {output}", argument="output", fix=fix)
    check_plot(plot)
    working(f"fitting {', '.join(logs)} ...")
    result = colltool.calibrate(
        fabric.name, logs, overrides=fabric.overrides, tier=tier,
        algorithms=() if algorithm == "auto" else values.names(algorithm), line_rate=line_rate, ranks=ranks,
        primitive=collective, nodes=nodes, in_place=in_place, name=output.stem if output else None,
    )  # fmt: skip
    if output is not None:
        write(result.text, output)
        result = replace(result, path=str(output))
    Out(form, everything=everything, plot=plot, plot_what=plot_what).emit(result)
