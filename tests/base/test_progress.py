"""Progress: followed to whoever watches, in order, of nested work the outermost; and the same
result whether followed or not."""

from __future__ import annotations

import pytest

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.result import progress_to, with_progress


class Heard(list[tuple[int, int]]):
    def __call__(self, done: int, of: int) -> None:
        self.append((done, of))


def test_nobody_watches() -> None:
    assert list(with_progress(range(3))) == [0, 1, 2]


def test_the_outermost_of_several_is_told() -> None:
    with progress_to(heard := Heard()):
        assert [
            (a, b, c)
            for a in with_progress([1])
            for b in with_progress("xy")
            for c in with_progress(range(3))
        ][-1] == (1, "y", 2)
        assert heard == [(0, 2), (1, 2)]
        assert list(with_progress("ab")) == ["a", "b"]
    assert heard == [(0, 2), (1, 2)] * 2
    list(with_progress("ab"))
    assert len(heard) == 4


def test_work_that_is_given_up_is_told_again() -> None:
    with progress_to(heard := Heard()):
        for _ in with_progress("abc"):
            break
        del _
        list(with_progress("ab"))
    assert heard == [(0, 3), (0, 2), (1, 2)]


def test_a_sweep_of_shapes_tells_of_each_and_loads_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from colltool.commands import several_fabrics as columns

    loads: list[object] = []
    load = columns.load_fabric
    monkeypatch.setattr(
        columns, "load_fabric", lambda *args, **named: loads.append(args) or load(*args, **named)
    )
    shapes = "torus.shape=4x4x4,4x4x8,4x8x8,8x8x8"
    with progress_to(heard := Heard()):
        swept = colltool.sweep("torus512", "ar", sizes=["1MB"], vary=shapes)
    assert heard == [(done, 4) for done in range(4)] * 2  # loaded, then priced
    assert len([one for one in loads if "torus.shape" in str(one)]) == 4
    alone = [
        colltool.sweep(
            "torus512", "ar", sizes=["1MB"], overrides=[f"torus.shape=[{shape.replace('x', ',')}]"]
        ).cells[0]
        for shape in shapes.partition("=")[2].split(",")
    ]
    assert [cell.total_s for cell in swept.cells] == [cell.total_s for cell in alone]


def test_columns_are_bounded_and_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from colltool.commands import several_fabrics as columns

    with pytest.raises(ColltoolError, match="9600 columns, more than 1000"):
        colltool.compare(
            "star512",
            "ar",
            sizes=["1MB"],
            vary=["star.alpha=1us:9us:96", "star.bandwidth=1GB/s:9GB/s:100"],
        )
    loads: list[object] = []
    load = columns.load_fabric
    monkeypatch.setattr(
        columns, "load_fabric", lambda *args, **named: loads.append(args) or load(*args, **named)
    )
    compared = colltool.compare(
        "star512", "ar", sizes=["1MB", "1GB"], vary="star.alpha=1us,2us,3us"
    )
    assert len([one for one in loads if "star.alpha" in str(one)]) == 3
    assert [cell.total_s for cell in compared.lines[0].cells] == [
        colltool.sweep("star512", "ar", sizes=["1MB"], overrides=[f"star.alpha={alpha}us"])
        .cells[0]
        .total_s
        for alpha in (1, 2, 3)
    ]
