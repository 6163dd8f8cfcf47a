"""XML files of other programs as trees of elements, within limits: :func:`read_xml`.

Entities are never read: a document type is refused, but for one that only names the format's own
DTD, which is not opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from colltool.base.errors import ColltoolError, clipped
from colltool.base.files import AnyPath, read_text

# Limits that no node reaches.
MAX_DEPTH = 64
MAX_ELEMENTS = 200_000


class XmlFormat(NamedTuple):
    """A format: the tag of its ``root`` element, the ``program`` that writes it, how to write one
    (``fix``, for errors), and whether its files may name a document type."""

    root: str
    program: str
    fix: str
    has_document_type: bool = False


@dataclass(eq=False)
class Element:
    """An element with its attributes as text, in the order of the file; ``line`` and ``column`` from 1,
    0 for one that was made."""

    tag: str
    attributes: dict[str, str]
    line: int
    column: int
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)

    def add(self, tag: str, **attributes: object) -> Element:
        """Append an element with these attributes, and return it."""
        texts = {name: str(value) for name, value in attributes.items()}
        element = Element(tag, texts, 0, 0, self)
        self.children.append(element)
        return element

    def text(self) -> str:
        """Return the element as XML, a line for each start and end, without text between tags."""
        return "".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        words = [
            self.tag,
            *(f'{name}="{escape(value)}"' for name, value in self.attributes.items()),
        ]
        start = f"{indent}<{' '.join(words)}"
        if not self.children:
            yield f"{start}/>\n"
            return
        yield f"{start}>\n"
        for child in self.children:
            yield from child._lines(indent + "  ")
        yield f"{indent}</{self.tag}>\n"

    def get(self, name: str) -> str:
        """Return an attribute; empty if it is not there."""
        return self.attributes.get(name, "")

    def each(self, tag: str) -> Iterator[Element]:
        """Yield the elements of a tag below this one, in the order of the file."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.each(tag)

    def around(self) -> Iterator[Element]:
        """Yield the elements that this one is in, innermost first."""
        outer = self.parent
        while outer is not None:
            yield outer
            outer = outer.parent

    def inside(self, tag: str) -> Element | None:
        """Return the innermost element of a tag that this one is in."""
        return next((outer for outer in self.around() if outer.tag == tag), None)


def comment_text(text: str) -> str:
    """Return a line with a comment; two hyphens, which XML has in no comment, are parted."""
    return f"<!-- {text.replace('--', '- -')} -->\n"


def read_xml(path: AnyPath, form: XmlFormat) -> Element:
    """Return the root element of a file.

    Raises:
        ColltoolError: not XML, another program's, cut off, with a document type, beyond the limits.
    """
    text = read_text(path, "topology")
    builder = _Builder(os.fsdecode(path), form)
    try:
        builder.parser.Parse(text.lstrip(), True)
    except expat.ExpatError as error:
        raise ColltoolError(
            f"is not the XML of {form.program}, or cut off: {expat.errors.messages[error.code]}",
            where=f"{builder.name}:{error.lineno}:{error.offset + 1}",
            fix=form.fix,
        ) from None
    assert builder.root is not None, "expat refuses a file without elements"
    return builder.root


class _Builder:
    """Builds the tree from what expat reports, within the limits: it calls :meth:`start`, :meth:`end` and
    :meth:`document_type`. ``inside`` is the innermost element that is open, ``root`` the first.
    """

    def __init__(self, name: str, form: XmlFormat) -> None:
        self.name = name
        self.form = form
        self.root: Element | None = None
        self.inside: Element | None = None
        self.depth = 0
        self.elements = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.document_type

    def error(self, what: str) -> ColltoolError:
        """Return an error at the present line and column."""
        where = f"{self.name}:{self.parser.CurrentLineNumber}:{self.parser.CurrentColumnNumber + 1}"
        return ColltoolError(what, where=where, fix=self.form.fix)

    def document_type(self, name: str, _system: object, _public: object, internal: int) -> None:
        """Refuse a document type, unless it is the format's own and has no entities (``internal``)."""
        if self.form.has_document_type and name == self.form.root and not internal:
            return
        raise self.error(
            f"has a document type ({clipped(name)}), which {self.form.program} never writes:"
            " entities in it are not read"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element, within the limits."""
        self.elements += 1
        self.depth += 1
        if self.inside is None and tag != self.form.root:
            raise self.error(
                f"is XML of another program: its root is <{clipped(tag)}>,"
                f" {self.form.program}'s is <{self.form.root}>"
            )
        if self.depth > MAX_DEPTH or self.elements > MAX_ELEMENTS:
            raise self.error(
                f"nested deeper than {MAX_DEPTH}, or more than {MAX_ELEMENTS} elements: no node is"
                " so large"
            )
        line = self.parser.CurrentLineNumber
        column = self.parser.CurrentColumnNumber + 1
        element = Element(tag, attributes, line, column, self.inside)
        if self.inside is None:
            self.root = element
        else:
            self.inside.children.append(element)
        self.inside = element

    def end(self, _: str) -> None:
        """Close the innermost element."""
        assert self.inside is not None, "expat checks that elements are closed in order"
        self.inside = self.inside.parent
        self.depth -= 1
