"""Fabrics and groups that nobody thought of, from a seed: what every gate of prices is held
against.

One to four tiers of any kind in any order; parallel ports, contention, oversubscribed levels,
switches that compute, protocols, launch overheads. Groups of the first ranks, and strided ones with
and without their siblings.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from random import Random
from typing import Any

from small import (
    Tier,
    clos,
    dragonfly,
    fabric,
    full_mesh,
    gb,
    graph,
    hyperx,
    mesh,
    star,
    switch,
    torus,
)

from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.placement import GroupSpec, every_stride, fits, whole_groups
from colltool.fabric.model import Fabric

MOST_RANKS = 4096
PROTOCOLS = ("LL", "LL128", "Simple")
READINGS = (
    ModelOptions(),
    ModelOptions(ideal=True),
    ModelOptions(placement="scattered"),
    ModelOptions(phases="pipelined", ideal=True),
    ModelOptions(phases="sequential", ideal=True),
    ModelOptions(pipelining="optimal"),
    ModelOptions(pipelining=7, ring_alpha="worst"),
    ModelOptions(tree_beta=1.0, ideal=True),
    ModelOptions(order="outer-first", ideal=True),
    ModelOptions(order="inner-first", ideal=True),
)


def made(seed: int) -> Fabric:
    """The fabric of a seed: small ones are as likely as deep ones."""
    rng = Random(seed)
    depth, tiers = rng.choice((1, 1, 2, 2, 2, 3, 3, 4)), []
    names = rng.sample(PROTOCOLS, rng.randint(1, 3)) if rng.random() < 0.25 else []
    room = MOST_RANKS
    for left in range(depth, 0, -1):
        tier = _tier(rng, max(2, round(room ** (1 / left))))
        size = prod(tier["shape"]) if "shape" in tier else tier["size"]
        room = max(2, room // size)
        tiers.append(tier | _listed(rng, names, tier))
    launch = {"launch_overhead": f"{rng.uniform(0, 20)!r}us"} if rng.random() < 0.3 else {}
    return fabric(*tiers, **launch)


def made_routed(seed: int) -> Fabric:
    """One or two tiers of which one is routed link by link; small, as every message of a step is
    followed."""
    rng = Random(f"routed {seed}")
    tiers = [_routed(rng)]
    if rng.random() < 0.6:
        other = rng.choice((_star, _full_mesh, _lattice, _clos))(rng, 4)
        tiers.insert(rng.randint(0, 1), other)
    return fabric(*tiers)


def made_uneven(seed: int) -> Fabric:
    """Two to five domains of one to nine ranks, of which at least two differ, behind a star or a
    Clos."""
    rng = Random(f"uneven {seed}")
    domains = [rng.randint(1, 9) for _ in range(rng.randint(2, 5))]
    domains[rng.randrange(len(domains))] = max(domains) + 1
    inner = rng.choice((star, full_mesh))(max(domains), **_common(rng))
    while (outer := rng.choice((_star, _clos))(rng, 5)).pop("size") < 0 or _last_group(outer) < len(
        domains
    ):
        pass
    return fabric(inner, outer | {"size": len(domains), "domains": domains})


def _last_group(tier: Tier) -> int:
    levels = tier.get("levels")
    return levels[-1]["group"] if levels else MOST_RANKS


def groups(where: Fabric, seed: int, most: int = 4) -> list[GroupSpec]:
    """Some of the groups that fit: of the first ranks, all of them among these, and strided
    ones."""
    rng = Random(seed)
    counts = whole_groups(where)
    chosen = [GroupSpec(ranks) for ranks in {counts[-1], *rng.sample(counts, min(2, len(counts)))}]
    strides = [stride for stride in every_stride(where) if stride > 1]
    for stride in rng.sample(strides, min(most - 1, len(strides))):
        fitting = [
            n
            for n in (2, 3, 4, 8, 16, where.ranks // stride)
            if n * stride <= where.ranks and fits(where, n, stride)
        ]
        chosen += [GroupSpec(rng.choice(fitting), stride, rng.random() < 0.5)] if fitting else []
    return chosen[: most + 1]


def cases(seeds: range) -> Iterator[tuple[int, Fabric, GroupSpec, Primitive, float, ModelOptions]]:
    """One primitive, size and reading for each group of each seed's fabric; seeds in a row meet all
    of them."""
    for seed in seeds:
        rng, where = Random(f"case {seed}"), made(seed)
        for who in groups(where, seed):
            for primitive in Primitive:
                yield (
                    seed,
                    where,
                    who,
                    primitive,
                    float(10 ** rng.uniform(0, 11)),
                    rng.choice(READINGS),
                )


def _tier(rng: Random, about: int) -> Tier:
    kind = rng.choice((_star, _full_mesh, _lattice, _clos))
    return kind(rng, min(about, 64))


def _common(rng: Random) -> dict[str, Any]:
    more: dict[str, Any] = {"alpha": rng.uniform(0.1, 10), "bw": 10 ** rng.uniform(0.5, 3)}
    if rng.random() < 0.5:
        more["eta"] = {"alpha": rng.uniform(1, 2), "beta": rng.uniform(0.3, 1)}
    return more | ({"ports": rng.randint(2, 4)} if rng.random() < 0.2 else {})


def _routed(rng: Random) -> Tier:
    common = _common(rng)
    ports = common.pop("ports", 1)
    rates = [common["bw"] * rng.uniform(0.2, 3) for _ in range(4)]
    kind = rng.choice(("graph", "hyperx", "switches", "dragonfly", "dragonfly+"))
    if kind == "graph":
        ranks = rng.randint(2, 9)
        edges = {(rng.randrange(rank), rank) for rank in range(1, ranks)}
        edges |= {tuple(sorted(rng.sample(range(ranks), 2))) for _ in range(rng.randint(0, 8))}
        links = [{"between": list(ends), "links": rng.randint(1, 3)} for ends in sorted(edges)]
        spine = (
            [{"between": [rank, "s"], "bandwidth": gb(rates[0])} for rank in range(ranks)]
            if rng.random() < 0.3
            else []
        )
        return graph(*links, *spine, ports=ports, **common)
    if kind in ("hyperx", "switches"):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        links = [
            {"bandwidth": gb(rate), "links": rng.randint(1, 2)} for rate in rates[: len(shape)]
        ]
        hosts = rng.randint(1, 3) if kind == "switches" else 0
        return hyperx(*shape, 2, hosts=hosts, ports=ports, links=[*links, {}], **common)
    hosts, switches, apart = rng.randint(1, 3), rng.randint(1, 4), rng.randint(2, 4)
    return dragonfly(
        hosts,
        switches,
        apart,
        rng.randint(1, 3) if kind == "dragonfly+" else 0,
        local=rates[0],
        far=rates[1],
        cables=rng.randint(1, 3),
        routing=rng.choice(("minimal", "valiant", "adaptive")),
        **common,
    )


def _star(rng: Random, about: int) -> Tier:
    return star(rng.randint(2, max(2, about)), **_common(rng)) | _computing(rng)


def _full_mesh(rng: Random, about: int) -> Tier:
    return full_mesh(rng.randint(2, max(2, min(about, 16))), **_common(rng))


def _lattice(rng: Random, about: int) -> Tier:
    shape: list[int] = []
    left = max(2, about)
    while left > 1 and len(shape) < 3:
        shape.append(rng.randint(1 if shape else 2, max(2, min(left, 8))))
        left //= shape[-1]
    return rng.choice((torus, mesh))(*shape, **_common(rng))


def _clos(rng: Random, about: int) -> Tier:
    common = _common(rng)
    alpha = common.pop("alpha")
    if rng.random() < 0.3:
        return clos(rng.randint(2, max(2, about)), alpha=alpha, **common) | _computing(rng)
    groups = [rng.randint(1, 8)]
    for _ in range(rng.randint(1, 2)):
        groups.append(groups[-1] * rng.randint(2, 4))
    ratios = [(), *((rng.choice((1.0, 2.0, 4.0, rng.uniform(1, 12))),) for _ in groups[1:])]
    levels = [(group, alpha * (1 + n), *ratios[n]) for n, group in enumerate(groups)]
    # the last leaf is part empty as often as not
    size = rng.randint(max(2, groups[-2]), groups[-1])
    return clos(size, *_rising(levels), **common) | _computing(rng)


def _rising(levels: list[tuple[float, ...]]) -> list[Any]:
    """Totals against the endpoints never fall from one level to the next."""
    most, found = 1.0, []
    for level in levels:
        most = max(most, level[2]) if len(level) > 2 else most
        found.append((*level[:2], most) if len(level) > 2 else level)
    return found


def _computing(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {}
    can = {name: rng.random() < 0.7 for name in ("reduce", "multicast", "all_to_all")}
    own: dict[str, Any] = {"eta_beta": rng.uniform(0.3, 1)} if rng.random() < 0.4 else {}
    return {"in_network": switch(rng.uniform(0.05, 1), **can, **own)} if any(can.values()) else {}


def _listed(rng: Random, names: list[str], tier: Tier) -> dict[str, Any]:
    """Protocols under the same names on every tier that lists any; of a tier that computes, perhaps
    under some alone."""
    if not names or rng.random() < 0.2:
        return {}
    rate = float(tier["bandwidth"].removesuffix("GB/s"))
    listed = [
        {
            "name": name,
            "alpha": f"{rng.uniform(0.1, 8)!r}us",
            "bandwidth": f"{rate * rng.uniform(0.2, 1)!r}GB/s",
        }
        | ({"launch_overhead": f"{rng.uniform(0, 9)!r}us"} if rng.random() < 0.5 else {})
        for name in names
    ]
    return {"protocols": listed}
