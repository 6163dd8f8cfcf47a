"""``colltool fabric list|show|check|schema``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli.shared import Out, command, each_checked

SHOW_EXAMPLES = """
\b
Examples:
  colltool fabric show nvl72
  colltool fabric show nvl72 --set ib.levels.spine.oversubscription=2
"""

app = typer.Typer(
    help="Shipped fabrics; show, check and describe fabric files.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("list", short_help="The shipped fabrics.", epilog="\b\nExample:\n  colltool fabric list")
@command()
def list_(*, out: Out) -> None:
    """The shipped fabrics."""
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.fabric.results import FabricList

    out.emit(FabricList(tuple(load_fabric(name) for name in shipped_fabrics())))


@app.command(short_help="A fabric as a tree, with what follows from it.", epilog=SHOW_EXAMPLES)
@command()
def show(
    fabric: Annotated[
        str, typer.Argument(help="A fabric file, or the name of a shipped one.", autocompletion=o.complete_fabric), o.READ
    ],
    set_: o.SetOption = None,
    *,
    out: Out,
) -> None:
    """A fabric's tiers as a tree, with diameter, bisection, link and switch counts, and sizing."""
    from colltool.fabric.derive import fabric_facts
    from colltool.fabric.load import load_fabric
    from colltool.fabric.results import FabricShown

    loaded = load_fabric(fabric, set_ or ())
    out.emit(FabricShown(loaded, fabric_facts(loaded)))


@app.command(short_help="Validate fabric files.", epilog="\b\nExample:\n  colltool fabric check my-cluster.yaml other.yaml")
@command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Fabric files, or names of shipped ones.", autocompletion=o.complete_fabric),
        o.READ,
    ],
    *,
    out: Out,
) -> None:
    """Validate fabric files: what was read, what is odd about it, every error of every file with its line and column."""
    from colltool.fabric.plausible import check_fabric
    from colltool.fabric.results import FabricsChecked

    out.emit(FabricsChecked(each_checked(files, lambda file: check_fabric(file, file))))


@app.command(short_help="The JSON Schema of fabric files.", epilog="\b\nExample:\n  colltool fabric schema -o fabric.schema.json")
@command()
def schema(output: o.OutputOption = None) -> None:
    """The JSON Schema of fabric files, for completion and checks in an editor."""
    from colltool.cli.streams import write
    from colltool.fabric.schema import fabric_json_schema
    from colltool.render.machine import to_json

    write(to_json(fabric_json_schema()), output)
