"""Like with like: what one side's prices have and the other's leave out is filled, left out of the
ratios, or said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from swept import swept

import colltool
from colltool.analysis.basis import PriceBasis, basis_differences, basis_of
from colltool.analysis.outcomes import SAME
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR
from colltool.estimate.placement import GroupSpec
from colltool.render.assumption_differences import basis_sentences
from colltool.render.dispatch import document, rendered
from colltool.render.views.compare import verdict
from colltool.render.views.compare_conclusions import conclusions
from colltool.render.views.sensitivity import sensitivity_title
from colltool.render.views.sweep_words import sweep_title

pytestmark = pytest.mark.usefixtures("datasheet")

TIER = {
    "name": "t",
    "topology": "star",
    "size": 8,
    "alpha": "1us",
    "bandwidth": "100GB/s",
    "eta": {"beta": 0.8},
}


def mine(name: str = "mine", tier: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"schema": "colltool.fabric/1", "name": name, "tiers": [TIER | (tier or {})], **more}


LAUNCHING, BARE = mine("launching", launch_overhead="5us"), mine("bare")


def codes(found: Any) -> list[str]:
    return [one.code for one in found.ground]


def test_a_launch_on_one_side_alone_is_not_a_difference_of_the_machines() -> None:
    found = colltool.compare([LAUNCHING, BARE], "ar", sizes=["1KB", "1MB", "1GB"])
    assert codes(found) == ["launch"]
    small, _, large = found.lines
    assert (small.ratio(1), small.is_bound(1), small.is_bound(0)) == (None, True, False)
    assert large.ratio(1) == pytest.approx(1, abs=SAME)
    (one,) = found.findings
    assert [run.outcome for run in one.runs] == ["unlike", "same"]
    assert "not comparable up to" in verdict(found)[0]
    assert "(bare has no launch overhead" in verdict(found)[0]
    assert "no measurable difference above" in verdict(found)[0]
    assert "faster" not in verdict(found)[0]  # it is the same machine
    assert (
        'give all of them one: overrides=["launch_overhead=5us"]'
        in basis_sentences(found.ground)[0]
    )


@pytest.mark.parametrize("order", [[LAUNCHING, BARE], [BARE, LAUNCHING]], ids=["first", "second"])
def test_the_advice_makes_them_alike(order: list[dict[str, Any]]) -> None:
    assert colltool.compare(order, "ar", sizes=["1KB"]).findings[0].runs[0].outcome == "unlike"
    found = colltool.compare(order, "ar", sizes=["1KB"], overrides=["launch_overhead=5us"])
    assert (codes(found), found.lines[0].ratio(1)) == ([], 1.0)


def test_a_ratio_is_left_out_only_where_a_launch_would_be_felt() -> None:
    """Against the definition: a tenth of the time, or another verdict with it."""
    fast = mine("fast", {"bandwidth": "300GB/s"})
    found = colltool.compare([LAUNCHING, fast], "ar", sizes=[10.0**power for power in range(3, 10)])
    for line in found.lines:
        first, other = line.cells[0].total_s, line.cells[1].total_s
        plain, filled = other / first, (other + 5e-6) / first
        turns = (plain > 1 + SAME) != (filled > 1 + SAME) or (plain < 1 - SAME) != (
            filled < 1 - SAME
        )
        assert (line.ratio(1) is None) == (0.1 * other < 5e-6 or turns)
    assert found.lines[0].ratio(1) is None
    assert found.lines[-1].ratio(1) is not None


def test_an_overhead_of_nothing_that_somebody_wrote_is_an_answer() -> None:
    found = colltool.compare([LAUNCHING, mine("free", launch_overhead="0us")], "ar", sizes=["1KB"])
    assert (codes(found), found.findings[0].runs[0].outcome) == ([], "faster")


def test_two_that_both_leave_it_out_are_compared() -> None:
    found = colltool.compare([BARE, mine("half", {"bandwidth": "50GB/s"})], "ar", sizes=["1GB"])
    assert (codes(found), found.findings[0].runs[0].outcome) == ([], "slower")


@swept(
    ("tier", "more", "code"),
    [
        ({"protocols": [{"name": "LL", "alpha": "1us"}]}, {}, "layers"),
        (
            {},
            {
                "library": {
                    "name": "nccl",
                    "gpu": "hopper",
                    "reached": [{"algorithm": "ring", "primitives": ["all_reduce"], "share": 0.5}],
                }
            },
            "software",
        ),
        ({"eta": None}, {}, "contention"),
        ({}, {"library": "rccl"}, "library"),
        ({"size": 4}, {}, "group"),
    ],
)
def test_what_is_not_alike_is_said_everywhere(
    tier: dict[str, Any], more: dict[str, Any], code: str
) -> None:
    other = mine("other", tier, **more)
    if tier.get("eta", 1) is None:
        del other["tiers"][0]["eta"]
    if code == "group":
        other["tiers"].append(TIER | {"name": "out"})
    found = colltool.compare([mine(), other], "ar", ranks=8, sizes=["1MB"])
    assert code in codes(found)
    assert code in codes(colltool.sweep([mine(), other], "ar", ranks=[8], sizes=["1MB"]))
    assert document(found)["ground"][codes(found).index(code)]["says"] in basis_sentences(
        found.ground, [8]
    )


def test_jobs_rest_on_the_same_things() -> None:
    found = colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-h100-measured"], 256)
    assert {one.code for one in found.ground} >= {"protocols", "software"}
    assert set(basis_sentences(found.ground)) <= set(document(found)["verdict"])
    assert colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-h100"], 256).titles == (
        "dgx-h100 (1)",
        "dgx-h100 (2)",
    )


def test_jobs_that_take_as_long_say_why() -> None:
    thick, thin = (
        colltool.load_fabric("dgx-h100", [f"ib.levels.spine.oversubscription={s}"]) for s in (1, 4)
    )
    said, *_ = document(colltool.compare_plans("llama3-70b", [thick, thin], 256))["verdict"]
    assert (
        said
        == "dgx-h100 with ib.levels.spine.oversubscription=4: no difference (nothing that the job"
        " sends takes longer or shorter)"
    )


def test_one_file_is_alike() -> None:
    found = colltool.compare(
        "dgx-h100", "ar", ranks=[64], sizes=["1MB"], vary="ib.bandwidth=25GB/s,50GB/s"
    )
    assert found.ground == ()
    assert colltool.sweep("dgx-h100", "ar", ranks=[8, 64]).ground == ()


def test_ideal_has_no_contention_and_no_library() -> None:
    fabrics = [colltool.load_fabric(name) for name in ("dgx-h100", "dgx-h100-measured")]
    grounds = [basis_of(one, AR, GroupSpec(64), ideal=True) for one in fabrics]
    assert [one.code for one in basis_differences(["a", "b"], grounds)] == ["protocols"]


def test_every_value_is_told() -> None:
    grounds = [
        PriceBasis(1e-6, protocols=False, software=False, contention=True, library=name)
        for name in ("", "nccl", "mpi")
    ]
    (one,) = basis_differences(["a", "b", "c"], grounds)
    assert one.parts == (("", ("a",)), ("nccl", ("b",)), ("mpi", ("c",)))
    # both have one
    assert basis_differences(["a", "b"], [grounds[0], grounds[0]._replace(launch=2e-6)]) == ()


def test_two_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder, overhead in (("a", "1us"), ("b", "9us")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.yaml").write_text(
            yaml.safe_dump(mine(launch_overhead=overhead)), encoding="utf-8"
        )
    paths = [tmp_path / folder / "x.yaml" for folder in "ab"]
    for found in (colltool.compare(paths, "ar").columns,):
        assert [one.name for one in found] == ["mine (a/x.yaml)", "mine (b/x.yaml)"]
    assert colltool.sweep(paths, "ar").axes[0].values == ("mine (a/x.yaml)", "mine (b/x.yaml)")
    assert [one.name for one in colltool.compare([LAUNCHING, LAUNCHING], "ar").columns] == [
        "launching (1)",
        "launching (2)",
    ]
    varied = colltool.compare(paths, "ar", vary="t.bandwidth=1GB/s,2GB/s").columns
    assert len({one.name for one in varied}) == 4


def test_a_difference_within_the_error_of_the_model_says_so() -> None:
    """Two files that nobody measured: a ninth less bandwidth is within the error, a ninth of it is
    not."""
    others = [mine("other", {"bandwidth": rate}) for rate in ("90GB/s", "1GB/s")]
    found, far = (
        colltool.compare([mine(), other], "ar", sizes=["10KB", "100GB"]) for other in others
    )
    (one,) = found.findings
    near = [run for run in one.runs if run.outcome == "slower"]
    assert near
    assert all(run.within is not None and run.ratio - 1 <= run.within for run in near)
    assert "too close to call (mine is ahead by 1.02x to 1.11x)" in verdict(found)[0]
    assert "faster" not in rendered(found, "table")
    (other,) = far.findings
    assert (other.runs[-1].outcome, other.runs[-1].within) == ("slower", None)
    assert "mine is" in verdict(far)[0]
    assert "x faster than other above" in verdict(far)[0]


def test_values_of_one_file_share_the_error() -> None:
    (one,) = colltool.compare(
        mine(), "ar", sizes=["1GB"], vary="t.bandwidth=100GB/s,90GB/s"
    ).findings
    assert [(run.outcome, run.within) for run in one.runs] == [("slower", None)]


@swept(
    ("vary", "ranks", "overrides", "said"),
    [
        (
            "ib.levels.spine.oversubscription=1,4",
            256,
            [],
            "nothing reaches the spine of ib: one leaf holds all 32 endpoints",
        ),
        (
            "ib.levels.spine.oversubscription=1,4",
            64,
            ["ib.levels.leaf.group=4"],
            "too few messages of",
        ),
        ("ib.levels.spine.alpha=11us,50us", 64, [], "nothing reaches the spine of ib"),
        ("ib.bandwidth=50GB/s,400GB/s", 8, [], "no two ranks meet on ib"),
        (
            "nvlink.in_network.alpha_switch=20.2us,30us",
            8,
            [],
            "ring, the fastest, does not depend on nvlink.in_network.alpha_switch",
        ),
        ("launch_overhead=4.60us,4.7us", 8, [], ""),
    ],
)
def test_no_difference_says_why(vary: str, ranks: int, overrides: list[str], said: str) -> None:
    found = colltool.compare(
        "dgx-h100", "ar", ranks=ranks, sizes=["64KB"], vary=vary, overrides=overrides
    )
    (line,) = verdict(found)
    assert line.endswith("no measurable difference")
    assert said in " ".join(conclusions(found))
    assert document(found)["conclusions"] == conclusions(found)


def test_why_is_true_of_a_spine_that_is_reached() -> None:
    """The reason is of the schedule that wins: an all-to-all on the same group feels it."""
    where = {"ranks": 256, "sizes": ["64MB"], "vary": "ib.levels.spine.oversubscription=1,4"}
    assert "no measurable difference" in verdict(colltool.compare("dgx-h100", "a2a", **where))[0]
    found = colltool.compare("dgx-h100", "a2a", overrides=["ib.levels.leaf.group=4"], **where)
    assert "faster than oversubscription=4" in verdict(found)[0]


def test_a_group_that_does_not_fit_has_no_ground() -> None:
    with pytest.raises(ColltoolError):
        basis_of(colltool.load_fabric("dgx-h100"), AR, GroupSpec(7000))
    found = colltool.compare(["mi300x", "dgx-h100"], "ar", ranks=[64], sizes=["1MB"])
    assert "group" not in codes(found)


def test_unequal_slices_are_not_alike() -> None:
    found = colltool.compare(["torus512", "tpu-v5p"], "ar", ranks=[64], sizes=["1MB"])
    assert codes(found) == ["library", "slice"]  # each holds 64 in one domain
    assert basis_sentences(found.ground, [64])[1] == "slices: 8x8x1 on torus512, 4x4x4 on tpu-v5p"
    assert document(found)["ground"][1]["values"][1] == {"value": "4x4x4", "columns": ["tpu-v5p"]}
    small = colltool.sweep(["torus512", "tpu-v5p"], "ar", ranks=[16], sizes=["1MB"])
    assert (
        basis_sentences(small.ground, [16])[1]
        == "slices: 8x2x1 on torus512, 2x2x4 (no wraparound) on tpu-v5p"
    )
    assert "slice" not in codes(
        colltool.compare(["torus512", "dgx-h100"], "ar", ranks=[64], sizes=["1MB"])
    )


def lattice(name: str, wrap: list[bool]) -> dict[str, Any]:
    tier = {key: value for key, value in TIER.items() if key != "size"} | {
        "topology": "torus",
        "shape": [4, 8],
        "wrap": wrap,
    }
    return {"schema": "colltool.fabric/1", "name": name, "tiers": [tier]}


def test_a_slice_that_is_open_is_not_one_that_is_closed() -> None:
    whole = [
        lattice("both", [True, True]),
        lattice("one", [True, False]),
        lattice("none", [False, False]),
    ]
    (said,) = basis_sentences(colltool.compare(whole, "ar", sizes=["1MB"]).ground, [32])
    assert (
        said
        == "slices: 4x8 on both, 4x8 (no wraparound along 8) on one, 4x8 (no wraparound) on none"
    )
    assert colltool.compare([whole[1], whole[1]], "ar", sizes=["1MB"]).ground == ()


NONE = "none of it implemented in MSCCL++"


def text_of(result: Any) -> str:
    return " ".join((rendered(result, "table", everything=True)).split())


def test_a_library_that_runs_none_of_it_is_said_to() -> None:
    """As a price says: across nodes MSCCL++ has no all-reduce, inside one it has."""
    fabric = colltool.load_fabric("dgx-h100", ["library=mscclpp"])
    inside, across = (
        colltool.sweep(fabric, "ar", ranks=[ranks], sizes=["1MB"]) for ranks in (8, 256)
    )
    assert NONE in sweep_title(across)
    assert NONE not in sweep_title(inside)
    both = colltool.sweep(fabric, "ar", ranks=[8, 256], sizes=["1MB"])
    assert "MSCCL++, with contention" in sweep_title(both)
    assert "1 of 2 points: the library implements none of these algorithms" in text_of(both)
    assert [cell["leads"] for cell in document(both)["cells"]] == [True, False]
    found = text_of(colltool.compare([fabric, "dgx-h100"], "ar", ranks=[256], sizes=["1MB"]))
    assert f"dgx-h100 (library=mscclpp): {NONE}" in found
    assert found.count(NONE) == 1
    for ranks in (8, 256):
        asked = colltool.sensitivity(fabric, "ar", ranks=ranks, size="1MB", samples=100)
        assert (NONE in sensitivity_title(asked)) == (ranks == 256)


TIMED = mine(
    "timed",
    library={
        "name": "nccl",
        "gpu": "hopper",
        "reached": [{"algorithm": "ring", "primitives": ["all_reduce"], "startup": "50us"}],
    },
)
SHARED = mine(
    "shared",
    {"bandwidth": "90GB/s"},
    library={
        "name": "nccl",
        "gpu": "hopper",
        "reached": [{"algorithm": "ring", "primitives": ["all_reduce"], "share": 0.9}],
    },
)


@pytest.mark.parametrize("order", [[TIMED, SHARED], [SHARED, TIMED]], ids=["first", "second"])
def test_measured_time_on_one_side_alone_turns_no_verdict(order: list[dict[str, Any]]) -> None:
    """Without its 50 us one is the faster at every size: where they alone undo that, the two are
    not compared."""
    at = {one["name"]: number for number, one in enumerate(order)}
    found = colltool.compare(
        order, "ar", sizes=[10.0**power for power in range(3, 11)], algorithms=["ring"]
    )
    assert codes(found) == ["software_time"]  # both state what the library reaches
    for line in found.lines:
        timed, shared = (float(line.cells[at[name]].total_s or 0) for name in ("timed", "shared"))
        assert (line.ratio(1) is None) == (timed > (1 - SAME) * shared)
    assert found.lines[0].ratio(1) is None
    assert found.lines[-1].ratio(1) is not None
    reason = (
        "(timed includes measured library overhead, shared does not; base shared on a shipped"
        ' machine (add "like: hgx-h200"))'
    )
    assert reason in verdict(found)[0]
    assert "not comparable up to" in verdict(found)[0]
    (said,) = basis_sentences(found.ground, [8])
    assert said.startswith("timed includes measured library overhead (50 us of ")
    assert "shared does not, so small sizes are not comparable" in said
    swept = colltool.sweep(order, "ar", sizes=["1KB"], algorithms=["ring"])
    assert "software_time" in codes(swept)


def test_two_that_both_pay_measured_time_are_compared() -> None:
    found = colltool.compare(
        [TIMED, TIMED | {"name": "other"}], "ar", sizes=["1KB"], algorithms=["ring"]
    )
    assert (codes(found), found.lines[0].ratio(1)) == ([], 1.0)


def test_measured_time_that_is_held_is_said_to_be() -> None:
    """As a price notes: nvl72's figures are of 128 ranks."""
    held = "was not measured at these sizes or ranks, nearest measurement used"
    swept = text_of(colltool.sweep("nvl72", "ar", ranks=[72, 144], sizes=["16MB"]))
    assert "1 of 2 points: NCCL overhead of " in swept
    assert held in swept
    found = text_of(colltool.compare(["nvl72", "dgx-h100"], "ar", ranks=[144], sizes=["1MB"]))
    assert "nvl72: 1 of 1 point: NCCL overhead of " in found
    assert held not in text_of(colltool.sweep("nvl72", "ar", ranks=[72], sizes=["16MB"]))
    asked = colltool.sensitivity("nvl72", "ar", ranks=144, size="1MB", samples=100)
    assert asked.held[0].endswith(
        "was not measured on 144 ranks (but on 128): nearest measurement used"
    )
    assert asked.held[0] in text_of(asked)
