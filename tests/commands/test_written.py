"""What a command writes: all of it at its end, never over what it read, and pipes are read once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tracing import call, kernel, step, write

import colltool
from colltool.base import files as inputs
from colltool.fabric.load import shipped_folder

FABRIC = (shipped_folder() / "dgx-h100.yaml").read_bytes()
PRICED = FABRIC + b"\nprices: {currency: USD, switch: 30000}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(
        Path("rank0.json"),
        [step(1, 0, 1000), kernel(0, 150), call(100, 110, list(range(8)), elements=2**22, Seq=1)],
        0,
        8,
    )
    Path("old").write_text("precious")
    return tmp_path


@contextmanager
def piped(path: str, content: bytes = FABRIC) -> Iterator[str]:
    """A named pipe that gives its content to its first reader; a second one would wait without
    end."""
    os.mkfifo(path)

    def feed() -> None:
        with open(path, "wb") as stream:
            stream.write(content)

    def hung(*_: Any) -> None:
        raise AssertionError("waits for a pipe that was read")

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(30)
    try:
        yield path
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "last",
    [
        ("--columns", "nope"),
        ("-o", "no-such-folder/x.json"),
        ("-o", "out.pdf"),
        ("-o", "calls.yaml", "--format", "json"),
        ("-o", "rank0.json"),
    ],
)
def test_what_fails_last_has_written_nothing(last: tuple[str, ...], run: Any, folder: Path) -> None:
    Path("calls.yaml").write_text("precious")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run("trace", "rank0.json", "-f", "dgx-h100", "--calls", "calls.yaml", *last)
    assert (done.code, done.out) == (2, "")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_device_is_written_after_the_files_are_sure(run: Any, folder: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb"):
        os.set_blocking(reader, False)
        done = run(
            "trace",
            "rank0.json",
            "-f",
            "dgx-h100",
            "--calls",
            f"/dev/fd/{writer}",
            "-o",
            "missing/x.json",
        )
        assert (done.code, done.out) == (2, "")
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)


def test_two_names_of_one_new_file(run: Any, folder: Path) -> None:
    Path("here").symlink_to(".")
    done = run(
        "trace", "rank0.json", "-f", "dgx-h100", "--calls", "here/new.json", "-o", "./new.json"
    )
    assert (done.code, done.out) == (2, "")
    assert "written twice" in done.err
    assert not Path("new.json").exists()


def test_a_failed_folder_is_gone_again(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("colltool.base.whole_files.os.replace", full)
    done = run("export", "astra-sim", "-f", "dgx-h100", "-n", "8", "-o", "astra")
    assert (done.code, done.out) == (2, "")
    assert not Path("astra").exists()


def test_the_exit_code_of_a_check_writes_all_the_same(run: Any, folder: Path) -> None:
    for name, size in (("a.json", "1MB"), ("b.json", "2MB")):
        assert (
            run(
                "price",
                "ar",
                "-f",
                "star512",
                "-n",
                "8",
                "-M",
                size,
                "--format",
                "json",
                "-o",
                name,
            ).code
            == 0
        )
    done = run("diff", "a.json", "b.json", "-o", "moved.json")
    assert (done.code, done.out) == (1, "")
    assert Path("moved.json").exists()


READ_ONCE: dict[str, Callable[[str], Any]] = {
    "price": lambda pipe: colltool.price(pipe, "ar", ranks=8, size="1MB"),
    "sweep": lambda pipe: colltool.sweep(
        pipe, "ar", ranks=8, sizes=["1MB"], vary="nvlink.alpha=1us,2us"
    ),
    "compare": lambda pipe: colltool.compare([pipe, "dgx-b200"], "ar", ranks=8, sizes=["1MB"]),
    "report": lambda pipe: colltool.report(pipe, ranks=8, primitives="ar"),
    "size_fabric": lambda pipe: colltool.size_fabric(64, 8, prices=pipe),
}


@pytest.mark.alike(2)
@pytest.mark.parametrize("name", READ_ONCE)
def test_a_pipe_gives_a_fabric_once(name: str, folder: Path) -> None:
    with piped("fabric", PRICED) as pipe:
        READ_ONCE[name](pipe)


def test_a_pipe_of_a_command_and_the_file_behind_it(run: Any, folder: Path) -> None:
    with piped("fabric") as pipe:
        done = run("report", "-f", pipe, "-n", "8", "-p", "ar", "-o", "page.json")
    assert (done.code, done.err) == (0, "")
    with piped("traced", Path("rank0.json").read_bytes()) as pipe:
        done = run("trace", pipe, pipe, "-f", "dgx-h100")
    assert (done.code, done.out) == (2, "")
    assert "pipe that was read already" in done.err


def test_what_was_read_is_known_within_one_call_alone(folder: Path) -> None:
    with inputs.remembering() as outer:
        with inputs.remembering() as inner:
            inputs.read_text("old", "definition")
        assert inner is outer
        assert outer.has_opened("old")
        assert not outer.has_opened("rank0.json")
        assert not outer.has_opened("missing")
        assert not outer.has_opened("a\0b")
    with inputs.remembering() as another:
        assert not another.has_opened("old")


LONG = "x" * 300  # longer than any file system's names


@pytest.mark.parametrize(
    "args",
    [
        ("price", "ar", "-f", "star512", "-M", "1MB", "-o", f"{LONG}.json"),
        ("crossover", "ar", "-f", "star512", "--plot", f"{LONG}.png"),
        ("price", "ar", "-f", f"{LONG}.yaml", "-M", "1MB"),
        ("price", "ar", "-f", LONG, "-M", "1MB"),
        ("fabric", "init", "--from", "star512", "-o", f"{LONG}.yaml"),
        ("plan", f"{LONG}.yaml", "-f", "dgx-h100"),
        ("doctor", f"{LONG}.log"),
    ],
)
def test_a_name_too_long_is_unusable(run: Any, folder: Path, args: tuple[str, ...]) -> None:
    before = sorted(os.listdir("."))
    done = run(*args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "no option" not in done.err.lower()
    assert sorted(os.listdir(".")) == before


def test_no_backend_of_that_name(folder: Path) -> None:
    args = [sys.executable, "-m", "colltool", "crossover", "ar", "-f", "star512", "--plot", "a.png"]
    done = subprocess.run(
        args,
        env={**os.environ, "MPLBACKEND": "nonsense"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "MPLBACKEND=nonsense names none of its backends" in done.stderr
    assert "unset MPLBACKEND" in done.stderr
    assert not os.path.exists("a.png")
