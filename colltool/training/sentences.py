"""Words of what a plan says: assumptions, changes of a job, warnings, proposals and targets.

The cost model yields a :class:`Remark`, a code with fields; :data:`SENTENCES` has the sentence of
each code, and :func:`sentence` fills in the fields. Errors keep their words where they are raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import localize


class Remark(NamedTuple):
    """Something to tell a user: a code of :data:`SENTENCES` and the fields of its sentence."""

    code: str
    fields: Mapping[str, object]


def remark(code: str, **fields: object) -> Remark:
    """Return the remark of a code, with the fields that its sentence names."""
    return Remark(code, fields)


# by code
SENTENCES = {
    # what a plan assumes about its fabric, its job and the model options
    "readings": "readings: {readings}",
    "slice": (
        "the ranks are a slice of {shape} of {tier}; another, such as {other}, is asked for by its"
        " shape"
    ),
    "device_of_fabric": "computes on {device}, {fabric}'s device",
    "device_of_job": "computes on {device}, the job's: {fabric} names no device",
    "drafted": (
        "drafted from the model alone: sequence {sequence}, a batch of {batch} sequences; {other}"
        " for another"
    ),
    "assumed_imbalance": (
        "the busiest rank of experts is taken at {imbalance:g} times the mean; forced even: {even}"
    ),
    "recompute_of_stack": (
        "recompute {recompute}, as {stack} does unless it is told: {other} for another"
    ),
    "not_counted": "not counted: {part}",
    # what a step rests on
    "assumed_efficiency": (
        "efficiency of stack {stack} on {generation} is partly assumed, not measured"
    ),
    "whole_step_times": ("compute gives times of a whole step: nothing hides under single layers"),
    "library_choice": "algorithms: {libraries}'s own choice, where it has a cost model",
    "fastest_of_any": "algorithms: the fastest of any library; a library may pick others",
    "fastest_of_library": (
        "algorithms: the fastest that {library} implements; a library may pick others"
    ),
    "no_launch_overhead": (
        "{fabric} gives no launch overhead: {calls:,.0f} exposed calls are lower bounds (at"
        " {launch} per launch, +{extra})"
    ),
    "padded_strides": "{dimensions}: every {stride} ranks do not tile {sizes}",
    "padded_size": "{name} of {before}, priced on {after}",
    "missing_energy": ("{tier} has no energy figure and counts as 0: set {tier}.energy=30pJ/bit"),
    # what was changed of a shipped job or a drafted one
    "whole_domains": (
        "{used} of the {ranks} ranks of each {tier} domain, as layouts of powers of two use them"
    ),
    "device_runs": "{values}: what {device} runs",
    "fewer_ranks": ("on {used} of the {ranks} ranks: its layout and batch do not fill {ranks}"),
    "fastest_layout": "its layout is the fastest that fits {job}: {layout}",
    "nearest_layout": (
        "its own layout does not fit {ranks} ranks here, the nearest that does: {layout}"
    ),
    # what the loads of links leave out
    "links_not_counted": "not counted, {dimensions}: {reason}",
    "too_many_messages": "{algorithm} on {ranks} ranks sends too many messages to follow",
    "links_of_given_times": (
        "not counted, {dimensions}: their time is given, so their links are unknown"
    ),
    "links_counted_evenly": (
        "{dimensions}: counted evenly; the step time has the busiest rank's load"
    ),
    # warnings of a job file; the reason of each is in WARNING_REASONS
    "partial_tiles": "{side} is {size}, no multiple of {tile}",
    "few_micro_batches": "{micro_batches} micro-batches for {stages} pipeline stages",
    # proposals: changes of the job
    "recompute": "recompute {recompute}",
    "sequence_parallelism": "sequence parallelism",
    "hide_tp": "TP behind split GEMMs",
    "hide_dp": "gradients behind the backward pass",
    "hide_pp": "pipeline borders behind compute",
    "hide_cp": "the ring behind attention",
    "hide_ep": "tokens behind another batch",
    "larger_buckets": "larger buckets",
    "smaller_buckets": "smaller buckets",
    "gradients_in_16_bits": "gradients in 16 bits",
    "gradients_in_int8": "gradients in int8, up to {extra_steps:.0%} more steps",
    "sharded_states": "optimizer states sharded",
    "whole_gradients": (
        "whole gradients on each rank, optimizer states sharded (ZeRO-1), {memory} a rank"
    ),
    "whole_weights": (
        "whole weights and gradients on each rank, optimizer states sharded (ZeRO-1), {memory} a"
        " rank"
    ),
    "sharded_weights": "weights sharded (FSDP)",
    "shards_inside_tier": "shards inside {tier}, replicas across",
    "tp_inside_tier": "TP inside {tier}",
    "further_in": "{dimension} further in",
    "experts_inside_tier": "experts inside {tier}",
    "deduplicate": "a token once to each rank",
    "context_mode": "context parallel by {mode}",
    "more_chunks": "{chunks} chunks a stage",
    "split_weight_gradients": "weight gradients in the bubble",
    "smaller_micro_batches": "smaller micro-batches",
    "larger_micro_batches": "larger micro-batches",
    "other_tp": "TP {size}",
    "no_tp": "no TP",
    "other_pp": "a pipeline of {size}",
    "no_pp": "no pipeline",
    "other_micro_batch": "micro-batches of {size}",
    "fit_memory": "to fit the memory",
    # proposals: changes of the fabric
    "faster_tier": "twice the bandwidth of {tier}",
    "non_blocking_tier": "no oversubscription on {tier}",
    # targets, and the least of each kind that reaches them
    "target_step": "a step within {percent:.4g}% of a free network",
    "target_mfu": "an MFU of {percent:.4g}%",
    "slowest_tier": "slowest {tier}",
    "thinnest_level": "thinnest {level} of {tier}",
    "smallest_domain": "smallest {tier} domain",
    # the first lines of a written job file
    "searched_layout": "The layout is the fastest of colltool search on {fabric}, {ranks} ranks",
}

# by code of a warning: what it costs
WARNING_REASONS = {
    "not_counted": "its work and memory are missing from every figure",
    "partial_tiles": "partly filled matrix tiles cost published runs 30 to 50%",
    "few_micro_batches": "most of the step is pipeline bubble",
}

# how the MFU of a step and of a search is counted
MFU_CONVENTION = (
    "model FLOPs with the causal half of attention, over the device's dense peak in the precision"
    " of its GEMMs"
)


def sentence(remark: Remark) -> str:
    """Return a remark in words, with options as the current audience writes them."""
    return localize(SENTENCES[remark.code].format(**remark.fields))
