"""Robust least squares for the parameters of one protocol, batched over many weightings.

Rows are ``x @ θ = y`` with ``θ = (launch overhead, α, 1/BW, 1/local copy) >= 0``: seconds, seconds
and seconds per byte. They are divided by the measured time, so that residuals are relative errors.
Weak priors on α and the launch overhead decide where the rows do not.

A ring of 8 ranks takes 14 steps, 1.75 M/BW and moves M/8 of its own: of 1 MiB in 50 us the row is
``x = (1, 14, 1835008, 131072) / 50e-6``, ``y = 1``. Under ``θ = (5e-6, 1e-6, 1e-11, 0)`` that is
(5 + 14 + 18.4) us / 50 us = 0.75, a residual of -25%.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# The columns of θ, and of x, whose entries count launches, steps, bytes and own bytes of a call.
PARAMETERS = 4
LAUNCH, ALPHA, PER_BYTE, PER_OWN_BYTE = range(PARAMETERS)
# Relative noise of a measurement, against which the priors are weighed.
NOISE = 0.05
# Residuals beyond this many spreads are weighed down in inverse proportion: near Huber's 1.345.
HUBER = 1.5
# Widens both priors where the launch overhead has one too: they share out a sum, and do not move
# it.
LOOSE = 4.0
# Relative spread of residuals that is assumed at least: a perfect fit would weigh down everything.
_LEAST_SPREAD = 0.003
# Rounds of reweighting.
_PASSES = 3
# The standard deviation of normal residuals over the median of their absolute values.
_SIGMA_OF_MEDIAN = 1.4826
# The last two parameters are solved as (1/BW - 1/copy, 1/copy), both at least 0: (.., u, v) gives
# (.., u + v, v).
_MIXED = np.eye(PARAMETERS) + np.diag((0.0, 0.0, 1.0), 1)
# A symmetric matrix is summed as its upper triangle, 00 01 02 03 11 12 13 22 23 33: the rows and
# columns of these ten entries, and the place of each entry of the matrix among them.
_UPPER = np.triu_indices(PARAMETERS)
_PLACES = np.array([[0, 1, 2, 3], [1, 4, 5, 6], [2, 5, 7, 8], [3, 6, 8, 9]])
# Every choice of parameters that are not 0.
_ACTIVE_SETS = np.array(list(product((0.0, 1.0), repeat=PARAMETERS)))
# One rank count cannot tell a local copy from 1/BW: prefer 1/BW.
_RIDGE = np.array([1e-10, 1e-10, 1e-10, 1e-5])


class Prior(NamedTuple):
    """What is known before measuring. A known launch overhead is kept near its value and α takes
    the rest; otherwise α is kept near its value."""

    alpha_s: float
    launch_s: float | None = None

    @property
    def loose(self) -> float:
        """The factor on the priors' widths."""
        return 1.0 if self.launch_s is None else LOOSE


