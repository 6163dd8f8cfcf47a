"""What a job asks to hide, in a layout that it did not think of: what nothing can follow there is left out."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.training.contradictions import contradictions
from colltool.training.files.job import OverlapFile
from colltool.training.resolve import overlap_of
from colltool.training.setup import Overlap, Setup


def followed(file: OverlapFile, setup: Setup) -> tuple[Overlap, tuple[str, ...]]:
    """What hides in a layout, and the keys that the file would have to leave out there."""
    slowed = setup.stack.slowed if setup.stack is not None else 0.0
    left: tuple[str, ...] = ()
    while True:
        setup = setup._replace(overlap=overlap_of(file, setup.layout, setup.schedule, slowed))
        more = tuple(name for name in _idle(setup) if getattr(file, name) is not None)
        if not more:
            return setup.overlap, left
        file, left = file.model_copy(update=dict.fromkeys(more)), left + more


def _idle(setup: Setup) -> Iterator[str]:
    """Keys of ``overlap`` that this layout cannot follow."""
    layout, overlap = setup.layout, setup.overlap
    if overlap.tp and not (layout.sp and layout.tp > 1):
        yield "tp"
    if overlap.ep and layout.ep == 1:
        yield "ep"
    yield from (str(one.path[1]) for one in contradictions(setup) if one.path[0] == "overlap")
