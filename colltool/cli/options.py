"""Options of the commands, each made of its row in :data:`colltool.api.arguments.ARGUMENTS`, or of the rows below.

``READ`` and ``WRITTEN`` mark parameters that name files, so that no output is written over an input.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from colltool.api.arguments import ARGUMENTS, Argument
from colltool.cli import completion, values

READ = "names a file that is read"
WRITTEN = "names a file that is written"
FORMATS = ("table", "json", "csv", "markdown", "html")

_OWN = {
    "form": Argument(
        "--format", help="How to write the result. [default: table, or by the suffix of -o]", kind="word", words=FORMATS,
        python="format",
    ),
    "output": Argument("--output -o", "FILE", "Write to this file instead of the terminal; - is the terminal."),
    "columns": Argument("--columns", "A,B,...", "Columns of tables and CSV, in this order: keys or titles."),
    "everything": Argument(
        "--all -v", help="Every row, column and note; the default view shows what matters most.", kind="flag"
    ),
    "plot": Argument("--plot", "FILE", "Draw it: .png, .svg or .pdf; needs matplotlib."),
    "plot_what": Argument("--plot-what", help="What to draw over size.", kind="word"),
    "pivot": Argument("--pivot", help="Tables of two axes that show this.", kind="word", words=("busbw", "total", "algorithm")),
    "files": Argument("", "FILE..."),
    "topic": Argument("", "TOPIC", "One of those that colltool guide lists."),
    "no_pager": Argument("--no-pager", help="Print it all at once; else long chapters open in $PAGER.", kind="flag"),
    "rows": Argument("--rows", "AXIS", "The axis down: fabric, ranks, bytes or a KEY."),
    "cols": Argument("--cols", "AXIS", "The axis across."),
    "calls": Argument("--calls", "FILE", "Write the calls of a step as a job, for colltool plan on another fabric."),
    "check": Argument("--check", "FILE", "Compare with this JSON output of an earlier run; exit 1 where a price moved."),
    "as_eta": Argument("--as-eta", help="Print the eta to put in the fabric file.", kind="flag"),
    "search": Argument(
        "--search", help="Price every layout that fills the ranks and fits the memory; the best first.", kind="flag"
    ),
    "channels": Argument(
        "--channels", "N", "Channels of every row; NVLS has a limit of its own. [default: what NCCL takes]", "count"
    ),
    "env": Argument("--env", help="Print NCCL_ALGO instead: algorithms without sizes.", kind="flag"),
    "source": Argument("--from", "FABRIC", "Start from this one.", offers="fabric"),
    "tiers": Argument("--tiers", "TIER,...", "NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA each, innermost first."),
    "ideal": Argument("--ideal", help="Without contention: every eta is 1.", kind="flag"),
}  # fmt: skip


def option(name: str, help: str | None = None, parser: Any = None, **other: Any) -> Any:
    """What typer is told of an argument.

    Args:
        name: its row.
        help: in place of the row's.
        parser: in place of the reader that goes with the row's kind.
        **other: in place of other fields of the row.
    """
    row = (_OWN.get(name) or ARGUMENTS[name])._replace(**other)
    details: dict[str, Any] = {
        "metavar": row.metavar or "|".join(row.words) or None,
        "help": row.help if help is None else help,
        "parser": parser or values.reader(row.python or name, row),
        "autocompletion": completion.offered(row),
    }
    return typer.Option(*row.flags.split(), **details) if row.flags else typer.Argument(**details)


Several = list[str] | None

Primitive = Annotated[str, option("primitive")]
MaybePrimitive = Annotated[str | None, option("primitive", "One primitive. [default: all]")]
Fabrics = Annotated[list[str], option("fabric"), READ]
FabricFile = Annotated[str, option("fabric", flags="", metavar=""), READ]
Set = Annotated[Several, option("overrides")]
Ranks = Annotated[int | None, option("ranks")]
COUNTS = "Numbers of ranks: 8,64, or 8-64 (doubled), or 8-64+8 (in steps)."
RankCounts = Annotated[Several, option("ranks", f"{COUNTS} [default: all of each fabric]", metavar="N,...", kind="text")]
LogRanks = Annotated[
    int | None, option("ranks", "Ranks, for logs that do not say (OSU).", hint="one number for all logs of a call")
]
Stride = Annotated[int, option("stride")]
Alone = Annotated[bool, option("alone")]
Shape = Annotated[str | None, option("shape")]
Size = Annotated[str, option("size")]
MaybeSize = Annotated[str | None, option("size", "Bytes per rank.")]
Sizes = Annotated[str | None, option("sizes")]
Algorithms = Annotated[str | None, option("algorithms")]
Library = Annotated[str | None, option("library")]
SlowRank = Annotated[float | None, option("slow_rank")]
Rtol = Annotated[float | None, option("rtol")]
Logs = Annotated[list[str], option("logs"), READ]
Collective = Annotated[str | None, option("collective")]
Nodes = Annotated[int | None, option("nodes")]
InPlace = Annotated[bool, option("in_place")]
JobFile = Annotated[str, option("job", metavar=""), READ]
JobSet = Annotated[Several, option("job_overrides")]
Output = Annotated[Path | None, option("output"), WRITTEN]


def _schema(files: str, definition: Callable[[], Any]) -> Any:
    """``--schema`` of a command that reads files other than fabrics: print their JSON Schema and stop."""

    def printed(asked: bool) -> None:
        if asked:
            from colltool.cli.output import write
            from colltool.definitions.reader import json_schema
            from colltool.render.dispatch import to_json

            write(to_json(json_schema(definition(), files)), None)
            raise typer.Exit

    help_ = f"Print the JSON Schema of {files} files, for editors, and stop."
    return typer.Option("--schema", help=help_, is_eager=True, callback=printed)


def _ladder() -> Any:
    from colltool.fabric.ladder import LadderFile

    return LadderFile


def _layout() -> Any:
    from colltool.congestion.layout import LayoutFile

    return LayoutFile


LadderSchema = Annotated[bool, _schema("ladder", _ladder)]
LayoutSchema = Annotated[bool, _schema("layout", _layout)]
