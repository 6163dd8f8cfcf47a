"""What questions over several answers return: frozen records."""

from typing import Any, NamedTuple


class Change(NamedTuple):
    """A value of two documents that moved; ``relative`` is new/old - 1 for numbers."""

    where: str
    old: Any
    new: Any
    relative: float | None


class Diff(NamedTuple):
    """What moved between two documents of the same command, past ``rtol``."""

    rtol: float
    changed: tuple[Change, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Whether anything did."""
        return bool(self.changed or self.added or self.removed)
