"""Rails that never meet: what may run, that it costs what it does on others, and what the detour of
an all-to-all takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from networks import below_the_cut
from small import clos, fabric, star
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.fabric.model import Fabric

M = 256e6


def nodes(rails: str = "only", inner: float = 450.0) -> Fabric:
    return fabric(star(8, bw=inner), clos(4, (2, 5.0), (4, 9.0), bw=50.0, rails=rails))


def specs(of: Fabric, primitive: str) -> dict[str, float]:
    return {one.spec: float(one.total_s) for one in colltool.price(of, primitive, size=M).results}


@swept("primitive", list(Primitive))
def test_what_runs_keeps_to_rails_and_costs_what_it_did(primitive: Primitive) -> None:
    met, apart = specs(nodes("optimised"), primitive), specs(nodes(), primitive)
    assert apart
    assert apart.items() <= met.items()
    assert not set(apart) & {
        "ring",
        "double-binary-tree",
        "direct",
        "two-shot",
        "one-shot",
        "pairwise",
        "chain",
        "send",
        "binomial",
    }


def test_who_sends_from_rail_to_rail_says_so() -> None:
    refused = {
        one.algorithm: one.reason for one in colltool.price(nodes(), "a2a", size=M).infeasible
    }
    assert "rail to rail" in refused["direct"]


def test_ranks_of_one_rail_are_free() -> None:
    of = nodes()
    assert {one.spec for one in colltool.price(of, "a2a", size=M, ranks=4, stride=8).results} >= {
        "direct",
        "pairwise",
    }
    assert {one.spec for one in colltool.price(of, "a2a", size=M, ranks=8).results} >= {"direct"}


def test_the_detour_of_an_all_to_all() -> None:
    """All that leaves a node moves once more inside it: 13% more time here, with NVLink of nine
    NICs."""

    def seconds(of: Fabric) -> float:
        return float(colltool.price(of, "a2a", size=M).best.total_s)

    assert 1.08 < seconds(nodes()) / seconds(nodes("optimised")) < 1.16
    assert seconds(nodes(inner=200.0)) > seconds(nodes())


def test_the_shipped_pair_against_the_paper() -> None:
    """1.082 to 1.112 for experts in Wang et al.; within it with η at 1 where bytes count, and to 5
    points above it with η."""

    def ratio(size: float, *, ideal: bool) -> float:
        apart, met = (
            colltool.price(one, "a2a", size=size, ranks=256, ideal=ideal).best
            for one in ("rail-only", "dgx-h100")
        )
        return float(apart.total_s / met.total_s)

    assert [ratio(size, ideal=True) for size in (1e6, 4e9)] == pytest.approx(
        [1.255, 1.100], abs=1e-3
    )
    assert [ratio(size, ideal=False) for size in (1e6, 4e9)] == pytest.approx(
        [1.011, 1.164], abs=1e-3
    )


def test_executed_schedules_hold_and_no_price_is_below_the_cut() -> None:
    of = nodes()
    done = colltool.verify(of, size=M)
    assert done.holds
    assert below_the_cut(of, M) == []


def ring_file(tmp_path: Path, order: Sequence[int]) -> Path:
    """An all-gather round a ring of ranks in this order, as a file of one's own."""
    n = len(order)
    steps = [
        [f"{order[k]}>{order[(k + 1) % n]}:{order[(k - step) % n]}" for k in range(n)]
        for step in range(n - 1)
    ]
    lines = "\n".join(f"  - {' '.join(sends)}" for sends in steps)
    file = tmp_path / "ring.yaml"
    file.write_text(
        "schema: colltool.algorithm/1\nname: mine\nprimitive: all_gather\nranks:"
        f" {n}\nsteps:\n{lines}\n"
    )
    return file


def test_a_schedule_of_ones_own_keeps_to_rails_or_is_refused(tmp_path: Path) -> None:
    """Nodes of 8 in turn, forth and back over their places: the last of one node and the first of
    the next share a rail."""
    across = [
        8 * node + (place if node % 2 == 0 else 7 - place)
        for node in range(4)
        for place in range(8)
    ]
    kept = colltool.price(nodes(), "ag", size=M, algorithm_files=[ring_file(tmp_path, across)])
    assert "mine" in {one.spec for one in kept.results}
    in_order = ring_file(tmp_path, range(32))
    assert colltool.price(nodes("optimised"), "ag", size=M, algorithm_files=[in_order]).results
    with pytest.raises(
        ColltoolError,
        match="step 1: rank 7 sends to rank 8, from rail 7 to rail 0, and rails never meet here",
    ):
        colltool.price(nodes(), "ag", size=M, algorithm_files=[in_order])


def test_neighbours_that_forward_keep_a_group_on_its_rails() -> None:
    """Whole nodes have a neighbour on every rail; one rank of each node, at different places, has
    none."""
    run = {"primitive": "all_reduce", "algorithm": "ring"}
    assert (
        colltool.contention(nodes(), {"groups": [{"ranks": list(range(32)), **run}]}).slowdown
        == 1.0
    )
    with pytest.raises(ColltoolError, match="rails never meet"):
        colltool.contention(nodes(), {"groups": [{"ranks": [0, 9, 18], **run}]})
