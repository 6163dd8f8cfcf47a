"""Which algorithms ran: sets of them compared by cross-validated error, what the library documents
before what the times alone suggest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate, percent
from colltool.calibration.envelope import Prior
from colltool.calibration.library_choice import DocumentedChoice
from colltool.calibration.protocol_fit import (
    EXACT,
    WORTH,
    CollectiveFit,
    above_line,
    as_written,
    fit_collective,
    unseen_mape,
    without_idle,
)
from colltool.calibration.samples import Member

# The factor on unseen sizes by which two algorithms must win over one.
_WORTH_TWO = 1.2
_CLEAR = 1.5
# The factor by which a set must win that needs more than the port's stated rate.
_DOUBTED = 4 / 3

# How a choice was made, in words by code.
_WORDS = {
    "documented": "as {source}",
    "indistinguishable": "the times cannot distinguish it from {rival}: {errors}",
    "clear": "clearly better than {rival}: {errors}",
    "probable": "probably better than {rival}: {errors}",
    "tie": "cannot be told from {rival}: {errors}",
    "above_line": "{rival} would need {needed} from a port of {line}",
    "alone": "the only algorithm tried",
    "undocumented": "not as {source}, {rival}: another version, other settings, or CollNet",
}


class Candidate(NamedTuple):
    """Algorithms tried together, and their mean absolute relative error on unseen sizes (None with
    too few sizes)."""

    algorithms: tuple[str, ...]
    cv_mape: float | None


class Confidence(NamedTuple):
    """A reason for a choice, or a doubt; ``fields`` fill the words of its code."""

    code: str
    fields: Mapping[str, str] = {}

    @property
    def words(self) -> str:
        return _WORDS[self.code].format(**self.fields)


class SelectedFit(NamedTuple):
    """The chosen fit, what it was compared with, and how clearly it won."""

    fit: CollectiveFit
    candidates: tuple[Candidate, ...]
    confidence: tuple[Confidence, ...]


@dataclass(frozen=True)
class Selection:
    """The fits of one collective, simplest and likeliest first, among which one is chosen.

    ``line_Bps``: the port's stated rate; sets that need more come last. ``documented``: who says
    that the first one ran, None where nothing does.
    """

    fits: Sequence[CollectiveFit]
    line_Bps: float
    documented: DocumentedChoice | None

    @cached_property
    def loadable(self) -> list[CollectiveFit]:
        """The fits that a fabric file can express."""
        found = [fit for fit in self.fits if as_written(fit)]
        if not found:
            what = (
                f"a switch beside protocols cannot take these times: {self.fits[0].label} cannot"
                " both have run"
            )
            fix = either(shell="name one of them, or auto", python="name one of them, or none")
            raise ColltoolError(what, argument="algorithms", fix=fix)
        return found

    @cached_property
    def best_error(self) -> float:
        return min(map(_error, self.loadable))

    @cached_property
    def within_line_rate(self) -> list[CollectiveFit]:
        return [fit for fit in self.loadable if above_line(fit, self.line_Bps) is None]

    @property
    def best_error_within(self) -> float:
        return min(map(_error, self.within_line_rate), default=self.best_error)

    @cached_property
    def possible(self) -> list[CollectiveFit]:
        """Fits within the port's stated rate; all if none within it predicts nearly as well."""
        within = self.within_line_rate
        if within and self.best_error_within <= _CLEAR * self.best_error + EXACT:
            return within
        return self.loadable

    def choice(self, prior: Prior) -> SelectedFit:
        documented = self.documented
        if documented is not None and self.documented_choice_holds(documented):
            chosen = without_idle(self.fits[0], prior)
            confidence = self._as_documented(chosen, documented.source)
        else:
            chosen = self.best_choice()
            confidence = self._by_error(chosen)
        candidates = [Candidate(fit.algorithms, unseen_mape(fit.errors)) for fit in self.fits]
        return SelectedFit(chosen, tuple(candidates), tuple(confidence))

    def documented_choice_holds(self, documented: DocumentedChoice) -> bool:
        """Whether the first fit can be written, and no other predicts unseen sizes too much
        better."""
        first = self.fits[0]
        limit = documented.worth * min(self.best_error_within, _DOUBTED * self.best_error)
        return first is self.loadable[0] and first.cv_mape <= limit + EXACT

    def best_choice(self) -> CollectiveFit:
        """The first fit that is about as good on unseen sizes as the best one."""
        best = min(map(_error, self.possible))
        for fit in self.possible:
            factor = WORTH if len(fit.algorithms) > 1 else _WORTH_TWO
            if fit.cv_mape <= best * factor:
                return fit
        raise AssertionError("the best fit is as good as itself")

    def runner_up(self, chosen: CollectiveFit) -> CollectiveFit | None:
        others = _without(self.possible, [chosen])
        return min(others, key=_error, default=None)

    def _as_documented(self, chosen: CollectiveFit, source: str) -> list[Confidence]:
        found = [Confidence("documented", {"source": source})]
        rival = self.runner_up(self.fits[0])
        if (
            rival
            and rival.cv_mape <= chosen.cv_mape * WORTH
            and set(rival.algorithms) != set(chosen.algorithms)
        ):
            found.append(_against("indistinguishable", chosen, rival))
        return found

    def _by_error(self, chosen: CollectiveFit) -> list[Confidence]:
        found = []
        rival = self.runner_up(chosen)
        if rival:
            ratio = rival.cv_mape / max(chosen.cv_mape, 1e-12)
            code = "tie"
            if ratio >= _CLEAR:
                code = "clear"
            elif ratio >= WORTH:
                code = "probable"
            found.append(_against(code, chosen, rival))
        # what was left aside for its rate; else the chosen fit itself may need too much
        for fit in _without(self.loadable, self.possible) or [chosen]:
            needed = above_line(fit, self.line_Bps)
            if needed:
                rates = {"needed": format_rate(needed), "line": format_rate(self.line_Bps)}
                found.append(Confidence("above_line", {"rival": fit.label, **rates}))
                break
        found = found or [Confidence("alone")]
        if self.documented:
            fields = {"source": self.documented.source, "rival": self.fits[0].label}
            found.append(Confidence("undocumented", fields))
        return found


def _error(fit: CollectiveFit) -> float:
    return fit.cv_mape


def select_algorithms(
    options: Sequence[tuple[tuple[str, ...], Sequence[Member]]],
    prior: Prior,
    line_Bps: float,
    documented: DocumentedChoice | None = None,
) -> SelectedFit:
    """The best set of algorithms for one collective, each with as many protocols as earn their
    place. ``options``: simplest and likeliest first."""
    fits = [fit_collective(names, members, prior) for names, members in options]
    return Selection(fits, line_Bps, documented).choice(prior)


def _without(fits: Sequence[CollectiveFit], left: Sequence[CollectiveFit]) -> list[CollectiveFit]:
    """The fits but some of them; compared by identity, since arrays have no single truth value."""
    identities = set(map(id, left))
    return [fit for fit in fits if id(fit) not in identities]


def _against(code: str, chosen: CollectiveFit, rival: CollectiveFit) -> Confidence:
    errors = f"{percent(chosen.cv_mape)} against {percent(rival.cv_mape)} on unseen sizes"
    if code != "indistinguishable" and unseen_mape(chosen.errors) is None:
        errors = "too few sizes"
    return Confidence(code, {"rival": rival.label, "errors": errors})
