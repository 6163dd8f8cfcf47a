"""Pipeline parallelism: activations over every border of two chunks; and what ties the first stage to the last."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.primitives import AR, P2P
from colltool.training.layout import RankGroup
from colltool.training.traffic.call import Call, CallBuilder, Hiding

NARAYANAN = "Narayanan 2021, arXiv:2104.04473, sections 2.2 and 3.2"
TIED = "Megatron-LM: the embedding's gradient is summed over the first and the last stage"


def pipeline_calls(send: CallBuilder) -> Iterator[Call]:
    """b s h w / c, a t-th of it with sequence parallelism, over each border each way; the worst neighbours set the time.

    With virtual stages the last stage hands over to the first one's next chunk.
    """
    config = send.config
    model, layout = config.model, config.layout
    if layout.pp == 1 or model is None or model.shape is None:
        return
    size = config.tokens_outside * model.shape.hidden * config.precision.activation_bytes
    hides: Hiding = "steady pipeline" if config.overlap.pp else "nothing"
    group, closed = layout.group("pp"), layout.virtual > 1 and not config.folded
    for phase in ("forward", "backward"):
        yield send.call("pp", P2P, group, size, per="border", phase=phase, hides=hides, source=NARAYANAN, closed=closed)


def tied_calls(send: CallBuilder) -> Iterator[Call]:
    """The gradient of an embedding that is also the head: an all-reduce of V h / t between the first and the last stage."""
    config = send.config
    model, layout = config.model, config.layout
    if layout.pp == 1 or model is None or model.shape is None or not model.shape.tied:
        return
    if send.stage.embedding == send.stage.head:  # a stage between, or both on one
        return
    pipeline = layout.group("pp")
    ends = RankGroup(((2, (layout.pp - 1) * pipeline.stride),))
    size = model.shape.vocab * model.shape.hidden / layout.tp * config.shard.grad_bytes
    yield send.call("embedding", AR, ends, size, per="step", phase="update", source=TIED)
