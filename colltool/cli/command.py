"""The decorator that makes a command of a function: its groups of options spread out, its outputs kept off what is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer

from colltool.base.errors import ColltoolError, ManyErrors, called, speaking
from colltool.base.errors import given as mark
from colltool.base.result import watched
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.groups import capabilities_of, expanded, taken
from colltool.cli.output import Counting, kept, read_here, say, written_twice

FABRIC_SUFFIXES = (".yaml", ".yml")

Checked = TypeVar("Checked")


def group_app(help: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(
        help=help, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True, add_completion=False,
        rich_markup_mode=None,
    )  # fmt: skip


def command(**names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command from a function that asks for groups of options.

    Args:
        **names: what errors call an argument here, where it is not the option that :mod:`colltool.base.errors` knows.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        asked = inspect.signature(function, eval_str=True).parameters
        parts = {name: list(expanded(parameter)) for name, parameter in asked.items()}
        signature = inspect.Signature([part for several in parts.values() for part in several])

        @wraps(function)
        def run(**given: Any) -> None:
            with called("shell", **names), speaking("shell"), kept() as outputs:
                _keep_apart(signature, given)
                arguments = {name: taken(asked[name], parts[name], given) for name in asked}
                try:
                    with Counting(function.__name__.strip("_")) as watch, watched(watch):
                        function(**arguments)
                except typer.Exit:  # a check that did not hold: what it found is written all the same
                    outputs.leave()
                    raise
                except ColltoolError as error:
                    raise (_misplaced(given) or error) from None
                outputs.leave()
                _say_bytes(given.get("size"))

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {part.name: part.annotation for part in signature.parameters.values()}
        return run

    return decorate


def _keep_apart(signature: inspect.Signature, given: dict[str, Any]) -> None:
    """Refuse before the work starts to write over a file that is read, or two results into one.

    :meth:`Outputs.leave` knows of all that was read, also by the names within a list or another file.
    """
    from colltool.base.files import same_file, same_place

    marked = {name: capabilities_of(parameter)[1] for name, parameter in signature.parameters.items()}
    read = [path for name, marks in marked.items() if o.READ in marks for path in _paths(given[name])]
    written = [(name, path) for name, marks in marked.items() if o.WRITTEN in marks for path in _paths(given[name])]
    for index, (name, path) in enumerate(written):
        if any(same_file(path, one) for one in read):
            raise read_here(path, name)
        if any(same_place(path, other) for _, other in written[:index]):
            raise written_twice(path, name)


def _misplaced(given: dict[str, Any]) -> ColltoolError | None:
    """What is wrong with ``--set`` and ``--job-set``, where one of them has a key of the other's."""
    if not given.get("fabric"):
        return None
    from colltool.fabric.load import load_fabric
    from colltool.fabric.model import Fabric
    from colltool.training.files.job import JobFile

    for text in given.get("set_") or ():
        head, dot, rest = text.partition("=")[0].strip().partition(".")
        kind = JobFile.model_fields[head].annotation if dot and head in JobFile.model_fields else None
        fields = [one for part in (kind, *get_args(kind)) for one in getattr(part, "model_fields", {}).items()]
        if rest.partition(".")[0] in {field.alias or name for name, field in fields}:
            takes = "write" if "job_set" in given else "colltool plan and report take"
            fix = f"{takes} {mark('job_overrides', [text])}"
            return ColltoolError(f"{head} is of the job, not of the fabric", argument="overrides", fix=fix)
    for text in given.get("job_set") or ():
        head = text.partition("=")[0].strip().partition(".")[0]
        if head in JobFile.model_fields:
            continue
        with suppress(ColltoolError):
            tiers = {tier.name for name in given["fabric"] for tier in load_fabric(name).tiers}
            if head in tiers or head in Fabric.model_fields:
                what = f"{head} is of the fabric, not of the job"
                return ColltoolError(what, argument="job_overrides", fix=f"write {mark('overrides', [text])}")
    return None


def _say_bytes(size: Any) -> None:
    """Say of small sizes without a unit that they are bytes, as in nccl-tests: somebody may have meant megabytes."""
    bare = values.bare_sizes(size) if isinstance(size, str) else []
    if bare:
        several = len(bare) > 1
        say(f"note: -M {','.join(bare)} {'are' if several else 'is'} bytes, as in nccl-tests; write {bare[0]}MB for megabytes")


def _paths(value: Any) -> list[Path]:
    several = value if isinstance(value, list | tuple) else [value]
    return [Path(one) for one in several if one is not None and str(one) != "-"]


def each_checked(files: Iterable[str], check: Callable[[str], Checked], result: Callable[[tuple[Checked, ...]], Any]) -> Any:
    """What a check makes of each file, as a result; where one does not hold, what was found of the others goes to stderr.

    Raises:
        ManyErrors: the mistakes of all files at once.
    """
    checks: list[Checked] = []
    problems: list[ColltoolError] = []
    for file in files:
        try:
            checks.append(check(file))
        except ManyErrors as error:
            problems += error.problems
        except ColltoolError as error:
            problems.append(error)
    if problems:
        _say_of_the_others(result(tuple(checks)) if checks else None)
        raise ManyErrors(problems)
    return result(tuple(checks))


def _say_of_the_others(result: Any) -> None:
    """On an error stdout stays empty, and nobody should have to ask again for the files that hold."""
    if result is not None:
        from colltool.render.dispatch import rendered

        say(*rendered(result, "table").splitlines())
