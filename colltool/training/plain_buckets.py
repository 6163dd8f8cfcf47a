"""Buckets of the plain calls of dp that a job lists: which sizes are worth a price."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from colltool.base.primitives import AG, AR, RS, ceil_div
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.files.job import CallFile
from colltool.training.parallel_config import ParallelConfig
from colltool.training.sentences import Remark, remark


class Rebucketed(NamedTuple):
    """A listed call in other buckets, with the values that make it."""

    label: Remark
    values: dict[str, str]


def rebucketed(
    index: int, listed: CallFile, config: ParallelConfig, costs: CollectiveCostCache
) -> Iterator[Rebucketed]:
    """Yield the job's ``index``-th call in buckets that may take less; none of calls whose time is
    given, or that are no gradients or weights.

    K calls pay K latencies. Behind compute all but the last bucket hide, so the best of M bytes is
    M sqrt(latency / bandwidth part of M), where the bandwidth binds; in the open it is all of M.
    """
    gradients_or_weights = listed.group == "dp" and listed.primitive in (AR, RS, AG)
    if listed.time is not None or not gradients_or_weights:
        return
    whole = listed.count * listed.size
    yield _in_buckets(index, listed, whole)
    cost = costs.of(
        listed.primitive,
        config.layout.group("dp"),
        whole,
        what="dp",
    )
    latency_s = cost.latency_s + 2 * config.overlap.overhead_s
    if 0 < latency_s < cost.bandwidth_s:
        share = sqrt(latency_s / cost.bandwidth_s)
        yield _in_buckets(index, listed, share * whole)


def _in_buckets(index: int, listed: CallFile, bucket: float) -> Rebucketed:
    """Return a listed call in buckets of about so many bytes: whole tensors, or equal parts of
    each."""
    primitive = listed.primitive.label
    parts = round(listed.size / bucket)
    tensors = max(1, round(bucket / listed.size))
    changed = {"bucket": _megabytes(tensors * listed.size)}
    label = remark(
        "fused_calls",
        count=listed.count,
        primitive=primitive,
        calls=ceil_div(listed.count, tensors),
    )
    if parts > 1:
        changed = {
            "size": _megabytes(listed.size / parts),
            "count": str(listed.count * parts),
        }
        if listed.bucket is not None:
            changed["bucket"] = "null"
        label = remark(
            "split_calls",
            primitive=primitive,
            calls=parts,
        )
    values = {}
    for key, text in changed.items():
        values[f"calls.{index}.{key}"] = text
    return Rebucketed(label, values)


def _megabytes(size: float) -> str:
    """Bytes as a job file takes them, to the byte."""
    megabytes = size / 1e6
    return f"{megabytes:.12g}MB"
