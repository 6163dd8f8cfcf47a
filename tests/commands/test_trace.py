"""``trace`` as typed: traces in, tables, JSON and a job out, and what it refuses."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from swept import swept
from tracing import call, kernel, step, write

pytestmark = pytest.mark.usefixtures("datasheet")

EIGHT = list(range(8))


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for rank in range(8):
        events = [
            step(1, 0, 1000),
            kernel(0, 150),
            call(100, 100 + 10 * rank, EIGHT, elements=2**22, Seq=1),
        ]
        write(Path(f"rank{rank}.json.gz"), events, rank, 8)
    Path("cut.json").write_text('{"traceEvents": [')
    Path("ranks.txt").write_text("0\n1\n1\n")
    Path("old.json").write_text('{"schema": "colltool.price/1"}')


def test_all_ranks_of_a_group(run: Any) -> None:
    done = run("trace", *(f"rank{rank}.json.gz" for rank in range(8)), "-f", "dgx-h100", "--all")
    assert done.code == 0
    assert done.out.startswith(
        "No tier is slow: calls inside nvlink reach 106% of expected. Exposed communication takes"
        " 8.5% of 8 steps (13.5% with what compute hides): 1 collective call in 8 traces of 8 ranks"
        " on dgx-h100."
    )
    assert "upper bounds" not in done.out
    assert (
        "| default_pg |     8 | 1      | nvlink | all-reduce | 16 MiB |     1 | RING_LL |   100"
        " us |" in done.out
    )


def test_one_rank_of_a_group(run: Any) -> None:
    done = run("trace", "rank3.json.gz", "-f", "dgx-h100", "--format", "json")
    assert (done.code, done.err) == (0, "")
    (one,) = done.json["calls"]
    assert (one["bound"], one["measured_s"], one["exposed_s"]) == (
        True,
        pytest.approx(130e-6),
        pytest.approx(80e-6),
    )
    assert (one["kernel"], one["algorithm"], one["protocol"]) == ("RING_LL", None, None)


def test_json_names_the_wire(run: Any) -> None:
    files = [f"rank{rank}.json.gz" for rank in range(8)]
    whole, part = (
        run("trace", *some, "-f", "dgx-h100", "--format", "json").json
        for some in (files, files[3:4])
    )
    (wire,) = whole["wires"]
    assert (wire["tier"], wire["verdict"], wire["bar"], wire["exposed"]) == (
        "nvlink",
        "fine",
        0.8,
        pytest.approx(0.05),
    )
    assert whole["blame"][0].startswith("No tier is slow: calls inside nvlink reach ")
    assert part["wires"][0]["missing"] == [0, 1, 2, 4, 5, 6, 7]
    assert part["wires"][0]["measure"] == "./build/all_reduce_perf -b 16M -e 16M -f 2 -g 8"


def test_csv_is_the_totals(run: Any) -> None:
    (row,) = csv.DictReader(
        io.StringIO(run("trace", "rank0.json.gz", "-f", "dgx-h100", "--format", "csv").out)
    )
    assert (row["bytes"], row["calls"], row["bound"]) == (str(2**24), "1", "at most")
    assert float(row["of_expected"]) == pytest.approx(
        float(row["expected_s"]) / float(row["each_s"])
    )


def test_the_calls_as_a_job_for_plan(run: Any) -> None:
    done = run(
        "trace", "rank0.json.gz", "-f", "dgx-h100", "--calls", "job.yaml", "--format", "json"
    )
    assert done.code == 0
    plan = run("plan", "job.yaml", "-f", "dgx-h100", "--format", "json").json
    assert plan["step_s"] == pytest.approx(done.json["calls"][0]["expected_s"])
    assert run("job", "check", "job.yaml").code == 0


def test_another_library_has_other_prices(run: Any) -> None:
    own, all_of_them = (
        run("trace", "rank0.json.gz", "-f", "dgx-h100", "--format", "json", *more).json
        for more in ((), ("--library", "all"))
    )
    assert own["library"] == "nccl"
    assert all_of_them["totals"][0]["expected_s"] <= own["totals"][0]["expected_s"]


def test_ranks_that_were_dealt_to_hosts(run: Any) -> None:
    """Ranks 0 to 7 of 16 on two hosts: the group has four ranks on each."""
    for rank in range(8):
        write(Path(f"rank{rank}.json.gz"), [call(100, 900, EIGHT, elements=2**22, Seq=1)], rank, 16)
    Path("hosts.txt").write_text(
        "".join(f"{rank}: node{rank % 2}\n" for rank in reversed(range(16)))
    )
    plain, dealt, listed = (
        run("trace", "rank0.json.gz", "-f", "dgx-h100", "--format", "json", *more).json
        for more in ((), ("--map", "cyclic"), ("--map", "hosts.txt"))
    )
    assert (plain["map"], plain["calls"][0]["tiers"]) == (None, ["nvlink"])
    assert dealt["map"] == {
        "given": "cyclic",
        "places": [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15],
    }
    assert listed["map"] == dealt["map"] | {"given": "hosts.txt"}
    (one,) = dealt["calls"]
    assert (one["ranks"], one["places"]) == (EIGHT, [0, 1, 2, 3, 8, 9, 10, 11])
    assert (one["axes"], one["tiers"]) == ([[4, 1], [2, 8]], ["nvlink", "ib"])
    assert (
        "by cyclic"
        in run("trace", "rank0.json.gz", "-f", "dgx-h100", "--map", "cyclic", "--all").out
    )


def test_a_pipe_does_as_well(spawn: Any, tmp_path: Path) -> None:
    os.mkfifo("pipe")
    reader, content = None, Path("rank0.json.gz").read_bytes()
    if (child := os.fork()) == 0:
        Path("pipe").write_bytes(content)
        os._exit(0)
    reader = spawn("trace", "pipe", "-f", "dgx-h100", cwd=tmp_path)
    os.kill(child, SIGKILL)  # where nobody read, it waits for ever
    os.waitpid(child, 0)
    assert reader.code == 0
    assert reader.out.startswith(
        "No tier is slow: calls inside nvlink reach at least 122% of expected."
    )


NO_TRACE = "is not a PyTorch profiler trace: it has no traceEvents"
GIVE = (
    "  give what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote, or a"
    " Chakra trace; gzipped or not"
)


@swept(
    ("line", "says"),
    [
        ("old.json", [f"error: old.json: {NO_TRACE} (its keys: schema)", GIVE]),
        (
            "cut.json",
            [
                "error: cut.json: ends within its first events, or is damaged: no trace is left of"
                " its traceEvents",
                "  copy the file again, or profile again",
            ],
        ),
        (
            "none.json",
            [
                "error: none.json: cannot be read: No such file or directory",
                "  give the path of a trace",
            ],
        ),
        (".", ["error: .: is a directory, expected a trace", "  give a file in it"]),
        (
            "rank0.json.gz rank0.json.gz",
            [
                "error: rank0.json.gz: is a trace of rank 0, and so is rank0.json.gz",
                "  give one file per rank",
            ],
        ),
        (
            "rank0.json.gz --set nvlink.size=4 --set ib.size=1",
            [
                "error: --fabric: the traces have a rank 7, and dgx-h100 has ranks 0 to 3",
                "  a larger fabric, or --set ib.size=...",
            ],
        ),
        (
            "rank0.json.gz --map cyclc",
            [
                "error: --map: 'cyclc' is neither a rank map nor a file",
                "  block, cyclic, or a file of ranks or hosts",
            ],
        ),
        (
            "rank0.json.gz --map ranks.txt",
            [
                "error: ranks.txt:3: rank 1 of the fabric is also that of line 2",
                "  one for each rank of the job",
            ],
        ),
        (
            "rank0.json.gz --map ranks.txt -o ranks.txt",
            [
                "error: --output: ranks.txt is read by this command",
                "  name another file: what is read stays as it is",
            ],
        ),
        (
            "rank0.json.gz --calls rank0.json.gz",
            [
                "error: --calls: rank0.json.gz is read by this command",
                "  name another file: what is read stays as it is",
            ],
        ),
    ],
)
def test_what_it_refuses(line: str, says: list[str], run: Any) -> None:
    done = run("trace", *line.split(), "-f", "dgx-h100")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == says


def test_an_empty_job_is_not_written(run: Any) -> None:
    name = "void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)"
    write(Path("a.json"), [step(1, 0, 1000), kernel(20, 100, name, 20)], 0, 8)
    done = run("trace", "a.json", "-f", "dgx-h100", "--calls", "job.yaml")
    assert (done.code, done.out) == (2, "")
    assert "no call of the trace has a size" in done.err
    assert not Path("job.yaml").exists()
    assert (
        run("trace", "a.json", "-f", "dgx-h100", "--all").out.count("multimem_all_reduce_kernel")
        == 1
    )
