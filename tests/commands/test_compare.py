"""``compare`` and ``sweep`` on a first screen: an answer at the first try, in words that a colleague
would repeat."""

from __future__ import annotations

import re
from typing import Any

import pytest

HALF = "ib.bandwidth=200Gbps"
BUYER = ("compare", "ar,a2a", "-f", "nvl72", "-f", "dgx-b200", "-n", "1152")
SCREENS: dict[str, tuple[str, ...]] = {
    "buyer": BUYER,
    "racks": ("compare", "ar", "-f", "nvl72", "-f", "dgx-b200", "-n", "256,512"),
    "no count": ("compare", "ar", "-f", "nvl72", "-f", "dgx-b200"),
    "many questions": ("compare", "ar,a2a", "-f", "dgx-h100", "-f", "dgx-b200", "-n", "8,64,256"),
    "not all can": ("compare", "ar", "-f", "mi300x", "-f", "dgx-h100", "-n", "8,64"),
    "data sheets": ("compare", "ar", "-f", "star512", "-f", "dgx-b200", "-n", "64"),
    "four": ("compare", "ar", "-f", "dgx-h100,nvl72,dgx-b200,hgx-h200", "-n", "64"),
    "values": ("compare", "ar", "-f", "dgx-h100", "-n", "32", "--vary", "library.collnet=false,true"),
    "sweep": ("sweep", "ar", "-f", "dgx-h100", "-n", "8,64,256"),
    "sweep fabrics": ("sweep", "ar", "-f", "dgx-h100", "-f", "nvl72", "-n", "64"),
    "sweep grown": ("sweep", "ar", "-f", "dgx-h100", "-f", "dgx-b200", "-n", "64,1152"),
    "sweep values": ("sweep", "a2a", "-f", "dgx-h100", "-n", "64", "--vary", "ib.bandwidth=25GB/s,50GB/s"),
}  # fmt: skip
BANNED = re.compile(
    r"\b(realistic|ideal|cells?|software|held at|not alike|what follows|no sure difference"
    r"|the model's error|balance|leads|goes with|beside|pays?|from \S+ ?\S* on)\b"
    r"|\+-\d"
)


@pytest.mark.alike(6)
@pytest.mark.parametrize("name", SCREENS)
def test_a_first_screen(name: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 lines at 80 columns, at most four of them before the table."""
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*SCREENS[name])
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 24
    if name != "four":  # names and times of four do not fit
        assert max(map(len, lines)) <= 80
    headline = done.out.partition("\n\n")[0]
    assert headline.count("\n") < 4
    assert headline.count("interval)") + headline.count("Nine of ten") <= 1


@pytest.mark.alike(6)
@pytest.mark.parametrize("name", SCREENS)
def test_words_that_nobody_says(name: str, run: Any) -> None:
    text = run(*SCREENS[name], "--all").out
    assert [found[0] for found in BANNED.finditer(text)] == []


def test_the_question_of_a_buyer(run: Any) -> None:
    text = " ".join(run(*BUYER).out.split())
    assert "dgx-b200 was grown to 144 nodes." in text
    assert "All-reduce, 1152 ranks: " in text
    assert "All-to-all, 1152 ranks: " in text
    found = run(*BUYER, "--format", "json").json
    assert len(found["questions"]) == len(found["verdict"]) == 2
    assert all(value["total_s"] for row in found["rows"] for value in row["values"])
    for question, sentence in zip(found["questions"], found["verdict"], strict=True):
        for part in question["classes"]:
            if part["winner"] is None:
                continue
            assert part["winner"] in sentence
            assert all(rival["low"] > 1 for rival in part["rivals"])
        if not any(part["winner"] for part in question["classes"]):
            assert "too close to call" in sentence or "no clear winner" in sentence
            assert "faster" not in sentence
            assert question["winner"] is None


def test_a_row_has_its_call(run: Any) -> None:
    asked = ("compare", "ar", "-f", "dgx-h100", "-f", "dgx-b200", "-n", "8", "-M", "1KB,16MB,1GB")
    rows = run(*asked, "--format", "json").json["rows"]
    assert [row["call"] for row in rows] == ["winner", "close", "winner"]
    for row in rows:
        ends = row["values"][1]["ratio_interval"]
        assert (row["call"] == "winner") == (not ends["low"] <= 1 <= ends["high"])
    csv = run(*asked, "--format", "csv").out.splitlines()
    assert [text.rsplit(",", 1)[1] for text in csv] == ["winner", "dgx-h100", "", "dgx-b200"]


def test_ranks_that_do_not_fit_say_what_to_type(run: Any) -> None:
    text = " ".join(run("compare", "ar", "-f", "mi300x", "-f", "dgx-h100", "-n", "64").out.split())
    assert "only dgx-h100 can run it. 64 ranks do not fit on mi300x; compare at -n 8." in text
    text = " ".join(
        run("compare", "ar", "-f", "nvl72", "-f", "dgx-b200", "-n", "72,100").out.split()
    )
    assert "100 ranks do not fill whole" in text
    assert "compare at -n 72 or 144" in text


def test_a_sweep_says_what_runs_and_what_is_fastest(run: Any) -> None:
    asked = ("sweep", "ar", "-f", "dgx-h100", "-n", "8,64", "-M", "1MB,16MB,1GB")
    text = run(*asked).out
    assert " ".join(text.split()).startswith(
        "All-reduce on dgx-h100: NCCL runs Ring (8 ranks) or Tree (64 ranks) up to 1MB,"
        " NVLS (8 ranks) or NVLSTree (64 ranks) from 16MB."
    )
    cells = run(*asked, "--format", "json").json["cells"]
    beaten = [cell for cell in cells if cell["runner_up_s"] < cell["total_s"]]
    assert beaten
    for cell in cells:
        assert cell["fastest_s"] == min(cell["total_s"], cell["runner_up_s"])
        assert (cell["fastest"] == cell["name"]) == (cell not in beaten)
    assert "| runs " in text
    assert "| fastest " in text
    # where nothing is picked the fastest is what a row shows
    assert "| runs " not in run("sweep", "ar", "-f", "star512", "-n", "8,64").out


def test_one_fabric_with_values_is_compared_with_itself_as_it_is(run: Any) -> None:
    """What if the network had half the bandwidth: nobody has to name the fabric twice."""
    out = run("compare", "ar", "-f", "dgx-h100", "-n", "256", "-M", "1G", "--set", HALF).out
    assert "1.95x faster" in " ".join(out.split())
    assert f"| {HALF} |" in " ".join(out.split())


def test_the_same_fabric_twice_differs_in_nothing(run: Any) -> None:
    twice = run("compare", "ar", "-f", "dgx-h100", "-f", "dgx-h100", "--set", HALF)
    assert (twice.code, twice.out) == (2, "")
    assert "set a value of one alone: -f dgx-h100:" in twice.err
