"""``explain``: an algorithm in words, from its docstring and registry row, with a fabric's numbers filled in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from typing import ClassVar, NamedTuple

from colltool.algorithms.composed import Composition, every_composition
from colltool.algorithms.group import SEVERAL_TIERS, needs
from colltool.algorithms.registry import OTHER_NAMES, Algorithm, Choice, Status, every_algorithm, on_request, parse_choice
from colltool.algorithms.rooted import most_partners
from colltool.base.errors import ColltoolError, clipped, nearest, said
from colltool.base.primitives import SIZE_MEANS, Primitive
from colltool.base.result import Result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.candidates import CannotRun, candidates_for
from colltool.estimate.groups import PlacedGroup, flat_group, place, tier_group
from colltool.estimate.placement import AnyGroup, GroupPlacement
from colltool.estimate.price import mode, price
from colltool.estimate.results import Overrides
from colltool.fabric.model import Fabric
from colltool.fabric.topology import cable_s, capabilities_of

AnyRow = Algorithm | Composition

NO_WORDS = "without words: they are docstrings, which PYTHONOPTIMIZE=2 removes"


def explain(name: str, primitive: Primitive | None = None, fabric: Fabric | None = None, size: float | None = None,
            group: AnyGroup = None, readings: Readings | None = None) -> Explanation:  # fmt: skip
    """Explain an algorithm for one primitive, or for all that it computes; priced if ``fabric`` and ``size`` are given.

    Args:
        name: as ``--algorithm`` takes it; the price is of exactly this choice.

    Raises:
        ColltoolError: unknown algorithm, a primitive it does not compute, or a group or size that cannot be priced.
    """
    base = parse_choice(name).base
    everything: list[AnyRow] = [*every_algorithm(), *every_composition(), *on_request()]
    rows = [row for row in everything if row.name == base]
    if not rows:
        known = list(dict.fromkeys(row.name for row in everything))
        ours = OTHER_NAMES.get(base.lower())
        hint = f"that is '{ours}' here." if ours else nearest(base, known)
        raise ColltoolError(f"no algorithm '{clipped(name)}'", fix=f"{hint} known: {', '.join(known)}".strip())
    chosen = [row for row in rows if primitive in (None, row.primitive)]
    if primitive is not None and not chosen:
        computes = ", ".join(row.primitive.spoken for row in rows)
        raise ColltoolError(f"{base} is no algorithm for {primitive.spoken}", fix=f"it computes {computes}")
    if fabric is None or size is None:
        return Explanation(base, tuple(_words(row) for row in chosen))
    reading = readings or Readings()
    priced = [_priced(row, name, fabric, size, group, reading) for row in chosen]
    if all(entry.row is None for entry in priced):
        raise ColltoolError(f"{name} cannot run here: {priced[0].reason}", fix="price lists what can")
    placed = place(fabric, group)
    return Explanation(
        algorithm=base,
        entries=tuple(priced),
        fabric=fabric.name,
        group=placed.placement,
        bytes=size,
        mode=mode(reading),
        overrides=fabric.overrides,
        cables=tuple(_cables(placed, reading)),
        readings=reading,
    )


def _cables(placed: PlacedGroup, readings: Readings) -> Iterator[CableDelay]:
    for span in placed.spans:
        _, reach = tier_group(span, readings, scale_out=False)
        for one in capabilities_of(span.tier).classes[: len(reach.used) if not reach.scattered else None]:
            if one.cable_m:
                yield CableDelay(span.tier.name, one.name, one.cable_m, cable_s(one.cable_m))


def _priced(row: AnyRow, name: str, fabric: Fabric, size: float, group: AnyGroup, readings: Readings) -> AlgorithmExplanation:
    price(fabric, row.primitive, size, group, readings)  # a group or size that cannot be priced is an error, not a reason
    try:
        found = price(fabric, row.primitive, size, group, readings, [name]).best
        listed = candidates_for(fabric, group, row.primitive, readings).named([name], [size])
    except CannotRun as error:
        return _words(row, reason=error.reason)
    except ColltoolError as error:
        return _words(row, reason=said(error.what))
    run = next(one for one in listed if (one.title, one.protocol) == (found.title, found.protocol))
    return _words(row, found)._replace(balance=run.balance, partners=_partners(row, run.choice, place(fabric, group), readings))


def _partners(row: AnyRow, choice: Choice, placed: PlacedGroup, readings: Readings) -> int | None:
    """How many others a rank exchanges with; None for a composition, whose phases differ."""
    if isinstance(row, Composition):
        return None
    seen = row.on(flat_group(placed, readings)[0], choice)
    return most_partners(row.schedule(seen), seen)


def _words(row: AnyRow, found: AlgorithmEstimate | None = None, reason: str = "") -> AlgorithmExplanation:
    if isinstance(row, Composition):
        doc, runs_on, note = row.steps.__doc__, needs(SEVERAL_TIERS), ""
        requires: tuple[str, ...] = ()
        status: Status = "shipped"
        in_switch = False
    else:
        doc, runs_on, note = row.formula.__doc__, _runs_on(row), said(row.note)
        status, in_switch = row.status, row.in_switch
        requires = tuple(check.__doc__ or "" for check in row.requires)
    title, text = _title_and_text(doc or NO_WORDS)
    return AlgorithmExplanation(
        algorithm=row.name,
        primitive=row.primitive,
        title=title,
        formula=tuple(row.equation.split("\n")),
        text=text,
        size_means=SIZE_MEANS[row.primitive],
        runs_on=runs_on,
        requires=requires,
        status=status,
        shipped_by=row.shipped_by,
        source=row.source,
        note=note,
        in_switch=in_switch,
        row=found,
        reason=reason,
    )


def _runs_on(row: Algorithm) -> str:
    over = row.topologies & SEVERAL_TIERS
    if not over or over == row.topologies:
        return needs(row.topologies)
    return f"{needs(row.topologies)}; also over several tiers{'' if over == SEVERAL_TIERS else ', none of them a lattice'}"


def _title_and_text(doc: str) -> tuple[str, str]:
    """A docstring's first paragraph, and the others without the doctest."""
    title, *rest = (part.replace("\n", " ") for part in cleandoc(doc).split("\n\n") if not part.startswith(">>>"))
    return title, "\n\n".join(rest)


