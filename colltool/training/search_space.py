"""The layouts that a search tries.

:class:`Space` is the entry: :meth:`Space.sizes` lists the sizes that fill the ranks,
:meth:`Space.base_layout` makes a configuration of each, :meth:`Space.variants` adds every sharding and
recomputation; what does not fit together is counted in ``refused``.

The values of each size are from the functions registered below :class:`Space`, one for each choice.
They stand in the order in which sizes are chosen: each is called with the sizes that those above it
chose, so that their loops are nested in this order. What a user keeps is in
:mod:`colltool.training.layout_constraints`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, options_of
from colltool.base.primitives import ceil_div
from colltool.training.constraint_violations import constraint_violations
from colltool.training.files import Recomputed
from colltool.training.files.job import ShardFile
from colltool.training.job import Job, PlainCall
from colltool.training.job_configuration import default_etp, shard_of
from colltool.training.layout_constraints import (
    Constraints,
    idle_overrides,
    overridden,
    overridden_choices,
)
from colltool.training.layout_keys import possible_overlap
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig, ParallelLayout, Shard
from colltool.training.registry import Registered, members, proposal
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS, default_schedule
from colltool.training.violation import Violation

# tokens of a sequence that context parallelism leaves on a rank at least: published runs keep more
# (Llama 3: 8,192)
MIN_TOKENS = 4096
# combinations of sizes of a search, about a minute: seven times those of a shipped job on 512 ranks
MAX_SIZES = 20_000
# shardings that any job can have; the others need the size of a shard group from the job
UNGROUPED_MODES = tuple(sharding.name for sharding in SHARDINGS.values() if not sharding.grouped)
# a layout without sharding and recomputation, and the calls that the job lists itself
BaseLayout = tuple[ParallelConfig, tuple[PlainCall, ...]]


def leaves_nothing_open(job: Job) -> bool:
    """Whether a user's overrides leave nothing of a job's layout to a search."""
    chosen = overridden_choices(job)
    # dp follows from the others; recompute may be layers or modules, which is no constraint
    needed = {member.choice for member in members("search", "job")} - {"dp", "recompute"}
    if job.draft.moe is None:
        needed.discard("ep")
    if chosen.pp == 1:
        needed.discard("virtual")
    return overridden(job, "recompute") and needed <= chosen.values.keys()


class Sizes(NamedTuple):
    """Sizes of a layout that fills the ranks, and its micro-batch in sequences; named like the choices
    of the functions below."""

    tp: int
    cp: int
    ep: int
    pp: int
    virtual: int
    dp: int
    micro: int


class Space:
    """The layouts of a job on a number of ranks.

    Args:
        kept: what every layout keeps.

    Attributes:
        refused: number of layouts that do not fit together, by the key at fault.
        examples: the first violation of each such key.
        recomputes: what is recomputed, in each layout.
    """

    def __init__(
        self, job: Job, model: TransformerModel, shape: Shape, ranks: int, kept: Constraints
    ) -> None:
        self.job = job
        self.model = model
        self.shape = shape
        self.ranks = ranks
        self.kept = kept
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, Violation] = {}
        self._overridden_keys = {key for key, _ in job.overrides}
        choices = {member.choice: member for member in members("search", "job")}
        # sharding and recomputation do not depend on sizes, and their functions take none; the other
        # choices stand in the order in which sizes are chosen
        self._shard_files = {
            mode: _shard_file(job.file.shard, mode) for mode in choices.pop("shard").make(self)
        }
        self.recomputes = choices.pop("recompute").make(self)
        self._size_choices = list(choices.values())

    def sizes(self) -> list[Sizes]:
        """Return all sizes to try, small micro-batches before larger ones of the same layout;
        ColltoolError where they are more than a search takes."""
        all_sizes = list(islice(self._sizes(), MAX_SIZES + 1))
        if len(all_sizes) > MAX_SIZES:
            raise ColltoolError(
                f"more than {MAX_SIZES:,} combinations of sizes fill {self.ranks} ranks",
                argument="keep",
                fix=f"say some of them, such as {self._to_keep(all_sizes)}",
            )
        return all_sizes

    def _to_keep(self, all_sizes: list[Sizes]) -> str:
        """Return constraints on the two sizes of which the most values are tried, as a user writes
        them."""
        number_of_values = {}  # by size
        for name in ("tp", "pp", "micro", "cp", "ep", "virtual"):
            if getattr(self.kept, name) is None:
                number_of_values[name] = len({getattr(sizes, name) for sizes in all_sizes})
        widest = sorted(number_of_values, key=lambda name: -number_of_values[name])[:2]
        keep = {name: getattr(all_sizes[0], name) for name in widest}
        separator = f" {options_of('keep')[-1]} "  # " --keep ", the long form of the option
        text = separator.join(f"{name}={value}" for name, value in keep.items())
        return argument_text("keep", keep, text=text)

    def base_layout(self, sizes: Sizes) -> BaseLayout | None:
        """Return a layout without sharding and recomputation; None where it does not fit together,
        which they do not decide."""
        config = self.config(sizes)
        dimension = config.compression.on if config.compression else "dp"
        if dimension != "dp" and getattr(config.layout, dimension) == 1:
            self.refuse(
                Violation(
                    ("compression", "on"),
                    f"{dimension} is 1: there is nothing to compress",
                    "on: dp",
                )
            )
            return None
        violations = [*self._dropped_overrides(config), *constraint_violations(config)]
        if violations:
            self.refuse(violations[0])
            return None
        try:
            return config, self.job.plain_calls(config)
        except ColltoolError as error:
            self.refuse(Violation(("calls",), error.what, error.fix))
            return None

    def _dropped_overrides(self, config: ParallelConfig) -> Iterator[Violation]:
        """Yield a violation for each of a user's overrides that a layout would drop; without a fix,
        as users see only how many layouts were refused for it, and why."""
        schedule = self.kept.schedule
        if schedule is not None and config.schedule != schedule:
            yield Violation(
                ("schedule",),
                f"pp {config.layout.pp} with virtual {config.layout.virtual} does not run {schedule}",
                "",
            )
        for name in possible_overlap(self.job.file.overlap, config)[1]:
            if f"overlap.{name}" in self._overridden_keys:
                yield Violation(("overlap", name), f"nothing of {name} can be hidden here", "")
        yield from idle_overrides(self.job, config)

    def variants(self, base: ParallelConfig) -> Iterator[ParallelConfig]:
        """Yield a layout with every sharding that has replicas to shard over, and every
        recomputation."""
        has_replicas = base.gradient_ranks > 1 or (
            self.shape.moe is not None and base.layout.expert_dp > 1
        )
        for shard in self.shards(base.layout):
            sharding = shard.strategy
            if shard.mode != self.kept.shard and sharding.optimizer and not has_replicas:
                continue
            config = base._replace(shard=shard)
            # of shardings only groups can contradict a layout, which was checked without
            violations = constraint_violations(config) if sharding.grouped else []
            if violations:
                self.refuse(violations[0])
                continue
            for recompute in self.recomputes:
                yield config._replace(recompute=recompute)

    def shards(self, layout: ParallelLayout) -> Iterator[Shard]:
        """Yield the shardings of a layout.

        ZeRO-2 shards gradients, which under a pipeline would go out every micro-batch: no library
        does that, but a job that has this mode already means it.
        """
        meant = self.kept.shard, self.job.file.shard.mode
        for mode, file in self._shard_files.items():
            sharding = SHARDINGS[mode]
            every_micro_batch = sharding.gradients and not sharding.weights and layout.pp > 1
            if mode in meant or not every_micro_batch:
                yield shard_of(file, layout, self.job.draft.precision.grads)

    def refuse(self, violation: Violation) -> None:
        """Count a layout that does not fit together, by the key at fault."""
        key = ".".join(str(part) for part in violation.path)
        self.refused[key] += 1
        self.examples.setdefault(key, violation)

    def _sizes(self) -> Iterator[Sizes]:
        """Yield all sizes that fill the ranks; lazily, so that a caller can stop at too many."""
        chosen: Iterator[ChosenSizes] = iter([{}])
        for proposed in self._size_choices:
            chosen = self._with_choice(proposed, chosen)
        return (Sizes(**sizes) for sizes in chosen)

    def _with_choice(
        self, proposed: Registered, chosen: Iterator[ChosenSizes]
    ) -> Iterator[ChosenSizes]:
        """Yield the sizes that are chosen already with each value of another choice."""
        kept = None
        # dp follows from the others, and its function sees to what a user keeps
        if proposed.choice != "dp":
            kept = getattr(self.kept, proposed.choice)
        for sizes in chosen:
            # a size that a user keeps is tried everywhere, and refused with its reason
            values: list[Any] = [kept]
            if kept is None:
                values = proposed.make(self, sizes)
            for size in values:
                yield {**sizes, proposed.choice: size}

    def config(self, sizes: Sizes) -> ParallelConfig:
        """Return the configuration of sizes, without sharding and recomputation; what they do not
        say is the job's, sequence parallelism on unless it says otherwise."""
        draft = self.job.draft
        file = self.job.file.layout
        sp = self.kept.sp
        if sp is None:
            sp = file.sp if "sp" in file.model_fields_set else True
        sp = sp and sizes.tp > 1
        etp = self.kept.etp or file.etp or default_etp(sizes.tp, sp=sp, experts=draft.moe)
        # all but the micro-batch are fields of a layout
        layout_sizes = sizes._asdict()
        micro_batch = layout_sizes.pop("micro")
        layout = draft.layout._replace(
            **layout_sizes,
            sp=sp,
            etp=etp,
            # a job's own stages hold for as many stages only
            stages=draft.layout.stages if len(draft.layout.stages) == sizes.pp else (),
        )
        schedule = draft.schedule
        if sizes.pp == 1 or draft.pipeline.is_default:
            schedule = default_schedule(sizes.virtual)
        config = draft._replace(
            layout=layout,
            micro_batch=micro_batch,
            schedule=schedule,
            recompute="none",
            shard=shard_of(_UNSHARDED, layout, draft.precision.grads),
        )
        return config._replace(overlap=possible_overlap(self.job.file.overlap, config)[0])


