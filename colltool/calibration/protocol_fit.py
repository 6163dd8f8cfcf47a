"""Fits of one collective by one set of algorithms, each with as few protocols as explain its times,
judged by cross-validated error.

:func:`fit_collective` fits one, two and three protocols and keeps as few as suffice,
:func:`joint_fit` tries one set of protocols for several collectives. The fits themselves are those
of :mod:`colltool.calibration.envelope`, of the sizes that
:mod:`colltool.calibration.usable_points` leaves.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.calibration.envelope import (
    UNLIKELY,
    Envelope,
    Sample,
    evaluate,
    fit_envelope,
    refitted,
    relative_errors,
)
from colltool.calibration.least_squares import LAUNCH, PER_BYTE, Prior
from colltool.calibration.samples import (
    MOST_PROTOCOLS,
    SWITCH,
    Member,
    at_places,
    component_names,
    most_protocols,
    placeholder_names,
    sample_of,
)
from colltool.calibration.usable_points import ENOUGH_POINTS

_FOLDS = 5
# Factors by which a further protocol may raise the error of unseen sizes, and must lower that of
# the sizes seen; rules of thumb of ours, and errors that differ by EXACT are equal.
_MISLED = 1.25
_EXPLAINED = 0.8
EXACT = 1e-3  # difference of mean errors that counts as none
# The factor on the error of unseen sizes by which a less likely choice must win.
WORTH = 1.1
# A rate above the stated one by less than this is the noise of a fit.
_ABOVE_LINE = 1.02
# By noise an in-switch launch may seem as short as this share of its protocol's.
_SHORTER = 0.9


class CollectiveFit(NamedTuple):
    """A fit of one collective by one set of algorithms.

    Args:
        members: the measured series.
        names: those of the protocols, small sizes first.
        errors: cross-validated relative errors of the used points, members in order.
    """

    members: tuple[Member, ...]
    algorithms: tuple[str, ...]
    names: tuple[str, ...]
    sample: Sample
    envelope: Envelope
    errors: NDArray[np.float64]

    @property
    def cv_mape(self) -> float:
        """Mean absolute relative error on unseen sizes."""
        return mape(self.errors)

    @property
    def errors_by_member(self) -> list[NDArray[np.float64]]:
        """The errors, an array for each member."""
        ends = np.cumsum([member.used.sum() for member in self.members])
        return np.split(self.errors, ends[:-1])

    @property
    def label(self) -> str:
        """The algorithms in words: ``ring + tree``."""
        return " + ".join(self.algorithms)


def mape(errors: NDArray[np.float64]) -> float:
    """Mean absolute relative error; 0 without points."""
    known = errors[~np.isnan(errors)]
    return float(np.abs(known).mean()) if len(known) else 0.0


def unseen_mape(errors: NDArray[np.float64]) -> float | None:
    """Mean absolute relative error; None where no size could be left out."""
    return None if np.isnan(errors).all() else mape(errors)


def fit_collective(
    algorithms: tuple[str, ...], members: Sequence[Member], prior: Prior
) -> CollectiveFit:
    """The fit of these algorithms with as few protocols as suffice."""
    points = sum(int(member.used.sum()) for member in members)
    fits = []
    for count in range(1, most_protocols(points) + 1):
        fit = _fit_with_protocols(algorithms, members, prior, count)
        if fit is not None:
            fits.append(fit)
    return drop_protocols(fits)


def _fit_with_protocols(
    algorithms: tuple[str, ...], members: Sequence[Member], prior: Prior, count: int
) -> CollectiveFit | None:
    """A fit with ``count`` protocols. None where no point needs the last one."""
    names = placeholder_names(count)
    sample = sample_of(members, names, prior)
    fit = fit_envelope(sample)
    # by the library's own choices, unless a free one fits much better
    if sample.unlikely is not None:
        free = fit_envelope(sample._replace(unlikely=None))
        bound_error = np.abs(relative_errors(fit, sample)).mean()
        if np.abs(relative_errors(free, sample)).mean() < bound_error - UNLIKELY:
            fit = free
    fit = _ordered(fit, sample, count)
    if count > 1 and fit.component[fit.component < count].max(initial=-1) < count - 1:
        return None
    return CollectiveFit(
        tuple(members), algorithms, names, sample, fit, left_out_errors(sample, members)
    )


def _ordered(fit: Envelope, sample: Sample, count: int) -> Envelope:
    """The fit with its ``count`` protocols sorted by the sizes that they serve."""
    # protocols that serve 1 MB, 1 KB and 1 GB, and the switch: order 1 0 2 3, and a point of
    # component 0 is then one of component 1
    mean_size = np.full(len(fit.theta), np.inf)
    for component in range(count):
        sizes = sample.sizes[fit.component == component]
        if len(sizes):
            mean_size[component] = np.log(sizes).mean()
    # the switch's component stays last
    order = np.arange(len(fit.theta))
    order[:count] = np.argsort(mean_size[:count], kind="stable")
    ordered = fit._replace(theta=fit.theta[order], component=np.argsort(order)[fit.component])
    if len(sample.offset) == 1 or (np.diff(order) > 0).all():
        return ordered
    # offsets stay with the names, so other costs apply now
    return evaluate(ordered.theta, sample)


def left_out_errors(sample: Sample, members: Sequence[Member]) -> NDArray[np.float64]:
    """Out-of-fold relative errors, fitted/measured - 1; a fold is every fifth size, or a single one
    where points are few."""
    fold = np.arange(len(sample.seconds))
    if len(fold) >= ENOUGH_POINTS:
        fold = np.concatenate([np.arange(member.used.sum()) % _FOLDS for member in members])
    errors = np.full(len(fold), np.nan)
    for index in np.unique(fold):
        unseen = fold == index
        if (~unseen).sum() >= 2:
            unseen_sample = sample.only(unseen)
            fit = evaluate(fit_envelope(sample.only(~unseen)).theta, unseen_sample)
            errors[unseen] = relative_errors(fit, unseen_sample)
    return errors


def drop_protocols(fits: Sequence[CollectiveFit]) -> CollectiveFit:
    """The fit with as few protocols as suffice, among fits with one, two and so on.

    A further protocol must explain a good part of the remaining error and must not raise the error
    of unseen sizes by much; by a little it may, because a fold's fit has fewer points.
    """
    loadable = []
    for fit in fits:
        written = as_written(fit)
        if written is not None:
            loadable.append(written)
    best = min(loadable, key=attrgetter("cv_mape"), default=fits[-1])
    limit = best.cv_mape * _MISLED + EXACT
    fewest = None
    for fit in loadable:
        if fit.cv_mape > limit:
            continue
        if fewest is None or _unexplained(fit) <= _EXPLAINED * _unexplained(fewest) - EXACT:
            fewest = fit
    return fewest or fits[-1]


def _unexplained(fit: CollectiveFit) -> float:
    """Mean absolute relative error on the sizes that were fitted."""
    return mape(relative_errors(fit.envelope, fit.sample))


def as_written(fit: CollectiveFit) -> CollectiveFit | None:
    """A fit as a fabric file can express it, or None.

    In a file the switch runs under the last protocol, or under one of its own where the last one's
    wires are slower or its launch is longer. Other algorithms may use that one too, but never win
    there.
    """
    theta = fit.envelope.theta
    protocols = len(fit.names)
    has_switch = len(theta) > protocols
    if not has_switch:
        return fit
    # the switch is the component after the protocols
    if not (fit.envelope.component == protocols).any():
        return None
    switch = theta[protocols]
    last = theta[protocols - 1]
    slower = switch[PER_BYTE] >= last[PER_BYTE] > 0
    if slower and switch[LAUNCH] >= last[LAUNCH] * _SHORTER:
        return fit
    # it needs one of its own
    if protocols == MOST_PROTOCOLS:
        return None
    return fit._replace(names=placeholder_names(protocols + 1))


def above_line(fit: CollectiveFit, line_Bps: float) -> float | None:
    """The bandwidth (bytes/s) that a fit needs where bandwidth matters, if that exceeds the port's
    stated rate; else None."""
    # a ring of 8 sends 1.75 MB of 1 MB: at 2.5e-11 s a byte 44 us, of a measured 60 us most, so that
    # it needs 40 GB/s
    sample = fit.sample
    wire_bytes = sample.x[fit.envelope.algorithm, np.arange(len(sample.seconds)), PER_BYTE]
    needed_Bps = 0.0
    for protocol in range(len(fit.names)):
        per_byte_s = fit.envelope.theta[protocol, PER_BYTE]
        of_protocol = fit.envelope.component == protocol
        wire_share = (wire_bytes * per_byte_s / sample.seconds)[of_protocol]
        # only where the wires take over half of some message's time
        if wire_share.max(initial=0.0) > 0.5:
            needed_Bps = max(needed_Bps, 1 / float(per_byte_s))
    return needed_Bps if needed_Bps > line_Bps * _ABOVE_LINE else None


def renamed(fit: CollectiveFit, names: tuple[str, ...], prior: Prior) -> CollectiveFit:
    """The fit with its protocols renamed; refitted where inner tiers list these names, since costs
    there change."""
    named = fit._replace(names=names)
    # offsets of one component only: costs are alike under all names
    if len(fit.sample.offset) == 1 or names == fit.names:
        return named
    sample = sample_of(fit.members, names, prior)
    return named._replace(sample=sample, envelope=refitted(fit.envelope, sample))


def without_losing(fit: CollectiveFit, prior: Prior) -> CollectiveFit:
    """The fit without the algorithms that win at no measured size."""
    winning = np.unique(fit.envelope.algorithm)
    if len(winning) == len(fit.algorithms):
        return fit
    members = tuple(member.of_algorithms(winning) for member in fit.members)
    envelope = fit.envelope._replace(algorithm=np.searchsorted(winning, fit.envelope.algorithm))
    names = fit.names
    # The switch alone is left, which competes with nothing: what served no point goes, and the rest
    # are plain protocols.
    if members[0].switched.all():
        used, component = np.unique(envelope.component, return_inverse=True)
        envelope = envelope._replace(theta=envelope.theta[used], component=component)
        names = placeholder_names(len(used))
    return fit._replace(
        algorithms=at_places(fit.algorithms, winning),
        names=names,
        members=members,
        sample=sample_of(members, names, prior),
        envelope=envelope,
    )


def joint_fit(fits: Sequence[CollectiveFit], prior: Prior) -> CollectiveFit | None:
    """One set of protocols for several collectives. None where separate ones predict clearly
    better."""
    members: list[Member] = []
    for fit in fits:
        members += fit.members
    if len(fits) < 2 or SWITCH in component_names(members, ()):
        return None
    most_algorithms = max(len(fit.algorithms) for fit in fits)
    for index, member in enumerate(members):
        # algorithms are repeated, so that all arrays stack: of 2 for 3 places 0 1 0
        places = np.arange(most_algorithms) % len(member.costs)
        members[index] = member.of_algorithms(places)._replace(unlikely=None)
    joint = fit_collective((), members, prior)
    separate = mape(np.concatenate([fit.errors for fit in fits]))
    return joint if joint.cv_mape <= WORTH * separate else None
