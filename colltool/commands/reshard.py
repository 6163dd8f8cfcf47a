"""Weights from one mesh (the ranks that hold a model, one shard each) to another, or from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands.command import command
from colltool.commands.options import FABRIC, MODEL_OR_JOB, RESULT, FabricChoice, Out, option
from colltool.commands.serve_arguments import job_of, model_of, weights_of

if TYPE_CHECKING:
    from colltool.commands.plan import AnyJob
    from colltool.commands.reading import AnyFabric
    from colltool.fabric.custom_machine import CustomMachine
    from colltool.serving.reshard import Resharded


def reshard(
    job: AnyJob,
    fabric: AnyFabric,
    *,
    receivers: int,
    senders: int | None = None,
    replica: int = 1,
    weights: str | None = None,
    storage: str | float | None = None,
    way: str | None = None,
    machine: CustomMachine | None = None,
) -> Resharded:
    """Move weights from one set of ranks to another, or load them from storage: each way, and the
    link that limits it.

    Args:
        job, fabric: a model or job, and a fabric; or a path, shipped name or mapping to load.
        receivers: ranks that receive the weights, in replicas of ``replica`` ranks that hold one
            shard each.
        senders: ranks that hold the weights, one shard each; or ``storage``, a total rate such as
            ``"200GB/s"``.
        weights: data type of the weights: bf16, fp8, nvfp4, mxfp4, int4; default: as the checkpoint
            of a config.json has them, else bf16.
        way: the only way to price: ``"pairs"``, ``"one root"``, ``"nixl"``, ``"checkpoint-engine"``
            and others; default: all.
        machine: as :func:`colltool.price`.

    Returns:
        A :class:`colltool.serving.reshard.Resharded`; seconds and bytes.

    Raises:
        ColltoolError: meshes that do not fit the fabric or each other, both sources or none, a way of
            weights from a store, or a value that cannot be read.
    """
    from colltool.commands.reading import count_of, text_of
    from colltool.commands.requests import fabric_of
    from colltool.serving.deployment import Deployment, weight_bytes
    from colltool.serving.reshard import reshard as run
    from colltool.serving.syncs import weights_to_sync

    loaded_job = job_of(job)
    model = model_of(loaded_job)
    loaded = fabric_of(fabric, machine=machine)
    receiver_count = count_of(receivers, "receivers")
    replica_ranks = count_of(replica, "replica")
    # exactly one of the two sources
    if (senders is None) == (storage is None):
        raise ColltoolError(
            "the weights come either from ranks or from a store",
            argument="senders",
            fix=f"add {argument_text('senders', 64)}, or {argument_text('storage', '200GB/s')}",
        )
    storage_Bps = None if storage is None else _rate_Bps(storage)
    weight_format = weights_of(weights, loaded_job, model)
    weights_bytes = model.parameters * weight_format.dense
    # where a checkpoint is quantized (method), its parts differ in format: the bytes of a rank that
    # holds all of them
    if weight_format.method:
        weights_bytes = weight_bytes(model, Deployment(), 1, weight_format).weights
    sender_count = 0 if senders is None else count_of(senders, "senders")
    if way is not None:
        way = text_of(way, "way", "pairs").lower()
        if storage is not None:
            raise ColltoolError(
                "ways are of weights from ranks, not from a store",
                argument="way",
                fix=f"leave {argument_text('way')} out",
            )
    return run(
        model.name,
        weights_to_sync(model, weights_bytes, weight_format),
        loaded,
        sender_count,
        receiver_count,
        replica_ranks,
        storage_Bps=storage_Bps,
        weight_format=weight_format,
        way=way,
    )


def _rate_Bps(storage: str | float) -> float:
    """The rate of a store in bytes/s, from such a number or a text with a unit."""
    from colltool.base.formatting import parse_rate
    from colltool.commands.reading import number_of

    rate = parse_rate(storage) if isinstance(storage, str) else number_of(storage, "storage")
    if not 0 < rate < 1e18:
        raise ColltoolError(
            "a rate above 0", argument="storage", fix=f"write {argument_text('storage', '200GB/s')}"
        )
    return rate


@command(
    [
        MODEL_OR_JOB,
        FABRIC,
        "receivers",
        "senders",
        "replica",
        "weights",
        option("storage", "Load from storage at this total rate, instead of from senders."),
        "way",
        RESULT,
    ],
    public=reshard,
)
def reshard_command(job: str, fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Price moving weights from one set of ranks to another: in pairs, down a tree of replicas, from one
    root, or as engines of weights do; the network, the tensors and the load of each.

    Covers the sync from trainer to rollout in RL, resharding, and with --storage loading a
    checkpoint.

    Examples:
      colltool reshard llama3-70b -f dgx-h100 --from 128 --to 64 --replica 8
      colltool reshard deepseek-v3 -f dgx-h100 --from 16 --to 16 --replica 16 --way checkpoint-engine
      colltool reshard llama3-70b -f dgx-h100 --to 64 --replica 8 --storage 200GB/s
    """
    out.emit(reshard(job, fabric.load(), **arguments))
