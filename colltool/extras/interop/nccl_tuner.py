"""The config file of NCCL's example tuner plugin (:func:`tuner_config`), and the coarser NCCL_ALGO
variable (:func:`tuner_env`).

:mod:`nccl_tuner_curves` has the times of NCCL's algorithms and protocols, :mod:`nccl_tuner_rows` makes
rows of them; here they become text.

The plugin parses carelessly: an unknown word means all-reduce, ring or Simple; lines of 255 characters or more
are split; -1 channels, or no matching row, mean one channel. So every row is explicit, and every collective has
rows for all sizes, ending with rings under LL or Simple, which NCCL never switches off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, spell
from colltool.base.formatting import counted
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.path_classes import tier_paths
from colltool.estimate.placement import AnyGroup
from colltool.extras.interop.astra_sim import oversubscription
from colltool.extras.interop.comments import comment
from colltool.extras.interop.nccl_tuner_curves import (
    COLLECTIVES,
    Cluster,
    Curves,
    clusters_of,
    curves,
)
from colltool.extras.interop.nccl_tuner_rows import TunerRow, needs, tuner_rows
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import pieces

MOST_CHANNELS = 64  # NCCL's MAXCHANNELS

_LOAD = """\
# For NCCL's example tuner plugin. Build it from plugins/tuner/example of NCCL 2.30.3 or later:
# built from the sources of 2.27.5 to 2.29.7 it crashes the job. NCCL 2.27.5 and later load that build:
#   NCCL_TUNER_PLUGIN=path/to/libnccl-tuner-example.so
#   NCCL_TUNER_CONFIG_FILE=path/to/this file
# Sizes are inclusive, in bytes as nccl-tests counts them: for allgather and reducescatter the total of all ranks.
# A row is advice: NCCL takes the first that matches and that it can run. Without any it makes its own choice, on 1 channel.
# The next best choices that need less follow: whatever is switched off, the first row that is left is the best one left.
# All-to-all has no rows: NCCL does not ask a tuner about it.
"""
_COLUMNS = "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n"
_ENV_HEAD = """\
# NCCL 2.24 or later. {fabric}; the algorithms of the tuner file's rows: NCCL_ALGO cannot depend on sizes.
# Each list holds ring, which NCCL can always run: it refuses a collective for which all that is listed is disabled.
# NCCL_PROTO: the protocols of the same rows.
"""


class _TunerSection(NamedTuple):
    """The rows of a file for one group and one collective."""

    cluster: Cluster
    collective: str  # in the plugin's word
    curves: Curves  # that the rows follow from
    rows: tuple[TunerRow, ...]


def tuner_config(
    fabric: Fabric, groups: Sequence[AnyGroup] = (), channels: int | None = None
) -> str:
    """Return the text of the CSV file of NCCL's example tuner plugin.

    Args:
        fabric: of stars and Closes only, with the facts of NCCL's model under ``library``.
        groups: all of the fabric when empty.
        channels: for all rows (NVLS rows at most what NCCL has for it); None: NCCL's own numbers.

    Raises:
        ColltoolError: NCCL does not run on the fabric, facts or protocol names are missing, or ranks
            or channels are out of range.
    """
    if channels is not None and not 1 <= channels <= MOST_CHANNELS:
        raise ColltoolError(
            f"{channels} channels are out of range",
            argument="channels",
            fix=f"NCCL takes 1 to {MOST_CHANNELS}",
        )
    clusters = clusters_of(fabric, groups)
    sections = _sections(clusters)
    lines = [f"# colltool export nccl-tuner: {fabric.name}\n"]
    lines += [f"#   {cluster.label}\n" for cluster in clusters]
    lines.append(_LOAD)
    lines += map(_comment, dict.fromkeys(_notes(sections, clusters, channels)))
    lines.append(_COLUMNS)
    for section in sections:
        lines += _section_lines(section, channels)
    return "".join(lines)


def tuner_env(fabric: Fabric, groups: Sequence[AnyGroup] = ()) -> str:
    """Return lines that set ``NCCL_ALGO`` and ``NCCL_PROTO`` for each group: by collective the algorithms and
    protocols of its rows, among which NCCL chooses. Raises as :func:`tuner_config`."""
    lines = [_ENV_HEAD.format(fabric=fabric.name)]
    sections = _sections(clusters_of(fabric, groups))
    for cluster, of_cluster in groupby(sections, key=attrgetter("cluster")):
        algorithms = []
        protocols = []
        for section in of_cluster:
            # NCCL_ALGO writes nvlstree where the plugin writes nvls_tree.
            names = dict.fromkeys(row.algorithm.replace("_", "") for row in section.rows)
            algorithms.append(f"{section.collective}:{','.join(names)}")
            names = dict.fromkeys(row.protocol for row in section.rows)
            protocols.append(f"{section.collective}:{','.join(names)}")
        lines += [
            f"# {cluster.label}\n",
            f'NCCL_ALGO="{";".join(algorithms)}"\n',
            f'NCCL_PROTO="{";".join(protocols)}"\n',
        ]
    return "".join(lines)


def _sections(clusters: Sequence[Cluster]) -> list[_TunerSection]:
    """The rows of each collective on each cluster, those of a cluster together."""
    sections = []
    for cluster in clusters:
        for collective, primitive in COLLECTIVES.items():
            way_curves = curves(cluster, primitive)
            by_model = pieces(cluster.hardware, primitive)
            rows = tuner_rows(way_curves.ways, cluster.nodes, by_model, guarded=way_curves.own)
            sections.append(_TunerSection(cluster, collective, way_curves, rows))
    return sections


def _notes(
    sections: Sequence[_TunerSection], clusters: Sequence[Cluster], channels: int | None
) -> Iterator[str]:
    """Say what the file assumes, and where its numbers do not hold."""
    for cluster in clusters:
        yield _hardware_text(cluster.hardware)
    yield f"channels: {_channels_text(clusters, channels)}."
    for cluster in clusters:
        for span in cluster.placed.spans:
            # of the farthest paths that the group has on the tier
            ratio = oversubscription(tier_paths(span.position, ModelOptions()).used[-1])
            if ratio > 1:
                yield (
                    f"'{span.tier.name}' is oversubscribed {ratio:g}:1 among {cluster.label},"
                    " which NCCL's model ignores."
                )
    are_own = [section.curves.own for section in sections]
    if not all(are_own):
        where = "Where a collective was not measured," if any(are_own) else "Nothing was measured:"
        yield (
            f"{where} rows are what NCCL {clusters[0].hardware.version} picks by its own model, so they"
            " change little of what it does without this file. colltool calibrate fits a fabric to"
            " your logs."
        )


def _channels_text(clusters: Sequence[Cluster], channels: int | None) -> str:
    """How many channels the rows have, and why."""
    most = f"at most {clusters[0].hardware.nvls_channels} for NVLS"
    if channels is not None:
        return f"{channels} as asked for, {most}"
    by_nodes: dict[str, None] = {}  # each once
    for cluster in clusters:
        by_nodes[f"{cluster.hardware.channels} on {counted(cluster.nodes, 'node')}"] = None
    other = f"where NCCL prints others: {spell(argument_text('channels'), 'shell')}"
    return f"as NCCL takes on such nodes ({', '.join(by_nodes)}, {most}); {other}"


def _hardware_text(hardware: Hardware) -> str:
    """Which GPUs the rows are for, and what NCCL may use there."""
    nvls = f"{'with' if hardware.nvls else 'without'} NVLS"
    if hardware.nodes == 1:
        return f"For {hardware.gpu} GPUs on one node, {nvls}."
    sharp = "SHARP (NCCL_COLLNET_ENABLE=1 and a CollNet plugin)"
    if hardware.collnet:
        return f"For {hardware.gpu} GPUs on several nodes, {nvls} and with {sharp}."
    more = spell(argument_text("overrides", ["library.collnet=true"]), "shell")
    return f"For {hardware.gpu} GPUs on several nodes, {nvls} and without {sharp}; with it: {more}."


def _section_lines(section: _TunerSection, channels: int | None) -> Iterator[str]:
    """The rows of a collective on a cluster, with comments on what they need."""
    cluster = section.cluster
    yield f"# {section.collective}, {cluster.label}\n"
    yield from (_comment(f"  {note}") for note in section.curves.notes)
    # what the rows so far need (LL128, NVLS ...), in order; rows of a greater depth stand behind them
    needed: dict[str, None] = {}
    for depth, rows in groupby(section.rows, key=attrgetter("depth")):
        if depth:
            without = f"without {' or '.join(needed)}" if needed else "rings"
            yield _comment(f"  behind them, {without}:")
        for row in rows:
            needed |= dict.fromkeys(sorted(needs(row.algorithm, row.protocol, cluster.nodes)))
            row_channels = channels or cluster.hardware.channels
            if row.algorithm.startswith("nvls"):
                row_channels = min(row_channels, cluster.hardware.nvls_channels)
            sizes = f"{section.collective},{row.min_bytes},{row.max_bytes}"
            # -1: any numPipeOps, registered buffers or not
            yield f"{sizes},{row.algorithm},{row.protocol},{row_channels},{cluster.nodes},{cluster.ranks},-1,-1\n"


def _comment(text: str) -> str:
    """Comment lines, wrapped long before the plugin splits the line, whose rest it would read as a
    row."""
    indent = " " * (len(text) - len(text.lstrip()))
    return comment(text, indent=indent, break_on_hyphens=False) + "\n"
