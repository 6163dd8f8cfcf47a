"""Declaration of commands: options, the public function whose arguments they are, and the function
that runs the command and prints the result.

:func:`command` decorates the function of a command; :class:`Command` is what it makes, and
:meth:`Command.run` is called with the values of all options. :mod:`colltool.commands.root` hands
commands to typer, which nothing here imports: a program that calls a public function does not load
it. :func:`failed` and :func:`each_checked` end commands that check something.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from colltool.base.errors import (
    ColltoolError,
    ManyErrors,
    problems_of,
    rename_arguments,
    set_audience,
)
from colltool.base.files import STANDARD_INPUT
from colltool.base.result import progress_to
from colltool.commands.option_text import read_items
from colltool.commands.options import BY_FUNCTION, REQUIRED, Option, OptionGroup, option
from colltool.commands.output import (
    Outputs,
    ProgressLine,
    deferred_outputs,
    overwrites_input,
    refuse_conflict,
    say,
)
from colltool.commands.project import with_project

Checked = TypeVar("Checked")
# bytes: a size below it without a unit gets a note, as it is more likely meant in megabytes
_UNITLESS_BELOW = 1000


class CheckFailed(Exception):
    """A check that the user asked for does not hold: the result is written, the exit code is 1."""


class CommandGroup:
    """A command that has commands of its own, such as ``fabric``; ``command(within=...)`` adds them."""

    def __init__(self, help: str) -> None:
        self.help = help
        self.commands: list[Command] = []


class Command(NamedTuple):
    """A command as it is declared.

    Args:
        name: what it is called, within its group if it has one.
        short_help: its line in the help of that group.
        help, examples: what its own help says above and below the options.
        parts: its options in the order of the help, those of one parameter as a group.
        function: what it does with their values, as keyword arguments.
        public: the public function whose arguments they are, if there is one.
        names: what errors call an argument here, where it is not the option of its row:
            ``{"primitive": "--collective"}`` where that option gives it.
    """

    name: str
    short_help: str
    help: str
    examples: str
    parts: tuple[Option | OptionGroup, ...]
    function: Callable[..., None]
    public: Callable[..., Any] | None
    names: Mapping[str, str]

    @property
    def options(self) -> list[Option]:
        """Every option with its default."""
        all_options: list[Option] = []
        for part in self.parts:
            all_options += part.options if isinstance(part, OptionGroup) else [part]
        of_command = inspect.signature(self.function).parameters
        of_public = inspect.signature(self.public).parameters if self.public else {}
        return [_with_default(option, of_command, of_public) for option in all_options]

    def run(self, values: dict[str, Any]) -> None:
        """Run the command with a value for each option, and write its outputs once it is done."""
        with (
            rename_arguments("shell", **self.names),
            set_audience("shell"),
            deferred_outputs() as outputs,
        ):
            # what colltool.toml states, then the path of standard input for "-"
            values = with_project(self.options, values)
            values = _with_standard_input(self.options, values)
            # before the work: a price of an hour must not end in a refused file
            _check_files_differ(self.options, values, outputs)
            arguments = self._arguments(values)
            try:
                with ProgressLine(self.name) as watch, progress_to(watch):
                    self.function(**arguments)
            except CheckFailed:
                # the result says why the check failed
                outputs.write_all()
                raise
            except ColltoolError as error:
                from colltool.commands.misplaced_keys import misplaced_key

                # a key of the job in --set explains more than what went wrong with it
                raise (misplaced_key(values) or error) from None
            outputs.write_all()
            _note_sizes_without_unit(values)

    def _arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the command's function: its own parameters always, those it passes
        on to the public function only if they have a value."""
        parameters = inspect.signature(self.function).parameters
        arguments = {}
        for part in self.parts:
            # a group makes one argument of the values of its options
            if isinstance(part, OptionGroup):
                group_values = {option.name: values[option.name] for option in part.options}
                value = part.make(**group_values)
            elif part.prints:
                # such as --schema, which has printed and stopped: no function takes it
                continue
            else:
                value = read_items(values[part.name], part.name, part.row)
            if value is not None or part.name in parameters:
                arguments[part.name] = value
        return arguments


def command(
    parts: Sequence[str | Option | OptionGroup],
    *,
    public: Callable[..., Any] | None = None,
    within: CommandGroup | None = None,
    name: str = "",
    short_help: str = "",
    **names: str,
) -> Callable[[Callable[..., None]], Command]:
    """Decorate a function as a command; its docstring is the help, examples included.

    Args:
        parts: its options: names of ``ARGUMENTS``, options and groups of them.
        public: the public function whose arguments they are: its defaults are theirs, and those that
            the command's function does not name are passed on to it as keywords.
        within, name, short_help: the group that it is in, what it is called there, and its line in
            that one's help.
        **names: what errors call an argument here, where it is not the option of its row.
    """
    options = tuple(option(part) if isinstance(part, str) else part for part in parts)

    def declare(function: Callable[..., None]) -> Command:
        # the last paragraph of the docstring: "Example:" or "Examples:", and a command line each
        help_text, *examples = re.split(r"\n\n(?=Examples?:\n)", inspect.getdoc(function) or "")
        declared = Command(
            name=name or function.__name__.removesuffix("_command"),
            short_help=short_help,
            help=help_text,
            # click does not wrap a paragraph that begins with a backspace alone in its line
            examples="\b\n" + "".join(examples),
            parts=options,
            function=function,
            public=public,
            names=names,
        )
        if within is not None:
            within.commands.append(declared)
        return declared

    return declare


