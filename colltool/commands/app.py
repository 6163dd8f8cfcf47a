"""Entry point of the command line: the commands by name, and the only place where an exception
becomes an exit code.

:func:`main` is what the console script calls; it owns the process (signals, garbage collector).
:func:`run` runs a command within somebody else's process. The module imports next to nothing, so
that an interrupt is handled from a moment after the interpreter starts. :data:`GROUPS` lists the
commands as the help screen does.
"""

# ruff: noqa: E402 - signals are handled before the imports below, which an interrupt may cut short
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C part of signal: without the enum module
import os
import sys

# As typing has it, which is not imported for the sake of the start; checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _on_interrupt(number: int, _: object) -> None:
    """Remove half-written files and exit at once, without a traceback, with the code of shells: 128
    and the signal's number."""
    # looked up, not imported: an interrupt may come before the module is loaded
    files = sys.modules.get("colltool.base.whole_files")
    if files is not None and hasattr(files, "discard_staged"):
        files.discard_staged()
    raise SystemExit(128 + number)


def _catch_interrupts() -> None:
    """Handle SIGINT and SIGTERM, unless the caller ignores or handles them already (nohup)."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) in (_signal.default_int_handler, _signal.SIG_DFL):
            _signal.signal(number, _on_interrupt)


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

# Commands by what they are for, each with its line of help; each stands in the module of its name.
GROUPS = {
    "Prices": {
        "price": "Every algorithm that can run, fastest first.",
        "crossover": "The sizes at which the fastest algorithm changes.",
        "breakdown": "Where the time of one algorithm goes, phase by phase.",
        "compare": "Fabrics, or values of one fabric, side by side.",
        "ladder": "A fixed list of prices, for CI to check.",
        "diff": "What moved between two results.",
        "explain": "An algorithm in words, with your numbers put in.",
    },
    "Jobs": {
        "plan": "A training step on a fabric, and what would make it faster.",
        "serve": "What a token costs: engine, layout, network and memory.",
    },
    "Machines": {
        "expect": "What a machine should reach in nccl-tests; what a gate may ask.",
        "fabric": "Shipped fabrics; show, draw, check, import and size your own.",
        "doctor": "Why a machine is slow, from its logs.",
        "calibrate": "Put measurements of your machine on top of a fabric.",
    },
    "Hand over": {
        "report": "One HTML page for a decision: compared, priced, explained.",
    },
    "More prices": {
        "sweep": "The fastest algorithm over grids of fabrics, ranks, sizes and values.",
        "sensitivity": "Whether the fastest stays the fastest if numbers are off.",
        "contention": "What a layout costs where groups share links.",
        "verify": "Formulas checked against their executed schedules.",
    },
    "More jobs": {
        "reshard": "New weights: from one layout to another, or from storage.",
        "job": "Shipped jobs; show, check and write job files.",
    },
    "More on machines": {
        "validate": "Measured logs against a fabric's prices.",
        "trace": "Collectives of profiler traces against a fabric's prices.",
        "score": "Any tool's predicted times on published measurements.",
        "library": "Libraries of kernels; list, show, check and write your own.",
    },
    "For other programs": {
        "export": "Files for NCCL, compilers, MSCCL, ASTRA-sim, LogGOPSim, Chakra.",
        "schema": "The JSON Schema of an output, or of a kind of files.",
        "mcp": "MCP server: these commands as tools for AI assistants.",
    },
    "Manual": {
        "guide": "The manual: the model, fabrics, logs, exports, CI.",
    },
}
# those of the first help screen; colltool help all shows the rest
FIRST_GROUPS = ("Prices", "Jobs", "Machines", "Hand over")
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}

# -h with the options of the model one by one
HELP_MODEL = "--help-model"

# Errors of writing to stdout: a full disk or quota, a broken device, a closed descriptor. An OSError
# of a file has a filename and is reported where the file is read or written.
_STDOUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main() -> None:
    """Run the command line and raise SystemExit: 0 done, 1 a check failed, 2 unusable input, 70 a
    bug of ours, 130 interrupted.

    Only where the process is our own does it take over signals and the garbage collector.
    """
    if not _owns_process():
        raise SystemExit(run())
    _catch_interrupts()
    # a short-lived process: collecting while modules load takes a tenth of its time, and so does
    # pydantic's search for plugins
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = _flush_streams(run())
    # skip the two collections at exit: the memory is freed with the process
    gc.freeze()
    raise SystemExit(code)


def run(args: Sequence[str] | None = None) -> int:
    """Run a command, report its errors on stderr, and return the exit code.

    Args:
        args: the command line without the program's name; default: that of this process.
    """
    words = sys.argv[1:] if args is None else list(args)
    try:
        # scripts call it often: answered without loading typer
        if words == ["--version"]:
            print(f"colltool {__version__}", flush=True)
            return EXIT_DONE
        from colltool.commands.root import app, help_text, show_model

        if os.environ.get("_COLLTOOL_COMPLETE") == "complete_bash":
            from colltool.commands.completion import join_bash_words

            join_bash_words()
        if words == ["help", "all"]:
            from colltool.commands.output import print_text

            print_text(help_text(everything=True))
            return EXIT_DONE
        if HELP_MODEL in words:
            show_model.set(True)
            words = ["-h" if word == HELP_MODEL else word for word in words]
        # an exit code where typer ends a command early (help), else None of the command itself
        returned = app(_as_typer_takes(words), prog_name="colltool", standalone_mode=False)
        return returned if isinstance(returned, int) else EXIT_DONE
    except SystemExit as exit_request:
        # above 128: of _on_interrupt
        if isinstance(exit_request.code, int) and exit_request.code > 128:
            return exit_request.code
        # 1: typer's answer to a pipe that was closed
        return EXIT_DONE if exit_request.code in (None, 0, 1) else EXIT_UNUSABLE
    except BrokenPipeError:
        return EXIT_DONE
    except KeyboardInterrupt:
        return 128 + int(_signal.SIGINT)
    except ColltoolError as error:
        return report_error(error)
    except Exception as error:
        return _exit_code_of(error)


def _exit_code_of(error: Exception) -> int:
    """Report an error other than ColltoolError, and return its exit code. A failed check has been
    reported."""
    from colltool.commands.command import CheckFailed

    if isinstance(error, CheckFailed):
        return EXIT_CHECK_FAILED
    # Errors of usage are click's UsageError and NoArgsIsHelpError, of the click within typer: known by
    # what they have, as that module may move and another click may be installed.
    show = getattr(error, "show", None)
    if show is not None:
        completes = "_COLLTOOL_COMPLETE" in os.environ
        if type(error).__name__ == "NoArgsIsHelpError" and not completes:
            # a command without arguments prints its help
            show()
            return EXIT_UNUSABLE
        from colltool.commands.root import reworded

        return report_error(reworded(error))
    if isinstance(error, OSError) and error.filename is None and error.errno in _STDOUT_ERRORS:
        from colltool.commands.output import stdout_error

        return report_error(stdout_error(error))
    return _report_bug(error)


def _as_typer_takes(words: list[str]) -> list[str]:
    """The words with ``help COMMAND`` as ``COMMAND -h``, and ``fabric export`` as ``export``."""
    if words[:1] == ["help"]:
        return [*words[1:], "-h"]
    if words[:2] == ["fabric", "export"]:
        return words[1:]
    return _with_example_values(words)


def _with_example_values(words: list[str]) -> list[str]:
    """The words with a bare ``--values`` of ``verify`` as ``--values=example``: typer has no option whose
    value may be left out, and only verify has one."""
    if words[:1] != ["verify"]:
        return words
    rewritten: list[str] = []
    # after the last word comes no value: as if an option did
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        # -1,2 are numbers, -v is the next option
        has_value = not following.startswith("-") or following[1:2].isdigit()
        rewritten.append("--values=example" if word == "--values" and not has_value else word)
    return rewritten


def report_error(error: ColltoolError) -> int:
    """Print each problem of an error with its fix on stderr, and return the exit code."""
    # a shell completes an unfinished line, which has no errors yet
    if "_COLLTOOL_COMPLETE" in os.environ:
        return EXIT_DONE
    from colltool.commands.output import say

    for problem in problems_of(error):
        first, *rest = problem.lines("shell")
        say(f"error: {first}", *(f"  {line}" for line in rest))
    return EXIT_UNUSABLE


def _report_bug(error: Exception) -> int:
    """Print an unexpected exception on stderr, and return the exit code."""
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


def _flush_streams(code: int) -> int:
    """Flush stdout and stderr, report a full disk, and return the exit code: ``code``, or that of the
    error if all else went well.

    The interpreter would flush them at exit and could only print a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            # the caller may have closed it
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError as error:
            # the interpreter's own flush at exit now writes to nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            is_lost = stream is sys.stdout and not isinstance(error, BrokenPipeError)
            if is_lost and code == EXIT_DONE:
                from colltool.commands.output import stdout_error

                code = report_error(stdout_error(error))
    return code
