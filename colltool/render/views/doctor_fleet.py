"""Runs of several sets of hosts beside each other, a part of ``doctor``: which hosts are slow or were
in failed runs (:func:`fleet_blocks`, :class:`FleetDocument`)."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.formatting import counted, whole_percent
from colltool.diagnosis.results import Fleet, FleetHost, FleetPair
from colltool.render.blocks import Block, Columns, Lines, Table, label, later, number
from colltool.render.documents import Document, derived

_HOSTS: Columns[FleetHost] = (
    label("host"),
    number("runs"),
    number("slow"),
    number("failed"),
    number("of_fleet", "of the median", whole_percent),
    label("state", "is"),
)
_MOST_HOSTS = 5  # rows without --all
_WIDEST_MATRIX = 24  # hosts that a matrix of text has room for
_MOST_SENTENCES = 3  # without --all


def fleet_blocks(fleet: Fleet) -> Iterator[Block]:
    """What the runs show, the hosts with the worst first, and the rates of pairs."""
    title = f"{len(fleet.hosts)} hosts in {counted(fleet.files, 'run')}"
    sentences = list(map(str, fleet.said)) or [f"{title}: all alike"]
    yield Lines("the fleet", sentences, first=_MOST_SENTENCES)
    worst_first = sorted(fleet.hosts, key=_badness)
    bad = sum(host.bad for host in fleet.hosts)
    yield Table(_HOSTS, worst_first, title=title, first=max(_MOST_HOSTS, bad))
    if fleet.pairs and len(fleet.hosts) <= _WIDEST_MATRIX:
        matrix = Lines("pairs, in % of the median; x failed", tuple(_matrix(fleet)), verbatim=True)
        yield later(matrix)


def _badness(host: FleetHost) -> tuple[bool, int, float]:
    """The key by which bad hosts come first, those of most failed runs, and the slowest."""
    return not host.bad, -host.failed, host.of_fleet or 0.0


def _matrix(fleet: Fleet) -> Iterator[str]:
    """A line per host: its name, then a cell for each host before it, ``.`` without a run of both.

    a
    b  98
    c   .   x
    """
    names = [host.host for host in fleet.hosts]
    width = max(map(len, names))
    # by two names in either order
    cells = {}
    for pair in fleet.pairs:
        text = "x"
        if not pair.failed:
            text = f"{100 * (pair.of_fleet or 0.0):.0f}"
        cells[frozenset((pair.a, pair.b))] = text
    for index, name in enumerate(names):
        line = f"{name:{width}}"
        for earlier in names[:index]:
            cell = cells.get(frozenset((name, earlier)), ".")
            line += f"{cell:>4}"
        yield line


class FleetDocument(Document, of=Fleet):
    """Runs of several sets of hosts beside each other."""

    runs: int = derived("files")
    said: list[str]
    hosts: list[FleetHost]
    pairs: list[FleetPair]
