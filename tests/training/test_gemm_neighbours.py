"""A user's GEMMs beside the model's: what is taken for a shape that was not measured."""

from __future__ import annotations

import pytest
from training.test_gemms import machine

from colltool.training.measured_gemms import MeasuredGemm
from colltool.training.roofline import Gemm, gemm_s


def test_the_nearer_of_two_measured_shapes_counts_more() -> None:
    """One is a factor 2 away and took twice the model's time, one a factor 4 away and as long as
    the model says: weights 2 to 1 by the distance of the logarithms, so a factor of 2^(2/3)."""
    model = machine("h100")
    shape = Gemm(4096, 4096, 4096)
    near = Gemm(8192, 4096, 4096)
    far = Gemm(4096, 16384, 4096)
    measured = (
        MeasuredGemm("bf16", near.m, near.n, near.k, 2 * gemm_s(near, model)),
        MeasuredGemm("bf16", far.m, far.n, far.k, gemm_s(far, model)),
    )
    corrected = model._replace(stack=model.stack._replace(measured=measured))
    assert gemm_s(shape, corrected) / gemm_s(shape, model) == pytest.approx(2 ** (2 / 3))
