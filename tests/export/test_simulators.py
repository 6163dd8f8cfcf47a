"""``verify --with``: programs that stand in for the simulators read their inputs and print in the
form of the real ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR
from colltool.export import simulators
from colltool.export.simulators import connection_matrix, fat_tree_nodes
from colltool.render.dispatch import document
from colltool.verification.schedule import scheduled
from tests.commands.conftest import run as command
from tests.small import clos, fabric, star

ROOT = Path(__file__).parents[2]
ASTRA = """
import sys, json, yaml, collections
sys.path.insert(0, {root!r})
from tests.chakra_proto import read_all, value_of
given = dict(one[2:].split("=", 1) for one in sys.argv[1:])
net = yaml.safe_load(open(given["network-configuration"]))
assert json.load(open(given["remote-memory-configuration"])) == {{"memory-type": "NO_MEMORY_EXPANSION"}}
assert "all-reduce-implementation" in json.load(open(given["system-configuration"]))
(npus,), (bandwidth,), (latency,) = (net[key] for key in ("npus_count", "bandwidth", "latency"))
ranks = [read_all(open(f"{{given['workload-configuration']}}.{{k}}.et", "rb").read())[1] for k in range(npus)]
ends, sent, left = [dict() for _ in ranks], {{}}, sum(map(len, ranks))
while left:
    before = left
    for k, nodes in enumerate(ranks):
        for node in nodes:
            if node.id in ends[k] or any(other not in ends[k] for other in node.data_deps):
                continue
            start = max([0, *(ends[k][other] for other in node.data_deps)])
            src, dst, size, tag = (value_of(node, name) for name in ("comm_src", "comm_dst", "comm_size", "comm_tag"))
            if node.type == 5:
                assert src == k
                sent[src, dst, tag] = ends[k][node.id] = start + 2 * latency + size / (bandwidth * 2**30) * 1e9
            elif (src, dst, tag) in sent:
                assert dst == k
                ends[k][node.id] = max(start, sent[src, dst, tag])
            else:
                continue
            left -= 1
    assert left < before, "nobody can go on"
for k in range(npus):
    cycles = round(max(ends[k].values()))
    exposed = f"exposed communication {{cycles}} cycles."
    print(f"[2026-01-01 00:00:00.000] [workload] [info] sys[{{k}}] finished, {{cycles}} cycles, {{exposed}}")
"""
HTSIM = """
import re, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert given["-strat"] == "perm"
lines = open(given["-tm"]).read().splitlines()
head = dict(line.split() for line in lines[:3])
assert head["Nodes"] == given["-nodes"]
flows = [line.split() for line in lines if "->" in line]
found = [re.fullmatch(r"trigger id (\\d+) barrier count (\\d+)", line) for line in lines if line.startswith("trigger")]
triggers = {{one[1]: int(one[2]) for one in found}}
assert (len(flows), len(triggers)) == (int(head["Connections"]), int(head["Triggers"]))
at, waiting, ends = {{"": 0.0}}, flows, []
number = 0
while waiting:
    later = []
    fired = {{}}
    for flow in waiting:
        pairs = dict(zip(flow[1::2], flow[2::2]))
        start = pairs.get("trigger", "") if "trigger" in pairs else ""
        if start not in at:
            later.append(flow)
            continue
        end = at[start] + 6 * float(given["-hop_latency"]) + int(pairs["size"]) * 8 / float(given["-linkspeed"])
        ends.append((end, pairs["id"], *flow[0].split("->"), pairs["size"]))
        fired.setdefault(pairs.get("recv_done_trigger"), []).append(end)
    for name, some in fired.items():
        if name is not None:
            assert len(some) == triggers[name]
            at[name] = max(some)
    assert len(later) < len(waiting)
    waiting = later
for end, name, src, dst, size in ends:
    print(f"Flow ndp_{{src}}_{{dst}} flow_id {{name}} finished at {{end:.6g}} total bytes {{size}}")
    if {new}:
        print(f"{{end:.6g}} src {{src}} dst {{dst}} flow_id {{name}} tput: 1 duration 1")
