"""The search of layouts: against every layout written out as a file, and against plan."""

from __future__ import annotations

import dataclasses
import random
from itertools import product
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.fastest_layout import fastest_layout
from colltool.training.layout_constraints import Constraints, constraints_of
from colltool.training.layout_keys import changed_keys
from colltool.training.layout_results import TIE, LayoutSearch
from colltool.training.layout_search import search
from colltool.training.memory import memory, memory_bytes
from colltool.training.parallel_config import ParallelConfig
from colltool.training.search_space import Space, divisors
from colltool.training.step_time import step_time
from colltool.training.strategies import SHARDINGS

RANKS, FEWER = 16, 8
FABRIC: dict[str, Any] = {
    "schema": "colltool.fabric/1",
    "name": "nodes",
    "tiers": [
        {"name": "nvlink", "topology": "star", "size": 8, "alpha": "1us", "bandwidth": "400GB/s"},
        {"name": "ib", "topology": "star", "size": 2, "alpha": "5us", "bandwidth": "50GB/s"},
    ],
}
SMALL: dict[str, Any] = {
    "model": {
        "layers": 8,
        "hidden": 4096,
        "heads": 4,
        "head_dim": 1024,
        "ffn": 16384,
        "vocab": 32000,
    },
    "sequence": 8192,
    "batch": {"global": 48, "micro": 3},
    "device": "a100-40gb",
    "stack": "megatron",
}
EXPERTS = SMALL | {
    "model": {
        "layers": 6,
        "hidden": 2048,
        "heads": 4,
        "head_dim": 512,
        "ffn": 4096,
        "vocab": 32000,
        "moe": {"experts": 4, "top_k": 2, "ffn": 4096, "shared_ffn": 1024, "dense_layers": 1},
    },
    "batch": {"global": 16},
}
WITHOUT_FLASH = SMALL | {
    "stack": "megatron-2021",
    "sequence": 2048,
    "shard": {"mode": "hsdp", "group": 2},
}


def searched(job: dict[str, Any], **keys: Any) -> LayoutSearch:
    return colltool.search_layouts(job, FABRIC, RANKS, **keys)


@pytest.fixture(scope="module")
def small() -> LayoutSearch:
    """All layouts of the small job."""
    return searched(SMALL)


def every_setup(job: dict[str, Any], ranks: int = RANKS, **keep: Any) -> list[ParallelConfig]:
    loaded = colltool.load_job(job)
    assert loaded.draft.model is not None
    assert loaded.draft.model.shape is not None
    space = Space(loaded, loaded.draft.model, loaded.draft.model.shape, ranks, Constraints(**keep))
    frames = filter(None, map(space.base_layout, space.sizes()))
    return [setup for frame, _ in frames for setup in space.variants(frame)]


