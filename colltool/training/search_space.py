"""The layouts that a search tries.

:class:`Constraints` is what a user keeps. :class:`Space` lists the sizes that fill the ranks, makes a
configuration of each, adds every sharding and recomputation, and counts what does not fit together.
:func:`values_of` returns the job's keys that make a layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, nearest, options_of, quote
from colltool.base.formatting import parse_count
from colltool.base.primitives import ceil_div
from colltool.training.constraint_violations import (
    constraint_violations,
    invalid_overlaps,
)
from colltool.training.files import Recompute, Recomputed, Schedule, ShardMode, written
from colltool.training.files.job import OverlapFile, ShardFile
from colltool.training.job import Job, PlainCall
from colltool.training.job_configuration import default_etp, overlap_of, shard_of
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import (
    Overlap,
    ParallelConfig,
    ParallelLayout,
    Shard,
    value_of,
)
from colltool.training.registry import Registered, members, proposal
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS, default_schedule
from colltool.training.violation import Violation

# tokens of a sequence that context parallelism leaves on a rank at least: published runs keep more
# (Llama 3: 8,192)
MIN_TOKENS = 4096
# combinations of sizes of a search, about a minute: seven times those of a shipped job on 512 ranks
MAX_SIZES = 20_000
# shardings that any job can have; others need a group size from the job
MODES = tuple(row.name for row in SHARDINGS.values() if not row.grouped)
# values of the other constraints, by how they are written
WORDS: dict[str, dict[str, Any]] = {
    "sp": {"true": True, "false": False},
    "shard": {mode: mode for mode in SHARDINGS},
    "recompute": {row.name: row.name for row in RECOMPUTATIONS.values() if row.whole},
}
# keys of a job that decide its layout; what a user sets of them, a search keeps
CHOICES = {
    "layout.tp": "tp",
    "layout.sp": "sp",
    "layout.cp": "cp",
    "layout.ep": "ep",
    "layout.etp": "etp",
    "layout.pp": "pp",
    "layout.virtual": "virtual",
    "schedule": "schedule",
    "layout.dp": "dp",
    "batch.micro": "micro",
    "shard.mode": "shard",
    "recompute": "recompute",
}

# a layout without sharding and recomputation, and the calls that the job lists itself
BaseLayout = tuple[ParallelConfig, tuple[PlainCall, ...]]
Keep = Mapping[str, Any] | Iterable[str]  # KEY=VALUE each, a later one wins; or values by name


class Constraints(NamedTuple):
    """What every layout of a search keeps; None is searched."""

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
    # what only the job can say
    dp: int | None = None
    schedule: Schedule | None = None

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={written(value)}" for name, value in self.values.items())


# of all constraints
NAMES = tuple(name for name in Constraints._fields if name not in ("dp", "schedule"))


def constraints_of(keep: Keep | None) -> Constraints:
    """Read what a user keeps.

    Raises:
        ColltoolError: a name or a value is not known.
    """
    if keep is None:
        return Constraints()
    example = f"write {argument_text('keep', {'tp': 8}, text='tp=8')}"
    known = f"constraints: {', '.join(NAMES)}"
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise ColltoolError(
            f"expected names with values, got {quote(keep)}", argument="keep", fix=example
        )
    if not isinstance(keep, Mapping):
        keep = dict(_name_and_value(text, f"{example}; {known}") for text in keep)
    found: dict[str, Any] = {}
    for name, value in keep.items():
        if name not in NAMES:
            raise ColltoolError(
                f"no constraint is called {quote(str(name))}",
                argument="keep",
                fix=f"{nearest(str(name), list(NAMES))} {known}".strip(),
            )
        found[name] = _parsed(name, value)
    return Constraints(**found)


def overridden(job: Job, key: str) -> bool:
    """Whether a user set a key of a job, by itself, in part, or with the whole section."""
    section = key.partition(".")[0]
    names = [name for name, _ in job.overrides]
    return any(name in (key, section) or name.startswith(f"{key}.") for name in names)


def chosen_by(job: Job) -> Constraints:
    """Return what a user's overrides of a job say of its layout."""
    found = {}
    for key, name in CHOICES.items():
        if overridden(job, key):
            found[name] = _said(job, key)
    if overridden(job, "layout.stages") and job.draft.layout.stages:
        found["pp"] = len(job.draft.layout.stages)
    return Constraints(**found)


