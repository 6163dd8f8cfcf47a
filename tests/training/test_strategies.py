"""Schedules, shardings and recomputation are rows: a name of the schema without one fails, a row is
all that one takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from swept import swept

from colltool.training import files as schema
from colltool.training import strategies
from colltool.training.job import load_job
from colltool.training.memory import memory
from colltool.training.strategies import SCHEDULES, Pass, pipeline_s


@pytest.mark.parametrize("names", ["Schedule", "ShardMode", "Recomputed"])
def test_a_name_of_the_schema_alone_fails_at_import(
    names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, names, Literal[(*get_args(getattr(schema, names)), "wave")])
    file = strategies.__file__
    source = Path(file).read_text(encoding="utf-8")
    with pytest.raises(TypeError, match="wave: named in the schema or in the rows alone"):
        exec(compile(source, file, "exec"), {"__name__": "imported_again", "__file__": file})


def test_a_row_is_what_a_schedule_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule with no bubble that keeps two micro-batches: its step and its memory follow, and
    nothing of 1F1B."""
    row = SCHEDULES["1f1b"]._replace(bubble_s=lambda *_: 0.0, in_flight=lambda at: min(at.m, 2))
    content = {
        "model": "llama3-8b",
        "sequence": 4096,
        "batch": {"global": 64},
        "layout": {"pp": 8},
        "stack": "megatron",
        "device": "h100",
    }
    config = load_job(content).setup(8)

    def kept() -> list[float]:
        return [part.bytes for part in memory(config).parts if part.part == "activations"]

    before = kept()
    monkeypatch.setitem(SCHEDULES, "1f1b", row)
    assert pipeline_s("1f1b", [Pass(1.0, 2.0)] * 8, 16) == 16 * 3.0
    assert kept()[0] == pytest.approx(before[0] * 2 / 8)
    assert kept()[-1] == pytest.approx(before[-1] * 2)


@swept("name", SCHEDULES)
def test_every_schedule_has_a_bubble_and_a_source(name: Any) -> None:
    """At most GPipe's, at least none; as many micro-batches at once as there are, at the most."""
    row, passes = SCHEDULES[name], [Pass(1.0, 2.0, 1.0)] * 8
    assert 0 <= row.bubble_s(passes, 2) <= SCHEDULES["gpipe"].bubble_s(passes, 2)
    assert 1 <= row.in_flight(strategies.PipelinePlace(m=16, p=8, v=2, stages_left=8)) <= 16
    assert "arXiv" in row.source
