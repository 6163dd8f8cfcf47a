"""Rows of one's own as typed: ``calibrate -o NAME.machine.yaml``, ``--machine``, and the file
beside a fabric's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from swept import swept

from colltool.fabric.load import shipped_folder
from colltool.render.schemas import schema_of

Run = Callable[..., Any]
PRICE = ("price", "ar", "-n", "16", "-M", "64MB")
QUESTIONS = [
    PRICE,
    ("crossover", "ar", "-n", "16"),
    ("breakdown", "ar", "-n", "16", "-M", "64MB"),
    ("explain", "ring", "ar", "-n", "16", "-M", "64MB"),
    ("sensitivity", "ar", "-n", "16", "-M", "64MB", "--samples", "100"),
    ("plan", "llama3-70b", "-n", "64"),
    ("contention", "--pattern", "block", "--group", "16", "--primitive", "ar", "-M", "64MB"),
    ("reshard", "llama3-70b", "--to", "64", "--from", "64"),
    ("serve", "llama3-70b", "--tp", "8", "--batch", "64"),
    ("validate", "two.csv"),
]
"""Commands that echo their fabric's machine, without the fabric."""


def rows_of(*times: tuple[int, float]) -> str:
    return "collective,ranks,nodes,bytes,time_us\n" + "".join(
        f"all_reduce,16,2,{size},{us}\n" for size, us in times
    )


