"""Words that a shell completes options and arguments with.

``complete_NAME`` is the completion of arguments whose row ``offers`` NAME
(:func:`completion_of`). It takes what is typed so far of a word and returns every word that this may
become; one that depends on the words before it also takes typer's context: its ``params`` are the
options read, its ``args`` the words that none took. A line that cannot be read has no completions,
and no errors.

Bash breaks words at ``:`` and ``=``. :func:`join_bash_words` puts them together again before they
are read, and completions then leave out what stands before the last break, as bash expects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from colltool.base.errors import ColltoolError
from colltool.commands.arguments import Argument

if TYPE_CHECKING:
    from colltool.base.primitives import Primitive
    from colltool.fabric.model import Fabric

# keys of a fabric that completion leaves out of --set
NOT_OVERRIDDEN = ("schema", "name", "description", "notes", "source", "topology")
# the same of a job
_NOT_OVERRIDDEN_OF_JOBS = ("schema", "name", "description", "notes", "source")
# what NAME: takes besides the keys of the fabric
FABRIC_SETTINGS = ("nodes=", "racks=", "per-rack=")

# operations, in library files, of the libraries that an option takes
_ENGINES = ("all_reduce",)
_EXPERTS = ("dispatch", "combine")
_KV = ("kv_transfer",)


def join_bash_words() -> None:
    """Join the words that bash broke at ``:`` and ``=``, in the environment that typer reads.

    ``-f nvl72:nodes=1`` comes as ``-f``, ``nvl72``, ``:``, ``nodes``, ``=``, ``1`` and leaves as ``-f``,
    ``nvl72:nodes=1``, of which bash expects only what follows ``nvl72:nodes=``. COMP_CWORD is the
    number of the word that is completed.
    """
    # bash's function separates them by line feeds
    words = re.split(r"[ \n]", os.environ.get("COMP_WORDS", ""))
    # the number of the word that is completed, among the words and, below, among the joined ones
    completed = int(os.environ.get("COMP_CWORD") or 0)
    joined: list[str] = []
    completed_in_joined = 0
    # what bash has already of the word that is completed: it is not to be printed again
    prefix = ""
    follows_break = False
    for number, word in enumerate(words):
        is_break = bool(word) and not word.strip(":=")
        # what follows a break belongs to the same word, but not an option's value after "="
        if (follows_break or is_break) and joined and not joined[-1].startswith("--"):
            if number == completed:
                prefix = joined[-1] + (word if is_break else "")
            joined[-1] += word
        else:
            joined.append(word)
        follows_break = is_break
        if number == completed:
            completed_in_joined = len(joined) - 1
    if prefix:
        os.environ |= {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(completed_in_joined)}
        _print_without(prefix)


def _print_without(prefix: str) -> None:
    """Have typer print completions without their prefix."""
    from typer._completion_classes import BashComplete

    def format_completion(_shell: Any, item: Any) -> str:
        return str(item.value).removeprefix(prefix)

    BashComplete.format_completion = format_completion  # type: ignore[assignment, method-assign]


def completion_of(row: Argument) -> Callable[..., list[str]] | None:
    """The completion of an argument: the function that its row names, or its words; None where it
    has neither."""
    if row.offers:
        completer: Callable[..., list[str]] = globals()[f"complete_{row.offers}"]
        return completer
    if row.words:
        return words(row.words)
    return None


def words(known: Iterable[str]) -> Callable[[str], list[str]]:
    """The completion of an argument that is one of several words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def complete_document(incomplete: str) -> list[str]:
    """Names of JSON documents, and kinds of files."""
    from colltool.render.schemas import FILE_KINDS, documents

    return words([*documents(), *FILE_KINDS])(incomplete)


def complete_fabric(incomplete: str) -> list[str]:
    """Names of shipped fabrics; after ``NAME:`` its number of nodes and its keys."""
    from colltool.fabric.shipped import shipped_fabrics

    name, colon, settings = incomplete.partition(":")
    if not colon:
        return words(shipped_fabrics())(incomplete)
    # racks=4,ib.al: only the last setting is incomplete
    earlier, comma, setting = settings.rpartition(",")
    keys = _fabric_keys(name)
    # values are not completed
    if not keys or "=" in setting:
        return []
    return [f"{name}:{earlier}{comma}{key}" for key in words([*FABRIC_SETTINGS, *keys])(setting)]


