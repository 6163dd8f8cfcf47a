"""Every answer says under which readings of the model it stands: unusual ones to people, all of
them to machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import colltool
from colltool.estimate.assumptions import ModelOptions
from tests.commands.conftest import run

ON = ("-f", "star512", "-n", "8", "-M", "1MB")
ASKED = [
    ("price", "ar", *ON),
    ("breakdown", "ar", *ON),
    ("crossover", "ar", "-f", "star512", "-n", "8"),
    ("explain", "ring", "ar", *ON),
    ("sweep", "ar", *ON),
    ("compare", "ar", "-f", "star512", "-f", "torus512", "-n", "8", "-M", "1MB"),
    ("sensitivity", "ar", *ON),
    ("ladder",),
    ("validate", "LOG", "-f", "star512"),
]
UNUSUAL = ("--ring-alpha", "worst", "--placement", "scattered")


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "one.csv"
    file.write_text(
        "collective,ranks,bytes,time_us\nar,8,1000,20\nar,8,1000000,40\nar,8,16000000,400\n"
    )
    return str(file)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked[0])
def test_unusual_readings_are_told(asked: tuple[str, ...], log: str) -> None:
    args = tuple(log if one == "LOG" else one for one in asked)
    out = run(*args, *UNUSUAL).out
    assert ": placement=scattered, ring_alpha=worst" in out
    assert "model options:" not in run(*args).out
    document = json.loads(run(*args, *UNUSUAL, "--format", "json").out)
    assert document["model"]["ring_alpha"] == "worst"
    assert document["model"]["placement"] == "scattered"


def test_a_kept_ladder_is_as_it_was() -> None:
    """Its JSON is what the next one is compared with."""
    assert "model" not in json.loads(run("ladder", "--format", "json").out)


def test_a_varied_reading_is_an_axis() -> None:
    args = ("sweep", "ar", *ON, "--vary", "ring_alpha=mean,worst")
    assert "model options:" not in run(*args).out
    assert "ring_alpha" not in json.loads(run(*args, "--format", "json").out)["model"]


def test_a_plan_says_so_among_its_grounds() -> None:
    job: dict[str, Any] = {
        "calls": [{"primitive": "ar", "group": "all", "size": "1MB"}],
        "layout": {},
    }

    def grounds(**parts: Any) -> Any:
        return colltool.plan(job, "star512", ranks=8, **parts).grounds

    assert "model options: ideal, ring_alpha=worst" in grounds(ideal=True, ring_alpha="worst")
    assert not [one for one in grounds() if one.startswith("readings")]


def test_readings_in_words() -> None:
    assert ModelOptions().label() == ""
    assert ModelOptions(ideal=True, tree_beta=1.0).label() == "ideal, tree_beta=1.0"
