"""Expert parallelism: tokens to the ranks of their experts, and back."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.primitives import A2A, AG, RS
from colltool.training.parallel_config import ParallelConfig
from colltool.training.traffic.call import Call, CallBuilder, Hiding

GSHARD = "GShard, Lepikhin 2020, arXiv:2006.16668, section 3; Megatron-Core's token dispatcher"
DEEPEP = "DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.2.2"


def copies(ep: int, top_k: int, *, deduplicated: bool) -> float:
    """How often a token stands in a rank's send buffer: k, or once for each rank that has any of its experts.

    Of them (e-1)/e leave the rank. Deduplicated e (1 - (1 - 1/e)^k), for experts chosen evenly.

    >>> copies(8, 2, deduplicated=False), copies(8, 2, deduplicated=True)
    (2.0, 1.875)
    """
    return ep * (1 - (1 - 1 / ep) ** top_k) if deduplicated else float(top_k)


def once_a_node(config: ParallelConfig, per_domain: tuple[int, ...]) -> float:
    """What of a deduplicated all-to-all's bytes crosses the outer wires: a token once a node, not once a rank (DeepEP).

    Args:
        setup: the job.
        per_domain: ranks of the group in one domain of each tier, innermost first.
    """
    moe = config.model.shape.moe if config.model and config.model.shape else None
    ranks, inner = config.layout.ep, max(1, per_domain[0]) if per_domain else 1
    if moe is None or inner in (1, ranks):
        return 1.0
    return copies(ranks // inner, moe.top_k, deduplicated=True) / copies(ranks, moe.top_k, deduplicated=True)


def expert_calls(send: CallBuilder) -> Iterator[Call]:
    """Dispatch and combine of T' k h w, forward and backward, each layer with experts; T' = T/t with sequence parallelism.

    Experts that are cut in their widths gather the tokens of their ranks behind the dispatch, and sum before the combine.
    """
    config = send.config
    model, layout = config.model, config.layout
    moe = model.shape.moe if model and model.shape else None
    if moe is None or model is None or model.shape is None:
        return
    sent = config.expert_tokens * model.shape.hidden
    sent *= copies(layout.ep, moe.top_k, deduplicated=layout.deduplicate)
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
