"""Outcomes of a comparison: whether a column is faster or slower than the first, and from which
size to which.

A :class:`CompareLine` holds the prices of all columns at one point and judges them there;
:func:`ranges_of` joins neighbouring sizes with one outcome. Two times are compared only if no
launch overhead or software time that one of them lacks could change the outcome.

Errors and intervals are of ratios: a *rival* ratio is over the fastest column's time, others are over the
first's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import exp
from typing import Literal, NamedTuple

from colltool.analysis.basis import LAUNCH_SHARE, PointTimes
from colltool.analysis.cells import Cell, point_times
from colltool.base.primitives import Primitive
from colltool.estimate.spread import sigma_table

# Relative difference below which times count as equal: prices are not known better.
SAME = 0.02
# Borders between outcomes of two rank counts within this factor count as one size.
NEAR = 1.25

# How a column does against the first. ``unlike``: two times that cannot be compared. ``first``,
# ``other`` and ``neither`` say which of the two can run the collective, where not both can.
Outcome = Literal["same", "slower", "faster", "unlike", "first", "other", "neither"]
# Who wins at a point, or at several points together.
VerdictKind = Literal[
    "winner",  # one is faster than all others by more than the error
    "behind",  # some are surely slower than the fastest, but not all
    "close",  # none is surely slower
    "mixed",  # of several points: some have a winner, and not all the same
    "same",  # no measurable difference
    "unlike",  # times that cannot be compared
    "alone",  # one column can run it
    "none",  # no column can
]
# Why a value makes no difference.
Reason = Literal[
    "tier",  # no two ranks meet on the tier
    "level",  # one domain of the level ``below`` holds all ``endpoints``
    "share",  # too few messages cross it at once
    "unpaid",  # the fastest ``algorithm`` does not pay it
    "small",  # it moves the time by at most ``most``
]


class SameReason(NamedTuple):
    """Why a value makes no difference; of the other fields only those that :data:`Reason` names for it
    are set."""

    reason: Reason
    key: str = ""  # empty between different fabrics
    tier: str = ""
    level: str = ""
    below: str = ""
    endpoints: int = 0
    algorithm: str = ""
    most: float = 0.0  # a share


class OutcomeRange(NamedTuple):
    """A size range with one outcome."""

    outcome: Outcome
    from_bytes: float
    to_bytes: float
    ratio: float  # the one farthest from 1; 1 where no size has a ratio
    # the error of the ratio, a share, if that is more than its distance from 1
    within: float | None = None
    why: tuple[SameReason, ...] = ()  # reasons for ``same``


class LineOutcome(NamedTuple):
    """How a column does against the first; ``within_error``: the difference is no larger than the
    ratio's own error."""

    outcome: Outcome
    within_error: bool = False


class PointVerdict(NamedTuple):
    """Who wins at a point."""

    kind: VerdictKind
    column: int | None  # that wins, or runs alone
    slower: tuple[int, ...] = ()  # of ``behind``: the columns that are surely slower


