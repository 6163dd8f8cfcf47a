"""Domains of different sizes: worked numbers, the even fabric as the limit, executions, optima, and
who refuses them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import gated
import lp
import numpy as np
import pytest
from networks import M, seconds
from small import Tier, clos, fabric, full_mesh, star, switch
from swept import swept

import colltool
from colltool.algorithms.executor import Network, run
from colltool.algorithms.registry import find
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, Primitive, Ring
from colltool.commands.reading import primitive_of
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import flat_group, place
from colltool.estimate.path_classes import flat_paths
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.routed_cost import _along_walks
from colltool.estimate.wired import place_of_each, places_of
from colltool.extras.interop.astra_sim import astra_sim
from colltool.extras.interop.infragraph import infragraph
from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.network.group import Group
from colltool.network.links import SwitchedLinks, TierRanks
from colltool.verification.executed import flat_program

US, GB = 1e-6, 1e9
FLAT = {
    "ar": ("ring", "two-shot", "multi-rail-ring"),
    "ag": ("ring", "direct", "multi-rail-ring"),
    "a2a": ("direct", "pairwise"),
}


def racks(
    *domains: int, inside: Tier | None = None, outer: Tier | None = None, bw: float = 10.0
) -> Fabric:
    """Stars of 100 GB/s and 1 us behind a network of 10 GB/s a rank and 5 us."""
    joining = outer or clos(len(domains), alpha=5.0, bw=bw)
    return fabric(inside or star(max(domains)), joining | {"domains": list(domains)})


def test_an_all_to_all_waits_for_the_domain_with_most_to_send_out_of_each_port() -> None:
    """Each rank of the 3 has M/8 for each of the 5 others outside, more than those of the 5 have
    for the 3."""
    assert seconds(racks(3, 5), "a2a", "direct") == pytest.approx(5 * US + 5 * M / 8 / 10e9)
    assert seconds(racks(3, 5, 2), "a2a", "direct") == pytest.approx(5 * US + 8 * M / 10 / 10e9)


def test_peer_after_peer_nobody_waits_for_another_pair() -> None:
    """The busiest of each kind: four neighbours inside of the 5, five outside of the 3; α of the
    rank that has most far ones."""
    wanted = (2 + 5 * 5) * US + M / 8 * (4 / 100e9 + 5 / 10e9)
    assert seconds(racks(3, 5), "a2a", "pairwise") == pytest.approx(wanted)


def test_a_ring_crosses_each_boundary_once_and_on_as_many_rails_as_the_smallest_has() -> None:
    """8 ranks in order: 6 hops inside, 2 across; 14 steps of M/8. On 3 rails a step carries M/24
    over a port outside."""
    alpha = 14 * (6 * 1 + 2 * 5) / 8 * US
    assert seconds(racks(3, 5), "ar", "ring") == pytest.approx(alpha + 14 / 8 * M / 10e9)
    assert seconds(racks(3, 5), "ar", "multi-rail-ring") == pytest.approx(
        alpha + 14 / 8 * M / 3 / 10e9
    )
    assert seconds(racks(3, 5, bw=90.0), "ar", "multi-rail-ring") == pytest.approx(
        alpha + 14 / 8 * M / 100e9
    )


def test_the_rings_over_rails_are_walks_through_all_ranks_that_share_no_port_outside() -> None:
    placed = place(racks(3, 5, 4))
    wired = flat_group(placed, ModelOptions())[1].wired
    assert wired is not None
    sent = _along_walks(1.0, wired, Ring("rails"), spread=False)
    src, dst = sent.src.reshape(3, 12), sent.dst.reshape(3, 12)
    domain = np.repeat([0, 1, 2], [3, 5, 4])
    for walk, to in zip(src, dst, strict=True):
        assert sorted(walk) == list(range(12))
        assert (to == np.roll(walk, -1)).all()
        assert (domain[walk] != domain[to]).sum() == 3
    across = domain[src] != domain[dst]
    assert len(set(src[across])) == len(set(dst[across])) == 9


@swept("domains", [(2, 3), (8, 7), (8, 8, 7), (5, 1, 3), (8, 8, 8, 8, 4), (3, 2, 2, 3, 1, 4)])
@swept("segments", [1, 3, 64])
@swept("spread", [False, True])
def test_trees_over_rails_reach_everybody_in_the_time_of_the_formula(
    domains: tuple[int, ...], segments: int, spread: bool
) -> None:
    """Executed on ports alone: the steps of the deepest chain, no more bytes than are counted, and
    no filling beyond F."""
    row, group = (
        find(AR, "multi-rail-tree"),
        Group(sum(domains), "uneven_tiers", domains=domains, spread=spread),
    )
    program, network = (
        flat_program(row, group, segments),
        Network(SwitchedLinks(TierRanks(group.ranks))),
    )
    outcome, (terms,) = run(program, network.carry), row.schedule(group)
    assert outcome.holds, outcome.problem
    assert outcome.steps == terms.n_alpha + segments - 1
    assert terms.fill is not None
    assert network.busiest <= terms.n_beta * (1 + 1e-9)
    assert network.peak <= terms.n_beta * (terms.fill + segments - 1) / segments * (1 + 1e-9)


@swept("primitive", ["ar", "ag", "rs"])
@swept("domains", [(8, 7), (3, 5, 4), (2, 1, 3)])
@swept("mesh", [False, True])
def test_rings_over_rails_are_executed_on_every_link(
    primitive: str, domains: tuple[int, ...], mesh: bool
) -> None:
    where = racks(*domains, inside=full_mesh(max(domains)) if mesh else None, bw=70.0)
    found = colltool.verify(where, primitive, algorithms="multi-rail-ring").results[0]
    assert (found.verdict, found.post_condition) == ("proved", True)
    assert found.time_s is not None
    assert found.time_s[0] == pytest.approx(found.time_s[1])


@swept(
    ("primitive", "name", "even"),
    [
        ("ag", "multi-rail-ring", "multi-rail-ring"),
        ("bc", "multi-rail-chain", "multi-rail-chain"),
        ("ar", "multi-rail-tree", "hierarchical:multi-link-ring/double-binary-tree"),
    ],
)
def test_a_full_mesh_inside_is_crossed_over_links_of_its_own(
    primitive: str, name: str, even: str
) -> None:
    """Where every two ranks of a domain have a link, R rings or chains take different ones: near
    what even domains take."""
    outer = clos(3, alpha=5.0, bw=100.0)
    all_8, all_7 = (seconds(fabric(full_mesh(own), outer), primitive, even) for own in (8, 7))
    assert (
        0.98 * all_8
        < seconds(fabric(full_mesh(8), outer | {"domains": [8, 8, 7]}), primitive, name)
        < 1.15 * all_7
    )


def test_trees_over_rails_are_nccls_between_even_domains_but_for_the_ranks_that_lack() -> None:
    """Domains of 8 and 7: 14 hops inside and 2 across. On top of one tree of 7, a rank sends 7/7
    down and 6/7 up inside."""
    assert seconds(racks(8, 7), "ar", "multi-rail-tree") == pytest.approx(
        2 * (7 * 1 + 5) * US + 13 / 7 * M / 100e9
    )
    narrow = racks(8, 7, bw=1.0)
    assert seconds(narrow, "ar", "multi-rail-tree") == pytest.approx(
        2 * (7 * 1 + 5) * US + M / 7 / 1e9
    )
    even = fabric(star(8), clos(2, alpha=5.0, bw=10.0))
    assert seconds(even, "ar", "hierarchical:ring/double-binary-tree") == pytest.approx(
        seconds(racks(8, 7), "ar", "multi-rail-tree"), rel=0.2
    )


def test_switches_that_reduce_do_so_whatever_the_sizes() -> None:
    """NVLSTree: M into the switch and out of it, then M/7 for each of 7 over the trees; one after
    the other by the call."""
    where = racks(8, 7, inside=star(8, in_network=switch(0.5)))
    streamed = colltool.price(
        where, "ar", size=M, algorithms="hierarchical:in-network/double-binary-tree"
    ).best
    assert streamed.total_s == pytest.approx(
        2 * 0.5 * US + 2 * 5 * US + max(M / 100e9, M / 7 / 10e9)
    )
    asked = colltool.price(
        where,
        "ar",
        size=M,
        algorithms="hierarchical:in-network/double-binary-tree",
        phases="sequential",
    )
    assert asked.best.total_s == pytest.approx(
        4 * 0.5 * US + 2 * 5 * US + 2 * M / 100e9 + M / 7 / 10e9
    )
    with pytest.raises(ColltoolError, match="not modelled between domains"):
        colltool.price(where, "ar", size=M, algorithms="hierarchical:ring/ring")


@swept("domains", [(8, 7), (2, 3, 3), (1, 4), (5, 2, 3, 2)])
@swept("primitive", ["ag", "rs"])
def test_shards_are_dealt_out_so_that_nothing_enters_a_domain_twice(
    domains: tuple[int, ...], primitive: str
) -> None:
    """Behind a network of a tenth as much a port outside of the smallest takes its part of what the
    others have."""
    where, ranks, fewest = racks(*domains, bw=0.5), sum(domains), min(domains)
    wanted = (5 + (max(domains) > 1)) * US + (ranks - fewest) / ranks / fewest * M / 0.5e9
    assert seconds(where, primitive, "multi-rail-direct") == pytest.approx(wanted)
    found = colltool.verify(where, primitive, algorithms="multi-rail-direct").results[0]
    assert (found.verdict, found.post_condition) == ("proved", True)


def test_an_oversubscribed_leaf_has_the_uplinks_of_full_domains() -> None:
    """Leaves of two domains of at most 4 behind 2:1 have 4 ports up: the 4 + 1 send M/10 to 5
    outside each."""
    outer = clos(4, (2, 5.0), (4, 8.0, 2.0), bw=10.0)
    assert seconds(racks(4, 1, 3, 2, outer=outer), "a2a", "direct") == pytest.approx(
        8 * US + max(9 * M / 10 / 10e9, 25 * M / 10 / 40e9)
    )
    tight = clos(4, (2, 5.0), (4, 8.0, 4.0), bw=10.0)
    assert seconds(racks(4, 1, 3, 2, outer=tight), "a2a", "direct") == pytest.approx(
        8 * US + 25 * M / 10 / 20e9
    )


def test_oversubscription_and_contention_are_not_charged_twice() -> None:
    """As between even domains: the uplinks' share or eta, whichever leaves less."""
    outer = clos(4, (2, 5.0), (4, 8.0, 2.0), bw=10.0, eta={"alpha": 1.0, "beta": 0.6})
    for domains in ((4, 4, 4, 4), (4, 4, 4, 3)):
        where, ranks = racks(*domains, outer=outer), sum(domains)
        found = float(colltool.price(where, "a2a", size=M, algorithms=["direct"]).best.bandwidth_s)
        far = ranks - min(domains)
        share = max(far * M / ranks / 6e9, 8 * (ranks - 8) * M / ranks / 80e9)
        assert found == pytest.approx(share)


