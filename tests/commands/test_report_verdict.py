"""What a report says first: its verdict, cost and risk, in words a colleague would use."""

from __future__ import annotations

import re
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.analysis.report import Report
from colltool.base.errors import ColltoolError
from colltool.render.dispatch import document, rendered
from colltool.render.text import Screen
from colltool.render.views.report_costs import cost_sentences
from colltool.render.views.report_decision import answers, report_title
from colltool.render.views.report_risks import number_in_words, risks
from tests.commands.conftest import run

BANNED = (
    r"\ba rank\b",
    r"\ba host\b",
    r"\ba prompt\b",
    r"\bfrom [\d.]+ \w+ on\b",
    r"\bis of\b",
    r"goes with",
    r"so many",
    r"\bbeside\b",
    r"nobody",
    r"hangs on",
    r"looked at closely",
    r"Off by",
    r"balance",
    r"\brealistic\b",
    r"\bideal\b",
    r"sure difference",
    r"draws of its numbers",
    r"not gb200",
)
"""Habits of the language that readers stumbled over."""


@pytest.fixture(scope="module")
def two() -> Report:
    """Two machines of different devices, and a job."""
    return colltool.report(
        "dgx-h100", against="dgx-b200", job="llama3-70b", ranks=64, primitives="ar"
    )


@pytest.fixture(scope="module")
def one() -> Report:
    return colltool.report("dgx-h100", primitives="ar", ranks=64)


def said(report: Report) -> list[str]:
    return [report_title(report), *answers(report), *cost_sentences(report), *risks(report)]


def test_the_title_is_the_verdict(two: Report) -> None:
    title = report_title(two)
    assert title.startswith("dgx-h100: all-reduce ")
    assert re.search(r"; training step \d+\.\d% slower$", title), title
    assert two.to_html().count(title) == 2  # as title and heading


def test_the_title_of_one_fabric_has_its_time_and_interval(one: Report) -> None:
    assert re.fullmatch(
        r"dgx-h100: all-reduce of 64MB on 64 GPUs takes \d+ us \(-\d+% to \+\d+%\)",
        report_title(one),
    )


@pytest.fixture(scope="module")
def several() -> Report:
    return colltool.report(
        "dgx-a100",
        against=["dgx-h100", "dgx-b200"],
        job="llama3-70b",
        ranks=64,
        primitives="ar",
        size="1GB",
    )


@pytest.mark.ci
def test_several_fabrics_have_a_winner_and_its_rival(several: Report) -> None:
    assert re.fullmatch(
        r"llama3-70b trains fastest on dgx-b200, [\d.]+% ahead of dgx-h100;"
        r" all-reduce of 1GB( fastest on dgx-b200, [\d.]+x ahead of dgx-h100|"
        r": too close to call between dgx-\w+ and dgx-\w+)",
        report_title(several),
    )


def test_several_fabrics_are_short_sentences(several: Report) -> None:
    lines = list(answers(several))
    assert len(lines) == 4
    assert re.match(r"A training step of llama3-70b on 64 GPUs is fastest on dgx-b200: ", lines[0])
    assert lines[0].endswith("Comparisons of steps are typically 5.3% off.")
    assert re.match(r"dgx-h100: [\d.]+ s, [\d.]+% faster than dgx-a100; ", lines[1])
    assert re.match(
        r"All-reduce of 1GB on 64 GPUs is (fastest on|too close to call between) .* as long\.$",
        lines[3],
    )
    assert max(map(len, lines)) < 200


def test_a_slower_step_is_split_into_gpu_and_network(two: Report) -> None:
    lines = list(answers(two))
    assert re.match(
        r"A training step of llama3-70b on 64 GPUs takes [\d.]+ s \(.*, 90% interval\)", lines[0]
    )
    assert lines[1].startswith("dgx-b200: ")
    assert " faster than dgx-h100 (such comparisons are typically 5.3% off); " in lines[1]
    assert "because the GPU is faster" in lines[1] or "its GPU saves" in lines[1]
    steps = colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-b200"], 64).plans
    by_gpu = steps[0].control_step_s - steps[1].control_step_s
    assert f"{by_gpu:.3g} s" in lines[1]


def test_a_collective_has_a_winner_or_is_too_close_to_call(two: Report) -> None:
    (line,) = [line for line in answers(two) if line.startswith("All-reduce, 64 GPUs: ")]
    assert "too close to call" in line or "faster than" in line
    assert re.search(r"At 64MB: .* \(-\d+% to \+\d+%\) on dgx-h100, .* on dgx-b200\.$", line)


@pytest.mark.ci
def test_a_difference_within_the_error_has_no_winner() -> None:
    near = colltool.report("dgx-h100", against="hgx-h200", ranks=64, primitives="ar")
    title = report_title(near)
    assert "faster" not in title
    assert "slower" not in title


@pytest.mark.ci
def test_what_is_the_same_is_said_so() -> None:
    same = colltool.report(
        "dgx-h100", vary="ib.levels.spine.oversubscription=1,2", ranks=16, primitives="ar"
    )
    assert "no measurable difference" in report_title(same)
    assert any("no measurable difference" in line for line in answers(same))


