"""``colltool contention|verify|export``: messages on the links of a network, and the same network
for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import colltool
from colltool.api.arguments import COUNTS
from colltool.base.errors import ColltoolError, given
from colltool.base.extras import extra
from colltool.base.formatting import parse_shape
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command, failed, group_app
from colltool.cli.options import EVERYBODY, FabricChoice, GroupChoice, Out, WiringChoice
from colltool.cli.output import write, write_bytes

if TYPE_CHECKING:
    from colltool.custom.schedule import OwnSchedule

DEFAULT_RANKS, TRACED_RANKS = 64, 4
DEFAULT_FABRICS = ("star512", "torus512", "mesh512")

Segments = Annotated[int | None, o.option("segments", "P of pipelined algorithms. [default: 4]")]

export = group_app("Your answer for NCCL, MSCCL, ASTRA-sim, LogGOPSim.")


@command(primitive="--primitive")
def contention(
    fabric: FabricChoice,
    layout: Annotated[Path | None, o.option("layout"), o.READ] = None,
    pattern: Annotated[str | None, o.option("kind")] = None,
    group: Annotated[int | None, o.option("group")] = None,
    count: Annotated[int | None, o.option("count")] = None,
    axis: Annotated[int | None, o.option("axis")] = None,
    stride: Annotated[
        int | None,
        o.option("stride", "Between groups (block) or ranks (cyclic, axis).", metavar="N"),
    ] = None,
    start: Annotated[int | None, o.option("start")] = None,
    seed: Annotated[
        int | None, o.option("seed", "Of random patterns and maps.", metavar="N")
    ] = None,
    shape: Annotated[
        str | None, o.option("shape", "Of a box, along each axis.", metavar="4x2", kind="text")
    ] = None,
    map_: Annotated[
        str | None,
        o.option(
            "placed",
            "Ranks on endpoints: identity, reverse, cyclic, rotate or random.",
            metavar="KIND",
        ),
    ] = None,
    primitive: Annotated[
        str | None,
        o.option(
            "primitive", "What groups run. [default: ar, a2a under a skew]", flags="--primitive -p"
        ),
    ] = None,
    algorithm: Annotated[
        str | None, o.option("algorithm", "Its algorithm. [default: ring, pairwise, chain]")
    ] = None,
    size: Annotated[str | None, o.option("size", "Bytes per rank; adds times.")] = None,
    matrix: Annotated[Path | None, o.option("matrix"), o.READ] = None,
    hot: Annotated[str | None, o.option("hot")] = None,
    zipf: Annotated[float | None, o.option("zipf")] = None,
    per_link: Annotated[bool, o.option("per_link")] = False,
    as_eta: Annotated[bool, o.option("as_eta")] = False,
    schema: Annotated[  # noqa: ARG001 - has printed and stopped
        bool, o.schema_option("layout", "colltool.congestion.layout:LayoutFile")
    ] = False,
    *,
    out: Out,
) -> None:
    """What a layout costs: the load of every link when its groups run together, against each group
    alone and packed.

    Static loads: for packets, queues or adaptive routing turn to ns-3, htsim, SST or ASTRA-sim.

    Examples:
      colltool contention -f torus512 --pattern axis --axis 1 --group 8 --count 8
      colltool contention -f torus512 --pattern random --seed 1 --group 8 -p a2a
      colltool contention -f torus512 --pattern block --group 6 --as-eta
      colltool contention -f clos-4to1 --pattern cyclic --group 64 -p a2a -M 16MB
      colltool contention -f dgx-h100 --pattern cyclic --group 32 --stride 8 --map rotate
      colltool contention -f star512 --group 64 --count 1 --hot 3
      colltool contention -f torus512 --layout groups.yaml --per-link --format csv
    """
    box = parse_shape(shape, "shape") if shape else None
    laid = {
        "kind": pattern,
        "group": group,
        "count": count,
        "axis": axis,
        "stride": stride,
        "start": start,
        "seed": seed,
        "shape": box,
    }
    asked: dict[str, Any] = {key: value for key, value in laid.items() if value is not None}
    if layout is not None and (extra := [*asked, *(["placed"] if map_ is not None else [])]):
        what = (
            f"{', '.join(given(key) for key in extra)} and {given('layout')} both lay the"
            " groups out"
        )
        raise ColltoolError(what, argument=extra[0], fix="give one of them")
    if map_ == "random" and pattern != "random":
        asked.pop("seed", None)  # it is the map's
    factor, _, members = (hot or "").partition("@")
    try:
        times = float(factor) if hot is not None else None
        hot_members = tuple(int(member) for member in members.split(",")) if members else (0,)
    except ValueError as error:
        raise ColltoolError(
            f"'{hot}' is not a hot spot", argument="hot", fix="write --hot 3, or --hot 3@0,5"
        ) from error
    result = colltool.contention(
        fabric.load(),
        layout or asked,
        placed=map_,
        seed=seed or 0,
        primitive=primitive,
        algorithm=algorithm,
        size=size,
        matrix=matrix,
        hot=times,
        hot_members=hot_members,
        zipf=zipf,
        per_link=per_link,
    )
    out.emit(result.as_eta() if as_eta else result)


@command()
def verify(
    primitive: o.MaybePrimitive = None,
    fabric: Annotated[
        o.Several,
        o.option(
            "fabric",
            "Whose ports and links carry the messages; repeatable. [default: a star, a torus and a"
            " mesh]",
        ),
        o.READ,
    ] = None,
    ranks: Annotated[
        int | None,
        o.option(
            "ranks", "Ranks in the group. [default: all of FABRIC; without one 64, 4 with --trace]"
        ),
    ] = None,
    stride: o.Stride = 1,
    alone: o.Alone = False,
    shape: o.Shape = None,
    algorithm: o.Algorithms = None,
    algorithm_file: o.AlgorithmFiles = None,
    size: o.Size = "16MB",
    segments: Annotated[int | None, o.option("segments")] = None,
    trace: Annotated[bool, o.option("trace")] = False,
    numbers: Annotated[str | None, o.option("values")] = None,
    simulator: Annotated[str | None, o.option("simulator")] = None,
    set_: o.Set = None,
    *,
    out: Out,
) -> None:
    """Execute every algorithm message by message, and compare its formula with what was counted.

    proved: the right result everywhere, the counts of the formula, and no port, link or uplink
        slower than its price. counts
    only: seconds cannot be compared. idealised: the right result, and the formula is a bound or an
        ideal that the note
    describes. mismatch: exit 1.

    With --with: also what a simulator that is installed here finds for the same schedules (colltool
    guide exports).

    Examples:
      colltool verify
      colltool verify ar -f torus512 -n 64
      colltool verify a2a -f dgx-h100 -n 64 --format json
      colltool verify ar -f dgx-h100 -n 16 --stride 8
      colltool verify ar -f star512 -n 100 --algorithm double-binary-tree --segments 64
      colltool verify ar -f star512 -n 4 --algorithm ring --trace --values 1..16
      colltool verify -f dgx-h100 --algorithm-file my.xml
    """
    count = (
        ranks
        if fabric or shape or ranks is not None or algorithm_file
        else TRACED_RANKS
        if trace
        else DEFAULT_RANKS
    )
    result = colltool.verify(
        [colltool.load_fabric(one, set_ or ()) for one in fabric or DEFAULT_FABRICS],
        primitive,
        ranks=count,
        stride=stride,
        alone=alone,
        shape=shape,
        algorithms=values.names(algorithm),
        algorithm_files=algorithm_file or (),
        size=size,
        segments=segments,
        trace=trace,
        values=numbers or (),
        simulator=simulator,
    )
    out.emit(result)
    if not result.holds:
        failed()


@command(export, "nccl-tuner", "A config file for NCCL's example tuner plugin.")
def nccl_tuner(
    fabric: FabricChoice,
    ranks: Annotated[
        o.Several,
        o.option("rank_counts", f"{COUNTS} Each is a group. [default: all of the fabric]"),
    ] = None,
    stride: o.Stride = 1,
    alone: o.Alone = False,
    channels: Annotated[int | None, o.option("channels")] = None,
    env: Annotated[bool, o.option("env")] = False,
    output: o.Output = None,
) -> None:
    """What NCCL should run at which size, as a file for its example tuner plugin: by your
    measurements, or its own model.

    Examples:
      colltool export nccl-tuner -f dgx-h100 -n 8,16,64 -o nccl_tuner.conf
      colltool export nccl-tuner -f dgx-h100 -n 64 --set library.collnet=true
      colltool export nccl-tuner -f dgx-h100 -n 64 --env
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.estimate.placement import GroupSpec
    from colltool.nccl.tuner import tuner_config, tuner_env

    target = o.to_file(output)
    if env and channels is not None:
        fix = f"leave out {given('env')} or {given('channels')}"
        raise ColltoolError("NCCL_ALGO does not set channels", argument="channels", fix=fix)
    loaded = fabric.load()
    groups = [GroupSpec(count, stride, alone) for count in (*values.counts(ranks),) or (None,)]
    write(tuner_env(loaded, groups) if env else tuner_config(loaded, groups, channels), target)


