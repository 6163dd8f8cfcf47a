"""The tools of the MCP server: public functions and a few listings, with JSON Schemas.

The schema of a tool's arguments (:func:`input_schema`) is made of the function's annotations and of
the rows of :data:`colltool.commands.arguments.ARGUMENTS`; :func:`call_tool` answers with the result
whose JSON document the command line prints.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import OPTIONS, ColltoolError, argument_text, clipped, nearest, spell
from colltool.commands.arguments import ARGUMENTS, MAX_COUNT, Argument
from colltool.estimate.assumptions import DECLARED, checked
from colltool.render.schemas import document_schema, documents, reading_schema

if TYPE_CHECKING:
    from colltool.base.result import Result
    from colltool.commands.arguments import AnyShape
    from colltool.definitions.reader import Overrides
    from colltool.fabric.load import FabricSource

Schema = dict[str, Any]
THIS_MODULE = __name__
MAX_VALUES = 1000  # of one argument: every value of a list is priced


class Tool(NamedTuple):
    """A function that an assistant may call.

    Args:
        function: ``module:name``.
        rows: the key of the row that describes an argument, if it is not the argument's name.
        about: its description, if that is not the docstring's first paragraph.
        top: whether it also takes ``top``, to cut the answer to its first rows.
        answers: names of the JSON documents that it may answer with, separated by spaces; default:
            the one of the tool's name, if there is one.
    """

    function: str
    rows: Mapping[str, str] = {}
    about: str = ""
    top: bool = False
    answers: str = ""

    @property
    def call(self) -> Callable[..., Any]:
        """The function itself."""
        function: Callable[..., Any] = resolve_name(self.function)
        return function

    def row(self, argument: str) -> Argument | None:
        """The row that describes an argument, if there is one."""
        return ARGUMENTS.get(self.rows.get(argument, argument))

    @property
    def description(self) -> str:
        """The first paragraph of the function's docstring."""
        return _plain(self.about or inspect.cleandoc(self.call.__doc__ or "").split("\n\n")[0])

    def documented(self, argument: str) -> str:
        """What the function's docstring says of an argument, without its default."""
        text = inspect.cleandoc(self.call.__doc__ or "")
        answer = re.search(
            rf"^    (?:\w+, )*{argument}(?:, \w+)*: (.+?)(?=\n    \w|\n\n|\Z)",
            text,
            re.MULTILINE | re.DOTALL,
        )
        return _plain(answer[1]).split("; default:")[0] if answer else ""


