"""Machines that ail in a known way are told what ails them; healthy ones that nothing does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from machine_logs import LARGE, SMALL, Time, log, time_on
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.diagnosis.results import Diagnosis, DiagnosisFinding

FIVE = ("ar", "ag", "rs", "a2a", "p2p")
RINGS = {"ar": "ring", "ag": "ring", "rs": "ring"}


def shaken(time: Time, by: float = 0.03, seed: int = 1) -> Time:
    """As measurements scatter."""
    draw = random.Random(seed)
    return lambda primitive, size: time(primitive, size) * draw.uniform(1 - by, 1 + by)


def names(finding: DiagnosisFinding) -> list[str]:
    return [cause.name for cause in finding.causes]


def only(result: Diagnosis) -> DiagnosisFinding:
    (finding,) = result.findings
    return finding


def test_a_healthy_node_is_as_expected(tmp_path: Path) -> None:
    result = colltool.doctor(log(tmp_path / "a.log", shaken(time_on()), FIVE))
    assert result.ok
    assert len(result.series) == 5
    assert result.assumed.fabric == "dgx-h100"
    assert {one.wire for one in result.series} == {"nvlink"}
    assert all(one.large == pytest.approx(1, abs=0.05) for one in result.series)


def test_five_series_at_two_thirds_are_one_finding(tmp_path: Path) -> None:
    """Twelve of eighteen links carry two thirds, and the rate of all series says so once."""
    result = colltool.doctor(
        log(tmp_path / "a.log", shaken(time_on(set_=["nvlink.bandwidth=300GB/s"])), FIVE)
    )
    finding = only(result)
    assert len(finding.series) == 5
    assert 0.6 < finding.low <= finding.high < 0.72
    assert {"nvlinks", "slow-rank"} == set(names(finding)), "clocks would be seen in small messages"
    said = next(str(cause.said) for cause in finding.causes if cause.name == "nvlinks")
    assert said.startswith("only 12 of the 18 NVLinks")


def one_size_off(time: Time, size: float, factor: float) -> Time:
    """One size far slower or faster than the others, as when a run is disturbed."""
    return lambda primitive, bytes_: time(primitive, bytes_) * (factor if bytes_ == size else 1)


@swept("size", LARGE[-3:])
def test_one_disturbed_size_of_three_is_no_finding(size: float, tmp_path: Path) -> None:
    """The share of large messages is the median of theirs: a mean would be 78%, below the bar."""
    result = colltool.doctor(log(tmp_path / "a.log", one_size_off(time_on(), size, 3)))
    assert result.ok
    assert result.series[0].large == pytest.approx(1, abs=0.01)


@swept("size", LARGE[-3:])
def test_one_good_size_of_three_does_not_hide_slow_links(size: float, tmp_path: Path) -> None:
    """Two of three sizes at half the rate, one at three times that: a mean would be 83%, above the
    bar."""
    time = one_size_off(time_on(set_=["nvlink.bandwidth=225GB/s"]), size, 1 / 3)
    (series,) = colltool.doctor(log(tmp_path / "a.log", time)).series
    assert series.low
    assert series.large == pytest.approx(0.5, abs=0.03)  # what NVLS takes beside its bytes stays


def test_the_number_of_a_cause_is_not_moved_by_one_disturbed_size(tmp_path: Path) -> None:
    time = one_size_off(time_on(set_=["nvlink.bandwidth=300GB/s"]), LARGE[-2], 1.5)
    (said,) = (
        str(cause.said)
        for cause in only(colltool.doctor(log(tmp_path / "a.log", time, FIVE))).causes
        if cause.name == "nvlinks"
    )
    assert said.startswith("only 12 of the 18")


@pytest.mark.alike(3)
@pytest.mark.parametrize("links", [3, 6, 9, 12])
@pytest.mark.parametrize("seed", [1, 2])
def test_fewer_links_are_counted(links: int, seed: int, tmp_path: Path) -> None:
    time = shaken(time_on(set_=[f"nvlink.bandwidth={450 * links / 18}GB/s"]), 0.02, seed)
    finding = only(colltool.doctor(log(tmp_path / "a.log", time, FIVE)))
    (said,) = (str(cause.said) for cause in finding.causes if cause.name == "nvlinks")
    assert said.startswith(f"only {links} of the 18")


@swept("seed", range(4))
def test_without_nvls_and_all_else_well_nvls_is_off(seed: int, tmp_path: Path) -> None:
    """An all-gather and an all-to-all of full rate leave no doubt about the wires."""
    result = colltool.doctor(
        log(tmp_path / "a.log", shaken(time_on(only=RINGS), seed=seed), ("ar", "ag", "a2a"))
    )
    finding = only(result)
    assert names(finding) == ["nvls-off"]
    assert finding.series == ("all-reduce, 8 ranks on 1 node",)
    assert [one.cause for one in finding.experiments[0].foretold] == [
        "nvls-off",
        "as the fabric says",
    ]


def test_what_one_series_cannot_tell_apart_stands_together_with_what_would(tmp_path: Path) -> None:
    finding = only(colltool.doctor(log(tmp_path / "a.log", shaken(time_on(only=RINGS)))))
    assert names(finding)[0] == "nvls-off"
    assert {"slow-rank", "nvlinks"} < set(names(finding))
    first = finding.experiments[0]
    assert "_perf -b 256M -e 4G -f 2 -g " in first.command
    outcome = {one.cause: one.busbw_Bps for one in first.foretold}
    assert outcome["nvls-off"] > 1.1 * outcome["nvlinks"]
    assert len(finding.experiments) > 1


@pytest.mark.parametrize(
    ("rate", "bus"), [("15.75GB/s", "Gen3"), ("31.5GB/s", "Gen4"), ("63GB/s", "Gen5 x16")]
)
def test_a_path_over_pcie(rate: str, bus: str, tmp_path: Path) -> None:
    time = shaken(time_on(set_=[f"nvlink.bandwidth={rate}"], only=RINGS))
    finding = only(colltool.doctor(log(tmp_path / "a.log", time, ("ar", "ag", "rs"))))
    assert names(finding)[0] == "pcie"
    assert bus in str(finding.causes[0].said)


def test_half_the_rate_of_rings_is_ll(tmp_path: Path) -> None:
    time = shaken(time_on(set_=["nvlink.bandwidth=225GB/s"], only=RINGS))
    assert "protocol-ll" in names(
        only(colltool.doctor(log(tmp_path / "a.log", time, ("ar", "ag", "rs"))))
    )


def test_everything_slower_is_clocks(tmp_path: Path) -> None:
    healthy = time_on()
    finding = only(
        colltool.doctor(
            log(tmp_path / "a.log", shaken(lambda p, size: 1.9 * healthy(p, size)), FIVE)
        )
    )
    assert finding.size == "large and small"
    assert names(finding) == ["clocks"]
    assert "1.9" in str(finding.causes[0].said)


def test_late_launches_are_seen_in_small_messages_alone(tmp_path: Path) -> None:
    healthy = time_on()
    finding = only(
        colltool.doctor(
            log(tmp_path / "a.log", lambda p, size: 40e-6 + healthy(p, size), ("ar", "ag"))
        )
    )
    assert (finding.size, names(finding)) == ("small", ["launch"])
    assert str(finding.causes[0].said).startswith("every call takes 40 us longer")


def test_half_the_network_between_two_hosts(tmp_path: Path) -> None:
    time = shaken(time_on(ranks=16, set_=["ib.bandwidth=25GB/s"]), 0.02)
    path = log(tmp_path / "a.log", time, ("ar", "ag", "a2a"), LARGE, ranks=16)
    unnamed = colltool.doctor(path)
    assert unnamed.ok  # such hosts are sold, and the logs name no NICs
    assert str(unnamed.assumed.network).startswith("4 x 400G or 8 x 200G")
    result = colltool.doctor(path, fabric="dgx-h100")
    finding = only(result)
    assert {"rails", "network"} <= set(names(finding))
    assert next(str(one.said) for one in finding.causes if one.name == "rails").startswith(
        "only 4 of the 8 NICs"
    )
    assert all(
        "mpirun -np 16 -N 8 " in one.command or "-g " in one.command for one in finding.experiments
    )
    assert {one.wire for one in result.series} == {"ib"}


@pytest.mark.ci
def test_sockets_are_a_twentieth_of_rdma(tmp_path: Path) -> None:
    """Below what any share of NICs leaves, TCP is named before them, and nothing inside the
    hosts."""
    time = shaken(time_on(ranks=16, set_=["ib.bandwidth=1.5GB/s"]), 0.02)
    result = colltool.doctor(log(tmp_path / "a.log", time, ("ar", "ag", "a2a"), LARGE, ranks=16))
    finding = only(result)
    assert names(finding)[0] == "sockets"
    assert "TCP sockets and not over RDMA: 1.5" in str(finding.causes[0].said)
    assert not {"pcie", "nvlinks"} & set(names(finding)[:2])


def test_two_ailments_are_two_findings(tmp_path: Path) -> None:
    """Rings in place of NVLS, and launches that are late everywhere."""
    time = time_on(only=RINGS)
    result = colltool.doctor(
        log(tmp_path / "a.log", lambda p, size: 60e-6 + time(p, size), ("ar", "ag", "a2a"))
    )
    assert sorted((finding.size, names(finding)[0]) for finding in result.findings) == [
        ("large", "nvls-off"),
        ("small", "launch"),
    ]


def test_what_no_price_explains_is_said_to_be_so(tmp_path: Path) -> None:
    """The all-to-all alone is slow: no wire and no clock is, for the others run on the same."""
    healthy = time_on()
    time: Time = lambda p, size: healthy(p, size) * (2.5 if p == "a2a" else 1)  # noqa: E731
    finding = only(colltool.doctor(log(tmp_path / "a.log", time, FIVE, LARGE)))
    assert finding.series == ("all-to-all, 8 ranks on 1 node",)
    assert finding.causes == finding.experiments == ()
    assert any("reaches 40%" in str(hint) for hint in finding.hints)


def test_the_bar_is_where_it_is_set(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(set_=["nvlink.bandwidth=410GB/s"]), FIVE, LARGE)
    assert colltool.doctor(file).ok
    assert not colltool.doctor(file, expect=0.95).ok
    assert colltool.doctor(file, expect=0.9).ok
    for bar in (0.0, -1.0, 1.5):
        with pytest.raises(ColltoolError, match="expect"):
            colltool.doctor(file, expect=bar)


def test_a_collective_alone(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(only=RINGS), ("ar", "ag"))
    assert colltool.doctor(file, primitive="ag").ok
    assert not colltool.doctor(file, primitive="ar").ok
    with pytest.raises(
        ColltoolError, match=r"hold no broadcast(.|\n)*they hold: all_reduce, all_gather"
    ):
        colltool.doctor(file, primitive="bc")


def test_a_dip_is_a_note_and_no_finding(tmp_path: Path) -> None:
    healthy = time_on()
    sizes = [2.0**k for k in range(22, 32)]
    time: Time = lambda p, size: healthy(p, size) * (4 if size < 2**25 else 1)  # noqa: E731
    result = colltool.doctor(log(tmp_path / "a.log", time, ("p2p",), sizes))
    assert result.ok
    assert any("25% of expected" in str(note) for note in result.notes)


def test_few_ranks_are_said_to_reach_less(tmp_path: Path) -> None:
    result = colltool.doctor(log(tmp_path / "a.log", time_on(ranks=2), ("ar",), LARGE, ranks=2))
    assert any(str(note).startswith("2 ranks are few: healthy nodes") for note in result.notes)


def test_the_same_machine_twice_is_said_the_same(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", shaken(time_on(only=RINGS)), FIVE, SMALL + LARGE)
    assert colltool.doctor(file) == colltool.doctor(file)
