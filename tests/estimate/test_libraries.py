"""What a library runs leads; what it does not run is priced behind, with who runs it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import clos, fabric, star, switch
from swept import swept

import colltool
from colltool.algorithms.composed import every_composition
from colltool.algorithms.libraries import LIBRARIES, NotRun, ships
from colltool.algorithms.registry import usual_algorithms
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric

pytestmark = pytest.mark.usefixtures("datasheet")

NAMES = tuple(LIBRARIES)
SIZES = st.sampled_from([1e3, 64e3, 1e6, 16e6, 256e6, 4e9])
PRIMITIVES = ("ar", "ag", "rs", "bc", "reduce", "a2a", "p2p")


def leading(where: Fabric | str, primitive: str, library: str, **asked: Any) -> set[str]:
    return {row.spec for row in colltool.price(where, primitive, library=library, **asked).leading}


@swept(
    ("ranks", "primitive", "specs"),
    [
        (8, "ar", {"ring", "in-network"}),
        (8, "ag", {"ring", "in-network"}),
        (8, "rs", {"ring", "in-network"}),
        (
            64,
            "ar",
            {
                "multi-rail-ring",
                "hierarchical:in-network/double-binary-tree",
                "hierarchical:ring/double-binary-tree",
            },
        ),
        (64, "ag", {"multi-rail-ring"}),
        (8, "bc", {"chain"}),
        (64, "bc", {"multi-rail-chain"}),
        (
            64,
            "a2a",
            {"pairwise", "direct", "two-level:direct/direct", "two-level:pairwise/pairwise"},
        ),
    ],
)
def test_what_nccl_has_on_an_h100(ranks: int, primitive: str, specs: set[str]) -> None:
    assert leading("dgx-h100", primitive, "nccl", ranks=ranks, size="1GB") == specs


def test_sharp_counts_where_it_is_on() -> None:
    off = leading("dgx-h100", "ar", "nccl", ranks=64, size="1GB")
    on = leading(
        colltool.load_fabric("dgx-h100", {"library.collnet": "true"}),
        "ar",
        "nccl",
        ranks=64,
        size="1GB",
    )
    assert on - off == {
        "hierarchical:in-network/in-network",
        "hierarchical:direct/in-network",
        "hierarchical:ring/in-network",
    }
    without = leading(
        colltool.load_fabric("dgx-h100", {"library.nvls": "false"}),
        "ar",
        "nccl",
        ranks=64,
        size="1GB",
    )
    assert off - without == {"hierarchical:in-network/double-binary-tree"}
    assert leading(
        colltool.load_fabric("dgx-h100", {"library.gpu": "ampere"}),
        "ar",
        "nccl",
        ranks=8,
        size="1GB",
    ) == {"ring"}


def test_nodes_of_one_gpu_take_trees_and_pat() -> None:
    hosts = fabric(clos(16, alpha=5.0, bw=50.0, in_network=switch(0.5)))
    assert leading(hosts, "ar", "rccl", size="1MB") == {"ring", "double-binary-tree"}
    listed = colltool.price(fabric(clos(16, alpha=5.0, bw=50.0), library="nccl"), "ag", size="1MB")
    assert {row.spec for row in listed.leading} == {"ring", "pat"}


def test_mpi_leads_through_leaders_and_knows_no_ring_over_rails() -> None:
    found = colltool.price("dgx-h100", "ar", ranks=64, size="1MB", library="mpi")
    assert found.leading
    assert {row.algorithm for row in found.leading} == {
        "ring",
        "recursive-doubling",
        "rabenseifner",
        "leader",
    }
    assert any(row.spec == "multi-rail-ring" and row.not_selected_reason for row in found.others)


def test_lattices_are_xlas() -> None:
    found = colltool.price("tpu-v4-512", "ar", size="64MB", library="xla")
    assert found.best.algorithm in ("dim-ring", "dim-ring-bidirectional", "multi-ring")
    assert not colltool.price(
        "torus512", "ar", size="64MB", library="mpi", algorithms="multi-ring"
    ).runnable


@given(st.sampled_from(NAMES), st.sampled_from(PRIMITIVES), SIZES, st.sampled_from([8, 16, 64]))
def test_what_leads_is_shipped_by_the_library_and_all_is_their_union(
    library: str, primitive: str, size: float, ranks: int
) -> None:
    found = colltool.price(
        under_library(colltool.load_fabric("hgx-h200", {"library": "all"}), library),
        primitive,
        size=size,
        ranks=ranks,
    )
    every = colltool.price("hgx-h200", primitive, size=size, ranks=ranks, library="all")
    assert all(ships(library, row.shipped_by) for row in found.leading)
    assert all(row.rank_class >= 1 for row in found.others)
    if found.leading:
        assert float(every.best.total_s) <= float(found.best.total_s) * (1 + 1e-12), (
            "what could run is no slower"
        )
    totals = [float(row.total_s) for row in found.leading]
    assert totals == sorted(totals)


@given(
    st.sampled_from(["ar", "ag", "rs", "a2a"]),
    st.sampled_from(["nccl", "mpi", "rccl"]),
    st.sampled_from([8, 64]),
    SIZES,
)
def test_the_map_of_winners_follows_the_library(
    primitive: str, library: str, ranks: int, size: float
) -> None:
    where = under_library(colltool.load_fabric("dgx-h100"), library)
    winners = colltool.crossover(where, primitive, ranks=ranks).winners
    best = colltool.price(where, primitive, size=size, ranks=ranks).best
    at = next(
        one
        for one in winners
        if one.from_bytes <= size and (one.to_bytes is None or size < one.to_bytes)
    )
    assert at.algorithm == best.title or float(best.total_s) == pytest.approx(
        float(
            colltool.price(
                where, primitive, size=size, ranks=ranks, algorithms=at.spec
            ).best.total_s
        ),
        rel=1e-9,
    )


def test_the_usual_pairs_stay() -> None:
    pairs = [(one.a, one.b) for one in colltool.crossover("dgx-h100", "ar", ranks=64).pairs]
    assert pairs == [
        (one.a, one.b)
        for one in colltool.crossover("dgx-h100", "ar", ranks=64, library="all").pairs
    ]
    assert pairs == [("ring", "tree"), ("ring", "double-binary-tree")]


def test_nobody_ships_a_choice_that_nobody_composes_so() -> None:
    row = colltool.price(
        "dgx-h100",
        "ar",
        ranks=64,
        size="1MB",
        library="all",
        algorithms="hierarchical:in-network/two-shot",
    ).best
    assert row.shipped_by == ()
    assert any("no library runs it as one call" in note for note in row.notes)
    (ring,) = colltool.price(
        "dgx-h100", "ar", ranks=64, size="1MB", algorithms="hierarchical:ring/ring"
    ).results
    assert (ring.selectable, ring.not_selected_reason) == (False, NotRun("no_composition", "nccl"))


def test_a_library_where_nothing_runs_prices_the_rest() -> None:
    found = colltool.price("dgx-h100", "ar", ranks=64, size="1MB", library="mscclpp")
    assert found.leading == ()
    assert found.best.rank_class == 1


def test_what_the_fabric_lists_is_run_whatever_is_known() -> None:
    listed = fabric(star(8, 1.0, 100.0, algorithms={"ar": ["recursive-doubling"]}), library="nccl")
    assert [row.spec for row in colltool.price(listed, "ar", size="1MB").leading] == [
        "recursive-doubling"
    ]


def test_every_vendor_of_a_library_ships_something() -> None:
    everything = [
        name for row in (*usual_algorithms(), *every_composition()) for name in row.shipped_by
    ]
    for library, known in LIBRARIES.items():
        assert any(ships(library, (name,)) for name in everything), library
        assert {name for name in everything if ships(library, (name,))} <= {
            name for name in everything if name.partition(" (")[0] in known.vendors
        }
