"""Jobs that cannot be, or that send nothing: refused with what to type, never a traceback and never
a wrong figure."""

from __future__ import annotations

from typing import Any

import pytest
from planning import dense, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training import search_space as candidates

ONE_CALL = {"primitive": "ar", "group": "all", "size": "1MB", "time": "1ms", "count": 3}
TINY = {"parameters": 1.0, "layers": 1}
FAST = {"forward": "1ms", "backward": "2ms"}
MANY = {
    "layers": 720,
    "hidden": 80640,
    "heads": 5040,
    "ffn": 322560,
    "vocab": 32000,
    "moe": {"experts": 720, "top_k": 2, "ffn": 5040},
}


def alone(**keys: Any) -> dict[str, Any]:
    """Replicas that send little for what they compute."""
    return dense(layout={}, batch={"global": 2048, "micro": 1}, **keys)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "faster than the device": (
        alone(slower=0.01),
        "of the peak of h100 in bf16: more than it can compute",
        "check slower",
    ),
    "times of one micro-batch": (
        alone(compute=FAST),
        "more than it can compute",
        "check compute: forward and backward are of a whole",
    ),
    "a measured step too short": (
        alone(measured={"step": "3s"}),
        "more than it can compute",
        "check the measured time",
    ),
    "experts cut where there are none": (
        dense(layout={"tp": 2, "sp": True, "etp": 8}, shard={"mode": "fsdp"}),
        "etp 8, and the model has no experts",
        "leave etp out",
    ),
    "no shape and no times": (
        dense(model=TINY, layout={}),
        "has no shape: the compute of a layer is unknown",
        "compute: ",
    ),
    "experts without a shape": (
        dense(model=TINY, layout={"etp": 8}, compute=FAST),
        "etp 8, and the model has no experts",
        "etp",
    ),
    "a collective that takes no time": (
        {"calls": [ONE_CALL | {"time": "0s"}]},
        "a collective that takes 0 s",
        "leave time out",
    ),
    "nothing to compress": (
        {"calls": [ONE_CALL], "compression": {"scheme": "topk", "keep": 0.01}},
        "compression is on dp, and no collective of the job is of it",
        "no compression",
    ),
    "hardly anything kept": (
        dense(compression={"scheme": "topk", "keep": 1e-300}),
        "expected a share from 1e-6 to 1",
        "",
    ),
}


@swept("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    job, what, fix = REFUSED[name]
    with pytest.raises(ColltoolError) as caught:
        colltool.plan(job, two_tiers(), 64)
    said = caught.value.spelled("shell")
    assert what in said
    assert fix in said


def test_a_search_refuses_it_too() -> None:
    with pytest.raises(ColltoolError, match="more than it can compute"):
        colltool.search_layouts(alone(slower=0.01), two_tiers(), 64, {"tp": 1, "pp": 1, "micro": 1})


def test_what_rounds_to_no_byte_is_not_sent() -> None:
    job = dense(
        model=TINY,
        layout={},
        shard={"mode": "hsdp", "group": 8},
        compute={"forward": "1s", "backward": "1s"},
    )
    found = colltool.plan(job, two_tiers(), 64)
    assert all(one.sent.call.bytes > 0.5 and one.sent.each_s > 0 for one in found.collectives)


@pytest.mark.parametrize("ranks", [0, -32])
def test_a_job_has_ranks(ranks: int) -> None:
    asked = (
        lambda: colltool.plan("llama3-70b", "dgx-h100", ranks),
        lambda: colltool.search_layouts("llama3-70b", "dgx-h100", ranks),
        lambda: colltool.compare_plans("llama3-70b", ["dgx-h100", "star512"], ranks),
        lambda: colltool.load_job("llama3-70b").setup(ranks),
    )
    for ask in asked:
        with pytest.raises(
            ColltoolError, match=f"a job on {ranks} ranks|expected at least 1, got {ranks}"
        ):
            ask()


def test_who_watches_is_a_function() -> None:
    with pytest.raises(ColltoolError, match="expected a function of two numbers, got 0"):
        colltool.search_layouts("llama3-70b", "dgx-h100", 64, watch=0)  # type: ignore[arg-type]


def test_a_search_has_a_bound_and_says_what_to_keep() -> None:
    job = dense(model=MANY, sequence=1048576, batch={"global": 720720, "micro": 1})
    with pytest.raises(
        ColltoolError, match="more than 20,000 combinations of sizes fill 720 ranks"
    ) as caught:
        colltool.search_layouts(job, two_tiers(90), 720)
    assert "--keep" in caught.value.spelled("shell")


def test_a_search_tells_how_far_it_is_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    keep = {"tp": 8, "pp": 1, "micro": 1}
    colltool.search_layouts(
        dense(), two_tiers(), 64, keep, top=1, watch=lambda done, of: told.append((done, of))
    )
    done = [one for one, _ in told]
    assert done == sorted(done)
    assert 0 == done[0] < done[-1] < told[0][1]
    monkeypatch.setattr(candidates, "MAX_SIZES", told[0][1] // 2 - 1)
    with pytest.raises(ColltoolError, match="combinations of sizes"):
        colltool.search_layouts(dense(), two_tiers(), 64, keep, top=1)
