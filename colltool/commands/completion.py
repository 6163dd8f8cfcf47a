"""Words that a shell completes options and arguments with.

A completion takes what is typed so far of a word; one that depends on the words before it also
takes typer's context: its ``params`` are the options read, its ``args`` the words that none took.

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

NOT_OVERRIDDEN = ("schema", "name", "description", "notes", "source", "topology")
"""Keys of a fabric that completion does not offer for ``--set``."""

FABRIC_SETTINGS = ("nodes=", "racks=", "per-rack=")
"""What ``NAME:`` takes beside the keys of the fabric."""

# operations of the libraries that an option takes
_ENGINES = ("all_reduce",)
_EXPERTS = ("dispatch", "combine")
_KV = ("kv_transfer",)


def join_bash_words() -> None:
    """Join the words that bash broke at ``:`` and ``=``, in the environment that typer reads.

    ``-f nvl72:nodes=1`` comes as ``-f``, ``nvl72``, ``:``, ``nodes``, ``=``, ``1`` and leaves as ``-f``,
    ``nvl72:nodes=1``, of which bash expects only what follows ``nvl72:nodes=``.
    """
    # bash's function separates them by line feeds
    words = re.split(r"[ \n]", os.environ.get("COMP_WORDS", ""))
    current = int(os.environ.get("COMP_CWORD") or 0)
    joined: list[str] = []
    position = 0
    before = ""
    glue = False
    for number, word in enumerate(words):
        breaks = bool(word) and not word.strip(":=")
        # what follows a break belongs to the same word, but not an option's value after "="
        if (glue or breaks) and joined and not joined[-1].startswith("--"):
            if number == current:
                before = joined[-1] + (word if breaks else "")
            joined[-1] += word
        else:
            joined.append(word)
        glue = breaks
        if number == current:
            position = len(joined) - 1
    if before:
        os.environ |= {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(position)}
        _leave_out(before)


def _leave_out(before: str) -> None:
    """Have completions printed without what bash holds to be words of their own."""
    from typer._completion_classes import BashComplete

    def after_the_break(_shell: Any, item: Any) -> str:
        return str(item.value).removeprefix(before)

    BashComplete.format_completion = after_the_break  # type: ignore[assignment, method-assign]


def completion_of(row: Argument) -> Callable[..., list[str]] | None:
    """The completion of an argument: its words, or the function that its row names."""
    if row.words and not row.offers:
        return words(row.words)
    if row.offers:
        completer: Callable[..., list[str]] = globals()[f"complete_{row.offers}"]
        return completer
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
    before, comma, last = settings.rpartition(",")
    keys = _fabric_keys(name)
    if not keys or "=" in last:
        return []
    known = [*FABRIC_SETTINGS, *keys]
    typed = f"{name}:{before}{comma}"
    return [f"{typed}{key}" for key in words(known)(last)]


def complete_job(incomplete: str) -> list[str]:
    """Names of shipped jobs, and of models, which are drafted as jobs."""
    return words(dict.fromkeys([*_shipped("jobs"), *_shipped("models")]))(incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Names of shipped models."""
    return words(_shipped("models"))(incomplete)


def _shipped(kind: str) -> tuple[str, ...]:
    """Names of shipped jobs or models, without what reads them."""
    import colltool.training
    from colltool.fabric.shipped import stems_in

    return stems_in(Path(colltool.training.__path__[0], "data", kind))


def complete_library(incomplete: str) -> list[str]:
    """Names of libraries with kernels, and with a version once the name is typed."""
    return _versioned(incomplete, ())


def complete_runner(incomplete: str) -> list[str]:
    """What ``--library`` takes: libraries of algorithms, and libraries with kernels."""
    from colltool.algorithms.libraries import LIBRARIES

    own = words(LIBRARIES)(incomplete)
    return list(dict.fromkeys([*own, *_versioned(incomplete, (*_ENGINES, *_EXPERTS))]))


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
    """``NAME`` of libraries that have kernels for one of the operations, or ``NAME@VERSION`` of one
    that is typed."""
    from colltool.engines.shipped import shipped_file, shipped_libraries

    # only the libraries whose names fit are read
    fitting = [pair for pair in shipped_libraries() if incomplete.startswith(pair[0])]
    if "@" not in incomplete and not fitting:
        fitting = [pair for pair in shipped_libraries() if pair[0].startswith(incomplete)]
    known: list[str] = []
    for library_name, version in fitting:
        file = shipped_file(library_name, version)
        present = {kernel["operation"] for kernel in file.get("kernels", [])}
        if operations and present.isdisjoint(operations):
            continue
        known.append(library_name)
        known += [f"{library_name}@{each}" for each in file.get("measured", [version])]
    matching = words(dict.fromkeys(known))(incomplete)
    named = [word for word in matching if "@" not in word]
    # of several libraries the names are enough
    return named if len(named) > 1 else matching


