"""Shipped jobs, models, devices and stacks, and the files that a job names."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from colltool.base.errors import ColltoolError, ManyErrors, printable, problems_of
from colltool.base.files import read_text
from colltool.definitions.field_types import Part
from colltool.definitions.reader import read
from colltool.fabric.load import SUFFIX, exists
from colltool.training.files.config_keys import unmodelled
from colltool.training.files.huggingface import USED, ConfigFile, shape_of
from colltool.training.files.schema import DeviceFile, ModelFile, StackFile, unknown

M = TypeVar("M", bound=Part)
Kind = Literal["jobs", "models", "devices", "stacks"]
PARTS: tuple[Kind, ...] = ("models", "devices", "stacks")  # that a job file names


def preset_folder(kind: Kind) -> Path:
    return Path(__file__).parent / "data" / kind


@cache
def _names(kind: Kind) -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in preset_folder(kind).glob(f"*{SUFFIX}")))


def preset_names(kind: Kind) -> list[str]:
    return list(_names(kind))


@cache
def _preset(kind: Kind, model: type[M], stem: str) -> M:
    file = f"{stem}{SUFFIX}"
    return read(model, read_text(str(preset_folder(kind) / file), "definition", file), file).result()


def _read(kind: Kind, model: type[M], name: str, folder: Path) -> M:
    """A shipped file, else one beside the job, else a path."""
    if (stem := name.removesuffix(SUFFIX)) in _names(kind):
        found: M = _preset(kind, model, stem)
        return found
    path = _found(kind, name, folder)
    return read(model, read_text(path, "definition", path), path).result()


def _found(kind: Kind, name: str, folder: Path) -> str:
    if exists(beside := str(folder / name)):
        return beside
    raise unknown(kind.removesuffix("s"), printable(name), preset_names(kind))


def read_model(name: str, folder: Path) -> ModelFile:
    """A shipped model, a model file, or a Hugging Face ``config.json``."""
    if not name.endswith(".json") or name.removesuffix(SUFFIX) in preset_names("models"):
        return _read("models", ModelFile, name, folder)
    path = _found("models", name, folder)
    reading = read(ConfigFile, read_text(path, "config", path), path)
    for one in unmodelled(reading.data, USED):
        reading.refuse((one.key,), one.what, one.fix, about_key=True)
    config = reading.result()
    title = Path(path).parent.name if Path(path).name == "config.json" else Path(path).stem
    try:
        return read(ModelFile, shape_of(config, title[:100])).result()
    except ManyErrors as error:
        fix = "give the model as a mapping: layers, hidden, heads, ffn, vocab ..."
        raise ManyErrors(
            [ColltoolError(one.what, where=f"{printable(path)}:1:1", fix=one.fix or fix) for one in problems_of(error)]
        ) from error


def read_device(name: str, folder: Path) -> DeviceFile:
    return _read("devices", DeviceFile, name, folder)


def read_stack(name: str, folder: Path) -> StackFile:
    return _read("stacks", StackFile, name, folder)


def stem_of(name: str) -> str:
    """The name of a file that gives itself none."""
    return os.path.basename(name).removesuffix(SUFFIX)
