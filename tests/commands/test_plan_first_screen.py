"""What ``colltool plan`` says first, of shipped jobs and of two published configs: its premises, in
words that a colleague would repeat, on one screen; and the commands that it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from swept import swept

from colltool.commands.output import ProgressLine
from colltool.training.files.presets import preset_names

CONFIGS = Path(__file__).parents[1] / "data" / "configs"
LLAMA = str(CONFIGS / "llama31-405b.json")
QWEN = str(CONFIGS / "qwen3-235b-a22b.json")
ASKED = {
    "a dense config": (LLAMA, "-f", "dgx-h100", "-n", "1024"),
    "a config with experts": (QWEN, "-f", "dgx-h100", "-n", "64"),
    **{name: (name, "-f", "dgx-h100") for name in preset_names("jobs")},
}
BANNED = (
    r"\ba (rank|host|step|prompt|token|layer|call|stage|day|parameter)\b(?! takes| free)",
    r"\bfrom \S+ on\b",
    r"\bis of\b",
    r"\bgoes with\b",
    r"\bso many\b",
    r"\bbeside\b",
    r"\bnobody\b",
    r"\bleads?\b",
    r"\brealistic\b",
    r"\bideal\b",
    r"\bsoftware\b",
    r"\bown copy\b",
    r"\bfloor\b",
    r"\bheld at\b",
    r"\bcuts?\b",
    r"\bdrafted\b",
    r"\breadings?\b",
    r"\bproved\b",
    r"\bnine (runs )?(in|of) ten\b",
    r"\bjitter\b",
    r"\bbehind\b",
    r"\btake any\b",
)


def said(text: str) -> str:
    """Words on one line, without the frames of tables."""
    return " ".join(re.sub(r"[|+]-*|-{2,}[+|]", " ", text).split())


@pytest.mark.alike(3)
@pytest.mark.parametrize("name", ASKED)
def test_the_first_screen_has_its_premises_and_24_lines(
    run: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run("plan", *ASKED[name])
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    text = said(done.out)
    for words in (
        r"takes [\d.]+ m?s per step \([\d.]+( ms)?-[\d.]+ m?s, 90% interval\)",
        r"Exposed communication is [\d.]+% of it",
        r"sequence \d+, global batch \d+ \([\d.]+M tokens\)",
        r"layout: .*(tp|pp|dp) \d+.*; \w+, recompute \w+, micro-batch \d+",
        r"speed: [\d,.]+ tokens/s, [\d,.]+ per GPU; MFU [\d.]+%",
        r"memory: [\d.]+ GB of [\d.]+ GB per GPU: fits",
        r"Gains most: ",
    ):
        assert re.search(words, text), words
    assumed = "assumed: sequence 8192, global batch 512 (4.2M tokens)" in text
    assert assumed == name.endswith(("config", "experts"))


@pytest.mark.alike(1)
@pytest.mark.parametrize(
    "more",
    [
        ("--target", "step=5%", "--mtbf", "50000h", "--storage", "200GB/s"),
        ("-f", "dgx-b200"),
        ("--search", "--job-set", "batch.global=256"),
    ],
    ids=["target", "compared", "searched"],
)
def test_other_questions_have_24_lines_too(
    run: Any, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("plan", "llama3-70b", "-f", "dgx-h100", "-n", "256", *more).out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


@pytest.mark.alike(3)
@pytest.mark.parametrize("name", ASKED)
def test_everything_is_said_in_words_that_a_colleague_would_repeat(run: Any, name: str) -> None:
    text = said(run("plan", *ASKED[name], "--all").out)
    assert [banned for banned in BANNED if re.search(banned, text, re.IGNORECASE)] == []


@pytest.mark.alike(1)
@pytest.mark.parametrize("name", preset_names("jobs"))
def test_a_job_is_shown_in_such_words_too(run: Any, name: str) -> None:
    text = said(run("job", "show", name, "-n", "2048", "--all").out)
    assert [banned for banned in BANNED if re.search(banned, text, re.IGNORECASE)] == []


def command_below(text: str, title: str) -> list[str]:
    """The arguments of the command that stands below a title."""
    below = text.partition(f"{title}\n")[2].partition("\n\n")[0]
    program, *words = shlex.split(below.replace("\\\n", " "))
    assert program == "colltool"
    return words


@pytest.mark.ci
@pytest.mark.parametrize(
    "asked",
    [
        (LLAMA, "-f", "dgx-h100", "-n", "128", "--job-set", "sequence=4096"),
        pytest.param((QWEN, "-f", "dgx-h100", "-n", "64"), marks=pytest.mark.thorough),
    ],
    ids=["dense", "experts"],
)
def test_a_plan_and_a_search_find_one_layout_and_print_its_command(
    run: Any, asked: tuple[str, ...]
) -> None:
    planned = run("plan", *asked, "--format", "json").json
    searched = run("plan", *asked, "--search", "--format", "json").json
    assert planned["step_s"] == searched["best"]["step_s"]
    assert planned["layout_set"] == searched["best_job_set"]
    of_plan = command_below(run("plan", *asked, "--all").out, "to plan this layout again:")
    of_search = command_below(run("plan", *asked, "--search").out, "full breakdown of this layout:")
    assert of_plan == of_search
    again = run(*of_plan, "--format", "json").json
    assert again["step_s"] == planned["step_s"]
    assert again["memory_bytes"] == planned["memory_bytes"]
    assert "layout_set" not in again, "nothing is left to search"


@pytest.mark.ci
def test_a_sharding_that_a_user_sets_is_kept(run: Any) -> None:
    """It was dropped without a word."""
    asked = ("plan", QWEN, "-f", "dgx-h100", "-n", "64", "--format", "json")
    for mode in ("zero1", "fsdp"):
        found = run(*asked, "--job-set", f"shard.mode={mode}").json
        assert found["shard_mode"] == mode


def test_the_document_has_its_premises(run: Any) -> None:
    found = run("plan", "llama3-70b", "-f", "dgx-h100", "-n", "256", "--format", "json").json
    assert found["global_batch_tokens"] == found["global_batch"] * found["sequence"] == 1024 * 8192
    assert found["tokens_per_s"] == pytest.approx(found["global_batch_tokens"] / found["step_s"])
    assert 0 < found["mfu"] < 1
    assert found["layout"]["tp"] * found["layout"]["pp"] * found["layout"]["dp"] == 256
    assert found["memory_bytes"] < found["capacity_bytes"]


@swept(
    ("args", "says", "fix"),
    [
        (("--keep", "shard=fsdp"), "--keep: acts only with --search", "--job-set shard.mode=fsdp"),
        (("--headroom", "10%"), "--headroom: acts only with --search", "add --search"),
        (
            ("--search", "--links"),
            "--links: shows the links of one layout",
            "that the search prints",
        ),
        (
            ("--job-set", "layout.cp_mode=ulysses"),
            "--job-set layout.cp_mode=ulysses: cp is 1",
            "layout.cp of at least 2",
        ),
        (
            ("--job-set", "layout.deduplicate=true"),
            "--job-set layout.deduplicate=true: ep is 1",
            "layout.ep of at least 2",
        ),
        (("--storage", "1GB/s"), "--storage: acts only with --mtbf 50000h", "add --mtbf 50000h"),
    ],
)
def test_an_option_that_cannot_act_says_why_and_what_to_type(
    run: Any, args: tuple[str, ...], says: str, fix: str
) -> None:
    done = run("plan", "llama3-70b", "-f", "dgx-h100", "-n", "256", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert fix in done.err


def test_a_search_tells_its_progress(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float]] = []

    class Told(ProgressLine):
        def __call__(self, done: int, of: int) -> None:
            told.append((self.what, done / of))

    monkeypatch.setattr("colltool.commands.plan.ProgressLine", Told)
    for args in ((), ("--search",)):
        told.clear()
        assert run("plan", LLAMA, "-f", "dgx-h100", "-n", "128", *args).code == 0
        assert {what for what, _ in told} == {"searching layouts"}
        shares = [share for _, share in told]
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert 0.5 < shares[-1] < 1
