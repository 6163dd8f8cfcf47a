"""``colltool doctor``: logs and nothing else, exit codes, what is written, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from logged_graphs import broken, log_of, replaced
from machine_logs import LARGE, log, time_on
from small_nodes import h100, nic
from tracing import call, write

from colltool.commands.doctor import doctor_command
from colltool.libraries.nccl.topology.graphs import graphs_of

RINGS = {"ar": "ring", "ag": "ring"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    log(tmp_path / "healthy.log", time_on(), ("ar", "ag"))
    log(tmp_path / "rings.log", time_on(only=RINGS), ("ar", "ag"))
    return tmp_path


def test_a_log_and_nothing_else(here: Path, run: Any) -> None:
    done = run("doctor", "healthy.log")
    assert (done.code, done.err) == (0, "")
    assert "NVIDIA H100 80GB HBM3 on 1 host: read from the logs" in done.out
    assert "compared with dgx-h100, the bundled fabric nearest to these devices" in done.out
    said = "Healthy: all-reduce and all-gather on 8 H100 reach 100% of expected (pass mark 80%)."
    assert " ".join(done.out.split()).startswith(said)


def test_what_is_off_exits_1_and_names_the_next_command(here: Path, run: Any) -> None:
    done = run("doctor", "rings.log", "--all")
    assert (done.code, done.err) == (1, "")
    said = (
        "Slow: all-reduce on 8 H100 reaches 73% of expected (pass mark 80%). Measured: 351 GB/s"
        " busbw at 2 GiB; expected of dgx-h100: 479 GB/s. Most likely: NVLS may be off"
    )
    assert done.out.startswith(said)
    document = run("doctor", "rings.log", "--format", "json").json
    (experiment,) = document["findings"][0]["experiments"]
    assert experiment["command"] in done.out
    assert "./build/all_reduce_perf -b 256M -e 4G -f 2 -g 8" in experiment["command"]


def test_what_no_cause_explains_names_the_wire(here: Path, run: Any) -> None:
    healthy = time_on()
    log(
        here / "odd.log",
        lambda p, size: healthy(p, size) * (2.5 if p == "a2a" else 1),
        ("ar", "ag", "a2a"),
        LARGE,
    )
    done = run("doctor", "odd.log")
    assert done.code == 1
    assert "No known cause explains it" in " ".join(done.out.split())


def test_expect(here: Path, run: Any) -> None:
    assert run("doctor", "rings.log", "--expect", "70%").code == 0
    assert run("doctor", "healthy.log", "--expect", "95%").code == 0
    for bad, said in (
        ("0", "positive share"),
        ("120%", "must be a share up to 100%"),
        ("x", "positive share"),
    ):
        done = run("doctor", "healthy.log", "--expect", bad)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert "--expect" in done.err


def test_collective_filters(here: Path, run: Any) -> None:
    assert run("doctor", "rings.log", "--collective", "ag").code == 0
    done = run("doctor", "rings.log", "--collective", "a2a")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == "error: --collective: the logs hold no all-to-all\n  they hold: all_reduce, all_gather\n"
    )


OSU = (
    "# OSU MPI Allreduce Latency Test v5.3\n# Size  Avg Latency(us)\n268435456  4000\n1073741824 "
    " 16000\n"
)


def test_osu_logs_need_the_machine(here: Path, run: Any) -> None:
    Path("osu.txt").write_text(
        "# OSU MPI Allreduce Latency Test v5.3\n# Size  Avg Latency(us)\n268435456 "
        " 4000\n1073741824  16000\n"
    )
    done = run("doctor", "osu.txt", "-n", "8")
    assert (done.code, done.out) == (2, "")
    assert "The logs do not name their devices" in done.err
    assert "-f dgx-h100" in done.err
    done = run("doctor", "osu.txt", "-n", "8", "-f", "dgx-h100", "--format", "json")
    assert done.code == 1
    for finding in done.json["findings"]:
        assert all("osu_" in one["command"] for one in finding["experiments"])


def test_another_fabric_and_other_values(here: Path, run: Any) -> None:
    log(here / "slow.log", time_on(set_=["nvlink.bandwidth=300GB/s"]), ("ar", "ag"), LARGE)
    assert run("doctor", "slow.log").code == 1
    for more in (
        ("--set", "nvlink.bandwidth=300GB/s"),
        ("-f", "dgx-h100", "--set", "nvlink.bandwidth=300GB/s"),
    ):
        done = run("doctor", "slow.log", *more)
        assert done.code == 0
        assert "dgx-h100 with nvlink.bandwidth=300GB/s" in done.out


@pytest.mark.parametrize("name", ["missing.log", "empty.log", "words.log"])
def test_what_is_no_log(name: str, here: Path, run: Any) -> None:
    Path("empty.log").write_text("")
    Path("words.log").write_text("nothing of the kind\n")
    done = run("doctor", name)
    assert (done.code, done.out) == (2, "")
    assert name in done.err


@pytest.mark.parametrize("nothing", [b"", b" \n\n", b"\xff\xfe\n\0"])
def test_an_empty_log_is_named_and_the_others_are_judged(
    nothing: bytes, here: Path, run: Any
) -> None:
    for name in ("empty.log", "killed.log"):
        Path(name).write_bytes(nothing)
    for name, code in (("healthy.log", 0), ("rings.log", 1)):
        done, alone = (
            run("doctor", "empty.log", name, "killed.log", "--all"),
            run("doctor", name, "--all"),
        )
        assert (done.code, alone.code, done.err) == (code, code, "")
        for line in ("empty.log is empty and was skipped", "killed.log is empty and was skipped"):
            assert line in done.out
        assert done.out.splitlines()[0] == alone.out.splitlines()[0]
    notes = run("doctor", "healthy.log", "empty.log", "--format", "json").json["notes"]
    assert "empty.log is empty and was skipped" in notes
    done = run("doctor", "empty.log", "killed.log")
    assert (done.code, done.out) == (2, "")
    assert all(f"{name}: is empty" in done.err for name in ("empty.log", "killed.log"))


def test_traces_with_upper_bounds_alone(here: Path, run: Any) -> None:
    events = [call(0, 500, [0, 1], Seq=1), call(900, 500, [0, 1], Seq=2)]
    write(
        here / "rank0.json.gz",
        events,
        0,
        2,
        deviceProperties=[{"name": "NVIDIA A100-SXM4-40GB"}] * 2,
    )
    done = run("doctor", "rank0.json.gz", "--all")
    assert (done.code, done.err) == (0, "")
    assert (
        "not judged: these times are upper bounds, as a kernel waits for the slowest rank"
        in done.out
    )
    assert "2 calls of all-reduce, 2 ranks, over nvlink: 1 of 2 ranks has a trace" in done.out
    assert "  NCCL_DEBUG=INFO ./build/all_reduce_perf -b 256M -e 4G -f 2 -g 2\n" in done.out
    assert done.out.startswith("Not judged: nothing can be said of nvlink")
    document = run("doctor", "rank0.json.gz", "--format", "json").json
    assert document["bounds"] == [
        {"primitive": "all_reduce", "ranks": 2, "calls": 2, "missing": [1], "wire": "nvlink"}
    ]
    for form in ("csv", "markdown", "html"):
        assert run("doctor", "rank0.json.gz", "--format", form).code == 0


@pytest.mark.parametrize(
    ("content", "said", "cure"),
    [
        (b"", "is empty", "give the output of a benchmark"),
        (b'{"a": 1}', "JSON without 'results'", "its text output"),
        (bytes(range(256)) * 9, "is binary", "give the text"),
        (
            b"# nccl-tests version 2.17.8\n",
            "no table of measurements found",
            "nccl-tests and rccl-tests text",
        ),
    ],
)
def test_bad_files_say_what_to_give(
    content: bytes, said: str, cure: str, here: Path, run: Any
) -> None:
    Path("bad.log").write_bytes(content)
    for files in (("bad.log",), ("bad.log", "bad.log")):
        done = run("doctor", *files)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: bad.log")
        assert said in done.err
        assert cure in done.err
    beside = run("doctor", "healthy.log", "bad.log", "--all")
    assert (beside.code, beside.err) == (0, "")
    assert re.search(rf"bad.log:? {said}", beside.out), (
        "a file that cannot be used is named, and the others are judged"
    )


def test_two_machines_and_too_many_ranks(here: Path, run: Any) -> None:
    log(here / "a100.log", time_on("dgx-a100"), device="NVIDIA A100-SXM4-80GB")
    done = run("doctor", "healthy.log", "a100.log")
    assert (done.code, done.out) == (2, "")
    assert (
        "from different machines: NVIDIA H100 80GB HBM3, NVIDIA A100-SXM4-80GB\n  give the logs of"
        " one machine" in done.err
    )
    log(here / "two.log", time_on(ranks=16), ranks=16)
    done = run("doctor", "two.log", "-f", "mi300x")
    assert (done.code, done.out) == (2, "")
    assert "16 ranks do not fit: mi300x has 8" in done.err
    assert "with -f" in done.err


def test_a_device_cannot_steer_a_terminal(here: Path, run: Any) -> None:
    log(here / "odd.log", time_on(), device="NVIDIA H100 \u202e80GB | <b>")
    for form in ("table", "markdown", "html"):
        done = run("doctor", "odd.log", "--format", form)
        assert done.code == 0
        assert "\u202e" not in done.out
        assert re.search(r"(?<!\\)<b>", done.out) is None or form == "table"


def test_the_examples_are_of_the_command() -> None:
    lines = [line for line in doctor_command.examples.splitlines() if "colltool" in line]
    assert lines
    assert all(line.startswith("  colltool doctor ") for line in lines)


def test_channels_against_a_topology_file(tmp_path: Path, run: Any) -> None:
    node = h100(2, 2)
    whole = broken(tmp_path, "whole", *node)
    ill = graphs_of(broken(tmp_path, "ill", *replaced(node, nic(1), "")), 2)
    file = log_of(tmp_path, ill)
    done = run("doctor", str(file), "--topology", str(whole))
    assert done.code == 1
    assert "NCCL's channels beside what" in done.out
    document = run("doctor", str(file), "--topology", str(whole), "--format", "json").json
    (compared,) = document["topology"]["compared"]
    assert compared["damages"][0] == {
        "kind": "nic-missing",
        "names": ["mlx5_1"],
        "now": 0,
        "was": 0,
        "all": False,
        "together": [],
    }
    ring = compared["graphs"][0]
    assert ring["found"]["channels"] < ring["allowed"]["channels"]
    assert "channels" in ring["differs"]
    log_of(tmp_path, graphs_of(whole, 2))
    assert run("doctor", str(file), "--topology", str(whole)).code == 0
