"""The words of a calibration: fits find codes with fields, and every sentence is in
sentences.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.statements import sentences


class FitFinding(NamedTuple):
    """One thing to tell of a fit: a code of sentences.toml and what fills its sentence."""

    code: str
    fields: Mapping[str, object] = {}

    @property
    def words(self) -> str:
        """The sentence, filled in."""
        return fit_sentences()[self.code].format_map(self.fields)


def fit_sentences() -> Mapping[str, str]:
    """All sentences by code."""
    return sentences("colltool.calibration")
