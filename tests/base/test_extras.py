"""What the error of a missing package says to type: it works from a checkout and from each kind of
installation."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from pip._vendor.packaging.requirements import Requirement
from swept import swept

import colltool
from colltool.base import extras
from colltool.base.extras import install_command, needs_extra

PACKAGE = Path(colltool.__file__).parent
ROOT = PACKAGE.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def test_in_a_checkout_it_is_the_line_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv" / "bin" / "python"))
    assert install_command("plot") == ".venv/bin/python -m pip install -e '.[plot]'"


def test_elsewhere_it_names_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    *_, last = shlex.split(install_command("plot"))
    assert last == f"{ROOT}[plot]"


@swept(
    ("recorded", "requirement"),
    [
        ({}, "colltool[plot]"),
        ({"url": "file:///src/my%20colltool", "dir_info": {}}, "/src/my colltool[plot]"),
        (
            {"url": "file:///tmp/colltool-1.0-py3-none-any.whl", "archive_info": {}},
            "/tmp/colltool-1.0-py3-none-any.whl[plot]",
        ),
        (
            {"url": "https://host.example/colltool-1.0.tar.gz"},
            "colltool[plot] @ https://host.example/colltool-1.0.tar.gz",
        ),
        (
            {
                "url": "https://host.example/colltool",
                "vcs_info": {"vcs": "git", "commit_id": "0a1b"},
            },
            "colltool[plot] @ git+https://host.example/colltool@0a1b",
        ),
    ],
)
def test_an_installation_is_named_by_where_it_came_from(
    recorded: dict[str, Any], requirement: str
) -> None:
    found = extras._requirement("plot", recorded)
    assert found == requirement
    if " @ " in found or "/" not in found:
        assert Requirement(found).extras == {"plot"}


def test_without_a_checkout_around_it_pip_s_record_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        extras, "__file__", str(tmp_path / "site" / "colltool" / "base" / "extras.py")
    )
    monkeypatch.setattr(extras, "_direct_url", lambda: {"url": "file:///src/colltool"})
    assert install_command("report").endswith("-m pip install '/src/colltool[report]'")


def test_no_record_or_a_broken_one_is_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def read_text(self, _name: str) -> str:
            return "{"

    def missing(_name: str) -> Broken:
        raise PackageNotFoundError("colltool")

    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: Broken())
    assert extras._direct_url() == {}
    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert extras._direct_url() == {}


def test_the_error_says_what_and_how() -> None:
    error = needs_extra("plot", "a picture", "matplotlib", argument="plot")
    assert error.what == "a picture needs matplotlib, which is missing"
    assert (error.argument, error.fix) == ("plot", install_command("plot"))


def test_every_extra_that_is_named_exists() -> None:
    """In guides and in code; and code that builds such a line by itself would miss one of the ways
    to install."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in (ROOT / "README.md", *PACKAGE.rglob("*.md"), *PACKAGE.rglob("*.py"))
    }
    named = {
        name
        for text in texts.values()
        for name in re.findall(r"pip install (?:-q )?(?:-e )?'\.\[(\w+)\]'", text)
    }
    named |= {name for text in texts.values() for name in re.findall(r'needs_extra\("(\w+)"', text)}
    assert {"plot"} <= named <= set(EXTRAS)
    assert not [
        path
        for path, text in texts.items()
        if re.search(r"pip install [\"']?colltool\[", text) and path.stem != "extras"
    ]


def test_every_extra_is_part_of_development() -> None:
    """So that CI tests what it brings."""
    development = {re.split(r"[<>=!\[ ;]", one)[0] for one in EXTRAS["dev"]}
    assert {
        re.split(r"[<>=!\[ ;]", one)[0]
        for name, ones in EXTRAS.items()
        for one in ones
        if name != "dev"
    } <= development
