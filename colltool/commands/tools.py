"""The tools of the MCP server: twelve questions, each answered by one public function or by one of
several that are akin.

``tools.toml`` says which they are. ``what`` chooses among the functions of a tool where the
arguments do not tell. :func:`input_schema` has the arguments that people need; :func:`call_tool`
takes all that the function takes. :mod:`colltool.commands.mcp` serves them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest, quote
from colltool.commands.tool_arguments import (
    Parameter,
    arguments_of,
    by_own_names,
    shape_value,
    variants,
)
from colltool.commands.tool_tables import TABLES
from colltool.estimate.assumptions import checked

if TYPE_CHECKING:
    from colltool.base.result import Result

Schema = dict[str, Any]
# the ``what`` that "sensitivity" stands for where several fabrics are sent; nobody asks for it by name
_OF_SEVERAL = "sensitivities"
# most values of one argument: every value of a list is priced
MAX_VALUES = 1000


class Kind(NamedTuple):
    """One of the functions of a tool.

    Args:
        function: its home, ``module:name``, imported where it is called.
        signs: arguments that only this one takes, by which it is chosen without ``what``.
        several: whether several fabrics choose it.
        top: whether it also takes ``top``, to cut the answer to its first rows.
        drops: arguments that choose it and that it does not take itself.
    """

    function: str
    signs: Sequence[str] = ()
    several: bool = False
    top: bool = False
    drops: Sequence[str] = ()

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
        kinds: its functions by ``what``, the most general first: it is the default.
        shown: the arguments that its schema has, separated by blanks; with ``!`` where it needs them.
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
        listed = {"detail"}
        for name in self.listed:
            listed.update(variants(name))
        unlisted: dict[str, None] = {}
        for kind in self.kinds.values():
            unlisted |= dict.fromkeys(name for name in kind.arguments if name not in listed)
        return list(unlisted)


def _tool(about: str, kinds: Mapping[str, Mapping[str, Any]], shown: str) -> Tool:
    """A tool from its table in ``tools.toml``."""
    return Tool(about, {what: Kind(**kind) for what, kind in kinds.items()}, shown)


# by name
TOOLS = {name: _tool(**table) for name, table in TABLES["tools"].items()}


def _functions() -> Iterator[tuple[str, tuple[str, str]]]:
    """The names of functions that are no tool's name, of tools with several questions, each with its
    tool and ``what``."""
    for name, tool in TOOLS.items():
        for what, kind in tool.kinds.items():
            function = kind.function.partition(":")[2]
            if function not in TOOLS and len(tool.kinds) > 1:
                yield function, (name, what)


# by the names of functions, under which tools are called too: the tool and its ``what``
ALIASES = dict(_functions())

# of an argument, ARGUMENT or TOOL.ARGUMENT: the name of its JSON schema, and its description
_SHAPES: dict[str, tuple[str, str]] = TABLES["arguments"]
_WHAT = "Which question; by default the one that the arguments ask."
_DETAIL: Schema = {"type": "boolean", "description": "All of it, not 8 KB."}


def input_schema(name: str) -> Schema:
    """The JSON Schema of a tool's arguments: of those that people need (:attr:`Tool.shown`)."""
    tool = TOOLS[name]
    properties: Schema = {}
    for argument in tool.listed:
        if argument == "what":
            properties[argument] = {"enum": _questions(tool), "description": _WHAT}
            continue
        schema, text = _SHAPES.get(f"{name}.{argument}") or _SHAPES[argument]
        properties[argument] = {**TABLES["schemas"][schema], "description": text}
    properties["detail"] = _DETAIL
    return {"type": "object", "properties": properties, "required": tool.required}


def _questions(tool: Tool) -> list[str]:
    """The values of ``what`` that a call may have; which of two sensitivities it is, the number of
    fabrics says."""
    return [what for what in tool.kinds if what != _OF_SEVERAL]


def description_of(name: str) -> str:
    """What a tool answers, and which arguments it takes besides those of its schema."""
    tool = TOOLS[name]
    also = ", ".join(tool.unlisted)
    if also:
        return f"{tool.about} Also taken: {also}."
    return tool.about


