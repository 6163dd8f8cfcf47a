"""``colltool export``: files for NCCL, MSCCL, ASTRA-sim, LogGOPSim and others; a command each.

The formats are in :mod:`colltool.extras.interop`, which ``extra("interop.NAME")`` loads, and in
:mod:`colltool.custom`. A command checks ``--output`` first, so that a wrong one is refused before the
work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.extras import extra
from colltool.commands.arguments import COUNTS
from colltool.commands.command import CommandGroup, command
from colltool.commands.fabric import NODES_OF_FILE, release_of
from colltool.commands.options import (
    FABRIC,
    JOB_FILE,
    REQUIRED,
    WIRING,
    FabricChoice,
    OptionGroup,
    option,
    schema_option,
    to_file,
)
from colltool.commands.output import say, write, write_bytes

if TYPE_CHECKING:
    from colltool.custom.schedule import CustomSchedule
    from colltool.estimate.placement import GroupSpec


def _group(**members: Any) -> GroupSpec:
    """The group that the options name; imported here, so that help needs no numpy."""
    from colltool.estimate.placement import GroupSpec

    return GroupSpec(**members)


# who is in the exported group, as one argument
EXPORTED_GROUP = OptionGroup(
    "group",
    (
        option("ranks", default=None),
        option("stride", default=1),
        option("alone", default=False),
        option("shape", default=None),
    ),
    _group,
)
SEGMENTS = option("segments", "P of pipelined algorithms. [default: 4]", default=None)
ALGORITHM = option(
    "algorithm", "The algorithm to write, as price names it.", kind="single", default=REQUIRED
)


# bytes that a table of laws may have
MOST_TABLE = 200_000


export_command = CommandGroup("Fabrics and answers for NCCL, MSCCL, ASTRA-sim, LogGOPSim.")


def _folder(output: Path, what: str, fix: str) -> Path:
    """The folder for several files; ColltoolError with ``what`` and ``fix`` for ``-o -``, the
    terminal."""
    folder = to_file(output)
    if folder is None:
        raise ColltoolError(what, argument="output", fix=fix)
    return folder


def _write_lines(*lines: str) -> None:
    """Write lines about the files to stdout, at the end of the command."""
    write("".join(f"{line}\n" for line in lines), output=None)


def _schedule(
    fabric: FabricChoice,
    primitive: str,
    algorithm: str,
    group: GroupSpec,
    segments: int | None = None,
) -> CustomSchedule:
    """The messages of a shipped algorithm on a group; its parameters are options of the commands
    that write them."""
    from colltool.commands.reading import count_if, primitive_of
    from colltool.verification.shipped_schedule import shipped_schedule

    pieces = count_if(segments, "segments")
    return shipped_schedule(fabric.load(), group, primitive_of(primitive), algorithm, pieces)


@command(
    [
        FABRIC,
        option("rank_counts", f"{COUNTS} Each is a group. [default: all of the fabric]"),
        "stride",
        "alone",
        "channels",
        "env",
        "output",
    ],
    within=export_command,
    name="nccl-tuner",
    short_help="A config file for NCCL's example tuner plugin.",
)
def nccl_tuner(
    fabric: FabricChoice,
    ranks: list[int] | None = None,
    stride: int = 1,
    alone: bool = False,
    channels: int | None = None,
    env: bool = False,
    output: Path | None = None,
) -> None:
    """Write a file for NCCL's example tuner plugin: what to run at each size, by your measurements or
    by NCCL's own model.

    Examples:
      colltool export nccl-tuner -f dgx-h100 -n 8,16,64 -o nccl_tuner.conf
      colltool export nccl-tuner -f dgx-h100 -n 64 --set library.collnet=true
      colltool export nccl-tuner -f dgx-h100 -n 64 --env
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.estimate.placement import GroupSpec

    target = to_file(output)
    if env and channels is not None:
        raise ColltoolError(
            "NCCL_ALGO does not set channels",
            argument="channels",
            fix=f"leave out {argument_text('env')} or {argument_text('channels')}",
        )
    loaded = fabric.load()
    groups = [GroupSpec(count, stride, alone) for count in ranks or (None,)]
    tuner = extra("interop.nccl_tuner")
    if env:
        text = tuner.tuner_env(loaded, groups)
    else:
        text = tuner.tuner_config(loaded, groups, channels)
    write(text, target)


