"""Files of jobs, models, devices and stacks: shipped ones by name, and those that a job names."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from colltool.base.errors import ColltoolError, nearest, printable
from colltool.base.files import read_text
from colltool.definitions.field_types import Part
from colltool.definitions.reader import read, sourced
from colltool.fabric.load import SUFFIX, exists
from colltool.training.files import DeviceFile, ModelFile, StackFile

M = TypeVar("M", bound=Part)
Kind = Literal["jobs", "models", "devices", "stacks"]
PARTS: tuple[Kind, ...] = ("models", "devices", "stacks")  # kinds of files that a job may name
# by key of a job file
_KIND_OF_PART: dict[str, Kind] = {"model": "models", "device": "devices", "stack": "stacks"}


def preset_folder(kind: Kind) -> Path:
    """The folder of shipped files of a kind."""
    return Path(__file__).parents[1] / "data" / kind


@cache
def preset_names(kind: Kind) -> tuple[str, ...]:
    """Names of the shipped files of a kind, in order."""
    files = preset_folder(kind).glob(f"*{SUFFIX}")
    return tuple(sorted(file.stem for file in files))


def _shipped(kind: Kind, stem: str) -> dict[str, Any]:
    """The content of a shipped file, with what it has from the one that it is ``like``: its own keys
    replace those of the other, sources one by one."""
    file = f"{stem}{SUFFIX}"
    text = read_text(str(preset_folder(kind) / file), "definition", file)
    own: dict[str, Any] = sourced(text, file)[0].data
    like = own.pop("like", None)
    if like is None:
        return own
    other = _shipped(kind, like)
    sources = other["source"] | own.get("source", {})
    return {**other, **own, "source": sources}


# shipped files do not change while we run
@cache
def _preset(kind: Kind, model: type[M], stem: str) -> M:
    return read(model, _shipped(kind, stem), f"{stem}{SUFFIX}").result()


def _read(kind: Kind, model: type[M], name: str, folder: Path) -> M:
    """Read a shipped file, else one in the folder of the job, else one by path."""
    stem = name.removesuffix(SUFFIX)
    if stem in preset_names(kind):
        found: M = _preset(kind, model, stem)
        return found
    path = _path_of(kind, name, folder)
    text = read_text(path, "definition", path)
    return read(model, text, path).result()


def _path_of(kind: Kind, name: str, folder: Path) -> str:
    """Return the path of a file that is not shipped.

    Raises:
        ColltoolError: there is none.
    """
    beside = str(folder / name)
    if exists(beside):
        return beside
    known = list(preset_names(kind))
    typed = printable(name)
    raise ColltoolError(
        f"no file and no shipped {kind.removesuffix('s')} is called '{typed}'",
        fix=f"{nearest(typed, known)} shipped: {', '.join(known)}; or a mapping".strip(),
    )


def _is_config(name: str) -> bool:
    """Whether a model is named by a Hugging Face config."""
    return name.endswith(".json") and name.removesuffix(SUFFIX) not in preset_names("models")


def read_model(name: str, folder: Path) -> ModelFile:
    """Read a shipped model, a config.json, or a file in the folder of the job."""
    if not _is_config(name):
        return _read("models", ModelFile, name, folder)
    # most jobs have no config, and need none of its families
    from colltool.training.files.hugging_face import read_config

    return read_config(_path_of("models", name, folder))


def mapping_of(part: str, name: str, folder: Path) -> dict[str, Any]:
    """Return the content of a named model, device or stack, as a job may write it out."""
    if part == "model" and _is_config(name):
        model = read_model(name, folder)
        return model.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    kind = _KIND_OF_PART[part]
    stem = name.removesuffix(SUFFIX)
    if stem in preset_names(kind):
        found = _shipped(kind, stem)
    else:
        path = _path_of(kind, name, folder)
        found = sourced(read_text(path, "definition", path), path)[0].data
    return {key: value for key, value in found.items() if key not in ("source", "notes")}


def longest_sequence(model: str) -> int | None:
    """Return the positions that a config.json has; None where it has none, or for a shipped
    model."""
    if not model.endswith(".json"):
        return None
    data = sourced(read_text(model, "config", model), model)[0].data
    if not isinstance(data, dict):
        return None
    positions = data.get("max_position_embeddings", data.get("n_positions"))
    if not isinstance(positions, int) or isinstance(positions, bool):
        return None
    return positions if positions > 0 else None


read_device = partial(_read, "devices", DeviceFile)
read_stack = partial(_read, "stacks", StackFile)


def stem_of(name: str) -> str:
    """A file's name without its folder and suffix."""
    return os.path.basename(name).removesuffix(SUFFIX)
