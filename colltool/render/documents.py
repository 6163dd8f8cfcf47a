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
   :data:`LEFT_OUT`. ``or_null(path)`` is null where its value is empty. With ``class
   FooDocument(Document, at="pick")`` a key without more is the attribute at ``pick.NAME``.
3. Records within the record are written by the document that names their class: ``class
   RowDocument(Document, of=Row)``. With ``extends=Row`` the fields of a named tuple or a data class
   are keys already. Records of other classes are written field by field as they are.
4. An annotation names either, ``rows: list[RowDocument]`` or ``flips: list[BreakEven]``. An object
   that is no record of its own is ``derived(PartDocument.of)``.
5. Give the view ``FooDocument.of``, and list the class in ``documents.toml``.
   ``tests/render/test_schemas.py`` names columns of the view that have no key in the document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from types import GeneratorType
from typing import Any, ClassVar, NamedTuple

from colltool.base.errors import localize
from colltool.base.formatting import plain_number
from colltool.base.statements import Statement
from colltool.render.blocks import attribute_at


# the type of a sentinel that no record has as a value
class _Missing(Enum):
    LEFT_OUT = "left out"


LEFT_OUT = _Missing.LEFT_OUT
"""Value of an optional key that a document does not have."""


class DocumentKey(NamedTuple):
    """Where the value of a key comes from, and what becomes of an empty one at a path; a function
    decides that itself."""

    source: str | Callable[[Any], object]  # a dotted path, or a function of the record
    optional: bool = False  # an empty value leaves the key out
    empty_is_null: bool = False

    def value(self, record: Any) -> Any:
        """The value for a record, or :data:`LEFT_OUT`."""
        if not isinstance(self.source, str):
            return self.source(record)
        value = attribute_at(record, self.source)
        # 0 and False are values
        if value is None or (isinstance(value, str | tuple) and not value):
            if self.optional:
                return LEFT_OUT
            if self.empty_is_null:
                return None
        return value


def derived(source: str | Callable[[Any], object]) -> Any:
    """Declare a key whose value is at a path of the record, or is returned by a function of it."""
    return DocumentKey(source)


def optional(source: str | Callable[[Any], object]) -> Any:
    """Declare a key that is left out where its path holds None or an empty text or tuple, or where
    its function returns :data:`LEFT_OUT`."""
    return DocumentKey(source, optional=True)


def or_null(path: str) -> Any:
    """Declare a key that is null where its path holds an empty text or tuple."""
    return DocumentKey(path, empty_is_null=True)


WRITTEN_AS: dict[type, type[Document]] = {}
"""The documents by the class whose records they write."""


@cache
def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a named tuple or a data class; none of other classes."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", ())


class Document:
    """The base of documents: its annotations are the keys, in order, after those of its bases.

    ``of``: the class whose records are written so wherever they occur. ``extends``: the same of a
    named tuple or data class, whose fields are keys as they are, before the annotated ones.
    ``at``: the path of the record within the record whose attributes the keys are. ``open``: a
    document may have further keys, which its schema does not name.
    """

    keys: ClassVar[dict[str, DocumentKey]] = {}
    extends: ClassVar[type | None] = None
    open: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        of: type | None = None,
        extends: type | None = None,
        *,
        at: str = "",
        open: bool = False,
    ) -> None:
        """Gather the keys of a document from its annotations, and register what it writes."""
        cls.open = open
        cls.extends = extends
        # of this class alone, not of its bases
        own_attributes = vars(cls)
        cls.keys = {name: derived(name) for name in field_names(extends)} if extends else {}
        for base in cls.__bases__:
            cls.keys |= getattr(base, "keys", {})
        # only the names are needed here: evaluating annotations, for schemas, takes longer than
        # printing a document
        for field_name in own_attributes.get("__annotations__", ()):
            path = f"{at}.{field_name}" if at else field_name
            cls.keys[field_name] = own_attributes.get(field_name) or derived(path)
        written = of or extends
        if written is not None:
            WRITTEN_AS[written] = cls

    @classmethod
    def of(cls, record: Any, /, **values: Any) -> dict[str, Any]:
        """Write a record; ``values`` are those of keys that do not come from the record."""
        document = {}
        for field_name, declared in cls.keys.items():
            value = values[field_name] if field_name in values else declared.value(record)
            if value is not LEFT_OUT:
                document[field_name] = plain(value)
        return document


def plain(value: Any) -> Any:
    """A value for JSON: records by their document or field by field, tuples and what a generator
    yields as lists, enums and statements as text."""
    if isinstance(value, Statement):
        return localize(str(value))
    kind: Any = type(value)
    document = WRITTEN_AS.get(kind)
    if document is not None:
        return document.of(value)
    names = field_names(kind)
    if names:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple | map | GeneratorType):
        return [plain(part) for part in value]
    if isinstance(value, StrEnum):
        return value.value
    return localize(value) if isinstance(value, str) else plain_number(value)
