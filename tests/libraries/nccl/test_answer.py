"""What NCCL would run beside our price: in Python, in the table and in the document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR
from colltool.estimate.nccl_hardware import hardware_on
from colltool.libraries.nccl.model import switch_points

pytestmark = pytest.mark.usefixtures("datasheet")


@swept(
    ("ranks", "size", "picked", "spec"),
    [
        (8, "1MB", ("ring", "ll"), "ring"),
        (8, "16MiB", ("nvls", "simple"), "in-network"),
        (64, "1MiB", ("tree", "ll128"), "hierarchical:ring/double-binary-tree"),
        (64, "64MiB", ("nvls_tree", "simple"), "hierarchical:in-network/double-binary-tree"),
    ],
)
def test_the_pick_and_our_price_of_it(
    ranks: int, size: str, picked: tuple[str, str], spec: str
) -> None:
    found = colltool.price("dgx-h100", "ar", size=size, ranks=ranks, library="nccl").library
    assert found is not None
    assert (found.name, found.version) == ("nccl", "2.30")
    assert (found.pick.algorithm, found.pick.protocol) == picked
    assert (
        found.runs == colltool.price("dgx-h100", "ar", size=size, ranks=ranks, algorithms=spec).best
    )
    assert found.pick.seconds == min(
        float(one.seconds) for one in found.ways if one.seconds is not None
    )


def test_the_pick_changes_where_the_model_flips() -> None:
    where = colltool.load_fabric("dgx-h100")
    _, second, *_ = switch_points(hardware_on(where, 64), AR)
    below, above = (
        colltool.price(
            where, "ar", size=second.from_bytes * factor, ranks=64, library="nccl"
        ).library
        for factor in (0.999, 1.001)
    )
    assert below is not None
    assert above is not None
    assert (above.pick.algorithm, above.pick.protocol) == (second.algorithm, second.protocol)
    assert below.pick.protocol != above.pick.protocol


def test_a_fabric_s_own_library_is_asked() -> None:
    own = colltool.price("dgx-h100", "ar", size="1MB")
    assert own == colltool.price("dgx-h100", "ar", size="1MB", library="nccl")
    assert own.library is not None
    assert own.library.pick is not None
    assert colltool.price("dgx-h100", "ar", size="1MB", library="all").library is None


@swept(
    ("fabric", "primitive", "size", "reason"),
    [
        ("dgx-h100", "a2a", "1MB", "NCCL has one way for all-to-all: there is nothing to choose"),
        ("dgx-h100", "ar", np.array([1e6, 1e7]), "an array of sizes has no single pick"),
        ("l40s-pcie", "ar", "1MB", "the channels of GPUs of ampere joined by PCIe"),
    ],
)
def test_without_a_pick_there_is_a_reason(
    fabric: str, primitive: str, size: Any, reason: str
) -> None:
    found = colltool.price(fabric, primitive, size=size).library
    assert found is not None
    assert (found.name, found.pick) == ("nccl", None)
    assert reason in found.reason


@swept("library", ["rccl", "mpi", "mscclpp", "xla"])
def test_a_library_without_a_model_ranks_and_picks_nothing(library: str) -> None:
    found = colltool.price("dgx-h100", "ar", size="1MB", ranks=8, library=library)
    assert found.library is not None
    assert (found.library.name, found.library.pick, found.library.reason) == (library, None, "")


@swept(
    ("fabric", "primitive", "library", "size", "message"),
    [
        ("dgx-h100", "ar", "ncl", "1MB", "did you mean 'nccl'"),
        ("star512", "ar", "nccl", "1MB", "needs the GPU generation, which star512 does not give"),
        ("torus512", "a2a", "nccl", "1MB", "NCCL does not run on torus512"),
        ("dgx-h100", "ar", 3, "1MB", "library"),
    ],
)
def test_what_cannot_be_answered(
    fabric: str, primitive: str, library: Any, size: Any, message: str
) -> None:
    with pytest.raises(ColltoolError) as refused:
        colltool.price(fabric, primitive, size=size, library=library)
    assert message in str(refused.value)


def test_a_list_of_sizes_has_a_pick_for_each() -> None:
    listed = colltool.price_list("dgx-h100", "ar", sizes=["1MB", "1GB"], ranks=64, library="nccl")
    assert [one.library.pick.algorithm for one in listed.prices if one.library] == [
        "tree",
        "nvls_tree",
    ]
