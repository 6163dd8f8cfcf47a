"""Entry points of the group ``colltool.algorithms``: a package's algorithm is a row, a broken one a
warning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import colltool
from colltool.base.errors import ColltoolError
from colltool.commands import custom_algorithms as api_own

MODULE = """
def swap(primitive, ranks, domains):
    if primitive != "all_reduce" or ranks != 2:
        return None
    return {"name": "swap", "primitive": "ar", "ranks": 2, "chunks": 1, "steps": ["0>1:0+ 1>0:0+"]}

def broken(primitive, ranks, domains):
    raise ValueError("boom\\nand more")

def leaves(primitive, ranks, domains):
    raise SystemExit(3)

def wrong(primitive, ranks, domains):
    return {"name": "half", "primitive": primitive, "ranks": ranks, "chunks": 1, "steps": ["0>1:0+"]}

def other(primitive, ranks, domains):
    return {"name": "x", "primitive": "bc", "ranks": 2, "chunks": 1, "steps": ["0>1:0"]}

def number(primitive, ranks, domains):
    return 7
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with six plugins, one of whose modules is not there."""
    (tmp_path / "their_algorithms.py").write_text(MODULE, encoding="utf-8")
    info = tmp_path / "their_algorithms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-algorithms\nVersion: 1.0\n", encoding="utf-8"
    )
    names = ("swap", "broken", "leaves", "wrong", "other", "number")
    lines = [
        "[colltool.algorithms]",
        *(f"{name} = their_algorithms:{name}" for name in names),
        "gone = no_such_module:f",
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    api_own._plugins.cache_clear()
    yield tmp_path
    api_own._plugins.cache_clear()


@pytest.mark.usefixtures("package")
def test_a_plugin_s_algorithm_is_a_row_and_the_broken_ones_are_told() -> None:
    price = colltool.price("star512", "ar", size="1MB", ranks=2)
    own = {row.title: row for row in price.results if row.status == "own"}
    assert list(own) == ["swap"]
    same = next(row for row in price.results if row.title == "recursive-doubling")
    assert float(own["swap"].total_s) == pytest.approx(float(same.total_s))
    failed = {one.algorithm: one.reason for one in price.failed}
    assert failed == {
        "broken": "plugin failed: ValueError: boom and more",
        "gone": "plugin failed: ModuleNotFoundError: No module named 'no_such_module'",
        "leaves": "plugin failed: SystemExit: 3",
        "number": "plugin failed: plugin number: it returned 7, not a mapping or a text",
        "other": (
            "plugin failed: plugin other: asked for all-reduce on 2 ranks it returned broadcast"
            " on 2"
        ),
        "wrong": failed["wrong"],
    }
    assert "rank 0 ends with chunk 0 without the part of rank 1" in failed["wrong"]
    assert not any(
        row.status == "own" for row in colltool.price("star512", "ar", size="1MB", ranks=4).results
    )
    assert not colltool.price("star512", "ar", size="1MB", ranks=2, algorithms="ring").failed


@pytest.mark.usefixtures("package")
def test_a_plugin_is_named_as_any_algorithm_is() -> None:
    ask: dict[str, Any] = {"size": "1MB", "ranks": 2}
    alone, beside = (
        colltool.price("star512", "ar", algorithms=one, **ask) for one in ("swap", ["swap", "ring"])
    )
    assert [row.title for row in alone.results] == ["swap"]
    assert {row.title for row in beside.results} == {"swap", "ring"}
    assert not beside.failed
    assert [
        row.title
        for row in (
            colltool.price_list("star512", "ar", sizes=[1e6], ranks=2, algorithms="swap")
            .prices[0]
            .results
        )
    ]
    for wrong, what in (
        ("broken", "broken: plugin failed: ValueError"),
        ("swop", "no algorithm 'swop'"),
    ):
        with pytest.raises(ColltoolError, match=what):
            colltool.price("star512", "ar", algorithms=wrong, **ask)
    with pytest.raises(ColltoolError, match="no algorithm 'swap'"):  # it offers nothing for four
        colltool.price("star512", "ar", size="1MB", ranks=4, algorithms="swap")


def run_with(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line where a package of plugins is installed."""
    path = os.pathsep.join([str(package), str(Path(colltool.__file__).parent.parent)])
    return subprocess.run(
        [sys.executable, "-m", "colltool", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_the_command_line_warns_and_goes_on(package: Path) -> None:
    words = ("price", "ar", "-f", "star512", "-n", "2", "-M", "1MB")
    done = run_with(package, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "warning:\n  broken: plugin failed: ValueError: boom and more\n" in done.stdout
    assert "| swap" in done.stdout


LOUD = """
import os
import sys
print("at import")

def loud(primitive, ranks, domains):
    print("when asked")
    print("past the redirection", file=sys.__stdout__)
    os.write(1, b"from C\\n")
    os.system("echo from a child")
    return None
"""


def test_what_a_plugin_prints_is_no_part_of_the_answer(package: Path) -> None:
    (package / "loud_plugin.py").write_text(LOUD, encoding="utf-8")
    entries = package / "their_algorithms-1.0.dist-info" / "entry_points.txt"
    entries.write_text("[colltool.algorithms]\nloud = loud_plugin:loud\n", encoding="utf-8")
    words = ("price", "ar", "-f", "star512", "-n", "2", "-M", "1MB", "--format", "json")
    done = run_with(package, *words)
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "colltool.price/1"
    printed = {"at import", "when asked", "past the redirection", "from C", "from a child"}
    assert set(done.stderr.splitlines()) == printed


def test_without_plugins_nothing_is_loaded() -> None:
    api_own._plugins.cache_clear()
    assert api_own._plugins() == ()
