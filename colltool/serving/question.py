"""What a user asks of serving: :class:`ServeQuestion`, which :func:`colltool.serving.serve.serve` answers."""

from __future__ import annotations

from typing import NamedTuple

from colltool.engines.files import LibraryFile, Mode
from colltool.serving.deployment import Deployment
from colltool.serving.quantization import WeightFormat


class ServeQuestion(NamedTuple):
    """A deployment to price, and what else the user said.

    Args:
        dp: the user's replicas of attention; None if they follow from ep and tp.
        tpot_s: measured or targeted time per output token.
        prefill_tp: tensor parallelism of prefill on machines of its own; None if there are none.
        kv: the library that moves KV caches between machines.
        weights: their format; None for the deployment's for all of them.
        prefill_tier: the tier between prefill and decode; None for the outermost one of a site.
        kv_page: tokens of a page of the KV cache.
        kv_layout: what is together in a page: ``heads``: the tokens of a head; ``tokens``: the heads
            of a token; ``pages``: all layers of a page.
        two_batches: whether dispatch and combine of one half of the batch run beside the kernels of
            the other (two-batch overlap, dual batch overlap).
        mode: how the engine launches its calls; None: in CUDA graphs, where their kernels can.
        sms: streaming multiprocessors of dispatch and combine; 0 for the library's own.
    """

    deployment: Deployment
    dp: int | None = None
    tpot_s: float | None = None
    prefill_tp: int | None = None
    kv: LibraryFile | None = None
    weights: WeightFormat | None = None
    prefill_tier: str | None = None
    kv_page: int = 16
    kv_layout: str = "heads"
    two_batches: bool = False
    mode: Mode | None = None
    sms: int = 0
