"""Rings and paths that share out all links of a full mesh, executed."""

import numpy as np
import pytest
from swept import swept

from colltool.algorithms.executor import run
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import find
from colltool.algorithms.rings import paths, rings
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Pipeline, Primitive, totals
from colltool.network.group import Group
from tests.wiring import MeshNetwork

SIZES = (*range(3, 14), 16, 31, 32)


def _uses(src: np.ndarray, dst: np.ndarray, n: int) -> set[int]:
    """How often each directed link between two ranks is used."""
    counts = np.bincount((src * n + dst).ravel(), minlength=n * n).reshape(n, n)
    assert not counts.diagonal().any()
    return set(counts[~np.eye(n, dtype=bool)].tolist())


@swept("n", SIZES)
def test_rings_visit_all_ranks_and_use_every_link_alike(n: int) -> None:
    around = rings(n)
    assert (np.sort(around, axis=1) == np.arange(n)).all()
    assert _uses(around, np.roll(around, -1, axis=1), n) == ({1} if n % 2 else {2})
    assert len(around) == (n - 1 if n % 2 else 2 * (n - 1))


@swept("n", [2, *SIZES])
def test_paths_start_and_end_everywhere_and_use_every_link_alike(n: int) -> None:
    """What rings over all NICs of a domain are inside it: each NIC has as many that come in as that
    go out."""
    ways = paths(n)
    assert (np.sort(ways, axis=1) == np.arange(n)).all()
    assert _uses(ways[:, :-1], ways[:, 1:], n) == ({2} if n % 2 else {1})
    for end in (0, -1):
        assert set(np.bincount(ways[:, end], minlength=n).tolist()) == {len(ways) // n}


@swept("n", SIZES[:8])
@swept("primitive", [AR, AG, RS])
def test_the_formula_of_the_rings_is_what_links_carry(primitive: Primitive, n: int) -> None:
    group, network, make = (
        Group(n, "full_mesh"),
        MeshNetwork(n),
        program_maker(primitive, "multi-link-ring"),
    )
    assert make is not None
    assert run(make(group, 1), network.carry).holds
    assert (network.hops, network.peak) == pytest.approx(
        totals(find(primitive, "multi-link-ring").schedule(group)[0])
    )
    assert network.busiest == pytest.approx(network.peak)  # no link waits for another


@swept("n", SIZES[:8])
@swept("primitive", [BC, REDUCE])
def test_the_formula_of_the_chains_is_what_links_carry(primitive: Primitive, n: int) -> None:
    group, make = Group(n, "full_mesh"), program_maker(primitive, "multi-link-chain")
    (terms,) = find(primitive, "multi-link-chain").schedule(group)
    assert make is not None
    assert terms.fill is not None
    for segments in (1, n, 20):
        network = MeshNetwork(n)
        assert run(make(group, segments), network.carry).holds
        hops, load = Pipeline(terms.n_alpha, terms.fill, terms.n_beta).counts(segments)
        assert network.hops == hops
        if n % 2 or segments >= n / 2:
            assert network.peak == pytest.approx(load)
        else:
            assert network.peak < load
