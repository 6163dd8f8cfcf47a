"""The JSON of nccl-tests, OSU micro-benchmarks, and CSV written by people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from swept import swept

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements

LOGS = Path(__file__).parent / "logs"
CSV = "collective,ranks,bytes,time_us\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Measurements]:
    def reader(text: str, **stated: object) -> Measurements:
        path = tmp_path / "a.txt"
        path.write_text(text, encoding="utf-8")
        return read_logs([path], **stated)  # type: ignore[arg-type]

    return reader


Reader = Callable[..., Measurements]


def report(**changes: object) -> str:
    document = json.loads((LOGS / "report.json").read_text())
    return json.dumps(document | changes)


def results(**changes: object) -> str:
    document = json.loads((LOGS / "report.json").read_text())
    document["results"][2]["out_of_place"] |= changes
    return json.dumps(document)


def test_json_counts_every_gpu_of_a_process_and_falls_back_where_a_half_is_null() -> None:
    found = read_logs([LOGS / "report.json"])
    (series,) = found.series
    assert (series.title, series.version) == ("reduce-scatter, 8 ranks on 2 nodes", "2.29.2")
    assert [round(point.seconds * 1e6, 4) for point in series.points[:2]] == [13.0051, 12.0819]
    assert (found.skipped[0].rows, found.skipped[0].where) == (
        1,
        f"{LOGS / 'report.json'}:1: results[0]",
    )
    assert found.skipped[0].used


def test_json_that_was_indented_keeps_its_lines(read: Reader) -> None:
    found = read(json.dumps(json.loads((LOGS / "report.json").read_text()), indent=1))
    places = [int(point.where.split(":")[-2]) for point in found.series[0].points]
    assert places == sorted(set(places))
    assert places[0] > 50


def test_one_garbled_result_of_a_single_line_is_dropped_alone(read: Reader) -> None:
    text = results(bus_bw=30.0)
    assert "\n" not in text
    found = read(text)
    assert [point.bytes for point in found.series[0].points] == [1024, 16384, 4194304, 67108864]
    (garbled,) = (skipped for skipped in found.skipped if not skipped.used)
    assert (garbled.rows, garbled.where.rpartition("/")[2]) == (1, "a.txt:1: results[2]")
    assert str(garbled.reason) == "busbw and algbw do not fit the rank count: garbled"


@swept(
    ("text", "reason"),
    [
        (results(time="nan"), "not a finite number"),
        (results(time=0), "zero or negative"),
        (results(nwrong=3.0), "wrong"),
        (results(time=None), "not a finite number"),
    ],
)
def test_a_bad_json_result_is_skipped(read: Reader, text: str, reason: str) -> None:
    found = read(text)
    assert len(found.series[0].points) == 4
    assert any(reason in str(skipped.reason) for skipped in found.skipped)


@swept(
    ("text", "message"),
    [
        (report()[:-60], r"a\.txt:1: is not a complete JSON document"),
        (report(results=[]), "without 'results'"),
        (report(results=[{"size": 8}, 3]), r"a\.txt:1: results\[0\]: .*the first: no time"),
        (report(args=["scatter_perf"]), "'scatter_perf' is not one of the seven"),
        ("{" * 100000, "is not a complete JSON document"),
        ('{"results": ' + "[" * 100000, "nested too deeply"),
        ('{"a": 1}', "without 'results'"),
    ],
)
def test_json_refused(read: Reader, text: str, message: str) -> None:
    with pytest.raises(ColltoolError, match=message):
        read(text)


def test_json_without_devices_follows_busbw(read: Reader) -> None:
    (series,) = read(report(config={})).series
    assert (series.ranks, series.nodes) == (8, None)


def test_osu_sizes_become_ours_where_they_are_one_ranks_share() -> None:
    found = read_logs([LOGS / "osu.log"], ranks=4, nodes=2)
    gather, scatter = found.series
    assert (gather.title, gather.library, gather.version, gather.dtype) == (
        "all-gather, 4 ranks on 2 nodes",
        "MPI-CUDA",
        "OSU 7.4",
        "MPI_CHAR",
    )
    assert [(point.bytes, round(point.seconds * 1e6, 3)) for point in gather.points] == [
        (4096, 12.10),
        (65536, 13.64),
        (1048576, 38.21),
    ]
    assert [point.bytes for point in scatter.points] == [4, 4096]


def test_osu_needs_ranks() -> None:
    with pytest.raises(
        ColltoolError, match=r"osu\.log:1: an OSU log does not say on how many ranks(.|\n)*ranks=N"
    ):
        read_logs([LOGS / "osu.log"])


@swept(
    ("title", "primitive", "library", "times"),
    [
        ("MPI Allreduce Latency Test v5.3", Primitive.ALL_REDUCE, "MPI", 1),
        ("NCCL-CUDA Allreduce Latency Test v7.5", Primitive.ALL_REDUCE, "NCCL", 1),
        (
            "MPI-CUDA All-to-All Personalized Exchange Latency Test v7.5",
            Primitive.ALL_TO_ALL,
            "MPI-CUDA",
            8,
        ),
        ("MPI Broadcast Latency Test v7.1", Primitive.BROADCAST, "MPI", 1),
        ("MPI Reduce Latency Test", Primitive.REDUCE, "MPI", 1),
    ],
)
def test_osu_titles(
    read: Reader, title: str, primitive: Primitive, library: str, times: int
) -> None:
    for names in (
        "# Size       Avg Latency(us)",
        "# Size          Latency (us)",
        "# Size Avg Latency(us)",
    ):
        (series,) = read(
            f"srun: job 1\n# OSU {title}\n{names}\n1024      20.5\n0     3.0\n", ranks=8
        ).series
        assert (series.primitive, series.library) == (primitive, library)
        assert [(point.bytes, point.seconds) for point in series.points] == [
            (1024 * times, 20.5e-6)
        ]


def test_osu_point_to_point_is_between_two(read: Reader) -> None:
    text = "# OSU MPI Latency Test v5.6.3\n# Size          Latency (us)\n8      1.5\n"
    assert read(text).series[0].ranks == 2
    with pytest.raises(ColltoolError, match="ranks says 8"):
        read(text, ranks=8)


def test_osu_takes_the_average_by_name(read: Reader) -> None:
    names = "# Size  Min Latency(us)   Avg Latency(us)  Validation"
    text = (
        f"# OSU MPI Allreduce Latency Test v7.5\n{names}\n64  1.0  2.0  Pass\n8  1.0  2.0  Fail\n"
    )
    found = read(text, ranks=2)
    assert [(point.bytes, point.seconds) for point in found.series[0].points] == [(64, 2e-6)]
    assert "validation failed" in str(found.skipped[0].reason)


@swept(
    ("text", "message"),
    [
        (
            "# OSU MPI Gather Latency Test v5.3\n# Size  Avg Latency(us)\n8  1.0\n",
            "'OSU Gather Latency Test' is not the latency of",
        ),
        (
            "# OSU MPI Barrier Latency Test v5.3\n# Avg Latency(us)\n 3.21\n",
            "'OSU Barrier Latency Test' is not the latency of",
        ),
        (
            "# OSU MPI Bandwidth Test v5.3\n# Size  Bandwidth (MB/s)\n8  1.0\n",
            "without usable rows",
        ),
        ("# OSU MPI Allreduce Latency Test v5.3\n8  1.0\n", "without its column names"),
        ("# OSU MPI Allreduce Latency Test v5.3\n# Size  Avg Latency(us)\n", "without rows"),
        (
            "# OSU MPI Allreduce Latency Test v5.3\n# Size  Avg Latency(us)\n8\n",
            r"a\.txt:3: .*truncated",
        ),
        (
            "# OSU MPI Allreduce Latency Test v5.3\n# Size  Avg Latency(us)\n8 nan\n",
            r"a\.txt:3: .*not a finite number",
        ),
    ],
)
def test_osu_refused(read: Reader, text: str, message: str) -> None:
    with pytest.raises(ColltoolError, match=message):
        read(text, ranks=4)


def test_csv_of_people() -> None:
    reduce, to_all = read_logs([LOGS / "plain.csv"]).series
    assert (reduce.title, reduce.dtype, to_all.title) == (
        "all-reduce, 8 ranks on 1 node",
        "half",
        "all-to-all, 16 ranks on 2 nodes",
    )
    assert [
        (point.bytes, round(point.seconds * 1e6, 6), point.repeats) for point in reduce.points
    ] == [
        (1048576, 25, 2),
        (16e6, 120.5, 1),
    ]


@swept(
    ("header", "row"),
    [
        ("primitive;n;size;seconds", "ar;8;1MiB;2e-05"),
        ("Time (ms)\tBytes\tRanks\tCollective\tnote", "0.02\t1048576\t8\tAllReduce\tslow"),
        ("\ufeffcollective, ranks, bytes, latency_us", "all-reduce, 8.0, 1.048576MB, 20"),
        ("# a comment\n\nall,collective,ranks,bytes,time_ns", ",all_reduce_perf,8,1048576,20000"),
        ("collective,ranks,bytes,time_us,algbw,busbw", "all_reduce,8,1048576,20,52.4,91.7"),
    ],
)
def test_csv_headers(read: Reader, header: str, row: str) -> None:
    (series,) = read(f"{header}\n{row}\n").series
    assert (series.primitive, series.ranks) == (Primitive.ALL_REDUCE, 8)
    assert series.points[0].bytes == pytest.approx(1048576)
    assert series.points[0].seconds == pytest.approx(20e-6)


def test_csv_takes_from_the_caller_what_it_has_no_column_for(read: Reader) -> None:
    text = "bytes,time_us\n1024,5\n0,1\n"
    found = read(text, ranks=4, primitive=Primitive.BROADCAST)
    assert found.series[0].title == "broadcast, 4 ranks"
    assert str(found.skipped[0].reason).startswith("size 0")
    with pytest.raises(ColltoolError, match=r"no column 'collective'(.|\n)*whole file: primitive;"):
        read(text, ranks=4)
    with pytest.raises(ColltoolError, match=r"no column 'ranks'(.|\n)*whole file: ranks;"):
        read(text, primitive=Primitive.BROADCAST)


def test_csv_reports_every_mistake_at_once_and_its_rows_by_number(read: Reader) -> None:
    with pytest.raises(ManyErrors) as caught:
        read(CSV + "all_reduce,8,1024,-1\nall_reduce,8,1024,5\nall_reduce,8,fast,5\n")
    assert [problem.where[-7:] for problem in caught.value.problems] == ["a.txt:2", "a.txt:4"]
    with pytest.raises(ManyErrors, match="and 5 more mistakes"):
        read(
            CSV + "".join(f"all_reduce,8,1024,{letter}\n" for letter in "abcdefghijklmnopqrstuvwxy")
        )


@swept(
    ("row", "stated", "message"),
    [
        (
            "all_gather,8,{0}4,5",
            {"primitive": Primitive.ALL_REDUCE},
            "is all_gather, primitive says all_reduce",
        ),
        ("all_gather,8,{0}4,5", {"ranks": 4}, "ranks: 8, ranks says 4"),
        ("all_gather,{0},1024,5", {"ranks": 4}, "ranks: 10, ranks says 4"),
        ("all_gather,8,1024,-{0}.5", {}, "'-10.5' is not a time"),
    ],
)
def test_csv_with_one_mistake_in_every_row_says_it_once(
    read: Reader, row: str, stated: dict[str, object], message: str
) -> None:
    with pytest.raises(ColltoolError) as caught:
        read(CSV + "".join(row.format(number) + "\n" for number in range(10, 199)), **stated)
    assert not isinstance(caught.value, ManyErrors)
    assert caught.value.where.endswith("a.txt:2")
    assert message in str(caught.value)
    assert caught.value.what.endswith(" (and 188 more rows)")


def test_csv_counts_each_mistake_and_keeps_words_apart(read: Reader) -> None:
    with pytest.raises(ManyErrors) as caught:
        read(CSV + "gather,8,1024,5\nar,8,1024,1.5.5\ngather,8,1024,5\nscan,8,1024,5\n")
    assert [problem.what for problem in caught.value.problems] == [
        "unknown primitive 'gather' (and 1 more row)",
        "'1.5.5' is not a time",
        "unknown primitive 'scan'",
    ]


@swept(
    ("row", "fix"),
    [
        ("ar;8;1024;1,5", "decimal comma: write 1.5"),
        ("ar;8;1,5MiB;20", "decimal comma: write 1.5MiB"),
        ("ar;8;1024;1,5e2", "decimal comma: write 1.5e2"),
        ("ar;8;1,024;20", "decimal comma: write 1.024, or 1024 if the comma separates thousands"),
    ],
)
def test_csv_says_what_to_write_for_a_decimal_comma(read: Reader, row: str, fix: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        read(f"{CSV.replace(',', ';')}{row}\n")
    assert caught.value.fix == fix


def test_csv_names_the_library(read: Reader) -> None:
    header = "collective,ranks,bytes,time_us,library\n"
    found = read(
        header
        + "ar,8,1024,5,nccl\nar,8,2048,6,NCCL\nar,8,1024,9,Mpi\nar,8,1024,7,\nar,8,1024,8,RCCL\n"
    )
    assert [(series.library, len(series.points)) for series in found.series] == [
        ("", 1),
        ("MPI", 1),
        ("NCCL", 2),
        ("RCCL", 1),
    ]
    with pytest.raises(
        ColltoolError, match=r"a\.txt:2: 'gloo' is not a known library\n  known: NCCL, RCCL, MPI"
    ):
        read(header + "ar,8,1024,5,gloo\n")


@swept(
    ("text", "message"),
    [
        (CSV, "no rows below the header"),
        (CSV + "all_reduce,8,1024\n", r"a\.txt:2: 3 cells under 4 columns"),
        (CSV + "all_reduce,8,1024,5,6\n", "5 cells under 4 columns"),
        (CSV + "all_reduce,8,1024,nan\n", "'nan' is not a time"),
        (CSV + "all_reduce,8,1024,1e999\n", "is not a time"),
        (CSV + "all_reduce,8,1024,0\n", "'0' is not a time"),
        (CSV + "all_reduce,8,1k,5\n", "is not a unit of size"),
        (CSV + "all_reduce,8.5,1024,5\n", "'8.5' is not a number of ranks"),
        (CSV + "all_reduce,1,1024,5\n", "'1' is not a number of ranks"),
        (CSV + "all_reduce,,1024,5\n", "no number of ranks"),
        (CSV + "gather,8,1024,5\n", r"a\.txt:2: unknown primitive 'gather'"),
        (CSV + 'all_reduce,8,"1024,5\n', "is not valid CSV"),
        ("collective,ranks,bytes,time\nall_reduce,8,1024,5\n", r"a\.txt:1: 'time' has no unit"),
        ("collective,ranks,bytes,time_us,time_ms\nall_reduce,8,1024,5,1\n", "several times"),
        ("collective,ranks,bytes\nall_reduce,8,1024\n", "no column of times"),
        ("collective,ranks,time_us\nall_reduce,8,1024\n", "no column 'bytes'"),
        (
            "collective,ranks,size,bytes,time_us\nall_reduce,8,1024,1,1\n",
            "2 columns could be the size",
        ),
        ("collective,ranks,nodes,bytes,time_us\nall_reduce,8,9,1024,1\n", "9 nodes for 8 ranks"),
        (
            "hardware,collective,ranks,bytes,time_us\na,ar,8,1024,1\nb,ar,8,1024,1\n",
            r"a\.txt:3: hardware changes(.|\n)*split",
        ),
    ],
)
def test_csv_refused(read: Reader, text: str, message: str) -> None:
    with pytest.raises(ColltoolError, match=message):
        read(text)


def test_csv_that_contradicts_the_caller(read: Reader) -> None:
    with pytest.raises(ColltoolError, match="ranks: 8, ranks says 4"):
        read(CSV + "all_reduce,8,1024,5\n", ranks=4)


def test_a_sentence_is_no_dtype(read: Reader) -> None:
    found = read(
        "collective,ranks,bytes,time_us,dtype\nar,8,1024,5,from the slides\nar,8,2048,6,from the"
        " paper\n"
    )
    assert len(found.series) == 1
    assert (found.skipped[0].rows, found.skipped[0].used) == (2, True)
