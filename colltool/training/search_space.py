"""The layouts that a search tries: what they keep, which sizes, what follows from them, and why the
others are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, given, nearest, options_of, shown
from colltool.base.formatting import parse_count
from colltool.training.constraint_violations import (
    Violation,
    constraint_violations,
    invalid_overlaps,
)
from colltool.training.files import Recompute, ShardMode, written
from colltool.training.files.job import OverlapFile, ShardFile
from colltool.training.job import Job, PlainCall, overlap_of, shard_of
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
    example = f"write {given('keep', {'tp': 8}, text='tp=8')}"
    if keep is None:
        return Constraints()
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise ColltoolError(
            f"expected names with values, got {shown(keep)}", argument="keep", fix=example
        )
    known, found = f"constraints: {', '.join(NAMES)}", dict[str, Any]()
    for name, value in (
        keep.items()
        if isinstance(keep, Mapping)
        else [_split(one, f"{example}; {known}") for one in keep]
    ):
        if name not in NAMES:
            fix = f"{nearest(str(name), list(NAMES))} {known}".strip()
            raise ColltoolError(
                f"no constraint is called {shown(str(name))}", argument="keep", fix=fix
            )
        found[name] = _value(name, value)
    return Constraints(**found)


def _split(text: Any, fix: str) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not value.strip():
        raise ColltoolError(f"{shown(text)} is not NAME=VALUE", argument="keep", fix=fix)
    return name.strip(), value.strip()


def _value(name: str, value: Any) -> Any:
    if name in SIZES:
        try:
            return parse_count(value, "keep", 1, 10**9)
        except ColltoolError:
            pass
        fix = f"write {given('keep', {name: 8}, text=f'{name}=8')}"
        raise ColltoolError(
            f"{name} is a whole number of at least 1, got {shown(value)}", argument="keep", fix=fix
        )
    known = WORDS[name]
    if (found := known.get(written(value))) is None:
        fix = f"{nearest(str(value), list(known))} one of {', '.join(known)}".strip()
        raise ColltoolError(f"{name} cannot be {shown(value)}", argument="keep", fix=fix)
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
    def __init__(
        self, job: Job, model: TransformerModel, shape: Shape, ranks: int, kept: Constraints
    ) -> None:
        self.job, self.model, self.shape, self.ranks, self.kept = job, model, shape, ranks, kept
        # layouts that do not fit together, by the key at fault
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, Violation] = {}  # the first of each
        file = job.file.shard
        self._shards = {
            mode: _shard_file(file, mode)
            for mode in ([kept.shard] if kept.shard else (*MODES, file.mode))
        }
        saves = job.draft.stack is not None and not job.draft.stack.flash
        every = [
            row.name
            for row in RECOMPUTATIONS.values()
            if row.whole and (row.layers or not row.core or saves)
        ]
        self._passes = [kept.recompute] if kept.recompute else every

    def sizes(self) -> list[Sizes]:
        """All that are tried; ColltoolError where they are more than a search takes."""
        found = list(islice(self._sizes(), MOST_SIZES + 1))
        if len(found) > MOST_SIZES:
            free = [
                name
                for name in ("tp", "pp", "micro", "cp", "ep", "virtual")
                if getattr(self.kept, name) is None
            ]
            ways = {name: len({getattr(one, name) for one in found}) for name in free}
            keep = {
                name: getattr(found[0], name)
                for name in sorted(free, key=lambda name: -ways[name])[:2]
            }
            said = given(
                "keep",
                keep,
                text=f" {options_of('keep')[-1]} ".join(
                    f"{name}={value}" for name, value in keep.items()
                ),
            )
            what = f"more than {MOST_SIZES:,} combinations of sizes fill {self.ranks} ranks"
            raise ColltoolError(what, argument="keep", fix=f"say some of them, such as {said}")
        return found

    def frame(self, sizes: Sizes) -> Frame | None:
        """Before sharding and recomputation, which do not decide whether a layout fits together;
        None where it does not."""
        config, found = self._setup(sizes), list[Violation]()
        on = config.compression.on if config.compression else "dp"
        if on != "dp" and getattr(config.layout, on) == 1:
            found = [
                Violation(
                    ("compression", "on"), f"{on} is 1: there is nothing to compress", "on: dp"
                )
            ]
        if not (found := found or constraint_violations(config)):
            try:
                return config, self.job.plain_calls(config)
            except ColltoolError as error:
                found = [Violation(("calls",), error.what, error.fix)]
        self.refuse(found[0])
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
            often = (
                row.gradients
                and not row.weights
                and frame.layout.pp > 1
                and self.job.file.shard.mode != mode
            )
            if mode != self.kept.shard and row.optimizer and (often or not replicas):
                continue
            config = frame._replace(shard=shard_of(file, frame.layout, frame.precision.grads))
            if row.grouped and (found := constraint_violations(config)):
                self.refuse(found[0])
                continue
            for again in self._passes:
                yield config._replace(recompute=again)

    def refuse(self, found: Violation) -> None:
        key = ".".join(str(part) for part in found.path)
        self.refused[key] += 1
        self.examples.setdefault(key, found)

    def _sizes(self) -> Iterator[Sizes]:
        experts, kept, draft = (
            self.shape.moe.experts if self.shape.moe else 1,
            self.kept,
            self.job.draft,
        )
        for tp, cp, pp, dp in self._grids():
            if dp > draft.global_batch:
                self.refuse(
                    Violation(
                        ("batch", "global"),
                        f"{draft.global_batch} sequences are fewer than dp {dp}",
                        "",
                    )
                )
                continue
            most, own = draft.global_batch // dp, draft.micro_batch
            micros = sorted(
                {2**power for power in range(most.bit_length())} | ({own} if own <= most else set())
            )
            for ep in _tried(kept.ep, (e for e in divisors(experts) if e <= tp * cp * dp)):
                for micro in _tried(kept.micro, micros):
                    for virtual in _tried(kept.virtual, self._chunks(pp)):
                        yield Sizes(tp=tp, cp=cp, ep=ep, pp=pp, virtual=virtual, dp=dp, micro=micro)

    def _grids(self) -> Iterator[tuple[int, int, int, int]]:
        kept, layers = self.kept, self.model.layers
        rings, own = max(1, self.job.draft.sequence // LEAST_TOKENS), self.job.draft.layout.cp
        for tp in _tried(kept.tp, (t for t in divisors(self.ranks) if self.shape.heads % t == 0)):
            for cp in _tried(
                kept.cp, (c for c in divisors(self.ranks // tp) if c <= rings or c == own)
            ):
                for pp in _tried(
                    kept.pp, (p for p in divisors(self.ranks // (tp * cp)) if p <= layers)
                ):
                    if self.ranks % (tp * cp * pp) == 0:
                        yield tp, cp, pp, self.ranks // (tp * cp * pp)

    def _chunks(self, pp: int) -> list[int]:
        """Divisors of a stage's layers, of the longest where they are unequal; and of a stage that
        counts the ends as layers."""
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
        tried = sizes._asdict()
        micro = tried.pop("micro")
        layout = draft.layout._replace(**tried, sp=sp, etp=etp, stages=stages)
        schedule = (
            draft.schedule
            if sizes.pp > 1 and not draft.pipeline.from_layout
            else default_schedule(sizes.virtual)
        )
        shard = shard_of(ShardFile(), layout, draft.precision.grads)
        config = draft._replace(
            layout=layout, micro_batch=micro, schedule=schedule, recompute="none", shard=shard
        )
        return config._replace(overlap=possible_overlap(self.job.file.overlap, config)[0])


def values_of(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Keys and values that make this setup of the job, without what its file says already."""
    file, layout, given, shard = job.file, config.layout, job.file.layout, job.file.shard
    sizes = ((key, getattr(layout, key)) for key in ("tp", "cp", "ep", "pp", "virtual"))
    found: dict[str, Any] = {
        f"layout.{key}": size for key, size in sizes if size != getattr(given, key)
    }
    if layout.tp > 1 and layout.sp != given.sp:
        found["layout.sp"] = layout.sp
    if layout.etp != (given.etp or (layout.tp if config.moe is not None and not layout.sp else 1)):
        found["layout.etp"] = layout.etp
    if given.stages and not layout.stages:
        found["layout.stages"] = None
    if given.dp not in ("auto", layout.dp):
        found["layout.dp"] = layout.dp
    if file.batch is not None and config.micro_batch != file.batch.micro:
        found["batch.micro"] = config.micro_batch
    if config.schedule != (file.schedule or default_schedule(layout.virtual)):
        found["schedule"] = config.schedule
    usual = job.draft.stack.recompute if job.draft.stack is not None else "none"
    if config.recompute != (file.recompute or usual):
        found["recompute"] = config.recompute
    if config.shard.mode != shard.mode:
        found["shard.mode"] = config.shard.mode
    gone = (() if config.shard.group else ("group",)) + (
        () if config.shard.layers else ("gathers", "reshard")
    )
    found |= {f"shard.{key}": None for key in gone if getattr(shard, key) is not None}
    found |= {f"overlap.{key}": None for key in possible_overlap(file.overlap, config)[1]}
    return tuple((key, "null" if value is None else written(value)) for key, value in found.items())


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
        raise ColltoolError(
            f"{mode} needs the size of its shard group, and the job says none",
            argument="keep",
            fix=fix,
        )
    keys = (
        {"bucket", "grad_bytes"}
        | ({"gathers", "reshard"} if row.weights else set())
        | ({"group"} if row.grouped else set())
    )
    return ShardFile.model_validate({"mode": mode} | {key: getattr(file, key) for key in keys})


def possible_overlap(file: OverlapFile, config: ParallelConfig) -> tuple[Overlap, tuple[str, ...]]:
    """What hides in a layout, and the keys that the file would have to leave out there."""
    layout = config.layout
    left: tuple[str, ...] = ()
    while True:
        overlap = overlap_of(file, layout, config.schedule, config.stack)
        idle = (
            ["tp"]
            if "tp" in overlap.asked and overlap.tp == "split" and not (layout.sp and layout.tp > 1)
            else []
        )
        idle += ["ep"] if overlap.ep and layout.ep == 1 else []
        wrong = invalid_overlaps(config._replace(overlap=overlap))
        idle += [str(one.path[1]) for one in wrong if one.path[0] == "overlap"]
        more = tuple(name for name in idle if getattr(file, name) is not None)
        if not more:
            return overlap, left
        file, left = file.model_copy(update=dict.fromkeys(more)), left + more
