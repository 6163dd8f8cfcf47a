"""Every name that people know an algorithm by is taken, in any case, and outputs lead with the
library's."""

from __future__ import annotations

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError

ACROSS = ("dgx-h100", 64)  # eight nodes
NODE = ("dgx-h100", 8)
TREE = "hierarchical:ring/double-binary-tree"
NVLS_TREE = "hierarchical:in-network/double-binary-tree"
SHARP = "hierarchical:in-network/in-network"
# where, the collective, what was typed, the schedule that it means
MEANT = [
    (ACROSS, "ar", "NVLSTree", NVLS_TREE),
    (ACROSS, "ar", "nvlstree", NVLS_TREE),
    (ACROSS, "ar", "NVLS_TREE", NVLS_TREE),
    (ACROSS, "ar", "Tree", TREE),
    (ACROSS, "ar", "TREE", TREE),
    (ACROSS, "ar", "tree", "tree"),
    (ACROSS, "ar", "Ring", "multi-rail-ring"),
    (ACROSS, "ar", "RING", "multi-rail-ring"),
    (ACROSS, "ar", "ring", "ring"),
    (ACROSS, "ar", "NVLS", SHARP),
    (ACROSS, "ar", "SHARP", SHARP),
    (ACROSS, "ar", "INC", SHARP),
    (ACROSS, "ar", "CollNet", "hierarchical:ring/in-network"),
    (ACROSS, "ar", "CollNetChain", "hierarchical:ring/in-network"),
    (ACROSS, "ar", "collnet_direct", "hierarchical:direct/in-network"),
    (ACROSS, "ar", "RHD", "rabenseifner"),
    (ACROSS, "ar", "butterfly", "rabenseifner"),
    (ACROSS, "ar", "Recursive-Halving-Doubling", "rabenseifner"),
    (ACROSS, "ar", "DBT", "double-binary-tree"),
    (ACROSS, "ar", "double_binary_tree", "double-binary-tree"),
    (ACROSS, "ar", "2d-ring", "hierarchical:ring/ring"),
    (ACROSS, "ar", "hierarchical:Ring/DBT", TREE),
    (ACROSS, "ag", "Ring", "multi-rail-ring"),
    (ACROSS, "ag", "RHD", "recursive-doubling"),
    (ACROSS, "rs", "butterfly", "recursive-halving"),
    (ACROSS, "bc", "ring", "multi-rail-chain"),
    (NODE, "ar", "NVLS", "in-network"),
    (NODE, "ar", "Ring", "ring"),
    (NODE, "ar", "allpairs", "two-shot"),
    (NODE, "ar", "one_shot", "one-shot"),
    (NODE, "ag", "linear", "direct"),
    (NODE, "bc", "Ring", "chain"),
    (NODE, "bc", "binomial tree", "binomial"),
    (("torus512", None), "ar", "2D-Ring", "dim-ring"),
    (("torus512", None), "a2a", "ring-relay", "shortest-path"),
    (("star512", None), "ar", "INC", "in-network"),
    (("star512", None), "ar", "Tree", "tree"),
    (("star512", None), "a2a", "Pairwise", "pairwise"),
    (("superpod-textbook", 144), "ar", "NVLSTree", NVLS_TREE),
    (("mpi-cluster", None), "ar", "Recursive Doubling", "recursive-doubling"),
    (("mpi-cluster", None), "ar", "han", "leader:chain/rabenseifner"),
]


@swept(("where", "primitive", "typed", "spec"), MEANT)
def test_names_in_any_case(
    where: tuple[str, int | None], primitive: str, typed: str, spec: str
) -> None:
    fabric, ranks = where
    found = colltool.price(fabric, primitive, ranks=ranks, size="16MB", algorithms=typed)
    assert found.best.spec == spec


@swept("ranks", [8, 64])
@swept("primitive", ["ar", "ag", "rs", "a2a", "bc"])
def test_what_leads_on_the_screen_is_taken_as_input(primitive: str, ranks: int) -> None:
    """Each name that a price shows means a row of that name (PXN is two)."""
    priced = colltool.price("dgx-h100", primitive, ranks=ranks, size="16MB")
    for row in priced.results:
        again = colltool.price("dgx-h100", primitive, ranks=ranks, size="16MB", algorithms=row.name)
        assert again.best.name == row.name


def test_a_textbook_tree_does_not_stand_in_for_nccls() -> None:
    with pytest.raises(ColltoolError, match="'tree' is the textbook's"):
        colltool.price("dgx-h100", "ar", ranks=8, size="16MB", algorithms="Tree")


def test_other_functions_take_the_same_names() -> None:
    crossing = colltool.crossover("dgx-h100", "ar", ranks=64, algorithms=["Ring", "Tree"])
    assert [pair.a_name for pair in crossing.pairs] == ["Ring"]
    assert crossing.pairs[0].b_spec == TREE
    phases = colltool.breakdown("dgx-h100", "ar", size="16MB", ranks=64, algorithm="NVLSTree")
    assert phases.price.best.spec == NVLS_TREE
    assert colltool.explain("DBT").entries[0].algorithm == "double-binary-tree"
    proved = colltool.verify("dgx-h100", "ar", ranks=16, algorithms=["Tree"])
    assert all(row.algorithm.startswith("hierarchical (ring / double") for row in proved.results)
