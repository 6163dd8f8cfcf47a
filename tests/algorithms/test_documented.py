"""What a formula says of itself: a number that is run, the paper it comes from, and an ``explain``
without the tests."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

from swept import swept

import colltool
from colltool.algorithms import registry
from colltool.algorithms.composed import Composition, every_composition
from colltool.algorithms.registry import Algorithm, on_request, usual_algorithms
from colltool.base.primitives import totals
from colltool.estimate.explain import explain

PACKAGE = Path(colltool.__file__).parent
ROWS: list[Algorithm | Composition] = [*usual_algorithms(), *every_composition(), *on_request()]
NAMES = {
    name: text for name, text in vars(registry).items() if name.isupper() and isinstance(text, str)
}
SOURCES = sorted(PACKAGE.rglob("*.py"))
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
WITH_EXAMPLES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in SOURCES
    if EXAMPLE.search(path.read_text(encoding="utf-8"))
]


def doc_of(row: Algorithm | Composition) -> str:
    return inspect.getdoc(row.steps if isinstance(row, Composition) else row.formula) or ""


@swept("module", WITH_EXAMPLES)
def test_the_examples_of_a_module_hold(module: str) -> None:
    loaded = import_module(module)
    failed, tried = doctest.testmod(loaded, extraglobs={"totals": totals})
    written = len(EXAMPLE.findall(inspect.getsource(loaded)))
    assert tried == written, "an example that doctest does not find"
    assert not failed


def test_no_example_was_wrapped_into_a_sentence() -> None:
    """Doctest runs only what begins a line: an example behind words on its line is never run."""
    shown = [text for path in SOURCES if ">>>" in (text := path.read_text(encoding="utf-8"))]
    for source in shown:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                assert text.count(">>>") == len(EXAMPLE.findall(text)), text


@swept("row", ROWS)
def test_a_formula_has_an_example_with_a_number(row: Algorithm | Composition) -> None:
    (example,) = (
        paragraph for paragraph in doc_of(row).split("\n\n") if paragraph.startswith(">>>")
    )
    results = [line for line in example.split("\n") if not line.startswith(">>>")]
    assert results
    assert all(re.search(r"\d", line) for line in results)


@swept("row", ROWS)
def test_a_row_has_a_source(row: Algorithm | Composition) -> None:
    """A paper of the list, a vendor's announcement, or in plain words that it is ours."""
    cited = any(text in row.source for text in NAMES.values())
    assert cited or re.match(
        r"baseline of ours: |.*\(colltool verify\)|Broadcom Tomahawk Ultra: ", row.source
    ), row.source


@swept("name", NAMES)
def test_a_reference_is_whole_and_used(name: str) -> None:
    text = NAMES[name]
    assert re.match(r"[A-Z][^\"]+, \"[^\"]+\", ", text), "authors and title"
    assert re.search(r"\b(19|20)\d\d\b", text), "a year"
    assert re.search(r"doi:10\.\d{4,}/\S+$|arXiv:\d{4}\.\d{5}$|\d+-\d+$|\.com/\S+$", text), (
        "where to find it"
    )
    assert any(text in row.source for row in ROWS)


@swept("row", ROWS)
def test_explain_leaves_the_example_out(row: Algorithm | Composition) -> None:
    (entry,) = explain(row.name, row.primitive).entries
    assert entry.formula
    assert ">>>" not in "\n".join([entry.title, *entry.formula, entry.text])
