"""A mapping in the JSON of an MSCCL++ plan, read strictly: :class:`PlanMapping`.

Each method reads a key (or checks a value that the caller has of one) and raises a ColltoolError that
names the mapping's path in the file, such as ``gpus.3.threadblocks.0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH

_LARGEST = 2**31  # of numbers and lists that have no limit of their own


class PlanMapping:
    """A mapping of the file, checked key by key."""

    def __init__(
        self,
        data: Any,  # as JSON has it: an error if it is no mapping
        file: str,
        path: str,  # its keys from the head of the file; the head has an empty one
    ) -> None:
        self.data = data
        self.file = file
        self.path = path
        self.where = file
        if path:
            self.where += f": {path}"
        if not isinstance(data, dict):
            raise self.error(f"expected a mapping, got {quote(data)}")

    def error(self, what: str, fix: str = "") -> ColltoolError:
        """The error to raise about this mapping."""
        return ColltoolError(what, where=self.where, fix=fix)

    def number(self, key: str, most: int = _LARGEST) -> int:
        """Return the whole number at a key, from 0 to ``most``."""
        value = self.data.get(key)
        if not _is_index(value, most + 1):
            what = f"{key} is a whole number from 0 to {most}, got {quote(value)}"
            raise self.error(what)
        return value

    def text(self, key: str, older: str = "") -> str:
        """Return the text at a key; at the key ``older``, which plans of 2025 have, where there is none."""
        value = self.data.get(key, self.data.get(older))
        if not isinstance(value, str):
            raise self.error(
                f"{key} is a text, got {quote(value)}",
                "older plans name their parts otherwise: write it anew with MSCCL++'s language",
            )
        return value

    def buffer(self, key: str, older: str = "") -> str:
        """Return the name of a buffer; keys as of :meth:`text`."""
        name = self.text(key, older)
        if name not in (INPUT, OUTPUT, SCRATCH):
            what = f"a buffer is i, o or s, got '{clipped(name)}'"
            raise self.error(what)
        return name

    def peer(self, value: object, ranks: int) -> int:
        """Return a value that this mapping states, as one of the ranks."""
        if not _is_index(value, ranks):
            what = f"a channel is connected to {quote(value)}, which is no GPU"
            raise self.error(what)
        return value

    def items(self, key: str, most: int = _LARGEST) -> Sequence[Any]:
        """Return the list at a key, of ``most`` values or fewer; empty if there is none."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or len(value) > most:
            what = f"{key} is a list of at most {most}, got {quote(value)}"
            raise self.error(what)
        return value

    def listed(self, key: str, most: int = _LARGEST) -> list[PlanMapping]:
        """Return the mappings of the list at a key, of ``most`` or fewer; none if there is no list."""
        mappings = []
        for number, item in enumerate(self.items(key, most)):
            path = f"{self.path}.{key}.{number}".lstrip(".")
            mappings.append(PlanMapping(item, self.file, path))
        return mappings

    def inner(self, key: str) -> PlanMapping:
        """Return the mapping at a key."""
        path = f"{self.path}.{key}"
        return PlanMapping(self.data.get(key), self.file, path)

    def item(self, items: Sequence[Any], index: object, noun: str) -> Any:
        """Return the item of a list at an index that this mapping states; ``noun``: what an item is,
        for errors."""
        if not _is_index(index, len(items)):
            what = f"there is no {noun} {quote(index)}: it has {len(items)}"
            raise self.error(what)
        return items[index]


def _is_index(value: object, count: int) -> TypeGuard[int]:
    """Whether a value is a whole number below ``count``; true and false are none."""
    return type(value) is int and 0 <= value < count
