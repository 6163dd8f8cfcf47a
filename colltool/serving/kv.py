"""The transfer of a prompt's KV cache from prefill to decode machines: :func:`kv_transfer`.

Bytes follow from how both sides hold the cache: tensor parallelism splits the KV heads, as far as
there are any, and a latent cache is whole on every rank. Messages follow from its pages.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.primitives import P2P
from colltool.engines.estimates import kernel_estimate, outside
from colltool.engines.files import KernelFile
from colltool.engines.formulas import FORMULAS, KernelCall, KernelTimes
from colltool.engines.measured import measured_kernels
from colltool.engines.site import kernel_site
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.serving.deployment import Deployment, kv_bytes, kv_bytes_of_rank, shape_of
from colltool.serving.question import ServeQuestion
from colltool.serving.results import KvTransfer, ServedPhase
from colltool.training.model import TransformerModel


class _MovedCache(NamedTuple):
    """What moves for one prompt.

    Args:
        bytes: into all ranks of a decode replica; more than the cache where several hold the same.
        streams: pairs of ranks that move it at once.
        messages: of a stream, each a part of a page that is contiguous on both sides.
    """

    bytes: float
    streams: int
    messages: int


class _TransferPath(NamedTuple):
    """The way from prefill to decode.

    Args:
        tier: whose NICs and links the cache crosses.
        latency_s: one way, where it is a distance that the kernels were not measured over.
        shared_Bps: of all streams together; None if each has its own way.
    """

    tier: Tier
    latency_s: float = 0.0
    shared_Bps: float | None = None


def kv_transfer(
    model: TransformerModel,
    deployment: Deployment,
    fabric: Fabric,
    question: ServeQuestion,
    prefill: ServedPhase,
) -> KvTransfer | None:
    """Return the transfer of a prompt's cache; None if no machines for prefill were asked for.

    Layer by layer it overlaps with prefill, so that only the last layer may be exposed.

    Raises:
        ColltoolError: a library that was not measured there, a tier that the fabric lacks.
    """
    if question.prefill_tp is None or question.kv is None:
        return None
    library = question.kv
    path = _transfer_path(fabric, question.prefill_tier)
    moved = _moved_cache(model, deployment, question, question.prefill_tp)
    # a rank of each side; of a fabric with room for one side alone any group says which GPU it is
    pair = None
    if deployment.tp * 2 <= fabric.ranks:
        pair = GroupSpec(2, deployment.tp)
    # prefill and decode are on different machines, even if the fabric has one node
    site = kernel_site(fabric, pair)._replace(nodes=2)
    # a library that moves KV caches has one kernel for it
    measured, *_ = measured_kernels(library, "kv_transfer", site)
    kernel = measured.kernel
    times = _times(kernel, moved, path)
    # a layer's cache is sent while the next layer is computed, which takes layer_floor_s at least
    layer_s = times.bandwidth_s / model.layers
    layer_floor_s = None
    hiding_nic_Bps = None
    if prefill.floor_s is not None:
        layer_floor_s = prefill.floor_s / model.layers
        layer_Bps = moved.bytes / model.layers / layer_floor_s
        # kernels of transfers reach a share eta of the NICs
        hiding_nic_Bps = layer_Bps / moved.streams / kernel.parameters["eta"]
    is_hidden = layer_floor_s is not None and layer_s <= layer_floor_s
    unmeasured = _notes(kernel, moved, path)
    estimate = kernel_estimate(measured, library, site, moved.bytes, times, unmeasured)
    return KvTransfer(
        bytes=kv_bytes(model, deployment.kv_dtype) * deployment.input,
        pairs=moved.streams,
        kernel=f"{library.full_name} {kernel.name}",
        total_s=times.total_s,
        layer_s=layer_s,
        prefill_layer_s=layer_floor_s,
        hidden=is_hidden,
        exposed_s=times.latency_s + layer_s if is_hidden else times.total_s,
        hiding_nic_Bps=hiding_nic_Bps,
        error=estimate.error,
        interval=estimate.interval,
        notes=estimate.notes,
        moved_bytes=moved.bytes,
        messages=moved.messages,
        tier=path.tier.name,
    )


def _times(kernel: KernelFile, moved: _MovedCache, path: _TransferPath) -> KernelTimes:
    """Seconds of the whole cache by the kernel, on this path."""
    nic_Bps = capabilities_of(path.tier).rate_Bps
    call = KernelCall(moved.streams, moved.bytes, nic_Bps=nic_Bps, messages=moved.messages)
    times = FORMULAS[kernel.formula].of(kernel.parameters, call)
    bandwidth_s = times.bandwidth_s
    if path.shared_Bps is not None:
        bandwidth_s = max(bandwidth_s, moved.bytes / path.shared_Bps)
    return KernelTimes(times.latency_s + path.latency_s, bandwidth_s)


def _notes(kernel: KernelFile, moved: _MovedCache, path: _TransferPath) -> list[str]:
    """How the transfer differs from what was measured."""
    notes = outside(kernel.ranks, moved.streams, "on", "pairs")
    if path.latency_s:
        notes.append(f"not measured over {path.tier.name}: loss on the way is not counted")
    return notes


def _moved_cache(
    model: TransformerModel, deployment: Deployment, question: ServeQuestion, prefill_tp: int
) -> _MovedCache:
    """What moves for one prompt into the ranks of a decode replica."""
    ranks = deployment.tp * deployment.pp
    cache_bytes = kv_bytes_of_rank(model, deployment) * deployment.input * ranks
    # both sides send and receive at once, each rank over its own NIC
    streams = min(prefill_tp, ranks)
    rank_messages = _rank_messages(model, deployment, question, prefill_tp)
    return _MovedCache(cache_bytes, streams, ceil(rank_messages * ranks / streams))


def _rank_messages(
    model: TransformerModel, deployment: Deployment, question: ServeQuestion, prefill_tp: int
) -> float:
    """Messages into a rank of decode for one prompt, in the mean over stages."""
    pages = ceil(deployment.input / question.kv_page)
    if question.kv_layout == "pages":
        # all layers of a page are together
        return pages
    messages = 0.0
    for mixer in shape_of(model).parts:
        if not mixer.on().value(mixer.description.cache):
            continue
        page_messages = 1.0
        if not mixer.description.on_all_ranks:
            heads = dict(mixer.sizes)["kv_heads"]
            sources = min(prefill_tp, heads)
            targets = min(deployment.tp, heads)
            # keys and values, from each rank that has some of the heads
            page_messages = 2 * max(1.0, sources / targets)
            if question.kv_layout == "tokens" and sources != targets:
                # the heads of a token are together, so that some of them are a message a token
                page_messages *= question.kv_page
        messages += mixer.share * page_messages * pages
    return messages * model.layers / deployment.pp


def _transfer_path(fabric: Fabric, name: str | None) -> _TransferPath:
    """The tier between prefill and decode: the outermost one within a site, or the named one.

    Raises:
        ColltoolError: the fabric has no tier of this name.
    """
    domain_ranks = fabric.ranks
    for tier in reversed(fabric.tiers):
        domain_ranks //= tier.endpoints
        abilities = capabilities_of(tier)
        # a tier that joins sites has a class of pairs over its trunks
        trunks = [part for part in abilities.classes if part.name == "trunk"]
        if name is None and trunks and domain_ranks > 1:
            continue
        if name in (None, tier.name):
            if not trunks:
                return _TransferPath(tier)
            pair = GroupSpec(2, domain_ranks, alone=True)
            latency_s = float(price(fabric, P2P, 1.0, pair).best.total_s)
            shared_Bps = domain_ranks * abilities.rate_Bps / trunks[0].oversubscription
            return _TransferPath(tier, latency_s, shared_Bps)
    known = ", ".join(tier.name for tier in fabric.tiers)
    raise ColltoolError(
        f"{fabric.name} has no tier '{clipped(str(name))}'",
        argument="prefill_tier",
        fix=f"it has {known}",
    )
