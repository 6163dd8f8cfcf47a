"""Every code has a sentence, every field of it is given, and no sentence is left over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import colltool.training
from colltool.base.statements import sentences, word_table

SENTENCES = sentences("colltool.training")
COSTS = word_table("colltool.training", "sentences.toml")["costs"]
FOLDER = Path(colltool.training.__file__).parent
# codes that are put together from a key of the job
COMPOSED = {
    *(f"hide_{dimension}" for dimension in ("tp", "dp", "pp", "cp", "ep")),
    "larger_buckets",
    "smaller_buckets",
}


def remarks() -> Iterator[tuple[str, set[str | None]]]:
    """Codes and fields of all calls of ``remark`` with a literal code."""
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "remark":
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    yield str(code.value), {keyword.arg for keyword in node.keywords}


def test_fields_are_those_of_the_sentence() -> None:
    for code, fields in remarks():
        named = {name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name}
        assert named == fields, code


def test_no_sentence_is_left_over() -> None:
    paths = [path for path in FOLDER.glob("*.py") if path.name != "sentences.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    for code in SENTENCES.keys() - COMPOSED - COSTS.keys():
        assert f'"{code}"' in text, code


def test_every_warning_has_a_sentence_and_a_cost() -> None:
    warnings = word_table("colltool.training", "sentences.toml")["warnings"]
    assert {f"{code}_costs" for code in (*warnings, "not_counted")} == COSTS.keys()
