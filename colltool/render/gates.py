"""Gates in the formats of other programs: nccl-tests' own table, Prometheus, Grafana, NVSentinel, aicr,
and preflight scripts for Slurm and Kubernetes.

Bandwidths are GB/s of 10^9 bytes, as nccl-tests prints them; a gate is rounded down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import floor, prod
from operator import attrgetter

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

_GB = 1e9
_GiB = 2**30
_MiB = 2**20
STEADY = 128 * 2**20
"""Bytes from which on measurements scatter little: scripts gate on these sizes where there are
any."""
_FLOAT = 4
"""Bytes of an element of nccl-tests' default type."""
_MOST_IN_A_HOST = 16
"""GPUs of the largest host with one operating system; more are a rack of several."""
_IN_A_TRAY = 4
"""GPUs of a host of a rack: a compute tray of GB200 and GB300."""
_OF_ONE_RANK = frozenset({AG, RS, A2A})
"""Tests whose count is the part of one rank."""


def gate_text(result: Expected, form: str) -> str:
    """A result in a format of another program.

    Raises:
        ColltoolError: thresholds of measured logs, or a format that gates all_reduce without it.
    """
    if result.measured and form != "prometheus":
        what = f"{form} holds what a gate asks, not what logs reach"
        fix = f"leave {argument_text('against')} out, or write --format json"
        raise ColltoolError(what, argument="form", fix=fix)
    return "\n".join(_WRITERS[form](result)) + "\n"


def _about(result: Expected) -> list[str]:
    """What the numbers are, as comments."""
    lines = [
        f"# {machine_text(result)}, by colltool {__version__}.",
        f"# The gate is what {keepers_text(result.share)} keep.",
    ]
    wide = [size for size in result.sizes if not size.supported]
    if wide:
        which = "every gate" if len(wide) == len(result.sizes) else f"{len(wide)} of the gates"
        reason = wide[-1].interval.reason
        lines.append(f"# No measurement supports {which}, wide for that: {reason}.")
    return lines


def _gate(size: ExpectedSize) -> str:
    """GB/s that a gate asks, rounded down so that rounding never fails a machine: to whole numbers
    from 100 on, below to a digit more for each power of ten."""
    rate = size.floor_busbw_Bps / _GB
    step = 1.0
    while rate < 100 * step:
        step /= 10
    return f"{floor(rate / step) * step:g}"


def _nccl_tests(result: Expected) -> Iterator[str]:
    """nccl-tests' table: the left half expected, the right half what a gate asks.

    As its sizes are, those that give a rank no element are left out.
    """
    yield from _about(result)
    for primitive, sizes in _by_test(result.sizes).items():
        yield f"# Collective test starting: {sizes[0].test}_perf"
        yield f"#{'expected':>65}{'gate':>37}"
        half = f"{'time':>8}{'algbw':>8}{'busbw':>8} #wrong"
        yield f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8} {half} {half}"
        units = f"{'(us)':>8}{'(GB/s)':>8}{'(GB/s)':>8}       "
        yield f"#{'(B)':>11}{'(elements)':>14}{'':>26} {units} {units}"
        for size in sizes:
            parts = size.ranks if primitive in _OF_ONE_RANK else 1
            count = int(size.bytes) // _FLOAT // parts
            if count:
                yield _row(size, count)


def _row(size: ExpectedSize, count: int) -> str:
    primitive = size.primitive
    redop = "sum" if primitive in (AR, RS, Primitive.REDUCE) else "none"
    root = 0 if primitive in (Primitive.BROADCAST, Primitive.REDUCE) else -1
    halves = ""
    for seconds in (size.expected_s, size.slowest_s):
        algbw = size.bytes / seconds / _GB
        busbw = algbw * busbw_factor(primitive, size.ranks)
        halves += f" {seconds * 1e6:>8.2f}{algbw:>8.2f}{busbw:>8.2f}     N/A"
    return f"{int(size.bytes):>12}{count:>14}{'float':>10}{redop:>8}{root:>8}{halves}"


