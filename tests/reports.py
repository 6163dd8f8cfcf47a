"""Reports with everything on them, small enough for tests: two fabrics, a job, logs, a trace, and
texts that look like markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import machine_logs
import tracing

import colltool
from colltool.analysis.report import Report

EVIL = "<script>alert(1)</script> \"'&{{ 7*7 }} <img src=x onerror=alert(2)> \u202e"
DATASHEET = Path(__file__).parent / "data" / "datasheet" / "dgx-h100.yaml"
FOUR_TO_ONE = "ib.levels.spine.oversubscription=1,4"


def logs(folder: Path, device: str = machine_logs.H100, group: str = "default_pg") -> list[Path]:
    """A log of eight H100 and a trace of one of two ranks."""
    log = machine_logs.log(
        folder / "node.log", machine_logs.time_on(), ("ar", "a2a"), device=device
    )
    called = {"Process Group Description": group}
    events = [
        tracing.call(0, 300, [0, 1], **called),
        tracing.kernel(100, 500),
        tracing.call(700, 300, [0, 1], **called),
    ]
    return [log, tracing.write(folder / "rank0.json", events)]


def small(folder: Path, **more: Any) -> Report:
    """A page about 64 H100 by their datasheet, which are quick to price, with a spine of 1:1 and of
    4:1."""
    asked = {
        "vary": FOUR_TO_ONE,
        "overrides": ["ib.levels.leaf.group=4"],
        "job": "llama3-70b",
        "ranks": 64,
        "logs": logs(folder),
    }
    return colltool.report(DATASHEET, **({"primitives": ("ar", "a2a")} | asked | more))


def page(folder: Path) -> Report:
    """The same with one primitive: a section more is drawn as this one is."""
    return small(folder, primitives="ar")


def hostile(folder: Path) -> Report:
    """A page whose every text, and every name of a file, tries to be markup."""
    import yaml

    fabric = yaml.safe_load(
        (Path(colltool.__file__).parent.parent / "fabrics" / "dgx-h100.yaml").read_text()
    )
    fabric |= {"description": EVIL, "notes": [EVIL], "source": {"launch_overhead": EVIL}}
    fabric["tiers"][0]["source"]["alpha"] = EVIL
    place = folder / "<b onclick=alert(3)>"
    place.mkdir()
    (place / "x.yaml").write_text(yaml.safe_dump(fabric))
    job = {
        "schema": "colltool.job/1",
        "name": "evil",
        "description": EVIL,
        "layout": {"dp": 8},
        "calls": [
            {"primitive": "ar", "group": {"ranks": 8, "stride": 1}, "size": "64MB", "count": 3}
        ],
    }
    return colltool.report(
        place / "x.yaml",
        job=job,
        ranks=8,
        primitives="ar",
        logs=logs(place, device=f"NVIDIA H100 {EVIL}"[:60], group=EVIL),
    )
