"""Options and arguments that several commands share: what they are called, what they take, and the words about them.

A command declares a parameter with one of these annotations, or a whole group of options of :mod:`colltool.cli.command`.
``READ`` and ``WRITTEN`` mark parameters that name files, so that no output is written over an input.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from colltool.cli import values
from colltool.cli.completion import (
    complete_algorithm,
    complete_fabric,
    complete_primitive,
    complete_ranks,
    complete_set,
    complete_stride,
    words,
)
from colltool.cli.values import names, one, single, sizes

__all__ = ["names", "one", "single", "sizes"]

READ = "names a file that is read"
WRITTEN = "names a file that is written"


class OutputFormat(StrEnum):
    """How a result is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"


class PlotWhat(StrEnum):
    """What a plot shows over size."""

    TIME = "time"
    BUSBW = "busbw"


class SweepPlot(StrEnum):
    """What a plot of a sweep shows."""

    MAP = "map"
    BUSBW = "busbw"


class PivotWhat(StrEnum):
    """What a table of two axes shows."""

    BUSBW = "busbw"
    TOTAL = "total"
    ALGORITHM = "algorithm"


FORMATS = tuple(str(one.value) for one in OutputFormat)
VIEWS = tuple(str(one.value) for one in PlotWhat)
SWEEP_VIEWS = tuple(str(one.value) for one in SweepPlot)

PrimitiveArgument = Annotated[
    str,
    typer.Argument(metavar="PRIM", help="ar, ag, rs, a2a, bc, reduce, p2p, or the long name.", autocompletion=complete_primitive),
]
MaybePrimitive = Annotated[
    str | None, typer.Argument(metavar="PRIM", help="One primitive. [default: all]", autocompletion=complete_primitive)
]
FabricOption = Annotated[
    list[str],
    typer.Option(
        "--fabric", "-f", metavar="FABRIC", help="A fabric file, or the name of a shipped one.", autocompletion=complete_fabric
    ),
    READ,
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the fabric; repeatable.", autocompletion=complete_set),
]
ONE_COUNT = "one number of ranks a call, and a call for each; export nccl-tuner takes several"
LIBRARIES = ("nccl", "rccl", "mpi", "xla", "mscclpp", "all")
LibraryOption = Annotated[
    str | None,
    typer.Option(
        "--library", metavar="|".join(LIBRARIES), help="Rank what it runs. [default: the fabric's own, else all]",
        autocompletion=words(LIBRARIES),
    ),
]  # fmt: skip
RanksOption = Annotated[
    int | None,
    typer.Option(
        "--ranks", "-n", metavar="N", help="Ranks in the group, innermost domains first. [default: all of the fabric]",
        parser=values.count("ranks", -values.MOST_RANKS, several=ONE_COUNT), autocompletion=complete_ranks,
    ),
]  # fmt: skip
StrideOption = Annotated[
    int,
    typer.Option(
        "--stride", metavar="K", help="Every K-th rank; the groups in between run at the same time.",
        parser=values.count("stride", -values.MOST_RANKS), autocompletion=complete_stride,
    ),
]  # fmt: skip
ShapeOption = Annotated[
    str | None,
    typer.Option(
        "--shape", metavar="4x4x4", help="On a torus or mesh: ranks along each axis. [default: as near a cube as fits]",
        parser=values.shape("shape"),
    ),
]  # fmt: skip
AloneOption = Annotated[bool, typer.Option("--alone", help="Of a stride: the groups in between are idle.")]
SizeOption = Annotated[
    str, typer.Option("--size", "-M", metavar="SIZE", help="Bytes per rank, nccl-tests' convention: 16MB, 16MiB.")
]
MaybeSize = Annotated[str | None, typer.Option("--size", "-M", metavar="SIZE", help="Bytes per rank.")]
JobSetOption = Annotated[
    list[str] | None, typer.Option("--job-set", metavar="KEY=VALUE", help="Override a value of the job; repeatable.")
]
SizesOption = Annotated[
    str | None, typer.Option("--size", "-M", metavar="SIZE,...", help="Bytes per rank. [default: six sizes, 1KB to 1GB]")
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option("--algorithm", "-a", metavar="NAME,...", help="Only these, comma-separated.", autocompletion=complete_algorithm),
]
SlowRankOption = Annotated[
    float | None,
    typer.Option(
        "--slow-rank", metavar="SHARE", help="Beside it, with one rank at this share of its bandwidth: 0.8, 80%.",
        parser=values.share("slow_rank", "80% or 0.8", part=True),
    ),
]  # fmt: skip
FormatOption = Annotated[
    OutputFormat | None,
    typer.Option(
        "--format", metavar="|".join(FORMATS), help="How to write the result. [default: table, or by the suffix of -o]",
        parser=values.choice("format", OutputFormat), autocompletion=words(FORMATS),
    ),
]  # fmt: skip
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", metavar="A,B,...", help="Columns of tables and CSV, in this order: keys or titles.")
]
AllOption = Annotated[
    bool, typer.Option("--all", "-v", help="Every row, column and note; the default view shows what matters most.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of the terminal; - is the terminal."),
    WRITTEN,
]
IdealOption = Annotated[bool, typer.Option("--ideal", help="Without contention: every eta is 1.")]
RtolOption = Annotated[
    float | None,
    typer.Option(
        "--rtol", metavar="SHARE", help="Relative change that counts as none: 1%, 0.01. [default: 1e-6]",
        parser=values.share("rtol", "1% or 0.01", zero=True),
    ),
]  # fmt: skip

