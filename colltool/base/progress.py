"""Progress of long work, reported to whoever watches: the command line on a terminal, else nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Watch = Callable[[int, int], object]
"""Called with how many are done, of how many."""

Item = TypeVar("Item")
_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Report what :func:`followed` does within to ``watch``."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def followed(items: Sequence[Item]) -> Iterator[Item]:
    """Iterate and report progress; of nested loops only the outermost of at least two items reports."""
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
