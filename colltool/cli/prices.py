"""``colltool price|crossover|breakdown|explain|ladder|diff``: times of one question, and two
answers beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import colltool
from colltool.base.errors import ColltoolError, called, given
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command, failed
from colltool.cli.options import (
    EVERYBODY,
    NO_FABRIC,
    NO_TOKENS,
    ExpertChoice,
    FabricChoice,
    GroupChoice,
    Out,
    Plots,
    Without,
)
from colltool.estimate.assumptions import Readings

if TYPE_CHECKING:
    from colltool.analysis.diff import Diff
    from colltool.engines.library_diff import LibraryDiff

DEFAULT_RTOL = 1e-6
LIBRARY_PAIR = "In place of files: two libraries, or two versions of one, on the fabric."


@command()
def price(
    primitive: o.Primitive,
    fabric: FabricChoice,
    group: GroupChoice = EVERYBODY,
    size: Annotated[
        str | None,
        o.option("sizes", "Bytes per rank; comma-separated. [default: winners, 1KB to 1GB]"),
    ] = None,
    algorithm: o.Algorithms = None,
    algorithm_file: o.AlgorithmFiles = None,
    top: Annotated[int | None, o.option("top")] = None,
    library: o.Library = None,
    library_file: o.LibraryFile = None,
    slow_rank: o.SlowRank = None,
    experts: ExpertChoice = NO_TOKENS,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Price every algorithm that can run, fastest first, and say why the others cannot.

    Without a size: the winner and the runner-up at six sizes from 1 KB to 1 GB. With an engine as
    library: its kernels, the one that it takes first. PRIM dispatch and combine: experts, by the
        tokens of a rank.

    Examples:
      colltool price ar -f nvl72 -M 16MB
      colltool price ar -f nvl72 -n 72 -M 1MB,16MB,1GB --format csv
      colltool price a2a -f dgx-h100 -n 64 -M 64MiB --set ib.levels.spine.oversubscription=4
      colltool price ar -f nvl72 -M 16MB --algorithm hierarchical:ring/ring
      colltool price ar -f dgx-h100 -n 32 --stride 8 -M 1GB
      colltool price ar -f dgx-h100 -n 64 --library nccl
      colltool price ar -f dgx-h100 -M 16MB --algorithm-file my.xml
      colltool price ar -f dgx-h100 -n 64 -M 64MB --slow-rank 0.8
      colltool price ag -f my-cluster.yaml
      colltool price ar -f hgx-h200 -n 4 -M 64KB --library vllm@0.24.0
      colltool price dispatch -f dgx-h100 -n 64 --library deepep@1 --tokens 128 --top-k 8 --hidden
      7168 --experts 256
    """
    for argument, value in (("top", top), ("slow_rank", slow_rank)):
        if value is not None and size is None:
            raise ColltoolError(
                "needs a size", argument=argument, fix=f"add a size: {given('size', '16MB')}"
            )
    listed = colltool.price_list(
        fabric.load(),
        primitive,
        sizes=values.parts(size, "sizes"),
        algorithms=values.names(algorithm),
        algorithm_files=algorithm_file or (),
        library=library,
        library_file=library_file,
        slow_rank=slow_rank,
        readings=readings,
        **experts._asdict(),
        **group._asdict(),
    )
    out.emit(listed if top is None else listed.top(top))