LogsArgument = Annotated[
    list[str], typer.Argument(metavar="LOG...", help="nccl-tests, rccl-tests (text or -J), OSU micro-benchmarks, or CSV."), READ
]
LogRanksOption = Annotated[
    int | None,
    typer.Option(
        "--ranks", "-n", metavar="N", help="Ranks, for logs that do not say (OSU).",
        parser=values.count("ranks", -values.MOST_RANKS, several="one number for all logs of a call"),
        autocompletion=complete_ranks,
    ),
]  # fmt: skip
CollectiveOption = Annotated[
    str | None,
    typer.Option("--collective", metavar="PRIM", help="For logs that do not say.", autocompletion=complete_primitive),
]
NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        help="Nodes of the ranks, for logs that do not say.",
        parser=values.count("nodes", -values.MOST_RANKS),
    ),
]
InPlaceOption = Annotated[bool, typer.Option("--in-place", help="The in-place half of nccl-tests' tables.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf; needs matplotlib."), WRITTEN
]
PlotWhatOption = Annotated[
    PlotWhat,
    typer.Option(
        "--plot-what", metavar="|".join(VIEWS), help="What to draw over size.", parser=values.choice("plot_what", PlotWhat),
        autocompletion=words(VIEWS),
    ),
]  # fmt: skip
SweepPlotOption = Annotated[
    SweepPlot,
    typer.Option(
        "--plot-what", metavar="|".join(SWEEP_VIEWS), help="A map of the fastest schedule, or its busbw as lines.",
        parser=values.choice("plot_what", SweepPlot), autocompletion=words(SWEEP_VIEWS),
    ),
]  # fmt: skip


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn before the work starts.

    Raises:
        ColltoolError: no matplotlib, an unknown suffix, a folder that cannot be written.
    """
    if path is not None:
        from colltool.render import plot as plot

        plot.check_plot(path)


def draw(path: Path | None, result: Any, what: str = "") -> None:
    """Write the picture of a result where one is asked for; ``what`` it shows, where there is a choice."""
    if path is not None:
        from colltool.cli.written import keep_apart, write_bytes
        from colltool.render.plot import picture

        keep_apart(path, "plot")
        write_bytes(path, picture(result, path.suffix, what), "plot")
