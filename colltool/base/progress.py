"""How far a long piece of work is, followed to whoever watches: the command line on a terminal, else nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Watch = Callable[[int, int], object]
"""Is followed how much of how much is done."""

Item = TypeVar("Item")
_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Within it :func:`followed` tells ``watch``."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def followed(items: Sequence[Item]) -> Iterator[Item]:
    """Items one after the other, telling how many are done; of work within work the outermost of several items is followed."""
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
