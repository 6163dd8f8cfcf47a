"""What is kept between processes: taken only where it is sound, and never missed."""

from __future__ import annotations

import json
import os
import stat
import zlib
from pathlib import Path

import pytest

from colltool.base.cache import cache_folder, keep, packaged_toml, recall


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def test_what_is_kept_is_recalled_for_the_same_text_alone(folder: Path) -> None:
    data = {"a": [1, 2.5, None, "x"]}
    keep("name", "text", data)
    assert recall("name", "text") == data
    assert recall("name", "another text") is None
    assert recall("other", "text") is None
    assert [file.name for file in folder.iterdir()] == ["name.json"]


def test_a_new_text_takes_the_place_of_the_old_one(folder: Path) -> None:
    keep("name", "old", 1)
    keep("name", "new", 2)
    assert recall("name", "old") is None
    assert recall("name", "new") == 2
    assert len(list(folder.iterdir())) == 1


def entry(content: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(content) + content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04K\x01.",
        b"00000000\n{}",
        entry(b""),
        entry(b"{"),
        entry(b"[]"),
        entry(b"{}"),
        entry(b"3"),
        entry(b'{"made_from": "text"}'),
        entry(b'{"made_from": null, "data": 1}'),
        entry(b"[" * 100_000),
        entry(b"\xff\xfe"),
    ],
    ids=lambda content: repr(content[:20]),
)
def test_a_broken_or_foreign_entry_is_ignored_and_replaced(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "name.json").write_bytes(content)
    assert recall("name", "text") is None
    keep("name", "text", 1)
    assert recall("name", "text") == 1


def test_an_entry_that_was_cut_or_changed_is_ignored(folder: Path) -> None:
    keep("name", "text", {"alpha": 1.5})
    file = folder / "name.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert recall("name", "text") is None
    file.write_bytes(whole.replace(b"1.5", b"2.5"))
    assert recall("name", "text") is None


def test_without_a_folder_that_can_be_written_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", Path(os.devnull)):
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        keep("name", "text", 1)
        assert recall("name", "text") is None


def test_the_folder_is_the_users(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("name", "text", 1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setenv("HOME", str(tmp_path))
    for home in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        assert cache_folder().is_relative_to(tmp_path / ".cache" / "colltool")


def test_a_file_of_somebody_else_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep("name", "text", 1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert recall("name", "text") is None


def test_an_entry_is_json_that_runs_nothing(folder: Path) -> None:
    keep("name", "text", [1])
    _, _, content = (folder / "name.json").read_bytes().partition(b"\n")
    assert json.loads(content) == {"made_from": "text", "data": [1]}


def test_a_toml_file_is_read_as_it_is_now(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "numbers-1.0.toml"
    file.write_text("a = 1.5\n[[tier]]\nmedia = ['ib']\n")
    for _ in range(2):
        assert packaged_toml(file) == {"a": 1.5, "tier": [{"media": ["ib"]}]}
    file.write_text("a = 2\n")
    assert packaged_toml(file) == {"a": 2}
    assert [entry.name for entry in folder.iterdir()] == [f"toml-{tmp_path.name}-numbers-1.0.json"]
