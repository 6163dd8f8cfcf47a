"""What to change: every candidate is a value that somebody can set, and setting it gives exactly
that step."""

from __future__ import annotations

from typing import Any

import pytest
from planning import dense, thin, two_tiers
from swept import swept

import colltool
from colltool.base.formatting import format_bytes
from colltool.training import proposals as module
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import load_job
from colltool.training.job_changes import Change, Situation, job_changes
from colltool.training.memory import memory
from colltool.training.sentences import sentence
from colltool.training.step_time import step_time

SHAPE = {"layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 11008, "vocab": 32000}
EXPERTS = SHAPE | {"moe": {"experts": 64, "top_k": 8, "ffn": 2048}}
JOBS: dict[str, dict[str, Any]] = {
    "everything again": dense(recompute="full"),
    "nothing hides": dense(
        overlap={"dp": False, "pp": False, "cp": False},
        layout={"tp": 2, "sp": True, "cp": 2, "pp": 2},
    ),
    "sharded weights": dense(layout={}, shard={"mode": "fsdp"}),
    "sharded weights told twice": dense(
        layout={}, shard={"mode": "fsdp", "gathers": 2, "reshard": True}
    ),
    "sharded in groups of 16": dense(layout={}, shard={"mode": "hsdp", "group": 16}),
    "one micro-batch": dense(layout={}, shard={"mode": "ddp"}, batch={"global": 64}),
    "experts across nodes": dense(
        model=EXPERTS, layout={"ep": 32}, batch={"global": 256, "micro": 2}
    ),
    "experts around replicas": dense(
        model=EXPERTS, layout={"ep": 8, "order": ["tp", "cp", "dp", "ep", "pp"]}
    ),
    "experts cut in their widths": dense(
        model=EXPERTS, layout={"tp": 16, "ep": 2}, batch={"global": 64}
    ),
    "a ring of four": dense(model=SHAPE, layout={"cp": 4}, sequence=16384),
    "heads dealt out": dense(
        model=SHAPE, layout={"cp": 4, "cp_mode": "ulysses", "order": ["dp", "tp", "cp", "ep", "pp"]}
    ),
    "a long pipeline": dense(
        model=SHAPE, layout={"tp": 2, "sp": True, "pp": 4}, batch={"global": 64, "micro": 2}
    ),
    "replicas around stages": dense(
        model=SHAPE, layout={"pp": 4, "order": ["tp", "cp", "ep", "pp", "dp"]}
    ),
    "known speed": dense(slower=1.2, recompute="selective"),
    "compressed already": dense(layout={}, shard={"mode": "ddp"}, compression={"scheme": "int8"}),
}
FABRIC = colltool.load_fabric(
    thin(4) | {"tiers": [thin(4)["tiers"][0], thin(4)["tiers"][1] | {"bandwidth": "10GB/s"}]}
)


def candidates(job: dict[str, Any]) -> list[Change]:
    """All changes of a job for time, those that gain nothing too."""
    loaded = load_job(job)
    setup = loaded.setup(64)
    costs = CollectiveCostCache(FABRIC)
    return [*job_changes(Situation(loaded, setup, costs, step_time(setup, costs)), "time")]


@pytest.mark.alike(1)
@pytest.mark.parametrize("name", JOBS)
def test_setting_a_change_gives_its_step(name: str) -> None:
    job = JOBS[name]
    found = colltool.plan(job, FABRIC, 64)
    assert found.changes, "something to tell"
    for one in found.changes:
        values = [f"{key}={value}" for key, value in one.set]
        if one.where == "fabric":
            again = colltool.plan(
                job, colltool.load_fabric(thin(4), ["ib.bandwidth=10GB/s", *values]), 64
            )
        else:
            again = colltool.plan(colltool.load_job(job, values), FABRIC, 64)
        assert again.step_s == pytest.approx(one.step_s, rel=1e-9), one
        assert one.gain == pytest.approx(1 - again.step_s / found.step_s)
        assert again.memory is not None
        assert one.fits is again.memory.fits or one.where == "fabric"


@swept("name", JOBS)
def test_every_candidate_is_what_its_values_say(name: str) -> None:
    """Also those that gain nothing here: the setup that was priced is the one that the values
    give."""
    job = colltool.load_job(JOBS[name])
    costs = CollectiveCostCache(FABRIC)
    for label, values, other, _ in candidates(JOBS[name]):
        if (
            not job.accepts(values)
            or module.constraint_violations(other)
            or module.invalid_overlaps(other)
        ):
            continue
        again = colltool.load_job(
            JOBS[name], [f"{key}={value}" for key, value in values.items()]
        ).setup(64)
        assert step_time(again, costs).step_s == pytest.approx(
            step_time(other, costs).step_s, rel=1e-12
        ), label


def test_every_kind_of_change_was_met() -> None:
    """By the jobs above."""
    seen = set()
    for job in JOBS.values():
        seen |= {sentence(candidate.label) for candidate in candidates(job)}
    wanted = {
        "recompute none",
        "recompute selective",
        "sequence parallelism",
        "overlap TP with GEMMs",
        "overlap ring attention (CP) with compute",
        "overlap gradients with backward",
        "overlap pipeline sends with compute",
        "overlap expert all-to-all (two micro-batches)",
        "larger gradient buckets",
        "smaller gradient buckets",
        "16-bit gradients",
        "int8 gradients (up to 10% more steps)",
        "shard optimizer states (ZeRO-1)",
        "shard weights (FSDP)",
        "HSDP: shard inside nvlink, replicate across",
        "keep TP inside nvlink",
        "place ep further in",
        "place dp further in",
        "keep EP inside nvlink",
        "dispatch tokens with DeepEP",
        "context parallelism by ring",
        "context parallelism by all-gather",
        "context parallelism by ulysses",
        "interleave: 2 chunks per stage",
        "zero-bubble schedule (ZB1P)",
        "smaller micro-batches",
        "larger micro-batches",
    }
    assert wanted <= seen


def test_a_change_that_the_file_contradicts_is_not_told() -> None:
    """FSDP's gathers are written down: zero1 gathers no layers, and the file would be refused."""
    free, told = (
        colltool.plan(JOBS[name], FABRIC, 64)
        for name in ("sharded weights", "sharded weights told twice")
    )
    assert ("shard.mode", "zero1") in [pair for one in free.changes for pair in one.set]
    assert ("shard.mode", "zero1") not in [pair for one in told.changes for pair in one.set]


@swept(
    ("mode", "label"),
    [
        ({"mode": "ddp"}, "shard optimizer states (ZeRO-1)"),
        ({"mode": "zero2"}, "ZeRO-1 instead of ZeRO-2 ({size} per GPU)"),
        (
            {"mode": "fsdp"},
            "ZeRO-1 instead of FSDP ({size} per GPU)",
        ),
        (
            {"mode": "hsdp", "group": 16},
            "ZeRO-1 instead of FSDP ({size} per GPU)",
        ),
    ],
)
def test_zero1_is_told_as_what_it_changes(mode: dict[str, Any], label: str) -> None:
    """A job that shards its weights shards its optimizer states already; what it would hold whole
    costs memory."""
    made = candidates(dense(layout={}, shard=mode))
    found = next(change for change in made if change.values.get("shard.mode") == "zero1")
    size = format_bytes(memory(found.setup).bytes, 3)
    assert sentence(found.label) == label.format(size=size)


def test_a_change_that_no_longer_fits_is_not_told() -> None:
    """Whole weights and gradients of 8e9 parameters are 48 GB, beside the activations."""
    job = dense(
        model="llama3-8b",
        layout={},
        shard={"mode": "fsdp"},
        recompute="full",
        batch={"global": 64, "micro": 1},
    )
    told = {}
    for device in ("a100-40gb", "b200"):
        found = colltool.plan(job | {"device": device}, FABRIC, 64)
        assert found.memory is not None
        assert found.memory.fits
        assert all(one.fits for one in found.changes if one.where == "job")
        told[device] = [one for one in found.changes if ("shard.mode", "zero1") in one.set]
    assert [bool(told[device]) for device in told] == [False, True]


def test_int8_is_told_where_it_gains_with_its_extra_steps() -> None:
    slow = colltool.plan(dense(layout={}, shard={"mode": "ddp"}, batch={"global": 64}), FABRIC, 64)
    small = next(one for one in slow.changes if one.change.startswith("int8 gradients"))
    assert dict(small.set)["compression.extra_steps"] == "0.1"
    assert small.step_s * 1.1 < slow.step_s
    fast = colltool.plan(
        dense(layout={}, shard={"mode": "ddp"}, batch={"global": 512}), two_tiers(), 64
    )
    assert not [one for one in fast.changes if one.change.startswith("int8 gradients")]


@pytest.mark.alike(2)
@pytest.mark.parametrize("name", ["dgx-h100", "nvl72", "clos-4to1"])
@pytest.mark.parametrize("job", ["everything again", "experts around replicas"])
def test_prices_of_a_tier_that_did_not_change_stay(name: str, job: str) -> None:
    """On fabrics whose library picks: the step with one tier faster is that of a fabric loaded
    so."""
    sizes = {
        "dgx-h100": ["ib.size=8"],
        "nvl72": ["nvlink.size=64", "device=h100"],
        "clos-4to1": [],
    }[name]
    found = colltool.plan(JOBS[job], colltool.load_fabric(name, sizes), 64)
    told = [one for one in found.changes if one.where == "fabric"]
    for one in told:
        again = colltool.load_fabric(name, [*sizes, *(f"{key}={value}" for key, value in one.set)])
        assert colltool.plan(JOBS[job], again, 64).step_s == pytest.approx(one.step_s, rel=1e-9), (
            one.change
        )
    assert told


def test_a_cure_that_cannot_be_placed_is_left_out() -> None:
    """dp 128 every 4 ranks does not sit on 8 x 8 x 8; the next cure does."""
    job = dense(
        model="llama3-405b",
        sequence=8192,
        batch={"global": 512, "micro": 1},
        layout={},
        shard={"mode": "fsdp"},
        stack="jax",
        recompute="full",
        device="tpu-v4",
    )
    found = colltool.plan(job, "tpu-v4-512", 512)
    first = found.changes[0]
    assert (first.change, first.fits) == ("fit the memory", True)
    again = colltool.plan(
        colltool.load_job(job, [f"{key}={value}" for key, value in first.set]), "tpu-v4-512", 512
    )
    assert again.step_s == pytest.approx(first.step_s)
    assert again.memory is not None
    assert again.memory.fits


def regrouped(job: dict[str, Any], fabric: Any = FABRIC) -> Any:
    """The change of a job's plain calls; setting it gives its step."""
    found = colltool.plan(job, fabric, 64)
    told = [one for one in found.changes if one.set[0][0].startswith("calls.0.")]
    for one in told:
        again = colltool.load_job(job, [f"{key}={value}" for key, value in one.set])
        step_s = colltool.plan(again, fabric, 64).step_s
        assert step_s == pytest.approx(one.step_s, rel=1e-9)
        assert one.gain == pytest.approx(1 - step_s / found.step_s)
    return told[0] if told else None


def test_plain_calls_in_the_open_go_out_at_once() -> None:
    """K calls pay K latencies, and nothing hides them."""
    calls = {"primitive": "ar", "group": "dp", "size": "1MB", "count": 1000}
    job = {"layout": {"dp": 64}, "calls": [calls]}
    told = regrouped(job)
    assert told.set == (("calls.0.bucket", "1000MB"),)
    assert told.change == "fuse 1,000 all-reduce calls into 1"
    assert regrouped(job | {"calls": [calls | {"bucket": "1GB"}]}) is None
    assert regrouped(job | {"calls": [calls | {"time": "1ms"}]}) is None
    assert regrouped(job | {"calls": [calls | {"group": "all"}]}) is None


@pytest.mark.parametrize(
    "calls",
    [{"size": "4GB"}, {"size": "1MB", "count": 4000}, {"size": "4GB", "bucket": "4GB"}],
    ids=["one", "many", "in a bucket"],
)
def test_plain_calls_behind_compute_have_the_best_bucket(calls: dict[str, Any]) -> None:
    """All but the last hide: as good as any number of calls, to a tenth of what is gained."""
    fabric = colltool.load_fabric(two_tiers())
    job = dense(layout={}, shard={"mode": "ddp"}, batch={"global": 64})
    listed = {"primitive": "ar", "group": "dp"} | calls
    told = regrouped(job | {"calls": [listed]}, fabric)
    costs = CollectiveCostCache(fabric)
    steps = []
    for count in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1000):
        loaded = colltool.load_job(
            job
            | {"calls": [listed | {"size": f"{4000 / count}MB", "count": count, "bucket": None}]}
        )
        setup = loaded.setup(64)
        steps.append(step_time(setup, costs, loaded.plain_calls(setup)).step_s)
    now_s = told.step_s / (1 - told.gain)
    assert told.step_s - min(steps) < 0.1 * (now_s - min(steps))
