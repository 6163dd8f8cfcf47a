"""``colltool calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltool.cli import options as o
from colltool.errors import ColltoolError

if TYPE_CHECKING:
    from colltool.fitting.results import Calibration
    from colltool.render.parts import Block

EXAMPLES = """
\b
Examples:
  colltool calibrate all_reduce.log -f dgx-h100 -o measured.yaml
  colltool calibrate logs/*.log -f my-cluster.yaml --tier ib -o measured.yaml --plot fit.svg
  colltool calibrate osu_allreduce.txt -f my-cluster.yaml -n 64 --algorithm ring -o measured.yaml
  colltool calibrate all_gather.log -f dgx-h100 --line-rate 450GB/s -o measured.yaml
"""

FABRIC_SUFFIXES = (".yaml", ".yml")


def calibrate(
    logs: o.LogsArgument,
    fabric: o.FabricOption,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT.yaml", help="Where to write the calibrated fabric.")
    ] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", help="Only this tier. [default: each that some series spans as its outermost]")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
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
    plot: o.PlotOption = None,
    plot_what: o.PlotWhatOption = o.PlotWhat.TIME,
    set_: o.SetOption = None,
    form: Annotated[o.Format | None, typer.Option("--format", help="How to print what was found. [default: table]")] = None,
) -> None:
    """Fit a fabric to measured times: launch overhead, alpha and bandwidth of one to three protocols per tier.

    The fabric gives shape and names, the logs the numbers. Prices of the new fabric are those of what was measured; the report
    says how far off they are on sizes that the fit has not seen.
    """
    from colltool import api
    from colltool.cli.output import emit, working, write

    if output is not None and output.suffix not in FABRIC_SUFFIXES:
        fix = "name it OUT.yaml; what was found goes to the terminal in the format of --format"
        raise ColltoolError("a fabric file ends in .yaml", where=f"--output {output}", fix=fix)
    o.check_plot(plot, plot_what)
    working(f"fitting {', '.join(logs)} ...")
    result = api.calibrate(
        o.one(fabric, "--fabric"),
        logs,
        overrides=set_ or (),
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
        result = result._replace(path=str(output))
    if plot is not None:
        from colltool.render.plot import plot_calibration

        plot_calibration(result, plot, plot_what.value)
    emit(_rendered(result, form), form, None)


def _rendered(result: Calibration, form: o.Format | None) -> dict[str, Any] | list[Block]:
    from colltool.render.calibrate_blocks import calibrate_blocks, calibrate_document, calibrate_points

    if form is o.Format.JSON:
        return calibrate_document(result)
    return calibrate_points(result) if form is o.Format.CSV else calibrate_blocks(result)