def written_out(job: dict[str, Any]) -> dict[tuple[Any, ...], ParallelConfig]:
    """Every combination of sizes as a job file of its own, those left out that the reader refuses;
    of 8192 tokens cp halves."""
    found = {}
    micros = [size for size in (1, 2, 3, 4, 8, 16) if size != 3 or job["batch"].get("micro") == 3]
    eps = (1, 2, 4) if "moe" in job["model"] else (1, 2)
    for tp, cp, ep, pp, virtual, micro in product(
        (1, 2, 4, 8), (1, 2), eps, (1, 2, 4, 8), range(1, 7), micros
    ):
        # one stage of several chunks is refused once
        if FEWER % (tp * cp * pp) or (pp == 1 and virtual > 2):
            continue
        # of a stage, also with the ends as layers
        held = [-(-job["model"]["layers"] // pp), (job["model"]["layers"] + 2) / pp]
        # a search tries chunks of as many layers
        if pp > 1 and all(layers % virtual for layers in held):
            continue
        layout = {"tp": tp, "sp": tp > 1, "cp": cp, "ep": ep, "pp": pp, "virtual": virtual}
        try:
            setup = colltool.load_job(
                job | {"layout": layout, "batch": job["batch"] | {"micro": micro}}
            ).setup(FEWER)
        except ColltoolError:
            continue
        replicas = setup.gradient_ranks > 1 or (
            "moe" in job["model"] and setup.layout.expert_dp > 1
        )
        modes = [
            row.name
            for row in SHARDINGS.values()
            if not row.grouped and (pp == 1 or row.gradients is row.weights)
        ]
        for mode, again in product(modes if replicas else ("ddp",), ("none", "full")):
            shard = setup.shard._replace(mode=mode, reshard=pp == 1, gathers=2 if pp == 1 else 1)
            found[tp, cp, ep, pp, virtual, micro, mode, again] = setup._replace(
                shard=shard, recompute=again
            )
    return found


@pytest.mark.alike(1)
@pytest.mark.parametrize("job", [SMALL, EXPERTS], ids=["dense", "experts"])
def test_every_layout_that_fits_and_no_other(job: dict[str, Any]) -> None:
    """Against all combinations written out as files: the same layouts, their steps, and the least
    of them the best."""
    setups = written_out(job)
    fit = {}
    for key, setup in setups.items():
        size = memory(setup)
        # without headroom, up to the last byte
        if size.capacity_bytes is not None and size.bytes <= size.capacity_bytes:
            fit[key] = setup
    found = colltool.search_layouts(job, FABRIC, FEWER, headroom=0)
    assert 100 < found.fit <= found.valid == len(setups)
    assert (found.fit < found.valid) is (job is SMALL)
    keys = [
        (c.tp, c.cp, c.ep, c.pp, c.virtual, c.micro, c.shard, c.recompute)
        for c in (one.choice for one in found.layouts)
    ]
    assert set(keys) == set(fit)
    assert len(keys) == len(fit) == found.priced
    costs = CollectiveCostCache(colltool.load_fabric(FABRIC))
    for key, one in list(zip(keys, found.layouts, strict=True))[::7]:
        step = step_time(fit[key], costs)
        assert (one.step_s, one.control_step_s) == pytest.approx(
            (step.step_s, step.control_s), rel=1e-12
        )
        assert one.memory_bytes == memory(fit[key]).bytes
    assert found.best.step_s == pytest.approx(
        min(step_time(setup, costs).step_s for setup in fit.values()), rel=1e-12
    )
    steps = [(one.step_s, one.memory_bytes) for one in found.layouts]
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    "job",
    [
        SMALL | {"layout": {"tp": 2, "pp": 2, "dp": 4, "stages": [5, 3]}, "recompute": "full"},
        SMALL
        | {
            "layout": {"tp": 4, "sp": False},
            "schedule": "gpipe",
            "calls": [{"primitive": "ar", "size": "1MB"}],
        },
        SMALL
        | {
            "layout": {"tp": 2, "sp": True},
            "overlap": {"tp": True},
            "shard": {"mode": "fsdp", "gathers": 1},
        },
        SMALL
        | {
            "layout": {"pp": 4, "virtual": 2},
            "schedule": "interleaved",
            "compression": {"on": "pp", "scheme": "fp16"},
        },
        EXPERTS | {"layout": {"tp": 4, "etp": 2, "sp": True, "pp": 2}, "schedule": "dualpipe"},
        EXPERTS | {"layout": {"ep": 2}, "overlap": {"ep": "shared"}, "schedule": "zbv"},
        WITHOUT_FLASH,
    ],
    ids=["stages", "named", "overlapped", "compressed", "dualpipe", "experts", "hsdp"],
)
def test_the_values_of_every_layout_make_it(job: dict[str, Any]) -> None:
    """The file with these values is this setup and no other, whatever the file said."""
    loaded, setups = colltool.load_job(job), every_setup(job)
    assert len(setups) > 100
    for setup in setups[::9]:
        values = [f"{key}={value}" for key, value in changed_keys(loaded, setup)]
        assert colltool.load_job(job, values).setup(RANKS) == setup, values
        assert memory_bytes(setup) == memory(setup).bytes


@pytest.mark.alike(1)
@pytest.mark.parametrize("job", ["llama3-70b", "gpt3-175b", "mixtral-8x7b"])
def test_plan_with_the_values_of_the_best_is_its_step(job: str) -> None:
    loaded = colltool.load_job(job, ["batch.global=256"])
    fabric = "dgx-a100" if job == "gpt3-175b" else "dgx-h100"
    found = colltool.search_layouts(
        loaded, fabric, 128, {"micro": 1, "cp": 1}, top=1, library="nccl"
    )
    best = colltool.load_job(
        job, ["batch.global=256", *(f"{key}={value}" for key, value in found.values)]
    )
    planned = colltool.plan(best, fabric, 128, library="nccl")
    one = found.best
    assert one.step_s == pytest.approx(planned.step_s, rel=1e-9)
    assert one.control_step_s == pytest.approx(planned.control_step_s, rel=1e-9)
    assert (one.memory_bytes, one.mfu, one.tokens_per_s) == pytest.approx(
        (planned.memory_bytes, planned.mfu, planned.tokens_per_s), rel=1e-9
    )
    assert one.network_share == pytest.approx(planned.network_share)
    own = colltool.plan(loaded, fabric, 128, library="nccl")
    assert found.own.searched is not None
    assert found.own.searched.step_s == pytest.approx(own.step_s, rel=1e-9)
    assert found.own.fits is own.memory.fits  # type: ignore[union-attr]


@pytest.mark.thorough
@swept(
    "keys",
    [
        {},
        {"pp": False},
        {"dp": False, "overhead": "3us", "sm_share": 0.1},
        {"pp": False, "sm_share": 0.1},
    ],
)
@swept(
    "job",
    [SMALL, EXPERTS, WITHOUT_FLASH | {"schedule": "zb1p"}, EXPERTS | {"schedule": "zbv"}],
    most=1,
)
def test_what_layouts_share_is_what_each_has_alone(
    job: dict[str, Any], keys: dict[str, Any]
) -> None:
    """Costs that have seen every other layout give the step that costs of its own give."""
    fabric = colltool.load_fabric(FABRIC)
    shared = CollectiveCostCache(fabric)
    setups = every_setup(job | {"overlap": keys})
    every = max(1, len(setups) // 120)
    for index, setup in enumerate(setups[::every]):
        found = step_time(setup, shared)
        if index % 20 == 0:
            alone = step_time(setup, CollectiveCostCache(fabric))
            assert (found.step_s, found.control_s) == (alone.step_s, alone.control_s)


@pytest.mark.thorough
def test_what_is_kept_is_kept(small: LayoutSearch) -> None:
    keep = {
        "tp": 2,
        "sp": False,
        "cp": 1,
        "pp": 2,
        "virtual": 2,
        "micro": 3,
        "shard": "zero1",
        "recompute": "none",
    }
    for name, value in keep.items():
        found = searched(SMALL, keep={name: value})
        assert {getattr(one.choice, name) for one in found.layouts} <= {value, False}
        assert found.kept == ((name, str(value).lower()),)
        if name != "sp":
            wanted = [one for one in small.layouts if getattr(one.choice, name) == value]
            kept = [
                one for one in found.layouts if name != "shard" or one.choice.dp * one.choice.cp > 1
            ]  # one replica may be kept
            assert [one.choice for one in kept] == [one.choice for one in wanted]
    both = searched(SMALL, keep=["tp=4", "tp=2", "shard=fsdp"])
    assert {(one.choice.tp, one.choice.shard) for one in both.layouts} == {(2, "fsdp")}


@pytest.mark.thorough
def test_what_is_never_tried_may_be_kept() -> None:
    """A ring of few tokens a rank, a pass that saves nothing, a micro-batch that is no power of
    two."""
    assert searched(SMALL, keep={"cp": 4}).best.choice.cp == 4
    assert searched(SMALL, keep={"recompute": "selective"}).best.choice.recompute == "selective"
    assert searched(SMALL | {"batch": {"global": 48}}, keep={"micro": 3}).best.choice.micro == 3
    assert searched(EXPERTS, keep={"tp": 2, "etp": 2}).best.choice.etp == 2


@pytest.mark.ci
def test_the_jobs_own_ring_is_tried_however_short() -> None:
    found = searched(SMALL | {"layout": {"cp": 4}})
    assert {one.choice.cp for one in found.layouts} == {1, 2, 4}


def test_ties_are_all_within_three_percent(small: LayoutSearch) -> None:
    found = small
    tied = [one for one in found.layouts if one.step_s <= found.best.step_s * (1 + TIE)]
    assert found.ties.layouts == len(tied) == sum(one.tie for one in found.layouts)
    assert 1 < found.ties.layouts < found.priced
    differ = {
        name
        for name in tied[0].choice._fields
        if len({getattr(one.choice, name) for one in tied}) > 1
    }
    assert set(found.ties.differ) == differ - {"schedule"}
    few = searched(SMALL, top=2)
    assert few.layouts == found.layouts[:2]
    assert few.ties == found.ties


def test_the_second_level_of_zero_sends_what_the_first_does() -> None:
    """Their steps are priced together; only memory tells them apart."""
    first, second = (searched(SMALL, keep={"shard": shard}) for shard in ("zero1", "zero2"))
    steps = {one.choice._replace(shard=""): one for one in second.layouts}
    assert first.layouts
    for one in first.layouts:
        other = steps[one.choice._replace(shard="")]
        assert one.step_s == other.step_s
        assert one.memory_bytes > other.memory_bytes or one.choice.dp * one.choice.cp == 1


@pytest.mark.ci
def test_the_jobs_own_layout_stands_beside(small: LayoutSearch) -> None:
    own = searched(SMALL | {"layout": {"tp": 4, "pp": 2}, "shard": {"mode": "zero1"}}).own
    assert own.searched is not None
    assert own.fits is True
    assert own.searched.of_best > 0
    assert (own.searched.choice.tp, own.searched.choice.pp, own.searched.choice.sp) == (4, 2, False)
    assert small.own.fits is False
    none = searched(SMALL | {"layout": {"dp": 3}, "batch": {"global": 48}}).own
    assert none.searched is None
    assert none.why == "tp x cp x pp x dp = 3 does not fill 16 ranks"


@pytest.mark.ci
def test_sequence_parallelism_unless_the_job_says_otherwise() -> None:
    assert all(
        one.choice.sp == (one.choice.tp > 1)
        for one in searched(SMALL | {"layout": {"tp": 4}}).layouts
    )
    assert not any(
        one.choice.sp for one in searched(SMALL | {"layout": {"tp": 4, "sp": False}}).layouts
    )


def test_schedules_follow_from_the_layout_or_the_job(small: LayoutSearch) -> None:
    plain = {
        (one.choice.pp > 1, one.choice.virtual > 1): one.choice.schedule for one in small.layouts
    }
    assert plain == {(False, False): "1f1b", (True, False): "1f1b", (True, True): "interleaved"}
    named = {
        (one.choice.pp > 1, one.choice.virtual): one.choice.schedule
        for one in searched(SMALL | {"schedule": "zb1p"}).layouts
    }
    assert named == {(False, 1): "1f1b", (True, 1): "zb1p"}


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    "job",
    [
        SMALL,
        EXPERTS,
        WITHOUT_FLASH,
        EXPERTS | {"layout": {"tp": 4, "etp": 2, "sp": True, "pp": 2}, "schedule": "dualpipe"},
        SMALL | {"model": SMALL["model"] | {"layers": 512}},
        SMALL | {"calls": [{"primitive": "ar", "group": "dp", "size": "1GB", "count": 3}]},
    ],
    ids=["dense", "experts", "scores", "dualpipe", "too large", "calls"],
)
def test_the_fastest_layout_is_the_best_of_a_search(job: dict[str, Any]) -> None:
    """Or all refuse for the same reason: a few of the best take fewer prices, and the best alone
    fewer memories too."""
    check_the_best(job)


# what may move a bound above the step: keys of a job
KEYS: list[dict[str, Any]] = [
    {},
    {"stack": "fsdp", "precision": {"params": "fp32"}},
    {"stack": "fsdp", "precision": {"params": "fp32"}, "shard": {"mode": "fsdp", "reshard": False}},
    {"layout": {"order": ["pp", "dp", "tp", "cp", "ep"]}},
    {"layout": {"order": ["tp", "ep", "cp", "pp", "dp"]}},
    {"layout": {"pp": 2, "stages": [2, 4]}},
    {"layout": {"tp": 2, "sp": True}, "overlap": {"tp": True, "dp": False}},
    {"overlap": {"pp": False, "overhead": "20us"}},
    {"schedule": "zb1p"},
    {"schedule": "zbv"},
    {"layout": {"pp": 2}, "schedule": "dualpipe"},
    {"schedule": "gpipe"},
    {"optimizer": "muon"},
    {"offload": {"optimizer": 0.5, "activations": 0.5}},
    {"lora": {"rank": 16}},
    {"recompute": {"layers": 1}},
    {"shard": {"mode": "zero2"}},
    {"layout": {"deduplicate": True, "ep": 2}},
]


def random_job(seed: int) -> dict[str, Any]:
    """A job of a size and keys drawn by ``seed``: the first that a job may have together."""
    draw = random.Random(seed)
    while True:
        job = dict(draw.choice([SMALL, EXPERTS, EXPERTS, WITHOUT_FLASH]))
        job["model"] = job["model"] | {"layers": draw.choice([6, 7, 10])}
        job["sequence"] = draw.choice([2048, 8192])
        job["batch"] = {"global": draw.choice([16, 24, 48])}
        for keys in draw.sample(KEYS, 2):
            job |= keys
        try:
            colltool.load_job(job)
        except ColltoolError:
            continue
        return job


@pytest.mark.ci
@swept("seed", range(60), most=1)
def test_the_fastest_layout_of_a_random_job_is_the_best(seed: int) -> None:
    check_the_best(random_job(seed))


def check_the_best(job: dict[str, Any]) -> None:
    loaded, fabric = colltool.load_job(job), colltool.load_fabric(FABRIC)

    def found(searched: Any) -> Any:
        try:
            return searched()
        except ColltoolError as error:
            return str(error)

    whole = found(lambda: search(loaded, fabric, FEWER))
    few = found(lambda: search(loaded, fabric, FEWER, top=3))
    best = found(lambda: fastest_layout(loaded, fabric, FEWER))
    if isinstance(whole, str):
        assert few == best == whole
        return
    assert few == dataclasses.replace(whole, layouts=whole.layouts[:3])
    assert best == (whole.best.choice, whole.values)


@pytest.mark.ci
def test_a_few_of_the_best_are_those_of_all_where_some_cannot_be_placed() -> None:
    sixes = FABRIC | {"tiers": [FABRIC["tiers"][0] | {"size": 6}, FABRIC["tiers"][1] | {"size": 8}]}
    whole = colltool.search_layouts(SMALL, sixes, 48)
    assert 0 < whole.priced < whole.fit
    for top in (1, 4):
        few = colltool.search_layouts(SMALL, sixes, 48, top=top)
        assert few == dataclasses.replace(whole, layouts=whole.layouts[:top])


def overridden(values: list[str], **keys: Any) -> LayoutSearch:
    return colltool.search_layouts(colltool.load_job(SMALL | keys, values), FABRIC, 16)


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("value", "name", "kept"),
    [
        ("layout.tp=2", "tp", 2),
        ("layout.dp=4", "dp", 4),
        ("layout.virtual=1", "virtual", 1),
        ("batch.micro=3", "micro", 3),
        ("shard.mode=fsdp", "shard", "fsdp"),
        ("recompute=full", "recompute", "full"),
        ("recompute.layers=1", "recompute", "layers"),
        ("schedule=zb1p", "schedule", "zb1p"),
    ],
)
def test_what_an_override_sets_is_kept(value: str, name: str, kept: Any) -> None:
    found = overridden([value])
    assert {getattr(one.choice, name) for one in found.layouts} == {kept}


