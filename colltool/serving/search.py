"""The best deployments of a number of ranks: :func:`search`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.result import with_progress
from colltool.serving.deployment import Deployment
from colltool.serving.results import Served, ServeList

# Layouts that a search lists, of those that can run
LISTED = 10


def search(ranks: int, base: Deployment, serve: Callable[[Deployment], Served]) -> ServeList:
    """Return the best layouts of the ranks into tp, pp and dp of powers of two.

    Experts are on all ranks of a stage, or split by tp. The order is by estimated tokens/s;
    layouts that do not fit the memory are in ``refused``.

    Args:
        base: the deployment's other values; ``ep`` of 1 is a model without experts.
        serve: serves the same model with another deployment.

    Raises:
        ColltoolError: no layout can be served; says why.
    """
    feasible: list[Served] = []
    refused: list[tuple[str, str]] = []
    for deployment in with_progress(list(_layouts(ranks, base))):
        try:
            served = serve(deployment)
        except ColltoolError as error:
            refused.append((deployment.label, error.what))
            continue
        # None: the memory is not known
        if served.fits is False:
            refused.append((deployment.label, "does not fit the memory"))
        else:
            feasible.append(served)
    if not feasible:
        reasons = dict.fromkeys(reason for _, reason in refused)
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
    best = feasible[:LISTED]
    return ServeList(
        title=f"{counted(len(feasible), 'feasible layout')} of {ranks} ranks ({tried} tried)",
        served=tuple(best),
        names=tuple(served.deployment.label for served in best),
        tried=tried,
        refused=tuple(refused),
        feasible=len(feasible),
    )


def _time_per_sequence(served: Served) -> float:
    """Seconds of a token over the sequences that get one: the inverse of estimated tokens/s, by the
    network alone where the device is not known."""
    token_s = served.decode.network_s + (served.decode.kernels_s or 0.0)
    return token_s / served.deployment.batch


def _layouts(ranks: int, base: Deployment) -> Iterator[Deployment]:
    """Every tp, pp and dp of the ranks, experts split by tp, and where there are some on all ranks of
    a stage."""
    powers = [2**power for power in range(ranks.bit_length())]
    for tp in powers:
        for pp in powers:
            if ranks % (tp * pp):
                continue
            dp = ranks // (tp * pp)
            yield base._replace(tp=tp, pp=pp, dp=dp, ep=1)
            if base.ep != 1 and dp > 1:
                yield base._replace(tp=tp, pp=pp, dp=dp, ep=tp * dp)
