"""``colltool calibrate``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FABRIC_SUFFIXES, FabricChoice, command, to_file
from colltool.cli.completion import words

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
    logs: o.LogsArgument,
    fabric: FabricChoice,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT.yaml", help="Where to write the calibrated fabric."), o.WRITTEN
    ] = None,
    tier: Annotated[
        str | None,
        typer.Option("--tier", metavar="TIER", help="Only this tier. [default: each that some series spans as its outermost]"),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME,...",
            help="What ran, comma-separated; auto compares what the log's library ships.",
            autocompletion=o.complete_algorithm,
        ),
    ] = "auto",
    line_rate: Annotated[
        str | None, typer.Option("--line-rate", metavar="RATE", help="Give bandwidths as eta of this rate: 450GB/s, 400Gbps.")
    ] = None,
    ranks: o.LogRanksOption = None,
    collective: o.CollectiveOption = None,
    nodes: o.NodesOption = None,
    in_place: o.InPlaceOption = False,
    everything: o.AllOption = False,
    plot: o.PlotOption = None,
    plot_what: o.PlotWhatOption = o.PlotWhat.TIME,
    form: Annotated[
        o.OutputFormat | None,
        typer.Option(
            "--format",
            metavar="|".join(o.FORMATS),
            help="How to print what was found. [default: table]",
            parser=values.choice("format", o.OutputFormat),
            autocompletion=words(o.FORMATS),
        ),
    ] = None,
) -> None:
    """Fit a fabric to measured times: launch overhead, alpha and bandwidth of one to three protocols per tier.

    The fabric gives shape and names, the logs the numbers. Prices of the new fabric are those of what was measured; the report
    says how far off they are on sizes that the fit has not seen.
    """
    import colltool
    from colltool.cli.output import emit, working
    from colltool.cli.written import write

    output = None if output is None else to_file(output) or Path("-")
    if output is not None and output.suffix not in FABRIC_SUFFIXES:
        fix = "name it OUT.yaml; what was found goes to the terminal in the format of --format"
        raise ColltoolError(f"a fabric file ends in .yaml, got {output}", argument="output", fix=fix)
    o.check_plot(plot)
    working(f"fitting {', '.join(logs)} ...")
    result = colltool.calibrate(
        fabric.name,
        logs,
        overrides=fabric.overrides,
        tier=tier,
        algorithms=() if algorithm == "auto" else o.names(algorithm),
        line_rate=line_rate,
        ranks=ranks,
        primitive=collective,
        nodes=nodes,
        in_place=in_place,
        name=output.stem if output else None,
    )
    if output is not None:
        write(result.text, output)
    o.draw(plot, result, plot_what.value)
    result = result if output is None else replace(result, path=str(output))
    emit(result, form, None, everything=everything)
