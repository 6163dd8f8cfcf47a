"""The front door: the commands by name, and the one place where an exception becomes an exit code.

It imports next to nothing, so that an interrupt finds it ready a moment after the interpreter.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from colltool.errors import EXIT_BUG, EXIT_DONE, EXIT_UNUSABLE, ColltoolError, problems_of

COMMANDS = {
    "price": "Every algorithm that can run, fastest first.",
    "crossover": "Every size at which the winner changes.",
    "breakdown": "Where the time of one schedule goes.",
    "ladder": "A list of prices to compare, and to hold CI to.",
    "contention": "What a layout costs: link loads of groups that run together.",
    "verify": "Every formula against its executed schedule.",
    "calibrate": "A fabric fitted to measured logs.",
    "validate": "Measured logs against a fabric's prices.",
    "diff": "What moved between two JSON outputs.",
    "explain": "An algorithm in words, with your numbers put in.",
    "export": "Your answer as NCCL's tuner file, or as input of ASTRA-sim.",
    "fabric": "shipped fabrics; show, check and describe fabric files",
}


def main() -> None:
    """Run the command line. Exit 0 done, 1 a check failed, 2 unusable input, 70 a bug of ours, 130 interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _interrupted)
    gc.disable()  # a short-lived process: collecting while modules load costs a tenth of it
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # so does looking for plugins of pydantic
    _leave(run())


def run(args: Sequence[str] | None = None) -> int:
    """Run a command; say on stderr what went wrong.

    Args:
        args: the words of the command line; those of this process when None.

    Returns:
        The exit code.
    """
    try:
        from colltool.cli.root import app

        done = app(None if args is None else list(args), prog_name="colltool", standalone_mode=False)
        return done if isinstance(done, int) else EXIT_DONE
    except SystemExit as left:
        return EXIT_DONE if left.code in (None, 0, 1) else EXIT_UNUSABLE  # 1: typer's answer to a pipe that was closed
    except BrokenPipeError:
        return EXIT_DONE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except ColltoolError as error:
        return _refused(error)
    except Exception as error:
        if hasattr(error, "show"):  # typer's own click
            return _misused(error)
        if isinstance(error, OSError) and (full := _full(error)) is not None:
            return _refused(full)
        return _bug(error)


def _interrupted(number: int, _: Any) -> None:
    """End at once, in whatever line: nothing half written stays, and nobody is shown where it was."""
    files = sys.modules.get("colltool.files")
    if files is not None and hasattr(files, "abandon"):
        files.abandon()
    os._exit(128 + number)


def _refused(error: ColltoolError) -> int:
    if "_COLLTOOL_COMPLETE" in os.environ:  # a line that is not finished has no errors yet
        return EXIT_DONE
    from colltool.cli.streams import say

    for problem in problems_of(error):
        first, *rest = problem.lines("shell")
        say(f"error: {first}", *(f"  {line}" for line in rest))
    return EXIT_UNUSABLE


def _misused(error: Any) -> int:
    """A usage error in our words; a command without a word after it gets its help."""
    if type(error).__name__ == "NoArgsIsHelpError" and "_COLLTOOL_COMPLETE" not in os.environ:
        error.show()
        return EXIT_UNUSABLE
    from colltool.cli.usage import reworded

    return _refused(reworded(error))


def _full(error: OSError) -> ColltoolError | None:
    """The error of a stdout that takes no more, where that is what failed."""
    from colltool.cli.streams import unwritable

    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return None
    except OSError:
        return unwritable(error)
    return None


def _bug(error: Exception) -> int:
    from colltool.cli.streams import say

    if os.environ.get("COLLTOOL_DEBUG"):
        import traceback

        traceback.print_exc()
    else:
        first = str(error).partition("\n")[0]
        say(f"bug in colltool: {type(error).__name__}: {first} (please report it; COLLTOOL_DEBUG=1 shows the traceback)")
    return EXIT_BUG


def _leave(code: int) -> None:
    """Exit at once: tearing down all modules one by one costs as much as a price."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # the caller may have closed it
                stream.flush()
        except BrokenPipeError:
            continue
        except (OSError, ValueError) as error:
            if stream is sys.stdout and code == EXIT_DONE and isinstance(error, OSError):
                from colltool.cli.streams import unwritable

                code = _refused(unwritable(error))
    os._exit(code)
