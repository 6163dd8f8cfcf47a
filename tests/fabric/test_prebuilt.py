"""Shipped fabrics that were kept: the same as those that are read, and ignored where they are
not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from swept import swept

from colltool.base import cache
from colltool.definitions.field_types import Part
from colltool.fabric import load, prebuilt
from colltool.fabric.load import find_fabric, load_fabric, shipped_fabrics
from colltool.fabric.model import Fabric


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load._shipped_fabric.cache_clear()


def texts(name: str) -> tuple[str, ...]:
    found = load._shipped_texts(Path(find_fabric(name)[0]).read_text(encoding="utf-8"))
    assert found is not None
    return found


def state(part: Any) -> Any:
    """All that a model holds, also what does not count in its equality."""
    if hasattr(part, "__getstate__") and hasattr(part, "model_fields_set"):
        return type(part), {key: state(value) for key, value in part.__getstate__().items()}
    if isinstance(part, dict):
        return {key: state(value) for key, value in part.items()}
    if isinstance(part, tuple | list):
        return type(part), [state(item) for item in part]
    return type(part), part


@swept("name", shipped_fabrics())
def test_a_fabric_that_was_kept_is_the_one_that_was_read(name: str) -> None:
    read = load_fabric(name)
    kept = prebuilt.prebuilt(name, texts(name))
    assert kept is not None
    load._shipped_fabric.cache_clear()
    again = load_fabric(name)
    assert again is not read
    assert again == read
    assert state(again) == state(read)
    assert repr(again) == repr(read)
    assert again.model_dump() == read.model_dump()


def test_a_fabric_that_was_kept_takes_overrides() -> None:
    load_fabric("nvl72")
    load._shipped_fabric.cache_clear()
    load_fabric("nvl72")
    assert load_fabric("nvl72", ["ib.bandwidth=100GB/s"]).tiers[1].bandwidth == 100e9


def test_a_fabric_like_another_is_kept_for_the_text_of_both() -> None:
    own, other = texts("gb300-nvl72")
    assert "like: nvl72" in own
    load_fabric("gb300-nvl72")
    assert prebuilt.prebuilt("gb300-nvl72", (own, other)) is not None
    assert prebuilt.prebuilt("gb300-nvl72", (own, f"{other}# changed")) is None


@swept(
    "data",
    [
        None,
        [],
        {},
        {"model": "Fabric"},
        {"model": "NoSuchModel", "fields": {}, "private": {}, "stated": []},
        {"model": "Eta", "fields": {}, "private": {}, "stated": []},
        {"primitive": "no_such"},
        {"model": "Fabric", "fields": [], "private": [], "stated": 3},
        {"list": 3},
        {"dict": [1]},
        {"dict": [[["list"], 1]]},
    ],
)
def test_data_of_another_form_are_ignored(data: Any) -> None:
    cache.keep("fabric-nvl72", prebuilt._made_from(texts("nvl72")), data)
    assert prebuilt.prebuilt("nvl72", texts("nvl72")) is None
    assert load_fabric("nvl72").name == "nvl72"


def test_a_file_of_the_users_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(texts("star512")[0], encoding="utf-8")
    load_fabric(file)
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_written_is_not_kept() -> None:
    fabric = load_fabric("star512").model_copy(update={"launch_overhead": object()})
    prebuilt.keep_prebuilt("odd", ("text",), fabric)
    assert prebuilt.prebuilt("odd", ("text",)) is None


def test_a_price_of_a_fabric_that_was_kept_reads_no_yaml() -> None:
    code = (
        "import sys; from colltool.commands.app import run;"
        "assert not run(['price', 'ar', '-f', 'dgx-h100', '-M', '16MB', '--format', 'json']);"
        "print('yaml' in sys.modules, file=sys.stderr)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stderr.strip() for run in runs] == ["True", "False"]
    assert runs[0].stdout == runs[1].stdout


def test_every_class_of_a_fabric_has_a_name_of_its_own() -> None:
    models = prebuilt._models()
    assert models["Fabric"] is Fabric
    classes, waiting = [], [Part]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        classes += [model.__name__] * model.__module__.startswith("colltool.fabric.")
    assert sorted(classes) == sorted(models)