_UNSHARDED = ShardFile()


# sizes of a layout that are chosen already, by the names of their choices
ChosenSizes = Mapping[str, int]


@proposal("search", choice="tp")
def tensor_groups(space: Space, _: ChosenSizes) -> list[int]:
    """Widths of tensor groups that divide the heads."""
    return [tp for tp in divisors(space.ranks) if space.shape.heads % tp == 0]


@proposal("search", choice="cp")
def parts_of_a_sequence(space: Space, chosen: ChosenSizes) -> list[int]:
    """Context parallelism that leaves each rank MIN_TOKENS, and the job's."""
    draft = space.job.draft
    most = max(1, draft.sequence // MIN_TOKENS)
    sizes = divisors(space.ranks // chosen["tp"])
    return [cp for cp in sizes if cp <= most or cp == draft.layout.cp]


@proposal("search", choice="pp")
def pipelines(space: Space, chosen: ChosenSizes) -> list[int]:
    """Stages that have a layer at least."""
    sizes = divisors(space.ranks // (chosen["tp"] * chosen["cp"]))
    return [pp for pp in sizes if pp <= space.model.layers]


@proposal("search", choice="dp")
def replicas(space: Space, chosen: ChosenSizes) -> list[int]:
    """The number that fills the ranks, if each replica then has a sequence at least."""
    dp, left_over = divmod(space.ranks, chosen["tp"] * chosen["cp"] * chosen["pp"])
    if left_over or space.kept.dp not in (None, dp):
        return []
    sequences = space.job.draft.global_batch
    if dp > sequences:
        space.refuse(
            Violation(("batch", "global"), f"{sequences} sequences are fewer than dp {dp}", "")
        )
        return []
    return [dp]


@proposal("search", choice="ep")
def expert_groups(space: Space, chosen: ChosenSizes) -> list[int]:
    """Numbers of ranks that divide the experts; 1 without experts."""
    experts = space.shape.moe.experts if space.shape.moe else 1
    return [ep for ep in divisors(experts) if ep <= chosen["tp"] * chosen["cp"] * chosen["dp"]]


@proposal("search", choice="micro")
def micro_batches(space: Space, chosen: ChosenSizes) -> list[int]:
    """Powers of two, and the job's; the smallest first: where one does not fit the memory, no larger
    one does."""
    draft = space.job.draft
    most = draft.global_batch // chosen["dp"]
    sizes = {2**power for power in range(most.bit_length())}
    if draft.micro_batch <= most:
        sizes.add(draft.micro_batch)
    return sorted(sizes)


@proposal("search", choice="virtual")
def chunks(space: Space, chosen: ChosenSizes) -> list[int]:
    """Chunks per stage; 1 where the job's schedule is no default, and says itself how many."""
    if chosen["pp"] == 1 or not space.job.draft.pipeline.is_default:
        return [1]
    return chunk_counts(space.model.layers, chosen["pp"])


@proposal("search", choice="shard")
def shardings(space: Space) -> list[str]:
    """Shardings that any job can have, and the job's; it may come twice, and is tried once."""
    kept = space.kept.shard
    return [kept] if kept else [*UNGROUPED_MODES, space.job.file.shard.mode]


@proposal("search", choice="recompute")
def recomputations(space: Space) -> list[Recomputed]:
    """Recomputations that save memory: flash attention keeps no scores to compute again. The only one
    is what a user keeps, or overrides with a number of layers or with modules."""
    if space.kept.recompute:
        return [space.kept.recompute]
    draft = space.job.draft
    stack = draft.stack
    if overridden(space.job, "recompute") and not RECOMPUTATIONS[draft.recompute].whole:
        return [draft.recompute]
    keeps_scores = stack is not None and not stack.flash
    whole = [row for row in RECOMPUTATIONS.values() if row.whole]
    return [row.name for row in whole if row.layers or keeps_scores or not row.core]


def chunk_counts(layers: int, pp: int) -> list[int]:
    """Chunks per stage worth a try: divisors of the layers of the longest stage, also of one that
    counts the ends as layers."""
    counts = set(divisors(ceil_div(layers, pp)))
    with_ends = layers + 2  # the embedding and the head in the place of a layer each
    if with_ends % pp == 0:
        counts.update(divisors(with_ends // pp))
    return sorted(counts)


def divisors(number: int) -> list[int]:
    """Divisors of a number, the smallest first."""
    small = [size for size in range(1, int(number**0.5) + 1) if number % size == 0]
    large = [number // size for size in reversed(small)]
    return sorted({*small, *large})


def _shard_file(file: ShardFile, mode: str) -> ShardFile:
    """Return the job's sharding in another mode, without the keys that this mode does not have.

    Raises:
        ColltoolError: the mode needs a shard group, and the job gives none.
    """
    sharding = SHARDINGS[mode]
    keys = ["bucket", "grad_bytes"]
    if sharding.weights:
        keys += ["gathers", "reshard"]
    if sharding.grouped:
        keys.append("group")
        if file.group is None:
            raise ColltoolError(
                f"{mode} needs the size of its shard group, and the job says none",
                argument="keep",
                fix=f"shard: {{mode: {mode}, group: 8}} in the job",
            )
    return ShardFile.model_validate({"mode": mode} | {key: getattr(file, key) for key in keys})
