"""``explain``: an algorithm in words, from its docstring and registry row, with a fabric's numbers
filled in.

:func:`explain` makes an :class:`Explanation` of one name, :func:`list_algorithms` an
:class:`AlgorithmList` of all; their records stand between the two.
:mod:`colltool.estimate.nccl_estimates` adds NCCL's own estimates to an explanation.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from typing import ClassVar, NamedTuple

from colltool.algorithms.aliases import any_spec_called, names_for
from colltool.algorithms.composed import Composition, every_composition
from colltool.algorithms.partners import most_partners
from colltool.algorithms.registry import (
    Algorithm,
    Status,
    on_request,
    parse_choice,
    usual_algorithms,
)
from colltool.base.errors import ColltoolError, clipped, localize, nearest
from colltool.base.primitives import SIZE_MEANS, Primitive
from colltool.base.result import Result, result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.algorithm_specs import CannotRun
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import candidates_for, choice_on
from colltool.estimate.groups import PlacedGroup, flat_group, place, tier_group
from colltool.estimate.placement import AnyGroup, GroupPlacement
from colltool.estimate.price import mode, price
from colltool.estimate.results import Overrides
from colltool.estimate.segments import BestSegments, best_segments
from colltool.fabric.capabilities import cable_s
from colltool.fabric.model import Fabric
from colltool.network.group import SEVERAL_TIERS, needs

AnyAlgorithm = Algorithm | Composition
NO_WORDS = "without words: they are docstrings, which PYTHONOPTIMIZE=2 removes"


def explain(
    name: str,
    primitive: Primitive | None = None,
    fabric: Fabric | None = None,
    size: float | None = None,
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
) -> Explanation:
    """Explain an algorithm for one primitive, or for all that it computes; priced if ``fabric`` and
    ``size`` are given.

    ``name`` is as ``--algorithm`` takes it; the price is of exactly this choice.

    Raises:
        ColltoolError: nothing is called so, it does not compute the primitive, or with a fabric it
            runs there for none.
    """
    options = readings or USUAL
    everything = _every_algorithm()
    known = list(dict.fromkeys(row.name for row in everything))
    if parse_choice(name).base not in known:
        if fabric is not None and primitive is not None:
            name = choice_on(place(fabric, group), primitive, options, name).spec
        else:
            name = any_spec_called(name) or name
    base = parse_choice(name).base
    rows = [row for row in everything if row.name == base]
    if not rows:
        hint = nearest(base, known)
        raise ColltoolError(
            f"no algorithm '{clipped(name)}'", fix=f"{hint} known: {', '.join(known)}".strip()
        )
    rows_explained = [row for row in rows if primitive in (None, row.primitive)]
    if primitive is not None and not rows_explained:
        computes = ", ".join(row.primitive.label for row in rows)
        raise ColltoolError(
            f"{base} is no algorithm for {primitive.label}", fix=f"it computes {computes}"
        )
    if fabric is None or size is None:
        return Explanation(base, tuple(_explanation(row) for row in rows_explained))
    entries = [
        _explanation_with_price(row, name, fabric, size, group, options) for row in rows_explained
    ]
    if all(entry.row is None for entry in entries):
        raise ColltoolError(
            f"{name} cannot run here: {entries[0].reason}", fix="price lists what can"
        )
    placed = place(fabric, group)
    return Explanation(
        algorithm=base,
        entries=tuple(entries),
        fabric=fabric.name,
        group=placed.placement,
        bytes=size,
        mode=mode(options),
        overrides=fabric.overrides,
        cables=tuple(_cables(placed, options)),
        readings=options,
    )


def _cables(placed: PlacedGroup, readings: ModelOptions) -> Iterator[CableDelay]:
    """The cables on the group's paths, tier by tier, nearest class first; scattered, on all classes of
    its tiers. Classes without a length have none."""
    for span in placed.spans:
        _, paths = tier_group(span, readings, scale_out=False)
        classes = span.kind.classes
        for level in classes if paths.scattered else classes[: len(paths.used)]:
            if level.cable_m:
                yield CableDelay(span.tier.name, level.name, level.cable_m, cable_s(level.cable_m))


def _explanation_with_price(
    algorithm: AnyAlgorithm,
    name: str,
    fabric: Fabric,
    size: float,
    group: AnyGroup,
    readings: ModelOptions,
) -> AlgorithmExplanation:
    """An algorithm in words with its price on a fabric, or with the reason why it has none there."""
    # a group or size that cannot be priced is an error, not a reason
    price(fabric, algorithm.primitive, size, group, readings)
    try:
        best = price(fabric, algorithm.primitive, size, group, readings, [name]).best
        candidates = candidates_for(fabric, group, algorithm.primitive, readings).named(
            [name], [size]
        )
    except CannotRun as error:
        return _explanation(algorithm, reason=error.reason)
    except ColltoolError as error:
        return _explanation(algorithm, reason=localize(error.what))
    # of several with one title and protocol the first stays
    by_protocol = {
        (candidate.title, candidate.protocol): candidate for candidate in reversed(candidates)
    }
    cost_model = by_protocol[best.title, best.protocol]
    words = _explanation(algorithm, best)._replace(
        balance=cost_model.balance,
        shipped_by=best.shipped_by,
        segments=best_segments(cost_model, size),
    )
    # status, notes and partners differ between the phases of a composition
    if isinstance(algorithm, Composition):
        return words
    group_seen = algorithm.on(flat_group(place(fabric, group), readings)[0], cost_model.choice)
    return words._replace(
        status=algorithm.status_on(group_seen),
        note=localize("; ".join(algorithm.notes_on(group_seen))),
        partners=most_partners(algorithm.schedule(group_seen), group_seen),
    )


def _explanation(
    algorithm: AnyAlgorithm, priced_row: AlgorithmEstimate | None = None, reason: str = ""
) -> AlgorithmExplanation:
    """An algorithm in words; ``priced_row`` is its price, ``reason`` why it has none.

    The words are the first paragraph of its docstring (``title``) and the others (``text``), without
    examples.
    """
    source = algorithm.steps if isinstance(algorithm, Composition) else algorithm.formula
    paragraphs = cleandoc(source.__doc__ or NO_WORDS).split("\n\n")
    title, *text = (part.replace("\n", " ") for part in paragraphs if not part.startswith(">>>"))
    words = AlgorithmExplanation(
        algorithm=algorithm.name,
        primitive=algorithm.primitive,
        title=title,
        formula=tuple(algorithm.equation.split("\n")),
        text="\n\n".join(text),
        size_means=SIZE_MEANS[algorithm.primitive],
        runs_on=needs(SEVERAL_TIERS),
        shipped_by=algorithm.shipped_by,
        source=algorithm.source,
        row=priced_row,
        reason=reason,
    )
    if isinstance(algorithm, Composition):
        return words
    return words._replace(
        runs_on=_runs_on(algorithm),
        requires=tuple(check.__doc__ or "" for check in algorithm.requires),
        status=algorithm.status,
        note=localize(algorithm.note),
        in_switch=algorithm.in_switch,
    )


def _runs_on(algorithm: Algorithm) -> str:
    """The topologies that an algorithm needs, in words."""
    over = algorithm.topologies & SEVERAL_TIERS
    if not over or over == algorithm.topologies:
        return needs(algorithm.topologies)
    lattices = "" if "lattice_tiers" in over else ", none of them a lattice"
    return f"{needs(algorithm.topologies)}; also over several tiers{lattices}"


class NcclEstimateParts(NamedTuple):
    """The parts of a library's own estimate of a call.

    Args:
        algorithm, protocol: as the library calls them.
        latency: (what, how often, seconds each); their sum times ``plateau``, a factor at this
            size, is the latency.
        bus_Bps: of all channels under the protocol.
        bandwidth_Bps: of the schedule, bytes of the call over time; at this size times
            ``correction``.
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
    """An algorithm for one primitive, priced if there is a fabric.

    Args:
        size_means: what M is for the primitive.
        runs_on: the topologies that it needs, in words; ``requires``: what else a group must be.
        note: what is to be said of it on the group, else in general.
        row: its price; None without, and where there is a fabric ``reason`` says why.
        estimates: NCCL's own, protocol by protocol.
        balance: n*, bytes.
        partners: the most others that a rank exchanges with, None for a composition.
        segments: the best cut of what it pipelines.
    """

    algorithm: str
    primitive: Primitive
    title: str
    formula: tuple[str, ...]  # a line each
    text: str
    size_means: str
    runs_on: str
    shipped_by: tuple[str, ...]
    source: str
    requires: tuple[str, ...] = ()
    status: Status = "shipped"
    note: str = ""
    in_switch: bool = False
    row: AlgorithmEstimate | None = None
    reason: str = ""
    estimates: tuple[NcclEstimateParts, ...] = ()
    balance: float | None = None
    partners: int | None = None
    segments: tuple[BestSegments, ...] = ()


