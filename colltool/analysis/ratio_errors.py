"""How far off the ratio of two columns of a comparison is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from colltool.analysis.cells import Cell, PriceRequest
from colltool.analysis.outcomes import CompareLine
from colltool.estimate.groups import place
from colltool.estimate.interval import ErrorModel, error_model, ratio_sigma
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric


class CommonErrors(NamedTuple):
    """What two columns share, and so err alike in: the device and the tiers that the ranks span,
    and the whole fabric file."""

    device: bool
    file: bool


class RatioErrors:
    """How far off the ratios of a group's columns to one of them are; errors that both share
    cancel."""

    def __init__(
        self,
        files: Sequence[str],
        fabrics: Sequence[Fabric],
        request: PriceRequest,
        group: GroupSpec,
    ) -> None:
        """``files``: the fabric file of each column, by which columns of one file are known."""
        self._files = files
        self._fabrics = fabrics
        self._request = request
        self._group = group
        # by column numbers: the same at every size
        self._common_errors = cache(self._find_common_errors)
        self._model = cache(self._find_model)

    def of_line(self, line: CompareLine) -> CompareLine:
        """The line with its sigmas: of ratios to the first column, and to the fastest."""
        fastest = line.fastest()
        if fastest is None:
            return line
        sigmas = self.sigmas(line.cells, 0)
        rivals = sigmas if fastest == 0 else self.sigmas(line.cells, fastest)
        return line._replace(sigmas=sigmas, rival_sigmas=rivals)

    def sigmas(self, row: Sequence[Cell], base: int) -> tuple[float, ...]:
        """Sigma of ln of each column's ratio to the column ``base``; 0 for that one, and where
        nothing is known."""
        sigmas = []
        first = row[base].interval
        for column, cell in enumerate(row):
            sigma = 0.0
            if column != base and first is not None and cell.interval is not None:
                common = self._common_errors(base, column)
                sigma = ratio_sigma(
                    first, cell.interval, alike=common.device or common.file, one_file=common.file
                )
            sigmas.append(sigma)
        return tuple(sigmas)

    def _find_common_errors(self, base: int, column: int) -> CommonErrors:
        """What two columns share."""
        first = self._model(base)
        other = self._model(column)
        same_device = bool(first.device) and first.device == other.device
        return CommonErrors(
            device=same_device and first.request.place == other.request.place,
            file=self._files[base] == self._files[column],
        )

    def _find_model(self, column: int) -> ErrorModel:
        """The errors of a column's prices; of its device and tiers, which no size changes."""
        fabric = self._fabrics[column]
        return error_model(
            fabric,
            self._request.primitive,
            place(fabric, self._group),
            size=1.0,
            readings=self._request.readings,
        )