def complete_job(incomplete: str) -> list[str]:
    """Names of shipped jobs, and of models, of which a job is made."""
    return words(dict.fromkeys([*_shipped("jobs"), *_shipped("models")]))(incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Names of shipped models."""
    return words(_shipped("models"))(incomplete)


def _shipped(kind: str) -> tuple[str, ...]:
    """Names of shipped jobs or models; the modules that read them take long to import."""
    import colltool.training
    from colltool.fabric.shipped import stems_in

    return stems_in(Path(colltool.training.__path__[0], "data", kind))


def complete_library(incomplete: str) -> list[str]:
    """Names of libraries with kernels, and with a version once the name is typed."""
    return _versioned(incomplete, ())


def complete_runner(incomplete: str) -> list[str]:
    """What ``--library`` takes: libraries of algorithms, and libraries with kernels."""
    from colltool.algorithms.libraries import LIBRARIES

    of_algorithms = words(LIBRARIES)(incomplete)
    return list(dict.fromkeys([*of_algorithms, *_versioned(incomplete, (*_ENGINES, *_EXPERTS))]))


def complete_engine(incomplete: str) -> list[str]:
    """Inference engines, and their versions once the name is typed."""
    return _versioned(incomplete, _ENGINES)


def complete_experts_library(incomplete: str) -> list[str]:
    """Libraries that dispatch and combine, and NCCL."""
    return [*words(["nccl"])(incomplete), *_versioned(incomplete, _EXPERTS)]


def complete_kv_library(incomplete: str) -> list[str]:
    """Libraries that move KV caches."""
    return _versioned(incomplete, _KV)


def complete_weights(incomplete: str) -> list[str]:
    """Formats of weights."""
    from colltool.serving.quantization import FORMATS

    return words(FORMATS)(incomplete)


def complete_job_set(incomplete: str) -> list[str]:
    """Keys of a job."""
    from colltool.training.files.job import JobFile

    return words([f"{key}=" for key in _job_keys(JobFile, "")])(incomplete)


def _versioned(incomplete: str, operations: tuple[str, ...]) -> list[str]:
    """``NAME`` of each library that has kernels for one of the operations (any operation if none are
    given); where only one library is left, ``NAME`` and each ``NAME@VERSION``."""
    from colltool.engines.shipped import shipped_file, shipped_libraries

    # only the files of libraries whose names fit are read
    fitting = [pair for pair in shipped_libraries() if incomplete.startswith(pair[0])]
    if "@" not in incomplete and not fitting:
        fitting = [pair for pair in shipped_libraries() if pair[0].startswith(incomplete)]
    known: list[str] = []
    for library_name, file_version in fitting:
        file = shipped_file(library_name, file_version)
        present = {kernel["operation"] for kernel in file.get("kernels", [])}
        if operations and present.isdisjoint(operations):
            continue
        known.append(library_name)
        # as in LibraryFile, a file may hold several versions
        versions = file.get("measured", [file_version])
        known += [f"{library_name}@{version}" for version in versions]
    matching = words(dict.fromkeys(known))(incomplete)
    names = [word for word in matching if "@" not in word]
    return names if len(names) > 1 else matching


def _job_keys(model: Any, path: str) -> Iterator[str]:
    """Key paths of a pydantic model of job files: ``layout.tp``.

    A section's own key comes before its keys where a value may stand in its place: ``model``, by
    name or written out.
    """
    for field_name, field in model.model_fields.items():
        key = field.alias or field_name
        if key in _NOT_OVERRIDDEN_OF_JOBS:
            continue
        types = list(_types_in(field.annotation))
        sections = [type_ for type_ in types if hasattr(type_, "model_fields")]
        # one type besides the sections is the None of a section that may be left out
        if not sections or len(types) > len(sections) + 1:
            yield f"{path}{key}"
        # a section within a section is deep enough for a command line
        if path.count(".") < 2:
            for section in sections:
                yield from _job_keys(section, f"{path}{key}.")


def _types_in(annotation: Any) -> Iterator[Any]:
    """The type of an annotation, or of a union or generic each type within."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for argument in inner:
        # not the values of a Literal, nor the hints of Annotated
        if isinstance(argument, type) or get_args(argument):
            yield from _types_in(argument)


def complete_keep(incomplete: str) -> list[str]:
    """``KEY=`` of what a search can keep, and ``KEY=WORD`` where the values are words."""
    from colltool.training.layout_constraints import CONSTRAINT_NAMES, CONSTRAINT_WORDS

    known = []
    for name in CONSTRAINT_NAMES:
        known += [f"{name}={word}" for word in CONSTRAINT_WORDS.get(name, ("",))]
    return words(known)(incomplete)


def complete_primitive(incomplete: str) -> list[str]:
    """Short and long names of primitives."""
    from colltool.base.primitives import SHORT

    known = [*SHORT.values(), *(primitive.label for primitive in SHORT)]
    return words(dict.fromkeys(known))(incomplete)


def complete_test(incomplete: str) -> list[str]:
    """nccl-tests' names of tests."""
    from colltool.base.primitives import NCCL_TESTS

    known = ["all"]
    for program in NCCL_TESTS.values():
        known.append(program.removesuffix("_perf"))
    return words(known)(incomplete)


def complete_algorithm(ctx: Any, incomplete: str) -> list[str]:
    """The last name of a list of algorithms and compositions, after the ones before it; of the
    collective that was typed, if any."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import all_algorithms
    from colltool.libraries.nccl.names import algorithms_named

    primitive = _typed_primitive(ctx)
    known = []
    rows: list[Any] = [*all_algorithms(), *every_composition()]
    for row in rows:
        if primitive is None or row.primitive is primitive:
            known.append(row.name)
    earlier, comma, name = incomplete.rpartition(",")
    # NCCL's names are taken in any case: in small letters for those who type small letters
    for nccl_name in algorithms_named(primitive):
        known.append(nccl_name.lower() if name.islower() else nccl_name)
    return [f"{earlier}{comma}{match}" for match in words(dict.fromkeys(known))(name)]


def _typed_primitive(ctx: Any) -> Primitive | None:
    """The collective on the command line; None if there is none, or none that is known.

    While an option lacks its value typer has not assigned the arguments: they are in ``ctx.args``.
    """
    from colltool.base.primitives import parse_primitive

    for word in (ctx.params.get("primitive"), *ctx.args):
        with suppress(ColltoolError):
            if word:
                return parse_primitive(str(word))
    return None


def complete_ranks(ctx: Any, incomplete: str) -> list[str]:
    """Numbers of ranks that fill whole domains of the fabric, where one was typed; else powers of 2."""
    sizes = [2**power for power in range(1, 10)]
    fabric = _typed_fabric(ctx)
    if fabric is not None:
        from colltool.estimate.placement import whole_groups

        sizes = whole_groups(fabric, _typed_count(ctx, "stride", default=1))
    return words(map(str, sizes))(incomplete) or _unknown(incomplete, "N")


def _unknown(incomplete: str, metavar: str) -> list[str]:
    """What is typed, or the name of a value: with no completion at all a shell would offer names of
    files."""
    return [incomplete or metavar]


def complete_stride(ctx: Any, incomplete: str) -> list[str]:
    """Strides that fit the fabric and the ranks, where they were typed; else sizes of nodes."""
    strides = [2, 4, 8, 16, 72]
    fabric = _typed_fabric(ctx)
    if fabric is not None:
        from colltool.estimate.placement import every_stride

        ranks = _typed_count(ctx, "ranks", default=2)
        strides = [stride for stride in every_stride(fabric, ranks) if stride > 1]
    return words(map(str, strides))(incomplete) or _unknown(incomplete, "K")


def complete_set(ctx: Any, incomplete: str) -> list[str]:
    """Keys of the fabric, where one was typed."""
    typed = _typed_name(ctx)
    keys = _fabric_keys(typed) if typed else []
    return words(keys)(incomplete) or _unknown(incomplete, "KEY=VALUE")


def _fabric_keys(typed: str) -> list[str]:
    """``KEY=`` of every value of a fabric as typed; empty if it does not load.

    Those of a shipped one are kept in the cache: reading a fabric takes longer than a shell waits.
    """
    from colltool.base.cache import keep, recall
    from colltool.fabric.shipped import SUFFIX, shipped_fabrics, shipped_folder

    name = typed.partition(":")[0].removesuffix(SUFFIX)
    if name not in shipped_fabrics():
        return _read_fabric_keys(typed)
    text = (shipped_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    entry = f"keys-{name}"
    # recalled only for the same text; whatever else the cache may hold is not used
    cached = recall(entry, text)
    if isinstance(cached, list) and all(isinstance(key, str) for key in cached):
        return cached
    keys = _read_fabric_keys(name)
    keep(entry, text, keys)
    return keys


def _read_fabric_keys(typed: str) -> list[str]:
    """``KEY=`` of every value of a fabric; empty if it does not load."""
    fabric = _load_or_none(typed)
    if fabric is None:
        return []
    values = fabric.model_dump(by_alias=True, exclude_none=True)
    return [f"{key}=" for key in _key_paths(values, "")]


def _load_or_none(typed: str) -> Fabric | None:
    """A fabric as typed; None if it does not load."""
    from colltool.fabric.load import load_fabric

    try:
        return load_fabric(typed)
    except ColltoolError:
        return None


def _typed_count(ctx: Any, name: str, default: int) -> int:
    """The positive number that an option was given, else the default."""
    value = ctx.params.get(name)
    return value if isinstance(value, int) and value > 0 else default


def _typed_name(ctx: Any) -> str:
    """The fabric on the command line as typed, of several the first; empty if there is none."""
    typed = ctx.params.get("fabric") or ""
    return typed if isinstance(typed, str) else str(typed[0])


def _typed_fabric(ctx: Any) -> Fabric | None:
    """The fabric on the command line; None if there is none or it does not load."""
    typed = _typed_name(ctx)
    return _load_or_none(typed) if typed else None


def _key_paths(value: Any, path: str) -> Iterator[str]:
    """Key paths of a fabric's values as ``--set`` takes them, below ``path``: tiers and levels are
    named, ``ib.levels.spine.alpha``, and the key ``tiers`` itself is left out."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in NOT_OVERRIDDEN:
                starts_path = not path or key == "tiers"
                yield from _key_paths(item, key if starts_path else f"{path}.{key}")
    elif _has_names(value):
        for item in value:
            name = item["name"]
            yield from _key_paths(item, name if path == "tiers" else f"{path}.{name}")
    else:
        yield path


def _has_names(value: Any) -> bool:
    """Whether a value is a non-empty list of sections with names, such as tiers."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, dict) and "name" in item for item in value)
