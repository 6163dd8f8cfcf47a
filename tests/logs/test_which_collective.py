"""Which collective a table measures, where nothing names it: by nccl-tests' own columns, and rows
that people pasted."""

from __future__ import annotations

from pathlib import Path

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, busbw_factor
from colltool.logs.read import read_logs

HEAD = """#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
# of each test of nccl-tests: whether count is a rank's part, redop, root, the in-place half's #wrong
PRINTS = {
    AR: (False, "sum", -1, "0"),
    AG: (True, "none", -1, "0"),
    RS: (True, "sum", -1, "0"),
    A2A: (True, "none", -1, "N/A"),
    BC: (False, "none", 0, "0"),
    REDUCE: (False, "sum", 0, "0"),
    P2P: (False, "none", -1, "N/A"),
}


def table(primitive: Primitive, ranks: int, name: str = "") -> str:
    """What its test prints at 10 us + size / 100 GB/s."""
    parts, redop, root, wrong = PRINTS[primitive]
    lines = []
    for power in range(10, 31, 2):
        size = 2**power // (4 * ranks) * 4 * ranks
        seconds = 10e-6 + size / 100e9
        algbw = size / seconds / 1e9
        half = f"{1e6 * seconds:.1f} {algbw:.2f} {algbw * busbw_factor(primitive, ranks):.2f}"
        lines.append(
            f"{size:12} {size // 4 // (ranks if parts else 1):12} float {redop} {root} {half} 0"
            f" {half} {wrong}\n"
        )
    devices = "".join(
        f"#  Rank {rank:2} Group  0 Pid {100 + rank} on node0 device {rank} [0x07] NVIDIA H100\n"
        for rank in range(ranks)
    )
    return f"{name}# nThread 1 nGpus {ranks} minBytes 8\n{devices}{HEAD}{''.join(lines)}"


@swept("ranks", [2, 8])
@swept("primitive", list(PRINTS))
def test_a_table_says_what_it_measures(tmp_path: Path, primitive: Primitive, ranks: int) -> None:
    (tmp_path / "a.log").write_text(table(primitive, ranks))
    (series,) = read_logs([tmp_path / "a.log"]).series
    assert (series.primitive, series.ranks) == (primitive, ranks)


@pytest.mark.parametrize(
    "line", ["mpirun -np 8 ./all_reduce_perf_mpi -b 8 -e 8G\n", "$ ./build/all_reduce_perf -g 8\n"]
)
def test_a_command_line_names_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.log").write_text(table(AR, 8, line))
    assert read_logs([tmp_path / "a.log"]).series[0].primitive is AR


def test_old_tables_without_redop_and_root(tmp_path: Path) -> None:
    """As nccl-tests 2.8 printed all-gathers."""
    text = table(AG, 4).replace("redop    root", "").replace(" none -1 ", " ")
    (tmp_path / "a.log").write_text(text)
    assert read_logs([tmp_path / "a.log"]).series[0].primitive is AG


def test_a_gather_is_none_of_the_seven(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(table(AG, 4).replace(" none -1 ", " none 0 "))
    with pytest.raises(ColltoolError, match="does not say which collective"):
        read_logs([tmp_path / "a.log"])


def test_a_launcher_tags_the_pieces_of_a_row(tmp_path: Path) -> None:
    """As in github.com/NVIDIA/nccl/issues/1453: [0] before the size, behind the root and between
    the halves."""
    rows = "\n".join(
        (
            f"[0] {line}".replace(" -1 ", " -1[0] ").replace(" 0 ", " 0[0] ", 1)
            if line.strip()[:1].isdigit()
            else line
        )
        for line in table(AR, 8).splitlines()
    )
    assert " -1[0] " in rows
    (tmp_path / "a.log").write_text(rows + "\n")
    (series,) = read_logs([tmp_path / "a.log"]).series
    assert (series.primitive, len(series.points)) == (AR, 11)
