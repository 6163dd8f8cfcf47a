"""Protocols of tiers: every price under several is the least of the prices on fabrics that have one
each."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small import Tier, clos, fabric, full_mesh, gb, mesh, star, switch, torus, us
from swept import swept

import colltool
from colltool.analysis.diff import diff
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, local_share, parse_primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates
from colltool.estimate.crossover import winners
from colltool.estimate.groups import place
from colltool.estimate.protocols import tier_under, under_protocols
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.tiers import ClosTier
from colltool.render.data_formats import to_json
from colltool.render.dispatch import blocks, document
from colltool.render.text import Screen, to_text

Entry = dict[str, Any]
ALPHAS, RATES, ETAS = st.floats(0.1, 50.0), st.floats(1.0, 2000.0), st.floats(0.05, 1.0)
SIZES = st.floats(0, 11).map(lambda exponent: 10**exponent)
NAMES = ("LL", "LL128", "Simple")
PRIMITIVES = ("ar", "ag", "rs", "a2a", "bc", "reduce", "p2p")
MODELS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "pipelining": st.sampled_from(["asymptotic", "optimal", 7]),
        "placement": st.sampled_from(["packed", "scattered"]),
        "phases": st.sampled_from([None, "sequential", "pipelined"]),
    }
)


def listed(alpha: float, bw: float, overhead: float = 0.0, **more: Any) -> Entry:
    """A protocol's numbers, in us and GB/s."""
    return {"alpha": us(alpha), "bandwidth": gb(bw), "launch_overhead": us(overhead), **more}


def protocols(**by_name: Entry) -> list[Entry]:
    return [{"name": name, **entry} for name, entry in by_name.items()]


NCCL = {
    "LL": listed(1.0, 20.0, 4.0),
    "LL128": listed(2.0, 80.0, 6.0),
    "Simple": listed(6.0, 100.0, 8.0),
}
"""Each is the fastest somewhere."""


def three(tier: Tier) -> Tier:
    return tier | {"protocols": protocols(**NCCL)}


ONE = fabric(three(star(8)))
TWO = fabric(three(star(8, 0.5, 400.0)), three(clos(4, (2, 2.0), (4, 5.0, 2))))


@st.composite
def entries(draw: st.DrawFn, *, copies: bool) -> Entry:
    """A protocol that gives some of its numbers."""
    numbers = {
        "launch_overhead": st.floats(0, 30).map(us),
        "alpha": ALPHAS.map(us),
        "bandwidth": RATES.map(gb),
        "eta": st.fixed_dictionaries({"alpha": st.floats(1, 3), "beta": ETAS}),
    } | ({"local_copy": RATES.map(gb)} if copies else {})
    return {key: draw(values) for key, values in numbers.items() if draw(st.booleans())}


@st.composite
def lists(draw: st.DrawFn, *, copies: bool = True) -> list[Entry]:
    """Protocols for all primitives beside some for a few; Simple is in every list, so that tiers
    always share one."""
    found = []
    for scope in draw(
        st.sampled_from([[None], [None, ("ar", "ag")], [("ar", "bc"), ("a2a", "p2p")]])
    ):
        names = [name for name in NAMES if name == "Simple" or draw(st.booleans())]
        extra = {"primitives": list(scope)} if scope else {}
        found += [{"name": name, **draw(entries(copies=copies)), **extra} for name in names]
    return draw(st.permutations(found))


@st.composite
def tier_lists(draw: st.DrawFn, *, copies: bool = True) -> list[Tier]:
    """One or two tiers of any kind; at least one lists protocols."""

    def single() -> Tier:
        alpha, bw, n = draw(ALPHAS), draw(RATES), draw(st.integers(2, 6))
        eta = {"alpha": draw(st.floats(1, 3)), "beta": draw(ETAS)}
        kind = draw(st.sampled_from(["star", "full_mesh", "torus", "mesh", "clos", "flat clos"]))
        if kind == "star":
            return star(n, alpha, bw, eta=eta, in_network=switch(draw(ALPHAS)))
        if kind == "clos":
            return clos(
                4 * n,
                (4, alpha),
                (4 * n, alpha * draw(st.floats(1, 5)), draw(st.floats(1, 8))),
                bw=bw,
                eta=eta,
            )
        if kind == "flat clos":
            return clos(n, alpha=alpha, bw=bw, eta=eta)
        if kind == "full_mesh":
            return full_mesh(n, alpha, bw, eta=eta)
        return {"torus": torus, "mesh": mesh}[kind](n, 2, alpha=alpha, bw=bw, eta=eta)

    tiers = [single() for _ in range(draw(st.integers(1, 2)))]
    with_lists = draw(st.sampled_from([[True], [True, False], [False, True], [True, True]]))
    return [
        tier | ({"protocols": draw(lists(copies=copies))} if has else {})
        for tier, has in zip(tiers, with_lists, strict=False)
    ] + (tiers[len(with_lists) :])


def own_list(tier: Tier, primitive: str) -> dict[str, Entry]:
    """The entries that hold for a primitive, by name: those that name it, else those that name
    none."""
    every = tier.get("protocols", [])
    naming = [entry for entry in every if primitive in entry.get("primitives", ())]
    return {
        entry["name"]: entry
        for entry in naming or [entry for entry in every if "primitives" not in entry]
    }