def _by_test(sizes: Iterable[ExpectedSize]) -> dict[Primitive, list[ExpectedSize]]:
    found: dict[Primitive, list[ExpectedSize]] = {}
    for size in sizes:
        found.setdefault(size.primitive, []).append(size)
    return found


def _prometheus(result: Expected) -> Iterator[str]:
    """The text format 0.0.4: gauges in base units, a series a test and size."""
    expected: dict[str, ExpectedSize] = {}
    for size in result.sizes:
        expected[_labels(result, size)] = size
    gauges: list[tuple[str, str, Mapping[str, object]]] = [
        (
            EXPECTED_BUSBW,
            "Bus bandwidth that a healthy machine should reach.",
            {labels: size.busbw_Bps for labels, size in expected.items()},
        ),
        (
            FLOOR_BUSBW,
            f"Bus bandwidth that {keepers_text(result.share)} keep.",
            {labels: size.floor_busbw_Bps for labels, size in expected.items()},
        ),
        (
            EXPECTED_SECONDS,
            "Time of one call on a healthy machine.",
            {labels: size.expected_s for labels, size in expected.items()},
        ),
        (
            FLOOR_SUPPORTED,
            "1 where measurements of such machines support the floor, 0 where it is a wide one.",
            {labels: int(size.supported) for labels, size in expected.items()},
        ),
    ]
    if result.measured:
        measured = {
            _labels(result, size.expected): size.measured_busbw_Bps for size in result.measured
        }
        gauges.append((MEASURED_BUSBW, "Bus bandwidth of the log.", measured))
    for gauge, text, series in gauges:
        yield f"# HELP {gauge} {text}"
        yield f"# TYPE {gauge} gauge"
        for labels, value in series.items():
            yield f"{gauge}{labels} {value!r}"


def _labels(result: Expected, size: ExpectedSize) -> str:
    pairs = {
        "fabric": result.fabric,
        "ranks": size.ranks,
        "test": size.test,
        "bytes": int(size.bytes),
        "share": f"{result.share:g}",
    }
    written = []
    for key, value in pairs.items():
        quoted = str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        written.append(f'{key}="{quoted}"')
    return f"{{{','.join(written)}}}"


def _all_reduces(result: Expected, form: str) -> list[ExpectedSize]:
    """The sizes of all_reduce that a gate takes, the steady ones where there are any."""
    sizes = _by_test(result.sizes).get(AR, [])
    if not sizes:
        fix = f"add it: {argument_text('test', 'all_reduce')}"
        raise ColltoolError(f"{form} gates all_reduce", argument="test", fix=fix)
    return _steady(sizes)


def _steady(sizes: list[ExpectedSize]) -> list[ExpectedSize]:
    return [size for size in sizes if size.bytes >= STEADY] or sizes


def _binary(size: float, unit: str, step: int) -> str | None:
    """``4G``; None where the size is no whole number of the unit."""
    return None if size % step else f"{int(size) // step}{unit}"


# The values of NVSentinel's chart `preflight`, as docs/configuration/preflight.md of its main branch
# has them in 2026: an init container a check, its threshold in BW_THRESHOLD_GBPS (GB/s of busbw).
def _nvsentinel(result: Expected) -> Iterator[str]:
    """Values of NVSentinel's chart: its loopback check on one node, its all-reduce check on more.

    One threshold holds for all sizes that it runs, so it is the least of theirs.
    """
    sizes = _all_reduces(result, "nvsentinel")
    if result.nodes > 1:
        name = "preflight-nccl-allreduce"
        unit, step = "G", _GiB
    else:
        name = "preflight-nccl-loopback"
        unit, step = "", _MiB
    whole = []
    for size in sizes:
        text = _binary(size.bytes, unit, step)
        if text is not None:
            whole.append((size, text))
    if not whole:
        what = f"{name} runs whole {'GiB' if unit else 'MiB'}, and no size is"
        fix = f"write {argument_text('sizes', '4G,8G')}"
        raise ColltoolError(what, argument="sizes", fix=fix)
    # as many sizes as its own default: 4G,8G; loopback takes one
    taken = whole[-2:] if unit else whole[-1:]
    least = min((size for size, _ in taken), key=attrgetter("floor_busbw_Bps"))
    key = "MESSAGE_SIZES" if unit else "TEST_SIZE_MB"
    yield from _about(result)
    yield "# Values of NVSentinel's chart (its preflight.initContainers, main branch of 2026)."
    yield "preflight:"
    yield "  initContainers:"
    yield f"    - name: {name}"
    yield "      env:"
    yield "        - name: BW_THRESHOLD_GBPS"
    yield f'          value: "{_gate(least)}"'
    yield f"        - name: {key}"
    yield f'          value: "{",".join(text for _, text in taken)}"'


