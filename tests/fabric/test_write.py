"""A fabric written as YAML is the fabric that is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.files import BOUNDS
from colltool.definitions.source import scan
from colltool.fabric.load import fabric_data, load_fabric, read_fabric, shipped_fabrics
from colltool.fabric.yaml_writer import fabric_text

TIER = {"name": "port", "topology": "star", "size": 8, "alpha": "1us", "bandwidth": "100GB/s"}


def document(**more: Any) -> dict[str, Any]:
    return {"schema": "colltool.fabric/1", "name": "small", "tiers": [TIER], **more}


@swept("name", shipped_fabrics(), most=5)
def test_shipped_fabrics_survive(name: str) -> None:
    data = fabric_data(name)
    text = fabric_text(data)
    assert read_fabric(text, "again.yaml") == load_fabric(name)
    assert fabric_text(yaml.safe_load(text)) == text


def test_overrides_are_written() -> None:
    data = fabric_data("dgx-h100", ["launch_overhead=5us"])
    assert read_fabric(fabric_text(data), "again.yaml") == load_fabric(
        "dgx-h100", ["launch_overhead=5us"]
    )


def test_keys_keep_their_order_and_comments_come_first() -> None:
    text = fabric_text(document(launch_overhead="2us"), ["one", "", "two  "])
    assert text.startswith(
        "# one\n#\n# two\nschema: colltool.fabric/1\nname: small\ntiers:\n  - name: port\n"
    )
    assert text.endswith("launch_overhead: 2us\n")
    assert read_fabric(text, "again.yaml").launch_overhead == pytest.approx(2e-6)


def test_the_same_mapping_twice_needs_no_anchor() -> None:
    eta = {"alpha": 1.5, "beta": 0.5}
    text = fabric_text(document(tiers=[TIER | {"eta": eta}, TIER | {"name": "rack", "eta": eta}]))
    assert "&" not in text
    assert [tier.eta.beta for tier in read_fabric(text, "again.yaml").tiers] == [0.5, 0.5]


LETTERS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp")),
    max_size=200,
)


@settings(max_examples=examples(60), deadline=None)
@given(LETTERS)
@pytest.mark.parametrize("key", ["description", "notes"])
def test_any_text_survives(key: str, words: str) -> None:
    data = document(**{key: words})
    source, refused = scan(fabric_text(data), "again.yaml")
    assert not refused
    assert source.data == data


def test_text_that_looks_like_something_else_stays_text() -> None:
    notes = [
        "on",
        "12:30",
        "1e9",
        "2.5e3",
        "0o17",
        "0x1F",
        "-7",
        ".5",
        "null",
        "# no comment",
        "a: b",
        "- c",
        "'",
        '"',
        "Übertragung 日本",
        "x" * 300,
    ]
    fabric = read_fabric(fabric_text(document(notes=notes)), "again.yaml")
    assert fabric.notes == notes


def test_a_written_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "größe ü.yaml"
    path.write_text(fabric_text(document(description="Größe")), encoding="utf-8")
    assert load_fabric(path).description == "Größe"


def test_comments_leave_room_for_what_is_read() -> None:
    lines = [f"{index} {'x' * 100}" for index in range(20_000)]
    text = fabric_text(document(), lines)
    assert len(text.encode()) <= BOUNDS["definition"].limit
    assert text.startswith(f"# {lines[0]}\n# {lines[1]}\n")
    kept = text.count("# ") - 1
    assert (
        f"\n# ({20_000 - kept} more lines are left out: a file holds at most 1 MiB)\nschema: "
        in text
    )
    assert read_fabric(text, "again.yaml") == read_fabric(fabric_text(document()), "again.yaml")


def test_data_that_no_reader_takes_is_not_written() -> None:
    with pytest.raises(ColltoolError, match="cannot be read back"):
        fabric_text(document(notes=["x" * 100] * 20_000))
