"""The arrays of this room."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.signedinteger[Any]]
"""Numbers of ranks, messages, groups or resources: 32 bits where there is one for every message or rank, 64 elsewhere."""

SMALL = np.int32
"""What holds any rank, group or resource of a fabric that can be followed link by link."""


def clean(values: Floats) -> Floats:
    """Ten digits: without the dust of sums of many parts."""
    unique, at = np.unique(values, return_inverse=True)
    return np.array([float(f"{value:.10g}") for value in unique.tolist()])[at]
