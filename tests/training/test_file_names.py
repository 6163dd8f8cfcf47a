"""A data file is what its name says."""

from __future__ import annotations

from pathlib import Path

import yaml
from swept import swept

import colltool.training

DATA = Path(colltool.training.__file__).parent / "data"
FILES = sorted([*DATA.glob("devices/*.yaml"), *DATA.glob("models/*.yaml")])


@swept("path", FILES)
def test_a_device_or_model_has_the_name_of_its_file(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["name"] == path.stem