@pytest.mark.ci
@swept("primitive", list(Primitive))
def test_a_list_of_equal_domains_is_the_even_fabric(primitive: Primitive) -> None:
    outer = clos(4, (2, 5.0), (4, 8.0, 2.0), bw=10.0)
    even, told = fabric(star(4), outer), fabric(star(6), outer | {"domains": [4, 4, 4, 4]})
    ours, theirs = (colltool.price(one, primitive, size=M) for one in (told, even))
    assert ours.results == theirs.results
    assert ours.infeasible == theirs.infeasible
    assert told.tiers == even.tiers


@swept(("primitive", "name"), [(p, name) for p, names in FLAT.items() for name in names])
def test_equal_domains_cost_the_same_message_by_message(primitive: str, name: str) -> None:
    """The same formulas where a message's distance says what it pays, and where each is put on its
    links."""
    outer = clos(4, (2, 5.0), (4, 8.0), bw=10.0, eta={"alpha": 1.2, "beta": 0.7})
    placed = place(fabric(star(4), outer))
    group, by_class = flat_group(placed, ModelOptions())
    by_links = flat_paths(
        [span.position for span in placed.spans], 16, ModelOptions(), (4, 4, 4, 4)
    )
    row = find(primitive_of(primitive), name)
    times = [
        cost_flat(row, group, reach, ModelOptions()).at(M).total_s for reach in (by_class, by_links)
    ]
    assert times[0] == pytest.approx(times[1])


