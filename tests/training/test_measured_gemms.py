"""A user's own table of GEMM times in place of the stack's shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from planning import dense, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.measured_gemms import read_gemms

HEAD = "M,N,K,dtype,us\n"
SHAPES = [
    (4096, 6144, 4096),
    (4096, 4096, 4096),
    (4096, 28672, 4096),
    (4096, 4096, 14336),
    (4096, 128256, 4096),
]


def table(tmp_path: Path, share: float, head: str = HEAD, scale: float = 1e6) -> Path:
    """Every GEMM of Llama 3 8B, forward and both backward, at a share of the peak."""
    rows = {shape for m, n, k in SHAPES for shape in ((m, n, k), (m, k, n), (n, k, m))}
    lines = [
        f"{m},{n},{k},bfloat16,{scale * 2 * m * n * k / (share * 989.4e12)}"
        for m, n, k in sorted(rows)
    ]
    (tmp_path / "gemms.csv").write_text(head + "\n".join(lines) + "\n")
    return tmp_path / "gemms.csv"


JOB = dense(layout={"tp": 1, "pp": 1}, batch={"global": 64, "micro": 1})


def test_half_the_share_is_twice_the_time_of_gemms(tmp_path: Path) -> None:
    """What is left beside GEMMs, attention and kernels, stays."""
    slow, fast = (
        colltool.plan(JOB, two_tiers(), 64, compute=table(tmp_path, share)) for share in (0.3, 0.6)
    )
    gemms_s = 3 * 2 * 4096 * (8.03e9 - 128256 * 4096) / (0.6 * 989.4e12)
    # weight gradients add up in 32 bits; three doublings beyond a node
    slower, jitter = (2 + 1 / 0.9) / 3, 1 + 3 * 0.007
    assert slow.control_step_s - fast.control_step_s == pytest.approx(
        slower * jitter * gemms_s,
        rel=0.15,  # slower GEMMs draw full power
    )


def test_units_and_names_of_columns(tmp_path: Path) -> None:
    one = read_gemms(table(tmp_path, 0.5))
    assert one == read_gemms(table(tmp_path, 0.5, "m, n, k, DTYPE, time_us\n"))
    told = {
        gemm[:4]: gemm.seconds for gemm in read_gemms(table(tmp_path, 0.5, "M,N,K,dtype,ms\n", 1e3))
    }
    assert told == pytest.approx({gemm[:4]: gemm.seconds for gemm in one})


@swept(
    ("text", "what"),
    [
        ("", "the table has no column"),
        ("M,N,dtype,us\n1,2,bf16,3\n", "the table has no column k"),
        (HEAD, "the table has no rows"),
        (HEAD + "4096,4096,4096,bf17,250\n", r"gemms.csv:2: dtype 'bf17' is not known"),
        (HEAD + "4096,4096,4096,bf16,fast\n", r"gemms.csv:2: M, N, K and the time are numbers"),
        (HEAD + "0,4096,4096,bf16,250\n", "M, N and K are from 1, the time above 0"),
        (HEAD + "4096,4096,4096,bf16,-1\n", "M, N and K are from 1, the time above 0"),
    ],
)
def test_what_is_no_table(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "gemms.csv").write_text(text)
    with pytest.raises(ColltoolError, match=what):
        colltool.plan(JOB, two_tiers(), 64, compute=tmp_path / "gemms.csv")
