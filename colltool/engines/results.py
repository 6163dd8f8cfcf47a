"""Results of kernels: prices by a library's own kernels (:class:`KernelPrice`), crossovers
(:class:`KernelCrossover`), and listings of libraries (:class:`LibraryList`, :class:`LibraryShown`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from colltool.base.primitives import Primitive, busbw_factor, parse_primitive
from colltool.base.result import Result
from colltool.engines.tokens import Tokens
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.interval import Interval
from colltool.estimate.placement import GroupPlacement
from colltool.estimate.results import Overrides

# operations that are collectives, of which nccl-tests has a bus bandwidth
PRIMITIVES = frozenset(primitive.value for primitive in Primitive)


class KernelEstimate(NamedTuple):
    """One kernel's time for a call, in seconds and bytes.

    Args:
        library: ``vllm@0.24.0``; ``nccl`` for what it leaves to NCCL.
        bytes: M of an all-reduce; for experts what leaves the busiest rank.
        latency_s, bandwidth_s: the parts of its time that do not and that do grow with bytes.
        wire: the outermost tier that carries it.
        formula: as ``library show`` prints it.
        error: the median relative error; None if unknown.
        error_of: the rows on which the error was measured.
        measured: what its numbers were measured on.
        picked: whether the library takes this kernel.
        measured_here: whether it was measured on such a GPU, number of ranks and size.
        interval: where nine of ten measurements lie; None if unknown.
        mode: whether it runs as in a CUDA graph, or as the engine's host calls it.
        captured: whether a CUDA graph can run it.
        sends: the format of the values that it sends; empty for other calls than of experts.
    """

    library: str
    kernel: str
    operation: str
    ranks: int
    bytes: float
    latency_s: float
    bandwidth_s: float
    wire: str
    formula: str = ""
    error: float | None = None
    error_of: str = ""
    measured: str = ""
    picked: bool = False
    measured_here: bool = True
    notes: tuple[str, ...] = ()
    interval: Interval | None = None
    mode: str = "graph"
    captured: bool = True
    sends: str = ""

    @property
    def total_s(self) -> float:
        return self.latency_s + self.bandwidth_s

    @property
    def algbw_Bps(self) -> float:
        """Bytes over the time, as nccl-tests has it."""
        return self.bytes / self.total_s

    @property
    def busbw_Bps(self) -> float:
        """algbw times nccl-tests' factor; for experts algbw itself."""
        if self.operation in PRIMITIVES:
            return self.algbw_Bps * busbw_factor(parse_primitive(self.operation), self.ranks)
        return self.algbw_Bps

    @property
    def bound(self) -> str:
        """What takes more of it: ``latency`` or ``bandwidth``."""
        return "latency" if self.latency_s >= self.bandwidth_s else "bandwidth"


def row_of_algorithm(
    row: AlgorithmEstimate,
    library: str,
    primitive: Primitive,
    ranks: int,
    size: float,
    measured: str,
) -> KernelEstimate:
    """Return colltool's price of an algorithm as a row among kernels.

    Args:
        size: bytes.
        measured: words for where the price is from.
    """
    return KernelEstimate(
        library=library,
        kernel=row.title,
        operation=primitive.value,
        ranks=ranks,
        bytes=size,
        latency_s=float(row.alpha_s + row.overhead_s + row.software_s),
        bandwidth_s=float(row.bandwidth_s),
        wire=row.phases[-1].tier if row.phases else "",
        formula=row.title,
        measured=measured,
        interval=row.interval,
    )


class KernelChoice(NamedTuple):
    """The requested library and the kernel that it takes, by its table or as the fastest; ``reason``
    says which, for people."""

    name: str
    version: str
    kernel: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class KernelPrice(Result):
    """One call by a library's kernels: the one that it takes first, then the fastest.

    Args:
        bytes: M of an all-reduce; for dispatch and combine all copies of all tokens of a rank: tokens
            times experts of each, values of a token and bytes of a value.
        results: the one that the library takes first; at least one.
        library: the requested one; None if every library measured on the machine is listed.
        what: the tokens of a call of experts.
        refused: libraries that were not measured there, and why.
        mode: ``graph`` if a CUDA graph launches it, or ``eager``; None for experts.
    """

    subject: ClassVar[str] = "kernels"
    fabric: str
    operation: str
    group: GroupPlacement
    bytes: float
    results: tuple[KernelEstimate, ...]
    library: KernelChoice | None = None
    what: Tokens | None = None
    refused: tuple[tuple[str, str], ...] = ()
    mode: str | None = None
    notes: tuple[str, ...] = ()
    overrides: Overrides = ()

    @property
    def ranks(self) -> int:
        return self.group.ranks

    @property
    def best(self) -> KernelEstimate:
        """The one that the library takes."""
        return self.results[0]

    @property
    def fastest(self) -> KernelEstimate:
        """The one that takes least, whatever the library takes."""
        return min(self.results, key=lambda row: row.total_s)