def in_us(text: str) -> float:
    return float(text.removesuffix("us"))


def with_numbers(tier: Tier, entry: Entry) -> Tier:
    """The tier that has an entry's numbers for its own."""
    plain = {key: value for key, value in tier.items() if key != "protocols"}
    plain |= {key: entry[key] for key in ("bandwidth", "eta") if key in entry}
    if "alpha" in entry and "levels" in tier:
        more = in_us(entry["alpha"]) - in_us(tier["levels"][0]["alpha"])
        plain["levels"] = [
            level | {"alpha": us(in_us(level["alpha"]) + more)} for level in tier["levels"]
        ]
    elif "alpha" in entry:
        plain["alpha"] = entry["alpha"]
    return plain


def apart(tiers: list[Tier], primitive: str) -> dict[str, tuple[Fabric, float]]:
    """By name a fabric that has only this protocol's numbers, without a list, and its 1 / local
    copy in s/B; '' without lists."""
    found = [own_list(tier, primitive) for tier in tiers]
    common = set.intersection(*(set(own) for own in found if own)) if any(found) else {""}
    made = {}
    for name in common:
        chosen = [own.get(name, {}) for own in found]
        overheads = [one["launch_overhead"] for one in chosen if "launch_overhead" in one]
        copies = [
            float(one["local_copy"].removesuffix("GB/s")) * 1e9
            for one in chosen
            if "local_copy" in one
        ]
        fixed = {"launch_overhead": overheads[-1] if overheads else "3us"}
        where = fabric(
            *(with_numbers(tier, one) for tier, one in zip(tiers, chosen, strict=True)), **fixed
        )
        made[name] = where, 1 / copies[-1] if copies else 0.0
    return made


def rows(
    where: Fabric, primitive: str, size: Any, names: list[str] | None = None, **model: Any
) -> dict[str, AlgorithmEstimate]:
    return {
        row.title: row
        for row in colltool.price(
            where, primitive, size=size, algorithms=names or (), **model
        ).results
    }


def seconds(
    where: Fabric, primitive: str, size: float, names: list[str], **model: Any
) -> dict[str, float]:
    return {
        title: float(row.total_s)
        for title, row in rows(where, primitive, size, names, **model).items()
    }


# A price under several protocols is the least of those under one