def test_groups_are_the_first_ranks_domain_after_domain() -> None:
    where = racks(4, 4, 6)
    assert [place(where, n).domains for n in (4, 8, 9, 13)] == [(), (), (4, 4, 1), (4, 4, 5)]
    assert place(where, 8).sizes == (4, 2)
    assert place(where).placement.label == "14 ranks (2x4 + 6)"
    even = fabric(star(4), clos(3, alpha=5.0, bw=10.0))
    for primitive in Primitive:
        ours, theirs = (colltool.price(one, primitive, ranks=8, size=M) for one in (where, even))
        assert [(row.spec, row.total_s) for row in ours.results] == [
            (row.spec, row.total_s) for row in theirs.results
        ]


def test_places_are_those_of_the_largest_domain() -> None:
    assert places_of((2, 3, 1), 6) == 9
    assert place_of_each((2, 3, 1), 8).tolist() == [0, 1, 3, 4, 5, 6, 9, 10]
    assert places_of((), 6) == 6


@pytest.mark.parametrize("start", range(0, 16, 4))
def test_no_price_is_below_its_cut_bound(start: int) -> None:
    for seed in range(start, start + 4):
        where = gated.made_uneven(seed)
        for primitive in list(Primitive)[seed % 2 :: 2]:
            rows = colltool.price(
                where, primitive, size=10.0 ** (seed % 9 + 1), readings=gated.READINGS[seed % 2]
            ).results
            bounds = [
                (row.spec, float(row.total_s), float(row.lower_bound_s))
                for row in rows
                if row.lower_bound_s is not None
            ]
            assert bounds
            assert [one for one in bounds if one[1] < one[2] * (1 - 1e-9)] == []


