"""Every code has its words, every field of a sentence is given where it is used, and none is left
over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import NamedTuple, get_args

import pytest

import colltool
from colltool.base.statements import NOTHING, UNITS, sentences
from colltool.diagnosis.hypotheses import STATED, CauseName, check_of
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.topology import KINDS_BY_PART, LEAD_CODES

PACKAGES = ("colltool.diagnosis", "colltool.logs")
# causes that are found without a price, and have a statement of their own
UNPRICED = {"collapse", "failed"}
# what else than a cause of slowness a finding of a log may be called
STATED_NAMES = {"failed", "wrong-values", "cause", "setting", "warning", "topology"}
PARTS = set(KINDS_BY_PART)
KINDS = {"gdr", "slots-unknown", "flat", "one-cpu", "setting"}.union(*KINDS_BY_PART.values())
LEADS = {*LEAD_CODES.values(), "both", "way", "none"}
# codes that are made of a word of the model
MADE = {
    "cause-": set(get_args(CauseName)),
    "name-": {*get_args(CauseName), *STATED_NAMES},
    "stated-": STATED,
    "floor-": {"overhead", "latency", "software"},
    "damage-": KINDS,
    "do-": KINDS,
    "lead-": LEADS,
    "some-": PARTS,
    "several-": PARTS,
    "all-": PARTS,
}


class Use(NamedTuple):
    codes: set[str]
    fields: set[str] | None  # None where they are a mapping
    where: str


def folder(package: str) -> Path:
    return Path(colltool.__file__).parent / package.removeprefix("colltool.")


def uses(package: str) -> Iterator[Use]:
    for path in sorted(folder(package).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "statement":
                continue
            named = {part.arg for part in node.keywords}
            texts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            codes = {str(text.value) for text in texts} & sentences(package).keys()
            fields = None if None in named else {name for name in named if name is not None}
            yield Use(codes, fields, f"{path.name}:{node.lineno}")


def fields_of(words: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(words) if name}


@pytest.mark.parametrize("package", PACKAGES)
def test_fields_are_those_of_the_sentence(package: str) -> None:
    for use in uses(package):
        for code in use.codes:
            words = sentences(package)[code]
            assert use.fields is None or fields_of(words) <= use.fields, f"{use.where}: {code}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_sentence_is_left_over(package: str) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in folder(package).glob("*.py"))
    for code in sentences(package):
        made = any(code.removeprefix(start) in words for start, words in MADE.items())
        assert made or f'"{code}"' in text, f"nothing says {code}"


def test_every_cause_has_words_and_a_check() -> None:
    for cause in get_args(CauseName):
        known = f"cause-{cause}" in sentences("colltool.diagnosis")
        assert cause in UNPRICED or known, f"no sentence of {cause}"
        assert check_of(cause), f"checks.toml does not say what reveals {cause}"
        assert check_of(cause, "AMD")
        assert check_of(cause, "")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_unit_is_known(package: str) -> None:
    for code, words in sentences(package).items():
        for _, name, unit, _ in Formatter().parse(words):
            known = not unit or unit in UNITS or unit[-1] in "fg"
            assert known, f"{code}: {name} has the unit {unit}"


def test_fields_are_shown_in_their_units() -> None:
    dip = statement("dip", title="ar", share=0.5, size=2.0**16, after=2.0**20)
    assert str(dip) == "ar: 50% of expected at 64 KiB, full speed above 1 MiB, so the link is fine"


def test_statements_are_fields_of_others() -> None:
    near = (statement("time-at-size", seconds=1e-6, size=64.0), "nothing")
    point = statement("time-at-size", seconds=2e-6, size=128.0)
    said = statement("out-of-line", point=point, neighbours=near)
    assert str(said) == ("one size is out of line: 2 us at 128 B, next to 1 us at 64 B and nothing")


def test_nothing_is_false_and_empty() -> None:
    assert (bool(NOTHING), str(NOTHING)) == (False, "")
    assert statement("trust")
