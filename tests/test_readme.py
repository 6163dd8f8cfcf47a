"""README and the guides cannot drift: ``pytest --update-readme`` writes what their commands print,
all other runs compare it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import documents
import effort
import pytest
from documents import (
    DOCUMENTS,
    GUIDES,
    README,
    ROOT,
    Shown,
    blocks,
    commands,
    refreshed,
    session,
    shown,
)

from colltool.analysis.jobs import step_error
from colltool.estimate.accuracy import CLASSES, DATASHEET
from colltool.training.published import published_error
from tests.commands.conftest import Ran, run

TEXT = README.read_text(encoding="utf-8")
MAX_LINES = 200
PICTURE = ROOT / ".github" / "nvl72.svg"
every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
# what guides print takes seconds each
PRINTED = [
    pytest.param(path, marks=[pytest.mark.ci] * (path != README), id=path.stem)
    for path in DOCUMENTS
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the documents write, and nothing of the environment
    that shows."""
    for name, content in documents.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    for name in ("COLUMNS", "NO_COLOR", "COLLTOOL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", PRINTED)
def test_a_document_shows_what_its_commands_print(
    path: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8")
    updates = request.config.getoption("--update-readme")
    slow = updates or effort.thorough or path == README
    now = session(refreshed(text, run, slow=slow), slow=slow)
    if updates:
        path.write_text(now, encoding="utf-8")
        return
    moved = documents.difference(text, now, path.name)
    assert not moved, f"pytest --update-readme writes this\n{moved}"


@every_document
def test_the_python_of_a_document_runs(path: Path, folder: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8"), "python"):
        exec(compile(block, path.name, "exec"), {})


# Commands that documents show to fail, for what they say then.
FAILS_ON_PURPOSE = {
    "colltool verify --algorithm-file wrong.yaml",
    "colltool report -f mi300x -p ar -o report.xls",
    "colltool fabric check broken.yaml",
    "colltool job check moe.yaml nonsense.yaml",
    "colltool job show moe.yaml -n 128 --set layout.pp=49",
    "colltool plan moe.yaml -f hgx-h200 -n 16 --search --keep ep=1 --keep pp=1 --keep shard=ddp",
    "colltool plan moe.yaml -f hgx-h200 -n 16 --search --keep pp=5",
}


def test_no_document_shows_a_command_that_fails_unless_it_means_to() -> None:
    """``--update-readme`` would write the error of a column that went as if it were an answer."""
    failing = set()
    for path in DOCUMENTS:
        for command in shown(path.read_text(encoding="utf-8")):
            if re.search(r"^exit (2|70)$", command.output, re.MULTILINE):
                failing.add(command.line)
    assert failing == FAILS_ON_PURPOSE


def test_the_reader_of_commands_reads_them() -> None:
    block = (
        "$ colltool a | head -2\none\ntwo\n$ colltool b\nerror: x\nexit 2\n$ colltool c | tail -1\n"
    )
    first, second, third = commands(block)
    assert first == Shown("colltool a | head -2", "one\ntwo")
    assert second == Shown("colltool b", "error: x\nexit 2")
    assert third == Shown("colltool c | tail -1", "")


def test_what_is_shown_is_replaced_by_what_is_printed() -> None:
    printed = {
        "a": Ran(0, "1\n2\n3\n", ""),
        "b": Ran(2, "", "error: x\n"),
        "c": Ran(0, "1\n2\n3\n", ""),
        "d": Ran(0, "", ""),
    }
    old = (
        "text\n\n```console\n$ colltool a | head -2\nold\n$ colltool b\n$ colltool c | tail -1\n$"
        " colltool d\nold\n```\nmore\n"
    )
    new = (
        "$ colltool a | head -2\n1\n2\n$ colltool b\nerror: x\nexit 2\n$ colltool c | tail -1\n3\n$"
        " colltool d\n"
    )
    assert refreshed(old, lambda name: printed[name]) == f"text\n\n```console\n{new}```\nmore\n"
    assert (
        refreshed(refreshed(old, lambda name: printed[name]), lambda name: printed[name]).count(
            "exit 2"
        )
        == 1
    )
    assert "+1" in documents.difference(old, refreshed(old, lambda name: printed[name]), "x")


def test_a_session_goes_on_from_block_to_block() -> None:
    text = (
        "```pycon\n>>> a = 1\nold\n>>> a + 1\n```\n\nand\n\n```pycon\n>>> for at in range(a,"
        " 3):\n...     print(at)\n```\n"
    )
    now = (
        "```pycon\n>>> a = 1\n>>> a + 1\n2\n```\n\nand\n\n```pycon\n>>> for at in range(a, 3):\n..."
        "     print(at)\n1\n2\n```\n"
    )
    assert session(text) == now
    assert session(now) == now
    assert "ZeroDivisionError" in session("```pycon\n>>> 1 / 0\n```\n")


@every_document
def test_a_document_shows_commands(path: Path) -> None:
    assert len(shown(path.read_text(encoding="utf-8"))) >= (8 if path == README else 2)


def test_the_readme_is_no_longer_than_a_person_reads() -> None:
    assert len(TEXT.splitlines()) <= MAX_LINES


def test_the_picture_is_what_the_command_draws(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    assert run("fabric", "draw", "nvl72", "-o", "drawn.svg").code == 0
    if request.config.getoption("--update-readme"):
        PICTURE.write_bytes(Path("drawn.svg").read_bytes())
    assert PICTURE.read_bytes() == Path("drawn.svg").read_bytes()
    assert PICTURE.relative_to(ROOT).as_posix() in TEXT


UNSEEN = ROOT / "tests" / "data" / "unseen.csv"


def numbers_of(line: str) -> list[float]:
    return [
        float(number.replace(",", ""))
        for number in re.findall(r"(?<![\w-])\d[\d,]*\.?\d*(?![\w-])", line)
    ]


def test_the_table_of_errors_is_the_benchmark_s() -> None:
    """``bench_spread.py --write`` leaves every source out, and writes what it finds."""
    table = TEXT[TEXT.index("| measurements | rows |") : TEXT.index("| what else was held")]
    told = [line.split("|")[2:-1] for line in table.splitlines()[2:] if line]
    with UNSEEN.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(told) == len(found) == 10
    for cells, row in zip(told, found, strict=True):
        rows, error, inside, width = (float(cell.strip(" %")) for cell in cells)
        assert rows == float(row["rows"])
        assert (error, inside, width) == (
            pytest.approx(100 * float(row["median_error"]), abs=0.051),
            pytest.approx(100 * float(row["inside"]), abs=0.51),
            pytest.approx(100 * float(row["half_width"]), abs=0.51),
        )


def test_what_the_benchmark_finds_holds_the_bars() -> None:
    """Nine of ten inside, in no class of sizes less than 82%, and intervals that are of use."""
    with UNSEEN.open(encoding="utf-8", newline="") as file:
        found = {row["class"]: row for row in csv.DictReader(file)}
    assert 0.86 <= float(found["all"]["inside"]) <= 0.96
    assert float(found["all"]["half_width"]) <= 0.45
    for name, most in zip(CLASSES, (0.18, 0.14, 0.09, 0.04), strict=True):
        assert float(found[name]["inside"]) >= 0.82
        assert float(found[name]["median_error"]) <= most


def test_the_other_errors_are_those_that_answers_use() -> None:
    table = TEXT[TEXT.index("| what else was held") : TEXT.index("Three measurements of your own")]
    rows = [line.split("|")[1:-1] for line in table.splitlines()[2:] if line]
    errors = [float(error.strip(" %")) for _, _, error in rows]
    assert errors[:2] == [pytest.approx(100 * DATASHEET[at], abs=0.51) for at in (0, -1)]
    assert errors[2] == pytest.approx(100 * step_error(1.0, same_device=False), abs=0.051)
    steps = published_error("all")
    assert steps is not None
    assert numbers_of(rows[2][1]) == [steps.runs]


def test_the_guide_tells_the_errors_of_steps_that_plans_print() -> None:
    text = (ROOT / "colltool" / "guides" / "jobs.md").read_text(encoding="utf-8")
    table = text[text.index("| class | runs |") : text.index("- The control shares")]
    told = [
        [float(one) for one in re.findall(r"(?<![-\d])\d+\.?\d*", row)]
        for row in table.splitlines()[2:]
        if row
    ]
    names = ("megatron", "megatron moe", "megatron-eager moe", "megatron-graphs moe")
    names += ("megatron-2021", "fsdp", "jax", "jax moe", "all", "memory")
    for name, figures in zip(names, told, strict=True):
        one = published_error(name)
        assert one is not None
        known = [one.runs, 100 * one.median, 100 * one.mean, one.low, one.high, 100 * one.control]
        assert figures[-len(known) + (name == "memory") :] == pytest.approx(
            known[: 6 - (name == "memory")], abs=0.06
        )


def test_every_command_is_shown() -> None:
    from colltool.commands.app import COMMANDS

    missing = [name for name in COMMANDS if not re.search(rf"(colltool |`){name}\b", TEXT)]
    assert not missing


def test_the_readme_names_every_guide() -> None:
    missing = [path.stem for path in GUIDES if f"colltool guide {path.stem}" not in TEXT]
    assert not missing


@every_document
def test_a_guide_that_is_named_exists(path: Path) -> None:
    named = set(re.findall(r"colltool guide ([a-z][a-z-]*)", path.read_text(encoding="utf-8")))
    assert named <= {guide.stem for guide in GUIDES} | {"nonsense"}


def test_the_set_up_is_two_lines() -> None:
    """To install and to test: each a block of its own with a line that can be pasted."""
    assert len(blocks(TEXT, "sh")) >= 2
    for block in blocks(TEXT, "sh")[:2]:
        assert len(block.splitlines()) == 1, block
    before_commands = TEXT.split("```console")[0]
    assert before_commands.count("```sh") >= 2, "at the top, before the first command"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """Word for word: it stands in the script, or the script takes it from the README by a pattern
    that finds it."""
    tests = [block.strip() for block in blocks(TEXT, "sh") if "pytest" in block]
    assert tests, "the README says how to run the tests"
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pattern = re.search(r"grep -m1 '([^']+)' README\.md", script)
    found = next(
        (line for line in TEXT.splitlines() if pattern and re.search(pattern[1], line)), None
    )
    assert tests[0] in script or tests[0] == found


@every_document
def test_links_to_files_lead_somewhere(path: Path) -> None:
    for target in re.findall(
        r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text(encoding="utf-8")
    ):
        assert (path.parent / target).exists(), target
