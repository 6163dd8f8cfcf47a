"""Every formula against its executed schedule: :func:`verify`, and ``colltool verify``, which exits
with 1 where one does not match."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.extras import extra
from colltool.base.primitives import Primitive
from colltool.commands.command import command, failed
from colltool.commands.options import RESULT, Out, option
from colltool.commands.public_options import AnyShape

if TYPE_CHECKING:
    from colltool.algorithms.trace import Vectors
    from colltool.commands.custom_algorithms import AnyAlgorithms
    from colltool.commands.reading import AnyFabric
    from colltool.estimate.placement import GroupSpec
    from colltool.fabric.model import Fabric
    from colltool.verification.verify import Verification

# numbers of a range in --values: 256 for each of the 16 ranks of a trace
_MOST_NUMBERS = 4096
# 1..16, -3..3
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
# ranks without --ranks and fabrics: all 512 of the default ones would take minutes
DEFAULT_RANKS = 64
# the same with --trace: more could not be read
TRACED_RANKS = 4
# a fabric of each kind of links: switched, and lattices with and without wrap-around
DEFAULT_FABRICS = ("star512", "torus512", "mesh512")


def verify(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str | None = None,
    *,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithms: Sequence[str] | str = (),
    algorithm_files: AnyAlgorithms = (),
    size: str | float = "16MB",
    segments: int | None = None,
    trace: bool = False,
    values: Vectors | Sequence[float] | str = (),
    simulator: str | None = None,
) -> Verification:
    """Execute every algorithm that runs on a group, message by message, and compare the counts with
    its formula.

    Args:
        fabrics: one or several, as :func:`price`; their ports and links carry the messages.
        primitive: one, or all when None.
        ranks, stride, alone, shape, algorithms: as :func:`price`. Some hundreds of ranks: a
            schedule of N has up to N² messages.
        algorithm_files: algorithms of your own, as :func:`price`; without ``algorithms`` only
            these.
        size: M in bytes, for the times.
        segments: P of pipelined algorithms; 16, or 2 of a trace, when None.
        trace: each result carries its steps, who sends what to whom and what each rank then holds;
            16 ranks at most.
        values: of a trace, a vector of numbers for each rank, all of them in one row
            (``"1,2,3,4"``, ``"1..16"``), or ``example`` for small ones: the steps then carry them.
        simulator: ``simgrid``: each schedule also runs there, and each result has the time that it
            finds. Its Python is that of ``COLLTOOL_SIMGRID``, else one on PATH.

    Raises:
        ColltoolError: a group that does not fit, nothing of that name runs there, or the simulator
            is not installed.
    """
    from colltool.commands.custom_algorithms import custom_schedules, ranks_of
    from colltool.commands.reading import (
        count_if,
        flag_of,
        group_of,
        names_of,
        primitive_of,
        size_of,
    )
    from colltool.commands.requests import fabric_of
    from colltool.commands.several_fabrics import several_of
    from colltool.verification.verify import Verification
    from colltool.verification.verify import verify as run

    files = custom_schedules(algorithm_files, primitive)
    if primitive is not None:
        primitives = [primitive_of(primitive)]
    else:
        primitives = list(dict.fromkeys(file.primitive for file in files)) or list(Primitive)
    group = group_of(ranks_of(ranks, files, {"shape": shape}), stride, alone, shape)
    size_bytes = size_of(size)
    names = names_of(algorithms)
    segment_count = count_if(segments, "segments")
    traced = flag_of(trace, "trace")
    vectors = _vectors_of(values)
    # values appear only in the steps of a trace
    if vectors and not traced:
        raise ColltoolError(
            "are shown step by step", argument="values", fix=f"add {argument_text('trace', True)}"
        )
    add_simulated = _simulation(simulator, size_bytes, group, segment_count)
    overrides: list[tuple[str, Any]] = []
    results: list[Any] = []
    skipped: list[Any] = []
    for fabric in map(fabric_of, several_of(fabrics)):
        verification = run(
            fabric,
            primitives,
            size_bytes,
            group,
            segment_count,
            names,
            trace=traced,
            vectors=vectors,
            custom=files,
        )
        if add_simulated is not None:
            verification = add_simulated(verification, fabric)
        results += verification.results
        skipped += verification.skipped
        overrides += verification.overrides
    return Verification(
        tuple(results), tuple(skipped), tuple(dict.fromkeys(overrides)), simulator or ""
    )


def _simulation(
    name: str | None, size: float, group: GroupSpec, segments: int | None
) -> Callable[[Verification, Fabric], Verification] | None:
    """A function that adds a simulator's times to a verification; None without a simulator."""
    from colltool.commands.reading import text_of

    if name is None:
        return None
    simgrid = extra("interop.simgrid")
    simgrid.check_simulator(text_of(name, "simulator", "simgrid"))
    # refused before minutes of work, not after
    simgrid.find_python()

    def add_simulated(verification: Verification, fabric: Fabric) -> Verification:
        with_times: Verification = simgrid.with_simulator(
            verification, size, fabric, group, segments
        )
        return with_times

    return add_simulated


