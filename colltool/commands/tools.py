"""What a machine may ask: the public functions and a few shown definitions as tools, each argument
described by its row.

A tool has a JSON Schema of its arguments, made of the function's annotations and of
:data:`colltool.commands.arguments.ARGUMENTS`, and answers with the JSON document that the command line
prints.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import OPTIONS, ColltoolError, clipped, given, nearest, spell
from colltool.commands.arguments import ARGUMENTS, MOST, Argument
from colltool.estimate.assumptions import DECLARED, checked
from colltool.render.schemas import document_schema, documents, reading_schema

if TYPE_CHECKING:
    from colltool.base.result import Result
    from colltool.commands.arguments import AnyShape
    from colltool.definitions.reader import Overrides
    from colltool.fabric.load import FabricSource

Schema = dict[str, Any]
HERE = __name__
MOST_VALUES = 1000  # of one argument: a list asks for an answer each


class Tool(NamedTuple):
    """A function that a machine may call.

    Args:
        function: ``module:name``.
        rows: the row that describes an argument, where it is not the one of the same name.
        about: what it answers, where the function's docstring does not say it.
        top: whether the answer may be cut to its first rows.
        answers: the JSON documents that it answers with, where that is not the one of its name; a
            text is none.
    """

    function: str
    rows: Mapping[str, str] = {}
    about: str = ""
    top: bool = False
    answers: str = ""

    @property
    def call(self) -> Callable[..., Any]:
        """The function itself."""
        found: Callable[..., Any] = resolve_name(self.function)
        return found

    @property
    def description(self) -> str:
        """The first paragraph of the function's docstring."""
        return _plain(self.about or inspect.cleandoc(self.call.__doc__ or "").split("\n\n")[0])

    def documented(self, argument: str) -> str:
        """The first sentence that the function's docstring has on an argument."""
        text = inspect.cleandoc(self.call.__doc__ or "")
        found = re.search(
            rf"^    (?:\w+, )*{argument}(?:, \w+)*: (.+?)(?=\n    \w|\n\n|\Z)",
            text,
            re.MULTILINE | re.DOTALL,
        )
        return _plain(found[1]).split("; default:")[0] if found else ""


def _plain(text: str) -> str:
    """Without the marks of a docstring, on one line."""
    bare = re.sub(
        r":\w+:`~?([^`]+)`|``([^`]+)``",
        lambda found: (found[1] or found[2]).removeprefix("colltool."),
        text,
    )
    return " ".join(bare.split())


_COUNTS, _LOGS, _JOB = (
    {"ranks": "rank_counts"},
    {"ranks": "log_ranks", "primitive": "collective"},
    {"ranks": "job_ranks"},
)
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
    "list_fabrics": Tool(f"{HERE}:list_fabrics", answers="fabric-list"),
    "show_fabric": Tool(f"{HERE}:show_fabric", answers="fabric-show"),
    "draw_fabric": Tool("colltool:draw_fabric", answers="fabric-draw"),
    "size_fabric": Tool(
        "colltool:size_fabric",
        {"overrides": "price", "topology": "sized"},
        answers="fabric-size fabric-size-direct",
    ),
    "list_jobs": Tool(f"{HERE}:list_jobs", answers="job-list"),
    "show_job": Tool(f"{HERE}:show_job", _JOB, answers="job-show"),
    "list_libraries": Tool("colltool:list_libraries", answers="library-list"),
    "show_library": Tool("colltool:show_library", answers="library-show"),
    "nccl_tuner": Tool(f"{HERE}:nccl_tuner", _COUNTS),
    "astra_sim": Tool(f"{HERE}:astra_sim"),
    "guide": Tool(f"{HERE}:guide"),
}
"""By the names of the commands; a command that answers several questions is a tool for each."""


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

    return FabricShown(loaded := load_fabric(fabric, overrides), fabric_facts(loaded))


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
    from colltool.commands.reading import count_of, each_of, flag_of
    from colltool.commands.requests import fabric_of
    from colltool.estimate.placement import GroupSpec
    from colltool.export.tuner import tuner_config, tuner_env

    counts = [count_of(one, "ranks", 2) for one in each_of(ranks)]
    groups = [
        GroupSpec(one, count_of(stride, "stride", 1), flag_of(alone, "alone"))
        for one in counts or (None,)
    ]
    return (tuner_env if flag_of(env, "env") else tuner_config)(fabric_of(fabric), groups)


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
    from colltool.commands.reading import count_if, count_of, flag_of, shape_of, size_of
    from colltool.commands.requests import fabric_of
    from colltool.estimate.placement import GroupSpec
    from colltool.export.astra_sim import astra_sim as files_of
    from colltool.export.astra_sim import to_know

    who = GroupSpec(
        count_if(ranks, "ranks", 2),
        count_of(stride, "stride", 1),
        flag_of(alone, "alone"),
        shape_of(shape),
    )
    asked = fabric_of(fabric), who, flag_of(ideal, "ideal"), None if size is None else size_of(size)
    files = files_of(*asked)
    return "\n".join([*(f"# {name}\n{text}" for name, text in files.items()), *to_know(*asked)])


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
    "OwnMachine": [{"type": "string"}],
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
    "Readings": [{"type": "object"}],
    "None": [],
    "os.PathLike": [],
    "NDArray": [],
    "Layout": [],
    "Job": [],
    "LadderDefinition": [],
}
"""What JSON has for a type of Python; nothing for what only Python has."""
_ONLY_PYTHON = ("watch", "values", "simulator")  # the last starts another program