@swept(
    ("values", "says"),
    [
        (["schedule=zb1p", "layout.pp=1"], "pp 1 with virtual 1 does not run zb1p"),
        (["layout.cp_mode=ulysses", "layout.cp=1"], "cp is 1: no part of a sequence is exchanged"),
        (["layout.deduplicate=true"], "ep is 1: no tokens are sent to experts of other ranks"),
    ],
)
def test_an_override_that_no_layout_can_have_is_refused(values: list[str], says: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        overridden(values)
    assert says in str(caught.value)


def test_an_override_and_a_constraint_that_contradict_each_other() -> None:
    loaded = colltool.load_job(SMALL, ["layout.tp=2"])
    with pytest.raises(ColltoolError, match=r"tp=4, and the job has layout.tp=2"):
        colltool.search_layouts(loaded, FABRIC, 16, {"tp": 4})


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    searched(SMALL, watch=lambda done, of: told.append((done, of)))
    done = [one for one, _ in told]
    assert done == sorted(done)
    assert 0 == done[0] < done[-1] < told[0][1]


def test_all_ranks_that_the_layout_or_the_fabric_has() -> None:
    assert colltool.search_layouts(SMALL, FABRIC, top=1).ranks == 16
    assert colltool.search_layouts(SMALL | {"layout": {"dp": 8}}, FABRIC, top=1).ranks == 8


def test_divisors() -> None:
    for number in (1, 2, 12, 36, 97):
        assert divisors(number) == [one for one in range(1, number + 1) if number % one == 0]


@swept(
    ("keep", "what", "fix"),
    [
        (
            {"dp": 8},
            "no constraint is called 'dp'",
            "constraints: tp, sp, cp, ep, etp, pp, virtual, micro, shard, recompute",
        ),
        ({"shards": "ddp"}, "no constraint is called 'shards'", "did you mean 'shard'?"),
        ({"tp": 0}, "tp is a whole number of at least 1, got 0", 'keep={"tp": 8}'),
        ({"tp": True}, "tp is a whole number", ""),
        (["tp=x"], "got 'x'", ""),
        (["tp"], "'tp' is not NAME=VALUE", 'keep={"tp": 8}'),
        (
            {"shard": "zero3"},
            "shard cannot be 'zero3'",
            f"did you mean 'zero2'? one of {', '.join(SHARDINGS)}",
        ),
        ({"sp": "yes"}, "sp cannot be 'yes'", "one of true, false"),
        ("tp=8", "expected names with values", ""),
        (3, "expected names with values", ""),
        ({"shard": "hsdp"}, "hsdp needs the size of its shard group", "group: 8"),
        (
            {"tp": 3},
            "tp x cp x pp = 3 does not divide 16 ranks",
            "sizes whose product divides them",
        ),
        (
            {"tp": 8},
            "no layout of job on 16 ranks with tp=8",
            "for layout.tp: tp 8 does not divide heads 4",
        ),
        (
            {"pp": 1, "tp": 1, "shard": "ddp"},
            "with tp=1, pp=1, shard=ddp",
            "headroom: the smallest takes",
        ),
    ],
)
def test_what_cannot_be_kept(keep: Any, what: str, fix: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        searched(SMALL, keep=keep)
    assert what in str(caught.value)
    assert fix in str(caught.value)
    assert caught.value.argument == "keep"


def test_the_smallest_memory_is_the_smallest() -> None:
    keep = {"shard": "ddp", "tp": 1, "pp": 1}
    setups = every_setup(SMALL, **keep)
    least = min(setups, key=lambda setup: memory(setup).bytes)
    with pytest.raises(ColltoolError) as caught:
        searched(SMALL, keep=keep)
    said = f"{len(setups)} layouts fill the ranks, none fits 42.9 GB less"
    assert said in str(caught.value)
    assert f"the smallest takes {memory(least).bytes / 1e9:.1f} GB" in str(caught.value)
    assert (
        f"(cp {least.layout.cp}, dp {least.layout.dp}, micro-batch 1, ddp, recompute full)"
        in str(caught.value)
    )


@swept(
    ("job", "what"),
    [
        ({"layout": {"dp": 8}, "calls": [{"primitive": "ar", "size": "1MB"}]}, "has no model"),
        (
            {
                "model": {"parameters": 7e9, "layers": 32},
                "sequence": 1,
                "batch": {"global": 16},
                "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
            },
            "has no shape",
        ),
        (
            {key: value for key, value in SMALL.items() if key not in ("device", "stack")}
            | {"compute": {"forward": "1s", "backward": "2s"}},
            "gives times of one layout only; a search compares others",
        ),
    ],
)
def test_jobs_that_are_not_searched(job: dict[str, Any], what: str) -> None:
    with pytest.raises(ColltoolError, match=what):
        colltool.search_layouts(job, FABRIC)


def test_fewer_sequences_than_replicas() -> None:
    with pytest.raises(ColltoolError, match=r"for batch.global: 4 sequences are fewer than dp 16"):
        searched(SMALL | {"batch": {"global": 4}}, keep={"tp": 1, "pp": 1, "cp": 1})


def test_more_ranks_than_there_are() -> None:
    with pytest.raises(ColltoolError, match="job has 32 ranks, and nodes has 16"):
        colltool.search_layouts(SMALL, FABRIC, 32)


def test_layouts_that_do_not_sit_on_the_fabric_are_not_priced() -> None:
    """Domains of 6: groups of 4 stand in none of them, and what is left over is said."""
    sixes = FABRIC | {"tiers": [FABRIC["tiers"][0] | {"size": 6}, FABRIC["tiers"][1] | {"size": 8}]}
    found = colltool.search_layouts(SMALL, sixes, 48)
    assert 0 < found.priced < found.fit
    with pytest.raises(
        ColltoolError,
        match=(
            r"layouts fit the memory, none can be placed on the fabric: \w+ \d+: every 4 ranks"
            r" leaves domains uneven"
        ),
    ) as caught:
        colltool.search_layouts(SMALL, sixes, 48, {"tp": 4, "pp": 1})
    assert caught.value.argument == "keep"


def test_keeping_reads_texts_and_values_alike() -> None:
    assert constraints_of(["tp=8", "sp=false", "shard=zero1"]) == constraints_of(
        {"tp": 8, "sp": False, "shard": "zero1"}
    )
    assert constraints_of(None) == Constraints()