@given(tier_lists(copies=False), st.sampled_from(PRIMITIVES), SIZES, MODELS)
def test_several_are_priced_as_the_fastest_of_each_alone(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    together = rows(fabric(*tiers, launch_overhead="3us"), primitive, size, **model)
    titles = list(together)
    alone = {name: where for name, (where, _) in apart(tiers, primitive).items()}
    each = {name: seconds(where, primitive, size, titles, **model) for name, where in alone.items()}
    for title, row in together.items():
        assert row.total_s == pytest.approx(min(times[title] for times in each.values()), rel=1e-9)
        assert row.total_s == pytest.approx(each[row.protocol][title], rel=1e-9)
    best = min(
        float(row.total_s)
        for where in alone.values()
        for row in rows(where, primitive, size, **model).values()
    )
    assert min(float(row.total_s) for row in together.values()) == pytest.approx(best, rel=1e-9)


@given(tier_lists(), st.sampled_from(PRIMITIVES), SIZES, MODELS)
def test_local_copies_are_paid_beside_it(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    model["phases"] = "sequential"
    where = fabric(*tiers, launch_overhead="3us")
    together = rows(where, primitive, size, **model)
    kept = local_share(parse_primitive(primitive), where.ranks) * size
    each = {
        name: (seconds(alone, primitive, size, list(together), **model), kept * per_byte)
        for name, (alone, per_byte) in apart(tiers, primitive).items()
    }
    for title, row in together.items():
        assert row.total_s == pytest.approx(
            min(times[title] + own for times, own in each.values()), rel=1e-9
        )
        own = [phase for phase in row.phases if phase.label == "own share"]
        assert sum(phase.total_s for phase in own) == pytest.approx(each[row.protocol][1], rel=1e-9)
        assert len(own) == (each[row.protocol][1] > 0)


@settings(max_examples=examples(30))
@given(tier_lists(), st.sampled_from(PRIMITIVES), st.lists(SIZES, min_size=1, max_size=5), MODELS)
def test_an_array_takes_the_fastest_at_each_size(
    tiers: list[Tier], primitive: str, sizes: list[float], model: dict[str, Any]
) -> None:
    where = fabric(*tiers, launch_overhead="3us")
    together = rows(where, primitive, np.array(sizes), **model)
    for number, size in enumerate(sizes):
        alone = rows(where, primitive, size, list(together), **model)
        assert set(alone) >= set(together)  # a name stands for its phases in turn and streamed
        for title, row in together.items():
            one = alone[title]
            for field in (
                "total_s",
                "steps_s",
                "moved_s",
                "alpha_s",
                "bandwidth_s",
                "overhead_s",
                "algbw_Bps",
                "busbw_Bps",
            ):
                value = np.broadcast_to(getattr(row, field), len(sizes))[number]
                assert value == pytest.approx(getattr(one, field), rel=1e-12)
            names = (
                [row.protocol] * len(sizes) if isinstance(row.protocol, str) else list(row.protocol)
            )
            assert names[number] == one.protocol
            for field in ("n_alpha", "n_beta"):
                value = np.broadcast_to(getattr(row, field), len(sizes))[number]
                assert value == getattr(one, field) or value == pytest.approx(
                    getattr(one, field), rel=1e-12
                )


@settings(max_examples=examples(30))
@given(tier_lists(), st.sampled_from(PRIMITIVES), st.lists(SIZES, min_size=2, max_size=5), MODELS)
def test_phases_add_up_at_each_size(
    tiers: list[Tier], primitive: str, sizes: list[float], model: dict[str, Any]
) -> None:
    model["phases"] = "sequential"
    for row in rows(fabric(*tiers), primitive, np.array(sizes), **model).values():
        alpha, bandwidth, both = (
            sum(np.broadcast_to(getattr(phase, field), len(sizes)) for phase in row.phases)
            for field in ("alpha_s", "bandwidth_s", "total_s")
        )
        assert alpha == pytest.approx(np.broadcast_to(row.steps_s, len(sizes)), rel=1e-12)
        assert bandwidth == pytest.approx(row.moved_s, rel=1e-12)
        assert both + row.overhead_s == pytest.approx(row.total_s, rel=1e-12)
        for phase in row.phases:
            assert phase.n_beta * phase.bytes / (
                phase.bandwidth_Bps * phase.eta_beta
            ) == pytest.approx(np.broadcast_to(phase.bandwidth_s, len(sizes)), rel=1e-9)


@settings(max_examples=examples(25))
@given(tier_lists(), st.sampled_from(PRIMITIVES), SIZES, MODELS)
def test_one_entry_that_repeats_the_tier_changes_nothing_but_the_name(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    plain = [{key: value for key, value in tier.items() if key != "protocols"} for tier in tiers]
    repeated = []
    for tier in plain:
        alpha = tier["levels"][0]["alpha"] if "levels" in tier else tier["alpha"]
        same = {
            "name": "only",
            "alpha": alpha,
            "bandwidth": tier["bandwidth"],
            "eta": tier["eta"],
            "launch_overhead": "3us",
        }
        repeated.append(tier | {"protocols": [same]})
    before = rows(fabric(*plain, launch_overhead="3us"), primitive, size, **model)
    after = rows(fabric(*repeated), primitive, size, **model)
    assert list(before) == list(after)
    for title, row in before.items():
        assert row.protocol == ""
        assert after[title].protocol == "only"
        for field in ("total_s", "n_alpha", "n_beta", "alpha_s", "bandwidth_s", "overhead_s"):
            old, new = getattr(row, field), getattr(after[title], field)
            assert new == old or new == pytest.approx(old, rel=1e-12)
        assert [phase[:6] for phase in after[title].phases] == [phase[:6] for phase in row.phases]
        for one, other in zip(row.phases, after[title].phases, strict=True):
            assert other[6:-1] == pytest.approx(one[6:-1])
        assert (
            tuple(note for note in after[title].notes if "one more version" not in note)
            == row.notes
        )
    assert any(
        "one more version (colltool.fabric/1)" in note
        for row in after.values()
        for note in row.notes
    )


def test_by_hand() -> None:
    """A ring all-reduce on 8: 14 messages, 1.75 M."""
    for size, name in ((1e3, "LL"), (1e6, "LL128"), (1e9, "Simple")):
        (row,) = colltool.price(ONE, "ar", size=size, algorithms="ring").results
        alpha, bw, overhead = {"LL": (1, 20, 4), "LL128": (2, 80, 6), "Simple": (6, 100, 8)}[name]
        assert row.protocol == name
        assert row.total_s == pytest.approx(
            (overhead + 14 * alpha) * 1e-6 + 1.75 * size / (bw * 1e9)
        )
        assert row.overhead_s == pytest.approx(overhead * 1e-6)


# Over several tiers, scopes and levels


def test_a_collective_never_mixes_protocols() -> None:
    """Each tier would like another one; LL is slow outside and Simple inside."""
    inner = star(8) | {"protocols": protocols(LL=listed(1, 100), Simple=listed(9, 10))}
    outer = clos(4, alpha=1.0) | {"protocols": protocols(Simple=listed(1, 100), LL=listed(9, 10))}
    where = fabric(inner, outer)
    mixed = fabric(star(8, 1.0, 100.0), clos(4, alpha=1.0, bw=100.0))
    names = ["hierarchical:ring/ring"]
    either = [
        fabric(star(8, 1.0, 100.0), clos(4, alpha=9.0, bw=10.0)),
        fabric(star(8, 9.0, 10.0), clos(4, alpha=1.0, bw=100.0)),
    ]
    for size in (1e3, 1e6, 1e9):
        (row,) = rows(where, "ar", size, names).values()
        (dream,) = rows(mixed, "ar", size, names).values()
        expected = [next(iter(seconds(one, "ar", size, names).values())) for one in either]
        assert row.total_s == pytest.approx(min(expected))
        assert row.protocol == ("LL", "Simple")[expected.index(min(expected))]
        assert row.total_s > dream.total_s


def test_only_names_in_common_are_priced() -> None:
    inner = star(8) | {"protocols": protocols(LL=listed(0.1, 2000), Simple=listed(5, 100))}
    outer = clos(4, alpha=1.0) | {
        "protocols": protocols(LL128=listed(0.1, 2000), Simple=listed(5, 100))
    }
    where = fabric(inner, outer)
    assert {
        row.protocol for size in (1.0, 1e6, 1e10) for row in rows(where, "ar", size).values()
    } == {"Simple"}
    # inside t1
    assert {row.protocol for row in colltool.price(where, "ar", size=1e6, ranks=8).results} == {
        "LL"
    }


def test_tiers_that_share_no_protocol_are_refused() -> None:
    inner = star(8) | {"protocols": protocols(LL=listed(1, 50), LL128=listed(2, 80))}
    outer = clos(4, alpha=1.0) | {"protocols": protocols(Simple=listed(5, 100))}
    with pytest.raises(
        ColltoolError, match=r"share no protocol for all-reduce \(t1: LL, LL128; t2: Simple\)"
    ):
        fabric(inner, outer)
    whole = fabric(inner, outer | {"protocols": protocols(LL=listed(5, 100))})
    # past the file's checks
    apart = whole.model_copy(update={"tiers": (whole.tiers[0], fabric(star(2), outer).tiers[1])})
    for ask in (colltool.price, colltool.breakdown):
        with pytest.raises(
            ColltoolError, match=r"share no protocol for all-reduce \(t1: LL, LL128; t2: Simple\)"
        ) as caught:
            ask(apart, "ar", size=1e6)
        assert "the same name on every tier" in caught.value.fix
    assert colltool.price(apart, "ar", size=1e6, ranks=8).best.protocol in ("LL", "LL128")


def test_a_tier_without_a_list_keeps_its_numbers() -> None:
    tiers = [star(8, 0.5, 400.0), three(clos(4, alpha=9.0))]
    for name, (where, _) in apart(tiers, "ar").items():
        assert where.tiers[0].bandwidth == 400e9
        one = fabric(tiers[0], clos(4, alpha=9.0) | {"protocols": protocols(**{name: NCCL[name]})})
        assert seconds(one, "ar", 1e6, []) == pytest.approx(seconds(where, "ar", 1e6, []))


def test_the_outermost_tier_that_gives_them_sets_overhead_and_local_copy() -> None:
    def both(inner: Entry, outer: Entry) -> tuple[float, float]:
        where = fabric(
            star(8) | {"protocols": [inner]},
            clos(4, alpha=1.0) | {"protocols": [outer]},
            launch_overhead="1us",
        )
        (row,) = rows(where, "ar", 32e9, ["ring"]).values()
        return row.overhead_s, sum(
            phase.bandwidth_s for phase in row.phases if phase.label == "own share"
        )

    silent = {"name": "LL"}
    inner, outer = (
        silent | {"launch_overhead": us(us_), "local_copy": gb(rate)}
        for us_, rate in ((5, 10), (7, 100))
    )
    assert both(silent, silent) == pytest.approx((1e-6, 0))
    assert both(inner, silent) == pytest.approx((5e-6, 0.1))
    assert both(inner, outer) == pytest.approx((7e-6, 0.01))
    assert both(inner, silent | {"launch_overhead": "0us"}) == pytest.approx((0, 0.1))


def test_scopes() -> None:
    """LL names all-reduce twice over; all-gather has nothing but foreign entries of t2, reduce
    those without a scope."""
    scoped = [
        {"name": "LL", "primitives": ["ar"], **listed(1, 40)},
        {"name": "LL", "primitives": ["bc", "reduce_scatter"], **listed(2, 50)},
        {"name": "Simple", **listed(3, 60)},
    ]
    for primitive, expected in (
        ("ar", "LL"),
        ("bc", "LL"),
        ("rs", "LL"),
        ("ag", "Simple"),
        ("a2a", "Simple"),
        ("p2p", "Simple"),
    ):
        where = fabric(star(8) | {"protocols": scoped})
        numbers = {"ar": (1, 40), "bc": (2, 50), "rs": (2, 50)}.get(primitive, (3, 60))
        found = rows(where, primitive, 1e6)
        assert {row.protocol for row in found.values()} == {expected}
        plain = seconds(fabric(star(8, *numbers)), primitive, 1e6, [])
        assert {title: float(row.total_s) for title, row in found.items()} == pytest.approx(plain)
    foreign = fabric(star(8) | {"protocols": scoped[:2]})
    assert {row.protocol for row in rows(foreign, "ag", 1e6).values()} == {""}
    assert seconds(foreign, "ag", 1e6, []) == seconds(fabric(star(8)), "ag", 1e6, [])


def test_levels_keep_what_they_add_to_the_first() -> None:
    tier = fabric(
        clos(16, (4, 2.0), (8, 5.0), (16, 9.0, 2)) | {"protocols": protocols(LL=listed(0.5, 10))}
    ).tiers[0]
    assert isinstance(tier, ClosTier)
    assert tier.protocols is not None
    under = tier_under(tier, tier.library.protocols[0], 16)
    assert isinstance(under, ClosTier)
    assert under.levels is not None
    assert [level.alpha for level in under.levels] == pytest.approx([0.5e-6, 3.5e-6, 7.5e-6])
    assert [level.oversubscription for level in under.levels] == [1, 1, 2]
    assert under.bandwidth == 10e9
    assert (
        tier_under(tier, tier.library.protocols[0]._replace(step_s=0.0), 16).levels == tier.levels
    )


def test_a_switch_that_computes_under_one_protocol_alone() -> None:
    fast = switch(0.1, protocols=["Simple"])
    where = fabric(three(star(8, in_network=fast)), clos(4, alpha=1.0))
    plain = fabric(
        with_numbers(star(8, in_network=switch(0.1)), NCCL["Simple"]),
        clos(4, alpha=1.0),
        launch_overhead="8us",
    )
    for size in (1e3, 1e9):
        found = {
            row.algorithm: row for row in colltool.price(where, "ar", size=size, ranks=8).results
        }
        alone = {
            row.algorithm: row for row in colltool.price(plain, "ar", size=size, ranks=8).results
        }
        assert found["in-network"].protocol == "Simple"
        assert found["in-network"].total_s == pytest.approx(alone["in-network"].total_s)
        assert found["ring"].protocol == ("LL" if size < 1e6 else "Simple")
        title = "hierarchical (in-network / ring)"
        (composed,) = rows(where, "ar", size, [title]).values()
        assert composed.protocol == "Simple"
        assert composed.total_s == pytest.approx(rows(plain, "ar", size, [title])[title].total_s)
    winners = colltool.crossover(where, "ar", ranks=8).winners
    for size in GRID[::5]:
        assert (
            winner_at(winners, size)[1]
            == colltool.price(where, "ar", size=size, ranks=8).best.protocol
        )
    only = fabric(
        star(8, in_network=fast)
        | {"protocols": [*protocols(Simple=NCCL["Simple"]), {"name": "LL", "primitives": ["ar"]}]}
    )
    result = colltool.price(only, "ar", size=1e6)
    assert "in-network" not in {row.algorithm for row in result.results}
    assert "in-network" in {one.algorithm for one in result.infeasible}


# The share that stays with a rank


@swept("primitive", PRIMITIVES)
@swept("sizes", [1e6, np.array([1.0, 1e6, 1e9])])
def test_a_local_copy_adds_the_own_share_and_no_count(primitive: str, sizes: Any) -> None:
    numbers = {"alpha": us(1.0), "bandwidth": gb(100.0)}
    for tiers in ([star(8)], [star(8), clos(4, alpha=1.0)]):
        with_copy, without = (
            fabric(*(tier | {"protocols": [{"name": "LL", **numbers, **extra}]} for tier in tiers))
            for extra in ({"local_copy": "200GB/s"}, {})
        )
        before = rows(without, primitive, sizes, phases="sequential")
        expected = (
            sizes / without.ranks / 200e9 if primitive in ("ar", "ag", "rs", "a2a") else 0 * sizes
        )
        for title, row in rows(
            with_copy, primitive, sizes, list(before), phases="sequential"
        ).items():
            old = before[title]
            assert row.total_s - old.total_s == pytest.approx(expected, rel=1e-6, abs=1e-18)
            assert (row.n_alpha, row.alpha_s) == (old.n_alpha, old.alpha_s)
            assert row.n_beta == old.n_beta
            assert [phase.n_alpha for phase in row.phases[: len(old.phases)]] == [
                phase.n_alpha for phase in old.phases
            ]
            own = [phase for phase in row.phases if phase.label == "own share"]
            assert len(own) == (primitive in ("ar", "ag", "rs", "a2a"))
            for phase in own:
                assert (phase.n_alpha, phase.alpha_s) == (0, 0.0)
                assert phase.bandwidth_s == pytest.approx(expected)
                assert row.phases[-1] is phase


def test_streamed_phases_may_hide_a_local_copy() -> None:
    """It runs beside the slowest tier; in turn with the others it is paid in full."""
    for inside, hidden in ((10.0, True), (1000.0, False)):
        plain = [star(8, 1.0, inside), clos(4, alpha=1.0)]
        copied = [tier | {"protocols": [{"name": "LL", "local_copy": "100GB/s"}]} for tier in plain]
        before, after = (
            rows(fabric(*tiers), "ar", 1e9, ["hierarchical:ring/ring"], phases="pipelined")
            for tiers in (plain, copied)
        )
        more = {title: after[title].total_s - row.total_s for title, row in before.items()}
        own = 1e9 / 32 / 100e9
        expected = {
            "hierarchical (ring / ring)": own,
            "hierarchical (ring / ring, pipelined)": 0.0 if hidden else own,
        }
        assert more == pytest.approx(expected, abs=1e-15)


# Crossovers

GRID = [10 ** (step / 4) for step in range(0, 45)]


def winner_at(winners: Any, size: float) -> tuple[str, str]:
    (found,) = [
        one
        for one in winners
        if one.from_bytes <= size and (one.to_bytes is None or size < one.to_bytes)
    ]
    return found.algorithm, found.protocol


@swept("where", [ONE, TWO], most=1)
@swept("primitive", ["ar", "ag", "bc"], most=1)
@swept("model", [{}, {"pipelining": "optimal", "phases": "sequential"}, {"phases": "pipelined"}])
def test_winners_are_the_best_prices(where: Fabric, primitive: str, model: dict[str, Any]) -> None:
    winners = colltool.crossover(where, primitive, **model).winners
    assert winners[0].from_bytes == 1
    assert all(one.to_bytes == other.from_bytes for one, other in pairwise(winners))
    assert {one.protocol for one in winners} == set(NAMES)
    for size in GRID[:: 4 if "pipelining" in model else 1]:
        best = colltool.price(where, primitive, size=size, **model).best
        algorithm, protocol = winner_at(winners, size)
        # a border within rounding of a size
        if (algorithm, protocol) != (best.title, best.protocol):
            row = rows(where, primitive, size, [algorithm], **model)[algorithm]
            assert row.total_s == pytest.approx(best.total_s, rel=1e-9)


@swept("model", [{}, {"pipelining": "optimal", "phases": "sequential"}])
@swept(
    ("where", "names"),
    [
        (ONE, ["ring", "tree"]),
        (TWO, ["hierarchical:ring/ring", "multi-rail-ring"]),
        (ONE, ["ring", "two-shot"]),
    ],
)
def test_crossings_are_confirmed_by_prices(
    where: Fabric, names: list[str], model: dict[str, Any]
) -> None:
    (pair,) = colltool.crossover(where, "ar", algorithms=names, **model).pairs

    def faster(size: float) -> str:
        found = seconds(where, "ar", size, names, **model)
        return min(found, key=found.__getitem__)

    seen = [faster(size) for size in GRID]
    for crossing in pair.crossings:
        assert (faster(crossing.bytes / 1.001), faster(crossing.bytes * 1.001)) == (
            crossing.faster_below,
            crossing.faster_above,
        )
    changes = [(below, above) for below, above in pairwise(seen) if below != above]
    assert [
        (crossing.faster_below, crossing.faster_above)
        for crossing in pair.crossings
        if 1 < crossing.bytes < GRID[-1]
    ] == changes
    assert pair.dominates == (None if pair.crossings else seen[0])
    assert pair.approximations == {}  # of one α and one bandwidth


@swept("model", [{}, {"pipelining": "optimal"}])
@swept(
    ("where", "names"),
    [
        (ONE, ["ring"]),
        (ONE, ["ring", "double-binary-tree", "two-shot"]),
        (TWO, ["multi-rail-ring", "hierarchical"]),
        (TWO, ["hierarchical:ring/ring", "hierarchical:direct/ring"]),
    ],
)
def test_winners_among_named_ones(where: Fabric, names: list[str], model: dict[str, Any]) -> None:
    found = winners(Candidates(place(where), AR, ModelOptions(**model)), names)
    assert found[0].from_bytes == 1
    assert found[-1].to_bytes is None
    for size in GRID[::3]:
        # a reference is priced, and never called the fastest
        found_rows = rows(where, "ar", size, names, **model).values()
        best = min(
            (row for row in found_rows if row.selectable), key=lambda row: float(row.total_s)
        )
        algorithm, protocol = winner_at(found, size)
        if (algorithm, protocol) != (best.title, best.protocol):
            assert rows(where, "ar", size, names, **model)[algorithm].total_s == pytest.approx(
                best.total_s, rel=1e-9
            )


@swept(
    ("overhead", "expected"),
    [(30.0, ["LL", "Simple"]), (31.0, ["LL", "Simple"]), (40.0, ["LL", "LL128", "Simple"])],
)
def test_three_that_meet_in_one_point(overhead: float, expected: list[str]) -> None:
    """A ring's 1.75 M take 28, 14 and 7 us at 160 KB: with 10, 24 and 31 us before them all three
    take as long there."""
    numbers = {
        "LL": listed(1, 10, 10),
        "LL128": listed(1, 20, 24),
        "Simple": listed(1, 40, overhead),
    }
    where = fabric(star(8) | {"protocols": protocols(**numbers)})
    found = winners(Candidates(place(where), AR, ModelOptions()), ["ring"])
    assert [one.protocol for one in found] == expected
    assert overhead != 31 or found[0].to_bytes == pytest.approx(160e3)


def test_a_balance_needs_one_alpha_and_bandwidth() -> None:
    assert colltool.crossover(ONE, "ar").balance == {}
    single = fabric(star(8) | {"protocols": protocols(LL=listed(1, 20))})
    assert colltool.crossover(single, "ar").balance == pytest.approx(
        colltool.crossover(fabric(star(8, 1, 20)), "ar").balance
    )


# Commands


@swept("where", [ONE, TWO])
@swept("name", [None, "ring", "hierarchical"])
def test_breakdown_names_the_protocol_and_sums_to_the_total(
    where: Fabric, name: str | None
) -> None:
    if name == "hierarchical" and where is ONE:
        return
    result = colltool.breakdown(where, "ar", size=1e6, algorithm=name)
    (row,) = result.price.results
    assert row.protocol in NAMES
    assert sum(phase.total_s for phase in row.phases) + row.overhead_s == pytest.approx(row.total_s)
    assert all(one.protocol in NAMES for one in result.baselines)
    assert f"(protocol {row.protocol})" in to_text(blocks(result), Screen())
    if name is None:
        assert row == colltool.price(where, "ar", size=1e6).best


def test_explain_puts_the_numbers_of_the_fastest_in() -> None:
    (entry,) = colltool.explain("ring", "ar", fabric=ONE, size=1e6).entries
    assert entry.row == rows(ONE, "ar", 1e6, ["ring"])["ring"]
    assert "protocol LL128" in to_text(
        blocks(colltool.explain("ring", "ar", fabric=ONE, size=1e6)), Screen()
    )


def test_documents_name_protocols_only_where_there_are_some() -> None:
    for where, has in ((ONE, True), (fabric(star(8)), False)):
        for result in (
            colltool.price(where, "ar", size=1e6),
            colltool.price(where, "ar", size=[1e3, 1e9]),
            colltool.breakdown(where, "ar", size=1e6),
            colltool.price_list(where, "ar"),
            colltool.crossover(where, "ar"),
        ):
            assert ('"protocol"' in to_json(document(result))) == has
            if not hasattr(result, "bytes") or isinstance(result.bytes, float):
                assert ("protocol" in to_text(blocks(result), Screen())) == has
    (ring,) = document(colltool.price(ONE, "ar", size=[1e3, 1e6, 1e9], algorithms="ring"))[
        "results"
    ]
    assert ring["protocol"] == ["LL", "LL128", "Simple"]


@pytest.mark.parametrize(
    "ask", [lambda: colltool.price(TWO, "ar", size=1e6), lambda: colltool.crossover(TWO, "ar")]
)
def test_a_document_does_not_differ_from_itself(ask: Any) -> None:
    old, new = (json.loads(to_json(document(ask()))) for _ in range(2))
    assert not diff(old, new, 0.0).moved


def test_a_price_under_another_protocol_is_a_change() -> None:
    old, new = (
        json.loads(to_json(document(colltool.price(ONE, "ar", size=1e6, algorithms="ring"))))
        for _ in range(2)
    )
    new["results"][0]["protocol"] = "Simple"
    assert [change.where for change in diff(old, new).changed] == ["results[ring].protocol"]


def test_verify_and_contention_use_the_tiers_own_numbers() -> None:
    plain = fabric(star(8, 0.5, 400.0), clos(4, (2, 2.0), (4, 5.0, 2)))
    assert colltool.verify([TWO], "ar", size=1e6) == colltool.verify([plain], "ar", size=1e6)
    assert colltool.verify([TWO], "ar", size=1e6).holds
    run = {"kind": "block", "group": 16}
    assert colltool.contention(TWO, run, primitive="a2a") == colltool.contention(
        plain, run, primitive="a2a"
    )


# What the library runs


def test_only_what_the_fabric_lists_is_priced() -> None:
    where = fabric(star(6) | {"algorithms": {"ar": ["ring", "rabenseifner", "tree"]}})
    result = colltool.price(where, "ar", size=1e6)
    assert {row.algorithm for row in result.results} == {"ring", "tree"}
    reasons = {one.algorithm: one.reason for one in result.infeasible}
    assert reasons["rabenseifner"] == "needs a power-of-two rank count, got 6"
    assert (
        reasons["two-shot"]
        == "not among the algorithms that t1 lists for all-reduce; algorithms prices it anyway"
    )
    assert "several tiers" in reasons["hierarchical"]
    everything = colltool.price(fabric(star(6)), "ar", size=1e6)
    priced = {row.algorithm for row in everything.results} | {
        one.algorithm for one in everything.infeasible
    }
    assert priced == {row.algorithm for row in result.results} | set(reasons)
    assert (
        colltool.price(where, "ar", size=1e6, algorithms="two-shot").results[0].algorithm
        == "two-shot"
    )
    assert rows(where, "ag", 1e6).keys() == rows(fabric(star(6)), "ag", 1e6).keys()


def test_the_outermost_tier_of_the_group_says_what_runs() -> None:
    where = fabric(
        star(8) | {"algorithms": {"ar": ["tree"]}},
        clos(4, alpha=1.0) | {"algorithms": {"ar": ["multi-rail-ring"]}},
    )
    assert list(rows(where, "ar", 1e6)) == ["multi-rail-ring"]
    assert [row.title for row in colltool.price(where, "ar", size=1e6, ranks=8).results] == ["tree"]


def test_compositions_are_listed_by_name_or_with_choices() -> None:
    outer = clos(4, alpha=1.0)
    by_name = fabric(star(6), outer | {"algorithms": {"ar": ["hierarchical"]}})
    assert rows(by_name, "ar", 1e6).keys() == {
        title
        for title in rows(fabric(star(6), outer), "ar", 1e6)
        if title.startswith("hierarchical")
    }
    fixed = fabric(
        star(6), outer | {"algorithms": {"ar": ["hierarchical:ring/ring", "multi-rail-ring"]}}
    )
    assert set(rows(fixed, "ar", 1e6)) == {"hierarchical (ring / ring)", "multi-rail-ring"}
    assert {one.algorithm for one in colltool.crossover(fixed, "ar").winners} <= {
        "hierarchical (ring / ring)",
        "multi-rail-ring",
    }
    assert "leader" in {one.algorithm for one in colltool.price(fixed, "ar", size=1e6).infeasible}


def test_choices_that_cannot_run_on_this_group_are_passed_over() -> None:
    names = [
        "hierarchical:recursive-halving/ring",
        "hierarchical:ring/ring/ring",
        "hierarchical:ring/ring",
    ]
    where = fabric(star(6), clos(4, alpha=1.0) | {"algorithms": {"ar": names}})
    assert list(rows(where, "ar", 1e6)) == ["hierarchical (ring / ring)"]
    none = fabric(
        star(6), clos(4, alpha=1.0) | {"algorithms": {"ar": [names[0], "multi-rail-ring"]}}
    )
    result = colltool.price(none, "ar", size=1e6)
    assert [row.algorithm for row in result.results] == ["multi-rail-ring"]
    (reason,) = [one.reason for one in result.infeasible if one.algorithm == "hierarchical"]
    assert "not what the library runs" not in reason
    with pytest.raises(ColltoolError, match="no algorithm 'rign'"):
        fabric(
            star(6), clos(4, alpha=1.0) | {"algorithms": {"ar": ["hierarchical:rign/ring", "ring"]}}
        )


def test_a_group_beyond_a_listing_tier_runs_the_same_library() -> None:
    """Inside, phases run what the tier lists for them or for the call; flat schedules of other
    libraries are left out."""
    tiers = (
        star(8, in_network=switch())
        | {"algorithms": {"ar": ["ring", "in-network"], "rs": ["ring"]}},
        clos(4, alpha=1.0),
    )
    listed, free = (fabric(*tiers), fabric(star(8, in_network=switch()), clos(4, alpha=1.0)))
    result = colltool.price(listed, "ar", size=1e3)
    names = {row.title for row in result.results}
    assert "two-shot" in {row.title for row in colltool.price(free, "ar", size=1e3).results}
    assert {
        name.partition(" (")[2].partition(" /")[0]
        for name in names
        if name.startswith("hierarchical")
    } <= {
        "ring",
        "in-network",
    }
    assert {"multi-rail-ring", "double-binary-tree"} <= names
    assert not {"two-shot", "one-shot", "recursive-doubling"} & names
    reasons = {one.algorithm: one.reason for one in result.infeasible}
    assert reasons["two-shot"].startswith("not among the algorithms that t1 lists")
    assert colltool.price(listed, "ar", size=1e3, algorithms="hierarchical:direct/two-shot").results
    small = [float(colltool.price(listed, "ar", size=1e3, ranks=n).best.total_s) for n in (2, 4, 8)]
    assert small == sorted(small)


def test_a_list_of_which_nothing_can_run_is_an_error() -> None:
    where = fabric(star(6) | {"algorithms": {"ar": ["rabenseifner", "hierarchical"]}})
    for ask in (
        lambda: colltool.price(where, "ar", size=1e6),
        lambda: colltool.crossover(where, "ar"),
    ):
        with pytest.raises(
            ColltoolError,
            match="runs on small: the fabric's algorithms list only rabenseifner, hierarchical",
        ):
            ask()
    assert colltool.price(where, "ar", size=1e6, algorithms="ring").results


def test_a_list_of_hypothetical_ones_still_has_winners() -> None:
    where = fabric(star(8), clos(4, alpha=1.0) | {"algorithms": {"ar": ["inner-ring"]}})
    assert colltool.price(where, "ar", size=1e6).best.algorithm == "inner-ring"
    assert [one.algorithm for one in colltool.crossover(where, "ar").winners] == ["inner-ring"]


# Files and overrides

TEXT = """\
schema: colltool.fabric/1
name: small
tiers:
  - name: nvlink
    topology: star
    size: 8
    alpha: 1us
    bandwidth: 100GB/s
    protocols:
      - {name: LL, alpha: 1us, bandwidth: 20GB/s}
      - {name: Simple, alpha: 6us}
      - {name: Simple, alpha: 7us, primitives: [ag]}
"""


def test_set_changes_a_protocol_by_name_or_index() -> None:
    changed = read_fabric(
        TEXT, "small.yaml", ["nvlink.protocols.LL.alpha=2us", "nvlink.protocols.2.bandwidth=80GB/s"]
    )
    found = changed.tiers[0].protocols
    assert found is not None
    assert [(one.alpha, one.bandwidth) for one in found] == [
        (2e-6, 20e9),
        (6e-6, None),
        (7e-6, 80e9),
    ]
    assert [own.protocol for own in under_protocols(place(changed), AG)] == ["Simple"]
    assert [own.protocol for own in under_protocols(place(changed), A2A)] == ["LL", "Simple"]
    assert read_fabric(TEXT, "small.yaml", ["nvlink.algorithms.ar=[ring]"]).tiers[0].algorithms == {
        AR: ("ring",)
    }
    assert under_protocols(place(fabric(star(8))), BC)[0].protocol == ""


@swept(
    ("option", "words"),
    [
        ("nvlink.protocols.Simple.alpha=2us", "'Simple' is more than one protocol"),
        ("nvlink.protocols.LL12.alpha=2us", "unknown protocol 'LL12'"),
        ("nvlink.protocols.LL.alpa=2us", "unknown key 'alpa'"),
        ("nvlink.protocols.LL.alpha=2", "expected a time"),
        ("nvlink.algorithms.ar=[rign]", "did you mean 'ring'"),
    ],
)
def test_set_refuses(option: str, words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        read_fabric(TEXT, "small.yaml", [option])
    assert words in str(caught.value)
    assert f"--set {option}" in caught.value.spelled("shell")
