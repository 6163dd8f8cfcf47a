"""``colltool fabric list|show|draw|check|init|size|schema``."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FABRIC_SUFFIXES, Out, command, each_checked, to_file
from colltool.cli.completion import words
from colltool.cli.drawing import DRAW_EXAMPLES, draw

SHOW_EXAMPLES = """
\b
Examples:
  colltool fabric show nvl72
  colltool fabric show nvl72 --set ib.levels.spine.oversubscription=2
  colltool fabric show nvl72 --set ib.size=16 --format yaml -o mine.yaml
"""

INIT_EXAMPLES = """
\b
Examples:
  colltool fabric init -o mine.yaml
  colltool fabric init --from dgx-h100 --set ib.size=128 -o mine.yaml
  colltool fabric init --tiers nvlink:star:8:450GB/s:0.8us,ib:clos:32:400Gbps:5us -o mine.yaml
  colltool fabric init --tiers nvlink:star:8:450GB/s:0.8us,eth:clos:4/32:400Gbps:5us/10us:s=2
  colltool fabric init --tiers ici:torus:8x8x4:45GB/s:1us
"""
SIZE_EXAMPLES = """
\b
Examples:
  colltool fabric size --fat-tree 64
  colltool fabric size --endpoints 32 --ports-per-endpoint 72 --rails 4 --radix 144
  colltool fabric size --endpoints 16384 --radix 64 --oversubscription 1,2
  colltool fabric size --endpoints 2048 --radix 64 --price currency=USD --price switch=30000 --price optic=600
"""


class ShowFormat(StrEnum):
    """How a fabric is shown."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"
    YAML = "yaml"


SHOW_FORMATS = tuple(str(one.value) for one in ShowFormat)


def _count(argument: str) -> Callable[[str], int]:
    return values.count(argument, 1)


app = typer.Typer(
    help="Shipped fabrics; start, show, draw, check, size your own.",
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
    form: Annotated[
        ShowFormat | None,
        typer.Option(
            "--format",
            metavar="|".join(SHOW_FORMATS),
            help="How to write it; yaml is a file that loads again. [default: table, or by the suffix of -o]",
            parser=values.choice("format", ShowFormat),
            autocompletion=words(SHOW_FORMATS),
        ),
    ] = None,
    output: o.OutputOption = None,
    columns: o.ColumnsOption = None,
    everything: o.AllOption = False,
) -> None:
    """A fabric's tiers as a tree, with diameter, bisection, link and switch counts, sizing and the bill of its parts."""
    from colltool.fabric.load import load_fabric
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    path = to_file(output)
    if form is ShowFormat.YAML or (form is None and path is not None and path.suffix in FABRIC_SUFFIXES):
        from colltool.cli.written import write
        from colltool.fabric.templates import yaml_of

        if columns is not None:
            raise ColltoolError("a YAML file has no columns", argument="columns", fix="leave it out, or --format table")
        write(yaml_of(fabric, set_ or ()), path)
        return
    loaded = load_fabric(fabric, set_ or ())
    Out(None if form is None else o.OutputFormat(form.value), path, columns, everything).emit(
        FabricShown(loaded, fabric_facts(loaded))
    )


app.command(short_help="A fabric as a drawing.", epilog=DRAW_EXAMPLES)(draw)


