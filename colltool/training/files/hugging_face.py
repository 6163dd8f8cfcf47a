"""Models from a Hugging Face ``config.json``: :func:`read_config`.

``data/families.toml`` says which keys of which type of model mean what (:mod:`families`), and
:class:`ModelConfig` reads a config by it. :mod:`config_problems` finds what is wrong or not modelled,
and :mod:`config_shape` makes the model.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict

from colltool.base.errors import ColltoolError, ManyErrors, printable, problems_of
from colltool.base.files import read_text
from colltool.definitions.field_types import Part
from colltool.definitions.reader import read
from colltool.training.files import ModelFile
from colltool.training.files.config_problems import (
    MODEL_FILE,
    unknown_type,
    unmodelled,
    wrong_types,
)
from colltool.training.files.config_shape import shape_of
from colltool.training.files.model_config import ModelConfig, UnknownType, config_of


class ConfigFile(Part):
    """Any mapping; :mod:`config_problems` judges its keys."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


def read_config(path: str) -> ModelFile:
    """Read the model of a config.json.

    Raises:
        ColltoolError: there is no such file.
        ManyErrors: all that is wrong with it or not modelled.
    """
    reading = read(ConfigFile, read_text(path, "config", path), path)
    config = config_of(reading.data)
    if isinstance(config, UnknownType):
        # keys of the wrong type are named too, as of any known type
        as_llama = ModelConfig((), reading.data, "llama", [])
        problems = [unknown_type(config), *wrong_types(as_llama)]
    else:
        problems = list(unmodelled(config))
    for problem in problems:
        reading.refuse(problem.path, problem.what, problem.fix, about_key=problem.about_key)
    reading.result()
    assert isinstance(config, ModelConfig)  # an unknown type was refused
    name = Path(path).stem
    if name == "config":
        name = Path(path).parent.name
    try:
        return read(ModelFile, shape_of(config, name[:100])).result()
    except ManyErrors as error:
        # sizes that contradict each other have a place in the mapping, but none in the config
        where = f"{printable(path)}:1:1"
        raise ManyErrors(
            [
                ColltoolError(problem.what, where=where, fix=problem.fix or MODEL_FILE)
                for problem in problems_of(error)
            ]
        ) from error
