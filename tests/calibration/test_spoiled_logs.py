"""Logs of every format, spoiled at random: validate and calibrate make a result or a ColltoolError
of each, and nothing else.

``python tests/calibration/test_spoiled_logs.py FIRST LAST`` tries the seeds of a range.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from pathlib import Path

import pytest
from effort import some

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.calibration.calibrate import Calibration, FitRequest, calibrate
from colltool.diagnosis.results import Validation
from colltool.diagnosis.validate import validate
from colltool.fabric.load import fabric_data, load_fabric, read_fabric
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements
from colltool.render.data_formats import to_json
from colltool.render.dispatch import document

LOGS = sorted((Path(__file__).parent.parent / "logs" / "logs").iterdir())
TEXTS = [path.read_text() for path in LOGS]
WORDS = [
    "0",
    "-1",
    "1e-300",
    "1e300",
    "nan",
    "inf",
    "9" * 30,
    "0.0000001",
    "1e9",
    "8",
    "N/A",
    "",
    "x",
    "٥",
    "1" * 400,
    "-0.0",
    "1e-9",
]
LINES = [
    "",
    "#",
    "garbage",
    "{",
    "}",
    "\0",
    "# OSU MPI Allreduce Latency Test v7",
    "# Size       Latency (us)",
    "collective,ranks,bytes,time_us",
]
FABRICS = ("dgx-h100", "star512", "tpu-v4-512", "nvl72", "mi300x")
CALIBRATED = 14  # points at most, so that a fit is quick
STATED: list[dict[str, object]] = [
    {},
    {"ranks": 8},
    {"ranks": 4},
    {"ranks": 16},
    {"primitive": Primitive.ALL_REDUCE},
    {"primitive": Primitive.ALL_GATHER},
    {"ranks": 8, "primitive": Primitive.ALL_REDUCE},
]
ANYTHING = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def spoiled(chance: random.Random) -> str:
    """A log with a few of its numbers, characters and lines changed."""
    text = chance.choice(TEXTS)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        text = chance.choice(
            (_number, _number, _scaled, _scaled, _character, _line, _spliced, _cut)
        )(text, chance)
    return text


def _number(text: str, chance: random.Random) -> str:
    found = list(ANYTHING.finditer(text))
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(WORDS) + text[one.end() :]


def _scaled(text: str, chance: random.Random) -> str:
    """Every number of a line, or of a column of lines, by one factor."""
    lines, factor = text.split("\n"), 10.0 ** chance.uniform(-12, 12)
    first = chance.randrange(len(lines))
    for at in range(first, min(first + chance.choice((1, 3, 30)), len(lines))):
        words, column = re.split(r"(\s+|,)", lines[at]), chance.randrange(16)
        for i, word in enumerate(words):
            if ANYTHING.fullmatch(word) and (i // 2 == column or chance.random() < 0.1):
                words[i] = f"{float(word) * factor:.6g}"
        lines[at] = "".join(words)
    return "\n".join(lines)


def _character(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return (
        text[:at]
        + chance.choice(" \t\n\r\"',;#[]<>{}:.-+eE\x1b\x9b\u202e\ufeff0")
        + text[at + chance.randrange(2) :]
    )


def _line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    lines[at : at + chance.randrange(3)] = [
        chance.choice([*LINES, lines[at], chance.choice(lines)])
    ]
    return "\n".join(lines)


def _spliced(text: str, chance: random.Random) -> str:
    other = chance.choice(TEXTS)
    return text[: chance.randrange(len(text) + 1)] + other[chance.randrange(len(other)) :]


def _cut(text: str, chance: random.Random) -> str:
    return (
        text[: chance.randrange(len(text) + 1)]
        if chance.random() < 0.5
        else text[chance.randrange(len(text) + 1) :]
    )


def outcomes(
    text: str, chance: random.Random, folder: Path
) -> list[Validation | Calibration | ColltoolError]:
    """What reading, validate and calibrate make of a log."""
    path = folder / "spoiled.log"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    found = None
    for stated in STATED:
        try:
            found = read_logs([path], in_place=chance.random() < 0.2, **stated)  # type: ignore[arg-type]
            break
        except ColltoolError as error:
            refused = error
    if found is None:
        return [refused]
    name = chance.choice(FABRICS)
    results: list[Validation | Calibration | ColltoolError] = []
    for one in found.series[:2]:
        few = Measurements(
            (one._replace(nodes=None, ranks=chance.choice((one.ranks, 8))),), found.skipped
        )
        try:
            results.append(validate(load_fabric(name), few))
            if len(one.points) <= CALIBRATED:
                results.append(calibrate(fabric_data(name), few, FitRequest(), "spoiled"))
        except ColltoolError as error:
            results.append(error)
    return results


def check(seed: int, folder: Path) -> str:
    """What came of one seed, in a word; whatever it was, it is sound."""
    chance = random.Random(seed)
    kinds = []
    for result in outcomes(spoiled(chance), chance, folder):
        kinds.append(type(result).__name__)
        if isinstance(result, ColltoolError):
            assert all(one.what for one in getattr(result, "problems", [result]))
            continue
        if isinstance(result, Validation):
            points = [point for one in result.series for point in one.points]
            assert all(
                0 < point.predicted_s < float("inf") and point.relative_error > -1
                for point in points
            )
        else:
            assert read_fabric(result.text, "found.yaml") == result.fabric
            assert not re.search(r"\b(NaN|Infinity)\b", to_json(document(result)))
            json.loads(to_json(document(result)))
    return " ".join(kinds)


@pytest.mark.alike(1)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", range(0, 240, 80))
def test_a_spoiled_log_is_a_result_or_an_error_of_ours(first: int, tmp_path: Path) -> None:
    kinds = {
        kind
        for seed in some(range(first, first + 40), 12)
        for kind in check(seed, tmp_path).split()
    }
    assert "Validation" in kinds  # not all are refused
    assert kinds & {"ColltoolError", "ManyErrors"}


if __name__ == "__main__":
    import traceback
    import warnings
    from collections import Counter

    warnings.simplefilter("error")
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for number in range(int(sys.argv[1]), int(sys.argv[2])):
            try:
                seen[check(number, Path(name))] += 1
            except Exception:
                print(f"--- seed {number}")
                traceback.print_exc(limit=-4, file=sys.stdout)
                seen["FAILED"] += 1
    print(seen)
