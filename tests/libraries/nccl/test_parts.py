"""The parts of NCCL's estimate make up the estimate; crossovers have its picks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import parse_primitive
from colltool.estimate.nccl_hardware import hardware_on
from colltool.libraries.nccl.model import estimates, pick

pytestmark = pytest.mark.usefixtures("datasheet")


@swept(
    ("algorithm", "primitive", "ranks", "named"),
    [
        ("ring", "ar", 8, {"ring"}),
        ("in-network", "ar", 8, {"nvls"}),
        ("multi-rail-ring", "ar", 64, {"ring"}),
        ("hierarchical:ring/double-binary-tree", "ar", 64, {"tree"}),
        ("hierarchical:in-network/double-binary-tree", "ar", 64, {"nvls_tree"}),
        ("multi-rail-ring", "ag", 64, {"ring"}),
        ("multi-rail-chain", "bc", 64, {"ring"}),
    ],
)
@swept("size", [1e3, 1e6, 3e7, 5e9])
def test_the_parts_make_up_the_estimate(
    algorithm: str, primitive: str, ranks: int, named: set[str], size: float
) -> None:
    (entry,) = colltool.explain(
        algorithm, primitive, fabric="dgx-h100", size=size, ranks=ranks
    ).entries
    assert {one.algorithm for one in entry.estimates} == named
    on, what = hardware_on(colltool.load_fabric("dgx-h100"), ranks), parse_primitive(primitive)
    own = {(one.algorithm, one.protocol): one.seconds for one in estimates(on, what, size)}
    chosen = pick(on, what, size)
    for one in entry.estimates:
        whole = one.plateau * sum(times * each for _, times, each in one.latency) + size / (
            one.bandwidth_Bps * one.correction
        )
        assert whole == pytest.approx(one.seconds) == own[one.algorithm, one.protocol]
        assert one.picked == ((one.algorithm, one.protocol) == (chosen.algorithm, chosen.protocol))


def test_what_nccl_does_not_run_has_no_estimate() -> None:
    (entry,) = colltool.explain(
        "rabenseifner", "ar", fabric="dgx-h100", size="1MB", ranks=8
    ).entries
    assert entry.estimates == ()
    assert (
        colltool.explain(
            "ring", "ar", fabric="dgx-h100", size="1MB", ranks=8, library="all"
        ).library
        == ""
    )
    with pytest.raises(ColltoolError, match="needs the GPU generation"):
        colltool.explain("ring", "ar", fabric="star512", size="1MB", library="nccl")


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_crossover_has_the_picks_of_all_sizes(ranks: int) -> None:
    picks = colltool.crossover("dgx-h100", "ar", ranks=ranks).picks
    assert picks[0].from_bytes == 1
    assert picks[-1].to_bytes is None
    assert all(one.to_bytes == other.from_bytes for one, other in pairwise(picks))
    on = hardware_on(colltool.load_fabric("dgx-h100"), ranks)
    for one in picks:
        middle = (one.from_bytes * (one.to_bytes or 8 * one.from_bytes)) ** 0.5
        assert pick(on, parse_primitive("ar"), middle)[:2] == (one.algorithm, one.protocol)
    assert colltool.crossover("dgx-h100", "ar", ranks=ranks, library="all").picks == ()
    assert colltool.crossover("l40s-pcie", "ar").picks == (), "the facts are not there"