@command()
def crossover(
    primitive: o.Primitive = "ar",
    fabric: FabricChoice = FabricChoice(("nvl72",)),  # noqa: B008 - a tuple
    group: GroupChoice = EVERYBODY,
    algorithm: Annotated[
        str | None,
        o.option(
            "algorithms",
            "The first against each other one, comma-separated. [default: ring against the trees]",
        ),
    ] = None,
    library: o.Library = None,
    library_file: o.LibraryFile = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Every size at which the faster of two algorithms changes, solved exactly, and who wins at
    which size.

    Without options: all-reduce on all of nvl72, ring against the trees.

    Examples:
      colltool crossover
      colltool crossover ar -f nvl72 -n 72
      colltool crossover ar -f dgx-h100 -n 64 --algorithm hierarchical:ring/ring,multi-rail-ring
      colltool crossover a2a -f nvl72 -n 72 --algorithm pairwise,bruck --format json
      colltool crossover ar -f hgx-h200 -n 8 --library vllm@0.24.0
    """
    names = values.names(algorithm)
    asked: dict[str, Any] = {
        "library": library,
        "library_file": library_file,
        "readings": readings,
        **group._asdict(),
    }
    out.emit(colltool.crossover(fabric.load(), primitive, algorithms=names, **asked))


@command()
def breakdown(
    primitive: o.Primitive,
    fabric: FabricChoice,
    size: o.Size,
    group: GroupChoice = EVERYBODY,
    algorithm: Annotated[
        str | None, o.option("algorithm", "Break down this one. [default: the fastest]")
    ] = None,
    library: o.Library = None,
    slow_rank: o.SlowRank = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Where the time of one schedule goes, phase by phase, beside the flat baselines.

    The fastest schedule, or the one of --algorithm.

    Examples:
      colltool breakdown ar -f nvl72 -n 144 -M 16MB
      colltool breakdown ar -f dgx-h100 -n 64 -M 1GB --algorithm hierarchical:ring/ring
      colltool breakdown ag -f tpu-v4-512 -M 64MB --algorithm dim-ring
    """
    name = None if algorithm is None else values.single(algorithm, "algorithm")
    asked: dict[str, Any] = {
        "size": values.single(size, "size"),
        "algorithm": name,
        "library": library,
        "slow_rank": slow_rank,
    }
    out.emit(
        colltool.breakdown(fabric.load(), primitive, readings=readings, **asked, **group._asdict())
    )


@command()
def explain(
    algorithm: Annotated[
        str, o.option("algorithm", "As price names it.", flags="", metavar="ALGORITHM")
    ],
    primitive: o.MaybePrimitive = None,
    fabric: FabricChoice = NO_FABRIC,
    group: GroupChoice = EVERYBODY,
    size: Annotated[str | None, o.option("size", "Bytes per rank.")] = None,
    library: o.Library = None,
    slow_rank: o.SlowRank = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """An algorithm's formula, where it comes from, what it assumes and which libraries implement
    it, with your numbers put in.

    Examples:
      colltool explain double-binary-tree
      colltool explain ring ar -f nvl72 -n 72 -M 16MB
      colltool explain hierarchical:ring/ring ar -f nvl72 -n 144 -M 16MB
      colltool explain multi-rail-ring ar -f dgx-h100 -n 64 -M 16MB --library nccl
    """
    if not fabric.names and (
        group != EVERYBODY or library is not None or fabric.overrides or ":" in algorithm
    ):
        options = ", ".join(given(name) for name in ("ranks", "stride", "library", "overrides"))
        what = f"{options} and a choice of algorithms need a fabric"
        raise ColltoolError(what, fix=f"add {given('fabric', 'nvl72')} {given('size', '16MB')}")
    found = colltool.explain(
        algorithm,
        primitive,
        fabric=fabric.load() if fabric.names else None,
        size=size,
        library=library,
        slow_rank=slow_rank,
        readings=readings,
        **group._asdict(),
    )
    out.emit(found)


@command(old="--check")
def ladder(
    file: Annotated[
        str,
        o.option("files", "A ladder file, or the name of a shipped one.", metavar="FILE"),
        o.READ,
    ] = "n512",
    check: Annotated[Path | None, o.option("check"), o.READ] = None,
    rtol: o.Rtol = None,
    schema: Annotated[bool, o.schema_option("ladder", "colltool.fabric.ladder:LadderFile")] = False,  # noqa: ARG001 - has printed and stopped
    *,
    out: Out,
    readings: Annotated[Readings, Without("ideal")],
) -> None:
    """A list of prices, ideal beside realistic, with the gap to the best: the N=512 ladder, or one
    of your own.

    Examples:
      colltool ladder
      colltool ladder --format json -o ladder.json
      colltool ladder --check ladder.json --rtol 0.001
      colltool ladder my-ladder.yaml --format markdown
    """
    if check is None and rtol is not None:
        raise ColltoolError(
            "compares with an earlier run", argument="rtol", fix=f"add {given('check', 'OLD.json')}"
        )
    priced = colltool.ladder(file, readings=readings)
    if check is None:
        out.emit(priced)
        return
    from colltool.analysis.diff import read_document
    from colltool.render.dispatch import document

    _finish(
        colltool.diff(
            read_document(check), document(priced), DEFAULT_RTOL if rtol is None else rtol
        ),
        out,
    )


@command()
def diff(
    old: Annotated[Path | None, o.option("old"), o.READ] = None,
    new: Annotated[Path | None, o.option("new"), o.READ] = None,
    rtol: o.Rtol = None,
    library: Annotated[
        tuple[str, str] | None, o.option("library", LIBRARY_PAIR, metavar="OLD NEW")
    ] = None,
    fabric: FabricChoice = NO_FABRIC,
    ranks: Annotated[
        int | None, o.option("ranks", "With --library: ranks of kernels' groups. [default: 8]")
    ] = None,
    *,
    out: Out,
) -> None:
    """What moved between two JSON outputs of the same command; exit 1 if anything did.

    Rows are matched by what they are, not by where they stand. With --library: where two libraries
    take different kernels on a fabric.

    Examples:
      colltool diff old.json new.json
      colltool diff old.json new.json --rtol 0.01 --format markdown
      colltool diff --library nccl@2.30 nccl@2.31 -f dgx-h100
    """
    if library is not None:
        if old is not None or rtol is not None:
            what = "compares two libraries, not two files"
            raise ColltoolError(
                what, argument="library", fix=f"leave the files and {given('rtol')} out"
            )
        if not fabric.names:
            raise ColltoolError(
                "libraries are compared on a fabric",
                argument="fabric",
                fix=f"add {given('fabric', 'dgx-h100')}",
            )
        _finish(colltool.diff_libraries(fabric.load(), *library, ranks=ranks), out)
        return
    if old is None or new is None:
        fix = (
            f"a JSON output of colltool, or two libraries: {given('library', 'nccl@2.30')}"
            " nccl@2.31; colltool diff -h shows both"
        )
        raise ColltoolError(f"{'OLD' if old is None else 'NEW'} is missing", fix=fix)
    if fabric.names or ranks is not None:
        what = "files are compared as they are"
        raise ColltoolError(
            what,
            argument="fabric",
            fix=f"leave it out, or add {given('library', 'nccl@2.30')} nccl@2.31",
        )
    from colltool.analysis.diff import read_document

    with called("shell", old=str(old), new=str(new)):
        found = colltool.diff(
            read_document(old), read_document(new), DEFAULT_RTOL if rtol is None else rtol
        )
    _finish(found, out)


def _finish(result: Diff | LibraryDiff, out: Out) -> None:
    out.emit(result)
    if result.moved:
        failed()
