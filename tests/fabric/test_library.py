"""The key ``library`` of a fabric: a word or facts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from swept import swept

from colltool.algorithms.libraries import LIBRARIES, LibraryName
from colltool.base.errors import ColltoolError
from colltool.commands.arguments import ARGUMENTS
from colltool.definitions.json_schema import json_schema
from colltool.fabric.library_numbers import under_library
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.yaml_writer import fabric_text

TIER = {"name": "nvlink", "topology": "star", "size": 8, "alpha": "1us", "bandwidth": "450GB/s"}
FULL = {
    "name": "nccl",
    "version": "2.30",
    "gpu": "hopper",
    "cpu": "amd",
    "link": "nvlink",
    "nics": 8,
    "collnet": True,
    "nvls": False,
    "channels": {"ring": {"channels": 12, "inside": "30GB/s", "across": "24GB/s"}, "total": 24},
}


def with_library(library: Any) -> dict[str, Any]:
    return {"schema": "colltool.fabric/1", "name": "node", "tiers": [TIER], "library": library}


def loaded(library: Any) -> Fabric:
    return load_fabric(with_library(library))


def test_without_one_there_are_no_facts() -> None:
    fabric = load_fabric({"name": "node", "tiers": [TIER]})
    assert (fabric.library, fabric.library_facts) == (None, None)


@swept("word", ["nccl", "rccl", "mpi", "xla", "mscclpp", "all"])
def test_a_word_is_a_library_without_facts(word: str) -> None:
    facts = loaded(word).library_facts
    assert facts is not None
    assert facts.model_dump(exclude_defaults=True) == {"name": word}


def test_rates_are_read_as_everywhere() -> None:
    facts = loaded(FULL).library_facts
    assert facts is not None
    assert facts.channels is not None
    assert facts.channels.ring is not None
    assert (facts.channels.ring.inside, facts.channels.total) == (30e9, 24)


@pytest.mark.parametrize("library", ["nccl", FULL])
def test_editors_accept_it_and_it_loads_as_it_was_written(library: Any) -> None:
    assert not list(
        Draft202012Validator(json_schema(Fabric, "fabric")).iter_errors(with_library(library))
    )
    text = fabric_text(fabric_data(with_library(library)))
    import yaml

    assert load_fabric(yaml.safe_load(text)) == loaded(library)


BAD = [
    (
        "ncl",
        "library: expected nccl, rccl, mpi, xla, mscclpp or all, or a mapping such as {name: nccl",
    ),
    ([], "library: expected nccl, rccl, mpi"),
    ({}, "library: key 'name' is missing"),
    (
        {"name": "openmpi"},
        "library.name: expected one of nccl, rccl, mpi, xla, mscclpp, all, got 'openmpi'",
    ),
    ({"name": "nccl", "version": "2"}, "library.version: expected a version"),
    ({"name": "nccl", "version": "2.30.7.1"}, "library.version: expected a version"),
    ({"name": "nccl", "version": "newest"}, "library.version: expected a version"),
    ({"name": "nccl", "gpu": "hoper"}, "did you mean 'hopper'?"),
    ({"name": "nccl", "gpus": "hopper"}, "library.gpus: unknown key 'gpus'"),
    ({"name": "nccl", "cpu": "power"}, "library.cpu: expected one of intel, amd, arm"),
    ({"name": "nccl", "collnet": 1}, "library.collnet: expected true or false, got 1"),
    ({"name": "nccl", "nics": 0}, "library.nics: expected a whole number"),
    (
        {"name": "nccl", "channels": {"ring": {"channels": 65, "inside": "1GB/s"}}},
        "a whole number from 1 to 64, got 65",
    ),
    (
        {"name": "nccl", "channels": {"ring": {"channels": 8}}},
        "library.channels.ring: key 'inside' is missing",
    ),
    (
        {"name": "nccl", "channels": {"ring": 8}},
        "expected a mapping such as {channels: 8, inside: 48GB/s",
    ),
]


@swept(("library", "words"), BAD)
def test_what_is_refused_is_named(library: Any, words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        loaded(library)
    assert words in str(caught.value)
    assert list(
        Draft202012Validator(json_schema(Fabric, "fabric")).iter_errors(with_library(library))
    )


def test_one_fact_can_be_set() -> None:
    facts = load_fabric("dgx-h100", ["library.collnet=true"]).library_facts
    assert facts is not None
    assert (facts.collnet, facts.gpu) == (True, "hopper")


def test_every_list_of_libraries_is_the_registry() -> None:
    names = get_args(LibraryName)
    assert ARGUMENTS["library"].words == names
    assert {*LIBRARIES, "all"} == set(names)


def test_another_library_takes_nothing_that_was_measured_of_the_own() -> None:
    own = load_fabric("dgx-h100")
    assert under_library(own, "nccl") is own
    for other in ("all", "mscclpp", "mpi"):
        tiers = under_library(own, other).tiers
        assert not any(tier.protocols or tier.algorithms for tier in tiers)
        assert [tier.bandwidth for tier in tiers] == [tier.bandwidth for tier in own.tiers]
        assert under_library(own, other).efficiencies == ()
    assert (
        under_library(load_fabric("mi300x"), "rccl").tiers == load_fabric("mi300x").tiers
    )  # it does not say whose numbers they are


def test_a_number_of_python_may_be_two_versions() -> None:
    """2.3 and 2.30 are one number there; in a file both are read as they are written, so an editor
    takes them."""
    with pytest.raises(
        ColltoolError, match=r"such as 2\.30 or 2\.31\.2, got 2\.3\n  put it in quotes"
    ):
        loaded({"name": "nccl", "version": 2.3})


@swept("written", ["2.30", '"2.30"', "2.31.2", "2.31.0a7", "2.30.7-1"])
def test_a_version_is_the_word_that_was_written(written: str, tmp_path: Path) -> None:
    """2.30 is no number: as one it would be 2.3."""
    file = tmp_path / "node.yaml"
    lines = [
        "schema: colltool.fabric/1",
        "name: node",
        "library:",
        "  name: nccl",
        f"  version: {written}",
        "tiers:",
    ]
    lines += [
        "  - name: nvlink",
        "    topology: star",
        "    size: 8",
        "    alpha: 1us",
        "    bandwidth: 450GB/s",
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    read = load_fabric(str(file)).library_facts
    set_alone = load_fabric(
        with_library("nccl"), [f"library={{name: nccl, version: {written}}}"]
    ).library_facts
    set_by_key = load_fabric(
        with_library({"name": "nccl"}), [f"library.version={written}"]
    ).library_facts
    for facts in (read, set_alone, set_by_key):
        assert facts is not None
        assert facts.version == written.strip('"')
    assert not list(
        Draft202012Validator(json_schema(Fabric, "fabric")).iter_errors(
            with_library({"name": "nccl", "version": 2.3})
        )
    )
