"""Fabrics side by side by the kernels that a library picks on each."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.analysis.cells import Cell
from colltool.analysis.compare import CompareColumn, Comparison, sizes_between, with_ranks
from colltool.analysis.outcomes import ColumnDifference, CompareLine, ranges_of
from colltool.analysis.winners import verdict_of
from colltool.base.primitives import Primitive
from colltool.engines.files import LibraryFile
from colltool.engines.price import price_kernels
from colltool.estimate.interval import ratio_sigma
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric

# sizes priced between the smallest and the largest of the table, to find where the outcome changes
_POINTS = 40


def compare_kernels(
    library: LibraryFile,
    primitives: Sequence[Primitive],
    columns: Sequence[CompareColumn],
    groups: Sequence[GroupSpec],
    sizes: Sequence[float],
) -> Comparison:
    """Price every collective, group and size (bytes) by the library's pick on every column.

    A line of the result is one collective, group and size; its cells are the columns. The outcome
    between the given sizes is found on a finer grid, whose lines are not returned.

    Raises:
        ColltoolError: a fabric on which none of its kernels was measured.
    """
    fabrics = [column.load(()) for column in columns]
    groups = [with_ranks(fabrics, group) for group in groups]
    names = [column.name for column in columns]
    fine_sizes = sizes_between(sizes, _POINTS)
    lines: list[CompareLine] = []
    findings = []
    verdicts = []
    for primitive in primitives:
        for group in groups:
            lines += [_line(library, primitive, fabrics, group, size) for size in sizes]
            curve = [_line(library, primitive, fabrics, group, size) for size in fine_sizes]
            verdicts.append(verdict_of(curve, names))
            ranks = (curve[0].ranks,)
            # every column is compared with the first
            for column, name in enumerate(names[1:], start=1):
                findings.append(ColumnDifference(name, primitive, ranks, ranges_of(curve, column)))
    return Comparison(
        columns=tuple(columns),
        lines=tuple(lines),
        findings=tuple(findings),
        ideal=False,
        libraries=(library.full_name,) * len(columns),
        verdicts=tuple(verdicts),
    )


def _line(
    library: LibraryFile,
    primitive: Primitive,
    fabrics: Sequence[Fabric],
    group: GroupSpec,
    size: float,
) -> CompareLine:
    """The library's picks at a size, and how sure the ratios of their times are."""
    cells = [_cell(library, primitive, fabric, group, size) for fabric in fabrics]
    # of ratios to the first column, and to the fastest, which the line itself finds
    unknown = (0.0,) * len(cells)
    line = CompareLine(primitive, group.ranks or 0, size, tuple(cells), unknown, unknown)
    return line._replace(sigmas=_sigmas(cells, 0), rival_sigmas=_sigmas(cells, line.fastest() or 0))


def _cell(
    library: LibraryFile, primitive: Primitive, fabric: Fabric, group: GroupSpec, size: float
) -> Cell:
    """The library's pick on one fabric."""
    best = price_kernels(library, fabric, primitive.value, size, group).best
    return Cell(
        (fabric.name, group.ranks, size),
        algorithm=best.kernel,
        known_as=best.kernel,
        total_s=best.total_s,
        busbw_Bps=best.busbw_Bps,
        alpha_share=best.latency_s / best.total_s,
        picked=True,
        interval=best.interval,
    )


def _sigmas(cells: Sequence[Cell], base: int) -> tuple[float, ...]:
    """Sigma of ln of each time over that of the column ``base``; 0 where nothing is known, and for
    ``base`` itself."""
    base_interval = cells[base].interval
    sigmas = []
    for column, cell in enumerate(cells):
        sigma = 0.0
        if column != base and base_interval is not None and cell.interval is not None:
            sigma = ratio_sigma(base_interval, cell.interval, alike=False)
        sigmas.append(sigma)
    return tuple(sigmas)
