"""A fit is the slow part of calibrate and a pure function of its sample: tests that print one
result in many ways fit it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def remembered() -> Iterator[Callable[[], None]]:
    """Envelopes by sample, for the whole session; calling it forgets them, where a test is about
    fitting twice."""
    from colltool.calibration import protocol_fit, usable_points
    from colltool.calibration.envelope import Envelope, Sample, fit_envelope

    found: dict[bytes, Envelope] = {}

    def fit_once(one: Sample) -> Envelope:
        arrays: list[Any] = [part for part in one if hasattr(part, "tobytes")]
        key = (
            b"|".join(array.tobytes() for array in arrays)
            + repr((one.prior, [array.shape for array in arrays])).encode()
        )
        if key not in found:
            found[key] = fit_envelope(one)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (protocol_fit, usable_points):
            patch.setattr(module, "fit_envelope", fit_once)
        yield found.clear
