"""Running the command line: inside this process for speed, as a process of its own where the
process is the point."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

NODES = Path(__file__).parent.parent / "data" / "nccl-graph"
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("NO_COLOR", "COLUMNS", "LINES", "COLLTOOL_DEBUG")
}


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*args: str) -> Ran:
    """The command in this process, with the error boundary of ``main`` (which ends the process, so
    it cannot be called)."""
    from colltool.commands.app import run as boundary

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    code, hook = 0, sys.excepthook
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        # where main says one line of a bug, a test wants to see more
        patch.setenv("COLLTOOL_DEBUG", "1")
        try:
            code = boundary(args)
        finally:
            sys.excepthook = hook  # typer installs its own
            out.flush()
            err.flush()
    return Ran(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def spawn(*args: str, env: dict[str, str] | None = None, **options: Any) -> Ran:
    """The command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "colltool", *args],
        capture_output=True,
        env=CLEAN | (env or {}),
        timeout=60,
        check=False,
        **options,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="session", name="run")
def _run() -> Callable[..., Ran]:
    return run


@pytest.fixture(scope="session", name="spawn")
def _spawn() -> Callable[..., Ran]:
    return spawn


@pytest.fixture(scope="session", autouse=True)
def _each_fit_once(remembered: Callable[[], None]) -> None:
    """A command in four formats fits its logs once."""


@pytest.fixture(scope="session")
def documents() -> dict[str, str]:
    """What commands compare: two ladders, of which the new one moved, a price, and a measurement of
    two protocols; and a node for ``fabric channels``."""
    old = run("ladder", "--format", "json").out
    new = json.loads(old)
    new["rows"][1]["ideal"]["total_s"] *= 1.02
    price = run("price", "ar", "-f", "star512", "-M", "1MB", "--format", "json").out
    own = run("library", "init").out
    return {
        "old.json": old,
        "new.json": json.dumps(new),
        "price.json": price,
        "log.csv": measured(),
        "rank0.json": traced(),
        "kernels.toml": own,
        "node.xml": (NODES / "vm80-pair.xml").read_text(encoding="utf-8"),
    }


def traced() -> str:
    """A rank's all-reduces of 8, one of them half covered by a kernel that computes, and one
    without metadata."""
    # a process that imports this file alone does not see it
    from tracing import RING_LL, call, kernel, step, text

    both = [call(at, 400.0, list(range(8)), elements=2**23) for at in (100, 1000)]
    return text([step(1, 0, 2000), kernel(1200, 700), *both, kernel(1600, 5, RING_LL)], 0, 8)


def measured() -> str:
    """All-reduces of 4 and 8 ranks by a ring: 5 us and 20 us a call, 0.8 us and 1.2 us a step, 40
    and 360 GB/s."""
    rows = ["collective,ranks,bytes,time_us"]
    for ranks in (4, 8):
        for size in (2**k for k in range(10, 31, 2)):
            wire = 2 * (ranks - 1) / ranks * size
            us = min(5 + 1.6 * (ranks - 1) + wire / 40e3, 20 + 2.4 * (ranks - 1) + wire / 360e3)
            rows.append(f"all_reduce,{ranks},{size},{us:.3f}")
    return "\n".join([*rows, ""])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: dict[str, str]) -> Path:
    """A working directory that holds the documents and nothing else."""
    monkeypatch.chdir(tmp_path)
    for name, text in documents.items():
        Path(name).write_text(text)
    return tmp_path
