"""The benchmark of cases counts what is right, and says what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_cases import failures, main
from swept import swept

RIGHT = {
    "id": "one",
    "kind": "K",
    "command": "echo '| Slow:  8 GPUs |'; exit 1",
    "must_match": "slow: 8 gpus",
    "must_not_match": "healthy",
    "exit": "1|2",
}


@swept(
    ("change", "wrong"),
    [
        ({}, []),
        ({"must_match": "fast"}, ["does not say fast"]),
        ({"must_not_match": "8 GPUs"}, ["says '8 GPUs'"]),
        ({"exit": "0"}, ["exit 1, not 0"]),
        ({"exit": ""}, []),
    ],
)
def test_an_answer_is_held_to_its_patterns(
    change: dict[str, str], wrong: list[str], tmp_path: Path
) -> None:
    assert failures(RIGHT | change, tmp_path) == wrong


def test_the_table_counts_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [RIGHT, RIGHT | {"id": "two", "exit": "0"}, RIGHT | {"id": "three", "kind": "L"}]
    lines = [",".join(f'"{value}"' for value in row.values()) for row in rows]
    text = "\n".join([",".join(RIGHT), *lines])
    (tmp_path / "cases.csv").write_text(text, encoding="utf-8")
    assert main(tmp_path, []) == 1
    assert capsys.readouterr().out.endswith(
        "K          1   2\nL          1   1\nall        2   3\n"
    )
    assert main(tmp_path, ["L"]) == 0
