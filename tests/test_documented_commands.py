"""Numbers of the documents, each as one command whose output shows it: rounded as the document has
it, or to a digit more."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from swept import swept

from tests.commands.conftest import run

# 000/03 §2.1, §2.2 and §3.1 and 001 §2 and §3, which repeats them: two racks share their rail
# switches, 32 do not.
SUPERPOD = [
    (
        "price ar -n 144 -M 16MB -a hierarchical:ring/ring --ideal",
        ("114.5 us", "75 us", "39.51 us"),
    ),
    (
        "breakdown ar -n 144 -M 16MB -a hierarchical:ring/ring --ideal",
        ("114.5 us", "35.5 us", "17.53 us", "4 us", "4.444 us"),
    ),
    ("price ar -n 144 -M 16MB -a inner-ring --ideal", ("178.3 us", "143 us", "35.31 us")),
    ("price ar -n 144 -M 16MB -a outer-ring --ideal", ("2.924 ms", "2.288 ms", "635.6 us")),
    ("price a2a -n 144 -M 16MB -a pairwise --ideal", ("348.3 us", "179.5 us", "168.8 us")),
    ("price a2a -n 144 -M 16MB -a inner-pairwise --ideal", ("89.15 us", "71.5 us", "17.65 us")),
    ("price a2a -n 144 -M 16MB -a outer-pairwise --ideal", ("1.462 ms", "1.144 ms", "317.8 us")),
    # two racks that share no rail switch
    (
        "price a2a -n 144 -M 16MB -a pairwise --ideal --set ib.levels.leaf.group=1",
        ("780.3 us", "611.5 us"),
    ),
    ("price a2a -M 16MB -a pairwise --ideal", ("16.91 ms", "16.6 ms")),
    ("price ar -n 72 -M 16MB -a in-network --ideal", ("18.18 us", "400 ns", "17.78 us")),
    ("price ar -M 16MB -a hierarchical:in-network/in-network --ideal", ("20.18 us", "17.78 us")),
    (
        "fabric show",
        (
            "72 ports down and 72 up",
            "8 leaf, 4 spine switches of 144 ports",
            "18 cables",
            "48 switches in all",
        ),
    ),
]


def shows(command: str, *texts: str) -> None:
    """The command prints each text, as a whole number or phrase, wherever its table breaks the
    lines."""
    done = run(*shlex.split(command))
    assert done.code == 0, done.err
    words = f" {' '.join(done.out.replace('|', ' ').split())} "
    for text in texts:
        assert f" {text}" in words, f"colltool {command} does not show {text}\n{done.out}"


@swept(("command", "texts"), SUPERPOD)
def test_the_textbook_superpod_is_one_command_a_number(
    command: str, texts: tuple[str, ...]
) -> None:
    shows(
        (
            f"{command} -f superpod-textbook"
            if command != "fabric show"
            else "fabric show superpod-textbook"
        ),
        *texts,
    )


NAMED = [
    # 002, check 4.3: the tree takes 8 us where a ring takes 255
    ("price ar -f star512 -n 256 -M 256B -a ring,tree --ideal", "tree: 8.005 us"),
    # 002, napkin 1.6, and 000/04 §3.3
    ("price bc -f star512 -M 16MB -a binomial,in-network --ideal", "in-network: 18.28 us"),
    ("crossover ar -f star512 -a ring,tree", "Fastest: tree below 22.58 MB and ring above."),
    ("crossover -f nvl72 -a ring,tree", "Fastest: tree below 70.32 MB and ring above."),
]


@swept(("command", "first"), NAMED)
def test_what_is_named_leads_the_answer(command: str, first: str) -> None:
    done = run(*shlex.split(command))
    assert done.code == 0, done.err
    assert done.out.startswith(first)


def test_what_leads_because_it_was_named_says_its_status() -> None:
    command = "price ar -f star512 -n 256 -M 256B -a ring,tree --ideal"
    shows(command, "compared because you named them: tree: for reference only")
    first, second = run(*shlex.split(command), "--format", "json").json["results"]
    # of all that can run
    assert (first["algorithm"], first["status"], first["leads"]) == ("tree", "reference", False)
    assert (second["algorithm"], second["status"], second["leads"]) == ("ring", "shipped", True)
    lines = run(*shlex.split(command), "--format", "csv").out.splitlines()
    assert lines[1].split(",")[4] == "tree"


def test_versions_are_words() -> None:
    """A16: no quotes, whoever types them."""
    shows(
        "compare ar -f dgx-h100 -n 64 -M 16MB --vary library.version=2.30,2.31",
        "version=2.31 makes no difference to all-reduce",
        "version=2.30 ",
    )
    shows(
        "price ar -f dgx-h100 -n 64 -M 16MB --set library.version=2.30 --all",
        "NCCL 2.30 runs, by its own cost model: NVLSTree",
    )
    shows(
        "price ar -f dgx-h100 -n 64 -M 16MB --library nccl@2.31.2",
        "NCCL 2.31 (its pre-release 2.31.0a7) runs, by its own cost model: NVLSTree",
    )
    for command in (
        "price ar -f dgx-h100 -M 16MB --set library.version=2.32",
        "compare ar -f dgx-h100 -M 16MB --vary library.version=2.30,2.32",
    ):
        done = run(*shlex.split(command))
        assert done.code == 2
        assert "the nearest is 2.31 (its pre-release 2.31.0a7)" in done.err


@pytest.mark.parametrize("name", ["superpod-textbook", "nvl72"])
def test_a_rack_with_a_leaf_of_its_own(name: str) -> None:
    """000/03 §1.1, layout 1, and why the counts are not those of the shipped layout, on the first
    screen."""
    command = f"fabric show {name} --set ib.sizing.rails=1 --set ib.sizing.nics_per_rail=72"
    shows(
        command,
        "32 leaf,",
        "72 ports down and 72 up",
        "a leaf of 144 ports has room for 1 endpoint, the level 'leaf' has 4",
    )
    shows(
        f"fabric show {name} --set ib.sizing.radix=72",
        "sizing: a leaf of 72 ports down needs 72 up",
    )


LOGP = """\
layout: {pp: 2}
compute: {forward: 0us, backward: 500us}
overlap: {overhead: 50us}
calls:
  - {primitive: p2p, group: pp, size: 1MB, time: 100us}
