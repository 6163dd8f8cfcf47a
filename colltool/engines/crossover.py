"""Where a library's kernels cross on a machine, and what its own thresholds cost there.

A crossing is a size at which the fastest of the measured kernels changes. A threshold is a size at
which the library's own dispatch table changes its kernel: it is compared with the size at which the
two kernels take the same time (their tie). :func:`kernel_crossover` is the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.engines.dispatch import DispatchRule, pick_at, rules_for, too_many_ranks
from colltool.engines.estimates import within_measured
from colltool.engines.files import EITHER, NCCL, KernelFile, LaunchFile, LibraryFile, Mode
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.launch import host_launch, launch_mode
from colltool.engines.measured import measured_kernels
from colltool.engines.price import nccl_estimate
from colltool.engines.results import KernelCrossover, Threshold
from colltool.engines.site import KernelSite, kernel_site
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric

# Bytes at which kernels are compared, 8 for each doubling up to 1 TiB, above any message: between two
# of them one crossing at most is looked for.
_SIZES = [2.0 ** (step / 8) for step in range(8 * 40 + 1)]
# factors of a threshold at which NCCL is compared, 1/64 to 64: few, as its prices take longer
_FACTORS = [2.0 ** (step / 2) for step in range(-12, 13)]
# halvings of the step between two sizes: to 1e-12 of a size
_HALVINGS = 40

# bytes of a call to its seconds, or to the seconds by which one call is ahead of another
_SecondsAt = Callable[[float], float]


def kernel_crossover(
    library: LibraryFile,
    fabric: Fabric,
    operation: str,
    group: AnyGroup = None,
    mode: Mode | None = None,
) -> KernelCrossover:
    """Return every size at which the fastest kernel changes, and the library's own thresholds.

    NCCL is compared at thresholds only: crossings are those of the library's own kernels.

    Args:
        operation: what the kernels do, as library files name it: ``all_reduce``.
        group: the ranks; None for all of the fabric.
        mode: how an engine launches calls; None: in CUDA graphs.

    Raises:
        ColltoolError: no kernels on this machine, or only one and no threshold.
    """
    mode = launch_mode(library, mode)
    site = kernel_site(fabric, group)
    rules = rules_for(library, operation, site)
    if too_many_ranks(library, site) or (rules and all(rule.kernel == NCCL for rule in rules)):
        raise ColltoolError(
            f"{library.full_name} leaves these {site.ranks} ranks to NCCL",
            argument="ranks",
            fix="fewer ranks, such as of one host; or the crossover of nccl",
        )
    measured = measured_kernels(library, operation, site, rules)
    kernels = tuple([numbers.kernel for numbers in measured])
    launches: dict[str, LaunchFile] = {}
    if mode == "eager":
        for name in (*(kernel.name for kernel in kernels), NCCL):
            launches[name] = host_launch(library, site, name)
    contest = _KernelContest(kernels, site, launches)

    def nccl_s(size: float) -> float:
        return contest.launched_s(NCCL, nccl_estimate(fabric, group, size).total_s, size)

    thresholds = tuple(_thresholds(contest, rules, nccl_s))
    if len(kernels) < 2 and not thresholds:
        raise ColltoolError(
            f"{library.full_name} has one kernel on {site.gpu}: {kernels[0].name}",
            argument="library",
            fix="price it: colltool price",
        )
    notes = [library.said]
    for numbers in measured:
        notes += [*numbers.notes, numbers.kernel.said]
    return KernelCrossover(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        library=library.full_name,
        crossings=tuple(contest.changes_of_fastest()),
        thresholds=thresholds,
        mode=mode,
        notes=tuple(dict.fromkeys(filter(None, notes))),
        overrides=fabric.overrides,
    )


def _thresholds(
    contest: _KernelContest, rules: list[DispatchRule], nccl_s: _SecondsAt
) -> Iterator[Threshold]:
    """Where the library's pick changes, by size. Left out are changes from NCCL to a kernel, and those
    from or to a kernel that was not measured here.

    Args:
        nccl_s: of NCCL's all-reduce, by bytes.
    """
    # all finite: a row without an end states a size above any message
    ends: set[float] = set()
    for rule in rules:
        ends |= {rule.from_bytes, rule.to_bytes}
    edges = sorted(ends)
    for before, size, after in zip(edges, edges[1:], edges[2:], strict=False):
        # between two edges the pick is the same, but for sizes of other multiples
        lower = pick_at(rules, _between(before, size))
        upper = pick_at(rules, _between(size, after))
        if lower is None or upper is None or lower.kernel == upper.kernel:
            continue
        low = contest.fastest_of(lower.kernel, size)
        high = contest.fastest_of(upper.kernel, size)
        if low is not None and (high is not None or upper.kernel == NCCL):
            yield contest.threshold(low, high, size, nccl_s)


def _between(low: float, high: float) -> float:
    """A size between two, a multiple of 16 bytes where one lies there: rules of shipped libraries
    take these if they take any."""
    middle = (low + high) / 2
    rounded = middle // 16 * 16
    return rounded if low < rounded < high else middle


class _KernelContest(NamedTuple):
    """Kernels that were measured on a machine, compared by size.

    Args:
        kernels: at least one.
        launches: how the host launches each, and NCCL's, by name; empty in CUDA graphs.
    """

    kernels: tuple[KernelFile, ...]
    site: KernelSite
    launches: dict[str, LaunchFile]

    def fastest_of(self, names: str, size: float) -> KernelFile | None:
        """The kernel that is fastest at a size of those that a rule names, one or several joined by
        EITHER; None if none of them was measured here, as with NCCL."""
        candidates = [kernel for kernel in self.kernels if kernel.name in names.split(EITHER)]
        return min(candidates, key=lambda kernel: self.seconds(kernel, size), default=None)

    def seconds(self, kernel: KernelFile, size: float) -> float:
        """Seconds of a kernel for ``size`` bytes."""
        # as in prices, sizes below the measured ones take as long as the smallest of these
        evaluated_bytes, _ = within_measured(kernel, size)
        call = KernelCall(self.site.ranks, evaluated_bytes, nic_Bps=self.site.nic_Bps)
        seconds = FORMULAS[kernel.formula].of(kernel.parameters, call).total_s
        return self.launched_s(kernel.name, seconds, evaluated_bytes)

    def launched_s(self, name: str, seconds: float, size: float) -> float:
        """Seconds of a call of ``size`` bytes whose kernel takes ``seconds``."""
        return self.launches[name].total_s(seconds, size) if self.launches else seconds

    def fastest(self, size: float) -> str:
        """The name of the fastest kernel at a size."""
        return min(self.kernels, key=lambda kernel: self.seconds(kernel, size)).name

    def _is_fastest(self, name: str, size: float) -> bool:
        """Whether a kernel, by name, is the fastest at a size."""
        return self.fastest(size) == name

    def changes_of_fastest(self) -> Iterator[tuple[float, str, str]]:
        """Yield sizes at which the fastest kernel changes, with the fastest below and above."""
        for low, high in pairwise(_SIZES):
            below = self.fastest(low)
            if self.fastest(high) != below:
                size = _bisect(partial(self._is_fastest, below), low, high)
                # a little above, where the two no longer take the same time
                yield size, below, self.fastest(size * (1 + 1e-9))

    def threshold(
        self, low: KernelFile, high: KernelFile | None, size: float, nccl_s: _SecondsAt
    ) -> Threshold:
        """The threshold at ``size`` bytes, with the tie that is the fewest bytes away from it.

        Args:
            low: the kernel below the threshold.
            high: the kernel above; None for NCCL, which counts as measured at any size.
            nccl_s: of NCCL's all-reduce, by bytes.
        """
        above = NCCL
        above_s = nccl_s
        sizes = [size * factor for factor in _FACTORS]
        own_kernels = [low]
        if high is not None:
            above = high.name
            above_s = partial(self.seconds, high)
            sizes = _SIZES
            own_kernels.append(high)

        def ahead_s(other_size: float) -> float:
            """Seconds by which the kernel below the threshold is ahead at a size."""
            return above_s(other_size) - self.seconds(low, other_size)

        tie = min(_ties(ahead_s, sizes), key=lambda other_tie: abs(other_tie - size), default=None)
        apart_s = ahead_s(size)
        return Threshold(
            below=low.name,
            above=above,
            at_bytes=size,
            equal_bytes=tie,
            costs_s=abs(apart_s),
            measured=all(_was_measured(kernel, size, tie) for kernel in own_kernels),
            faster=low.name if apart_s >= 0 else above,
        )


def _ties(ahead_s: _SecondsAt, sizes: Sequence[float]) -> list[float]:
    """Sizes at which a difference of times changes its sign, at most one between two of ``sizes``,
    which ascend."""
    ties = []
    low, low_s = sizes[0], ahead_s(sizes[0])
    for size in sizes[1:]:
        size_s = ahead_s(size)
        if size_s * low_s < 0:
            ties.append(_bisect(partial(_has_sign, ahead_s, low_s), low, size))
        # sizes of no difference are passed over: the host may launch both calls in the same time
        if size_s != 0:
            low, low_s = size, size_s
    return ties


def _has_sign(ahead_s: _SecondsAt, signed: float, size: float) -> bool:
    """Whether a difference at a size has the sign of ``signed``."""
    return ahead_s(size) * signed > 0


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """The size between two at which a condition that holds at ``low`` ends."""
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        if is_below(middle):
            low = middle
        else:
            high = middle
    return high


def _was_measured(kernel: KernelFile, size: float, tie: float | None) -> bool:
    """Whether a kernel was measured at a threshold of ``size`` bytes, and at its tie if it has one; a
    kernel without sizes is taken to be measured at all sizes."""
    if kernel.sizes is None:
        return True
    least, largest = kernel.sizes
    sizes = [size] if tie is None else [size, tie]
    return least <= min(sizes) and max(sizes) <= largest
