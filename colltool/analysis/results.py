"""What questions over several answers return: frozen records."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from colltool.base.result import Result


class Change(NamedTuple):
    """A value of two documents that moved; ``relative`` is new/old - 1 for numbers."""

    where: str
    old: Any
    new: Any
    relative: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Diff(Result):
    """What moved between two documents of the same command, past ``rtol``."""

    subject: ClassVar[str] = "diff"
    rtol: float
    changed: tuple[Change, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Whether anything did."""
        return bool(self.changed or self.added or self.removed)
