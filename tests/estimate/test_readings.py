"""Readings: declared once, checked by name, echoed as machine output promises."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.estimate.assumptions import DECLARED, ModelOptions, checked, words

WRONG: list[tuple[str, Any]] = [
    ("ideal", "yes"),
    ("ideal", 1),
    ("ideal", None),
    ("pipelining", "some"),
    ("pipelining", 0),
    ("pipelining", -1),
    ("pipelining", 10**400),
    ("pipelining", 2.5),
    ("pipelining", True),
    ("pipelining", None),
    ("phases", "both"),
    ("phases", 1),
    ("placement", "auto"),
    ("placement", None),
    ("ring_alpha", "max"),
    ("ring_alpha", []),
    ("tree_beta", nan),
    ("tree_beta", inf),
    ("tree_beta", 3),
    ("tree_beta", 1j),
    ("tree_beta", "2"),
    ("tree_beta", True),
    ("tree_beta", 10**400),
    ("order", "up"),
    ("order", np.ones(2)),
]


@swept(("name", "value"), WRONG)
def test_a_value_that_a_reading_cannot_have_names_it(name: str, value: Any) -> None:
    with pytest.raises(ColltoolError) as caught:
        colltool.price("star512", "ar", size="1MB", **{name: value})
    assert caught.value.argument == name
    assert str(caught.value).startswith(f"{name}: ")
    assert "--" not in str(caught.value)
    assert caught.value.fix


def test_a_typo_is_named_with_what_was_meant() -> None:
    with pytest.raises(
        ColltoolError,
        match="phase: there is no argument or model option called 'phase'\n  did you mean 'phases'",
    ):
        colltool.price("star512", "ar", size="1MB", phase="sequential")
    with pytest.raises(ColltoolError, match="did you mean 'algorithms'"):
        colltool.price("star512", "ar", size="1MB", algorithm="ring")


def test_words_of_every_reading_are_taken() -> None:
    for name in DECLARED:
        for word in words(name):
            assert getattr(checked(**{name: word}), name) == word
    assert checked(
        ideal=np.bool_(True), pipelining=np.int64(4), tree_beta=np.float32(1.5)
    ) == ModelOptions(True, 4, tree_beta=1.5)
    assert checked(phases=None, order=None) == ModelOptions()
    assert type(checked(tree_beta=np.float32(1.5)).tree_beta) is float


def test_readings_and_parts_of_them() -> None:
    whole = colltool.ModelOptions(placement="scattered", ideal=True)
    both = colltool.price("star512", "ar", size="1MB", readings=whole, ideal=False)
    assert both == colltool.price("star512", "ar", size="1MB", placement="scattered")
    assert both != colltool.price("star512", "ar", size="1MB", readings=whole)
    with pytest.raises(ColltoolError, match=r"^readings: expected colltool\.Readings, got dict"):
        colltool.price("star512", "ar", size="1MB", readings={"ideal": True})  # type: ignore[arg-type]


def test_a_readings_made_by_hand_is_checked_too() -> None:
    with pytest.raises(ColltoolError, match=r"^placement: 'somewhere' is not known"):
        colltool.price("star512", "ar", size="1MB", readings=ModelOptions(placement="somewhere"))  # type: ignore[arg-type]


@swept(("primitive", "own"), [("ar", "sequential"), ("bc", "pipelined"), ("reduce", "pipelined")])
def test_auto_is_the_composition_s_own_and_the_echo_says_what_is_in_force(
    primitive: str, own: Any
) -> None:
    auto, said = (
        colltool.price("dgx-h100", primitive, size="1MB", phases=phases) for phases in ("auto", own)
    )
    assert auto.model.echo()["phases"] == own
    ways = [{row.choice: row for row in one.results} for one in (auto, said)]
    kept = {
        choice
        for choice, row in ways[0].items()
        if not any("phases stream" in note for note in row.notes)
    }
    assert kept
    assert all(ways[0][choice] == ways[1][choice] for choice in kept & set(ways[1]))
    assert auto.model.unusual() == said.model.unusual() == {}
    other = "pipelined" if own == "sequential" else "sequential"
    assert colltool.price("dgx-h100", primitive, size="1MB", phases=other).model.unusual() == {
        "phases": other
    }


def test_the_echo_is_what_machine_output_promises() -> None:
    usual = ModelOptions().in_force("sequential").echo()
    assert usual == {
        "pipelining": "asymptotic",
        "phases": "sequential",
        "placement": "packed",
        "ring_alpha": "mean",
        "tree_beta": 2.0,
    }
    assert list(ModelOptions(order="inner-first", ideal=True).echo()) == [*usual, "order"]
