"""Tiers that are a graph: loads counted by hand, the same wiring as another topology, executions,
the cut bound."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from networks import M, below_the_cut, seconds
from small import CUBE_MESH, fabric, full_mesh, graph, hyperx, star, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric

US = 1e-6


def ring_of(ranks: int) -> Fabric:
    return fabric(graph(*((rank, (rank + 1) % ranks) for rank in range(ranks))))


def cube_mesh() -> Fabric:
    return fabric(
        graph(
            *({"between": list(ends), "links": links} for ends, links in CUBE_MESH.items()), bw=25.0
        )
    )


def square_torus() -> list[tuple[int, int]]:
    """4 x 4, the first axis fastest."""
    places = list(product(range(4), range(4)))
    return [
        (x + 4 * y, (x + dx) % 4 + 4 * ((y + dy) % 4))
        for y, x in places
        for dx, dy in ((1, 0), (0, 1))
    ]


def test_a_cube_mesh_has_six_links_a_rank() -> None:
    assert {
        sum(links for ends, links in CUBE_MESH.items() if rank in ends) for rank in range(8)
    } == {6}


@swept(
    ("primitive", "algorithm", "alphas", "betas"),
    [
        ("ag", "ring", 7, 7 / 8),
        ("ar", "ring", 14, 14 / 8),
        # of 8 x (1 + 2 + 3) x 2 + 8 x 4 links passed, 16 directed links share all alike; the
        # farthest is four away
        ("a2a", "direct", 4, 128 / 16 / 8),
        ("bc", "chain", 7, 1),
    ],
)
def test_loads_of_a_ring_by_hand(
    primitive: str, algorithm: str, alphas: float, betas: float
) -> None:
    assert seconds(ring_of(8), primitive, algorithm) == pytest.approx(
        alphas * US + betas * M / 100e9
    )


@swept(
    ("as_graph", "as_it_is", "algorithms"),
    [
        (
            graph(*((rank, "s") for rank in range(8)), alpha=0.5),
            star(8),
            {"ar": "ring", "ag": "recursive-doubling", "bc": "chain"},
        ),
        (
            graph(*combinations(range(8), 2)),
            full_mesh(8),
            {"ar": "two-shot", "ag": "direct", "a2a": "direct"},
        ),
        (graph(*square_torus()), torus(4, 4), {"a2a": "direct"}),  # shortest paths there
    ],
)
def test_the_same_wiring_costs_the_same(
    as_graph: dict[str, object], as_it_is: dict[str, object], algorithms: dict[str, str]
) -> None:
    for primitive, algorithm in algorithms.items():
        known = [one.spec for one in colltool.price(fabric(as_it_is), primitive, size=M).results]
        wanted = colltool.price(
            fabric(as_it_is), primitive, size=M, algorithms=algorithm if algorithm in known else ()
        ).best
        assert seconds(fabric(as_graph), primitive, algorithm) == pytest.approx(
            float(wanted.total_s)
        )


@pytest.mark.parametrize(
    "of",
    [
        cube_mesh(),
        fabric(graph((0, 1), (1, 2), (2, 0), (2, "s"), ("s", 3)), star(4, bw=20.0)),
        fabric(star(2), graph((0, 1), (1, 2), (2, 3), (3, 0), (0, 2))),
    ],
    ids=["cube mesh", "inner", "outer"],
)
def test_executed_schedules_take_what_they_are_priced_at_and_no_price_is_below_the_cut(
    of: Fabric,
) -> None:
    done = colltool.verify(of, size=M)
    assert done.holds
    assert sum(one.verdict == "proved" for one in done.results) > len(done.results) / 2
    assert below_the_cut(of) == []


@swept("primitive", ["ar", "ag", "bc"])
def test_a_cube_mesh_uses_all_its_links(primitive: str) -> None:
    """Six links a rank: 7/8 M over them to gather, twice that to reduce too, M to broadcast.

    SCCL (Cai et al., PPoPP 2021, table 4) too finds an all-gather of 7 rounds for 6 chunks optimal
    on this machine.
    """
    best = colltool.price(cube_mesh(), primitive, size=M).best
    assert best.spec == "forest"
    wanted = {"ar": 14 / 8, "ag": 7 / 8, "bc": 1}[primitive] / 6 * M / 25e9
    assert float(best.bandwidth_s) == pytest.approx(wanted)


def test_contention_scales_links() -> None:
    slow = fabric(graph((0, 1), (1, 2), (2, 0), eta={"alpha": 2.0, "beta": 0.5}))
    plain = fabric(graph((0, 1), (1, 2), (2, 0)))
    assert seconds(slow, "ag", "ring") == pytest.approx(2 * seconds(plain, "ag", "ring"))


def test_a_group_uses_its_own_ranks_and_the_switches() -> None:
    of = fabric(graph((0, 1), (1, 2), (2, 3), (3, 0)))
    # 0 and 2 by way of 1
    assert seconds(of, "a2a", "direct", ranks=3) == pytest.approx(2 * US + 2 / 3 * M / 100e9)
    with pytest.raises(ColltoolError, match="3 ranks"):
        colltool.price(fabric(graph((0, 3), (3, 1), (3, 2))), "ar", size=M, ranks=3)


def test_scattered_ranks_are_refused() -> None:
    with pytest.raises(ColltoolError, match="routed link by link"):
        colltool.price(ring_of(4), "ar", size=M, placement="scattered")


def test_c_of_the_double_binary_tree_does_not_apply() -> None:
    """Bytes are counted link by link: c moves no price there, and makes none hypothetical."""
    for where in (
        ring_of(8),
        fabric(star(4), graph(*((rank, (rank + 1) % 8) for rank in range(8)))),
    ):
        usual, two = (
            colltool.price(
                where, "ar", size=M, algorithms="double-binary-tree", tree_beta=c
            ).results[0]
            for c in (2.0, 1.0)
        )
        assert (two.total_s, two.status) == (usual.total_s, "shipped")


@pytest.mark.parametrize("stride", [2, 3])
def test_schedules_on_own_links_need_consecutive_ranks(stride: int) -> None:
    """Links between every third rank lead through the others, which have groups of their own."""
    ring = fabric(graph(*((rank, (rank + 1) % 6) for rank in range(6))))
    grid = fabric(hyperx(3, 4))
    for where in (ring, grid):
        for primitive, names in (
            ("ag", ("forest", "tacos")),
            ("a2a", ("mcf",)),
            ("bc", ("forest",)),
        ):
            found = colltool.price(where, primitive, size="1GB", stride=stride, library="all")
            reasons = {one.algorithm: one.reason for one in found.infeasible}
            assert all(
                "consecutive ranks" in reasons[name]
                for name in names
                if name != "mcf" or where is ring
            )
        assert colltool.verify(where, stride=stride).holds


def test_ranks_that_meet_through_others_are_no_half_full_domain() -> None:
    where = fabric(graph((0, 2), (1, 2), (2, 3), (3, 0)))
    with pytest.raises(
        ColltoolError, match="the first 2 ranks of small reach each other only through others"
    ) as caught:
        colltool.price(where, "a2a", size="1MB", ranks=2)
    assert "the nearest sizes that do without are 3" in caught.value.spelled("python")
