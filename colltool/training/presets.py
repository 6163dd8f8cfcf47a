"""The jobs, models, devices and stacks that come with colltool, and those that a job names: files beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeVar

from colltool.base.errors import ColltoolError, ManyErrors, problems_of
from colltool.base.inputs import read_text
from colltool.base.quoting import printable
from colltool.definitions.field_types import Part
from colltool.definitions.reader import read
from colltool.fabric.load import SUFFIX, exists
from colltool.training.files.config_keys import unmodelled
from colltool.training.files.huggingface import USED, ConfigFile, shape_of
from colltool.training.files.schema import DeviceFile, ModelFile, StackFile, unknown

M = TypeVar("M", bound=Part)
Kind = Literal["jobs", "models", "devices", "stacks"]
PARTS: tuple[Kind, ...] = ("models", "devices", "stacks")
"""What a job file names."""


def preset_folder(kind: Kind) -> Path:
    """The folder of the shipped files of a kind."""
    return Path(__file__).parent / "data" / kind


def preset_names(kind: Kind) -> list[str]:
    """The names of the shipped files of a kind, sorted."""
    return sorted(file.stem for file in preset_folder(kind).glob(f"*{SUFFIX}"))


def find(kind: Kind, name: str, folder: Path) -> tuple[str, str]:
    """The file that a job means by a name: a shipped one, else one beside the job, else a path.

    Returns:
        The path to open, and what errors call it.

    Raises:
        ColltoolError: none of them.
    """
    stem = name.removesuffix(SUFFIX)
    if stem in preset_names(kind):
        return str(preset_folder(kind) / f"{stem}{SUFFIX}"), f"{stem}{SUFFIX}"
    beside = str(folder / name)
    if exists(beside):
        return beside, beside
    raise unknown(kind.removesuffix("s"), printable(name), preset_names(kind))


def read_model(name: str, folder: Path) -> ModelFile:
    """A model that a job names: a shipped one, a model file, or a Hugging Face ``config.json``.

    Raises:
        ColltoolError: no such file, or what is wrong with it, at its places.
    """
    path, called = find("models", name, folder)
    if not path.endswith(".json"):
        return read(ModelFile, read_text(path, "definition", called), called).result()
    reading = read(ConfigFile, read_text(path, "config", called), called)
    for one in unmodelled(reading.data, USED):
        reading.refuse((one.key,), one.what, one.fix, about_key=True)
    config = reading.result()
    title = Path(path).parent.name if Path(path).name == "config.json" else Path(path).stem
    try:
        return read(ModelFile, shape_of(config, title[:100])).result()
    except ManyErrors as error:
        fix = "give the model as a mapping: layers, hidden, heads, ffn, vocab ..."
        raise ManyErrors(
            [ColltoolError(one.what, where=f"{printable(called)}:1:1", fix=one.fix or fix) for one in problems_of(error)]
        ) from error


def read_device(name: str, folder: Path) -> DeviceFile:
    """A device that a job names."""
    return _read(DeviceFile, "devices", name, folder)


def read_stack(name: str, folder: Path) -> StackFile:
    """A stack that a job names."""
    return _read(StackFile, "stacks", name, folder)


def _read(kind: type[M], folder_of: Kind, name: str, folder: Path) -> M:
    path, called = find(folder_of, name, folder)
    return read(kind, read_text(path, "definition", called), called).result()


def stem_of(name: str) -> str:
    """What a file is called where it gives no name of its own."""
    return os.path.basename(name).removesuffix(SUFFIX)
