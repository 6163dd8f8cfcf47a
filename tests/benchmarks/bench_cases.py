"""Cases as people bring them: commands on files of a folder, and what their answers must say.

    python tests/benchmarks/bench_cases.py FOLDER [KIND_OR_ID ...]

FOLDER has a ``cases.csv`` with a row a case: ``id``, ``kind``, ``command`` (run in the folder), the
regular expressions ``must_match`` and ``must_not_match``, and ``exit`` (``0|1``: either). An answer is
compared without the frames of tables, with one space for any white space, whatever the case. The
table shows how many are right by kind; those that are not are listed with what fails. Exit code 1 if
any is wrong. Commands may write files, so the folder is copied first.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FLAGS = re.IGNORECASE | re.DOTALL
FRAMES = re.compile(r"\+[-+]+\+|\|")
TIMEOUT_S = 120


def failures(case: dict[str, str], folder: Path) -> list[str]:
    """What is wrong with the answer to a case; empty if it is right."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            ["bash", "-c", case["command"]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return [f"no answer in {TIMEOUT_S} s"]
    answer = " ".join(FRAMES.sub(" ", done.stdout + done.stderr).split())
    found = []
    if case["must_match"] and not re.search(case["must_match"], answer, FLAGS):
        found.append(f"does not say {case['must_match']}")
    unwanted = case["must_not_match"] and re.search(case["must_not_match"], answer, FLAGS)
    if unwanted:
        found.append(f"says '{unwanted[0][:60]}'")
    if case["exit"] and str(done.returncode) not in case["exit"].split("|"):
        found.append(f"exit {done.returncode}, not {case['exit']}")
    return found


def main(folder: Path, wanted: Sequence[str]) -> int:
    with (folder / "cases.csv").open(encoding="utf-8", newline="") as rows:
        cases = list(csv.DictReader(rows))
    if wanted:
        cases = [case for case in cases if case["id"] in wanted or case["kind"] in wanted]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "cases"
        shutil.copytree(folder, copy)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda case: failures(case, copy), cases))
    right: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for case, wrong in zip(cases, results, strict=True):
        total[case["kind"]] += 1
        right[case["kind"]] += not wrong
        if wrong:
            print(f"{case['id']:<12} {case['command']}\n    {'; '.join(wrong)}")
    print("\nkind   right  of")
    for kind in sorted(total):
        print(f"{kind:<6} {right[kind]:>5} {total[kind]:>3}")
    print(f"{'all':<6} {sum(right.values()):>5} {len(cases):>3}")
    return int(sum(right.values()) < len(cases))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(str(__doc__))
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
