"""``colltool fabric|job|guide``: files of fabrics and jobs, and the manual."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import colltool
from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli.command import command, each_checked, group_app
from colltool.cli.options import Also, Out
from colltool.cli.output import BY_SUFFIX, screen_of, write, write_bytes
from colltool.guides import TOPICS

fabric = group_app("Shipped fabrics; start, show, draw, check, size your own.")
job = group_app("Shipped jobs; show, check and describe job files.")


def as_yaml(out: Out) -> bool:
    """Whether a definition itself is asked for, not what is made of it."""
    asked = out.form == "yaml" or (
        out.form is None and out.path is not None and out.path.suffix in o.FABRIC_SUFFIXES
    )
    if asked and out.columns is not None:
        raise ColltoolError(
            "a YAML file has no columns", argument="columns", fix="leave it out, or --format table"
        )
    return asked


def new_file(output: Path | None, what: str) -> Path | None:
    """Where a definition is written; ColltoolError for another suffix, or a file that is there."""
    path = o.to_file(output)
    if path is not None and path.suffix not in o.FABRIC_SUFFIXES:
        raise ColltoolError(
            f"{what} ends in .yaml, got {path}", argument="output", fix=f"name it {path.stem}.yaml"
        )
    if path is not None and os.path.exists(path):
        said = f"{path} is there already, and somebody may have filled it in"
        raise ColltoolError(said, argument="output", fix="name another file, or remove it first")
    return path


@command(fabric, "list", "The shipped fabrics.")
def list_fabrics(*, out: Out) -> None:
    """The shipped fabrics.

    Example:
      colltool fabric list
    """
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.fabric.results import FabricList

    out.emit(FabricList(tuple(map(load_fabric, shipped_fabrics()))))


@command(fabric, "show", "A fabric as a tree, with what follows from it.")
def show_fabric(
    fabric: o.FabricFile,
    set_: o.Set = None,
    *,
    out: Annotated[
        Out,
        Also(
            "yaml",
            "How to write it; yaml is a file that loads again. [default: table, or by the suffix"
            " of -o]",
        ),
    ],
) -> None:
    """A fabric's tiers as a tree, with diameter, bisection, link and switch counts, sizing and the
    bill of its parts.

    Examples:
      colltool fabric show nvl72
      colltool fabric show nvl72 --set ib.levels.spine.oversubscription=2
      colltool fabric show nvl72 --set ib.size=16 --format yaml -o mine.yaml
    """
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    if as_yaml(out):
        from colltool.fabric.templates import yaml_of

        write(yaml_of(fabric, set_ or ()), out.path)
        return
    loaded = colltool.load_fabric(fabric, set_ or ())
    out.emit(FabricShown(loaded, fabric_facts(loaded)))


@command(fabric, "draw", "A fabric as a drawing.")
def draw_fabric(
    fabric: o.FabricFile,
    set_: o.Set = None,
    *,
    out: Annotated[
        Out,
        Also("svg", "How to write it. [default: the tree of fabric show, or by the suffix of -o]"),
    ],
) -> None:
    """A fabric as a drawing: tiers, levels of switches, ports, oversubscription, lattices; in the
    terminal as a tree.

    Examples:
      colltool fabric draw nvl72 -o nvl72.svg
      colltool fabric draw clos-4to1 --set fabric.levels.core.oversubscription=2 -o half.svg
      colltool fabric draw torus512
    """
    suffix = out.path.suffix.lower() if out.path is not None else ""
    if out.form is None and out.path is not None and suffix not in (".svg", *BY_SUFFIX):
        fix = (
            f"name it {out.path.stem}.svg, or end it in {', '.join(filter(None, BY_SUFFIX))};"
            " --format writes any name"
        )
        raise ColltoolError(f"a drawing is an SVG file, got {out.path}", argument="output", fix=fix)
    drawn = colltool.draw_fabric(colltool.load_fabric(fabric, set_ or ()))
    if out.form != "svg" and (out.form is not None or suffix != ".svg"):
        out.emit(drawn)
        return
    if out.columns is not None:
        raise ColltoolError(
            "a drawing has no columns", argument="columns", fix="leave it out, or --format csv"
        )
    write(f'<?xml version="1.0" encoding="UTF-8"?>\n{drawn.svg}\n', out.path)


@command(fabric, "init", "Start a fabric file of your own.")
def init_fabric(
    source: Annotated[str | None, o.option("source"), o.READ] = None,
    tiers: Annotated[str | None, o.option("tiers")] = None,
    without: Annotated[str | None, o.option("without")] = None,
    set_: o.Set = None,
    output: Annotated[
        Path | None,
        o.option("output", "Where to write it. [default: the terminal]", metavar="OUT.yaml"),
        o.WRITTEN,
    ] = None,
) -> None:
    """A commented fabric file that checks: a template of nodes of 8 GPUs on leaf and spine, tiers
    on a line, or another fabric.

    A tier is NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA. The size of a torus or mesh is its shape, 8x8x4; a
    clos may list the groups of its levels bottom up, 8/32, with an alpha for each, 5us/11us. Behind
    them s=2 (oversubscription switch by switch, s=2/1.5 for three levels), eta=1.2/0.8 or ports=4
    may follow.

    Examples:
      colltool fabric init -o mine.yaml
      colltool fabric init --from dgx-h100 --set ib.size=128 -o mine.yaml
      colltool fabric init --tiers nvlink:star:8:450GB/s:0.8us,ib:clos:32:400Gbps:5us -o mine.yaml
      colltool fabric init --tiers nvlink:star:8:450GB/s:0.8us,eth:clos:4/32:400Gbps:5us/10us:s=2
      colltool fabric init --tiers ici:torus:8x8x4:45GB/s:1us
      colltool fabric init --tiers ici:torus:4x4:45GB/s:1us --without 5,0-1
    """
    from colltool.cli.values import parts
    from colltool.fabric.templates import fabric_start

    path = new_file(output, "a fabric file")
    failed = parts(without, "without")
    write(fabric_start(source, tiers, set_ or (), path.stem if path else "", failed), path)


@command(fabric, "import", "A fabric file from a real machine.", network_nodes="--nodes")
def import_fabric(
    dumps: Annotated[list[str], o.option("dumps"), o.READ],
    like: Annotated[str | None, o.option("like"), o.READ] = None,
    nodes: Annotated[int | None, o.option("network_nodes")] = None,
    output: Annotated[
        Path | None,
        o.option("output", "Where to write it. [default: the terminal]", metavar="OUT.yaml"),
        o.WRITTEN,
    ] = None,
) -> None:
    """A fabric file from what a tool tells of a machine; latencies, which none tells, are marked
    and those of the nearest fabric.

    KIND is nccl-topo (the XML of NCCL_TOPO_DUMP_FILE: one node, or all of an NVLink domain),
    nvidia-smi-topo (topo -m, best below that of nvidia-smi -L), ibnetdiscover (a subnet, which must
    be a Clos) or infragraph (both at once, YAML or JSON). A node and a network together make both
    tiers.

    Examples:
      colltool fabric import nccl-topo node.xml --nodes 64 -o mine.yaml
      colltool fabric import nccl-topo node.xml ibnetdiscover net.txt -o mine.yaml
      colltool fabric import nvidia-smi-topo topo.txt --like dgx-h100 -o mine.yaml
      colltool fabric import infragraph network.yaml -o mine.yaml
    """
    from colltool.imports.read import imported

    path = new_file(output, "a fabric file")
    write(imported(dumps, name=path.stem if path else "", like=like, nodes=nodes), path)


@command(fabric, "check", "Validate fabric files.")
def check_fabrics(
    files: Annotated[
        list[str],
        o.option("files", "Fabric files, or names of shipped ones.", offers="fabric"),
        o.READ,
    ],
    *,
    out: Out,
) -> None:
    """Validate fabric files: what was read, what is odd about it, every error of every file with
    its line and column.

    Example:
      colltool fabric check my-cluster.yaml other.yaml
    """
    from colltool.fabric.lint import check_fabric
    from colltool.fabric.results import FabricsChecked

    out.emit(each_checked(files, lambda file: check_fabric(file, file), FabricsChecked))


@command(
    fabric, "size", "Switches, cables and cost of a Clos, dragonfly or HyperX.", overrides="--price"
)
def size_fabric(
    endpoints: Annotated[int | None, o.option("endpoints")] = None,
    radix: Annotated[int | None, o.option("radix")] = None,
    fat_tree: Annotated[int | None, o.option("fat_tree")] = None,
    levels: Annotated[int | None, o.option("levels")] = None,
    oversubscription: Annotated[str | None, o.option("oversubscription")] = None,
    rails: Annotated[int, o.option("rails")] = 1,
    ports_per_endpoint: Annotated[int, o.option("ports_per_endpoint")] = 1,
    topology: Annotated[str | None, o.option("sized")] = None,
    prices: Annotated[str | None, o.option("prices"), o.READ] = None,
    price: Annotated[o.Several, o.option("price")] = None,
    *,
    out: Out,
) -> None:
    """How many switches, cables and optics a Clos, a dragonfly or a HyperX takes, and what they
    cost.

    Whole switches, each wired evenly to those above: where that takes more than ports alone ask
    for, a note says so. The oversubscription is hop by hop: downlinks over uplinks of a switch, so
    that 2,2 is 4:1 against the endpoints.

    A dragonfly or HyperX has one ratio: at 1 every cable keeps up when all send alike to all, which
    needs half of the bisection of a Clos. It is the shape of fewest switches among all, shown
    beside the Clos.

    Examples:
      colltool fabric size --fat-tree 64
      colltool fabric size --endpoints 32 --ports-per-endpoint 72 --rails 4 --radix 144
      colltool fabric size --endpoints 16384 --radix 64 --oversubscription 1,2
      colltool fabric size --endpoints 4096 --radix 64 --topology dragonfly
      colltool fabric size --endpoints 2048 --radix 64 --price currency=USD --price switch=30000
      --price optic=600
    """
    result = colltool.size_fabric(
        endpoints,
        radix,
        fat_tree=fat_tree,
        levels=levels,
        oversubscription=oversubscription or (),
        rails=rails,
        ports_per_endpoint=ports_per_endpoint,
        topology=topology or "clos",
        prices=prices,
        overrides=price or (),
    )
    out.emit(result)


@command(fabric, "schema", "The JSON Schema of fabric files.")
def fabric_schema(output: o.Output = None) -> None:
    """The JSON Schema of fabric files, for completion and checks in an editor.

    Example:
      colltool fabric schema -o fabric.schema.json
    """
    from colltool.fabric.model import Fabric

    o.write_schema(Fabric, "fabric", output)


@command(job, "list", "The shipped jobs.")
def list_jobs(*, out: Out) -> None:
    """The shipped jobs.

    Example:
      colltool job list
    """
    from colltool.training.files.presets import preset_names
    from colltool.training.job import load_job
    from colltool.training.job_results import JobList

    out.emit(JobList(tuple(load_job(name) for name in preset_names("jobs"))))


@command(job, "init", "Start a job file from a model.")
def init_job(
    model: Annotated[str, o.option("model"), o.READ],
    fabric: Annotated[
        str | None,
        o.option("fabric", "Also search the layout for this fabric.", offers="fabric"),
        o.READ,
    ] = None,
    ranks: Annotated[
        int | None, o.option("ranks", "Ranks of the job on the fabric. [default: all of it]")
    ] = None,
    set_: Annotated[o.Several, o.option("job_overrides", flags="--set")] = None,
    output: Annotated[
        Path | None,
        o.option("output", "Where to write it. [default: the terminal]", metavar="OUT.yaml"),
        o.WRITTEN,
    ] = None,
) -> None:
    """A job file for a shipped model or a config.json of Hugging Face: usual sequence and batch,
    and on a fabric a layout.

    Examples:
      colltool job init llama3-8b -o my-job.yaml
      colltool job init config.json -f dgx-h100 -n 64 --set batch.global=256 -o my-job.yaml
    """
    from colltool.training.job_text import job_start

    if ranks is not None and fabric is None:
        raise ColltoolError("of which fabric", argument="ranks", fix="add --fabric dgx-h100")
    path = new_file(output, "a job file")
    write(
        job_start(
            model, colltool.load_fabric(fabric) if fabric is not None else None, ranks, set_ or ()
        ),
        path,
    )


@command(job, "show", "What a job computes, sends and keeps.")
def show_job(
    job: o.JobFile,
    ranks: Annotated[
        int | None,
        o.option(
            "job_ranks", "Ranks of the job. [default: those of its layout, where dp is a number]"
        ),
    ] = None,
    set_: Annotated[o.Several, o.option("job_overrides", flags="--set")] = None,
    *,
    out: Annotated[
        Out,
        Also(
            "yaml",
            "How to write it; yaml is a file that loads again. [default: table, or by the suffix"
            " of -o]",
        ),
    ],
) -> None:
    """A job on so many ranks: its groups, the collectives of a step, compute of a micro-batch,
    memory by part. No network yet.

    Examples:
      colltool job show llama3-70b -n 512
      colltool job show llama3-70b -n 512 --set layout.tp=4 --set recompute=full
      colltool job show llama3-70b --set layout.tp=4 --format yaml -o mine.yaml
    """
    from colltool.training.job import load_job
    from colltool.training.job_results import show_job as shown

    loaded = load_job(job, set_ or ())
    if as_yaml(out):
        from colltool.training.job_text import job_text

        write(job_text(loaded), out.path)
        return
    out.emit(shown(loaded, ranks))


@command(job, "check", "Validate job files.")
def check_jobs(
    files: Annotated[
        list[str], o.option("files", "Job files, or names of shipped ones.", offers="job"), o.READ
    ],
    *,
    out: Out,
) -> None:
    """Validate job files: what was read, what is odd about it, every error of every file with its
    line and column.

    Example:
      colltool job check my-job.yaml gpt3-175b
    """
    from colltool.training.job_results import JobsChecked, check_job

    out.emit(each_checked(files, check_job, JobsChecked))


@command(job, "schema", "The JSON Schema of job files.")
def job_schema(output: o.Output = None) -> None:
    """The JSON Schema of job files, for completion and checks in an editor.

    Example:
      colltool job schema -o job.schema.json
    """
    from colltool.training.files.job import JobFile

    o.write_schema(JobFile, "job", output)


@command()
def schema(
    name: Annotated[str | None, o.option("document")] = None,
    output: o.Output = None,
) -> None:
    """The JSON Schema of what a command prints with --format json, or of a kind of files; without
    NAME the list of them.

    Examples:
      colltool schema
      colltool schema price
      colltool schema fabric -o fabric.schema.json
    """
    from colltool.render.dispatch import to_json
    from colltool.render.schemas import FILE_KINDS, asked_by, documents, schema_of

    if name is not None:
        write(
            to_json(schema_of(name.removeprefix("colltool.").removesuffix("/1").replace(" ", "-"))),
            output,
        )
        return
    wide = max(map(len, documents()))
    printed = [f"  {one:<{wide}}  colltool {asked_by(one)}" for one in documents()]
    read = [f"  {one:<{wide}}  files of this kind" for one in FILE_KINDS]
    write("\n".join(["printed with --format json:", *printed, "", "read:", *read, ""]), output)


def _write_site(folder: Path) -> None:
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.render.site import site

    for name, text in site([load_fabric(one) for one in shipped_fabrics()]):
        write_bytes(folder / name, text.encode(), "site", folder=(folder / name).parent)
    write(f"{folder / 'index.html'}\n", None)


@command()
def guide(
    topic: Annotated[str | None, o.option("topic", words=TOPICS)] = None,
    html: Annotated[Path | None, o.option("site"), o.WRITTEN] = None,
    no_pager: Annotated[bool, o.option("no_pager")] = False,
    output: o.Output = None,
) -> None:
    """The manual, a chapter a topic: set for a terminal and its pager, Markdown in a pipe or file,
    or all of it as a site.

    Examples:
      colltool guide
      colltool guide fabrics
      colltool guide model -o model.md
      colltool guide --html site
    """
    if html is not None:
        if topic is not None:
            what, fix = (
                "is of the whole manual, not of one topic",
                f"write {given('site', str(html))} without {topic}",
            )
            raise ColltoolError(
                what, argument="site", fix=f"{fix}, or colltool guide {topic} -o {topic}.md"
            )
        _write_site(html)
        return
    from colltool.guides import contents, read_guide

    text, file = contents() if topic is None else read_guide(topic), o.to_file(output)
    if file is not None or sys.stdout is None or not sys.stdout.isatty():
        write(text, file)
        return
    from colltool.render.text import to_guide

    screen = screen_of(to_file=False)
    text = to_guide(text, screen)
    if no_pager or text.count("\n") < os.get_terminal_size().lines or not screen.unicode:
        write(text, None)
        return
    import pydoc

    # colours as they are, wide outputs cut and not wrapped: arrow keys show the rest
    os.environ.setdefault("LESS", "-RFS")
    pydoc.pager(text)
