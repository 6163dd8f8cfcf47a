"""What a shell offers after a tab: what can stand there, given what was typed before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import typer

from colltool.api.arguments import Argument
from colltool.base.errors import ColltoolError


def offered(row: Argument) -> Callable[..., list[str]] | None:
    """The completion of an argument: its words, or the function that its row names."""
    return words(row.words) if row.words else globals()[f"complete_{row.offers}"] if row.offers else None


def words(known: Iterable[str]) -> Callable[[str], list[str]]:
    """A completion of what is one of several words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def complete_fabric(incomplete: str) -> list[str]:
    """Names of shipped fabrics."""
    from colltool.fabric.load import shipped_fabrics

    return words(shipped_fabrics())(incomplete)


def complete_job(incomplete: str) -> list[str]:
    """Names of shipped jobs."""
    from colltool.training.files.presets import preset_names

    return words(preset_names("jobs"))(incomplete)


def complete_keep(incomplete: str) -> list[str]:
    """What a search can keep; after the equals sign its words."""
    from colltool.training.search_space import NAMES, WORDS

    return words(f"{name}={word}" for name in NAMES for word in WORDS.get(name, ("",)))(incomplete)


def complete_primitive(incomplete: str) -> list[str]:
    """Short and long names of primitives."""
    from colltool.base.primitives import SHORT

    return words(dict.fromkeys([*SHORT.values(), *(primitive.spoken for primitive in SHORT)]))(incomplete)


def complete_algorithm(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of algorithms and compositions: those of the collective, where one was typed; the last of a list."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import every_algorithm, on_request
    from colltool.base.primitives import parse_primitive

    wanted = None
    # before an option without its value, words that no option took are left in args
    for word in filter(None, (ctx.params.get("primitive"), ctx.params.get("collective"), *ctx.args)):
        with suppress(ColltoolError):
            wanted = wanted or parse_primitive(str(word))
    rows = [(row.name, row.primitive) for row in (*every_algorithm(), *on_request())]
    rows += [(row.name, row.primitive) for row in every_composition()]
    known = dict.fromkeys(name for name, primitive in rows if wanted is None or primitive is wanted)
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in words(known)(last)]


def complete_ranks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Numbers of ranks that fill whole domains of the fabric, where one was typed; never the names of files."""
    fabric, sizes = _fabric(ctx), [2**k for k in range(1, 10)]
    if fabric is not None:
        from colltool.estimate.placement import whole_groups

        sizes = whole_groups(fabric, _count(ctx, "stride", 1))
    return words(map(str, sizes))(incomplete) or [incomplete or "N"]


def complete_stride(ctx: typer.Context, incomplete: str) -> list[str]:
    """Strides that fit the fabric and the ranks, where they were typed; else sizes of nodes."""
    fabric, found = _fabric(ctx), [2, 4, 8, 16, 72]
    if fabric is not None:
        from colltool.estimate.placement import every_stride

        found = [stride for stride in every_stride(fabric, _count(ctx, "ranks", 2)) if stride > 1]
    return words(map(str, found))(incomplete) or [incomplete or "K"]


def _count(ctx: typer.Context, name: str, default: int) -> int:
    """A number that was typed; the default where there is none yet."""
    value = ctx.params.get(name)
    return value if isinstance(value, int) and value > 0 else default


def complete_set(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of the fabric, where one was typed."""
    fabric = _fabric(ctx)
    keys = () if fabric is None else _keys(fabric.model_dump(by_alias=True, exclude_none=True), "")
    return words(f"{key}=" for key in keys)(incomplete) or [incomplete or "KEY=VALUE"]


def _fabric(ctx: typer.Context) -> Any:
    from colltool.fabric.load import load_fabric

    given = ctx.params.get("fabric")
    try:
        return load_fabric(given if isinstance(given, str) else given[0]) if given else None
    except ColltoolError:
        return None


def _keys(value: Any, path: str) -> Iterator[str]:
    """Key paths as ``--set`` takes them: tiers and levels by their names."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("schema", "name", "description", "notes", "source", "topology"):
                yield from _keys(item, key if not path or key == "tiers" else f"{path}.{key}")
    elif isinstance(value, list | tuple) and value and all(isinstance(item, dict) and "name" in item for item in value):
        for item in value:
            yield from _keys(item, item["name"] if path == "tiers" else f"{path}.{item['name']}")
    else:
        yield path