@pytest.fixture(scope="module")
def cluster(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with two machine files made of two rows and of one."""
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _write_files(run)
    return folder


def _write_files(run: Run) -> None:
    Path("two.csv").write_text(rows_of((2**20, 120.0), (2**28, 2500.0)))
    Path("slow.csv").write_text(rows_of((2**26, 5000.0)))
    Path("sub").mkdir()
    Path("sub/cluster.yaml").write_text((shipped_folder() / "dgx-h100.yaml").read_text())
    for log, name in (("two.csv", "sub/two.machine.yaml"), ("slow.csv", "slow.machine.yaml")):
        done = run("calibrate", log, "-f", "sub/cluster.yaml", "-o", name)
        assert (done.code, done.err) == (0, "")
        assert f"Written to {name}" in done.out.replace("\n", " ")


@pytest.fixture(autouse=True)
def _files(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's files, in a working directory of their own."""
    shutil.copytree(cluster, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def answer(run: Run, *args: str, question: tuple[str, ...] = PRICE) -> Any:
    done = run(*question, *args, "--format", "json")
    assert done.code == 0, done.err
    return done.json


def test_a_named_file_wins_over_the_one_beside_and_that_over_what_ships(run: Run) -> None:
    ships = answer(run, "-f", "sub/cluster.yaml")
    assert ships["machine"]["file"] == "dgx-h100"
    Path("sub/two.machine.yaml").rename("sub/cluster.machine.yaml")
    beside = answer(run, "-f", "sub/cluster.yaml")
    named = answer(run, "-f", "sub/cluster.yaml", "--machine", "slow.machine.yaml")
    assert beside["machine"] == {"file": "sub/cluster.machine.yaml", "rows": 2}
    assert named["machine"] == {"file": "slow.machine.yaml", "rows": 1}
    totals = [found["results"][0]["total_s"] for found in (ships, beside, named)]
    assert len(set(totals)) == 3
    assert totals[2] > totals[0]  # the row says five milliseconds


def test_the_working_directory_is_not_looked_in(run: Run) -> None:
    Path("sub/two.machine.yaml").rename("dgx-h100.machine.yaml")
    Path("cluster.machine.yaml").write_text(Path("slow.machine.yaml").read_text())
    assert answer(run, "-f", "dgx-h100")["machine"]["file"] == "dgx-h100"
    assert answer(run, "-f", "sub/cluster.yaml")["machine"]["file"] == "dgx-h100"


@swept("reading", ["--numbers=library", "--numbers=datasheet", "--ideal"])
def test_fewer_layers_have_no_machine(run: Run, reading: str) -> None:
    found = answer(run, "-f", "dgx-h100", "--machine", "slow.machine.yaml", reading)
    assert found["machine"] is None
    assert (
        "slow.machine"
        not in run(*PRICE, "-f", "dgx-h100", "--machine", "slow.machine.yaml", reading).out
    )


@pytest.mark.alike(3)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: str(question[0]))
def test_every_command_that_prices_takes_it_and_says_so(
    run: Run, question: tuple[str, ...]
) -> None:
    found = answer(run, "-f", "dgx-h100", "--machine", "slow.machine.yaml", question=question)
    assert found["machine"] == {"file": "slow.machine.yaml", "rows": 1}
    jsonschema.validate(
        found, schema_of(found["schema"].removeprefix("colltool.").removesuffix("/1"))
    )
    text = " ".join(run(*question, "-f", "dgx-h100", "--machine", "slow.machine.yaml").out.split())
    assert "1 row of slow.machine.yaml" in text


def test_a_sweep_prices_with_it(run: Run) -> None:
    question = ("sweep", "ar", "-n", "16", "-M", "64MB")
    usual = answer(run, "-f", "dgx-h100", question=question)
    own = answer(run, "-f", "dgx-h100", "--machine", "slow.machine.yaml", question=question)
    assert own["cells"][0]["total_s"] > usual["cells"][0]["total_s"]
    assert own["machine"] == {"file": "slow.machine.yaml", "rows": 1}
    assert (
        answer(
            run, "-f", "dgx-h100", "--machine", "slow.machine.yaml", "--ideal", question=question
        )["machine"]
        is None
    )


def test_compare_names_it_for_each_column(run: Run) -> None:
    Path("sub/two.machine.yaml").rename("sub/cluster.machine.yaml")
    question = (
        "compare",
        "ar",
        "-n",
        "16",
        "-M",
        "64MB",
        "-f",
        "sub/cluster.yaml",
        "-f",
        "hgx-h200",
    )
    columns = answer(run, question=question)["columns"]
    assert columns[0]["machine"] == {"file": "sub/cluster.machine.yaml", "rows": 2}
    assert columns[1]["machine"] != columns[0]["machine"]
    assert "with 2 rows of sub/cluster.machine.yaml" in run(*question).out
    done = run(*question[:6], "-f", "dgx-h100", "-f", "hgx-h200", "--machine", "slow.machine.yaml")
    assert done.code == 2
    assert "h100" in done.err
    assert "h200" in done.err


@pytest.mark.ci
def test_two_plans_name_it_for_each(run: Run) -> None:
    Path("sub/two.machine.yaml").rename("sub/cluster.machine.yaml")
    question = ("plan", "llama3-70b", "-n", "64", "-f", "sub/cluster.yaml", "-f", "hgx-h200")
    assert answer(run, question=question)["plans"][0]["machine"] == {
        "file": "sub/cluster.machine.yaml",
        "rows": 2,
    }
    assert "with 2 rows of sub/cluster.machine.yaml" in run(*question).out


def test_a_file_that_cannot_be_used_is_refused(run: Run) -> None:
    done = run(*PRICE, "-f", "dgx-b200", "--machine", "slow.machine.yaml")
    assert done.code == 2
    assert "measured on h100, and dgx-b200 has b200" in " ".join(done.err.split())
    Path("bad.machine.yaml").write_text(
        Path("slow.machine.yaml").read_text().replace("time: ", "time: -")
    )
    done = run(*PRICE, "-f", "dgx-h100", "--machine", "bad.machine.yaml")
    assert done.code == 2
    assert "bad.machine.yaml:" in done.err
    assert run(*PRICE, "-f", "dgx-h100", "--machine", "none.machine.yaml").code == 2


def test_no_output_is_written_over_it(run: Run) -> None:
    before = Path("slow.machine.yaml").read_text()
    done = run(
        *PRICE,
        "-f",
        "dgx-h100",
        "--machine",
        "slow.machine.yaml",
        "-o",
        "slow.machine.yaml",
        "--format",
        "csv",
    )
    assert done.code == 2
    assert Path("slow.machine.yaml").read_text() == before


def test_calibrate_says_what_to_measure_next(run: Run) -> None:
    done = run("calibrate", "slow.csv", "-f", "dgx-h100", "--format", "json")
    found = done.json
    assert done.code == 0
    assert found["rows"] == 1
    assert found["next"]["command"].startswith("mpirun -np 16 ./build/")
    assert found["next"]["sigma_after"] < found["next"]["sigma"]
    jsonschema.validate(found, schema_of("calibrate"))
    text = run("calibrate", "two.csv", "-f", "dgx-h100").out
    assert "2 rows" in text
    assert found["next"]["command"].split(" -b")[0].split()[-1].startswith("./build/")


def test_the_fitted_fabric_is_still_written_and_names_the_new_form(run: Run) -> None:
    done = run("calibrate", "two.csv", "-f", "dgx-h100", "-o", "fitted.yaml")
    assert done.code == 0
    assert "-o fitted.machine.yaml" in done.err
    assert answer(run, "-f", "fitted.yaml")["results"]
    assert (
        json.loads(
            run(
                "calibrate", "two.csv", "-f", "dgx-h100", "-o", "m.machine.yaml", "--format", "json"
            ).out
        )["rows"]
        == 2
    )