@dataclass(frozen=True, eq=False, repr=False)
class KernelPriceList(Result):
    """One :class:`KernelPrice` a size."""

    subject: ClassVar[str] = "kernels"
    prices: tuple[KernelPrice, ...]


class Threshold(NamedTuple):
    """A size at which the library changes its kernel, and where the two take the same time.

    Args:
        below, above: the kernels on either side; ``nccl`` where it leaves a call to NCCL.
        at_bytes: the library's own size.
        equal_bytes: where both take the same time on this machine; None if the same kernel is
            faster at every size.
        costs_s: seconds by which the two are apart at the library's size.
        measured: whether both kernels were measured at both sizes.
        faster: the faster of the two at the library's size.
    """

    below: str
    above: str
    at_bytes: float
    equal_bytes: float | None
    costs_s: float
    measured: bool
    faster: str


@dataclass(frozen=True, eq=False, repr=False)
class KernelCrossover(Result):
    """Where one kernel of a library overtakes another, and the library's own thresholds.

    Args:
        crossings: each a size in bytes, the fastest kernel below, and the fastest above.
        thresholds: empty if the library's table is unknown.
        mode: as in :class:`KernelPrice`.
    """

    subject: ClassVar[str] = "kernels"
    fabric: str
    operation: str
    group: GroupPlacement
    library: str
    crossings: tuple[tuple[float, str, str], ...]
    thresholds: tuple[Threshold, ...]
    mode: str | None = None
    notes: tuple[str, ...] = ()
    overrides: Overrides = ()

    @property
    def ranks(self) -> int:
        return self.group.ranks


@dataclass(frozen=True, eq=False, repr=False)
class LibraryList(Result):
    """Every shipped library, a row each."""

    subject: ClassVar[str] = "library_files"
    rows: tuple[LibraryRow, ...]


@dataclass(frozen=True, eq=False, repr=False)
class LibraryChecks(LibraryList):
    """Library files without mistakes."""

    checks: tuple[CheckedLibrary, ...] = ()


class CheckedLibrary(NamedTuple):
    """A library file without mistakes.

    Args:
        file: its path as typed.
        kernels, thresholds: how many it has.
        warnings: none, as no check doubts anything; results of other files have some.
    """

    file: str
    row: LibraryRow
    kernels: int
    thresholds: int
    warnings: tuple[Any, ...] = ()


class LibraryRow(NamedTuple):
    """A library in a listing; ``spoken`` is its display name."""

    name: str
    version: str
    spoken: str
    operations: tuple[str, ...]
    gpus: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class LibraryShown(Result):
    """A library file: kernels, their formulas, what they were measured on, and the dispatch table.

    Args:
        like: GPUs that were not measured, each with those that stand in for it.
        versions: those that were measured, where a file has several.
        rules: of NCCL's cost model: keys and values; empty for kernels.
    """

    subject: ClassVar[str] = "library_files"
    library: str
    spoken: str
    kernels: tuple[KernelRow, ...]
    dispatch: tuple[DispatchRow, ...]
    like: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]
    versions: tuple[str, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()


class KernelRow(NamedTuple):
    """A kernel in a library's listing, with sizes or tokens, formula and parameters as text."""

    kernel: str
    operation: str
    gpus: tuple[str, ...]
    ranks: tuple[int, int]
    sizes: str
    formula: str
    parameters: str
    error: float | None
    said: str


class DispatchRow(NamedTuple):
    """A row of a dispatch table in a library's listing; no GPUs for any.

    Args:
        to_included: whether the last size counts.
        per: what the sizes are of: a rank, a block of an all-to-all, or all ranks in total.
    """

    kernel: str
    gpus: tuple[str, ...]
    ranks: tuple[int, int]
    from_bytes: float
    to_bytes: float
    to_included: bool = False
    per: str = "rank"
