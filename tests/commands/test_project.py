"""What a project states once: colltool.toml and COLLTOOL_FABRIC; what is typed wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLLTOOL_FABRIC", raising=False)
    return tmp_path / "colltool.toml"


def answer(run: Any, *words: str) -> str:
    return str(run(*words, "--format", "csv").out)


def test_what_is_not_typed_is_as_the_project_states(project: Path, run: Any) -> None:
    project.write_text('fabric = "dgx-h100"\nranks = 64\nsize = "1GB"\n')
    typed = answer(run, "price", "ar", "-f", "dgx-h100", "-n", "64", "-M", "1GB")
    assert answer(run, "price", "ar") == typed
    # a number of ranks is that of the project's own fabric
    assert answer(run, "price", "ar", "-f", "mi300x") == answer(
        run, "price", "ar", "-f", "mi300x", "-M", "1GB"
    )
    assert "dgx-h100, 64 ranks" in run("crossover", "ar").out
    assert (
        run("breakdown", "ar").out
        == run("breakdown", "ar", "-f", "dgx-h100", "-n", "64", "-M", "1GB").out
    )


def test_a_fabric_beside_the_file(project: Path, run: Any) -> None:
    (project.parent / "mine.yaml").write_text(
        "name: mine\ntiers: [{name: a, topology: star, size: 4, alpha: 1us, bandwidth: 1GB/s}]\n"
    )
    project.write_text('fabric = "mine.yaml"\n')
    assert "on mine" in run("price", "ar", "-M", "1MB").out


def test_the_variable_wins_over_the_file(
    project: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text('fabric = "dgx-h100"\nranks = 64\n')
    monkeypatch.setenv("COLLTOOL_FABRIC", "mi300x")
    assert "mi300x, 8 ranks" in run("price", "ar", "-M", "1MB").out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('fabrc = "nvl72"', "did you mean 'fabric'?"),
        ("fabric = [1]", "expected a text or a whole number"),
        ("fabric", "not TOML"),
        ('fabric = "nowhere"', "no file and no shipped fabric"),
        ('fabric = "nvl72"\nranks = "many"', "many"),
    ],
)
def test_a_mistake_in_it_is_said(project: Path, run: Any, text: str, words: str) -> None:
    project.write_text(text)
    done = run("price", "ar", "-M", "1MB")
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_without_any_the_error_says_what_to_type(project: Path, run: Any) -> None:
    assert not project.exists()
    assert "add -f with" in run("price", "ar", "-M", "1MB").err
    assert "add -M 16MB" in run("breakdown", "ar", "-f", "nvl72").err


def test_a_zero_is_something_that_was_typed(project: Path, run: Any) -> None:
    project.write_text('fabric = "dgx-h100"\nranks = 64\n')
    assert "at least 2 ranks, got 0" in run("price", "ar", "-n", "0", "-M", "1MB").err
