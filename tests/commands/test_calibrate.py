"""``calibrate`` as typed: logs in, a fabric file out, what it promises on stdout, and nothing left
behind by an error."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from swept import swept

BLANK = """\
schema: colltool.fabric/1
name: eight
tiers:
  - {name: port, topology: star, size: 8, alpha: 1us, bandwidth: 450GB/s}
"""
Run = Callable[..., Any]
NEW_FORM = re.compile(
    r"note: \S.* is a fitted fabric, for one more version; -o \S.*\.machine\.yaml keeps the rows"
    r" themselves\n"
)


def csv_text(
    collective: str = "all_reduce", ranks: tuple[int, ...] = (4, 8), last: int = 30, nodes: int = 1
) -> str:
    """A ring of 5 us a call, 0.8 us a step, 40 GB/s; or of 20 us, 1.2 us and 360 GB/s."""
    rows = ["collective,ranks,nodes,bytes,time_us"]
    for n in ranks:
        for size in (2**k for k in range(10, last, 2)):
            rounds = 2 if collective == "all_reduce" else 1
            steps, wire = rounds * (n - 1), rounds * (n - 1) / n * size
            us = min(5 + 0.8 * steps + wire / 40e3, 20 + 1.2 * steps + wire / 360e3)
            rows.append(f"{collective},{n},{nodes},{size},{us:.4f}")
    return "\n".join([*rows, ""])


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("eight.yaml").write_text(BLANK)
    Path("ar.csv").write_text(csv_text())
    Path("one.csv").write_text(csv_text(ranks=(8,)))
    Path("ag.csv").write_text(csv_text("all_gather", last=24))


def left() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file()} - {
        "eight.yaml",
        "ar.csv",
        "one.csv",
        "ag.csv",
    }


def calibrate(run: Run, *args: str) -> Any:
    return run("calibrate", "ar.csv", "-f", "eight.yaml", "-a", "ring", *args)


def test_json_keeps_what_it_promises(run: Run) -> None:
    done = calibrate(run, "-o", "out.yaml", "--format", "json")
    assert (done.code, NEW_FORM.sub("", done.err)) == (0, "")
    document = done.json
    assert list(document)[:4] == ["schema", "colltool", "series", "fabric"]
    assert (document["schema"], document["fabric"]) == ("colltool.calibrate/1", "out.yaml")
    first, second = document["series"]
    promised = [
        "collective",
        "ranks",
        "algorithm",
        "protocols",
        "points",
        "mape",
        "worst",
        "cv_mape",
        "skipped",
    ]
    assert list(first)[: len(promised)] == promised
    assert [one["ranks"] for one in (first, second)] == [4, 8]
    assert (first["collective"], first["algorithm"], first["points"], first["skipped"]) == (
        "all_reduce",
        "ring",
        10,
        [],
    )
    assert max(first["mape"], abs(first["worst"]), first["cv_mape"]) < 0.01
    low, high = first["protocols"]
    assert list(low)[:6] == [
        "name",
        "launch_overhead_s",
        "alpha_s",
        "bandwidth_Bps",
        "ci95",
        "tied",
    ]
    assert low["launch_overhead_s"] == pytest.approx(5e-6, rel=0.02)
    assert low["alpha_s"] == pytest.approx(0.8e-6, rel=0.02)
    assert low["bandwidth_Bps"] == pytest.approx(40e9, rel=0.01)
    assert high["bandwidth_Bps"] == pytest.approx(360e9, rel=0.01)
    assert list(low["ci95"]) == ["launch_overhead_s", "alpha_s", "bandwidth_Bps"]
    assert [residual["bytes"] for residual in first["residuals"]] == [
        2**k for k in range(10, 30, 2)
    ]


def test_without_a_file_nothing_is_written_and_that_is_said(run: Run) -> None:
    done = calibrate(run)
    assert (done.code, left()) == (0, set())
    assert "Nothing written: add -o OUT.yaml" in " ".join(done.out.split())
    assert calibrate(run, "--format", "json").json["fabric"] is None


def test_a_table_and_markdown(run: Run) -> None:
    table, markdown = (
        calibrate(run, "-o", "out.yaml", "--format", form).out for form in ("table", "markdown")
    )
    assert table.startswith("Fitted port of out to 2 measurements: the worst of them (")
    assert "Written to out.yaml" in " ".join(table.split())
    for text in (table, markdown):
        assert "segment-2" in text
        assert "eta_b" not in text  # no line rate was stated
        assert "nan" not in text.lower()
    assert "| all-reduce" in markdown


def test_csv_has_a_row_for_every_point(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(calibrate(run, "--format", "csv").out)))
    assert len(rows) == 20
    assert {row["used"] for row in rows} == {"true"}
    assert all(
        abs(float(row["fitted_s"]) / float(row["measured_s"]) - 1 - float(row["relative_error"]))
        < 1e-9
        for row in rows
    )


def test_the_written_fabric_holds_and_prices_the_log(run: Run) -> None:
    found = calibrate(run, "-o", "out.yaml", "--format", "json").json["series"]
    assert run("fabric", "check", "out.yaml").code == 0
    held = run("validate", "ar.csv", "-f", "out.yaml", "--format", "json").json["series"]
    for one, other in zip(found, held, strict=True):
        assert one["mape"] == pytest.approx(other["mape"], abs=1e-9)
        assert one["worst"] == pytest.approx(other["worst"], abs=1e-9)
    assert run("validate", "ar.csv", "-f", "out.yaml", "--max-mape", "1%").code == 0
    assert run("price", "ar", "-f", "out.yaml", "-n", "8", "-M", "1GB").code == 0


def test_the_same_call_gives_the_same_bytes(run: Run, remembered: Callable[[], None]) -> None:
    first, text = calibrate(run, "-o", "out.yaml").out, Path("out.yaml").read_bytes()
    remembered()
    assert calibrate(run, "-o", "out.yaml").out == first
    assert Path("out.yaml").read_bytes() == text
    assert str(Path.cwd()) not in text.decode()


def test_the_order_of_files_does_not_matter(run: Run, remembered: Callable[[], None]) -> None:
    texts = []
    for logs in (("ar.csv", "ag.csv"), ("ag.csv", "ar.csv")):
        remembered()
        assert run("calibrate", *logs, "-f", "eight.yaml", "-a", "ring", "-o", "out.yaml").code == 0
        texts.append(Path("out.yaml").read_text())
    assert texts[0] == texts[1]


@swept(
    ("typed", "name"),
    [
        ("my cluster v1.2.yaml", "my-cluster-v1-2"),
        ("größe.yaml", "gr-e"),
        ("測定.yaml", "eight-calibrated"),
        ("-x.yaml", "x"),
        ("1e9.yaml", "1e9"),
        ("on.yml", "on"),
        (f"{'n' * 90}.yaml", "n" * 64),
    ],
)
def test_a_file_name_makes_a_valid_fabric_name(run: Run, typed: str, name: str) -> None:
    done = run("calibrate", "one.csv", "-f", "eight.yaml", "-a", "ring", f"--output={typed}")
    assert (done.code, NEW_FORM.sub("", done.err)) == (0, "")
    assert yaml.safe_load(Path(typed).read_text(encoding="utf-8"))["name"] == name
    assert run("fabric", "check", f"./{typed}").code == 0


def test_logs_with_any_name(run: Run) -> None:
    log = Path("Läufe: 測定 #1.csv")
    log.write_text(csv_text(ranks=(8,)))
    done = run("calibrate", str(log), "-f", "eight.yaml", "-a", "ring", "-o", "out.yaml")
    assert (done.code, NEW_FORM.sub("", done.err)) == (0, "")
    source = yaml.safe_load(Path("out.yaml").read_text(encoding="utf-8"))["tiers"][0]["protocols"][
        0
    ]["source"]
    assert source.endswith("from Läufe: 測定 #1.csv")
    assert run("fabric", "check", "out.yaml").code == 0


def test_a_log_whose_name_is_no_text(run: Run) -> None:
    log = os.fsdecode(b"run\xff\x1b[31m.csv")
    Path(log).write_text(csv_text(ranks=(8,)))
    done = run("calibrate", log, "-f", "eight.yaml", "-a", "ring", "-o", "out.yaml")
    assert (done.code, NEW_FORM.sub("", done.err)) == (0, "")
    source = yaml.safe_load(Path("out.yaml").read_text(encoding="utf-8"))["tiers"][0]["protocols"][
        0
    ]["source"]
    assert source.endswith(r"from run\udcff\x1b[31m.csv")
    assert run("fabric", "check", "out.yaml").code == 0


def test_thousands_of_sizes_make_a_file_that_is_read_again(run: Run) -> None:
    rows = [
        f"all_reduce,8,1,{1024 + 997 * k},{20 + 1.75 * (1024 + 997 * k) / 360e3:.4f}"
        for k in range(3000)
    ]
    Path("many.csv").write_text("\n".join(["collective,ranks,nodes,bytes,time_us", *rows, ""]))
    assert (
        run("calibrate", "many.csv", "-f", "eight.yaml", "-a", "ring", "-o", "out.yaml").code == 0
    )
    head = Path("out.yaml").read_text().partition("schema:")[0]
    assert "#   and 2700 sizes between these" in head
    assert len(head) < 10_000
    for listed in ("1KiB", "2.991MB"):  # the first and the last
        assert f"{listed} " in head
    assert run("fabric", "check", "out.yaml").code == 0
    assert run("validate", "many.csv", "-f", "out.yaml", "--max-mape", "1%").code == 0


def test_calibrating_what_was_calibrated(run: Run) -> None:
    assert calibrate(run, "-o", "out.yaml").code == 0
    assert run("calibrate", "one.csv", "-f", "out.yaml", "-o", "again.yaml").code == 0
    assert run("validate", "one.csv", "-f", "again.yaml", "--max-mape", "1%").code == 0
    # what is read stays as it is
    assert run("calibrate", "one.csv", "-f", "again.yaml", "-o", "again.yaml").code == 2


def test_a_line_rate_gives_eta(run: Run) -> None:
    document = calibrate(run, "--line-rate", "3600Gbps", "-o", "out.yaml", "--format", "json").json
    shares = [one["eta_beta"] for one in document["series"][0]["protocols"]]
    assert shares == pytest.approx([40 / 450, 360 / 450], rel=0.01)
    assert "eta_b" in calibrate(run, "--line-rate", "450GB/s").out
    assert run("validate", "ar.csv", "-f", "out.yaml", "--max-mape", "1%").code == 0
    args = (
        "price",
        "ar",
        "-f",
        "out.yaml",
        "-n",
        "8",
        "-M",
        "100GB",
        "-a",
        "ring",
        "--format",
        "json",
    )
    ideal = run(*args, "--ideal").json["results"][0]
    assert ideal["bandwidth_s"] == pytest.approx(1.75 * 100e9 / 450e9, rel=1e-3)


def test_a_line_rate_that_is_too_low_is_said(run: Run) -> None:
    out = calibrate(run, "--line-rate", "100GB/s", "-o", "out.yaml", "--all").out
    assert re.search(r"segment-2 carries 36\d.*more than the stated line rate of 100 GB/s", out)
    assert run("validate", "ar.csv", "-f", "out.yaml", "--max-mape", "1%").code == 0


def test_left_out_and_skipped_are_told_apart(run: Run) -> None:
    lines = csv_text(ranks=(8,)).splitlines()
    spoiled = lines[6].rsplit(",", 1)
    lines[6] = f"{spoiled[0]},{4 * float(spoiled[1])}"
    Path("spoiled.csv").write_text("\n".join([*lines, "all_reduce,8,1,0,1.0", ""]))
    document = run(
        "calibrate", "spoiled.csv", "-f", "eight.yaml", "-a", "ring", "--format", "json"
    ).json
    (one,) = document["series"]
    assert one["skipped"] == [
        {"bytes": 2**20, "reason": "outlier at 1 MiB: 4x as slow as the rest predicts"}
    ]
    assert (one["points"], len(one["residuals"])) == (9, 10)
    assert [row["reason"] for row in document["rows_skipped"]] == ["size 0: nothing is sent"]
    out = run("calibrate", "spoiled.csv", "-f", "eight.yaml", "-a", "ring", "--all").out
    assert "off the curve and not in the fit" in out
    assert "rows skipped" in out


def test_two_sizes_have_no_error_on_sizes_left_out(run: Run) -> None:
    Path("two.csv").write_text("\n".join(csv_text(ranks=(8,)).splitlines()[:3]))
    args = ("calibrate", "two.csv", "-f", "eight.yaml", "-o", "out.yaml")
    assert run(*args, "--format", "json").json["series"][0]["cv_mape"] is None
    assert "2 sizes only" in run(*args, "--all").out


ERRORS: dict[str, tuple[tuple[str, ...], str]] = {
    "tier": (("--tier", "ib"), "--tier: eight has no tier 'ib'\n  tiers: port"),
    "near tier": (("--tier", "prt"), "did you mean 'port'?"),
    "algorithm": (("-a", "rang"), "did you mean 'ring'?"),
    "other algorithm": (("-a", "ring,in-network"), "error: --algorithm: "),
    "empty algorithm": (("-a", ""), "--algorithm: an empty item"),
    "suffix": (("-o", "out.json"), "--output: a fabric file ends in .yaml, got out.json"),
    "no suffix": (("-o", "out"), "--output: a fabric file ends in .yaml, got out\n"),
    "folder": (("-o", "missing/out.yaml"), "missing/out.yaml: cannot write"),
    "line rate": (("--line-rate", "fast"), "error: "),
    "line rate without unit": (("--line-rate", "450us"), "error: "),
    "no line rate": (("--line-rate", "0GB/s"), "error: "),
    "too many ranks": (
        ("--set", "port.size=4"),
        "ar.csv:12: all-reduce, 8 ranks on 1 node: 8 ranks do not fit",
    ),
    "two fabrics": (("-f", "dgx-h100"), "--fabric"),
    "plot": (("--plot", "plot.txt", "-o", "out.yaml"), "plot.txt"),
    "other ranks": (("-n", "16", "-o", "out.yaml"), "ar.csv:"),
}


@swept("case", ERRORS)
def test_an_error_leaves_nothing_behind(run: Run, case: str) -> None:
    args, words = ERRORS[case]
    done = run("calibrate", "ar.csv", "-f", "eight.yaml", *args)
    assert (done.code, done.out, left()) == (2, "", set())
    assert words in done.err


HEADER = "collective,ranks,nodes,bytes,time_us"
LOGS = {
    "empty": ("", "log.csv"),
    "header only": (f"{HEADER}\n", "log.csv:1: no rows below the header"),
    "truncated": (
        f"{HEADER}\nall_reduce,8,1,1024,10\nall_reduce,8,1,20",
        "log.csv:3: 4 cells under 5 columns",
    ),
    "nan": (f"{HEADER}\nall_reduce,8,1,1024,nan\n", "log.csv:2: 'nan' is not a time"),
    "zero": (f"{HEADER}\nall_reduce,8,1,1024,0\n", "log.csv:2: '0' is not a time"),
    "one size": (
        f"{HEADER}\nall_reduce,8,1,1024,10\n",
        "log.csv:2: all-reduce, 8 ranks on 1 node: a single size does not determine a line",
    ),
    "seconds as us": (
        f"{HEADER.replace('_us', '_s')}\nall_reduce,8,1,1024,12\nall_reduce,8,1,2048,13\n",
        "check the unit of the times in the logs",
    ),
}


@swept("case", LOGS)
def test_a_log_that_cannot_be_used(run: Run, case: str) -> None:
    text, words = LOGS[case]
    Path("log.csv").write_text(text)
    done = run("calibrate", "log.csv", "-f", "eight.yaml", "-o", "out.yaml")
    assert (done.code, done.out, left()) == (2, "", {"log.csv"})
    assert words in done.err


def test_a_file_that_is_there_survives_an_error(run: Run) -> None:
    Path("out.yaml").write_text("mine")
    assert (
        run("calibrate", "ar.csv", "-f", "eight.yaml", "--tier", "ib", "-o", "out.yaml").code == 2
    )
    assert Path("out.yaml").read_text() == "mine"


@pytest.mark.ci
def test_a_plot_only_beside_a_fabric_that_could_be_written(run: Run) -> None:
    pytest.importorskip("matplotlib")
    assert calibrate(run, "-o", "out.yaml", "--plot", "fit.svg").code == 0
    assert left() == {"out.yaml", "fit.svg"}
    assert calibrate(run, "-o", "missing/out.yaml", "--plot", "other.svg").code == 2
    assert left() == {"out.yaml", "fit.svg"}


def test_numbers_are_the_same_in_every_format(run: Run) -> None:
    document = calibrate(run, "--format", "json")
    rows = list(csv.DictReader(io.StringIO(calibrate(run, "--format", "csv").out)))
    residuals = [residual for one in document.json["series"] for residual in one["residuals"]]
    assert [float(row["fitted_s"]) for row in rows] == [
        residual["fitted_s"] for residual in residuals
    ]
    assert not re.search(r"\b(NaN|Infinity)\b", document.out)
    assert json.dumps(document.json)
