"""Traces that cost or say more than they can: impossible times, groups of a million, a value
without end, other encodings."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from swept import swept
from tracing import call, kernel, step, text, write

import colltool
from colltool.base.errors import ColltoolError
from colltool.logs import json_stream as reader
from colltool.logs import traced_calls as observed

EIGHT = list(range(8))


def of(path: Path, *events: Any) -> Any:
    return colltool.trace(
        "dgx-h100", write(path / "rank0.json", [step(1, 0, 1000), kernel(0, 150), *events], 0, 8)
    )


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ([(100, 1e30)], "a call lasts 1e+24 s, longer than any call can"),
        ([(100, 86_400e6 + 1)], "longer than any call can"),
    ],
)
def test_times_that_cannot_be(tmp_path: Path, calls: list[tuple[float, float]], says: str) -> None:
    with pytest.raises(ColltoolError, match=says.replace("+", r"\+")):
        of(tmp_path, *(call(at, lasts, EIGHT, Seq=at) for at, lasts in calls))


def test_a_kernel_that_waits_long_is_no_mistake(tmp_path: Path) -> None:
    """Nor is a step that holds little of what ran: the whole trace stands in."""
    for begins, lasts in ((100, 5e5), (5000, 600e6)):
        result = of(tmp_path, call(begins, lasts, EIGHT, Seq=1))
        assert result.share == pytest.approx(lasts / (begins + lasts), rel=1e-3)
        assert "the whole trace is taken" in str(result.activity[0].doubt)


def huge(number: int, size: int) -> dict[str, Any]:
    one = call(100 + number, 10, [0, 1], Seq=number)
    one["args"] |= {
        "Group size": size,
        "Process Group Ranks": f"[{number}, {number + 1}, ..., {number + size - 1}]",
    }
    return one


def test_groups_of_a_million_are_not_written_out(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="names groups of more than 1048576 ranks in all"):
        of(tmp_path, *(huge(number, 2**18) for number in range(5)))
    big = colltool.load_fabric("dgx-h100", ["ib.size=32768", "ib.levels.spine.group=32768"])
    path = write(
        tmp_path / "many.json",
        [step(1, 0, 1000), kernel(0, 150), *(huge(0, 2**17) for _ in range(30))],
        0,
        2**17,
    )
    assert colltool.trace(big, path).calls[0].group_size == 2**17  # one group of all calls is one


def test_equal_groups_share_their_ranks() -> None:
    from colltool.logs.call_metadata import consecutive

    assert consecutive(0, 2**17, 1) is consecutive(0, 2**17, 1)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
from colltool.commands.app import run
sys.exit(run(["trace", sys.argv[1], "-f", "dgx-h100"]))
"""


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="memory is bounded by the system")
def test_one_value_without_end(tmp_path: Path) -> None:
    """A hundred kilobytes, unpacked a list of 8 million numbers: what is read of it stays
    small."""
    path, bound = tmp_path / "bomb.json.gz", 900 * 2**20
    path.write_bytes(
        gzip.compress(b'{"deviceProperties": [' + b"0," * 2**25 + b'0], "traceEvents": []}', 1)
    )
    done = subprocess.run(
        [sys.executable, "-c", LIMITED % (bound, bound), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "no trace" in done.stderr or "no collective" in done.stderr


def test_what_a_trace_holds_fits_the_bounds() -> None:
    assert reader.MOST_VALUE >= 2**20
    assert observed.MOST_LISTED >= 2**18  # the largest jobs there are


@swept("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rank0.json"
    path.write_bytes(text([call(0, 10, EIGHT)]).encode(encoding))
    with pytest.raises(ColltoolError, match=r"looks like UTF-(16|32)(.|\n)*iconv -f UTF-"):
        colltool.trace("dgx-h100", path)
