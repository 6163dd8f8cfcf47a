"""InfraGraph files, which its own blueprints wrote (infragraph 3.1.0), as fabrics; and fabrics as
InfraGraph, read back.

The files of ``infragraph/``: ``SingleTierFabric(NvidiaDGX("dgx_h100"), 4, 400)``, the same of two
MI300X, ``ClosFabric()``, ``ClosFatTreeFabric(Switch(8), Server(2), 2, [400, 400])``,
``(Switch(4), Server(1), 3, [100, 100, 100])``, and
``DragonflyFabric(Switch(8), Server(1), 4, 2, 2)``.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
import yaml
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.extras.interop.infragraph_import import read_infragraph
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.properties import fabric_facts
from colltool.fabric.topology import capabilities_of

pytestmark = pytest.mark.usefixtures("datasheet")

FILES = Path(__file__).parent / "infragraph"


def made(name: str, **options: Any) -> Any:
    return colltool.load_fabric(
        yaml.safe_load(import_dumps(["infragraph", str(FILES / name)], **options))
    )


def shape(name: str) -> list[tuple[int, int, float]]:
    _, network = read_infragraph(FILES / name)
    assert network is not None
    return [(level.group, level.switches, level.oversubscription) for level in network.levels]


def seconds(fabric: Any) -> float:
    return float(colltool.price(fabric, "ar", size="64MB").results[0].total_s)


ONE_LEAF = "{tier}.levels=[{{name: leaf, group: {group}, alpha: 5us}}]"


@pytest.mark.parametrize(
    ("name", "shipped", "changes"),
    [
        (
            "single_tier_dgx_h100.yaml",
            "dgx-h100",
            ["ib.size=4", ONE_LEAF.format(tier="ib", group=4), "ib.in_network.levels=1"],
        ),
        (
            "single_tier_mi300x.json",
            "mi300x-cluster",
            ["roce.size=2", ONE_LEAF.format(tier="roce", group=2)],
        ),
    ],
)
def test_known_machines_under_one_switch(name: str, shipped: str, changes: list[str]) -> None:
    fabric, own = made(name), colltool.load_fabric(shipped, changes)
    assert (fabric.ranks, fabric.device, seconds(fabric)) == (own.ranks, own.device, seconds(own))


def test_levels_of_the_blueprints() -> None:
    """As their docstrings say: a leaf for each server, three spines; fat-trees of k = 8 and k = 4,
    of k/2 NICs a server."""
    assert shape("clos.yaml") == [(1, 4, 1.0), (4, 3, 1.0)]
    assert shape("clos_fat_tree_2.json") == [(1, 8, 1.0), (8, 4, 1.0)]
    assert shape("clos_fat_tree_3.json") == [(1, 8, 1.0), (2, 8, 1.0), (8, 4, 1.0)]


def test_the_fat_tree_has_as_many_switches_as_the_file() -> None:
    facts = fabric_facts(made("clos_fat_tree_3.json", like="dgx-h100")).tiers[1]
    assert facts.sizing is not None
    assert (
        sum(level.switches for level in facts.sizing.levels)
        == 20
        == sum(count for _, count, _ in shape("clos_fat_tree_3.json"))
    )
    assert [
        one.oversubscription
        for one in capabilities_of(made("clos_fat_tree_3.json", like="dgx-h100").tiers[1]).classes
    ] == [1] * 3


def test_a_dragonfly_is_no_clos() -> None:
    with pytest.raises(
        ColltoolError, match=r"is not a Clos: a cable joins router.* and both have hosts"
    ):
        read_infragraph(FILES / "dragonfly.json")


def test_a_bandwidth_of_the_scale_up_links_counts() -> None:
    """A link's physical bandwidth, which no blueprint of a device gives."""
    data = yaml.safe_load((FILES / "single_tier_dgx_h100.yaml").read_text())
    link = next(one for one in data["devices"][0]["links"] if one["name"] == "xpu_fabric")
    link["physical"] = {"bandwidth": {"choice": "gigabytes_per_second", "gigabytes_per_second": 50}}
    found = read(json.dumps(data))[0]
    assert found.link_Bps == 200e9  # to four switches


def read(text: str) -> Any:
    with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return read_infragraph(file.name)


ONE = {
    "devices": [
        {
            "name": "host",
            "components": [
                {"name": "xpu", "choice": "xpu", "count": 2},
                {"name": "nic", "choice": "nic", "count": 1},
            ],
        },
        {"name": "switch", "components": [{"name": "port", "choice": "port", "count": 4}]},
    ],
    "instances": [
        {"name": "h", "device": "host", "count": 4},
        {"name": "s", "device": "switch", "count": 1},
    ],
    "links": [{"name": "l", "physical": {"bandwidth": {"gigabits_per_second": 100}}}],
    "edges": [
        {
            "scheme": "one2one",
            "link": "l",
            "ep1": {"instance": "h", "component": "nic"},
            "ep2": {"instance": "s", "component": "port"},
        }
    ],
}


def changed(**edge: Any) -> str:
    return json.dumps({**ONE, "edges": [{**ONE["edges"][0], **edge}]})  # type: ignore[dict-item]


@swept(
    ("text", "what"),
    [
        ("", "expected keys and values"),
        ("[1, 2]", "expected keys and values"),
        ("a: 1", "has no devices and instances"),
        ('{"devices": [], "inst', "is not JSON, or cut off"),
        ("{" * 100_000, "is not JSON, or cut off"),
        ('{"devices": [1], "instances": []}', "expected a list of mappings as devices"),
        (json.dumps({**ONE, "devices": []}), "no device is called 'host'"),
        (
            json.dumps(ONE).replace('"count": 2', '"count": 1000000000'),
            "expected a count of at most 100000",
        ),
        (
            json.dumps(ONE).replace('"choice": "xpu"', '"choice": "cpu"'),
            "components of choice xpu, found none",
        ),
        (json.dumps({**ONE, "links": []}), "the link 'l' has no bandwidth"),
        (changed(scheme="ring"), "the scheme 'ring' is not read"),
        (changed(ep2={"instance": "t", "component": "port"}), "no instance is called 't'"),
        (changed(ep2={"instance": "s", "component": "port[a:b]"}), "'port[a:b]' is no slice of 4"),
        (
            changed(ep2={"instance": "h", "component": "nic"}, scheme="many2many"),
            "an edge joins h.0 and h.1 without a switch",
        ),
        (changed(ep1={"instance": "h", "component": "gpu"}), "host has no component 'gpu'"),
    ],
)
def test_hostile_files(text: str, what: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        read(text)
    assert what in str(caught.value)


def test_slices_are_those_of_python() -> None:
    """Negative, open and stepped, as infragraph's service expands them."""
    for text, leaves in (("nic", 4), ("nic[0]", 4), ("nic[-1]", 4), ("nic[:]", 4), ("nic[::2]", 4)):
        _, network = read(changed(ep1={"instance": "h", "component": text}))
        assert network.hosts == leaves
    _, network = read(changed(ep1={"instance": "h[1:]", "component": "nic"}))
    assert network.hosts == 3
