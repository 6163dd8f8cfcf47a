"""Which algorithms a library may have run: those to compare (:func:`algorithms_to_try`), and those
that its own rules or cost model pick (:func:`library_runs_of`)."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, Primitive
from colltool.calibration.series_prices import sizes_of
from colltool.estimate.groups import PlacedGroup
from colltool.estimate.nccl_hardware import hardware_of
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import picks
from colltool.libraries.nccl.names import spec_of
from colltool.logs.series import LogLibrary, Series, log_library
from colltool.network.group import JoinedBy

# Algorithms by library and collective, and MPICH's rules.
CANDIDATES = Path(__file__).with_name("candidates.toml")

# Factors on the error of unseen sizes that overrule a library's documented choice, rules of thumb
# of ours: NCCL's version is known from the log, which MPI ran is not.
_NCCL_WORTH = 1.5
_MPICH_WORTH = 1.2


class DocumentedChoice(NamedTuple):
    """What says which algorithms ran, and the factor by which others must predict unseen sizes
    better to be preferred."""

    source: str
    worth: float


class LibraryRuns(NamedTuple):
    """The algorithms that the library would run, and what says so.

    Args:
        runs: for each series, the algorithm at each of its points.
    """

    documented: DocumentedChoice
    runs: tuple[tuple[str, ...], ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The algorithms that run at some size, first ones first."""
        return tuple(dict.fromkeys(chain(*self.runs)))


def algorithms_to_try(
    primitive: Primitive, library: str, joined_by: JoinedBy, tiers: int
) -> tuple[str, ...]:
    """Algorithms to try, likeliest first; some may not run on the group.

    Args:
        joined_by: how the outermost tier's endpoints are connected.
        tiers: how many the group spans.
    """
    tables = packaged_toml(CANDIDATES)
    if joined_by == "pair_links" and primitive in tables["full_mesh"]:
        return tuple(tables["full_mesh"][primitive])
    if log_library(library) is LogLibrary.MPI:
        return tuple(tables["mpi"][primitive])
    # every message to another node is sent by its host, where they queue
    if primitive is A2A and tiers > 1:
        return ("pairwise", "direct")
    names = tables["nccl"][primitive]
    # across nodes NCCL's rings use every NIC
    return tuple(name for name in names if name != "ring" or tiers == 1)


def nccl_on(fabric: Fabric, placed: Sequence[PlacedGroup], library: str) -> tuple[Hardware, ...]:
    """The hardware that NCCL's model sees under each group. Empty where it is unknown, or another
    library ran."""
    facts = fabric.library_facts
    if not log_library(library).may_be_nccl or facts is None or facts.name != "nccl":
        return ()
    try:
        return tuple(hardware_of(group) for group in placed)
    except ColltoolError:  # facts are missing, or NCCL's model knows no such fabric
        return ()


def library_runs_of(
    series: Sequence[Series], hardware_of_series: Sequence[Hardware]
) -> LibraryRuns | None:
    """What ran by the library's own rules; None where they are unknown. ``hardware_of_series``: as
    NCCL's model sees it, empty where unknown."""
    primitive = series[0].primitive
    if log_library(series[0].library) is LogLibrary.MPI:
        rule = packaged_toml(CANDIDATES)["mpich"].get(primitive)
        if rule is None:
            return None
        # other MPIs have rules of their own
        mpich = DocumentedChoice("MPICH's rules pick", _MPICH_WORTH)
        return LibraryRuns(mpich, tuple(_mpich_runs(measured, rule) for measured in series))
    # NCCL's facts are missing, or it has no such collective
    if not hardware_of_series or primitive not in hardware_of_series[0].constants.algorithms:
        return None
    runs = []
    for hardware, measured in zip(hardware_of_series, series, strict=True):
        sizes = [max(size, 1.0) for size in sizes_of(measured)]
        chosen = picks(hardware, primitive, sizes)
        runs.append(tuple(spec_of(pick.algorithm, primitive, hardware) for pick in chosen))
    nccl = DocumentedChoice(f"NCCL {hardware_of_series[0].version}'s own model picks", _NCCL_WORTH)
    library_runs = LibraryRuns(nccl, tuple(runs))
    # an empty name: NCCL ran what is not a schedule here
    return library_runs if all(library_runs.algorithms) else None


def _mpich_runs(series: Series, rule: dict[str, Any]) -> tuple[str, ...]:
    """MPICH's algorithm at each size: its rule changes at a size per peer."""
    peers = series.ranks if series.primitive is A2A else 1
    return tuple(
        rule["large" if size > rule["most_bytes"] * peers else "small"] for size in sizes_of(series)
    )
