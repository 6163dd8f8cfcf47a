"""The front door: the commands by name, and the one place where an exception becomes an exit code.

It imports next to nothing, so that an interrupt finds it ready a moment after the interpreter.
"""

# ruff: noqa: E402 - an interrupt may come while the modules below load, and is caught before they
# do
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what the module signal wraps, without what that loads
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _interrupted(number: int, _: object) -> None:
    """Leave from whatever line it is: nothing half written stays, and nobody is shown where it
    was."""
    # not an import: an interrupt may come before the module is there
    files = sys.modules.get("colltool.base.files")
    if files is not None and hasattr(files, "discard_staged"):
        files.discard_staged()
    raise SystemExit(128 + number)


def _catch_interrupts() -> None:
    for number in (_signal.SIGINT, _signal.SIGTERM):
        # not where they are ignored
        if _signal.getsignal(number) in (_signal.default_int_handler, _signal.SIG_DFL):
            _signal.signal(number, _interrupted)


def _owns_process() -> bool:
    """Whether this process is the command line: the console script or ``python -m colltool``, not a
    host that calls us."""
    # python -m colltool, or the script that pip installs, on Windows within colltool.exe
    program = sys.modules.get("__main__")
    if getattr(getattr(program, "__spec__", None), "name", "") == "colltool.__main__":
        return True
    file = getattr(program, "__file__", None) or ""
    return (
        os.path.basename(file) == "colltool"
        or os.path.basename(os.path.dirname(file)) == "colltool.exe"
    )


if _owns_process():
    _catch_interrupts()

import errno
import gc

from colltool import __version__
from colltool.base.errors import (
    EXIT_BUG,
    EXIT_CHECK_FAILED,
    EXIT_DONE,
    EXIT_UNUSABLE,
    ColltoolError,
    problems_of,
)

COMMANDS = {
    "price": "Every algorithm that can run, fastest first.",
    "crossover": "Every size at which the winner changes.",
    "breakdown": "Where the time of one schedule goes.",
    "compare": "Fabrics, or values of one, side by side.",
    "sweep": "The winner over lists of fabrics, ranks, sizes and values.",
    "sensitivity": "Whether the winner holds where numbers are off.",
    "ladder": "A list of prices to compare, and to hold CI to.",
    "serve": "The network's part of a token: by engine, group and kernel.",
    "reshard": "Weights from one mesh to another, or from a store.",
    "plan": "A training job's step on a fabric, and what to change.",
    "contention": "What a layout costs: link loads of groups that run together.",
    "verify": "Every formula against its executed schedule.",
    "calibrate": "A fabric fitted to measured logs.",
    "validate": "Measured logs against a fabric's prices.",
    "trace": "Collectives of profiler traces against a fabric's prices.",
    "doctor": "What ails a machine, from its logs alone.",
    "report": "A page to hand over: drawn, priced, compared, measured.",
    "diff": "What moved between two JSON outputs.",
    "explain": "An algorithm in words, with your numbers put in.",
    "export": "Your answer for NCCL, MSCCL, ASTRA-sim, LogGOPSim.",
    "fabric": "Shipped fabrics; start, show, draw, check, size your own.",
    "job": "Shipped jobs; show, check and describe job files.",
    "library": "Libraries of kernels; list, show, check, start your own.",
    "schema": "The JSON Schema of an output, or of a kind of files.",
    "mcp": "A server that answers the tools of an assistant (MCP).",
    "guide": "The manual: the model, your own fabric, logs, exports, CI.",
}
"""Each stands in the module of its name; here is its line of help."""

# what help meets there; files say their own
_OF_STDOUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main() -> None:
    """Run the command line and raise SystemExit: 0 done, 1 a check failed, 2 unusable input, 70 a
    bug of ours, 130 interrupted.

    Only where the process is our own does it take over signals and the garbage collector.
    """
    if not _owns_process():
        raise SystemExit(run())
    _catch_interrupts()
    gc.disable()  # a short-lived process: collecting while modules load costs a tenth of it
    # so does looking for plugins of pydantic
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = _flushed(run())
    # the interpreter collects twice as it ends, and the process goes with all its memory anyway
    gc.freeze()
    raise SystemExit(code)


def run(args: Sequence[str] | None = None) -> int:
    """Run a command (``args``: the words of this process when None), say on stderr what went wrong;
    the exit code."""
    words = sys.argv[1:] if args is None else list(args)
    try:
        if words == ["--version"]:  # asked by scripts, over and over: without typer
            print(f"colltool {__version__}", flush=True)
            return EXIT_DONE
        from colltool.commands.root import app

        done = app(_with_example(words), prog_name="colltool", standalone_mode=False)
        return done if isinstance(done, int) else EXIT_DONE
    except SystemExit as left:
        if isinstance(left.code, int) and left.code > 128:  # a signal
            return left.code
        # 1: typer's answer to a pipe that was closed
        return EXIT_DONE if left.code in (None, 0, 1) else EXIT_UNUSABLE
    except BrokenPipeError:
        return EXIT_DONE
    except KeyboardInterrupt:
        return 128 + int(_signal.SIGINT)
    except ColltoolError as error:
        return _refused(error)
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """The exit code of an error that is not one of unusable input by its class alone."""
    from colltool.commands.command import CheckFailed

    if isinstance(error, CheckFailed):
        return EXIT_CHECK_FAILED
    show = getattr(error, "show", None)  # a usage error of typer's own click
    if show is not None:
        completes = "_COLLTOOL_COMPLETE" in os.environ
        if type(error).__name__ == "NoArgsIsHelpError" and not completes:
            show()  # a command without a word after it gets its help
            return EXIT_UNUSABLE
        from colltool.commands.root import reworded

        return _refused(reworded(error))
    if isinstance(error, OSError) and error.filename is None and error.errno in _OF_STDOUT:
        from colltool.commands.output import unwritable

        return _refused(unwritable(error))
    return _bug(error)


def _with_example(words: list[str]) -> list[str]:
    """The words with ``--values`` for the example's numbers written out: typer has no option whose
    value may be left out."""
    if words[:1] != ["verify"]:
        return words
    found: list[str] = []
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else "-"
        # -1,2 are numbers, -v is the next option
        has_value = not following.startswith("-") or following[1:2].isdigit()
        found.append("--values=example" if word == "--values" and not has_value else word)
    return found


def _refused(error: ColltoolError) -> int:
    if "_COLLTOOL_COMPLETE" in os.environ:  # a line that is not finished has no errors yet
        return EXIT_DONE
    from colltool.commands.output import say

    for problem in problems_of(error):
        first, *rest = problem.lines("shell")
        say(f"error: {first}", *(f"  {line}" for line in rest))
    return EXIT_UNUSABLE


def _bug(error: Exception) -> int:
    from colltool.commands.output import say

    if os.environ.get("COLLTOOL_DEBUG"):
        import traceback

        traceback.print_exc()
    else:
        first = str(error).partition("\n")[0]
        say(
            f"bug in colltool: {type(error).__name__}: {first} (please report it; COLLTOOL_DEBUG=1"
            " shows the traceback)"
        )
    return EXIT_BUG


def _flushed(code: int) -> int:
    """Flush here, where a full disk can be told, and what fails not once more as the interpreter
    ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:  # the caller may have closed it
                stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if (
                stream is sys.stdout
                and code == EXIT_DONE
                and not isinstance(error, BrokenPipeError)
            ):
                from colltool.commands.output import unwritable

                code = _refused(unwritable(error))
    return code
