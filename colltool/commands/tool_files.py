"""Texts that an assistant sends in place of files, as files.

:func:`texts_as_files` writes each into a folder that lasts as long as the call.
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
def texts_as_files(given: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The arguments with a file for each text of one, and the folder of these files; the folder is
    empty, and not there, if there are none."""
    with_texts = {}
    for name, value in given.items():
        argument = _file_argument(name)
        if argument and _has_content(argument, value):
            with_texts[name] = argument
    if not with_texts:
        yield dict(given), ""
        return
    with TemporaryDirectory(prefix="colltool-") as folder:
        answer = dict(given)
        for name, argument in with_texts.items():
            answer[name] = _in_files(argument, given[name], Path(folder))
        yield answer, folder


def _file_argument(name: str) -> str:
    """The argument of a file that a name means; empty if it means another."""
    return next((word for word in variants(name) if word in FILE_ARGUMENTS), "")


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
        paths = []
        for at, item in enumerate(value, 1):
            written = _in_files(name, item, folder, f"-{at}")
            # logs by the names of their hosts are several
            paths += written if isinstance(written, list) else [written]
        return paths
    if isinstance(value, dict) and _is_written(name, value):
        if name == "job":
            return _written(folder, f"{_model_name(value)}{number}.json", json.dumps(value))
        texts = {_file_name(key): text for key, text in value.items()}
        if len(texts) < len(value):
            raise ColltoolError(
                "two of the names are one, without the characters that no file has",
                argument=name,
                fix="send other names",
            )
        return [_written(folder, file, text) for file, text in texts.items()]
    if not is_content(value):
        return value
    config = _config_in(value) if name == "job" else None
    if config is not None:
        return _written(folder, f"{_model_name(config)}{number}.json", value)
    return _written(folder, _text_name(name, number, value), value)


def _config_in(text: str) -> Mapping[str, Any] | None:
    """The config.json of a model that a text holds, if it does."""
    document = json_in(text)
    if isinstance(document, dict) and _is_written("job", document):
        return document
    return None


def _file_name(typed: str) -> str:
    """A name that stays in its folder."""
    return re.sub(r"[^\w.@+=-]", "_", str(typed)).lstrip(".")[:100] or "text"


def _model_name(config: Mapping[str, Any]) -> str:
    """What a config.json calls its model: the last part of a path."""
    typed = config.get("_name_or_path")
    if not typed:
        return "model"
    _, _, last = typed.rstrip("/").rpartition("/")
    return _file_name(last)


def _text_name(name: str, number: str, text: str) -> str:
    """What to call the file of a text: the argument in singular, and the suffix of its format."""
    suffix = FILE_ARGUMENTS[name]
    if not suffix:
        opening = text.lstrip()[:1]
        suffix = {"{": ".json", "[": ".json", "<": ".xml"}.get(opening, ".yaml")
        # YAML holds all of JSON, and a job in .json is a config.json
        if name == "job":
            suffix = ".yaml"
    singular = name.removesuffix("s")
    return f"{singular}{number}{suffix}"


def _written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8", errors="replace")
    return str(path)
