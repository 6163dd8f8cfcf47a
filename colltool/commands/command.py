"""A command: the options that it has, the public function that they are arguments of, and what it
does with the answer.

Nothing here knows typer: a program that imports a public function does not load it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar, get_args

from colltool.base.errors import (
    ColltoolError,
    ManyErrors,
    argument_text,
    problems_of,
    rename_arguments,
    set_audience,
)
from colltool.base.result import progress_to
from colltool.commands.option_text import read_items
from colltool.commands.options import BY_FUNCTION, REQUIRED, Option, OptionGroup, option
from colltool.commands.output import Counting, Outputs, is_read, kept, refuse, say

Checked = TypeVar("Checked")
# bytes: who means so few types them as nccl-tests does, who means megabytes forgot the unit
_BARE_BELOW = 1000


class CheckFailed(Exception):
    """A check of the user's does not hold: what was found is written, and the exit code is 1."""


class CommandGroup:
    """A command that has commands of its own."""

    def __init__(self, help: str) -> None:
        self.help = help
        self.commands: list[Command] = []


class Command(NamedTuple):
    """A command as it is declared.

    Args:
        name: what it is called, within its group if it has one.
        short_help: its line in the help of that group.
        help, examples: what its own help says above and below the options.
        parts: its options in the order of the help.
        function: what it does with their values.
        public: the public function whose arguments they are, if there is one.
        names: what errors call an argument here, where it is not the option of its row.
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
        found: list[Option] = []
        for part in self.parts:
            found += part.options if isinstance(part, OptionGroup) else [part]
        own = inspect.signature(self.function).parameters
        public = inspect.signature(self.public).parameters if self.public else {}
        return [_with_default(option, own, public) for option in found]

    def run(self, values: dict[str, Any]) -> None:
        """Run it with a value for each option, and write what it printed once it is done."""
        with rename_arguments("shell", **self.names), set_audience("shell"), kept() as outputs:
            # before the work: a price of an hour must not end in a refused file
            _keep_apart(self.options, values, outputs)
            arguments = self._arguments(values)
            try:
                with Counting(self.name) as watch, progress_to(watch):
                    self.function(**arguments)
            except CheckFailed:
                # what was found is what somebody looks at now
                outputs.leave()
                raise
            except ColltoolError as error:
                # an unknown key of --set is told where it belongs
                raise (_misplaced(values) or error) from None
            outputs.leave()
            _note_bare_sizes(values)

    def _arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values of the function's own parameters, and of those of the public function that were
        given."""
        own = inspect.signature(self.function).parameters
        found = {}
        for part in self.parts:
            if isinstance(part, OptionGroup):
                given_to = {option.name: values[option.name] for option in part.options}
                found[part.name] = part.make(**given_to)
            elif not part.prints:
                # --schema has printed and stopped, and no function takes it
                value = read_items(values[part.name], part.name, part.row)
                if value is not None or part.name in own:
                    found[part.name] = value
        return found


def command(
    parts: Sequence[str | Option | OptionGroup],
    *,
    of: Callable[..., Any] | None = None,
    within: CommandGroup | None = None,
    name: str = "",
    short_help: str = "",
    **names: str,
) -> Callable[[Callable[..., None]], Command]:
    """Declare a command of a function that takes the values of its options.

    Args:
        parts: its options: rows of the table by name, options and groups of them.
        of: the public function whose arguments they are: its defaults are theirs, and those that
            the command's function does not name are passed on to it as keywords.
        within, name, short_help: the group that it is in, what it is called there, and its line in
            that one's help.
        **names: what errors call an argument here, where it is not the option of its row.
    """
    options = tuple(option(part) if isinstance(part, str) else part for part in parts)

    def declare(function: Callable[..., None]) -> Command:
        help_, *examples = re.split(r"\n\n(?=Examples?:\n)", inspect.getdoc(function) or "")
        made = Command(
            name=name or function.__name__.removesuffix("_command"),
            short_help=short_help,
            help=help_,
            # a paragraph after a backspace is not wrapped
            examples="\b\n" + "".join(examples),
            parts=options,
            function=function,
            public=of,
            names=names,
        )
        if within is not None:
            within.commands.append(made)
        return made

    return declare


def _with_default(
    option: Option,
    own: Mapping[str, inspect.Parameter],
    public: Mapping[str, inspect.Parameter],
) -> Option:
    """The option with the default of the parameter that it gives; required where that has none."""
    if option.default is not BY_FUNCTION:
        return option
    # a command's own default wins: it may differ from the public function's
    known = [parameters[option.name] for parameters in (own, public) if option.name in parameters]
    assert known, f"no function takes {option.name}"
    for parameter in known:
        if parameter.default is not inspect.Parameter.empty:
            # no item of several is no option
            return option._replace(default=None if parameter.default == () else parameter.default)
    return option._replace(default=REQUIRED)


