"""The JSON Schema for editors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from small import read_source
from swept import swept

from colltool.congestion.layout_file import LayoutFile
from colltool.definitions.json_schema import json_schema
from colltool.fabric.ladder import LadderFile
from colltool.fabric.load import shipped_fabrics, shipped_folder
from colltool.fabric.model import Fabric
from colltool.fabric.templates import schema_line

GOOD = """\
schema: colltool.fabric/1
name: two-tiers
tiers:
  - {name: nvlink, topology: star, size: 72, alpha: 0.5us, bandwidth: 900GB/s, eta: {beta: 0.8}}
  - name: ib
    topology: clos
    size: 32
    bandwidth: 50e9
    levels:
      - {name: leaf, group: 4, alpha: 2 us}
      - {name: spine, group: 32, alpha: 8us, oversubscription: 2}
launch_overhead: 0us
"""


def faults(text: str) -> list[Any]:
    return list(
        Draft202012Validator(json_schema(Fabric, "fabric")).iter_errors(
            read_source(text, "f.yaml").data
        )
    )


def test_it_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(json_schema(Fabric, "fabric"))


def test_the_committed_copy_is_current() -> None:
    expected = json.dumps(json_schema(Fabric, "fabric"), indent=2) + "\n"
    assert (shipped_folder() / "fabric.schema.json").read_text() == expected


def test_a_good_fabric_passes() -> None:
    assert faults(GOOD) == []


@swept("name", shipped_fabrics(), most=15)
def test_every_shipped_fabric_passes(name: str) -> None:
    text = (shipped_folder() / f"{name}.yaml").read_text()
    assert faults(text) == []
    assert text.startswith(f"# {schema_line('fabric')}\n"), "editors find the schema beside it"


@swept(
    ("old", "new"),
    [
        ("alpha: 0.5us", "alpha: 0.5"),
        ("alpha: 0.5us", "alpha: '0.5'"),
        ("alpha: 0.5us", "alpha: 0.5US"),
        ("900GB/s", "900GB"),
        ("900GB/s", "900"),
        ("size: 72", "size: '72'"),
        ("size: 72", "size: 0"),
        ("size: 72", "shape: [8, 9]"),
        ("beta: 0.8", "beta: 0"),
        ("launch_overhead: 0us", "launch_overhead: 0"),
        ("launch_overhead", "overhead"),
        ("topology: star", "topology: ring"),
        ("name: two-tiers\n", ""),
        ("colltool.fabric/1", "colltool.fabric/3"),
    ],
)
def test_a_bad_fabric_does_not(old: str, new: str) -> None:
    assert old in GOOD
    assert faults(GOOD.replace(old, new, 1))


@swept("rate", ["900GB/s", "400Gbps", "50 GBps", "1.5TiB/s", "50e9B/s", "100000000"])
def test_rates_that_the_loader_reads(rate: str) -> None:
    assert faults(GOOD.replace("900GB/s", f"'{rate}'")) == []


@swept("time", ["500ns", "0.5 us", ".5us", "1e-6s", "2ms", "1\u00b5s", "1\u03bcs"])
def test_times_that_the_loader_reads(time: str) -> None:
    assert faults(GOOD.replace("0.5us", time)) == []


LADDER = (
    "schema: colltool.ladder-file/1\nsize: 16MB\nrungs:\n  - {primitive: ar, fabric: star512,"
    " algorithm: ring, ranks: 8}\n"
)
LAYOUT = """\
name: mixed
primitive: ar
groups:
  - {name: tp, ranks: [0, 1, 2, 3], size: 16MB}
  - {name: ep, pattern: {kind: block, group: 4, start: 4}}
map: {kind: rotate}
"""


def faults_of(model: type[BaseModel], text: str) -> list[Any]:
    return list(
        Draft202012Validator(json_schema(model, "ladder")).iter_errors(
            read_source(text, "f.yaml").data
        )
    )


@pytest.mark.parametrize(("model", "word"), [(LadderFile, "ladder"), (LayoutFile, "layout")])
def test_every_definition_has_a_schema(model: type[BaseModel], word: str) -> None:
    schema = json_schema(model, word)
    Draft202012Validator.check_schema(schema)
    assert list(schema)[:4] == ["$schema", "$id", "title", "description"]
    assert (schema["$id"], schema["title"]) == (f"urn:colltool:{word}:1", f"colltool {word}")


def test_good_ladders_and_layouts_pass() -> None:
    assert faults_of(LadderFile, LADDER) == []
    assert faults_of(LadderFile, (shipped_folder() / "ladders" / "n512.yaml").read_text()) == []
    for text in (
        LAYOUT,
        LAYOUT.replace("{kind: rotate}", "[3, 2, 1, 0]"),
        "pattern: {kind: box, shape: [2, 2]}\n",
    ):
        assert faults_of(LayoutFile, text) == []


@swept(
    ("model", "old", "new"),
    [
        (LadderFile, "16MB", "16Mb"),
        (LadderFile, "16MB", "0"),
        (LadderFile, "primitive: ar", "primitive: all"),
        (LadderFile, "ranks: 8", "ranks: 0"),
        (LadderFile, "ranks: 8", "rank: 8"),
        (LayoutFile, "[0, 1, 2, 3]", "[0]"),
        (LayoutFile, "[0, 1, 2, 3]", "[0, -1]"),
        (LayoutFile, "[0, 1, 2, 3]", "[0, x]"),
        (LayoutFile, "kind: block", "kind: blok"),
        (LayoutFile, "kind: rotate", "kind: 3"),
        (LayoutFile, "group: 4", "group: 1"),
        (LayoutFile, "primitive: ar", "primitiv: ar"),
    ],
)
def test_bad_ladders_and_layouts_do_not(model: type[BaseModel], old: str, new: str) -> None:
    text = LADDER if model is LadderFile else LAYOUT
    assert old in text
    assert faults_of(model, text.replace(old, new, 1))
