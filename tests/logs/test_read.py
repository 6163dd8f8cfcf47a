"""Files, formats and merging; and that nothing but a measurement or a ColltoolError ever comes
out."""

from __future__ import annotations

import itertools
import math
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.base import files as inputs
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive
from colltool.logs.log_file import Log
from colltool.logs.read import FORMATS, read_logs
from colltool.logs.records import Format, ParsedLog, Record, UserHints
from colltool.logs.series import Measurements, series_of

LOGS = Path(__file__).parent / "logs"
ALL = sorted(LOGS.iterdir())
TEXTS = [path.read_text() for path in ALL]


@swept(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\0\1\2", "is binary"),
        (b"\x1f\x8b\x08abc", "is gzipped"),
        (
            b"hello\nworld\n",
            r"a\.log:1: no table of measurements found(.|\n)*nccl-tests(.|\n)*OSU(.|\n)*CSV",
        ),
        (b"\xff\xfe\xfa", "no table"),
    ],
)
def test_no_log(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    with pytest.raises(ColltoolError, match=message):
        read_logs([path])


def test_missing_folders_and_nothing(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="nowhere: cannot be read: No such file"):
        read_logs([tmp_path / "nowhere"])
    with pytest.raises(ColltoolError, match="is a directory, expected a log"):
        read_logs([tmp_path])
    with pytest.raises(ColltoolError, match="is not the name of a file"):
        read_logs(["a\0b"])
    with pytest.raises(ColltoolError, match="no log given"):
        read_logs([])


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inputs.BOUNDS, "log", inputs.BOUNDS["log"]._replace(limit=2**20))
    path = tmp_path / "a.log"
    path.write_bytes(b"a" * (2**20 + 1))
    with pytest.raises(ColltoolError, match="larger than 1 MiB"):
        read_logs([path])


@swept("stated", [{"ranks": 1}, {"nodes": 0}, {"ranks": 2, "nodes": 3}])
def test_impossible_statements(stated: dict[str, int]) -> None:
    with pytest.raises(ColltoolError, match=r"^(ranks|nodes): "):
        read_logs([ALL[0]], **stated)  # type: ignore[arg-type]


def test_every_bad_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ManyErrors) as caught:
        read_logs([tmp_path / "a", ALL[0], tmp_path / "b"], ranks=16)
    assert len(caught.value.problems) >= 2


def test_two_formats_in_one_file_are_both_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text((LOGS / "nccl.log").read_text() + (LOGS / "osu.log").read_text())
    found = read_logs([path], ranks=16)
    assert sorted(series.library for series in found.series) == [
        "MPI",
        "MPI-CUDA",
        "NCCL",
        "NCCL",
        "NCCL",
    ]


def test_a_very_long_line_is_read_quickly(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        (LOGS / "nccl.log").read_text()
        + "# OSU " * 200_000
        + "a:1" * 200_000
        + " 1 2 float" * 100_000
    )
    assert len(read_logs([path]).series) == 3


def sound(found: Measurements) -> bool:
    """What every measurement promises."""
    return all(
        len(series.points) > 0
        and series.ranks >= 2
        and all(
            math.isfinite(p.seconds) and 0 < p.low_s <= p.seconds <= p.high_s and p.bytes >= 1
            for p in series.points
        )
        and all(a.bytes < b.bytes for a, b in itertools.pairwise(series.points))
        for series in found.series
    )


