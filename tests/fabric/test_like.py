"""A fabric that is another one but for what it sets: what it takes over, what it says, and how it
refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.properties import basis_of

MINE = "schema: colltool.fabric/1\nname: mine\nlike: dgx-h100\n"


def made(folder: Path, text: str, name: str = "mine.yaml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ColltoolError) as caught:
        load_fabric(made(folder, text))
    return str(caught.value).replace(f"{folder}/", "")


def test_it_is_the_other_with_the_same_overrides(tmp_path: Path) -> None:
    text = f"{MINE}set:\n  ib.size: 4\n  ib.bandwidth: 25GB/s\n"
    mine, other = (
        load_fabric(made(tmp_path, text)),
        load_fabric("dgx-h100", ["ib.size=4", "ib.bandwidth=25GB/s"]),
    )
    # what a library takes on a rate of the file differs
    for tier, own in zip(other.tiers, mine.tiers, strict=True):
        assert own.model_dump(exclude={"source"}) == tier.model_dump(exclude={"source"})
    assert mine.library == other.library
    assert mine.overrides == ()
    assert (mine.name, mine.description, mine.notes) == ("mine", "", None)


def test_further_overrides_come_last_and_are_the_only_ones_told(tmp_path: Path) -> None:
    mine = load_fabric(made(tmp_path, f"{MINE}set: {{ib.size: 4}}\n"), ["ib.size=8"])
    assert (mine.ranks, mine.overrides) == (64, (("ib.size", "8"),))


def test_a_source_does_not_speak_for_another_value(tmp_path: Path) -> None:
    data = fabric_data(
        made(tmp_path, f"{MINE}set: {{ib.bandwidth: 25GB/s, nvlink.source.size: mine}}\n")
    )
    assert "bandwidth" not in data["tiers"][1]["source"]
    assert data["tiers"][0]["source"]["size"] == "mine"
    assert "bandwidth" in data["tiers"][0]["source"]


@swept(
    ("more", "basis"),
    [
        ("set: {ib.size: 4}\n", "measured"),
        ("device: h800\n", "as dgx-h100"),
        ("hypothetical: true\n", "hypothetical"),
    ],
)
def test_whose_numbers_they_are(more: str, basis: str, tmp_path: Path) -> None:
    assert basis_of(load_fabric(made(tmp_path, MINE + more))) == basis


def test_further_tiers_stand_outside_and_keep_their_places(tmp_path: Path) -> None:
    tier = "tiers:\n  - {name: wan, topology: star, size: 2, alpha: 1ms, bandwidth: 1GB/s}\n"
    mine = load_fabric(made(tmp_path, MINE + tier + "set: {wan.size: 3}\n"))
    assert [one.name for one in mine.tiers] == ["nvlink", "ib", "wan"]
    assert mine.tiers[2].endpoints == 3
    assert "mine.yaml:5:65: tiers.2.bandwidth" in refused(
        tmp_path, MINE + tier.replace("1GB/s", "fast")
    )


def test_a_file_beside_it_and_a_chain(tmp_path: Path) -> None:
    made(tmp_path, f"{MINE}set: {{ib.size: 4}}\ndevice: h800\n", "base.yaml")
    mine = load_fabric(
        made(tmp_path, MINE.replace("dgx-h100", "base.yaml") + "set: {ib.bandwidth: 25GB/s}\n")
    )
    assert (mine.ranks, mine.tiers[1].bandwidth, mine.device, mine.measured_on) == (
        32,
        25e9,
        "h800",
        "dgx-h100",
    )


def test_a_mapping_may_be_like_a_shipped_one() -> None:
    data: dict[str, Any] = {"name": "mine", "like": "dgx-h100", "set": {"ib.size": 4}}
    assert colltool.price(data, "ar", size="1MB").ranks == 32


@swept(
    ("text", "words"),
    [
        (
            MINE.replace("dgx-h100", "dgx-h10"),
            (
                "mine.yaml:3:7: like: no file and no shipped fabric is called 'dgx-h10'\n  did you"
                " mean 'dgx-h100'?"
            ),
        ),
        (
            MINE.replace("dgx-h100", "mine.yaml"),
            "mine.yaml:3:7: like: is like itself\n  name the fabric that it differs from",
        ),
        (
            MINE.replace("dgx-h100", "[a]"),
            "mine.yaml:3:7: like: expected the name of a shipped fabric, or a file",
        ),
        (
            f"{MINE}set: 4\n",
            "mine.yaml:4:6: set: expected values by key, got 4\n  set: {ib.bandwidth: 100GB/s}",
        ),
        (
            f"{MINE}set: {{in.size: 4}}\n",
            "mine.yaml:4:16: set.in.size: unknown tier 'in'\n  known: nvlink, ib",
        ),
        (
            f"{MINE}set: {{ib.bandwidth: 50}}\n",
            "mine.yaml:4:21: set.ib.bandwidth: expected a rate from 1 MB/s to 1 PB/s",
        ),
        (f"{MINE}tiers: 4\n", "mine.yaml:4:8: tiers: expected a list of tiers"),
        (f"{MINE}tiers: [4]\n", "mine.yaml:4:9: tiers.2: expected a tier"),
        (f"{MINE}tiers: [{{source: me}}]\nsource: 4\n", "mine.yaml:4:9: tiers.2"),
        (f"{MINE}sett: 4\n", "mine.yaml:4:1: sett: unknown key"),
    ],
)
def test_what_cannot_be(text: str, words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, text)


@swept("other", ["nvl72", "dgx-h100", "mi300x"])
def test_numbers_of_the_datasheet_leave_the_fit_behind(other: str, tmp_path: Path) -> None:
    """As the other with --numbers datasheet: nothing measured, neither in times nor in errors."""
    text = f"schema: colltool.fabric/1\nname: mine\nlike: {other}\nnumbers: datasheet\n"
    mine = load_fabric(made(tmp_path, text))
    assert basis_of(mine) == "datasheet"
    assert all(tier.protocols is None for tier in mine.tiers)
    for size in (1e3, 16e6, 1e9):
        own = colltool.price(mine, "ar", size=size)
        sheet = colltool.price(other, "ar", size=size, numbers="datasheet")
        assert {row.spec: row.total_s for row in own.results} == {
            row.spec: row.total_s for row in sheet.results
        }
        assert own.accuracy == sheet.accuracy
    measured = load_fabric(made(tmp_path, text.replace("datasheet", "measured")))
    assert (
        measured.tiers
        == load_fabric(made(tmp_path, text.replace("numbers: datasheet\n", ""))).tiers
    )
    assert (
        load_fabric(other, ["numbers=datasheet"]).tiers == load_fabric(other).on_datasheet().tiers
    )


def test_numbers_are_one_of_two_words(tmp_path: Path) -> None:
    said = refused(tmp_path, f"{MINE}numbers: fitted\n")
    assert said.startswith(
        "mine.yaml:4:10: numbers: expected one of measured, datasheet, got 'fitted'"
    )
