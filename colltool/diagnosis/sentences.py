"""What a diagnosis says, by code: the words of causes, findings, notes and reasons.

A field may have a unit as its format: ``{share:percent}`` is 80% of 0.8, ``{size:size}`` 64 KiB.
tests/diagnosis/test_sentences.py holds the fields of every sentence against where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from string import Formatter
from typing import Any

from colltool.base.formatting import format_rate, format_time, percent, size_text, whole_percent

UNITS: dict[str, Callable[[float], str]] = {
    "percent": whole_percent,
    "error": partial(percent, digits=0),
    "rate": partial(format_rate, digits=3),
    "size": size_text,
    "time": partial(format_time, digits=3),
}

CAUSES = {
    "cause-nvls-off": (
        "NVLS is off: NCCL reduces in rings and not in the NVSwitch (NCCL_NVLS_ENABLE=0, NCCL_ALGO,"
        " no multicast)"
    ),
    "cause-protocol-ll": "NCCL_PROTO=LL is set: every message carries as many flags as data",
    "cause-algorithm-ring": "NCCL_ALGO=ring is set: no other algorithm runs",
    "cause-algorithm-tree": "NCCL_ALGO=tree is set: no other algorithm runs",
    "cause-nvlinks": "{value:.0f} of the {links} NVLinks of a GPU carry data",
    "cause-links": "{value:.0f} of the {links} {tier} links of a device carry data",
    "cause-pcie": (
        "traffic between devices goes over {bus} (at {rate:rate}) and not over {tier}"
        " (NCCL_P2P_DISABLE=1)"
    ),
    "cause-slow-rank": (
        "one rank, or all, at {value:percent} of {tier}'s bandwidth: a ring runs at its slowest"
        " rank"
    ),
    "cause-rails": "{value:.0f} of {nics} NICs of a host carry data",
    "cause-sockets": "NCCL runs over TCP sockets and not over RDMA: {rate:rate} a rank",
    "cause-gpudirect": (
        "no GPUDirect RDMA: {value:percent} of {tier}'s rate is left; each byte sent is copied"
        " twice through host memory (140 GB: 280 GB of copies)"
    ),
    "cause-network": (
        "{tier} at {value:percent} of its bandwidth: slow NICs, oversubscribed uplinks, other"
        " traffic"
    ),
    "cause-latency": (
        "every call takes {value:time} more between hosts: EFA, a network plugin, or distant racks"
    ),
    "cause-clocks": (
        "everything takes {factor:.2f}x as long, small messages too: clocks, a power cap, or busy"
        " hosts"
    ),
    "cause-launch": "every call takes {value:time} more: the host launches late",
    "collapse": (
        "from {after:size} on a byte takes {factor:.1f}x as long as at {before:size}: the library"
        " changes algorithm or protocol there, or long messages congest the network"
    ),
    "congested": (
        "{network} at {reach} of its bandwidth, differently at each size: congestion, drops or a"
        " link that flaps"
    ),
    "log-says": "the log says '{quoted}'{on}",
}

EXPERIMENTS = {
    "each-nic": (
        "repeat with each GPU of the two hosts in turn: if only some NICs carry nothing, the others"
        " run as the fabric says"
    ),
    "other-half": (
        "repeat on the other half of the devices: if a single rank is slow, one of the two halves"
        " runs as the fabric says"
    ),
}

NOTES = {
    "few-ranks": (
        "{ranks} ranks: healthy nodes also reach only 55-85% of the price on so few; measure all"
        " GPUs of a host"
    ),
    "too-fast": (
        "{title}: {size} messages at {share:percent} of expected: another algorithm ran, or this is"
        " another machine than the fabric"
    ),
    "passes-short": "{title}: {share:percent} of expected, as if {cause}; check {look}",
    "dip": (
        "{title}: {share:percent} of expected at {size:size}, as expected from {after:size} on: the"
        " link is fine"
    ),
    "empty-file": "{file} is empty: skipped",
    "failed-file": "{file}: {reason}: skipped",
}

MACHINES = {
    "devices-read": "{devices}: read from the logs",
    "device-mentioned": "{device}: the text of the logs mentions it",
    "fabric-given": "fabric {fabric}, as given",
    "fabric-nearest": "fabric {fabric}, the nearest bundled one: assumed from the devices",
    "hosts-of": "{ranks} a host ran: {tier} taken as of {size}",
    "other-devices": "the devices do not match {fabric}: the nearest bundled fabric is {nearest}",
    "fits-best": (
        "the logs name no device: held against {fabric}, the usual machine that fits best;"
        " {argument} names another"
    ),
    "slowest-usual": (
        "the logs name no device: held against {fabric}, the slowest of the usual machines;"
        " {argument} names another"
    ),
    "measured-size": "{size}: the size of the measured group",
    "network-given": "the network is as given ({tier})",
    "network-logged": "{nics} NICs of {rate:g} GB/s a host: NCCL's own lines",
    "network-assumed": "the network of {fabric} is assumed: the logs do not name NICs ({tier})",
    "network-fits": (
        "{network} fit the times between hosts, {own} of {fabric} do not: the logs name no NICs"
        " ({tier})"
    ),
    "other-shape": "runs of {ranks} ranks a host: {fabric}, with {values}",
}

FLEET = {
    "slow-host": "{host} is slow: {slow} of its {runs}, at {share:percent} of the median",
    "run-failed": "{runs} run failed, it is with {hosts}",
    "runs-failed": "{runs} runs failed, all with {hosts}",
    "odd-run-again": (
        "{hosts} at {share:percent} of the median in {file}: the same hosts are fast in other runs,"
        " or transient"
    ),
    "odd-run-path": (
        "{hosts} at {share:percent} of the median in {file}: each is fast with others: their path,"
        " or transient"
    ),
    "more-odd-runs": "{count} more such runs",
    "slow-between": (
        "runs between {groups} reach {share:percent} of those inside: what joins the groups is slow"
    ),
    "all-slow": (
        "all hosts are alike, {least:percent} to {most:percent} of expected: what they share is"
        " slow, not one of them"
    ),
}

VALIDATION = {
    "mean-error": "{error} off on average over {sizes}",
    "too-few-sizes": "too few sizes to judge",
    "trust": "trust it",
    "trust-above": "trust it from {size:size} on ({above}), not below ({below})",
    "trust-below": "trust it below {size:size} ({below}), not from there on ({above})",
    "trust-nowhere": "on no range of sizes within {share:percent}",
    "reaches": "reaches the busbw predicted for {who}: {rates} at {size:size}",
    "reaches-share": "reaches {share} of the busbw predicted for {who} at {size:size} ({rates})",
    "reaches-late": ", but only from {first:size} on: {share} of it at {worst:size}",
    "faster": ("faster than {who} allows: {got:rate} busbw at {size:size}, predicted {due:rate}"),
    "faster-port": " on a {rate:rate} port",
    "faster-algorithm": "another algorithm ran, or the fabric file understates bandwidth",
    "faster-fabric": "the fabric file understates bandwidth",
    "faster-switch": ", or the library reduces in the switch",
    "one-rail": "what {used} of {nics} rails carries",
    "few-rails": "what {used} of {nics} rails carry",
    "inner-share": "{tier} at {share} of its bandwidth",
    "share-of-bandwidth": "large messages get {share} of the expected bandwidth, about {causes}",
    "not-told-apart": "the measurements cannot tell them apart",
    "without-switch": (
        "matches {algorithm} without in-network reduction (NVLS, SHARP): is it off?"
    ),
    "other-algorithm": (
        "from {first:size} to {last:size} the times match {title}, although {winners} should win"
    ),
    "floor-overhead": (
        "{where} launch overhead dominates the prediction; small messages take {took:time},"
        " {due:time} predicted"
    ),
    "floor-latency": (
        "{where} latency dominates the prediction; small messages take {took:time}, {due:time}"
        " predicted"
    ),
    "floor-software": (
        "{where} software time dominates the prediction; small messages take {took:time},"
        " {due:time} predicted"
    ),
    "floor-more": ": about {apart} more launch overhead, a higher alpha, or another algorithm",
    "floor-less": ": about {apart} less launch overhead, a lower alpha, or another algorithm",
    "repeats-differ": "repeats differ by up to {share:error} at {size:size}",
    "repeats-differ-more": ", by more than {share:percent} at {count} sizes",
    "scatter": "the times scatter by up to {share:error}: measure again",
    "out-of-line": "one size is out of line: {point}, beside {beside}",
    "several-out-of-line": "{count} sizes are out of line: {listed}",
    "step-over": "no alpha-beta curve from {first:size} to {last:size}: {before}, {after}",
    "step-between": ("no alpha-beta curve between {first:size} and {last:size}: {before}, {after}"),
    "changed-algorithm": "as when a library changes protocol or algorithm",
}

TRACES = {
    "few-ranks-of-trace": (
        "{ranks} ranks: healthy nodes also reach only 55-85% of the price on so few; larger groups"
        " tell more"
    ),
    "tier-too-fast": (
        "{tier} of {fabric} cannot be so fast: another fabric, or ranks that sit elsewhere"
        " ({argument})"
    ),
    "waits-for-untraced": "a kernel waits for the slowest rank, and there is no trace of {ranks}",
    "message-ends": (
        "the two ends of a message are measured apart, and either may wait for the other"
    ),
    "uneven-parts": (
        "the parts of these all-to-alls are uneven, while the price assumes even ones"
    ),
    "calls-do-not-pair": (
        "a kernel waits for the slowest rank, and the calls of the ranks do not pair off"
    ),
    "no-ends": "the trace does not name both ends",
    "no-ranks": "the trace does not list the ranks of the group",
    "unevenly-spaced": "the ranks of the group are not evenly spaced",
    "off-domain": "the group does not begin where domains of the fabric do",
    "several-strides": "its group has several strides",
    "outside-steps": "outside the steps",
    "too-many-calls": "a job lists at most {most}",
}

SENTENCES = CAUSES | EXPERIMENTS | NOTES | MACHINES | FLEET | VALIDATION | TRACES


class _Words(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        unit = UNITS.get(format_spec)
        return unit(value) if unit else str(super().format_field(value, format_spec))


_WORDS = _Words()


def sentence(code: str, **fields: Any) -> str:
    """The words of a code with its fields."""
    return _WORDS.vformat(SENTENCES[code], (), fields)