def survives(content: str | bytes, ranks: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        try:
            assert sound(read_logs([path], ranks=ranks))
        except ColltoolError as error:
            problem = str(error)
        else:
            return
        assert str(path) in problem


seeds = st.integers(0, 2**32)
some_ranks = st.sampled_from([None, 4, 8, 16])


@given(st.sampled_from(TEXTS), st.data(), some_ranks)
def test_cut_anywhere(whole: str, data: st.DataObject, ranks: int | None) -> None:
    start = data.draw(st.integers(0, len(whole)))
    survives(whole[start : data.draw(st.integers(start, len(whole)))], ranks)


@given(st.sampled_from(TEXTS), seeds, some_ranks)
def test_lines_lost(whole: str, seed: int, ranks: int | None) -> None:
    chance = random.Random(seed)
    survives(
        "".join(line for line in whole.splitlines(keepends=True) if chance.random() < 0.8), ranks
    )


@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS), seeds, st.booleans())
def test_two_logs_interleaved(one: str, other: str, seed: int, by_line: bool) -> None:
    pieces = [
        (
            text.splitlines(keepends=True)
            if by_line
            else [text[at : at + 37] for at in range(0, len(text), 37)]
        )
        for text in (one, other)
    ]
    chance = random.Random(seed)
    mixed = []
    while any(pieces):
        source = pieces[int(chance.random() < 0.5)]
        if source:
            mixed.append(source.pop(0))
    survives("".join(mixed), None)


@given(st.sampled_from(TEXTS), seeds, some_ranks)
def test_bytes_changed(whole: str, seed: int, ranks: int | None) -> None:
    chance = random.Random(seed)
    content = bytearray(whole.encode())
    for _ in range(20):
        content[chance.randrange(len(content))] = chance.choice(
            b'0 9-.,#:\n\r\teE"{}[]NaA\x1b\xff\xc3'
        )
    survives(bytes(content), ranks)


rows = st.builds(
    Record,
    st.sampled_from(list(Primitive)),
    st.sampled_from([2, 8]),
    st.sampled_from([None, 1]),
    st.sampled_from([8.0, 16.0, 1e6]),
    st.floats(1e-6, 1.0),
    st.sampled_from(["", "half"]),
    st.just("NCCL"),
    st.sampled_from(["", "1", "2"]),
    st.sampled_from(["a", "b"]),
    st.integers(1, 9),
)


@given(
    st.lists(rows, max_size=12).flatmap(
        lambda many: st.tuples(st.just(many), st.permutations(many))
    )
)
def test_the_order_of_rows_does_not_matter(orders: tuple[list[Record], list[Record]]) -> None:
    first, second = (series_of(order) for order in orders)
    assert first == second
    assert sum(point.repeats for series in first for point in series.points) == len(orders[0])
    order = list(Primitive)
    assert [order.index(series.primitive) for series in first] == sorted(
        order.index(series.primitive) for series in first
    )


def test_the_order_of_files_does_not_matter() -> None:
    paths = [
        LOGS / "nccl.log",
        LOGS / "rccl_in_place_only.log",
        LOGS / "report.json",
        LOGS / "plain.csv",
    ]
    assert read_logs(paths) == read_logs(paths[::-1])


@pytest.mark.parametrize(
    ("hints", "message"), [({"ranks": 4}, "ranks: 8"), ({"nodes": 2}, "nodes: 1"), ({}, "")]
)
def test_a_reader_that_heeds_no_hint_is_caught(
    hints: dict[str, int], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new format is a row and a module; that the log and the caller agree is checked for all of
    them."""

    def read(log: Log, _: UserHints) -> ParsedLog:
        one = Record(
            primitive=Primitive.ALL_REDUCE,
            ranks=8,
            nodes=1,
            bytes=1e6,
            seconds=1e-4,
            dtype="",
            library="",
            version="",
            file=log.file,
            line=1,
        )
        return ParsedLog((one,), ())

    monkeypatch.setattr(
        "colltool.logs.read.FORMATS",
        (*FORMATS, Format("@", "@", lambda log: log.content == b"@", read)),
    )
    (tmp_path / "a.log").write_text("@")
    if message:
        with pytest.raises(ColltoolError, match=message):
            read_logs([tmp_path / "a.log"], **hints)  # type: ignore[arg-type]
    else:
        assert read_logs([tmp_path / "a.log"]).series[0].ranks == 8
