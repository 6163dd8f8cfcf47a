"""What a drawing says in words: of a tier, of its levels, and of the whole as its alternative text."""

from __future__ import annotations

from colltool.base.formatting import counted, format_bit_energy, format_rate, format_time
from colltool.fabric.model import Fabric
from colltool.render.drawing.sketch import LevelSketch, TierSketch, sketches
from colltool.render.view import on_fabric
from colltool.render.views.fabric_words import alpha_text, in_network_text


def kind_text(sketch: TierSketch) -> str:
    """``Clos of 32 nvlink domains``."""
    topology = sketch.tier.topology
    spoken = "Clos" if topology == "clos" else topology.replace("_", " ")
    return f"{spoken} of {sketch.kind.extent.replace('x', ' x ')} {endpoint_text(sketch, sketch.facts.endpoints)}"


def endpoint_text(sketch: TierSketch, count: int = 1) -> str:
    """``rank``, ``nvlink domains``."""
    return ("rank" if sketch.below is None else f"{sketch.below} domain") + "s" * (count != 1)


def place_text(sketch: TierSketch) -> str:
    """How many there are of a tier, and ranks in each: ``32 of these, 8 ranks in each``."""
    facts = sketch.facts
    inside = "" if sketch.below is None else counted(facts.ranks, "rank")
    if facts.domains == 1:
        return f"{inside} in all" if inside else ""
    return f"{facts.domains} of these" + (f", {inside} in each" if inside else "")


def fact_texts(sketch: TierSketch) -> list[tuple[str, str]]:
    """The numbers of a tier, each with what it is."""
    tier, kind = sketch.tier, sketch.kind
    facts = [("bandwidth", rate_text(sketch))]
    facts += [] if kind.levels else [("latency", alpha_text(kind.classes[0]))]
    facts += [("eta", f"alpha x {tier.eta.alpha:g}, bandwidth x {tier.eta.beta:g}")]
    facts += [] if kind.in_network is None else [("in-network", in_network_text(kind.in_network))]
    facts += [] if tier.energy is None else [("energy", format_bit_energy(tier.energy))]
    names = list(dict.fromkeys(one.name for one in tier.protocols or ()))
    return facts + ([("protocols", ", ".join(names))] if names else [])


def rate_text(sketch: TierSketch) -> str:
    """``50 GB/s a port, one way``."""
    thing = "port" if sketch.kind.joined_by == "switches" else "link"
    return f"{format_rate(sketch.tier.bandwidth)} a {thing}, one way"


def ports_text(sketch: TierSketch) -> str:
    """``8 ports each``, ``4 links in parallel``."""
    if sketch.kind.joined_by == "switches":
        return f"{counted(sketch.ports, 'port')} each"
    return f"{counted(sketch.ports, 'link')} in parallel"


def most_text(sketch: TierSketch) -> str:
    """``full: at most 8 by max_size``; empty where a file sets no limit."""
    most = sketch.tier.max_size
    if most is None:
        return ""
    return f"full: max_size is {most}" if sketch.facts.endpoints == most else f"max_size is {most}"


def level_texts(sketch: TierSketch, level: LevelSketch) -> list[str]:
    """What stands beside a level, below its name."""
    per = level.pairs.group
    if level.groups > 1:
        groups = f"{level.groups} groups of {per}" + (f", the last of {level.last}" if level.last < per else "")
    else:
        beyond = sketch.kind.levels and per > level.last
        groups = f"joins all {level.last}" + (f", up to {per}" if beyond else "")
    if not level.reached:
        groups = f"for up to {per}, not reached"
    texts = [groups]
    if level.switches is not None and level.name:
        each = level.switches // level.rails
        rails = f", {each} on each of {level.rails} rails" if level.rails > 1 else ""
        texts.append(f"{level.switches} switch{'es' * (level.switches != 1)}{rails}")
    return [*texts, alpha_text(level.pairs)] if sketch.kind.levels else texts


def level_name(level: LevelSketch) -> str:
    """As the file has it, else what it is."""
    return level.name or ("1 switch" if level.switches == 1 else "switches")


def uplink_texts(level: LevelSketch) -> list[str]:
    """Of the boundary below a level: ``uplinks 4:1 oversubscribed``; ``2:1 at this hop`` where its switches alone differ."""
    total, hop = level.pairs.oversubscription, level.uplinks
    said = f"uplinks {total:.4g}:1" + (" oversubscribed" if total > 1 else "")
    return [said] if total == hop else [said, f"{hop:.4g}:1 at this hop"]


def alternative_text(fabric: Fabric) -> str:
    """All that the drawing says, innermost tier first."""
    parts = [f"{counted(fabric.ranks, 'rank')} in {counted(len(fabric.tiers), 'tier')}, innermost first."]
    for sketch in sketches(fabric):
        told = [kind_text(sketch), place_text(sketch), most_text(sketch), ports_text(sketch)]
        told += [f"{name} {text}" for name, text in fact_texts(sketch)]
        for index, level in enumerate(sketch.levels if sketch.kind.levels else ()):
            beside = level_texts(sketch, level) + (uplink_texts(level) if index else [])
            told.append(f"level {level.name}: {', '.join(beside)}")
        parts.append(f"{sketch.tier.name}: {'; '.join(filter(None, told))}.")
    return " ".join(parts)


def title_text(fabric: Fabric) -> str:
    """The fabric, and the values that are not its file's."""
    return on_fabric(fabric.name, fabric.overrides)


def ranks_text(fabric: Fabric) -> str:
    """``256 ranks, launch overhead 4.6 us``."""
    overhead = f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ""
    return f"{counted(fabric.ranks, 'rank')}{overhead}"
