"""Fabrics as people type them: resized, with values of their own, by the name of a device."""

from __future__ import annotations

from pathlib import Path

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.bundled_for import fabric_of_device
from colltool.fabric.expression import parse_expression, split_fabrics
from colltool.fabric.load import load_fabric


def test_nodes_resize_the_outermost_tier_and_its_switches_follow() -> None:
    grown = load_fabric("dgx-b200:nodes=144")
    assert grown.ranks == 144 * 8
    assert dict(grown.overrides) == {"ib.size": "144", "ib.levels.spine.group": "160"}
    shrunk = load_fabric("nvl72:racks=2")
    assert shrunk.ranks == 144
    assert dict(shrunk.overrides) == {"ib.size": "2"}


def test_values_after_the_colon_are_this_fabrics_alone_and_win_over_others() -> None:
    fabric = load_fabric("nvl72:ib.bandwidth=100GB/s", ["ib.bandwidth=25GB/s"])
    assert fabric.tiers[1].bandwidth == 100e9
    by_mapping = load_fabric("nvl72:ib.bandwidth=100GB/s", {"ib.bandwidth": "25GB/s"})
    assert by_mapping.tiers[1].bandwidth == 100e9


def test_a_resized_fabric_is_priced_as_one_that_sets_its_size() -> None:
    typed = colltool.price("dgx-h100:nodes=4", "ar", size="16MB")
    stated = colltool.price(load_fabric("dgx-h100", ["ib.size=4"]), "ar", size="16MB")
    assert typed.best.total_s == stated.best.total_s


def test_a_part_of_each_rack() -> None:
    assert colltool.price("nvl72:per-rack=64", "ar", ranks=256, size="1GB").group.per_domain == (
        64,
        4,
    )


@swept(
    ("typed", "words"),
    [
        ("mi300x:nodes=3", "one tier of 8 endpoints"),
        ("frontier:nodes=3", "no number sizes it"),
        ("uneven-racks:nodes=3", "domains of different sizes"),
        ("mi300x-cluster:nodes=200", "join 128 nodes, not 200"),
        ("nvl72:nodes", "expected KEY=VALUE after the colon"),
        ("nvl72:nodes=many", "expected a whole number above 0"),
        ("nvl72:per-rack=100", "has 72 ranks behind an endpoint of ib"),
        ("mi300x:per-rack=4", "no racks of one size"),
        ("nvl72:ib.bandwith=1GB/s", "unknown key"),
    ],
)
def test_what_cannot_be_typed_so_is_refused_with_a_way_out(typed: str, words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        load_fabric(typed)
    assert words in str(caught.value)


def test_a_file_of_that_very_name_wins(tmp_path: Path) -> None:
    file = tmp_path / "a:nodes=3"
    file.write_text("x")
    assert parse_expression(str(file)).name == str(file)


def test_a_list_keeps_the_settings_of_each() -> None:
    assert split_fabrics("nvl72,torus512:torus.shape=[4,4,2],torus.alpha=1us,mi300x") == [
        "nvl72",
        "torus512:torus.shape=[4,4,2],torus.alpha=1us",
        "mi300x",
    ]


@swept(
    ("typed", "fabric"),
    [
        ("h100", "dgx-h100"),
        ("GB200", "nvl72"),
        ("H100-SXM-80GB", "dgx-h100"),
        ("MI300X-192GB-750W", "mi300x"),
        ("my-h100", ""),
        ("nvl72", ""),
        ("h1000", ""),
    ],
)
def test_a_device_leads_to_its_machine(typed: str, fabric: str) -> None:
    assert fabric_of_device(typed) == fabric


def test_ranks_that_do_not_fit_say_what_to_type() -> None:
    with pytest.raises(ColltoolError, match="dgx-b200:nodes=144"):
        colltool.price("dgx-b200", "ar", ranks=1152, size="16MB")
    with pytest.raises(ColltoolError, match="nvl72:per-rack=64"):
        colltool.price("nvl72", "ar", ranks=256, size="16MB")
