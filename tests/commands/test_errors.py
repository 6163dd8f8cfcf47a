"""Bad command lines: exit 2, nothing on stdout, and a message that says what was found and what to
type next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from swept import swept

from colltool.base.formatting import parse_size

AR_KNOWN = (
    "known for ar: ring, tree, double-binary-tree, recursive-doubling, rabenseifner, one-shot,"
    " two-shot, recursive-doubling-fold, rabenseifner-fold, rabenseifner-padded, dim-ring,"
    " dim-ring-bidirectional, multi-ring, dim-rabenseifner, all-axes, gateway-ring, forest, tacos,"
    " multi-link-ring, in-network, multi-rail-ring, outer-ring, inner-ring, multi-rail-tree,"
    " hierarchical, leader, parameter-server"
)
PRIMITIVES = (
    "known: ar (all-reduce), ag (all-gather), rs (reduce-scatter), a2a (all-to-all), bc"
    " (broadcast), reduce (reduce), p2p (p2p)"
)
NAMES = """
    price crossover breakdown compare ladder diff explain plan serve expect fabric doctor calibrate report
    sweep sensitivity contention verify reshard job validate trace score library export schema mcp
    guide
"""
COMMANDS = f"commands: {', '.join(NAMES.split())}"
WRITE_SIZE = "write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)"
PER_RANK = "a size is bytes per rank, such as 16MB"
WRITE_JSON = "write one with --format json -o FILE"
NO_TIERS = "tiers: expected a list of 1 to 8 tiers, innermost first, got an empty list"
PIPELINING = "asymptotic, optimal, or a number of segments from 1 to 1,000,000,000"

# command line -> what stderr says, line by line
EXACT: dict[str, tuple[str, ...]] = {
    # names
    "bogus": ("error: no command 'bogus'", f"  {COMMANDS}"),
    "contention -f torus512 --group 8 -p a2a -a ring": (
        "error: --algorithm: group 'g0': no algorithm 'ring' for all-to-all",
        (
            "  'ring' is an algorithm of ar, ag, rs. known for a2a: pairwise, bruck, direct,"
            " shortest-path, dim-by-dim, mcf, in-network, outer-pairwise, inner-pairwise"
        ),
    ),
    "price ar -f nvl72 --set nvlink.eta.beta=80%": (
        (
            "error: --set nvlink.eta.beta=80%: expected a number from 0.000001 to 1, such as 0.8,"
            " got '80%'"
        ),
        "  write 0.8",
    ),
    "price ar -f clos-4to1 --set fabric.levels.core.oversubscription=3:1": (
        (
            "error: --set fabric.levels.core.oversubscription=3:1: expected a number from 1 to"
            " 1000, such as 2, or hop by hop, such as {uplinks: 2}, got '3:1'"
        ),
        "  write 3",
    ),
    "price ar -f nvl72 --set nvlink.alpha=3e-6": (
        (
            "error: --set nvlink.alpha=3e-6: expected a time from 0.1 ns to 1 s, such as 0.5us, got"
            " 3e-06"
        ),
        "  are these seconds? write 3us",
    ),
    "fabric channels node.xml --library rccl": (
        "error: --library: 'rccl' has no such search",
        "  write nccl, or nccl@2.28.9",
    ),
    "fabric channels node.xml --library nccl@2": (
        "error: --library: '2' is no release of NCCL",
        "  write nccl@2.28.9",
    ),
    "pricee ar": ("error: no command 'pricee'", f"  did you mean 'price'? {COMMANDS}"),
    "price arr -f nvl72": ("error: unknown primitive 'arr'", f"  did you mean 'ar'? {PRIMITIVES}"),
    "price qux -f nvl72": ("error: unknown primitive 'qux'", f"  {PRIMITIVES}"),
    "crossover qux": ("error: unknown primitive 'qux'", f"  {PRIMITIVES}"),
    "explain ring qux": ("error: unknown primitive 'qux'", f"  {PRIMITIVES}"),
    "price ar -f nvl27": (
        "error: no file and no shipped fabric is called 'nvl27'",
        "  did you mean 'nvl72'? list the shipped ones: colltool fabric list",
    ),
    "price ar -f zzz.yaml": (
        "error: no file and no shipped fabric is called 'zzz.yaml'",
        "  list the shipped ones: colltool fabric list",
    ),
    "fabric show zzz": (
        "error: no file and no shipped fabric is called 'zzz'",
        "  list the shipped ones: colltool fabric list",
    ),
    "price ar -f directory": (
        "error: directory: is a directory, expected a fabric file",
        "  give a file in it",
    ),
    "price ar -f nvl72 -M 1MB --algorithm rong": (
        "error: no algorithm 'rong' for all-reduce",
        f"  did you mean 'ring'? {AR_KNOWN}",
    ),
    "ladder n51": (
        "error: no file and no shipped ladder is called 'n51'",
        "  did you mean 'n512'? shipped: n512",
    ),
    # sizes
    "price ar -f nvl72 -M 16Mb": (
        "error: --size: 'Mb' is not a unit of size in '16Mb'",
        "  a size is in bytes, not bits: write 16MB if that is what you mean",
    ),
    "price ar -f nvl72 -M 16XB": (
        "error: --size: 'XB' is not a unit of size in '16XB'",
        f"  {WRITE_SIZE}",
    ),
    "price ar -f nvl72 -M 16us": (
        "error: --size: 'us' is not a unit of size in '16us'",
        f"  {WRITE_SIZE}",
    ),
    "price ar -f nvl72 -M 0": (
        "error: --size: a size of 0 is outside 1 byte .. 1 EB",
        f"  {PER_RANK}",
    ),
    "price ar -f nvl72 -M 0MB": (
        "error: --size: a size of 0MB is outside 1 byte .. 1 EB",
        f"  {PER_RANK}",
    ),
    "price ar -f nvl72 -M -1MB": (
        "error: --size: a size of -1MB is outside 1 byte .. 1 EB",
        f"  {PER_RANK}",
    ),
    "price ar -f nvl72 -M 1e30": (
        "error: --size: a size of 1e30 is outside 1 byte .. 1 EB",
        f"  {PER_RANK}",
    ),
    "price ar -f nvl72 -M 1e999": (
        "error: --size: '1e999' is too large for a size",
        f"  {WRITE_SIZE}",
    ),
    "price ar -f nvl72 -M nan": ("error: --size: 'nan' is not a size", f"  {WRITE_SIZE}"),
    "price ar -f nvl72 -M inf": ("error: --size: 'inf' is not a size", f"  {WRITE_SIZE}"),
    "price ar -f nvl72 -M MB,,": (
        "error: --size: an empty item in 'MB,,'",
        "  separate items with one comma, without spaces",
    ),
    # ranks
    "price ar -f nvl72 -n 100 -M 16MB": (
        "error: --ranks: 100 ranks leave a domain half full on nvl72 (nvlink 72, ib 32)",
        "  the nearest sizes that fill whole domains are 72 and 144; --per-rack 50 takes 50 of each",
    ),
    "price ar -f nvl72 -n 1": (
        "error: --ranks: a collective needs at least 2 ranks, got 1",
        "  take 2 to 2304",
    ),
    "price ar -f nvl72 -n -4": (
        "error: --ranks: a collective needs at least 2 ranks, got -4",
        "  take 2 to 2304",
    ),
    "price ar -f nvl72 -n 99999": (
        "error: --ranks: 99999 ranks do not fit: nvl72 has 2304",
        "  take at most 2304, or grow it and fill whole nodes: 100008 ranks on -f nvl72:nodes=1389",
    ),
    # algorithms that cannot run
    "price ar -f nvl72 -n 144 -M 1MB --algorithm rabenseifner": (
        (
            "error: --algorithm: rabenseifner cannot run here: needs a power-of-two rank count,"
            " got 144"
        ),
        "  price without --algorithm lists all",
    ),
    "price ar -f nvl72 -n 72 -M 1MB --algorithm hierarchical:ring/ring": (
        (
            "error: --algorithm: hierarchical cannot run here: needs a group over several tiers; 72"
            " ranks lie inside nvlink"
        ),
        "  price without --algorithm lists all",
    ),
    "price ar -f nvl72 -n 144 -M 1MB --algorithm hierarchical:ring": (
        "error: --algorithm: 'hierarchical:ring' names 1 algorithms, the group spans 2 tiers",
        "  give one for each of nvlink, ib, innermost first",
    ),
    "price ar -f nvl72 -n 144 -M 1MB --algorithm ring:ring": (
        "error: --algorithm: 'ring' takes no choice of algorithms, got ':ring'",
        "  write --algorithm ring",
    ),
    "crossover ar --algorithm ring": (
        "error: --algorithm: a crossover needs two algorithms",
        "  name two: --algorithm ring,tree",
    ),
    "explain ring p2p": (
        "error: ring is no algorithm for p2p",
        "  it computes all-reduce, all-gather, reduce-scatter",
    ),
    "explain ring ar -f nvl72": (
        "error: --size: numbers need a fabric and a size",
        "  add -f nvl72 -M 16MB, or leave both out",
    ),
    "explain ring ar -M 1MB": (
        "error: --fabric: numbers need a fabric and a size",
        "  add -f nvl72 -M 16MB, or leave both out",
    ),
    # --set
    "price ar -f nvl72 --set foo": (
        "error: --set foo: expected KEY=VALUE",
        "  write --set nvlink.alpha=1us",
    ),
    "price ar -f nvl72 --set nvlnk.alpha=1us": (
        "error: --set nvlnk.alpha=1us: unknown tier 'nvlnk'",
        "  did you mean 'nvlink'? known: nvlink, ib",
    ),
    "price ar -f nvl72 --set nvlink.alpha=5": (
        "error: --set nvlink.alpha=5: expected a time from 0.1 ns to 1 s, such as 0.5us, got 5",
        "  is the unit missing? write 5us or 5ns",
    ),
    "price ar -f nvl72 --set ib.levels.spine.oversubscription=0.5": (
        (
            "error: --set ib.levels.spine.oversubscription=0.5: expected a number from 1 to 1000,"
            " such as 2, or hop by hop, such as {uplinks: 2}, got 0.5"
        ),
    ),
    # readings
    "price ar -f nvl72 --pipelining bogus": (
        "error: --pipelining: 'bogus' is not known",
        f"  {PIPELINING}",
    ),
    "price ar -f nvl72 --pipelining 0": ("error: --pipelining: 0 is not known", f"  {PIPELINING}"),
    "price ar -f nvl72 --pipelining 2.5": (
        "error: --pipelining: '2.5' is not known",
        f"  {PIPELINING}",
    ),
    "price ar -f nvl72 --tree-beta 3": (
        "error: --tree-beta: must lie between 1 and 2, got 3.0",
        "  2 is a single port; 1 needs two ports",
    ),
    "price ar -f nvl72 --tree-beta nan": (
        "error: --tree-beta: 'nan' is not a number",
        "  write --tree-beta 1.5",
    ),
    # documents to compare
    "diff broken.json old.json": (
        "error: broken.json:2:1: not JSON: Expecting property name enclosed in double quotes",
        f"  {WRITE_JSON}",
    ),
    "diff list.json old.json": (
        "error: list.json: not a JSON document of colltool",
        f"  {WRITE_JSON}",
    ),
    "diff deep.json old.json": ("error: deep.json: not JSON: nested too deeply", f"  {WRITE_JSON}"),
    "diff binary old.json": (
        "error: binary: is not UTF-8 text, but looks like UTF-16",
        "  convert it: iconv -f UTF-16 -t UTF-8 binary > FILE",
    ),
    "diff old.json missing": (
        "error: missing: cannot be read: No such file or directory",
        "  give the path of a JSON file",
    ),
    "diff old.json directory": (
        "error: directory: is a directory, expected a JSON file",
        "  give a file in it",
    ),
    "diff old.json price.json": (
        "error: documents of different commands: colltool.ladder/1 and colltool.price/1",
        "  compare two outputs of the same command",
    ),
    "diff old.json new.json --rtol -1": (
        "error: --rtol: '-1' is not a share of at least 0",
        "  write 1% or 0.01",
    ),
    "diff old.json new.json --rtol nan": (
        "error: --rtol: 'nan' is not a share of at least 0",
        "  write 1% or 0.01",
    ),
    "ladder --check price.json": (
        "error: documents of different commands: colltool.price/1 and colltool.ladder/1",
        "  compare two outputs of the same command",
    ),
    "ladder --check missing": (
        "error: missing: cannot be read: No such file or directory",
        "  give the path of a JSON file",
    ),
    # fabric files
    "price ar -f empty.yaml": (f"error: empty.yaml:3:8: {NO_TIERS}",),
    "fabric check empty.yaml directory": (
        f"error: empty.yaml:3:8: {NO_TIERS}",
        "error: directory: is a directory, expected a fabric file",
        "  give a file in it",
    ),
}

# command line -> what stderr must speak of; the wording around it is free
SAYS: dict[str, tuple[str, ...]] = {
    "": ("Usage: colltool", "price"),
    "--bogus": ("no option '--bogus'", "colltool -h"),
    "price": ("PRIM is missing", "ar, ag, rs", "price -h"),
    "price ar": ("--fabric is missing", "nvl72", "colltool fabric list"),
    "price ar extra -f nvl72": ("(extra)", "price -h"),
    "price ar -f nvl72 --fromat json": (
        "no option '--fromat'",
        "did you mean '--format'?",
        "price -h",
    ),
    "price ar -f nvl72 -n many": ("--ranks: 'many' is not a whole number", "-n 8"),
    "price ar -f nvl72 --top 0": ("--top", "1"),
    "price ar -f nvl72 --format jsom": (
        "--format: 'jsom'",
        "did you mean 'json'?",
        "table, json, csv, markdown",
    ),
    "price ar -f nvl72 --placement weird": ("--placement", "weird", "packed", "scattered"),
    "price ar -f nvl72 --phases weird": ("--phases", "weird", "sequential", "pipelined"),
    "price ar -f nvl72 --ring-alpha max": ("--ring-alpha", "max", "mean", "worst"),
    "price ar -f nvl72 --order up": ("--order", "up", "outer-first", "inner-first"),
    "price ar -f nvl72 --tree-beta x": ("--tree-beta", "number"),
    "breakdown ar -f nvl72": ("--size is missing", "add -M 16MB"),
    "diff": ("OLD is missing", "diff -h"),
    "diff old.json": ("NEW is missing", "diff -h"),
    "fabric": ("Usage: colltool fabric", "list", "show", "check", "schema"),
    "fabric lst": ("'lst'", "list"),
    "fabric check": ("FILE... is missing", "fabric check -h"),
    "explain rng": ("no algorithm 'rng'", "did you mean 'ring'?"),
    "price ar -f nvl72 --set nvlink.alfa=1us": ("unknown key 'alfa'", "did you mean 'alpha'?"),
    "price ar -f nvl72 -n 144 -M 1MB --algorithm hierarchical:ring/rong": (
        "no algorithm 'rong'",
        "did you mean 'ring'?",
    ),
}

# the same for input that has to be refused with advice, however it is worded: each was once taken
# silently, or answered with words that do not help
REFUSED: dict[str, tuple[str, ...]] = {
    "price ar -f nvl72 -M 1MB, ": ("1MB,",),
    "price ar -f nvl72 -M 1MB --algorithm= ": ("--algorithm",),
    "price ar -f nvl72 -M 1MB --algorithm ,": ("--algorithm",),
    "price ar -f nvl72 -n 144 -M 1MB --algorithm hierarchical:": ("--algorithm", "hierarchical"),
    "price ar -f nvl72 --pipelining \N{SUPERSCRIPT TWO}": ("pipelining", "asymptotic, optimal"),
    "breakdown ar -f nvl72 -M 1MB,2MB": ("one size",),
    "breakdown ar -f nvl72 -M 1MB --algorithm ring,tree": ("one algorithm",),
    "explain ring:foo": ("choice", "-f"),
    "explain hierarchical:foo ar": ("choice", "-f"),
    "explain ring -n 5": ("fabric",),
    "explain ring --set nvlink.alpha=1us": ("fabric",),
    "diff object.json object.json": ("object.json",),
    "ladder --check object.json": ("object.json",),
    "ladder --rtol 0.5": ("--check",),
    "ladder directory": ("directory: is a directory",),
    # one where elsewhere several: what to type instead
    "price ar -f nvl72 -f star512": ("--fabric: given 2 times", "colltool diff"),
    "price ar -f nvl72 -n 8,64,512": ("--ranks: takes one number here", "per call"),
    "verify -n 8,64": ("--ranks: takes one number here", "per call"),
    "validate log.csv -f dgx-h100 -n 8,64": ("--ranks: takes one number here",),
    # numbers beyond all use
    f"price ar -f nvl72 -n {'9' * 5000}": ("--ranks: expected",),
    f"price ar -f nvl72 -M 1MB --top {'9' * 400}": ("--top: expected 1 to 1000000",),
    f"price ar -f nvl72 --pipelining {'9' * 400}": ("--pipelining: 1000000001 is not known",),
    f"price ar -f nvl72 --tree-beta {'9' * 400}": ("--tree-beta: ",),
    "verify --segments=999999999999": ("--segments: expected 1 to 65536",),
    "verify --segments 0": ("--segments: expected 1 to 65536",),
    "contention -f star512 --group 9999999999999": ("--group: ", "at most 512"),
    "contention -f star512 --group 8 --zipf inf": ("--zipf: 'inf' is not a number",),
    "export nccl-tuner -f dgx-h100 -n 8,x": ("--ranks: 'x' is not a whole number",),
    "export nccl-tuner -f dgx-h100 --channels many": ("--channels: 'many' is not a whole number",),
    # shares
    "diff old.json new.json --rtol 10": ("--rtol: '10' is 1000%", "write 10%"),
    "validate log.csv -f dgx-h100 --max-mape 0": (
        "--max-mape: '0' is not a positive share",
        "15% or 0.15",
    ),
    # outputs that are none
    "price ar -f nvl72 -M 1MB -o=": ("--output: is not the name of a file",),
    "export astra-sim -f dgx-h100 -o -": (
        "--output: two files do not go to the terminal",
        "-o astra",
    ),
    "export astra-sim -f dgx-h100 -o=": ("--output: is not the name of a file",),
    "calibrate log.csv -f dgx-h100 -o -": ("--output: a fabric file ends in .yaml",),
    # documents with what no output holds
    "diff nan.json old.json": ("nan.json:1:", "NaN cannot be compared"),
    "diff minus.json old.json": ("minus.json:1:", "-Infinity cannot be compared"),
    "diff inf.json old.json": ("inf.json:1:", "1e999 is too large"),
    "diff huge.json old.json": ("huge.json:1:", "too large to compare"),
    "diff half.json old.json": ("half.json:1:", "surrogate"),
    "ladder --check nan.json": ("nan.json:1:", "NaN cannot be compared"),
}


@pytest.fixture
def unusable(folder: Path) -> Path:
    """What cannot be read, beside the documents that can."""
    Path("directory").mkdir()
    Path("broken.json").write_text("{\n")
    Path("list.json").write_text("[]")
    Path("object.json").write_text("{}")
    Path("deep.json").write_text("[" * 100_000)
    for name, value in (
        ("nan", "NaN"),
        ("minus", "-Infinity"),
        ("inf", "1e999"),
        ("huge", "9" * 5000),
        ("half", '"\\ud800"'),
    ):
        Path(f"{name}.json").write_text(f'{{"schema": "colltool.ladder/1", "x": [1, {value}]}}')
    Path("binary").write_bytes(b"\xff\xfe\x00")
    Path("empty.yaml").write_text("schema: colltool.fabric/1\nname: x\ntiers: []\n")
    return folder


def split(line: str) -> list[str]:
    """Words, where ``--option= `` gives an empty value."""
    return [
        word
        for part in line.split()
        for word in ([part[:-1], ""] if re.fullmatch("--?[a-z]+=", part) else [part])
    ]


@swept("line", EXACT)
def test_what_stderr_says(line: str, run: Any, unusable: Path) -> None:
    done = run(*split(line))
    assert done.err.splitlines() == list(EXACT[line])
    assert (done.code, done.out) == (2, "")


@swept("line", SAYS | REFUSED)
def test_what_stderr_speaks_of(line: str, run: Any, unusable: Path) -> None:
    done = run(*split(line))
    assert (done.code, done.out) == (2, "")
    for word in (SAYS | REFUSED)[line]:
        assert word in done.err


@swept("form", ["table", "json", "csv", "markdown"])
@swept(
    "line",
    [
        "price ar -f nvl72 -n 100 -M 16MB",
        "crossover qux",
        "breakdown ar -f zzz -M 1MB",
        "ladder zzz",
        "diff old.json price.json",
        "explain rng",
        "fabric show zzz",
        "fabric check zzz",
    ],
)
def test_stdout_is_empty_in_every_format(line: str, form: str, run: Any, unusable: Path) -> None:
    done = run(*split(line), "--format", form)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")


@swept("size", ["16mb", "16gb", "16kb", "16Kib", "16mib", "16Mb", "16mB", "16MIB"])
def test_the_size_that_is_advised_can_be_typed(size: str, run: Any) -> None:
    done = run("price", "ar", "-f", "star512", "-M", size)
    assert done.code == 2
    advice = done.err.splitlines()[1]
    offered = re.findall(r"\b16[A-Za-z]*B\b", advice)
    assert offered, advice
    for text in offered:
        assert parse_size(text) > 0


@pytest.mark.parametrize(
    "line",
    [
        "explain rabenseifner ar -f nvl72 -n 144 -M 1MB",
        "explain hierarchical ar -f nvl72 -n 72 -M 1MB",
    ],
)
def test_a_reason_is_given_once(line: str, run: Any) -> None:
    done = run(*split(line))
    assert (done.out + done.err).count("cannot run here") <= 1
    assert "power-of-two" in done.out + done.err or "several tiers" in done.out + done.err


def test_problems_of_a_ladder_come_in_the_order_of_the_file(run: Any, unusable: Path) -> None:
    Path("ladder.yaml").write_text(
        "schema: wrong\nsize: 16\nrungz: []\nrungs:\n  - {primitive: qux, fabric: zzz}\n"
    )
    places = [
        int(match)
        for match in re.findall(
            r"^error: ladder\.yaml:(\d+)", run("ladder", "ladder.yaml").err, re.MULTILINE
        )
    ]
    assert len(places) == 4
    assert places == sorted(places)


def test_no_message_shows_python(run: Any, unusable: Path) -> None:
    for line in (*EXACT, *SAYS, *REFUSED):
        err = run(*split(line)).err
        assert "Traceback" not in err
        assert not re.search(r"\b(NoneType|TypeError|ValueError|KeyError|None)\b", err), err
        assert not re.search(r"[ \t]\n", err), "blanks at the end of a line"
