"""A second opinion: the same schedule, message by message, in a simulator that is installed here,
and the time it finds.

ASTRA-sim (analytical, congestion-unaware) gets the network of ``export astra-sim`` and a Chakra
trace of sends and receives for every rank. htsim (``htsim_ndp`` of Broadcom/csg-htsim) gets a
connection matrix whose steps wait for each other at a barrier, on the smallest fat tree that holds
the ranks, six links of α/6 between the farthest. SimGrid gets the fabric's own links and every
message's route on them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError, clipped, shown
from colltool.estimate.placement import AnyGroup
from colltool.export import simgrid_run
from colltool.export.astra_sim import NETWORK, SYSTEM, astra_sim
from colltool.export.chakra_format import ChakraNode, encoded
from colltool.export.simgrid_input import simgrid_input
from colltool.fabric.model import Fabric
from colltool.verification.schedule import Scheduled, Sent, scheduled
from colltool.verification.verify import Verification, Verified

Simulator = Literal["astra-sim", "htsim", "simgrid"]
LONGEST_RUN_S = 600
MOST_FLOWS = 20_000  # of a connection matrix: htsim keeps every flow from the start
MOST_FLOW_BYTES = 2**31 - 1  # htsim reads a size as an int
MOST_PRINTED = 2**26  # bytes of a simulator's output that are read
_LINKS = 6  # up and down a fat tree of three tiers


class Installation(NamedTuple):
    """Where a simulator is looked for, and how to get it; ``module``: of a Python, which is the
    program then."""

    variable: str
    program: str
    build: str
    module: str = ""

    @property
    def spoken(self) -> str:
        return (
            f"{self.program} with the module {self.module}"
            if self.module
            else f"{self.program} on PATH"
        )

    def found(self) -> str | None:
        """A module's Python: the one that runs this, the one on PATH, or the system's."""
        tried = (
            (sys.executable, self.program, f"/usr/bin/{self.program}")
            if self.module
            else (self.program,)
        )
        programs = filter(None, map(shutil.which, tried))
        return next(
            (one for one in programs if not self.module or _has_module(one, self.module)), None
        )


INSTALLATIONS: Mapping[Simulator, Installation] = {
    "astra-sim": Installation(
        "COLLTOOL_ASTRA_SIM",
        "AstraSim_Analytical_Congestion_Unaware",
        "build github.com/astra-sim/astra-sim with build/astra_analytical/build.sh",
    ),
    "htsim": Installation(
        "COLLTOOL_HTSIM",
        "htsim_ndp",
        "build github.com/Broadcom/csg-htsim with make in sim and sim/datacenter",
    ),
    "simgrid": Installation(
        "COLLTOOL_SIMGRID",
        "python3",
        "apt-get install python3-simgrid, or build it with Python",
        "simgrid",
    ),
}


def simulator_of(name: str) -> Simulator:
    for known in INSTALLATIONS:
        if known == name:
            return known
    raise ColltoolError(
        f"no simulator {shown(name)}",
        argument="simulator",
        fix=f"known: {', '.join(INSTALLATIONS)}",
    )


def find_simulator(name: Simulator) -> str:
    """The program's path: of its environment variable, else on PATH. ColltoolError where it is not
    there."""
    one = INSTALLATIONS[name]
    given = os.environ.get(one.variable)
    found = shutil.which(given) if given else one.found()
    if found is not None:
        return os.path.abspath(found)
    what = f"{name} is not installed here: no {one.spoken}, and {one.variable} is not set"
    if given:
        what = f"{one.variable} names no program that can run: {clipped(given)}"
    raise ColltoolError(
        what,
        argument="simulator",
        fix=f"{one.build}, then export {one.variable}=/path/to/{one.program}",
    )


@lru_cache
def _has_module(python: str, module: str) -> bool:
    looks = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    with suppress(OSError):
        return not subprocess.run(
            [python, "-c", looks], capture_output=True, check=False
        ).returncode
    return False


def simulated_s(
    name: Simulator, run: Scheduled, size: float, fabric: Fabric, group: AnyGroup = None
) -> float:
    """Seconds that a simulator finds for a schedule, which is consumed.

    ColltoolError where it is not installed, the network or the schedule cannot be written for it,
    or it does not finish.
    """
    program = find_simulator(name)
    with tempfile.TemporaryDirectory(prefix="colltool-") as made:
        folder = Path(made)
        match name:
            case "astra-sim":
                _astra_files(folder, run, size, fabric, group)
                options = [f"--{key}={folder / file}" for key, file in _ASTRA_OPTIONS.items()]
                return _astra_seconds(_printed(name, [program, *options], folder))
            case "htsim":
                options, flows = _htsim_files(folder, run, size)
                return _htsim_seconds(_printed(name, [program, *options], folder), flows)
            case "simgrid":
                (folder / _MESSAGES).write_text(simgrid_input(run, size))
                # where no module of ours stands beside it
                shutil.copyfile(simgrid_run.__file__, folder / _RUNNER)
                _printed(name, [program, _RUNNER, _MESSAGES, _TOOK], folder)
                return _simgrid_seconds(folder / _TOOK)
            case _:
                assert_never(name)


def _printed(name: Simulator, command: list[str], folder: Path) -> str:
    log = folder / "printed.txt"
    try:
        with log.open("wb") as out:
            done = subprocess.run(
                command,
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=LONGEST_RUN_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise _failed(
            name, f"did not end within {LONGEST_RUN_S} s", "a smaller size or fewer ranks"
        ) from error
    except OSError as error:
        raise _failed(
            name, f"does not start: {error.strerror or error}", "check the program by itself"
        ) from error
    with log.open("rb") as stream:
        text = stream.read(MOST_PRINTED).decode(errors="replace")
    if done.returncode:
        last = next(
            (line for line in reversed(text.splitlines()) if line.strip()), "nothing printed"
        )
        raise _failed(
            name,
            f"ended with code {done.returncode}: {clipped(last.strip(), 200)}",
            "check the program by itself",
        )
    return text


def _failed(name: Simulator, what: str, fix: str) -> ColltoolError:
    return ColltoolError(f"{name} {what}", argument="simulator", fix=fix)


# --- ASTRA-sim
# ------------------------------------------------------------------------------------------------------------

_WORKLOAD, _MEMORY = "workload", "memory.json"
_ASTRA_OPTIONS = {
    "workload-configuration": _WORKLOAD,
    "system-configuration": SYSTEM,
    "remote-memory-configuration": _MEMORY,
    "network-configuration": NETWORK,
}
_ASTRA_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles")  # a cycle is 1 ns


def _astra_files(
    folder: Path, run: Scheduled, size: float, fabric: Fabric, group: AnyGroup
) -> None:
    for name, text in astra_sim(fabric, group, ideal=True).items():
        (folder / name).write_text(text)
    (folder / _MEMORY).write_text('{"memory-type": "NO_MEMORY_EXPANSION"}\n')
    for rank, nodes in enumerate(message_nodes(run, size)):
        (folder / f"{_WORKLOAD}.{rank}.et").write_bytes(encoded(nodes))


def message_nodes(run: Scheduled, size: float) -> list[list[ChakraNode]]:
    """Sends and receives of every rank; those of a step wait for the rank's own part of the step
    before."""
    ranks: list[list[ChakraNode]] = [[] for _ in range(run.program.ranks)]
    before: dict[int, tuple[int, ...]] = {}
    for tag, step in enumerate(run.steps(size)):
        done: dict[int, list[int]] = {}
        for one in step:
            for rank, kind in ((one.src, "send"), (one.dst, "recv")):
                node = len(ranks[rank])
                ranks[rank].append(
                    _message_node(one, tag, node, before.get(rank, ()), send=kind == "send")
                )
                done.setdefault(rank, []).append(node)
        before.update((rank, tuple(nodes)) for rank, nodes in done.items())
    return ranks


def _message_node(
    one: Sent, tag: int, number: int, waits: tuple[int, ...], *, send: bool
) -> ChakraNode:
    name = f"send to {one.dst}" if send else f"recv from {one.src}"
    of = {
        "is_cpu_op": False,
        "comm_src": one.src,
        "comm_dst": one.dst,
        "comm_size": one.bytes,
        "comm_tag": tag,
    }
    return ChakraNode(
        number, name, "COMM_SEND_NODE" if send else "COMM_RECV_NODE", data_deps=waits, attributes=of
    )


def _astra_seconds(printed: str) -> float:
    ends = [int(cycles) for _, cycles in _ASTRA_FINISHED.findall(printed)]
    if not ends:
        raise _failed("astra-sim", "finished no rank", "check the program by itself")
    return max(ends) * 1e-9


# --- htsim
# ----------------------------------------------------------------------------------------------------------------

_MATRIX = "steps.cm"
# simulated us, where this version prints them
_HTSIM_ENDED = re.compile(r"^([\d.e+-]+) src \d+ dst \d+ flow_id \d+", re.M)
_HTSIM_FINISHED = re.compile(r"^Flow .* finished at ([\d.e+-]+) total", re.M)
_SAFE = 100  # times the price: the end of the simulated time


def fat_tree_nodes(ranks: int) -> int:
    """Hosts of the smallest fat tree, k³/4 for an even k, that holds the ranks."""
    return next(k**3 // 4 for k in range(2, 10_000, 2) if k**3 // 4 >= ranks)


def connection_matrix(run: Scheduled, size: float) -> tuple[str, int]:
    """A schedule for htsim, and its number of flows: all flows of a step start when the last of the
    step before has arrived."""
    lines, triggers, flows = list[str](), list[str](), 0
    steps = list(run.steps(size))
    for number, step in enumerate(steps):
        for one in step:
            flows += 1
            if one.bytes > MOST_FLOW_BYTES:
                raise _failed(
                    "htsim",
                    f"reads sizes up to {MOST_FLOW_BYTES:,} bytes, not {one.bytes:,}",
                    "take a smaller size",
                )
            start = f"trigger {number}" if number else "start 0"
            after = f" recv_done_trigger {number + 1}" if number + 1 < len(steps) else ""
            lines.append(f"{one.src}->{one.dst} id {flows} {start} size {one.bytes}{after}")
        if number + 1 < len(steps):
            triggers.append(f"trigger id {number + 1} barrier count {len(step)}")
    if flows > MOST_FLOWS:
        raise _failed(
            "htsim", f"gets {flows:,} flows here, more than {MOST_FLOWS:,}", "take fewer ranks"
        )
    head = [
        f"Nodes {fat_tree_nodes(run.program.ranks)}",
        f"Connections {flows}",
        f"Triggers {len(triggers)}",
    ]
    return "\n".join([*head, *lines, *triggers, ""]), flows


def _htsim_files(folder: Path, run: Scheduled, size: float) -> tuple[list[str], int]:
    """Writes the matrix; the options beside it, and the number of flows."""
    costs = {(part.cost.alpha_s, part.cost.bandwidth_Bps) for part in run.costed.parts}
    if len(costs) > 1:
        what = "has one latency and one rate, and this schedule crosses tiers that differ"
        raise _failed("htsim", what, "take a group inside one tier")
    ((alpha_s, rate),) = costs
    text, flows = connection_matrix(run, size)
    (folder / _MATRIX).write_text(text)
    network = {
        "-nodes": fat_tree_nodes(run.program.ranks),
        "-linkspeed": f"{rate * 8 / 1e6:.6f}",
        "-hop_latency": f"{alpha_s / _LINKS * 1e6:.9g}",
        "-end": int(_SAFE * run.wire_s(size) * 1e6) + 1000,
    }
    options = {"-tm": _MATRIX, "-strat": "perm", "-o": "htsim.log", **network}
    return [part for key, value in options.items() for part in (key, str(value))], flows


def _htsim_seconds(printed: str, flows: int) -> float:
    finished = _HTSIM_FINISHED.findall(printed)
    if len(finished) < flows:
        raise _failed(
            "htsim",
            f"finished {len(finished)} of {flows} flows",
            "a smaller size, or check the program by itself",
        )
    return max(map(float, _HTSIM_ENDED.findall(printed) or finished)) * 1e-6


# --- SimGrid
# --------------------------------------------------------------------------------------------------------------

_MESSAGES, _RUNNER, _TOOK = "messages.json", "run.py", "took.json"


def _simgrid_seconds(took: Path) -> float:
    try:
        return float(json.loads(took.read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _failed("simgrid", "said no time", "check the program by itself") from error


# --- beside what colltool executed
# ----------------------------------------------------------------------------------------


def with_simulator(
    name: Simulator,
    result: Verification,
    size: float,
    fabric: Fabric,
    group: AnyGroup = None,
    segments: int | None = None,
) -> Verification:
    """A verification with each schedule's simulated time, or in its note why there is none.
    ColltoolError where none has one."""
    rows, errors = list[Verified](), list[ColltoolError]()
    for one in result.results:
        try:
            run = scheduled(fabric, one.primitive, one.spec, group, segments, ideal=True)
            rows.append(one._replace(simulated_s=simulated_s(name, run, size, fabric, group)))
        except ColltoolError as error:
            errors.append(error)
            rows.append(
                one._replace(
                    note="; ".join(filter(None, [one.note, f"no time of {name}: {error.what}"]))
                )
            )
    if len(errors) == len(rows):
        raise errors[0]
    return replace(result, results=tuple(rows), simulator=name)
