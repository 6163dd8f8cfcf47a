"""Texts that an assistant sends in place of files, as files.

:func:`texts_as_files` writes each into a folder that lasts as long as the call. Names of arguments
are those of :data:`colltool.commands.tool_arguments.FILE_ARGUMENTS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.commands.tool_arguments import FILE_ARGUMENTS, is_content, json_in, variants


@contextmanager
def texts_as_files(sent: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """A context with the arguments, in which each text of a file is replaced by the path of a new file
    that holds it, and the folder of these files; the folder is empty text if there are none."""
    arguments_of_texts = {}
    for name, value in sent.items():
        argument = _file_argument(name)
        if argument and _has_content(argument, value):
            arguments_of_texts[name] = argument
    if not arguments_of_texts:
        yield dict(sent), ""
        return
    with TemporaryDirectory(prefix="colltool-") as folder:
        with_paths = dict(sent)
        for name, argument in arguments_of_texts.items():
            with_paths[name] = _in_files(argument, sent[name], Path(folder))
        yield with_paths, folder


def _file_argument(name: str) -> str:
    """The argument of a file, a key of :data:`FILE_ARGUMENTS`, that a name means; empty if it means
    another argument."""
    return next((word for word in variants(name) if word in FILE_ARGUMENTS), "")


def _has_content(argument: str, value: Any) -> bool:
    """Whether a value holds a text of a file anywhere."""
    if isinstance(value, list):
        return any(_has_content(argument, item) for item in value)
    if isinstance(value, dict):
        return _stands_for_files(argument, value)
    return is_content(value)


def _stands_for_files(argument: str, value: Mapping[str, Any]) -> bool:
    """Whether an object is to be written as files: a config.json, or logs by their names."""
    if argument == "job":
        return "model_type" in value or "architectures" in value
    if argument not in ("logs", "files") or not value:
        return False
    return all(isinstance(text, str) for text in value.values())


def _in_files(argument: str, value: Any, folder: Path, number: str = "") -> Any:
    """A value with the path of a new file for each text of one.

    Args:
        number: what is added to names of files, ``-2`` for the second item of a list; empty outside
            of one.

    Raises:
        ColltoolError: two logs that would be one file.
    """
    if isinstance(value, list):
        paths = []
        for position, item in enumerate(value, 1):
            path = _in_files(argument, item, folder, f"-{position}")
            # logs by the names of their hosts are several
            paths += path if isinstance(path, list) else [path]
        return paths
    if isinstance(value, dict) and _stands_for_files(argument, value):
        if argument == "job":
            return _write(folder, f"{_model_name(value)}{number}.json", json.dumps(value))
        texts = {_file_name(key): text for key, text in value.items()}
        if len(texts) < len(value):
            raise ColltoolError(
                "two of the names are one, without the characters that no file has",
                argument=argument,
                fix="send other names",
            )
        return [_write(folder, file, text) for file, text in texts.items()]
    if not is_content(value):
        return value
    config = _config_in(value) if argument == "job" else None
    if config is not None:
        return _write(folder, f"{_model_name(config)}{number}.json", value)
    return _write(folder, _text_name(argument, number, value), value)


def _config_in(text: str) -> Mapping[str, Any] | None:
    """The config.json of a model that a text holds; None if it holds none."""
    document = json_in(text)
    if isinstance(document, dict) and _stands_for_files("job", document):
        return document
    return None


def _file_name(typed: str) -> str:
    """A name that stays in its folder: at most 100 letters, digits and marks that names have."""
    return re.sub(r"[^\w.@+=-]", "_", str(typed)).lstrip(".")[:100] or "text"


def _model_name(config: Mapping[str, Any]) -> str:
    """What a config.json calls its model: the last part of a path."""
    model_path = config.get("_name_or_path")
    if not model_path:
        return "model"
    _, _, last = model_path.rstrip("/").rpartition("/")
    return _file_name(last)


def _text_name(argument: str, number: str, text: str) -> str:
    """What to call the file of a text: the argument in singular, and the suffix of its format."""
    suffix = FILE_ARGUMENTS[argument]
    if not suffix:
        opening = text.lstrip()[:1]
        suffix = {"{": ".json", "[": ".json", "<": ".xml"}.get(opening, ".yaml")
        # YAML holds all of JSON, and a job in .json is a config.json
        if argument == "job":
            suffix = ".yaml"
    singular = argument.removesuffix("s")
    return f"{singular}{number}{suffix}"


def _write(folder: Path, name: str, text: str) -> str:
    """Write a text, and return the path."""
    path = folder / name
    path.write_text(text, encoding="utf-8", errors="replace")
    return str(path)