def robust_fit(x: Array, y: Array, is_in_set: NDArray[np.bool_], prior: Prior) -> Array:
    """θ of every set of rows, (..., sets, 4), by iteratively reweighted least squares (Huber
    weights).

    Args:
        x, y: rows, (..., rows, 4) and (..., rows).
        is_in_set: which rows each set has, (..., sets, rows), at least two.
    """
    weight = is_in_set.astype(float)
    theta = np.zeros((*is_in_set.shape[:-1], PARAMETERS))
    # (..., rows, 4): x of the parameters that are solved for
    mixed = x @ _MIXED
    products = _products(mixed, y)
    scale = _largest(np.abs(mixed), is_in_set)
    count = np.maximum(is_in_set.sum(axis=-1, keepdims=True), 1)
    for _ in range(_PASSES):
        theta = _solve_normal_equations(products, scale, weight, prior, prior_width(theta, prior))
        residual = np.abs(theta @ np.swapaxes(x, -1, -2) - y[..., None, :])
        ordered = np.sort(np.where(is_in_set, residual, np.inf), axis=-1)
        # the median of each set's absolute residuals, the mean of the two in the middle, as a standard
        # deviation; rows outside the set are sorted to the end
        lower_middle = np.take_along_axis(ordered, (count - 1) // 2, axis=-1)
        upper_middle = np.take_along_axis(ordered, count // 2, axis=-1)
        spread = np.maximum(_SIGMA_OF_MEDIAN * (lower_middle + upper_middle) / 2, _LEAST_SPREAD)
        # Huber's: 1 up to so many spreads, falling as 1/residual beyond
        weight = is_in_set * np.minimum(1.0, HUBER * spread / np.maximum(residual, 1e-12))
    return theta


def prior_width(theta: Array, prior: Prior) -> Array:
    """The width of the α prior, seconds: the larger of prior and fitted α, so that a large α is not
    drawn to the prior."""
    return np.maximum(prior.alpha_s, theta[..., ALPHA]) * prior.loose


def solve(x: Array, y: Array, weight: Array, prior: Prior, width_s: Array) -> Array:
    """θ under every set of weights; shapes as in :func:`robust_fit`, ``width_s`` (..., sets) is the
    width of the α prior.

    1/copy is at most 1/BW: a rank moves its own share at least as fast as its port carries data.
    """
    mixed = x @ _MIXED
    scale = _largest(np.abs(mixed), weight > 0)
    return _solve_normal_equations(_products(mixed, y), scale, weight, prior, width_s)


def _products(mixed: Array, y: Array) -> Array:
    """Per-row terms of the normal equations: the upper triangle of xxᵀ, then xy; (..., rows,
    14)."""
    rows, columns = _UPPER
    gram_terms = mixed[..., rows] * mixed[..., columns]
    target_terms = mixed * y[..., None]
    return np.concatenate([gram_terms, target_terms], axis=-1)


def _solve_normal_equations(
    products: Array, scale: Array, weight: Array, prior: Prior, width_s: Array
) -> Array:
    """θ from the rows' terms of the normal equations, with columns scaled by their largest
    value: seconds and seconds per byte lie too far apart to be solved together."""
    # (..., sets, 14): ten entries of a set's matrix, then four of its right side
    sums = weight @ products
    # (..., sets, 4, 4) and (..., sets, 4): the matrix and the right side
    gram = sums[..., _PLACES] / (scale[..., :, None] * scale[..., None, :])
    right = sums[..., _PLACES.max() + 1 :] / scale
    # A little of the largest entry is added to the diagonal, so that no system is singular. The
    # diagonal is a view: gram itself is changed.
    diagonal = np.einsum("...ii->...i", gram)
    diagonal += _RIDGE * np.maximum(diagonal.max(axis=-1, keepdims=True), 1e-9)
    # each prior is one more row, of a width in units of the noise: column, expected value, width
    priors = [(ALPHA, prior.alpha_s, width_s)]
    if prior.launch_s is not None:
        # hosts launch nothing: of 0 s the width is that of α
        launch_width_s = prior.loose * (prior.launch_s or prior.alpha_s)
        priors.append((LAUNCH, prior.launch_s, np.asarray(launch_width_s)))
    for column, expected_s, width in priors:
        strength = (NOISE / (width * scale[..., column])) ** 2
        gram[..., column, column] += strength
        right[..., column] += strength * expected_s * scale[..., column]
    return np.asarray((_non_negative_minimum(gram, right) / scale) @ _MIXED.T)


def _largest(values: Array, used: NDArray[np.bool_]) -> Array:
    """The largest value of each column over a set's rows, 1 where all are 0: (..., sets, 4)."""
    largest = np.where(used[..., None], values[..., None, :, :], 0.0).max(axis=-2)
    return np.where(largest > 0, largest, 1.0)


def _non_negative_minimum(gram: Array, right: Array) -> Array:
    """The exact minimum of θ'Gθ/2 - r'θ over θ >= 0, where G is ``gram`` (..., 4, 4) and r ``right``:
    the best feasible one of all choices of parameters that are not 0."""
    theta = _solve_each(gram, right)
    negative = (theta < 0).any(axis=-1)
    if negative.any():
        targets = right[negative][:, None]
        active = _ACTIVE_SETS[:, :, None]
        # rows and columns of a parameter outside the active set are those of "it is 0"
        of_active = gram[negative][:, None] * active * _ACTIVE_SETS[:, None, :]
        of_others = np.eye(PARAMETERS) * (1 - active)
        candidates = _solve_each(of_active + of_others, targets * _ACTIVE_SETS)
        feasible = (candidates >= 0).all(axis=-1)
        # at a stationary point the objective is -r'θ/2
        objective = -(targets * candidates).sum(axis=-1)
        best = np.where(feasible, objective, np.inf).argmin(axis=-1)
        theta[negative] = candidates[np.arange(len(candidates)), best]
    return np.asarray(theta)


def _solve_each(matrices: Array, right: Array) -> Array:
    """The solution of each of a stack of linear systems."""
    return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
