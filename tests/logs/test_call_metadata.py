"""What kernels' names and metadata tell, and where they tell nothing."""

from __future__ import annotations

from typing import Any

from swept import swept
from tracing import labels

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.base.statements import Statement
from colltool.logs.call_metadata import NO_METADATA, CallMetadata, call_metadata
from colltool.logs.kernel_names import is_collective, kernel_name

EIGHT = list(range(8))


@swept(
    ("name", "says", "algorithm", "protocol", "primitives"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "RING_LL", "", "", (AR,)),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)",
            "TREE_LL",
            "tree",
            "",
            (AR,),
        ),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", "RING_LL", "", "", (AG,)),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "RING_LL",
            "ring",
            "",
            (AR,),
        ),
        (
            "ncclKernel_ReduceScatter_RING_SIMPLE_Sum_half(ncclWorkElem)",
            "RING_SIMPLE",
            "ring",
            "simple",
            (RS,),
        ),
        (
            "ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE(x)",
            "NVLS_TREE_SIMPLE",
            "nvls_tree",
            "simple",
            (AR,),
        ),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL128(x)", "RING_LL128", "ring", "ll128", (AR,)),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", "", "", "", (A2A, P2P)),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", "RING_LL", "", "", (REDUCE,)),
        ("ncclDevKernel_Generic(x)", "", "", "", ()),
    ],
)
def test_of_a_name_only_what_is_true(
    name: str, says: str, algorithm: str, protocol: str, primitives: tuple[Primitive, ...]
) -> None:
    assert is_collective(name)
    assert kernel_name(name) == (says, algorithm, protocol, primitives)


@swept("name", ["gemm", "void cutlass::Kernel<nccl>", "my_ncclKernel_x", "reduce_kernel", ""])
def test_other_kernels_compute(name: str) -> None:
    assert not is_collective(name)


def found(
    about: dict[str, Any],
    header: dict[str, Any] | None = None,
    primitives: tuple[Primitive, ...] = (),
) -> CallMetadata:
    one = call_metadata(about, header or {}, primitives)
    assert isinstance(one, CallMetadata)
    return one


@swept(
    ("called", "into", "out", "primitive", "elements"),
    [
        ("allreduce", 100, 100, AR, 100),
        ("_allgather_base", 100, 800, AG, 800),
        ("_reduce_scatter_base", 800, 100, RS, 800),
        ("all_to_allv", 800, 700, A2A, 800),
        ("broadcast", 100, 100, BC, 100),
        ("recv", 0, 50, P2P, 50),
        ("send", 50, 50, P2P, 50),
        ("allreduce_coalesced", 100, 100, AR, 100),
    ],
)
def test_m_is_nccl_tests(
    called: str, into: int, out: int, primitive: Primitive, elements: int
) -> None:
    about = labels(EIGHT, called) | {
        "In msg nelems": into,
        "Out msg nelems": out,
        "dtype": "BFloat16",
    }
    assert found(about)[:3] == (primitive, 2 * elements, "BFloat16")


def test_ranks_as_listed_as_configured_or_evenly_apart() -> None:
    listed = found(labels([0, 8, 16]))
    assert listed.ranks == (0, 8, 16)
    cut = labels([0, 1, 2]) | {"Process Group Ranks": "[0, 1, ...]", "Process Group Name": "4"}
    assert found(cut).ranks == ()
    header = {"distributedInfo": {"pg_config": [{"pg_name": "4", "ranks": [2, 4, 6]}]}}
    assert found(cut, header).ranks == (2, 4, 6)
    apart = cut | {"Global rank start": 1, "Global rank stride": 4}
    assert found(apart).ranks == (1, 5, 9)


@swept(
    ("listed", "size", "ranks"),
    [
        ("[0, 1, 2, ..., 63]", 64, tuple(range(64))),
        ("[64, 65, ..., 127]", 64, tuple(range(64, 128))),
        ("[0, 2, ..., 126]", 64, ()),  # evenly apart, or not: the list does not say
        ("[0, 1, 2, ...]", 64, ()),
        ("[0, 1, ..., 31]", 31, ()),
        ("[..., 63]", 64, ()),
        ("[...]", 64, ()),
        ("[0, ..., 99999999999]", 10**11, ()),
    ],
)
def test_a_list_that_is_cut_is_used_where_it_leaves_no_choice(
    listed: str, size: int, ranks: tuple[int, ...]
) -> None:
    assert (
        found(labels([0, 1]) | {"Process Group Ranks": listed, "Group size": size}).ranks == ranks
    )


def test_a_group_as_large_as_the_job_is_all_of_it() -> None:
    cut = labels([0, 1]) | {"Process Group Ranks": "[0, 1, 2, ...]", "Group size": 64}
    header = {"distributedInfo": {"world_size": 64, "pg_config": [{"pg_name": "0", "ranks": []}]}}
    assert found(cut, header).ranks == tuple(range(64))
    assert found(cut | {"Group size": 32}, header).ranks == ()


@swept(
    ("split", "uneven"),
    [("[]", False), ("[4, 4, 4]", False), ("[4, 4, ...]", False), ("[4, 5, 4]", True)],
)
def test_uneven_parts_of_an_all_to_all(split: str, uneven: bool) -> None:
    for side in ("In split size", "Out split size"):
        assert found(labels(EIGHT, "all_to_allv", **{side: split})).uneven == uneven
        assert not found(labels(EIGHT, "allreduce", **{side: split})).uneven


def test_both_ends_of_a_message_where_they_are_clear() -> None:
    def ends(ranks: list[int], **more: Any) -> tuple[int, ...]:
        return found(labels(ranks, "send", **more)).ranks

    clear = {"Src Rank": 1, "Dst Rank": 2}
    assert ends([4, 12]) == (4, 12)
    assert ends([0, 1, 2, 3], **clear) == (1, 2)
    assert ends([0, 8, 16, 24], **clear) == (8, 16)
    assert ends([0, 8, 16, 24], **{"Src Rank": 8, "Dst Rank": 24}) == (8, 24)
    assert ends([1, 2, 5, 6], **clear) == ()  # ranks 1 and 2, or the second and third, 2 and 5
    assert ends([0, 1, 2, 3]) == ()


@swept(
    ("change", "reason"),
    [
        ({"Collective name": None}, str(NO_METADATA)),
        (
            {"Collective name": "reduce_scatter_tensor_coalesced"},
            "the type of the first tensor alone",
        ),
        ({"Collective name": "gather"}, "'gather' is not a primitive"),
        ({"Collective name": "broadcast"}, "labelled broadcast"),
        ({"dtype": "Quaternion"}, "known dtype"),
        ({"In msg nelems": "many"}, "number of elements"),
        ({"In msg nelems": -1}, "number of elements"),
        ({"Group size": True}, "group size"),
        ({"Group size": 1}, "one rank"),
        ({"In msg nelems": 0}, "nothing to send"),
        ({"In msg nelems": 10**17, "dtype": "ComplexDouble"}, "nothing to send"),
    ],
)
def test_what_cannot_be_told_says_why(change: dict[str, Any], reason: str) -> None:
    one = call_metadata(labels(EIGHT) | change, {}, (AR,))
    assert isinstance(one, Statement)
    assert reason in str(one)
