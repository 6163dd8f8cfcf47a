"""Names, message sizes, busbw factors and lower bounds of the seven primitives."""

from __future__ import annotations

from math import ceil, log2

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import (
    SHORT,
    SIZE_MEANS,
    Primitive,
    busbw_factor,
    least_n_beta,
    log2_ceil,
    parse_primitive,
)

NAMES = {
    Primitive.ALL_REDUCE: [
        "ar",
        "AR",
        "all_reduce",
        "all-reduce",
        "All-Reduce",
        "allreduce",
        "all_reduce_perf",
    ],
    Primitive.ALL_GATHER: ["ag", "all_gather", "all-gather", "allgather", "all_gather_perf"],
    Primitive.REDUCE_SCATTER: [
        "rs",
        "reduce_scatter",
        "reduce-scatter",
        "reducescatter",
        "reduce_scatter_perf",
    ],
    Primitive.ALL_TO_ALL: ["a2a", "all_to_all", "all-to-all", "alltoall", "alltoall_perf"],
    Primitive.BROADCAST: ["bc", "broadcast", "bcast", "broadcast_perf"],
    Primitive.REDUCE: ["reduce", "reduce_perf"],
    Primitive.P2P: ["p2p", "sendrecv", "sendrecv_perf"],
}


def test_there_are_seven() -> None:
    assert set(Primitive) == set(NAMES) == set(SHORT) == set(SIZE_MEANS)
    assert [str(primitive) for primitive in Primitive] == [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "broadcast",
        "reduce",
        "p2p",
    ]


@swept(
    ("name", "primitive"),
    [(name, primitive) for primitive, names in NAMES.items() for name in names],
)
def test_names(name: str, primitive: Primitive) -> None:
    assert parse_primitive(name) is primitive


@swept("name", ["", "ar2", "all", "all reduce", "scatter", "gather", "ring", "_perf"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ColltoolError, match="unknown primitive") as refused:
        parse_primitive(name)
    assert all(short in refused.value.fix for short in SHORT.values())


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(ColltoolError, match="did you mean 'all_reduce'"):
        parse_primitive("all_redcue")


@swept("n", [2, 3, 8, 72, 100, 512, 4096])
def test_busbw_factors_are_those_of_nccl_tests(n: int) -> None:
    assert busbw_factor(Primitive.ALL_REDUCE, n) == pytest.approx(2 * (n - 1) / n)
    for primitive in (Primitive.ALL_GATHER, Primitive.REDUCE_SCATTER, Primitive.ALL_TO_ALL):
        assert busbw_factor(primitive, n) == pytest.approx((n - 1) / n)
    for primitive in (Primitive.BROADCAST, Primitive.REDUCE, Primitive.P2P):
        assert busbw_factor(primitive, n) == 1


@swept("n", [2, 3, 8, 72, 4096])
def test_least_bytes_through_one_port(n: int) -> None:
    least = {
        Primitive.ALL_REDUCE: 2 * (n - 1) / n,
        Primitive.BROADCAST: 1,
        Primitive.REDUCE: 1,
        Primitive.P2P: 1,
    }
    for primitive in Primitive:
        assert least_n_beta(primitive, n) == pytest.approx(least.get(primitive, (n - 1) / n))


@swept("n", [*range(2, 70), 127, 128, 129, 4095, 4096, 4097])
def test_rounds(n: int) -> None:
    assert log2_ceil(n) == ceil(log2(n))
    assert 2 ** log2_ceil(n) >= n > 2 ** (log2_ceil(n) - 1)


@swept("k", [30, 49, 53, 60])
def test_rounds_stay_exact_where_floating_logarithms_do_not(k: int) -> None:
    assert (log2_ceil(2**k), log2_ceil(2**k + 1)) == (k, k + 1)
