"""Options that several commands share, and their completion."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from colltool.errors import ColltoolError


class Format(StrEnum):
    """How a result is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


class Phases(StrEnum):
    """How phases of a composition follow each other."""

    SEQUENTIAL = "sequential"
    PIPELINED = "pipelined"


class Placement(StrEnum):
    """How ranks sit on the fabric."""

    PACKED = "packed"
    SCATTERED = "scattered"


class RingAlpha(StrEnum):
    """What a ring's step waits for."""

    MEAN = "mean"
    WORST = "worst"


class Order(StrEnum):
    """The order of tiers of an all-gather or reduce-scatter."""

    OUTER_FIRST = "outer-first"
    INNER_FIRST = "inner-first"


class PlotWhat(StrEnum):
    """What a plot shows over size."""

    TIME = "time"
    BUSBW = "busbw"


def complete_fabric(incomplete: str) -> list[str]:
    """Names of shipped fabrics."""
    from colltool.fabric.load import shipped_fabrics

    return [name for name in shipped_fabrics() if name.startswith(incomplete)]


def complete_primitive(incomplete: str) -> list[str]:
    """Short and long names of primitives."""
    from colltool.primitives import SHORT

    names = [*SHORT.values(), *(primitive.spoken for primitive in SHORT)]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_algorithm(incomplete: str) -> list[str]:
    """Names of algorithms and compositions."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import every_algorithm

    known = [row.name for row in every_algorithm()] + [row.name for row in every_composition()]
    return [name for name in dict.fromkeys(known) if name.startswith(incomplete)]


PrimitiveArgument = Annotated[
    str,
    typer.Argument(metavar="PRIM", help="ar, ag, rs, a2a, bc, reduce, p2p, or the long name.", autocompletion=complete_primitive),
]
FabricOption = Annotated[
    list[str],
    typer.Option(
        "--fabric", "-f", metavar="FABRIC", help="A fabric file, or the name of a shipped one.", autocompletion=complete_fabric
    ),
]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", "-n", help="Ranks in the group, innermost domains first. [default: all of the fabric]")
]
SizeOption = Annotated[str, typer.Option("--size", "-M", help="Bytes per rank, nccl-tests' convention: 16MB, 16MiB.")]
AlgorithmOption = Annotated[
    str | None, typer.Option("--algorithm", "-a", help="Only these, comma-separated.", autocompletion=complete_algorithm)
]
IdealOption = Annotated[bool, typer.Option("--ideal", help="Without contention: every eta is 1.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the fabric; repeatable.")
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How to write the result. [default: table, or by the suffix of -o]")
]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of the terminal.")]
PipeliningOption = Annotated[
    str, typer.Option("--pipelining", metavar="asymptotic|optimal|P", help="Segments of pipelined algorithms.")
]
PhasesOption = Annotated[
    Phases | None, typer.Option("--phases", help="Phases of a hierarchy in turn, or streaming. [default: the composition's own]")
]
PlacementOption = Annotated[Placement, typer.Option("--placement", help="Where the ranks sit.")]
RingAlphaOption = Annotated[RingAlpha, typer.Option("--ring-alpha", help="A ring's latency over unequal hops.")]
TreeBetaOption = Annotated[float, typer.Option("--tree-beta", help="c, the double binary tree's n_beta; 1 needs two ports.")]
OrderOption = Annotated[
    Order | None, typer.Option("--order", help="Order of tiers in all-gather and reduce-scatter. [default: bytes stay inside]")
]
RtolOption = Annotated[float | None, typer.Option("--rtol", help="Relative change that counts as none. [default: 1e-6]")]


LogsArgument = Annotated[
    list[str], typer.Argument(metavar="LOG...", help="nccl-tests, rccl-tests (text or -J), OSU micro-benchmarks, or CSV.")
]
LogRanksOption = Annotated[int | None, typer.Option("--ranks", "-n", help="Ranks, for logs that do not say (OSU).")]
CollectiveOption = Annotated[
    str | None,
    typer.Option("--collective", metavar="PRIM", help="For logs that do not say.", autocompletion=complete_primitive),
]
NodesOption = Annotated[int | None, typer.Option("--nodes", help="Nodes of the ranks, for logs that do not say.")]
InPlaceOption = Annotated[bool, typer.Option("--in-place", help="The in-place half of nccl-tests' tables.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw it: .png, .svg or .pdf; needs matplotlib.")]
PlotWhatOption = Annotated[PlotWhat, typer.Option("--plot-what", help="What to draw over size.")]


def check_plot(path: Path | None, what: PlotWhat) -> None:
    """Refuse a picture that cannot be drawn before the work starts.

    Raises:
        ColltoolError: no matplotlib, an unknown suffix, a folder that cannot be written.
    """
    if path is not None:
        from colltool.render import plot

        plot.check_plot(path, what.value)


def names(text: str | None) -> list[str]:
    """``ring,tree`` as a list, each once; empty without the option.

    Raises:
        ColltoolError: a name is empty.
    """
    return list(dict.fromkeys(_parts(text, "--algorithm")))


def sizes(text: str | None) -> list[str]:
    """``1MB,16MB`` as a list; empty without the option.

    Raises:
        ColltoolError: a size is empty.
    """
    return _parts(text, "--size")


def _parts(text: str | None, option: str) -> list[str]:
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ColltoolError(f"an empty item in '{text}'", where=option, fix="separate items with one comma, without spaces")
    return parts


def single(text: str, option: str) -> str:
    """An option that elsewhere takes a list.

    Raises:
        ColltoolError: several items.
    """
    parts = _parts(text, option)
    if len(parts) > 1:
        raise ColltoolError(f"takes one {option[2:]} here, got {len(parts)}: {text}", where=option, fix="price takes several")
    return parts[0]


def one(values: list[str], option: str) -> str:
    """The value of an option that may stand once: silently taking the last of two would price the wrong thing.

    Raises:
        ColltoolError: given more than once.
    """
    if len(values) > 1:
        raise ColltoolError(
            f"given {len(values)} times: {', '.join(values)}", where=option, fix="one a call; diff compares two JSON outputs"
        )
    return values[0]


def model(
    ideal: bool,
    pipelining: str,
    phases: Phases | None,
    placement: Placement,
    ring_alpha: RingAlpha,
    tree_beta: float,
    order: Order | None = None,
) -> dict[str, Any]:
    """The readings as :func:`colltool.api.readings` takes them."""
    return {
        "ideal": ideal,
        "pipelining": int(pipelining) if pipelining.isascii() and pipelining.isdigit() else pipelining,
        "phases": phases and phases.value,
        "placement": placement.value,
        "ring_alpha": ring_alpha.value,
        "tree_beta": tree_beta,
        "order": order and order.value,
    }
