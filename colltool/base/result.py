"""The base of every public result (columns, data frame, summary, HTML for a notebook:
:class:`Result`), and progress reports of long computations (:func:`with_progress`), which their
functions make.

The methods of a result have it rendered when they are called: a notebook shows what the command
line prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

import colltool
from colltool.base.errors import ColltoolError


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal, tuples and arrays element by element; NaN equals nothing but the
    same object."""
    if first is second:
        return True
    # shape and dtype do not tell: a group has a shape too, a series a dtype
    if hasattr(first, "__array__") or hasattr(second, "__array__"):
        if getattr(first, "shape", ()) != getattr(second, "shape", ()):
            return False
        equal = first == second
        return bool(equal.all() if hasattr(equal, "all") else equal)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


Made = TypeVar("Made")


class Renderers(Protocol):
    """What the methods of a result call; their docstrings say what each returns."""

    def columns(self, result: Any) -> dict[str, list[Any]]: ...

    def summary(self, result: Any) -> str: ...

    def rendered(self, result: Any, form: str) -> str: ...

    def fragment(self, result: Any) -> str: ...


def _renderers() -> Renderers:
    """The renderers, from the package itself: this module must not import the rendering packages."""
    renderers: Renderers = colltool.renderers()
    return renderers


class Result:
    """The base of every public result: a frozen dataclass, declared by :func:`result`.

    ``subject`` names the module of :mod:`colltool.render.views` that renders it.
    """

    __slots__ = ()
    subject: ClassVar[str]

    def to_columns(self) -> dict[str, list[Any]]:
        """The main table as a dict of columns of one length: SI units, full precision, None where
        there is nothing to say.

        The keys are those of ``--format csv``. An array of sizes gives a row for each of them.
        """
        return _renderers().columns(self)

    def to_frame(self) -> Any:
        """The main table as a pandas DataFrame, columns as :meth:`to_columns`.

        Raises:
            ColltoolError: pandas is not installed.
        """
        from importlib import import_module

        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ColltoolError(
                "to_frame() needs pandas", fix="pip install pandas, or take to_columns()"
            ) from error
        return pandas.DataFrame(self.to_columns())

    def summary(self) -> str:
        """The answer in a line or two."""
        return _renderers().summary(self)

    def to_html(self) -> str:
        """A whole page, as ``-o FILE.html`` writes it; nothing is loaded from elsewhere."""
        return _renderers().rendered(self, "html")

    def _repr_html_(self) -> str:
        """What a notebook shows: tables and lists as HTML of their own, nothing loaded from
        elsewhere."""
        return _renderers().fragment(self)

    def __repr__(self) -> str:
        first_line = self.summary().partition("\n")[0]
        return f"<{type(self).__name__}: {first_line}>"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            same(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment] # a result may hold arrays


@dataclass_transform(frozen_default=True, eq_default=False)
def result(declared: type[Made]) -> type[Made]:
    """Make a public result of a class: a frozen dataclass, with equality and text of
    :class:`Result`."""
    return dataclass(frozen=True, eq=False, repr=False)(declared)


# What is told of progress: a function of the number of items that are done, and of all.
Watch = Callable[[int, int], object]

Item = TypeVar("Item")
_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def progress_to(watch: Watch) -> Iterator[None]:
    """Report the progress of :func:`with_progress` within the block to ``watch``."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def running_watch() -> Watch | None:
    """Return the function that is told of progress within :func:`progress_to`; None outside of it, and
    within a loop that reports already."""
    return _WATCH.get()


def with_progress(items: Sequence[Item]) -> Iterator[Item]:
    """Yield items and report progress before each; of nested loops only the outermost with at least two
    items reports."""
    watch = _WATCH.get()
    if watch is None or len(items) < 2:
        yield from items
        return
    token = _WATCH.set(None)
    try:
        for done, item in enumerate(items):
            watch(done, len(items))
            yield item
    finally:
        _WATCH.reset(token)