@app.command(short_help="Start a fabric file of your own.", epilog=INIT_EXAMPLES)
@command(source="--from")
def init(
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FABRIC", help="Take this one over.", autocompletion=o.complete_fabric),
        o.READ,
    ] = None,
    tiers: Annotated[
        str | None,
        typer.Option("--tiers", metavar="TIER,...", help="NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA each, innermost first."),
    ] = None,
    set_: o.SetOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT.yaml", help="Where to write it. [default: the terminal]"),
        o.WRITTEN,
    ] = None,
) -> None:
    """A commented fabric file that checks: a template of nodes of 8 GPUs on leaf and spine, tiers on a line, or another fabric.

    A tier is NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA. The size of a torus or mesh is its shape, 8x8x4; a clos may list the groups of
    its levels bottom up, 8/32, with an alpha for each, 5us/11us. Behind them s=2 (oversubscription switch by switch, s=2/1.5 for
    three levels), eta=1.2/0.8 or ports=4 may follow.
    """
    from colltool.cli.written import write
    from colltool.fabric.templates import fabric_start

    path = to_file(output)
    if path is not None and path.suffix not in FABRIC_SUFFIXES:
        fix = f"name it {path.stem}.yaml"
        raise ColltoolError(f"a fabric file ends in .yaml, got {path}", argument="output", fix=fix)
    if path is not None and os.path.exists(path):
        what = f"{path} is there already, and somebody may have filled it in"
        raise ColltoolError(what, argument="output", fix="name another file, or remove it first")
    write(fabric_start(source, tiers, set_ or (), path.stem if path else ""), path)


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
    from colltool.fabric.lint import check_fabric
    from colltool.fabric.results import FabricsChecked

    out.emit(each_checked(files, lambda file: check_fabric(file, file), FabricsChecked))


@app.command(short_help="Switches, cables and cost of a fat-tree or a Clos.", epilog=SIZE_EXAMPLES)
@command(overrides="--price")
def size(
    endpoints: Annotated[
        int | None, typer.Option("--endpoints", metavar="E", help="What it joins: GPUs or nodes.", parser=_count("endpoints"))
    ] = None,
    radix: Annotated[int | None, typer.Option("--radix", metavar="R", help="Ports of a switch.", parser=_count("radix"))] = None,
    fat_tree: Annotated[
        int | None,
        typer.Option("--fat-tree", metavar="K", help="The k-ary fat-tree of k^3/4 endpoints instead.", parser=_count("fat_tree")),
    ] = None,
    levels: Annotated[
        int | None,
        typer.Option("--levels", metavar="1|2|3", help="Of switches. [default: the fewest that fit]", parser=_count("levels")),
    ] = None,
    oversubscription: Annotated[
        str | None,
        typer.Option(
            "--oversubscription",
            metavar="S1,S2",
            help="Down over up of a leaf, of a spine: 2, 2:1, or ports and rates 48x400Gbps:8x800Gbps. [default: 1]",
        ),
    ] = None,
    rails: Annotated[
        int, typer.Option("--rails", metavar="N", help="Separate fabrics that the ports spread over.", parser=_count("rails"))
    ] = 1,
    ports_per_endpoint: Annotated[
        int,
        typer.Option(
            "--ports-per-endpoint", metavar="P", help="Ports of one: the NICs of a node.", parser=_count("ports_per_endpoint")
        ),
    ] = 1,
    prices: Annotated[
        str | None,
        typer.Option("--prices", metavar="FILE", help="Prices: a fabric with the key prices, or a file of its keys."),
        o.READ,
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="KEY=VALUE",
            help="One price: currency=USD, switch=30000 (or switch.price, switch.draws=1.7kW), cable, optic, nic, power=0.1/kWh.",
        ),
    ] = None,
    *,
    out: Out,
) -> None:
    """How many switches, cables and optics a fat-tree or a Clos of one to three levels takes, and what they cost.

    Whole switches, each wired evenly to those above: where that takes more than ports alone ask for, a note says so. The
    oversubscription is hop by hop: downlinks over uplinks of a switch, so that 2,2 is 4:1 against the endpoints.
    """
    import colltool

    result = colltool.size_fabric(
        endpoints,
        radix,
        fat_tree=fat_tree,
        levels=levels,
        oversubscription=oversubscription or (),
        rails=rails,
        ports_per_endpoint=ports_per_endpoint,
        prices=prices,
        overrides=price or (),
    )
    out.emit(result)


@app.command(short_help="The JSON Schema of fabric files.", epilog="\b\nExample:\n  colltool fabric schema -o fabric.schema.json")
@command()
def schema(output: o.OutputOption = None) -> None:
    """The JSON Schema of fabric files, for completion and checks in an editor."""
    from colltool.cli.written import write
    from colltool.fabric.schema import fabric_json_schema
    from colltool.render.dispatch import to_json

    write(to_json(fabric_json_schema()), output)
