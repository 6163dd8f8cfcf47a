"""What a healthy machine reaches in a test of nccl-tests, and what a gate may ask of it.

:func:`expected` prices what the library runs at each size. The gate is the bus bandwidth that a
share of healthy machines keep: the one-sided end of the price's interval
(:mod:`colltool.estimate.interval`), at 95% a little narrower than the interval's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log2
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, either
from colltool.base.formatting import percent
from colltool.base.primitives import NCCL_TESTS, Primitive
from colltool.base.result import Result, result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.interval import Interval, is_network
from colltool.estimate.library_pick import with_library_choice
from colltool.estimate.placement import AnyGroup, GroupPlacement
from colltool.estimate.price import price_list
from colltool.estimate.results import Infeasible, Overrides
from colltool.estimate.user_price import row_with_accuracy
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import known_version, nearest_version

SHARE = 0.95
"""Share of healthy machines that a gate lets pass."""
LEAST_SHARE = 0.5
MOST_SHARE = 0.999
"""Shares that a gate may be asked for: below half it is no gate, above no measurement tells."""
SIZES = (8.0, 16 * 2.0**30)
"""The first and the last size, bytes, as nccl-tests is usually run."""
NCCL_OF_TODAY = (2, 26)
"""From here on NCCL's times hardly differ by version."""
# How many times as long NCCL 2.23 took as 2.27.3 and 2.29.2 did on 2 and 8 H100, up to 64 KiB and
# from 128 MiB on: all-gather and reduce-scatter of ai-dynamo/aiconfigurator, medians.
_OLD_NCCL_UP_TO_64KiB = 1.20
_OLD_NCCL_FROM_128MiB = 1.03
# Sizes, log2 of bytes.
_64KiB = 16.0
_8MiB = 23.0
_128MiB = 27.0
# Share of the quantile of sigma that a gate goes to across nodes from 128 MiB on. Of measurements whose
# source no price has seen as many keep such a gate as keep one by the whole quantile elsewhere
# (tests/benchmarks/bench_expect.py).
_REACH_ACROSS = 0.9
MEASURED = ("measured", "interpolated")
"""What an interval rests on where measurements support a gate."""


class ExpectedSize(NamedTuple):
    """What is expected of one test at one size.

    Args:
        test: nccl-tests' name without ``_perf``.
        row: the price of what the library runs, with its interval.
        slowest_s: seconds within which the share of healthy machines stay.
    """

    primitive: Primitive
    test: str
    ranks: int
    bytes: float
    row: AlgorithmEstimate
    slowest_s: float

    @property
    def expected_s(self) -> float:
        """The price, seconds."""
        return float(self.row.total_s)

    @property
    def busbw_Bps(self) -> float:
        """The expected bus bandwidth."""
        return float(self.row.busbw_Bps)

    @property
    def floor_busbw_Bps(self) -> float:
        """The bus bandwidth that a gate may ask."""
        return self.busbw_Bps * self.expected_s / self.slowest_s

    @property
    def floor_share(self) -> float:
        """The bus bandwidth that a gate may ask, relative to what is expected."""
        return self.expected_s / self.slowest_s

    @property
    def interval(self) -> Interval:
        """The interval of the price."""
        # expected() gives every row one
        assert self.row.interval is not None
        return self.row.interval

    @property
    def supported(self) -> bool:
        """Whether measurements of such machines support the gate; else it is the wide one."""
        return self.interval.basis in MEASURED


class MeasuredSize(NamedTuple):
    """A measured size beside what was expected of it.

    Args:
        series: the log's series in words.
        file: the log that has it, of several ranks' the first.
        where: ``file:line`` of its row.
    """

    series: str
    file: str
    where: str
    ranks: int
    measured_s: float
    measured_busbw_Bps: float
    expected: ExpectedSize

    @property
    def short(self) -> bool:
        """Whether it is slower than a gate may ask."""
        return self.measured_s > self.expected.slowest_s

    @property
    def of_floor(self) -> float:
        """The measured bus bandwidth relative to what a gate may ask."""
        return self.expected.slowest_s / self.measured_s


