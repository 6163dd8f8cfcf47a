"""Results of kernels: prices by a library's own kernels (:class:`KernelPrice`), crossovers
(:class:`KernelCrossover`), and listings of libraries (:class:`LibraryList`, :class:`LibraryShown`).

Libraries are files of :mod:`colltool.engines.files`, which says what an ``operation`` may be: a collective, or
prepare, dispatch and combine of experts.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from colltool.base.primitives import Primitive, busbw_factor, parse_primitive
from colltool.base.result import Result, result
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
        operation: one of ``OPERATIONS`` of the library files.
        bytes: M of a collective; for experts what leaves the busiest rank.
        latency_s: the part of its time that is the same for any number of bytes.
        bandwidth_s: the part that grows with the bytes.
        wire: the name of the outermost tier that carries it; empty if none does.
        formula: in words, as ``library show`` prints it.
        error: the median relative error of such prices; None if unknown.
        error_of: the rows on which this error was measured, in words; empty if unknown.
        measured: what its numbers were measured on, in words.
        picked: whether the library takes this kernel.
        measured_here: whether it was measured on such a GPU, number of ranks and size; else its
            numbers are carried over, with a larger error.
        notes: sentences on where its numbers are not those of this call.
        interval: where nine of ten measurements lie; None if unknown.
        mode: for experts ``graph`` for the kernel alone, as a CUDA graph runs it, or ``eager``, as
            the engine's host calls it; a collective's is in :class:`KernelPrice`.
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
        """The time of the call."""
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
        """Which part is the larger: ``latency``, also where both are equal, or ``bandwidth``."""
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
        row: of one size.
        library: as :class:`KernelEstimate` names it.
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
        # an algorithm has no formula of kernels: its title says what is priced
        formula=row.title,
        measured=measured,
        interval=row.interval,
    )


class KernelChoice(NamedTuple):
    """The requested library, by name and version, and the kernel that it takes, by its table or as the fastest;
    ``reason`` says which, for people."""

    name: str
    version: str
    kernel: str
    reason: str


@result
class KernelPrice(Result):
    """One call by a library's kernels.

    Args:
        fabric: its name.
        operation: as of :class:`KernelEstimate`.
        bytes: M of a collective; for experts all copies of all tokens of a rank: tokens times
            experts of each, values of a token and bytes of a value.
        results: at least one: the one that the library takes, then the others, the fastest first.
            For experts those measured on such a call come before extrapolated ones, and of
            each those that send the requested format before others.
        library: the requested one; None if every library measured on the machine is listed.
        what: the tokens of a call of experts; None for a collective.
        refused: libraries that were not measured there, each with the reason.
        mode: ``graph`` if a CUDA graph launches it, or ``eager``; None for experts, of which each
            row has its own.
        notes: sentences of the library's file on all of its prices.
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
        """The one that the library takes; of several libraries the first of their rows."""
        return self.results[0]

    @property
    def fastest(self) -> KernelEstimate:
        """The one that takes the least time, whichever the library takes."""
        return min(self.results, key=lambda row: row.total_s)


@result
class KernelPriceList(Result):
    """One :class:`KernelPrice` a size."""

    subject: ClassVar[str] = "kernels"
    prices: tuple[KernelPrice, ...]


class Threshold(NamedTuple):
    """A size at which the library changes its kernel, and where the two take the same time.

    Args:
        below, above: the kernels on either side; ``nccl`` where it leaves a call to NCCL.
        at_bytes: the library's own size, at which it changes from one to the other.
        equal_bytes: where both take the same time on this machine, the size nearest to the
            library's; None if the same kernel is faster at every size that was compared.
        costs_s: seconds by which the two are apart at the library's size, 0 or more.
        measured: whether both kernels, but for NCCL, were measured at both sizes.
        faster: the faster of the two at the library's size; of equal ones the one below.
    """

    below: str
    above: str
    at_bytes: float
    equal_bytes: float | None
    costs_s: float
    measured: bool
    faster: str


@result
class KernelCrossover(Result):
    """Where one kernel of a library overtakes another, and the library's own thresholds.

    Args:
        library: its name and version, ``vllm@0.24.0``.
        crossings: ascending; each a size in bytes, the fastest kernel below, and the fastest above.
        thresholds: empty if the library's table is unknown.
        mode: as in :class:`KernelPrice`.
        notes: sentences of the library's file on these kernels.
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


class LibraryRow(NamedTuple):
    """A library in a listing."""

    name: str
    version: str
    spoken: str  # the name that people know it by: ``vLLM``
    operations: tuple[str, ...]
    gpus: tuple[str, ...]


@result
class LibraryList(Result):
    """Every shipped library, a row each."""

    subject: ClassVar[str] = "library_files"
    rows: tuple[LibraryRow, ...]


class CheckedLibrary(NamedTuple):
    """A library file without mistakes.

    Args:
        file: its path as typed.
        row: the library in a listing.
        kernels, thresholds: how many it has of each.
        warnings: always empty. One view renders the checks of all kinds of files, and reads the
            warnings that those of other kinds have.
    """

    file: str
    row: LibraryRow
    kernels: int
    thresholds: int
    warnings: tuple[Any, ...] = ()


@result
class LibraryChecks(LibraryList):
    """Library files without mistakes, as ``library check`` has them: ``rows`` is one of each file."""

    checks: tuple[CheckedLibrary, ...] = ()


class KernelRow(NamedTuple):
    """A kernel in a library's listing."""

    kernel: str
    operation: str
    gpus: tuple[str, ...]  # that it was measured on
    ranks: tuple[int, int]  # the fewest and the most that it was measured on
    sizes: str  # the least and the largest that were measured: bytes or tokens; empty if not stated
    formula: str  # in words
    parameters: str  # ``name=value`` joined by commas, without those that are 0
    error: float | None  # the median relative error; None if unknown
    said: str  # notes of the file: the network, and what else it says; empty if nothing


class DispatchRow(NamedTuple):
    """A row of a dispatch table in a library's listing: where the library takes this kernel.

    Args:
        gpus: empty for any.
        ranks: the fewest and the most, both included.
        from_bytes, to_bytes: the sizes, without ``to_bytes`` itself unless ``to_included``.
        per: what the sizes are of: ``rank``, M of a rank; ``block``, one of an all-to-all; or
            ``total``, all ranks together.
    """

    kernel: str
    gpus: tuple[str, ...]
    ranks: tuple[int, int]
    from_bytes: float
    to_bytes: float
    to_included: bool = False
    per: str = "rank"


@result
class LibraryShown(Result):
    """A library file: kernels, their formulas, what they were measured on, and the dispatch table.

    Args:
        library: its name and version, ``vllm@0.24.0``.
        spoken: the name that people know it by.
        like: GPUs that were not measured, each with those that stand in for it, as one text.
        sources: of its numbers, each once.
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
