"""What the figures of a plan rest on.

A generator for each assumption yields its remark where it holds for a :class:`PricedJob`;
:func:`assumptions` runs them all. ``sentences.toml`` has the words of each code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from colltool.base.errors import argument_text
from colltool.base.formatting import format_time, percent, shape_text
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.dispatchers import dispatcher_of
from colltool.training.group_fit import slice_of
from colltool.training.job import Job
from colltool.training.overlap import PricedCall
from colltool.training.overlap_slowdown import USUAL_SHARE, share_held, units_held
from colltool.training.roofline import power_limit_factor
from colltool.training.sentences import Remark, remark, sentence, tokens_text
from colltool.training.stack_words import FAMILIES, family_of
from colltool.training.step_time import TrainingStep

# seconds to start a collective that a note adds up where a fabric gives none: libraries were measured
# at 5 to 12 us
LAUNCH_S = 10e-6


class PricedJob(NamedTuple):
    """A job with its priced step.

    Of a configuration, ``job.file`` has what the job file says (None where it is silent),
    ``job.draft`` that with defaults filled in, and ``step.config`` that on these ranks, as priced.
    """

    job: Job
    whole_fabric: Fabric  # before a lattice was cut to the job's slice
    costs: CollectiveCostCache  # of the fabric that was priced, a slice of a lattice
    step: TrainingStep

    @property
    def fabric(self) -> Fabric:
        """The fabric that was priced."""
        return self.costs.fabric

    @property
    def priced_calls(self) -> list[PricedCall]:
        """Calls of all stages that were priced, without those whose time the job gives."""
        return [call for call in self.step.sent if call.cost.busy]


Remarks = Iterator[Remark]


def model_options(priced: PricedJob) -> Remarks:
    """Options of the model other than the default ones."""
    readings = priced.costs.readings
    if readings != ModelOptions():
        yield remark("readings", readings=readings.label())


def slice_of_lattice(priced: PricedJob) -> Remarks:
    """The shape of the slice that the ranks take of a lattice."""
    tier_and_shape = slice_of(priced.whole_fabric, priced.fabric)
    if tier_and_shape is None:
        return
    tier, shape = tier_and_shape
    # files have the outermost axis first, slices the innermost
    override_shape = ",".join(map(str, reversed(shape)))
    other = argument_text("overrides", [f"{tier.name}.shape=[{override_shape}]"])
    yield remark("slice", shape=shape_text(shape), tier=tier.name, other=other)


def assumed_device(priced: PricedJob) -> Remarks:
    """The device that computes, where the job does not name it."""
    device = priced.job.draft.device
    fabric = priced.whole_fabric
    if device is None:
        return
    if priced.job.device_from == "fabric":
        yield remark("device_of_fabric", device=device.name, fabric=fabric.name)
    elif priced.job.device_from == "default" and fabric.device is None:
        yield remark("device_of_job", device=device.name, fabric=fabric.name)


def drafted(priced: PricedJob) -> Remarks:
    """Sequence and batch of a job that was drafted from a model."""
    if priced.job.drafted:
        config = priced.step.config
        other = argument_text("job_overrides", ["batch.global=1024"])
        yield remark(
            "drafted",
            sequence=config.sequence,
            batch=config.global_batch,
            tokens=tokens_text(config.global_batch * config.sequence),
            other=other,
        )


def assumed_imbalance(priced: PricedJob) -> Remarks:
    """The imbalance of experts, where the job does not give it."""
    moe = priced.step.config.moe
    if moe is not None and not moe.imbalance_given:
        even = argument_text("job_overrides", ["model.moe.imbalance=1"])
        yield remark("assumed_imbalance", imbalance=moe.imbalance, even=even)


def deduplicated_on_efa(priced: PricedJob) -> Remarks:
    """The library that deduplicates where a job names none, and DeepEP does not run."""
    layout = priced.step.config.layout
    if layout.ep > 1 and layout.deduplicate and layout.dispatcher is None:
        dispatcher = dispatcher_of(layout, priced.fabric)
        if dispatcher is not None:
            other = argument_text("job_overrides", ["layout.deduplicate=false"])
            yield remark("deduplicated_on_efa", dispatcher=dispatcher.spoken, other=other)


def recompute_of_stack(priced: PricedJob) -> Remarks:
    """Recomputation that the stack does by default."""
    stack = priced.job.draft.stack
    recompute = priced.step.config.recompute
    if stack is None or priced.job.file.recompute is not None or recompute == "none":
        return
    if recompute == stack.recompute:
        other = argument_text("job_overrides", ["recompute=none"])
        yield remark("recompute_of_stack", recompute=recompute, stack=stack.name, other=other)


def stack_choice(priced: PricedJob) -> Remarks:
    """Which stack of a family the job runs on, and why."""
    stack = priced.step.config.stack
    file = priced.job.file
    if stack is None or priced.step.config.compute is not None:
        return
    family = FAMILIES.get(family_of(stack.name))
    if family is None or not isinstance(file.stack, str):
        return
    word = family.word.replace("_", " ")
    is_on = getattr(file, family.word)
    if is_on is not None:
        yield remark(
            "stack_by_word",
            stack=stack.name,
            what=stack.description,
            word=word,
            said="on" if is_on else "off",
        )
    elif file.stack == family_of(stack.name):
        yield remark("stack_left_open", stack=stack.name, what=stack.description, key=family.word)


def power(priced: PricedJob) -> Remarks:
    """The power state that GEMMs run in."""
    config = priced.step.config
    stage = priced.step.slowest.compute
    layer = stage.moe or stage.dense
    if config.stack is None or config.device is None or layer is None or config.compute:
        return
    # share of the full clock's speed that GEMMs keep without pause
    sustained = dict(config.stack.sustained).get(config.device.generation, 1.0)
    if sustained == 1 or not layer.all.total_s:
        return
    others_s = layer.all.total_s - layer.gemms_s
    power_factor = power_limit_factor(layer.gemms_s, others_s, config.roofline)
    # the factor by which GEMMs take longer than at the full clock, so that clock is one over it
    state = "its full clock" if power_factor == 1 else "its power limit"
    busy = percent(layer.gemms_s / layer.all.total_s)
    yield remark("power", busy=busy, state=state, share=percent(1 / power_factor))


def host_bound(priced: PricedJob) -> Remarks:
    """Kernels that wait for the host to launch them."""
    stage = priced.step.slowest.compute
    if stage.host.total_s:
        waits = percent(stage.host.total_s / stage.all.total_s)
        yield remark("host_bound", waits=waits)


def not_counted(priced: PricedJob) -> Remarks:
    """Parts of the model whose work and memory are not counted."""
    model = priced.job.draft.model
    for part in model.left_out if model is not None else ():
        yield remark("not_counted", part=part)


def assumed_efficiency(priced: PricedJob) -> Remarks:
    """A stack's efficiency on a device where no kernel was measured."""
    config = priced.step.config
    if config.stack is None or config.device is None or config.compute is not None:
        return
    generation = config.device.generation
    if generation in config.stack.assumed:
        yield remark("assumed_efficiency", stack=config.stack.name, generation=generation)