# An overlay of aicr's recipes, kind RecipeMetadata of aicr.run/v1beta1 (recipes/overlays of its main
# branch in 2026). A phase replaces the one that it overlays, so that checks stand here as well.
def _aicr(result: Expected) -> Iterator[str]:
    """An overlay with the floor of ``nccl-all-reduce-bw``, at the largest size."""
    last = _all_reduces(result, "aicr")[-1]
    device = result.device.lower().partition("-")[0] or "any"
    yield from _about(result)
    yield f"# An overlay of aicr (aicr.run/v1beta1), for all_reduce_perf of {int(last.bytes)} bytes."
    yield "kind: RecipeMetadata"
    yield "apiVersion: aicr.run/v1beta1"
    yield "metadata:"
    yield f"  name: {device}-any-training"
    yield "spec:"
    yield "  base: base"
    yield "  criteria:"
    yield "    service: any"
    yield f"    accelerator: {device}"
    yield "    intent: training"
    yield "  validation:"
    yield "    performance:"
    yield "      checks:"
    yield "        - nccl-all-reduce-bw"
    yield "      constraints:"
    yield "        - name: nccl-all-reduce-bw"
    yield f'          value: ">= {_gate(last)}"'


# busbw stands where the first line of names has it, which begins with a # of its own; nccl-tests
# rounds sizes down to whole elements of every rank
_COMPARE = r"""compare() {
  awk -v test="$1" '
    FNR == NR { if ($1 == test) gate[$2] = $3; next }
    $1 == "preflight:" { mine = $2 == test; column = 0; next }
    $1 == "#" { for (i = 1; i <= NF; i++) if ($i == "busbw") { column = i - 1; break } next }
    mine && column && $1 ~ /^[0-9]+$/ {
      for (size in gate) if ($1 + 0 <= size + 0 && $1 + 0 > size * 0.99) {
        seen[size] = 1
        if ($column + 0 >= gate[size] + 0) continue
        printf "%s_perf at %s B: %s GB/s, the gate is %s\n", test, size, $column, gate[size]
        low = 1
      }
    }
    END {
      for (size in gate) if (!(size in seen)) {
        printf "%s_perf at %s B: no result\n", test, size
        low = 1
      }
      exit low
    }
  ' "$gates" "$log"
}"""


def _script_head(result: Expected, batch: Iterable[str]) -> Iterator[str]:
    """The lines that both scripts begin with; ``batch`` are the lines before the first command."""
    yield "#!/bin/bash"
    yield from _about(result)
    yield "# Runs nccl-tests and compares its bus bandwidth; exit 1 if a size falls short."
    yield from batch
    yield "set -euo pipefail"
    yield "gates=$(mktemp) log=$(mktemp)"
    yield 'trap \'rm -f "$gates" "$log"\' EXIT'
    yield "# test, bytes, GB/s"
    yield "cat >\"$gates\" <<'END'"
    for sizes in _by_test(result.sizes).values():
        for size in _steady(sizes):
            yield f"{size.test} {int(size.bytes)} {_gate(size)}"
    yield "END"
    yield from _COMPARE.splitlines()


def _runs(result: Expected) -> Iterator[tuple[str, str]]:
    """Each test with nccl-tests' options, a run a size: sizes need be no multiples."""
    for sizes in _by_test(result.sizes).values():
        for size in _steady(sizes):
            yield size.test, f"-b {int(size.bytes)} -e {int(size.bytes)} -g 1 -c 0"


