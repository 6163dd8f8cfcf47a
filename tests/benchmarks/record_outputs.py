"""Outputs of some 800 commands, kept outside the repository, to see that a change of form moves no byte.

    python tests/benchmarks/record_outputs.py FOLDER              write each command's output into FOLDER
    python tests/benchmarks/record_outputs.py FOLDER --compare    run all again, show what differs, exit 1 where something does
    ... --only plan                                               only commands that contain this word

The commands: every one of README, the guides and the help's examples, and a matrix over shipped fabrics, primitives and
formats. Set PYTHONPATH to record another checkout.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from multiprocessing import Pool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from documents import DOCUMENTS, files, shown

FORMATS = ("table", "json", "csv", "markdown", "html")
PRIMITIVES = ("ar", "ag", "rs", "a2a", "bc", "reduce", "p2p")
JOBS = ("llama3-8b", "llama3-70b", "mixtral-8x7b", "deepseek-v3")
PLANNED_ON = ("dgx-h100", "nvl72", "mi300x-cluster", "tpu-v5p")
IN_EVERY_FORMAT = (
    "price ar -f nvl72 -n 144 -M 16MB",
    "price ar -f nvl72 -n 144 -M 1MB,16MB,1GB",
    "price a2a -f tpu-v4-512 -M 64MiB",
    "price ar -f dgx-h100 -n 64",
    "price ar -f dgx-h100 -n 64 -M 64MB --slow-rank 0.8",
    "price ar -f hgx-h200 -n 4 -M 64KB --library vllm@0.24.0",
    "price dispatch -f dgx-h100 -n 64 --library deepep@1 --tokens 128 --top-k 8 --hidden 7168 --experts 256",
    "crossover ar -f dgx-h100 -n 64",
    "crossover ar -f dgx-b200 -n 8 --library vllm",
    "breakdown ar -f nvl72 -n 144 -M 16MB",
    "sweep ar -f dgx-h100 -n 8,64 -M 1MB,1GB --vary ib.bandwidth=25GB/s,50GB/s",
    "sensitivity ar -f dgx-h100 -n 64 -M 32MB --vary eta.beta=0.4:1 --samples 500",
    "compare ar -f dgx-h100 -f nvl72 -n 8,64 -M 1MB,1GB",
    "compare ar -f dgx-h100 --vary ib.bandwidth=25GB/s,50GB/s -n 64",
    "ladder",
    "explain ring ar -f nvl72 -n 72 -M 16MB",
    "explain ring",
    "verify -n 8",
    "verify ar -f dgx-h100 -n 16",
    "contention -f torus512 --group 6",
    "contention -f star512 --group 16 --count 1 --hot 3 -M 1MB",
    "serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --engine vllm@0.24.0",
    "serve llama3-70b -f hgx-h200 --search -n 16",
    "reshard llama3-8b -f dgx-h100 --from 16 --to 16 --replica 8",
    "library list",
    "library show vllm@0.24.0",
    "library show nccl",
    "diff --library sglang@0.5.10 sglang@0.5.14 -f dgx-b200",
    "fabric list",
    "fabric draw nvl72",
    "fabric check nvl72 mi300x",
    "fabric size --endpoints 1024 --radix 64 --oversubscription 2",
    "fabric size --fat-tree 4 --price currency=USD --price switch=30000",
    "fabric size --endpoints 4096 --radix 64 --topology dragonfly",
    "job list",
    "job show llama3-70b -n 512",
    "job check llama3-70b deepseek-v3",
    "plan mixtral-8x7b -f dgx-h100 -n 128",
    "plan llama3-70b -f dgx-h100 -n 256 --memory",
    "plan llama3-70b -f dgx-h100 -f nvl72 -n 144",
    "plan mixtral-8x7b -f dgx-h100 -n 128 --search --keep pp=4 --keep tp=1",
    "report -f mi300x -p ar -M 16MB",
    "doctor nccl.log -f dgx-h100",
    "validate measured.csv -f dgx-h100",
    "calibrate measured.csv -f dgx-h100",
)
REFUSED = (
    "price ar -f nosuch -M 1MB",
    "price ar -f nvl72 -M 1XB",
    "price ar -f nvl72 -n 5000 -M 1MB",
    "price ar -f nvl72 -M 1MB -a rign",
    "price zz -f nvl72 -M 1MB",
    "price ar -f nvl72 -M 1MB --set nvlink.bandwith=1GB/s",
    "price ar -f nvl72 -M 1MB --set nvlink.bandwidth=0",
    "price ar -f nvl72 --top 3",
    "plan nosuch -f dgx-h100",
    "plan llama3-70b -f dgx-h100 --set layout.tp=3",
    "sweep ar -f nvl72",
    "compare ar -f nvl72",
    "explain nosuch",
    "serve llama3-70b -f dgx-h100 --engine nosuch",
    "fabric check nosuch.yaml",
    "library show nosuch",
    "doctor nosuch.log",
    "nosuch",
    "price",
    "price ar -f nvl72 -M",
)
EXAMPLE = re.compile(r"^ +colltool (.+)$", re.MULTILINE)


def help_examples() -> Iterator[str]:
    """Commands that the help of each command shows."""
    package = Path(__import__("colltool").__file__ or "").parent
    for path in sorted(package.rglob("*.py")):
        yield from EXAMPLE.findall(path.read_text(encoding="utf-8"))


def shipped_fabrics() -> list[str]:
    folder = Path(__file__).parent.parent.parent / "fabrics"
    return sorted(path.stem for path in folder.glob("*.yaml"))


def matrix() -> Iterator[str]:
    """Commands over fabrics, primitives, jobs and formats."""
    for fabric in shipped_fabrics():
        yield f"fabric show {fabric}"
        yield f"crossover ar -f {fabric}"
        yield f"price ar -f {fabric} -M 16MB --format json"
        yield f"price ar -f {fabric} --ideal -M 1KB,1GB --format csv"
        for primitive in PRIMITIVES:
            yield f"price {primitive} -f {fabric} -M 1MB"
        yield f"breakdown ar -f {fabric} -M 64MB"
    for fabric in PLANNED_ON:
        for job in JOBS:
            yield f"plan {job} -f {fabric}"
    for command in IN_EVERY_FORMAT:
        for form in FORMATS:
            yield f"{command} --format {form}"


def commands() -> list[str]:
    """All of them, each once, in a fixed order."""
    found = []
    for document in DOCUMENTS:
        for command in shown(document.read_text(encoding="utf-8")):
            words = re.sub(r" \| (head|tail) -\d+$", "", command.line)
            found.append(words.removeprefix("colltool "))
    found += [*help_examples(), *matrix(), *REFUSED]
    writes = re.compile(r" (-o|--output|--html|--plot|--svg)( |$)|[<>|]| init |^mcp|\.\.\.")
    return [words for words in dict.fromkeys(found) if not writes.search(words)]


def output_of(words: str) -> str:
    """Exit code, stdout and stderr of a command that runs in this process, in a folder with the documents' files."""
    from colltool import __version__
    from colltool.commands.app import run

    os.environ.pop("COLUMNS", None)
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    hook = sys.excepthook
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in files().items():
            Path(name).write_text(text, encoding="utf-8")
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = run(shlex.split(words))
            except Exception as error:
                code = f"{type(error).__name__}: {error}"
        os.chdir("/")
    sys.excepthook = hook
    printed = []
    for stream in (out, err):
        stream.flush()
        text = stream.buffer.getvalue().decode()
        # what differs from run to run and from version to version
        printed.append(text.replace(folder, "FOLDER").replace(__version__, "VERSION"))
    return f"$ colltool {words}\nexit {code}\n--- stdout\n{printed[0]}\n--- stderr\n{printed[1]}\n"


def file_name(words: str) -> str:
    start = re.sub(r"\W+", "-", words)[:60]
    return f"{start}-{hashlib.sha256(words.encode()).hexdigest()[:8]}.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [words for words in commands() if asked.only in words]
    if asked.compare:
        chosen = [words for words in chosen if (folder / file_name(words)).exists()]
    differing = 0
    with Pool(asked.workers, maxtasksperchild=100) as pool:
        for words, text in zip(chosen, pool.imap(output_of, chosen, chunksize=4), strict=True):
            path = folder / file_name(words)
            if not asked.compare:
                path.write_text(text, encoding="utf-8")
                continue
            old = path.read_text(encoding="utf-8")
            if text != old:
                differing += 1
                lines = difflib.unified_diff(
                    old.splitlines(), text.splitlines(), "before", "now", lineterm="", n=1
                )
                print(f"\n$ colltool {words}", *list(lines)[:20], sep="\n")
    print(
        f"{len(chosen)} commands, {differing} differ"
        if asked.compare
        else f"{len(chosen)} commands recorded"
    )
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
