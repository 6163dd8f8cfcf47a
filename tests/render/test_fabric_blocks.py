"""``fabric show``: the wires as a tree, what a library adds and runs, and nothing of either where a
file is silent."""

from __future__ import annotations

import json
from typing import Any

from small import clos, fabric, star, switch

from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.fabric.results import FabricShown
from colltool.render.data_formats import to_json
from colltool.render.dispatch import blocks, document
from colltool.render.text import Screen, to_text

WHERE = fabric(
    star(
        8,
        0.5,
        450.0,
        in_network=switch(0.2, all_to_all=False, protocols=["Simple"]),
        protocols=[
            {
                "name": "LL",
                "launch_overhead": "5.6us",
                "alpha": "0.6us",
                "bandwidth": "40GB/s",
                "eta": {"alpha": 1.1, "beta": 0.9},
            },
            {
                "name": "LL",
                "launch_overhead": "0us",
                "local_copy": "2TB/s",
                "primitives": ["ag", "reduce_scatter"],
            },
            {"name": "Simple"},
        ],
    ),
    clos(
        4,
        (2, 2.0),
        (4, 5.0),
        algorithms={"ar": ["multi-rail-ring", "hierarchical:ring/ring"], "bc": ["chain"]},
    ),
)

TREE = """\
small
+- t2: clos of 4, BW 50 GB/s, eta 1/1
   +- t1: star of 8, alpha 500 ns, BW 450 GB/s, eta 1/1, in-network: reduce, multicast
"""
PARTS = """
t1:
  in-network: reduce, multicast, alpha_switch 200 ns; only under Simple

t2:
  l2: 4 endpoints, alpha 5 us, s 1
  l1: 2 endpoints, alpha 2 us
"""


def shown(where: Fabric) -> str:
    return to_text(blocks(FabricShown(where, fabric_facts(where))), Screen())


def test_the_tree_is_of_the_wires() -> None:
    text = shown(WHERE)
    tree = "".join(line.removeprefix("  ") + "\n" for line in text.split("\n\n")[1].splitlines())
    assert tree.replace("small:", "small") == TREE
    assert PARTS in text


def test_all_of_it_lists_what_the_library_adds_and_runs() -> None:
    text = shown(WHERE)
    assert "what the library adds to the wires" in text
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.lstrip().startswith("| t1 ")
    ]
    added = [row for row in rows if row[1] in ("LL", "Simple")]
    assert [row[:4] for row in added] == [
        ["t1", "LL", "all others", "5.6 us"],
        ["t1", "LL", "all-gather, reduce-scatter", "0 s"],
        ["t1", "Simple", "all others", "-"],
    ]
    # a step of 1.1 x 0.6 us is 0.16 us more than the tier's 0.5 us, and 0.9 x 40 of its 450 GB/s
    # are 8%
    assert added[0][4:] == ["+0.16 us", "0.08", "-"]
    assert "t2: all-reduce runs multi-rail-ring, hierarchical:ring/ring" in text
    assert "t2: broadcast runs chain" in text


def test_a_silent_file_shows_neither() -> None:
    text = shown(fabric(star(8), clos(4, alpha=1.0)))
    assert "protocol" not in text
    assert " runs " not in text


def test_json_gives_them_in_si() -> None:
    given: dict[str, Any] = json.loads(to_json(document(FabricShown(WHERE, fabric_facts(WHERE)))))[
        "fabric"
    ]
    inner, outer = given["tiers"]
    assert inner["protocols"][0] == {
        "name": "LL",
        "launch_overhead": 5.6e-6,
        "alpha": 0.6e-6,
        "bandwidth": 40e9,
        "eta": {"alpha": 1.1, "beta": 0.9},
    }
    assert inner["protocols"][1]["primitives"] == ["all_gather", "reduce_scatter"]
    assert outer["algorithms"] == {
        "all_reduce": ["multi-rail-ring", "hierarchical:ring/ring"],
        "broadcast": ["chain"],
    }
    assert "protocols" not in outer
