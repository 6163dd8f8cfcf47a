"""A training step on a fabric: its time, the best layout, several fabrics, or recorded traces.

The public functions :func:`plan`, :func:`search_layouts`, :func:`compare_plans`,
:func:`plan_sensitivity` and :func:`plan_traces` answer a question each; :func:`plan_command` calls
the one that its options ask for. :mod:`colltool.commands.plan_conflicts` refuses options of the
others, :mod:`colltool.commands.plan_requests` reads what a plan answers besides the step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from colltool.base.errors import argument_text
from colltool.base.files import remembering
from colltool.base.reach import within_reach
from colltool.base.result import progress_to
from colltool.commands.command import command
from colltool.commands.options import DRAWN_RESULT, FABRIC, READINGS, FabricChoice, Out, option
from colltool.commands.output import ProgressLine
from colltool.commands.shell import command_line
from colltool.estimate.assumptions import ModelOptions, checked

if TYPE_CHECKING:
    from colltool.analysis.jobs import Plans
    from colltool.analysis.step_spread import PlanSpread
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.definitions.overrides import Overrides
    from colltool.diagnosis.plan_traces import TracePlan
    from colltool.fabric.custom_machine import CustomMachine
    from colltool.fabric.model import Fabric
    from colltool.training.job import Job
    from colltool.training.layout_constraints import Keep
    from colltool.training.layout_results import LayoutSearch
    from colltool.training.plan import Plan
    from colltool.training.search_request import Progress

    PlanResult = TypeVar("PlanResult", Plan, LayoutSearch)
    AnyJob = Job | str | os.PathLike[str] | Mapping[str, Any]

# bound of the samples of a sensitivity: each plans a whole step
MAX_SAMPLES = 10_000
# file names of Chakra traces, plain and gzipped
TRACE_SUFFIXES = (".et", ".et.gz")
# layouts that a search on the command line keeps by default
DEFAULT_TOP = 10
# arguments that apply to one step on one fabric only
ONE_STEP_ARGUMENTS = ("target", "mtbf", "storage", "checkpoint", "restart")
# arguments of the cost model, which jobs and traces share
MODEL_ARGUMENTS = ("library", "readings")
# help of --vary
_NUMBERS_OF_A_STEP = (
    "Uncertain values: alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%, or usual for the fabric's own"
    " ranges (repeatable)."
)


def _job_of(job: AnyJob) -> Job:
    """The job itself, or as it is loaded from a path, a shipped name or a mapping."""
    from colltool.training.job import Job, load_job

    return job if isinstance(job, Job) else load_job(job, ())


def plan(
    job: AnyJob,
    fabric: AnyFabric,
    ranks: int | None = None,
    *,
    library: str | None = None,
    machine: CustomMachine | None = None,
    links: bool = False,
    compute: str | os.PathLike[str] | None = None,
    target: str | None = None,
    mtbf: str | None = None,
    storage: str | None = None,
    checkpoint: str | None = None,
    restart: str | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> Plan:
    """Plan a training step on a fabric: its time, how much communication is exposed, and what
    changes gain.

    Args:
        job, fabric: one of each, or a path, shipped name or mapping to load.
        ranks: N; default: those of the job's layout, and where its dp is auto all of the fabric.
        library: library that runs the collectives; default: the fabric's own. NCCL runs what its
            cost model picks.
        machine: as :func:`colltool.price`.
        links: also follow every message of the job to the busiest link of each kind,
            :attr:`colltool.training.plan.Plan.links`.
        compute: a CSV of measured GEMMs (M, N, K, dtype, us), used instead of the stack's
            efficiencies.
        target: find the slowest network that reaches ``"mfu=45%"``, or a step at most 5% slower
            than with a free network (``"step=5%"``).
        mtbf: mean time between failures per rank, such as ``"50000h"``; adds the steps per day with
            checkpoints written at ``storage`` (total rate, ``"200GB/s"``) every ``checkpoint``
            (default: the best interval), and ``restart`` (10min) after each failure.
        readings, **parts: options of the model, all together or one by one by name.

    Returns:
        A :class:`colltool.training.plan.Plan`; seconds, bytes, tokens/s.

    Raises:
        ColltoolError: a job or a fabric that cannot be used, or a group that does not sit on the
            fabric; says what fits.
    """
    from colltool.analysis.jobs import plan_on_fabric
    from colltool.commands.plan_requests import plan_extras, with_measured_gemms
    from colltool.commands.reading import count_if

    loaded_job = _job_of(job)
    rank_count = count_if(ranks, "ranks", least=1)
    model = checked(readings, **parts)
    return plan_on_fabric(
        with_measured_gemms(loaded_job, compute),
        _read_fabric(fabric, library, machine, model),
        rank_count,
        model,
        plan_extras(links, target, mtbf, storage, checkpoint, restart),
    )


def _read_fabric(
    fabric: AnyFabric, library: str | None, machine: CustomMachine | None, model: ModelOptions
) -> Fabric:
    """A fabric under a library and a machine, with the numbers that model options select."""
    from colltool.commands.requests import fabric_of
    from colltool.estimate.machine_factor import as_read

    return as_read(fabric_of(fabric, library, machine), model)


def search_layouts(
    job: AnyJob,
    fabric: AnyFabric,
    ranks: int | None = None,
    keep: Keep | None = None,
    *,
    top: int | None = None,
    headroom: float | None = None,
    library: str | None = None,
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    watch: Progress | None = None,
    **parts: Any,
) -> LayoutSearch:
    """Price every layout of a job that uses all ranks and fits the memory, as :func:`plan` does,
    fastest first.

    tp, sp, cp, ep, etp, pp, virtual, micro-batch, shard and recompute of the job's file are
    searched; the rest of it stays, and so does what its overrides set.

    Args:
        keep: what every layout must have: ``{"tp": 8, "shard": "zero1"}``, or ``["tp=8"]``.
        top: number of best layouts to return, which is faster; default: all.
        headroom: the share of device memory that every layout must leave free; default: by how
            much the memory of 90% of published runs exceeded its plan.
        watch: called with how much is done, and of how much.
        job, fabric, ranks, library, machine, readings, **parts: as :func:`plan`.

    Raises:
        ColltoolError: as :func:`plan`, a constraint that cannot hold, or no layout that fits; says
            what ruled them out.
    """
    from colltool.commands.reading import count_if, fraction_if, wrong
    from colltool.training.adapted import search_on_fabric

    loaded_job = _job_of(job)
    layout_count = count_if(top, "top")
    # refused here, not deep in a search of thousands of layouts
    if watch is not None and not callable(watch):
        raise wrong(
            watch, "watch", "a function of two numbers", "write watch=print, or leave it out"
        )
    model = checked(readings, **parts)
    rank_count = count_if(ranks, "ranks", least=1)
    loaded_fabric = _read_fabric(fabric, library, machine, model)
    free_share = fraction_if(headroom, "headroom")
    if free_share is not None and free_share >= 1:
        raise wrong(
            headroom, "headroom", "a share below 1", f"write {argument_text('headroom', 0.1)}"
        )
    return search_on_fabric(
        loaded_job,
        loaded_fabric,
        rank_count,
        keep,
        top=layout_count,
        readings=model,
        watch=watch,
        headroom=free_share,
    )


@remembering()
def compare_plans(
    job: AnyJob,
    fabrics: Sequence[AnyFabric],
    ranks: int | None = None,
    *,
    overrides: Overrides = (),
    library: str | None = None,
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> Plans:
    """One job on several fabrics, each planned as :func:`plan` does, the others held against the
    first.

    Args:
        fabrics: at least two.
        ranks: N; default: those of the job's layout, and where its dp is auto all of the smallest
            fabric.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        job, library, machine, readings, **parts: as :func:`plan`.

    Raises:
        ColltoolError: as :func:`plan`, or what are no fabrics.
    """
    from colltool.analysis.jobs import plans
    from colltool.commands.reading import count_if
    from colltool.commands.requests import typed_of
    from colltool.commands.several_fabrics import several_of, sweep_fabrics
    from colltool.estimate.machine_factor import as_read

    loaded_job = _job_of(job)
    model = checked(readings, **parts)
    several = several_of(fabrics)
    loaders = sweep_fabrics(several, overrides, library, machine)
    loaded_fabrics = [as_read(loader.load(()), model) for loader in loaders]
    # fabrics of one name are told apart by what the user wrote
    typed = [typed_of(fabric) for fabric in several]
    return plans(loaded_job, loaded_fabrics, count_if(ranks, "ranks", least=1), model, typed)


def plan_sensitivity(
    job: AnyJob,
    fabric: AnyFabric,
    ranks: int | None = None,
    *,
    vary: Sequence[str] | str = (),
    samples: int = 100,
    seed: int = 1,
    library: str | None = None,
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> PlanSpread:
    """The step of a job where numbers of the fabric may be other than the file says.

    Args:
        vary: ranges, as in :func:`colltool.sensitivity`; empty for the fabric's own.
        samples, seed: how many draws of all numbers at once, and their seed.
        job, fabric, ranks, library, machine, readings, **parts: as :func:`plan`.

    Raises:
        ColltoolError: as :func:`plan`, or a range that cannot be.
    """
    from colltool.analysis.step_spread import plan_spread
    from colltool.commands.reading import count_if, count_of, vary_of
    from colltool.fabric.ranges import ranges_of

    loaded_job = _job_of(job)
    model = checked(readings, **parts)
    loaded_fabric = _read_fabric(fabric, library, machine, model)
    numbers, assumed = ranges_of(loaded_fabric, vary_of(vary))
    sample_count = count_of(samples, "samples", least=2, most=MAX_SAMPLES)
    checked_seed = count_of(seed, "seed")
    return plan_spread(
        loaded_job,
        loaded_fabric,
        count_if(ranks, "ranks", least=1),
        model,
        numbers,
        assumed=assumed,
        samples=sample_count,
        seed=checked_seed,
    )


def trace_files(paths: Sequence[AnyPath]) -> list[str]:
    """The paths that are Chakra traces, and for a folder those in it, by number (``workload.10.et``
    after ``workload.9.et``); other paths are left out."""
    files: list[str] = []
    for given_path in paths:
        path = os.fspath(given_path)
        if within_reach(path) and os.path.isdir(path):
            names = [
                file_name for file_name in os.listdir(path) if file_name.endswith(TRACE_SUFFIXES)
            ]
            # shorter names, of smaller numbers, come first
            names.sort(key=lambda name: (len(name), name))
            files += [os.path.join(path, name) for name in names]
        elif path.endswith(TRACE_SUFFIXES) or _is_json_graph(path):
            files.append(path)
    return files


def _is_json_graph(path: str) -> bool:
    """Whether a file is a Chakra trace in JSON: it is read to see, as models and jobs may be JSON
    too."""
    if not path.endswith((".json", ".json.gz")):
        return False
    from colltool.logs.pytorch_trace import is_chakra_file

    return is_chakra_file(path)


@remembering()
def plan_traces(
    files: AnyPath | Sequence[AnyPath],
    fabric: AnyFabric,
    *,
    library: str | None = None,
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> TracePlan:
    """A step out of Chakra execution traces on a fabric: compute as recorded, collectives priced,
    dependencies honoured.

    Each rank's graph is walked by itself; the slowest is the step.

    Args:
        files: Chakra traces, one per rank, plain or gzipped; one path or several, or a folder of
            ``.et`` files. Rank r is rank r of the fabric.
        fabric, library, machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.plan_traces.TracePlan`; seconds, bytes.

    Raises:
        ColltoolError: as :func:`trace`, and a trace that does not say what waits for what.
    """
    from colltool.commands.reading import paths_of
    from colltool.diagnosis.plan_traces import plan_traces as run

    paths = paths_of(files, "files", "traces", "workload.0.et")
    model = checked(readings, **parts)
    # where none is a trace, all are passed on and refused when they are read
    traces = trace_files(paths) or paths
    return run(_read_fabric(fabric, library, machine, model), traces, model)


@command(
    [
        option(
            "job",
            "A job file, a shipped job, a config.json, or Chakra traces (one per rank).",
            flags="",
            metavar="",
            many=True,
        ),
        FABRIC,
        "job_ranks",
        "job_overrides",
        "model_file",
        "links",
        "library",
        "search",
        "keep",
        "layouts",
        "headroom",
        "compute",
        *ONE_STEP_ARGUMENTS,
        option("vary", _NUMBERS_OF_A_STEP, metavar="KEY=RANGE"),
        DRAWN_RESULT,
        READINGS,
    ],
    public=plan,
)
def plan_command(
    job: list[str],
    fabric: FabricChoice,
    out: Out,
    job_overrides: list[str] | None = None,
    model_file: Path | None = None,
    search: bool = False,
    vary: list[str] | None = None,
    keep: list[str] | None = None,
    top: int | None = None,
    headroom: float | None = None,
    **arguments: Any,
) -> None:
    """Plan a training step on a fabric: seconds per step, tokens per second, MFU, memory, exposed
    communication, and what to change.

    JOB is a job file, a shipped job, or a model alone: a config.json, or the name of a shipped
    model. The layout of a model alone is searched, and the output says which sequence and batch
    are assumed. Of Chakra traces (.et files or a folder of them) compute is as recorded and
    collectives are priced. A shipped fabric grows to the ranks that you ask for.

    With --search, the fastest layouts are listed. It tries every tp that divides the heads, cp
    (at least 4,096 tokens of a sequence per rank), ep that divides the experts, pp, virtual that
    divides the layers of a stage, micro-batches of powers of two, ddp, zero1, zero2 and fsdp, and
    recompute none, full, and selective without flash attention. What --job-set says stays.

    Examples:
      colltool plan llama3-70b -f dgx-h100 -n 256
      colltool plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64
      colltool plan llama3-70b -f clos-4to1 --links
      colltool plan llama3-70b -f dgx-h100 -f dgx-b200 -n 256
      colltool plan llama3-70b -f dgx-h100 -n 256 --vary alpha=2x --vary eta.beta=20%
      colltool plan my-job.yaml -f my-cluster.yaml -n 128 --set nvlink.size=64 --job-set layout.tp=4
      colltool plan config.json -f dgx-h100 -n 256
      colltool plan step -f dgx-b200
      colltool plan llama3-70b -f dgx-h100 -n 256 --target step=5%
      colltool plan llama3-70b -f dgx-h100 -n 256 --mtbf 50000h --storage 200GB/s
      colltool plan llama3-70b -f dgx-h100 -n 256 --compute my-gemms.csv
      colltool plan llama3-70b -f dgx-h100 -n 256 --search
      colltool plan llama3-70b -f dgx-h100 -n 256 --search --keep tp=8 --keep shard=zero1 --top 20
    """
    from colltool.commands.plan_conflicts import refuse_conflicts, single_job
    from colltool.commands.plan_requests import grow_fabrics
    from colltool.training.job import load_job

    # None where they were not typed
    search_options = {"keep": keep, "top": top, "headroom": headroom}
    traces = trace_files(job)
    if traces:
        job_options = {
            **arguments,
            "job_overrides": job_overrides,
            "model_file": model_file,
            "search": search,
            **search_options,
            "vary": vary,
            "plot": out.plot,
        }
        out.emit(_plan_of_traces(job, traces, fabric, job_options))
        return
    several = fabric.several
    # before anything is loaded or searched
    refuse_conflicts(
        several, search_options, arguments, search=search, vary=bool(vary), plot=out.plot
    )
    job_name = single_job(job)
    arguments["job"] = load_job(
        job_name, job_overrides or (), argument="job_overrides", model_file=model_file
    )
    fabric, fabric_notes = grow_fabrics(fabric, arguments.get("ranks"))
    # a file of the model is in the loaded job, and plan() takes none
    typed_arguments = {**arguments, "model_file": model_file}
    as_typed = _AsTyped(job_name, fabric, typed_arguments, fabric_notes)
    with (
        ProgressLine("pricing samples" if vary else "searching layouts") as watch,
        progress_to(watch),
    ):
        if search:
            out.emit(as_typed.on(_layouts(fabric, search_options, arguments)))
        elif len(several) > 1:
            out.emit(_plans_of_fabrics(fabric, arguments))
        elif vary:
            out.emit(_plan_spread(fabric, vary, arguments))
        else:
            out.emit(as_typed.on(plan(fabric=fabric.load(), **arguments)))


def _plan_of_traces(
    paths: list[str], traces: list[str], fabric: FabricChoice, options: dict[str, Any]
) -> TracePlan:
    """The step of Chakra traces, which take no options but those of the cost model.

    Args:
        paths, traces: the files and folders as typed, and the traces that they are.
        options: all that was typed, beside the fabric; those of the cost model are removed.
    """
    from colltool.commands.plan_conflicts import refuse_with_traces

    model = {name: options.pop(name) for name in MODEL_ARGUMENTS if name in options}
    refuse_with_traces(paths, traces, options)
    return plan_traces(traces, fabric.load(), **model)


class _AsTyped(NamedTuple):
    """The command of a plan or a search, for a result to carry.

    Args:
        job: the job as typed.
        fabric: by names with the nodes that they grew to.
        arguments: of :func:`plan`, and the model's file; they lack what was not typed.
        fabric_notes: what to say of fabrics that grew.
    """

    job: str
    fabric: FabricChoice
    arguments: dict[str, Any]
    fabric_notes: list[str]

    def on(self, result: PlanResult) -> PlanResult:
        """The result with the command that asked for it, and with the notes on its fabric first."""
        return replace(
            result,
            typed=self._line(result.ranks),
            grounds=(*self.fabric_notes, *result.grounds),
        )

    def _line(self, ranks: int) -> str:
        """The command that plans the job on so many ranks, without overridden values of the job,
        which the result adds."""
        options = {
            argument: self.arguments.get(argument)
            for argument in ("library", "compute", "model_file")
        }
        return command_line(
            "plan",
            self.job,
            fabrics=self.fabric.names,
            sets=self.fabric.overrides,
            readings=self.arguments.get("readings"),
            options={"ranks": ranks, **options, "machine": self.fabric.machine},
        )


def _layouts(
    fabric: FabricChoice, search_options: dict[str, Any], arguments: dict[str, Any]
) -> LayoutSearch:
    """The layouts that ``--search`` lists."""
    return search_layouts(
        fabric=fabric.load(),
        keep=search_options["keep"] or (),
        # None: not typed
        top=search_options["top"] or DEFAULT_TOP,
        headroom=search_options["headroom"],
        **_shared_arguments(arguments),
    )


def _plans_of_fabrics(fabric: FabricChoice, arguments: dict[str, Any]) -> Plans:
    """The job on several fabrics."""
    return compare_plans(
        fabrics=fabric.several,
        overrides=fabric.overrides,
        machine=fabric.machine,
        **_shared_arguments(arguments),
    )


def _plan_spread(fabric: FabricChoice, vary: list[str], arguments: dict[str, Any]) -> PlanSpread:
    """The step under ranges of the fabric's numbers."""
    # "usual" stands for the fabric's own ranges: no ranges to pass on
    ranges = [text for text in vary if text != "usual"]
    return plan_sensitivity(fabric=fabric.load(), vary=ranges, **_shared_arguments(arguments))


def _shared_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a plan that searches, comparisons and sensitivities take too. They take no
    ``compute``: its measured GEMMs are put into the job."""
    from colltool.commands.plan_requests import with_measured_gemms

    shared: dict[str, Any] = {
        argument: arguments[argument]
        for argument in ("ranks", *MODEL_ARGUMENTS)
        if argument in arguments
    }
    return {**shared, "job": with_measured_gemms(arguments["job"], arguments.get("compute"))}