def _said(job: Job, key: str) -> Any:
    """Return what a job says of its layout; None where it leaves it open, or recomputes layers or
    modules, which is no constraint."""
    if key == "batch.micro":
        return job.draft.micro_batch
    value = attrgetter(key)(job.file)
    left_open = value == "auto" or (key == "recompute" and not isinstance(value, str))
    return None if left_open else value


def idle_overrides(job: Job, config: ParallelConfig) -> Iterator[Violation]:
    """Yield a violation for each of a user's overrides that changes nothing in a layout."""
    asked = {key for key, _ in job.overrides}
    layout = config.layout
    for key in ("deduplicate", "dispatcher"):
        in_vain = layout.ep == 1 and getattr(layout, key)
        if in_vain and f"layout.{key}" in asked:
            what = "ep is 1: no tokens are sent to experts of other ranks"
            yield Violation(("layout", key), what, "layout.ep of at least 2, or leave it out")
    if "layout.cp_mode" in asked and layout.cp == 1:
        what = "cp is 1: no part of a sequence is exchanged"
        yield Violation(("layout", "cp_mode"), what, "layout.cp of at least 2, or leave it out")


def is_pinned(job: Job) -> bool:
    """Whether a user's overrides leave nothing of a job's layout to a search."""
    chosen = chosen_by(job)
    needed = {member.choice for member in members("search", "job")} - {"dp", "recompute"}
    if job.draft.moe is None:
        needed.discard("ep")
    if chosen.pp == 1:
        needed.discard("virtual")
    return overridden(job, "recompute") and needed <= chosen.values.keys()


def kept_of(job: Job, kept: Constraints) -> Constraints:
    """Return what every layout of a search keeps: constraints, and the overrides of its job.

    Raises:
        ColltoolError: the two contradict each other.
    """
    chosen = chosen_by(job).values
    for key, name in CHOICES.items():
        value = kept.values.get(name)
        if value is not None and name in chosen and chosen[name] != value:
            raise ColltoolError(
                f"{name}={written(value)}, and the job has {key}={written(chosen[name])}",
                argument="keep",
                fix="give one of the two",
            )
    return kept._replace(**chosen)


def _name_and_value(text: Any, fix: str) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not value.strip():
        raise ColltoolError(f"{quote(text)} is not NAME=VALUE", argument="keep", fix=fix)
    return name.strip(), value.strip()


def _parsed(name: str, value: Any) -> Any:
    """Return the value of a constraint; ColltoolError where it has no such value."""
    if name not in WORDS:
        try:
            return parse_count(value, "keep", 1, 10**9)
        except ColltoolError:
            pass
        fix = f"write {argument_text('keep', {name: 8}, text=f'{name}=8')}"
        raise ColltoolError(
            f"{name} is a whole number of at least 1, got {quote(value)}", argument="keep", fix=fix
        )
    known = WORDS[name]
    found = known.get(written(value))
    if found is None:
        fix = f"{nearest(str(value), list(known))} one of {', '.join(known)}".strip()
        raise ColltoolError(f"{name} cannot be {quote(value)}", argument="keep", fix=fix)
    return found


class Sizes(NamedTuple):
    """Sizes of a layout that fills the ranks."""

    tp: int
    cp: int
    ep: int
    pp: int
    virtual: int
    dp: int
    micro: int


