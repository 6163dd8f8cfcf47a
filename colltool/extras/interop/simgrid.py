"""A second opinion on a schedule: SimGrid's time for the same messages, where it is installed.

:func:`with_simulator` adds it to a verification. SimGrid gets the fabric's own links and every
message's route on them (:mod:`simgrid_input`), and runs in a Python of its own
(:mod:`simgrid_run`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.estimate.placement import AnyGroup
from colltool.extras.interop import simgrid_run
from colltool.extras.interop.simgrid_input import simgrid_input
from colltool.fabric.model import Fabric
from colltool.verification.schedule import Scheduled, scheduled
from colltool.verification.verify import Verification

NAME = "simgrid"  # of the simulator, its package and its module
VARIABLE = "COLLTOOL_SIMGRID"  # of the environment: the Python that has SimGrid
PROGRAM = "python3"
TIMEOUT_S = 600  # seconds after which a simulation is given up
MAX_OUTPUT_BYTES = 2**26  # of SimGrid's output that are read after a failure

# Files that a run reads and writes in its folder.
_MESSAGES = "messages.json"
_RUNNER = "run.py"
_RESULT = "took.json"


def check_simulator(name: str) -> None:
    """Raise ColltoolError for every simulator but SimGrid."""
    if name != NAME:
        raise ColltoolError(
            f"no simulator {quote(name)}", argument="simulator", fix=f"known: {NAME}"
        )


def find_python() -> str:
    """The path of a Python that has SimGrid: that of ``COLLTOOL_SIMGRID``, else the one that runs
    this, else the one on PATH, else the system's.

    Raises:
        ColltoolError: there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        python = shutil.which(named)
        what = f"{VARIABLE} names no program that can run: {clipped(named)}"
    else:
        python = _python_with_simgrid()
        what = (
            f"{NAME} is not installed here: no {PROGRAM} with the module {NAME}, and {VARIABLE}"
            " is not set"
        )
    if python is None:
        fix = (
            "apt-get install python3-simgrid, or build it with Python, then export"
            f" {VARIABLE}=/path/to/{PROGRAM}"
        )
        raise ColltoolError(what, argument="simulator", fix=fix)
    return os.path.abspath(python)


def _python_with_simgrid() -> str | None:
    """The first Python that has SimGrid; None where none has."""
    for name in (sys.executable, PROGRAM, f"/usr/bin/{PROGRAM}"):
        python = shutil.which(name)
        if python is not None and _has_simgrid(python):
            return python
    return None


@lru_cache
def _has_simgrid(python: str) -> bool:
    """Whether a Python finds the module of SimGrid."""
    program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({NAME!r}) is None)"
    with suppress(OSError):
        done = subprocess.run([python, "-c", program], capture_output=True, check=False)
        return done.returncode == 0
    return False


def simulated_s(run: Scheduled, size: float) -> float:
    """Seconds that SimGrid finds for a schedule, which is consumed, of ``size`` bytes of M.

    Raises:
        ColltoolError: it is not installed, the schedule cannot be written for it, or it does not
            finish.
    """
    python = find_python()
    with tempfile.TemporaryDirectory(prefix="colltool-") as folder_name:
        folder = Path(folder_name)
        (folder / _MESSAGES).write_text(simgrid_input(run, size))
        # A program's own folder is on its import path: there no module of ours is found.
        shutil.copyfile(simgrid_run.__file__, folder / _RUNNER)
        _run([python, _RUNNER, _MESSAGES, _RESULT], folder)
        try:
            return float(json.loads((folder / _RESULT).read_text())["seconds"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _failure("said no time", "check the program by itself") from error


def _run(command: list[str], folder: Path) -> None:
    """Run a command in a folder, where its output goes into a file; ColltoolError, with the last line of that,
    where it fails or takes longer than :data:`TIMEOUT_S`."""
    log = folder / "printed.txt"
    try:
        with log.open("wb") as out:
            done = subprocess.run(
                command,
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        what = f"did not end within {TIMEOUT_S} s"
        raise _failure(what, "a smaller size or fewer ranks") from error
    except OSError as error:
        what = f"does not start: {error.strerror or error}"
        raise _failure(what, "check the program by itself") from error
    if done.returncode:
        with log.open("rb") as stream:
            printed = stream.read(MAX_OUTPUT_BYTES).decode(errors="replace")
        lines = [line for line in printed.splitlines() if line.strip()] or ["nothing printed"]
        what = f"ended with code {done.returncode}: {clipped(lines[-1].strip(), 200)}"
        raise _failure(what, "check the program by itself")


def _failure(what: str, fix: str) -> ColltoolError:
    """Return the error of a simulation that failed."""
    return ColltoolError(f"{NAME} {what}", argument="simulator", fix=fix)


def with_simulator(
    result: Verification,
    size: float,
    fabric: Fabric,
    group: AnyGroup = None,
    segments: int | None = None,
) -> Verification:
    """Return a verification with each schedule's simulated time at ``size`` bytes, or in its note why there is
    none. Other arguments are those that it was made with.

    Raises:
        ColltoolError: no schedule has one.
    """
    rows = []
    errors = []
    for row in result.results:
        try:
            run = scheduled(fabric, row.primitive, row.spec, group, segments, ideal=True)
            rows.append(row._replace(simulated_s=simulated_s(run, size)))
        except ColltoolError as error:
            errors.append(error)
            why = f"no time of {NAME}: {error.what}"
            rows.append(row._replace(note="; ".join(filter(None, [row.note, why]))))
    if len(errors) == len(rows):
        raise errors[0]
    return replace(result, results=tuple(rows), simulator=NAME)
