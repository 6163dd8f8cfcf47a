"""Files to start from hold, say what their keys mean, and are the fabric that they came from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.fabric.lint import check_fabric
from colltool.fabric.load import load_fabric, read_fabric, shipped_fabrics
from colltool.fabric.templates import COMMENTS, OPTIONAL_KEYS, fabric_start, yaml_of
from colltool.fabric.topology import capabilities_of

TIERS = {
    "nvlink:star:8:450GB/s:0.8us,ib:clos:32:400Gbps:5us": ["nvlink star 8", "ib clos 32"],
    "nvlink:star:8:450GB/s:0.8us, eth:clos:4/8/32:400Gbps:5us/10us/12us:s=2/1.5": [
        "nvlink star 8",
        "eth clos 32",
    ],
    "ici:torus:8x8x4:45GB/s:1us": ["ici torus 8x8x4"],
    "m:full_mesh:8:48GB/s:1us:eta=1.1/0.9:ports=2,r:star:4:25GB/s:5us": [
        "m full_mesh 8",
        "r star 4",
    ],
}


def checked(text: str, folder: Path) -> None:
    """Read from a file, and nothing about it is odd."""
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    assert check_fabric(folder / "mine.yaml").warnings == ()


@pytest.mark.alike(8)
@pytest.mark.parametrize("name", shipped_fabrics())
def test_from_every_shipped_fabric(name: str, tmp_path: Path) -> None:
    text = fabric_start(name)
    assert read_fabric(text, "mine.yaml") == load_fabric(name)
    assert "  # latency of one message" in text or "  # bottom up; group" in text
    checked(text, tmp_path)


@swept("tiers", TIERS)
def test_from_tiers_on_a_line(tiers: str, tmp_path: Path) -> None:
    text = fabric_start(tiers=tiers, name="my rack!.v2")
    fabric = read_fabric(text, "mine.yaml")
    assert fabric.name == "my-rack-v2"
    assert [
        f"{tier.name} {tier.topology} {capabilities_of(tier).extent}" for tier in fabric.tiers
    ] == TIERS[tiers]
    checked(text, tmp_path)


def test_the_values_of_a_line() -> None:
    inner, outer = read_fabric(fabric_start(tiers=list(TIERS)[1]), "mine.yaml").tiers
    assert (inner.bandwidth, inner.eta.beta, outer.bandwidth, outer.eta.alpha) == (
        450e9,
        0.8,
        50e9,
        1.2,
    )
    classes = capabilities_of(outer).classes
    assert [(one.name, one.group, one.alpha_s, one.oversubscription) for one in classes] == [
        ("leaf", 4, 5e-6, 1),
        ("spine", 8, 10e-6, 2),
        ("core", 32, 12e-6, 3),
    ]
    mesh, _ = read_fabric(fabric_start(tiers=list(TIERS)[3]), "mine.yaml").tiers
    assert (mesh.eta.alpha, mesh.eta.beta, mesh.ports) == (1.1, 0.9, 2)


def test_the_template_and_all_that_it_offers(tmp_path: Path) -> None:
    text = fabric_start()
    checked(text, tmp_path)
    fabric = read_fabric(text, "mine.yaml")
    assert (fabric.ranks, [tier.endpoints for tier in fabric.tiers]) == (512, [8, 64])
    more = re.sub(r"(?m)^# (library|uncertainty|prices): ", r"\1: ", text)
    whole = read_fabric(more, "mine.yaml")
    assert whole.library_facts is not None
    assert whole.uncertainty is not None
    assert whole.prices is not None
    assert set(OPTIONAL_KEYS) == {"device", "library", "uncertainty", "prices"} <= set(COMMENTS)


def test_each_key_is_explained_once() -> None:
    text = fabric_start()
    said = re.findall(r"# (.*)", text)
    assert len(said) == len(set(said))
    assert all(
        any(words in one for one in said)
        for words in ("one way, of a rank's port", "one way, per rank", "bottom up")
    )


def test_what_is_set_is_written() -> None:
    assert (
        read_fabric(
            fabric_start("nvl72", overrides=["ib.size=64", "ib.levels.spine.group=64"]), "x"
        ).ranks
        == 64 * 72
    )
    assert read_fabric(fabric_start(overrides=["ib.size=32"]), "x").ranks == 256


@swept("name", shipped_fabrics(), most=15)
def test_a_shown_file_is_the_same_fabric(name: str) -> None:
    assert read_fabric(yaml_of(name), "again.yaml") == load_fabric(name)


def test_a_shown_file_has_what_is_set() -> None:
    sets = ["ib.levels.spine.oversubscription={uplinks: 2}", "launch_overhead=9us"]
    text = yaml_of("nvl72", sets)
    assert read_fabric(text, "again.yaml") == load_fabric("nvl72", sets)
    assert text.startswith(
        "# with ib.levels.spine.oversubscription={uplinks: 2}, launch_overhead=9us\nschema: "
    )
    assert list(yaml.safe_load(text))[:2] == ["schema", "name"]


@swept(
    ("tiers", "words"),
    [
        ("x", "'x' has no TOPOLOGY"),
        ("a:star:8:450GB/s", "has no ALPHA"),
        ("a:star:8:450GB/s:1us,", "'' has no NAME"),
        ("a:strar:8:450GB/s:1us", "did you mean 'star'"),
        ("a:star:8x8:450GB/s:1us", "expected a whole number such as 8"),
        ("a:star:8/16:450GB/s:1us", "'8/16' is not a size"),
        ("a:torus:8x:450GB/s:1us", "a shape such as 8x8x4"),
        ("a:star:8:450:1us", "write 450GB/s"),
        ("a:star:8:450GB/s:1", "write 1us or 1ns"),
        ("a:star:8:450GB/s:1us/2us", "gives several alphas"),
        ("a:clos:8/32:1GB/s:1us", "2 groups and 1 alphas"),
        ("a:clos:8/32:1GB/s:1us/2us:s=2/2", "2 ratios for 1 boundaries"),
        ("a:clos:8/30:1GB/s:1us/2us", "groups do not nest"),
        ("a:star:8:450GB/s:1us:s=2", "no levels to be oversubscribed"),
        ("a:star:8:450GB/s:1us:z=2", "s=2, eta=1.2/0.8 or ports=4 may follow"),
        ("a:star:8:450GB/s:1us:eta=0.8", "is not understood"),
        ("a b:star:8:450GB/s:1us", "expected a name"),
    ],
)
def test_a_line_that_is_no_tier(tiers: str, words: str) -> None:
    with pytest.raises(ColltoolError, match=re.escape(words)):
        fabric_start(tiers=tiers)


def test_one_start_only() -> None:
    with pytest.raises(ColltoolError, match="not from both"):
        fabric_start("nvl72", tiers="a:star:8:450GB/s:1us")
