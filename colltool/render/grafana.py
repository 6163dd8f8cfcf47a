"""A Grafana board that shows what a machine reaches, beside what is expected of it and what a gate
requires.

``board.json`` is the board of Grafana 10.4 and later with the panels of one test, words between two
``@`` standing for the machine's. Measured series are NCCL Inspector's Prometheus text
(:mod:`colltool.logs.inspector_prom`) and the gauges of ``expect --against LOG``; expected ones and
floors are the gauges of ``expect --format prometheus`` of the same arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from colltool.base.formatting import binary_size
from colltool.base.primitives import busbw_factor
from colltool.estimate.expected import Expected, ExpectedSize
from colltool.logs.inspector_prom import BUSBW_METRIC, TIME_METRIC
from colltool.render.views.expect import keepers_text, machine_text

EXPECTED_BUSBW = "colltool_expected_busbw_bytes_per_second"
FLOOR_BUSBW = "colltool_floor_busbw_bytes_per_second"
EXPECTED_SECONDS = "colltool_expected_seconds"
FLOOR_SUPPORTED = "colltool_floor_supported"
MEASURED_BUSBW = "colltool_measured_busbw_bytes_per_second"

_FILE = Path(__file__).parent / "board.json"
_WIDTH = 24
"""Cells of a row of Grafana's grid."""


def board_lines(result: Expected) -> Iterator[str]:
    """The board as JSON, to import in Grafana."""
    # a mapping: "board", and the lists of panels "first", "test" (of each test) and "last"
    parts = json.loads(_FILE.read_text(encoding="utf-8"))
    # the labels that all gauges of an answer share
    shared = {
        "fabric": result.fabric,
        "ranks": str(result.group.ranks),
        "share": f"{result.share:g}",
    }
    labels = [f"{key}={json.dumps(value)}" for key, value in shared.items()]
    all_bytes = {int(size.bytes) for size in result.sizes}
    choices = [f"{binary_size(bytes_)} : {bytes_}" for bytes_ in sorted(all_bytes, reverse=True)]
    # in the order in which board.json has them, between two @
    words = {
        "title": machine_text(result),
        "query": ",".join(choices),
        "measured": MEASURED_BUSBW,
        "machine": ",".join(labels),
        "floor": FLOOR_BUSBW,
        "keepers": keepers_text(result.share),
        "expected": EXPECTED_BUSBW,
        "busbw": BUSBW_METRIC,
        "micro": TIME_METRIC,
        "supported": FLOOR_SUPPORTED,
    }
    panels = _part_with_words(parts["first"], words)
    for largest in result.largest:
        panels += _part_with_words(parts["test"], words | _words_of_test(largest))
    panels += _part_with_words(parts["last"], words)
    # Panels stand from left to right as in board.json, some two in a row; only the rows' places are
    # ours.
    top = 0
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
        grid = panel["gridPos"]
        grid["y"] = top
        # this one ends its row
        if grid["x"] + grid["w"] == _WIDTH:
            top += grid["h"]
    board = _part_with_words(parts["board"], words) | {"panels": panels}
    yield from json.dumps(board, indent=2).splitlines()


def _part_with_words(part: Any, words: Mapping[str, str]) -> Any:
    """A part of the board, a list or mapping of JSON, with words in place of their names between two ``@``."""
    text = json.dumps(part)
    for word, meaning in words.items():
        # escaped as inside a string of JSON
        text = text.replace(f"@{word}@", json.dumps(meaning)[1:-1])
    return json.loads(text)


def _words_of_test(largest: ExpectedSize) -> dict[str, str]:
    """The words of a test's panels. The alert is for the largest size.

    Inspector's samples name no size, only a range of sizes. So the queries compute it, as
    ``bytes = busbw * time / busbw_factor``, and take the samples from 1/sqrt(2) to sqrt(2) of an
    expected size: expected sizes double.
    """
    bytes_ = int(largest.bytes)
    factor = busbw_factor(largest.primitive, largest.ranks)
    return {
        "test": largest.test,
        "bytes": str(bytes_),
        "size": binary_size(bytes_),
        # Inspector writes AllReduce where nccl-tests has all_reduce; the queries ignore case
        "collective": largest.test.replace("_", "_?"),
        "ranks": str(largest.ranks),
        # 1 GB/s times 1 us is 1000 bytes
        "factor": f"{1e3 / factor:.6g}",
    }
