"""Layer 3 on a fabric: the measured numbers of its library, put on each tier.

A fabric file has wires and contention alone. :func:`with_library_numbers` finds what was measured
of the library by the device and the medium of each tier (or takes it from a file of schema /1), and
keeps it in private attributes of the tiers, so that a key of the file still acts on every price.
:func:`under_library` does the same for another library.

A ``TierLibrary`` has the protocols of a library on a tier. The numbers of each (``ProtocolNumbers``) are
relative to the tier's own: ``share`` of its bandwidth, ``step_s`` on top of its alpha, ``stretch`` and
``line`` as factors on its eta.alpha and bandwidth.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from colltool.algorithms.libraries import LibraryName
from colltool.base.primitives import Primitive
from colltool.fabric.library import Efficiency, LibraryFacts
from colltool.fabric.media import NETWORKS, gpus_of
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.prebuilt import built_once
from colltool.fabric.tier_media import has_gpudirect, media_of
from colltool.fabric.tier_parts import Protocol
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import (
    MeasuredAt,
    ProtocolNumbers,
    SwitchNumbers,
    TierLibrary,
    reached_rows,
    tier_library,
)
from colltool.machines.shipped import machine_for


def with_library_numbers(fabric: Fabric, as_filed: Fabric | None = None) -> Fabric:
    """Return the fabric with what its library adds on each tier.

    ``as_filed``: the same file without overrides. Protocols of a file, and rates that a host
    limits, are shares of *its* numbers, so that an override scales them. Nothing measured is put on a
    fabric of any library (``all``), or with ``numbers: datasheet``.
    """
    filed = fabric
    # an override of another number of tiers leaves nothing to compare
    if as_filed is not None and len(as_filed.tiers) == len(fabric.tiers):
        filed = as_filed
    media = [medium and medium.name for medium in media_of(fabric)]
    takes_measured = fabric.library_name != "all" and fabric.numbers != "datasheet"
    # the devices or generations whose measurements may apply, nearest first
    gpus: tuple[str, ...] = ()
    facts = fabric.library_facts
    if takes_measured and facts is not None:
        gpus = gpus_of(fabric.device, facts.gpu, media, facts.name)
    tiers = []
    for tier, filed_tier, medium in zip(fabric.tiers, filed.tiers, media, strict=True):
        measured = None
        if takes_measured:
            measured = _measured(fabric, filed_tier, gpus, medium)
        listed = _listed_in_file(tier, filed_tier)
        tiers.append(tier.with_library(_with_missing_primitives(listed, measured)))
    with_tiers = fabric.model_copy(update={"tiers": tuple(tiers)})
    if not takes_measured:
        return with_tiers.with_efficiencies(()).with_machine(None)
    # the numbers of a file that lists its own include what a machine's factor would count again
    if _lists_numbers(fabric):
        return with_tiers.with_efficiencies(()).with_machine(fabric.custom_machine)
    across = media[-1] if len(media) > 1 else None
    machine = fabric.custom_machine or machine_for(fabric.device, media[0] or "", across)
    efficiencies = _efficiencies(fabric.library_name, gpus, media[-1])
    return with_tiers.with_efficiencies(efficiencies).with_machine(machine)


def _measured(
    fabric: Fabric, filed_tier: Tier, gpus: Sequence[str], medium: str | None
) -> TierLibrary | None:
    """What was measured of the fabric's library on a tier as it is in the file. None where nothing
    was."""
    # a routed tier states α per link, and a library's time per step is per pair of ranks
    if capabilities_of(filed_tier).joined_by == "routes":
        return None
    facts = fabric.library_facts
    numbers = tier_library(fabric.library_name, gpus, medium, p2p=bool(facts and facts.p2p))
    if numbers is None:
        return None
    if medium in NETWORKS and not has_gpudirect(fabric):
        # what a search found is of the way through the host's memory already
        if facts is not None and isinstance(facts.channels, tuple):
            gpus = ()
        numbers = _through_host_memory(numbers, filed_tier, gpus)
    return _with_host_rates(numbers, filed_tier)


def with_p2p(fabric: Fabric, works: bool) -> Fabric:
    """Return the fabric, of a library with facts, as one whose cards reach each other's memory over PCIe
    (``works``), or do not."""

    def made() -> Fabric:
        facts = fabric.library_facts
        assert facts is not None  # of a library that has numbers for both
        library = facts.model_copy(update={"p2p": works})
        return with_library_numbers(fabric.model_copy(update={"library": library}))

    return fabric.view(f"p2p {works}", made)


# Bytes/s of a NIC through the host's memory, in and out, on Intel's hosts, by GPU generation.
# Source: the rates of NCCL's graph search.
_STAGED_BPS = {"ampere": 10e9, "hopper": 20e9, "blackwell": 20e9}


def _through_host_memory(numbers: TierLibrary, tier: Tier, gpus: Sequence[str]) -> TierLibrary:
    """The numbers between hosts whose NICs do not reach the GPUs' memory: no LL128, and of the other
    protocols no more than the way through the host's memory carries. ``gpus``: nearest first; without a
    known one the rates stay."""
    most_share = 1.0
    for gpu in gpus:
        if gpu in _STAGED_BPS:
            most_share = _STAGED_BPS[gpu] / (tier.bandwidth * tier.eta.beta)
            break
    # NCCL switches LL128 off where a NIC may tear its 128 bytes on the way through the host
    protocols = []
    for protocol in numbers.protocols:
        if protocol.name != "LL128":
            protocols.append(protocol._replace(share=min(protocol.share, most_share)))
    return numbers._replace(protocols=tuple(protocols))


def _lists_numbers(fabric: Fabric) -> bool:
    """Whether the file itself has numbers of its library, in the form of schema /1."""
    facts = fabric.library_facts
    return any(tier.protocols for tier in fabric.tiers) or bool(facts and facts.reached)


def _with_host_rates(numbers: TierLibrary, tier: Tier) -> TierLibrary:
    """The numbers with a share in place of each rate that the host sets (``host_Bps``): of the tier's line
    rate, at most all of it."""
    line_Bps = tier.bandwidth * tier.eta.beta
    protocols = []
    for protocol in numbers.protocols:
        if protocol.host_Bps is not None:
            # half of LL's bytes are flags
            most_share = 0.5 if protocol.name == "LL" else 1.0
            share = min(protocol.host_Bps / line_Bps, most_share)
            protocol = protocol._replace(share=share)
        protocols.append(protocol)
    return numbers._replace(protocols=tuple(protocols))


def _with_missing_primitives(
    listed: TierLibrary | None, measured: TierLibrary | None
) -> TierLibrary | None:
    """The protocols that a file lists, and those that were measured, for the primitives of which the file
    lists none. None if neither has any."""
    if listed is None or measured is None:
        return listed or measured
    missing = [primitive for primitive in Primitive if not listed.protocols_for(primitive)]
    protocols = list(listed.protocols)
    for protocol in measured.protocols:
        # a protocol without primitives is of all
        of_protocol = protocol.primitives or Primitive
        primitives = tuple(primitive for primitive in of_protocol if primitive in missing)
        if primitives:
            protocols.append(protocol._replace(primitives=primitives))
    return TierLibrary(
        protocols=tuple(protocols),
        switch=listed.switch or measured.switch,
        runs={**measured.runs, **listed.runs},
        source=listed.source,
    )


def _listed_in_file(tier: Tier, filed_tier: Tier) -> TierLibrary | None:
    """The protocols that a file of schema /1 lists on a tier, relative to the tier's numbers before
    overrides. None where it lists none."""
    if not tier.protocols and not tier.algorithms:
        return None
    switch = None
    if tier.switches is not None and tier.switches.protocols is not None:
        switch = SwitchNumbers(protocols=tier.switches.protocols)
    return TierLibrary(
        protocols=tuple(
            _relative_to_tier(protocol, filed_tier) for protocol in tier.protocols or ()
        ),
        switch=switch,
        runs=dict(tier.algorithms or {}),
        source="the file's own protocols",
    )


def _relative_to_tier(protocol: Protocol, tier: Tier) -> ProtocolNumbers:
    """A protocol of schema /1, which states numbers in place of the tier's, as numbers relative to the
    tier's that give the same price."""
    eta = protocol.eta or tier.eta
    nearest_s = capabilities_of(tier).nearest_alpha_s
    alpha_s = nearest_s if protocol.alpha is None else protocol.alpha
    bandwidth = protocol.bandwidth or tier.bandwidth
    at = protocol.measured
    measured = None
    if at is not None:
        measured = MeasuredAt(at.smallest, at.largest, at.ranks)
    return ProtocolNumbers(
        name=protocol.name,
        primitives=protocol.primitives,
        launch_s=protocol.launch_overhead,
        # farther pairs keep their surplus over the nearest, under the protocol's own contention
        step_s=eta.alpha * (alpha_s - nearest_s),
        stretch=eta.alpha / tier.eta.alpha,
        share=eta.beta / tier.eta.beta,
        line=bandwidth / tier.bandwidth,
        copy_Bps=protocol.local_copy,
        measured=measured,
    )


