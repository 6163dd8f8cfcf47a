"""Functions that only tools of the MCP server have: lists, one part of a fabric or a job, and files
for other programs as text. Which tool calls which is in ``tools.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, quote

if TYPE_CHECKING:
    from colltool.base.files import AnyPath
    from colltool.base.result import Result
    from colltool.commands.public_options import AnyShape
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.load import FabricSource


def list_fabrics() -> Result:
    """The shipped fabrics, what each is, and its size."""
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.fabric.results import FabricList

    return FabricList(tuple(map(load_fabric, shipped_fabrics())))


def show_fabric(fabric: FabricSource, overrides: Overrides = ()) -> Result:
    """A fabric's tiers, with diameter, bisection, links and switches, sizing and the bill of its
    parts; and its file."""
    from colltool.fabric.load import load_fabric
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    loaded = load_fabric(fabric, overrides)
    return FabricShown(loaded, fabric_facts(loaded))


def show_channels(topology_file: AnyPath, nodes: int = 1, library: str | None = None) -> Result:
    """The channels that NCCL, or ``nccl@RELEASE``, finds on so many nodes like that of a topology
    file."""
    from colltool.commands.fabric import release_of
    from colltool.commands.reading import count_of, path_of
    from colltool.libraries.nccl.topology.results import channels_found

    file = path_of(topology_file, "topology_file", "a topology file", "node.xml")
    return channels_found(file, count_of(nodes, "nodes"), release_of(library))


def list_jobs() -> Result:
    """The shipped training jobs, and their models."""
    from colltool.training.files.presets import preset_names
    from colltool.training.job import load_job
    from colltool.training.job_results import JobList

    return JobList(tuple(load_job(name) for name in preset_names("jobs")))


def show_job(job: FabricSource, ranks: int | None = None) -> Result:
    """A training job on so many ranks: its groups, the collectives of a step, compute, memory by
    part. No network yet."""
    from colltool.training.job import Job, load_job
    from colltool.training.job_results import show_job as shown

    return shown(job if isinstance(job, Job) else load_job(job), ranks)


def nccl_tuner(
    fabric: FabricSource,
    ranks: Sequence[int] | int = (),
    *,
    stride: int = 1,
    alone: bool = False,
    env: bool = False,
) -> str:
    """What NCCL should run at which size, as a file for its example tuner plugin, or with env as
    NCCL_ALGO."""
    from colltool.base.extras import extra
    from colltool.commands.reading import count_of, each_of, flag_of
    from colltool.commands.requests import fabric_of
    from colltool.estimate.placement import GroupSpec

    # as the command: where no number is sent, all ranks are one group
    counts = [count_of(count, "ranks", least=2) for count in each_of(ranks)]
    every = count_of(stride, "stride", least=1)
    is_alone = flag_of(alone, "alone")
    groups = [GroupSpec(count, every, is_alone) for count in counts or (None,)]
    tuner = extra("interop.nccl_tuner")
    text_of = tuner.tuner_env if flag_of(env, "env") else tuner.tuner_config
    return str(text_of(fabric_of(fabric), groups))


def astra_sim(
    fabric: FabricSource,
    ranks: int | None = None,
    *,
    size: str | float | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    ideal: bool = False,
) -> str:
    """A group for ASTRA-sim's analytical network, as one text: network.yml and system.json, each under
    its name as a comment, and how to run them."""
    from colltool.base.extras import extra
    from colltool.commands.reading import count_if, count_of, flag_of, shape_of, size_of
    from colltool.commands.requests import fabric_of
    from colltool.estimate.placement import GroupSpec

    group = GroupSpec(
        count_if(ranks, "ranks", least=2),
        count_of(stride, "stride", least=1),
        flag_of(alone, "alone"),
        shape_of(shape),
    )
    bytes_ = None if size is None else size_of(size)
    loaded = fabric_of(fabric)
    is_ideal = flag_of(ideal, "ideal")
    interop = extra("interop.astra_sim")
    texts = interop.astra_sim(loaded, group, is_ideal, bytes_)
    files = [f"# {name}\n{text}" for name, text in texts.items()]
    return "\n".join([*files, *interop.usage_notes(loaded, group, is_ideal, bytes_)])


def guide(topic: str | None = None, section: str | None = None, *, detail: bool = False) -> str:
    """A chapter of the manual as Markdown, or one section of it; without a topic, what each is
    about."""
    from colltool.commands.reading import flag_of
    from colltool.commands.tool_answers import brief_chapter
    from colltool.guides import TOPICS, about, read_guide

    if topic is None:
        lines = [f"- {topic}: {about(topic)}" for topic in TOPICS]
        return "\n".join(["# Guides", "", *lines, "", _READ_COMMANDS, ""])
    if not isinstance(topic, str):
        raise ColltoolError(
            f"expected a topic, got {quote(topic)}",
            argument="topic",
            fix=f"topics: {', '.join(TOPICS)}",
        )
    return brief_chapter(read_guide(topic), section, detail=flag_of(detail, "detail"))


_READ_COMMANDS = """\
Commands in them are tools here: `colltool price ar -f nvl72 -n 144 -M 16MB` is price with
{"primitive": "ar", "fabric": "nvl72", "ranks": 144, "size": "16MB"}."""
