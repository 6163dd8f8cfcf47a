"""Prices of one question: every algorithm, where they cross, where the time goes, an algorithm in
words; and a ladder of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from colltool.api import values as v
from colltool.api.arguments import Options, with_options
from colltool.api.kernels import (
    NO_TOKENS,
    ExpertCall,
    asked_of,
    crossover_by,
    own_version,
    price_by,
)
from colltool.api.own import AnyAlgorithms, all_costs, no_files, own_of, ranks_of
from colltool.api.values import AnyFabric, AnyPath, Question, Sizes
from colltool.base.errors import ColltoolError, called, given
from colltool.base.primitives import AR, Primitive
from colltool.estimate.assumptions import Readings, checked
from colltool.estimate.groups import as_read

if TYPE_CHECKING:
    from colltool.analysis.diff import Diff
    from colltool.estimate.explain import Explanation
    from colltool.estimate.results import Breakdown, Crossover, Ladder, Price, PriceList
    from colltool.fabric.ladder import LadderDefinition
    from colltool.fabric.model import Fabric


@with_options
def price(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: Sizes | None = None,
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    algorithm_files: AnyAlgorithms = (),
    slow_rank: float | None = None,
    library_file: AnyPath | None = None,
    tokens: int | None = None,
    top_k: int | None = None,
    hidden: int | None = None,
    experts: int | None = None,
    dtype: str | None = None,
    groups: int | None = None,
    skew: float | None = None,
    **options: Unpack[Options],
) -> Price:
    """Price every algorithm that can run, fastest first; with an engine's library its kernels.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        primitive: by short or long name; ``"dispatch"`` or ``"combine"`` of experts, which take
            ``tokens`` in place of a size.
        size: bytes per rank, as in nccl-tests: ``"16MB"``, a number, or a one-dimensional array or
            sequence of them, which one call prices as a whole: rows then hold arrays of its shape,
            in registry order.
        ranks: N; default: all of the fabric, or of what the stride leaves of it.
        algorithms: only these, such as ``"ring"`` or ``"hierarchical:ring/ring"``; default: all.
        algorithm_files: algorithms of your own beside them: paths of files
            (``colltool guide algorithms``), or mappings of what one would hold; ``ranks`` is then
            theirs by default.
        slow_rank: each row also carries its time with all ports and links of one rank, the worst
            one for it, at this share of their bandwidth
            (:attr:`colltool.estimate.algorithm_estimate.AlgorithmEstimate.slow`); single sizes
            only.
        stride: from one member of the group to the next, in ranks: 8 is one rank of each node of 8.
            The groups of the ranks in between run at the same time.
        alone: those groups are idle.
        shape: of the slice on a torus or mesh, ``"4x4x4"`` or ``(4, 4, 4)``; default: as near a
            cube as fits.
        library: rank what this one implements: ``"nccl"``, ``"rccl"``, ``"mpi"``, ``"xla"``,
            ``"mscclpp"``, ``"all"``; default:
            the fabric's own. NCCL's own pick for each size is :attr:`Price.library`.
            ``"nccl@2.31"``: a version of it; ``"vllm@0.24.0"`` and others that
            :func:`list_libraries` names: their kernels, as measured.
        library_file: a library file of your own in its place.
        tokens, top_k, hidden, experts: of dispatch and combine: tokens a rank, experts of a token,
            their width, and how many.
        dtype: of what is sent; default: fp8 out, bf16 back.
        groups: nodes that routing limits a token to.
        skew: bytes of the hottest rank over the mean.
        machine: a file of measured rows of this machine, as :func:`calibrate` writes; default:
            ``NAME.machine.yaml`` beside the fabric's ``NAME.yaml``.
        readings: of the model; single ones, such as ``ideal=True``, go by their names
            (:class:`colltool.Readings`).

    Returns:
        A :class:`colltool.estimate.results.Price`, by kernels a
        :class:`colltool.engines.results.KernelPrice`; seconds, bytes, bytes/s.
        ``leads_on_one_port`` names what leads with ``ports="one"`` where that is another schedule;
        for an array of sizes a tuple of such names.

    Raises:
        ColltoolError: a fabric, group, size, algorithm or reading that cannot be used; says what to
            do instead.
    """
    from colltool.estimate.price import price as run

    library_file, options = own_version(library_file, options)
    call = ExpertCall(
        tokens=tokens,
        top_k=top_k,
        hidden=hidden,
        experts=experts,
        dtype=dtype,
        groups=groups,
        skew=skew,
    )
    if (
        kernels := asked_of(primitive, options.get("library"), library_file, call, slow_rank)
    ) is not None:
        sizes = [] if size is None else [size]
        no_files(algorithm_files)
        return cast("Price", price_by(fabric, kernels, sizes, ranks, call, options).prices[0])
    if size is None:
        raise ColltoolError("needs a size", argument="size", fix=f"add {given('size', '16MB')}")
    own = own_of(algorithm_files, primitive)
    on = v.question(fabric, primitive, ranks_of(ranks, own, options), options)
    only = v.names_of(algorithms)
    costs, failed = all_costs(own, on, only)
    priced = run(on.fabric, on.primitive, v.sizes_of(size), on.group, on.readings, only, own=costs)
    return _completed((replace(priced, failed=failed),), on, only, slow_rank)[0]


@with_options
def price_list(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    sizes: Sequence[str | float] = (),
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    algorithm_files: AnyAlgorithms = (),
    slow_rank: float | None = None,
    library_file: AnyPath | None = None,
    tokens: int | None = None,
    top_k: int | None = None,
    hidden: int | None = None,
    experts: int | None = None,
    dtype: str | None = None,
    groups: int | None = None,
    skew: float | None = None,
    **options: Unpack[Options],
) -> PriceList:
    """One price per size; without sizes the winner and runner-up from 1 KB to 1 GB. Otherwise as
    :func:`price`."""
    from colltool.estimate.price import price_list as run

    library_file, options = own_version(library_file, options)
    call = ExpertCall(
        tokens=tokens,
        top_k=top_k,
        hidden=hidden,
        experts=experts,
        dtype=dtype,
        groups=groups,
        skew=skew,
    )
    if (
        kernels := asked_of(primitive, options.get("library"), library_file, call, slow_rank)
    ) is not None:
        no_files(algorithm_files)
        return cast("PriceList", price_by(fabric, kernels, sizes, ranks, call, options))
    if not isinstance(sizes, list | tuple) and getattr(sizes, "ndim", 0) != 1:
        raise v.wrong(sizes, "sizes", "a list of sizes", f"write {given('sizes', ['1MB', '16MB'])}")
    with called("python", size="sizes"):
        each = [v.size_of(size) for size in sizes]
    own = own_of(algorithm_files, primitive)
    on = v.question(fabric, primitive, ranks_of(ranks, own, options), options)
    only = v.names_of(algorithms)
    costs, failed = all_costs(own, on, only)
    listed = run(on.fabric, on.primitive, each, on.group, on.readings, only, own=costs)
    prices = (
        tuple(replace(one, failed=failed) for one in listed.prices) if failed else listed.prices
    )
    return replace(listed, prices=_completed(prices, on, only, slow_rank))


def _completed(
    prices: tuple[Price, ...], on: Question, only: Sequence[str], slow_rank: float | None
) -> tuple[Price, ...]:
    """Prices with what leads on one port where nobody named algorithms, with the library's own
    pick, and with one slow rank."""
    if not only and not any(row.status == "own" for row in prices[0].results):
        from colltool.estimate.price import with_turn

        prices = with_turn(prices, on.fabric, on.group, on.readings)
    if on.fabric.library_name == "nccl":
        from colltool.nccl.nccl_choice import with_library_choice

        prices = with_library_choice(prices, on.fabric, on.readings, asked=on.asked, lead=not only)
    return _slowed(tuple(_judged(one, on) for one in prices), on, slow_rank)


def _judged(price: Price, on: Question) -> Price:
    """With how far off such a price is, each row's interval, and which values that were set do not
    move it."""
    from colltool.analysis.judged import judged

    size = price.bytes
    if isinstance(size, float) and price.results and on.fabric.overrides:
        from colltool.analysis.inert import PricedWay, inert_keys

        asked = PricedWay(on.primitive, size, on.group, on.readings, price.best)
        price = replace(price, inert=inert_keys(on.fabric, asked))
    return judged(price, on.fabric, on.group, on.readings)


def _share_left(slow_rank: float | None, fabric: Fabric | None) -> float | None:
    share = None if slow_rank is None else v.number_of(slow_rank, "slow_rank")
    if share is not None and fabric is None:
        fix = f"add {given('fabric', 'nvl72')} {given('size', '16MB')}"
        raise ColltoolError("a slow rank needs a fabric", argument="slow_rank", fix=fix)
    if share is None or 0 < share <= 1:
        return share
    what = f"the share that a slow rank has left is above 0 and at most 1, got {share:g}"
    raise ColltoolError(what, argument="slow_rank", fix=f"write {given('slow_rank', 0.8)}")


def _slowed(prices: tuple[Price, ...], on: Question, slow_rank: float | None) -> tuple[Price, ...]:
    """Prices whose rows also say what one slow rank costs."""
    share = _share_left(slow_rank, on.fabric)
    if share is None:
        return prices
    if any(not isinstance(one.bytes, float) for one in prices):
        what = "works for single sizes"
        raise ColltoolError(
            what, argument="slow_rank", fix=f"one {given('size', '16MB')} a call, or price_list"
        )
    from colltool.verification.slow_rank import with_slow_rank

    return tuple(
        replace(
            one,
            results=with_slow_rank(
                one.results, share, on.fabric, one.primitive, one.group.spec, on.readings
            ),
        )
        for one in prices
    )


@with_options
def crossover(
    fabric: AnyFabric,
    primitive: Primitive | str = AR,
    *,
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    library_file: AnyPath | None = None,
    **options: Unpack[Options],
) -> Crossover:
    """Every size, in bytes, at which the faster of two algorithms changes, and who wins at which
    size.

    The first of ``algorithms`` is compared with each of the others, by default the usual ones; all
    else as :func:`price`. With an engine's library: where its kernels cross, beside its own
    thresholds (:class:`colltool.engines.results.KernelCrossover`).
    """
    from colltool.estimate.crossover import crossover as run

    library_file, options = own_version(library_file, options)
    kernels = asked_of(primitive, options.get("library"), library_file, NO_TOKENS)
    if kernels is not None and kernels[1] is not None:
        return cast("Crossover", crossover_by(fabric, kernels[0], kernels[1], ranks, options))
    on = v.question(fabric, primitive, ranks, options)
    found = run(on.fabric, on.primitive, on.group, on.readings, v.names_of(algorithms))
    if on.fabric.library_name == "nccl":
        from colltool.nccl.nccl_choice import with_library_picks

        found = with_library_picks(found, on.fabric)
    return found


@with_options
def breakdown(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    algorithm: str | None = None,
    slow_rank: float | None = None,
    **options: Unpack[Options],
) -> Breakdown:
    """The phases of what the library picks, else of the fastest schedule (or of ``algorithm``),
    beside the flat baselines.

    Arguments as :func:`price`.
    """
    from colltool.estimate.price import breakdown as run

    name = None if algorithm is None else v.text_of(algorithm, "algorithm", "ring")
    on = v.question(fabric, primitive, ranks, options)
    bytes_ = v.size_of(size)
    if name is None and on.fabric.library_name == "nccl":
        from colltool.nccl.nccl_choice import picked_at

        picked = picked_at(on.fabric, on.group, on.primitive, [bytes_])
        name = picked[0].spec or None if picked else None
    with called("python", algorithms="algorithm"):
        found = run(on.fabric, on.primitive, bytes_, on.group, on.readings, name)
    found = replace(found, price=_judged(found.price, on))
    beside = _judged(replace(found.price, results=found.baselines), on)
    first, beside = _slowed((found.price, beside), on, slow_rank)
    return replace(found, price=first, baselines=beside.results)


@with_options
def explain(
    algorithm: str,
    primitive: Primitive | str | None = None,
    *,
    fabric: AnyFabric | None = None,
    size: str | float | None = None,
    ranks: int | None = None,
    slow_rank: float | None = None,
    **options: Unpack[Options],
) -> Explanation:
    """An algorithm in words; with a fabric and a size also in numbers, as :func:`price`, on NCCL
    with its own parts."""
    from colltool.estimate.explain import explain as run

    name = v.text_of(algorithm, "algorithm", "ring")
    asked = v.parsed(ranks, options)
    wanted = None if primitive is None else v.primitive_of(primitive)
    own = None if fabric is None else v.fabric_of(fabric, machine=asked.machine)
    numbers = f"{given('fabric', 'nvl72')} {given('size', '16MB')}"
    if own is None and asked.library is not None:
        raise ColltoolError("needs a fabric and a size", argument="library", fix=f"add {numbers}")
    if (own is None) != (size is None):
        fix = f"add {numbers}, or leave both out"
        raise ColltoolError(
            "numbers need a fabric and a size",
            argument="size" if size is None else "fabric",
            fix=fix,
        )
    loaded = None if own is None else as_read(v.under_library(own, asked.library), asked.readings)
    with called("python", algorithms="algorithm"):
        found = run(
            name,
            wanted,
            loaded,
            None if size is None else v.size_of(size),
            asked.group,
            asked.readings,
        )
    share = _share_left(slow_rank, loaded)
    if own is None or loaded is None:
        return found
    if share is not None:
        from colltool.verification.slow_rank import with_slow_rank

        who = found.group.spec if found.group else None
        slow = [
            one.row
            and with_slow_rank([one.row], share, loaded, one.primitive, who, asked.readings)[0]
            for one in found.entries
        ]
        found = replace(
            found,
            entries=tuple(
                one._replace(row=row) for one, row in zip(found.entries, slow, strict=True)
            ),
        )
    if found.group is not None:
        from colltool.analysis.judged import judged_row

        who = found.group.spec
        rows = (
            one.row and judged_row(one.row, one.primitive, loaded, who, asked.readings)
            for one in found.entries
        )
        found = replace(
            found,
            entries=tuple(
                one._replace(row=row) for one, row in zip(found.entries, rows, strict=True)
            ),
        )
    if loaded.library_name == "nccl":
        from colltool.nccl.nccl_choice import with_estimates

        found = with_estimates(found, loaded, asked=asked.is_other(own))
    return found


def ladder(
    definition: LadderDefinition | AnyPath = "n512",
    *,
    readings: Readings | None = None,
    **parts: Any,
) -> Ladder:
    """Price a ladder, ideal beside realistic. A rung that cannot be priced is an error.

    Args:
        definition: a path, or the name of a shipped ladder.
        readings, **parts: of the model, and single ones by name in place of those.
    """
    from colltool.estimate.price import climb
    from colltool.fabric.ladder import LadderDefinition, load_ladder

    reading = checked(readings, **parts)
    if isinstance(definition, LadderDefinition):
        return climb(definition, reading)
    if not isinstance(definition, str | os.PathLike):
        raise v.wrong(
            definition,
            "definition",
            "a ladder",
            'give a path, or the name of a shipped ladder ("n512")',
        )
    return climb(load_ladder(definition), reading)


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """What moved between two JSON documents of the same command, past a relative tolerance.

    Args:
        old, new: what ``json.load`` made of two outputs; NaN and infinite numbers in them are
            refused.
        rtol: numbers that differ by at most this fraction of the old one are the same.

    Raises:
        ColltoolError: not documents of colltool, or of different commands.
    """
    from colltool.analysis.diff import diff as run

    for argument, document in (("old", old), ("new", new)):
        if not isinstance(document, Mapping):
            raise v.wrong(
                document, argument, "a JSON document as a mapping", "give what json.load returns"
            )
    return run(old, new, v.number_of(rtol, "rtol"))
