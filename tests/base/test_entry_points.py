"""The quick look for entry points finds what importlib.metadata finds, wherever packages lie."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, entry_points
from pathlib import Path

import pytest

from colltool.base.entry_points import entry_points_of

GROUP = "colltool.tests"
FILES = {
    "METADATA": "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n",
    "entry_points.txt": f"[{GROUP}]\nb = m:b\na = m:a\n",
}


def in_folder(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir(parents=True)
    for file, text in FILES.items():
        (tmp_path / name / file).write_text(text, encoding="utf-8")
    return tmp_path


def in_archive(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "theirs.zip", "w") as archive:
        for file, text in FILES.items():
            archive.writestr(f"theirs-1.0.dist-info/{file}", text)
    return tmp_path / "theirs.zip"


@pytest.mark.parametrize(
    "kind", ["theirs-1.0.dist-info", "theirs.egg-info", "theirs.egg/EGG-INFO", "archive", "here"]
)
def test_what_importlib_finds_is_found(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entry_points_of(GROUP) == ()
    if kind == "here":
        monkeypatch.chdir(in_folder(tmp_path, "theirs-1.0.dist-info"))
    path = (
        in_archive(tmp_path)
        if kind == "archive"
        else ""
        if kind == "here"
        else in_folder(tmp_path, kind)
    )
    monkeypatch.syspath_prepend(
        str(path / "theirs.egg" if kind.startswith("theirs.egg/") else path)
    )  # type: ignore[operator]
    assert [one.name for one in entry_points_of(GROUP)] == ["a", "b"]
    assert entry_points_of(GROUP) == tuple(sorted(entry_points(group=GROUP)))


def test_another_finder_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(*_: object) -> list[Distribution]:
            return [
                Distribution.at(
                    in_folder(tmp_path, "theirs-1.0.dist-info") / "theirs-1.0.dist-info"
                )
            ]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert [one.name for one in entry_points_of(GROUP)] == ["a", "b"]


def test_where_there_is_none_importlib_metadata_is_not_loaded() -> None:
    code = (
        "import sys; from colltool.base.entry_points import entry_points_of as f; f('no.such');"
        " print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "importlib.metadata" not in done.stdout.split()
