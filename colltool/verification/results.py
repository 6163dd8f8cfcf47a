"""What ``verify`` returns: frozen records in SI units."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.placement import GroupPlacement
from colltool.estimate.results import Infeasible
from colltool.schedules.trace import Trace

Verdict = Literal["proved", "counts only", "idealised", "mismatch"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # from the best to the worst
COUNTS_ONLY: Verdict = "counts only"


class Verified(NamedTuple):
    """One algorithm, executed; pairs are (formula or price, executed)."""

    primitive: Primitive
    algorithm: str
    fabric: str
    group: GroupPlacement
    verdict: Verdict
    n_alpha: tuple[float, float]
    n_beta: tuple[float, float]
    post_condition: bool
    note: str
    time_s: tuple[float, float] | None = None  # without the launch overhead; None: only counts compare, and the note says why
    spec: str = ""  # as ``--algorithm`` takes it
    trace: Trace | None = None  # every step, where asked for

    @property
    def ranks(self) -> int:
        return self.group.ranks


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """Every algorithm that was executed, and those that were not, with the reason."""

    subject: ClassVar[str] = "verify"
    results: tuple[Verified, ...]
    skipped: tuple[Infeasible, ...]
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        return all(one.verdict != "mismatch" for one in self.results)
