"""The application: its commands, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from colltool import __version__
from colltool.cli import breakdown, crossover, diff, explain, fabric, ladder, price
from colltool.errors import EXIT_BUG, EXIT_UNUSABLE, ColltoolError

app = typer.Typer(
    name="colltool",
    help="What a collective costs on a fabric: which algorithm wins, where the winner changes, where the time goes.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same in a pipe, and a third of the start-up
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (price, crossover, breakdown, ladder, diff, explain):
    name = module.__name__.rpartition(".")[2]
    app.command(name, epilog=module.EXAMPLES)(getattr(module, name))
app.add_typer(fabric.app, name="fabric")


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
