"""``colltool export nccl-tuner|astra-sim``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.errors import ColltoolError

TUNER_EXAMPLES = """
\b
Examples:
  colltool export nccl-tuner -f dgx-h100 -n 8,16,64 -o nccl_tuner.conf
  colltool export nccl-tuner -f dgx-h100 -n 64 --set ib.in_network.reduce=false
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
def nccl_tuner(
    fabric: o.FabricOption,
    ranks: Annotated[
        list[str] | None,
        typer.Option("--ranks", "-n", metavar="N,...", help="Rank counts, each a group of its own. [default: all of the fabric]"),
    ] = None,
    channels: Annotated[
        int | None,
        typer.Option("--channels", help="Channels of every row, at most 16 for NVLS. [default: NCCL's on an 8-GPU H100 node]"),
    ] = None,
    env: Annotated[bool, typer.Option("--env", help="Print NCCL_ALGO instead: algorithms without sizes.")] = False,
    set_: o.SetOption = None,
    output: o.OutputOption = None,
) -> None:
    """The winners among NCCL's own algorithms, size by size, as a config file of NCCL's example tuner plugin."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.cli.output import write
    from colltool.export.nccl.tuner import tuner_config, tuner_env
    from colltool.fabric.load import load_fabric

    if env and channels is not None:
        raise ColltoolError("NCCL_ALGO says nothing of channels", where="--channels", fix="leave out --env or --channels")
    loaded = load_fabric(o.one(fabric, "--fabric"), set_ or ())
    counts = _counts(ranks or [])
    write(tuner_env(loaded, counts) if env else tuner_config(loaded, counts, channels), output)


@app.command("astra-sim", short_help="network.yml and system.json of ASTRA-sim's analytical backend.", epilog=ASTRA_EXAMPLES)
def astra_sim(
    fabric: o.FabricOption,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for network.yml and system.json.")],
    ranks: o.RanksOption = None,
    size: Annotated[str | None, typer.Option("--size", "-M", help="Bytes per rank: say what to run in ASTRA-sim for it.")] = None,
    ideal: o.IdealOption = False,
    set_: o.SetOption = None,
) -> None:
    """The same group for ASTRA-sim's analytical network: network.yml and system.json."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.cli.output import write
    from colltool.export.astra_sim import astra_sim as export
    from colltool.export.astra_sim import size_notes
    from colltool.fabric.load import load_fabric
    from colltool.units import parse_size

    loaded = load_fabric(o.one(fabric, "--fabric"), set_ or ())
    count = loaded.ranks if ranks is None else ranks
    bytes_ = None if size is None else parse_size(o.single(size, "--size"))
    files = export(loaded, count, ideal, bytes_)
    _write_all(files, output)
    write("".join(f"{line}\n" for line in (f"{' and '.join(files)}: {count} ranks", *size_notes(count, bytes_))), None)


def _counts(texts: list[str]) -> list[int]:
    """``-n 8,16 -n 64`` as numbers."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    wrong = [part for part in parts if not (part.isascii() and part.isdigit())]
    if wrong:
        raise ColltoolError(f"'{wrong[0]}' is not a number of ranks", where="--ranks", fix="write -n 8,16,64")
    return [int(part) for part in parts]


def _write_all(files: dict[str, str], folder: Path) -> None:
    """All files or none: what could keep the last from being written is looked for before the first."""
    from colltool.cli.output import write

    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ColltoolError(f"cannot make a folder: {error.strerror or error}", where=str(folder), fix="name a folder") from error
    taken = [folder / name for name in files if (folder / name).is_dir()]
    if taken:
        raise ColltoolError("is a folder", where=str(taken[0]), fix="name another folder with -o")
    for name, text in files.items():
        write(text, folder / name)
