"""Job files: what is read, what is refused at which place, and what a number of ranks makes of
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from small import read_source
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AR
from colltool.definitions.json_schema import json_schema
from colltool.training.files.job import JobFile
from colltool.training.files.presets import preset_folder, preset_names
from colltool.training.job import Job, read_job
from colltool.training.job_results import job_warnings
from colltool.training.parallel_config import (
    Compression,
    GivenTimes,
    Overlap,
    Precision,
    RankGroup,
    Shard,
)

WHOLE = """\
schema: colltool.job/1
name: mine
description: everything that a job may say
model:
  {name: qwen-like, layers: 48, hidden: 2048, heads: 32, kv_heads: 4, head_dim: 128, ffn: 6144, gated: true, vocab: 151936,
   tied: true, moe: {experts: 128, top_k: 8, ffn: 768, shared_ffn: 768, dense_layers: 2, imbalance: 1.2}}
sequence: 8192
batch: {global: 1024, micro: 2}
layout: {tp: 2, sp: true, cp: 2, cp_mode: all-gather, ep: 16, pp: 4, virtual: 3, dp: auto, deduplicate: true,
         order: [tp, cp, ep, dp, pp]}
shard: {mode: hsdp, group: 8, gathers: 1, bucket: 25MB, grad_bytes: 2}
schedule: interleaved
recompute: selective
precision: {compute: fp8, params: bf16, grads: bf16, dispatch: fp8}
device: {name: mine, generation: hopper, peak: {bf16: 989TFLOP/s, fp8: 1979TFLOPS}, memory: 80GiB, bandwidth: 3.35TB/s}
stack: megatron
overlap: {dp: true, tp: true, pp: false, ep: shared, cp: false, overhead: 5us, sm_share: 0.1}
compression: {on: dp, scheme: int8, block: 128, overhead: 2ms, extra_steps: 10%}
energy: true
steps: 100000
calls:
  - {primitive: ar, group: dp, size: 1MB, count: 1000, time: 26.4ms}
  - {primitive: a2a, group: {ranks: 8, stride: 4}, size: 64MB}
