"""Real logs with known causes, as they were pasted: what doctor says first of each, and how often
that is right.

``python tests/benchmarks/bench_logs.py FOLDER``: FOLDER/cases.csv has a row a log or a pattern of
logs, with columns file, true_cause and options; a cause that begins with "healthy" is no cause.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR
from colltool.logs.read import read_logs

# what a person's words mean in doctor's; the first that matches
CAUSES = (
    (r"format sample", "a format"),
    (r"^healthy", "healthy"),
    (r"GPUDirect|GDR", "gpudirect network"),
    (r"bad host|slow (node|host)", "network slow-rank"),
    (r"racks? collapse|switch of protocol|halves|collapse from", "collapse"),
    (r"^same", "collapse"),
    (r"TCP|socket", "sockets"),
    (r"NVLS", "nvls-off"),
    (r"network", "network rails"),
    (r"path|topology", "gpudirect network sockets"),
)


def meant(words: str) -> str:
    return next((name for pattern, name in CAUSES if re.search(pattern, words, re.IGNORECASE)), "")


def said(files: list[str], options: str) -> tuple[str, float]:
    """``healthy``, the first cause, ``unknown`` or ``refused``, and the seconds that it took."""
    start = time.perf_counter()
    line = [
        sys.executable,
        "-m",
        "colltool",
        "doctor",
        *files,
        *shlex.split(options),
        "--format",
        "json",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    spent = time.perf_counter() - start
    if done.returncode not in (0, 1):
        return "refused", spent
    result = json.loads(done.stdout)
    if result["ok"]:
        return "healthy", spent
    causes = [cause["name"] for finding in result["findings"] for cause in finding["causes"]]
    return (causes or ["unknown"])[0], spent


def read(file: str) -> str:
    """Whether a sample of a format is read, with what it does not say."""
    for ranks, primitive in ((None, None), (36, None), (8, AR)):
        with suppress(ColltoolError):
            return str(len(read_logs([file], ranks=ranks, primitive=primitive).series) or "refused")
    return "refused"


def cases(folder: Path, *, stated: bool) -> Iterator[tuple[str, str, str]]:
    for row in csv.DictReader((folder / "cases.csv").open()):
        options = re.sub(r"[\[\]]", "", row["options"]) if stated else ""
        for file in sorted(folder.glob(row["file"])):
            yield str(file), row["true_cause"], options


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--stated", action="store_true", help="with the options that the case gives"
    )
    asked = parser.parse_args()
    count: Counter[tuple[str, str]] = Counter()
    for file, words, options in cases(asked.folder, stated=asked.stated):
        truth = meant(words)
        found, _ = (read(file), 0.0) if truth == "a format" else said([file], options)
        right = found in truth.split() or (truth == "a format" and found != "refused")
        kind = "a format" if truth == "a format" else "healthy" if truth == "healthy" else "sick"
        count[kind, "right" if right else "refused" if found == "refused" else "wrong"] += 1
        if not right:
            print(
                f"{Path(file).parent.name}/{Path(file).name[:60]:60}  true:"
                f" {truth or words[:40]:28} said: {found}"
            )
    for kind in ("sick", "healthy", "a format"):
        all_ = sum(n for (of, _), n in count.items() if of == kind)
        right, refused = count[kind, "right"], count[kind, "refused"]
        print(
            f"{kind:8} {all_:4} logs: right {right:4} ({right / max(all_, 1):.0%}), refused"
            f" {refused}"
        )


if __name__ == "__main__":
    sys.exit(main())
