"""The data files of the cost models: whole, sourced, and refused where there is none."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from swept import swept

import colltool.libraries.nccl.hardware as module
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.libraries.nccl.hardware import ALGORITHMS, GPUS, constants, version_label, versions
from colltool.libraries.nccl.rules import RULES, rules_of

FILES = sorted((Path(module.__file__).parent / "data").glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_table_says_where_it_comes_from(file: Path) -> None:
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    assert file.stem == f"nccl-{tables['version']}"
    unsourced = [
        name
        for name, table in tables.items()
        if isinstance(table, dict) and not table.get("source")
    ]
    assert not unsourced
    assert tables["source"]


@pytest.mark.parametrize("version", versions())
def test_the_tables_are_whole(version: str) -> None:
    found = constants(version)
    for table in (
        found.ll_most_GBps,
        found.ring_ll128_channel_GBps,
        found.tree_ll128_channel_GBps,
        found.tree_channel_GBps,
        found.nvls_tree_channel_GBps,
    ):
        assert tuple(table) == GPUS
        assert all(len(row) == 3 for row in table.values())
    assert set(found.hop_latency_us) == {"nvlink", "pci", "net"}
    assert all(set(table) <= set(ALGORITHMS) for table in found.hop_latency_us.values())
    assert set(found.hop_latency_us["net"]) == set(ALGORITHMS)
    assert set(found.plateau["factor"]) == set(found.nvls["efficiency"]) == set(GPUS)
    for protocol in ("ll", "ll128", "simple"):
        assert len(found.size_correction[protocol]) == found.size_correction["nvls_tree_steps"]
    for search in found.search.values():
        assert search.inside == tuple(sorted(search.inside, reverse=True))
        assert search.across == tuple(sorted(search.across, reverse=True))


def test_data_of_a_newer_version_moves_no_fabric_that_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = constants()
    for file in FILES:
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    newer = (
        FILES[-1]
        .read_text(encoding="utf-8")
        .replace(f'version = "{versions()[-1]}"', 'version = "9.99"')
    )
    monkeypatch.setattr(module, "_shipped", module._shipped.__wrapped__)
    (tmp_path / "nccl-9.99.toml").write_text(newer, encoding="utf-8")
    monkeypatch.setattr(module, "_FOLDER", tmp_path)
    assert module.versions()[-1] == constants("9.99").version == "9.99"
    assert constants() is before
    assert before.version == module.UNVERSIONED


def test_every_version_names_rules_that_exist() -> None:
    assert all(
        rules_of(constants(version)) is RULES[constants(version).rules] for version in versions()
    )
    with pytest.raises(ColltoolError, match=r"names rules '9\.99', which do not exist"):
        rules_of(replace(constants(), rules="9.99"))


def test_shipped_fabrics_on_nccl_say_its_version() -> None:
    facts = [load_fabric(name).library_facts for name in shipped_fabrics()]
    assert {one.version for one in facts if one is not None and one.name == "nccl"} <= set(
        versions()
    )


def test_a_version_without_data_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ColltoolError) as caught:
        constants("2.18")
    assert (
        str(caught.value)
        == "library.version: there is no data of NCCL 2.18's cost model\n  the nearest is 2.30; "
        f"there is for: {', '.join(versions())}"
    )


@swept(
    ("release", "version"),
    [("2.30", "2.30"), ("2.30.7", "2.30"), ("2.31.2", "2.31"), ("2.31.0a7", "2.31")],
)
def test_a_release_has_the_data_of_its_version(release: str, version: str) -> None:
    assert constants(release) == constants(version)


@swept("other", ["2.3", "2.301", "2.3.1", "3.30"])
def test_what_only_looks_like_a_version_is_none(other: str) -> None:
    with pytest.raises(ColltoolError, match="there is no data of NCCL"):
        constants(other)


def test_data_of_a_pre_release_say_so() -> None:
    """2.30's are of a release; 2.31's were read before it was out, and what is newer has nothing
    nearer."""
    assert version_label("2.30") == "2.30"
    assert version_label("2.31") == "2.31 (its pre-release 2.31.0a7)"
    with pytest.raises(ColltoolError, match=r"the nearest is 2\.31 \(its pre-release 2\.31\.0a7\)"):
        constants("2.32")
