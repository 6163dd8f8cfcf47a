"""``export table``: laws beside the prices that they stand for, in Python, JSON and C."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from swept import swept

import colltool
from colltool.analysis.laws import FROM_BYTES, TO_BYTES, WITHIN, Law, law_table, usual_counts
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive, parse_primitive
from colltool.render.schemas import document_schema
from colltool.render.views.law_table import table_header
from tests.commands.conftest import run

GCC = shutil.which("gcc")
CASES = {
    "dgx-h100": ("ar", (8, 64)),
    "gh200": ("ag", (4, 32)),
    "mi300x": ("rs", (8,)),
    "tpu-v4-512": ("a2a", (64,)),
    "clos-4to1": ("bc", (16,)),
}


def some_sizes(count: int, seed: int = 5) -> list[int]:
    """Sizes spread evenly over the octaves of a table, with both ends."""
    chance = random.Random(seed)
    found = [FROM_BYTES, TO_BYTES]
    while len(found) < count:
        found.append(int(2 ** chance.uniform(3, 34)))
    return found


def priced(fabric: str, law: Law, size: int) -> float:
    return float(colltool.price(fabric, law.primitive, size=size, ranks=law.ranks).best.total_s)


@pytest.mark.alike(2)
@pytest.mark.parametrize("name", CASES)
def test_a_law_is_within_its_promise_of_the_price_everywhere(name: str) -> None:
    primitive, counts = CASES[name]
    table = law_table(colltool.load_fabric(name), [parse_primitive(primitive)], counts)
    assert [law.ranks for law in table.laws] == list(counts)
    for law in table.laws:
        assert law.worst <= WITHIN
        for size in some_sizes(200):
            assert law.seconds(size) == pytest.approx(priced(name, law, size), rel=WITHIN)


def test_a_law_has_the_jump_where_nccl_changes_its_choice() -> None:
    """Just below and from the byte on at which the library picks another algorithm."""
    table = law_table(colltool.load_fabric("dgx-h100"), [Primitive("all_reduce")], [64])
    law = table.laws[0]
    jumps = []
    for before, piece in zip(law.pieces, law.pieces[1:], strict=False):
        if piece.from_bytes - before.from_bytes == 1:
            jumps.append(piece.from_bytes)
    for size in jumps:
        for near in (size - 1, size):
            assert law.seconds(near) == pytest.approx(priced("dgx-h100", law, near), rel=1e-6)


def test_pieces_are_few_and_ascend() -> None:
    table = law_table(colltool.load_fabric("dgx-h100"), [Primitive("all_reduce")], [8, 256])
    for law in table.laws:
        starts = [piece.from_bytes for piece in law.pieces]
        assert starts[0] == FROM_BYTES
        assert starts == sorted(set(starts))
        assert len(starts) < 60


def test_usual_counts_are_doublings_and_everything() -> None:
    assert usual_counts(colltool.load_fabric("dgx-h100")) == [2, 4, 8, 16, 32, 64, 128, 256]
    assert usual_counts(colltool.load_fabric("nvl72"))[:8] == [2, 4, 8, 16, 32, 64, 72, 144]


def test_what_cannot_be_priced_is_named() -> None:
    table = law_table(colltool.load_fabric("dgx-h100"), [Primitive("all_reduce")], [8, 12])
    assert [law.ranks for law in table.laws] == [8]
    assert [left_out.ranks for left_out in table.not_covered] == [12]
    assert "half full" in table.not_covered[0].reason
    assert "Not here: all_reduce on 12 ranks" in table_header(table)
    with pytest.raises(ColltoolError, match="no collective can be priced"):
        law_table(colltool.load_fabric("dgx-h100"), [Primitive("all_reduce")], [12])


PROGRAM = """
#include "table.h"
#include <stdio.h>
#include <time.h>
int main(void) {
  const double sizes[] = {%s};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    printf("%%.17g\\n", colltool_seconds(COLLTOOL_ALL_REDUCE, 64, sizes[i]));
  printf("%%g %%g %%g %%g\\n", colltool_seconds(COLLTOOL_ALL_REDUCE, 65, 1e6),
         colltool_seconds(COLLTOOL_ALL_REDUCE, 64, 7.0), colltool_seconds(COLLTOOL_ALL_REDUCE, 64, 1e12),
         colltool_seconds(COLLTOOL_ALL_REDUCE, 64, 0.0 / 0.0));
  double sum = 0;
  clock_t start = clock();
  for (int i = 0; i < 1000000; i++) sum += colltool_seconds(COLLTOOL_ALL_GATHER, 64, 8.0 + i * 1000.0);
  double took = (double)(clock() - start) / CLOCKS_PER_SEC;
  printf("%%g %%g\\n", took / 1000000, sum);
  return 0;
}
"""


@pytest.mark.ci
@pytest.mark.skipif(GCC is None, reason="no gcc")
def test_the_header_compiles_and_gives_the_price(tmp_path: Path) -> None:
    path = tmp_path / "table.h"
    line = ("export", "table", "-f", "dgx-h100", "-n", "8,64", "--primitive", "ar,ag")
    assert run(*line, "-o", str(path)).code == 0
    sizes = some_sizes(60)
    listed = ", ".join(f"{size}.0" for size in sizes)
    (tmp_path / "main.c").write_text(PROGRAM % listed, encoding="utf-8")
    build = [str(GCC), "-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "main.c", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    *seconds, outside, took = done.stdout.splitlines()
    for size, found in zip(sizes, seconds, strict=True):
        law = Law(Primitive("all_reduce"), 64, 8, (), 0.0)
        assert float(found) == pytest.approx(priced("dgx-h100", law, size), rel=WITHIN)
    assert outside.split() == ["-1"] * 4
    # a microsecond or so; a slow, busy machine has ten times that
    assert float(took.split()[0]) < 1e-5


def test_json_has_the_same_laws_and_keeps_its_schema() -> None:
    line = ("export", "table", "-f", "mi300x", "-n", "8", "--primitive", "ar")
    told: dict[str, Any] = json.loads(run(*line).out)
    jsonschema.validate(told, document_schema("table"))
    table = law_table(colltool.load_fabric("mi300x"), [Primitive("all_reduce")], [8])
    pieces = told["laws"][0]["pieces"]
    assert [piece["a_s"] for piece in pieces] == [piece.a_s for piece in table.laws[0].pieces]
    assert told["within"] == WITHIN
    assert run("schema", "table").code == 0


REFUSED = {
    "-n 12": "error: --ranks: no collective can be priced",
    "-n 8 --primitive ring": "unknown primitive 'ring'",
    "-n 8 --format yaml": "--format",
}


@swept("words", REFUSED)
def test_what_is_refused(words: str) -> None:
    done = run("export", "table", "-f", "dgx-h100", *words.split())
    assert done.code == 2
    assert REFUSED[words] in done.err


def test_a_table_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from colltool.commands import export

    monkeypatch.setattr(export, "MOST_TABLE", 1000)
    done = run("export", "table", "-f", "dgx-h100", "-n", "8", "--primitive", "ar")
    assert done.code == 2
    assert "more than 1,000" in done.err
