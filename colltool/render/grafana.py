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


def gauge_labels(result: Expected) -> dict[str, str]:
    """The labels that all gauges of an answer share."""
    return {
        "fabric": result.fabric,
        "ranks": str(result.group.ranks),
        "share": f"{result.share:g}",
    }


def board_lines(result: Expected) -> Iterator[str]:
    """The board as JSON, to import in Grafana."""
    parts = json.loads(_FILE.read_text(encoding="utf-8"))
    labels = [f"{key}={json.dumps(value)}" for key, value in gauge_labels(result).items()]
    choices = []
    for size in sorted({int(size.bytes) for size in result.sizes}, reverse=True):
        choices.append(f"{binary_size(size)} : {size}")
    words = {
        "title": machine_text(result),
        "keepers": keepers_text(result.share),
        "query": ",".join(choices),
        "machine": ",".join(labels),
        "expected": EXPECTED_BUSBW,
        "floor": FLOOR_BUSBW,
        "supported": FLOOR_SUPPORTED,
        "measured": MEASURED_BUSBW,
        "busbw": BUSBW_METRIC,
        "micro": TIME_METRIC,
    }
    panels = _filled(parts["first"], words)
    for largest in result.largest:
        panels += _filled(parts["test"], words | _words_of_test(largest))
    panels += _filled(parts["last"], words)
    top = 0
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
        grid = panel["gridPos"]
        grid["y"] = top
        # the next one begins a row
        if grid["x"] + grid["w"] == _WIDTH:
            top += grid["h"]
    board = _filled(parts["board"], words) | {"panels": panels}
    yield from json.dumps(board, indent=2).splitlines()


def _filled(part: Any, words: Mapping[str, str]) -> Any:
    """A part of the board with the machine's words."""
    text = json.dumps(part)
    for word, meaning in words.items():
        # escaped as inside a string of JSON
        text = text.replace(f"@{word}@", json.dumps(meaning)[1:-1])
    return json.loads(text)


def _words_of_test(largest: ExpectedSize) -> dict[str, str]:
    """The words of a test's panels; ``largest``: at its largest size, of which the alert is.

    The size of Inspector's samples is busbw times time over the factor of the collective, as their
    label is a bucket; one counts as the expected size that it is nearest to, sizes doubling.
    """
    size = int(largest.bytes)
    factor = busbw_factor(largest.primitive, largest.ranks)
    return {
        "test": largest.test,
        "bytes": str(size),
        "size": binary_size(size),
        # Inspector writes AllReduce where nccl-tests has all_reduce
        "collective": largest.test.replace("_", "_?"),
        "ranks": str(largest.ranks),
        # GB/s times microseconds to bytes
        "factor": f"{1e3 / factor:.6g}",
    }
