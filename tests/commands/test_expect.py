"""``expect``: what a gate may ask, logs held against it, and the formats of other programs."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from machine_logs import log, time_on
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.commands.expect import GATE_FORMATS
from colltool.estimate.expected import MOST_SHARE
from colltool.estimate.interval import one_sided
from colltool.logs.inspector_prom import BUSBW_METRIC, TIME_METRIC
from colltool.logs.read import read_logs
from colltool.render import gates, grafana

H100 = ("expect", "-f", "dgx-h100", "-n", "16")
GIB = 2**30


def expected(**options: Any) -> Any:
    return colltool.expect("dgx-h100", ranks=16, **{"sizes": ["1GiB", "4GiB"], **options})


@swept(("share", "sigmas"), [(0.5, 0.0), (0.75, 0.7407), (0.95, 2.1318), (0.99, 3.7469)])
def test_the_one_sided_quantile_is_student_s(share: float, sigmas: float) -> None:
    """Tables of Student's t with 4 degrees of freedom, those by which sigma is fitted."""
    assert one_sided(share) == pytest.approx(sigmas, abs=1e-4)


def test_the_gate_is_below_what_is_expected_and_falls_with_the_share() -> None:
    asked = []
    for share in (0.5, 0.8, 0.95, 0.99, MOST_SHARE):
        size = expected(share=share).sizes[-1]
        asked.append(size.floor_busbw_Bps)
        assert size.floor_busbw_Bps <= size.busbw_Bps
    assert asked == sorted(asked, reverse=True)
    assert len(set(asked)) == len(asked)


def test_what_is_expected_is_the_price_of_what_the_library_runs() -> None:
    for test, primitive in (("all_reduce_perf", "ar"), ("alltoall", "a2a"), ("sendrecv", "p2p")):
        for size in expected(test=test).sizes:
            priced = colltool.price("dgx-h100", primitive, ranks=16, size=size.bytes).best
            assert size.expected_s == float(priced.total_s)
            assert size.row.interval == priced.interval


def test_no_measurement_no_support() -> None:
    measured = expected()
    assert all(size.supported for size in measured.sizes)
    assert "a gate may ask" in measured.summary()
    wide = colltool.expect("tpu-v4-512", ranks=64, sizes=["1GiB"])
    assert not wide.sizes[0].supported
    assert "no measurement supports a gate there" in wide.summary()
    assert wide.sizes[0].floor_share < measured.sizes[0].floor_share


def test_all_tests_are_priced_or_named() -> None:
    found = expected(test="all")
    names = [size.test for size in found.largest]
    assert names == [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "alltoall",
        "broadcast",
        "reduce",
        "sendrecv",
    ]
    left_out = [test.algorithm for test in found.left_out]
    assert left_out == ["gather_perf", "scatter_perf", "hypercube_perf"]


@swept(
    ("options", "says"),
    [
        ({"test": "gather"}, "gather_perf has no price"),
        ({"test": "allredce"}, "nccl-tests has no test 'allredce'"),
        ({"share": 0.3}, "a gate that 30.0% of healthy machines keep"),
        ({"share": 1.0}, "a gate that 100.0% of healthy machines keep"),
        ({"ideal": True}, "an ideal price is compared with no measurement"),
    ],
)
def test_what_has_no_gate_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ColltoolError, match=says):
        expected(**options)


# --- logs


def healthy(path: Path) -> Path:
    return log(path, time_on(ranks=16), ("ar", "a2a"), [2.0**k for k in range(20, 33)], ranks=16)


def slow(path: Path) -> Path:
    time = time_on(ranks=16, set_=("ib.bandwidth=12.5GB/s",))
    return log(path, time, ("ar", "a2a"), [2.0**k for k in range(20, 33)], ranks=16)


def test_a_log_as_priced_passes(run: Any, folder: Path) -> None:
    healthy(Path("healthy.log"))
    done = run("expect", "-f", "dgx-h100", "--against", "healthy.log")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("All 26 measured sizes pass")