def _plain(text: str) -> str:
    """The text on one line, without markup of docstrings."""

    def name(mark: re.Match[str]) -> str:
        return str(mark[1] or mark[2]).removeprefix("colltool.")

    return " ".join(re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", name, text).split())


_COUNTS = {"ranks": "rank_counts"}
_LOGS = {"ranks": "log_ranks", "primitive": "collective"}
_JOB = {"ranks": "job_ranks"}
TOOLS = {
    "price": Tool(
        "colltool:price_list",
        about="Every algorithm that can run, fastest first; at several sizes, or a short list.",
        top=True,
    ),
    "crossover": Tool("colltool:crossover"),
    "breakdown": Tool("colltool:breakdown"),
    "explain": Tool("colltool:explain"),
    "compare": Tool("colltool:compare", _COUNTS),
    "sweep": Tool("colltool:sweep", _COUNTS),
    "sensitivity": Tool("colltool:sensitivity"),
    "compare_sensitivity": Tool("colltool:compare_sensitivity", answers="sensitivity-compare"),
    "ladder": Tool("colltool:ladder"),
    "plan": Tool("colltool:plan", _JOB),
    "compare_plans": Tool("colltool:compare_plans", _JOB, answers="plan-compare"),
    "plan_sensitivity": Tool("colltool:plan_sensitivity", _JOB, answers="plan-sensitivity"),
    "plan_traces": Tool("colltool:plan_traces", answers="plan-traces"),
    "search_layouts": Tool(
        "colltool:search_layouts", {**_JOB, "top": "layouts"}, answers="plan-search"
    ),
    "serve": Tool(
        "colltool:serve",
        {"ranks": "serve_ranks", "search": "cuts"},
        answers="serve serve-list serve-spread",
    ),
    "reshard": Tool("colltool:reshard"),
    "contention": Tool("colltool:contention", {"layout": "", "placed": ""}),
    "verify": Tool("colltool:verify"),
    "validate": Tool("colltool:validate", _LOGS),
    "calibrate": Tool("colltool:calibrate", _LOGS),
    "doctor": Tool("colltool:doctor", _LOGS),
    "trace": Tool("colltool:trace"),
    "report": Tool("colltool:report", {"ranks": "page_ranks"}),
    "diff": Tool("colltool:diff"),
    "diff_libraries": Tool(
        "colltool:diff_libraries", {"old": "library", "new": "library"}, answers="library-diff"
    ),
    "list_fabrics": Tool(f"{THIS_MODULE}:list_fabrics", answers="fabric-list"),
    "show_fabric": Tool(f"{THIS_MODULE}:show_fabric", answers="fabric-show"),
    "draw_fabric": Tool("colltool:draw_fabric", answers="fabric-draw"),
    "size_fabric": Tool(
        "colltool:size_fabric",
        {"overrides": "price", "topology": "sized"},
        answers="fabric-size fabric-size-direct",
    ),
    "list_jobs": Tool(f"{THIS_MODULE}:list_jobs", answers="job-list"),
    "show_job": Tool(f"{THIS_MODULE}:show_job", _JOB, answers="job-show"),
    "list_libraries": Tool("colltool:list_libraries", answers="library-list"),
    "show_library": Tool("colltool:show_library", answers="library-show"),
    "nccl_tuner": Tool(f"{THIS_MODULE}:nccl_tuner", _COUNTS),
    "astra_sim": Tool(f"{THIS_MODULE}:astra_sim"),
    "guide": Tool(f"{THIS_MODULE}:guide"),
}
"""Tools by name: that of the command; a command with several kinds of answers is several tools."""


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

    counts = [count_of(count, "ranks", 2) for count in each_of(ranks)]
    step = count_of(stride, "stride", 1)
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
        count_if(ranks, "ranks", 2),
        count_of(stride, "stride", 1),
        flag_of(alone, "alone"),
        shape_of(shape),
    )
    bytes_ = None if size is None else size_of(size)
    given = (fabric_of(fabric), group, flag_of(ideal, "ideal"), bytes_)
    interop = extra("interop.astra_sim")
    files = [f"# {name}\n{text}" for name, text in interop.astra_sim(*given).items()]
    return "\n".join([*files, *interop.usage_notes(*given)])


def guide(topic: str | None = None) -> str:
    """A chapter of the manual as Markdown; without a topic, what each is about."""
    from colltool.guides import contents, read_guide

    return contents() if topic is None else read_guide(topic)


_FILE = [{"type": "string"}, {"type": "object"}]
_NAMES = [{"type": "array", "items": {"type": "string"}}]
_TYPES: dict[str, list[Schema]] = {
    "str": [{"type": "string"}],
    "int": [{"type": "integer"}],
    "float": [{"type": "number"}],
    "bool": [{"type": "boolean"}],
    "AnyPath": [{"type": "string"}],
    "CustomMachine": [{"type": "string"}],
    "Primitive": [{"type": "string"}],
    "AnyFabric": _FILE,
    "FabricSource": _FILE,
    "AnyJob": _FILE,
    "AnyAlgorithms": [
        {"type": "string"},
        {"type": "object"},
        {"type": "array", "items": {"anyOf": _FILE}},
    ],
    "Mapping": [{"type": "object"}],
    "Overrides": [*_NAMES, {"type": "object"}],
    "Keep": [*_NAMES, {"type": "object"}],
    "Logs": [{"type": "string"}, *_NAMES],
    "AnyShape": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}],
    "ModelOptions": [{"type": "object"}],
    "None": [],
    "os.PathLike": [],
    "NDArray": [],
    "Layout": [],
    "Job": [],
    "LadderDefinition": [],
}
"""JSON Schemas of Python types; none for types that JSON cannot hold."""
# arguments without a counterpart in JSON; simulator starts another program
_ONLY_PYTHON = ("watch", "values", "simulator")


