"""The network's part of a token: by engine, group and kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import parse_time
from colltool.commands.command import command
from colltool.commands.options import FABRIC, JOB_FILE, RESULT, FabricChoice, Out, option

if TYPE_CHECKING:
    from colltool.commands.plan import AnyJob
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.definitions.reader import Overrides
    from colltool.engines.files import AskedLibrary
    from colltool.fabric.model import Fabric
    from colltool.fabric.own_machine import OwnMachine
    from colltool.serving.deployment import Deployment
    from colltool.serving.results import Served, ServeList, ServeQuestion
    from colltool.serving.spread import ServeSpread
    from colltool.training.model import TransformerModel


_RANGE = re.compile(r"=\s*(?:[\d.]+\s*(?:x|%)|[^,]+:[^,]+)$")


_DRAWS = 200


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
    experts_library: str | None = None,
    weights: str = "bf16",
    kv_dtype: str = "bf16",
    chunk: int = 8192,
    tpot: str | float | None = None,
    prefill_tp: int | None = None,
    kv_library: str | None = None,
    search: bool = False,
    ranks: int | None = None,
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    machine: OwnMachine | None = None,
) -> Served | ServeList | ServeSpread:
    """The network's part of decode and prefill: each collective with its group, bytes, kernel, time
    and share.

    Args:
        job: a job or a model, or a path (a config.json too), shipped name or mapping to load; its
            model is what counts.
        fabric: a fabric, or a path or shipped name to load; several are put side by side.
        tp, pp, dp: tensor and pipeline parallelism, and replicas of attention; dp follows from ep
            and tp.
        ep: ranks that the experts of a layer are on; up to tp they are cut with it, and nothing is
            exchanged.
        batch: sequences in flight in all. isl, osl: input and output tokens of one.
        engine: whose all-reduce: ``"vllm@0.24.0"``; default: the fabric's own library.
            library_file: a file in its place.
        experts_library: whose dispatch and combine: ``"deepep@1"``, or ``"nccl"``; default: the
            fastest measured there.
        weights, kv_dtype: bf16, fp8, nvfp4.
        chunk: tokens of a step of prefill.
        tpot: time of a token, ``"18ms"`` or seconds: the network's share of it.
        prefill_tp: prefill on machines of its own: adds the transfer of the KV cache by
            ``kv_library`` (default: mooncake).
        search: over cuts of ``ranks`` into tp, pp, dp and ep; ``tp`` and the like are then ignored.
        vary: values of the fabric, ``"ib.bandwidth=50GB/s,100GB/s"``, side by side; or ranges,
            ``"alpha=2x"``, as in :func:`colltool.sensitivity`: how far off the time of a token may
            be. overrides: as for ``--set``, of every fabric.
        machine: as :func:`colltool.price`.

    Returns:
        A :class:`colltool.serving.results.Served`, seconds and bytes; of several fabrics, values or
        cuts a :class:`colltool.serving.results.ServeList`; of ranges a
        :class:`colltool.serving.spread.ServeSpread`.

    Raises:
        ColltoolError: a deployment that does not fit, kernels that were not measured on the
            machine.
    """
    from colltool.commands.reading import count_if, count_of, flag_of, vary_of
    from colltool.commands.requests import several_of
    from colltool.serving.deployment import Deployment
    from colltool.serving.results import ServeQuestion

    counts = {"tp": tp, "ep": ep, "pp": pp, "isl": isl, "osl": osl, "chunk": chunk}
    own = {name: count_of(value, name, 1, 2**24) for name, value in counts.items()}
    replicas = count_if(dp, "dp", 1)
    least = own["pp"] * (replicas or max(1, own["ep"] // own["tp"]))
    deployment = Deployment(
        tp=own["tp"],
        ep=own["ep"],
        pp=own["pp"],
        dp=replicas or 1,
        batch=count_if(batch, "batch", 1) or least,
        input=own["isl"],
        output=own["osl"],
        dtype=dtype_of(weights, "weights"),
        kv_dtype=dtype_of(kv_dtype, "kv_dtype"),
        chunk=own["chunk"],
    )
    question = ServeQuestion(
        deployment,
        replicas,
        _time(tpot),
        count_if(prefill_tp, "prefill_tp", 1),
        _kv_library(kv_library),
    )
    asked = _ServeAsked(
        model_of(job), question, _engine(engine, library_file), *_experts(experts_library)
    )
    if flag_of(search, "search"):
        return asked.searched(
            _loaded(_one(fabric), overrides, machine), count_if(ranks, "ranks", 1), batch
        )
    if ranks is not None:
        raise ColltoolError(
            "is of a search",
            argument="ranks",
            fix=f"add {given('search', True)}, or give tp, pp and ep",
        )
    several = several_of(fabric)
    if ranges := [one for one in vary_of(vary) if _RANGE.search(one)]:
        return asked.spread(_loaded(_one(fabric), overrides, machine), vary_of(vary), ranges)
    if len(several) == 1 and not vary_of(vary):
        return asked.on(_loaded(several[0], overrides, machine))
    return asked.beside(several, vary, overrides, machine)


class _ServeAsked:
    """A question that is put to several fabrics or deployments."""

    def __init__(
        self,
        model: TransformerModel,
        question: ServeQuestion,
        engine: AskedLibrary | None,
        experts: AskedLibrary | None,
        by_nccl: bool,
    ) -> None:
        self.model, self.question, self.engine, self.experts, self.by_nccl = (
            model,
            question,
            engine,
            experts,
            by_nccl,
        )

    def run(
        self, fabric: Fabric, deployment: Deployment, dp: int | None, engine: AskedLibrary | None
    ) -> Served:
        from colltool.serving.serve import serve as run

        asked = self.question._replace(deployment=deployment, dp=dp)
        return run(self.model, asked, fabric, engine, self.experts, by_nccl=self.by_nccl)

    def on(self, fabric: Fabric, *, changed: bool = True) -> Served:
        from colltool.engines.files import find_library
        from colltool.serving.changes import changes

        served = self.run(fabric, self.question.deployment, self.question.dp, self.engine)
        if not changed:
            return served

        def again(deployment: Deployment, engine: str | None, other: Fabric | None) -> Served:
            taken = find_library(engine) if engine else self.engine
            return self.run(other or fabric, deployment, deployment.dp, taken)

        return replace(served, changes=changes(served, fabric, again))

    def searched(self, fabric: Fabric, ranks: int | None, batch: int | None) -> ServeList:
        from colltool.serving.changes import search

        base = self.question.deployment._replace(ep=0, batch=batch or 0)

        def run(deployment: Deployment) -> Served:
            fits = deployment._replace(batch=deployment.batch or deployment.dp * deployment.pp)
            return self.run(fabric, fits, deployment.dp, self.engine)

        has_experts = self.model.shape is not None and self.model.shape.moe is not None
        return search(ranks or fabric.ranks, base if has_experts else base._replace(ep=1), run)

    def spread(self, fabric: Fabric, vary: Sequence[str], ranges: Sequence[str]) -> ServeSpread:
        from colltool.fabric.variants import ranges_of
        from colltool.serving.spread import serve_spread

        if len(ranges) < len(vary):
            what = "values side by side and ranges of uncertain numbers are two questions"
            raise ColltoolError(what, argument="vary", fix="one of them a call")
        numbers, _ = ranges_of(fabric, list(vary))

        def run(other: Fabric) -> Served:
            return self.run(other, self.question.deployment, self.question.dp, self.engine)

        return serve_spread(run(fabric), fabric, numbers, run, samples=_DRAWS, seed=1)

    def beside(
        self,
        fabrics: Sequence[AnyFabric],
        vary: Sequence[str] | str,
        overrides: Overrides,
        machine: OwnMachine | None,
    ) -> ServeList:
        from colltool.commands.requests import columns_of
        from colltool.serving.results import ServeList

        columns = columns_of(fabrics, vary, overrides, None, machine)
        served = tuple(self.on(one.load(()), changed=False) for one in columns)
        return ServeList("side by side", served, tuple(one.name for one in columns), len(columns))


def _loaded(fabric: AnyFabric, overrides: Overrides, machine: OwnMachine | None) -> Fabric:
    from colltool.commands.reading import is_nothing, machine_if
    from colltool.commands.requests import fabric_of
    from colltool.fabric.load import load_fabric

    if is_nothing(overrides):
        return fabric_of(fabric, machine=machine)
    return load_fabric(fabric, overrides, machine_if(machine))  # type: ignore[arg-type]


def _one(fabric: Any) -> Any:
    from colltool.commands.requests import several_of

    several = several_of(fabric)
    if len(several) > 1:
        raise ColltoolError("a search is on one fabric", argument="fabric", fix="one a call")
    return several[0]


def model_of(job: AnyJob) -> TransformerModel:
    """Return the model that a job trains or serves."""
    from colltool.training.job import Job, load_job

    loaded = job if isinstance(job, Job) else load_job(job, ())
    if loaded.draft.model is None:
        raise ColltoolError(
            f"{loaded.name} names no model",
            argument="job",
            fix="a job with a model, or a config.json",
        )
    return loaded.draft.model


def dtype_of(value: Any, argument: str) -> str:
    """Return the lower-case name of a number format whose width is known."""
    from colltool.commands.reading import text_of
    from colltool.engines.formulas import WIDTHS

    name = text_of(value, argument, "bf16").lower()
    if name not in WIDTHS:
        raise ColltoolError(
            f"'{name}' is not known", argument=argument, fix=f"one of {', '.join(WIDTHS)}"
        )
    return name


def _time(tpot: Any) -> float | None:
    from colltool.commands.reading import number_of

    if tpot is None:
        return None
    seconds = parse_time(tpot) if isinstance(tpot, str) else number_of(tpot, "tpot")
    if not 0 < seconds < 1e6:
        raise ColltoolError("a time above 0", argument="tpot", fix=f"write {given('tpot', '18ms')}")
    return seconds


def _engine(engine: Any, library_file: AnyPath | None) -> AskedLibrary | None:
    """An engine by name, also as ``vllm 0.24``; NCCL and the like are the fabric's own."""
    from colltool.commands.reading import text_of, wrong
    from colltool.engines.files import NCCL, find_library, library_of

    if engine is None or library_file is not None:
        if library_file is not None and not isinstance(library_file, str | os.PathLike):
            raise wrong(
                library_file,
                "library_file",
                "a path",
                f"write {given('library_file', 'mine.toml')}",
            )
        return library_of(None if engine is None else str(engine), library_file)
    name = text_of(engine, "engine", "vllm@0.24.0").strip().lower().replace(" ", "@")
    if name.partition("@")[0] == NCCL:
        return None
    found = find_library(name)
    if "all_reduce" not in found.library.operations or found.library.runs:
        what = f"{found.library.called} is no inference engine: it has no all-reduce of its own"
        raise ColltoolError(
            what,
            argument="engine",
            fix="vllm, sglang or trtllm; without it the fabric's own library runs",
        )
    return found


