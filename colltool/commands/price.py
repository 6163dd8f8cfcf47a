"""Price every algorithm of a collective on a group, fastest first.

:func:`price` and :func:`price_list` first find out who answers: kernels that were measured (a
KernelRequest, which answers by itself) or algorithms (an :class:`AlgorithmRequest`). Prices by
algorithms then get what only users see: the library's pick, intervals, notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from colltool.base.errors import ColltoolError, argument_text, rename_arguments
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.options import (
    CHART,
    EXPERTS,
    FABRIC,
    GROUP,
    READINGS,
    FabricChoice,
    Out,
    result_options,
    sizes_options,
)
from colltool.commands.public_options import PriceOptions, with_options

if TYPE_CHECKING:
    from colltool.commands.custom_algorithms import AnyAlgorithms
    from colltool.commands.kernel_prices import KernelRequest
    from colltool.commands.reading import AnyFabric, AnyPath, Sizes
    from colltool.commands.requests import Request
    from colltool.engines.results import KernelPrice, KernelPriceList
    from colltool.estimate.cost_model import CostModel
    from colltool.estimate.results import Infeasible, Price, PriceList
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
    mode: str | None = None,
    **options: Unpack[PriceOptions],
) -> Price | KernelPrice:
    """Price every algorithm that can run, fastest first; with an engine's library its kernels.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        primitive: the collective, by short or long name; ``"dispatch"``, ``"combine"`` and
            ``"prepare"`` (mixture of experts) take ``tokens`` instead of a size.
        size: bytes per rank, as in nccl-tests: ``"16MB"``, a number, or a one-dimensional array or
            sequence of them, which one call prices as a whole: rows then hold arrays of its shape,
            in registry order.
        ranks: N; default: all of the fabric, or of what the stride leaves of it.
        algorithms: only these, such as ``"ring"`` or ``"hierarchical:ring/ring"``; default: all.
        algorithm_files: also your own algorithms: paths of files (``colltool guide algorithms``),
            or mappings with their content; ``ranks`` is then theirs by default.
        slow_rank: each row also carries its time with all ports and links of one rank, the worst
            one for it, at this share of their bandwidth
            (:attr:`colltool.estimate.algorithm_estimate.AlgorithmEstimate.slow`); single sizes
            only.
        stride: take every ``stride``-th rank: 8 is one rank per node of 8. The groups in between run
            at the same time.
        alone: the groups in between are idle.
        shape: shape of the slice (torus and mesh only), ``"4x4x4"`` or ``(4, 4, 4)``; default: as
            close to a cube as fits.
        library: rank what this library implements: ``"nccl"``, ``"rccl"``, ``"mpi"``, ``"xla"``,
            ``"mscclpp"``, ``"all"``; default:
            the fabric's own. NCCL's own pick for each size is :attr:`Price.library`.
            ``"nccl@2.31"``: a version of it; ``"vllm@0.24.0"`` and others that
            :func:`list_libraries` names: their kernels, as measured.
        library_file: your own library file instead of it.
        mode: how an engine's library launches the call: ``"graph"`` (default) or ``"eager"``.
        tokens, top_k, hidden, experts: tokens per rank, experts per token, hidden size, and number
            of experts (dispatch and combine only).
        dtype: data type of the tokens sent, or of the values of an engine's all-reduce; default:
            fp8 for dispatch, else bf16.
        sms: streaming multiprocessors that the kernel runs on; default: the library's own.
        groups: the most nodes that a token may be routed to.
        skew: load imbalance: bytes of the busiest rank over the mean.
        machine: a file of measured rows of this machine, as :func:`calibrate` writes; default:
            ``NAME.machine.yaml`` next to the fabric's ``NAME.yaml``.
        readings: options of the model (:class:`colltool.Readings`); single ones may be given by
            name, such as ``ideal=True``.

    Returns:
        A :class:`colltool.estimate.results.Price`, by kernels a
        :class:`colltool.engines.results.KernelPrice`; seconds, bytes, bytes/s.
        ``leads_on_one_port`` names what is selected with ``ports="one"``, if that is another
        algorithm; for an array of sizes a tuple of such names.

    Raises:
        ColltoolError: a fabric, group, size, algorithm or model option that cannot be used; says what
            to do instead.
    """
    from colltool.commands.kernel_prices import KernelRequest
    from colltool.commands.reading import sizes_of
    from colltool.estimate.price import price as run

    query = _request_of(
        fabric,
        primitive,
        ranks,
        options,
        algorithms,
        algorithm_files,
        library_file=library_file,
        slow_rank=slow_rank,
        mode=mode,
    )
    if isinstance(query, KernelRequest):
        # without a size: a call of experts, whose bytes follow from its tokens
        return query.prices([] if size is None else [size]).prices[0]
    if size is None:
        raise ColltoolError(
            "needs a size", argument="size", fix=f"add {argument_text('size', '16MB')}"
        )
    request = query.request
    priced = run(
        request.fabric,
        request.primitive,
        sizes_of(size),
        request.group,
        request.readings,
        query.names,
        own=query.custom_costs,
    )
    [for_user] = _for_user((replace(priced, failed=query.failed),), query, slow_rank)
    return for_user


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
    mode: str | None = None,
    **options: Unpack[PriceOptions],
) -> PriceList | KernelPriceList:
    """One price per size; without sizes the best two from 1 KB to 1 GB, and as
    :attr:`PriceList.crossover` which algorithm runs at which size. Otherwise as :func:`price`."""
    from colltool.commands.kernel_prices import KernelRequest
    from colltool.commands.reading import each_size, wrong
    from colltool.estimate.price import price_list as run

    query = _request_of(
        fabric,
        primitive,
        ranks,
        options,
        algorithms,
        algorithm_files,
        library_file=library_file,
        slow_rank=slow_rank,
        mode=mode,
    )
    if isinstance(query, KernelRequest):
        return query.prices(sizes)
    # a list, or a one-dimensional array: numpy need not be loaded to tell
    if not isinstance(sizes, list | tuple) and getattr(sizes, "ndim", 0) != 1:
        raise wrong(
            sizes, "sizes", "a list of sizes", f"write {argument_text('sizes', ['1MB', '16MB'])}"
        )
    with rename_arguments("python", size="sizes"):
        sizes_bytes = each_size(sizes)
    request = query.request
    listed = run(
        request.fabric,
        request.primitive,
        sizes_bytes,
        request.group,
        request.readings,
        query.names,
        own=query.custom_costs,
    )
    prices = tuple(replace(price, failed=query.failed) for price in listed.prices)
    for_user = replace(listed, prices=_for_user(prices, query, slow_rank))
    # sizes were named, or algorithms that a crossover of the usual ones does not compare
    if not listed.winners_only or query.names or query.custom_costs:
        return for_user
    from colltool.commands.crossover import crossover_of

    return replace(for_user, crossover=crossover_of(request))


def fastest(listed: PriceList | KernelPriceList, top: int) -> PriceList:
    """Only the ``top`` fastest algorithms at each size.

    Raises:
        ColltoolError: ``listed`` is of kernels.
    """
    from colltool.estimate.results import PriceList

    if not isinstance(listed, PriceList):
        raise ColltoolError(
            "kernels are listed as a library takes them, not by time alone",
            argument="top",
            fix="leave it out",
        )
    return listed.top(top)


class AlgorithmRequest(NamedTuple):
    """A request that algorithms answer.

    Args:
        names: price only these; all if empty.
        custom_costs: custom algorithms of files and plugins, on the group.
        failed: plugins that raised an error, as rows of what cannot run.
    """

    request: Request
    names: list[str]
    custom_costs: list[CostModel]
    failed: tuple[Infeasible, ...]


def _request_of(
    fabric: AnyFabric,
    primitive: Primitive | str,
    ranks: int | None,
    options: Mapping[str, object],
    algorithms: Sequence[str] | str,
    algorithm_files: AnyAlgorithms,
    *,
    library_file: AnyPath | None,
    slow_rank: float | None,
    mode: str | None,
) -> KernelRequest | AlgorithmRequest:
    """The request for measured kernels or for algorithms that the arguments of :func:`price` are,
    checked but for the size."""
    from colltool.commands.custom_algorithms import (
        all_costs,
        custom_schedules,
        ranks_of,
        refuse_files,
    )
    from colltool.commands.kernel_prices import split_request
    from colltool.commands.reading import names_of
    from colltool.commands.requests import price_request

    # all but the arguments of dispatch and combine
    kernels, other_options = split_request(
        fabric,
        primitive,
        ranks,
        options,
        library_file=library_file,
        slow_rank=slow_rank,
        mode=mode,
    )
    if kernels is not None:
        refuse_files(algorithm_files)
        return kernels
    # files are read before the fabric is loaded, so that their mistakes are reported first
    files = custom_schedules(algorithm_files, primitive)
    custom_ranks = ranks_of(ranks, files, other_options)
    request = price_request(fabric, primitive, custom_ranks, other_options)
    names = names_of(algorithms)
    custom_costs, failed = all_costs(files, request, names)
    return AlgorithmRequest(request, names, custom_costs, failed)


def _for_user(
    prices: tuple[Price, ...], query: AlgorithmRequest, slow_rank: float | None
) -> tuple[Price, ...]:
    """Prices, at least one, with everything that a user sees: the library's pick, the winner on one
    port, keys without effect, and the cost of a slow rank."""
    from colltool.estimate.user_price import prices_for_user

    request = query.request
    fabric = request.fabric
    # rows of files and plugins have the status "own"
    has_files = any(estimate.status == "own" for estimate in prices[0].results)
    # a winner on one port makes sense only among all shipped algorithms
    if not query.names and not has_files:
        from colltool.estimate.user_price import with_one_port_leader

        prices = with_one_port_leader(prices, fabric, request.group, request.readings)
    prices = prices_for_user(
        prices,
        fabric,
        request.readings,
        # of a library that the user named, a pick that cannot be computed is an error
        required=request.other_library,
        # the pick comes first, unless the user named algorithms
        lead=not query.names,
    )
    annotated = tuple(with_inert_keys(price, request) for price in prices)
    return with_slow_rank_cost(annotated, request, slow_rank)


def with_inert_keys(price: Price, request: Request) -> Price:
    """A price with what its fabric's overrides do: the keys that do not affect it (``inert``), and its
    seconds with the file's values (``as_filed_s``). Unchanged for an array of sizes, and without
    overrides or rows."""
    size = price.bytes
    if not isinstance(size, float) or not price.results or not request.fabric.overrides:
        return price
    from colltool.analysis.inert import SchedulePrice, against_file

    priced = SchedulePrice(request.primitive, size, request.group, request.readings, price.best)
    compared = against_file(request.fabric, priced)
    return replace(price, inert=compared.inert, as_filed_s=compared.as_filed_s)


def remaining_share(slow_rank: float | None, fabric: Fabric | None) -> float | None:
    """Return the share of its bandwidth that a slow rank keeps, checked; None without one.

    Raises:
        ColltoolError: no share above 0 and at most 1, or a slow rank without a fabric.
    """
    from colltool.commands.reading import number_of

    if slow_rank is None:
        return None
    share = number_of(slow_rank, "slow_rank")
    if fabric is None:
        raise ColltoolError(
            "a slow rank needs a fabric",
            argument="slow_rank",
            fix=f"add {argument_text('fabric', 'nvl72')} {argument_text('size', '16MB')}",
        )
    if not 0 < share <= 1:
        raise ColltoolError(
            f"the share that a slow rank has left is above 0 and at most 1, got {share:g}",
            argument="slow_rank",
            fix=f"write {argument_text('slow_rank', 0.8)}",
        )
    return share


def with_slow_rank_cost(
    prices: tuple[Price, ...], request: Request, slow_rank: float | None
) -> tuple[Price, ...]:
    """Prices whose rows also have the time with one slow rank.

    Args:
        slow_rank: the share of its bandwidth that the rank has left; None leaves prices as they are.

    Raises:
        ColltoolError: as of :func:`remaining_share`, or an array of sizes.
    """
    share = remaining_share(slow_rank, request.fabric)
    if share is None:
        return prices
    from colltool.verification.slow_rank import with_slow_rank

    slowed = []
    for price in prices:
        if not isinstance(price.bytes, float):
            raise ColltoolError(
                "works for single sizes",
                argument="slow_rank",
                fix=f"one {argument_text('size', '16MB')} a call, or price_list",
            )
        rows = with_slow_rank(
            price.results,
            share,
            request.fabric,
            price.primitive,
            price.group.spec,
            request.readings,
        )
        slowed.append(replace(price, results=rows))
    return tuple(slowed)


@command(
    [
        "primitive",
        FABRIC,
        *GROUP,
        sizes_options("Bytes per rank: 16MB,64MB or 1K-1G. [default: the winners from 1KB to 1GB]"),
        "algorithms",
        "algorithm_files",
        "top",
        "library",
        "library_file",
        "mode",
        "slow_rank",
        *EXPERTS,
        result_options(CHART),
        READINGS,
    ],
    public=price_list,
)
def price_command(fabric: FabricChoice, out: Out, top: int | None = None, **arguments: Any) -> None:
    """How long a collective takes: what the library runs, how sure that is, and what comes next.

    Without a size: which algorithm runs at which size, as crossover says, and the best two at six
    sizes from 1 KB to 1 GB. With an inference engine as the library: its kernels, the one it picks
    first. PRIM may also be dispatch or combine (mixture of experts), which take --tokens instead of
    a size.

    Examples:
      colltool price ar -f nvl72 -M 16MB
      colltool price ar -f nvl72 -n 72 -M 1MB,16MB,1GB --format csv
      colltool price a2a -f dgx-h100 -n 64 -M 64MiB --set ib.levels.spine.oversubscription=4
      colltool price ar -f nvl72 -M 16MB --algorithm hierarchical:ring/ring
      colltool price ar -f dgx-h100 -n 32 --stride 8 -M 1GB
      colltool price ar -f dgx-h100 -n 64 --library nccl
      colltool price ar -f dgx-h100 -M 16MB --algorithm-file my.xml
      colltool price ar -f dgx-h100 -n 64 -M 64MB --slow-rank 0.8
      colltool price ag -f my-cluster.yaml
      colltool price ar -f hgx-h200 -n 4 -M 64KB --library vllm@0.24.0
      colltool price dispatch -f dgx-h100 -n 64 --library deepep@1 --tokens 128 --top-k 8 --hidden 7168 --experts 256
    """
    for argument, value in (("top", top), ("slow_rank", arguments.get("slow_rank"))):
        if value is not None and "sizes" not in arguments:
            raise ColltoolError(
                "needs a size",
                argument=argument,
                fix=f"add a size: {argument_text('size', '16MB')}",
            )
    # without a size the answer is a short list of winners
    listed = price_list(fabric.load_for(arguments), **arguments)
    out.emit(listed if top is None else fastest(listed, top))
