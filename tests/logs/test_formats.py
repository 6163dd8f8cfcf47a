"""A new log format is a module and a row of FORMATS, and then an example here, a line of the guide
and a word of the help: whichever is missing is named."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path
from typing import NamedTuple

from swept import swept

import colltool.logs
from colltool.base.primitives import AR, P2P, Primitive
from colltool.logs.log_file import Log
from colltool.logs.read import FORMATS, read_logs
from colltool.logs.records import Format

LOGS = Path(__file__).parent / "logs"
ARGS = {"Count": 1024, "Datatype": "ncclFloat32", "CommHash": 1}
CALL = {"name": "AllReduce", "cat": "COLL", "id": 0, "pid": 1}
INSPECTOR = {
    "header": {"n_ranks": 8, "nnodes": 1},
    "coll_perf": {"coll": "AllReduce", "coll_msg_size_bytes": 2**20, "coll_exec_time_us": 50},
}
FLIGHT = {
    "pg_config": {"0": {"ranks": "[0, 1, 2, 3]"}},
    "entries": [
        {
            "pg_id": 0,
            "profiling_name": "nccl:all_reduce",
            "duration_ms": 0.5,
            "input_sizes": [[1024, 256]],
            "input_dtypes": ["BFloat16"],
        }
    ],
}


class Example(NamedTuple):
    """A short log, and the library that ran it as it must be judged."""

    text: str
    library: str


# by the format's `known_by`; hints are those of READ_WITH
EXAMPLES = {
    "NCCL Inspector's JSON": Example(json.dumps(INSPECTOR), "NCCL"),
    "NCCL's profiler JSON": Example(
        json.dumps(
            [{**CALL, "ph": "b", "ts": 1.0, "args": ARGS}, {**CALL, "ph": "e", "ts": 100.0}]
        ),
        "NCCL",
    ),
    "NCCL Inspector's Prometheus text ('nccl_bus_bandwidth_gbs{...')": Example(
        'nccl_bus_bandwidth_gbs{n_nodes="1",nranks="4",collective="AllReduce",'
        'message_size="1-2MB"} 150\n'
        'nccl_collective_exec_time_microseconds{n_nodes="1",nranks="4",collective="AllReduce",'
        'message_size="1-2MB"} 10.4858\n',
        "NCCL",
    ),
    "PyTorch's Flight Recorder (JSON or pickle)": Example(json.dumps(FLIGHT), "NCCL"),
    "nccl-tests -J ('{')": Example((LOGS / "report.json").read_text(), "NCCL"),
    "OSU ('# OSU MPI Allreduce Latency Test', '# OSU MPI Bandwidth Test')": Example(
        "# OSU NCCL Allreduce Latency Test v7.4\n# Size    Avg Latency(us)\n1024    20.00\n"
        "# OSU NCCL Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n4194304   25000.00\n",
        "NCCL",
    ),
    "Intel MPI Benchmarks ('# Benchmarking Allreduce')": Example(
        "# Benchmarking Allreduce\n# #processes = 4\n#bytes #repetitions t[usec]\n64 10 5.00\n",
        "MPI",
    ),
    "perftest (ib_write_bw)": Example(
        "RDMA_Write BW Test\n#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
        "65536 1000 190.00 184.00 0.35\n",
        "MPI",
    ),
    "ucc_perftest ('Collective: Allreduce')": Example(
        "Collective:             Allreduce\nMemory type:            cuda\n"
        "       Count        Size                Time, us\n"
        "                                 avg         min         max\n"
        "      262144     1048576       61.20       58.10       66.90\n",
        "UCC",
    ),
    "nccom-test ('size(B) count(elems) type')": Example(
        "nccom-test allr -r 32\nsize(B) count(elems) type time:avg(us) algbw(GB/s) busbw(GB/s)\n"
        "33554432 8388608 fp32 1000.0 33.55 65.01\n",
        "",
    ),
    "nccl-tests and rccl-tests text ('#  size  count  type ...')": Example(
        (LOGS / "nccl.log").read_text(), "NCCL"
    ),
    "all_reduce_bench ('| payload | busbw | algbw |')": Example(
        "| payload | busbw | algbw |\n| 32MiB | 98.34GBps | 50.76GBps |\n", "NCCL"
    ),
    "torchcomms ('Size NCCL(auto) ...')": Example(
        "Size      NCCL(auto)  NCCLRing   Ctran\n1MB   3.65   1.71   2.53\n", "NCCL"
    ),
    "CSV ('collective,ranks,bytes,time_us')": Example(
        "collective,ranks,bytes,time_us,library\nar,4,1024,20,RCCL\n", "RCCL"
    ),
}
# without ranks of a log that lists them, and without the collective of one that names it
READ_WITH: dict[str, dict[str, int | Primitive]] = {
    "OSU ('# OSU MPI Allreduce Latency Test', '# OSU MPI Bandwidth Test')": {"ranks": 4},
    "NCCL's profiler JSON": {"ranks": 4},
    "ucc_perftest ('Collective: Allreduce')": {"ranks": 4},
    "torchcomms ('Size NCCL(auto) ...')": {"ranks": 4, "primitive": AR},
    "perftest (ib_write_bw)": {"primitive": P2P},
}
SHORT_IN_HELP = {"Intel MPI Benchmarks": "IMB"}
# what doctor reads although its help does not say so
NOT_IN_HELP = {".prom", "ucc_perftest", "-J", "Flight Recorder", "all_reduce_bench", "torchcomms"}


def test_every_format_that_a_module_makes_is_read() -> None:
    for info in pkgutil.iter_modules(colltool.logs.__path__):
        module = import_module(f"colltool.logs.{info.name}")
        for name, value in vars(module).items():
            if isinstance(value, Format):
                assert value in FORMATS, f"colltool.logs.read.FORMATS lacks {info.name}.{name}"


@swept("known_by", [format_.known_by for format_ in FORMATS])
def test_every_format_has_an_example_of_its_library(known_by: str, tmp_path: Path) -> None:
    assert known_by in EXAMPLES, f"no example of {known_by}: add one to EXAMPLES"
    example = EXAMPLES[known_by]
    path = tmp_path / "a.log"
    path.write_text(example.text)
    log = Log(str(path), example.text.encode())
    first = next(format_ for format_ in FORMATS if format_.recognises(log))
    assert first.known_by == known_by, "another format takes this example"
    hints = READ_WITH.get(known_by, {})
    series = read_logs([path], **hints).series  # type: ignore[arg-type]
    assert {row.library for row in series} == {example.library}


def test_every_format_stands_in_the_guide() -> None:
    guide = (resources.files("colltool.guides") / "measurements.md").read_text(encoding="utf-8")
    for format_ in FORMATS:
        assert format_.mention in guide, f"guides/measurements.md does not name {format_.mention}"


def test_the_guide_lists_every_format_by_version_and_nothing_else() -> None:
    guide = (resources.files("colltool.guides") / "formats.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", guide, re.MULTILINE)
    rows = [row for row in listed if row[0] != "format"]
    assert sorted(rows) == sorted((format_.mention, format_.versions) for format_ in FORMATS)


def test_every_format_stands_in_the_help() -> None:
    text = subprocess.run(
        [sys.executable, "-m", "colltool", "doctor", "--help"],
        env=os.environ | {"COLUMNS": "200", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    words = " ".join(text.split())
    for format_ in FORMATS:
        if format_.mention in NOT_IN_HELP:
            continue
        word = SHORT_IN_HELP.get(format_.mention, format_.mention)
        assert word in words, f"the help of doctor does not name {word}"
