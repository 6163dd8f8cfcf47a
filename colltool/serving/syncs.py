"""Ways to bring new weights from trainers to servers, as data: ``data/ways.toml``.

Besides the wire, which follows from the schedule, a sync has a start, a time for each expert or layer
(the tensors that are sent one by one), and the time to take the weights into the serving engine.
:mod:`colltool.serving.reshard` prices the wire and adds these.
"""

from __future__ import annotations

from functools import cache
from math import log
from pathlib import Path
from typing import Literal, NamedTuple

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.base.formatting import counted
from colltool.estimate.interval import SHARE, Basis, Interval
from colltool.estimate.spread import sigma_table
from colltool.serving.quantization import BF16, WeightFormat
from colltool.training.model import TransformerModel

# Who sends to whom: see :mod:`colltool.serving.reshard`
Schedule = Literal["pairs", "tree", "one root", "broadcast"]
# Names of ways that any collective library can take; the others are engines of their own
PLAIN = ("pairs", "tree", "one root")

# exponent of the factor of an interval outside of what was measured: 1.5 becomes 1.66
_WIDER = 1.25


class SyncedWeights(NamedTuple):
    """What a sync moves: bytes, and the tensors among them that are sent one by one.

    Args:
        bytes: of all weights.
        experts: of all layers.
        plain_layers: layers without experts.
        quantized: whether the weights are in fewer than 16 bits.
    """

    bytes: float
    experts: int = 0
    plain_layers: int = 0
    quantized: bool = False


def weights_to_sync(
    model: TransformerModel, size: float, weight_format: WeightFormat | None = None
) -> SyncedWeights:
    """Return what a sync of a model moves.

    Args:
        size: bytes of the weights.
        weight_format: their format; None for 16 bits.
    """
    experts = 0
    if model.shape is not None and model.shape.moe is not None:
        experts = model.moe_layers * model.shape.moe.experts
    quantized = weight_format is not None and weight_format.dense < BF16
    return SyncedWeights(size, experts, model.dense_layers, quantized)


class SyncTimes(NamedTuple):
    """Seconds of a sync besides its wire, named as in
    :class:`colltool.serving.reshard.ReshardWay`."""

    start_s: float
    tensors_s: float
    load_s: float


class SyncLaw(NamedTuple):
    """A way of ``data/ways.toml``: how the weights cross the wire, and what a sync takes besides.

    Args:
        way: its name.
        library: what was measured.
        schedule: who sends to whom.
        within: nine of ten measured syncs are within this factor.
        rows: measured syncs that the numbers were fitted to; 0 for those of another way into the
            same engine.
        gigabytes, ranks: the least and the most that were measured: weights, and ranks of both
            meshes.
        source: where the measurements are from, for readers of the file.
        gpus: on which it was measured; empty for any.
        start_s: pause, plan and resume.
        expert_us: for each expert of each layer.
        quantized_us: more for each expert in fewer than 16 bits.
        rank_us: more for each expert and each rank of both meshes.
        layer_us: for each layer without experts.
        load_GBps: rate at which a receiver takes all weights into its engine; None: no time.
        sent: share of the weights' bytes that is sent.
    """

    way: str
    library: str
    schedule: Schedule
    within: float
    rows: int
    gigabytes: tuple[float, float]
    ranks: tuple[int, int]
    source: str
    gpus: tuple[str, ...] = ()
    start_s: float = 0.0
    expert_us: float = 0.0
    quantized_us: float = 0.0
    rank_us: float = 0.0
    layer_us: float = 0.0
    load_GBps: float | None = None
    sent: float = 1.0

    def times(self, weights: SyncedWeights, ranks: int) -> SyncTimes:
        """Return the seconds besides the wire; ``ranks``: of both meshes together."""
        expert_us = self.expert_us + self.rank_us * ranks
        if weights.quantized:
            expert_us += self.quantized_us
        tensors_us = expert_us * weights.experts + self.layer_us * weights.plain_layers
        load_s = 0.0
        if self.load_GBps is not None:
            load_s = weights.bytes / (self.load_GBps * 1e9)
        return SyncTimes(self.start_s, tensors_us * 1e-6, load_s)

    def interval(
        self,
        total_s: float,
        least_s: float,
        weights: SyncedWeights,
        ranks: int,
        gpu: str | None,
    ) -> Interval:
        """Return where nine of ten syncs lie.

        Args:
            total_s: the price of the sync.
            least_s: the wire at its rated speed, below which no sync lies.
            ranks: of both meshes together.
            gpu: of the fabric; None if it names none.
        """
        basis, reason = self._basis(weights, ranks, gpu)
        within = self.within
        # without rows the file's factor is that of ways without measurements already
        if basis != "interpolated" and self.rows:
            within **= _WIDER
        return Interval(
            low_s=min(total_s, max(least_s, total_s / within)),
            high_s=total_s * within,
            share=SHARE,
            rows=self.rows,
            basis=basis,
            # the part's standard deviation: kappa of them reach the end of an interval
            parts=(("sync", log(within) / sigma_table()["kappa"]),),
            nearest=self.library if self.rows else None,
            reason=reason,
        )

    def _basis(self, weights: SyncedWeights, ranks: int, gpu: str | None) -> tuple[Basis, str]:
        """How near the sync is to the measured ones, and the words for it."""
        if not self.rows:
            return "extrapolated", "no measured sync of this way"
        if self.gpus and gpu not in self.gpus:
            return "other machine", f"measured on {self.gpus[0]}"
        least_GB, most_GB = self.gigabytes
        if not least_GB <= weights.bytes / 1e9 <= most_GB:
            return "extrapolated", f"measured with {least_GB:g} to {most_GB:g} GB of weights"
        fewest, most = self.ranks
        if not fewest <= ranks <= most:
            return "extrapolated", f"measured on {fewest} to {most} ranks"
        return "interpolated", f"{counted(self.rows, 'measured sync')} of this way"


@cache
def sync_laws() -> tuple[SyncLaw, ...]:
    """Return every way, in the order of the file."""
    rows = packaged_toml(Path(__file__).parent / "data" / "ways.toml")["ways"]
    return tuple(SyncLaw(**row) for row in rows)


def sync_law(way: str) -> SyncLaw:
    """Return the way of this name, written with spaces or with dashes: ``one-root``.

    Raises:
        ColltoolError: there is none.
    """
    known = {law.way.replace(" ", "-"): law for law in sync_laws()}
    name = way.replace(" ", "-")
    if name not in known:
        raise ColltoolError(
            f"no way is called '{clipped(way)}'",
            argument="way",
            fix=f"{nearest(name, list(known))} known: {', '.join(known)}".strip(),
        )
    return known[name]