def input_schema(name: str) -> Schema:
    """The JSON Schema of a tool's arguments."""
    tool, properties, required = TOOLS[name], {}, []
    for argument, (annotation, usual) in _arguments(tool).items():
        row = ARGUMENTS.get(tool.rows.get(argument, argument))
        kinds = list(_schemas(annotation, row))
        properties[argument] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        text = (
            f"{row.metavar}: {row.help}" if row and "=" in row.metavar else row.help if row else ""
        )
        text = _spoken(text) or tool.documented(argument)
        if {"type": "object"} in kinds and {"type": "string"} in kinds and "mapping" not in text:
            text = f"{text.rstrip('.')}; or what such a file holds, as an object."
        if argument == "readings":
            properties[argument] = _READINGS
        elif text:
            properties[argument] = {**properties[argument], "description": text}
        if usual is inspect.Parameter.empty:
            required.append(argument)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def output_schema(name: str) -> Schema | None:
    """The JSON Schema of a tool's answer, a level deep: ``colltool schema`` has all of it. None of
    a text."""
    names = TOOLS[name].answers.split() or [name] * (name in documents())
    if not names:
        return None
    kinds = {
        "schema": {"enum": [f"colltool.{one}/1" for one in names]},
        "colltool": {"type": "string"},
    }
    schemas = [document_schema(one) for one in names]
    shared = [
        key for key in schemas[0]["required"] if all(key in one["required"] for one in schemas)
    ]
    properties: Schema = {key: {} for key in schemas[0]["properties"]} if len(names) == 1 else {}
    return {"type": "object", "properties": properties | kinds, "required": shared}


def _arguments(tool: Tool) -> dict[str, tuple[str, Any]]:
    """The annotation and the default of each argument: those of the function, and overrides of what
    it loads."""
    own = inspect.signature(tool.call).parameters
    named = {
        name: one
        for name, one in own.items()
        if name not in (*_ONLY_PYTHON, *DECLARED) and one.kind is not one.VAR_KEYWORD
    }
    found = {name: (str(one.annotation), one.default) for name, one in named.items()}
    loaded = {"overrides": {"fabric", "fabrics"}, "job_overrides": {"job"}}
    found |= {
        name: ("Overrides", ())
        for name, files in loaded.items()
        if files & set(own) and name not in own
    }
    return found | ({"top": ("int | None", None)} if tool.top else {})


_READINGS: Schema = {
    "type": "object",
    "properties": {name: reading_schema(name) for name in DECLARED},
    "additionalProperties": False,
    "description": (
        "How to read the model where it leaves a choice; the guide model says what each means."
    ),
}


def _schemas(annotation: str, row: Argument | None) -> list[Schema]:
    """The schemas of an annotation's alternatives, within the bounds of the argument's row."""
    found = list(_each_schema(annotation, row))
    return [one for place, one in enumerate(found) if one not in found[:place]]


