"""``colltool export nccl-tuner|astra-sim``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command, group_app
from colltool.cli.groups import EVERYBODY, FabricChoice, GroupChoice, to_file

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

app = group_app("Your answer as NCCL's tuner file, or as input of ASTRA-sim.")


@app.command("nccl-tuner", short_help="A config file for NCCL's example tuner plugin.", epilog=TUNER_EXAMPLES)
@command()
def nccl_tuner(
    fabric: FabricChoice,
    ranks: Annotated[
        o.Several,
        o.option("ranks", f"{o.COUNTS} Each is a group. [default: all of the fabric]", metavar="N,...", kind="text"),
    ] = None,
    stride: o.Stride = 1,
    alone: o.Alone = False,
    channels: Annotated[int | None, o.option("channels")] = None,
    env: Annotated[bool, o.option("env")] = False,
    output: o.Output = None,
) -> None:
    """What NCCL should run at which size, as a file for its example tuner plugin: by your measurements, or its own model."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.cli.output import write
    from colltool.estimate.placement import GroupSpec
    from colltool.export.tuner import tuner_config, tuner_env

    target = to_file(output)
    if env and channels is not None:
        raise ColltoolError(
            "NCCL_ALGO does not set channels", argument="channels", fix=f"leave out {given('env')} or {given('channels')}"
        )
    loaded, counts = fabric.load(), values.counts(ranks, "ranks")
    groups = [GroupSpec(count, stride, alone) for count in counts] or [GroupSpec(None, stride, alone)]
    write(tuner_env(loaded, groups) if env else tuner_config(loaded, groups, channels), target)


@app.command("astra-sim", short_help="network.yml and system.json of ASTRA-sim's analytical backend.", epilog=ASTRA_EXAMPLES)
@command()
def astra_sim(
    fabric: FabricChoice,
    output: Annotated[Path, o.option("output", "The folder for network.yml and system.json.", metavar="DIR"), o.WRITTEN],
    group: GroupChoice = EVERYBODY,
    size: Annotated[str | None, o.option("size", "Bytes per rank: say what to run in ASTRA-sim for it.")] = None,
    ideal: Annotated[bool, o.option("ideal")] = False,
) -> None:
    """The same group for ASTRA-sim's analytical network: network.yml and system.json."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.api.values import size_of
    from colltool.cli.output import write, write_folder
    from colltool.estimate.groups import place
    from colltool.estimate.placement import GroupSpec
    from colltool.export.astra_sim import astra_sim as export
    from colltool.export.astra_sim import to_know

    folder = to_file(output)
    if folder is None:
        raise ColltoolError("two files do not go to the terminal", argument="output", fix="name a folder: -o astra")
    loaded = fabric.load()
    who = GroupSpec(*group)
    bytes_ = None if size is None else size_of(values.single(size, "size", "size"))
    files = export(loaded, who, ideal, bytes_)
    seats = place(loaded, who).placement
    write_folder(folder, files)
    write("".join(f"{line}\n" for line in (f"{' and '.join(files)}: {seats.spoken}", *to_know(loaded, who, ideal, bytes_))), None)
