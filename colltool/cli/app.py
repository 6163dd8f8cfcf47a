"""The application: its commands, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from colltool import __version__
from colltool.errors import EXIT_BUG, EXIT_UNUSABLE, ColltoolError, nearest

COMMANDS = {
    "price": "Every algorithm that can run, fastest first.",
    "crossover": "Every size at which the winner changes.",
    "breakdown": "Where the time of one schedule goes.",
    "ladder": "A list of prices to compare, and to hold CI to.",
    "contention": "What a layout costs: link loads of groups that run together.",
    "diff": "What moved between two JSON outputs.",
    "explain": "An algorithm in words, with your numbers put in.",
    "fabric": "shipped fabrics; show, check and describe fabric files",
}


class _Lazy(TyperGroup):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """In the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command, built now."""
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
    sys.stdout.flush()
    try:
        app()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except ColltoolError as error:
        print("\n".join(f"error: {line}" for line in _problems(error)), file=sys.stderr)
        code = EXIT_UNUSABLE
    except Exception as error:
        if os.environ.get("COLLTOOL_DEBUG"):
            raise
        what = f"bug in colltool: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(f"{what} (please report it; COLLTOOL_DEBUG=1 shows the traceback)", file=sys.stderr)
        code = EXIT_BUG
    _leave(code)


def _problems(error: ColltoolError) -> list[str]:
    return [str(problem) for problem in getattr(error, "problems", [error])]


def _leave(code: int) -> None:
    """Exit at once: tearing down all modules one by one costs as much as a price."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    os._exit(code)