"""


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for one in simulators.INSTALLATIONS.values():
        monkeypatch.delenv(one.variable, raising=False)


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, simulator: str, text: str) -> None:
    one = simulators.INSTALLATIONS[simulators.simulator_of(simulator)]
    monkeypatch.setenv(one.variable, str(program(folder, "other-name", text)))


@pytest.mark.parametrize("name", ["ring", "rabenseifner"])
def test_astra_sim_finds_the_executed_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    installed(monkeypatch, tmp_path, "astra-sim", ASTRA.format(root=str(ROOT)))
    found = colltool.verify(
        fabric(star(8, 1, 50, eta={"alpha": 2, "beta": 0.5})),
        "ar",
        algorithms=name,
        size=8e6,
        simulator="astra-sim",
    )
    (one,) = found.results
    assert one.time_s is not None
    assert one.simulated_s == pytest.approx(one.time_s[1], rel=1e-5)
    assert document(found)["simulator"] == "astra-sim"
    assert document(found)["results"][0]["simulated_s"] == one.simulated_s


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("name", ["ring", "tree"])
def test_htsim_finds_the_executed_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, new: bool
) -> None:
    program(tmp_path, "htsim_ndp", HTSIM.format(new=new))  # on PATH
    (one,) = colltool.verify(
        fabric(star(8, 1, 50)), "ar", algorithms=name, size=8e6, segments=1, simulator="htsim"
    ).results
    assert one.time_s is not None
    assert one.simulated_s == pytest.approx(one.time_s[1], rel=1e-4)


def test_the_command_shows_both_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "htsim_ndp", HTSIM.format(new=True))
    line = (
        "verify",
        "ar",
        "-f",
        "star512",
        "-n",
        "8",
        "-M",
        "1MB",
        "--algorithm",
        "ring,rabenseifner,in-network",
        "--with",
        "htsim",
    )
    shown = command(*line, "--all")
    assert (shown.code, shown.err) == (0, "")
    assert "htsim finds" in shown.out.replace("\n", " ")
    assert "of 2 schedules" in shown.out.replace("\n", " ")
    assert "no time of htsim: in-network works in switches" in " ".join(shown.out.split())
    rows = json.loads(command(*line, "--format", "json").out)["results"]
    assert ["simulated_s" in one for one in rows] == [True, True, False]


def test_of_simgrid_the_module_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_has_module", lambda python, module: False)
    ran = command(
        "verify", "ar", "-f", "star512", "-n", "8", "--algorithm", "ring", "--with", "simgrid"
    )
    assert (ran.code, ran.out) == (2, "")
    assert (
        "simgrid is not installed here: no python3 with the module simgrid, and COLLTOOL_SIMGRID is"
        " not set" in ran.err
    )
    assert "apt-get install python3-simgrid" in ran.err


@pytest.mark.parametrize("name", ["astra-sim", "htsim"])
def test_what_is_not_installed_is_said_with_how_to_get_it(name: str) -> None:
    ran = command("verify", "ar", "-f", "star512", "-n", "8", "--algorithm", "ring", "--with", name)
    assert (ran.code, ran.out) == (2, "")
    one = simulators.INSTALLATIONS[simulators.simulator_of(name)]
    assert (
        f"error: --with: {name} is not installed here: no {one.program} on PATH, and {one.variable}"
        " is not set" in ran.err
    )
    assert f"export {one.variable}=/path/to/{one.program}" in ran.err


def fails(simulator: str = "htsim", on: Any = None, **more: Any) -> str:
    with pytest.raises(ColltoolError) as caught:
        colltool.verify(on or fabric(star(4)), "ar", algorithms="ring", simulator=simulator, **more)
    return caught.value.what


def test_failures_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert fails("ns3") == "no simulator 'ns3'"
    monkeypatch.setenv("COLLTOOL_HTSIM", "/nowhere/htsim")
    assert fails() == "COLLTOOL_HTSIM names no program that can run: /nowhere/htsim"
    installed(monkeypatch, tmp_path, "htsim", "print('Usage htsim'); raise SystemExit(3)")
    assert fails() == "htsim ended with code 3: Usage htsim"
    installed(monkeypatch, tmp_path, "htsim", "print('Flow a finished at 1.5 total bytes 3')")
    assert fails() == "htsim finished 1 of 24 flows"
    installed(monkeypatch, tmp_path, "astra-sim", "print('done')")
    assert fails("astra-sim") == "astra-sim finished no rank"
    installed(monkeypatch, tmp_path, "simgrid", "print('done')")
    assert fails("simgrid") == "simgrid said no time"
    installed(
        monkeypatch, tmp_path, "simgrid", "raise ModuleNotFoundError(\"No module named 'simgrid'\")"
    )
    assert (
        fails("simgrid")
        == "simgrid ended with code 1: ModuleNotFoundError: No module named 'simgrid'"
    )
    installed(monkeypatch, tmp_path, "htsim", "import time; time.sleep(60)")
    monkeypatch.setattr(simulators, "LONGEST_RUN_S", 0.3)
    assert fails() == "htsim did not end within 0.3 s"


def test_what_htsim_cannot_be_told_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path, "htsim", HTSIM.format(new=True))
    assert fails(size=1e12) == "htsim reads sizes up to 2,147,483,647 bytes, not 250,000,000,000"
    two = fabric(star(4, 1, 450), clos(4, alpha=5, bw=50))
    with pytest.raises(ColltoolError, match="crosses tiers that differ"):
        colltool.verify(two, "ar", ranks=16, algorithms="hierarchical:ring/ring", simulator="htsim")
    monkeypatch.setattr(simulators, "MOST_FLOWS", 20)
    assert fails() == "htsim gets 24 flows here, more than 20"


def test_the_matrix_of_a_ring() -> None:
    text, flows = connection_matrix(scheduled(fabric(star(3)), AR, "ring"), 3e6)
    lines = text.splitlines()
    assert flows == 12
    assert lines[:4] == [
        "Nodes 16",
        "Connections 12",
        "Triggers 3",
        "0->1 id 1 start 0 size 1000000 recv_done_trigger 1",
    ]
    assert "0->1 id 10 trigger 3 size 1000000" in lines
    assert lines[-1] == "trigger id 3 barrier count 3"
    assert [fat_tree_nodes(n) for n in (2, 3, 16, 17, 128, 129)] == [2, 16, 16, 54, 128, 250]
