"""Tables of sharding modes, recomputations, optimizers and pipeline schedules, a row for each name
that a job file may have; a name without a row fails at import.

Last come the seconds of a pipeline (:func:`pipeline_s`). In comments p are stages, v chunks on each,
m micro-batches, i a stage. A row's ``source`` is the paper or the code that describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, get_args

from colltool.base.cache import packaged_toml
from colltool.training.files import Module, OptimizerName, Recomputed, Schedule, ShardMode
from colltool.training.violation import Violation

if TYPE_CHECKING:
    from colltool.training.parallel_config import ParallelConfig


class _Named(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=_Named)


def rows_for(names: Any, rows: Iterable[R]) -> dict[str, R]:
    """Return rows by name. ``names`` is the Literal that the schema of job files has for them; each
    of its values has a row, and no row has another name.

    Raises:
        TypeError: it is not so.
    """
    by_name: dict[str, R] = {row.name: row for row in rows}
    unmatched = set(get_args(names)) ^ set(by_name)
    if unmatched:
        raise TypeError(f"{', '.join(sorted(unmatched))}: named in the schema or in the rows alone")
    return by_name


_TABLES = packaged_toml(Path(__file__).parent / "data" / "strategies.toml")


class Sharding(NamedTuple):
    """A sharding mode of ``data/strategies.toml``: what is divided over the replicas of a rank."""

    name: ShardMode
    source: str
    optimizer: bool = False  # whether the optimizer's states are
    gradients: bool = False  # whether gradients are
    weights: bool = False  # whether weights are
    grouped: bool = False  # whether over a group of the replicas only, with a copy in each group


SHARDINGS = rows_for(ShardMode, [Sharding(**row) for row in _TABLES["shardings"]])


class Recomputation(NamedTuple):
    """What the backward pass recomputes."""

    name: Recomputed  # as a job file has it
    core: bool  # whether attention's scores are computed again
    layers: bool  # whether whole layers are, from their inputs
    max_layers: int = 0  # number of such layers of a stage; 0: all of them
    modules: tuple[Module, ...] = ()  # of every layer

    @property
    def whole(self) -> bool:
        """Whether its name is all that a job gives, so that a search may try it."""
        return self.name not in ("layers", "modules")

    def share(self, layers: int) -> float:
        """Share of a stage's ``layers`` that what is recomputed is of: 1 unless a number of layers is
        given."""
        return min(1.0, self.max_layers / layers) if self.max_layers and layers else 1.0

    def reruns(self, operation: str) -> bool:
        """Whether an operation of a layer, by its name in ``data/operations.toml``, runs again as a
        whole."""
        return self.layers or any(
            operation in OPERATIONS_OF.get(module, ()) for module in self.modules
        )


# Operations that a module runs as a whole. The modules of ``files.Module`` that are not here run a
# part of an operation.
OPERATIONS_OF = {
    "attention": ("attention",),
    "mlp": ("ffn",),
    "moe": ("router", "experts", "shared expert"),
    "shared_experts": ("shared expert",),
}

RECOMPUTATIONS = rows_for(
    Recomputed,
    [
        Recomputation("none", core=False, layers=False),
        Recomputation("selective", core=True, layers=False),
        Recomputation("full", core=True, layers=True),
        Recomputation("layers", core=True, layers=True),
        Recomputation("modules", core=False, layers=False),
    ],
)


class Optimizer(NamedTuple):
    """An optimizer of ``data/strategies.toml``."""

    name: OptimizerName
    states: float  # bytes per parameter besides its master weight
    source: str
    orthogonal: bool = False  # whole matrices are orthogonalized


OPTIMIZERS = rows_for(OptimizerName, [Optimizer(**row) for row in _TABLES["optimizers"]])


NARAYANAN = "Narayanan 2021, arXiv:2104.04473, section 2.2"
ZERO_BUBBLE = "Qi 2023, Zero Bubble Pipeline Parallelism, arXiv:2401.10241"


class Pass(NamedTuple):
    """One micro-batch on one stage with its exposed communication."""

    forward_s: float
    backward_s: float  # with recomputation
    weight_s: float = 0.0  # weight gradients: the part of backward that no other stage waits for

    @property
    def total_s(self) -> float:
        """Seconds forward and backward."""
        return self.forward_s + self.backward_s


class PipelinePlace(NamedTuple):
    """A stage of a pipeline, by the letters above."""

    m: int  # micro-batches of a step
    p: int  # stages
    v: int  # chunks on each
    stages_left: int  # p - i on stage i, itself among them


Violations = Iterator[Violation]


def _no_violations(_: ParallelConfig) -> Violations:
    """Check nothing: any layout and batch will do."""
    return iter(())


class PipelineSchedule(NamedTuple):
    """A schedule of two stages or more: a single stage has no bubble and keeps one micro-batch."""

    name: Schedule
    # (one pass of each stage, v) -> seconds beyond m passes of the slowest stage; only that of
    # interleaved depends on v
    bubble_s: Callable[[Sequence[Pass], float], float]
    # micro-batches whose activations a stage keeps at most; a chunk of v is a v-th of one
    in_flight: Callable[[PipelinePlace], float]
    source: str  # paper that describes it
    # what does not fit it: of the layout, and of the batch once dp is known
    requires: Callable[[ParallelConfig], Violations] = _no_violations
    requires_batch: Callable[[ParallelConfig], Violations] = _no_violations
    interleaved: bool = False  # v chunks a stage, every p-th of the model
    # two chunks a stage, down all stages and back up: the model ends on the stage where it begins
    folded: bool = False
    # whether embedding and head may each take the place of a layer where that evens out the stages
    ends_as_layers: bool = True
    # whether default_schedule() may give it; the others run only where a job names them
    is_default: bool = False
    # the schedule like it that fills the bubble with weight gradients; None: there is none
    split_schedule: Schedule | None = None
    weight_copies: int = 1  # of a stage's weights
    hides_experts: bool = False  # whether all-to-alls of experts hide under another batch


# Bubbles, as ``PipelineSchedule.bubble_s`` says.


def _other_stages_s(passes: Sequence[Pass], _: float) -> float:
    """Bubble of 1F1B: seconds of a micro-batch on all stages but the slowest."""
    seconds = [stage.total_s for stage in passes]
    return sum(seconds) - max(seconds)


def _dualpipe_s(passes: Sequence[Pass], _: float) -> float:
    """Bubble of DualPipe: (p/2 - 1)(F&B + B - 3W), of the slowest stage's forward F, backward B and
    weight gradients W; F&B, a forward and a backward at once, is taken as their sum."""
    slowest = max(passes, key=lambda stage: stage.total_s)
    waited_s = slowest.total_s + slowest.backward_s - 3 * slowest.weight_s
    return max(0.0, (len(passes) / 2 - 1) * waited_s)


def _interleaved_layout(config: ParallelConfig) -> Violations:
    """Check that an interleaved pipeline has several stages and several chunks on each."""
    if config.layout.virtual == 1 or config.layout.pp == 1:
        yield Violation(
            ("schedule",),
            f"interleaved, and virtual is {config.layout.virtual}, pp {config.layout.pp}",
            "virtual and pp of at least 2, or schedule: 1f1b",
        )


def _interleaved_batch(config: ParallelConfig) -> Violations:
    """Check that interleaved has a multiple of pp micro-batches."""
    pp = config.layout.pp
    m = config.micro_batches
    if m % pp:
        sequences = pp * max(1, round(m / pp)) * config.micro_batch * config.layout.dp
        yield Violation(
            ("batch", "global"),
            f"{m} micro-batches are not a multiple of pp {pp}, which interleaved needs",
            f"global: {sequences}, or schedule: 1f1b with virtual: 1",
        )


def _folded_layout(config: ParallelConfig) -> Violations:
    """Check that the layers of a stage make two equal chunks.

    Where pp does not divide the layers, only the stages with the fewest are looked at; stages that a
    job lists are not.
    """
    layout = config.layout
    if config.model is None or layout.pp == 1 or layout.stages:
        return
    layers = config.model.layers // layout.pp
    if layers % 2:
        yield Violation(
            ("schedule",),
            f"{config.schedule} splits each stage into two chunks, and a stage has {layers} layers",
            "an even number of layers a stage, or schedule: zb1p",
        )


def _dualpipe_layout(config: ParallelConfig) -> Violations:
    """Check that DualPipe has an even number of stages."""
    pp = config.layout.pp
    if pp % 2:
        yield Violation(
            ("layout", "pp"),
            f"dualpipe needs an even pp, got {pp}",
            f"pp: {pp + 1}, or schedule: 1f1b",
        )


def _dualpipe_batch(config: ParallelConfig) -> Violations:
    """Check that DualPipe has an even number of micro-batches, at least pp."""
    pp = config.layout.pp
    m = config.micro_batches
    if m % 2 or m < pp:
        what = (
            f"dualpipe feeds both ends: needs an even number of micro-batches, at least pp {pp},"
            f" got {m}"
        )
        sequences = 2 * pp * config.micro_batch * config.layout.dp
        yield Violation(("batch", "global"), what, f"global: {sequences}, or another schedule")


SCHEDULES = rows_for(
    Schedule,
    [
        PipelineSchedule(
            name="gpipe",
            bubble_s=_other_stages_s,
            in_flight=lambda place: place.m,
            source="Huang 2018, GPipe, arXiv:1811.06965",
        ),
        PipelineSchedule(
            name="1f1b",
            bubble_s=_other_stages_s,
            in_flight=lambda place: min(place.m, place.stages_left),
            source=NARAYANAN,
            is_default=True,
            split_schedule="zb1p",
        ),
        PipelineSchedule(
            name="interleaved",
            bubble_s=lambda passes, v: _other_stages_s(passes, v) / v,
            # 2(p-i-1) + (v-1)p + 1 chunks, v of which are a micro-batch. On the first stage that
            # is p (1 + (p-1)/(p v)) micro-batches, as Korthikanti 2022 writes it (section 4.2.3)
            in_flight=lambda place: (
                min(place.m * place.v, 2 * (place.stages_left - 1) + (place.v - 1) * place.p + 1)
                / place.v
            ),
            source=NARAYANAN,
            requires=_interleaved_layout,
            requires_batch=_interleaved_batch,
            interleaved=True,
            is_default=True,
        ),
        PipelineSchedule(
            name="zb1p",
            bubble_s=lambda passes, v: _other_stages_s(passes, v) / 3,
            in_flight=lambda place: min(place.m, place.stages_left),
            source=f"{ZERO_BUBBLE}: ZB-H1, a third of 1F1B's bubble",
        ),
        PipelineSchedule(
            name="zbv",
            bubble_s=lambda *_: 0.0,
            in_flight=lambda place: min(place.m, place.p),
            source=f"{ZERO_BUBBLE}, section 6: ZB-V",
            requires=_folded_layout,
            folded=True,
            ends_as_layers=False,
        ),
        PipelineSchedule(
            name="dualpipe",
            bubble_s=_dualpipe_s,
            in_flight=lambda place: min(place.m, place.p + 1),
            source="DeepSeek-V3 Technical Report, arXiv:2412.19437, table 2",
            requires=_dualpipe_layout,
            requires_batch=_dualpipe_batch,
            ends_as_layers=False,
            weight_copies=2,  # both ends of the model on a rank
            hides_experts=True,
        ),
    ],
)


def default_schedule(virtual: int) -> Schedule:
    """The schedule of a layout with ``virtual`` chunks a stage that names none."""
    return "interleaved" if virtual > 1 else "1f1b"


def pipeline_s(
    schedule: Schedule, passes: Sequence[Pass], micro_batches: int, virtual: float = 1
) -> float:
    """Seconds of all micro-batches through all stages: m passes of the slowest one, and the bubble.

    Args:
        schedule: the schedule's name; a single stage has no bubble in any.
        passes: one pass of each stage.
        micro_batches: m.
        virtual: v for the bubble; no whole number where chunks differ by a layer
            (``pipeline_stages.bubble_divisor``).
    """
    # every stage waits for the slowest one
    steady_s = micro_batches * max(stage.total_s for stage in passes)
    if len(passes) == 1:
        return steady_s
    return steady_s + SCHEDULES[schedule].bubble_s(passes, virtual)
