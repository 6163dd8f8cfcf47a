"""What an assistant sends, as the arguments of a public function: names in singular and plural,
one value or several, and texts in place of files.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.estimate.assumptions import DECLARED

# arguments without a counterpart in JSON; simulator starts another program
_ONLY_PYTHON = ("watch", "values", "simulator")
_OTHER_NAMES = {
    "collective": "primitive",
    "file": "logs",
    "files": "logs",
    "log": "logs",
    "logs": "files",
    "trace": "files",
    "traces": "files",
    "gpus": "ranks",
    "num_gpus": "ranks",
    "model": "job",
    "config": "job",
    "name": "fabric",
    "set": "overrides",
    "job_set": "job_overrides",
    "parameter": "vary",
}
"""Words that people use for an argument, where a function has no argument of that name."""
_SUFFIXES = {
    "library_file": ".toml",
    "matrix": ".csv",
    "compute": ".csv",
    "logs": ".log",
    "topology_file": ".xml",
}
_FILES = {
    "fabric",
    "fabrics",
    "against",
    "job",
    "logs",
    "files",
    "layout",
    "matrix",
    "placed",
    "machine",
    "library_file",
    "prices",
    "definition",
    "algorithm_files",
    "compute",
    "old",
    "new",
    "topology_file",
}
"""Arguments that name files; each may be the file's text."""
_SEVERAL_FABRICS = ("fabric", "fabrics", "against")


class Parameter:
    """A parameter of a function as an assistant may give it."""

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
    """The arguments of a function, and overrides for the fabrics and jobs that it loads.

    ``top``: whether it also takes ``top``, to cut its answer to the first rows.
    """
    parameters = inspect.signature(function).parameters
    found = {}
    for argument, parameter in parameters.items():
        # single options of the model are keys of the object readings
        if (
            argument in _ONLY_PYTHON
            or argument in DECLARED
            or parameter.kind is parameter.VAR_KEYWORD
        ):
            continue
        found[argument] = Parameter(argument, str(parameter.annotation), parameter.default)
    if "fabric" in parameters or "fabrics" in parameters:
        found.setdefault("overrides", Parameter("overrides", "Overrides", ()))
    if "job" in parameters:
        found.setdefault("job_overrides", Parameter("job_overrides", "Overrides", ()))
    if top:
        found["top"] = Parameter("top", "int | None", default=None)
    return found


def variants(name: str) -> Iterator[str]:
    """An argument's name, in singular and plural, and by other words for it."""
    yield name
    plain = name.lower().replace("-", "_")
    for word in (plain, _OTHER_NAMES.get(plain, plain)):
        yield word
        yield f"{word}s"
        yield word.removesuffix("s")
        yield _OTHER_NAMES.get(word.removesuffix("s"), word)


def named(
    tool: str, given: Mapping[str, Any], known: Mapping[str, Parameter], listed: str
) -> dict[str, Any]:
    """The values by the names of a function.

    Raises:
        ColltoolError: no argument of that name, or one given twice.
    """
    # single options of the model are allowed: fixes of errors name them so
    options = DECLARED if "readings" in known else {}
    found: dict[str, Any] = {}
    for argument, value in given.items():
        if value is None:
            continue
        own = next((word for word in variants(argument) if word in known or word in options), None)
        if own is None:
            hint = nearest(argument, list(known))
            fix = f"{hint} {tool} takes {listed or 'nothing'}".strip()
            raise ColltoolError(f"{tool} has no argument '{clipped(argument)}'", fix=fix)
        if own in found:
            what = f"given twice, the second time as '{clipped(argument)}'"
            raise ColltoolError(what, argument=own, fix="send it once")
        found[own] = value
    return found


def shaped(argument: Parameter, value: Any) -> Any:
    """A value in the shape that the function takes: one or several, a number for its digits."""
    is_text = isinstance(value, str)
    if is_text and argument.takes_several and value.lstrip().startswith("["):
        value = _list_in(value)
    if isinstance(value, list) and value and not argument.takes_several:
        if len(value) > 1:
            fix = "send a call for each; compare takes several fabrics, ranks, sizes and primitives"
            raise ColltoolError(f"expected one, got {len(value)}", argument=argument.name, fix=fix)
        value = value[0]
    if isinstance(value, str) and argument.name not in _FILES:
        several = value.split(",")
        is_names = argument.name in ("sizes", "ranks", "primitives", "algorithms")
        if argument.takes_several and is_names and (len(several) > 1 or argument.is_list):
            value = [item.strip() for item in several]
        elif argument.is_list:
            value = [value]
    elif isinstance(value, str) and argument.name in _SEVERAL_FABRICS and argument.takes_several:
        value = value if is_content(value) else _names_in(value)
    elif argument.is_list and isinstance(value, int | float) and not isinstance(value, bool):
        value = [value]
    if argument.is_count:
        return [_count(item) for item in value] if isinstance(value, list) else _count(value)
    return value