slower: 1.1
measured: {step: 14.8s, memory: 70GB}
"""
BASE = """\
schema: colltool.job/1
model: llama3-70b
sequence: 8192
batch: {global: 1024, micro: 1}
layout: {tp: 8, sp: true, pp: 4, virtual: 5}
device: h100
stack: megatron
"""


def job(text: str = WHOLE, overrides: Any = ()) -> Job:
    return read_job(text, "job.yaml", Path(), overrides)


def refused(text: str, ranks: int | None = None, overrides: Any = ()) -> list[str]:
    """Each error as a shell says it, on one line."""

    def planned() -> None:
        read = job(text, overrides)
        read.plain_calls(read.setup(ranks))

    with pytest.raises(ColltoolError) as caught:
        planned()
    return [
        " | ".join(one.lines("shell")) for one in getattr(caught.value, "problems", [caught.value])
    ]


def test_everything_that_a_job_may_say() -> None:
    read = job()
    run = read.setup(512)
    assert (read.name, read.energy, read.steps) == ("mine", True, 100000)
    assert (read.measured_step_s, read.measured_memory_bytes) == (14.8, 70e9)
    assert run.layout.dp == 512 // (2 * 2 * 4)
    assert run.layout.expert_dp == 2 * 2 * 32 // 16
    assert run.micro_batches == 1024 // (32 * 2)
    assert run.slower == 1.1
    assert run.shard == Shard("hsdp", 8, 1, False, 25e6, 2), (
        "under a pipeline what is gathered stays"
    )
    assert run.precision == Precision("fp8", "bf16", "bf16", "fp8")
    assert run.overlap == Overlap(
        dp=True,
        tp="split",
        pp=False,
        ep="shared",
        cp=False,
        requested=("tp", "dp", "sm_share"),
        overhead_s=5e-6,
        sm_share=0.1,
    )
    assert run.compression == Compression("dp", "int8", block=128, overhead_s=2e-3, extra_steps=0.1)
    assert run.device is not None
    assert run.device.peak_flops("fp8") == 1979e12
    assert run.tokens == 2 * 8192 / 2
    calls = read.plain_calls(run)
    assert [(one.primitive, one.group, one.bytes, one.calls, one.time_s) for one in calls] == [
        (AR, RankGroup(((32, 4),)), 1e6, 1000, 26.4e-3),
        (A2A, RankGroup(((8, 4),)), 64e6, 1, None),
    ]


def test_a_job_without_a_model() -> None:
    read = job("calls:\n  - {primitive: ar, size: 1MB}\n")
    run = read.setup(64)
    assert run.layout.dp == 64
    assert [one.group for one in read.plain_calls(run)] == [RankGroup(((64, 1),))]
    timed = job("compute: {forward: 1s, backward: 2s}\n").setup(8)
    assert timed.compute == GivenTimes(1.0, 2.0, per_layer=False)


@swept("name", preset_names("jobs"))
def test_shipped_jobs_hold_and_pass_the_schema(name: str) -> None:
    text = (preset_folder("jobs") / f"{name}.yaml").read_text()
    assert not list(
        Draft202012Validator(json_schema(JobFile, "job")).iter_errors(
            read_source(text, "j.yaml").data
        )
    )
    read = colltool.load_job(name)
    assert read.name == name
    assert not list(job_warnings(read))
    assert read.setup(2048 if name == "deepseek-v3" else 512).layout.ranks in (512, 2048)


def test_the_schema_takes_what_the_reader_takes() -> None:
    schema = json_schema(JobFile, "job")
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    assert not list(check.iter_errors(read_source(WHOLE, "j.yaml").data))
    assert list(check.iter_errors({"sequence": "long"}))
    assert list(check.iter_errors({"layout": {"tensor": 8}}))


def test_a_mapping_a_path_and_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(BASE)
    by_path = colltool.load_job(tmp_path / "mine.yaml")
    by_mapping = colltool.load_job(read_source(BASE, "j.yaml").data)
    assert by_path.draft == by_mapping.draft
    assert by_path.name == "mine"
    assert colltool.load_job("llama3-70b.yaml").draft == colltool.load_job("llama3-70b").draft


def test_overrides_of_every_kind() -> None:
    run = job(
        BASE,
        [
            "layout.virtual=1",
            "layout.tp=4",
            "batch.global=2048",
            "shard.mode=fsdp",
            "overlap.overhead=5us",
        ],
    )
    assert (run.draft.layout.tp, run.draft.global_batch, run.draft.shard.mode) == (4, 2048, "fsdp")
    assert dict(run.overrides)["layout.tp"] == "4"
    assert (
        job(
            BASE, {"device": "h200", "layout.order": ["dp", "tp", "cp", "ep", "pp"]}
        ).draft.layout.order[0]
        == "dp"
    )


def test_defaults_that_follow_from_other_keys() -> None:
    run = job(BASE).draft
    assert run.schedule == "interleaved", "virtual stages"
    assert job(BASE, ["layout.virtual=1"]).draft.schedule == "1f1b"
    assert run.shard.grad_bytes == 4
    assert job(BASE, ["precision.grads=bf16"]).draft.shard.grad_bytes == 2
    assert job(BASE, ["layout.tp=1"]).draft.layout.sp is False
    assert job(BASE, {"model": "mixtral-8x7b", "layout": {"tp": 2, "ep": 8}}).draft.layout.etp == 2
    assert (
        job(
            BASE, {"model": "mixtral-8x7b", "layout": {"tp": 2, "sp": True, "ep": 8}}
        ).draft.layout.etp
        == 1
    )
    fsdp = job(BASE, ["shard.mode=fsdp"]).draft.shard
    assert (fsdp.reshard, fsdp.gathers) == (False, 1)
    flat = job(BASE, {"shard.mode": "fsdp", "layout": {"tp": 8}}).draft.shard
    assert (flat.reshard, flat.gathers) == (True, 2)
    both = {
        "model": "deepseek-v3",
        "layout": {"ep": 8, "pp": 2, "stages": [31, 30]},
        "schedule": "dualpipe",
    }
    assert job(BASE, both).draft.overlap.ep == "batch"


EDITS: dict[str, tuple[dict[str, Any], int | None, str]] = {
    "ranks that tp, cp and pp do not divide": (
        {},
        100,
        "job.yaml:5:9: layout: tp x cp x pp = 32 does not divide 100 ranks | -n 64 or -n 128,",
    ),
    "a dp that does not fill": (
        {"layout.dp": 4},
        256,
        "tp x cp x pp x dp = 128 does not fill 256 ranks | dp: 8, dp: auto, or -n 128",
    ),
    "no ranks": ({}, None, "--ranks: dp is auto and follows from the ranks | write -n 32"),
    "heads": (
        {"layout.tp": 24},
        None,
        "tp 24 does not divide heads 64 | what divides it: 1, 2, 4, 8, 16, 32, 64",
    ),
    "kv heads": (
        {
            "layout.tp": 32,
            "model": {
                "layers": 80,
                "hidden": 6144,
                "heads": 96,
                "kv_heads": 24,
                "ffn": 6144,
                "vocab": 9,
            },
        },
        None,
        "tp 32 neither divides 24 kv heads",
    ),
    "more stages than layers": (
        {"layout.pp": 81},
        None,
        "pipeline 81 is longer than the model's 80 layers | pp: at most 80",
    ),
    "chunks of uneven stages": (
        {"model": "llama3-405b", "layout": {"pp": 8, "virtual": 17}},
        None,
        (
            "virtual 17, and a stage has 15 layers | virtual: at most 16; or list the layers of"
            " each stage"
        ),
    ),
    "virtual stages": (
        {"layout.virtual": 21},
        None,
        (
            "virtual 21, and a stage has 20 layers | virtual: at most 20; or list the layers of"
            " each stage"
        ),
    ),
    "stages": (
        {"layout.stages": [20, 20, 20]},
        None,
        "3 stages of 60 layers, and pp is 4, the model 80",
    ),
    "chunks of stages": (
        {"layout.stages": [3, 37, 20, 20]},
        None,
        "virtual 5, and a stage has 3 layers | virtual: at most 4",
    ),
    "micro-batches": (
        {"batch.micro": 3},
        None,
        "1024 sequences are not a multiple of micro 3 = 3 | global: 1023",
    ),
    "micro-batches of a replica": (
        {"batch.global": 1000},
        512,
        "1000 sequences are not a multiple of micro 1 x dp 16 = 16 | global: 992",
    ),
    "interleaved": (
        {"batch.global": 160},
        512,
        "10 micro-batches are not a multiple of pp 4, which interleaved needs",
    ),
    "interleaved without virtual": (
        {"layout.virtual": 1, "schedule": "interleaved"},
        None,
        "interleaved, and virtual is 1, pp 4",
    ),
    "virtual without interleaved": (
        {"schedule": "1f1b"},
        None,
        "virtual 5, and 1f1b runs one chunk per stage | schedule: interleaved",
    ),
    "odd dualpipe": (
        {"layout": {"pp": 5}, "schedule": "dualpipe"},
        None,
        "dualpipe needs an even pp, got 5",
    ),
    "zbv and odd stages": (
        {"layout": {"pp": 16}, "schedule": "zbv"},
        None,
        "zbv splits each stage into two chunks, and a stage has 5 layers | an even number",
    ),
    "no experts": (
        {"layout.ep": 8},
        None,
        "ep 8, and the model has no experts | ep: 1, or a model with moe",
    ),
    "experts": (
        {"model": "mixtral-8x7b", "layout": {"ep": 3}},
        None,
        "ep 3 does not divide the number of experts 8 | what divides it: 1, 2, 4, 8",
    ),
    "experts and ranks": (
        {"model": "mixtral-8x7b", "layout": {"ep": 8}},
        4,
        "ep x etp = 8 does not divide the 4 ranks of a stage",
    ),
    "experts and tensor groups": (
        {"model": "mixtral-8x7b", "layout": {"tp": 2, "ep": 8, "etp": 1}},
        None,
        "without sp all 2 ranks of a tensor group have the same tokens",
    ),
    "an order of two grids": (
        {
            "model": "mixtral-8x7b",
            "layout": {
                "tp": 2,
                "sp": True,
                "ep": 8,
                "pp": 2,
                "order": ["tp", "pp", "cp", "ep", "dp"],
            },
        },
        64,
        "attention and experts would have different stages",
    ),
    "a pipeline within gradients": (
        {"layout": {"cp": 2, "pp": 2, "order": ["cp", "pp", "dp", "tp", "ep"]}},
        None,
        "gradients are summed over cp and dp, but pp is between",
    ),
    "an order that leaves out": (
        {"layout.order": ["tp", "dp", "pp", "cp"]},
        None,
        "the order leaves out ep | name tp, cp, ep, dp and pp once each",
    ),
    "context": (
        {"layout": {"cp": 3}},
        None,
        "cp 3 (ring) cuts a sequence in 6 parts, and 8192 is no multiple",
    ),
    "ulysses": (
        {"layout": {"cp": 16, "cp_mode": "ulysses"}},
        None,
        "ulysses splits heads, and cp 16 does not divide the 8 kv heads",
    ),
    "a sequence that is not cut evenly": (
        {"sequence": 8190},
        None,
        "a sequence of 8190 is not cut in tp x cp = 8 equal parts",
    ),
    "shard groups": (
        {"shard": {"mode": "hsdp", "group": 6}},
        512,
        (
            "shard groups of 6 do not tile the 16 ranks that share a weight | what does: 1, 2, 4,"
            " 8, 16"
        ),
    ),
    "hsdp alone": (
        {"shard.mode": "hsdp"},
        None,
        "hsdp needs the size of its shard group | group: 8",
    ),
    "a group without hsdp": (
        {"shard": {"mode": "zero2", "group": 8}},
        None,
        "zero2 has no shard group",
    ),
    "gathers without fsdp": (
        {"shard": {"mode": "ddp", "gathers": 2}},
        None,
        "ddp gathers no layers",
    ),
    "gathered twice and kept": (
        {"shard": {"mode": "fsdp", "gathers": 2, "reshard": False}},
        None,
        "without resharding, layers are gathered once",
    ),
    "overlap of tp without sp": (
        {"overlap.tp": True, "layout.sp": False},
        None,
        "under split GEMMs needs sequence parallelism",
    ),
    "overlap of no experts": ({"overlap.ep": True}, None, "ep is 1: there is nothing to hide"),
    "overlap under no shared expert": (
        {"model": "mixtral-8x7b", "layout": {"ep": 8}, "overlap.ep": "shared"},
        None,
        "no shared expert to hide under",
    ),
    "dualpipe that hides nothing": (
        {
            "model": "mixtral-8x7b",
            "layout": {"ep": 8, "pp": 2},
            "schedule": "dualpipe",
            "overlap.ep": False,
        },
        None,
        "dualpipe hides the all-to-alls",
    ),
    "gradients of one replica that hide": (
        {"overlap.dp": True},
        32,
        "dp x cp is 1: there are no gradient collectives",
    ),
    "borders of one stage that hide": (
        {"overlap.pp": True, "layout": {"tp": 8, "sp": True}},
        None,
        "pp is 1: there are no borders to hide | leave overlap.pp out, or pp of at least 2",
    ),
    "a ring of one that hides": ({"overlap.cp": True}, None, "cp is 1: there is nothing to hide"),
    "a gather that hides under attention": (
        {"overlap.cp": True, "layout": {"cp": 2, "cp_mode": "all-gather"}},
        None,
        "cp_mode all-gather needs all keys and values before attention starts",
    ),
    "no other batch": (
        {"model": "mixtral-8x7b", "layout": {"ep": 8}, "batch": {"global": 16}, "overlap.ep": True},
        16,
        "a replica has only one a step | batch.global: 32",
    ),
    "multiprocessors that nothing takes": (
        {"layout": {"tp": 8, "dp": 16}, "overlap": {"dp": False, "tp": False, "sm_share": 0.1}},
        None,
        (
            "sm_share slows compute down while communication overlaps it, and none does here | leave"
            " sm_share out"
        ),
    ),
    "layers behind the times of a step": (
        {
            "layout": {"dp": 16},
            "shard.mode": "fsdp",
            "overlap.dp": True,
            "compute": {"forward": "1s", "backward": "2s"},
        },
        None,
        "dp hides under single layers, but compute gives times of a whole step",
    ),
    "pieces of GEMMs in the times of a step": (
        {
            "layout": {"tp": 8, "sp": True},
            "overlap.tp": True,
            "compute": {"forward": "1s", "backward": "2s"},
        },
        None,
        "tp hides under single layers",
    ),
    "a ring under unknown attention": (
        {
            "layout": {"cp": 2},
            "overlap.cp": True,
            "compute": {"forward_per_layer": "1ms", "backward_per_layer": "2ms"},
        },
        None,
        "the ring hides under attention, whose time is not among the given times of a layer",
    ),
    "gradients of one replica that shrink": (
        {"compression": {"on": "dp", "scheme": "fp16"}},
        32,
        "dp x cp is 1: there is nothing to compress",
    ),
    "slower than no stack": (
        {"slower": 1.1, "stack": "null", "compute": {"forward": "1s", "backward": "2s"}},
        None,
        "slower scales a stack, and there is none | stack: megatron, or leave slower out",
    ),
    "a time of several": (
        {"calls": [{"primitive": "ar", "size": "1MB", "bucket": "25MB", "time": "1ms"}]},
        None,
        "the time of one call, and a bucket holds several | leave time or bucket out",
    ),
    "compression of nothing": (
        {"compression": {"on": "cp", "scheme": "fp16"}},
        None,
        "cp is 1: there is nothing to compress",
    ),
    "compression of two minds": (
        {"compression": {"scheme": "fp16", "block": 128}},
        None,
        "fp16 has no block",
    ),
    "compression without its share": ({"compression": {"scheme": "topk"}}, None, "topk needs keep"),
    "half of the times": (
        {"compute": {"forward_per_layer": "7ms"}},
        None,
        "expected forward and backward, both of a layer or both of a step",
    ),
    "a bare model under tensor parallelism": (
        {"model": {"parameters": 7.0e9, "layers": 32, "name": "bare"}, "layout": {"tp": 8}},
        None,
        "tp 8 needs the size of activations, and bare has no shape",
    ),
    "half of a shape": (
        {"model": {"layers": 32, "hidden": 4096}},
        None,
        "the model lacks heads and ffn and vocab",
    ),
    "more experts than there are": (
        {
            "model": {
                "layers": 2,
                "hidden": 64,
                "heads": 1,
                "ffn": 64,
                "vocab": 9,
                "moe": {"experts": 2, "top_k": 3, "ffn": 9},
            }
        },
        None,
        "a token goes to 3 of 2 experts",
    ),
    "an unknown device": (
        {"device": "h1000"},
        None,
        "no file and no shipped device is called 'h1000' | did you mean 'h100'?",
    ),
    "a stack without the device": (
        {"device": "tpu-v4"},
        None,
        "stack megatron-eager has no efficiency for GEMMs in bf16 on tpu-v4",
    ),
    "a precision that the device has not": (
        {"device": "a100-80gb", "precision.compute": "fp8"},
        None,
        "a100-80gb has no peak for fp8",
    ),
    "a time without a unit": ({"overlap.overhead": 5}, None, "expected a time of at most"),
    "an unknown key": (
        {"layout.vitual": 5},
        None,
        "unknown key 'vitual' | did you mean 'virtual'?",
    ),
    "a group of one": (
        {"calls": [{"primitive": "ar", "group": "cp", "size": "1MB"}]},
        512,
        "a group of 1 with stride 1 among 512 ranks",
    ),
    "a group beyond the ranks": (
        {"calls": [{"primitive": "ar", "group": {"ranks": 8, "stride": 512}, "size": "1MB"}]},
        512,
        "a group of 8 with stride 512 among 512 ranks",
    ),
}


@swept("name", EDITS)
def test_what_does_not_fit_is_refused_with_what_does(name: str) -> None:
    changes, ranks, says = EDITS[name]
    found = refused(BASE, ranks, changes)
    assert any(says in one for one in found), found
    assert all(" | " in one for one in found), f"no cure: {found}"


def test_errors_stand_where_the_file_has_them() -> None:
    text = BASE.replace("tp: 8", "tp: 24").replace(
        "global: 1024, micro: 1", "global: 1024, micro: 3"
    )
    assert [one.split(" | ")[0] for one in refused(text)] == [
        "job.yaml:4:17: batch.global: 1024 sequences are not a multiple of micro 3 = 3",
        "job.yaml:5:14: layout.tp: tp 24 does not divide heads 64",
    ]


def test_all_that_is_missing_at_once() -> None:
    found = refused("model: llama3-70b\n")
    assert [one.split(": ", 1)[1].split(" | ")[0] for one in found] == [
        "a job with a model needs 'sequence'",
        "a job with a model needs 'batch'",
        "no 'stack' says how fast it computes",
    ]
    assert "a job has a model, given times or plain calls" in refused("name: empty\n")[0]


def test_an_error_of_a_named_file_stands_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("layers: 3\nhidden: 64\nheads: 5\nffn: 9\nvocab: 9\n")
    (tmp_path / "job.yaml").write_text(BASE.replace("llama3-70b", "odd.yaml"))
    with pytest.raises(
        ColltoolError, match=r"odd\.yaml:3:8: heads: hidden 64 is not a multiple of 5 heads"
    ):
        colltool.load_job(tmp_path / "job.yaml")


def test_what_is_no_job() -> None:
    with pytest.raises(ColltoolError, match="did you mean 'llama3-70b'"):
        colltool.load_job("lama3-70b")
    with pytest.raises(ColltoolError, match="expected a job to load, got a int"):
        colltool.load_job(5)  # type: ignore[arg-type]
    with pytest.raises(ColltoolError, match="is a directory"):
        colltool.load_job("/tmp")


def test_sizes_that_fill_no_tiles_are_odd() -> None:
    shape = {"layers": 32, "hidden": 4100, "heads": 41, "ffn": 10000, "vocab": 32000}
    text = BASE.replace("pp: 4, virtual: 5", "pp: 4").replace("tp: 8, sp: true, ", "")
    found = list(job_warnings(job(text, {"model": shape})))
    assert [one.what for one in found] == [
        "hidden is 4100, which is not a multiple of 64",
        "head_dim is 100, which is not a multiple of 64",
        "ffn / tp is 10000, which is not a multiple of 64",
    ]
    few = list(job_warnings(job(text, {"layout.dp": 512, "layout.pp": 4, "batch.global": 1024})))
    assert [one.what for one in few] == ["2 micro-batches for 4 pipeline stages"]
