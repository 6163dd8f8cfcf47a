"""What ``verify`` returns: frozen records in SI units."""

from typing import NamedTuple

from colltool.pricing.results import Infeasible
from colltool.primitives import Primitive


class Verified(NamedTuple):
    """One algorithm, executed. Counts are (formula, executed); ``verdict`` is ``proved``, ``idealised`` or ``mismatch``.

    ``time_s`` are (price, executed) seconds at the size asked for, without the launch overhead; None where no size was.
    """

    primitive: Primitive
    algorithm: str
    fabric: str
    ranks: int
    verdict: str
    n_alpha: tuple[float, float]
    n_beta: tuple[float, float]
    post_condition: bool
    note: str
    time_s: tuple[float, float] | None = None


class Verification(NamedTuple):
    """Every algorithm that was executed, and those without a schedule, with the reason."""

    results: tuple[Verified, ...]
    skipped: tuple[Infeasible, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts its formula."""
        return all(one.verdict != "mismatch" for one in self.results)
