"""Fabric files: list, start, show, draw, import, check and size; and NCCL's channels on a node.

First are the public functions :func:`list_fabrics`, :func:`draw_fabric` and :func:`size_fabric`; below
:data:`fabric_command` are the commands of ``colltool fabric``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.base.files import remembering
from colltool.commands.command import CommandGroup, command, each_checked
from colltool.commands.options import (
    FABRIC_FILE,
    NEW_FILE,
    RESULT,
    YAML_TOO,
    Out,
    extra_formats,
    is_yaml_wanted,
    new_file,
    option,
    result_options,
    write_schema,
)
from colltool.commands.output import BY_SUFFIX, write

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.direct_sized import DirectSized
    from colltool.fabric.library import Prices
    from colltool.fabric.load import FabricSource
    from colltool.fabric.results import FabricDrawn, FabricSized
    from colltool.network.sizing.wiring import Hop


def list_fabrics() -> list[str]:
    """The names of the shipped fabrics, sorted."""
    from colltool.fabric.load import shipped_fabrics

    return shipped_fabrics()


def draw_fabric(fabric: AnyFabric) -> FabricDrawn:
    """Draw a fabric, or a path or shipped name to load: its tiers, levels, ports and
    oversubscription.

    A notebook shows the drawing; ``.svg`` is a single ``<svg>`` element, light or dark like the
    reader's screen. The same fabric always gives the same text.
    """
    from colltool.commands.requests import fabric_of
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricDrawn

    loaded = fabric_of(fabric)
    return FabricDrawn(loaded, fabric_facts(loaded))


@remembering()
def size_fabric(
    endpoints: int | None = None,
    radix: int | None = None,
    *,
    fat_tree: int | None = None,
    levels: int | None = None,
    oversubscription: Sequence[float | str] | float | str = (),
    rails: int = 1,
    ports_per_endpoint: int = 1,
    topology: str = "clos",
    prices: FabricSource | None = None,
    overrides: Overrides = (),
) -> FabricSized | DirectSized:
    """Size a Clos, dragonfly or HyperX: the fewest whole switches that can be wired evenly, and
    their cost.

    Args:
        endpoints: number of GPUs or nodes, with ``ports_per_endpoint`` ports each.
        radix: ports per switch.
        fat_tree: k of a k-ary fat tree with k³/4 endpoints, instead of both.
        levels: levels of switches, 1 to 3; the fewest that fit when None.
        oversubscription: ratio of downlinks to uplinks for each level below the top: ``2``, or
            ports and their rates, ``"48x400Gbps:8x800Gbps"``; default: 1. A dragonfly or HyperX
            takes a single ratio: the load of the busiest cable over its rate in a uniform
            all-to-all on minimal routes.
        rails: separate networks over which the ports are spread.
        ports_per_endpoint: ports per endpoint.
        topology: ``clos``, ``dragonfly``, ``dragonfly_plus`` or ``hyperx``.
        prices: the key ``prices`` of a fabric: a mapping, a file, or a fabric that has one.
        overrides: single prices, ``"switch=30000"`` each, or a mapping; ``prices`` may be left out.

    Returns:
        A :class:`colltool.fabric.results.FabricSized`; counts, watts, and money in the currency of
        the prices. For a dragonfly or HyperX a :class:`colltool.fabric.direct_sized.DirectSized`,
        with a Clos of the same ports.

    Raises:
        ColltoolError: neither a fat-tree nor endpoints and radix, more ports than can be joined,
            prices without a currency.
    """
    from colltool.commands.reading import count_if, count_of, is_nothing, text_of
    from colltool.fabric.bill import bill_of_plan
    from colltool.fabric.prices_file import load_prices
    from colltool.fabric.results import FabricSized
    from colltool.network.sizing.fat_tree import fat_tree_plan
    from colltool.network.sizing.size_clos import clos_plan
    from colltool.network.sizing.typed_hops import hops_of

    loaded_prices = None
    if prices is not None or not is_nothing(overrides):
        loaded_prices = load_prices(prices, overrides)
    if fat_tree is not None:
        _refuse_with_fat_tree(
            endpoints=endpoints,
            radix=radix,
            levels=levels,
            oversubscription=oversubscription or None,
            topology=None if topology == "clos" else topology,
            rails=None if rails == 1 else rails,
            ports_per_endpoint=None if ports_per_endpoint == 1 else ports_per_endpoint,
        )
        tree = fat_tree_plan(count_of(fat_tree, "fat_tree"))
        return FabricSized(tree.ports, 1, tree, bill_of_plan(tree, loaded_prices))
    if endpoints is None or radix is None:
        both = f"{argument_text('endpoints', 2048)} and {argument_text('radix', 64)}"
        raise ColltoolError(
            "nothing says what to size", fix=f"write {both}, or {argument_text('fat_tree', 64)}"
        )
    switch_ports = count_of(radix, "radix")
    # as clos_plan and direct_plan take them
    counts = (
        count_of(endpoints, "endpoints"),
        count_of(ports_per_endpoint, "ports_per_endpoint"),
        switch_ports,
    )
    rail_count = count_of(rails, "rails")
    hops = hops_of(oversubscription, switch_ports)
    if text_of(topology, "topology", "dragonfly") != "clos":
        if levels is not None:
            raise ColltoolError(
                f"does not apply to a {topology}", argument="levels", fix="leave it out"
            )
        return _size_direct(topology, counts, rail_count, hops, loaded_prices)
    plan = clos_plan(*counts, rails=rail_count, levels=count_if(levels, "levels"), hops=hops)
    return FabricSized(endpoints, ports_per_endpoint, plan, bill_of_plan(plan, loaded_prices))


def _refuse_with_fat_tree(**arguments: Any) -> None:
    """Raise ColltoolError for an argument that is not None, which stands for its default: k defines
    the whole fat-tree."""
    for name, value in arguments.items():
        if value is not None:
            raise ColltoolError(
                "does not apply to a fat-tree, which k fully defines",
                argument=name,
                fix="leave it out",
            )


def _size_direct(
    topology: str,
    counts: tuple[int, int, int],
    rails: int,
    hops: Sequence[Hop],
    prices: Prices | None,
) -> DirectSized:
    """The smallest dragonfly or HyperX, and a Clos of the same ports to compare with.

    Args:
        topology: what the user wrote, other than ``clos``.
        counts: endpoints, ports of each, ports of a switch.
        hops: one ratio, or none for 1; a Clos takes one for each level.

    Raises:
        ColltoolError: an unknown topology, or several ratios.
    """
    from colltool.fabric.bill import bill_of_plan
    from colltool.fabric.direct_sized import DirectSized
    from colltool.network.sizing.size_clos import LEVELS, clos_plan
    from colltool.network.sizing.size_direct import DIRECT, direct_plan

    kind = next((name for name in DIRECT if name == topology), None)
    if kind is None:
        raise ColltoolError(
            f"'{clipped(topology)}' is no topology that is sized",
            argument="topology",
            fix=f"write one of: clos, {', '.join(DIRECT)}",
        )
    ratios = [hop for hop in hops if isinstance(hop, float)]
    if len(ratios) != len(hops) or len(hops) > 1:
        raise ColltoolError(
            f"a {kind} takes one ratio",
            argument="oversubscription",
            fix=f"write {argument_text('oversubscription', '2')}",
        )
    plan = direct_plan(kind, *counts, rails=rails, most=ratios[0] if ratios else 1.0)
    endpoints, ports_per_endpoint, _ = counts
    bill = bill_of_plan(plan, prices)
    try:
        clos = clos_plan(*counts, rails=rails, hops=hops)
    except ColltoolError:
        # no Clos of such switches has so many ports
        return DirectSized(endpoints, ports_per_endpoint, plan, bill, None, None)
    clos_prices = prices
    # the first level is the cables to endpoints: where they are copper, they are in the Clos too
    if prices and plan.levels[0].name in (prices.copper or ()):
        clos_prices = prices.model_copy(update={"copper": LEVELS[:1]})
    return DirectSized(
        endpoints, ports_per_endpoint, plan, bill, clos, bill_of_plan(clos, clos_prices)
    )


fabric_command = CommandGroup("Shipped fabrics; start, show, draw, check, size your own.")


@command([RESULT], within=fabric_command, name="list", short_help="The shipped fabrics.")
def list_command(out: Out) -> None:
    """List the shipped fabrics.

    Example:
      colltool fabric list
    """
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.fabric.results import FabricList

    out.emit(FabricList(tuple(map(load_fabric, shipped_fabrics()))))


@command(
    [FABRIC_FILE, "overrides", result_options(form=YAML_TOO)],
    within=fabric_command,
    name="show",
    short_help="Show a fabric as a tree, with what follows from it.",
)
def show_command(fabric: str, out: Out, overrides: list[str] | None = None) -> None:
    """Show a fabric's tiers as a tree, with diameter, bisection, numbers of links and switches, sizing
    and bill of materials.

    Examples:
      colltool fabric show nvl72
      colltool fabric show nvl72 --set ib.levels.spine.oversubscription=2
      colltool fabric show nvl72 --set ib.size=16 --format yaml -o mine.yaml
    """
    from colltool.fabric.load import load_fabric
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    if is_yaml_wanted(out):
        from colltool.fabric.templates import yaml_of

        write(yaml_of(fabric, overrides or ()), out.path)
        return
    loaded = load_fabric(fabric, overrides or ())
    out.emit(FabricShown(loaded, fabric_facts(loaded)))


@command(
    [
        FABRIC_FILE,
        "overrides",
        result_options(
            form=extra_formats(
                ("svg",),
                "Format of the output. [default: text, or by the suffix of -o]",
            )
        ),
    ],
    within=fabric_command,
    name="draw",
    short_help="Draw a fabric.",
)
def draw_command(fabric: str, out: Out, overrides: list[str] | None = None) -> None:
    """Draw a fabric: its tiers, levels of switches, ports, oversubscription, toruses and meshes.

    The terminal shows boxes of text; -o FILE.svg writes a picture.

    Examples:
      colltool fabric draw nvl72 -o nvl72.svg
      colltool fabric draw clos-4to1 --set fabric.levels.core.oversubscription=2 -o half.svg
      colltool fabric draw torus512
    """
    from colltool.fabric.load import load_fabric

    suffix = out.path.suffix.lower() if out.path is not None else ""
    # an unknown suffix would be refused as no format of a table; a drawing has one more
    if out.form is None and out.path is not None and suffix not in (".svg", *BY_SUFFIX):
        raise ColltoolError(
            f"a drawing is an SVG file, got {out.path}",
            argument="output",
            fix=f"name it {out.path.stem}.svg, or end it in {', '.join(filter(None, BY_SUFFIX))};"
            " --format writes any name",
        )
    drawn = draw_fabric(load_fabric(fabric, overrides or ()))
    is_picture = out.form == "svg" or (out.form is None and suffix == ".svg")
    if not is_picture:
        out.emit(drawn)
        return
    if out.columns is not None:
        raise ColltoolError(
            "a drawing has no columns", argument="columns", fix="leave it out, or --format csv"
        )
    write(f'<?xml version="1.0" encoding="UTF-8"?>\n{drawn.svg}\n', out.path)


@command(
    ["source", "tiers", "without", "overrides", NEW_FILE],
    within=fabric_command,
    name="init",
    short_help="Start a fabric file of your own.",
)
def init_command(
    source: str | None = None,
    tiers: str | None = None,
    without: list[str] | None = None,
    overrides: list[str] | None = None,
    output: Path | None = None,
) -> None:
    """Write a commented fabric file that is valid as it is: a template of 8-GPU nodes on a leaf-spine
    network, tiers given on the command line, or a copy of another fabric.

    A tier is NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA. The size of a torus or mesh is its shape (8x8x4). A
    Clos may list the group sizes of its levels bottom up (8/32), with one alpha per level (5us/11us).
    Optional fields follow: s=2 (oversubscription per switch level, s=2/1.5 for three levels),
    eta=1.2/0.8 or ports=4.

    Examples:
      colltool fabric init -o mine.yaml
      colltool fabric init --from dgx-h100 --set ib.size=128 -o mine.yaml
      colltool fabric init --tiers nvlink:star:8:450GB/s:0.8us,ib:clos:32:400Gbps:5us -o mine.yaml
      colltool fabric init --tiers nvlink:star:8:450GB/s:0.8us,eth:clos:4/32:400Gbps:5us/10us:s=2
      colltool fabric init --tiers ici:torus:8x8x4:45GB/s:1us
      colltool fabric init --tiers ici:torus:4x4:45GB/s:1us --without 5,0-1
    """
    from colltool.fabric.templates import fabric_start

    path = new_file(output, "a fabric file")
    name = path.stem if path else ""
    write(fabric_start(source, tiers, overrides or (), name, without or []), path)


@command(
    ["dumps", "like", option("network_nodes", python="nodes"), "nic", NEW_FILE],
    within=fabric_command,
    name="import",
    short_help="Write a fabric file from a real machine.",
    network_nodes="--nodes",
)
def import_command(
    dumps: list[str],
    like: str | None = None,
    nodes: int | None = None,
    nic: str | None = None,
    output: Path | None = None,
) -> None:
    """Write a fabric file from what a tool reports of a machine. What it does not report, latencies
    above all, is taken from the nearest fabric and listed under assumed, which every answer names.

    KIND is, of a node, nccl-topo (the XML of NCCL_TOPO_DUMP_FILE: one node, or a whole NVLink
    domain; also files for NCCL_TOPO_FILE), nvidia-smi-topo (topo -m, ideally after the output of
    nvidia-smi -L) or lstopo (the XML of hwloc); of a network, ibnetdiscover (a subnet, which must be a
    Clos) or slurm-topology (topology.conf, topology.yaml, what topograph writes); of both, infragraph
    (YAML or JSON). A node and a network together give both tiers. NCCL's dump gives channels, NICs and
    bandwidths as its topology search finds them; in others only NICs that serve GPUs count, at the rate
    of the port, the card and its slot.

    Examples:
      colltool fabric import nccl-topo node.xml --nodes 64 -o mine.yaml
      colltool fabric import nccl-topo node.xml ibnetdiscover net.txt -o mine.yaml
      colltool fabric import nvidia-smi-topo topo.txt --nic 200Gbps --nodes 8 -o mine.yaml
      colltool fabric import nccl-topo node.xml slurm-topology topology.conf -o mine.yaml
      colltool fabric import infragraph network.yaml -o mine.yaml
    """
    from colltool.fabric.dumps.read import import_dumps

    path = new_file(output, "a fabric file")
    name = path.stem if path else ""
    write(import_dumps(dumps, name=name, like=like, nodes=nodes, nic=nic), path)


# a node's topology file, how many nodes like it, and the release of NCCL that searches it
NODES_OF_FILE = (
    option("topology_file"),
    option("network_nodes", "Number of nodes like it. [default: 1]", python="nodes"),
    option(
        "library",
        "NCCL, or nccl@VERSION: what a release does. [default: nccl@2.30.7]",
        metavar="nccl@VERSION",
        words=("nccl",),
        offers="",
    ),
)


@command(
    [*NODES_OF_FILE, RESULT],
    within=fabric_command,
    name="channels",
    short_help="The channels that NCCL finds on a node.",
    network_nodes="--nodes",
)
def channels_command(
    topology_file: Path,
    out: Out,
    nodes: int | None = None,
    library: str | None = None,
) -> None:
    """Compute NCCL's topology search without a GPU: the channels of rings, trees and NVLS, their
    bandwidth, the order of GPUs and NICs, what binds them, and what would change them.

    The file is what NCCL_TOPO_DUMP_FILE=node.xml writes. Between nodes the channels use NICs: give
    --nodes 2 or more. Rules are those of NCCL 2.26 to 2.30, with its default settings. CollNet is
    shown where a NIC of the file has it. colltool export nccl-topo writes a fabric's node as such a
    file, export nccl-graph the channels for NCCL_GRAPH_FILE.

    Examples:
      colltool fabric channels node.xml
      colltool fabric channels node.xml --nodes 16
      colltool fabric channels node.xml --nodes 2 --library nccl@2.28.9 --all
    """
    from colltool.libraries.nccl.topology.results import channels_found

    out.emit(channels_found(topology_file, nodes or 1, release_of(library)))


def release_of(library: str | None) -> str:
    """The release of ``nccl@2.28.9``; empty for the usual one (None, or ``nccl``).

    Raises:
        ColltoolError: another library, or no number of a release.
    """
    name, _, release = (library or "nccl").partition("@")
    if name != "nccl":
        raise ColltoolError(
            f"'{clipped(name)}' has no such search",
            argument="library",
            fix="write nccl, or nccl@2.28.9",
        )
    if release and not re.fullmatch(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?", release):
        raise ColltoolError(
            f"'{clipped(release)}' is no release of NCCL",
            argument="library",
            fix="write nccl@2.28.9",
        )
    return release


@command(
    [option("files", "Fabric files, or names of shipped ones.", offers="fabric"), RESULT],
    within=fabric_command,
    name="check",
    short_help="Validate fabric files.",
)
def check_command(files: list[str], out: Out) -> None:
    """Validate fabric files: print what was read, warnings, and every error with its line and column.

    Example:
      colltool fabric check my-cluster.yaml other.yaml
    """
    from colltool.fabric.lint import check_fabric
    from colltool.fabric.results import FabricsChecked

    out.emit(each_checked(files, lambda file: check_fabric(file, file), FabricsChecked))


@command(
    [
        "endpoints",
        "radix",
        "fat_tree",
        "levels",
        "oversubscription",
        "rails",
        "ports_per_endpoint",
        option("sized", default=None),
        "prices",
        "price",
        RESULT,
    ],
    public=size_fabric,
    within=fabric_command,
    name="size",
    short_help="Switches, cables and cost of a Clos, dragonfly or HyperX.",
    overrides="--price",
)
def size_command(out: Out, **arguments: Any) -> None:
    """Count the switches, cables and optics of a Clos, dragonfly or HyperX, and what they cost.

    Every switch is wired evenly to those above it; a note says where this takes more switches than
    the ports alone. Oversubscription is given per level (downlinks over uplinks of a switch), so that
    2,2 is 4:1 in total.

    A dragonfly or HyperX has a single ratio: at 1, no cable is overloaded in a uniform all-to-all,
    which takes half of the bisection of a Clos. The shape with the fewest switches is shown next to
    the Clos.

    Examples:
      colltool fabric size --fat-tree 64
      colltool fabric size --endpoints 32 --ports-per-endpoint 72 --rails 4 --radix 144
      colltool fabric size --endpoints 16384 --radix 64 --oversubscription 1,2
      colltool fabric size --endpoints 4096 --radix 64 --topology dragonfly
      colltool fabric size --endpoints 2048 --radix 64 --price currency=USD --price switch=30000 --price optic=600
    """
    out.emit(size_fabric(**arguments))


@command(
    ["output"], within=fabric_command, name="schema", short_help="The JSON Schema of fabric files."
)
def schema_command(output: Path | None = None) -> None:
    """Print the JSON Schema of fabric files, for completion and checks in an editor.

    Example:
      colltool fabric schema -o fabric.schema.json
    """
    from colltool.fabric.model import Fabric

    write_schema(Fabric, "fabric", output)