@command(
    [
        FABRIC,
        option("ranks", "GPUs of the node, the first ones. [default: all of its NVLink domain]"),
        "output",
    ],
    within=export_command,
    name="nccl-topo",
    short_help="A fabric's node for NCCL_TOPO_FILE: GPUs, NVLinks, slots, NICs.",
)
def nccl_topo(fabric: FabricChoice, ranks: int | None = None, output: Path | None = None) -> None:
    """Write a node of NVIDIA GPUs as the XML that NCCL reads through NCCL_TOPO_FILE, for virtual
    machines and containers that hide their slots; fabric channels and fabric import read it too.

    A fabric states GPUs, NVLinks and NICs. Slots and PCI switches are those of usual hosts of such GPUs,
    and bus ids are made up: put in those of your machine, by which NCCL finds its devices.

    Examples:
      colltool export nccl-topo -f dgx-h100 -o node.xml
      colltool export nccl-topo -f nvl72 -n 4 -o tray.xml
      colltool export nccl-topo -f dgx-h100 --set ib.bandwidth=25GB/s -o node.xml
    """
    target = to_file(output)
    text, notes = extra("interop.nccl_topo").nccl_topo(fabric.load(), ranks)
    write(text, target)
    say(*(f"note: {note}" for note in notes))


@command(
    [*NODES_OF_FILE, "output"],
    within=export_command,
    name="nccl-graph",
    short_help="NCCL's channels on a node for NCCL_GRAPH_FILE, to change by hand.",
    network_nodes="--nodes",
)
def nccl_graph(
    topology_file: Path,
    nodes: int | None = None,
    library: str | None = None,
    output: Path | None = None,
) -> None:
    """Write the rings, trees and NVLS that NCCL finds on a node as the XML that it takes through
    NCCL_GRAPH_FILE: change the order of GPUs, their NICs or rates, and NCCL runs that.

    NCCL's search takes 0.1 to 5 s and this file its place, for as many nodes as it was written for: one,
    or two and more. It is for experiments: NCCL refuses it on other GPUs, and searches for graphs that are
    not in it, such as CollNet's.

    Examples:
      colltool export nccl-graph node.xml -o graph.xml
      colltool export nccl-graph node.xml --nodes 2 --library nccl@2.28.9 -o graph.xml
    """
    target = to_file(output)
    text = extra("interop.nccl_graph").nccl_graph(topology_file, nodes or 1, release_of(library))
    write(text, target)


