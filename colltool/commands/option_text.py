"""Text of options, read and completed; no error of another library reaches a person."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, assert_never

import typer

from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.formatting import parse_count, parse_shape
from colltool.commands.arguments import Argument

if TYPE_CHECKING:
    from colltool.estimate.assumptions import Readings

_RANGE = re.compile(r"([0-9]{1,10})\s*(?:-|:|\.\.)\s*([0-9]{1,10})(?:\s*([+/x*])\s*([0-9]{1,10}))?")
_MOST_COUNTS = 10_000  # of one range


def reader(name: str, row: Argument) -> Callable[[str], Any] | None:
    """What reads the text of an argument, by its kind; None where it reaches the command as it
    is."""
    if row.kind in ("text", "flag"):
        return None

    def value(text: Any) -> Any:
        if not isinstance(text, str):  # the default, which typer hands through
            return text
        try:
            return _read(text, name, row)
        except ColltoolError:
            # words of a line that is not finished: what cannot be read is not there
            if "_COLLTOOL_COMPLETE" in os.environ:
                return None
            raise

    return value


def _read(text: str, name: str, row: Argument) -> Any:
    match row.kind:
        case "text" | "flag":
            return text
        case "count":
            if text in row.words:
                return row.most
            if row.hint and "," in text:
                raise ColltoolError(
                    f"takes one number here, got '{short(text)}'", argument=name, fix=row.hint
                )
            return parse_count(text, name, row.least, row.most)
        case "number":
            return _number(text, name)
        case "share":
            return _share(text, name, row)
        case "shape":
            return parse_shape(text, name)
        case "word":
            if text not in row.words:
                fix = f"{nearest(text, list(row.words))} one of {', '.join(row.words)}".strip()
                raise ColltoolError(f"'{short(text)}' is not known", argument=name, fix=fix)
            return text
        case _:
            assert_never(row.kind)


def _number(text: str, name: str) -> float:
    if not isfinite(number := _float(text)):
        raise ColltoolError(
            f"'{short(text)}' is not a number", argument=name, fix=f"write {given(name, 1.5)}"
        )
    return number


def _share(text: str, name: str, row: Argument) -> float:
    """``15%`` or ``0.15``; one of 1 or more needs its percent sign."""
    part, zero = row.most == 1, row.least == 0
    number, percent, rest = text.strip().partition("%")
    value = _float(number) / (100 if percent else 1) if text.isascii() else nan
    if (
        rest
        or not isfinite(value)
        or value < 0
        or (value == 0 and not zero)
        or (value > 1 and part)
    ):
        kind = (
            "a share above 0 up to 1"
            if part
            else "a share of at least 0"
            if zero
            else "a positive share"
        )
        raise ColltoolError(
            f"'{short(text)}' is not {kind}", argument=name, fix=f"write {row.hint}"
        )
    if value == 1 and not percent:
        raise ColltoolError(f"'{short(text)}' is 1% or 100%", argument=name, fix="write 1% or 100%")
    if value > 1 and not percent:
        fix = f"write {number.strip()}% if that is what you mean"
        raise ColltoolError(f"'{short(text)}' is {value:.0%}", argument=name, fix=fix)
    return value


def _float(text: str) -> float:
    try:
        return float(text) if text.isascii() else nan
    except ValueError:
        return nan


def parts(text: str | None, argument: str) -> list[str]:
    """``1MB,16MB`` as a list; empty without the option, and no item may be."""
    found = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(found):
        fix = "separate items with one comma, without spaces"
        raise ColltoolError(f"an empty item in '{text}'", argument=argument, fix=fix)
    return found


def names(text: str | None) -> list[str]:
    """``ring,tree`` as a list, each once."""
    return list(dict.fromkeys(parts(text, "algorithms")))


def counts(texts: list[str] | None) -> list[int]:
    """``-n 8,16 -n 64`` as numbers; ``8-64`` is doubled as in nccl-tests, ``8-64+8`` goes in steps,
    ``8-512x4`` in factors."""
    return list(
        dict.fromkeys(
            one for text in texts or [] for part in parts(text, "ranks") for one in _counts(part)
        )
    )


def _counts(text: str) -> list[int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        return [parse_count(text, "ranks", 0)]
    low, high, sign, by = int(found[1]), int(found[2]), found[3] or "x", int(found[4] or 2)
    steps = sign in "+/"
    length = (high - low) // max(by, 1) if steps else high.bit_length()
    if not 0 < low < high <= 10**9 or by < (1 if steps else 2) or length > _MOST_COUNTS:
        fix = (
            f"write {given('ranks', text='8-64')} for 8,16,32,64, or"
            f" {given('ranks', text='8-64+8')} for steps of 8"
        )
        raise ColltoolError(f"'{short(text)}' is not a range of numbers", argument="ranks", fix=fix)
    if steps:
        return [*range(low, high + 1, by)]
    return [
        *takewhile(
            lambda number: number < high, (low * by**times for times in range(high.bit_length()))
        ),
        high,
    ]


def single(text: str, argument: str) -> str:
    """An option that elsewhere takes a list; refuses several items."""
    found = parts(text, argument)
    if len(found) > 1:
        what = f"takes one {argument} here, got {len(found)}: {short(text)}"
        raise ColltoolError(what, argument=argument, fix="one a call; colltool price takes several")
    return found[0]


def readings(texts: dict[str, Any]) -> Readings:
    """All readings of the model as they are typed: words stay, digits and numbers are read."""
    from colltool.estimate.assumptions import KINDS, MOST_SEGMENTS, USUAL, checked, takes_count

    def read(name: str, text: Any) -> Any:
        if isinstance(text, str) and takes_count(name) and text.isascii() and text.isdigit():
            return int(text) if len(text) <= len(str(MOST_SEGMENTS)) else MOST_SEGMENTS + 1
        return _number(text, name) if KINDS[name] is float else text

    given = {name: read(name, text) for name, text in texts.items()}
    # the option's default: nobody asked for it beside --ideal
    if given.get("numbers") == USUAL.numbers:
        del given["numbers"]
    return checked(**given)


def short(text: str) -> str:
    """What was typed, no longer than a line."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def offered(row: Argument) -> Callable[..., list[str]] | None:
    """The completion of an argument: its words, or the function that its row names."""
    return (
        words(row.words)
        if row.words
        else globals()[f"complete_{row.offers}"]
        if row.offers
        else None
    )


