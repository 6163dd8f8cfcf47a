"""NCCL's own graphs of topology files of all its kinds of machines: every number, order, channel, table
and pick."""

from __future__ import annotations

from typing import Any

import pytest
from golden_graphs import (
    FOLDER,
    graph,
    judged,
    path_text,
    rows,
    same_numbers,
    same_orders,
    xml_of,
)
from swept import swept

from colltool.libraries.nccl.topology.graphs import graphs_of

ROWS = {row["id"]: row for row in rows()}


@swept("row", ROWS.values(), most=4)
def test_graphs_channels_tables_and_picks_are_nccls(row: dict[str, Any]) -> None:
    compared = list(judged(row, xml_of(row, FOLDER, FOLDER)))
    assert {level for level, _, _ in compared} >= {"numbers", "orders"}
    assert [what for what in compared if not what[-1]] == []


@swept("row", [row for row in ROWS.values() if "gpu_paths" in row], most=12)
def test_paths_are_nccls(row: dict[str, Any]) -> None:
    """Of the domain of rank 0, after the GPUs of others were dropped."""
    node = graphs_of(xml_of(row, FOLDER, FOLDER))
    assert len(node.domains) == row["domains"]
    paths = node.first.paths
    gpus, nets = paths.system.gpus, paths.system.nets
    for key, starts, ends in (
        ("gpu_paths", gpus, gpus),
        ("net_paths", gpus, nets),
        ("from_net_paths", nets, gpus),
    ):
        found = [" ".join(path_text(paths.get(one, end)) for end in ends) for one in starts]
        assert found == row[key]


@swept("row", [row for row in ROWS.values() if "nccl_2_28_9" in row], most=1)
def test_an_older_release_finds_what_it_found(row: dict[str, Any]) -> None:
    for nodes, old in row["nccl_2_28_9"].items():
        domain = graphs_of(xml_of(row, FOLDER, FOLDER), int(nodes), "2.28.9").first
        for name, want in old["graphs"].items():
            assert same_numbers(want, graph(domain, domain.graphs[name]))


@pytest.mark.ci
@swept("row", [row for row in ROWS.values() if "collnet_2nodes" in row], most=1)
def test_collnet_on_the_few_files_that_have_it(row: dict[str, Any]) -> None:
    domain = graphs_of(xml_of(row, FOLDER, FOLDER), 2, collnet=True).first
    for name, want in row["collnet_2nodes"]["graphs"].items():
        have = graph(domain, domain.graphs[name])
        assert same_numbers(want, have)
        assert same_orders(want, have)
