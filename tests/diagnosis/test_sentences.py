"""Every code has its words, every field of a sentence is given where it is used, and none is left
over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import NamedTuple, get_args

import colltool.diagnosis
from colltool.diagnosis.hypotheses import CauseName, check_of
from colltool.diagnosis.sentences import UNITS, sentence, sentences

FOLDER = Path(colltool.diagnosis.__file__).parent
# causes that are found without a price, and said otherwise
UNPRICED = {"collapse", "failed"}
# codes that are made of a word of the model
MADE = {"cause-": set(get_args(CauseName)), "floor-": {"overhead", "latency", "software"}}


class Use(NamedTuple):
    codes: set[str]
    fields: set[str] | None  # None where they are a mapping
    where: str


def uses() -> Iterator[Use]:
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "sentence":
                continue
            named = {part.arg for part in node.keywords}
            texts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            codes = {str(text.value) for text in texts} & sentences().keys()
            fields = None if None in named else {name for name in named if name is not None}
            yield Use(codes, fields, f"{path.name}:{node.lineno}")


def fields_of(code: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentences()[code]) if name}


def test_fields_are_those_of_the_sentence() -> None:
    for use in uses():
        for code in use.codes:
            assert use.fields is None or fields_of(code) <= use.fields, f"{use.where}: {code}"


def test_no_sentence_is_left_over() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    for code in sentences():
        made = any(code.removeprefix(start) in words for start, words in MADE.items())
        assert made or f'"{code}"' in text or f"'{code}'" in text, f"nobody says {code}"


def test_every_cause_has_words_and_a_check() -> None:
    for cause in get_args(CauseName):
        assert cause in UNPRICED or f"cause-{cause}" in sentences(), f"no sentence of {cause}"
        assert check_of(cause), f"checks.toml does not say what reveals {cause}"
        assert check_of(cause, "AMD")
        assert check_of(cause, "")


def test_every_unit_is_known() -> None:
    for code, words in sentences().items():
        for _, name, unit, _ in Formatter().parse(words):
            known = not unit or unit in UNITS or unit[-1] in "fg"
            assert known, f"{code}: {name} has the unit {unit}"


def test_fields_are_shown_in_their_units() -> None:
    said = sentence("dip", title="ar", share=0.5, size=2.0**16, after=2.0**20)
    assert said == "ar: 50% of expected at 64 KiB, as expected from 1 MiB on: the link is fine"