def whole_step_times(priced: PricedJob) -> Remarks:
    """Given times of a whole step, so that nothing hides under layers."""
    config = priced.step.config
    if config.compute is not None and not config.compute.per_layer and config.model is not None:
        yield remark("whole_step_times")


def algorithm_choice(priced: PricedJob) -> Remarks:
    """Who picked the algorithms of the calls."""
    libraries = sorted({call.cost.picked_by for call in priced.priced_calls} - {""})
    facts = priced.fabric.library_facts
    if libraries:
        yield remark("library_choice", libraries=", ".join(libraries))
    elif not priced.priced_calls:
        return
    elif facts is None or facts.name == "all":
        yield remark("fastest_of_any")
    else:
        yield remark("fastest_of_library", library=facts.name)


def overlap_by_channels(priced: PricedJob) -> Remarks:
    """The multiprocessors ("units") that hidden calls hold, by which compute slows beside them."""
    config = priced.step.config
    if config.device is None or config.overlap.sm_share is not None:
        return
    known: dict[str, int] = {}  # units by dimension, the most of any of its calls
    assumed: dict[str, None] = {}  # dimensions whose units are not known, each once
    for call in priced.step.sent:
        # messages between stages count for nothing: they hold few channels for a short time
        if call.call.per == "border" or not call.hidden_s or not share_held(config, call):
            continue
        dimension = call.call.dimension
        units = units_held(call)
        if units is None:
            assumed[dimension] = None
        else:
            known[dimension] = max(known.get(dimension, 0), units)
    if known:
        held = ", ".join(f"{dimension} {units}" for dimension, units in known.items())
        yield remark("overlap_by_channels", held=held, units=config.device.units)
    if assumed:
        usual = round(USUAL_SHARE * config.device.units)
        names = ", ".join(assumed)
        yield remark("overlap_assumed", dimensions=names, held=usual, units=config.device.units)


