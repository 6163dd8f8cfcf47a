"""The decorator that makes a command of a function: its groups of options spread out, its outputs
kept off what is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

import typer

from colltool.base.errors import (
    EXIT_CHECK_FAILED,
    ColltoolError,
    ManyErrors,
    called,
    problems_of,
    speaking,
)
from colltool.base.errors import given as mark
from colltool.base.result import watched
from colltool.commands import options as o
from colltool.commands.output import Counting, Outputs, is_read, kept, refuse, say

Checked = TypeVar("Checked")
# bytes: who means so few types them as nccl-tests does, who means megabytes forgot the unit
_BARE_BELOW = 1000


def group_app(help: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(
        help=help,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )


def command(
    app: typer.Typer | None = None, name: str = "", short_help: str = "", **names: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command from a function that asks for groups of options.

    Args:
        app, name, short_help: the command that it is a part of, what it is called there, and its
            line in that one's help.
        **names: what errors call an argument here, where it is not the option of its row.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        asked = inspect.signature(function, eval_str=True).parameters
        parts = {name: o.expanded(parameter) for name, parameter in asked.items()}
        signature = inspect.Signature([part for several in parts.values() for part in several])
        help_, *examples = re.split(r"\n\n(?=Examples?:\n)", inspect.getdoc(function) or "")

        @wraps(function)
        def run(**given: Any) -> None:
            with called("shell", **names), speaking("shell"), kept() as outputs:
                _keep_apart(signature, given, outputs)
                arguments = {name: o.taken(asked[name], parts[name], given) for name in asked}
                try:
                    with (
                        Counting(name or function.__name__.removesuffix("_command")) as watch,
                        watched(watch),
                    ):
                        function(**arguments)
                except (
                    typer.Exit
                ):  # a check that did not hold: what it found is written all the same
                    outputs.leave()
                    raise
                except ColltoolError as error:
                    raise (_misplaced(given) or error) from None
                outputs.leave()
                sizes = [part.strip() for part in str(given.get("size") or "").split(",")]
                bare = [
                    one
                    for one in sizes
                    if one.isascii() and one.isdecimal() and int(one[:9]) < _BARE_BELOW
                ]
                if bare:
                    are = f"{','.join(bare)} {'are' if len(bare) > 1 else 'is'} bytes"
                    say(f"note: -M {are}, as in nccl-tests; write {bare[0]}MB for megabytes")

        run.__doc__ = help_
        run.examples = "\b\n" + "".join(examples)  # type: ignore[attr-defined]  # stand below the options
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {part.name: part.annotation for part in signature.parameters.values()}
        if app is not None:
            app.command(name, epilog=run.examples, short_help=short_help)(run)  # type: ignore[attr-defined]
        return run

    return decorate


def _keep_apart(signature: inspect.Signature, given: dict[str, Any], outputs: Outputs) -> None:
    """Refuse before the work starts to write over a file that is read, or two results into one.

    What is read by a name within a list or another file is refused when it would be opened.
    """
    from colltool.base.files import same_file, same_place

    read: list[Path] = []
    written: list[tuple[str, Path]] = []
    for name, parameter in signature.parameters.items():
        if marks := {o.READ, o.WRITTEN}.intersection(o.capabilities_of(parameter)[1]):
            several = given[name] if isinstance(given[name], list | tuple) else [given[name]]
            paths = [Path(one) for one in several if one is not None and str(one) != "-"]
            read += paths if o.READ in marks else []
            written += [(name, path) for path in paths] if o.WRITTEN in marks else []
    for index, (name, path) in enumerate(written):
        again = any(same_place(path, other) for _, other in written[:index])
        refuse(path, name, read=any(same_file(path, one) for one in read), again=again)
        outputs.inputs.close(path, is_read(path, name))


def _misplaced(given: dict[str, Any]) -> ColltoolError | None:
    """What is wrong with ``--set`` and ``--job-set``, where one of them has a key of the
    other's."""
    if not given.get("fabric"):
        return None
    from colltool.fabric.load import load_fabric
    from colltool.fabric.model import Fabric
    from colltool.training.files.job import JobFile

    for text in given.get("set_") or ():
        head, dot, rest = text.partition("=")[0].strip().partition(".")
        kind = (
            JobFile.model_fields[head].annotation if dot and head in JobFile.model_fields else None
        )
        fields = [
            one
            for part in (kind, *get_args(kind))
            for one in getattr(part, "model_fields", {}).items()
        ]
        if rest.partition(".")[0] in {field.alias or name for name, field in fields}:
            takes = "write" if "job_set" in given else "colltool plan and report take"
            fix = f"{takes} {mark('job_overrides', [text])}"
            return ColltoolError(
                f"{head} is of the job, not of the fabric", argument="overrides", fix=fix
            )
    for text in given.get("job_set") or ():
        head = text.partition("=")[0].strip().partition(".")[0]
        if head in JobFile.model_fields:
            continue
        with suppress(ColltoolError):
            tiers = {tier.name for name in given["fabric"] for tier in load_fabric(name).tiers}
            if head in tiers or head in Fabric.model_fields:
                what = f"{head} is of the fabric, not of the job"
                return ColltoolError(
                    what, argument="job_overrides", fix=f"write {mark('overrides', [text])}"
                )
    return None


def failed(*lines: str) -> NoReturn:
    """End with the exit code of a check that does not hold, and say why."""
    for line in lines:
        typer.echo(line, err=True)
    raise typer.Exit(EXIT_CHECK_FAILED)


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
    if problems:
        # on an error stdout stays empty, and nobody should have to ask again for the files that
        # hold
        if checks:
            from colltool.render.dispatch import rendered

            say(*rendered(result(tuple(checks)), "table").splitlines())
        raise ManyErrors(problems)
    return result(tuple(checks))
