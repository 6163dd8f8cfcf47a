"""The layouts that a search tries: what they keep, which sizes, what follows from them, and why the
others are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, nearest, options_of, quote
from colltool.base.formatting import parse_count
from colltool.base.primitives import ceil_div
from colltool.training.constraint_violations import (
    Violation,
    constraint_violations,
    invalid_overlaps,
)
from colltool.training.files import Recompute, ShardMode, written
from colltool.training.files.job import OverlapFile, ShardFile
from colltool.training.job import Job, PlainCall
from colltool.training.job_configuration import default_etp, overlap_of, shard_of
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import Overlap, ParallelConfig
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS, default_schedule

# of a sequence on a rank: runs that were published with context parallelism keep more (Llama 3:
# 8,192)
LEAST_TOKENS = 4096
MOST_SIZES = 20_000  # seven times those of a shipped job on 512 ranks: about a minute
SIZES = ("tp", "cp", "ep", "etp", "pp", "virtual", "micro")
# others need a group size from the job
MODES = tuple(row.name for row in SHARDINGS.values() if not row.grouped)
WORDS: dict[str, dict[str, Any]] = {
    "sp": {"true": True, "false": False},
    "shard": {mode: mode for mode in SHARDINGS},
    "recompute": {row.name: row.name for row in RECOMPUTATIONS.values() if row.whole},
}
NAMES = ("tp", "sp", "cp", "ep", "etp", "pp", "virtual", "micro", "shard", "recompute")

Frame = tuple[ParallelConfig, tuple[PlainCall, ...]]
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

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    @property
    def label(self) -> str:
        return ", ".join(f"{name}={written(value)}" for name, value in self.values.items())


def constraints_of(keep: Keep | None) -> Constraints:
    """Read what a user keeps; ColltoolError where a name or a value is not known."""
    if keep is None:
        return Constraints()
    example = f"write {argument_text('keep', {'tp': 8}, text='tp=8')}"
    known = f"constraints: {', '.join(NAMES)}"
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise ColltoolError(
            f"expected names with values, got {quote(keep)}", argument="keep", fix=example
        )
    if not isinstance(keep, Mapping):
        keep = dict(_split(text, f"{example}; {known}") for text in keep)
    found: dict[str, Any] = {}
    for name, value in keep.items():
        if name not in NAMES:
            raise ColltoolError(
                f"no constraint is called {quote(str(name))}",
                argument="keep",
                fix=f"{nearest(str(name), list(NAMES))} {known}".strip(),
            )
        found[name] = _value(name, value)
    return Constraints(**found)


def _split(text: Any, fix: str) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not value.strip():
        raise ColltoolError(f"{quote(text)} is not NAME=VALUE", argument="keep", fix=fix)
    return name.strip(), value.strip()


def _value(name: str, value: Any) -> Any:
    if name in SIZES:
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
        modes = [kept.shard] if kept.shard else [*MODES, job.file.shard.mode]
        self._shards = {mode: _shard_file(job.file.shard, mode) for mode in modes}
        self._passes = [kept.recompute] if kept.recompute else self._recomputations()

    def _recomputations(self) -> list[Any]:
        """Recomputations that save memory: flash attention keeps no scores to compute again."""
        stack = self.job.draft.stack
        scores = stack is not None and not stack.flash
        whole = [row for row in RECOMPUTATIONS.values() if row.whole]
        return [row.name for row in whole if row.layers or scores or not row.core]

    def sizes(self) -> list[Sizes]:
        """All that are tried; ColltoolError where they are more than a search takes."""
        found = list(islice(self._sizes(), MOST_SIZES + 1))
        if len(found) > MOST_SIZES:
            raise ColltoolError(
                f"more than {MOST_SIZES:,} combinations of sizes fill {self.ranks} ranks",
                argument="keep",
                fix=f"say some of them, such as {self._to_keep(found)}",
            )
        return found

    def _to_keep(self, found: list[Sizes]) -> str:
        """The two constraints that would leave the fewest sizes."""
        ways = {}
        for name in ("tp", "pp", "micro", "cp", "ep", "virtual"):
            if getattr(self.kept, name) is None:
                ways[name] = len({getattr(sizes, name) for sizes in found})
        widest = sorted(ways, key=lambda name: -ways[name])[:2]
        keep = {name: getattr(found[0], name) for name in widest}
        between = f" {options_of('keep')[-1]} "
        text = between.join(f"{name}={value}" for name, value in keep.items())
        return argument_text("keep", keep, text=text)

    def frame(self, sizes: Sizes) -> Frame | None:
        """A layout before sharding and recomputation, which do not decide whether it fits together;
        None where it does not."""
        config = self._setup(sizes)
        on = config.compression.on if config.compression else "dp"
        if on != "dp" and getattr(config.layout, on) == 1:
            what = f"{on} is 1: there is nothing to compress"
            self.refuse(Violation(("compression", "on"), what, "on: dp"))
            return None
        violations = constraint_violations(config)
        if violations:
            self.refuse(violations[0])
            return None
        try:
            return config, self.job.plain_calls(config)
        except ColltoolError as error:
            self.refuse(Violation(("calls",), error.what, error.fix))
            return None

    def variants(self, frame: ParallelConfig) -> Iterator[ParallelConfig]:
        """A frame with every sharding that has replicas to shard over, and every recomputation.

        Gradients sharded under a pipeline would go out every micro-batch: no library does that.
        """
        replicas = frame.gradient_ranks > 1 or (
            self.shape.moe is not None and frame.layout.expert_dp > 1
        )
        for mode, file in self._shards.items():
            row = SHARDINGS[mode]
            often = row.gradients and not row.weights and frame.layout.pp > 1
            # a job that has this mode already means it
            if self.job.file.shard.mode == mode:
                often = False
            if mode != self.kept.shard and row.optimizer and (often or not replicas):
                continue
            config = frame._replace(shard=shard_of(file, frame.layout, frame.precision.grads))
            violations = constraint_violations(config) if row.grouped else []
            if violations:
                self.refuse(violations[0])
                continue
            for recompute in self._passes:
                yield config._replace(recompute=recompute)

    def refuse(self, found: Violation) -> None:
        """Count a layout that does not fit together, by the key at fault."""
        key = ".".join(str(part) for part in found.path)
        self.refused[key] += 1
        self.examples.setdefault(key, found)

    def _sizes(self) -> Iterator[Sizes]:
        kept, sequences = self.kept, self.job.draft.global_batch
        experts = self.shape.moe.experts if self.shape.moe else 1
        for tp, cp, pp, dp in self._grids():
            if dp > sequences:
                what = f"{sequences} sequences are fewer than dp {dp}"
                self.refuse(Violation(("batch", "global"), what, ""))
                continue
            fitting = [ep for ep in divisors(experts) if ep <= tp * cp * dp]
            for ep in _tried(kept.ep, fitting):
                # the smallest first: where one does not fit the memory, no larger one does
                for micro in _tried(kept.micro, self._micro_batches(sequences // dp)):
                    for virtual in _tried(kept.virtual, self._chunks(pp)):
                        yield Sizes(tp=tp, cp=cp, ep=ep, pp=pp, virtual=virtual, dp=dp, micro=micro)

    def _grids(self) -> Iterator[tuple[int, int, int, int]]:
        """tp, cp, pp and dp that fill the ranks."""
        kept, layers = self.kept, self.model.layers
        rings = max(1, self.job.draft.sequence // LEAST_TOKENS)
        own = self.job.draft.layout.cp
        for tp in _tried(kept.tp, divisors(self.ranks)):
            # a size that was asked for is refused with its reason
            if kept.tp is None and self.shape.heads % tp:
                continue
            cuts = [cp for cp in divisors(self.ranks // tp) if cp <= rings or cp == own]
            for cp in _tried(kept.cp, cuts):
                pipelines = [pp for pp in divisors(self.ranks // (tp * cp)) if pp <= layers]
                for pp in _tried(kept.pp, pipelines):
                    dp, left = divmod(self.ranks, tp * cp * pp)
                    if not left:
                        yield tp, cp, pp, dp

    def _micro_batches(self, most: int) -> list[int]:
        """Powers of two, and the job's own."""
        found = {2**power for power in range(most.bit_length())}
        if self.job.draft.micro_batch <= most:
            found.add(self.job.draft.micro_batch)
        return sorted(found)

    def _chunks(self, pp: int) -> list[int]:
        """Divisors of a stage's layers, of the longest where they are unequal; and of a stage that
        counts the ends as layers."""
        if pp == 1 or not self.job.draft.pipeline.from_layout:
            return [1]
        # layers of the longest stage
        found = set(divisors(ceil_div(self.model.layers, pp)))
        ends = self.model.layers + 2  # the embedding and the head in the place of a layer each
        if ends % pp == 0:
            found.update(divisors(ends // pp))
        return sorted(found)

    def _setup(self, sizes: Sizes) -> ParallelConfig:
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


def values_of(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Keys and values that make this setup of the job, without what its file says already."""
    file, layout, shard = job.file, config.layout, job.file.shard
    stack = job.draft.stack
    recompute = file.recompute or (stack.recompute if stack is not None else "none")
    etp = file.layout.etp or default_etp(layout.tp, sp=layout.sp, experts=config.moe)
    # key, value of this setup, value of the file
    rows: list[tuple[str, Any, Any]] = [
        ("layout.tp", layout.tp, file.layout.tp),
        ("layout.cp", layout.cp, file.layout.cp),
        ("layout.ep", layout.ep, file.layout.ep),
        ("layout.pp", layout.pp, file.layout.pp),
        ("layout.virtual", layout.virtual, file.layout.virtual),
        ("layout.sp", layout.sp, file.layout.sp if layout.tp > 1 else layout.sp),
        ("layout.etp", layout.etp, etp),
        ("layout.stages", layout.stages or None, file.layout.stages or None),
        ("layout.dp", layout.dp, layout.dp if file.layout.dp == "auto" else file.layout.dp),
        ("batch.micro", config.micro_batch, file.batch.micro if file.batch else config.micro_batch),
        ("schedule", config.schedule, file.schedule or default_schedule(layout.virtual)),
        ("recompute", config.recompute, recompute),
        ("shard.mode", config.shard.mode, shard.mode),
        ("shard.group", shard.group if config.shard.group else None, shard.group),
        ("shard.gathers", shard.gathers if config.shard.layers else None, shard.gathers),
        ("shard.reshard", shard.reshard if config.shard.layers else None, shard.reshard),
    ]
    found = {key: value for key, value, before in rows if value != before}
    for name in possible_overlap(file.overlap, config)[1]:
        found[f"overlap.{name}"] = None
    return tuple((key, "null" if value is None else written(value)) for key, value in found.items())


def divisors(number: int) -> list[int]:
    """Divisors of a number, the smallest first."""
    small = [size for size in range(1, int(number**0.5) + 1) if number % size == 0]
    large = [number // size for size in reversed(small)]
    return sorted({*small, *large})


def _tried(kept: int | None, others: Iterable[int]) -> Iterable[int]:
    return others if kept is None else (kept,)


def _shard_file(file: ShardFile, mode: str) -> ShardFile:
    """The job's sharding in another mode, without the keys that this mode does not have."""
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
    """What hides in a layout, and the keys that the file would have to leave out there."""
    layout = config.layout
    left: tuple[str, ...] = ()
    # leaving one key out may make another one idle
    while True:
        overlap = overlap_of(file, layout, config.schedule, config.stack)
        idle = []
        if "tp" in overlap.asked and overlap.tp == "split" and not (layout.sp and layout.tp > 1):
            idle.append("tp")
        if overlap.ep and layout.ep == 1:
            idle.append("ep")
        for wrong in invalid_overlaps(config._replace(overlap=overlap)):
            if wrong.path[0] == "overlap":
                idle.append(str(wrong.path[1]))
        more = tuple(name for name in idle if getattr(file, name) is not None)
        if not more:
            return overlap, left
        file = file.model_copy(update=dict.fromkeys(more))
        left += more
