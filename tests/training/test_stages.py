"""Which layers stand on which pipeline stage: equal parts, the embedding and the head as layers, or
as listed."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

from colltool.render.views.job_words import layout_text
from colltool.training.job import load_job
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import ends_as_layers, pipeline_stages

SMALL = {"layers": 14, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 1024}


def setup(ranks: int, model: Any = "llama3-405b", **keys: Any) -> ParallelConfig:
    content = {
        "model": model,
        "sequence": 1024,
        "batch": {"global": 64},
        "device": "h100",
        "stack": "megatron",
    } | keys
    return load_job(content).setup(ranks)


def layers(run: ParallelConfig) -> list[int]:
    return [stage.layers for stage in pipeline_stages(run)]


@swept("virtual", [1, 2, 4, 8, 16])
def test_the_ends_stand_in_the_place_of_layers(virtual: int) -> None:
    """Llama 3.1 405B on 8 stages: 126 layers and the two ends are 16 a stage."""
    run = setup(8, layout={"pp": 8, "virtual": virtual})
    assert ends_as_layers(run)
    assert layers(run) == [15, 16, 16, 16, 16, 16, 16, 15]


def test_equal_parts_where_the_layers_divide() -> None:
    run = setup(6, batch={"global": 96}, layout={"pp": 6, "virtual": 7})
    assert not ends_as_layers(run)
    assert layers(run) == [21] * 6


def test_what_is_listed_is_taken() -> None:
    run = setup(8, layout={"pp": 8, "stages": [14, 17, 16, 16, 16, 16, 16, 15]})
    assert not ends_as_layers(run)
    assert layers(run) == [14, 17, 16, 16, 16, 16, 16, 15]


def test_the_first_chunk_of_all_is_the_short_one() -> None:
    """14 layers, 2 stages of 4 chunks of 2: the first 3 layers are the first chunk, of 1, and the
    second stage's, of 2."""
    moe = {"moe": {"experts": 4, "top_k": 1, "ffn": 512, "dense_layers": 3}}
    run = setup(2, model=SMALL | moe, layout={"pp": 2, "virtual": 4})
    assert [(stage.dense_layers, stage.moe_layers) for stage in pipeline_stages(run)] == [
        (1, 6),
        (2, 5),
    ]


@pytest.mark.parametrize(("pp", "said"), [(4, True), (2, False)])
def test_the_layout_line_says_so(pp: int, said: bool) -> None:
    run = setup(8, model=SMALL, layout={"pp": pp})
    assert ("embedding and head count as layers" in layout_text(run)) is said
