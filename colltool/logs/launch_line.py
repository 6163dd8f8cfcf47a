"""How a benchmark was launched, by the command line and the job script that its log repeats.

Read: mpirun and mpiexec of Open MPI (``-np``, ``-H a:8,b:8``, ``-npernode``, ``-N``, ``--map-by
ppr:8:node``, ``--map-by node``), of MPICH and Intel MPI (``-hosts``, ``-ppn``, ``-perhost``),
mpirun_rsh of MVAPICH with its bare hosts, srun (``-N``, ``-n``, ``--ntasks-per-node``, ``-w``),
flux run, aprun, jsrun and lrun, and ``#SBATCH`` and ``#PBS -l select`` above them. A host file is
named there and not read: only its processes per node count.

:class:`Launches` reads a log line by line; :func:`_launch_of` makes a :class:`Launch` of a command.
Options are a mapping of their names, with dashes, to values as text; the last one of a name counts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from colltool.base.primitives import ceil_div

# "mpirun -np 16 ...", "/usr/bin/srun -n 16 ...", "CMD='mpiexec.hydra -n 16 ..."
_LAUNCHER = re.compile(
    r"(?:^|[\s/;&'\"(`])(mpirun|mpiexec|mpiexec\.hydra|mpirun_rsh|orterun|prterun|prun"
    r"|srun|flux|aprun|jsrun|lrun)\s"
)
# the benchmark itself, behind which the options are its own: "./build/all_reduce_perf", "IMB-MPI1"
_PROGRAM = re.compile(r"(?:^|/)(?:osu_\w+|IMB-\w+|ucc_perftest|ib_\w+|\w+_perf(?:_mpi)?)$")
# "#SBATCH --nodes=4 --ntasks-per-node=8", "#PBS -l select=4:mpiprocs=8"
_DIRECTIVE = re.compile(r"#\s?(?P<system>SBATCH|PBS)\s+(?P<options>-.*)")
_LONGEST = 4000  # characters of a command that are read
_MOST_RANKS = 10**7  # a larger number is no launch
_MOST_HOSTS = 100_000  # of one range of numbers
_LONGEST_NUMBERS = 20  # characters of a range of hosts' numbers
_SLURM = frozenset(("srun", "SBATCH", "flux"))
# "-N4" and "-n16": an option and its value in one word
_SHORT = re.compile(r"(-[NnwH])(\d\S*)")
# names of an option: of the number of ranks, of nodes, of ranks on a node, of the list of hosts
_RANKS = ("-n", "-np", "--np", "--n", "--ntasks")
_NODES = ("-N", "--nodes", "--nnodes")
_PER_NODE = (
    "-ppn",
    "--ppn",
    "-perhost",
    "-npernode",
    "--npernode",
    "-ppr",
    "--ntasks-per-node",
    "--tasks-per-node",
)
_HOSTS = ("-H", "-host", "--host", "-hosts", "--hosts", "-w", "--nodelist")
# "--map-by ppr:8:node"
_PPR = re.compile(r"ppr:(\d{1,7}):(?:node|l?host)")
# "node[01-04,07]"
_BRACKETS = re.compile(r"\[([\d,-]{1,400})\]")


class Launch(NamedTuple):
    """Ranks and nodes of a run, each None where the line does not say it."""

    ranks: int | None = None
    nodes: int | None = None
    cyclic: bool = False  # neighbouring ranks are on different nodes

    def nodes_of(self, ranks: int | None) -> int | None:
        """The nodes of the first ``ranks`` ranks; None where it is not known."""
        if ranks is None or self.nodes is None:
            return None
        if self.cyclic:
            return min(self.nodes, ranks)
        if self.ranks is None or ranks > self.ranks:
            return None
        return ceil_div(ranks, ceil_div(self.ranks, self.nodes))


class Launches:
    """The launch in force, line by line: the last command, on what the job script asks for.

    Attributes:
        script: options of the job script, under srun's names.
        launch: in force after the lines so far.
    """

    def __init__(self) -> None:
        self.script: dict[str, str] = {}
        self.launch = Launch()
        self._unfinished = ""  # the beginning of a command that goes on

    def take(self, text: str) -> None:
        """Read a line, if it is part of a launch."""
        goes_on = text.endswith("\\")
        if self._unfinished or goes_on:
            line = text.rstrip("\\")
            text = f"{self._unfinished} {line}"[:_LONGEST]
            self._unfinished = text if goes_on else ""
        if goes_on or "-" not in text:
            return
        directive = _DIRECTIVE.match(text)
        if directive:
            self._take_directive(directive["system"], directive["options"])
            return
        launcher = _LAUNCHER.search(text) if "run" in text or "exec" in text else None
        if launcher:
            self.launch = _launch_of(launcher[1], text[launcher.end() :], self.script)

    def _take_directive(self, system: str, options: str) -> None:
        """Read a line of a job script."""
        if system == "SBATCH":
            self.script |= dict(_options(_words(options)))
        else:
            for name, option in (("select", "--nodes"), ("mpiprocs", "--ntasks-per-node")):
                number = re.search(name + r"=(\d{1,7})", options)
                if number:
                    self.script[option] = number[1]
        # without a command the tasks are those that srun would start
        self.launch = _launch_of("srun", "", self.script)


def _words(line: str) -> list[str]:
    """The words of a command up to the benchmark's own name, to a redirection or the next
    command."""
    try:
        words = shlex.split(line[:_LONGEST], comments=False)
    except ValueError:  # a quote that is not closed
        words = line[:_LONGEST].split()
    for place, word in enumerate(words):
        if _PROGRAM.search(word) or word in ("|", "&&", ";", ">", "2>&1"):
            return words[:place]
    return words


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, in order: ``--nodes=4``, ``-N 4``, ``-N4``. The value of an option
    without one is empty, and so is the name of a bare word."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, value = word.partition("=")
        without_blank = _SHORT.fullmatch(word)
        if word.startswith("--") and equals:
            yield name, value
        elif without_blank:
            yield without_blank[1], without_blank[2]
        elif word.startswith("-"):
            # the next word, unless it is an option
            value = words[index] if index < len(words) else ""
            if value.startswith("-"):
                value = ""
            elif value:
                index += 1
            yield word, value
        else:
            yield "", word


def _launch_of(launcher: str, line: str, script: Mapping[str, str]) -> Launch:
    """Ranks and nodes of a command line: by its numbers, where those do not name the nodes by its
    hosts, and what is then missing by the other two of ranks, nodes and ranks per node.

    Args:
        line: behind the launcher, such as ``-np 16 -npernode 8 ./all_reduce_perf`` of mpirun, which
            is 16 ranks on 2 nodes.
        script: options of the job script, which hold for srun where it has none of its own.
    """
    named_words = list(_options(_words(line)))
    options = dict(named_words)
    if launcher in _SLURM:
        options = {**script, **options}
    if launcher == "jsrun":
        return _resource_sets(options)
    ranks = _number(options, _RANKS)
    nodes, per_node = _nodes_and_per_node(launcher, options)
    cyclic = _is_cyclic(options)
    hosts = _hosts(options)
    if launcher == "mpirun_rsh":
        # mpirun_rsh -np 2 node01 node02 MV2_USE_CUDA=1 ./osu_allreduce: bare words are hosts, of a
        # slot each
        hosts = [(word, 1) for option, word in named_words if not option and "=" not in word]
        cyclic = False
    if nodes is None and hosts:
        return _on_hosts(hosts, ranks, per_node, cyclic, hydra="-hosts" in options)
    if nodes is None and per_node and ranks:
        nodes = ceil_div(ranks, per_node)
    if ranks is None and nodes and per_node:
        ranks = nodes * per_node
    if ranks is None and nodes and launcher == "srun":
        ranks = nodes  # a task a node
    return _possible_launch(ranks, nodes, cyclic)


def _nodes_and_per_node(launcher: str, options: Mapping[str, str]) -> tuple[int | None, int | None]:
    """The number of nodes, and of ranks on a node, as the options say them; None where none does.

    -N counts nodes for Slurm and lrun, ranks of a node for Open MPI and ALPS; of other launchers it
    is not read.
    """
    per_node = _number(options, _PER_NODE)
    ppr = _PPR.match(_map_by(options))
    if ppr:
        per_node = int(ppr[1])
    capital_n = _number(options, _NODES)
    if launcher in (*_SLURM, "lrun"):
        return capital_n, per_node or _number(options, ("-T",))
    if launcher in ("aprun", "mpirun", "mpiexec", "orterun", "prterun", "prun"):
        return None, per_node or capital_n
    return None, per_node


def _is_cyclic(options: Mapping[str, str]) -> bool:
    """Whether neighbouring ranks go to different nodes: by ``-m cyclic`` of srun, ``--map-by node`` of
    mpirun."""
    if "cyclic" in options.get("-m", options.get("--distribution", "")):
        return True
    map_by = _map_by(options)
    if _PPR.match(map_by):
        return False
    return map_by.startswith("node") or "--bynode" in options or "-rr" in options


def _map_by(options: Mapping[str, str]) -> str:
    """What mpirun maps ranks by, in lower case; empty where the line does not say it."""
    return options.get("--map-by", options.get("-map-by", "")).lower()


def _resource_sets(options: Mapping[str, str]) -> Launch:
    """The launch of jsrun: -n resource sets of -a tasks, -r of them a host."""
    sets = _number(options, ("-n", "--nrs"))
    tasks = _number(options, ("-a", "--tasks_per_rs")) or 1
    sets_per_host = _number(options, ("-r", "--rs_per_host"))
    if sets is None:
        return Launch()
    nodes = ceil_div(sets, sets_per_host) if sets_per_host else None
    return _possible_launch(sets * tasks, nodes, cyclic=False)


def _number(options: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The whole number above 0 that the first of several options has; None if none has one."""
    for option in names:
        # "4", and the beginning of "4-8" (a range of nodes), "4,8" and "4:1"
        match = re.match(r"(\d{1,15})(?=$|[-,:])", options.get(option, ""))
        if match and int(match[1]) > 0:
            return int(match[1])
    return None