@result
class Expected(Result):
    """What is expected of a machine, test by test and size by size, and what was measured of it.

    Args:
        group: of the machine, or of the largest series of the logs.
        library: the library whose picks are priced; empty where any may run.
        share: of healthy machines that reach what a gate asks.
        noun: what holds the innermost ranks: ``node``, ``rack``; empty where nothing does.
        device: the accelerator; empty where the fabric does not say.
        left_out: tests that are not priced, and why.
        logs: what was judged; empty without logs.
        measured: their sizes.
        doctor: the command that finds out why a size falls short; empty where none does.
    """

    subject: ClassVar[str] = "expect"
    fabric: str
    group: GroupPlacement
    library: str
    share: float
    readings: ModelOptions
    sizes: tuple[ExpectedSize, ...]
    noun: str = ""
    device: str = ""
    left_out: tuple[Infeasible, ...] = ()
    logs: tuple[str, ...] = ()
    measured: tuple[MeasuredSize, ...] = ()
    doctor: str = ""
    overrides: Overrides = ()

    @property
    def nodes(self) -> int:
        """Whole nodes, or racks, that the group fills; 1 where its ranks are within one."""
        if not self.noun or self.group.domains or self.group.stride > 1:
            return 1
        return self.group.per_domain[-1]

    @property
    def short(self) -> tuple[MeasuredSize, ...]:
        """The measured sizes that fall short."""
        return tuple(size for size in self.measured if size.short)

    @property
    def passed(self) -> bool:
        """Whether no measured size falls short."""
        return not self.short

    @property
    def largest(self) -> tuple[ExpectedSize, ...]:
        """Each test at its largest size, in the order of the tests."""
        # of sizes of one primitive the last stays
        return tuple({size.primitive: size for size in self.sizes}.values())


def test_name(primitive: Primitive) -> str:
    """nccl-tests' name of a primitive: ``alltoall``."""
    return NCCL_TESTS[primitive].removesuffix("_perf")


def check_share(share: float) -> float:
    """The share of machines that a gate lets pass; refused outside LEAST_SHARE to MOST_SHARE."""
    if LEAST_SHARE <= share <= MOST_SHARE:
        return share
    raise ColltoolError(
        f"a gate that {percent(share)} of healthy machines keep does not follow from measurements",
        argument="share",
        fix=f"write {either(shell='95% or 0.95', python='0.95')}: from 50% to 99.9%",
    )


def expected(
    fabric: Fabric,
    primitive: Primitive,
    sizes: Sequence[float],
    group: AnyGroup,
    readings: ModelOptions,
    share: float,
) -> list[ExpectedSize]:
    """What is expected of a group at each size, in bytes as nccl-tests counts them; ``share``: of
    healthy machines that keep what a gate asks.

    Raises:
        ColltoolError: an ideal price, which no measurement is compared with.
    """
    if readings.ideal:
        raise ColltoolError(
            "an ideal price is compared with no measurement, so no gate follows from it",
            argument="ideal",
            fix=f"leave {argument_text('ideal')} out",
        )
    version = nccl_version(fabric)
    fabric = _with_known_picks(fabric, version)
    prices = price_list(fabric, primitive, sizes, group, readings).prices
    picked = with_library_choice(prices, fabric, readings, required=False, lead=True)
    placed = place(fabric, group)
    over_network = is_network(fabric, placed.spans[-1].tier)
    expected_sizes = []
    for price in picked:
        row = row_with_accuracy(price.best, primitive, fabric, price.group.spec, readings)
        # only an ideal price has none
        assert row.interval is not None
        size = float(price.bytes)
        reach = gate_reach(size) if over_network else 1.0
        slowest_s = row.interval.slowest_s(float(row.total_s), share, reach)
        slowest_s *= _age_factor(version, size)
        expected_sizes.append(
            ExpectedSize(
                primitive=primitive,
                test=test_name(primitive),
                ranks=price.ranks,
                bytes=size,
                row=row,
                slowest_s=slowest_s,
            )
        )
    return expected_sizes


def gate_reach(size: float) -> float:
    """The share of the quantile of sigma that a gate across nodes goes to, at a size in bytes: 1 up to
    8 MiB, less from there to 128 MiB."""
    return 1 + (_REACH_ACROSS - 1) * _between(size, _8MiB, _128MiB)


def nccl_version(fabric: Fabric) -> str:
    """The version of NCCL that a fabric states. Empty where another library runs, or none is
    stated."""
    facts = fabric.library_facts
    if facts is None or facts.name != "nccl":
        return ""
    return facts.version or ""


def _with_known_picks(fabric: Fabric, version: str) -> Fabric:
    """The fabric with the nearest version of NCCL whose picks are known: without a pick the fastest
    schedule would be expected of it, which NCCL may not run. ``version``: empty for other
    libraries."""
    if not version or known_version(version):
        return fabric
    return under_library(fabric, "nccl", nearest_version(version))


def _age_factor(version: str, size: float) -> float:
    """How many times as long a gate allows an old NCCL to take; 1 for others."""
    number = re.match(r"(\d{1,3})\.(\d{1,3})", version)
    if number is None or (int(number[1]), int(number[2])) >= NCCL_OF_TODAY:
        return 1.0
    change = _OLD_NCCL_FROM_128MiB - _OLD_NCCL_UP_TO_64KiB
    return _OLD_NCCL_UP_TO_64KiB + change * _between(size, _64KiB, _128MiB)


def _between(size: float, first: float, last: float) -> float:
    """0 up to one size, 1 from another on, straight in the logarithm between; ``first`` and ``last``
    as log2 of bytes."""
    return min(max((log2(size) - first) / (last - first), 0.0), 1.0)
