"""Every shipped fabric: valid, named after its file, sourced number by number, and inside what
hardware can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.formatting import parse_rate, parse_time
from colltool.fabric.load import fabric_data
from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.fabric.routed_tiers import GraphTier, HyperXTier
from colltool.fabric.tiers import ClosTier, FullMeshTier, LatticeTier, StarTier

FABRICS = Path(__file__).parents[2] / "fabrics"
FILES = sorted(FABRICS.glob("*.yaml"))
HYPOTHETICAL = {
    "clos-4to1",
    "kd-mesh",
    "mesh512",
    "star512",
    "superpod-textbook",
    "torus512",
    "two-sites",
    "rail-only",
}

# One direction, bytes/s: NVLink 7 is announced with 10.4 TB/s both ways; announced racks bring 1.6
# and 2.4 Tb/s of NICs a GPU, Maia 200 3.2; links of TPUs, of xGMI, and 20 ports of 400G to three peers.
MAX_SWITCHED_PORT, MAX_NIC, MAX_LINK = 5.2e12, 400e9, 333e9
MIN_ALPHA, MAX_ALPHA = 0.05e-6, 50e-6

Where = tuple[str | int, ...]


@cache
def text(file: Path) -> Any:
    """The whole data: of a fabric that is like another, with that one's."""
    return fabric_data(file)


@cache
def fabric(file: Path) -> Fabric:
    return Fabric.model_validate(text(file))


def is_quantity(value: object) -> bool:
    """A number, a flag, or text that reads as a time or a rate."""
    if isinstance(value, bool | int | float):
        return True
    if not isinstance(value, str) or not re.match(r"\s*[\d.]", value):
        return False
    for parse in (parse_time, parse_rate):
        try:
            parse(value)
        except ColltoolError:
            continue
        return True
    return False


def unsourced(
    node: Any, path: Where = (), sourced: frozenset[Where] = frozenset()
) -> Iterator[Where]:
    """Paths of the numbers below ``node`` that no ``source`` mapping names, at their level or an
    enclosing one.

    A protocol has one source for all of its numbers: the measurement that it was fitted to.
    """
    if isinstance(node, dict):
        source = node.get("source")
        if isinstance(source, str) and "protocols" in path:
            return
        if isinstance(source, dict):
            sourced |= {(*path, key) for key in source}
        for key, value in node.items():
            if key not in ("source", "notes", "hypothetical", "announced"):
                yield from unsourced(value, (*path, key), sourced)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from unsourced(value, (*path, i), sourced)
    elif is_quantity(node) and not any(
        path[:depth] in sourced for depth in range(1, len(path) + 1)
    ):
        yield path


def sources(node: Any, path: Where = ()) -> Iterator[tuple[Where, str, str, Any]]:
    """Every source: where its mapping stands, the key it is for, its words, and the mapping it
    speaks of."""
    if isinstance(node, dict):
        source = node.get("source") or {}
        for key, words in source.items() if isinstance(source, dict) else [("name", source)]:
            yield path, key, words, node
        for key, value in node.items():
            if key != "source":
                yield from sources(value, (*path, key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from sources(value, (*path, i))


def test_the_check_finds_a_number_without_a_source() -> None:
    document = {
        "source": {"a": "x"},
        "a": {"b": 1},
        "b": "2us",
        "c": [{"d": True, "source": {"d": "y"}}, {"d": "3GB/s"}],
        "e": "k",
    }
    assert list(unsourced(document)) == [("b",), ("c", 1, "d")]


def test_there_are_files() -> None:
    assert {
        "nvl72",
        "dgx-h100",
        "mi300x",
        "tpu-v4-512",
        "tpu-v5p",
        "trn2-ultraserver",
        *HYPOTHETICAL,
    } <= {f.stem for f in FILES}


every_file = swept("file", FILES)


class TestEveryFile:
    @every_file
    def test_validates_under_its_own_name_with_a_one_line_description(self, file: Path) -> None:
        found = fabric(file)
        assert found.name == file.stem
        assert yaml.safe_load(file.read_text(encoding="utf-8"))["schema"] == "colltool.fabric/2"
        assert 0 < len(found.description) <= 100
        assert "\n" not in found.description

    @every_file
    def test_every_number_has_a_source(self, file: Path) -> None:
        assert list(unsourced(text(file))) == []

    @every_file
    def test_every_source_speaks_of_a_field_and_says_something(self, file: Path) -> None:
        for path, key, words, mapping in sources(text(file)):
            assert key in mapping, (path, key)
            assert len(words) > 15, (path, key)

    @every_file
    def test_a_hypothetical_fabric_says_so(self, file: Path) -> None:
        assert ("hypothetical" in fabric(file).description.lower()) == (file.stem in HYPOTHETICAL)
        assert fabric(file).hypothetical == (file.stem in HYPOTHETICAL)

    @every_file
    def test_rates_exist(self, file: Path) -> None:
        for tier in fabric(file).tiers:
            match tier:
                case StarTier():
                    assert tier.bandwidth * tier.ports <= MAX_SWITCHED_PORT
                case ClosTier():
                    assert tier.bandwidth <= (
                        MAX_SWITCHED_PORT if len(fabric(file).tiers) == 1 else MAX_NIC
                    )
                case LatticeTier() | FullMeshTier() | GraphTier() | HyperXTier():
                    assert tier.bandwidth <= (
                        MAX_SWITCHED_PORT if file.stem in HYPOTHETICAL else MAX_LINK
                    )

    @every_file
    def test_latencies_are_those_of_a_network_and_grow_with_the_level(self, file: Path) -> None:
        for tier in fabric(file).tiers:
            levels = (
                [level.alpha for level in tier.levels or ()] if isinstance(tier, ClosTier) else []
            )
            hardware = getattr(tier, "in_network", None)
            alphas = levels or [alpha for alpha in [tier.alpha] if alpha is not None]
            assert all(MIN_ALPHA <= alpha <= MAX_ALPHA for alpha in alphas)
            assert all(below < above for below, above in pairwise(levels))
            if hardware is not None:
                assert hardware.alpha_switch >= MIN_ALPHA
                measured = tier.protocols is not None or fabric(file).launch_overhead
                if not measured:  # there it carries what a library's calls take beyond others
                    assert hardware.alpha_switch <= alphas[0]

    @every_file
    def test_outer_tiers_are_slower_than_inner_ones(self, file: Path) -> None:
        rates = []
        for tier in fabric(file).tiers:
            links = tier.size - 1 if isinstance(tier, FullMeshTier) else 1
            rates.append(tier.bandwidth * tier.ports * links)
        assert rates == sorted(rates, reverse=True)

    @every_file
    def test_its_facts_can_be_derived_and_its_sizing_fits(self, file: Path) -> None:
        for tier, facts in zip(fabric(file).tiers, fabric_facts(fabric(file)).tiers, strict=True):
            assert facts.bisection_Bps > 0
            if isinstance(tier, ClosTier) and tier.sizing is not None:
                assert facts.sizing is not None
                assert not any("says" in note or note.startswith("sizing") for note in facts.notes)


def test_the_ladder_fabrics_differ_in_topology_alone() -> None:
    star, torus, mesh = (fabric(FABRICS / f"{kind}512.yaml") for kind in ("star", "torus", "mesh"))
    assert star.ranks == torus.ranks == mesh.ranks == 512
    assert {tier.bandwidth for f in (star, torus, mesh) for tier in f.tiers} == {900e9}
    assert {f.tiers[0].alpha for f in (star, torus, mesh)} == {0.5e-6}
