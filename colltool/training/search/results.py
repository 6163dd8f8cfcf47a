"""What a search returns: frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.training.job import Job
from colltool.training.setup import Setup

TIE = 0.03  # of the best step: plans of published runs are off by more
CHOICES = ("tp", "sp", "cp", "ep", "etp", "pp", "virtual", "dp", "micro", "shard", "recompute")


class Choice(NamedTuple):
    """What a search chooses, ``dp`` and ``schedule`` as they follow from the rest."""

    tp: int
    sp: bool
    cp: int
    ep: int
    etp: int
    pp: int
    virtual: int
    dp: int
    micro: int
    shard: str
    recompute: str
    schedule: str

    @property
    def spoken(self) -> str:
        """``tp 8, pp 4, dp 16, zero1, recompute none``: sizes of more than 1, and the sharding."""
        sizes = [f"{name} {getattr(self, name)}" for name in ("tp", "cp", "ep", "pp", "virtual", "dp", "micro")]
        return ", ".join([text for text in sizes if not text.endswith(" 1")] + [self.shard, f"recompute {self.recompute}"])


class Searched(NamedTuple):
    """A layout with its figures, as ``plan`` has them: ``of_best`` is its step over the best one's, less 1."""

    choice: Choice
    step_s: float
    control_step_s: float
    memory_bytes: float
    tokens_per_s: float
    mfu: float
    of_best: float

    @property
    def tie(self) -> bool:
        """Whether it is as good as the best: within :data:`TIE`."""
        return self.of_best <= TIE

    @property
    def network_share(self) -> float:
        """The share of the step that a free network would save."""
        return 1 - self.control_step_s / self.step_s


class Ties(NamedTuple):
    """How many layouts are within :data:`TIE` of the best, itself among them, and what they differ in."""

    layouts: int
    differ: tuple[str, ...]


class Own(NamedTuple):
    """The layout that the job's file gives: its figures and whether it fits, or why it cannot be had on these ranks."""

    searched: Searched | None
    fits: bool | None
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class Search(Result):
    """The best layouts of a job, the fastest first; of equal steps the one that takes less memory.

    ``held`` layouts fill the ranks and fit together, ``fit`` of them the memory, ``priced`` of those sit on the fabric.
    ``values``: what makes ``plan`` show the best, as ``--job-set`` takes it.
    """

    subject: ClassVar[str] = "plan_search"
    job: Job
    fabric: str
    fabric_overrides: tuple[tuple[str, str], ...]
    ranks: int
    kept: tuple[tuple[str, str], ...]
    held: int
    fit: int
    priced: int
    capacity_bytes: float
    ties: Ties
    layouts: tuple[Searched, ...]
    own: Own
    values: tuple[tuple[str, str], ...]

    @property
    def device(self) -> str:
        """What all of them compute on, by name."""
        assert self.job.draft.device is not None  # without one nothing is searched
        return self.job.draft.device.name

    @property
    def best(self) -> Searched:
        """The fastest."""
        return self.layouts[0]


def choice_of(setup: Setup) -> Choice:
    """What a search chose of a setup."""
    layout = setup.layout
    return Choice(
        tp=layout.tp,
        sp=layout.sp,
        cp=layout.cp,
        ep=layout.ep,
        etp=layout.etp,
        pp=layout.pp,
        virtual=layout.virtual,
        dp=layout.dp,
        micro=setup.micro_batch,
        shard=setup.shard.mode,
        recompute=setup.recompute,
        schedule=setup.schedule,
    )
