"""Answers that a chat can hold: a document cut to so many bytes, saying what was left out.

:func:`bounded` cuts a JSON document, :func:`first_sentences` the text that goes with it,
:func:`brief_text` an answer that is a text.

A place in a document is named by its keys, ``[]`` standing for the items of a list: all ``phases`` of
``{"results": [{"phases": [...]}, ...]}`` are ``results[].phases``, and are shortened together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, quote
from colltool.commands.tool_tables import TABLES

# bytes of an answer, its text included
BRIEF = 8_000
# bytes of an answer with detail
WHOLE = 1_000_000
# bytes of the text that goes with a document
LONGEST_TEXT = 1_000
# significant digits of a number: more than any price is known to
_DIGITS = 6
# whole numbers below it, such as bytes of a message, keep their digits
_EXACT = 2**40
# lists over sizes and the like, which are thinned out; all others are rankings
_GRIDS = ("rows", "cells", "points", "sizes")
# names or items that are few enough to be kept whole
_FEW = 3
# what was left out of something of which nothing is left
_ALL = "all of it"
# characters of a text within a document that is not worth leaving out
_SHORT = 400


class Bounded(NamedTuple):
    """A document that is short enough to send, and what was left out of it: ``{"results": "5 of
    23"}``."""

    document: dict[str, Any]
    left_out: dict[str, str]


class _Nested(NamedTuple):
    """A list, an object or a long text of a document, and its keys: ``("results", "[]", "phases")``,
    where ``[]`` is any item of a list."""

    keys: tuple[str, ...]
    value: Any

    @property
    def name(self) -> str:
        """``results[].phases``."""
        return ".".join(self.keys).replace(".[]", "[]")

    @property
    def depth(self) -> int:
        """How many lists and objects it is in."""
        return sum(key != "[]" for key in self.keys)


def size_of(value: Any) -> int:
    """The bytes of a value as compact JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "replace"))


def bounded(document: dict[str, Any], most_bytes: int) -> Bounded:
    """A document in at most ``most_bytes``, unless so few hold not even its first rows.

    Numbers lose digits first; then goes what ``tools.toml`` calls secondary in such a document; then
    lists lose their last items, the deepest and largest first: rows are sorted by what matters.
    Objects and long texts go last.
    """
    if size_of(document) <= most_bytes:
        return Bounded(document, {})
    # "price" of the schema "colltool.price/1"
    kind = str(document.get("schema", "")).removeprefix("colltool.").partition("/")[0]
    # a copy, which is changed in place from here
    document = _rounded(document)
    secondary = TABLES["secondary"]
    left_out: dict[str, str] = {}
    for path in secondary.get(kind, secondary["others"]):
        if size_of(document) <= most_bytes:
            return Bounded(document, left_out)
        if path == "sizes of one":
            # no path: a price of one size has its rows as results, and once more in sizes
            if "results" in document:
                document.pop("sizes", None)
            continue
        shorter = _without(document, path, "")
        if shorter != document:
            document = shorter
            left_out[path] = _ALL
    return Bounded(document, left_out | _shorten_to_fit(document, most_bytes))


def _shorten_to_fit(document: dict[str, Any], most_bytes: int) -> dict[str, str]:
    """Shorten the lists of a document in place until it fits, and return how much of each is left:
    ``{"results": "5 of 23"}``."""
    original_counts: dict[str, int] = {}
    left_counts: dict[str, int] = {}
    while (excess := size_of(document) / most_bytes) > 1:
        part = _to_shorten(document)
        if part is None:
            break
        # of an object or a text 1, of which a share is 0: it goes
        longest = _longest(document, part.keys)
        original_counts.setdefault(part.name, longest)
        # a list of the first level says something as long as it has a row
        fewest = int(len(part.keys) == 1 and longest > 1)
        count = max(fewest, int(longest * _share_to_keep(excess)))
        left_counts[part.name] = count
        _shorten(document, part.keys, count)
    left_out = {}
    for name, count in left_counts.items():
        # what was in something that is gone needs no line of its own: results[].phases is in results
        holders = (name.rpartition("[]")[0], name.rpartition(".")[0])
        if any(left_counts.get(holder) == 0 for holder in holders):
            continue
        left_out[name] = f"{count} of {original_counts[name]}" if count else _ALL
    return left_out


def _without(value: Any, path: str, place: str) -> Any:
    """A copy without the values at a path, ``results[].phases``, or ``phases`` at any place.

    Args:
        place: where the value is in the document: ``.results[]``, or empty for the document.
    """
    if isinstance(value, list):
        return [_without(item, path, f"{place}[]") for item in value]
    if not isinstance(value, dict):
        return value
    shorter = {}
    for key, item in value.items():
        inner = f"{place}.{key}"
        if not inner.endswith(f".{path}"):
            shorter[key] = _without(item, path, inner)
    return shorter


def _rounded(value: Any) -> Any:
    """A copy with :data:`_DIGITS` significant digits of each float; whole ones below
    :data:`_EXACT` become integers."""
    match value:
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case float():
            return float(f"{value:.{_DIGITS}g}")
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list():
            return list(map(_rounded, value))
    return value


def _share_to_keep(excess: float) -> float:
    """The share of a list to keep in one step of shortening a document that is ``excess`` times too
    long: a long way to go takes long steps, the last ones are short, to cut little too much."""
    if excess > 8:
        return 0.125
    if excess > 1.5:
        return 0.5
    return 0.75


def _to_shorten(document: dict[str, Any]) -> _Nested | None:
    """What is worth least for its bytes: the list with the most bytes in all rows times depth, as the
    deep says less than the shallow. Where no list is long it is an object, a short list within rows
    or a long text, by the same measure. None where nothing is left to shorten.
    """
    long_lists: dict[tuple[str, ...], int] = {}
    others: dict[tuple[str, ...], int] = {}
    # one of the parts at these keys
    parts: dict[tuple[str, ...], _Nested] = {}
    for part in _parts(document, ()):
        keys = part.keys
        is_list = isinstance(part.value, list)
        is_first_level = len(keys) == 1
        # within a row, a list of a few items is a part of the row
        short_length = 1 if is_first_level else _FEW
        bytes_by_keys = others
        if is_list and len(part.value) > short_length:
            bytes_by_keys = long_lists
        elif is_list and is_first_level:
            # its only row stays
            continue
        bytes_by_keys[keys] = bytes_by_keys.get(keys, 0) + size_of(part.value)
        parts[keys] = part
    for bytes_by_keys in (long_lists, others):
        if bytes_by_keys:
            heaviest = max(bytes_by_keys, key=lambda keys: bytes_by_keys[keys] * parts[keys].depth)
            return parts[heaviest]
    return None


def _parts(value: Any, keys: tuple[str, ...]) -> Iterator[_Nested]:
    """Each list, object and long text within a value."""
    if isinstance(value, dict):
        for key, item in value.items():
            inner = (*keys, key)
            if isinstance(item, dict | list) or (isinstance(item, str) and len(item) > _SHORT):
                yield _Nested(inner, item)
            yield from _parts(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item, (*keys, "[]"))


def _holders(value: Any, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The objects within a value that hold the last of the keys, which is no ``[]``."""
    key, *inner_keys = keys
    if key == "[]":
        if isinstance(value, list):
            for item in value:
                yield from _holders(item, tuple(inner_keys))
    elif isinstance(value, dict) and key in value:
        if inner_keys:
            yield from _holders(value[key], tuple(inner_keys))
        else:
            yield value


def _longest(document: dict[str, Any], keys: tuple[str, ...]) -> int:
    """The most items that a list at these keys has; 1 if all have fewer or are no lists."""
    longest = 1
    for holder in _holders(document, keys):
        value = holder[keys[-1]]
        if isinstance(value, list):
            longest = max(longest, len(value))
    return longest


def _shorten(document: dict[str, Any], keys: tuple[str, ...], count: int) -> None:
    """Keep the first items of the lists at these keys; without any, the keys go."""
    key = keys[-1]
    for holder in _holders(document, keys):
        if count:
            holder[key] = _some_of(key, holder[key], count)
        else:
            del holder[key]


def _some_of(key: str, rows: list[Any], count: int) -> list[Any]:
    """The first ``count`` rows of a ranking; of a grid, by its key, as many evenly from its first row to
    its last."""
    if key not in _GRIDS or count < 2 or count >= len(rows):
        return rows[:count]
    step = (len(rows) - 1) / (count - 1)
    return [rows[round(number * step)] for number in range(count)]


def first_sentences(text: str, most_bytes: int = LONGEST_TEXT) -> str:
    """The sentences of a text that fit into so many bytes; of a first one that is too long as much as
    fits."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most_bytes:
        return text
    # 3: room for the ellipsis
    clipped = encoded[: most_bytes - 3].decode("utf-8", "ignore")
    end = max(clipped.rfind(mark) for mark in (". ", ".\n", "; ", "\n"))
    # rather cut amid a word than lose three quarters
    if end <= most_bytes // 4:
        return f"{clipped}..."
    return clipped[: end + 1]


def left_out_text(left_out: Mapping[str, str], *, detail: bool) -> str:
    """What was left out, and how to get it; empty if nothing was.

    Args:
        left_out: as of :class:`Bounded`.
        detail: whether all was asked for already.
    """
    if not left_out:
        return ""
    # lists of the first level first
    by_depth = sorted(left_out, key=lambda name: name.count("."))
    shortened = [f"{left_out[name]} {name}" for name in by_depth if left_out[name] != _ALL]
    gone = [name for name, left in left_out.items() if left == _ALL]
    sentences = []
    if shortened:
        sentences.append(f"Shown: {_listed(shortened)}.")
    if gone:
        sentences.append(f"Left out: {_listed(gone)}.")
    advice = 'Send "detail": true for all of it.'
    if detail:
        advice = "Ask for less in one call: fewer sizes, ranks or fabrics."
    return " ".join([*sentences, advice])


def _listed(names: list[str]) -> str:
    """The first :data:`_FEW` names, and how many more there are."""
    text = ", ".join(names[:_FEW])
    more = len(names) - _FEW
    if more > 0:
        return f"{text} and {more} more"
    return text


def brief_chapter(text: str, section: str | None, *, detail: bool) -> str:
    """A chapter, or one section of it, in at most :data:`BRIEF` bytes, :data:`WHOLE` with ``detail``.

    Args:
        section: how its heading begins, in any case; None for the chapter.

    Raises:
        ColltoolError: no heading begins like that; the error lists them.
    """
    sections = text.split("\n## ")[1:]
    headings = "; ".join(part.partition("\n")[0] for part in sections)[:1000]
    chosen = text
    if section is not None:
        beginning = str(section).strip().lower()
        matching = [part for part in sections if part.lower().startswith(beginning)]
        if not matching:
            raise ColltoolError(
                f"no section begins with {quote(section)}",
                argument="section",
                fix=f"sections: {headings}",
            )
        chosen = f"## {matching[0]}"
    note = f'Shortened. Sections: {headings}. Send "section", or "detail": true for all of it.'
    return brief_text(chosen, note, detail=detail)


def brief_text(text: str, note: str, *, detail: bool) -> str:
    """The lines of a text that fit into :data:`BRIEF` bytes, :data:`WHOLE` with ``detail``; if some do
    not, the note follows them."""
    most_bytes = WHOLE if detail else BRIEF
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most_bytes:
        return text
    # 2: the line feeds before the note
    room = most_bytes - len(note.encode()) - 2
    beginning = encoded[:room].decode("utf-8", "ignore")
    whole_lines, _, _ = beginning.rpartition("\n")
    return f"{whole_lines}\n\n{note}"
