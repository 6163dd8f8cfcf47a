"""The layouts that a search tries: which sizes, what follows from them, and why the others are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given, options_of
from colltool.training.constraint_violations import Violation, constraint_violations
from colltool.training.files.job import ShardFile
from colltool.training.invalid_overlap import possible_overlap
from colltool.training.job import Job, PlainCall
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig
from colltool.training.resolve import shard_of
from colltool.training.search_results import MODES, Constraints
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS, default_schedule

LEAST_TOKENS = 4096  # of a sequence on a rank: runs that were published with context parallelism keep more (Llama 3: 8,192)
MOST_SIZES = 20_000  # seven times those of a shipped job on 512 ranks: about a minute


class Sizes(NamedTuple):
    tp: int
    cp: int
    ep: int
    pp: int
    virtual: int
    dp: int
    micro: int


class Frame(NamedTuple):
    """A layout before its sharding and recomputation, which do not decide whether it fits together."""

    setup: ParallelConfig
    plain: tuple[PlainCall, ...]


class Space:
    def __init__(self, job: Job, model: TransformerModel, shape: Shape, ranks: int, kept: Constraints) -> None:
        self.job, self.model, self.shape, self.ranks, self.kept = job, model, shape, ranks, kept
        self.refused: Counter[str] = Counter()  # layouts that do not fit together, by the key at fault
        self.examples: dict[str, Violation] = {}  # the first of each
        file = job.file.shard
        modes = [kept.shard] if kept.shard else list(dict.fromkeys((*MODES, file.mode)))
        self._shards = {mode: _shard_file(file, mode) for mode in modes if mode}
        saves = job.draft.stack is not None and not job.draft.stack.flash
        every = [row.name for row in RECOMPUTATIONS.values() if row.layers or not row.core or saves]
        self._passes = [kept.recompute] if kept.recompute else every

    def sizes(self) -> list[Sizes]:
        """All that are tried; ColltoolError where they are more than a search takes."""
        found = list(islice(self._sizes(), MOST_SIZES + 1))
        if len(found) > MOST_SIZES:
            free = [name for name in ("tp", "pp", "micro", "cp", "ep", "virtual") if getattr(self.kept, name) is None]
            ways = {name: len({getattr(one, name) for one in found}) for name in free}
            most = sorted(free, key=lambda name: -ways[name])[:2]
            keep = {name: getattr(found[0], name) for name in most}
            said = given("keep", keep, text=f" {options_of('keep')[-1]} ".join(f"{name}={value}" for name, value in keep.items()))
            what = f"more than {MOST_SIZES:,} combinations of sizes fill {self.ranks} ranks"
            raise ColltoolError(what, argument="keep", fix=f"say some of them, such as {said}")
        return found

    def frame(self, sizes: Sizes) -> Frame | None:
        """None where the sizes do not fit together."""
        config = self._setup(sizes)
        found = list(_unsent(config)) or constraint_violations(config)
        try:
            plain = self.job.plain_calls(config) if not found else ()
        except ColltoolError as error:
            found = [Violation(("calls",), error.what, error.fix)]
        if found:
            self.refuse(found[0])
            return None
        return Frame(config, plain)

    def variants(self, frame: ParallelConfig) -> Iterator[ParallelConfig]:
        """A frame with every sharding that has replicas to shard over, and every recomputation."""
        replicas = frame.gradient_ranks > 1 or (self.shape.moe is not None and frame.layout.expert_dp > 1)
        for mode, file in self._shards.items():
            if not self._worth_a_try(mode, frame.layout.pp, replicas=replicas):
                continue
            config = frame._replace(shard=shard_of(file, frame.layout, frame.precision.grads))
            if SHARDINGS[mode].grouped and (found := constraint_violations(config)):
                self.refuse(found[0])
                continue
            for again in self._passes:
                yield config._replace(recompute=again)

    def _worth_a_try(self, mode: str, pp: int, *, replicas: bool) -> bool:
        """Sharding needs replicas. Gradients sharded under a pipeline would go out every micro-batch: no library does that."""
        row = SHARDINGS[mode]
        if mode == self.kept.shard or not row.optimizer:
            return True
        return replicas and not (row.gradients and not row.weights and pp > 1 and self.job.file.shard.mode != mode)

    def refuse(self, found: Violation) -> None:
        key = ".".join(str(part) for part in found.path)
        self.refused[key] += 1
        self.examples.setdefault(key, found)

    def _sizes(self) -> Iterator[Sizes]:
        experts, batch, kept = self.shape.moe.experts if self.shape.moe else 1, self.job.draft.global_batch, self.kept
        for tp, cp, pp, dp in self._grids():
            if dp > batch:
                self.refuse(Violation(("batch", "global"), f"{batch} sequences are fewer than dp {dp}", ""))
                continue
            for ep in _tried(kept.ep, (e for e in divisors(experts) if e <= tp * cp * dp)):
                for micro in _tried(kept.micro, self._micros(batch // dp)):
                    for virtual in _tried(kept.virtual, self._chunks(pp)):
                        yield Sizes(tp=tp, cp=cp, ep=ep, pp=pp, virtual=virtual, dp=dp, micro=micro)

    def _grids(self) -> Iterator[tuple[int, int, int, int]]:
        kept, layers = self.kept, self.model.layers
        rings, own = max(1, self.job.draft.sequence // LEAST_TOKENS), self.job.draft.layout.cp
        for tp in _tried(kept.tp, (t for t in divisors(self.ranks) if self.shape.heads % t == 0)):
            for cp in _tried(kept.cp, (c for c in divisors(self.ranks // tp) if c <= rings or c == own)):
                for pp in _tried(kept.pp, (p for p in divisors(self.ranks // (tp * cp)) if p <= layers)):
                    if self.ranks % (tp * cp * pp) == 0:
                        yield tp, cp, pp, self.ranks // (tp * cp * pp)

    def _micros(self, most: int) -> list[int]:
        own = self.job.draft.micro_batch
        return sorted({2**power for power in range(most.bit_length())} | ({own} if own <= most else set()))

    def _chunks(self, pp: int) -> list[int]:
        """Divisors of a stage's layers, of the longest where they are unequal; and of a stage that counts the ends as layers."""
        if pp == 1 or not self.job.draft.pipeline.from_layout:
            return [1]
        ends = self.model.layers + 2  # the embedding and the head in the place of a layer each
        held = {-(-self.model.layers // pp)} | ({ends // pp} if ends % pp == 0 else set())
        return sorted({chunks for layers in held for chunks in divisors(layers)})

    def _setup(self, sizes: Sizes) -> ParallelConfig:
        draft, file = self.job.draft, self.job.file.layout
        asked = file.sp if "sp" in file.model_fields_set else True
        sp = (asked if self.kept.sp is None else self.kept.sp) and sizes.tp > 1
        etp = self.kept.etp or file.etp or (sizes.tp if self.shape.moe and not sp else 1)
        stages = draft.layout.stages if len(draft.layout.stages) == sizes.pp else ()
        layout = draft.layout._replace(tp=sizes.tp, sp=sp, cp=sizes.cp, ep=sizes.ep, etp=etp, pp=sizes.pp, virtual=sizes.virtual,
                                       dp=sizes.dp, stages=stages)  # fmt: skip
        schedule = draft.schedule if sizes.pp > 1 and not draft.pipeline.from_layout else default_schedule(sizes.virtual)
        config = draft._replace(layout=layout, micro_batch=sizes.micro, schedule=schedule, recompute="none",
                               shard=shard_of(ShardFile(), layout, draft.precision.grads))  # fmt: skip
        return config._replace(overlap=possible_overlap(self.job.file.overlap, config)[0])


def divisors(number: int) -> list[int]:
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return small + [number // one for one in reversed(small) if one * one != number]


def _tried(kept: int | None, others: Iterable[int]) -> Iterable[int]:
    return others if kept is None else (kept,)


def _shard_file(file: ShardFile, mode: str) -> ShardFile:
    """The job's sharding in another mode, without the keys that this mode does not have."""
    row = SHARDINGS[mode]
    if row.grouped and file.group is None:
        fix = f"shard: {{mode: {mode}, group: 8}} in the job"
        raise ColltoolError(f"{mode} needs the size of its shard group, and the job says none", argument="keep", fix=fix)
    keys = {"bucket", "grad_bytes"} | ({"gathers", "reshard"} if row.weights else set()) | ({"group"} if row.grouped else set())
    return ShardFile.model_validate({"mode": mode} | {key: getattr(file, key) for key in keys})


def _unsent(config: ParallelConfig) -> Iterator[Violation]:
    on = config.compression.on if config.compression else "dp"
    if on != "dp" and getattr(config.layout, on) == 1:
        yield Violation(("compression", "on"), f"{on} is 1: there is nothing to compress", "on: dp")
