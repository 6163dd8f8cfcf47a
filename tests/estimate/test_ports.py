"""``ports=one``: a rank sends one message at a time, over one port or link. Held against executed
schedules and the documents."""

from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.algorithms.executor import run
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import find, usual_algorithms
from colltool.base.primitives import A2A, AG, AR, RS, Primitive, totals
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.fabric.load import load_fabric
from colltool.fabric.model import MPI_POST_S
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Axis, Group
from colltool.render.dispatch import document, rendered
from tests.wiring import Ports

pytestmark = pytest.mark.usefixtures("datasheet")

POSTED = [(AR, "one-shot"), (AR, "two-shot"), (AG, "direct"), (RS, "direct"), (A2A, "direct")]


class OnePort(Ports):
    """What leaves together goes one after the other: an α for each of a rank's peers, and all of
    its bytes over one port."""

    def distance(self, src: Indices, dst: Indices) -> int:
        """The most peers that a rank sends to, or takes from."""
        n = self.ranks
        pairs = np.unique(src * n + dst)
        return int(max(np.bincount(pairs // n).max(), np.bincount(pairs % n).max()))


def _executed(primitive: Primitive, name: str, group: Group) -> tuple[int, Floats]:
    make, network = program_maker(primitive, name), OnePort(group.ranks)
    assert make is not None
    assert run(make(group, 1), network.carry).holds
    return network.hops, network.peak


@swept("n", [2, 3, 8, 12])
@swept("topology", ["star", "full_mesh"])
@swept(("primitive", "name"), POSTED)
def test_posts_to_all_peers_cost_what_one_port_takes_to_execute_them(
    primitive: Primitive, name: str, topology: str, n: int
) -> None:
    terms = find(primitive, name).schedule(Group(n, topology, one_port=True))  # type: ignore[arg-type]
    assert (totals(terms)[0], pytest.approx(totals(terms)[1])) == _executed(
        primitive, name, Group(n, "star")
    )


@swept("sizes", [(2,), (3,), (4,), (5,), (8,), (3, 4), (8, 2, 5)])
@swept("primitive", [AR, AG, RS])
def test_an_open_line_on_one_port_sends_one_way_after_the_other(
    primitive: Primitive, sizes: tuple[int, ...]
) -> None:
    axes = tuple(Axis(size, wrap=False) for size in sizes)
    group = Group(int(np.prod(sizes)), "mesh", axes, one_port=True)
    terms = find(primitive, "dim-ring").schedule(group)
    assert (totals(terms)[0], pytest.approx(totals(terms)[1])) == _executed(
        primitive, "dim-ring", group
    )
    free = find(primitive, "dim-ring").schedule(group._replace(one_port=False))
    assert 1 <= totals(terms)[1] / totals(free)[1] <= 2  # the documents' bound


def test_a_closed_ring_sends_one_way_anyway() -> None:
    torus = Group(64, "torus", (Axis(8, wrap=True), Axis(8, wrap=True)))
    assert find(AR, "dim-ring").schedule(torus) == find(AR, "dim-ring").schedule(
        torus._replace(one_port=True)
    )


def test_what_needs_several_links_is_not_there() -> None:
    torus = Group(64, "torus", (Axis(8, wrap=True), Axis(8, wrap=True)), one_port=True)
    mesh = Group(8, "full_mesh", one_port=True)
    refused = {
        row.name
        for row in usual_algorithms()
        for group in (torus, mesh)
        if "several links" in (row.why_not(group) or "")
    }
    assert refused == {
        "multi-ring",
        "dim-ring-bidirectional",
        "dim-chain-bidirectional",
        "multi-chain",
        "multi-link-ring",
        "multi-link-chain",
        "forest",
    }
    price = colltool.price("torus512", "ar", size="16MB", ports="one")
    reason = next(one.reason for one in price.infeasible if one.algorithm == "multi-ring")
    assert reason == 'drives several links of a rank at once, and ports="one" has one'


@pytest.mark.parametrize(
    ("primitive", "star", "torus"),
    [
        ("ar", ("in-network", 35.19), ("dim-ring", 84.34)),
        ("ag", ("in-network", 23.18), ("dim-ring", 42.17)),
    ],
)
def test_the_documents_star_wins(
    primitive: str, star: tuple[str, float], torus: tuple[str, float]
) -> None:
    found = colltool.compare(["star512", "torus512"], primitive, sizes=["16MB"], ports="one")
    (line,) = found.lines
    assert [
        (one.spec, pytest.approx((one.total_s or 0) * 1e6, abs=0.01)) for one in line.cells
    ] == [star, torus]


@pytest.mark.parametrize(("ideal", "ratio"), [(True, 11.5), (False, 7.5)])
def test_the_documents_torus_wins_all_to_all(ideal: bool, ratio: float) -> None:
    """Against NCCL's pairwise; ``direct`` posts as many messages, and takes as long."""
    torus = colltool.price("torus512", "a2a", size="16MB", ports="one", ideal=ideal).best
    for name in ("pairwise", "direct"):
        star = colltool.price(
            "star512", "a2a", size="16MB", ports="one", ideal=ideal, algorithms=name
        ).best
        assert float(star.total_s / torus.total_s) == pytest.approx(ratio, abs=0.05)


def test_the_documents_double_tree_is_at_53_us_and_small_messages_take_a_tree() -> None:
    rows = {
        one.spec: float(one.total_s)
        for one in colltool.price("star512", "ar", size="16MB", ports="one").results
    }
    assert rows["double-binary-tree"] * 1e6 == pytest.approx(53.44, abs=0.01)
    assert colltool.price("star512", "ag", size="1KB").best.spec == "direct"
    small = colltool.price(
        "star512",
        "ar",
        size="1KB",
        ports="one",
        algorithms=["two-shot", "one-shot", "double-binary-tree"],
    )
    assert small.best.spec == "double-binary-tree"


def test_a_full_mesh_on_one_port_is_no_faster_than_a_star() -> None:
    for primitive in ("ar", "ag", "rs", "a2a"):
        best = colltool.price("mi300x", primitive, size="1GB", ports="one").best
        assert float(best.busbw_Bps) <= 48e9


def test_rails_through_a_full_mesh_on_one_port_use_one_link(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "two.yaml"
    file.write_text(
        "schema: colltool.fabric/1\nname: two\ntiers:\n"
        "  - {name: mesh, topology: full_mesh, size: 8, alpha: 1us, bandwidth: 64GB/s}\n"
        "  - {name: net, topology: star, size: 2, alpha: 5us, bandwidth: 50GB/s}\n"
    )
    one, every = (
        colltool.price(str(file), "ag", size="1GB", algorithms="multi-rail-ring", ports=ports).best
        for ports in ("one", "all")
    )
    assert float(every.busbw_Bps) > 5 * float(one.busbw_Bps)
    assert float(one.busbw_Bps) <= 64e9


def _direct(
    post: str = "", *, primitive: str = "ag", algorithm: str = "direct", ranks: int = 16
) -> AlgorithmEstimate:
    fabric = load_fabric("dgx-h100", ["ib.post=300ns", f"nvlink.post={post}"] if post else [])
    return next(
        iter(
            colltool.price(fabric, primitive, size="1KB", ranks=ranks, algorithms=algorithm).results
        )
    )


def test_posting_takes_o_for_each_message_but_the_first() -> None:
    """LogGP: alpha + (N-2) o, on each tier its own; twice where messages are posted twice."""
    assert float(_direct("100ns", ranks=8).total_s - _direct(ranks=8).total_s) == pytest.approx(
        6 * 100e-9
    )
    assert float(_direct("0us", ranks=8).total_s) == float(_direct(ranks=8).total_s)
    for algorithm, primitive, passes in (
        ("direct", "ag", 1),
        ("direct", "a2a", 1),
        ("two-shot", "ar", 2),
    ):
        paid, free = (
            _direct(post, primitive=primitive, algorithm=algorithm) for post in ("100ns", "")
        )
        inflated = 1.2  # the eta of the farthest peer's tier
        assert float(paid.total_s - free.total_s) == pytest.approx(
            passes * inflated * (7 * 100e-9 + 7 * 300e-9)
        )
    ring = [_direct(post, algorithm="multi-rail-ring").total_s for post in ("100ns", "")]
    assert ring[0] == ring[1]


def test_under_mpi_posting_takes_what_it_takes_on_hosts_unless_a_tier_says() -> None:
    def took(library: str, *sets: str) -> float:
        fabric = load_fabric("star512", sets)
        return float(
            colltool.price(
                fabric, "a2a", size="1KB", ranks=32, algorithms="direct", library=library
            ).best.total_s
        )

    assert took("mpi") - took("all") == pytest.approx(30 * MPI_POST_S)
    assert took("mpi", "star.post=1us") - took("all") == pytest.approx(30e-6)


def test_who_says_what_posting_takes_is_not_told_that_it_is_free() -> None:
    free = "assumes that a rank posts N-1 messages for one alpha"
    assert free in _direct().notes
    assert free not in _direct("100ns").notes


def test_a_post_as_long_as_alpha_is_one_port() -> None:
    """On one switch, where one message after the other carries no fewer bytes."""
    fabric = load_fabric("star512", ["star.post=0.5us"])
    for primitive, algorithm in (
        ("ag", "direct"),
        ("a2a", "direct"),
        ("ar", "two-shot"),
        ("ar", "one-shot"),
    ):
        posted, in_turn = (
            colltool.price(fabric, primitive, size="1MB", algorithms=algorithm, ports=ports).best
            for ports in ("all", "one")
        )
        assert float(posted.total_s) == pytest.approx(float(in_turn.total_s))


def test_the_default_names_what_one_port_turns() -> None:
    def turn(fabric: str, primitive: str, size: str = "16MB", **more: object) -> str:
        return colltool.price(fabric, primitive, size=size, **more).leads_on_one_port  # type: ignore[arg-type]

    assert turn("torus512", "ar") == "dim-ring"
    assert turn("star512", "ag") == "in-network"
    assert turn("mi300x", "ag", library="rccl") == "ring"
    assert turn("star512", "ar") == ""  # in the switch, whatever ports are
    assert (
        turn("torus512", "ar", ports="one")
        == turn("torus512", "ar", algorithms=["multi-ring", "dim-ring"])
        == ""
    )
    listed = colltool.price_list("torus512", "ar", sizes=["16MB"])
    assert 'with ports="one", dim-ring would be first' in rendered(listed, "table")
    assert document(listed.prices[0])["leads_on_one_port"] == "dim-ring"


@swept(
    ("fabric", "primitive", "more"),
    [
        ("tpu-v5p", "ar", {"ranks": 64}),
        ("torus512", "a2a", {}),
        ("star512", "ag", {}),
        ("star512", "ar", {}),
        ("mi300x", "ag", {"library": "rccl"}),
        ("mi300x", "ar", {}),
        ("dgx-h100", "ar", {"ranks": 64}),
        ("torus512", "ar", {"ports": "one"}),
    ],
)
def test_an_array_names_what_one_port_turns_at_each_size(
    fabric: str, primitive: str, more: dict[str, Any]
) -> None:
    sizes = [1e3, 64e3, 1e6, 16e6, 1e9]
    alone = tuple(
        colltool.price(fabric, primitive, size=size, **more).leads_on_one_port for size in sizes
    )
    assert colltool.price(fabric, primitive, size=sizes, **more).leads_on_one_port == alone


def test_what_one_port_turns_is_there_to_be_met() -> None:
    found = colltool.price("tpu-v5p", "ar", size=[1e3, 1e6], ranks=64)
    assert (
        found.leads_on_one_port
        == tuple(document(found)["leads_on_one_port"])
        == ("dim-ring", "dim-ring")
    )
    assert "('dim-ring'" not in found.to_html()
    assert "leads_on_one_port" not in document(
        colltool.price("dgx-h100", "ar", size=[1e3, 1e6], ports="one")
    )