def _job_keys(part: Any, path: str) -> Iterator[str]:
    """Key paths of a job file, a section's after its own where it may also be a name."""
    for field_name, field in part.model_fields.items():
        key = field.alias or field_name
        if key in ("schema", "name", "description", "notes", "source"):
            continue
        parts = [kind for kind in _kinds(field.annotation) if hasattr(kind, "model_fields")]
        if not parts or len(list(_kinds(field.annotation))) > len(parts) + 1:
            yield f"{path}{key}"
        # a section within a section is deep enough for a command line
        if path.count(".") < 2:
            for inner in parts:
                yield from _job_keys(inner, f"{path}{key}.")


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types of an annotation, of a union each."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for kind in inner:
        if isinstance(kind, type) or get_args(kind):
            yield from _kinds(kind)


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
    """Complete names of algorithms and compositions, of a list its last one. Where a collective was
    typed, only its own."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import all_algorithms

    wanted = _typed_primitive(ctx)
    known = []
    rows: list[Any] = [*all_algorithms(), *every_composition()]
    for row in rows:
        if wanted is None or row.primitive is wanted:
            known.append(row.name)
    before, comma, last = incomplete.rpartition(",")
    matching = words(dict.fromkeys(known))(last)
    # taken in any case: offered in small letters to those who type small letters
    for library_name in _library_names(wanted):
        matching.append(library_name.lower() if last.islower() else library_name)
    return [f"{before}{comma}{name}" for name in words(dict.fromkeys(matching))(last)]


def _library_names(primitive: Primitive | None) -> list[str]:
    """NCCL's own names of the algorithms of a collective."""
    from colltool.libraries.nccl.names import algorithms_named

    return algorithms_named(primitive)


def _typed_primitive(ctx: Any) -> Primitive | None:
    """The collective on the command line, if any.

    While an option lacks its value typer has not assigned the arguments: they are in ``ctx.args``.
    """
    from colltool.base.primitives import parse_primitive

    for word in (ctx.params.get("primitive"), *ctx.args):
        with suppress(ColltoolError):
            if word:
                return parse_primitive(str(word))
    return None


def complete_ranks(ctx: Any, incomplete: str) -> list[str]:
    """Numbers of ranks that fill whole domains of the fabric, where one was typed; never the names
    of files."""
    sizes = [2**power for power in range(1, 10)]
    fabric = _typed_fabric(ctx)
    if fabric is not None:
        from colltool.estimate.placement import whole_groups

        sizes = whole_groups(fabric, _typed_count(ctx, "stride", default=1))
    # with no completion at all a shell would offer names of files
    return words(map(str, sizes))(incomplete) or [incomplete or "N"]


def complete_stride(ctx: Any, incomplete: str) -> list[str]:
    """Strides that fit the fabric and the ranks, where they were typed; else sizes of nodes."""
    strides = [2, 4, 8, 16, 72]
    fabric = _typed_fabric(ctx)
    if fabric is not None:
        from colltool.estimate.placement import every_stride

        ranks = _typed_count(ctx, "ranks", default=2)
        strides = [stride for stride in every_stride(fabric, ranks) if stride > 1]
    return words(map(str, strides))(incomplete) or [incomplete or "K"]


def complete_set(ctx: Any, incomplete: str) -> list[str]:
    """Keys of the fabric, where one was typed."""
    typed = _typed_name(ctx)
    keys = _fabric_keys(typed) if typed else []
    return words(keys)(incomplete) or [incomplete or "KEY=VALUE"]


def _fabric_keys(typed: str) -> list[str]:
    """``KEY=`` of every value of a fabric as typed; empty if it does not load.

    Those of a shipped one are kept in the cache: reading a fabric takes longer than a shell waits.
    """
    from colltool.base.cache import keep, recall
    from colltool.fabric.shipped import SUFFIX, shipped_fabrics, shipped_folder

    name = typed.partition(":")[0].removesuffix(SUFFIX)
    if name not in shipped_fabrics():
        return _read_keys(typed)
    text = (shipped_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    entry = f"keys-{name}"
    kept = recall(entry, text)
    if isinstance(kept, list) and all(isinstance(key, str) for key in kept):
        return kept
    keys = _read_keys(name)
    keep(entry, text, keys)
    return keys


def _read_keys(typed: str) -> list[str]:
    from colltool.fabric.load import load_fabric

    try:
        fabric = load_fabric(typed)
    except ColltoolError:
        return []
    return [f"{key}=" for key in _keys(fabric.model_dump(by_alias=True, exclude_none=True), "")]


def _typed_count(ctx: Any, name: str, default: int) -> int:
    """The positive number that an option was given, else the default."""
    value = ctx.params.get(name)
    return value if isinstance(value, int) and value > 0 else default


def _typed_name(ctx: Any) -> str:
    """The fabric on the command line as typed; empty if there is none."""
    typed = ctx.params.get("fabric") or ""
    return typed if isinstance(typed, str) else str(typed[0])


def _typed_fabric(ctx: Any) -> Fabric | None:
    """The fabric on the command line; None if there is none or it does not load."""
    from colltool.fabric.load import load_fabric

    typed = _typed_name(ctx)
    if not typed:
        return None
    try:
        return load_fabric(typed)
    except ColltoolError:
        return None


def _keys(value: Any, path: str) -> Iterator[str]:
    """Key paths of a fabric's values as ``--set`` takes them: tiers and levels by name."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in NOT_OVERRIDDEN:
                yield from _keys(item, key if not path or key == "tiers" else f"{path}.{key}")
    elif _has_names(value):
        for item in value:
            yield from _keys(item, item["name"] if path == "tiers" else f"{path}.{item['name']}")
    else:
        yield path


def _has_names(value: Any) -> bool:
    """Whether a value is a non-empty list of sections with names, such as tiers."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, dict) and "name" in item for item in value)
