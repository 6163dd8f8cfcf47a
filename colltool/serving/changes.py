"""What would change a token's network time: other cuts, other engines, a faster wire; and a search
over cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from colltool.base.errors import ColltoolError
from colltool.engines.files import find_library, shipped_libraries
from colltool.fabric.model import Fabric
from colltool.serving.deployment import Deployment
from colltool.serving.results import Served, ServedChange, ServeList

Run = Callable[[Deployment, "str | None", "Fabric | None"], Served]
"""The same question with another deployment, another engine, or on another fabric."""


def changes(served: Served, fabric: Fabric, run: Run) -> tuple[ServedChange, ...]:
    """Each change that can be made alone, the largest gain first."""
    found = []
    for name, deployment, engine, other in _tries(served, fabric):
        try:
            after = run(deployment, engine, other)
        except ColltoolError:
            continue
        if served.decode.network_s and after.decode.network_s:
            found.append(
                ServedChange(
                    name, after.decode.network_s, after.decode.network_s / served.decode.network_s
                )
            )
    return tuple(
        sorted((one for one in found if abs(one.factor - 1) > 0.01), key=lambda one: one.factor)
    )


def _tries(
    served: Served, fabric: Fabric
) -> Iterator[tuple[str, Deployment, str | None, Fabric | None]]:
    own = served.deployment
    if own.tp > 1 and not own.exchanges:
        yield (
            f"tp {own.tp // 2}, pp {own.pp * 2}",
            own._replace(tp=own.tp // 2, pp=own.pp * 2),
            None,
            None,
        )
        yield f"tp {own.tp * 2}", own._replace(tp=own.tp * 2), None, None
        yield (
            f"tp {own.tp // 2}, dp {own.dp * 2}",
            own._replace(tp=own.tp // 2, dp=own.dp * 2),
            None,
            None,
        )
    elif own.tp > 1:
        yield (
            f"tp {own.tp // 2} (dp attention {own.dp * 2})",
            own._replace(tp=own.tp // 2, dp=own.dp * 2),
            None,
            None,
        )
    yield f"batch {own.batch * 2}", own._replace(batch=own.batch * 2), None, None
    for name, version in shipped_libraries():
        called = f"{name}@{version}"
        # an engine
        if called != served.engine and find_library(called).library.most_ranks and own.tp > 1:
            yield f"{called}'s all-reduce", own, called, None
    wires = {one.wire for one in served.decode.operations if one.wire}
    for wire in sorted(wires):
        tiers = tuple(
            tier.model_copy(update={"bandwidth": tier.bandwidth * 2}) if tier.name == wire else tier
            for tier in fabric.tiers
        )
        yield (
            f"twice the bandwidth of {wire}",
            own,
            None,
            fabric.model_copy(update={"tiers": tiers}),
        )


def search(
    ranks: int, base: Deployment, run: Callable[[Deployment], Served], most: int = 10
) -> ServeList:
    """Every cut of the ranks into tp, pp and dp of powers of two, experts on all of a stage or cut
    by tp.

    Ordered by the network time of a token on top of the floor; those that do not fit the memory are
    left out.
    """
    found: list[Served] = []
    refused: list[tuple[str, str]] = []
    tried = 0
    for one in _cuts(ranks, base):
        tried += 1
        try:
            served = run(one)
        except ColltoolError as error:
            refused.append((one.spoken, error.what))
            continue
        if served.fits is False:
            refused.append((one.spoken, "does not fit the memory"))
            continue
        found.append(served)
    if not found:
        why = "; ".join(dict.fromkeys(f"{name}: {what}" for name, what in refused[:3]))
        raise ColltoolError(
            f"no cut of {ranks} ranks can be served: {why}",
            argument="ranks",
            fix="more ranks, or a smaller batch",
        )
    found.sort(key=lambda served: served.decode.network_s + (served.decode.floor_s or 0.0))
    first = found[:most]
    names = tuple(one.deployment.spoken for one in first)
    return ServeList(
        f"{tried} cuts of {ranks} ranks, {len(found)} can run",
        tuple(first),
        names,
        tried,
        tuple(refused),
    )


def _cuts(ranks: int, base: Deployment) -> Iterator[Deployment]:
    powers = [2**power for power in range(21) if 2**power <= ranks]
    for tp in powers:
        for pp in powers:
            dp, rest = divmod(ranks, tp * pp)
            if rest or dp < 1:
                continue
            yield base._replace(tp=tp, pp=pp, dp=dp, ep=1)
            if base.ep != 1 and dp > 1:
                yield base._replace(tp=tp, pp=pp, dp=dp, ep=tp * dp)
