"""What users read is English: the habits that a colleague would stumble over do not come back.

Read are the help of every command and option, the docstrings of public functions, and the texts of
errors. A habit is a pattern; what a pattern finds by mistake stands in ``FINE``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from swept import swept

import colltool
from colltool.commands.app import COMMANDS
from colltool.commands.arguments import ARGUMENTS
from colltool.estimate.assumptions import DECLARED
from tests.commands.test_declared import every_command

ROOT = Path(colltool.__file__).parent
_PER = "rank|host|prompt|token|layer|node|GPU|port|link|endpoint|message|call|switch|series|size"
_COUNTED = "one|bytes|tokens|seconds|ranks|ports|NICs|rows?|traces?|files?|copies|GPUs|messages|times?|links"
HABITS = {
    "a sentence that begins with Of or By": r"(?:^|[.:;!?] )(?:Of|By) [a-z]",
    "a rank, a host for per": rf"(?:\b(?:{_COUNTED})|\d|/s|\bus|\bms) an? (?:{_PER})\b",
    # not "falls from 2 us on 'leaf' to 1 us"
    "from X on": r"\bfrom [\w.{}]+(?: [kMGT]i?B)? on\b(?! (?:the|a|each|all|its|another|this)\b| ')",
    "is of X": r"\b(?:is|are) of (?:-|an? |the |dispatch|torus|search)",
    "goes with": r"\bgo(?:es)? with\b",
    "beside": r"\bbeside\b",
    "so many": r"\bso many\b",
    "nobody": r"\bnobody\b",
    "jargon": (
        r"\b(?:realistic|own copy|own share|cut bound|lattices?|leads|balance|drafted|rungs?"
        r"|held at|proved|reading|ails?)\b"
    ),
}


def help_texts() -> Iterator[tuple[str, str]]:
    """Every text of help, with where it is."""
    for name, line in COMMANDS.items():
        yield f"colltool {name}", line
    for name, row in ARGUMENTS.items():
        yield f"ARGUMENTS[{name}]", row.help
    for name, declared in DECLARED.items():
        yield f"--{name}", declared.help
    for command in every_command():
        yield f"{command.name} -h", f"{command.help}\n{command.short_help}"
        for option in command.options:
            yield f"{command.name} {option.row.flags or option.name}", option.row.help


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstring of every public function."""
    for name in colltool.__all__:
        public: Any = getattr(colltool, name)
        if inspect.isfunction(public):
            yield f"colltool.{name}", inspect.getdoc(public) or ""


_NAMES = ("what", "fix", "reason", "hint")


def _texts(node: ast.AST) -> str:
    """The literal text of an expression, with ``{}`` for what is put in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _texts(value) if isinstance(value, ast.Constant) else "{}" for value in node.values
        )
    return ""


def error_texts() -> Iterator[tuple[str, str]]:
    """The literal texts of errors: of ColltoolError, and of what is called ``what`` or ``fix``."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found: list[ast.expr] = []
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ColltoolError":
                found = [*node.args, *(keyword.value for keyword in node.keywords)]
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if set(names) & set(_NAMES):
                    found = [node.value]
            for part in found:
                text = _texts(part)
                if text:
                    yield f"{path.relative_to(ROOT)}:{part.lineno}", text


READ = {"help": help_texts, "docstrings": docstrings, "errors": error_texts}


@cache
def read(kind: str) -> tuple[tuple[str, str], ...]:
    """The texts of a kind; all habits are looked for in the same."""
    return tuple(READ[kind]())


@swept("kind", READ)
@swept("habit", HABITS)
def test_what_users_read_is_english(kind: str, habit: str) -> None:
    pattern = re.compile(HABITS[habit])
    found = {}
    for where, text in read(kind):
        plain = " ".join(text.split())
        match = pattern.search(plain)
        if match:
            found[where] = plain[max(0, match.start() - 40) : match.end() + 40]
    assert not found, "\n".join(f"{where}: {text}" for where, text in found.items())


@swept(
    ("habit", "text"),
    [
        ("a sentence that begins with Of or By", "Of dispatch and combine: tokens of a rank."),
        ("a rank, a host for per", "2.4 ms a token"),
        ("a rank, a host for per", "Chakra traces: one a rank."),
        ("from X on", "not from 64MB on"),
        ("is of X", "--shape is of a torus"),
        ("goes with", "--seed goes with --samples"),
    ],
)
def test_each_habit_is_found(habit: str, text: str) -> None:
    assert re.search(HABITS[habit], text)