@command(
    [
        FABRIC,
        option("rank_counts", f"{COUNTS} [default: doublings, and all of the fabric]"),
        option(
            "primitives",
            "Collectives: ar, ag, rs, a2a, bc, reduce, p2p. [default: all but p2p]",
            default=None,
        ),
        option(
            "form",
            "json, or c for a header. [default: by the suffix of -o, else json]",
            words=("json", "c"),
            default=None,
        ),
        "output",
    ],
    within=export_command,
    name="table",
    short_help="Prices as piecewise laws, for compilers: JSON or a C header.",
)
def law_table(
    fabric: FabricChoice,
    ranks: list[int] | None = None,
    primitives: str | None = None,
    format: str | None = None,
    output: Path | None = None,
) -> None:
    """Write the prices of a fabric as laws that take a microsecond to ask: time = a + b (bytes - from),
    for each collective and number of ranks, within 2% of price from 8 B to 16 GiB.

    Examples:
      colltool export table -f dgx-h100 -o dgx_h100.h
      colltool export table -f nvl72 -n 8,72,144 --primitive ar,ag -o nvl72.json
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.analysis.laws import law_table as laws_of
    from colltool.analysis.laws import usual_counts
    from colltool.commands.reading import primitive_of
    from colltool.render.views.law_table import table_header, table_json

    target = to_file(output)
    as_header = format == "c" or (format is None and target is not None and target.suffix == ".h")
    loaded = fabric.load()
    collectives = [primitive_of(word) for word in _collectives(primitives)]
    table = laws_of(loaded, collectives, sorted(set(ranks or usual_counts(loaded))))
    text = table_header(table) if as_header else table_json(table)
    if len(text) > MOST_TABLE:
        raise ColltoolError(
            f"the table has {len(text):,} bytes, more than {MOST_TABLE:,}",
            argument="ranks",
            fix=f"fewer counts ({argument_text('ranks', '8,64')}) or fewer {argument_text('primitives', 'ar')}",
        )
    write(text, target)


def _collectives(primitives: str | None) -> list[str]:
    """The collectives of a table, as typed; all but p2p for None."""
    if primitives is None:
        return ["ar", "ag", "rs", "a2a", "bc", "reduce"]
    return [word.strip() for word in primitives.split(",")]


@command(
    [
        WIRING,
        option("output", "The folder for network.yml and system.json.", metavar="DIR"),
        EXPORTED_GROUP,
        option("size", "Bytes per rank: say what to run in ASTRA-sim for it."),
        "ideal",
    ],
    within=export_command,
    name="astra-sim",
    short_help="network.yml and system.json of ASTRA-sim's analytical backend.",
)
def astra_sim(
    fabric: FabricChoice,
    output: Path,
    group: GroupSpec,
    size: str | None = None,
    ideal: bool = False,
) -> None:
    """Write the group for ASTRA-sim's analytical network: network.yml and system.json.

    Examples:
      colltool export astra-sim -f dgx-h100 -n 64 -o astra
      colltool export astra-sim -f tpu-v4-512 -M 64MB --ideal -o astra
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.commands.reading import size_of
    from colltool.estimate.groups import place

    folder = _folder(output, "two files do not go to the terminal", "name a folder: -o astra")
    loaded = fabric.load()
    bytes_ = None if size is None else size_of(size)
    interop = extra("interop.astra_sim")
    files = interop.astra_sim(loaded, group, ideal, bytes_)
    for name, text in files.items():
        write_bytes(folder / name, text.encode(), "output", folder=folder)
    files_and_group = f"{' and '.join(files)}: {place(loaded, group).placement.label}"
    _write_lines(files_and_group, *interop.usage_notes(loaded, group, ideal, bytes_))


@command(
    [WIRING, "output"],
    within=export_command,
    name="infragraph",
    short_help="The fabric as an InfraGraph, ASTRA-sim 3's network.",
)
def infragraph(fabric: FabricChoice, output: Path | None = None) -> None:
    """Write the fabric as an infrastructure of InfraGraph 3 (JSON): devices, instances and links.

    Examples:
      colltool export infragraph -f dgx-h100 -o network.json
      colltool export infragraph -f clos-4to1 --set fabric.size=64
    """

    target = to_file(output)
    write(extra("interop.infragraph").infragraph(fabric.load()), target)


@command(
    ["primitive", WIRING, ALGORITHM, EXPORTED_GROUP, SEGMENTS, "output"],
    public=_schedule,
    within=export_command,
    name="msccl",
    short_help="An algorithm as MSCCL's XML.",
)
def msccl(fabric: FabricChoice, output: Path | None = None, **schedule: Any) -> None:
    """Write the messages of a shipped algorithm as XML for the MSCCL runtime and RCCL; price
    --algorithm-file reads it back.

    Examples:
      colltool export msccl ar -f dgx-h100 -n 8 --algorithm ring -o ring.xml
      colltool export msccl ar -f dgx-h100 -n 16 --algorithm hierarchical:ring/ring
    """
    from colltool.custom.msccl_export import msccl_xml

    target = to_file(output)
    write(msccl_xml(_schedule(fabric, **schedule)), target)