def test_a_log_of_slow_nics_falls_short_and_goes_to_the_doctor(run: Any, folder: Path) -> None:
    slow(Path("slow.log"))
    healthy(Path("healthy.log"))
    done = run(
        *("expect", "-f", "dgx-h100", "--against", "slow.log", "--against", "healthy.log"),
        *("--test", "all_reduce", "-b", "1G", "-e", "4G", "--format", "json"),
    )
    assert done.code == 1
    document = done.json
    assert not document["passed"]
    [line] = [document["doctor"]]
    assert line.startswith("colltool doctor slow.log ")
    assert {size["file"] for size in document["measured"] if size["short"]} == {"slow.log"}
    assert {size["expected"]["test"] for size in document["measured"]} == {"all_reduce"}
    assert {size["expected"]["bytes"] for size in document["measured"]} == {GIB, 2 * GIB, 4 * GIB}
    # the doctor agrees, at the mark of the gate
    assert run(*line.split()[1:]).code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-f", "dgx-a100"), "dgx-a100 is a machine of A100"),
        (("-f", "dgx-h100", "-n", "32"), "the log says ranks: 16"),
        (("-f", "dgx-h100", "--test", "broadcast"), "the logs hold all_reduce, alltoall, not"),
        (("-f", "dgx-h100", "-b", "1T", "-e", "2T"), "no size of this range"),
        (("-f", "dgx-h100", "--format", "aicr"), "aicr holds what a gate asks"),
    ],
)
def test_a_log_that_cannot_be_held_against_it_is_refused(
    arguments: tuple[str, ...], says: str, run: Any, folder: Path
) -> None:
    healthy(Path("healthy.log"))
    done = run("expect", *arguments, "--against", "healthy.log")
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@swept(
    ("ranks", "size", "reach"),
    [(8, "4GiB", 1), (16, "8MiB", 1), (16, "128MiB", 0.9), (16, "4GiB", 0.9)],
)
def test_a_gate_across_nodes_reaches_less_far_at_large_sizes(
    ranks: int, size: str, reach: float
) -> None:
    [found] = colltool.expect("dgx-h100", ranks=ranks, sizes=[size]).sizes
    sigmas = math.log(found.slowest_s / found.expected_s) / found.interval.sigma
    assert sigmas == pytest.approx(reach * one_sided(0.95))


@swept(
    ("version", "factors"),
    [("2.19", (1.20, 1.03)), ("2.23.4", (1.20, 1.03)), ("2.27.3", (1, 1)), ("2.31", (1, 1))],
)
def test_an_old_nccl_is_allowed_more_time_and_no_schedule_that_it_does_not_pick(
    version: str, factors: tuple[float, float]
) -> None:
    sizes = ["64KiB", "16MiB", "1GiB"]
    today = colltool.expect("dgx-h100", ranks=32, sizes=sizes, library="nccl@2.30").sizes
    found = colltool.expect("dgx-h100", ranks=32, sizes=sizes, library=f"nccl@{version}").sizes
    if version != "2.31":
        assert [one.expected_s for one in found] == [one.expected_s for one in today]
    small, _, large = (
        one.slowest_s / other.slowest_s for one, other in zip(found, today, strict=True)
    )
    assert (small, large) == pytest.approx(factors, rel=0.02)


def test_a_log_is_held_against_the_version_that_it_names(folder: Path) -> None:
    rows = log(Path("rows.log"), time_on("dgx-h100")).read_text()
    for version, code in (("2.29.2", 22902), ("2.23.4", 22304)):
        head = f"# nccl-tests version 2.17.8 nccl-headers={code} nccl-library={code}\n"
        Path(f"{version}.log").write_text(head + rows)
    new, old = (
        colltool.expect("dgx-h100", against=f"{version}.log") for version in ("2.29.2", "2.23.4")
    )
    for one, other in zip(new.measured, old.measured, strict=True):
        assert one.expected.expected_s == other.expected.expected_s
        assert one.expected.slowest_s < other.expected.slowest_s


# --- formats of other programs


def written(form: str, run: Any, *more: str) -> str:
    done = run(*H100, "-b", "512M", "-e", "4G", *more, "--format", form)
    assert (done.code, done.err) == (0, "")
    return str(done.out)


def test_every_format_is_written() -> None:
    assert tuple(gates._WRITERS) == GATE_FORMATS


