"""Ladders: the rungs and their gaps, the shipped one, and what is refused where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from swept import swept

import colltool
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive
from colltool.fabric.ladder import LADDER_SIZES, LadderDefinition, load_ladder, read_ladder
from colltool.render.data_formats import to_json
from colltool.render.dispatch import document

SHIPPED = Path(__file__).parents[2] / "fabrics"

FILE = """\
schema: colltool.ladder-file/1
name: mine
description: two rungs and one
size: 1MB
rungs:
  - {primitive: ar, fabric: star512, algorithm: ring}
  - {primitive: ar, fabric: torus512, algorithm: dim-ring}
  - {primitive: bc, fabric: star512, ranks: 64}
"""


def read(text: str) -> LadderDefinition:
    return read_ladder(text, "mine.yaml", SHIPPED)


def test_the_shipped_ladder_has_every_primitive() -> None:
    ladder = colltool.ladder()
    assert (ladder.name, ladder.bytes) == ("n512", 16e6)
    assert {rung.primitive for rung in ladder.rows} == set(Primitive)
    assert {rung.ranks for rung in ladder.rows} == {512}
    definition = load_ladder()
    assert [(r.primitive, r.fabric, r.algorithm) for r in ladder.rows] == [
        (r.primitive, r.fabric.name, r.algorithm) for r in definition.rungs
    ]


def test_every_rung_is_the_price_of_its_algorithm() -> None:
    for rung in colltool.ladder().rows:
        for mode, row in (("ideal", rung.ideal), ("realistic", rung.realistic)):
            (price,) = colltool.price(
                rung.fabric,
                rung.primitive,
                size=16e6,
                algorithms=rung.algorithm,
                ideal=mode == "ideal",
            ).results
            assert row == price


def test_gaps_are_to_the_fastest_rung_of_the_same_primitive() -> None:
    rows = colltool.ladder().rows
    for primitive in Primitive:
        mine = [rung for rung in rows if rung.primitive is primitive]
        ideal, real = (
            min(float(getattr(rung, mode).total_s) for rung in mine)
            for mode in ("ideal", "realistic")
        )
        for rung in mine:
            assert rung.gap_ideal == pytest.approx(rung.ideal.total_s / ideal)
            assert rung.gap_realistic == pytest.approx(rung.realistic.total_s / real)
        assert (
            min(rung.gap_ideal for rung in mine) == min(rung.gap_realistic for rung in mine) == 1.0
        )


def test_contention_compresses_the_margin_of_the_switch() -> None:
    """Published: ideal 18.8 against 57 us, realistic 35 against 84."""
    by_name = {
        (rung.primitive, rung.fabric, rung.algorithm): rung for rung in colltool.ladder().rows
    }
    torus = by_name[Primitive.ALL_REDUCE, "torus512", "dim-ring"]
    assert torus.gap_ideal == pytest.approx(57 / 18.8, rel=0.02)
    assert torus.gap_realistic == pytest.approx(84 / 35, rel=0.02)


def test_a_rung_without_an_algorithm_takes_the_fastest_that_exists() -> None:
    ladder = colltool.ladder(read(FILE))
    best = colltool.price("star512", "bc", size=1e6, ranks=64).best
    rung = ladder.rows[2]
    assert (rung.algorithm, rung.ranks, rung.realistic) == (best.title, 64, best)
    assert [rung.gap_ideal for rung in ladder.rows][2] == 1.0


@swept(
    "model",
    [{}, {"phases": "pipelined"}, {"order": "outer-first"}, {"placement": "scattered"}],
    most=2,
)
@swept("primitive", ["ar", "rs", "bc", "a2a"])
def test_one_schedule_serves_both_columns(primitive: str, model: dict[str, Any]) -> None:
    """The fastest in reality is priced ideally too, whatever is fastest without contention."""
    for size in ("1KB", "16MB"):
        text = (
            f"name: mine\nsize: {size}\nrungs: [{{primitive: {primitive}, fabric: nvl72, ranks:"
            " 288}]\n"
        )
        (rung,) = colltool.ladder(read(text), **model).rows
        assert rung.ideal.title == rung.realistic.title
        best = colltool.price("nvl72", primitive, size=size, ranks=288, **model).fastest
        assert (rung.realistic.spec, rung.realistic.total_s) == (best.spec, best.total_s)


def test_a_fixed_composition_is_a_rung_too() -> None:
    text = FILE.replace(
        "star512, algorithm: ring", "nvl72, ranks: 144, algorithm: 'hierarchical:ring/ring'"
    )
    assert colltool.ladder(read(text)).rows[0].algorithm == "hierarchical (ring / ring)"


def test_a_ladder_from_a_file_with_a_fabric_beside_it(tmp_path: Path) -> None:
    tier = {"name": "t", "topology": "star", "size": 4, "alpha": "1us", "bandwidth": "100GB/s"}
    (tmp_path / "own.yaml").write_text(
        yaml.safe_dump({"schema": "colltool.fabric/1", "name": "own", "tiers": [tier]})
    )
    path = tmp_path / "ladder.yaml"
    path.write_text(
        "name: x\nsize: 1MB\nrungs: [{primitive: ar, fabric: own.yaml, algorithm: ring}]\n"
    )
    (rung,) = colltool.ladder(path).rows
    assert rung.ideal.total_s == pytest.approx(6e-6 + 1.5e-5)


REFUSED = [
    (FILE.replace("size: 1MB", "size: 1Mb"), "mine.yaml:4:7", "size"),
    (FILE.replace("size: 1MB\n", ""), "mine.yaml:1:1", "key 'size' is missing"),
    (
        FILE.replace("primitive: bc", "primitive: broad"),
        "mine.yaml:8:17",
        "unknown primitive 'broad'",
    ),
    (
        FILE.replace("algorithm: ring", "algorithm: 7"),
        "mine.yaml:6:49",
        "expected an algorithm, such as ring, got 7",
    ),
    (
        FILE.replace("ranks: 64", "ranks: many"),
        "mine.yaml:8:45",
        "expected a whole number from 1 to 10000000, got 'many'",
    ),
    (FILE.replace("ranks: 64", "ranks: true"), "mine.yaml:8:45", "expected a whole number"),
    (FILE.replace("fabric: torus512", "fabric: torus51"), "mine.yaml:7:29", "torus51"),
    (FILE.replace("ranks: 64", "rank: 64"), "mine.yaml:8:38", "unknown key"),
    (FILE.replace("description:", "descripton:"), "mine.yaml:3:1", "did you mean 'description'"),
    (
        FILE.replace("ladder-file/1", "ladder-file/9"),
        "mine.yaml:1:9",
        "expected colltool.ladder-file/1",
    ),
    (FILE.partition("rungs:")[0] + "rungs: []\n", "mine.yaml:5:8", "expected a list of 1 to"),
    (FILE.partition("rungs:")[0] + "rungs: 3\n", "mine.yaml:5:8", "expected a list of 1 to"),
    (FILE + "  - ring\n", "mine.yaml:9:5", "expected a rung, such as"),
    (
        FILE.replace("{primitive: ar, fabric: star512, algorithm: ring}", "{fabric: star512}"),
        "mine.yaml:6:5",
        "'primitive' is missing",
    ),
]


@swept(("text", "where", "what"), REFUSED)
def test_errors_name_the_place(text: str, where: str, what: str) -> None:
    with pytest.raises(ManyErrors) as refused:
        read(text)
    (problem,) = refused.value.problems
    assert what in str(problem)
    assert problem.where.startswith(where)


def test_rungs_that_cannot_be_priced_name_their_lines() -> None:
    text = FILE.replace("ranks: 64", "ranks: 1000").replace(
        "algorithm: dim-ring", "algorithm: pairwise"
    )
    with pytest.raises(ManyErrors) as refused:
        colltool.ladder(read(text))
    assert [problem.where for problem in refused.value.problems] == [
        "mine.yaml:7:5: rungs.1",
        "mine.yaml:8:5: rungs.2",
    ]
    assert "1000" in refused.value.problems[1].what


def test_a_rung_made_in_python_has_no_line() -> None:
    ladder = read(FILE.replace("ranks: 64", "ranks: 1000"))
    with pytest.raises(ColltoolError, match="1000"):
        colltool.ladder(
            ladder._replace(rungs=tuple(rung._replace(where="") for rung in ladder.rungs))
        )


def test_all_errors_are_reported_at_once() -> None:
    text = (
        FILE.replace("1MB", "1Mb")
        .replace("bc,", "bcast2,")
        .replace("algorithm: ring", "algorithms: ring")
    )
    with pytest.raises(ManyErrors) as refused:
        read(text)
    assert len(refused.value.problems) == 3


@swept("text", ["", "- 1", "rungs: [", "a: &x 1\nb: *x", "name: a\nname: b"])
def test_not_a_ladder_at_all(text: str) -> None:
    with pytest.raises(ColltoolError):
        read(text)


@swept("name", ["n51", "n512.yml", "/nowhere/ladder.yaml"])
def test_no_such_ladder(name: str) -> None:
    with pytest.raises(ColltoolError, match="ladder"):
        load_ladder(name)


@swept(
    "change",
    [
        ("algorithm: ring", "algorithm: rnig"),
        ("algorithm: dim-ring", "algorithm: ring-dim"),
        ("ranks: 64", "ranks: 1024"),
        ("algorithm: ring", "algorithm: dim-ring"),
    ],
)
def test_a_rung_that_cannot_be_priced(change: tuple[str, str]) -> None:
    with pytest.raises(ColltoolError):
        colltool.ladder(read(FILE.replace(*change)))


def as_document(ladder: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(to_json(document(ladder)))
    return made


def test_a_ladder_is_held_to_an_earlier_one_by_identity() -> None:
    """What ``--check`` does: the same rungs have not moved; a slower fabric has; a rung more or
    less is told."""
    old = as_document(colltool.ladder(read(FILE)))
    assert not colltool.diff(old, as_document(colltool.ladder(read(FILE)))).moved
    larger = as_document(colltool.ladder(read(FILE.replace("1MB", "1.001MB"))))
    moved = colltool.diff(old, larger, rtol=1e-6)
    assert any(change.where.startswith("rows[all_reduce star512 ring") for change in moved.changed)
    assert {change.where for change in colltool.diff(old, larger, rtol=1e-4).changed} > {"bytes"}
    assert not colltool.diff(old, larger, rtol=0.01).moved
    fewer = FILE.replace("  - {primitive: ar, fabric: torus512, algorithm: dim-ring}\n", "")
    lost = colltool.diff(old, as_document(colltool.ladder(read(fewer))))
    assert len(lost.removed) == 1
    assert "torus512" in lost.removed[0]
    assert colltool.diff(as_document(colltool.ladder(read(fewer))), old).added == lost.removed


def test_the_order_of_rungs_does_not_matter_to_a_check() -> None:
    lines = FILE.splitlines(keepends=True)
    turned = "".join(lines[:5] + lines[:4:-1])
    assert not colltool.diff(
        as_document(colltool.ladder(read(FILE))), as_document(colltool.ladder(read(turned)))
    ).moved


def test_what_one_port_rules_out_is_left_out() -> None:
    """Both directions of a chain at once need two ports; the rungs that stay have the prices of one
    port."""
    one, every = colltool.ladder(ports="one"), colltool.ladder()
    assert len(one.rows) + len(one.skipped) == len(every.rows)
    assert {skipped.algorithm for skipped in one.skipped} == {
        "broadcast by dim-chain-bidirectional on torus512",
        "reduce by dim-chain-bidirectional on torus512",
    }
    for rung in one.rows:
        priced = colltool.price(
            rung.fabric, rung.primitive, size=16e6, algorithms=rung.realistic.spec, ports="one"
        ).best
        assert rung.realistic.total_s == priced.total_s


def test_a_rung_that_never_runs_is_still_an_error() -> None:
    rungs = [{"primitive": "ar", "fabric": "star512", "algorithm": "multi-ring"}]
    with pytest.raises(ColltoolError, match="multi-ring cannot run here"):
        colltool.ladder(load_ladder({"name": "odd", "size": "1MB", "rungs": rungs}), ports="one")


def test_a_fabric_file_is_a_ladder_of_every_collective_on_it(tmp_path: Path) -> None:
    """A change that moves prices is seen by ``--check``, one that moves none is not."""
    path = tmp_path / "cluster.yaml"
    text = "like: dgx-h100\nname: cluster\n"
    path.write_text("schema: colltool.fabric/2\n" + text, encoding="utf-8")
    before = colltool.ladder(path)
    assert len(before.rows) == len(Primitive) * len(LADDER_SIZES)
    assert {rung.fabric for rung in before.rows} == {"cluster"}
    first = before.rows[0].realistic
    priced = colltool.price(path, before.rows[0].primitive, size=float(first.bytes))
    assert float(first.total_s) == min(float(row.total_s) for row in priced.runnable)
    path.write_text(
        path.read_text(encoding="utf-8").replace("name", "launch_overhead: 500us\nname"),
        encoding="utf-8",
    )
    after = colltool.ladder(path)
    moved = [
        now.realistic.total_s != then.realistic.total_s
        for now, then in zip(after.rows, before.rows, strict=True)
    ]
    assert any(moved)
