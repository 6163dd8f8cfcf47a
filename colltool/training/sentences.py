"""The words of a plan's assumptions and notes: the cost model finds codes with fields, and every
sentence is in this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import localize


class Remark(NamedTuple):
    """Something that figures rest on: a code of :data:`SENTENCES` and what its sentence names."""

    code: str
    fields: Mapping[str, object]


SENTENCES = {
    # what a plan assumes about its fabric, its job and the readings
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
}


def sentence(remark: Remark) -> str:
    """Return a remark in words, with arguments as the current audience calls them."""
    return localize(SENTENCES[remark.code].format(**remark.fields))
