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
    "readings": "model options: {readings}",
    "slice": (
        "the ranks are a slice of {shape} of {tier}; another, such as {other}, is asked for by its"
        " shape"
    ),
    "device_of_fabric": "computes on {device}, {fabric}'s device",
    "device_of_job": "computes on {device}, the job's: {fabric} names no device",
    "drafted": (
        "assumed: sequence {sequence}, global batch {batch} ({tokens} tokens); {other} sets another"
    ),
    "deduplicated_on_efa": (
        "assumed: {dispatcher} sends each token once per rank, as DeepEP does not run over EFA;"
        " {other} for NCCL's all-to-all"
    ),
    "assumed_imbalance": (
        "assumed: the busiest expert rank gets {imbalance:g} times the mean load; {even} for an even"
        " load"
    ),
    "recompute_of_stack": (
        "assumed: recompute {recompute}, the default of {stack}; {other} turns it off"
    ),
    "stack_by_word": "stack {stack} ({what}): {word} {said}, as the job says",
    "stack_left_open": (
        "stack {stack} ({what}): assumed, as the job does not say {key}: true or false"
    ),
    "power": (
        "GEMMs take {busy} of each layer: the GPU is at {state}, and they reach {share} of their rate alone"
    ),
    "host_bound": (
        "the host launches kernels more slowly than the GPU runs them: it waits {waits} of each"
        " micro-batch"
    ),
    "not_counted": "not counted: {part}",
    # what a step rests on
    "assumed_efficiency": (
        "the efficiency of stack {stack} on {generation} is partly assumed, not measured"
    ),
    "whole_step_times": (
        "compute is given for the whole step, so nothing hides under single layers"
    ),
    "library_choice": "algorithms: what {libraries} picks, where its cost model is known",
    "fastest_of_any": "algorithms: the fastest of any library; yours may pick others",
    "fastest_of_library": (
        "algorithms: the fastest that {library} implements; the library may pick others"
    ),
    "overlap_by_channels": (
        "overlap slows compute by the multiprocessors that the library's channels hold: {held} of {units}"
    ),
    "overlap_assumed": (
        "overlap slows compute by {held} of {units} multiprocessors, as NCCL holds across H100 nodes: the"
        " channels of {dimensions} are not known here; overlap.sm_share sets the slowdown itself"
    ),
    "no_launch_overhead": (
        "{fabric} has no launch overhead, so {calls:,.0f} exposed calls are lower limits ({launch}"
        " per launch would add {extra})"
    ),
    "padded_strides": "{dimensions}: groups of every {stride}th rank do not fill {sizes}",
    "padded_size": "{name} of {before}, priced on {after}",
    "missing_energy": ("{tier} has no energy figure and counts as 0; set {tier}.energy=30pJ/bit"),
    # what was changed of a shipped job or a drafted one
    "whole_domains": (
        "the job uses {used} of the {ranks} ranks of each {tier} domain, because layouts are powers of"
        " two"
    ),
    "device_runs": "the job runs with {values}, because of {device}",
    "fewer_ranks": (
        "the job uses {used} of the {ranks} ranks: its layout and batch do not fill {ranks}"
    ),
    "fastest_layout": "searched: the fastest layout that fits is {layout}",
    "nearest_layout": (
        "its own layout does not fit {ranks} ranks here; the fastest that does is {layout}"
    ),
    # what the loads of links leave out
    "links_not_counted": "not counted: {dimensions}, because {reason}",
    "too_many_messages": "{algorithm} on {ranks} ranks sends too many messages to follow",
    "links_of_given_times": (
        "not counted: {dimensions}, because their time is given and their links are unknown"
    ),
    "links_counted_evenly": (
        "{dimensions} traffic is counted evenly here; the step time has the busiest rank's load"
    ),
    # warnings of a job file; the reason of each is in WARNING_REASONS
    "partial_tiles": "{side} is {size}, which is not a multiple of {tile}",
    "few_micro_batches": "{micro_batches} micro-batches for {stages} pipeline stages",
    # proposals: changes of the job
    "recompute": "recompute {recompute}",
    "sequence_parallelism": "sequence parallelism",
    "hide_tp": "overlap TP with GEMMs",
    "hide_dp": "overlap gradients with backward",
    "hide_pp": "overlap pipeline sends with compute",
    "hide_cp": "overlap ring attention (CP) with compute",
    "hide_ep": "overlap expert all-to-all (two micro-batches)",
    "larger_buckets": "larger gradient buckets",
    "smaller_buckets": "smaller gradient buckets",
    "fused_calls": "fuse {count:,} {primitive} calls into {calls:,}",
    "split_calls": "split each {primitive} call into {calls:,}",
    "gradients_in_16_bits": "16-bit gradients",
    "gradients_in_int8": "int8 gradients (up to {extra_steps:.0%} more steps)",
    "sharded_states": "shard optimizer states (ZeRO-1)",
    "whole_gradients": "ZeRO-1 instead of ZeRO-2 ({memory} per GPU)",
    "whole_weights": "ZeRO-1 instead of FSDP ({memory} per GPU)",
    "sharded_weights": "shard weights (FSDP)",
    "shards_inside_tier": "HSDP: shard inside {tier}, replicate across",
    "tp_inside_tier": "keep TP inside {tier}",
    "further_in": "place {dimension} further in",
    "experts_inside_tier": "keep EP inside {tier}",
    "dispatcher": "dispatch tokens with {dispatcher}",
    "context_mode": "context parallelism by {mode}",
    "more_chunks": "interleave: {chunks} chunks per stage",
    "split_weight_gradients": "zero-bubble schedule ({schedule})",
    "smaller_micro_batches": "smaller micro-batches",
    "larger_micro_batches": "larger micro-batches",
    "other_size": "{dimension} {size}",
    "no_size": "no {dimension}",
    "fit_memory": "fit the memory",
    # proposals: changes of the fabric
    "faster_tier": "double the {tier} bandwidth",
    "non_blocking_tier": "no oversubscription on {tier}",
    # targets, and the least of each kind that reaches them
    "target_step": "a step within {percent:.4g}% of a free network",
    "target_mfu": "an MFU of {percent:.4g}%",
    "slowest_tier": "slowest {tier}",
    "thinnest_level": "thinnest {level} of {tier}",
    "smallest_domain": "smallest {tier} domain",
    # the first lines of a written job file
    "searched_layout": "The layout is the fastest that colltool plan found for {ranks} ranks of {fabric}",
}

# by code of a warning: what it costs
WARNING_REASONS = {
    "not_counted": "its work and memory are missing from every figure",
    "partial_tiles": "partly filled matrix tiles cost published runs 30% to 50%",
    "few_micro_batches": "most of the step is pipeline bubble",
}

# how the MFU of a step and of a search is counted
MFU_CONVENTION = (
    "model FLOPs with the causal half of attention, over the device's dense peak in the precision"
    " of its GEMMs"
)


# usual names of tiers as their vendors write them
SPELLED = {
    "nvlink": "NVLink",
    "ib": "InfiniBand",
    "roce": "RoCE",
    "ethernet": "Ethernet",
    "pcie": "PCIe",
    "efa": "EFA",
}


def spelled(tier: str) -> str:
    """Return the name of a tier as its vendor writes it."""
    return SPELLED.get(tier, tier)


def tokens_text(count: float) -> str:
    """Return a number of tokens: ``4.2M``, ``12,288``."""
    if count < 100_000:
        return f"{count:,.0f}"
    return f"{count / 1e6:.1f}M"


def sentence(remark: Remark) -> str:
    """Return a remark in words, with options as the current audience writes them."""
    return localize(SENTENCES[remark.code].format(**remark.fields))
