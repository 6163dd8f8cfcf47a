"""``colltool calibrate|validate|trace|doctor``: what was measured, against a fabric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.files import MACHINE_SUFFIX
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command, failed
from colltool.cli.options import NO_FABRIC, FabricChoice, Out, Plots, WiringChoice
from colltool.cli.output import say, working, write, write_bytes
from colltool.estimate.assumptions import Readings


@command(primitive="--collective")
def calibrate(
    logs: o.Logs,
    fabric: WiringChoice,
    output: Annotated[
        Path | None,
        o.option(
            "output",
            "Where to write the rows; NAME.yaml is a fitted fabric instead.",
            metavar="NAME.machine.yaml",
        ),
        o.WRITTEN,
    ] = None,
    tier: Annotated[str | None, o.option("tier")] = None,
    algorithm: Annotated[
        str,
        o.option(
            "algorithms",
            "What ran, comma-separated; auto compares what the log's library implements.",
        ),
    ] = "auto",
    line_rate: Annotated[str | None, o.option("line_rate")] = None,
    ranks: o.LogRanks = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    plot: Annotated[Path | None, o.option("plot"), o.WRITTEN] = None,
    plot_what: Annotated[str, o.option("plot_what", words=("time", "busbw"))] = "time",
    form: Annotated[
        str | None, o.option("form", "How to print what was found. [default: table]")
    ] = None,
    everything: Annotated[bool, o.option("everything")] = False,
) -> None:
    """Measured times as rows of your own machine, which price and all others then take:
    NAME.machine.yaml beside NAME.yaml.

    One row a series will do, three (4 KB, 8 MB, 1 GB) are better; it says which measurement to make
    next. With -o NAME.yaml a fabric is fitted instead: launch overhead, alpha and bandwidth of one
    to three protocols per tier.

    Examples:
      colltool calibrate all_reduce.log -f my-cluster.yaml -o my-cluster.machine.yaml
      colltool calibrate three.csv -f dgx-h100 -o h100.machine.yaml && colltool price ar -f dgx-h100
      --machine h100.machine.yaml colltool calibrate all_reduce.log -f dgx-h100 -o measured.yaml
      colltool calibrate logs/*.log -f my-cluster.yaml --tier ib -o measured.yaml --plot fit.svg
      colltool calibrate osu_allreduce.txt -f my-cluster.yaml -n 64 --algorithm ring -o
      measured.yaml colltool calibrate all_gather.log -f dgx-h100 --line-rate 450GB/s -o
      measured.yaml
    """
    output = None if output is None else o.to_file(output) or Path("-")
    if output is not None and output.suffix not in o.FABRIC_SUFFIXES:
        fix = "name it OUT.yaml; what was found goes to the terminal in the format of --format"
        raise ColltoolError(
            f"a fabric file ends in .yaml, got {output}", argument="output", fix=fix
        )
    rows = None if output is None else output.name.endswith(MACHINE_SUFFIX)
    o.check_plot(plot)
    working(f"fitting {', '.join(logs)} ...")
    result = colltool.calibrate(
        fabric.name,
        logs,
        overrides=fabric.overrides,
        tier=tier,
        algorithms=() if algorithm == "auto" else values.names(algorithm),
        line_rate=line_rate,
        ranks=ranks,
        primitive=collective,
        nodes=nodes,
        in_place=in_place,
        machine_only=rows,
        name=(
            output.name.removesuffix(MACHINE_SUFFIX).removesuffix(output.suffix) if output else None
        ),
    )
    if output is not None:
        if not rows:
            instead = f"-o {output.stem}{MACHINE_SUFFIX}"
            say(
                f"note: {output} is a fitted fabric, for one more version; {instead} keeps the rows"
                " themselves"
            )
        write(result.machine_text if rows else result.text, output)
        result = replace(result, path=str(output))
    Out(form, everything=everything, plot=plot, plot_what=plot_what).emit(result)


@command(primitive="--collective")
def validate(
    logs: o.Logs,
    fabric: FabricChoice,
    ranks: o.LogRanks = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    algorithm: Annotated[
        str | None,
        o.option(
            "algorithms",
            "What ran, comma-separated. [default: whatever the log's library implements]",
        ),
    ] = None,
    max_mape: Annotated[float | None, o.option("max_mape")] = None,
    *,
    out: Annotated[Out, Plots(("time", "busbw"))],
    readings: Readings,
) -> None:
    """Compare measured times with the prices of a fabric, size by size, and say what the difference
    tells.

    Each size is compared with the fastest algorithm that the log's library implements; error =
    predicted/measured - 1.

    Examples:
      colltool validate all_reduce.log -f dgx-h100
      colltool validate osu_allreduce.txt -f my-cluster.yaml -n 64 --max-mape 15%
      colltool validate *.log -f my-cluster.yaml --format json -o validation.json
      colltool validate all_reduce.log -f dgx-h100 --algorithm ring,double-binary-tree --plot
      validation.svg
    """
    result = colltool.validate(
        fabric.load(),
        logs,
        ranks=ranks,
        primitive=collective,
        nodes=nodes,
        in_place=in_place,
        algorithms=values.names(algorithm),
        max_mape=max_mape,
        readings=readings,
    )
    out.emit(result)
    if not result.holds and result.max_mape is not None:
        from colltool.base.formatting import percent, short_percent

        bar = short_percent(result.max_mape)
        off = {
            one.series.title: percent(one.mape)
            for one in result.series
            if one.mape > result.max_mape
        }
        failed(
            *(
                f"does not hold: {title}: {mape} off on average, more than {bar}"
                for title, mape in off.items()
            )
        )


@command()
def trace(
    files: Annotated[
        list[str],
        o.option(
            "files", "Traces of the PyTorch profiler or Chakra, plain or gzipped, one a rank."
        ),
        o.READ,
    ],
    fabric: FabricChoice,
    calls: Annotated[Path | None, o.option("calls"), o.WRITTEN] = None,
    against: Annotated[list[str] | None, o.option("against"), o.READ] = None,
    map_: Annotated[str | None, o.option("placed"), o.READ] = None,
    library: o.Library = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Collectives of profiler traces against the prices of a fabric: what ran, what it should take,
    what compute hides.

    Overlap and exposure are of all communication kernels, whether the trace knows their bytes or
    not. Rank r of the job is rank r of the fabric; --map says otherwise. With a trace of every rank
    of a group a call takes what its shortest kernel took; else that is an upper bound, for a kernel
    waits for the slowest rank.

    Examples:
      colltool trace rank0.json.gz -f dgx-h100
      colltool trace traces/*.pt.trace.json.gz -f my-cluster.yaml --format json -o trace.json
      colltool trace after.json.gz -f dgx-h100 --against before.json.gz
      colltool trace rank*.json -f dgx-h100 --map cyclic
      colltool trace workload.*.et -f dgx-h100
      colltool trace rank*.json -f dgx-a100 --calls job.yaml && colltool plan job.yaml -f dgx-h100
    """
    result = colltool.trace(
        fabric.load(), files, placed=map_, against=against or (), library=library, readings=readings
    )
    if calls is not None:
        if not result.calls:
            what = "no call of the trace has a size, so there is no job to write"
            raise ColltoolError(
                what,
                argument="calls",
                fix="profile with PyTorch 2.1 or newer, whose traces name sizes",
            )
        write_bytes(calls, result.job.encode(), "calls")
    out.emit(result)


@command(primitive="--collective")
def doctor(
    logs: Annotated[
        list[str],
        o.option(
            "logs",
            "nccl-tests, rccl-tests, OSU, IMB, perftest, nccom-test, NCCL_DEBUG, Inspector, CSV,"
            " profiler traces.",
        ),
        o.READ,
    ],
    fabric: WiringChoice = NO_FABRIC,
    expect: Annotated[float | None, o.option("expect")] = None,
    collective: Annotated[str | None, o.option("collective", "Only this one.")] = None,
    ranks: o.LogRanks = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """What ails a machine: from logs or traces alone to what is off, the causes that prices
    support, and the next experiment.

    The hardware is read from the names of devices; -f says otherwise. Exit 1 where something is
    off.

    Examples:
      colltool doctor all_reduce.log
      colltool doctor node*.log --expect 95% --format json
      colltool doctor pairs/*.log --plot pairs.png
      colltool doctor all.log --collective ar
      colltool doctor osu_allreduce.txt -f my-cluster.yaml -n 64
      colltool doctor trace/rank*.json.gz
    """
    result = colltool.doctor(
        logs,
        fabric.name if fabric.names else None,
        overrides=fabric.overrides,
        expect=expect,
        primitive=collective,
        ranks=ranks,
        nodes=nodes,
        in_place=in_place,
        readings=readings,
    )
    out.emit(result)
    if not result.ok:
        failed()
