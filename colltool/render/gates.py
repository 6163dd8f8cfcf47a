"""Gates in the formats of other programs (:func:`gate_text`): nccl-tests' own table, Prometheus,
Grafana, NVSentinel, aicr, and preflight scripts for Slurm and Kubernetes.

A gate is the bus bandwidth that a healthy machine keeps, for each test and size of ``expect``: in GB/s
of 10^9 bytes, as nccl-tests prints them, and rounded down. Each format has a writer, a generator of
the lines or parts of its text; ``_WRITERS`` at the end names them.

Of a size (``ExpectedSize``), ``expected_s`` and ``busbw_Bps`` are what to expect, ``slowest_s`` and
``floor_busbw_Bps`` the gate: what ``Expected.share`` of healthy machines keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, floor, prod
from operator import attrgetter
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

from colltool import __version__
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import A2A, AG, AR, RS, Primitive, busbw_factor
from colltool.estimate.expected import Expected, ExpectedSize
from colltool.render.grafana import (
    EXPECTED_BUSBW,
    EXPECTED_SECONDS,
    FLOOR_BUSBW,
    FLOOR_SUPPORTED,
    MEASURED_BUSBW,
    board_lines,
)
from colltool.render.views.expect import keepers_text, machine_text

_FILES = Path(__file__).parent / "gate_files"
_GB = 1e9
STEADY = 128 * 2**20
"""Bytes from which on measurements scatter little: scripts gate on these sizes where there are any."""
_FLOAT = 4  # bytes of an element of nccl-tests' default type
_MOST_IN_A_HOST = 16  # GPUs of the largest host with one operating system; more are a rack
_IN_A_TRAY = 4  # GPUs of a host of a rack: a compute tray of GB200 and GB300
# tests whose column "count" is the part of one rank, where all others count the whole buffer
_COUNT_OF_ONE_RANK = frozenset({AG, RS, A2A})


def gate_text(result: Expected, form: str) -> str:
    """Write a result in a format of another program; ``form`` is a key of ``_WRITERS``.

    Raises:
        ColltoolError: the result has measured logs, which only ``prometheus`` can show; or the format
            gates all_reduce at certain sizes, and the result has no such size.
    """
    if result.measured and form != "prometheus":
        what = f"{form} holds what a gate asks, not what logs reach"
        fix = f"leave {argument_text('against')} out, or write --format json"
        raise ColltoolError(what, argument="form", fix=fix)
    return "\n".join(_WRITERS[form](result)) + "\n"


def _file_text(name: str, **words: object) -> str:
    """Return the text of a file of ``gate_files``, in which ``@gate@`` is replaced by the argument
    ``gate``, and so on."""
    text = (_FILES / name).read_text(encoding="utf-8").removesuffix("\n")
    for word, meaning in words.items():
        text = text.replace(f"@{word}@", str(meaning))
    return text


def _about_comments(result: Expected) -> str:
    """Return lines of comment (``# ...``): whose numbers these are, how many machines keep them, and
    how many of the gates no measurement supports."""
    lines = [
        f"# {machine_text(result)}, by colltool {__version__}.",
        f"# The gate is what {keepers_text(result.share)} keep.",
    ]
    unsupported = [size for size in result.sizes if not size.supported]
    if unsupported:
        gates = f"{len(unsupported)} of the gates"
        if len(unsupported) == len(result.sizes):
            gates = "every gate"
        lines.append(
            f"# No measurement supports {gates}, wide for that: {unsupported[-1].interval.reason}."
        )
    return "\n".join(lines)


def _gate_text(size: ExpectedSize) -> str:
    """Return the GB/s that a gate asks, rounded down so that rounding never fails a machine.

    Three digits are kept, and all digits before the point: 473.8 is 473, 45.67 is 45.6, 3.456 is 3.45.
    """
    rate = size.floor_busbw_Bps / _GB
    step = 1.0
    while rate < 100 * step:
        step /= 10
    return f"{floor(rate / step) * step:g}"


def _nccl_tests(result: Expected) -> Iterator[str]:
    """Write nccl-tests' table: the left half expected, the right half what a gate asks.

    A size that gives a rank no whole element is left out, as nccl-tests leaves it out.
    """
    yield _about_comments(result)
    for primitive, sizes in _by_test(result.sizes).items():
        yield f"# Collective test starting: {sizes[0].test}_perf"
        yield f"#{'expected':>65}{'gate':>37}"
        half = f"{'time':>8}{'algbw':>8}{'busbw':>8} #wrong"
        yield f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8} {half} {half}"
        units = f"{'(us)':>8}{'(GB/s)':>8}{'(GB/s)':>8}       "
        yield f"#{'(B)':>11}{'(elements)':>14}{'':>26} {units} {units}"
        for size in sizes:
            ranks_of_count = size.ranks if primitive in _COUNT_OF_ONE_RANK else 1
            elements = int(size.bytes) // _FLOAT // ranks_of_count
            if elements:
                yield _nccl_tests_row(size, elements)


def _nccl_tests_row(size: ExpectedSize, elements: int) -> str:
    """Write the row of a size under the head of :func:`_nccl_tests`; ``elements``: its count."""
    primitive = size.primitive
    redop = "sum" if primitive in (AR, RS, Primitive.REDUCE) else "none"
    root = 0 if primitive in (Primitive.BROADCAST, Primitive.REDUCE) else -1
    # the table's halves out-of-place and in-place have what is expected, and the gate
    halves = ""
    for seconds in (size.expected_s, size.slowest_s):
        algbw = size.bytes / seconds / _GB
        busbw = algbw * busbw_factor(primitive, size.ranks)
        halves += f" {seconds * 1e6:>8.2f}{algbw:>8.2f}{busbw:>8.2f}     N/A"
    return f"{int(size.bytes):>12}{elements:>14}{'float':>10}{redop:>8}{root:>8}{halves}"


def _by_test(sizes: Iterable[ExpectedSize]) -> dict[Primitive, list[ExpectedSize]]:
    """The sizes of each collective, which has one test, in their order."""
    by_test: dict[Primitive, list[ExpectedSize]] = {}
    for size in sizes:
        by_test.setdefault(size.primitive, []).append(size)
    return by_test


def _prometheus(result: Expected) -> Iterator[str]:
    """Write Prometheus' text format 0.0.4: gauges in base units, with a series for each test and
    size."""
    labelled = [(_gauge_labels(result, size), size) for size in result.sizes]
    keepers = keepers_text(result.share)
    gauges: list[tuple[str, str, Callable[[ExpectedSize], object]]] = [
        (
            EXPECTED_BUSBW,
            "Bus bandwidth that a healthy machine should reach.",
            attrgetter("busbw_Bps"),
        ),
        (FLOOR_BUSBW, f"Bus bandwidth that {keepers} keep.", attrgetter("floor_busbw_Bps")),
        (EXPECTED_SECONDS, "Time of one call on a healthy machine.", attrgetter("expected_s")),
        (
            FLOOR_SUPPORTED,
            "1 where measurements of such machines support the floor, 0 where it is a wide one.",
            lambda size: int(size.supported),
        ),
    ]
    for gauge, text, value in gauges:
        series = {labels: value(size) for labels, size in labelled}
        yield from _gauge_lines(gauge, text, series)
    if result.measured:
        measured = {
            _gauge_labels(result, size.expected): size.measured_busbw_Bps
            for size in result.measured
        }
        yield from _gauge_lines(MEASURED_BUSBW, "Bus bandwidth of the log.", measured)


def _gauge_lines(gauge: str, text: str, series: Mapping[str, object]) -> Iterator[str]:
    """Write a gauge with its help; ``series``: the value of each by its labels, as text in braces."""
    yield f"# HELP {gauge} {text}"
    yield f"# TYPE {gauge} gauge"
    for labels, value in series.items():
        yield f"{gauge}{labels} {value!r}"


def _gauge_labels(result: Expected, size: ExpectedSize) -> str:
    """``{fabric="nvl72",ranks="72",...}``."""
    pairs = {
        "fabric": result.fabric,
        "ranks": size.ranks,
        "test": size.test,
        "bytes": int(size.bytes),
        "share": f"{result.share:g}",
    }
    written = []
    for key, value in pairs.items():
        escaped = str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        written.append(f'{key}="{escaped}"')
    return f"{{{','.join(written)}}}"


def _all_reduces(result: Expected, form: str) -> list[ExpectedSize]:
    """Return the sizes of all_reduce that a gate takes, by rising size: the steady ones where there are
    any. ColltoolError without all_reduce."""
    sizes = _by_test(result.sizes).get(AR, [])
    if not sizes:
        fix = f"add it: {argument_text('test', 'all_reduce')}"
        raise ColltoolError(f"{form} gates all_reduce", argument="test", fix=fix)
    return _steady_sizes(sizes)


def _steady_sizes(sizes: list[ExpectedSize]) -> list[ExpectedSize]:
    """The sizes from :data:`STEADY` on; all where none is so large."""
    return [size for size in sizes if size.bytes >= STEADY] or sizes


class _NvsentinelCheck(NamedTuple):
    """An init container of NVSentinel's chart ``preflight``, which runs whole multiples of a unit."""

    name: str
    key: str  # of its sizes in the chart
    unit: str
    suffix: str  # of a size in the chart
    unit_bytes: int
    most_sizes: int  # as many as its own default


# as docs/configuration/preflight.md of the main branch has them in 2026
_LOOPBACK = _NvsentinelCheck("preflight-nccl-loopback", "TEST_SIZE_MB", "MiB", "", 2**20, 1)
_ALL_REDUCE = _NvsentinelCheck("preflight-nccl-allreduce", "MESSAGE_SIZES", "GiB", "G", 2**30, 2)


def _nvsentinel(result: Expected) -> Iterator[str]:
    """Write values of NVSentinel's chart: its loopback check on one node, its all-reduce check on more.

    One threshold (BW_THRESHOLD_GBPS, GB/s of busbw) holds for all sizes that a check runs, so it is
    the least of theirs.
    """
    check = _ALL_REDUCE if result.nodes > 1 else _LOOPBACK
    sizes = _all_reduces(result, "nvsentinel")
    possible = [size for size in sizes if size.bytes % check.unit_bytes == 0]
    if not possible:
        what = f"{check.name} runs whole {check.unit}, and no size is"
        fix = f"write {argument_text('sizes', '4G,8G')}"
        raise ColltoolError(what, argument="sizes", fix=fix)
    # the largest
    run_sizes = possible[-check.most_sizes :]
    slowest = min(run_sizes, key=attrgetter("floor_busbw_Bps"))
    yield _file_text(
        "nvsentinel.yaml",
        about=_about_comments(result),
        check=check.name,
        gate=_gate_text(slowest),
        key=check.key,
        sizes=",".join(
            f"{int(size.bytes) // check.unit_bytes}{check.suffix}" for size in run_sizes
        ),
    )


# An overlay of aicr's recipes, kind RecipeMetadata of aicr.run/v1beta1 (recipes/overlays of its main
# branch in 2026). A phase replaces the one that it overlays, so that checks stand here as well.
def _aicr(result: Expected) -> Iterator[str]:
    """Write an overlay with the floor of ``nccl-all-reduce-bw``, at the largest size."""
    largest = _all_reduces(result, "aicr")[-1]
    # aicr's word for the accelerator: "h100" of H100-SXM
    device = result.device.lower().partition("-")[0] or "any"
    yield _file_text(
        "aicr.yaml",
        about=_about_comments(result),
        bytes=int(largest.bytes),
        device=device,
        gate=_gate_text(largest),
    )


def _preflight(result: Expected, scheduler: str, run: str) -> str:
    """Write a script that runs the tests of a gate, and compares each with its gates.

    Args:
        scheduler: the comment lines before the first command, which a scheduler may read.
        run: the commands that write the log: before the rows of a test a line ``preflight: TEST``.
    """
    gates = []
    comparisons = []
    for sizes in _by_test(result.sizes).values():
        comparisons.append(f"compare {sizes[0].test} || low=1")
        for size in _steady_sizes(sizes):
            gates.append(f"{size.test} {int(size.bytes)} {_gate_text(size)}")
    return _file_text(
        "preflight.sh",
        about=_about_comments(result),
        scheduler=scheduler,
        gates="\n".join(gates),
        run=run,
        comparisons="\n".join(comparisons),
    )


def _test_runs(result: Expected) -> Iterator[tuple[str, str]]:
    """Yield (test, nccl-tests' options) of each run: a run has one size, as nccl-tests could only step
    through sizes at a constant factor."""
    for sizes in _by_test(result.sizes).values():
        for size in _steady_sizes(sizes):
            yield size.test, f"-b {int(size.bytes)} -e {int(size.bytes)} -g 1 -c 0"


def _host_counts(result: Expected) -> tuple[int, int]:
    """Return how many hosts there are, and GPUs of each. Of 72 GPUs in one domain these are 18 and 4: a
    rack of compute trays. The last host may have fewer GPUs."""
    ranks = result.group.ranks
    gpus_of_host = ranks
    if result.nodes > 1:
        # all tiers but the outermost, which joins nodes
        gpus_of_host = prod(result.group.per_domain[:-1])
    if gpus_of_host > _MOST_IN_A_HOST:
        gpus_of_host = _IN_A_TRAY
    return ceil(ranks / gpus_of_host), gpus_of_host


def _slurm(result: Expected) -> Iterator[str]:
    """Write a batch script that runs the tests once on all hosts."""
    hosts, gpus = _host_counts(result)
    runs = []
    for test, options in _test_runs(result):
        runs.append(f'echo "preflight: {test}" >>"$log"')
        runs.append(f'srun "$NCCL_TESTS/{test}_perf" {options} >>"$log"')
    scheduler = (
        f"#SBATCH --nodes={hosts}\n#SBATCH --ntasks-per-node={gpus}\n#SBATCH --gpus-per-node={gpus}"
    )
    yield _preflight(result, scheduler, _file_text("slurm.sh", runs="\n".join(runs)))


def _kubernetes(result: Expected) -> Iterator[str]:
    """Write a script that starts an MPIJob of the Kubeflow MPI operator (kubeflow.org/v2beta1), which runs
    the tests once on all hosts, and that compares its log."""
    hosts, gpus = _host_counts(result)
    runs = []
    for test, options in _test_runs(result):
        runs.append(f"echo preflight: {test}")
        runs.append(f"mpirun -np {result.group.ranks} $NCCL_TESTS/{test}_perf {options}")
    # as deep as the block of YAML in kubernetes.sh that they go into
    indented = indent("\n".join(runs), " " * 18)
    run = _file_text("kubernetes.sh", hosts=hosts, gpus=gpus, runs=indented)
    yield _preflight(result, "# Needs kubectl and the Kubeflow MPI operator (v2beta1).", run)


# by the names of ``--format``
_WRITERS: Mapping[str, Callable[[Expected], Iterator[str]]] = {
    "nccl-tests": _nccl_tests,
    "prometheus": _prometheus,
    "grafana": board_lines,
    "nvsentinel": _nvsentinel,
    "aicr": _aicr,
    "preflight-slurm": _slurm,
    "preflight-kubernetes": _kubernetes,
}