class NcclEstimateParts(NamedTuple):
    """The parts of a library's own estimate of a call.

    Args:
        algorithm, protocol: as the library calls them.
        latency: (what, how often, seconds each); their sum times ``plateau`` is the latency.
        bus_Bps: of all channels under the protocol.
        bandwidth_Bps: of the schedule, bytes of the call over time; at this size times ``correction``.
        picked: whether the library would choose it.
    """

    algorithm: str
    protocol: str
    latency: tuple[tuple[str, float, float], ...]
    plateau: float
    bus_Bps: float
    bandwidth_Bps: float
    correction: float
    seconds: float
    picked: bool


class CableDelay(NamedTuple):
    """A distance class with a cable: its length in metres, and the seconds that it adds to α."""

    tier: str
    level: str
    metres: float
    adds_s: float


class AlgorithmExplanation(NamedTuple):
    """One algorithm for one primitive, priced if a fabric was given.

    ``balance`` is n*, bytes; ``partners``: the most others that a rank exchanges with, None for a composition.
    """

    algorithm: str
    primitive: Primitive
    title: str
    formula: tuple[str, ...]
    text: str
    size_means: str
    runs_on: str
    requires: tuple[str, ...]
    status: Status
    shipped_by: tuple[str, ...]
    source: str
    note: str
    in_switch: bool
    row: AlgorithmEstimate | None = None
    reason: str = ""
    estimates: tuple[NcclEstimateParts, ...] = ()
    balance: float | None = None
    partners: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Every use of one algorithm name.

    ``cables``: those that contribute to α on the group's paths.
    """

    subject: ClassVar[str] = "explain"
    algorithm: str
    entries: tuple[AlgorithmExplanation, ...]
    fabric: str = ""
    group: GroupPlacement | None = None
    bytes: float = 0.0
    mode: str = ""
    overrides: Overrides = ()
    library: str = ""
    cables: tuple[CableDelay, ...] = ()
    readings: Readings = USUAL

    @property
    def ranks(self) -> int:
        """N; 0 without a fabric."""
        return self.group.ranks if self.group else 0