@command(
    [
        "primitive",
        WIRING,
        ALGORITHM,
        EXPORTED_GROUP,
        SEGMENTS,
        schema_option("algorithm", "colltool.custom.file:AlgorithmFile"),
        "output",
    ],
    public=_schedule,
    within=export_command,
    name="algorithm",
    short_help="An algorithm as a file to start from.",
)
def algorithm_file(fabric: FabricChoice, output: Path | None = None, **schedule: Any) -> None:
    """Write the messages of a shipped algorithm as an algorithm file, step by step, to change and
    price.

    A pipelined algorithm in this few segments takes longer than in the table of prices.

    Examples:
      colltool export algorithm ar -f star512 -n 4 --algorithm ring
      colltool export algorithm ag -f dgx-h100 -n 8 --stride 8 --algorithm pat -o mine.yaml
    """
    from colltool.custom.file import algorithm_text

    target = to_file(output)
    write(algorithm_text(_schedule(fabric, **schedule)), target)


@command(
    [
        "primitive",
        WIRING,
        "size",
        option("algorithm", "The schedule: ring, hierarchical:ring/ring.", kind="single"),
        EXPORTED_GROUP,
        option("segments", "P of pipelined algorithms. [default: 16]"),
        "ideal",
        "output",
    ],
    within=export_command,
    name="goal",
    short_help="A schedule, message by message, for LogGOPSim.",
)
def goal(
    primitive: str,
    fabric: FabricChoice,
    size: str,
    algorithm: str,
    group: GroupSpec,
    segments: int | None = None,
    ideal: bool = False,
    output: Path | None = None,
) -> None:
    """Write a schedule as GOAL, the input of LogGOPSim: the sends and receives of each rank and their
    dependencies.

    Comments at the top give the command that runs it, with the fabric's latency and bandwidth.

    Examples:
      colltool export goal ar -f star512 -n 8 -M 1MB --algorithm ring -o ring.goal
      colltool export goal a2a -f dgx-h100 -n 16 -M 64MB --algorithm two-level:pairwise/pairwise -o a2a.goal
    """
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.commands.reading import count_if, primitive_of, size_of
    from colltool.verification.schedule import scheduled

    target = to_file(output)
    bytes_ = size_of(size)
    collective = primitive_of(primitive)
    pieces = count_if(segments, "segments")
    run = scheduled(fabric.load(), collective, algorithm, group, pieces, ideal=ideal)
    write(extra("interop.goal").goal(run, bytes_), target)


@command(
    [
        JOB_FILE,
        FABRIC,
        option("output", "The folder for workload.RANK.et and comm_groups.json.", metavar="DIR"),
        "job_ranks",
        "job_overrides",
        "library",
    ],
    within=export_command,
    name="chakra",
    short_help="A planned training step as Chakra traces, one per rank.",
)
def chakra(
    job: str,
    fabric: FabricChoice,
    output: Path,
    ranks: int | None = None,
    job_overrides: list[str] | None = None,
    library: str | None = None,
) -> None:
    """Write a step of colltool plan as Chakra execution traces, the input of ASTRA-sim: compute,
    collectives and their dependencies.

    Examples:
      colltool export chakra llama3-70b -f dgx-h100 -n 32 --job-set batch.global=8 -o step
    """
    from colltool.commands.plan import plan
    from colltool.training.job import load_job

    folder = _folder(
        output, "one file per rank does not go to the terminal", "name a folder: -o step"
    )
    loaded = load_job(job, job_overrides or (), argument="job_overrides")
    planned = plan(loaded, fabric.load(), ranks, library=library)
    interop = extra("interop.chakra")
    files = interop.chakra(planned)
    for name, content in files.items():
        write_bytes(folder / name, content, "output", folder=folder)
    written = f"{len(files) - 1} traces and comm_groups.json"
    _write_lines(
        f"{written}: {planned.job.name} on {planned.fabric}", *interop.usage_notes(planned)
    )