class Space:
    """The layouts of a job on a number of ranks."""

    def __init__(
        self, job: Job, model: TransformerModel, shape: Shape, ranks: int, kept: Constraints
    ) -> None:
        self.job, self.model, self.shape, self.ranks, self.kept = job, model, shape, ranks, kept
        # layouts that do not fit together, by the key at fault
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, Violation] = {}  # the first of each
        # of a user's overrides, those that act in some layouts only
        self._asked = {key for key, _ in job.overrides}
        found = {member.choice: member for member in members("search", "job")}
        self._shards = {
            mode: _shard_file(job.file.shard, mode) for mode in found.pop("shard").make(self)
        }
        self.recomputes = found.pop("recompute").make(self)
        self._axes = list(found.values())

    def sizes(self) -> list[Sizes]:
        """Return all sizes to try; ColltoolError where they are more than a search takes."""
        found = list(islice(self._sizes(), MAX_SIZES + 1))
        if len(found) > MAX_SIZES:
            raise ColltoolError(
                f"more than {MAX_SIZES:,} combinations of sizes fill {self.ranks} ranks",
                argument="keep",
                fix=f"say some of them, such as {self._to_keep(found)}",
            )
        return found

    def _to_keep(self, found: list[Sizes]) -> str:
        """Return the two constraints that leave the fewest sizes, as a user writes them."""
        choices = {}
        for name in ("tp", "pp", "micro", "cp", "ep", "virtual"):
            if getattr(self.kept, name) is None:
                choices[name] = len({getattr(sizes, name) for sizes in found})
        widest = sorted(choices, key=lambda name: -choices[name])[:2]
        keep = {name: getattr(found[0], name) for name in widest}
        separator = f" {options_of('keep')[-1]} "
        text = separator.join(f"{name}={value}" for name, value in keep.items())
        return argument_text("keep", keep, text=text)

    def base_layout(self, sizes: Sizes) -> BaseLayout | None:
        """Return a layout without sharding and recomputation; None where it does not fit together,
        which they do not decide."""
        config = self.config(sizes)
        dimension = config.compression.on if config.compression else "dp"
        if dimension != "dp" and getattr(config.layout, dimension) == 1:
            what = f"{dimension} is 1: there is nothing to compress"
            self.refuse(Violation(("compression", "on"), what, "on: dp"))
            return None
        violations = [*self._dropped(config), *constraint_violations(config)]
        if violations:
            self.refuse(violations[0])
            return None
        try:
            return config, self.job.plain_calls(config)
        except ColltoolError as error:
            self.refuse(Violation(("calls",), error.what, error.fix))
            return None

    def _dropped(self, config: ParallelConfig) -> Iterator[Violation]:
        """Yield a violation for each of a user's overrides that a layout would drop."""
        schedule = self.kept.schedule
        if schedule is not None and config.schedule != schedule:
            what = f"pp {config.layout.pp} with virtual {config.layout.virtual} does not run {schedule}"
            yield Violation(("schedule",), what, "")
        if not self._asked:
            return
        for name in possible_overlap(self.job.file.overlap, config)[1]:
            if f"overlap.{name}" in self._asked:
                yield Violation(("overlap", name), f"nothing of {name} can be hidden here", "")
        yield from idle_overrides(self.job, config)

    def variants(self, base: ParallelConfig) -> Iterator[ParallelConfig]:
        """Yield a layout with every sharding that has replicas to shard over, and every
        recomputation."""
        replicas = base.gradient_ranks > 1 or (
            self.shape.moe is not None and base.layout.expert_dp > 1
        )
        for shard in self.shards(base.layout):
            row = shard.strategy
            if shard.mode != self.kept.shard and row.optimizer and not replicas:
                continue
            config = base._replace(shard=shard)
            violations = constraint_violations(config) if row.grouped else []
            if violations:
                self.refuse(violations[0])
                continue
            for recompute in self.recomputes:
                yield config._replace(recompute=recompute)

    def shards(self, layout: ParallelLayout) -> Iterator[Shard]:
        """Yield the shardings of a layout.

        Gradients sharded under a pipeline would go out every micro-batch: no library does that, but
        a job that has this mode already means it.
        """
        meant = self.kept.shard, self.job.file.shard.mode
        for mode, file in self._shards.items():
            row = SHARDINGS[mode]
            every_micro_batch = row.gradients and not row.weights and layout.pp > 1
            if mode in meant or not every_micro_batch:
                yield shard_of(file, layout, self.job.draft.precision.grads)

    def refuse(self, found: Violation) -> None:
        """Count a layout that does not fit together, by the key at fault."""
        key = ".".join(str(part) for part in found.path)
        self.refused[key] += 1
        self.examples.setdefault(key, found)

    def _sizes(self) -> Iterator[Sizes]:
        """Yield all sizes that fill the ranks, small micro-batches first."""
        found: Iterator[Found] = iter([{}])
        for axis in self._axes:
            found = self._chosen(axis, found)
        for sizes in found:
            yield Sizes(**sizes)

    def _chosen(self, axis: Registered, found: Iterator[Found]) -> Iterator[Found]:
        """Yield sizes with each value of one more choice."""
        kept = None
        if axis.choice != "dp":
            kept = getattr(self.kept, axis.choice)
        for sizes in found:
            tried = axis.make(self, sizes)
            # a size that a user keeps is tried, and refused with its reason
            if kept is not None:
                tried = [kept]
            for size in tried:
                yield {**sizes, axis.choice: size}

    def config(self, sizes: Sizes) -> ParallelConfig:
        """Return the configuration of sizes, without sharding and recomputation."""
        draft, file = self.job.draft, self.job.file.layout
        sp = self.kept.sp
        if sp is None:
            sp = file.sp if "sp" in file.model_fields_set else True
        sp = sp and sizes.tp > 1
        etp = self.kept.etp or file.etp or default_etp(sizes.tp, sp=sp, experts=draft.moe)
        layout = draft.layout._replace(
            tp=sizes.tp,
            sp=sp,
            cp=sizes.cp,
            ep=sizes.ep,
            etp=etp,
            pp=sizes.pp,
            virtual=sizes.virtual,
            dp=sizes.dp,
            stages=draft.layout.stages if len(draft.layout.stages) == sizes.pp else (),
        )
        schedule = draft.schedule
        if sizes.pp == 1 or draft.pipeline.from_layout:
            schedule = default_schedule(sizes.virtual)
        config = draft._replace(
            layout=layout,
            micro_batch=sizes.micro,
            schedule=schedule,
            recompute="none",
            shard=shard_of(_UNSHARDED, layout, draft.precision.grads),
        )
        return config._replace(overlap=possible_overlap(self.job.file.overlap, config)[0])