def _vectors_of(values: Any) -> Vectors:
    """A vector for each rank, or one row of numbers, which is split among the ranks later; or the
    word ``example``.

    Texts are one row: ``"1,2,3,4"``, ``"1..16"``.

    Raises:
        ColltoolError: what holds no finite numbers.
    """
    from colltool.commands.reading import wrong

    if isinstance(values, str) and values == "example":
        return "example"
    try:
        rows: list[Any] = _numbers_of(values) if isinstance(values, str) else list(values)
        if rows and not any(hasattr(row, "__len__") for row in rows):
            rows = [rows]
        vectors = [list(map(float, row)) for row in rows]
        # iterated, bytes are numbers and the keys of a mapping may be: neither is meant
        if not isinstance(values, bytes | Mapping) and all(map(isfinite, chain(*vectors))):
            return vectors
    except (TypeError, ValueError, OverflowError):
        pass
    numbers = argument_text("values", "1,2,3,4")
    raise wrong(
        values,
        "values",
        "numbers, as many for each rank",
        f"write {numbers} for two numbers on each of two ranks, or a range such as 1..16",
    )


def _numbers_of(text: str) -> list[float]:
    """Numbers of a text, ranges written out; ValueError for anything else."""
    numbers: list[float] = []
    for part in text.split(","):
        ends = _RANGE.fullmatch(part.strip())
        if ends is None:
            numbers.append(float(part))
            continue
        first = int(ends[1])
        last = int(ends[2])
        if abs(last - first) >= _MOST_NUMBERS:
            raise ValueError(part)
        step = 1 if last >= first else -1
        numbers += range(first, last + step, step)
    return numbers


@command(
    [
        option("primitive", "Collective. [default: all]"),
        option(
            "fabric",
            "Fabric that carries the messages (repeatable). [default: a switch, a torus and a mesh]",
            default=None,
        ),
        option(
            "ranks",
            "Ranks in the group. [default: the whole fabric; 64 without one, 4 with --trace]",
        ),
        "stride",
        "alone",
        "shape",
        "algorithms",
        "algorithm_files",
        option("size", kind="text"),
        "segments",
        "trace",
        "values",
        "simulator",
        option("overrides", default=None),
        RESULT,
    ],
    public=verify,
)
def verify_command(
    fabric: list[str] | None,
    overrides: list[str] | None,
    out: Out,
    ranks: int | None = None,
    **arguments: Any,
) -> None:
    """Execute every algorithm message by message, and compare its formula with what was counted.

    matches: the result is right, the counts are those of the formula, and no port, link or uplink
    takes longer than its price. counts only: seconds cannot be compared. only on idle wires: the
    result is right, and a note says what the formula leaves out. does not match: exit 1. JSON and
    CSV keep their own words (colltool schema verify).

    --with also runs the schedules in a simulator that is installed here (colltool guide exports).

    Examples:
      colltool verify
      colltool verify ar -f torus512 -n 64
      colltool verify a2a -f dgx-h100 -n 64 --format json
      colltool verify ar -f dgx-h100 -n 16 --stride 8
      colltool verify ar -f star512 -n 100 --algorithm double-binary-tree --segments 64
      colltool verify ar -f star512 -n 4 --algorithm ring --trace --values 1..16
      colltool verify -f dgx-h100 --algorithm-file my.xml
    """
    from colltool.fabric.load import load_fabric

    names_its_group = fabric or "shape" in arguments or "algorithm_files" in arguments
    if ranks is None and not names_its_group:
        ranks = TRACED_RANKS if arguments["trace"] else DEFAULT_RANKS
    fabrics = [load_fabric(name, overrides or ()) for name in fabric or DEFAULT_FABRICS]
    result = verify(fabrics, ranks=ranks, **arguments)
    out.emit(result)
    if not result.holds:
        failed()
