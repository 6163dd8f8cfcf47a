"""Which algorithms ran: sets of them compared by cross-validated error.

What the library documents is chosen first, unless other algorithms predict unseen sizes too much
better. Else the first set, simplest first, that predicts about as well as the best. Every choice
comes with findings that tell how clear it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate, percent
from colltool.calibration.least_squares import Prior
from colltool.calibration.library_choice import DocumentedChoice
from colltool.calibration.protocol_fit import (
    EXACT,
    WORTH,
    CollectiveFit,
    above_line,
    as_written,
    fit_collective,
    unseen_mape,
    without_losing,
)
from colltool.calibration.samples import Member
from colltool.calibration.sentences import FitFinding

# Factors on the error of unseen sizes, rules of thumb of ours: with them the tests find which
# algorithms made generated times.
# How much better two algorithms must be than one.
_WORTH_TWO = 1.2
# How much better a choice must be to be called clear.
_CLEAR = 1.5
# How much better a set must be that needs more than the ports' rate.
_DOUBTED = 4 / 3


class AlgorithmSet(NamedTuple):
    """Algorithms that may have run together, and the series that they are fitted to."""

    algorithms: tuple[str, ...]
    members: Sequence[Member]


class Candidate(NamedTuple):
    """Algorithms tried together, and their mean absolute relative error on unseen sizes (None with
    too few sizes)."""

    algorithms: tuple[str, ...]
    cv_mape: float | None


class SelectedFit(NamedTuple):
    """The chosen fit, the sets that it was compared with, and why it was chosen."""

    fit: CollectiveFit
    candidates: tuple[Candidate, ...]
    reasons: tuple[FitFinding, ...]


@dataclass(frozen=True)
class Selection:
    """The fits of one collective, simplest and likeliest first, among which one is chosen."""

    fits: Sequence[CollectiveFit]
    # Rate of the fabric's ports together, which is not the line rate that the user states for the file;
    # sets that need more come last.
    ports_Bps: float
    documented: DocumentedChoice | None  # what says that the first one ran, None where nothing does

    @cached_property
    def loadable(self) -> list[CollectiveFit]:
        """The fits that a fabric file can express, at least one."""
        fits = [fit for fit in self.fits if as_written(fit)]
        if not fits:
            raise ColltoolError(
                f"these times do not fit a switch as well as protocols: {self.fits[0].label} cannot"
                " both have run",
                argument="algorithms",
                fix=either(shell="name one of them, or auto", python="name one of them, or none"),
            )
        return fits

    @cached_property
    def best_error(self) -> float:
        """The least error on unseen sizes, relative, of fits that a file can express."""
        return min(map(_error, self.loadable))

    @cached_property
    def within_ports_rate(self) -> list[CollectiveFit]:
        """The fits among these that need no more than the ports' rate."""
        return [fit for fit in self.loadable if above_line(fit, self.ports_Bps) is None]

    @property
    def best_error_within(self) -> float:
        """The least error within the ports' rate; of all, where no fit is within it."""
        return min(map(_error, self.within_ports_rate), default=self.best_error)

    @cached_property
    def possible(self) -> list[CollectiveFit]:
        """The fits to choose from: those within the ports' rate; all if none within it
        predicts nearly as well."""
        within = self.within_ports_rate
        if within and self.best_error_within <= _CLEAR * self.best_error + EXACT:
            return within
        return self.loadable

    def choice(self, prior: Prior) -> SelectedFit:
        """The chosen fit; the documented one without the algorithms that win nowhere."""
        documented = self.documented
        if documented is not None and self.documented_choice_holds(documented):
            chosen = without_losing(self.fits[0], prior)
            reasons = self._documented_reasons(chosen, documented.source)
        else:
            chosen = self.best_choice()
            reasons = self._error_reasons(chosen)
        candidates = [Candidate(fit.algorithms, unseen_mape(fit.errors)) for fit in self.fits]
        return SelectedFit(chosen, tuple(candidates), tuple(reasons))

    def documented_choice_holds(self, documented: DocumentedChoice) -> bool:
        """Whether the first fit can be written, and no other predicts unseen sizes too much
        better."""
        first = self.fits[0]
        # others overrule it if they are better by the factor worth, and one that needs more than the
        # ports' rate if it is better by _DOUBTED too
        limit = documented.worth * min(self.best_error_within, _DOUBTED * self.best_error)
        return first is self.loadable[0] and first.cv_mape <= limit + EXACT

    def best_choice(self) -> CollectiveFit:
        """The first fit that is about as good on unseen sizes as the best one: within a factor WORTH, or
        _WORTH_TWO for a single algorithm, which two must clearly beat."""
        best = min(map(_error, self.possible))
        for fit in self.possible:
            factor = WORTH if len(fit.algorithms) > 1 else _WORTH_TWO
            if fit.cv_mape <= best * factor:
                return fit
        raise AssertionError("the best fit is as good as itself")

    def runner_up(self, chosen: CollectiveFit) -> CollectiveFit | None:
        """The possible fit with the least error but the chosen one. None without another."""
        others = _without(self.possible, [chosen])
        return min(others, key=_error, default=None)

    def _documented_reasons(self, chosen: CollectiveFit, source: str) -> list[FitFinding]:
        """Why the documented fit was chosen, and whether another predicts as well."""
        reasons = [FitFinding("documented", {"source": source})]
        rival = self.runner_up(self.fits[0])
        if (
            rival
            and rival.cv_mape <= chosen.cv_mape * WORTH
            and set(rival.algorithms) != set(chosen.algorithms)
        ):
            reasons.append(_against("indistinguishable", chosen, rival))
        return reasons

    def _error_reasons(self, chosen: CollectiveFit) -> list[FitFinding]:
        """What the errors say of the chosen fit: how clearly it wins, and which fits need an
        impossible rate."""
        reasons = []
        rival = self.runner_up(chosen)
        if rival:
            ratio = rival.cv_mape / max(chosen.cv_mape, 1e-12)
            code = "tie"
            if ratio >= _CLEAR:
                code = "clear"
            elif ratio >= WORTH:
                code = "probable"
            reasons.append(_against(code, chosen, rival))
        # a set that was excluded for its rate; else the chosen fit itself may need too much
        for fit in _without(self.loadable, self.possible) or [chosen]:
            needed_Bps = above_line(fit, self.ports_Bps)
            if needed_Bps:
                rates = {"needed": format_rate(needed_Bps), "line": format_rate(self.ports_Bps)}
                reasons.append(FitFinding("above_line", {"rival": fit.label, **rates}))
                break
        reasons = reasons or [FitFinding("alone")]
        if self.documented:
            fields = {"source": self.documented.source, "rival": self.fits[0].label}
            reasons.append(FitFinding("undocumented", fields))
        return reasons