def find_kind(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """The tool of a name and the ``what`` of a call.

    Raises:
        ColltoolError: no such tool or ``what``.
    """
    tool_name, what = ALIASES.get(name, (name, None))
    if tool_name not in TOOLS:
        hint = nearest(name, [*TOOLS, *ALIASES])
        raise ColltoolError(
            f"no tool '{clipped(name)}'", fix=f"{hint} tools: {', '.join(TOOLS)}".strip()
        )
    kinds = TOOLS[tool_name].kinds
    question = what or arguments.get("what")
    if question is None:
        return tool_name, _what_of(kinds, arguments)
    if isinstance(question, str):
        # the function's own name says the same
        _, question = ALIASES.get(question.replace(" ", "_"), (tool_name, question))
    if question == "sensitivity" and _OF_SEVERAL in kinds and _has_several_fabrics(arguments):
        question = _OF_SEVERAL
    if not isinstance(question, str) or question not in kinds:
        raise ColltoolError(
            f"unknown question {quote(question)}",
            argument="what",
            fix=f"what is one of: {', '.join(_questions(TOOLS[tool_name]))}",
        )
    return tool_name, question


def _what_of(kinds: dict[str, Kind], arguments: Mapping[str, Any]) -> str:
    """The ``what`` that the arguments ask for; the tool's first where none tells."""
    sent: set[str] = set()
    for name, value in arguments.items():
        if value is not None:
            sent.update(variants(name))
    default = next(iter(kinds))
    # the tool compare: what signs cannot say, as these arguments are of several of its functions
    if default == "compare" and "old" in sent:
        return "libraries" if "fabric" in sent else "diff"
    if default == "compare" and {"samples", "seed"} & sent and _has_several_fabrics(arguments):
        return _OF_SEVERAL
    # the last in the file, such as a size with a fabric, are the most special
    for what in reversed(kinds):
        kind = kinds[what]
        if sent.intersection(kind.signs) or (kind.several and _has_several_fabrics(arguments)):
            return what
    return default


def _has_several_fabrics(arguments: Mapping[str, Any]) -> bool:
    """Whether more than one fabric is sent: a list, or names separated by commas."""
    fabrics = arguments.get("fabrics", arguments.get("fabric"))
    # commas of nvl72:racks=4,ib.alpha=1us and of a file's text separate no fabrics
    if isinstance(fabrics, str) and ":" not in fabrics and "\n" not in fabrics:
        return "," in fabrics
    return isinstance(fabrics, list) and len(fabrics) > 1


def call_tool(name: str, arguments: Mapping[str, Any]) -> Result | str:
    """Call a tool, and return its result or text.

    Raises:
        ColltoolError: no such tool or argument, or what the function finds wrong with one.
    """
    tool_name, what = find_kind(name, arguments)
    kind = TOOLS[tool_name].kinds[what]
    taken = _as_taken(tool_name, kind, arguments)
    # price_list has no top: as in the command, the answer is cut afterwards
    top = taken.pop("top", None) if kind.top else None
    answer: Result | str = kind.call(**_loaded(kind, taken))
    if top is None or isinstance(answer, str):
        return answer
    from colltool.commands.price import fastest
    from colltool.commands.reading import count_of

    return fastest(answer, count_of(top, "top"))  # type: ignore[arg-type]


def _as_taken(tool_name: str, kind: Kind, sent: Mapping[str, Any]) -> dict[str, Any]:
    """What was sent, by the names of the function's arguments and in their shapes; without ``what``
    and such, which only choose the function.

    Raises:
        ColltoolError: an argument that there is not, that is missing, or that has too many values.
    """
    known = kind.arguments
    not_passed = ["what", *kind.drops]
    if "detail" not in known:
        not_passed.append("detail")
    passed = {key: value for key, value in sent.items() if key not in not_passed}
    listed = dict.fromkeys([*TOOLS[tool_name].listed, *known])
    taken = by_own_names(tool_name, passed, known, ", ".join(listed))
    for key, value in taken.items():
        # single options of the model are no arguments of their own
        if key in known:
            taken[key] = shape_value(known[key], value)
    _refuse_many(taken)
    for argument in known.values():
        if argument.is_required and argument.name not in taken:
            raise ColltoolError(
                f"{argument.name} is missing", fix=_how_to_send(tool_name, argument.name)
            )
    return taken


def _refuse_many(taken: Mapping[str, Any]) -> None:
    """Raise ColltoolError for more than :data:`MAX_VALUES` values of one argument."""
    for argument, value in taken.items():
        if isinstance(value, list | dict) and len(value) > MAX_VALUES:
            raise ColltoolError(
                f"more than {MAX_VALUES} values in one call, got {len(value)}",
                argument=argument,
                fix="ask in several calls, or send a range of sizes: 1K-1G doubles",
            )


def _how_to_send(tool: str, argument: str) -> str:
    """The fix of an error, with the description of the argument if it has one: ``send size: Bytes per
    rank ...``."""
    shape = _SHAPES.get(f"{tool}.{argument}") or _SHAPES.get(argument)
    if shape is None:
        return f"send {argument}"
    _, description = shape
    return f"send {argument}: {description}"


def _loaded(kind: Kind, taken: dict[str, Any]) -> dict[str, Any]:
    """The arguments as Python has them: model options, documents, and definitions with the overrides
    that the function itself does not take. Changes and returns ``taken``."""
    # rows of a machine are what an assistant can send on; the command chooses by the file's name
    if kind.function == "colltool:calibrate":
        taken.setdefault("machine_only", True)
    options = taken.pop("readings", None)
    if isinstance(options, dict):
        taken["readings"] = checked(**options)
    elif options is not None:
        raise ColltoolError(
            "expected readings by name", argument="readings", fix='send {"ideal": true}'
        )
    if kind.function == "colltool:diff":
        from colltool.analysis.json_documents import read_document

        for argument in ("old", "new"):
            if isinstance(taken[argument], str):
                taken[argument] = read_document(taken[argument])
    parameters = inspect.signature(kind.call).parameters
    if "job_overrides" not in parameters:
        _override_job(taken)
    if "overrides" not in parameters:
        _override_fabrics(taken)
    return taken


def _override_job(taken: dict[str, Any]) -> None:
    """Put a loaded job in place of one with overrides, in ``taken``."""
    overrides = taken.pop("job_overrides", None)
    if overrides:
        from colltool.training.job import load_job

        taken["job"] = load_job(taken["job"], overrides, argument="job_overrides")


def _override_fabrics(taken: dict[str, Any]) -> None:
    """Put loaded fabrics in place of those with overrides, in ``taken``."""
    overrides = taken.pop("overrides", None)
    if not overrides:
        return
    from colltool.fabric.load import load_fabric

    for argument in ("fabric", "fabrics"):
        sources = taken.get(argument)
        if isinstance(sources, list):
            taken[argument] = [load_fabric(source, overrides) for source in sources]
        elif sources is not None:
            taken[argument] = load_fabric(sources, overrides)
