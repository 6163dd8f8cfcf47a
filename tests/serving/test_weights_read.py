"""Bytes of weights that a rank holds, and those that a decode step reads."""

from __future__ import annotations

import pytest

from colltool.serving.deployment import Deployment, weight_bytes
from colltool.training.job import load_job


def test_a_step_reads_one_of_the_two_tables_of_words() -> None:
    """Llama 3 8B in bf16 on one GPU: 8.03e9 parameters, of which embedding and head take 128256 x
    4096 each. A step looks up a row of the embedding a token and multiplies by the head, so it
    reads all of the parameters but one table."""
    draft = load_job("llama3-8b").draft
    assert draft is not None
    weights = weight_bytes(draft.model, Deployment(dtype="bf16"), tokens=16)
    table = 128256 * 4096 * 2
    assert weights.weights == pytest.approx(2 * 8.03e9, rel=1e-3)
    assert weights.weights - weights.read == pytest.approx(table, rel=1e-3)


def test_a_step_reads_a_tied_head_whole() -> None:
    """Llama 3 8B, were its head the embedding: one table less to hold, and as much to read."""
    draft = load_job("llama3-8b").draft
    assert draft is not None
    shape = draft.model.known_shape
    apart, tied = (
        weight_bytes(
            draft.model._replace(shape=shape._replace(tied=tied)),
            Deployment(dtype="bf16"),
            tokens=16,
        )
        for tied in (False, True)
    )
    table = 128256 * 4096 * 2
    assert apart.weights - tied.weights == table
    assert tied.read == pytest.approx(apart.read, rel=1e-6)
    assert tied.read == tied.weights
