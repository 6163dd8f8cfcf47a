"""The format of a served model's weights (:class:`WeightFormat`), and :func:`uniform`: one format for
all of them. That of a checkpoint, which differs from part to part, comes from
:mod:`colltool.serving.checkpoint_weights`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.engines.tokens import WIDTHS

# Bytes of a weight in 16 bits
BF16 = 2.0
# Bytes of a weight with its scales: of mxfp4 32 weights share a scale of 8 bits, of int4 128
# share a scale of 16 bits and a zero point of 4
FORMATS = {**WIDTHS, "mxfp4": 0.5 + 1 / 32, "int4": 0.5 + 2.5 / 128}
# the key of a device's peak for products of a format, where it is not the format's name
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
        kept: parts that the checkpoint keeps in bf16, in words: ``attention of 3 of 61 layers``.
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
        """Words for a note: ``weights: fp8 as in the checkpoint``."""
        return f"weights: {self.name}{' as in the checkpoint' if self.method else ''}"

    def peak(self, peaks: Mapping[str, float]) -> float:
        """FLOP/s of a device for products of this format; where it has none, those of bf16, or of
        the first format in ``peaks`` (dense FLOP/s by format)."""
        rate = peaks.get(_PEAKS.get(self.computes, self.computes))
        return rate or peaks.get("bf16") or next(iter(peaks.values()))


def uniform(name: str) -> WeightFormat:
    """Return the format in which all weights have the same width; ``name`` is a key of FORMATS.

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
    # without products of their own, weights of 4 bits are expanded: int4 to 16 bits, mxfp4 to 8
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
