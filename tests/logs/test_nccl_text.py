"""Logs of nccl-tests and rccl-tests: every generation, every launcher, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements

LOGS = Path(__file__).parent / "logs"
FACTOR: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
}
NAMES = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
    "   algbw   busbw  #wrong"
)
SIZES = (16384, 4194304, 67108864)


def took_us(size: int) -> float:
    return 12 + size / 2e5


def half(size: int, us: float, factor: float, wrong: str = "0") -> str:
    return f"  {us:7.2f}  {size / us / 1e3:6.2f}  {size / us / 1e3 * factor:6.2f}  {wrong:>6}"


def row(size: int, ranks: int, *, name: str = "all_reduce", us: float = 0, wrong: str = "0") -> str:
    us, factor = us or took_us(size), FACTOR[name](ranks)
    return (
        f"{size:12d}  {size // 4:12d}     float     sum      -1"
        + half(size, us, factor, wrong)
        + half(size, us + 5, factor)
    )


def rank_lines(ranks: int, groups: int = 1) -> str:
    form = "#  Rank {0:2d} Group {1:2d} Pid {2:6d} on      node{3} device  {4} [0000:1b:00] GPU"
    return "\n".join(form.format(r, r % groups, 70 + r, r // 8, r % 8) for r in range(ranks))


def log(
    *rows: str,
    ranks: int = 8,
    name: str = "all_reduce",
    names: str = NAMES,
    devices: str | None = None,
) -> str:
    rows = rows or tuple(row(size, ranks, name=name) for size in SIZES)
    header = (
        f"# Collective test starting: {name}_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step:"
        " 2(factor)"
    )
    return "\n".join(
        [
            header,
            rank_lines(ranks) if devices is None else devices,
            names,
            *rows,
            "# Avg bus bandwidth    : 1",
            "",
        ]
    )


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Measurements]:
    def reader(text: str | bytes, **stated: object) -> Measurements:
        path = tmp_path / "a.log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_logs([path], **stated)  # type: ignore[arg-type]

    return reader


Reader = Callable[..., Measurements]


def times(found: Measurements) -> list[tuple[float, float]]:
    return [
        (point.bytes, round(point.seconds * 1e6, 3))
        for series in found.series
        for point in series.points
    ]


EXPECTED = [(float(size), round(took_us(size), 2)) for size in SIZES]


def test_a_log_of_several_tests() -> None:
    found = read_logs([LOGS / "nccl.log"])
    assert [series.title for series in found.series] == [
        "all-reduce, 16 ranks on 2 nodes",
        "all-gather, 16 ranks on 2 nodes",
        "broadcast, 16 ranks on 2 nodes",
    ]
    first = found.series[0]
    assert (first.library, first.version, first.dtype) == ("NCCL", "2.29.2", "float")
    assert [point.bytes for point in first.points] == [1024, 16384, 262144, 4194304, 67108864]
    assert first.points[4].seconds == pytest.approx(347.54e-6)
    assert first.points[0].where == f"{LOGS / 'nccl.log'}:26"
    assert not found.skipped


def test_rccl_prints_versions_without_hash_and_the_in_place_half_alone() -> None:
    found = read_logs([LOGS / "rccl_in_place_only.log"])
    (series,) = found.series
    assert (series.library, series.version, series.ranks, series.nodes) == (
        "RCCL",
        "2.27.7-develop:29e1567",
        8,
        1,
    )
    assert len(series.points) == 5
    assert (str(found.skipped[0].reason), found.skipped[0].rows) == (
        "in-place half used: the log has no out-of-place time",
        5,
    )


def test_old_tables_have_other_columns_and_no_name_of_the_test() -> None:
    for named in (None, Primitive.ALL_GATHER):
        (series,) = read_logs([LOGS / "nccl_old.log"], primitive=named).series
        assert (series.primitive, series.ranks, series.nodes, len(series.points)) == (
            Primitive.ALL_GATHER,
            4,
            1,
            5,
        )


@swept(
    "change",
    [
        lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
        lambda text: text.replace("  sum  ", "  sum [1,0]<stdout>: "),
        lambda text: "".join(f"0: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f" node03: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"2024-11-05T12:33:21.123Z {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n ", "\nnode0:70:81 [0] NCCL INFO comm 8 2 float 1 2 3\n "),
        lambda text: text.replace(
            "      -1  ",
            "      -1node0:70:81 [0] NCCL INFO Channel 00/0 : 1 2\nnode0:70:82 [1] NCCL WARN x\n  ",
        ),
        lambda text: text.replace("      -1  ", "      -1NCCL version 2.29.2+cuda13.1\n  "),
        lambda text: (
            "0: "
            + text.replace("\n", "\n0: ").replace(
                "      -1  ", "      -1node0:7:8 [0] NCCL INFO x\n0:   "
            )
        ),
        lambda text: text.replace("redop", "     ").replace("   sum  ", "        "),
        lambda text: text.replace("     sum      -1", "              -1"),
        lambda text: (
            text.replace("    root", "")
            .replace("    redop", "")
            .replace("   redop", "")
            .replace("     sum      -1", "")
        ),
        lambda text: text.replace("#wrong", " error").replace("       0", "   2e-07"),
        lambda text: text.replace("#wrong", "#wrong   i_min   i_max   i_p99   i_cv%").replace(
            "       0", "       0  1.0  2.0  2.0  0.5"
        ),
        lambda text: text.replace("#wrong\n", "#wrong  timestamp\n").replace(
            "       0\n", "       0  2025-10-01 12:33:21\n"
        ),
        lambda text: text.replace("#wrong\n", "#wrong algo proto nchannels\n").replace(
            "       0\n", "       0  RING  LL128  16\n"
        ),
        lambda text: text.replace("       0\n", "     N/A\n"),
        lambda text: text.replace(
            NAMES + "\n",
            NAMES
            + "\n           0             0     float     sum      -1"
            + " 0.1 0 0 0" * 2
            + "\n",
        ),
        lambda text: text.replace(" time ", " cputime "),
        lambda text: "# Using devices\n" + text.encode().decode("utf-8") + "Exited with code 0\n",
    ],
)
def test_what_surrounds_the_numbers_does_not_matter(
    read: Reader, change: Callable[[str], str]
) -> None:
    found = read(change(log()))
    assert times(found) == EXPECTED
    assert (found.series[0].ranks, found.series[0].nodes, found.series[0].primitive) == (
        8,
        1,
        Primitive.ALL_REDUCE,
    )


def test_utf16_of_powershell(read: Reader) -> None:
    assert times(read(log().encode("utf-16"))) == EXPECTED


def test_the_half_that_was_asked_for(read: Reader) -> None:
    assert times(read(log(), in_place=True)) == [(size, round(us + 5, 2)) for size, us in EXPECTED]


def test_a_blank_half_is_the_in_place_one(read: Reader) -> None:
    blank = f"{16384:12d}  {4096:12d}     float     sum      -1" + " " * 32 + half(16384, 20, 1.75)
    found = read(log(blank))
    assert times(found) == [(16384, 20)]
    assert "in-place half used" in str(found.skipped[0].reason)
    assert found.skipped[0].used


def test_large_times_in_exponent_notation(read: Reader) -> None:
    text = log().replace("sum      -1   347.54", "sum      -1  3.5e+02")
    assert times(read(text))[2] == (67108864, 350)


def test_repeated_tables_merge_by_the_median(read: Reader) -> None:
    found = read(
        log(*(row(4194304, 8, us=us) for us in (40, 20, 30)), NAMES, row(4194304, 8, us=90))
    )
    (point,) = found.series[0].points
    assert (round(point.seconds * 1e6, 6), point.repeats) == (35, 4)
    assert (point.low_s, point.high_s) == (20e-6, 90e-6)


def test_several_tests_keep_their_own_ranks(read: Reader) -> None:
    found = read(log() + log(ranks=4))
    assert [(series.ranks, len(series.points)) for series in found.series] == [(4, 3), (8, 3)]


def test_a_failed_first_attempt_is_no_part_of_the_second(read: Reader) -> None:
    failed = (
        "# Collective test starting: broadcast_perf\n# nThread 1 nGpus 1 minBytes 8 \n"
        + rank_lines(4)
        + "\n"
        + NAMES
        + "\n"
    )
    found = read(failed + "node0: Test NCCL failure\n" + log())
    assert times(found) == EXPECTED
    assert [str(skipped.reason) for skipped in found.skipped] == ["a table without rows"]


@swept("ranks", [2, 3, 8, 16, 48])
def test_without_rank_lines_busbw_tells_the_ranks(read: Reader, ranks: int) -> None:
    (series,) = read(log(ranks=ranks, devices="")).series
    assert (series.ranks, series.nodes) == (ranks, None)
    assert read(log(ranks=ranks, devices=""), nodes=2).series[0].nodes == 2


def test_without_rank_lines_a_broadcast_needs_ranks(read: Reader) -> None:
    text = log(name="broadcast", devices="")
    with pytest.raises(ColltoolError, match=r"on how many ranks it ran(.|\n)*ranks=N"):
        read(text)
    assert read(text, ranks=8).series[0].ranks == 8


def test_too_many_ranks_for_the_digits_is_said_with_the_range(read: Reader) -> None:
    with pytest.raises(ColltoolError, match=r"allows \d+ to \d+ ranks(.|\n)*ranks=N"):
        read(log(row(4194304, 1024, us=60), devices="", ranks=1024))


def test_incomplete_rank_lines_are_not_counted(read: Reader) -> None:
    lines = rank_lines(8).splitlines()
    assert read(log(devices="\n".join(lines[:3] + lines[4:]))).series[0].ranks == 8
    cut = log(devices=rank_lines(8)[:-40], name="broadcast")
    with pytest.raises(ColltoolError, match="say how many: ranks=N"):
        read(cut)


def test_the_test_is_named_by_its_command_line(read: Reader) -> None:
    text = "\n".join(log().splitlines()[1:])
    assert (
        read("$ mpirun -n 8 ./build/all_reduce_perf -b 8 -g 1\n" + text).series[0].primitive
        is Primitive.ALL_REDUCE
    )


def test_split_groups_count_one_group_and_say_so(read: Reader) -> None:
    found = read(log(*(row(size, 2) for size in SIZES), devices=rank_lines(8, groups=4)))
    assert (found.series[0].ranks, found.series[0].nodes) == (2, 1)
    assert "4 groups ran this at the same time" in str(found.skipped[0].reason)
    assert found.skipped[0].used


@swept(
    ("bad", "reason"),
    [
        (row(4194304, 8)[:70], "truncated"),
        (row(4194304, 8)[:110], "truncated"),
        (row(4194304, 8, wrong="3"), "wrong"),
        (row(4194304, 8).replace("  32.97", "    nan"), "finite"),
        (row(4194304, 8).replace("  32.97", "    inf"), "finite"),
        (row(4194304, 8).replace("  32.97", "  -1.00"), "negative"),
        (row(4194304, 8).replace("  32.97", "   0.00"), "zero"),
        (row(4194304, 8).replace("4194304 ", "41x4304 "), "garbled"),
        (row(4194304, 8) + " " + row(4194304, 8), "more values"),
        (row(4194304, 16), "do not fit the rank count"),
    ],
)
def test_a_bad_row_is_skipped_and_a_table_of_bad_rows_refused(
    read: Reader, bad: str, reason: str
) -> None:
    found = read(log(row(16384, 8), bad, row(67108864, 8)))
    assert times(found) == [EXPECTED[0], EXPECTED[2]]
    (skipped,) = found.skipped
    assert reason in str(skipped.reason)
    assert (skipped.rows, skipped.used) == (1, False)
    assert skipped.where.endswith("a.log:13")
    with pytest.raises(ColltoolError, match=r"a\.log:12: "):
        read(log(bad))


def test_rows_that_contradict_their_time_are_used_and_named(read: Reader) -> None:
    found = read(log(row(4194304, 8).replace("  32.97", "  65.94"), row(67108864, 8)))
    assert times(found)[0] == (4194304, 65.94)
    assert "size/algbw says otherwise" in str(found.skipped[0].reason)
    assert found.skipped[0].used


def test_cputime_of_the_launch_is_not_the_time(read: Reader) -> None:
    text = (
        log().replace(" time ", " cputime ").replace("sum      -1    32.97", "sum      -1     4.00")
    )
    found = read(text)
    assert dict(times(found))[4194304] == pytest.approx(32.97, rel=1e-3)
    assert any("cputime" in str(skipped.reason) and skipped.used for skipped in found.skipped)


@swept(
    ("text", "stated", "message"),
    [
        (
            log(devices=rank_lines(4)),
            {},
            r"a\.log:10: busbw/algbw says 8 ranks, the Rank lines list 4",
        ),
        (log(), {"ranks": 4}, "says ranks: 8, ranks says 4"),
        (log(devices=""), {"ranks": 4}, "says 8 ranks, ranks is 4"),
        (log(), {"primitive": Primitive.BROADCAST}, "is all_reduce, primitive says broadcast"),
        (log(), {"nodes": 3}, "nodes: 1, nodes says 3"),
        (
            log(*(row(size, n) for n in (8, 16) for size in SIZES)),
            {},
            "busbw/algbw says 16 ranks, the Rank lines list 8",
        ),
        (
            log(*(row(size, n) for n in (8, 16) for size in SIZES), devices=""),
            {},
            "the other rows say",
        ),
        (
            log().replace("all_reduce_perf", "hypercube_perf"),
            {},
            "'hypercube_perf' is not one of the seven",
        ),
        (
            log(devices="\n".join(rank_lines(1).replace("70", f"{pid}") for pid in (70, 71))),
            {},
            r"listed twice(.|\n)*MPI=1",
        ),
        (
            log(devices=rank_lines(1), ranks=2),
            {},
            "busbw/algbw says 2 ranks, the Rank lines list 1",
        ),
        (log(devices=rank_lines(5, groups=2)), {}, "groups of different sizes"),
        (
            log(
                names="#   bytes   N   type   op   time  algbw  busbw  res  time  algbw  busbw  res"
            ),
            {},
            "in ms",
        ),
        (log(names=NAMES + "\n#  (B)  (elements)  (ms)  (GB/s)"), {}, "times in ms"),
        (
            "\n".join(line for line in log().splitlines() if line[:1] != "#"),
            {},
            "without a header line that names the columns",
        ),
        ("# nThread 1 nGpus 8 minBytes 8 maxBytes 8 \n" + rank_lines(8), {}, "without rows"),
        (log(row(16384, 8)[:60]), {}, "no row of this table can be used; the first: truncated"),
    ],
)
def test_refused(read: Reader, text: str, stated: dict[str, object], message: str) -> None:
    with pytest.raises(ColltoolError, match=message):
        read(text, **stated)


def nameless(name: str, **how: object) -> str:
    return "\n".join(log(name=name, **how).splitlines()[1:])  # type: ignore[arg-type]


AR, AG, BC = Primitive.ALL_REDUCE, Primitive.ALL_GATHER, Primitive.BROADCAST
ONE_SHARE = "all-gather or reduce-scatter or all-to-all"
WHOLE = "broadcast or reduce or p2p"


@swept(
    ("name", "stated", "how", "message"),
    [
        (
            "all_reduce",
            {"primitive": AG},
            {},
            "is 1.75: that is all-reduce on 8 ranks, not all-gather",
        ),
        (
            "all_reduce",
            {"primitive": AG},
            {"devices": ""},
            "is 1.75: that is all-reduce on 8 ranks, not all-gather",
        ),
        (
            "all_reduce",
            {"primitive": AG, "ranks": 4},
            {"devices": ""},
            "is 1.75: that is all-reduce on 8 ranks, not all-gather",
        ),
        (
            "all_reduce",
            {"primitive": BC},
            {},
            "is 1.75: that is all-reduce on 8 ranks, not broadcast",
        ),
        (
            "all_gather",
            {"primitive": AR},
            {},
            f"is 0.875: that is {ONE_SHARE} on 8 ranks, not all-reduce",
        ),
        (
            "all_gather",
            {"primitive": AR},
            {"devices": ""},
            f"is 0.875: that is {ONE_SHARE} on 8 ranks, not all-reduce",
        ),
        ("broadcast", {"primitive": AR}, {}, f"is 1: that is {WHOLE} on 8 ranks, not all-reduce"),
        ("broadcast", {"primitive": AG}, {}, f"is 1: that is {WHOLE} on 8 ranks, not all-gather"),
        # Not of another collective: the rank count is wrong.
        ("all_gather", {"primitive": AG, "ranks": 4}, {"devices": ""}, "says 8 ranks, ranks is 4"),
        (
            "all_reduce",
            {"primitive": AR},
            {"devices": rank_lines(4)},
            "says 8 ranks, the Rank lines list 4",
        ),
    ],
)
def test_numbers_of_another_collective_than_the_stated_one(
    read: Reader, name: str, stated: dict[str, object], how: dict[str, str], message: str
) -> None:
    with pytest.raises(ColltoolError, match=f"busbw/algbw {message}"):
        read(nameless(name, **how), **stated)


def test_the_stated_collective_is_taken_where_the_numbers_allow_it(read: Reader) -> None:
    for name, primitive in (
        ("all_reduce", AR),
        ("all_gather", AG),
        ("all_gather", Primitive.ALL_TO_ALL),
        ("broadcast", BC),
    ):
        (series,) = read(nameless(name), primitive=primitive).series
        assert (series.primitive, series.ranks, len(series.points)) == (primitive, 8, 3)


def test_one_garbled_row_hides_neither_the_stated_collective_nor_another(read: Reader) -> None:
    text = nameless("all_reduce").replace("127.21  222.62", "127.21  111.32")
    assert "111.32" in text
    with pytest.raises(ColltoolError, match="that is all-reduce on 8 ranks, not broadcast"):
        read(text, primitive=BC)
    assert len(read(text, primitive=AR).series[0].points) == 2