def words(known: Iterable[str]) -> Callable[[str], list[str]]:
    """A completion of what is one of several words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def complete_document(incomplete: str) -> list[str]:
    """Names of JSON documents, and kinds of files."""
    from colltool.render.schemas import FILE_KINDS, documents

    return words([*documents(), *FILE_KINDS])(incomplete)


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

    return words(dict.fromkeys([*SHORT.values(), *(primitive.spoken for primitive in SHORT)]))(
        incomplete
    )


def complete_algorithm(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of algorithms and compositions: those of the collective, where one was typed; the last
    of a list."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import every_composition
    from colltool.algorithms.registry import every_algorithm, on_request
    from colltool.base.primitives import parse_primitive

    wanted = None
    # before an option without its value, words that no option took are left in args
    for word in filter(
        None, (ctx.params.get("primitive"), ctx.params.get("collective"), *ctx.args)
    ):
        with suppress(ColltoolError):
            wanted = wanted or parse_primitive(str(word))
    rows = [(row.name, row.primitive) for row in (*every_algorithm(), *on_request())]
    rows += [(row.name, row.primitive) for row in every_composition()]
    known = dict.fromkeys(name for name, primitive in rows if wanted is None or primitive is wanted)
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in words(known)(last)]


def complete_ranks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Numbers of ranks that fill whole domains of the fabric, where one was typed; never the names
    of files."""
    sizes = [2**k for k in range(1, 10)]
    if fabric := _fabric(ctx):
        from colltool.estimate.placement import whole_groups

        sizes = whole_groups(fabric, _count(ctx, "stride", 1))
    return words(map(str, sizes))(incomplete) or [incomplete or "N"]


def complete_stride(ctx: typer.Context, incomplete: str) -> list[str]:
    """Strides that fit the fabric and the ranks, where they were typed; else sizes of nodes."""
    found = [2, 4, 8, 16, 72]
    if fabric := _fabric(ctx):
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
    elif (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(item, dict) and "name" in item for item in value)
    ):
        for item in value:
            yield from _keys(item, item["name"] if path == "tiers" else f"{path}.{item['name']}")
    else:
        yield path
