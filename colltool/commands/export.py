"""Files for NCCL, MSCCL, ASTRA-sim, LogGOPSim and others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import colltool
from colltool.base.errors import ColltoolError, given
from colltool.commands import option_text as values
from colltool.commands import options as o
from colltool.commands.arguments import COUNTS
from colltool.commands.command import command, group_app
from colltool.commands.options import EVERYBODY, FabricChoice, GroupChoice, WiringChoice
from colltool.commands.output import write, write_bytes

if TYPE_CHECKING:
    from colltool.schedules.own import OwnSchedule


Segments = Annotated[int | None, o.option("segments", "P of pipelined algorithms. [default: 4]")]


export_command = group_app("Your answer for NCCL, MSCCL, ASTRA-sim, LogGOPSim.")


@command(export_command, "nccl-tuner", "A config file for NCCL's example tuner plugin.")
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
    from colltool.export.tuner import tuner_config, tuner_env

    target = o.to_file(output)
    if env and channels is not None:
        fix = f"leave out {given('env')} or {given('channels')}"
        raise ColltoolError("NCCL_ALGO does not set channels", argument="channels", fix=fix)
    loaded = fabric.load()
    groups = [GroupSpec(count, stride, alone) for count in (*values.counts(ranks),) or (None,)]
    write(tuner_env(loaded, groups) if env else tuner_config(loaded, groups, channels), target)


@command(
    export_command, "astra-sim", "network.yml and system.json of ASTRA-sim's analytical backend."
)
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
    from colltool.commands.reading import size_of
    from colltool.estimate.groups import place
    from colltool.estimate.placement import GroupSpec
    from colltool.export.astra_sim import astra_sim as files_of
    from colltool.export.astra_sim import to_know

    folder = o.to_file(output)
    if folder is None:
        raise ColltoolError(
            "two files do not go to the terminal", argument="output", fix="name a folder: -o astra"
        )
    loaded, who = fabric.load(), GroupSpec(*group)
    bytes_ = None if size is None else size_of(values.single(size, "size"))
    files = files_of(loaded, who, ideal, bytes_)
    for name, text in files.items():
        write_bytes(folder / name, text.encode(), "output", folder=folder)
    lines = (
        f"{' and '.join(files)}: {place(loaded, who).placement.spoken}",
        *to_know(loaded, who, ideal, bytes_),
    )
    write("".join(f"{line}\n" for line in lines), None)


@command(export_command, "infragraph", "The fabric as an InfraGraph, ASTRA-sim 3's network.")
def infragraph(fabric: WiringChoice, output: o.Output = None) -> None:
    """The fabric as an infrastructure of InfraGraph 3: devices, instances, and the links between
    them, as JSON.

    Examples:
      colltool export infragraph -f dgx-h100 -o network.json
      colltool export infragraph -f clos-4to1 --set fabric.size=64
    """
    from colltool.export.infragraph import infragraph as text_of

    target = o.to_file(output)
    write(text_of(fabric.load()), target)


_ALGORITHM = "The algorithm to write, as price names it."


@command(export_command, "msccl", "An algorithm as MSCCL's XML.")
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


@command(export_command, "algorithm", "An algorithm as a file to start from.")
def algorithm_file(
    primitive: o.Primitive,
    fabric: WiringChoice,
    algorithm: Annotated[str, o.option("algorithm", _ALGORITHM)],
    group: GroupChoice = EVERYBODY,
    segments: Segments = None,
    schema: Annotated[  # noqa: ARG001 - has printed and stopped
        bool, o.schema_option("algorithm", "colltool.schedules.own_file:AlgorithmFile")
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
    from colltool.schedules.own_file import algorithm_text

    target = o.to_file(output)
    write(algorithm_text(_schedule(primitive, fabric, algorithm, group, segments)), target)


def _schedule(
    primitive: str, fabric: FabricChoice, algorithm: str, group: GroupChoice, segments: int | None
) -> OwnSchedule:
    import colltool.algorithms
    import colltool.schedules  # noqa: F401 - fills the makers
    from colltool.commands.reading import count_if, primitive_of
    from colltool.estimate.placement import GroupSpec
    from colltool.export.schedule import shipped_schedule

    name, cut = values.single(algorithm, "algorithm"), count_if(segments, "segments")
    return shipped_schedule(fabric.load(), GroupSpec(*group), primitive_of(primitive), name, cut)


@command(export_command, "goal", "A schedule, message by message, for LogGOPSim.")
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
      colltool export goal a2a -f dgx-h100 -n 16 -M 64MB --algorithm two-level:pairwise/pairwise -o a2a.goal
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.commands import reading as v
    from colltool.estimate.placement import GroupSpec
    from colltool.export.goal import goal as text_of
    from colltool.verification.schedule import scheduled

    target, bytes_ = o.to_file(output), v.size_of(values.single(size, "size"))
    name, what = values.single(algorithm, "algorithm"), v.primitive_of(primitive)
    run = scheduled(
        fabric.load(), what, name, GroupSpec(*group), v.count_if(segments, "segments"), ideal=ideal
    )
    write(text_of(run, bytes_), target)


@command(export_command, "chakra", "A planned training step as Chakra traces, one a rank.")
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
    from colltool.export.chakra import chakra as files_of
    from colltool.export.chakra import to_know as known
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
    files = files_of(planned)
    for name, content in files.items():
        write_bytes(folder / name, content, "output", folder=folder)
    lines = (
        f"{len(files) - 1} traces and comm_groups.json: {planned.job.name} on {planned.fabric}",
        *known(planned),
    )
    write("".join(f"{line}\n" for line in lines), None)
