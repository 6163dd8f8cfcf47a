"""Commands as they are declared: each option is an argument of a function, and means what the table says."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from swept import swept

from colltool.commands.app import COMMANDS
from colltool.commands.arguments import ARGUMENTS
from colltool.commands.command import Command, CommandGroup
from tests.commands.conftest import run


def every_command() -> list[Command]:
    found: list[Command] = []
    for name in COMMANDS:
        declared: Any = getattr(import_module(f"colltool.commands.{name}"), f"{name}_command")
        found += declared.commands if isinstance(declared, CommandGroup) else [declared]
    return found


@swept("command", every_command())
def test_every_option_is_an_argument_of_a_function(command: Command) -> None:
    """One that no function takes is refused as its default is looked up."""
    names = [option.name for option in command.options]
    assert len(names) == len(set(names))
    flags = [flag for option in command.options for flag in option.row.flags.split()]
    assert len(flags) == len(set(flags))


def test_every_row_is_an_option_or_describes_an_argument() -> None:
    """A row that nothing shows can go."""
    shown = {option.row.help for command in every_command() for option in command.options}
    flags = {option.row.flags for command in every_command() for option in command.options}
    assert not [
        name for name, row in ARGUMENTS.items() if row.help not in shown and row.flags not in flags
    ]


def test_the_fastest_kernels_alone_are_refused() -> None:
    """It was a bug of ours with exit code 70."""
    done = run(
        *("price", "ar", "-f", "hgx-h200", "-n", "4", "-M", "64KB"),
        *("--library", "vllm@0.24.0", "--top", "1"),
    )
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: --top: kernels are listed as a library takes them")
