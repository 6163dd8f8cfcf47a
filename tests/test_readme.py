"""The README cannot drift: its commands are run, and what it shows is what they print.

In a ```console block a line ``$ colltool ...`` is a command and the lines below it are its output; ``| head -N`` cuts that
to N lines, and a last line ``exit N`` names an exit code other than 0. A ```yaml block right below ``<!-- file: NAME -->`` is
the file NAME, there for all commands.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
AT_LEAST = 5
PROMPT = "$ "


class Shown(NamedTuple):
    """A command as the README shows it: its words, the lines kept, the output and the exit code."""

    line: str
    head: int | None
    output: str
    code: int


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[Shown]:
    found = []
    for block in text.split(f"\n{PROMPT}"):
        line, _, output = block.removeprefix(PROMPT).partition("\n")
        line, _, head = line.partition(" | head -")
        output = output.rstrip("\n")
        code = 0
        if last := re.search(r"(?:^|\n)exit (\d+)$", output):
            code, output = int(last[1]), output[: last.start()]
        found.append(Shown(line.strip(), int(head) if head else None, output.rstrip("\n"), code))
    return found


SHOWN = [shown for block in blocks("console") if block.startswith(f"{PROMPT}colltool") for shown in commands(block)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the files that the README writes; commands run in its order and may build on each other."""
    place = tmp_path_factory.mktemp("readme")
    for name, content in re.findall(r"<!-- file: (\S+) -->\n+```(?:yaml|text)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        assert Path(name).name == name
        (place / name).write_text(content, encoding="utf-8")
    return place


def test_the_reader_of_commands_reads_them() -> None:
    text = "$ colltool a | head -2\none\ntwo\n\n$ colltool b\nerror: x\nexit 2\n$ colltool c\nexit 1\n"
    assert commands(text) == [
        Shown("colltool a", 2, "one\ntwo", 0),
        Shown("colltool b", None, "error: x", 2),
        Shown("colltool c", None, "", 1),
    ]


def test_the_readme_shows_commands() -> None:
    assert len(SHOWN) >= AT_LEAST


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.line)
def test_a_command_prints_what_the_readme_shows(shown: Shown, folder: Path) -> None:
    program, *args = shlex.split(shown.line)
    assert program == "colltool"
    environment = {name: value for name, value in os.environ.items() if name not in ("COLLTOOL_DEBUG", "PYTHONIOENCODING")}
    done = subprocess.run(
        [sys.executable, "-m", "colltool", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
        timeout=60,
        check=False,
    )
    printed = done.stdout.decode().rstrip("\n").splitlines()[: shown.head]
    assert "\n".join(printed).rstrip("\n") == shown.output
    assert done.returncode == shown.code


def test_every_command_is_shown() -> None:
    from colltool.cli.app import COMMANDS

    missing = [name for name in COMMANDS if not re.search(rf"(colltool |`){name}\b", README)]
    assert not missing


def test_the_set_up_is_two_lines() -> None:
    """To install and to test: each a block of its own with a line that can be pasted."""
    assert len(blocks("sh")) >= 2
    for block in blocks("sh")[:2]:
        assert len(block.splitlines()) == 1, block
    before_commands = README.split("```console")[0]
    assert before_commands.count("```sh") >= 2, "at the top, before the first command"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """Word for word: it stands in the script, or the script takes it from the README by a pattern that finds it."""
    tests = [block.strip() for block in blocks("sh") if "pytest" in block]
    assert tests, "the README says how to run the tests"
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pattern = re.search(r"grep -m1 '([^']+)' README\.md", script)
    found = next((line for line in README.splitlines() if pattern and re.search(pattern[1], line)), None)
    assert tests[0] in script or tests[0] == found


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", README):
        assert (ROOT / target).exists(), target
