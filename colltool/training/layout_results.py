"""What a search of layouts returns: :class:`LayoutSearch`, and what it is made of.

LayoutChoice     a layout by its choices
PricedLayout     a choice with its step, memory and speed, compared with the best
LayoutFigures    the same inside a search, which compares as step and memory do
Ties, OwnLayout  layouts as fast as the best, and the job's own one
FastestLayout    the best layout alone
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from colltool.base.result import Result, result
from colltool.training.files import Recomputed, Schedule, ShardMode
from colltool.training.job import Job
from colltool.training.layout_constraints import CHOICE_OF_KEY
from colltool.training.parallel_config import ParallelConfig, value_at_key
from colltool.training.plan import rates

# share of the best step within which layouts count as equal: plans of published runs are off by more
TIE = 0.03


class LayoutChoice(NamedTuple):
    """A layout of a search by its choices, named as in :class:`ParallelLayout`; ``micro``: sequences
    of a micro-batch. ``dp`` and ``schedule`` follow from the other choices."""

    tp: int
    sp: bool
    cp: int
    ep: int
    etp: int
    pp: int
    virtual: int
    dp: int
    micro: int
    shard: ShardMode
    recompute: Recomputed
    schedule: Schedule

    @property
    def text(self) -> str:
        """The layout in words, such as ``tp 8, pp 2, zero1, recompute none``, without sizes of 1."""
        words = []
        for name in ("tp", "cp", "ep", "pp", "virtual", "dp"):
            size = getattr(self, name)
            if size != 1:
                words.append(f"{name} {size}")
        words.append(f"micro-batch {self.micro}")
        return ", ".join([*words, self.shard, f"recompute {self.recompute}"])


class PricedLayout(NamedTuple):
    """A layout with the figures of its step, compared with the best one."""

    choice: LayoutChoice
    step_s: float  # on the fabric
    control_step_s: float  # the step on a free network
    memory_bytes: float  # of the stage that takes the most
    tokens_per_s: float  # of the whole job
    mfu: float
    of_best: float  # its step over the best one's, less 1

    @property
    def tie(self) -> bool:
        """Whether it counts as fast as the best one."""
        return self.of_best <= TIE

    @property
    def network_share(self) -> float:
        """Share of the step that a free network would save."""
        return 1 - self.control_step_s / self.step_s


class Ties(NamedTuple):
    """Layouts that are as fast as the best one within TIE."""

    layouts: int  # within TIE of the best, itself among them
    differ: tuple[str, ...]  # the choices that tell them apart


class OwnLayout(NamedTuple):
    """The job's own layout, compared with those of the search."""

    searched: PricedLayout | None  # None where it could not be priced, or the job has none
    fits: bool | None  # its memory; None where it was not priced
    why: str  # why it could not be priced; else empty


@result
class LayoutSearch(Result):
    """Layouts of a job, the fastest first; of equal steps the one that takes less memory."""

    subject: ClassVar[str] = "plan_search"
    job: Job
    fabric: str  # its name
    fabric_overrides: tuple[tuple[str, str], ...]  # keys and values that it was read with
    ranks: int
    kept: tuple[tuple[str, str], ...]  # names and values of what every layout keeps
    valid: int  # layouts that fill the ranks and fit together
    fit: int  # of them, layouts that fit the memory
    # of those, layouts that can be placed on the fabric: the search has priced them, or ruled them out
    priced: int
    capacity_bytes: float  # of a device
    headroom: float  # share of it that every layout leaves free
    ties: Ties
    layouts: tuple[PricedLayout, ...]  # the best ones, at least one
    own: OwnLayout
    # keys and values that make ``plan`` show the best and search no further, as ``--job-set`` takes
    # them
    values: tuple[tuple[str, str], ...]
    grounds: tuple[str, ...] = ()  # what was changed of the job or the fabric, a line each
    typed: str = ""  # the command that asked for it, without values of the job

    @property
    def device(self) -> str:
        """The name of what computes."""
        assert self.job.draft.device is not None  # without one nothing is searched
        return self.job.draft.device.name

    @property
    def best(self) -> PricedLayout:
        """The fastest layout."""
        return self.layouts[0]


class LayoutFigures(NamedTuple):
    """The step and memory of a layout; a better one compares as smaller, field by field."""

    step_s: float
    memory_bytes: float  # of the stage that takes the most
    number: int  # in the order of the search
    control_s: float  # the step on a free network
    setup: ParallelConfig

    @property
    def choice(self) -> LayoutChoice:
        """The layout by its choices, which CHOICE_OF_KEY finds in the configuration."""
        values = {name: value_at_key(self.setup, key) for key, name in CHOICE_OF_KEY.items()}
        return LayoutChoice(**values)

    def compared_with(self, best: LayoutFigures) -> PricedLayout:
        """Return the figures as users see them, with the excess over the best step."""
        tokens, mfu = rates(self.setup, self.step_s)
        assert tokens is not None
        assert mfu is not None
        return PricedLayout(
            self.choice,
            self.step_s,
            self.control_s,
            self.memory_bytes,
            tokens,
            mfu,
            of_best=self.step_s / best.step_s - 1,
        )


class FastestLayout(NamedTuple):
    """The best layout of a search, and the keys and values that pin it."""

    choice: LayoutChoice
    values: tuple[tuple[str, str], ...]
