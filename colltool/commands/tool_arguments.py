"""What an assistant sends, as the arguments of a public function: names in singular and plural,
one value or several.

:func:`arguments_of` has the parameters that a tool takes, :func:`by_own_names` the values by their
names, and :func:`shape_value` a value in the shape that its parameter has.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.commands.tool_tables import TABLES
from colltool.estimate.assumptions import DECLARED

# arguments that tools do not have: watch is a function, values are for a trace on a screen, and
# simulator starts another program
_ONLY_PYTHON = ("watch", "values", "simulator")
# words that people use for an argument, where a function has no argument of that name
_OTHER_NAMES: dict[str, str] = TABLES["other_names"]
# Arguments that name files, each of which may be the file's text, with the suffix of such a file;
# empty where the text tells.
FILE_ARGUMENTS: dict[str, str] = TABLES["files"]
# arguments whose text may name several fabrics
_SEVERAL_FABRICS = ("fabric", "fabrics", "against")
# arguments whose text may be several values, separated by commas
_LISTED = ("sizes", "ranks", "primitives", "algorithms")


class Parameter:
    """A parameter of a function as an assistant may give it.

    Args:
        annotation: the text of its type; what it takes is told by words in it, such as ``Sequence``.
        default: ``inspect.Parameter.empty`` for none.
    """

    def __init__(self, name: str, annotation: str, default: Any) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default

    @property
    def is_required(self) -> bool:
        """Whether a call needs it."""
        return self.default is inspect.Parameter.empty

    @property
    def takes_several(self) -> bool:
        """Whether it may be a list."""
        words = ("Sequence", "Overrides", "Keep", "AnyAlgorithms", "Logs", "AnyShape")
        return any(word in self.annotation for word in words)

    @property
    def is_list(self) -> bool:
        """Whether a text is no value of it, only a list of them."""
        return self.annotation.startswith(("Sequence", "Overrides", "Keep"))

    @property
    def is_count(self) -> bool:
        """Whether it is a whole number, or several."""
        return "int" in re.findall(r"\w+", self.annotation) and "AnyShape" not in self.annotation


def arguments_of(function: Callable[..., Any], *, top: bool = False) -> dict[str, Parameter]:
    """The arguments of a function by name, with overrides for the fabrics and jobs that it loads.

    Args:
        top: whether ``top`` is among them, which cuts the answer to its first rows.
    """
    parameters = inspect.signature(function).parameters
    tool_parameters = {}
    for argument, parameter in parameters.items():
        # single options of the model are keys of the object readings
        is_of_model = argument in DECLARED or parameter.kind is parameter.VAR_KEYWORD
        if is_of_model or argument in _ONLY_PYTHON:
            continue
        tool_parameters[argument] = Parameter(
            argument, str(parameter.annotation), parameter.default
        )
    if "fabric" in parameters or "fabrics" in parameters:
        tool_parameters.setdefault("overrides", Parameter("overrides", "Overrides", ()))
    if "job" in parameters:
        tool_parameters.setdefault("job_overrides", Parameter("job_overrides", "Overrides", ()))
    if top:
        tool_parameters["top"] = Parameter("top", "int | None", default=None)
    return tool_parameters


def variants(name: str) -> Iterator[str]:
    """An argument's name, in singular and plural, and by other words for it: of ``Size`` size, sizes;
    of ``num_gpus`` ranks too. Names may come twice."""
    yield name
    plain = name.lower().replace("-", "_")
    for word in (plain, _OTHER_NAMES.get(plain, plain)):
        yield word
        yield f"{word}s"
        yield word.removesuffix("s")
        yield _OTHER_NAMES.get(word.removesuffix("s"), word)


def by_own_names(
    tool: str, sent: Mapping[str, Any], known: Mapping[str, Parameter], listed: str
) -> dict[str, Any]:
    """The values by the names that the function has for its arguments; null values are left out.

    Args:
        sent: values by whatever names were sent.
        known: the arguments of the function.
        listed: the names that an error lists.

    Raises:
        ColltoolError: no argument of that name, or one given twice.
    """
    # single options of the model are allowed: fixes of errors name them so
    options = DECLARED if "readings" in known else {}
    values: dict[str, Any] = {}
    for argument, value in sent.items():
        if value is None:
            continue
        name = next((word for word in variants(argument) if word in known or word in options), None)
        if name is None:
            hint = nearest(argument, list(known))
            raise ColltoolError(
                f"{tool} has no argument '{clipped(argument)}'",
                fix=f"{hint} {tool} takes {listed or 'nothing'}".strip(),
            )
        if name in values:
            raise ColltoolError(
                f"given twice, the second time as '{clipped(argument)}'",
                argument=name,
                fix="send it once",
            )
        values[name] = value
    return values


def shape_value(argument: Parameter, value: Any) -> Any:
    """A value in the shape that the function takes: one or several, a number for its digits.

    Raises:
        ColltoolError: several values where the function takes one.
    """
    is_text = isinstance(value, str)
    if is_text and argument.takes_several and value.lstrip().startswith("["):
        value = _list_in(value)
    # a list of one is that one
    if isinstance(value, list) and value and not argument.takes_several:
        if len(value) > 1:
            raise ColltoolError(
                f"expected one, got {len(value)}",
                argument=argument.name,
                fix="send a call for each; compare takes several fabrics, ranks, sizes and primitives",
            )
        value = value[0]
    if isinstance(value, str):
        value = _shape_text(argument, value)
    elif argument.is_list and isinstance(value, int | float) and not isinstance(value, bool):
        value = [value]
    if not argument.is_count:
        return value
    if isinstance(value, list):
        return list(map(_count, value))
    return _count(value)


def _shape_text(argument: Parameter, text: str) -> Any:
    """A text, or the list that it stands for: ``ring,tree`` are two names."""
    if argument.name in _SEVERAL_FABRICS and argument.takes_several:
        return text if is_content(text) else _names_in(text)
    if argument.name in FILE_ARGUMENTS:
        return text
    if argument.takes_several and argument.name in _LISTED:
        items = [item.strip() for item in text.split(",")]
        if len(items) > 1 or argument.is_list:
            return items
    if argument.is_list:
        return [text]
    return text


def _names_in(value: str) -> list[str]:
    """Names of fabrics, separated by commas; one that sets values (``nvl72:racks=4,ib.alpha=1us``)
    stands alone."""
    if ":" in value or "," not in value:
        return [value]
    return [item.strip() for item in value.split(",")]


def _list_in(text: str) -> Any:
    """The list that a text writes as JSON; else the text."""
    content = json_in(text)
    return content if isinstance(content, list) else text


def json_in(text: str) -> Any:
    """What a text says as JSON; None where it is something else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _count(value: Any) -> Any:
    """A whole number that was sent as text; else the value."""
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16
    return int(value) if is_digits else value


def is_content(value: Any) -> bool:
    """Whether a value is the text of a file, and not its name: by its first character, its length,
    or what YAML and logs have and names do not."""
    if not isinstance(value, str):
        return False
    text = value.strip()
    opens = text[:1] in ("{", "[", "<")
    return opens or len(text) > 1000 or any(mark in text for mark in ("\n", "  ", ": "))
