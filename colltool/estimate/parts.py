"""From an algorithm to its charged parts: what each of its messages pays on a reach, and what a reader should know of that."""

from __future__ import annotations

from colltool.algorithms.group import Group
from colltool.algorithms.registry import Algorithm
from colltool.base.arrays import is_array
from colltool.base.cost import AllPeers, Chain, Pair, Ring, Switch, Trees
from colltool.base.formatting import format_bytes
from colltool.base.primitives import Primitive, own_share
from colltool.estimate.charge import Charge, charge
from colltool.estimate.costed import Costed, Part
from colltool.estimate.cut_bound import floor_of
from colltool.estimate.distances import Reach
from colltool.estimate.groups import Placed
from colltool.estimate.reached import as_reached
from colltool.estimate.readings import Readings
from colltool.estimate.running import running_on


def parts_of(row: Algorithm, group: Group, reach: Reach, readings: Readings, payload: float = 1.0) -> tuple[Part, ...]:
    """The parts of one registered algorithm on one reach, its payload a fraction of M."""
    return tuple(
        Part(
            primitive=terms.primitive or row.primitive,
            algorithm=row.name,
            ranks=terms.ranks or group.ranks,
            payload=payload * terms.payload,
            charge=one,
            fill=terms.fill,
            label=terms.label,
            route=terms.route,
        )
        for terms in row.schedule(group)
        for one in charge(terms, reach, readings)
    )


def cost_flat(row: Algorithm, group: Group, reach: Reach, readings: Readings, placed: Placed | None = None) -> Costed:
    """A registered algorithm that runs on the whole group at once; without ``placed``, its messages alone."""
    parts = parts_of(row, group, reach, readings)
    notes = [*row.notes_on(group), *wire_notes(group, parts), *share_notes(parts), *switch_notes(reach, parts)]
    kept = own_part(placed, row.primitive, row.name) if placed else ()
    running = running_on(placed.fabric) if placed else None
    found = Costed(
        primitive=row.primitive,
        ranks=group.ranks,
        choice=row.chosen(group),
        variant=(),
        parts=parts + kept,
        overhead_s=placed.overhead_s if placed else 0.0,
        phases="sequential",
        composed=False,
        status=row.status_on(group),
        shipped_by=row.shipped_by,
        notes=tuple(notes),
        readings=readings,
        protocol=placed.protocol if placed else "",
        elsewhere=row.not_run_by(running, group),
        floor=floor_of(placed, row.primitive, readings) if placed and on_own_wires(row) else None,
    )
    return as_reached(found, placed) if placed else found


def on_own_wires(row: Algorithm) -> bool:
    """Whether an algorithm runs on the ranks and wires of its group alone: no stretched fabric, no machines beside the ranks."""
    return row.status != "hypothetical" and not row.counts


def own_part(placed: Placed, primitive: Primitive, algorithm: str) -> tuple[Part, ...]:
    """The share of M that a rank keeps, copied by itself: no messages, but time where a protocol gives it a rate."""
    payload, rate = own_share(primitive, placed.ranks), placed.local_copy_Bps
    if rate is None or not payload:
        return ()
    tier = placed.spans[-1].tier.name
    copied = Charge(
        tier=tier, level=tier, n_alpha=0, n_beta=1, alpha_s=0.0, eta_alpha=1.0, bandwidth_Bps=rate, eta_beta=1.0
    )  # fmt: skip
    return (
        Part(
            primitive=primitive,
            algorithm=algorithm,
            ranks=placed.ranks,
            payload=payload,
            charge=copied,
            fill=None,
            label="own share",
            route=None,
        ),
    )


def wire_notes(group: Group, parts: tuple[Part, ...]) -> list[str]:
    """Wires that a flat schedule leaves idle: links of a full mesh, NICs of a domain."""
    routes = {type(part.route) for part in parts}
    shared_out = any(isinstance(part.route, Ring | Chain) and part.route.via == "links" for part in parts)
    if group.dedicated and not shared_out and AllPeers not in routes and Pair not in routes:
        return [f"one peer at a time: one of a rank's {group.ranks - 1} links is busy"]
    single = any(isinstance(r, Trees) or (isinstance(r, Chain | Ring) and r.via == "packed") for r in (p.route for p in parts))
    if group.joined_by == "tiers" and single:
        return ["one stream: a single NIC of each domain carries it"]
    return []


def share_notes(parts: tuple[Part, ...]) -> list[str]:
    """What oversubscription does to these parts: nothing, or which share it leaves."""
    shares = [part.charge.share for part in parts]
    if not any(part.charge.crosses for part in parts) or any(map(is_array, shares)):
        return []
    least = min(shares)
    if least < 1:
        return [f"oversubscription leaves {least:.3g} of the bandwidth to what crosses it"]
    return ["too few flows cross the oversubscribed boundary at once to feel it (packed)"]


def switch_notes(reach: Reach, parts: tuple[Part, ...]) -> list[str]:
    """What the switches do not compute: prices do not know what is reduced."""
    limits = reach.in_switch.limits if reach.in_switch else None
    if limits is None or not any(isinstance(part.route, Switch) for part in parts):
        return []
    what = " of ".join(", ".join(names) for names in (limits.operations, limits.types) if names)
    said = [f"the switches reduce {what} alone"] if what else []
    return said + ([f"what is not aligned to {format_bytes(limits.alignment)} goes by software"] if limits.alignment else [])
