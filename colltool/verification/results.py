"""What ``verify`` returns: frozen records in SI units."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.group_spec import GroupPlacement
from colltool.estimate.results import Infeasible
from colltool.schedules.trace import Trace

Verdict = Literal["proved", "counts only", "idealised", "mismatch"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""From the best to the worst."""
COUNTS_ONLY: Verdict = "counts only"


class Verified(NamedTuple):
    """One algorithm, executed. Counts are (formula, executed); ``verdict`` is one of :data:`VERDICTS`.

    ``time_s`` are (price, executed) seconds at the size asked for, without the launch overhead; None where no more than counts
    can be compared, and the note says why.
    ``spec`` is the text that ``--algorithm`` takes; ``trace`` every step, where asked for.
    """

    primitive: Primitive
    algorithm: str
    fabric: str
    group: GroupPlacement
    verdict: Verdict
    n_alpha: tuple[float, float]
    n_beta: tuple[float, float]
    post_condition: bool
    note: str
    time_s: tuple[float, float] | None = None
    spec: str = ""
    trace: Trace | None = None

    @property
    def ranks(self) -> int:
        return self.group.ranks


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """Every algorithm that was executed, and those without a schedule, with the reason."""

    subject: ClassVar[str] = "verify"
    results: tuple[Verified, ...]
    skipped: tuple[Infeasible, ...]
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        return all(one.verdict != "mismatch" for one in self.results)
