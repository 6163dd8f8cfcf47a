"""The config file of NCCL's example tuner plugin, and the coarser NCCL_ALGO variable, from colltool's winners.

The plugin reads its file carelessly: an unknown word means all-reduce, ring or Simple, a line of 255 characters or more falls
apart, and -1 channels are one. So every row is explicit, and the rows of the winners cover every size of every collective once.
Behind them rings cover it again, for NCCL passes over a row that it cannot run, and without any other takes one channel.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from textwrap import wrap
from typing import NamedTuple

from colltool.errors import ColltoolError, given, spell
from colltool.export.nccl.choices import COLLECTIVES, Choice, Choices, Cluster, choices, cluster_of, needs_sharp
from colltool.fabric.model import Fabric

MAX_BYTES = 2**64 - 1
MOST_CHANNELS = 64
NODE_CHANNELS, NETWORK_CHANNELS, NVLS_CHANNELS = 24, 16, 16
"""What NCCL takes on H100: on one node, across nodes, and for NVLS."""

_LOAD = """\
# For NCCL's example tuner plugin, NCCL 2.27.5 or later; built from ext-tuner/example (newer: plugins/tuner/example) of NCCL:
#   NCCL_TUNER_PLUGIN=path/to/libnccl-tuner-example.so
#   NCCL_TUNER_CONFIG_FILE=path/to/this file
# Sizes are inclusive, in bytes as nccl-tests counts them: the total of all ranks for allgather and reducescatter.
# A row is advice: NCCL takes the first that matches and that it has not disabled; without any, its own choice on 1 channel.
# So behind rows of other algorithms stand rows of ring for all sizes.
# All-to-all has no rows: NCCL does not ask a tuner about it.
"""
_SHARP = """\
# {rows} across nodes needs SHARP: NCCL_COLLNET_ENABLE=1 and a CollNet plugin.
# Without it, export again with {without} for the network tier.
"""
_CAUTION = """\
# Not calibrated: try it beside NCCL's own choice (NCCL_TUNER_PLUGIN unset) before you keep it;
# colltool calibrate fits a fabric to your logs.
"""
_WIDTH = 120
_COLUMNS = "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n"


class Row(NamedTuple):
    """One range of sizes, both ends included."""

    collective: str
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str
    channels: int
    nodes: int
    ranks: int

    @property
    def line(self) -> str:
        """As the plugin reads it, for any number of operations and any buffer."""
        return ",".join(map(str, (*self, -1, -1)))


class _Section(NamedTuple):
    """What the file says of one collective on one group."""

    cluster: Cluster
    collective: str
    answer: Choices
    rows: tuple[Row, ...]


def tuner_config(fabric: Fabric, ranks: Sequence[int | None] = (), channels: int | None = None) -> str:
    """The CSV file of NCCL's example tuner plugin.

    Args:
        fabric: stars and Closes only.
        ranks: one group for each; all of the fabric when empty.
        channels: for all rows; NVLS rows take at most 16. H100's numbers when None.

    Raises:
        ColltoolError: a fabric that NCCL does not run on, a rank count that does not fit, channels out of range.
    """
    if channels is not None and not 1 <= channels <= MOST_CHANNELS:
        raise ColltoolError(f"{channels} channels are out of range", argument="channels", fix=f"NCCL takes 1 to {MOST_CHANNELS}")
    clusters = _clusters(fabric, ranks)
    sections = [
        _Section(cluster, collective, answer, tuple(_rows(cluster, collective, answer, channels)))
        for cluster in clusters
        for collective, primitive in COLLECTIVES.items()
        for answer in [choices(cluster, primitive)]
    ]
    return _header(fabric, sections, channels) + "".join(_body(sections))


def tuner_env(fabric: Fabric, ranks: Sequence[int | None] = ()) -> str:
    """``NCCL_ALGO`` for each group: every algorithm that wins at some size, by collective; NCCL chooses among them.

    Raises:
        ColltoolError: as for :func:`tuner_config`.
    """
    lines = [
        f"# NCCL 2.24 or later. {fabric.name}; what wins at some size, small sizes first: NCCL_ALGO knows no sizes.\n",
        "# NCCL refuses to run a collective for which all that is listed is disabled.\n",
    ]
    for cluster in _clusters(fabric, ranks):
        found = {name: choices(cluster, primitive).choices for name, primitive in COLLECTIVES.items()}
        if sharp := _sharp((choice.algorithm for many in found.values() for choice in many), cluster.nodes):
            lines.append(_sharp_note(sharp))
        listed = ";".join(f"{name}:{_env_names(many)}" for name, many in found.items())
        lines += [f"# {_group(cluster)}\n", f'NCCL_ALGO="{listed}"\n']
    return "".join(lines)


def _env_names(found: Iterable[Choice]) -> str:
    """NCCL_ALGO writes ``nvlstree`` where the plugin writes ``nvls_tree``."""
    return ",".join(dict.fromkeys(choice.algorithm.replace("_", "") for choice in found))


def _clusters(fabric: Fabric, ranks: Sequence[int | None]) -> list[Cluster]:
    """The groups in the order given, each once."""
    return list({cluster.ranks: cluster for cluster in (cluster_of(fabric, count) for count in ranks or [None])}.values())


def _rows(cluster: Cluster, collective: str, answer: Choices, channels: int | None) -> Iterator[Row]:
    """All sizes without gap or overlap, first the winners, then the rings behind them."""
    for found in (answer.choices, answer.fallback):
        for start, end, choice in _ranges(found):
            used = _channels(cluster, choice.algorithm, channels)
            yield Row(
                collective=collective,
                min_bytes=start,
                max_bytes=end,
                algorithm=choice.algorithm,
                protocol=choice.protocol,
                channels=used,
                nodes=cluster.nodes,
                ranks=cluster.ranks,
            )


def _ranges(found: Sequence[Choice]) -> list[tuple[int, int, Choice]]:
    """Whole bytes, both ends included. An interval between two whole numbers is lost to the one that follows it."""
    starts = {ceil(choice.from_bytes) if index else 0: choice for index, choice in enumerate(found)}
    runs = groupby(starts.items(), lambda item: (item[1].algorithm, item[1].protocol))
    firsts = [next(run) for _, run in runs]
    ends = [*(start - 1 for start, _ in firsts[1:]), MAX_BYTES]
    return [(start, end, choice) for (start, choice), end in zip(firsts, ends, strict=False)]


def _channels(cluster: Cluster, algorithm: str, channels: int | None) -> int:
    wanted = channels or (NODE_CHANNELS if cluster.nodes == 1 else NETWORK_CHANNELS)
    return min(wanted, NVLS_CHANNELS) if algorithm.startswith("nvls") else wanted


def _sharp(algorithms: Iterable[str], nodes: int) -> list[str]:
    return list(dict.fromkeys(algorithm for algorithm in algorithms if needs_sharp(algorithm, nodes)))


def _sharp_note(algorithms: Iterable[str]) -> str:
    """What those of :func:`_sharp` need, and what to type without it."""
    without = spell(given("overrides", ["TIER.in_network.reduce=false"]), "shell")
    return _SHARP.format(rows=" and ".join(algorithms), without=without)


def _group(cluster: Cluster) -> str:
    return f"{cluster.ranks} ranks on {cluster.nodes} node{'s' if cluster.nodes > 1 else ''}"


def _header(fabric: Fabric, sections: Sequence[_Section], channels: int | None) -> str:
    groups = dict.fromkeys(_group(section.cluster) for section in sections)
    sharp = dict.fromkeys(name for one in sections for name in _sharp((row.algorithm for row in one.rows), one.cluster.nodes))
    asked = f"{channels} as asked for, at most {NVLS_CHANNELS} for NVLS"
    taken = f"{NODE_CHANNELS} on one node, {NETWORK_CHANNELS} across, {NVLS_CHANNELS} NVLS"
    h100 = f"as NCCL takes on an 8-GPU H100 node ({taken}); other machines: {spell(given('channels'), 'shell')}"
    return "".join(
        [
            f"# colltool export nccl-tuner: {fabric.name}\n",
            *(f"#   {group}\n" for group in groups),
            _LOAD,
            _comment(f"channels: {h100 if channels is None else asked}."),
            *(_comment(note) for note in _protocol_notes(sections)),
            "" if all(section.answer.listed for section in sections) else _CAUTION,
            _sharp_note(sharp) if sharp else "",
            _COLUMNS,
        ]
    )


def _protocol_notes(sections: Iterable[_Section]) -> list[str]:
    """How protocols were chosen; where that differs, for which collectives."""
    notes: dict[str, dict[str, None]] = {}
    for section in sections:
        notes.setdefault(section.answer.protocol_note, {})[section.collective] = None
    return [f"protocols{' of ' + ', '.join(names) if len(notes) > 1 else ''}: {note}." for note, names in notes.items()]


def _body(sections: Iterable[_Section]) -> Iterator[str]:
    """The rows under a comment that says which schedules of ours stand behind them."""
    for section in sections:
        yield f"# {section.collective}, {_group(section.cluster)}\n"
        yield from (_comment(note) for note in section.answer.notes)
        behind = dict.fromkeys((choice.algorithm, choice.title) for choice in section.answer.choices)
        yield from (_comment(f"  {algorithm}: {title}") for algorithm, title in behind)
        yield from (f"{row.line}\n" for row in section.rows)


def _comment(text: str) -> str:
    """Cut long before the plugin would, which reads the rest of a longer line as a row."""
    return "".join(f"# {line}\n" for line in wrap(text, _WIDTH, break_on_hyphens=False))
