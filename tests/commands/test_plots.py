"""``--plot`` of every command that has one: the file is written, beside an answer that it does not
change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tracing
from machine_logs import log, time_on
from swept import swept

Run = Callable[..., Any]
COMMANDS = {
    "sweep": ("sweep", "ar", "-f", "dgx-h100", "-n", "8,64", "-M", "1MB,1GB"),
    "compare": ("compare", "ar", "-f", "dgx-h100", "-f", "mi300x", "-n", "8", "-M", "1MB,1GB"),
    "sensitivity": (
        "sensitivity",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "1MB",
        "--samples",
        "100",
    ),
    "breakdown": ("breakdown", "ar", "-f", "dgx-h100", "-n", "64", "-M", "1MB"),
    "crossover": ("crossover", "ar", "-f", "dgx-h100", "-n", "64"),
    "plan": ("plan", "llama3-70b", "-f", "dgx-h100", "-n", "256"),
    "plans": ("plan", "llama3-70b", "-f", "dgx-h100", "-f", "dgx-b200", "-n", "256"),
    "trace": ("trace", "rank0.json", "-f", "dgx-h100"),
    "doctor": ("doctor", "ar.log"),
}


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    tracing.write(Path("rank0.json"), [tracing.call(0, 900, [0, 1])])
    log(Path("ar.log"), time_on(), ("ar",))


ELSEWHERE = {"calibrate", "validate"}  # tests/extras/pictures/test_plot.py


def test_every_command_with_a_picture_is_here(run: Run) -> None:
    from colltool.commands import app

    drawn = {name for name in app.COMMANDS if "--plot" in run(name, "--help").out}
    assert drawn == {args[0] for args in COMMANDS.values()} | ELSEWHERE


@pytest.mark.alike(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_picture_stands_beside_the_same_answer(run: Run, name: str) -> None:
    plain, drawn = run(*COMMANDS[name]), run(*COMMANDS[name], "--plot", "seen.svg")
    assert (drawn.code, drawn.out) == (0, plain.out), drawn.err
    assert Path("seen.svg").read_text(encoding="utf-8").startswith("<?xml")


@swept("name", COMMANDS)
def test_a_picture_of_no_known_format_is_refused_first(run: Run, name: str) -> None:
    done = run(*COMMANDS[name], "--plot", "seen.txt")
    assert (done.code, done.out) == (2, "")
    assert "no format of a plot" in done.err


def test_a_sweep_is_a_map_or_lines(run: Run) -> None:
    run(*COMMANDS["sweep"], "--plot", "map.svg")
    run(*COMMANDS["sweep"], "--plot", "lines.svg", "--plot-what", "busbw")
    assert "fastest: all-reduce" in Path("map.svg").read_text(encoding="utf-8")
    assert "busbw of the fastest" in Path("lines.svg").read_text(encoding="utf-8")
    assert run(*COMMANDS["sweep"], "--plot", "a.svg", "--plot-what", "time").code == 2


@pytest.mark.parametrize("more", [("--search",), ("--vary", "alpha=2x")])
def test_a_search_and_a_spread_of_steps_have_no_picture(run: Run, more: tuple[str, ...]) -> None:
    done = run(*COMMANDS["plan"], *more, "--plot", "seen.svg")
    assert (done.code, done.out) == (2, "")
    assert f"leave {more[0]} out" in done.err
    assert not Path("seen.svg").exists()