def _keep_apart(options: list[Option], values: dict[str, Any], outputs: Outputs) -> None:
    """Refuse before the work starts to write over a file that is read, or two results into one.

    What is read by a name within a list or another file is refused when it would be opened.
    """
    from colltool.base.files import same_file, same_place

    read: list[Path] = []
    written: list[tuple[str, Path]] = []
    for known in options:
        value = values[known.name]
        if not known.row.file or value is None:
            continue
        several = value if isinstance(value, list | tuple) else [value]
        paths = [Path(path) for path in several if str(path) != "-"]
        if known.row.file == "read":
            read += paths
        else:
            written += [(known.name, path) for path in paths]
    for index, (name, path) in enumerate(written):
        again = any(same_place(path, other) for _, other in written[:index])
        refuse(path, name, read=any(same_file(path, other) for other in read), again=again)
        outputs.inputs.close(path, is_read(path, name))


def _misplaced(values: dict[str, Any]) -> ColltoolError | None:
    """What is wrong with ``--set`` and ``--job-set``, where one of them has a key of the other's."""
    if not isinstance(values.get("fabric"), list):
        return None
    return _job_key_in_set(values) or _fabric_key_in_job_set(values)


def _job_key_in_set(values: dict[str, Any]) -> ColltoolError | None:
    from colltool.training.files.job import JobFile

    for text in values.get("overrides") or ():
        section, dot, rest = text.partition("=")[0].strip().partition(".")
        if not dot or section not in JobFile.model_fields:
            continue
        kind = JobFile.model_fields[section].annotation
        # a section may be one of several models, or None
        keys = set()
        for part in (kind, *get_args(kind)):
            for name, field in getattr(part, "model_fields", {}).items():
                keys.add(field.alias or name)
        if rest.partition(".")[0] in keys:
            takes = "write" if "job_overrides" in values else "colltool plan and report take"
            fix = f"{takes} {argument_text('job_overrides', [text])}"
            return ColltoolError(
                f"{section} is of the job, not of the fabric", argument="overrides", fix=fix
            )
    return None


def _fabric_key_in_job_set(values: dict[str, Any]) -> ColltoolError | None:
    from colltool.fabric.load import load_fabric
    from colltool.fabric.model import Fabric
    from colltool.training.files.job import JobFile

    for text in values.get("job_overrides") or ():
        section = text.partition("=")[0].strip().partition(".")[0]
        if section in JobFile.model_fields:
            continue
        with suppress(ColltoolError):
            tiers: set[str] = set()
            for name in values["fabric"]:
                tiers.update(tier.name for tier in load_fabric(name).tiers)
            if section in tiers or section in Fabric.model_fields:
                what = f"{section} is of the fabric, not of the job"
                fix = f"write {argument_text('overrides', [text])}"
                return ColltoolError(what, argument="job_overrides", fix=fix)
    return None


def _note_bare_sizes(values: dict[str, Any]) -> None:
    """Say that sizes without a unit are bytes, where they are so small that megabytes may be
    meant."""
    typed = str(values.get("size") or values.get("sizes") or "")
    bare = []
    for text in typed.split(","):
        size = text.strip()
        # nine digits tell a size from a small one, whatever its length
        if size.isascii() and size.isdecimal() and int(size[:9]) < _BARE_BELOW:
            bare.append(size)
    if bare:
        are = f"{','.join(bare)} {'are' if len(bare) > 1 else 'is'} bytes"
        say(f"note: -M {are}, as in nccl-tests; write {bare[0]}MB for megabytes")


def failed(*lines: str) -> NoReturn:
    """End with the exit code of a check that does not hold, and say why."""
    if lines:
        say(*lines)
    raise CheckFailed


def each_checked(
    files: Iterable[str],
    check: Callable[[str], Checked],
    result: Callable[[tuple[Checked, ...]], Any],
) -> Any:
    """What a check makes of each file, as a result; where one does not hold, what was found of the
    others goes to stderr.

    Raises:
        ManyErrors: the mistakes of all files at once.
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
    # on an error stdout stays empty, and nobody should have to ask again for the files that hold
    if checks:
        from colltool.render.dispatch import rendered

        say(*rendered(result(tuple(checks)), "table").splitlines())
    raise ManyErrors(problems)
