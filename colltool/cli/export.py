"""``colltool export nccl-tuner|astra-sim``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import EVERYBODY, FabricChoice, GroupChoice, command, to_file

TUNER_EXAMPLES = """
\b
Examples:
  colltool export nccl-tuner -f dgx-h100 -n 8,16,64 -o nccl_tuner.conf
  colltool export nccl-tuner -f dgx-h100 -n 64 --set library.collnet=true
  colltool export nccl-tuner -f dgx-h100 -n 64 --env
"""
ASTRA_EXAMPLES = """
\b
Examples:
  colltool export astra-sim -f dgx-h100 -n 64 -o astra
  colltool export astra-sim -f tpu-v4-512 -M 64MB --ideal -o astra
"""

app = typer.Typer(
    help="Your answer as NCCL's tuner file, or as input of ASTRA-sim.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("nccl-tuner", short_help="A config file for NCCL's example tuner plugin.", epilog=TUNER_EXAMPLES)
@command()
def nccl_tuner(
    fabric: FabricChoice,
    ranks: Annotated[
        list[str] | None,
        typer.Option(
            "--ranks",
            "-n",
            metavar="N,...",
            help="Rank counts, each a group of its own. [default: all of the fabric]",
            autocompletion=o.complete_ranks,
        ),
    ] = None,
    stride: o.StrideOption = 1,
    alone: o.AloneOption = False,
    channels: Annotated[
        int | None,
        typer.Option(
            "--channels",
            metavar="N",
            help="Channels of every row; NVLS has a limit of its own. [default: what NCCL takes]",
            parser=values.count("channels", -values.MOST_RANKS),
        ),
    ] = None,
    env: Annotated[bool, typer.Option("--env", help="Print NCCL_ALGO instead: algorithms without sizes.")] = False,
    output: o.OutputOption = None,
) -> None:
    """What NCCL should run at which size, as a file for its example tuner plugin: by your measurements, or its own model."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.cli.written import write
    from colltool.estimate.group_spec import GroupSpec
    from colltool.export.tuner import tuner_config, tuner_env

    target = to_file(output)
    if env and channels is not None:
        raise ColltoolError(
            "NCCL_ALGO says nothing of channels", argument="channels", fix=f"leave out {given('env')} or {given('channels')}"
        )
    loaded, counts = fabric.load(), values.counts(ranks or [], "ranks")
    groups = [GroupSpec(count, stride, alone) for count in counts] or [GroupSpec(None, stride, alone)]
    write(tuner_env(loaded, groups) if env else tuner_config(loaded, groups, channels), target)


@app.command("astra-sim", short_help="network.yml and system.json of ASTRA-sim's analytical backend.", epilog=ASTRA_EXAMPLES)
@command()
def astra_sim(
    fabric: FabricChoice,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for network.yml and system.json."), o.WRITTEN
    ],
    group: GroupChoice = EVERYBODY,
    size: Annotated[
        str | None, typer.Option("--size", "-M", metavar="SIZE", help="Bytes per rank: say what to run in ASTRA-sim for it.")
    ] = None,
    ideal: o.IdealOption = False,
) -> None:
    """The same group for ASTRA-sim's analytical network: network.yml and system.json."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.api.values import size_of
    from colltool.cli.written import write, write_folder
    from colltool.estimate.group_spec import GroupSpec
    from colltool.estimate.groups import place
    from colltool.export.astra_sim import astra_sim as export
    from colltool.export.astra_sim import to_know

    folder = to_file(output)
    if folder is None:
        raise ColltoolError("two files do not go to the terminal", argument="output", fix="name a folder: -o astra")
    loaded = fabric.load()
    who = GroupSpec(*group)
    bytes_ = None if size is None else size_of(o.single(size, "size", "size"))
    files = export(loaded, who, ideal, bytes_)
    seats = place(loaded, who).placement
    write_folder(folder, files)
    write("".join(f"{line}\n" for line in (f"{' and '.join(files)}: {seats.spoken}", *to_know(loaded, who, ideal, bytes_))), None)