def _each_schema(annotation: str, row: Argument | None) -> Iterator[Schema]:
    for part in _alternatives(annotation):
        head, _, inner = part.removesuffix("]").partition("[")
        if head == "Literal":
            yield {"enum": [word.strip().strip("'\"") for word in inner.split(",")]}
        elif head == "Sequence":
            items = _schemas(inner, row)
            yield {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}}
        elif head == "Sizes":
            yield from ({"type": "string"}, {"type": "number"})
        else:
            for schema in _TYPES[head]:
                yield schema | (
                    _bounds(row) if row and schema.get("type") in ("integer", "number") else {}
                )


def _alternatives(annotation: str) -> Iterator[str]:
    """``A[B | C] | D``: first ``A[B | C]``, then ``D``."""
    part, depth = "", 0
    for piece in re.split(r"(\[|\]|\|)", annotation):
        depth += (piece == "[") - (piece == "]")
        if piece == "|" and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += piece
    yield part.strip()


def _bounds(row: Argument) -> Schema:
    low = (
        {}
        if row.least == -MOST
        else {"minimum": row.least}
        if row.least in (0, 1)
        else {"exclusiveMinimum": 0}
    )
    return low | ({} if row.most == MOST else {"maximum": row.most})


def _spoken(help_: str) -> str:
    """A line of help without flags: ``With --slow-rank`` is ``With slow_rank``."""
    flags = {
        flag: name for name, several in OPTIONS.items() for flag in several if flag.startswith("--")
    }
    return re.sub(
        r"--[a-z][a-z-]*",
        lambda found: flags.get(found[0], found[0].lstrip("-").replace("-", "_")),
        help_,
    )


def answered(name: str, arguments: Mapping[str, Any]) -> Result | str:
    """What a tool answers: a result, or a text.

    Raises:
        ColltoolError: no such tool or argument, or what the function finds wrong with one.
    """
    if name not in TOOLS:
        raise ColltoolError(
            f"no tool '{clipped(name)}'",
            fix=f"{nearest(name, list(TOOLS))} tools: {', '.join(TOOLS)}".strip(),
        )
    tool, known = TOOLS[name], _arguments(TOOLS[name])
    readings = DECLARED if "readings" in known else {}  # as fixes in errors name them
    for argument in arguments:
        if argument not in known and argument not in readings:
            fix = f"{nearest(argument, list(known))} {name} takes {', '.join(known) or 'nothing'}".strip()
            raise ColltoolError(f"{name} has no argument '{clipped(argument)}'", fix=fix)
        if isinstance(value := arguments[argument], list | dict) and len(value) > MOST_VALUES:
            fix = "ask in several calls: one answer holds what all of them give"
            raise ColltoolError(
                f"more than {MOST_VALUES} values in one call, got {len(value)}",
                argument=argument,
                fix=fix,
            )
    asked = {argument: value for argument, value in arguments.items() if value is not None}
    for argument, (_, usual) in known.items():
        if usual is inspect.Parameter.empty and argument not in asked:
            fix = (
                spell(f"give {given(argument)}: {_spoken(ARGUMENTS[argument].help)}", "python")
                if argument in ARGUMENTS
                else ""
            )
            raise ColltoolError(f"{argument} is missing", fix=fix)
    top = asked.pop("top") if tool.top and "top" in asked else None
    found: Result | str = tool.call(**_loaded(tool, asked))
    if top is None or isinstance(found, str):
        return found
    from colltool.commands.price import fastest
    from colltool.commands.reading import count_of

    return fastest(found, count_of(top, "top"))  # type: ignore[arg-type]


def _loaded(tool: Tool, asked: dict[str, Any]) -> dict[str, Any]:
    """The arguments with fabrics and jobs loaded, where overrides are given that the function does
    not take itself."""
    own = inspect.signature(tool.call).parameters
    if isinstance(parts := asked.pop("readings", None), dict):
        asked["readings"] = checked(**parts)
    elif parts is not None:
        raise ColltoolError(
            "expected readings by name", argument="readings", fix='write {"ideal": true}'
        )
    if "job_overrides" not in own and (changes := asked.pop("job_overrides", None)):
        from colltool.training.job import load_job

        asked["job"] = load_job(asked["job"], changes, argument="job_overrides")
    if "overrides" not in own and (changes := asked.pop("overrides", None)):
        from colltool.fabric.load import load_fabric

        for argument in {"fabric", "fabrics"} & set(asked):
            one = asked[argument]
            asked[argument] = (
                [load_fabric(each, changes) for each in one]
                if isinstance(one, list)
                else load_fabric(one, changes)
            )
    return asked