def test_nccl_tests_table_is_read_as_a_log(run: Any, folder: Path) -> None:
    Path("expected.log").write_text(written("nccl-tests", run, "--test", "all"))
    series = read_logs(["expected.log"], ranks=16).series
    found = expected(test="all", sizes=["512MiB", "1GiB", "2GiB", "4GiB"])
    assert [one.primitive for one in series] == [size.primitive for size in found.largest]
    times = [point.seconds for one in series for point in one.points]
    assert times == pytest.approx([size.expected_s for size in found.sizes], rel=1e-4)


def test_a_half_of_that_table_is_the_gate(run: Any, folder: Path) -> None:
    Path("expected.log").write_text(written("nccl-tests", run))
    [series] = read_logs(["expected.log"], ranks=16, in_place=True).series
    found = expected(sizes=["512MiB", "1GiB", "2GiB", "4GiB"])
    asked = [series.busbw_Bps(point) for point in series.points]
    assert asked == pytest.approx([size.floor_busbw_Bps for size in found.sizes], rel=1e-4)


def test_prometheus_has_a_gauge_a_size(run: Any) -> None:
    lines = written("prometheus", run).splitlines()
    for name in ("expected_busbw_bytes_per_second", "floor_busbw_bytes_per_second"):
        assert f"# TYPE colltool_{name} gauge" in lines
        series = [line for line in lines if line.startswith(f"colltool_{name}{{")]
        assert len(series) == 4
    size = expected().sizes[-1]
    labels = 'fabric="dgx-h100",ranks="16",test="all_reduce",bytes="4294967296",share="0.95"'
    assert f"colltool_floor_busbw_bytes_per_second{{{labels}}} {size.floor_busbw_Bps!r}" in lines


def test_the_grafana_board_asks_for_series_that_are_written(run: Any) -> None:
    """Every metric is one of ``--format prometheus`` or of Inspector's text as it is read, every
    label one that the gauges have."""
    tests = ["--test", "all_reduce,alltoall,sendrecv"]
    board = json.loads(written("grafana", run, *tests))
    gauges = written("prometheus", run, *tests)
    known = set(re.findall(r"^# TYPE (\w+) gauge$", gauges, re.MULTILINE))
    # of a log, which no gate is made with
    known |= {grafana.MEASURED_BUSBW, TIME_METRIC, BUSBW_METRIC}
    queries = [query for panel in board["panels"] for query in panel["targets"]]
    asked: set[str] = set()
    for query in queries:
        found = re.findall(r"(\w+)\{([^}]*)\}", query["expr"])
        asked |= {metric for metric, _ in found}
        for metric, labels in found:
            if metric in (grafana.EXPECTED_BUSBW, grafana.FLOOR_BUSBW) and "$" not in labels:
                have = [line for line in gauges.splitlines() if line.startswith(f"{metric}{{")]
                assert any(all(pair in line for pair in labels.split(",")) for line in have), labels
    assert {grafana.EXPECTED_BUSBW, grafana.FLOOR_BUSBW, grafana.FLOOR_SUPPORTED} < asked
    assert asked <= known
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for name in re.findall(r"\$\{?(\w+)", json.dumps(board)):
        assert name in variables
    [sizes] = [one for one in board["templating"]["list"] if one["name"] == "bytes"]
    assert sizes["query"].split(",")[0] == "4GiB : 4294967296"
    assert "@" not in json.dumps(board)


