"""A command line that is typed into a web page: what it prints and its exit code, as JSON.

The page runs Python in the browser (Pyodide) with packages of its own, numpy not among them
(:mod:`colltool.render.playground` writes the page).
"""

from __future__ import annotations

import builtins
import io
import json
import shlex
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from colltool.base.errors import EXIT_BUG, ColltoolError
from colltool.commands.app import report_error, run
from colltool.network import plain_arrays

# what a line may begin with, in this order, as it is typed or copied from a terminal
_PROGRAM = (["$"], ["python", "-m"], ["python3", "-m"], ["colltool"])
# commands whose answers in the page are tested against those with numpy, number by number
_TESTED = ("price", "compare", "crossover", "breakdown", "expect", "doctor", "validate")

if "numpy" not in sys.modules and find_spec("numpy") is None:
    sys.modules["numpy"] = sys.modules["numpy.typing"] = plain_arrays


def add_up_as(python: str) -> None:
    """Let ``sum`` give what it gives in a version of Python, ``3.11``: that of the command line which
    wrote the page and which it is to agree with. From 3.12 on ``sum`` corrects the rounding of floats."""
    if tuple(map(int, python.split("."))) < (3, 12) <= sys.version_info:
        setattr(builtins, "sum", _plain_sum)  # noqa: B010 - its type is overloaded


def _plain_sum(values: Iterable[Any], /, start: Any = 0) -> Any:
    """``sum`` one by one, without correction."""
    total = start
    for value in values:
        total = total + value
    return total


def answer(line: str) -> str:
    """Run a command line in this process.

    Returns:
        JSON: ``out`` and ``err`` as printed, ``code``, and ``written``: the names of the files
        within the working folder that are new or changed.
    """
    changed_before = _change_times()
    words: list[str] = []
    plain_arrays.NOTED.clear()
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            words = _words(line)
            code = run(words)
        except ColltoolError as error:
            code = report_error(error)
    if _needs_numpy(words, code):
        out, err = io.StringIO(), io.StringIO()
        what = "needs numpy, which this page does without"
        fix = f"in a terminal: colltool {shlex.join(words)}"
        with redirect_stderr(err):
            code = report_error(ColltoolError(what, fix=fix))
    written = [
        file for file, changed in _change_times().items() if changed_before.get(file) != changed
    ]
    printed = {"out": out.getvalue(), "err": err.getvalue()}
    return json.dumps({**printed, "code": code, "written": written})


def _needs_numpy(words: list[str], code: int) -> bool:
    """Whether an answer may not be that of numpy: something of numpy was missing (code on the way may
    have caught the error and gone on with less), or arrays were made in a command that is not tested, or
    that ended in a bug.

    ``plain_arrays.NOTED`` has what happened since it was cleared.
    """
    noted = plain_arrays.NOTED
    if noted.missing:
        return True
    return noted.made and (code == EXIT_BUG or words[0] not in _TESTED)


def _words(line: str) -> list[str]:
    """The arguments of a line, without the program's name."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ColltoolError(
            "a quotation mark is not closed", fix="write 'two words' or two\\ words"
        ) from error
    for start in _PROGRAM:
        if words[: len(start)] == start:
            words = words[len(start) :]
    return words


def _change_times() -> dict[str, int]:
    """When each file within the working folder was changed last, in ns, by its path there."""
    folder = Path.cwd()
    times = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            times[str(file.relative_to(folder))] = file.stat().st_mtime_ns
    return times
