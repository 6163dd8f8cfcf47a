"""A parameter server: priced where it is named, proved, and in no table beside collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small import clos, fabric, star, torus
from swept import swept

import colltool
from colltool.algorithms.executor import run
from colltool.algorithms.libraries import NotRun
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import algorithms, on_request
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, totals
from colltool.network.group import Group
from tests.wiring import Ports

(ROW,) = on_request()


def best(where: Any, name: str, **more: Any) -> Any:
    return colltool.price(where, "ar", size=1e9, algorithms=[name], ideal=True, **more).best


@swept(("servers", "expect", "rtol"), [(1, 500, 0.03), (1, 512, 0.02), (8, 64, 0.02)])
def test_against_a_ring_of_1024(servers: int, expect: float, rtol: float) -> None:
    """The documents' figures are of the bandwidth term."""
    where = fabric(star(1024))
    ratio = best(where, f"parameter-server:{servers}").bandwidth_s / best(where, "ring").bandwidth_s
    assert ratio == pytest.approx(expect, rel=rtol)


@swept(("n", "k"), [(2, 1), (8, 1), (8, 3), (7, 7), (64, 8)])
def test_the_executed_schedule_has_the_counts_of_the_formula(n: int, k: int) -> None:
    group, network = Group(n, "star", servers=k), Ports(n + k)
    make = program_maker(AR, "parameter-server")
    assert make is not None
    assert run(make(group, 1), network.carry).holds
    assert (network.hops, network.busiest) == pytest.approx(totals(ROW.formula(group)))
    assert totals(ROW.formula(group)) == (2, max(1, n / k))


def test_verify_proves_it_and_its_price() -> None:
    for where in (fabric(star(16)), fabric(clos(16, (4, 2.0), (16, 5.0)))):
        for name in ("parameter-server", "parameter-server:4"):
            found = colltool.verify(where, "ar", algorithms=[name]).results
            assert [one.verdict for one in found] == ["proved"]
            assert found[0].spec == name
            price, executed = found[0].time_s or (0.0, 1.0)
            assert executed == pytest.approx(price)


def test_it_is_named_with_its_servers() -> None:
    row = best(fabric(star(16)), "parameter-server:8")
    assert (row.title, row.spec, row.n_alpha, row.n_beta) == (
        "parameter-server (8)",
        "parameter-server:8",
        2,
        2,
    )
    assert best(fabric(star(16)), row.title).spec == row.spec, "as tables print it"
    assert best(fabric(star(16)), "parameter-server:1").spec == "parameter-server"


def test_no_table_lists_it() -> None:
    """Not even among what cannot run."""
    assert ROW not in algorithms(AR)
    for where in (fabric(star(16)), fabric(torus(4, 4)), fabric(star(8), clos(4, alpha=2.0))):
        found = colltool.price(where, "ar", size=1e3)
        assert not [row for row in found.results if "parameter-server" in row.spec]
        assert not [one for one in found.infeasible if one.algorithm == "parameter-server"]
        assert not [
            one for one in colltool.verify(where, "ar").results if "parameter-server" in one.spec
        ]


def test_nccl_has_none() -> None:
    found = colltool.price(
        fabric(star(16), library="nccl"), "ar", size=1e3, algorithms=["ring", "parameter-server"]
    )
    assert [row.spec for row in found.runnable] == ["ring"]
    assert found.best.spec == "parameter-server"  # named, so it is compared
    other = found.best
    assert other.not_selected_reason == NotRun("no_schedule", "nccl")


@swept(
    ("name", "words"),
    [
        ("parameter-server:0", "'parameter-server:0' has no number of servers behind its name"),
        ("parameter-server:17", "'parameter-server:17' has no number of servers behind its name"),
        ("parameter-server:few", "1 to 16 servers"),
        ("parameter-server:2/2", "has no number of servers"),
        ("parameter-server:99999999999999999999", "has no number of servers"),
        ("ring:8", "'ring' takes no choice of algorithms, got ':8'"),
    ],
)
def test_what_is_no_number_of_servers(name: str, words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        best(fabric(star(16)), name)
    assert words in str(caught.value)


def test_it_needs_a_switch() -> None:
    for where in (fabric(torus(4, 4)), fabric(star(8), clos(4, alpha=2.0))):
        with pytest.raises(
            ColltoolError, match="parameter-server cannot run here: needs a star or a Clos"
        ):
            best(where, "parameter-server")


def test_a_tier_may_list_it_and_a_job_runs_it() -> None:
    where = fabric(star(16, algorithms={"all_reduce": ["parameter-server:4"]}))
    found = colltool.plan(
        {"calls": [{"primitive": "ar", "group": "all", "size": "1GB"}]},
        where,
        links=True,
        ideal=True,
    )
    assert found.collectives[0].sent.cost.algorithm == "parameter-server (4)"
    assert found.wires[0].busy_s == pytest.approx(4 * 1e9 / 100e9)
    assert found.links is not None
    assert found.links.notes == (
        (
            "not counted: all, because the servers of parameter-server are not among the ranks, so"
            " their ports are unknown"
        ),
    )
    for name, words in (
        ("parameter-servers", "no algorithm 'parameter-servers'"),
        ("parameter-server:0", "no number of servers"),
    ):
        with pytest.raises(ColltoolError, match=words):
            fabric(star(16, algorithms={"all_reduce": [name]}))


def test_energy_is_of_what_the_ranks_send_and_take() -> None:
    assert best(
        fabric(star(16, energy="30pJ/bit")), "parameter-server:4"
    ).energy_J == pytest.approx(2 * 16 * 8e9 * 30e-12)


def test_sizes_in_an_array() -> None:
    sizes = np.array([1e3, 1e6])
    (row,) = colltool.price(
        fabric(star(16)), "ar", size=sizes, algorithms=["parameter-server:2"], ideal=True
    ).results
    assert row.bandwidth_s == pytest.approx(8 * sizes / 100e9)


def test_through_the_commands(cli: Callable[..., Any]) -> None:
    told = cli("explain", "parameter-server:8", "-f", "star512", "-M", "16MB")
    assert "t = 2 α + max(1, N/K) M/BW" in told
    assert "OSDI 2014" in told
    assert "n_beta x M / BW = 64 x 16 MB" in told
    assert "parameter-server (8)" in cli(
        "crossover", "ar", "-f", "star512", "--algorithm", "ring,parameter-server:8"
    )


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    from colltool.commands.app import run as boundary

    def told(*args: str) -> str:
        assert not boundary(args)
        return capsys.readouterr().out

    return told