def _hosts(options: Mapping[str, str]) -> list[tuple[str, int]]:
    """Hosts and their slots, from ``a:8,b:8`` or ``node[01-04]``; empty where no option lists them.
    A host without a number has one slot, one that is named twice the slots of both."""
    slots: dict[str, int] = {}
    for option in _HOSTS:
        for entry in _expanded(options.get(option, "")):
            name, _, count = entry.partition(":")
            if name:
                slots[name] = slots.get(name, 0) + (int(count) if count.isdecimal() else 1)
    return list(slots.items())


def _expanded(host_list: str) -> list[str]:
    """``node[01-04],x`` as ``node1`` to ``node4`` and ``x``: only how many there are matters."""
    hosts: list[str] = []
    # at commas outside of brackets
    for entry in re.split(r",(?![^\[]*\])", host_list[:_LONGEST]):
        match = _BRACKETS.search(entry)
        if match is None:
            hosts.append(entry)
            continue
        for numbers in match[1].split(","):
            first, _, last = numbers.partition("-")
            last = last or first
            if not first or not last.isdecimal() or len(numbers) > _LONGEST_NUMBERS:
                continue
            count = min(int(last) - int(first) + 1, _MOST_HOSTS)  # below 1 for a range like 4-1
            hosts += [f"{entry[: match.start()]}{int(first) + step}" for step in range(count)]
    return hosts