def no_launch_overhead(priced: PricedJob) -> Remarks:
    """Exposed calls are lower bounds where the fabric gives no launch overhead."""
    fabric = priced.fabric
    if "launch_overhead" in fabric.model_fields_set or fabric.hypothetical:
        return
    for tier in fabric.tiers:
        # a launch overhead of the library takes its place
        if tier.library and any(row.launch_s for row in tier.library.protocols):
            return
    exposed = [call for call in priced.step.critical_calls if call.exposed_s and call.cost.busy]
    calls = sum(call.call.calls for call in exposed)
    if calls:
        yield remark(
            "no_launch_overhead",
            fabric=fabric.name,
            calls=calls,
            launch=format_time(LAUNCH_S),
            extra=format_time(calls * LAUNCH_S, 2),
        )


def padded_strides(priced: PricedJob) -> Remarks:
    """Strides that do not tile the outermost tier, and the sizes that were priced in their
    place."""
    dimensions: dict[int, dict[str, None]] = {}  # by stride, each once
    for call in priced.priced_calls:
        for _, stride in call.call.group.axes:
            dimensions.setdefault(stride, {})[call.call.dimension] = None
    for stride, names in sorted(dimensions.items()):
        padded = priced.costs.padded_fabric(stride)
        if padded is not None:
            sizes = ", ".join(padded_sizes(priced.fabric, padded))
            yield remark("padded_strides", dimensions=", ".join(names), stride=stride, sizes=sizes)


def padded_sizes(fabric: Fabric, padded: Fabric) -> Iterator[str]:
    """Yield the sizes that padding changed, such as ``ib of 35, priced on 36``."""
    # padding changes the outermost tier alone
    tier = fabric.tiers[-1]
    padded_tier = padded.tiers[-1]
    sizes = [(tier.name, tier.endpoints, padded_tier.endpoints)]
    levels = capabilities_of(tier).levels
    for level, padded_level in zip(levels, capabilities_of(padded_tier).levels, strict=True):
        sizes.append((level.name, level.group, padded_level.group))
    for name, before, after in sizes:
        if before != after:
            yield sentence(remark("padded_size", name=name, before=before, after=after))


def missing_energy(priced: PricedJob) -> Remarks:
    """Tiers without an energy figure, where the job asks for energy."""
    if not priced.job.energy:
        return
    crossed = set(chain.from_iterable(call.cost.tiers for call in priced.step.sent))
    for tier in priced.fabric.tiers:
        if tier.name in crossed and tier.energy is None:
            yield remark("missing_energy", tier=tier.name)


# in the order that a plan lists them
ASSUMPTIONS: tuple[Callable[[PricedJob], Remarks], ...] = (
    model_options,
    slice_of_lattice,
    assumed_device,
    drafted,
    assumed_imbalance,
    deduplicated_on_efa,
    recompute_of_stack,
    stack_choice,
    power,
    host_bound,
    not_counted,
    assumed_efficiency,
    whole_step_times,
    algorithm_choice,
    overlap_by_channels,
    no_launch_overhead,
    padded_strides,
    missing_energy,
)


def assumptions(priced: PricedJob) -> Remarks:
    """Yield everything that the figures of a priced job rest on."""
    for assumption in ASSUMPTIONS:
        yield from assumption(priced)
