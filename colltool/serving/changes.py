"""Single changes of a deployment and their effect on the time per token: :func:`changes`.

Changes are other layouts, a larger batch, other engines, and a tier of twice the bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.engines.files import LibraryFile
from colltool.engines.lookup import find_library
from colltool.engines.shipped import shipped_libraries
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.variants import with_tiers
from colltool.serving.deployment import Deployment
from colltool.serving.results import Served, ServedChange

# relative; smaller changes of the network time are not listed
_LEAST_CHANGE = 0.01


class ServingTrial(NamedTuple):
    """A change to try.

    Args:
        name: the change for people, ``tp 4, pp 2``.
        deployment, fabric: as changed, or as they are.
        engine: another engine; None for the engine as it is.
    """

    name: str
    deployment: Deployment
    fabric: Fabric
    engine: LibraryFile | None = None


def changes(
    served: Served, fabric: Fabric, serve: Callable[[ServingTrial], Served]
) -> tuple[ServedChange, ...]:
    """Return each change by itself with the times that it would give, the largest gain first.

    A change that cannot be served or priced is left out.

    Args:
        served: the deployment as it is.
        fabric: the fabric as it is.
        serve: serves the same model with a change.
    """
    gains = []
    for trial in _trials(served, fabric):
        try:
            after = serve(trial)
        except ColltoolError:
            continue
        change = _change(trial.name, served, after)
        if change is not None:
            gains.append(change)
    return tuple(sorted(gains, key=lambda change: -change.gain))


def _change(name: str, before: Served, after: Served) -> ServedChange | None:
    """A change with its gain: tokens/s after over before, or where the device is not known network
    time before over after.

    None where the network takes as long as before, whatever else is gained: the list is of what
    the network costs. None also where it no longer fits the memory.
    """
    # fits is None where the memory is not known
    if after.fits is False and before.fits is not False:
        return None
    before_s = before.decode.network_s
    after_s = after.decode.network_s
    if not before_s or not after_s or abs(after_s / before_s - 1) <= _LEAST_CHANGE:
        return None
    gain = before_s / after_s
    if before.estimated_tokens_per_s and after.estimated_tokens_per_s:
        gain = after.estimated_tokens_per_s / before.estimated_tokens_per_s
    return ServedChange(
        change=name,
        network_s=after_s,
        factor=after_s / before_s,
        time_per_token_s=after.time_per_token_s,
        tokens_per_s=after.tokens_per_s,
        gain=gain,
        estimated_time_per_token_s=after.estimated_time_per_token_s,
        estimated_tokens_per_s=after.estimated_tokens_per_s,
    )


def _trials(served: Served, fabric: Fabric) -> Iterator[ServingTrial]:
    """Other deployments, then other engines, then a faster tier."""
    deployment = served.deployment
    for name, changed in _other_deployments(deployment):
        yield ServingTrial(name, changed, fabric)
    if deployment.tp > 1:
        for name, version in shipped_libraries():
            engine = f"{name}@{version}"
            library = find_library(engine)
            # only engines leave the rest to NCCL; other libraries take no engine's place
            if engine != served.engine and library.leaves_rest:
                yield ServingTrial(f"{engine}'s all-reduce", deployment, fabric, library)
    for wire in sorted({call.wire for call in served.decode.operations if call.wire}):
        name = f"twice the bandwidth of {wire}"
        yield ServingTrial(name, deployment, _twice_as_fast(fabric, wire))


def _other_deployments(deployment: Deployment) -> Iterator[tuple[str, Deployment]]:
    """Yield half or twice the tensor parallelism, on the same or twice the ranks, and twice the
    batch; each with its name for people."""
    tp = deployment.tp
    pp = deployment.pp
    dp = deployment.dp
    half = tp // 2
    if tp > 1:
        twice_replicas = deployment._replace(tp=half, dp=dp * 2)
        if deployment.exchanges:
            # ep = tp x dp stays the same
            yield f"tp {half} (dp attention {dp * 2})", twice_replicas
        else:
            yield f"tp {half}, pp {pp * 2}", deployment._replace(tp=half, pp=pp * 2)
            yield f"tp {tp * 2} on twice the ranks", deployment._replace(tp=tp * 2)
            yield f"tp {half}, dp {dp * 2}", twice_replicas
    batch = deployment.batch * 2
    yield f"batch {batch}", deployment._replace(batch=batch)


def _twice_as_fast(fabric: Fabric, wire: str) -> Fabric:
    """A fabric with twice the bandwidth of a tier."""
    positions = [position for position, tier in enumerate(fabric.tiers) if tier.name == wire]
    return with_tiers(fabric, _double_bandwidth, positions)


def _double_bandwidth(tier: Tier) -> Tier:
    return tier.model_copy(update={"bandwidth": tier.bandwidth * 2})
