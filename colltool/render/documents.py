"""JSON documents as records: one class says which keys a document has, where their values come from
and what their types are; what ``--format json`` prints and what ``colltool schema`` says both
follow from it.

To write a result as a document:

1. Declare ``class FooDocument(Document)`` beside its view, with a key a line, in the order in which
   they are printed: ``total_s: float``. The annotation is the type in JSON; the unit is in the
   name. Without more, the value is the attribute of the record with the same name.
2. A value from elsewhere: ``estimate_s: float = derived("pick.seconds")``, a dotted path, or
   ``derived(function)``, which is called with the record. ``optional(...)`` is a key that is left
   out where there is nothing to say: where its value is None or empty, or a function returns
   :data:`LEFT_OUT`.
3. Records within the record are written by the document that names their class
   (``class LayersDocument(Document, of=Layers)``; with ``extends=`` in place of ``of=`` the fields
   of a named tuple need not be repeated), other named tuples key by key as they are. In an
   annotation both can be named: ``layers: LayersDocument``, ``flips: list[BreakEven]``.
4. Give the view ``FooDocument.of``, list the class in ``DOCUMENTS`` of
   :mod:`colltool.render.schemas`, and take the document's shapes out of ``shapes.txt``.
   ``tests/render/test_schemas.py`` names columns of the view that have no key in the document.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Any, ClassVar, NamedTuple

from colltool.base.formatting import plain_number
from colltool.render.blocks import attribute_at


# an enum of one member, so that no value of a record can be mistaken for it
class _Missing(Enum):
    LEFT_OUT = "left out"


LEFT_OUT = _Missing.LEFT_OUT
"""Value of an optional key that a document does not have."""


class DocumentKey(NamedTuple):
    """Where the value of a key comes from, and whether the key may be missing."""

    source: str | Callable[[Any], object]
    optional: bool

    def value(self, record: Any) -> Any:
        """The value for a record, or :data:`LEFT_OUT`."""
        if isinstance(self.source, str):
            value = attribute_at(record, self.source)
            # a number of 0 or a False says something
            empty = value is None or (isinstance(value, str | tuple) and not value)
            return LEFT_OUT if self.optional and empty else value
        return self.source(record)


def derived(source: str | Callable[[Any], object]) -> Any:
    """Declare a key whose value is at a path of the record, or is returned by a function of it."""
    return DocumentKey(source, optional=False)


def optional(source: str | Callable[[Any], object]) -> Any:
    """Declare a key that is left out where its path holds None or an empty text or tuple, or where
    the function returns :data:`LEFT_OUT`."""
    return DocumentKey(source, optional=True)


WRITTEN_AS: dict[type, type[Document]] = {}
"""The documents by the class whose records they write."""


class Document:
    """The base of documents: its annotations are the keys, in order, after those of its bases.

    ``of``: the class whose records are written so wherever they occur. ``extends``: the same of a
    named tuple, whose fields are keys as they are, before the annotated ones. ``open``: a document
    may have further keys, which its schema does not name.
    """

    keys: ClassVar[dict[str, DocumentKey]] = {}
    extends: ClassVar[type | None] = None
    open: ClassVar[bool] = False

    def __init_subclass__(
        cls, of: type | None = None, extends: type | None = None, *, open: bool = False
    ) -> None:
        cls.open = open
        cls.extends = extends
        cls.keys = {name: derived(name) for name in getattr(extends, "_fields", ())}
        own = vars(cls)
        for base in cls.__bases__:
            cls.keys |= getattr(base, "keys", {})
        # annotations are read by name alone: what they mean is worked out only for a schema, which
        # costs more than printing
        for name in own.get("__annotations__", ()):
            cls.keys[name] = own.get(name) or derived(name)
        written = of or extends
        if written is not None:
            WRITTEN_AS[written] = cls

    @classmethod
    def of(cls, record: Any, /, **values: Any) -> dict[str, Any]:
        """Write a record; ``values`` are those of keys that do not come from the record."""
        document = {}
        for name, declared in cls.keys.items():
            value = values[name] if name in values else declared.value(record)
            if value is not LEFT_OUT:
                document[name] = plain(value)
        return document


def plain(value: Any) -> Any:
    """A value for JSON: records by their document, named tuples as dicts, tuples as lists, enums as
    text."""
    document = WRITTEN_AS.get(type(value))
    if document is not None:
        return document.of(value)
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return [plain(part) for part in value]
        return {name: plain(part) for name, part in zip(names, value, strict=True)}
    return value.value if isinstance(value, StrEnum) else plain_number(value)


def fields(record: Any, names: str) -> dict[str, Any]:
    """These attributes of a record, for JSON."""
    return {name: plain(getattr(record, name)) for name in names.split()}
