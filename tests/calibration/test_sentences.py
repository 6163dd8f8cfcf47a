"""Every sentence of a calibration is used, with the fields that it names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from swept import swept

import colltool.calibration
from colltool.calibration.sentences import FitFinding, fit_sentences

FOLDER = Path(colltool.calibration.__file__).parent


def codes_in_code() -> Iterator[str]:
    """Every text of the room's modules but the table itself, those made of parts as patterns."""
    for path in FOLDER.glob("*.py"):
        if path.name == "sentences.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_no_sentence_is_left_over() -> None:
    texts = set(codes_in_code())
    for code in fit_sentences():
        assert code in texts or code.removeprefix("tied_") in texts, f"nothing finds {code}"


def test_words_are_the_sentence_with_its_fields() -> None:
    found = FitFinding("outlier", {"first": "8 KiB", "ratio": 3.04})
    assert found.words == "outlier at 8 KiB: 3x as slow as the rest predicts"
    assert "{name: nccl" in FitFinding("unknown_protocols").words


@swept("code", fit_sentences())
def test_a_field_that_is_missing_is_an_error(code: str) -> None:
    fields = [name for _, name, _, _ in Formatter().parse(fit_sentences()[code]) if name]
    if fields:
        with pytest.raises(KeyError):
            _ = FitFinding(code).words