def _error(fit: CollectiveFit) -> float:
    """The error by which fits are compared, on unseen sizes."""
    return fit.cv_mape


def select_algorithms(
    options: Sequence[AlgorithmSet],
    prior: Prior,
    ports_Bps: float,
    documented: DocumentedChoice | None = None,
) -> SelectedFit:
    """The best set of algorithms for one collective.

    Args:
        options: what may have run, simplest and likeliest first.
        ports_Bps: the ports' rate.
        documented: what says that the first set ran.
    """
    fits = [fit_collective(option.algorithms, option.members, prior) for option in options]
    return Selection(fits, ports_Bps, documented).choice(prior)


def _without(
    fits: Sequence[CollectiveFit], excluded: Sequence[CollectiveFit]
) -> list[CollectiveFit]:
    """The fits that are not excluded, by identity: arrays have no single truth value."""
    identities = set(map(id, excluded))
    return [fit for fit in fits if id(fit) not in identities]


def _against(code: str, chosen: CollectiveFit, rival: CollectiveFit) -> FitFinding:
    """A finding about a choice and its rival, with the errors of both. Codes are those of
    ``sentences.toml``."""
    percents = {"chosen": percent(chosen.cv_mape), "rival": percent(rival.cv_mape)}
    errors = FitFinding("unseen_errors", percents)
    if code != "indistinguishable" and unseen_mape(chosen.errors) is None:
        errors = FitFinding("no_unseen_errors")
    return FitFinding(code, {"rival": rival.label, "errors": errors.words})
