"""The tools of the MCP server: twelve questions, each answered by one public function or by one of
several that are akin.

``what`` chooses among the functions of a tool where the arguments do not tell. :func:`input_schema`
has the arguments that people need; :func:`call_tool` takes all that the function takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import OPTIONS, ColltoolError, clipped, nearest, quote
from colltool.commands.tool_arguments import (
    Parameter,
    arguments_of,
    named,
    shaped,
    variants,
)
from colltool.estimate.assumptions import checked

if TYPE_CHECKING:
    from colltool.base.files import AnyPath
    from colltool.base.result import Result
    from colltool.commands.public_options import AnyShape
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.load import FabricSource

Schema = dict[str, Any]
THIS_MODULE = __name__
_OF_SEVERAL = "sensitivities"
MAX_VALUES = 1000  # of one argument: every value of a list is priced


class Kind(NamedTuple):
    """One of the functions of a tool.

    Args:
        function: ``module:name``.
        signs: arguments that only this one takes, by which it is chosen without ``what``.
        several: whether several fabrics choose it.
        top: whether it also takes ``top``, to cut the answer to its first rows.
        drops: arguments that choose it and that it does not take itself.
    """

    function: str
    signs: tuple[str, ...] = ()
    several: bool = False
    top: bool = False
    drops: tuple[str, ...] = ()

    @property
    def call(self) -> Callable[..., Any]:
        """The function itself."""
        function: Callable[..., Any] = resolve_name(self.function)
        return function

    @property
    def arguments(self) -> dict[str, Parameter]:
        """All that it takes, by name."""
        return arguments_of(self.call, top=self.top)


class Tool(NamedTuple):
    """A question that an assistant may ask.

    Args:
        about: what it answers.
        kinds: its functions by ``what``; the first is the default.
        shown: the arguments that its schema has; with ``!`` where it needs them.
    """

    about: str
    kinds: dict[str, Kind]
    shown: str

    @property
    def listed(self) -> list[str]:
        """The arguments that its schema has."""
        return [name.rstrip("!") for name in self.shown.split()]

    @property
    def required(self) -> list[str]:
        """Those that a call needs."""
        return [name[:-1] for name in self.shown.split() if name.endswith("!")]

    @property
    def unlisted(self) -> list[str]:
        """Arguments that are taken too, in the order of the functions."""
        found: dict[str, None] = {}
        for kind in self.kinds.values():
            found |= dict.fromkeys(kind.arguments)
        found.pop("detail", None)
        same = {word for name in self.listed for word in variants(name)}
        return [name for name in found if name not in same]


TOOLS = {
    "price": Tool(
        "What a collective costs on a fabric: every algorithm that can run, fastest first, and what"
        " the library picks. Without sizes: the winner at six sizes from 1 KB to 1 GB. Kernels of"
        " expert parallelism: primitive dispatch or combine, with tokens, experts and library.",
        {"price": Kind("colltool:price_list", top=True)},
        "fabric! primitive! sizes ranks algorithms library mode overrides readings top"
        " algorithm_files",
    ),
    "crossover": Tool(
        "The sizes at which the fastest algorithm changes, and what the library picks on each side.",
        {"crossover": Kind("colltool:crossover")},
        "fabric! primitive ranks algorithms library mode overrides readings",
    ),
    "breakdown": Tool(
        "Where the time of one collective goes: each phase with its tier, latency and bandwidth,"
        " next to the flat algorithms.",
        {"breakdown": Kind("colltool:breakdown")},
        "fabric! primitive! size! ranks algorithm library overrides readings",
    ),
    "compare": Tool(
        "Which fabric, value or library is faster, and from which size. compare: fabrics, or values"
        " of one key (vary), against the first one. sweep: a grid of ranks, sizes and values."
        " sensitivity: which unknown number decides the winner (one size; several fabrics: which"
        " is faster). diff: two JSON answers of one tool. libraries: two libraries (old, new) on"
        " one fabric.",
        {
            "compare": Kind("colltool:compare"),
            "sweep": Kind("colltool:sweep", ("limit",)),
            "sensitivity": Kind("colltool:sensitivity", ("samples", "seed")),
            _OF_SEVERAL: Kind("colltool:compare_sensitivity"),
            "libraries": Kind("colltool:diff_libraries"),
            "diff": Kind("colltool:diff", ("old", "new")),
        },
        "what fabrics primitives sizes ranks vary overrides algorithms readings old new",
    ),
    "explain": Tool(
        "How a number is derived. algorithm: the formula, its source, what it assumes, who ships"
        " it, with the numbers of a fabric. algorithms: all of them. verify: formulas against schedules executed message by"
        " message. contention: what a layout of groups on a fabric costs. ladder: the reference"
        " table of 512 ranks, with and without contention. score: how far prices, or predictions"
        " in a CSV, are off on published measurements.",
        {
            "algorithms": Kind("colltool.commands.explain:list_algorithms"),
            "algorithm": Kind("colltool:explain", ("algorithm",)),
            "contention": Kind("colltool:contention", ("layout", "matrix", "hot", "zipf")),
            "ladder": Kind("colltool:ladder", ("definition",)),
            "score": Kind("colltool:score", ("predictions",)),
            "verify": Kind("colltool:verify", ("segments",)),
        },
        "what algorithm primitive fabric ranks size layout definition overrides readings",
    ),
    "plan": Tool(
        "What a training step costs on a fabric: time, exposed communication, tokens/s, memory, and"
        " what to change. search: the fastest layouts (keep pins parts). compare: several fabrics."
        " sensitivity: which number decides the step (vary). traces: steps from Chakra traces"
        " (files). jobs, job: shipped jobs; one job without a network.",
        {
            "plan": Kind("colltool:plan"),
            "search": Kind(
                "colltool:search_layouts", ("keep", "search", "headroom"), drops=("search",)
            ),
            "compare": Kind("colltool:compare_plans", several=True),
            "sensitivity": Kind("colltool:plan_sensitivity", ("vary", "samples", "seed")),
            "traces": Kind("colltool:plan_traces", ("files",)),
            "jobs": Kind(f"{THIS_MODULE}:list_jobs"),
            "job": Kind(f"{THIS_MODULE}:show_job"),
        },
        "what job fabric fabrics ranks overrides job_overrides keep top vary files readings",
    ),
    "serve": Tool(
        "What serving a model costs: network time per decode step and prefill, the lower limit by"
        " memory and compute, kernels. search: true finds the layout. reshard: new weights to servers"
        " (receivers). libraries, library: engines with measured kernels.",
        {
            "serve": Kind("colltool:serve"),
            "reshard": Kind("colltool:reshard", ("receivers", "senders", "replica", "way")),
            "libraries": Kind("colltool:list_libraries"),
            "library": Kind("colltool:show_library"),
        },
        "what job fabric tp ep pp dp batch isl osl engine weights search ranks receivers library"
        " overrides",
    ),
    "fabric": Tool(
        "Networks. list: the shipped fabrics. show: tiers, diameter, bisection,"
        " switches and cost of one. size: switches and cables for endpoints."
        " draw: a picture (SVG). expect: what nccl-tests should reach, and a gate's floor. channels:"
        " NCCL's, of topology_file.",
        {
            "list": Kind(f"{THIS_MODULE}:list_fabrics"),
            "show": Kind(f"{THIS_MODULE}:show_fabric", ("fabric",)),
            "size": Kind(
                "colltool:size_fabric", ("endpoints", "radix", "fat_tree", "oversubscription")
            ),
            "draw": Kind("colltool:draw_fabric"),
            "expect": Kind("colltool:expect", ("test", "share")),
            "channels": Kind(f"{THIS_MODULE}:show_channels", ("topology_file",)),
        },
        "what fabric overrides test ranks sizes share endpoints radix oversubscription topology rails prices"
        " topology_file",
    ),
    "doctor": Tool(
        "What is wrong with a machine or a run, from logs of nccl-tests, rccl-tests or OSU, or"
        " profiler traces: expected against measured, and the likely causes (of"
        " NCCL's channels, too, with topology_file). validate: how far off the model is. trace: a"
        " profiled step against the model.",
        {
            "doctor": Kind("colltool:doctor"),
            "validate": Kind("colltool:validate", ("max_mape",)),
            "trace": Kind("colltool:trace", ("placed",)),
        },
        "what logs! fabric ranks nodes primitive expect topology_file against overrides readings",
    ),
    "calibrate": Tool(
        "Put the logs of your machine on top of a fabric: machine_text is a machine"
        " file; send it as machine to price and others. machine_only: false fits a fabric (text, with detail).",
        {"calibrate": Kind("colltool:calibrate")},
        "fabric! logs! ranks nodes primitive tier name overrides",
    ),
    "report": Tool(
        "report: every question on one fabric, against others, with a job."
        " nccl_tuner: a file for NCCL's tuner plugin (env: as NCCL_ALGO). astra_sim: input of"
        " ASTRA-sim.",
        {
            "report": Kind("colltool:report"),
            "nccl_tuner": Kind(f"{THIS_MODULE}:nccl_tuner", ("env",)),
            "astra_sim": Kind(f"{THIS_MODULE}:astra_sim"),
        },
        "what fabric! against vary job logs ranks size primitives overrides job_overrides env",
    ),
    "guide": Tool(
        "How to write fabrics, jobs and layouts, what a price counts, how accurate it"
        " is. No topic: what each is about.",
        {"guide": Kind(f"{THIS_MODULE}:guide")},
        "topic section",
    ),
}
"""Tools by name."""

ALIASES = {
    "sweep": ("compare", "sweep"),
    "sensitivity": ("compare", "sensitivity"),
    "compare_sensitivity": ("compare", _OF_SEVERAL),
    "diff": ("compare", "diff"),
    "diff_libraries": ("compare", "libraries"),
    "list_algorithms": ("explain", "algorithms"),
    "ladder": ("explain", "ladder"),
    "score": ("explain", "score"),
    "contention": ("explain", "contention"),
    "verify": ("explain", "verify"),
    "compare_plans": ("plan", "compare"),
    "plan_sensitivity": ("plan", "sensitivity"),
    "plan_traces": ("plan", "traces"),
    "search_layouts": ("plan", "search"),
    "list_jobs": ("plan", "jobs"),
    "show_job": ("plan", "job"),
    "reshard": ("serve", "reshard"),
    "list_libraries": ("serve", "libraries"),
    "show_library": ("serve", "library"),
    "expect": ("fabric", "expect"),
    "list_fabrics": ("fabric", "list"),
    "show_fabric": ("fabric", "show"),
    "draw_fabric": ("fabric", "draw"),
    "size_fabric": ("fabric", "size"),
    "show_channels": ("fabric", "channels"),
    "validate": ("doctor", "validate"),
    "trace": ("doctor", "trace"),
    "nccl_tuner": ("report", "nccl_tuner"),
    "astra_sim": ("report", "astra_sim"),
}
"""Names of functions, under which tools are called too: the tool and its ``what``."""


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
    """The channels that NCCL, or nccl@RELEASE, finds on so many nodes like that of a topology
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

    counts = [count_of(count, "ranks", least=2) for count in each_of(ranks)]
    step = count_of(stride, "stride", least=1)
    idle = flag_of(alone, "alone")
    groups = [GroupSpec(count, step, idle) for count in counts or (None,)]
    tuner = extra("interop.nccl_tuner")
    written = tuner.tuner_env if flag_of(env, "env") else tuner.tuner_config
    return str(written(fabric_of(fabric), groups))


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
    """The same group for ASTRA-sim's analytical network: network.yml and system.json, and what to
    know of them."""
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
    given = (fabric_of(fabric), group, flag_of(ideal, "ideal"), bytes_)
    interop = extra("interop.astra_sim")
    files = [f"# {name}\n{text}" for name, text in interop.astra_sim(*given).items()]
    return "\n".join([*files, *interop.usage_notes(*given)])


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
        what = f"expected a topic, got {quote(topic)}"
        raise ColltoolError(what, argument="topic", fix=f"topics: {', '.join(TOPICS)}")
    return brief_chapter(read_guide(topic), section, detail=flag_of(detail, "detail"))


