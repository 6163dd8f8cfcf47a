"""A group as input of ASTRA-sim's analytical network: ``network.yml`` and ``system.json``.

ASTRA-sim's network is a product of at most four dimensions, each with equal links. A bandwidth there is in units of 2^30 bytes/s
and one direction, a latency is of one link in ns; a message through a Switch takes two links. The files are for its
congestion-unaware binary, in which a message takes its links' latencies and its bytes over the bandwidth, as in colltool.
"""

import json
from collections.abc import Sequence
from textwrap import wrap

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import AR
from colltool.estimate.assumptions import Readings
from colltool.estimate.best_protocol import under_protocols
from colltool.estimate.group_spec import AnyGroup
from colltool.estimate.groups import PlacedGroup, place
from colltool.export.astra_dimensions import COLLECTIVES, RUNS, Dimension, all_reduce, dimensions_of
from colltool.export.astra_notes import Laid, about_system, how_to_run, left_out, misleads, size_notes
from colltool.fabric.model import Fabric

NETWORK, SYSTEM = "network.yml", "system.json"
MOST_DIMENSIONS = 4
_GIB = 2**30
_WIDTH = 120
_NO_COPIES = 10**9  # local-mem-bw in GB/s: ASTRA-sim charges copies in a rank's memory, which colltool's α and bandwidth contain


def astra_sim(fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None) -> dict[str, str]:
    """The two input files by name.

    Args:
        fabric: where.
        group: N, or who is in it; all of the fabric when None.
        ideal: every η is 1.
        size: M in bytes, nccl-tests' convention; the comments then say what to run for it.

    Raises:
        ColltoolError: a group that does not fit, or that ASTRA-sim's dimensions cannot express; says what and how to go on.
    """
    placed, dimensions, _ = _widest(_under_each(fabric, group, ideal))
    notes = [*left_out(placed, dimensions, ideal), *to_know(fabric, group, ideal, size), about_system()]
    return {NETWORK: _network(placed, dimensions, notes), SYSTEM: _system(dimensions)}


def to_know(fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None) -> list[str]:
    """What a user must know before the first run: which binary, what not to trust, which sizes to give.

    Args:
        fabric, group, ideal, size: as for :func:`astra_sim`.

    Raises:
        ColltoolError: as for :func:`astra_sim`.
    """
    several = _under_each(fabric, group, ideal)
    widest = _widest(several)
    return [*misleads(widest, several), *how_to_run(widest.dimensions), *size_notes(widest.placed.ranks, size)]


def _under_each(fabric: Fabric, group: AnyGroup, ideal: bool) -> list[Laid]:
    """The group under each protocol.

    Raises:
        ColltoolError: as for :func:`astra_sim`.
    """
    several = [_laid(under, Readings(ideal=ideal)) for under in under_protocols(place(fabric, group), AR)]
    if (count := len(several[0].dimensions)) > MOST_DIMENSIONS:
        what = f"{fabric.name} has {count} dimensions, ASTRA-sim takes at most {MOST_DIMENSIONS}"
        raise ColltoolError(what, argument="fabric", fix=f"a smaller group spans fewer: give {given('ranks')}")
    return several


def _widest(several: Sequence[Laid]) -> Laid:
    """ASTRA-sim has one set of numbers: those with the most bandwidth, of equals the last."""
    return min(reversed(several), key=lambda one: (one.curve.b, one.curve.a))


def _laid(under: PlacedGroup, readings: Readings) -> Laid:
    dimensions = dimensions_of(under, readings)
    return Laid(under, dimensions, all_reduce(under, dimensions))


def _network(placed: PlacedGroup, dimensions: Sequence[Dimension], notes: Sequence[str]) -> str:
    """YAML by hand: four short lists."""
    title = f"colltool export astra-sim: {placed.fabric.name}, {placed.placement.spoken}"
    comments = "".join(f"# {line}\n" for note in (title, *notes) for line in wrap(note, _WIDTH))
    lists = {
        "topology": [one.topology for one in dimensions],
        "npus_count": [str(one.npus) for one in dimensions],
        "bandwidth": [f"{one.bandwidth_Bps / _GIB:.12g}" for one in dimensions],
        "latency": [f"{one.latency_s * 1e9:.12g}" for one in dimensions],
    }
    units = {"bandwidth": "  # 2^30 B/s per directed link", "latency": "  # ns per link"}
    return comments + "".join(f"{key}: [{', '.join(items)}]{units.get(key, '')}\n" for key, items in lists.items())


def _system(dimensions: Sequence[Dimension]) -> str:
    names = {
        f"{primitive.spoken}-implementation": [RUNS[one.topology][primitive](one.npus) for one in dimensions]
        for primitive in COLLECTIVES
    }
    document = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        **names,
        "collective-optimization": "localBWAware",
        "local-mem-bw": _NO_COPIES,
    }
    return json.dumps(document, indent=2) + "\n"