def test_the_cut_of_each_domain_counts() -> None:
    """All-to-all out of the smallest; all-gather into a rank or the smallest; all-reduce on all
    ports outside."""
    where = racks(2, 6)
    bound = {
        p: float(colltool.price(where, p, size=GB).best.lower_bound_s)
        for p in ("a2a", "ag", "ar", "bc")
    }
    assert bound == pytest.approx(
        {
            "a2a": 6 / 8 / 10,
            "ag": 6 / 8 / 20,
            "ar": max(2 * 7 / (8 * 110), 1 / 20, 2 * 1 / 80),
            "bc": 1 / 20,
        }
    )


@pytest.mark.parametrize("seed", range(4))
def test_executed_it_takes_what_it_is_priced(seed: int) -> None:
    """What verify counts on the fabric's links, message by message; nothing takes longer than its
    price on a busiest link."""
    found = colltool.verify([gated.made_uneven(seed)], size=1e6)
    assert found.holds
    assert all(one.post_condition for one in found.results)
    proved = [one for one in found.results if one.verdict == "proved" and one.time_s]
    assert len(proved) >= 5
    for one in proved:
        assert one.time_s is not None
        assert one.time_s[0] == pytest.approx(one.time_s[1], rel=0.01)


def arcs(
    domains: tuple[int, ...], inner: float, outer: float, *, mesh: bool
) -> dict[tuple[int, int], float]:
    """Each rank at its domain's switch (or at each other rank of it) and, by a port of its own, at
    the one outside."""
    ranks, first = sum(domains), 0
    found = lp.both_ways([(rank, ranks) for rank in range(ranks)], outer)
    for number, own in enumerate(domains, start=1):
        here = range(first, first + own)
        pairs = combinations(here, 2) if mesh else [(rank, ranks + number) for rank in here]
        found |= lp.both_ways(pairs, inner)
        first += own
    return found


@swept("mesh", [False, True])
@swept("domains", [(2, 4), (1, 3), (2, 3, 3)])
def test_against_the_best_that_any_schedule_could_do(domains: tuple[int, ...], mesh: bool) -> None:
    """The bound is the optimum; so are all-to-all, broadcast and all-gather."""
    where = racks(*domains, inside=full_mesh(max(domains)) if mesh else None)
    links, ranks = arcs(domains, 1.0, 0.1, mesh=mesh), sum(domains)
    for primitive, best_of in (
        ("a2a", lp.all_to_all_s),
        ("bc", lp.broadcast_s),
        ("ag", lp.all_gather_s),
    ):
        best, rows = (
            best_of(links, ranks),
            colltool.price(where, primitive, size=100e9, ideal=True, library="all").results,
        )
        assert min(float(one.bandwidth_s) for one in rows) == pytest.approx(best)
        assert float(rows[0].lower_bound_s) == pytest.approx(best)


UNEVEN = "uneven-racks"
LOG = Path(__file__).parent.parent / "logs" / "logs" / "plain.csv"
REFUSED: dict[str, Callable[[Fabric], object]] = {
    "plan": lambda where: colltool.plan("llama3-8b", where),
    "search": lambda where: colltool.search_layouts("llama3-8b", where),
    "serve": lambda where: colltool.serve("llama3-8b", where, tp=2),
    "contention": lambda where: colltool.contention(
        where, {"kind": "block", "group": 2}, primitive="ar"
    ),
    "validate": lambda where: colltool.validate(where, LOG),
    "calibrate": lambda _: colltool.calibrate(UNEVEN, LOG),
    "doctor": lambda where: colltool.doctor(LOG, where),
    "trace": lambda where: colltool.trace(where, "none.json"),
    "plan of a trace": lambda where: colltool.plan_traces(["none.et"], where),
    "infragraph": infragraph,
    "astra-sim": astra_sim,
}