@cache
def _efficiencies(
    library: str, gpus: tuple[str, ...], medium: str | None
) -> tuple[Efficiency, ...]:
    """The published or measured shares of bandwidth that a library reaches on a medium. Validating the rows
    takes long, so they are kept on disk under a name with all that selects them."""
    rows = reached_rows(library, gpus, medium)
    if not rows:
        return ()
    name = "-".join(["reached", library, *gpus, medium or ""])
    return built_once(Efficiency, name, json.dumps(rows), lambda: tuple(map(_efficiency, rows)))


def _efficiency(row: Mapping[str, Any]) -> Efficiency:
    """A row of the library's data as ``library.reached`` of a file has it: sizes and times with their
    units, without the media and GPUs that it is of."""
    fields = dict(row)
    del fields["media"], fields["gpus"]
    if "software" in row:
        fields["software"] = list(map(_with_units, row["software"]))
    return Efficiency.model_validate(fields)


def _with_units(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A measured time of ``software``: seconds and bytes as text."""
    time = f"{entry['time'] * 1e6:.9g}us"
    return {"ranks": entry["ranks"], "size": f"{entry['size']}B", "time": time}


def under_library(fabric: Fabric, library: LibraryName, version: str = "") -> Fabric:
    """Return the fabric with another library: facts of the hardware stay, numbers measured of the
    former library go.

    ``version``: of its cost model; measurements stay, as versions of one library share their
    kernels.
    """
    facts = fabric.library_facts
    if library != fabric.library_name:
        view = f"under {library} {version}"
        return fabric.view(view, lambda: _with_library(fabric, library, version))
    if facts is None or not version or facts.version == version:
        return fabric
    return fabric.model_copy(update={"library": facts.model_copy(update={"version": version})})


def _with_library(fabric: Fabric, library: LibraryName, version: str) -> Fabric:
    """The fabric under a library that is not its own. A fabric of any library (``all``) keeps the numbers
    of its file."""
    facts = fabric.library_facts
    if facts is None:
        named = LibraryFacts(name=library, version=version or None)
    else:
        # shares in the file were measured of the library that it names
        changes = {"name": library, "version": version or None, "reached": ()}
        named = facts.model_copy(update=changes)
        if facts.name != "all":
            fabric = fabric.on_datasheet()
    return with_library_numbers(fabric.model_copy(update={"library": named}))


def launch_of(fabric: Fabric) -> float:
    """Return the seconds that a call takes to launch: what the file states, else the least of its
    library's protocols, else 0."""
    if fabric.states_launch:
        return fabric.launch_overhead
    launches_s = []
    for tier in fabric.tiers:
        if tier.library is None:
            continue
        for protocol in tier.library.protocols:
            if protocol.launch_s is not None:
                launches_s.append(protocol.launch_s)
    return min(launches_s, default=fabric.launch_overhead)


def before_overrides(fabric: Fabric, keys: Collection[str]) -> Fabric | None:
    """Return the fabric without some of its overrides, under the same library. None if it was
    loaded with none of these."""
    kept = [f"{key}={value}" for key, value in fabric.overrides if key not in keys]
    if fabric.reload is None or len(kept) == len(fabric.overrides):
        return None
    before = fabric.reload(kept)
    facts = fabric.library_facts
    if facts is None:
        return before
    return under_library(before, facts.name, facts.version or "")