class CompareLine(NamedTuple):
    """The cells of all columns for a primitive, rank count and size."""

    primitive: Primitive
    ranks: int
    bytes: float
    cells: tuple[Cell, ...]
    missing: tuple[float, ...]  # launch seconds that a column does not state but others do
    # standard deviations of ln(a column's time / the first's), without what is the same for both;
    # 0 where nothing is known of it
    sigmas: tuple[float, ...]
    rival_sigmas: tuple[float, ...] = ()  # likewise over the fastest column's time

    def ratio(self, column: int) -> float | None:
        """A column's time over the first's. None if one is missing or they contain different terms
        that matter."""
        return self._ratio(0, column)

    def rival_ratio(self, column: int) -> float | None:
        """A column's time over the fastest's, 1 and more; None as for :meth:`ratio`."""
        fastest = self.fastest()
        return None if fastest is None else self._ratio(fastest, column)

    def _ratio(self, base: int, column: int) -> float | None:
        """A column's time over that of the column ``base``, both by number; None as for
        :meth:`ratio`."""
        base_s, column_s = self.cells[base].total_s, self.cells[column].total_s
        if base_s is None or column_s is None:
            return None
        if launch_matters((base_s, column_s), (self.missing[base], self.missing[column])):
            return None
        if software_time_matters(self.cells[base], self.cells[column]):
            return None
        return column_s / base_s

    def ratio_error(self, column: int) -> float:
        """What nine of ten measured ratios are within of ours, as a share."""
        return _share_of_sigma(self.sigmas[column])

    def rival_error(self, column: int) -> float:
        """Error of the ratio to the fastest column, as :meth:`ratio_error`."""
        return _share_of_sigma(self.rival_sigmas[column])

    def ratio_interval(self, column: int) -> tuple[float, float] | None:
        """Where nine of ten measured ratios lie. None without a ratio, or where nothing is known of
        its error."""
        if column == 0:
            return None
        return self._interval(column, self.ratio(column), self.ratio_error(column))

    def rival_interval(self, column: int) -> tuple[float, float] | None:
        """Interval of the ratio to the fastest column; None as for :meth:`ratio_interval`."""
        return self._interval(column, self.rival_ratio(column), self.rival_error(column))

    def _interval(
        self, column: int, ratio: float | None, error: float
    ) -> tuple[float, float] | None:
        """The interval of a ratio: of 2 with an error of 0.25 between 1.6 and 2.5. None where the
        column's own price has none."""
        if ratio is None or self.cells[column].interval is None:
            return None
        return ratio / (1 + error), ratio * (1 + error)

    def surely_slower(self, column: int) -> bool:
        """Whether a column is slower than the fastest by more than the error of their ratio, and
        measurably."""
        ratio = self.rival_ratio(column)
        return ratio is not None and ratio > max(1 + SAME, 1 + self.rival_error(column))

    def verdict(self) -> PointVerdict:
        """Who wins here, by the kinds of :data:`VerdictKind`."""
        fastest = self.fastest()
        if fastest is None:
            return PointVerdict("none", None)
        rivals = [
            column
            for column, cell in enumerate(self.cells)
            if column != fastest and cell.total_s is not None
        ]
        if not rivals:
            return PointVerdict("alone", fastest)
        ratios = []
        for rival in rivals:
            ratio = self.rival_ratio(rival)
            if ratio is None:
                return PointVerdict("unlike", None)
            ratios.append(ratio)
        if max(ratios) <= 1 + SAME:
            return PointVerdict("same", None)
        slower = tuple(filter(self.surely_slower, rivals))
        if len(slower) == len(rivals):
            return PointVerdict("winner", fastest)
        if slower:
            return PointVerdict("behind", None, slower)
        return PointVerdict("close", None)

    def winner(self) -> int | None:
        """The column that wins here; None where nobody surely does."""
        point_verdict = self.verdict()
        return point_verdict.column if point_verdict.kind == "winner" else None

    def outcome(self, column: int) -> LineOutcome:
        """How a column does against the first; where not both have a price, which can run it."""
        ratio = self.ratio(column)
        if ratio is not None:
            outcome = outcome_of(ratio)
            distance = max(ratio, 1 / ratio) - 1
            within_error = outcome != "same" and distance <= self.ratio_error(column)
            return LineOutcome(outcome, within_error)
        first_runs = self.cells[0].total_s is not None
        other_runs = self.cells[column].total_s is not None
        if first_runs and other_runs:
            return LineOutcome("unlike")
        if first_runs:
            return LineOutcome("first")
        return LineOutcome("other" if other_runs else "neither")

    def fastest(self) -> int | None:
        """The column with the least seconds, the first of equals. None without any price."""
        seconds = {
            column: cell.total_s
            for column, cell in enumerate(self.cells)
            if cell.total_s is not None
        }
        return min(seconds, key=seconds.__getitem__, default=None)

    def point(self, names: Sequence[str]) -> PointTimes:
        """The times of the columns of these names, for the basis of the comparison."""
        return point_times(self.primitive, self.ranks, self.bytes, names, self.cells)

    def is_bound(self, column: int) -> bool:
        """Whether a column's time is a lower bound: its missing launch is too long to neglect."""
        total_s = self.cells[column].total_s
        return total_s is not None and self.missing[column] > LAUNCH_SHARE * total_s


def _share_of_sigma(sigma: float) -> float:
    """What nine of ten ratios are within, a share: ``kappa`` standard deviations of their logarithm,
    by the table of sigmas."""
    return exp(sigma_table()["kappa"] * sigma) - 1


class ColumnDifference(NamedTuple):
    """How a column compares with the first for a primitive: size ranges that apply to all the rank
    counts."""

    column: str
    primitive: Primitive
    ranks: tuple[int, ...]
    runs: tuple[OutcomeRange, ...]  # ascending


class OnePortWinner(NamedTuple):
    """A row where another column is the fastest if each rank drives only one port."""

    primitive: Primitive
    ranks: int
    bytes: float
    column: str  # with one port
    instead_of: str  # with all ports


