"""Single changes of a deployment and their effect on the time per token; and a search over all
deployments of a number of ranks.

Changes are other layouts, a larger batch, other engines, and a tier of twice the bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.result import with_progress
from colltool.engines.lookup import find_library
from colltool.engines.shipped import shipped_libraries
from colltool.fabric.model import Fabric
from colltool.serving.deployment import Deployment
from colltool.serving.results import Served, ServedChange, ServeList

Run = Callable[[Deployment, "str | None", "Fabric | None"], Served]
"""Serves the same model with a deployment, another engine (``NAME@VERSION``), or on another fabric."""

# relative; smaller changes of the network time are not listed
_LEAST_CHANGE = 0.01


class _ServingTrial(NamedTuple):
    """A change to try; None keeps the engine or the fabric."""

    name: str
    deployment: Deployment
    engine: str | None = None
    fabric: Fabric | None = None


def changes(served: Served, fabric: Fabric, run: Run) -> tuple[ServedChange, ...]:
    """Return each change by itself with the times that it would give, the largest gain of tokens/s
    first; without a known device, the least network time.

    A change that no longer fits the memory is none.
    """
    before_s = served.decode.network_s
    changes_found = []
    for trial in _trials(served, fabric):
        try:
            after = run(trial.deployment, trial.engine, trial.fabric)
        except ColltoolError:
            continue
        after_s = after.decode.network_s
        if after.fits is False and served.fits is not False:
            continue
        if before_s and after_s and abs(after_s / before_s - 1) > _LEAST_CHANGE:
            gain = before_s / after_s
            if served.estimated_tokens_per_s and after.estimated_tokens_per_s:
                gain = after.estimated_tokens_per_s / served.estimated_tokens_per_s
            changes_found.append(
                ServedChange(
                    change=trial.name,
                    network_s=after_s,
                    factor=after_s / before_s,
                    time_per_token_s=after.time_per_token_s,
                    tokens_per_s=after.tokens_per_s,
                    gain=gain,
                    estimated_time_per_token_s=after.estimated_time_per_token_s,
                    estimated_tokens_per_s=after.estimated_tokens_per_s,
                )
            )
    return tuple(sorted(changes_found, key=lambda change: -change.gain))


def _trials(served: Served, fabric: Fabric) -> Iterator[_ServingTrial]:
    deployment = served.deployment
    if deployment.tp > 1:
        yield from _other_layouts(deployment)
    yield _ServingTrial(
        f"batch {deployment.batch * 2}", deployment._replace(batch=deployment.batch * 2)
    )
    if deployment.tp > 1:
        for name, version in shipped_libraries():
            engine = f"{name}@{version}"
            # only engines leave the rest to NCCL
            if engine != served.engine and find_library(engine).leaves_rest:
                yield _ServingTrial(f"{engine}'s all-reduce", deployment, engine=engine)
    for wire in sorted({call.wire for call in served.decode.operations if call.wire}):
        name = f"twice the bandwidth of {wire}"
        yield _ServingTrial(name, deployment, fabric=_twice_as_fast(fabric, wire))


def _other_layouts(deployment: Deployment) -> Iterator[_ServingTrial]:
    """Half or twice the tensor parallelism, on the same or twice the ranks."""
    half = deployment.tp // 2
    replicas = deployment._replace(tp=half, dp=deployment.dp * 2)
    if deployment.exchanges:
        # ep = tp x dp stays the same
        yield _ServingTrial(f"tp {half} (dp attention {deployment.dp * 2})", replicas)
        return
    yield _ServingTrial(
        f"tp {half}, pp {deployment.pp * 2}", deployment._replace(tp=half, pp=deployment.pp * 2)
    )
    more = f"tp {deployment.tp * 2} on twice the ranks"
    yield _ServingTrial(more, deployment._replace(tp=deployment.tp * 2))
    yield _ServingTrial(f"tp {half}, dp {deployment.dp * 2}", replicas)


def _twice_as_fast(fabric: Fabric, wire: str) -> Fabric:
    tiers = []
    for tier in fabric.tiers:
        if tier.name == wire:
            tier = tier.model_copy(update={"bandwidth": tier.bandwidth * 2})
        tiers.append(tier)
    return fabric.model_copy(update={"tiers": tuple(tiers)})


def search(
    ranks: int, base: Deployment, run: Callable[[Deployment], Served], most: int = 10
) -> ServeList:
    """Return the best layouts of the ranks into tp, pp and dp of powers of two.

    Experts are on all ranks of a stage, or split by tp. The order is by estimated tokens/s;
    layouts that do not fit the memory are in ``refused``.

    Args:
        base: the deployment's other values; ``ep`` of 1 is a model without experts.
        most: layouts to keep.
    """
    feasible: list[Served] = []
    refused: list[tuple[str, str]] = []
    for deployment in with_progress(list(_layouts(ranks, base))):
        try:
            served = run(deployment)
        except ColltoolError as error:
            refused.append((deployment.label, error.what))
            continue
        if served.fits is False:
            refused.append((deployment.label, "does not fit the memory"))
        else:
            feasible.append(served)
    if not feasible:
        reasons = dict.fromkeys(what for _, what in refused)
        why = "; ".join(list(reasons)[:3])
        raise ColltoolError(
            f"no layout of {ranks} ranks can be served: {why}",
            argument="ranks",
            fix=f"more ranks, a smaller batch, or {argument_text('weights', 'fp8')}",
        )
    tried = len(feasible) + len(refused)
    # with one batch for all layouts this is also the order of the time per token; without, each has
    # its own batch
    feasible.sort(key=_time_per_sequence)
    best = feasible[:most]
    return ServeList(
        title=f"{counted(len(feasible), 'feasible layout')} of {ranks} ranks ({tried} tried)",
        served=tuple(best),
        names=tuple(served.deployment.label for served in best),
        tried=tried,
        refused=tuple(refused),
        feasible=len(feasible),
    )


def _time_per_sequence(served: Served) -> float:
    """Time per token over the sequences that get one: the inverse of tokens/s."""
    took_s = served.decode.network_s + (served.decode.kernels_s or 0.0)
    return took_s / served.deployment.batch


def _layouts(ranks: int, base: Deployment) -> Iterator[Deployment]:
    powers = [2**power for power in range(ranks.bit_length())]
    for tp in powers:
        for pp in powers:
            if ranks % (tp * pp):
                continue
            dp = ranks // (tp * pp)
            yield base._replace(tp=tp, pp=pp, dp=dp, ep=1)
            if base.ep != 1 and dp > 1:
                yield base._replace(tp=tp, pp=pp, dp=dp, ep=tp * dp)
