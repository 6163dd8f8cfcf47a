"""Words that a shell completes options and arguments with.

A completion takes what is typed so far of a word; one that depends on the words before it also
takes typer's context: its ``params`` are the options read, its ``args`` the words that none took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError
from colltool.commands.arguments import Argument

if TYPE_CHECKING:
    from colltool.base.primitives import Primitive
    from colltool.fabric.model import Fabric

NOT_OVERRIDDEN = ("schema", "name", "description", "notes", "source", "topology")
"""Keys of a fabric that completion does not offer for ``--set``."""


def completion_of(row: Argument) -> Callable[..., list[str]] | None:
    """The completion of an argument: its words, or the function that its row names."""
    if row.words:
        return words(row.words)
    if row.offers:
        found: Callable[..., list[str]] = globals()[f"complete_{row.offers}"]
        return found
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
    """Names of shipped fabrics."""
    from colltool.fabric.shipped import shipped_fabrics

    return words(shipped_fabrics())(incomplete)


def complete_job(incomplete: str) -> list[str]:
    """Names of shipped jobs."""
    from colltool.training.files.presets import preset_names

    return words(preset_names("jobs"))(incomplete)


def complete_keep(incomplete: str) -> list[str]:
    """``KEY=`` of what a search can keep, and ``KEY=WORD`` where the values are words."""
    from colltool.training.search_space import NAMES, WORDS

    known = []
    for name in NAMES:
        known += [f"{name}={word}" for word in WORDS.get(name, ("",))]
    return words(known)(incomplete)


def complete_primitive(incomplete: str) -> list[str]:
    """Short and long names of primitives."""
    from colltool.base.primitives import SHORT

    known = [*SHORT.values(), *(primitive.label for primitive in SHORT)]
    return words(dict.fromkeys(known))(incomplete)


def complete_algorithm(ctx: Any, incomplete: str) -> list[str]:
    """Names of algorithms and compositions: those of the collective, where one was typed; the last
    of a list."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import every_algorithm, on_request

    wanted = _typed_primitive(ctx)
    rows = [(row.name, row.primitive) for row in (*every_algorithm(), *on_request())]
    rows += [(row.name, row.primitive) for row in every_composition()]
    known = [name for name, primitive in rows if wanted is None or primitive is wanted]
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in words(dict.fromkeys(known))(last)]


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

        sizes = whole_groups(fabric, _typed_count(ctx, "stride", 1))
    # with no completion at all a shell would offer names of files
    return words(map(str, sizes))(incomplete) or [incomplete or "N"]


def complete_stride(ctx: Any, incomplete: str) -> list[str]:
    """Strides that fit the fabric and the ranks, where they were typed; else sizes of nodes."""
    strides = [2, 4, 8, 16, 72]
    fabric = _typed_fabric(ctx)
    if fabric is not None:
        from colltool.estimate.placement import every_stride

        ranks = _typed_count(ctx, "ranks", 2)
        strides = [stride for stride in every_stride(fabric, ranks) if stride > 1]
    return words(map(str, strides))(incomplete) or [incomplete or "K"]


def complete_set(ctx: Any, incomplete: str) -> list[str]:
    """Keys of the fabric, where one was typed."""
    keys: list[str] = []
    fabric = _typed_fabric(ctx)
    if fabric is not None:
        keys = [f"{key}=" for key in _keys(fabric.model_dump(by_alias=True, exclude_none=True), "")]
    return words(keys)(incomplete) or [incomplete or "KEY=VALUE"]


def _typed_count(ctx: Any, name: str, default: int) -> int:
    """The positive number that an option was given, else the default."""
    value = ctx.params.get(name)
    return value if isinstance(value, int) and value > 0 else default


def _typed_fabric(ctx: Any) -> Fabric | None:
    """The fabric on the command line; None if there is none or it does not load."""
    from colltool.fabric.load import load_fabric

    typed = ctx.params.get("fabric")
    if not typed:
        return None
    try:
        return load_fabric(typed if isinstance(typed, str) else typed[0])
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
