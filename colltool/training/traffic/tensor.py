"""Tensor parallelism: activations of T h w, summed where a region ends; and the parallel vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.primitives import AG, AR, RS
from colltool.training.traffic.call import Call, CallBuilder, Hiding, Per

SHOEYBI = "Shoeybi 2019, arXiv:1909.08053, section 3"
KORTHIKANTI = "Korthikanti 2022, arXiv:2205.05198, section 4.2"


def tensor_calls(send: CallBuilder) -> Iterator[Call]:
    """Of attention once a layer, of the FFN or a shared expert once more.

    Without sequence parallelism an all-reduce forward and one backward each; with it an all-gather and a reduce-scatter each way,
    and one all-gather more backward, which hides under the weight's gradient. Routed experts with sequence parallelism send
    nothing here: their tokens are apart already.
    """
    config = send.config
    model, layout = config.model, config.layout
    if layout.tp == 1 or model is None or model.shape is None:
        return
    moe = model.shape.moe
    regions: list[Per] = ["layer", "dense_layer"]
    if moe is not None and (moe.shared_ffn or not layout.sp):
        regions.append("moe_layer")
    for per in regions:
        yield from _region(send, per)


def _region(send: CallBuilder, per: Per) -> Iterator[Call]:
    config = send.config
    group, size = config.layout.group("tp"), _activation(send)
    if not config.layout.sp:
        for phase in (*send.phases(), "backward"):
            yield send.call("tp", AR, group, size, per=per, phase=phase, source=SHOEYBI)
        return
    hides: Hiding = "split gemm" if config.overlap.tp else "nothing"
    for phase in (*send.phases(), "backward"):
        for primitive in (AG, RS):
            yield send.call("tp", primitive, group, size, per=per, phase=phase, source=KORTHIKANTI, hides=hides)
    yield send.call("tp", AG, group, size, per=per, phase="backward", source=KORTHIKANTI, hides="weight gradient")


def vocabulary_calls(send: CallBuilder) -> Iterator[Call]:
    """The embedding's sum on the first stage; the head's gradient and the loss' three all-reduces of 4 bytes a token on the last.

    With sequence parallelism a sum is a reduce-scatter, and an all-gather stands where the tokens come together again.
    """
    config, stage = send.config, send.stage
    model, layout = config.model, config.layout
    if layout.tp == 1 or model is None or model.shape is None:
        return
    group, size, sp = layout.group("tp"), _activation(send), layout.sp
    source = KORTHIKANTI if sp else SHOEYBI
    if stage.embedding:
        yield send.call("vocab", RS if sp else AR, group, size, per="micro_batch", phase="forward", source=source)
        if sp:
            yield send.call("vocab", AG, group, size, per="micro_batch", phase="backward", source=source)
    if stage.head:
        if sp:
            yield send.call("vocab", AG, group, size, per="micro_batch", phase="forward", source=source)
        yield send.call("vocab", AR, group, config.tokens * 4, per="micro_batch", phase="forward", each=3, source=SHOEYBI)
        yield send.call("vocab", RS if sp else AR, group, size, per="micro_batch", phase="backward", source=source)


def _activation(send: CallBuilder) -> float:
    model = send.config.model
    assert model is not None
    assert model.shape is not None
    return send.config.tokens * model.shape.hidden * send.config.precision.activation_bytes
