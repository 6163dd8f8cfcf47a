"""Whether the fastest schedule, or fabric, stays the fastest if numbers of the fabric are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.options import (
    DRAWN_RESULT,
    FABRIC,
    GROUP,
    READINGS,
    FabricChoice,
    Out,
    option,
)
from colltool.commands.public_options import Options, with_options

if TYPE_CHECKING:
    from colltool.analysis.contest import Contest
    from colltool.analysis.sensitivity import Sensitivity
    from colltool.commands.reading import AnyFabric
    from colltool.definitions.overrides import Overrides

# help of --vary
_NUMBERS = (
    "Uncertain values: alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10% (repeatable). "
    "[default: the fabric's uncertainty, else alpha=2x, eta.beta=20%, bandwidth=10%]"
)


@with_options
def sensitivity(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    vary: Sequence[str] | str = (),
    samples: int = 100_000,
    seed: int = 1,
    algorithms: Sequence[str] | str = (),
    **options: Unpack[Options],
) -> Sensitivity:
    """Whether the winner stays the winner if numbers of the fabric differ from its file.

    Args:
        vary: ranges, ``"alpha=2x"``, ``"eta.beta=0.6:0.9"``, ``"ib.bandwidth=10%"``; default: the
            fabric's ``uncertainty``, and where it has none alpha to a factor of 2, eta.beta to 20%
            and bandwidth to 10%.
        samples, seed: how many draws of all numbers at once, and their seed.

    All else is as in :func:`colltool.price`.

    Returns:
        A :class:`colltool.analysis.sensitivity.Sensitivity`; seconds and shares.

    Raises:
        ColltoolError: a key that names no number, a range upside down, or as
            :func:`colltool.price`.
    """
    from colltool.analysis.cells import PriceRequest
    from colltool.analysis.sensitivity import sensitivity as run
    from colltool.commands.reading import count_of, names_of, size_of, vary_of
    from colltool.commands.requests import price_request
    from colltool.fabric.ranges import ranges_of

    request = price_request(fabric, primitive, ranks, options)
    numbers, assumed = ranges_of(request.fabric, vary_of(vary), request.primitive)
    return run(
        request.fabric,
        PriceRequest(request.primitive, request.readings, tuple(names_of(algorithms))),
        request.group,
        size_of(size),
        numbers,
        assumed=assumed,
        samples=count_of(samples, "samples"),
        seed=count_of(seed, "seed"),
    )


@with_options
def compare_sensitivity(
    fabrics: Sequence[AnyFabric],
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    samples: int = 100_000,
    seed: int = 1,
    algorithms: Sequence[str] | str = (),
    **options: Unpack[Options],
) -> Contest:
    """How often each of several fabrics is faster than the first, where numbers of all may be other
    than the files say.

    A number that two fabrics have under one key is drawn once for both, at the same place between
    the ends that each has for it; all others are drawn for each by itself. In every sample each
    fabric runs what is its fastest there.

    Args:
        fabrics: at least two, each a fabric, or a path, shipped name or mapping to load.
        ranks: default: all of the smallest fabric.
        vary: ranges as in :func:`sensitivity`, each on every fabric that has such a number.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.

    All else is as in :func:`sensitivity`.

    Returns:
        A :class:`colltool.analysis.contest.Contest`; seconds and shares.

    Raises:
        ColltoolError: fewer than two fabrics, a key that names a number of none, or as
            :func:`sensitivity`.
    """
    from colltool.analysis.contest import ContestEntry, contest
    from colltool.commands.reading import count_of, size_of, vary_of
    from colltool.commands.requests import grid_request, model_request
    from colltool.commands.several_fabrics import several_of, sweep_fabrics
    from colltool.fabric.ranges import names_a_number, parameter_ranges, ranges_of

    model = model_request(ranks, options)
    request = grid_request(primitive, algorithms, model)
    contestants = sweep_fabrics(several_of(fabrics), overrides, model.library, model.machine)
    if len(contestants) < 2:
        raise ColltoolError(
            "one fabric has nothing to be compared with",
            argument="fabrics",
            fix=f"another {argument_text('fabrics', ...)}",
        )
    ranges = vary_of(vary)
    loaded = [contestant.load(()) for contestant in contestants]
    for text in ranges:
        if not any(names_a_number(fabric, text) for fabric in loaded):
            # raises the error that says what is wrong with the key
            parameter_ranges(loaded[0], [text])
    entries = []
    for contestant, fabric in zip(contestants, loaded, strict=True):
        # a range applies to the fabrics that have such a number
        applying = [text for text in ranges if names_a_number(fabric, text)]
        # without ranges of the user's, those of the fabric, which are assumed where its file has none
        if applying or not ranges:
            numbers, assumed = ranges_of(fabric, applying, request.primitive)
        else:
            numbers, assumed = (), False
        entries.append(ContestEntry(contestant.name, fabric, numbers, assumed))
    return contest(
        entries,
        request,
        model.group,
        size_of(size),
        samples=count_of(samples, "samples"),
        seed=count_of(seed, "seed"),
    )


@command(
    [
        "primitive",
        FABRIC,
        "size",
        *GROUP,
        option("vary", _NUMBERS, metavar="KEY=RANGE"),
        "samples",
        "seed",
        "algorithms",
        "library",
        DRAWN_RESULT,
        READINGS,
    ],
    public=sensitivity,
)
def sensitivity_command(fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Show how safe the choice of algorithm is if the fabric's values are off: what it costs if it is
    wrong, what would change it, and what to measure.

    With several fabrics (-f A -f B): how often each one is faster than the first.

    Examples:
      colltool sensitivity ar -f dgx-h100 -n 64 -M 16MB
      colltool sensitivity ar -f dgx-h100 -n 64 -M 16MB --vary alpha=2x --vary ib.eta.beta=0.6:0.95
      colltool sensitivity ar -f dgx-h100 -f hgx-h200 -n 64 -M 256MB
      colltool sensitivity a2a -f my-cluster.yaml -M 64MB --vary bandwidth=10% --seed 7 --format json
    """
    several = fabric.several
    # several fabrics are another question: which is faster, not what leads on one
    if len(several) == 1:
        out.emit(sensitivity(fabric.load_for(arguments), **arguments))
        return
    if out.plot is not None:
        raise ColltoolError(
            "draws one fabric", argument="plot", fix="colltool compare draws several"
        )
    contest = compare_sensitivity(
        several, overrides=fabric.overrides, machine=fabric.machine, **arguments
    )
    out.emit(contest)
