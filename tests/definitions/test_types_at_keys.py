"""Every file people write, with a value of any type at any key: read, or refused with its place in a
few lines."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msccl_texts import all_reduce_ring

import colltool
from colltool.base.errors import ColltoolError
from colltool.custom.file import load_algorithm
from colltool.engines.lookup import load_library
from colltool.fabric.shipped import shipped_folder
from colltool.training.files.hugging_face import read_config
from colltool.training.measured_gemms import read_gemms

PACKAGE = Path(colltool.__file__).parent
CONFIGS = Path(__file__).parent.parent / "data" / "configs"
# Longer than int() reads; as text, since str() of it is refused as well.
DIGITS = "9" * 5000
ALIENS: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**70, 1e308, float("inf"), float("nan"), -0.0),
    *("", "x" * 100_000, "1e999GB/s", "nan", "-1", "0s", "2026-01-01"),
    *([], {}, [[]], [{}], {"a": 1}, [1, 2], ["x"], {"1": {}}),
)
GRAPH = {
    "name": "g",
    "tiers": [
        {
            "name": "n",
            "topology": "graph",
            "alpha": "1us",
            "bandwidth": "50GB/s",
            "edges": [[0, 1], {"between": [1, 2], "links": 2, "bandwidth": "25GB/s"}, [2, "s"]],
        },
    ],
}
STEPS = {
    "name": "x",
    "primitive": "all_gather",
    "ranks": 4,
    "chunks": 4,
    "steps": [["0>1:0"], [{"src": 0, "dst": 2, "chunks": [0], "reduce": False}]],
}


def from_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def documents() -> dict[str, tuple[Any, Callable[[str], object]]]:
    """A document of each kind, and what reads a file of it."""
    fabrics = shipped_folder()
    jobs = PACKAGE / "training" / "data" / "jobs"
    config = json.loads((CONFIGS / "deepseek-v3-fp8.json").read_text(encoding="utf-8"))
    return {
        "graph": (GRAPH, colltool.load_fabric),
        "clos": (from_yaml(fabrics / "dgx-h100.yaml"), colltool.load_fabric),
        "dragonfly": (from_yaml(fabrics / "frontier.yaml"), colltool.load_fabric),
        "hyperx": (from_yaml(fabrics / "ub-mesh.yaml"), colltool.load_fabric),
        "job": (from_yaml(jobs / "deepseek-v3.yaml"), planned),
        "steps": (STEPS, load_algorithm),
        "config": (config, read_config),
    }


def planned(path: str) -> object:
    return colltool.plan(path, "dgx-h100", ranks=2048)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every key and item of a document."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))


def read_or_refused(path: Path, read: Callable[[str], object]) -> None:
    try:
        read(str(path))
    except ColltoolError as error:
        said = str(error)
        assert path.name in said
        assert len(said) < 4000


@pytest.mark.parametrize("kind", ["graph", "clos", "dragonfly", "hyperx", "job", "steps", "config"])
@given(data=st.data())
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_type_at_any_key(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    document, read = documents()[kind]
    path = data.draw(st.sampled_from(sorted(places(document), key=str)))
    alien = data.draw(st.sampled_from(ALIENS))
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = alien
    file = tmp_path / ("f.json" if kind == "config" else "f.yaml")
    file.write_text(json.dumps(changed) if kind == "config" else yaml.safe_dump(changed))
    read_or_refused(file, read)


TOML = ("true", "-1", DIGITS, "0x" + "f" * 5000, "inf", "nan", '""', "[]", "{}", "[[]]", "07:32:00")


@pytest.mark.alike(5)
@pytest.mark.parametrize("name", ["_template", "vllm-0.27.0", "deepep-1"])
@pytest.mark.parametrize("literal", TOML, ids=range(len(TOML)))
def test_any_type_at_any_key_of_a_library(name: str, literal: str, tmp_path: Path) -> None:
    lines = (PACKAGE / "engines" / "data" / f"{name}.toml").read_text(encoding="utf-8").split("\n")
    seen = set()
    file = tmp_path / "f.toml"
    for number, line in enumerate(lines):
        found = re.match(r"\s*([\w-]+)\s*=", line)
        if found is None or found[1] in seen:
            continue
        seen.add(found[1])
        changed = [*lines[:number], f"{found[1]} = {literal}", *lines[number + 1 :]]
        file.write_text("\n".join(changed), encoding="utf-8")
        read_or_refused(file, load_library)
    assert len(seen) > 5


@pytest.mark.alike(4)
@pytest.mark.parametrize("other", ["", "-1", DIGITS, "x" * 100_000, "1.5", "nan", "None", "0"])
def test_any_text_in_any_attribute_of_xml(other: str, tmp_path: Path) -> None:
    text = all_reduce_ring()
    file = tmp_path / "f.xml"
    for found in list(re.finditer(r'="[^"]*"', text))[:60]:
        file.write_text(f'{text[: found.start()]}="{other}"{text[found.end() :]}')
        read_or_refused(file, load_algorithm)


def test_a_number_of_thousands_of_digits_is_refused_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text(f'name = "x"\nversion = {DIGITS}\n')
    with pytest.raises(ColltoolError, match=r"f\.toml:2: a number of thousands of digits"):
        load_library(file)


def test_a_cell_of_140000_characters_is_refused_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "g.csv"
    file.write_text(f"M,N,K,dtype,us\n1,2,3,bf16,5\n1,{'2' * 140_000},3,bf16,5\n")
    with pytest.raises(ColltoolError, match=r"g\.csv:3: is not valid CSV"):
        read_gemms(file)


def test_a_tier_that_is_no_number_is_refused_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("name: g\ntiers: [.inf]\n")
    with pytest.raises(ColltoolError, match=r"f\.yaml:2:9: tiers\.0: \.inf is not a finite number"):
        colltool.load_fabric(file)
