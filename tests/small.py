"""Small fabrics from a few numbers, written as YAML and read as a user's file would be."""

from __future__ import annotations

from typing import Any, get_args

import yaml

from colltool.base.errors import ManyErrors
from colltool.definitions.source import Source, scan
from colltool.fabric.load import load_fabric, read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.model import Tier as AnyTier
from colltool.fabric.tier_base import TierBase
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.size_clos import ClosPlan, clos_plan

Tier = dict[str, Any]
TOPOLOGIES: dict[str, type[TierBase]] = {
    name: model
    for model in get_args(get_args(AnyTier)[0])
    for name in get_args(model.model_fields["topology"].annotation)
}
"""The tier class of each word that ``topology`` takes."""

LevelSpec = tuple[int, float] | tuple[int, float, float]


class _Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """No anchors: the same mapping under two tiers is written out twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def us(number: float) -> str:
    """Microseconds as a fabric file writes them."""
    return f"{number!r}us"


def gb(number: float) -> str:
    """GB/s as a fabric file writes them."""
    return f"{number!r}GB/s"


def star(size: int, alpha: float = 1.0, bw: float = 100.0, **more: Any) -> Tier:
    return {"topology": "star", "size": size, "alpha": us(alpha), "bandwidth": gb(bw), **more}


def full_mesh(size: int, alpha: float = 1.0, bw: float = 100.0, **more: Any) -> Tier:
    return {"topology": "full_mesh", "size": size, "alpha": us(alpha), "bandwidth": gb(bw), **more}


def torus(*shape: int, alpha: float = 1.0, bw: float = 100.0, **more: Any) -> Tier:
    return {
        "topology": "torus",
        "shape": list(shape),
        "alpha": us(alpha),
        "bandwidth": gb(bw),
        **more,
    }


def mesh(*shape: int, alpha: float = 1.0, bw: float = 100.0, **more: Any) -> Tier:
    return torus(*shape, alpha=alpha, bw=bw, **more) | {"topology": "mesh"}


def graph(*edges: Any, alpha: float = 1.0, bw: float = 100.0, **more: Any) -> Tier:
    """Links as ``(0, 1)`` or as mappings."""
    links = [list(edge) if isinstance(edge, tuple) else edge for edge in edges]
    return {"topology": "graph", "alpha": us(alpha), "bandwidth": gb(bw), "edges": links, **more}


def dragonfly(
    hosts: int,
    switches: int,
    groups: int,
    spines: int = 0,
    *,
    local: float = 100.0,
    far: float = 100.0,
    cables: int = 1,
    routing: str = "minimal",
    alpha: float = 1.0,
    bw: float = 100.0,
    **more: Any,
) -> Tier:
    """Local and global links of so many GB/s, 0.25 us and 0.5 us; a dragonfly+ where there are
    spines."""
    tier = {"topology": "dragonfly_plus", "spines": spines} if spines else {"topology": "dragonfly"}
    return {
        **tier,
        "hosts": hosts,
        "switches": switches,
        "groups": groups,
        "alpha": us(alpha),
        "bandwidth": gb(bw),
        "local": {"bandwidth": gb(local), "alpha": us(0.25)},
        "global": {"bandwidth": gb(far), "alpha": us(0.5), "links": cables},
        "routing": routing,
        **more,
    }


def hyperx(*shape: int, hosts: int = 0, alpha: float = 1.0, bw: float = 100.0, **more: Any) -> Tier:
    given = {
        "topology": "hyperx",
        "shape": list(shape),
        "alpha": us(alpha),
        "bandwidth": gb(bw),
        **more,
    }
    return given | ({"hosts": hosts} if hosts else {})


def clos(
    size: int, *levels: LevelSpec, alpha: float | None = None, bw: float = 50.0, **more: Any
) -> Tier:
    """Levels as (group, α in us, oversubscription), bottom up; or ``alpha`` alone for a single
    level."""
    tier: Tier = {"topology": "clos", "size": size, "bandwidth": gb(bw), **more}
    if alpha is not None:
        return tier | {"alpha": us(alpha)}
    tier["levels"] = [
        {"name": f"l{number}", "group": level[0], "alpha": us(level[1])}
        | ({"oversubscription": level[2]} if len(level) == 3 else {})
        for number, level in enumerate(levels, start=1)
    ]
    return tier


def switch(
    alpha: float = 0.2,
    *,
    reduce: bool = True,
    multicast: bool = True,
    all_to_all: bool = True,
    **more: Any,
) -> Tier:
    """What stands under ``in_network``."""
    return {
        "reduce": reduce,
        "multicast": multicast,
        "all_to_all": all_to_all,
        "alpha_switch": us(alpha),
        **more,
    }


def fabric(*tiers: Tier, **more: Any) -> Fabric:
    """A fabric of these tiers, innermost first, called t1, t2 ..."""
    named = [{"name": f"t{number}", **tier} for number, tier in enumerate(tiers, start=1)]
    document = {"schema": "colltool.fabric/1", "name": "small", "tiers": named, **more}
    return read_fabric(yaml.dump(document, Dumper=_Plain), "small.yaml")


def read_source(text: str, name: str) -> Source:
    """The data of a definition and its places, where nothing is refused."""
    source, problems = scan(text, name)
    if problems:
        raise ManyErrors([problem.error for problem in problems])
    return source


def rail_pods(
    pods: int, rails: int, nics_per_rail: int, radix: int, oversubscription: float = 1.0
) -> ClosPlan:
    """A rail-optimised two-level Clos, with ``nics_per_rail`` NICs of each pod on each rail."""
    return clos_plan(
        pods, nics_per_rail * rails, radix, rails=rails, levels=2, hops=(oversubscription,)
    )


CUBE_MESH = {
    (0, 1): 1,
    (0, 2): 1,
    (0, 3): 2,
    (0, 4): 2,
    (1, 2): 2,
    (1, 3): 1,
    (1, 5): 2,
    (2, 3): 2,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (4, 7): 2,
    (5, 6): 2,
    (5, 7): 1,
    (6, 7): 2,
}
"""Links between two GPUs of NVIDIA's DGX-1V: eight V100 with six NVLinks of 25 GB/s each, a hybrid
cube-mesh."""

HF_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
"""The config.json of Llama 3 8B."""

SHRUNK: dict[str, tuple[str, ...]] = {
    "atlas-950": ("ub.shape=[2, 3, 1, 2]",),
    "frontier": ("slingshot.hosts=2", "slingshot.switches=3", "slingshot.groups=4"),
    "juwels-booster": ("hdr.hosts=2", "hdr.switches=2", "hdr.spines=2", "hdr.groups=3"),
    "ub-mesh": ("ub.shape=[2, 3, 2, 1]",),
    "uneven-racks": ("ib.domains=[6, 8]", "nvlink.size=8"),
}
"""Overrides that leave the kind of a shipped fabric whose messages are put on links one by one, for
thousands of prices."""


def routed(where: Fabric) -> bool:
    return any(capabilities_of(tier).joined_by == "routes" for tier in where.tiers)


def shipped(name: str) -> Fabric:
    """A shipped fabric, or a small one of its kind."""
    return load_fabric(name, SHRUNK.get(name, ()))
