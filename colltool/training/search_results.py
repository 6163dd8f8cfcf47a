"""Constraints and results of a layout search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, given, nearest, shown
from colltool.base.formatting import parse_count
from colltool.base.result import Result
from colltool.training.files.schema import Recompute, Schedule, ShardMode, written
from colltool.training.job import Job
from colltool.training.parallel_config import ParallelConfig
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS

TIE = 0.03  # of the best step: plans of published runs are off by more
CHOICES = ("tp", "sp", "cp", "ep", "etp", "pp", "virtual", "dp", "micro", "shard", "recompute")


class LayoutChoice(NamedTuple):
    """``dp`` and ``schedule`` follow from what is chosen."""

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
    recompute: Recompute
    schedule: Schedule

    @property
    def spoken(self) -> str:
        sizes = [f"{name} {getattr(self, name)}" for name in ("tp", "cp", "ep", "pp", "virtual", "dp", "micro")]
        return ", ".join([text for text in sizes if not text.endswith(" 1")] + [self.shard, f"recompute {self.recompute}"])


class PricedLayout(NamedTuple):
    choice: LayoutChoice
    step_s: float
    control_step_s: float
    memory_bytes: float
    tokens_per_s: float
    mfu: float
    of_best: float  # its step over the best one's, less 1

    @property
    def tie(self) -> bool:
        return self.of_best <= TIE

    @property
    def network_share(self) -> float:
        return 1 - self.control_step_s / self.step_s


class Ties(NamedTuple):
    layouts: int  # within TIE of the best, itself among them
    differ: tuple[str, ...]  # the choices that tell them apart


class OwnLayout(NamedTuple):
    """The layout of the job's file: its figures, or why it cannot run on these ranks."""

    searched: PricedLayout | None
    fits: bool | None
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class LayoutSearch(Result):
    """Layouts of a job, the fastest first; of equal steps the one that takes less memory."""

    subject: ClassVar[str] = "plan_search"
    job: Job
    fabric: str
    fabric_overrides: tuple[tuple[str, str], ...]
    ranks: int
    kept: tuple[tuple[str, str], ...]
    held: int  # layouts that fill the ranks and fit together
    fit: int  # of them the memory
    priced: int  # of those sit on the fabric
    capacity_bytes: float
    ties: Ties
    layouts: tuple[PricedLayout, ...]
    own: OwnLayout
    values: tuple[tuple[str, str], ...]  # that make ``plan`` show the best, as ``--job-set`` takes them

    @property
    def device(self) -> str:
        assert self.job.draft.device is not None  # without one nothing is searched
        return self.job.draft.device.name

    @property
    def best(self) -> PricedLayout:
        return self.layouts[0]


def layout_choice(config: ParallelConfig) -> LayoutChoice:
    layout = config.layout
    return LayoutChoice(
        tp=layout.tp,
        sp=layout.sp,
        cp=layout.cp,
        ep=layout.ep,
        etp=layout.etp,
        pp=layout.pp,
        virtual=layout.virtual,
        dp=layout.dp,
        micro=config.micro_batch,
        shard=config.shard.mode,
        recompute=config.recompute,
        schedule=config.schedule,
    )


SIZES = ("tp", "cp", "ep", "etp", "pp", "virtual", "micro")
MODES = tuple(row.name for row in SHARDINGS.values() if not row.grouped)  # others need a group size from the job
WORDS: dict[str, dict[str, Any]] = {
    "sp": {"true": True, "false": False},
    "shard": {mode: mode for mode in SHARDINGS},
    "recompute": {word: word for word in RECOMPUTATIONS},
}
NAMES = ("tp", "sp", "cp", "ep", "etp", "pp", "virtual", "micro", "shard", "recompute")
MOST = 10**9

Keep = Mapping[str, Any] | Iterable[str]  # KEY=VALUE each, a later one wins; or values by name


class Constraints(NamedTuple):
    """What every layout of a search has; None is searched."""

    tp: int | None = None
    sp: bool | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    pp: int | None = None
    virtual: int | None = None
    micro: int | None = None
    shard: ShardMode | None = None
    recompute: Recompute | None = None

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    @property
    def spoken(self) -> str:
        return ", ".join(f"{name}={written(value)}" for name, value in self.values.items())


def constraints_of(keep: Keep | None) -> Constraints:
    if keep is None:
        return Constraints()
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise ColltoolError(f"expected names with values, got {shown(keep)}", argument="keep", fix=f"write {_example()}")
    pairs = keep.items() if isinstance(keep, Mapping) else [_split(one) for one in keep]
    return Constraints(**{_name(name): _value(str(name), value) for name, value in pairs})


def _example() -> str:
    return given("keep", {"tp": 8}, text="tp=8")


def _split(text: Any) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not value.strip():
        raise ColltoolError(f"{shown(text)} is not NAME=VALUE", argument="keep", fix=f"write {_example()}; {_known()}")
    return name.strip(), value.strip()


def _known() -> str:
    return f"constraints: {', '.join(NAMES)}"


def _name(name: Any) -> str:
    if name not in NAMES:
        fix = f"{nearest(str(name), list(NAMES))} {_known()}".strip()
        raise ColltoolError(f"no constraint is called {shown(str(name))}", argument="keep", fix=fix)
    return str(name)


def _value(name: str, value: Any) -> Any:
    if name in SIZES:
        try:
            return parse_count(value, "keep", 1, MOST)
        except ColltoolError:
            pass
        fix = f"write {given('keep', {name: 8}, text=f'{name}=8')}"
        raise ColltoolError(f"{name} is a whole number of at least 1, got {shown(value)}", argument="keep", fix=fix)
    known = WORDS.get(name, {})
    found = known.get(written(value))
    if found is None:
        fix = f"{nearest(str(value), list(known))} one of {', '.join(known)}".strip()
        raise ColltoolError(f"{name} cannot be {shown(value)}", argument="keep", fix=fix)
    return found