"""


def test_logp_hides_the_latency(tmp_path: Path) -> None:
    """002, napkin 1.3: 600 us in all; the 100 us of latency hide, the two overheads of 50 us
    show."""
    job = tmp_path / "job.yaml"
    job.write_text(LOGP, encoding="utf-8")
    shows(f"plan {job} -f star512 -n 2", "takes 600 us per step", "pp 100 us 100 us 16.7%")
    (call,) = run("plan", str(job), "-f", "star512", "-n", "2", "--format", "json").json[
        "collectives"
    ]
    assert call["hidden_s"] == pytest.approx(100e-6)


def test_a_slice_of_open_lines_says_so() -> None:
    """000/02 §3.6: part of an axis has no wraparound."""
    shows("price ar -f torus512 -M 16MB --shape 4x4x1", "16 ranks (4x4x1, open lines)")
    shows("price ar -f torus512 -M 16MB --shape 8x4x1", "32 ranks (8x4x1, open along 4)")
    group = run(
        "price", "ar", "-f", "torus512", "-M", "1MB", "--shape", "8x4x1", "--format", "json"
    ).json["group"]
    assert (group["shape"], group["open_axes"]) == ([8, 4, 1], [False, True, False])
    for whole in ("-f torus512 --shape 8x8x1", "-f torus512 -n 512", "-f kd-mesh"):
        assert "open" not in run(*shlex.split(f"price ar {whole} -M 1MB")).out


def test_a_trace_of_the_readers_own_numbers() -> None:
    """004, exercise 1: 1 to 16 on four ranks; 000/02 §3.2: nine ranks, all of them shown."""
    shows(
        "verify ar -f star512 -n 4 -a ring --trace --values 1..16",
        "0(28) 1(32) 2(36) 3(40) 0(28) 1(32) 2(36) 3(40)",
    )
    numbers = ",".join(map(str, range(1, 17)))
    shows(
        f"verify ar -f star512 -n 4 -a ring --trace --values {numbers}",
        "0(28) 1(32) 2(36) 3(40) 0(28) 1(32) 2(36) 3(40)",
    )
    shows(
        "verify ar -f star512 -n 9 -a ring --trace",
        "ranks 0 to 3",
        "ranks 4 to 7",
        "M/9; rank 8",
        "rank 0 rank 1 rank 2 rank 3",
    )


def test_a_ladder_on_one_port_and_under_another_tree(tmp_path: Path) -> None:
    shows(
        "ladder --ports one",
        "Ladder n512, 39 rows",
        "drives several links of a rank at once, and --ports one has one",
    )
    kept = tmp_path / "ladder.json"
    assert run("ladder", "--format", "json", "-o", str(kept)).code == 0
    done = run("ladder", "--tree-beta", "1", "--check", str(kept))
    assert done.code == 1
    assert "Made with other model options: tree_beta=2 in the old document" in done.out.replace(
        "\n", " "
    )
    assert "a formula" not in done.out


@pytest.mark.parametrize("command", ["explain chain bc", "breakdown bc -a chain"])
def test_the_best_number_of_segments(command: str) -> None:
    """000/01 §3.1: 134.7 for a chain of 512 ranks at 16 MB."""
    shows(
        f"{command} -f star512 -M 16MB --ideal",
        "P* = 134.7, best with 135 segments: 407.4 us including pipeline fill",
    )


NODES = """\
schema: colltool.fabric/1
name: nodes
tiers:
  - {name: nvlink, topology: star, size: 8, alpha: 1us, bandwidth: 600GB/s}
  - {name: ib, topology: clos, size: 8, alpha: 5us, bandwidth: 50GB/s}
"""


def test_oversubscription_of_one_level_is_that_of_its_uplinks(tmp_path: Path) -> None:
    """003, exercises 3 and 4: three times the part between nodes, 73 ms to 160.5."""
    file = tmp_path / "nodes.yaml"
    file.write_text(NODES, encoding="utf-8")
    command = f"price ar -f {file} -M 10GB --ideal -a hierarchical:ring/ring"
    shows(command, "73 ms")
    shows(f"{command} --set ib.oversubscription=3", "160.5 ms")


def test_a_switch_that_spreads_an_all_to_all() -> None:
    """000/04 §1.3: Tomahawk Ultra; two times its 250 ns in place of 63 rounds, and the same
    bytes."""
    shows(
        "price a2a -f tomahawk-ultra -M 1KB -a in-network,pairwise --ideal",
        "in-network: 509.8 ns",
        "500 ns",
        "25.2 us",
    )
    shows("fabric show tomahawk-ultra", "in-network: reduce, multicast, all-to-all")