@command(export, "astra-sim", "network.yml and system.json of ASTRA-sim's analytical backend.")
def astra_sim(
    fabric: WiringChoice,
    output: Annotated[
        Path,
        o.option("output", "The folder for network.yml and system.json.", metavar="DIR"),
        o.WRITTEN,
    ],
    group: GroupChoice = EVERYBODY,
    size: Annotated[
        str | None, o.option("size", "Bytes per rank: say what to run in ASTRA-sim for it.")
    ] = None,
    ideal: Annotated[bool, o.option("ideal")] = False,
) -> None:
    """The same group for ASTRA-sim's analytical network: network.yml and system.json.

    Examples:
      colltool export astra-sim -f dgx-h100 -n 64 -o astra
      colltool export astra-sim -f tpu-v4-512 -M 64MB --ideal -o astra
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.api.values import size_of
    from colltool.estimate.groups import place
    from colltool.estimate.placement import GroupSpec

    folder = o.to_file(output)
    if folder is None:
        raise ColltoolError(
            "two files do not go to the terminal", argument="output", fix="name a folder: -o astra"
        )
    loaded, who = fabric.load(), GroupSpec(*group)
    bytes_ = None if size is None else size_of(values.single(size, "size"))
    interop = extra("interop.astra_sim")
    files = interop.astra_sim(loaded, who, ideal, bytes_)
    for name, text in files.items():
        write_bytes(folder / name, text.encode(), "output", folder=folder)
    lines = (
        f"{' and '.join(files)}: {place(loaded, who).placement.spoken}",
        *interop.to_know(loaded, who, ideal, bytes_),
    )
    write("".join(f"{line}\n" for line in lines), None)


@command(export, "infragraph", "The fabric as an InfraGraph, ASTRA-sim 3's network.")
def infragraph(fabric: WiringChoice, output: o.Output = None) -> None:
    """The fabric as an infrastructure of InfraGraph 3: devices, instances, and the links between
    them, as JSON.

    Examples:
      colltool export infragraph -f dgx-h100 -o network.json
      colltool export infragraph -f clos-4to1 --set fabric.size=64
    """
    target = o.to_file(output)
    write(extra("interop.infragraph").infragraph(fabric.load()), target)


_ALGORITHM = "The algorithm to write, as price names it."


@command(export, "msccl", "An algorithm as MSCCL's XML.")
def msccl(
    primitive: o.Primitive,
    fabric: WiringChoice,
    algorithm: Annotated[str, o.option("algorithm", _ALGORITHM)],
    group: GroupChoice = EVERYBODY,
    segments: Segments = None,
    output: o.Output = None,
) -> None:
    """The messages of a shipped algorithm as XML, for the MSCCL runtime and RCCL; price
    --algorithm-file reads it back.

    Examples:
      colltool export msccl ar -f dgx-h100 -n 8 --algorithm ring -o ring.xml
      colltool export msccl ar -f dgx-h100 -n 16 --algorithm hierarchical:ring/ring
    """
    from colltool.export.msccl import msccl_xml

    target = o.to_file(output)
    write(msccl_xml(_schedule(primitive, fabric, algorithm, group, segments)), target)


@command(export, "algorithm", "An algorithm as a file to start from.")
def algorithm_file(
    primitive: o.Primitive,
    fabric: WiringChoice,
    algorithm: Annotated[str, o.option("algorithm", _ALGORITHM)],
    group: GroupChoice = EVERYBODY,
    segments: Segments = None,
    schema: Annotated[  # noqa: ARG001 - has printed and stopped
        bool, o.schema_option("algorithm", "colltool.custom.file:AlgorithmFile")
    ] = False,
    output: o.Output = None,
) -> None:
    """The messages of a shipped algorithm as an algorithm file, step by step, to be changed and
    priced.

    A pipelined one in so few segments takes longer than its row in the table of prices.

    Examples:
      colltool export algorithm ar -f star512 -n 4 --algorithm ring
      colltool export algorithm ag -f dgx-h100 -n 8 --stride 8 --algorithm pat -o mine.yaml
    """
    from colltool.custom.file import algorithm_text

    target = o.to_file(output)
    write(algorithm_text(_schedule(primitive, fabric, algorithm, group, segments)), target)


def _schedule(
    primitive: str, fabric: FabricChoice, algorithm: str, group: GroupChoice, segments: int | None
) -> OwnSchedule:
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.api.values import count_if, primitive_of
    from colltool.estimate.placement import GroupSpec
    from colltool.export.schedule import shipped_schedule

    name, cut = values.single(algorithm, "algorithm"), count_if(segments, "segments")
    return shipped_schedule(fabric.load(), GroupSpec(*group), primitive_of(primitive), name, cut)


@command(export, "goal", "A schedule, message by message, for LogGOPSim.")
def goal(
    primitive: o.Primitive,
    fabric: WiringChoice,
    size: o.Size,
    algorithm: Annotated[str, o.option("algorithm", "The schedule: ring, hierarchical:ring/ring.")],
    group: GroupChoice = EVERYBODY,
    segments: Annotated[
        int | None, o.option("segments", "P of pipelined algorithms. [default: 16]")
    ] = None,
    ideal: Annotated[bool, o.option("ideal")] = False,
    output: o.Output = None,
) -> None:
    """One schedule as GOAL, the input of LogGOPSim: each rank's sends and receives, and what waits
    for what.

    Comments at the top give the command that runs it, with the fabric's latency and bandwidth.

    Examples:
      colltool export goal ar -f star512 -n 8 -M 1MB --algorithm ring -o ring.goal
      colltool export goal a2a -f dgx-h100 -n 16 -M 64MB --algorithm two-level:pairwise/pairwise -o
      a2a.goal
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.api import values as v
    from colltool.estimate.placement import GroupSpec
    from colltool.verification.schedule import scheduled

    target, bytes_ = o.to_file(output), v.size_of(values.single(size, "size"))
    name, what = values.single(algorithm, "algorithm"), v.primitive_of(primitive)
    run = scheduled(
        fabric.load(), what, name, GroupSpec(*group), v.count_if(segments, "segments"), ideal=ideal
    )
    write(extra("interop.goal").goal(run, bytes_), target)


