"""The data files of the cost models: whole, sourced, and refused where there is none."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import colltool.nccl.constants as module
from colltool.base.errors import ColltoolError
from colltool.nccl.constants import ALGORITHMS, GPUS, constants, versions

FILES = sorted((Path(module.__file__).parent / "data").glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_table_says_where_it_comes_from(file: Path) -> None:
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    assert file.stem == f"nccl-{tables['version']}"
    unsourced = [name for name, table in tables.items() if isinstance(table, dict) and not table.get("source")]
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


def test_without_a_version_it_is_the_newest() -> None:
    assert constants() is constants(versions()[-1])


def test_a_version_without_data_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ColltoolError) as caught:
        constants("2.18")
    assert str(caught.value) == "library.version: there is no data of NCCL 2.18's cost model\n  there is for: 2.30"