_READ_COMMANDS = """\
Commands in them are tools here: `colltool price ar -f nvl72 -n 144 -M 16MB` is price with
{"primitive": "ar", "fabric": "nvl72", "ranks": 144, "size": "16MB"}."""
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_NUMBER: Schema = {"type": "number"}
_FLAG: Schema = {"type": "boolean"}
_OBJECT: Schema = {"type": "object"}
_CONFIG: Schema = {"type": ["string", "object"]}
_TEXTS: Schema = {"type": ["string", "array"], "items": {"type": "string"}}
_VALUES: Schema = {"type": ["array", "object", "string"], "items": {"type": "string"}}
_CONFIGS: Schema = {"type": ["string", "object", "array"], "items": {}}
_RANKS: Schema = {"type": ["integer", "array"], "items": {"type": "integer"}}
_SIZE: Schema = {"type": ["string", "number"]}
_SIZES: Schema = {"type": ["string", "number", "array"], "items": {}}
_SHAPES: dict[str, tuple[Schema, str]] = {
    "fabric": (_CONFIG, "Name (nvl72, dgx-h100:nodes=16), file, its text or content."),
    "fabrics": (_CONFIGS, "One or several, as fabric; the first is the baseline."),
    "serve.fabric": (_CONFIGS, "As in price; several are compared."),
    "report.against": (_CONFIGS, "Fabrics to compare it with."),
    "primitive": (_TEXT, "ar (all-reduce), ag, rs, a2a, bc, reduce or p2p."),
    "primitives": (_TEXTS, "ar (all-reduce), ag, rs, a2a, bc, reduce, p2p; one or several."),
    "size": (_SIZE, "Bytes per rank: 16MB is 10^6, 16MiB 2^20."),
    "sizes": (_SIZES, 'Bytes per rank: "16MB", ["1MB", "1GB"] or "1K-1G".'),
    "ranks": (_COUNT, "GPUs; default: all."),
    "doctor.ranks": (_COUNT, "GPUs, where a log does not say."),
    "calibrate.ranks": (_COUNT, "GPUs, where a log does not say."),
    "serve.ranks": (_COUNT, "GPUs of a search; default: all of the fabric."),
    "compare.ranks": (_RANKS, "GPUs, one count or several."),
    "algorithm": (_TEXT, "Tree, Ring, NVLSTree, hierarchical:ring/ring ..."),
    "algorithms": (_TEXTS, "Only these: Tree, Ring, NVLSTree ..."),
    "algorithm_files": (_CONFIGS, "Your own schedule: MSCCL XML, MSCCL++ JSON or YAML."),
    "library": (_TEXT, "nccl, rccl, mpi, xla, all, or an engine (vllm@0.24.0)."),
    "mode": (_TEXT, "Engines: graph (default) or eager."),
    "overrides": (_VALUES, 'Values: ["ib.bandwidth=50GB/s"] or by key.'),
    "job_overrides": (_VALUES, 'Values of the job: ["layout.tp=4"] or by key.'),
    "readings": (_OBJECT, 'Model options: {"ideal": true} (guide model).'),
    "top": (_COUNT, "Number of rows."),
    "vary": (_TEXTS, 'A key with its values: "ib.bandwidth=25GB/s,50GB/s".'),
    "old": (_CONFIG, "The earlier answer, or a library (nccl@2.30)."),
    "new": (_CONFIG, "The later answer, or a library."),
    "layout": (_CONFIG, "Groups that run at once: {kind: block, group: 8, count: 4}."),
    "definition": (_TEXT, "n512, or a ladder file or its text."),
    "job": (_CONFIG, "Name (llama3-70b), YAML job or config.json: file, text or content."),
    "keep": (_VALUES, 'Pinned parts of the layout: ["tp=8", "pp=4"].'),
    "files": (_TEXTS, "Chakra traces."),
    "tp": (_COUNT, "Tensor parallel."),
    "ep": (_COUNT, "Expert parallel."),
    "pp": (_COUNT, "Pipeline parallel."),
    "dp": (_COUNT, "Replicas."),
    "batch": (_COUNT, "Sequences decoded at once."),
    "isl": (_COUNT, "Input tokens per request."),
    "osl": (_COUNT, "Output tokens per request."),
    "engine": (_TEXT, "vllm@0.24.0 (serve, what libraries lists all)."),
    "weights": (_TEXT, "bf16, fp8, nvfp4 ..."),
    "search": (_FLAG, "Find the best layout."),
    "receivers": (_COUNT, "Ranks that receive new weights."),
    "endpoints": (_COUNT, "Ports to connect."),
    "radix": (_COUNT, "Ports per switch."),
    "oversubscription": (_SIZE, "At the top: 3, or 3:1."),
    "topology": (_TEXT, "clos (default), dragonfly, dragonfly_plus, hyperx."),
    "rails": (_COUNT, "Parallel networks (rails)."),
    "prices": (_CONFIG, "Price of a switch, cable, optic: content or file."),
    "logs": (_CONFIGS, "The text of a log, a list of them, an object {host: text}, or files."),
    "nodes": (_COUNT, "Nodes, where a log does not say."),
    "expect": (_NUMBER, "Share of the expected bandwidth that passes: 0.8."),
    "against": (_CONFIGS, "Of trace: traces of an earlier run."),
    "test": (_TEXTS, "all_reduce, alltoall ..., or all."),
    "share": (_NUMBER, "Of healthy machines that pass: 0.95."),
    "topology_file": (
        _CONFIG,
        "XML that NCCL_TOPO_DUMP_FILE wrote.",
    ),
    "tier": (_TEXT, "The tier to fit."),
    "name": (_TEXT, "Name of the result."),
    "env": (_FLAG, "As NCCL_ALGO instead of a file."),
    "topic": (_TEXT, "questions, model, fabrics, jobs, serving, accuracy ..."),
    "section": (_TEXT, "The first words of a heading."),
}
"""The schema of an argument and what it means; ``tool.argument`` where a tool differs."""
_WHAT = "Which question; by default the one that the arguments ask."
_DETAIL: Schema = {"type": "boolean", "description": "All of it, not 8 KB."}