def test_risks_are_for_the_reader(two: Report) -> None:
    lines = list(risks(two))
    assert re.match(r"All-reduce: within -\d+% and \+\d+%", lines[0])
    (most,) = [line for line in lines if "most sensitive" in line]
    assert re.fullmatch(
        r"All-reduce is most sensitive to (InfiniBand|NVLink) [a-z -]+: .* to .* over its plausible"
        r" range\. (The choice of algorithm is safe|A wrong choice .* at most [\d.]+%)\.",
        most,
    )


@swept(
    ("key", "words"),
    [
        ("ib.protocols.Simple.alpha", "InfiniBand latency"),
        ("ib.levels.spine.alpha", "InfiniBand spine latency"),
        ("nvlink.bandwidth", "NVLink bandwidth"),
        ("ib.eta.beta", "InfiniBand bandwidth efficiency"),
        ("nvlink.in_network.eta_beta.all_reduce", "NVLink in-network bandwidth efficiency"),
        ("nvlink.in_network.alpha_switch", "NVLink in-network switch latency"),
        ("launch_overhead", "launch overhead"),
        ("my.unknown.key", "my.unknown.key"),
    ],
)
def test_numbers_have_names(key: str, words: str) -> None:
    assert number_in_words(key) == words


def test_no_sentence_has_the_habits(two: Report, one: Report, several: Report) -> None:
    for report in (two, one, several):
        for line in said(report):
            for habit in BANNED:
                assert not re.search(habit, line), (habit, line)


@pytest.mark.ci
def test_costs_are_of_gpus_and_network() -> None:
    priced = colltool.report(
        "dgx-h100", primitives="ar", ranks=64, price={"gpu": 30000, "switch": 20000}
    )
    (row,) = document(priced)["decision"]["cost"]
    assert row["gpus"] == 64
    assert row["gpu_cost"] == 64 * 30000
    # 8 switches join 256 ranks, of which a quarter is used; those inside nodes come with the GPUs
    assert row["network_cost"] == 8 * 20000
    assert row["network_part"] == 8 * 20000 / 4
    assert row["total_cost"] == 64 * 30000 + 8 * 20000 / 4
    assert row["currency"] == "USD"
    text = " ".join(cost_sentences(priced))
    assert "1,920,000 USD for 64 GPUs and 40,000 USD for the network, 1,960,000 USD in all" in text
    assert "per GB/s of bus bandwidth" in text


@pytest.mark.ci
def test_costs_of_a_job_are_per_token_and_a_fabric_may_have_its_own() -> None:
    done = run(
        *("report", "-f", "dgx-h100", "-f", "dgx-b200", "--job", "llama3-70b", "-n", "64"),
        *("-p", "ar", "--price", "gpu=30000", "--price", "dgx-b200:gpu=40000"),
        *("--price", "currency=EUR", "--format", "json"),
    )
    first, second = done.json["decision"]["cost"]
    assert (first["gpu_cost"], second["gpu_cost"]) == (64 * 30000, 64 * 40000)
    assert first["currency"] == "EUR"
    assert first["cost_per_rate"] == pytest.approx(first["gpu_cost"] / first["tokens_per_s"])
    assert "The network is not in the cost" in " ".join(done.json["decision"]["cost_in_words"])


@pytest.mark.ci
def test_without_prices_it_says_what_to_type() -> None:
    done = run("report", "-f", "dgx-h100", "-n", "16", "-p", "ar")
    assert "No price is known: add --price gpu=30000 --price switch=20000" in " ".join(
        done.out.split()
    )


@pytest.mark.ci
def test_a_fabrics_own_prices_stand_where_none_are_given() -> None:
    own = colltool.report(
        "dgx-h100",
        primitives="ar",
        ranks=64,
        overrides=["prices.currency=EUR", "prices.switch=1000"],
    )
    (row,) = document(own)["decision"]["cost"]
    assert (row["network_cost"], row["currency"], row["gpu_cost"]) == (8000, "EUR", None)
    assert "GPUs are not in the cost of dgx-h100" in " ".join(cost_sentences(own))


@pytest.mark.parametrize(
    ("price", "says"),
    [
        ("gpu=abc", "no price of a GPU"),
        ("gpu=-1", "no price of a GPU"),
        ("gpu", "no value"),
        ("gpus=1", "did you mean 'gpu'"),
        ("switch=many", "expected a price"),
        ("switch=-3", "expected a price"),
        ("currency=USD", "nothing is priced"),
        ("nvl72:gpu=1", "known: dgx-h100"),
        (3, "must be KEY=VALUE"),
    ],
)
def test_prices_that_cannot_be_used_are_refused_before_the_work(
    price: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colltool, "sweep", lambda *_, **__: pytest.fail("priced"))
    with pytest.raises(ColltoolError) as refused:
        colltool.report("dgx-h100", primitives="ar", price=price)
    assert "price" in str(refused.value)
    assert says in str(refused.value)


def test_another_currency_than_the_files_is_refused() -> None:
    with pytest.raises(ColltoolError, match="write currency=EUR"):
        colltool.report(
            "dgx-h100",
            primitives="ar",
            overrides=["prices.currency=EUR", "prices.switch=1000"],
            price=["gpu=30000", "currency=USD"],
        )


def test_the_first_screen_has_at_most_24_lines(two: Report, one: Report) -> None:
    for report in (one, two):
        shown = rendered(report, "table", Screen(80))
        assert len(shown.splitlines()) <= 24, shown
    assert rendered(one, "table", everything=True).count("\n") > 24