@command(export, "chakra", "A planned training step as Chakra traces, one a rank.")
def chakra(
    job: o.JobFile,
    fabric: FabricChoice,
    output: Annotated[
        Path,
        o.option("output", "The folder for workload.RANK.et and comm_groups.json.", metavar="DIR"),
        o.WRITTEN,
    ],
    ranks: Annotated[int | None, o.option("job_ranks")] = None,
    job_set: o.JobSet = None,
    library: o.Library = None,
) -> None:
    """A step of colltool plan as Chakra execution traces, the input of ASTRA-sim: compute,
    collectives, what waits for what.

    Examples:
      colltool export chakra llama3-70b -f dgx-h100 -n 32 --job-set batch.global=8 -o step
    """
    from colltool.training.job import load_job

    folder = o.to_file(output)
    if folder is None:
        raise ColltoolError(
            "a file a rank does not go to the terminal",
            argument="output",
            fix="name a folder: -o step",
        )
    planned = colltool.plan(
        load_job(job, job_set or (), argument="job_overrides"),
        fabric.load(),
        ranks,
        library=library,
    )
    interop = extra("interop.chakra")
    files = interop.chakra(planned)
    for name, content in files.items():
        write_bytes(folder / name, content, "output", folder=folder)
    lines = (
        f"{len(files) - 1} traces and comm_groups.json: {planned.job.name} on {planned.fabric}",
        *interop.to_know(planned),
    )
    write("".join(f"{line}\n" for line in lines), None)
