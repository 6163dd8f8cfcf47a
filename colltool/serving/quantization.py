"""Formats of a served model's weights: :func:`uniform` is one for all of them; that of a checkpoint
is in :mod:`checkpoint_weights`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.engines.tokens import WIDTHS

BF16 = 2.0
# bytes of a weight with its scales: mxfp4 has one of 8 bits for 32 weights, int4 one of 16 bits
# and a zero point of 4 for 128
FORMATS = {**WIDTHS, "mxfp4": 0.5 + 1 / 32, "int4": 0.5 + 2.5 / 128}
# of a device without the format of the weights, the next that it may compute in
_PEAKS = {"nvfp4": "fp4"}


class WeightFormat(NamedTuple):
    """How a model's weights are kept, in bytes per weight.

    Args:
        name: the format of the quantized weights.
        dense: mean over attention, dense FFNs and shared experts.
        experts: of routed experts.
        ends: of embedding and head.
        whole: of what every rank keeps whole: norms, routers and the like.
        computes: format of the fastest products of such weights: sets the peak of the device.
        sends: format in which tokens go to their experts.
        method: how a checkpoint calls it; empty where the user chose the format.
        kept: parts that the checkpoint keeps in bf16, for people.
    """

    name: str
    dense: float
    experts: float
    ends: float
    whole: float
    computes: str
    sends: str
    method: str = ""
    kept: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``weights: fp8 as in the checkpoint``."""
        return f"weights: {self.name}{' as in the checkpoint' if self.method else ''}"

    def peak(self, peaks: Mapping[str, float]) -> float:
        """FLOP/s of a device in this format, or in bf16 where it has no such products."""
        rate = peaks.get(_PEAKS.get(self.computes, self.computes))
        return rate or peaks.get("bf16") or next(iter(peaks.values()))


def uniform(name: str) -> WeightFormat:
    """All weights in one format.

    Raises:
        ColltoolError: a format that is not known.
    """
    if name not in FORMATS:
        raise ColltoolError(
            f"'{clipped(name)}' is not known",
            argument="weights",
            fix=f"{nearest(name, list(FORMATS))} one of {', '.join(FORMATS)}".strip(),
        )
    width = FORMATS[name]
    # weights of 4 bits are expanded for products of 16 bits, or of 8 where the GPU has such kernels
    computes = {"mxfp4": "fp8", "int4": "bf16"}.get(name, name)
    sends = "fp8" if name in ("fp8", "int8", "nvfp4") else "bf16"
    return WeightFormat(
        name=name,
        dense=width,
        experts=width,
        ends=width,
        whole=width,
        computes=computes,
        sends=sends,
    )
