"""Fits of one collective by one set of algorithms, each with as few protocols as explain its times,
judged by cross-validated error.

:func:`fit_collective` fits one, two and three protocols and keeps as few as suffice,
:func:`joint_fit` tries one set of protocols for several collectives. The fits themselves are those
of :mod:`colltool.calibration.envelope`, of the sizes that
:mod:`colltool.calibration.usable_points` leaves.

What a fit consists of there:

    component   a protocol, those of small sizes first, and after them the switch where it competes
    theta       (components, 4): launch overhead, α, seconds per byte, seconds per byte of the own share
    x           (algorithms, points, 4): how often each of the four counts at a point
    offset      seconds that theta does not change; of one component where protocols do not differ
    unlikely    (algorithms, points): what the library would not have run, which a fit pays a penalty for

Errors are relative, fitted/measured - 1.
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
# The factor by which a further protocol may raise the error of unseen sizes: a rule of thumb of ours.
_MOST_RISE_UNSEEN = 1.25
# The factor to which it must lower the error of the sizes seen: likewise.
_LEAST_FALL_SEEN = 0.8
# Difference of mean errors that counts as none.
EXACT = 1e-3
# The factor on the error of unseen sizes by which a less likely choice must win.
WORTH = 1.1
# A rate above the stated one by less than this is the noise of a fit.
_ABOVE_LINE = 1.02
# By noise an in-switch launch may seem as short as this share of its protocol's.
_LEAST_SWITCH_LAUNCH = 0.9


class CollectiveFit(NamedTuple):
    """A fit of one collective by one set of algorithms.

    Args:
        members: the measured series.
        algorithms: what may have run; empty in a joint fit, whose members have different ones.
        names: those of the protocols, small sizes first.
        sample: the members' points, as the fit takes them.
        envelope: the fit.
        errors: cross-validated relative errors of the used points, members in order; NaN of points
            that could not be left out.
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
    """Mean absolute relative error, without those that are NaN; 0 without any."""
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
    # By the library's own choices, unless a free fit is much better. The sample, and with it
    # cross-validation, stays that of the library's choices.
    if sample.unlikely is not None:
        free = fit_envelope(sample._replace(unlikely=None))
        bound_error = np.abs(relative_errors(fit, sample)).mean()
        if np.abs(relative_errors(free, sample)).mean() < bound_error - UNLIKELY:
            fit = free
    fit = _order_by_size(fit, sample, count)
    # no point runs under the last protocol (components from count on are the switch)
    if count > 1 and fit.component[fit.component < count].max(initial=-1) < count - 1:
        return None
    return CollectiveFit(
        tuple(members), algorithms, names, sample, fit, left_out_errors(sample, members)
    )


def _order_by_size(fit: Envelope, sample: Sample, count: int) -> Envelope:
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
    # all components have one offset, or were in order already
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
    of unseen sizes by much; by a little it may, because a fold's fit has fewer points. Where a file
    can express none of the fits, the last one comes back as it is.
    """
    loadable = []
    for fit in fits:
        written = as_written(fit)
        if written is not None:
            loadable.append(written)
    best = min(loadable, key=attrgetter("cv_mape"), default=fits[-1])
    limit = best.cv_mape * _MOST_RISE_UNSEEN + EXACT
    fewest = None
    for fit in loadable:
        if fit.cv_mape > limit:
            continue
        if fewest is None or _unexplained(fit) <= _LEAST_FALL_SEEN * _unexplained(fewest) - EXACT:
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
    # where sizes determine the last protocol's bandwidth at all
    is_slower = switch[PER_BYTE] >= last[PER_BYTE] > 0
    if is_slower and switch[LAUNCH] >= last[LAUNCH] * _LEAST_SWITCH_LAUNCH:
        return fit
    # it needs one of its own
    if protocols == MOST_PROTOCOLS:
        return None
    return fit._replace(names=placeholder_names(protocols + 1))


def above_line(fit: CollectiveFit, ports_Bps: float) -> float | None:
    """The bandwidth (bytes/s) that a fit needs where bandwidth matters, if that exceeds the
    ports' rate; else None."""
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
    return needed_Bps if needed_Bps > ports_Bps * _ABOVE_LINE else None


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
    """One set of protocols for several collectives, with the members of all ``fits`` in order. None
    where separate ones predict clearly better, for a single collective, and with a switch."""
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
