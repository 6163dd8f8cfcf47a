"""What a shell offers after a tab: what can stand there, given what was typed before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import typer

from colltool.api.arguments import Argument
from colltool.base.errors import ColltoolError


def offered(row: Argument) -> Callable[..., list[str]] | None:
    """The completion of an argument: its words, or the function that its row names."""
    return words(row.words) if row.words else globals()[f"complete_{row.offers}"] if row.offers else None


def words(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A completion of an option that is one of several words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def complete_fabric(incomplete: str) -> list[str]:
    """Names of shipped fabrics."""
    from colltool.fabric.load import shipped_fabrics

    return [name for name in shipped_fabrics() if name.startswith(incomplete)]


def complete_job(incomplete: str) -> list[str]:
    """Names of shipped jobs."""
    from colltool.training.files.presets import preset_names

    return [name for name in preset_names("jobs") if name.startswith(incomplete)]


def complete_keep(incomplete: str) -> list[str]:
    """What a search can keep; after the equals sign its words."""
    from colltool.training.search_space import NAMES, WORDS

    known = [f"{name}={word}" for name in NAMES for word in WORDS.get(name, ("",))]
    return [text for text in known if text.startswith(incomplete)]


def complete_primitive(incomplete: str) -> list[str]:
    """Short and long names of primitives."""
    from colltool.base.primitives import SHORT

    known = [*SHORT.values(), *(primitive.spoken for primitive in SHORT)]
    return [name for name in dict.fromkeys(known) if name.startswith(incomplete)]


def complete_algorithm(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of algorithms and compositions: those of the collective, where one was typed; the last of a list."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import every_algorithm, on_request

    wanted = _primitive(ctx)
    rows = [(row.name, row.primitive) for row in (*every_algorithm(), *on_request())]
    rows += [(row.name, row.primitive) for row in every_composition()]
    known = dict.fromkeys(name for name, primitive in rows if wanted is None or primitive is wanted)
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def _primitive(ctx: typer.Context) -> Any:
    """The collective that was typed: before an option without its value, words that no option took are left in ``args``."""
    from colltool.base.primitives import parse_primitive

    for word in (ctx.params.get("primitive"), ctx.params.get("collective"), *ctx.args):
        with suppress(ColltoolError):
            if word:
                return parse_primitive(str(word))
    return None


def complete_ranks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Numbers of ranks that fill whole domains of the fabric, where one was typed; never the names of files."""
    fabric = _fabric(ctx)
    if fabric is None:
        sizes = [2**k for k in range(1, 10)]
    else:
        from colltool.estimate.placement import whole_groups

        sizes = whole_groups(fabric, _count(ctx, "stride", 1))
    return [str(size) for size in sizes if str(size).startswith(incomplete)] or [incomplete or "N"]


def complete_stride(ctx: typer.Context, incomplete: str) -> list[str]:
    """Strides that fit the fabric and the ranks, where they were typed; else sizes of nodes."""
    fabric = _fabric(ctx)
    found = [2, 4, 8, 16, 72] if fabric is None else _strides(fabric, _count(ctx, "ranks", 2))
    return [str(stride) for stride in found if str(stride).startswith(incomplete)] or [incomplete or "K"]


def _strides(fabric: Any, ranks: int) -> list[int]:
    from colltool.estimate.placement import every_stride

    return [stride for stride in every_stride(fabric, ranks) if stride > 1]


def _count(ctx: typer.Context, name: str, default: int) -> int:
    """A number that was typed; the default where there is none yet."""
    value = ctx.params.get(name)
    return value if isinstance(value, int) and value > 0 else default


def complete_set(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of the fabric, where one was typed."""
    fabric = _fabric(ctx)
    if fabric is None:
        return [incomplete or "KEY=VALUE"]
    keys = _keys(fabric.model_dump(by_alias=True, exclude_none=True), "")
    return [f"{key}=" for key in keys if key.startswith(incomplete)] or [incomplete or "KEY=VALUE"]


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
            if key in ("schema", "name", "description", "notes", "source", "topology"):
                continue
            yield from _keys(item, key if not path or key == "tiers" else f"{path}.{key}")
    elif isinstance(value, list | tuple) and value and all(isinstance(item, dict) and "name" in item for item in value):
        inside = "" if path == "tiers" else f"{path}."
        for item in value:
            yield from _keys(item, f"{inside}{item['name']}")
    else:
        yield path
