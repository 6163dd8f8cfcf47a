"""Context parallelism: every rank's queries meet all keys and values, three ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from colltool.base.primitives import A2A, AG, P2P, RS
from colltool.training.model import Shape
from colltool.training.traffic.call import Call, CallBuilder, Hiding

RING = "Ring attention, Liu 2023, arXiv:2310.01889"
GATHER = "The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2"
ULYSSES = "DeepSpeed Ulysses, Jacobs 2023, arXiv:2309.14509"


def context_calls(send: CallBuilder) -> Iterator[Call]:
    """Ring: c-1 messages of a block's keys and values, twice that backward (they and their gradients). All-gather of keys and
    values, their gradients' reduce-scatter backward. Ulysses: four all-to-alls each way: q, k, v in, the output back.
    """  # fmt: skip
    config = send.config
    model, layout = config.model, config.layout
    if layout.cp == 1 or model is None or model.shape is None:
        return
    shape, width = model.shape, config.precision.activation_bytes
    block = config.tokens * _kv_size(shape, layout.tp) * width
    again = send.phases(core=True)
    group, whole = layout.group("cp"), block * layout.cp
    match layout.cp_mode:
        case "ulysses":
            yield from _ulysses(send, shape)
        case "ring":
            hides: Hiding = "attention block" if config.overlap.cp else "nothing"
            for phase, passes in (*((phase, 1) for phase in again), ("backward", 2)):
                yield send.call("cp", P2P, group, block, per="layer", phase=phase, each=passes * (layout.cp - 1), hides=hides,
                                source=RING, closed=True)  # fmt: skip
        case "all-gather":
            for phase in again:
                yield send.call("cp", AG, group, whole, per="layer", phase=phase, source=GATHER)
            yield send.call("cp", RS, group, whole, per="layer", phase="backward", source=GATHER)
        case _:
            assert_never(layout.cp_mode)


def _ulysses(send: CallBuilder, shape: Shape) -> Iterator[Call]:
    config = send.config
    group, tp = config.layout.group("cp"), config.layout.tp
    width = config.precision.activation_bytes
    if shape.mla is None:
        heads, kv = shape.heads * shape.head_dim / tp, max(shape.kv_heads / tp, 1.0) * shape.head_dim
        parts = ((2, heads), (2, kv))  # q and the output; k and v
    else:
        a, mla = shape.heads / tp, shape.mla
        parts = ((2, a * (mla.nope + mla.rope)), (2, a * mla.value))  # q and k; v and the output
    for phase in (*send.phases(core=True), "backward"):
        for count, size in parts:
            yield send.call("cp", A2A, group, config.tokens * size * width, per="layer", phase=phase, each=count, source=ULYSSES)


def _kv_size(shape: Shape, tp: int) -> float:
    """Elements of a token's keys and values on a rank: 2 g d / t; of latent attention the keys and values of its heads."""
    if shape.mla is not None:
        return shape.heads / tp * (shape.mla.nope + shape.mla.rope + shape.mla.value)
    return 2 * max(shape.kv_heads / tp, 1.0) * shape.head_dim
