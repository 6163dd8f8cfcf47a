"""README and the guides as programs: their commands are run, and what they show is what the
commands print.

In a console block a line ``$ colltool ...`` is a command and the lines below it are its output;
``| head -N`` and ``| tail -N`` cut that to N lines, and a last line ``exit N`` names an exit code
other than 0. A block right below ``<!-- file: NAME -->`` is the file NAME, there for the commands
of all documents. Python blocks are run too, and pycon blocks as a session that goes on from one to
the next: ``>>>`` and ``...`` are typed, the lines below are what is printed.
"""

from __future__ import annotations

import difflib
import re
import shlex
from code import InteractiveConsole
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from doctest import DocTestParser
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUIDES = sorted((ROOT / "colltool" / "guides").glob("*.md"))
DOCUMENTS = [README, *GUIDES]
PROMPT = "$ "
_CUT = re.compile(r"^(?P<words>.*?)(?: \| (?P<end>head|tail) -(?P<lines>\d+))?$")


class Shown(NamedTuple):
    """A command as a document shows it: the line behind the prompt, and what stands below it."""

    line: str
    output: str

    def printed(self, run: Callable[..., Any]) -> str:
        """What belongs below it now."""
        cut = _CUT.match(self.line)
        assert cut
        program, *args = shlex.split(cut["words"])
        assert program == "colltool", self.line
        done = run(*args)
        lines = (done.out + done.err).rstrip("\n").splitlines()
        if cut["lines"]:
            lines = (
                lines[: int(cut["lines"])] if cut["end"] == "head" else lines[-int(cut["lines"]) :]
            )
        return "\n".join([*lines, *([f"exit {done.code}"] if done.code else [])]).rstrip("\n")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[Shown]:
    """The commands of a console block, each with what is shown below it."""
    found = []
    for part in block.removeprefix(PROMPT).split(f"\n{PROMPT}"):
        line, _, output = part.partition("\n")
        found.append(Shown(line.strip(), output.rstrip("\n")))
    return found


def shown(text: str) -> list[Shown]:
    return [command for block in blocks(text, "console") for command in commands(block)]


def takes_seconds(line: str) -> bool:
    """Whether a command prices hundreds of steps, or every size of a sample."""
    return any(
        f" {word} " in line for word in ("report", "sensitivity", "--search", "--target")
    ) or (" plan " in line and " --vary " in line)


def refreshed(text: str, run: Callable[..., Any], *, slow: bool = True) -> str:
    """The document with what its commands print now; they run in its order, in the current
    directory.

    Not ``slow``: those that take seconds are left as they stand.
    """

    def block(match: re.Match[str]) -> str:
        lines = []
        for command in commands(match[1]):
            output = (
                command.printed(run) if slow or not takes_seconds(command.line) else command.output
            )
            lines += [f"{PROMPT}{command.line}", *([output] if output else [])]
        return "\n".join(["```console", *lines, "```"])

    return re.sub(r"^```console\n(.*?)^```$", block, text, flags=re.MULTILINE | re.DOTALL)


def session(text: str, *, slow: bool = True) -> str:
    """The document with what its
    ```pycon blocks print now, one session from top to bottom; a report's ``page`` if ``slow``."""
    console = InteractiveConsole()

    def block(match: re.Match[str]) -> str:
        lines = []
        for example in DocTestParser().get_examples(match[1]):
            typed = example.source.rstrip("\n").split("\n")
            lines += [
                f"{'>>>' if at == 0 else '...'} {line}".rstrip() for at, line in enumerate(typed)
            ]
            if not slow and "page" in example.source:
                lines += example.want.splitlines()
                continue
            with redirect_stdout(StringIO()) as printed, redirect_stderr(printed):
                console.runsource(example.source, symbol="single")
            lines += printed.getvalue().rstrip("\n").splitlines()
        return "\n".join(["```pycon", *lines, "```"])

    return re.sub(r"^```pycon\n(.*?)^```$", block, text, flags=re.MULTILINE | re.DOTALL)


def files() -> dict[str, str]:
    """The files that documents write, by name; one that is shown twice is the same twice."""
    found: dict[str, str] = {}
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for name, content in re.findall(
            r"<!-- file: (\S+) -->\n+```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        ):
            assert Path(name).name == name
            assert found.setdefault(name, content) == content, f"{name} is shown twice and differs"
    return found


def difference(old: str, new: str, name: str) -> str:
    """What to look at, or nothing."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), name, "what the commands print now", lineterm=""
    )
    return "\n".join(lines)