def _names_in(value: str) -> list[str]:
    """Names of fabrics; one that sets values (``nvl72:racks=4,ib.alpha=1us``) stands alone."""
    if ":" in value or "," not in value:
        return [value]
    return [item.strip() for item in value.split(",")]


def _list_in(text: str) -> Any:
    """The list that a text writes as JSON; else the text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, list) else text


def _count(value: Any) -> Any:
    """A whole number that was sent as text; else the value."""
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16
    return int(value) if is_digits else value


def is_content(value: Any) -> bool:
    """Whether a value is the text of a file, and not its name."""
    if not isinstance(value, str):
        return False
    text = value.strip()
    opens = text[:1] in ("{", "[", "<")
    return opens or len(text) > 1000 or any(mark in text for mark in ("\n", "  ", ": "))


@contextmanager
def texts_as_files(given: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The arguments with a file for each text of one, and the folder of these files; the folder is
    empty, and not there, if there are none."""
    own = {name: _file_argument(name) for name in given}
    if not any(own[name] and _has_content(own[name], value) for name, value in given.items()):
        yield dict(given), ""
        return
    with TemporaryDirectory(prefix="colltool-") as folder:
        answer = {}
        for name, value in given.items():
            argument = own[name]
            answer[name] = _in_files(argument, value, Path(folder)) if argument else value
        yield answer, folder


def _file_argument(name: str) -> str:
    """The argument of a file that a name means; empty if it means another."""
    return next((word for word in variants(name) if word in _FILES), "")


def _has_content(name: str, value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_content(name, item) for item in value)
    if isinstance(value, dict):
        return _is_written(name, value)
    return is_content(value)


def _is_written(name: str, value: Mapping[str, Any]) -> bool:
    """Whether an object is to be read as a file: a config.json, or logs by their names."""
    if name == "job":
        return "model_type" in value or "architectures" in value
    texts = value.values()
    return (
        name in ("logs", "files") and bool(value) and all(isinstance(item, str) for item in texts)
    )


def _in_files(name: str, value: Any, folder: Path, number: str = "") -> Any:
    """A value with the path of a new file for each text of one."""
    if isinstance(value, list):
        several = [_in_files(name, item, folder, f"-{at}") for at, item in enumerate(value, 1)]
        # a log of several hosts by name is several
        return [path for item in several for path in (item if isinstance(item, list) else [item])]
    if isinstance(value, dict) and _is_written(name, value):
        if name == "job":
            return _written(folder, f"{_model_name(value)}{number}.json", json.dumps(value))
        names = [_file_name(key) for key in value]
        if len(set(names)) < len(names):
            what = "two of the names are one, without the characters that no file has"
            raise ColltoolError(what, argument=name, fix="send other names")
        return [_written(folder, *named) for named in zip(names, value.values(), strict=True)]
    if not is_content(value):
        return value
    config = _config_in(value) if name == "job" else None
    if config is not None:
        return _written(folder, f"{_model_name(config)}{number}.json", value)
    return _written(folder, _text_name(name, number, value), value)


def _config_in(text: str) -> Mapping[str, Any] | None:
    """The config.json of a model that a text holds, if it does."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _is_written("job", found) else None


def _file_name(typed: str) -> str:
    """A name that stays in its folder."""
    return re.sub(r"[^\w.@+=-]", "_", str(typed)).lstrip(".")[:100] or "text"


def _model_name(config: Mapping[str, Any]) -> str:
    """What a config.json calls its model: the last part of a path."""
    typed = config.get("_name_or_path")
    return _file_name(typed.rstrip("/").rpartition("/")[2]) if typed else "model"


def _text_name(name: str, number: str, text: str) -> str:
    """What to call the file of a text: the argument in singular, and the suffix of its format."""
    first = text.lstrip()[:1]
    known = {"{": ".json", "[": ".json", "<": ".xml"}.get(first, ".yaml")
    # YAML holds all of JSON, and a job in .json is a config.json
    if name == "job":
        known = ".yaml"
    return f"{name.removesuffix('s')}{number}{_SUFFIXES.get(name, known)}"


def _written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8", errors="replace")
    return str(path)
