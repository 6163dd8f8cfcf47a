"""``colltool export``: what it writes, where, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands.conftest import run as _run

Run = Callable[..., Any]


@pytest.fixture(name="run")
def run_in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return _run


def test_the_tuner_file_goes_to_stdout_or_to_a_file(run: Run) -> None:
    shown = run("export", "nccl-tuner", "-f", "dgx-h100", "-n", "8,16")
    assert (shown.code, shown.err) == (0, "")
    written = run(
        "export", "nccl-tuner", "-f", "dgx-h100", "-n", "8", "-n", "16,8", "-o", "nccl_tuner.conf"
    )
    assert (written.code, written.out) == (0, "")
    assert Path("nccl_tuner.conf").read_text() == shown.out
    assert "allreduce" in shown.out


def test_a_rank_count_given_twice_writes_its_rows_once(run: Run) -> None:
    once = run("export", "nccl-tuner", "-f", "dgx-h100", "-n", "8").out
    assert run("export", "nccl-tuner", "-f", "dgx-h100", "-n", "8,8").out == once
    assert run("export", "nccl-tuner", "-f", "dgx-h100", "-n", "8", "-n", "8").out == once


def test_env_prints_nccl_algo(run: Run) -> None:
    assert (
        'NCCL_ALGO="broadcast:ring;'
        in run("export", "nccl-tuner", "-f", "dgx-h100", "-n", "8", "--env").out
    )


def test_set_reaches_the_choice(run: Run) -> None:
    line = ("export", "nccl-tuner", "-f", "dgx-h100", "-n", "64")
    assert "allreduce,0,174480,tree,ll,16,8,64,-1,-1\n" in run(*line).out
    with_sharp = run(*line, "--set", "library.collnet=true").out
    assert ",nvls,simple,16,8,64,-1,-1\n#   behind them, without NVLS or SHARP:" in with_sharp
    assert ",nvls" not in run(*line, "--set", "library.nvls=false").out


def test_astra_sim_writes_two_files_into_a_new_folder(run: Run) -> None:
    ran = run("export", "astra-sim", "-f", "dgx-h100", "-n", "64", "-M", "1MB", "-o", "astra")
    assert ran.code == 0
    assert "15625 bytes" in ran.out
    assert sorted(path.name for path in Path("astra").iterdir()) == ["network.yml", "system.json"]
    assert yaml.safe_load(Path("astra/network.yml").read_text())["npus_count"] == [8, 8]
    again = run("export", "astra-sim", "-f", "dgx-h100", "-n", "64", "-o", "astra")
    assert again.code == 0


def test_nccls_topology_and_graph_files(run: Run) -> None:
    shown = run("export", "nccl-topo", "-f", "dgx-h100", "-n", "2")
    assert shown.code == 0
    assert shown.err.startswith("note: bus ids are made up")
    # as people look for it among the commands of fabrics
    same = run("fabric", "export", "nccl-topo", "-f", "dgx-h100", "-n", "2", "-o", "node.xml")
    assert (same.code, same.out) == (0, "")
    assert Path("node.xml").read_text() == shown.out
    graphs = run("export", "nccl-graph", "node.xml", "-o", "graph.xml")
    assert (graphs.code, graphs.out, graphs.err) == (0, "", "")
    assert '<graph id="0" pattern="4"' in Path("graph.xml").read_text()
    assert run("fabric", "channels", "node.xml").code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nccl-topo -f torus512", "error: --fabric: torus512 does not say which GPUs it has"),
        ("nccl-topo -f dgx-h100 -n 9", "error: --ranks: NCCL's file of a node of dgx-h100 has at"),
        ("nccl-graph taken", "error: taken:1:1: is not the XML of NCCL"),
        ("nccl-tuner -f dgx-h100 -n 8,x", "error: --ranks: 'x' is not a whole number"),
        ("nccl-tuner -f dgx-h100 -n 8,", "error: --ranks: an empty item in '8,'"),
        ("nccl-tuner -f dgx-h100 -n 12", "error: --ranks: 12 ranks leave a domain half full"),
        ("nccl-tuner -f torus512", "error: --fabric: NCCL does not run on torus512"),
        (
            "nccl-tuner -f mi300x",
            "error: --fabric: NCCL does not run on mi300x: 'xgmi' is a full mesh",
        ),
        (
            "nccl-tuner -f dgx-h100 --env --channels 8",
            "error: --channels: NCCL_ALGO does not set channels",
        ),
        ("nccl-tuner -f dgx-h100 --channels 0", "error: --channels: 0 channels are out of range"),
        (
            "astra-sim -f nvl72 -o out",
            "error: --fabric: the group spans levels of 'ib' with different alpha",
        ),
        ("astra-sim -f dgx-h100 -M 16m -o out", "error: --size: 'm' is not a unit of size"),
        ("astra-sim -f dgx-h100 -o taken", "error: taken: cannot make a folder"),
        ("astra-sim -f dgx-h100 -o new/astra", "error: new/astra: cannot make a folder"),
        ("astra-sim -f dgx-h100 -o full", "error: full/system.json: cannot write: is a directory"),
    ],
)
def test_errors_leave_nothing_behind(run: Run, line: str, message: str) -> None:
    Path("taken").write_text("")
    Path("full/system.json").mkdir(parents=True)
    before = sorted(map(str, Path().rglob("*")))
    ran = run("export", *line.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)
    assert sorted(map(str, Path().rglob("*"))) == before