def _on_hosts(
    hosts: Sequence[tuple[str, int]],
    ranks: int | None,
    per_node: int | None,
    cyclic: bool,
    *,
    hydra: bool,
) -> Launch:
    """Ranks on listed hosts: host after host up to its slots (12 ranks on a:8,b:8,c:8 are on two
    hosts), or one each in turn.

    Args:
        hosts: names and numbers of slots, one each where the line does not say it; never empty.
        ranks: None to fill all slots, or every host with ``per_node``.
        cyclic: neighbouring ranks are on different hosts.
        hydra: the launcher is that of MPICH or Intel MPI.
    """
    slots = sum(count for _, count in hosts)
    has_slots = slots > len(hosts)
    if ranks is None:
        ranks = len(hosts) * per_node if per_node else slots
    if per_node:
        return _possible_launch(ranks, min(len(hosts), ceil_div(ranks, per_node)), cyclic)
    if cyclic or not has_slots:
        # without slots hosts are used in turn by MPICH, and one each by others
        cyclic = cyclic or (hydra and ranks > len(hosts))
        return _possible_launch(ranks, min(len(hosts), ranks), cyclic)
    nodes = 0
    ranks_left = ranks
    for _, count in hosts:
        if ranks_left <= 0:
            break
        nodes += 1
        ranks_left -= count
    return _possible_launch(ranks, nodes, cyclic=False)


def _possible_launch(ranks: int | None, nodes: int | None, cyclic: bool) -> Launch:
    """A launch of so many ranks on so many nodes; one that says nothing for too many ranks, or for
    more nodes than ranks."""
    if ranks is not None and (ranks > _MOST_RANKS or (nodes or 1) > ranks):
        return Launch()
    return Launch(ranks, nodes, cyclic)
