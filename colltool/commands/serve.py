"""Tokens/s of a served model, estimated and at most: the network by engine, group and kernel, and the
estimate and lower limit of memory and compute.

:func:`serve` checks its arguments and makes a :class:`ServeRequest` of them, which answers on one
fabric, on several, over ranges of its numbers, or for every layout of the ranks. The work is in
:mod:`colltool.serving`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands.command import command
from colltool.commands.options import FABRIC, MODEL_OR_JOB, RESULT, FabricChoice, Out, option
from colltool.commands.serve_arguments import (
    engine_of,
    experts_of,
    job_of,
    kv_dtype_of,
    kv_library_of,
    model_of,
    tpot_seconds,
    weights_of,
)

if TYPE_CHECKING:
    from colltool.commands.plan import AnyJob
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.definitions.overrides import Overrides
    from colltool.engines.files import LibraryFile
    from colltool.fabric.custom_machine import CustomMachine
    from colltool.fabric.model import Fabric
    from colltool.serving.deployment import Deployment
    from colltool.serving.question import ServeQuestion
    from colltool.serving.results import Served, ServeList
    from colltool.serving.spread import ServeSpread
    from colltool.training.model import TransformerModel

# a range of an uncertain number (=2x, =10%, =0.6:0.9), in contrast to values (=1us,2us)
_RANGE = re.compile(r"=\s*(?:[\d.]+\s*(?:x|%)|[^,]+:[^,]+)$")
# bound of the ranks that serve: more than any fleet has
MOST_RANKS = 2**24
# samples of a spread: each prices the deployment anew, and 5% of them still are ten
_DRAWS = 200
# what is together in a page of the KV cache
_KV_LAYOUTS = ("heads", "tokens", "pages")
# help of --vary
_VARY = (
    "Values of a key of the fabric to compare, or the range of an uncertain one, such as alpha=2x"
    " (repeatable)."
)


def serve(
    job: AnyJob,
    fabric: AnyFabric | Sequence[AnyFabric],
    *,
    tp: int = 1,
    ep: int = 1,
    pp: int = 1,
    dp: int | None = None,
    batch: int | None = None,
    isl: int = 4096,
    osl: int = 1024,
    engine: str | None = None,
    library_file: AnyPath | None = None,
    model_file: AnyPath | None = None,
    experts_library: str | None = None,
    weights: str | None = None,
    kv_dtype: str = "bf16",
    chunk: int = 8192,
    tpot: str | float | None = None,
    prefill_tp: int | None = None,
    kv_library: str | None = None,
    prefill_tier: str | None = None,
    kv_page: int = 16,
    kv_layout: str = "heads",
    two_batch_overlap: bool = False,
    mode: str | None = None,
    sms: int | None = None,
    search: bool = False,
    ranks: int | None = None,
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    machine: CustomMachine | None = None,
) -> Served | ServeList | ServeSpread:
    """Tokens/s of a served model, estimated and at most, with the time per token and per prefill:
    the network, each collective by its kernel, and the estimate and lower limit of memory and compute.

    Args:
        job: a job or a model, or a path (a config.json too), shipped name or mapping to load; only
            its model is used.
        fabric: a fabric, or a path or shipped name to load; several are compared.
        tp, pp, dp: tensor and pipeline parallelism, and replicas of attention; dp follows from ep
            and tp.
        ep: expert-parallel ranks; up to tp, experts are sharded with it and no tokens are
            exchanged.
        batch: sequences in flight, in total.
        isl, osl: input and output tokens per sequence.
        engine: inference engine whose all-reduce runs: ``"vllm@0.24.0"``; default: the fabric's own
            library. library_file: your own library file instead.
        model_file: the model in place of the job's, a path: a file that lists its operations, or a
            config.json.
        experts_library: library that runs dispatch and combine: ``"deepep@1"``, or ``"nccl"``;
            default: the fastest measured one.
        weights: data type of the weights: bf16, fp8, nvfp4, mxfp4, int4; default: as the published
            checkpoint has them. kv_dtype: bf16, fp8, nvfp4.
        chunk: tokens per prefill step.
        tpot: time per output token, ``"18ms"`` or seconds; adds the network's share of it.
        prefill_tp: tensor-parallel ranks of separate prefill machines; adds the transfer of the KV
            cache by ``kv_library`` (default: mooncake).
        prefill_tier: the tier between them and decode, such as ``"wan"`` for another site; default:
            the outermost one within a site.
        kv_page: tokens of a page of the KV cache. kv_layout: what is together in it: ``"heads"`` (all
            tokens of a head), ``"tokens"`` (all heads of a token) or ``"pages"`` (all layers).
        two_batch_overlap: halve the batch, so that dispatch and combine of one half run while the
            other computes (SGLang's two-batch overlap, vLLM's DBO).
        mode: how the engine launches its kernels: ``"graph"`` (default) or ``"eager"``.
        sms: streaming multiprocessors of dispatch and combine; default: the library's own.
        search: try every layout of ``ranks`` (tp, pp, dp and ep); ``tp`` and the others are then
            ignored, and ``batch`` is by default one sequence per rank.
        ranks: how many ranks serve; without a search, dp follows from them, tp and pp.
        vary: values of the fabric, ``"ib.bandwidth=50GB/s,100GB/s"``, side by side; or ranges,
            ``"alpha=2x"``, as in :func:`colltool.sensitivity`: how far off the time of a token may
            be. overrides: as for ``--set``, of every fabric.
        machine: as :func:`colltool.price`.

    Returns:
        A :class:`colltool.serving.results.Served`, seconds and bytes; of several fabrics, values or
        layouts a :class:`colltool.serving.results.ServeList`; of ranges a
        :class:`colltool.serving.spread.ServeSpread`.

    Raises:
        ColltoolError: a deployment that does not fit, kernels that were not measured on the
            machine.
    """
    from colltool.commands.kernel_prices import mode_if
    from colltool.commands.reading import (
        choice_of,
        count_if,
        count_of,
        flag_of,
        text_of,
    )
    from colltool.commands.requests import fabric_with
    from colltool.serving.question import ServeQuestion

    loaded_job = job_of(job, model_file)
    model = model_of(loaded_job)
    weight_format = weights_of(weights, loaded_job, model)
    stated = {"tp": tp, "ep": ep, "pp": pp, "isl": isl, "osl": osl, "chunk": chunk}
    counts = {name: count_of(value, name) for name, value in stated.items()}
    # None: they follow from the experts, or a search tries several
    replicas = count_if(dp, "dp")
    if ranks is not None and not search:
        replicas = _replicas(count_of(ranks, "ranks", 1, MOST_RANKS), counts, replicas)
    two_batches = flag_of(two_batch_overlap, "two_batch_overlap")
    deployment = _deployment(counts, replicas, count_if(batch, "batch"), two_batches=two_batches)
    question = ServeQuestion(
        deployment=deployment._replace(
            dtype=weight_format.name,
            kv_dtype=kv_dtype_of(kv_dtype),
        ),
        dp=replicas,
        tpot_s=tpot_seconds(tpot),
        prefill_tp=count_if(prefill_tp, "prefill_tp"),
        kv=kv_library_of(kv_library),
        weights=weight_format,
        prefill_tier=None if prefill_tier is None else text_of(prefill_tier, "prefill_tier", "wan"),
        kv_page=count_of(kv_page, "kv_page"),
        kv_layout=choice_of(kv_layout, "kv_layout", _KV_LAYOUTS, "layout"),
        two_batches=two_batches,
        mode=mode_if(mode),
        sms=count_if(sms, "sms") or 0,
    )
    all_reduce = engine_of(engine, library_file)
    experts, by_nccl = experts_of(experts_library)
    request = ServeRequest(model, question, all_reduce, experts, by_nccl)
    if flag_of(search, "search"):
        loaded_fabric = fabric_with(_single(fabric, "a search"), overrides, machine=machine)
        return request.best_layouts(loaded_fabric, count_if(ranks, "ranks", 1), batch)
    return _on_fabrics(request, fabric, vary, overrides, machine)


def _deployment(
    counts: Mapping[str, int], replicas: int | None, batch: int | None, *, two_batches: bool
) -> Deployment:
    """The layout and its sequences, in the default types of numbers.

    The default batch is the smallest useful one: a sequence for each replica and stage, or one for
    each half of it.

    Args:
        counts: ``tp``, ``ep``, ``pp``, ``isl``, ``osl`` and ``chunk``.
        replicas: of attention; None if they follow from the experts, which
            :func:`colltool.serving.deployment.checked_deployment` fills in.
    """
    from colltool.serving.deployment import Deployment

    # as checked_deployment has it: as many as fill the ranks of the experts
    usual_replicas = max(1, counts["ep"] // counts["tp"])
    fewest = counts["pp"] * (replicas or usual_replicas)
    if two_batches:
        fewest *= 2
    return Deployment(
        tp=counts["tp"],
        ep=counts["ep"],
        pp=counts["pp"],
        dp=replicas or 1,
        batch=batch or fewest,
        input=counts["isl"],
        output=counts["osl"],
        chunk=counts["chunk"],
    )


def _on_fabrics(
    request: ServeRequest,
    fabric: AnyFabric | Sequence[AnyFabric],
    vary: Sequence[str] | str,
    overrides: Overrides,
    machine: CustomMachine | None,
) -> Served | ServeList | ServeSpread:
    """The answer on one fabric; on several or with varied values side by side; or over ranges.

    Raises:
        ColltoolError: ranges on several fabrics, or together with values.
    """
    from colltool.commands.reading import vary_of
    from colltool.commands.requests import fabric_with
    from colltool.commands.several_fabrics import several_of

    several = several_of(fabric)
    varied = vary_of(vary)
    ranges = [text for text in varied if _RANGE.search(text)]
    if ranges:
        uncertain = fabric_with(_single(fabric, "a range"), overrides, machine=machine)
        if len(ranges) < len(varied):
            raise ColltoolError(
                "values side by side and ranges of uncertain numbers are two questions",
                argument="vary",
                fix="ask one per call",
            )
        return request.spread(uncertain, ranges)
    if len(several) == 1 and not varied:
        return request.with_changes(fabric_with(several[0], overrides, machine=machine))
    return request.side_by_side(several, vary, overrides, machine)


def _replicas(ranks: int, counts: Mapping[str, int], dp: int | None) -> int:
    """How many replicas of attention fill the ranks of a layout.

    Raises:
        ColltoolError: no whole number, or another one than ``dp``.
    """
    replicas, ranks_over = divmod(ranks, counts["tp"] * counts["pp"])
    if ranks_over or dp not in (None, replicas):
        layout = f"tp {counts['tp']} x pp {counts['pp']}"
        if dp is not None:
            layout += f" x dp {dp}"
        raise ColltoolError(
            f"{layout} does not fill {ranks} ranks",
            argument="ranks",
            fix=f"leave it out, or add {argument_text('search', True)} for the best layout of {ranks}",
        )
    return replicas


class ServeRequest(NamedTuple):
    """The checked arguments of ``serve``, run on one fabric or deployment after the other.

    Args:
        engine: whose all-reduce runs; None for the fabric's own library.
        experts: whose dispatch and combine run; None for the fastest measured.
        by_nccl: whether NCCL's all-to-all runs in place of dispatch and combine.
    """

    model: TransformerModel
    question: ServeQuestion
    engine: LibraryFile | None
    experts: LibraryFile | None
    by_nccl: bool

    def run(
        self,
        fabric: Fabric,
        deployment: Deployment | None = None,
        engine: LibraryFile | None = None,
    ) -> Served:
        """The model on a fabric, as requested, or in another deployment or on another engine."""
        from colltool.serving.serve import serve as run

        question = self.question
        if deployment is not None:
            question = question._replace(deployment=deployment, dp=deployment.dp)
        engine = engine or self.engine
        return run(self.model, question, fabric, engine, self.experts, by_nccl=self.by_nccl)

    def with_changes(self, fabric: Fabric) -> Served:
        """The model on a fabric, and what changing either would gain."""
        from colltool.serving.changes import ServingTrial, changes

        served = self.run(fabric)

        def with_change(trial: ServingTrial) -> Served:
            return self.run(trial.fabric, trial.deployment, trial.engine)

        return replace(served, changes=changes(served, fabric, with_change))

    def best_layouts(self, fabric: Fabric, ranks: int | None, batch: int | None) -> ServeList:
        """Deployments of a number of ranks (None: of all of the fabric), the best first.

        Args:
            batch: of every layout, or they could not be compared; for None a sequence per rank,
                which fills each.
        """
        from colltool.serving.deployment import check_ranks
        from colltool.serving.search import search

        if ranks is None:
            ranks = fabric.ranks
        check_ranks(fabric, ranks, "the search", "ranks")
        has_experts = self.model.shape is not None and self.model.shape.moe is not None
        base = self.question.deployment._replace(
            # 1 without experts; 0 stands for a value that the search sets
            ep=int(not has_experts),
            batch=batch or ranks,
        )
        return search(ranks, base, partial(self.run, fabric))

    def spread(self, fabric: Fabric, ranges: list[str]) -> ServeSpread:
        """How far off the network time per token may be where numbers of the fabric are.

        Args:
            ranges: of the numbers, ``alpha=2x`` each.
        """
        from colltool.fabric.ranges import ranges_of
        from colltool.serving.spread import serve_spread

        numbers, _ = ranges_of(fabric, ranges)
        served = self.run(fabric)
        return serve_spread(served, fabric, numbers, self.run, samples=_DRAWS, seed=1)

    def side_by_side(
        self,
        fabrics: Sequence[AnyFabric],
        vary: Sequence[str] | str,
        overrides: Overrides,
        machine: CustomMachine | None,
    ) -> ServeList:
        """The model on several fabrics, or on every combination of varied values of each."""
        from colltool.commands.several_fabrics import columns_of
        from colltool.serving.results import ServeList

        columns = columns_of(fabrics, vary, overrides, None, machine)
        served = tuple(self.run(column.load(())) for column in columns)
        names = tuple(column.name for column in columns)
        return ServeList("side by side", served, names, tried=len(columns))


def _single(fabric: Any, question: str) -> Any:
    """The only fabric; ColltoolError for several.

    Args:
        question: what takes no more than one, as the error has it: ``a search``.
    """
    from colltool.commands.several_fabrics import several_of

    several = several_of(fabric)
    if len(several) > 1:
        raise ColltoolError(
            f"{question} takes a single fabric", argument="fabric", fix="give one per call"
        )
    return several[0]


@command(
    [
        MODEL_OR_JOB,
        FABRIC,
        "tp",
        "ep",
        "pp",
        "dp",
        "batch",
        "isl",
        "osl",
        "engine",
        "library_file",
        "model_file",
        "experts_library",
        "weights",
        "kv_dtype",
        "chunk",
        "tpot",
        "prefill_tp",
        "kv_library",
        "prefill_tier",
        "kv_page",
        "kv_layout",
        "two_batch_overlap",
        "mode",
        "sms",
        "serve_search",
        "serve_ranks",
        option("vary", _VARY),
        RESULT,
    ],
    public=serve,
)
def serve_command(job: str, fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Price serving a model on a fabric: tokens per second at most, the collectives of decode and
    prefill with the kernels that run them, and the lower limit of memory and compute.

    JOB is a model or a job: a shipped one, a file, or a config.json, whose quantization sets the
    bytes of the weights. A config.json of a type that is not known: its model by --model-file.

    Examples:
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --engine vllm@0.24.0
      colltool serve deepseek-v3 -f dgx-h100 --ep 64 --batch 8192 --weights fp8
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --tpot 18ms --prefill-tp 8
      colltool serve llama3-70b -f two-sites --tp 8 --batch 64 --prefill-tp 8 --prefill-over wan
      colltool serve deepseek-v3 -f dgx-h100 --ep 64 --batch 8192 --weights fp8 --two-batch-overlap
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --engine vllm --mode eager
      colltool serve llama3-70b -f hgx-h200 --search -n 16 --batch 64
      colltool serve llama3-70b -f hgx-h200 -f dgx-b200 --tp 8 --batch 64
      colltool serve llama3-70b -f hgx-h200 --tp 16 --batch 64 --vary roce.alpha=2x
    """
    served = serve(
        job, fabric.several, overrides=fabric.overrides, machine=fabric.machine, **arguments
    )
    out.emit(served)