def input_schema(name: str) -> Schema:
    """The JSON Schema of a tool's arguments."""
    tool = TOOLS[name]
    properties: Schema = {}
    required = []
    for argument, (annotation, default) in _arguments(tool).items():
        properties[argument] = _property(tool, argument, annotation)
        if default is inspect.Parameter.empty:
            required.append(argument)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _property(tool: Tool, argument: str, annotation: str) -> Schema:
    """The schema of an argument, described by its row's help, else by the docstring."""
    if argument == "readings":
        return _READINGS
    row = tool.row(argument)
    schema = _any_of(_schemas(annotation, row))
    text = ""
    if row is not None:
        # a metavar such as KEY=VALUE shows how to write it
        text = _without_flags(f"{row.metavar}: {row.help}" if "=" in row.metavar else row.help)
    text = text or tool.documented(argument)
    kinds = [kind.get("type") for kind in schema.get("anyOf", ())]
    if "object" in kinds and "string" in kinds and "mapping" not in text:
        text = f"{text.rstrip('.')}; or what such a file holds, as an object."
    return {**schema, "description": text} if text else schema


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def output_schema(name: str) -> Schema | None:
    """The JSON Schema of a tool's answer, one level deep; None if it answers with text.

    ``colltool schema`` prints all levels.
    """
    names = TOOLS[name].answers.split()
    if not names:
        if name not in documents():
            return None
        names = [name]
    schemas = [document_schema(document) for document in names]
    # of several documents a tool guarantees the keys that all have
    required = [set(schema["required"]) for schema in schemas]
    shared = set.intersection(*required)
    properties: Schema = {}
    if len(names) == 1:
        properties = {key: {} for key in schemas[0]["properties"]}
    properties["schema"] = {"enum": [f"colltool.{document}/1" for document in names]}
    properties["colltool"] = {"type": "string"}
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in schemas[0]["required"] if key in shared],
    }


def _arguments(tool: Tool) -> dict[str, tuple[str, Any]]:
    """The annotation and the default of each argument of a tool.

    These are the function's parameters, and overrides for the fabrics and jobs that it loads.
    """
    parameters = inspect.signature(tool.call).parameters
    answer = {}
    for name, parameter in parameters.items():
        # single options of the model are keys of the object readings
        if name in _ONLY_PYTHON or name in DECLARED or parameter.kind is parameter.VAR_KEYWORD:
            continue
        answer[name] = (str(parameter.annotation), parameter.default)
    if "overrides" not in parameters and ("fabric" in parameters or "fabrics" in parameters):
        answer["overrides"] = ("Overrides", ())
    if "job_overrides" not in parameters and "job" in parameters:
        answer["job_overrides"] = ("Overrides", ())
    if tool.top:
        answer["top"] = ("int | None", None)
    return answer


_READINGS: Schema = {
    "type": "object",
    "properties": {name: reading_schema(name) for name in DECLARED},
    "additionalProperties": False,
    "description": (
        "How to read the model where it leaves a choice; the guide model says what each means."
    ),
}


def _schemas(annotation: str, row: Argument | None) -> list[Schema]:
    """The schemas of an annotation's alternatives, without duplicates, with the row's bounds."""
    answer: list[Schema] = []
    for alternative in _alternatives(annotation):
        for schema in _schemas_of_one(alternative, row):
            if schema not in answer:
                answer.append(schema)
    return answer


def _schemas_of_one(annotation: str, row: Argument | None) -> list[Schema]:
    head, _, inner = annotation.removesuffix("]").partition("[")
    if head == "Literal":
        return [{"enum": [word.strip().strip("'\"") for word in inner.split(",")]}]
    if head == "Sequence":
        return [{"type": "array", "items": _any_of(_schemas(inner, row))}]
    if head == "Sizes":
        return [{"type": "string"}, {"type": "number"}]
    if row is None:
        return _TYPES[head]
    bounds = _bounds(row)
    is_number = ("integer", "number")
    return [
        schema | bounds if schema.get("type") in is_number else schema for schema in _TYPES[head]
    ]