def input_schema(name: str) -> Schema:
    """The JSON Schema of the arguments of a tool that people need."""
    tool = TOOLS[name]
    properties: Schema = {}
    for argument in tool.listed:
        if argument == "what":
            properties[argument] = {"enum": _questions(tool), "description": _WHAT}
            continue
        schema, text = _SHAPES.get(f"{name}.{argument}") or _SHAPES[argument]
        properties[argument] = {**schema, "description": text}
    properties["detail"] = _DETAIL
    return {"type": "object", "properties": properties, "required": tool.required}


def _questions(tool: Tool) -> list[str]:
    """The values of ``what``; several fabrics choose among sensitivities by themselves."""
    return [what for what in tool.kinds if what != _OF_SEVERAL]


def description_of(name: str) -> str:
    """What a tool answers, and which arguments it takes beside those of its schema."""
    also = TOOLS[name].unlisted
    return TOOLS[name].about + (f" Also taken: {', '.join(also)}." if also else "")


def find_kind(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """The tool of a name and the ``what`` of a call.

    Raises:
        ColltoolError: no such tool or ``what``.
    """
    tool_name, what = ALIASES.get(name, (name, None))
    if tool_name not in TOOLS:
        hint = nearest(name, [*TOOLS, *ALIASES])
        fix = f"{hint} tools: {', '.join(TOOLS)}".strip()
        raise ColltoolError(f"no tool '{clipped(name)}'", fix=fix)
    kinds = TOOLS[tool_name].kinds
    asked = what or arguments.get("what")
    if asked is None:
        return tool_name, _what_of(kinds, arguments)
    if isinstance(asked, str):
        # the function's own name says the same
        asked = ALIASES.get(asked.replace(" ", "_"), (tool_name, asked))[1]
    if asked == "sensitivity" and _OF_SEVERAL in kinds and _are_several(arguments):
        asked = _OF_SEVERAL
    if not isinstance(asked, str) or asked not in kinds:
        fix = f"what is one of: {', '.join(_questions(TOOLS[tool_name]))}"
        raise ColltoolError(f"unknown question {quote(asked)}", argument="what", fix=fix)
    return tool_name, asked


def _what_of(kinds: dict[str, Kind], arguments: Mapping[str, Any]) -> str:
    """The function that the arguments ask for."""
    given: set[str] = set()
    for name, value in arguments.items():
        if value is not None:
            given.update(variants(name))
    default = list(kinds)[0]  # noqa: RUF015
    if default == "compare" and "old" in given:
        return "libraries" if "fabric" in given else "diff"
    if default == "compare" and {"samples", "seed"} & given and _are_several(arguments):
        return _OF_SEVERAL
    # what is asked for last, such as a size beside a fabric, is the most special
    for what in reversed(kinds):
        kind = kinds[what]
        if given.intersection(kind.signs) or (kind.several and _are_several(arguments)):
            return what
    return default


def _are_several(arguments: Mapping[str, Any]) -> bool:
    """Whether more than one fabric is given."""
    fabrics = arguments.get("fabrics", arguments.get("fabric"))
    if isinstance(fabrics, str) and ":" not in fabrics and "\n" not in fabrics:
        return "," in fabrics
    return isinstance(fabrics, list) and len(fabrics) > 1


def call_tool(name: str, arguments: Mapping[str, Any]) -> Result | str:
    """Call a tool, and return its result or text.

    Raises:
        ColltoolError: no such tool or argument, or what the function finds wrong with one.
    """
    tool_name, what = find_kind(name, arguments)
    tool = TOOLS[tool_name]
    kind = tool.kinds[what]
    rest = {key: value for key, value in arguments.items() if key not in ("what", *kind.drops)}
    known = kind.arguments
    if "detail" not in known:
        rest.pop("detail", None)
    given = named(tool_name, rest, known, ", ".join(dict.fromkeys([*tool.listed, *known])))
    given = {
        key: shaped(known[key], value) if key in known else value for key, value in given.items()
    }
    _refuse_many(given)
    for argument in known.values():
        if argument.is_required and argument.name not in given:
            raise ColltoolError(
                f"{argument.name} is missing", fix=_how_to_give(tool_name, argument)
            )
    # price_list has no top: as in the command, the answer is cut afterwards
    top = given.pop("top", None) if kind.top else None
    answer: Result | str = kind.call(**_loaded(kind, given))
    if top is None or isinstance(answer, str):
        return answer
    from colltool.commands.price import fastest
    from colltool.commands.reading import count_of

    return fastest(answer, count_of(top, "top"))  # type: ignore[arg-type]


def _refuse_many(given: Mapping[str, Any]) -> None:
    """Raise ColltoolError for more than :data:`MAX_VALUES` values of one argument."""
    for argument, value in given.items():
        if isinstance(value, list | dict) and len(value) > MAX_VALUES:
            fix = "ask in several calls, or send a range of sizes: 1K-1G doubles"
            what = f"more than {MAX_VALUES} values in one call, got {len(value)}"
            raise ColltoolError(what, argument=argument, fix=fix)


def _how_to_give(tool: str, argument: Parameter) -> str:
    row = _SHAPES.get(f"{tool}.{argument.name}") or _SHAPES.get(argument.name)
    return f"send {argument.name}: {row[1]}" if row else f"send {argument.name}"


def _loaded(kind: Kind, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with fabrics and jobs loaded if overrides are given that the function itself
    does not take."""
    import inspect

    parameters = inspect.signature(kind.call).parameters
    if kind.function == "colltool:calibrate":
        given.setdefault("machine_only", True)
    parts = given.pop("readings", None)
    if isinstance(parts, dict):
        given["readings"] = checked(**parts)
    elif parts is not None:
        fix = 'send {"ideal": true}'
        raise ColltoolError("expected readings by name", argument="readings", fix=fix)
    if kind.function == "colltool:diff":
        from colltool.analysis.json_documents import read_document

        for argument in ("old", "new"):
            if isinstance(given[argument], str):
                given[argument] = read_document(given[argument])
    job_changes = None if "job_overrides" in parameters else given.pop("job_overrides", None)
    if job_changes:
        from colltool.training.job import load_job

        given["job"] = load_job(given["job"], job_changes, argument="job_overrides")
    changes = None if "overrides" in parameters else given.pop("overrides", None)
    if changes:
        from colltool.fabric.load import load_fabric

        for argument in ("fabric", "fabrics"):
            files = given.get(argument)
            if isinstance(files, list):
                given[argument] = [load_fabric(file, changes) for file in files]
            elif files is not None:
                given[argument] = load_fabric(files, changes)
    return given


# a command, and the tool with its ``what`` that answers the same
_COMMANDS = {
    "fabric list": ("fabric", "list"),
    "fabric show": ("fabric", "show"),
    "fabric size": ("fabric", "size"),
    "library list": ("serve", "libraries"),
    "library show": ("serve", "library"),
    "job list": ("plan", "jobs"),
    "job show": ("plan", "job"),
}
_GUIDES = {"library init": "serving", "fabric init": "fabrics", "job init": "jobs"}
# what a function is given, and an assistant sends otherwise
_SAID = {
    "colltool price --format json -o FILE": 'price and "detail": true',
    "colltool price --format json": 'price with "detail": true',
    ", or what load_fabric returns": ", or its text",
}
_PYTHON_VALUE = re.compile(r"(?<![\w.\"])([a-z]+[a-z_ ]*)=(\[[^\]]*\]|\"[^\"]*\")")


def in_words_of_tools(text: str) -> str:
    """A sentence with tools and arguments in place of commands, functions and options."""
    for said, sent in _SAID.items():
        text = text.replace(said, sent)
    text = re.sub(r"colltool guide (\w+)", r'guide with "topic": "\1"', text)
    for typed, topic in _GUIDES.items():
        text = text.replace(f"colltool {typed}", f'guide with "topic": "{topic}"')
    for typed, (tool, what) in _COMMANDS.items():
        text = text.replace(f"colltool {typed}", _call_text(tool, what))
    for name in (*ALIASES, *TOOLS):
        tool, what = ALIASES.get(name, (name, ""))
        called = rf"\bcolltool[ .]{name}\b(\(\))?|\b{name}\(\)"
        text = re.sub(called, _call_text(tool, what), text)
    # fixes write arguments one after the other
    text = re.sub(r'("\w+": (?:"[^"]*"|[^\s",]+)) (?="\w+": )', r"\1, ", text)
    text = _PYTHON_VALUE.sub(_as_sent, text)
    names = {flag: name for name, flags in OPTIONS.items() for flag in flags}

    def name_of(flag: re.Match[str]) -> str:
        word = flag[0]
        return names.get(word) or word.lstrip("-").replace("-", "_")

    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*|-[fnMaeb](?= [\w./]))", name_of, text)


def _call_text(tool: str, what: str) -> str:
    return f'{tool} with "what": "{what}"' if what else tool


def _as_sent(found: re.Match[str]) -> str:
    """``ranks=[8]`` as ``"ranks": [8]``; words before the name stay."""
    *before, name = found[1].replace("job overrides", "job_overrides").split(" ")
    value = found[2].replace("'", '"')
    return " ".join([*before, f'"{name}": {value}'])