_UNSHARDED = ShardFile()


Found = Mapping[str, int]
"""Sizes of a layout that are chosen already, by name."""


@proposal("search", choice="tp")
def tensor_groups(space: Space, _: Found) -> list[int]:
    """Widths of tensor groups that divide the heads."""
    return [tp for tp in divisors(space.ranks) if space.shape.heads % tp == 0]


@proposal("search", choice="cp")
def parts_of_a_sequence(space: Space, found: Found) -> list[int]:
    """Context parallelism that leaves each rank MIN_TOKENS, and the job's."""
    draft = space.job.draft
    most = max(1, draft.sequence // MIN_TOKENS)
    sizes = divisors(space.ranks // found["tp"])
    return [cp for cp in sizes if cp <= most or cp == draft.layout.cp]


@proposal("search", choice="pp")
def pipelines(space: Space, found: Found) -> list[int]:
    """Stages that have a layer at least."""
    sizes = divisors(space.ranks // (found["tp"] * found["cp"]))
    return [pp for pp in sizes if pp <= space.model.layers]


@proposal("search", choice="dp")
def replicas(space: Space, found: Found) -> list[int]:
    """Take as many as fill the ranks, each with a sequence at least."""
    dp, rest = divmod(space.ranks, found["tp"] * found["cp"] * found["pp"])
    if rest or space.kept.dp not in (None, dp):
        return []
    sequences = space.job.draft.global_batch
    if dp > sequences:
        what = f"{sequences} sequences are fewer than dp {dp}"
        space.refuse(Violation(("batch", "global"), what, ""))
        return []
    return [dp]


@proposal("search", choice="ep")
def expert_groups(space: Space, found: Found) -> list[int]:
    """Ranks that divide the experts."""
    experts = space.shape.moe.experts if space.shape.moe else 1
    return [ep for ep in divisors(experts) if ep <= found["tp"] * found["cp"] * found["dp"]]


@proposal("search", choice="micro")
def micro_batches(space: Space, found: Found) -> list[int]:
    """Powers of two, and the job's; the smallest first: where one does not fit the memory, no larger
    one does."""
    most, own = space.job.draft.global_batch // found["dp"], space.job.draft.micro_batch
    sizes = {2**power for power in range(most.bit_length())}
    if own <= most:
        sizes.add(own)
    return sorted(sizes)


@proposal("search", choice="virtual")
def chunks(space: Space, found: Found) -> list[int]:
    """Chunks per stage."""
    if found["pp"] == 1 or not space.job.draft.pipeline.from_layout:
        return [1]
    return chunk_counts(space.model.layers, found["pp"])


@proposal("search", choice="shard")
def shardings(space: Space) -> list[str]:
    """Shardings that any job can have, and the job's."""
    kept = space.kept.shard
    return [kept] if kept else [*MODES, space.job.file.shard.mode]


@proposal("search", choice="recompute")
def recomputations(space: Space) -> list[Recomputed]:
    """Recomputations that save memory: flash attention keeps no scores to compute again."""
    if space.kept.recompute:
        return [space.kept.recompute]
    draft, stack = space.job.draft, space.job.draft.stack
    if overridden(space.job, "recompute") and not RECOMPUTATIONS[draft.recompute].whole:
        return [draft.recompute]
    scores = stack is not None and not stack.flash
    whole = [row for row in RECOMPUTATIONS.values() if row.whole]
    return [row.name for row in whole if row.layers or scores or not row.core]


def values_of(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Return keys and values that turn the job into this configuration, without those that its file
    has already."""
    file, layout, shard = job.file, config.layout, config.shard
    # of keys that a job may leave open; of others that it leaves open, the value of this setup
    usual = {
        "layout.etp": default_etp(layout.tp, sp=layout.sp, experts=config.moe),
        "schedule": default_schedule(layout.virtual),
        "recompute": job.draft.recompute,
    }
    found: dict[str, Any] = {}
    for key in CHOICES:
        value, before = value_of(config, key), _said(job, key)
        if before is None:
            before = usual.get(key, value)
        if value != before and (key != "layout.sp" or layout.tp > 1):
            found[key] = value
    if layout.stages != tuple(file.layout.stages or ()):
        found["layout.stages"] = layout.stages or None
    # what another sharding does not have
    open_keys = []
    if not shard.group:
        open_keys.append("group")
    if not shard.shards_weights:
        open_keys += ["gathers", "reshard"]
    for name in open_keys:
        if getattr(file.shard, name) is not None:
            found[f"shard.{name}"] = None
    for name in possible_overlap(file.overlap, config)[1]:
        found[f"overlap.{name}"] = None
    return tuple((key, "null" if value is None else written(value)) for key, value in found.items())


def pins_of(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Return keys and values that turn the job into this configuration and leave nothing to a
    search: all that :func:`values_of` returns, and the sizes that the file has already."""
    layout = config.layout
    idle: list[str] = []
    if layout.tp == 1:
        idle.append("sp")
    if config.moe is None:
        idle += ["ep", "etp"]
    if layout.pp == 1:
        idle += ["virtual", "schedule"]
    if not RECOMPUTATIONS[config.recompute].whole:
        idle.append("recompute")
    texts = {
        key: written(value_of(config, key)) for key, choice in CHOICES.items() if choice not in idle
    }
    return tuple((texts | dict(values_of(job, config))).items())


def chunk_counts(layers: int, pp: int) -> list[int]:
    """Chunks per stage worth a try: divisors of the layers of the longest stage, also of one that
    counts the ends as layers."""
    found = set(divisors(ceil_div(layers, pp)))
    ends = layers + 2  # the embedding and the head in the place of a layer each
    if ends % pp == 0:
        found.update(divisors(ends // pp))
    return sorted(found)


def divisors(number: int) -> list[int]:
    """Divisors of a number, the smallest first."""
    small = [size for size in range(1, int(number**0.5) + 1) if number % size == 0]
    large = [number // size for size in reversed(small)]
    return sorted({*small, *large})


def _shard_file(file: ShardFile, mode: str) -> ShardFile:
    """Return the job's sharding in another mode, without the keys that this mode does not have."""
    row = SHARDINGS[mode]
    keys = ["bucket", "grad_bytes"]
    if row.weights:
        keys += ["gathers", "reshard"]
    if row.grouped:
        keys.append("group")
        if file.group is None:
            raise ColltoolError(
                f"{mode} needs the size of its shard group, and the job says none",
                argument="keep",
                fix=f"shard: {{mode: {mode}, group: 8}} in the job",
            )
    return ShardFile.model_validate({"mode": mode} | {key: getattr(file, key) for key in keys})


def possible_overlap(file: OverlapFile, config: ParallelConfig) -> tuple[Overlap, tuple[str, ...]]:
    """Return the overlap that is possible in a layout, and the keys of the file that would have to
    be left out for it."""
    layout = config.layout
    dropped: tuple[str, ...] = ()
    # leaving one key out may make another one idle
    while True:
        overlap = overlap_of(file, layout, config.schedule, config.stack)
        idle = []
        if "tp" in overlap.asked and overlap.tp == "split" and not (layout.sp and layout.tp > 1):
            idle.append("tp")
        if overlap.ep and layout.ep == 1:
            idle.append("ep")
        for violation in invalid_overlaps(config._replace(overlap=overlap)):
            if violation.path[0] == "overlap":
                idle.append(str(violation.path[1]))
        to_drop = tuple(name for name in idle if getattr(file, name) is not None)
        if not to_drop:
            return overlap, dropped
        file = file.model_copy(update=dict.fromkeys(to_drop))
        dropped += to_drop
