"""Collectives of a step as records, and those of a layer, read off its operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple, assert_never

from colltool.base.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.training.layout import RankGroup
from colltool.training.model import Shape
from colltool.training.operations import Operation, cut_of, heads_of, layer_operations
from colltool.training.parallel_config import ParallelConfig, PipelineStage

SHOEYBI = "Shoeybi 2019, arXiv:1909.08053, section 3"
KORTHIKANTI = "Korthikanti 2022, arXiv:2205.05198, section 4.2"
RING = "Ring attention, Liu 2023, arXiv:2310.01889"
GATHER = "The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2"
ULYSSES = "DeepSpeed Ulysses, Jacobs 2023, arXiv:2309.14509"
GSHARD = "GShard, Lepikhin 2020, arXiv:2006.16668, section 3; Megatron-Core's token dispatcher"
DEEPEP = "DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.2.2"

Phase = Literal["forward", "backward", "again", "update"]
Per = Literal["layer", "dense_layer", "moe_layer", "micro_batch", "border", "step"]
Hiding = Literal[
    "nothing", "last backward", "first forward", "neighbour layer", "weight gradient", "split gemm", "attention block",
    "steady pipeline", "other batch", "shared expert",
]  # fmt: skip


class Call(NamedTuple):
    """A collective on one rank of a stage.

    ``bytes`` by nccl-tests' convention: of an all-reduce the vector, of an all-gather and a reduce-scatter the total, of an
    all-to-all the send buffer with the rank's own part, of a point-to-point its message.
    """

    dimension: str
    primitive: Primitive
    group: RankGroup  # of a point-to-point the whole pipeline or ring, whose neighbours exchange
    bytes: float
    each: float  # calls every ``per``
    per: Per
    phase: Phase  # "again" is the forward pass that recomputation repeats
    hides: Hiding
    calls: float  # in a step
    source: str
    skew: float = 1.0  # the busiest rank's load of an all-to-all over the mean
    closed: bool = False  # the last one's next is the first


class OverlapRule(NamedTuple):
    under: str
    exposed: str


OVERLAP_RULES: dict[Hiding, OverlapRule] = {
    "nothing": OverlapRule("", "all"),
    "last backward": OverlapRule("backward of the last micro-batch", "the last bucket, and what exceeds that backward"),
    "first forward": OverlapRule("forward of the first micro-batch", "the first bucket, and what exceeds that forward"),
    "neighbour layer": OverlapRule(
        "the layer before or after, one prefetched", "the first gather, the last scatter, max(0, t - compute)"
    ),
    "weight gradient": OverlapRule("the GEMM of the weight's gradient", "max(0, t - that GEMM)"),
    "split gemm": OverlapRule("the GEMM that it feeds, in pieces", "of an all-gather about 0, of a reduce-scatter a quarter"),
    "attention block": OverlapRule("attention of the block before", "max(0, t - block) a step of the ring"),
    "steady pipeline": OverlapRule("other micro-batches of steady 1F1B", "warm-up and drain"),
    "other batch": OverlapRule("compute of the other batch", "max(0, t - that compute)"),
    "shared expert": OverlapRule("the GEMMs of the shared expert", "max(0, t - those GEMMs)"),
}


class CallBuilder:
    def __init__(self, config: ParallelConfig, stage: PipelineStage) -> None:
        self.config, self.stage = config, stage
        m = config.micro_batches
        self.every: dict[Per, int] = {  # of each kind in a step
            "layer": stage.layers * m,
            "dense_layer": stage.dense_layers * m,
            "moe_layer": stage.moe_layers * m,
            "micro_batch": m,
            "border": config.chunks * m,
            "step": 1,
        }

    def call(self, dimension: str, primitive: Primitive, group: RankGroup, size: float, *, per: Per, phase: Phase, source: str,
             each: float = 1, hides: Hiding = "nothing", skew: float = 1.0, closed: bool = False) -> Call:  # fmt: skip
        return Call(
            dimension=dimension,
            primitive=primitive,
            group=group,
            bytes=size,
            each=each,
            per=per,
            phase=phase,
            hides=hides,
            calls=each * self.every[per],
            source=source,
            skew=skew,
            closed=closed,
        )

    def phases(self, *, core: bool = False) -> tuple[Phase, ...]:
        """The passes with the forward pass's calls; ``core``: also where attention's core alone is recomputed."""
        again = self.config.again.layers or (core and self.config.again.core)
        return ("forward", "again") if again else ("forward",)


def layer_calls(send: CallBuilder) -> Iterator[Call]:
    """Attention's calls in all layers, the rest by kind of layer, and the vocabulary's; all of them every micro-batch."""
    config = send.config
    shape = config.model.shape if config.model is not None else None
    if shape is None:
        return
    cut = cut_of(config)
    dense = [one for one in layer_operations(shape, cut) if one.name != "norms"]
    read: list[tuple[Per, Operation]] = [("layer" if one.name == "attention" else "dense_layer", one) for one in dense]
    if shape.moe is not None:
        moe = layer_operations(shape, cut, experts=True)
        read += [("moe_layer", one) for one in moe if one.name not in ("norms", "attention")]
    if config.layout.tp > 1:
        for per, one in read:
            if one.region:
                yield from _region(send, shape, per)
        yield from _vocabulary(send, shape)
    if config.layout.cp > 1:
        yield from _context(send, shape)
    for _, one in read:
        if one.routed:
            yield from _experts(send, shape, one.routed)


def _region(send: CallBuilder, shape: Shape, per: Per) -> Iterator[Call]:
    """T h w of a tensor parallel region: without sequence parallelism an all-reduce each way.

    With it an all-gather and a reduce-scatter each way, and another all-gather backward, under the weight's gradient.
    """
    config = send.config
    group, size = config.layout.group("tp"), config.tokens * shape.hidden * config.precision.activation_bytes
    if not config.layout.sp:
        for phase in (*send.phases(), "backward"):
            yield send.call("tp", AR, group, size, per=per, phase=phase, source=SHOEYBI)
        return
    hides: Hiding = "split gemm" if config.overlap.tp else "nothing"
    for phase in (*send.phases(), "backward"):
        for primitive in (AG, RS):
            yield send.call("tp", primitive, group, size, per=per, phase=phase, source=KORTHIKANTI, hides=hides)
    yield send.call("tp", AG, group, size, per=per, phase="backward", source=KORTHIKANTI, hides="weight gradient")


def _vocabulary(send: CallBuilder, shape: Shape) -> Iterator[Call]:
    """The embedding's sum on the first stage; on the last the head's gradient and three all-reduces for the loss.

    With sequence parallelism a sum is a reduce-scatter, with an all-gather where the tokens come together again.
    """
    config, stage = send.config, send.stage
    group, sp = config.layout.group("tp"), config.layout.sp
    size = config.tokens * shape.hidden * config.precision.activation_bytes
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


def _context(send: CallBuilder, shape: Shape) -> Iterator[Call]:
    """Every rank's queries meet all keys and values.

    Ring: c-1 messages of a block's keys and values, twice that backward (they and their gradients). All-gather of both, and
    their gradients' reduce-scatter backward. Ulysses: four all-to-alls each way: q, k, v in, the output back.
    """
    config, layout = send.config, send.config.layout
    at, token = heads_of(shape, layout.tp), config.tokens * config.precision.activation_bytes
    group, again, block = layout.group("cp"), send.phases(core=True), (at.k + at.v) * token
    match layout.cp_mode:
        case "ulysses":
            for phase in (*again, "backward"):
                for size, count in Counter((at.q, at.k, at.v, at.out)).items():
                    yield send.call("cp", A2A, group, size * token, per="layer", phase=phase, each=count, source=ULYSSES)
        case "ring":
            hides: Hiding = "attention block" if config.overlap.cp else "nothing"
            for phase, passes in (*((phase, 1) for phase in again), ("backward", 2)):
                yield send.call("cp", P2P, group, block, per="layer", phase=phase, each=passes * (layout.cp - 1), hides=hides,
                                source=RING, closed=True)  # fmt: skip
        case "all-gather":
            for phase in again:
                yield send.call("cp", AG, group, block * layout.cp, per="layer", phase=phase, source=GATHER)
            yield send.call("cp", RS, group, block * layout.cp, per="layer", phase="backward", source=GATHER)
        case _:
            assert_never(layout.cp_mode)


def copies(ep: int, top_k: int, *, deduplicated: bool) -> float:
    """How often a token stands in a rank's send buffer: k, or once for each rank that has any of its experts.

    Of them (e-1)/e leave the rank. Deduplicated e (1 - (1 - 1/e)^k), for experts chosen evenly.

    >>> copies(8, 2, deduplicated=False), copies(8, 2, deduplicated=True)
    (2.0, 1.875)
    """
    return ep * (1 - (1 - 1 / ep) ** top_k) if deduplicated else float(top_k)


def once_a_node(config: ParallelConfig, per_domain: tuple[int, ...]) -> float:
    """Share of a deduplicated all-to-all's bytes on the outer wires: a token crosses once a node, not a rank (DeepEP)."""
    moe = config.model.shape.moe if config.model and config.model.shape else None
    ranks, inner = config.layout.ep, max(1, per_domain[0]) if per_domain else 1
    if moe is None or inner in (1, ranks):
        return 1.0
    return copies(ranks // inner, moe.top_k, deduplicated=True) / copies(ranks, moe.top_k, deduplicated=True)


def _experts(send: CallBuilder, shape: Shape, routed: float) -> Iterator[Call]:
    """Dispatch and combine of T' k h w, forward and backward; T' = T/t with sequence parallelism.

    Experts cut in width gather their ranks' tokens after the dispatch, and sum before the combine.
    """
    config, layout, moe = send.config, send.config.layout, shape.moe
    assert moe is not None
    sent = routed * copies(layout.ep, moe.top_k, deduplicated=layout.deduplicate)
    there, back = config.precision.dispatch_bytes, config.precision.activation_bytes
    overlap: dict[str, Hiding] = {"": "nothing", "batch": "other batch", "shared": "shared expert"}
    source = DEEPEP if layout.deduplicate else GSHARD
    for phase in (*send.phases(), "backward"):
        widths = (back, back) if phase == "backward" else (there, back)  # gradients travel in full
        if layout.ep > 1:
            group = layout.group("ep", experts=True)
            for width in widths:
                yield send.call("ep", A2A, group, sent * width, per="moe_layer", phase=phase, source=source,
                                hides=overlap[config.overlap.ep], skew=moe.imbalance)  # fmt: skip
        if layout.etp > 1 and layout.sp:
            group, whole = layout.group("tp", experts=True), sent * layout.etp
            yield send.call("etp", AG, group, whole * widths[0], per="moe_layer", phase=phase, source=GSHARD)
            yield send.call("etp", RS, group, whole * back, per="moe_layer", phase=phase, source=GSHARD)