def _alternatives(annotation: str) -> Iterator[str]:
    """Split a union at its top level: ``A[B | C] | D`` into ``A[B | C]`` and ``D``."""
    part = ""
    depth = 0
    for token in re.split(r"(\[|\]|\|)", annotation):
        if token == "[":
            depth += 1
        elif token == "]":
            depth -= 1
        if token == "|" and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += token
    yield part.strip()


def _bounds(row: Argument) -> Schema:
    bounds: Schema = {}
    if row.least in (0, 1):
        bounds["minimum"] = row.least
    elif row.least != -MAX_COUNT:
        bounds["exclusiveMinimum"] = 0
    if row.most != MAX_COUNT:
        bounds["maximum"] = row.most
    return bounds


def _without_flags(help_: str) -> str:
    """A line of help with names of arguments for flags: ``With --slow-rank``: ``With slow_rank``."""
    names = {}
    for name, flags in OPTIONS.items():
        for flag in flags:
            if flag.startswith("--"):
                names[flag] = name

    def name_of(flag: re.Match[str]) -> str:
        return names.get(flag[0], flag[0].lstrip("-").replace("-", "_"))

    return re.sub(r"--[a-z][a-z-]*", name_of, help_)


def call_tool(name: str, arguments: Mapping[str, Any]) -> Result | str:
    """Call a tool, and return its result or text.

    Raises:
        ColltoolError: no such tool or argument, or what the function finds wrong with one.
    """
    if name not in TOOLS:
        hint = nearest(name, list(TOOLS))
        fix = f"{hint} tools: {', '.join(TOOLS)}".strip()
        raise ColltoolError(f"no tool '{clipped(name)}'", fix=fix)
    tool = TOOLS[name]
    known = _arguments(tool)
    _refuse_unknown(name, arguments, known)
    given = {argument: value for argument, value in arguments.items() if value is not None}
    for argument, (_, default) in known.items():
        if default is inspect.Parameter.empty and argument not in given:
            raise ColltoolError(f"{argument} is missing", fix=_how_to_give(argument))
    # price_list has no top: as in the command, the answer is cut afterwards
    top = given.pop("top", None) if tool.top else None
    answer: Result | str = tool.call(**_loaded(tool, given))
    if top is None or isinstance(answer, str):
        return answer
    from colltool.commands.price import fastest
    from colltool.commands.reading import count_of

    return fastest(answer, count_of(top, "top"))  # type: ignore[arg-type]


def _refuse_unknown(name: str, arguments: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise ColltoolError for unknown arguments and for more than :data:`MAX_VALUES` values."""
    # single options of the model are allowed: fixes of errors name them so
    readings = DECLARED if "readings" in known else {}
    for argument, value in arguments.items():
        if argument not in known and argument not in readings:
            hint = nearest(argument, list(known))
            fix = f"{hint} {name} takes {', '.join(known) or 'nothing'}".strip()
            raise ColltoolError(f"{name} has no argument '{clipped(argument)}'", fix=fix)
        if isinstance(value, list | dict) and len(value) > MAX_VALUES:
            fix = "ask in several calls: one answer holds what all of them give"
            what = f"more than {MAX_VALUES} values in one call, got {len(value)}"
            raise ColltoolError(what, argument=argument, fix=fix)


def _how_to_give(argument: str) -> str:
    if argument not in ARGUMENTS:
        return ""
    return spell(
        f"give {argument_text(argument)}: {_without_flags(ARGUMENTS[argument].help)}", "python"
    )


def _loaded(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with fabrics and jobs loaded if overrides are given that the function itself
    does not take."""
    parameters = inspect.signature(tool.call).parameters
    parts = given.pop("readings", None)
    if isinstance(parts, dict):
        given["readings"] = checked(**parts)
    elif parts is not None:
        fix = 'write {"ideal": true}'
        raise ColltoolError("expected readings by name", argument="readings", fix=fix)
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