@swept("asked", REFUSED)
def test_what_counts_by_domains_of_one_size_says_what_to_type(asked: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        REFUSED[asked](colltool.load_fabric(UNEVEN))
    assert caught.value.what.startswith("the domains of uneven-racks have 64 + 72 ranks")
    assert "ib.domains=[64,64]" in caught.value.fix
    even = colltool.load_fabric(UNEVEN, ["ib.domains=[64,64]"])
    assert (even.ranks, even.domains) == (128, ())


def test_what_runs_in_their_place_is_named() -> None:
    where, even = (
        racks(8, 7, inside=star(8, in_network=switch(0.5))),
        fabric(star(8), clos(2, alpha=5.0, bw=10.0)),
    )
    with pytest.raises(
        ColltoolError, match="hierarchical:ring/double-binary-tree is multi-rail-tree"
    ):
        colltool.price(where, "ar", size=M, algorithms="hierarchical:ring/double-binary-tree")
    why = {one.algorithm: one.reason for one in colltool.price(even, "ar", size=M).infeasible}
    assert (
        why["multi-rail-tree"]
        == "needs domains of different sizes; this is a group over several tiers"
    )
    why = {one.algorithm: one.reason for one in colltool.price(where, "ar", size=M).infeasible}
    assert why["outer-ring"] == "does not run on a group over domains of different sizes"


def test_no_measured_row_is_like_one() -> None:
    ask = ["ib.size=4", "ib.domains=[8,8,8,7]"]
    uneven, even = (
        colltool.price(colltool.load_fabric("dgx-h100", one), "ar", size=1e9)
        for one in (ask, ask[:1])
    )
    assert uneven.accuracy is not None
    assert even.accuracy is not None
    assert uneven.best.interval is not None
    assert even.best.interval is not None
    assert (uneven.best.interval.rows, even.best.interval.rows > 2) == (0, True)
    assert uneven.accuracy.median > even.accuracy.median


def test_neither_spreads_nor_picks_nor_compositions() -> None:
    where = colltool.load_fabric(UNEVEN)
    with pytest.raises(ColltoolError, match="no spread of prices: its domains differ in size"):
        colltool.sensitivity(where, "ar", size=M)
    priced = colltool.price(where, "ar", size=M, library="nccl")
    assert priced.library is not None
    assert "not known between domains of 64 + 72 ranks" in priced.library.reason
    why = {
        one.algorithm: one.reason for one in colltool.price(racks(2, 3), "ar", size=M).infeasible
    }
    assert (
        why["hierarchical"]
        == "not modelled between domains of 2 + 3 ranks, whose shards do not match across"
    )
    for wrong in ({"stride": 2}, {"placement": "scattered"}):
        with pytest.raises(ColltoolError, match="domains"):
            colltool.price(racks(2, 3), "ar", size=M, **wrong)


def test_a_comparison_does_not_cut_away_what_differs() -> None:
    ask = {"primitives": "ar", "sizes": [M]}
    with pytest.raises(
        ColltoolError, match="have 136, 144 ranks, and a common number would split domains"
    ):
        colltool.compare([UNEVEN], **ask, vary=["ib.domains=[64,72],[72,72]"])
    assert [
        line.ranks
        for line in colltool.compare([UNEVEN], **ask, vary=["ib.bandwidth=50GB/s,100GB/s"]).lines
    ] == [136]
    told = colltool.compare([UNEVEN], **ask, ranks=[100], vary=["ib.domains=[64,72],[72,72]"])
    assert [line.ranks for line in told.lines] == [100]


def test_values_are_swept_one_by_one() -> None:
    found = colltool.sweep([UNEVEN], "ar", sizes=[M], vary=["ib.bandwidth=50GB/s,100GB/s"]).cells
    wanted = [
        float(
            colltool.price(
                colltool.load_fabric(UNEVEN, [f"ib.bandwidth={rate}"]), "ar", size=M
            ).best.total_s
        )
        for rate in ("50GB/s", "100GB/s")
    ]
    assert [one.total_s for one in found] == pytest.approx(wanted)


def test_facts_and_words() -> None:
    where = colltool.load_fabric(UNEVEN)
    facts = fabric_facts(where)
    assert (facts.ranks, [tier.domains for tier in facts.tiers], facts.tiers[1].ranks) == (
        136,
        [2, 1],
        136,
    )
    assert any("72 ranks in each domain" in note for note in facts.tiers[1].notes)
    assert "2 (64 + 72 ranks)" in colltool.draw_fabric(where).svg