def _with_default(
    option: Option,
    of_command: Mapping[str, inspect.Parameter],
    of_public: Mapping[str, inspect.Parameter],
) -> Option:
    """The option with its default.

    An option that states one keeps it. Otherwise it is that of the parameter of the command's
    function, else that of the public function; if neither has one, the option is required.
    """
    if option.default is not BY_FUNCTION:
        return option
    candidates = [
        parameters[option.name]
        for parameters in (of_command, of_public)
        if option.name in parameters
    ]
    assert candidates, f"no function takes {option.name}"
    for parameter in candidates:
        if parameter.default is not inspect.Parameter.empty:
            # an empty list of items is an option that was not given
            return option._replace(default=None if parameter.default == () else parameter.default)
    return option._replace(default=REQUIRED)


def _with_standard_input(options: list[Option], values: dict[str, Any]) -> dict[str, Any]:
    """The values with the path of standard input for each ``-`` that stands for a file to read.

    Raises:
        ColltoolError: more than one ``-``.
    """
    with_paths = dict(values)
    dashes = 0
    for declared in options:
        value = values[declared.name]
        if declared.row.file != "read" or value is None:
            continue
        is_list = isinstance(value, list | tuple)
        several = list(value) if is_list else [value]
        dashes += sum(str(item) == "-" for item in several)
        if dashes > 1:
            raise ColltoolError(
                "standard input, -, is named more than once, and can be read once",
                argument=declared.name,
                fix="write one of them to a file",
            )
        # text or a Path, as the option is
        paths = [type(item)(STANDARD_INPUT) if str(item) == "-" else item for item in several]
        with_paths[declared.name] = paths if is_list else paths[0]
    return with_paths


def _check_files_differ(options: list[Option], values: dict[str, Any], outputs: Outputs) -> None:
    """Refuse, before the work starts, to overwrite an input or to write two results into one file.

    An input that is named within a list or another file is refused when it is opened: ``outputs`` is
    told which files that must not be.
    """
    from colltool.base.files import same_file, same_place

    inputs: list[Path] = []
    written: list[tuple[str, Path]] = []
    for declared in options:
        value = values[declared.name]
        if not declared.row.file or value is None:
            continue
        several = value if isinstance(value, list | tuple) else [value]
        paths = [Path(path) for path in several if str(path) != "-"]
        if declared.row.file == "read":
            inputs += paths
        else:
            written += [(declared.name, path) for path in paths]
    for position, (name, path) in enumerate(written):
        is_second = any(same_place(path, other) for _, other in written[:position])
        refuse_conflict(
            path,
            name,
            is_input=any(same_file(path, other) for other in inputs),
            is_second=is_second,
        )
        outputs.inputs.refuse(path, overwrites_input(path, name))


def _note_sizes_without_unit(values: dict[str, Any]) -> None:
    """Print a note that sizes without a unit are bytes, for ``-M 16`` or ``-M 1,16``, of which
    megabytes are more likely meant.

    Args:
        values: of the options, as typed: ``size`` or ``sizes`` is a text, or None.
    """
    sizes = str(values.get("size") or values.get("sizes") or "")
    unitless = []
    for text in sizes.split(","):
        size = text.strip()
        # nine digits suffice to compare, however long the number is
        if size.isascii() and size.isdecimal() and int(size[:9]) < _UNITLESS_BELOW:
            unitless.append(size)
    if unitless:
        are = f"{','.join(unitless)} {'are' if len(unitless) > 1 else 'is'} bytes"
        say(f"note: -M {are}, as in nccl-tests; write {unitless[0]}MB for megabytes")


def failed(*lines: str) -> NoReturn:
    """Print lines on stderr and end the command with the exit code of a failed check."""
    if lines:
        say(*lines)
    raise CheckFailed


def each_checked(
    files: Iterable[str],
    check: Callable[[str], Checked],
    result: Callable[[tuple[Checked, ...]], Any],
) -> Any:
    """Check each file, and return the result that ``result`` makes of all checks.

    Args:
        check: reads a file and returns what was found, or raises ColltoolError.

    Raises:
        ManyErrors: the mistakes of all files at once; valid files are listed on stderr.
    """
    checks: list[Checked] = []
    problems: list[ColltoolError] = []
    for file in files:
        try:
            checks.append(check(file))
        except ColltoolError as error:
            problems += problems_of(error)
    if not problems:
        return result(tuple(checks))
    # on an error stdout stays empty; stderr shows the valid files, to save a second call
    if checks:
        from colltool.render.dispatch import rendered

        say(*rendered(result(tuple(checks)), "table").splitlines())
    raise ManyErrors(problems)