def _experts(library: Any) -> tuple[AskedLibrary | None, bool]:
    from colltool.commands.reading import text_of
    from colltool.engines.files import NCCL, find_library

    if library is None:
        return None, False
    name = text_of(library, "experts_library", "deepep@1").strip().lower().replace(" ", "@")
    return (None, True) if name == NCCL else (find_library(name), False)


def _kv_library(library: Any) -> AskedLibrary:
    from colltool.commands.reading import text_of
    from colltool.engines.files import find_library

    name = "mooncake" if library is None else text_of(library, "kv_library", "mooncake").lower()
    found = find_library(name)
    if "kv_transfer" not in found.library.operations:
        raise ColltoolError(
            f"{found.library.called} moves no KV caches", argument="kv_library", fix="mooncake does"
        )
    return found


_VARY = (
    "Values of a key of the fabric, side by side; or a range where it may be off, alpha=2x;"
    " repeatable."
)


@command(
    [
        JOB_FILE,
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
        "experts_library",
        "weights",
        "kv_dtype",
        "chunk",
        "tpot",
        "prefill_tp",
        "kv_library",
        "cuts",
        "serve_ranks",
        option("vary", _VARY),
        RESULT,
    ],
    of=serve,
)
def serve_command(job: str, fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Serving a model on a fabric: the collectives of a token and of a prompt, by which kernels,
    and what they take.

    The floor beside it is what memory and FLOPs take at least; no kernel reaches it. JOB is a
    model or a job: shipped, a file, or a config.json.

    Examples:
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --engine vllm@0.24.0
      colltool serve deepseek-v3 -f dgx-h100 --ep 64 --batch 8192 --weights fp8
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --tpot 18ms --prefill-tp 8
      colltool serve llama3-70b -f hgx-h200 --search -n 16 --batch 64
      colltool serve llama3-70b -f hgx-h200 -f dgx-b200 --tp 8 --batch 64
      colltool serve llama3-70b -f hgx-h200 --tp 16 --batch 64 --vary roce.alpha=2x
    """
    served = serve(
        job, fabric.several, overrides=fabric.overrides, machine=fabric.machine, **arguments
    )
    out.emit(served)
