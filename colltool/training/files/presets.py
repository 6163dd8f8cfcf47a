"""Files of jobs, models, devices and stacks: shipped ones by name, and those that a job names."""

from __future__ import annotations

import os
from functools import cache
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
# kinds of the files that a job may name, by its key that names one
_KIND_OF_PART: dict[str, Kind] = {"model": "models", "device": "devices", "stack": "stacks"}
PART_KINDS = tuple(_KIND_OF_PART.values())


def preset_folder(kind: Kind) -> Path:
    """The folder of shipped files of a kind."""
    return Path(__file__).parents[1] / "data" / kind


@cache
def preset_names(kind: Kind) -> tuple[str, ...]:
    """Names of the shipped files of a kind, in order."""
    files = preset_folder(kind).glob(f"*{SUFFIX}")
    return tuple(sorted(file.stem for file in files))


def data_of(text: str, name: str) -> Any:
    """Return the data of a file's text, a mapping unless it is refused later; ``name``: the file, for
    errors."""
    source, _ = sourced(text, name)
    return source.data


def _shipped(kind: Kind, stem: str) -> dict[str, Any]:
    """The content of a shipped file; its keys replace those of the file that it is ``like``, its
    sources one by one."""
    file = f"{stem}{SUFFIX}"
    text = read_text(str(preset_folder(kind) / file), "definition", file)
    content: dict[str, Any] = data_of(text, file)
    like = content.pop("like", None)
    if like is None:
        return content
    base = _shipped(kind, like)
    sources = base["source"] | content.get("source", {})
    return {**base, **content, "source": sources}


# shipped files do not change while we run
@cache
def _preset(kind: Kind, model: type[M], stem: str) -> M:
    """Read a shipped file."""
    return read(model, _shipped(kind, stem), f"{stem}{SUFFIX}").result()


def _read(kind: Kind, model: type[M], name: str, folder: Path) -> M:
    """Read a shipped file, else one in the folder of the job, else one by path."""
    stem = name.removesuffix(SUFFIX)
    if stem in preset_names(kind):
        shipped: M = _preset(kind, model, stem)  # its cache has no type
        return shipped
    path = _path_of(kind, name, folder)
    text = read_text(path, "definition", path)
    return read(model, text, path).result()


def _path_of(kind: Kind, name: str, folder: Path) -> str:
    """Return the path of a file that is not shipped: in the folder of the job, or absolute.

    Raises:
        ColltoolError: there is none.
    """
    path = str(folder / name)  # only ``name`` where that is absolute
    if exists(path):
        return path
    known = list(preset_names(kind))
    shown = printable(name)
    raise ColltoolError(
        f"no file and no shipped {kind.removesuffix('s')} is called '{shown}'",
        fix=f"{nearest(shown, known)} shipped: {', '.join(known)}; or a mapping".strip(),
    )


def _is_config(name: str) -> bool:
    """Whether a model is named by a Hugging Face config."""
    return name.endswith(".json")


def read_model(name: str, folder: Path) -> ModelFile:
    """Read a shipped model, a config.json, or a file in the folder of the job."""
    if not _is_config(name):
        return _read("models", ModelFile, name, folder)
    # most jobs have no config, and need none of its families
    from colltool.training.files.hugging_face import read_config

    return read_config(_path_of("models", name, folder))


def read_device(name: str, folder: Path) -> DeviceFile:
    """Read a shipped device, or a file in the folder of the job."""
    return _read("devices", DeviceFile, name, folder)


def read_stack(name: str, folder: Path) -> StackFile:
    """Read a shipped stack, or a file in the folder of the job."""
    return _read("stacks", StackFile, name, folder)


def mapping_of(part: str, name: str, folder: Path) -> dict[str, Any]:
    """Return the content of a named model, device or stack, as a job may write it out."""
    if part == "model" and _is_config(name):
        model = read_model(name, folder)
        return model.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    kind = _KIND_OF_PART[part]
    stem = name.removesuffix(SUFFIX)
    if stem in preset_names(kind):
        content = _shipped(kind, stem)
    else:
        path = _path_of(kind, name, folder)
        content = data_of(read_text(path, "definition", path), path)
    return {key: value for key, value in content.items() if key not in ("source", "notes")}


def longest_sequence(model: str) -> int | None:
    """Return the positions of a config.json whose path was typed; None where it has none, or for
    a shipped model."""
    if not _is_config(model):
        return None
    data = data_of(read_text(model, "config", model), model)
    if not isinstance(data, dict):
        return None
    positions = data.get("max_position_embeddings", data.get("n_positions"))
    if not isinstance(positions, int) or isinstance(positions, bool):
        return None
    return positions if positions > 0 else None


def stem_of(name: str) -> str:
    """A file's name without its folder and suffix."""
    return os.path.basename(name).removesuffix(SUFFIX)
