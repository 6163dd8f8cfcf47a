"""The application: its commands, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from colltool import __version__
from colltool.errors import EXIT_BUG, EXIT_DONE, EXIT_UNUSABLE, ColltoolError, nearest

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


class _Lazy(TyperGroup):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """In the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, built now."""
        if cmd_name not in COMMANDS and ctx.resilient_parsing:  # a shell that completes
            return None
        if cmd_name not in COMMANDS:
            fix = f"{nearest(cmd_name, list(COMMANDS))} commands: {', '.join(COMMANDS)}".strip()
            raise ColltoolError(f"no command '{cmd_name}'", fix=fix)
        module = import_module(f"colltool.cli.{cmd_name}")
        own = getattr(module, "app", None)
        if own is None:
            own = typer.Typer(add_completion=False, rich_markup_mode=None)
            own.command(cmd_name, epilog=module.EXAMPLES, short_help=COMMANDS[cmd_name])(getattr(module, cmd_name))
        command = typer.main.get_command(own)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="colltool",
    cls=_Lazy,
    help="What a collective costs on a fabric: which algorithm wins, where the winner changes, where the time goes.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same in a pipe, and a third of the start-up
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"colltool {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. Exit 0 done, 1 a check failed, 2 unusable input, 70 a bug of ours."""
    gc.disable()  # a short-lived process: collecting while modules load costs a tenth of it
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # so does looking for plugins of pydantic
    _leave(_exit_code())


def _exit_code() -> int:
    """Run the command; say on stderr what went wrong."""
    try:
        done = app(standalone_mode=False)
        return done if isinstance(done, int) else EXIT_DONE
    except SystemExit as left:
        return EXIT_DONE if left.code in (None, 0, 1) else EXIT_UNUSABLE  # 1: typer's answer to a pipe that was closed
    except BrokenPipeError:
        return EXIT_DONE
    except KeyboardInterrupt:
        return 128 + 2
    except ColltoolError as error:
        _say("\n".join(f"error: {problem}" for problem in getattr(error, "problems", [error])))
        return EXIT_UNUSABLE
    except Exception as error:
        if hasattr(error, "show"):  # a usage error of typer's own click
            error.show()
            return EXIT_UNUSABLE
        return _bug(error)


def _bug(error: Exception) -> int:
    if os.environ.get("COLLTOOL_DEBUG"):
        import traceback

        traceback.print_exc()
    else:
        first = str(error).partition("\n")[0]
        _say(f"bug in colltool: {type(error).__name__}: {first} (please report it; COLLTOOL_DEBUG=1 shows the traceback)")
    return EXIT_BUG


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def _leave(code: int) -> None:
    """Exit at once: tearing down all modules one by one costs as much as a price."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if stream is not None:  # the caller may have closed it
                stream.flush()
    os._exit(code)