def ranges_of(lines: Sequence[CompareLine], column: int) -> tuple[OutcomeRange, ...]:
    """Sizes with one outcome, from lines in order of size; what is no larger than the ratio's own
    error is ``within`` it."""
    ranges = []
    for (outcome, within_error), group in groupby(lines, key=lambda line: line.outcome(column)):
        lines_alike = list(group)
        ratios = []
        for line in lines_alike:
            ratio = line.ratio(column)
            if ratio is not None:
                ratios.append(ratio)
        ranges.append(
            OutcomeRange(
                outcome,
                from_bytes=lines_alike[0].bytes,
                to_bytes=lines_alike[-1].bytes,
                ratio=_farthest_ratio(ratios or [1.0]),
                within=max(line.ratio_error(column) for line in lines_alike)
                if within_error
                else None,
            )
        )
    return tuple(ranges)


def same_ranges(some: Sequence[OutcomeRange], others: Sequence[OutcomeRange]) -> bool:
    """Whether two lists of ranges have the same outcomes, at nearly the same sizes."""
    if len(some) != len(others):
        return False
    for range_here, other in zip(some, others, strict=True):
        if (range_here.outcome, range_here.within is None) != (other.outcome, other.within is None):
            return False
        ends = range_here.to_bytes, other.to_bytes
        if max(ends) > NEAR * min(ends):
            return False
    return True


def joined_range(parts: Sequence[OutcomeRange]) -> OutcomeRange:
    """One outcome's ranges on several rank counts as one: the widest sizes, the farthest ratio and
    the largest error."""
    return OutcomeRange(
        parts[0].outcome,
        from_bytes=min(part.from_bytes for part in parts),
        to_bytes=max(part.to_bytes for part in parts),
        ratio=_farthest_ratio([part.ratio for part in parts]),
        within=max((part.within for part in parts if part.within is not None), default=None),
    )


def _farthest_ratio(ratios: Sequence[float]) -> float:
    """The ratio farthest from 1 in either direction."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def changed_winners(
    all_ports: Iterable[CompareLine], one_port: Iterable[CompareLine], names: Sequence[str]
) -> Iterator[OnePortWinner]:
    """Rows whose fastest column is another one with one port, and more than :data:`SAME` faster
    there than the fastest with all ports, or the only one that runs. The lines of both are of the
    same points, in one order."""
    for line, one_port_line in zip(all_ports, one_port, strict=True):
        fastest, fastest_by_one = line.fastest(), one_port_line.fastest()
        if fastest is None or fastest_by_one is None or fastest == fastest_by_one:
            continue
        # both with one port
        usual_s = one_port_line.cells[fastest].total_s
        least_s = one_port_line.cells[fastest_by_one].total_s
        if usual_s is None or least_s is None or usual_s > least_s * (1 + SAME):
            yield OnePortWinner(
                line.primitive,
                line.ranks,
                line.bytes,
                column=names[fastest_by_one],
                instead_of=names[fastest],
            )


def launch_matters(seconds: tuple[float, float], missing: tuple[float, float]) -> bool:
    """Whether a launch missing from one of two times exceeds :data:`LAUNCH_SHARE` of it or would
    change the outcome. ``missing``: what each of the two lacks, seconds."""
    first_missing, other_missing = missing
    if first_missing == other_missing:
        return False
    share = max(lacking / total for lacking, total in zip(missing, seconds, strict=True))
    return share > LAUNCH_SHARE or _changes_outcome(seconds, missing)


def software_time_matters(first: Cell, other: Cell) -> bool:
    """Whether software time that only one side has is :data:`LAUNCH_SHARE` of the shorter time or
    more, and would change the outcome; both cells have a price."""
    totals = first.total_s or 0.0, other.total_s or 0.0
    missing = _missing_software(first, other), _missing_software(other, first)
    return max(missing) >= LAUNCH_SHARE * min(totals) and _changes_outcome(totals, missing)


def _changes_outcome(seconds: tuple[float, float], missing: tuple[float, float]) -> bool:
    """Whether two times compare differently with what each of them lacks."""
    first_s, other_s = seconds
    first_missing_s, other_missing_s = missing
    filled = (other_s + other_missing_s) / (first_s + first_missing_s)
    return outcome_of(filled) != outcome_of(other_s / first_s)


def _missing_software(cell: Cell, other: Cell) -> float:
    """Software seconds that the other cell has and this one does not know of; protocols include
    theirs."""
    if cell.fitted_s is None and not cell.protocol:
        return other.fitted_s or 0.0
    return 0.0


def outcome_of(ratio: float) -> Literal["same", "slower", "faster"]:
    """The outcome of a column's time over the first's."""
    if abs(ratio - 1) <= SAME:
        return "same"
    return "slower" if ratio > 1 else "faster"
