"""Overlap, exposure and waiting from intervals alone, against sums by hand; kernels that name no
bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from swept import swept
from tracing import call, kernel, step, write

import colltool
from colltool.base.errors import ColltoolError
from colltool.diagnosis.compared import compared_totals
from colltool.logs.kernel_names import is_collective, short_name

WHERE = "dgx-h100"
EIGHT = list(range(8))
COMMUNICATION = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclSymkDevKernel_AllReduce_RSxLD_AGxST(ncclSymkDevWorkArgs)",
    "rcclGenericKernel<1, false>(ncclDevKernelArgs)",
    "void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
    "void two_shot_all_reduce_kernel_inplace<float, 8>(float**)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8>(void*)",
    "nvshmemi_barrier_threadgroup(int)",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs)",
]
COMPUTE = [
    "sm90_xmma_gemm_bf16bf16_bf16f32",
    "void at::native::reduce_kernel<512, 1>(float)",
    "flash_fwd_kernel",
    "Memset",
]


@swept("name", COMMUNICATION)
def test_communication_is_known_by_name(name: str) -> None:
    assert is_collective(name)
    assert "<" not in short_name(name)


@swept("name", COMPUTE)
def test_compute_is_not_communication(name: str) -> None:
    assert not is_collective(name)


def painted(spans: list[tuple[int, int]]) -> set[int]:
    """Microseconds that spans cover."""
    return {us for start, lasts in spans for us in range(start, start + lasts)}


@swept("seed", range(20))
def test_intervals_are_counted_as_on_squared_paper(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    compute = [(draw.randrange(900), draw.randrange(1, 100)) for _ in range(12)]
    comm = [(draw.randrange(900), draw.randrange(1, 100)) for _ in range(8)]
    events: list[Any] = [kernel(start, lasts) for start, lasts in compute]
    events += [kernel(start, lasts, draw.choice(COMMUNICATION), 20) for start, lasts in comm]
    result = colltool.trace(WHERE, write(tmp_path / "a.json", [step(1, 0, 1000), *events], 0, 8))
    sent, worked = painted(comm), painted(compute)
    assert result.overlap == pytest.approx(len(sent & worked) / len(sent))
    assert result.share == pytest.approx(len(sent) / 1000)
    assert result.exposed == pytest.approx(len(sent - worked) / 1000)
    assert sum(one.calls for one in result.unpriced) == len(comm)
    assert result.of_expected is None


def test_steps_shorter_than_their_kernels_are_not_believed(tmp_path: Path) -> None:
    own = step(1, 0, 50) | {"cat": "gpu_user_annotation"}
    events = [own, kernel(0, 400), call(400, 600, EIGHT, Seq=1)]
    (activity,) = colltool.trace(WHERE, write(tmp_path / "a.json", events, 0, 8)).activity
    assert activity.exposed_in_steps_s / activity.window_s == pytest.approx(0.6)
    assert "step annotations hold 5% of the kernels' time" in str(activity.doubt)


def test_a_late_rank_is_named_and_waiting_stays_in_the_exposed_share(tmp_path: Path) -> None:
    files = []
    for rank in range(8):
        lasts = 100 if rank == 5 else 400
        events = [step(1, 0, 1000), kernel(0, 100), call(500, lasts, EIGHT, elements=2**22, Seq=1)]
        files.append(write(tmp_path / f"rank{rank}.json.gz", events, rank, 8))
    result = colltool.trace(WHERE, files)
    assert result.exposed == pytest.approx((7 * 0.4 + 0.1) / 8)
    assert [one.last for one in result.waits.ranks] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert [one.wait_s for one in result.waits.ranks] == pytest.approx(
        [300e-6] * 5 + [0.0] + [300e-6] * 2
    )
    (by,) = result.waits.collectives
    assert (by.wire_s, by.wait_s) == (pytest.approx(100e-6), pytest.approx(7 / 8 * 300e-6))
    assert "rank 5 is last in 1 of 1 calls" in result.summary()


def test_another_trace_says_what_changed(tmp_path: Path) -> None:
    def of(lasts: int) -> Path:
        events = [
            step(1, 0, 600 + lasts),
            kernel(0, 600),
            call(600, lasts, EIGHT, elements=2**22, Seq=1),
        ]
        return write(tmp_path / f"{lasts}.json", events, 0, 8)

    result = colltool.trace(WHERE, of(400), against=of(150))
    assert "takes 1 ms, in the other trace 750 us: 250 us more exposed" in result.summary()
    assert "all-reduce of 16 MiB changed most (150 us -> 400 us per step)" in result.summary()
    (row,) = compared_totals(result)
    assert row.change_s == pytest.approx(250e-6)


def test_sizes_of_older_traces_come_from_dims(tmp_path: Path) -> None:
    host = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 1e6, "dur": 1.0}
    dims = {"Input Dims": [[[1024, 512], [256]], [], []], "Input type": ["float", "", ""]}
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
    sent = kernel(20, 100, name, 20, **{"External id": 7})
    events = [step(1, 0, 1000), kernel(0, 10), sent, host | {"args": {"External id": 7, **dims}}]
    (one,) = colltool.trace(WHERE, write(tmp_path / "a.json", events, 0, 8)).calls
    assert (str(one.primitive), one.bytes, one.group_size) == (
        "all_reduce",
        (1024 * 512 + 256) * 4,
        8,
    )


def test_a_trace_without_communication_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ColltoolError, match="holds no communication kernel: 1 kernel of compute on 1 GPU"
    ):
        colltool.trace(WHERE, write(tmp_path / "a.json", [step(1, 0, 1000), kernel(0, 10)], 0, 8))