def test_the_grafana_board_has_no_panel_on_another_and_alerts_without_variables(run: Any) -> None:
    board = json.loads(written("grafana", run, "--test", "all"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        grid = panel["gridPos"]
        rows = range(grid["y"], grid["y"] + grid["h"])
        cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in rows}
        assert not cells & taken
        taken |= cells
    alerts = [panel for panel in board["panels"] if "below the floor" in panel["title"]]
    assert len(alerts) == 7
    for panel in alerts:
        [query] = panel["targets"]
        assert "$" not in query["expr"]
        assert query["expr"] in panel["description"]
        assert query["expr"].count("(") == query["expr"].count(")")


def test_inspector_s_size_on_the_board_is_that_of_its_reader(run: Any) -> None:
    """busbw in GB/s x microseconds x the board's factor are the bytes of the total."""
    board = json.loads(written("grafana", run, "--test", "all_gather"))
    text = json.dumps(board).replace('\\"', '"')
    factor = float(re.findall(r"\} \* (\d+\.\d+) >", text)[0])
    size, seconds = 2**30, 2e-3
    busbw = size / seconds * 15 / 16
    assert busbw / 1e9 * seconds * 1e6 * factor == pytest.approx(size, rel=1e-4)


def test_nvsentinel_takes_the_least_of_its_sizes(run: Any) -> None:
    [check] = yaml.safe_load(written("nvsentinel", run))["preflight"]["initContainers"]
    assert check["name"] == "preflight-nccl-allreduce"
    values = {value["name"]: value["value"] for value in check["env"]}
    assert values["MESSAGE_SIZES"] == "2G,4G"
    least = min(size.floor_busbw_Bps for size in expected(sizes=["2GiB", "4GiB"]).sizes)
    assert 0 <= least / 1e9 - float(values["BW_THRESHOLD_GBPS"]) < 1
    one_node = run("expect", "-f", "dgx-h100", "-n", "8", "-M", "512M", "--format", "nvsentinel")
    [check] = yaml.safe_load(one_node.out)["preflight"]["initContainers"]
    assert check["name"] == "preflight-nccl-loopback"
    assert {"name": "TEST_SIZE_MB", "value": "512"} in check["env"]


def test_aicr_has_its_check_and_its_floor(run: Any) -> None:
    overlay = yaml.safe_load(written("aicr", run))
    assert overlay["spec"]["criteria"]["accelerator"] == "h100"
    phase = overlay["spec"]["validation"]["performance"]
    assert phase["checks"] == ["nccl-all-reduce-bw"]
    [floor] = phase["constraints"]
    asked = float(floor["value"].removeprefix(">= "))
    assert 0 <= expected().sizes[-1].floor_busbw_Bps / 1e9 - asked < 1


@pytest.mark.parametrize("form", ["nvsentinel", "aicr"])
def test_a_gate_of_all_reduce_needs_it(form: str, run: Any) -> None:
    done = run(*H100, "--test", "alltoall", "--format", form)
    assert done.code == 2
    assert f"{form} gates all_reduce" in done.err


_SRUN = """#!/bin/bash
# an nccl-tests that reaches SHARE of what is expected, at a size rounded down to whole elements
test=$(basename "$1" _perf)
"$PYTHON" - "$test" "$3" <<'END'
import os, sys
import colltool
found = colltool.expect("dgx-h100", sys.argv[1], ranks=16, sizes=[int(sys.argv[2])]).sizes[0]
busbw = found.busbw_Bps / 1e9 * float(os.environ["SHARE"])
print("#       size count type redop root time algbw busbw #wrong time algbw busbw #wrong")
print(f"  {int(sys.argv[2]) - 1024} 1 float sum -1 1.0 2.0 {busbw:.2f} 0 1.0 2.0 1.0 0")
END
"""


@pytest.mark.ci
@pytest.mark.alike(1)
@pytest.mark.parametrize(("share", "code"), [("1.0", 0), ("0.6", 1)])
def test_the_slurm_script_passes_and_fails(share: str, code: int, run: Any, folder: Path) -> None:
    script = written("preflight-slurm", run, "--test", "all_reduce,alltoall", "--factor", "8")
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n" in script
    Path("preflight.sh").write_text(script)
    Path("srun").write_text(_SRUN)
    Path("srun").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SHARE": share, "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "preflight.sh"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    short = [line for line in done.stdout.splitlines() if "the gate is" in line]
    assert len(short) == (4 if code else 0)


def test_the_kubernetes_script_is_bash_and_its_job_yaml(run: Any, folder: Path) -> None:
    script = written("preflight-kubernetes", run)
    Path("preflight.sh").write_text(script)
    assert subprocess.run(["bash", "-n", "preflight.sh"], check=False).returncode == 0
    job = yaml.safe_load(script.split("<<END\n")[1].split("\nEND\n")[0])
    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    assert job["spec"]["slotsPerWorker"] == 8
    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