@result
class Explanation(Result):
    """Every use of one algorithm name.

    Args:
        entries: one for each primitive.
        bytes: M; 0 without a fabric.
        library: whose estimates the entries have, with its version; empty without.
        cables: those that contribute to α on the group's paths.
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
    readings: ModelOptions = USUAL

    @property
    def ranks(self) -> int:
        """N; 0 without a fabric."""
        return self.group.ranks if self.group else 0


class ListedAlgorithm(NamedTuple):
    """An algorithm by its name here, with the names that others have for it (``called``)."""

    name: str
    title: str
    primitives: tuple[Primitive, ...]
    called: tuple[str, ...]
    status: Status
    shipped_by: tuple[str, ...]


@result
class AlgorithmList(Result):
    """Every algorithm and composition, those that libraries ship first."""

    subject: ClassVar[str] = "explain"
    rows: tuple[ListedAlgorithm, ...]


def _every_algorithm() -> list[AnyAlgorithm]:
    """Every algorithm and composition, those on request last."""
    return [*usual_algorithms(), *every_composition(), *on_request()]


def list_algorithms(primitive: Primitive | None = None) -> AlgorithmList:
    """Every algorithm of a primitive, or of any, by name; those that libraries ship first."""
    by_name: dict[str, list[AlgorithmExplanation]] = {}
    for row in _every_algorithm():
        if primitive in (None, row.primitive):
            by_name.setdefault(row.name, []).append(_explanation(row))
    rows = []
    for name, entries in by_name.items():
        first = entries[0]
        shipped_by: dict[str, None] = {}
        for entry in entries:
            shipped_by |= dict.fromkeys(entry.shipped_by)
        rows.append(
            ListedAlgorithm(
                name,
                first.title,
                tuple(entry.primitive for entry in entries),
                names_for(name),
                first.status,
                tuple(shipped_by),
            )
        )
    # False sorts before True
    rows.sort(key=lambda row: (not row.shipped_by, row.status != "shipped"))
    return AlgorithmList(tuple(rows))
