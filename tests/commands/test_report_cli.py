"""``colltool report`` at a terminal: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import shlex
from pathlib import Path

import machine_logs
import pytest
from effort import some

import colltool
from colltool.fabric.load import shipped_folder
from tests.commands.conftest import run
from tests.commands.test_process import example_lines

SMALL = ("report", "-f", "mi300x", "-p", "ar", "-M", "16MB")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my-cluster.yaml").write_text((shipped_folder() / "nvl72.yaml").read_text())
    machine_logs.log(tmp_path / "all_reduce.log", machine_logs.time_on())
    return tmp_path


@pytest.mark.thorough
def test_the_examples_run() -> None:
    """As documents of one primitive: what a page makes of more is held elsewhere."""
    for line in some(example_lines(run("report", "--help").out), 1):
        done = run(*(word.replace(".html", ".json") for word in shlex.split(line)[1:]), "-p", "ar")
        assert (done.code, done.err) == (0, ""), line


def test_a_page_is_written_and_nothing_printed() -> None:
    done = run(*SMALL, "-o", "page.html")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert Path("page.html").read_text().startswith("<!DOCTYPE html>")
    again = run(*SMALL, "--format", "html")
    assert again.out == Path("page.html").read_text()


@pytest.mark.thorough
def test_logs_may_follow_their_option_or_stand_alone() -> None:
    """``--log *.log`` is many words to a shell."""
    Path("other.log").write_text(Path("all_reduce.log").read_text())
    told = [
        run("report", "-f", "dgx-h100", "-n", "8", "-p", "ar", *logs, "--format", "json").json[
            "sections"
        ][2]["exhibits"][0]["commands"]
        for logs in (
            ("--log", "all_reduce.log", "other.log"),
            ("--log", "all_reduce.log", "--log", "other.log"),
        )
    ]
    assert told == [["colltool doctor all_reduce.log other.log -f dgx-h100"]] * 2


def test_another_fabric_is_one_to_compare_with() -> None:
    told = [
        run(*SMALL, *other, "-n", "8", "--format", "json").json
        for other in (("-f", "dgx-h100"), ("--against", "dgx-h100"))
    ]
    assert told[0] == told[1]
    assert [one["fabric"] for one in told[0]["fabrics"]] == ["mi300x", "dgx-h100"]


@pytest.mark.alike(8)
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--against", "dgx-b20"), "did you mean 'dgx-b200'"),
        (("--against", "ib.size=64"), "no file and no shipped fabric"),
        (("--vary", "ib.bandwith=1GB/s,2GB/s"), "bandwidth"),
        (("--job", "llama3"), "llama3-70b"),
        (("--job-set", "layout.tp=2"), "add --job"),
        (("--log", "nowhere.log"), "nowhere.log"),
        (("-p", "arr"), "unknown primitive"),
        (("-p", ""), "unknown primitive"),
        (("-M", "1MB,2MB"), "one size"),
        (("-n", "8,16"), "one number of ranks"),
        (("-n", "12"), "half full"),
        (("-o", "page.pdf"), ".pdf"),
        (("-o", "nowhere/page.html"), "mkdir -p nowhere"),
        (("--columns", "algorithm", "-o", "page.html"), "--columns"),
    ],
    ids=lambda args: " ".join(args) if isinstance(args, tuple) else "",
)
def test_what_cannot_be_used_says_what_to_type(args: tuple[str, ...], says: str) -> None:
    done = run("report", "-f", "dgx-h100", *(() if "-p" in args else ("-p", "ar")), *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.splitlines()) >= 2, "no cure"
    assert not Path("page.html").exists()


@pytest.mark.parametrize(
    "args",
    [
        ("--log", "nowhere.log"),
        ("--job", "llama3-70b", "--job-set", "layout.tp=3"),
        ("--columns", "algorithm", "-o", "page.html"),
        ("-o", "nowhere/page.json"),
        ("-f", "nvl72,my-cluster.yaml", "-n", "72", "--format", "json", "-o", "my-cluster.yaml"),
    ],
    ids=" ".join,
)
def test_it_refuses_before_it_prices(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prices take seconds."""
    monkeypatch.setattr(colltool, "sweep", lambda *_, **__: pytest.fail("priced"))
    assert run("report", *(() if "-f" in args else ("-f", "dgx-h100")), "-p", "ar", *args).code == 2