def _hosts(result: Expected) -> tuple[int, int]:
    """Hosts, and GPUs of each."""
    ranks = result.group.ranks
    inside = prod(result.group.per_domain[:-1]) if result.nodes > 1 else ranks
    if inside > _MOST_IN_A_HOST:
        inside = _IN_A_TRAY
    return -(-ranks // inside), inside


def _slurm(result: Expected) -> Iterator[str]:
    """A batch script that runs the tests once on all hosts."""
    hosts, gpus = _hosts(result)
    batch = [
        f"#SBATCH --nodes={hosts}",
        f"#SBATCH --ntasks-per-node={gpus}",
        f"#SBATCH --gpus-per-node={gpus}",
    ]
    yield from _script_head(result, batch)
    yield "# the folder of nccl-tests' programs, built with MPI=1"
    yield "NCCL_TESTS=${NCCL_TESTS:-/opt/nccl-tests/build}"
    for test, options in _runs(result):
        yield f'echo "preflight: {test}" >>"$log"'
        yield f'srun "$NCCL_TESTS/{test}_perf" {options} >>"$log"'
    yield from _verdict(result)


def _verdict(result: Expected) -> Iterator[str]:
    """Compare each test with its gates; lines of the log say whose rows follow."""
    yield "low=0"
    for sizes in _by_test(result.sizes).values():
        yield f"compare {sizes[0].test} || low=1"
    yield "exit $low"


def _kubernetes(result: Expected) -> Iterator[str]:
    """An MPIJob of the Kubeflow MPI operator (kubeflow.org/v2beta1) whose log is compared here."""
    hosts, gpus = _hosts(result)
    yield from _script_head(result, ["# Needs kubectl and the Kubeflow MPI operator (v2beta1)."])
    yield "# an image with nccl-tests, built with MPI=1, in NCCL_TESTS, and sshd"
    yield "IMAGE=${IMAGE:?an image with nccl-tests}"
    yield "NCCL_TESTS=${NCCL_TESTS:-/opt/nccl-tests/build}"
    yield "kubectl apply -f - <<END"
    yield from _mpi_job(hosts, gpus, result)
    yield "END"
    yield "kubectl wait --for=condition=Succeeded --timeout=30m mpijob/colltool-preflight"
    pods = "training.kubeflow.org/job-name=colltool-preflight"
    role = "training.kubeflow.org/job-role=launcher"
    yield f'kubectl logs --tail=-1 -l {pods},{role} >"$log"'
    yield "kubectl delete mpijob colltool-preflight"
    yield from _verdict(result)


def _mpi_job(hosts: int, gpus: int, result: Expected) -> Iterator[str]:
    """A Kubernetes MPIJob that runs the tests once on all hosts."""
    commands = []
    for test, options in _runs(result):
        commands.append(f"echo preflight: {test}")
        commands.append(f"mpirun -np {result.group.ranks} $NCCL_TESTS/{test}_perf {options}")
    yield "apiVersion: kubeflow.org/v2beta1"
    yield "kind: MPIJob"
    yield "metadata:"
    yield "  name: colltool-preflight"
    yield "spec:"
    yield f"  slotsPerWorker: {gpus}"
    yield "  mpiReplicaSpecs:"
    yield "    Launcher:"
    yield "      replicas: 1"
    yield "      template:"
    yield "        spec:"
    yield "          containers:"
    yield "            - name: launcher"
    yield "              image: $IMAGE"
    yield "              command: [bash, -ec]"
    yield "              args:"
    yield "                - |"
    for line in commands:
        yield f"                  {line}"
    yield "    Worker:"
    yield f"      replicas: {hosts}"
    yield "      template:"
    yield "        spec:"
    yield "          containers:"
    yield "            - name: worker"
    yield "              image: $IMAGE"
    yield "              resources:"
    yield "                limits:"
    yield f"                  nvidia.com/gpu: {gpus}"


_WRITERS: Mapping[str, Callable[[Expected], Iterator[str]]] = {
    "nccl-tests": _nccl_tests,
    "prometheus": _prometheus,
    "grafana": board_lines,
    "nvsentinel": _nvsentinel,
    "aicr": _aicr,
    "preflight-slurm": _slurm,
    "preflight-kubernetes": _kubernetes,
}
