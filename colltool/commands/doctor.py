"""What ails a machine, from its logs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.commands.command import command, failed
from colltool.commands.logs import measurements_of
from colltool.commands.options import (
    CHART,
    PLOT,
    READINGS,
    FabricChoice,
    Out,
    fabric_options,
    option,
    result_options,
)
from colltool.estimate.assumptions import ModelOptions, checked

if TYPE_CHECKING:
    from colltool.base.files import AnyPath
    from colltool.commands.logs import Logs
    from colltool.commands.reading import AnyFabric
    from colltool.definitions.overrides import Overrides
    from colltool.diagnosis.results import Diagnosis
    from colltool.logs.series import Measurements


@remembering()
def doctor(
    logs: Logs,
    fabric: AnyFabric | None = None,
    *,
    overrides: Overrides = (),
    expect: float | None = None,
    primitive: Primitive | str | None = None,
    ranks: int | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    topology_file: AnyPath | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> Diagnosis:
    """Find out why a machine is slow: its hardware, what is off, likely causes, and what to run next.

    Args:
        logs: as :func:`validate`, and traces of the PyTorch profiler as :func:`trace`, judged
            together.
        fabric: as :func:`price`; when None the shipped one nearest to the devices that the logs
            name.
        overrides: as in :func:`colltool.load_fabric`, on either.
        expect: pass mark: the fraction of the expected rate below which something is off; default:
            0.8.
        primitive: read only this collective; also that of logs that do not state it.
        ranks, nodes, in_place: as :func:`validate`.
        topology_file: what NCCL_TOPO_DUMP_FILE wrote of a node: the channels, NICs and types of paths in
            NCCL's debug lines are compared with what it allows.
        readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.results.Diagnosis`: ``ok``, ``findings`` with their causes and
        the next experiment.

    Raises:
        ColltoolError: logs that cannot be read or hold nothing of ``primitive``, hardware that is
            not known and no fabric.
    """
    from colltool.commands.reading import (
        count_if,
        fraction_if,
        path_of,
        paths_of,
        primitive_if,
    )
    from colltool.commands.requests import fabric_with
    from colltool.diagnosis.doctor import diagnose
    from colltool.diagnosis.evidence import Evidence
    from colltool.diagnosis.read_evidence import evidence_of
    from colltool.diagnosis.topology import compared_with_topology
    from colltool.logs.series import Measurements

    pass_mark = fraction_if(expect, "expect")
    model = checked(readings, **parts)
    only_primitive = primitive_if(primitive)

    def read(files: Any) -> Measurements:
        # the primitive is no hint at first: of logs that hold several all are read, and chosen from later
        try:
            return measurements_of(files, ranks, primitive=None, nodes=nodes, in_place=in_place)
        except ColltoolError:
            if only_primitive is None:
                raise
            # a log that does not name its collective is taken for the requested one
            return measurements_of(files, ranks, only_primitive, nodes, in_place)

    channels_compared = None
    # measurements that were read before
    if isinstance(logs, Measurements):
        evidence = Evidence(logs)
    else:
        paths = paths_of(logs, "logs", "logs or traces", "all_reduce.log")
        evidence = evidence_of(paths, read)
        if topology_file is not None:
            file = path_of(topology_file, "topology_file", "a topology file", "node.xml")
            hosts = count_if(nodes, "nodes", least=1)
            channels_compared = compared_with_topology(file, paths, evidence.debug, hosts)
    loaded = None if fabric is None else fabric_with(fabric, overrides)
    return diagnose(
        evidence.only(only_primitive),
        loaded,
        overrides=overrides,
        expect=pass_mark,
        readings=model,
        topology=channels_compared,
    )


@command(
    [
        option(
            "logs",
            "nccl-tests, rccl-tests, OSU, IMB, perftest, nccom-test, NCCL_DEBUG, Inspector, CSV,"
            " profiler traces.",
        ),
        fabric_options(None, machine=False),
        "expect",
        option("collective", "Read only this collective."),
        "log_ranks",
        "nodes",
        option(
            "topology_file",
            "NODE.xml of NCCL_TOPO_DUMP_FILE: compare NCCL's channels in the log with what it allows.",
            flags="--topology",
        ),
        "in_place",
        result_options(PLOT, CHART),
        READINGS,
    ],
    public=doctor,
    primitive="--collective",
)
def doctor_command(fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Find out why a machine is slow from its logs or traces: what is off, likely causes, and what to
    measure next.

    The hardware is identified by its device names, unless -f names a fabric. Exit 1 if something is
    off.

    Examples:
      colltool doctor all_reduce.log
      colltool doctor node*.log --expect 95% --format json
      colltool doctor pairs/*.log --plot pairs.png
      colltool doctor all.log --collective ar
      colltool doctor osu_allreduce.txt -f my-cluster.yaml -n 64
      colltool doctor trace/rank*.json.gz
      colltool doctor nccl.log --topology node.xml
    """
    result = doctor(
        fabric=fabric.name if fabric.names else None, overrides=fabric.overrides, **arguments
    )
    out.emit(result)
    if not result.ok:
        failed()
