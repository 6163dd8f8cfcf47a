"""``colltool serve|reshard``: the network's part of a token, and weights from one mesh to
another."""

from __future__ import annotations

from typing import Annotated, Any

import colltool
from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.options import FabricChoice, Out

_VARY = (
    "Values of a key of the fabric, side by side; or a range where it may be off, alpha=2x;"
    " repeatable."
)


@command()
def serve(
    job: o.JobFile,
    fabric: FabricChoice,
    tp: Annotated[int, o.option("tp")] = 1,
    ep: Annotated[int, o.option("ep")] = 1,
    pp: Annotated[int, o.option("pp")] = 1,
    dp: Annotated[int | None, o.option("dp")] = None,
    batch: Annotated[int | None, o.option("batch")] = None,
    isl: Annotated[int, o.option("isl")] = 4096,
    osl: Annotated[int, o.option("osl")] = 1024,
    engine: Annotated[str | None, o.option("engine")] = None,
    library_file: o.LibraryFile = None,
    experts_library: Annotated[str | None, o.option("experts_library")] = None,
    weights: Annotated[str, o.option("weights")] = "bf16",
    kv_dtype: Annotated[str, o.option("kv_dtype")] = "bf16",
    chunk: Annotated[int, o.option("chunk")] = 8192,
    tpot: Annotated[str | None, o.option("tpot")] = None,
    prefill_tp: Annotated[int | None, o.option("prefill_tp")] = None,
    kv_library: Annotated[str | None, o.option("kv_library")] = None,
    search: Annotated[bool, o.option("cuts")] = False,
    ranks: Annotated[int | None, o.option("serve_ranks")] = None,
    vary: Annotated[o.Several, o.option("vary", _VARY)] = None,
    *,
    out: Out,
) -> None:
    """Serving a model on a fabric: the collectives of a token and of a prompt, by which kernels,
    and what they take.

    The floor beside it is what memory and FLOPs take at least; no kernel reaches it. JOB is a model
    or a job: shipped, a file, or a config.json.

    Examples:
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --engine vllm@0.24.0
      colltool serve deepseek-v3 -f dgx-h100 --ep 64 --batch 8192 --weights fp8
      colltool serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --tpot 18ms --prefill-tp 8
      colltool serve llama3-70b -f hgx-h200 --search -n 16 --batch 64
      colltool serve llama3-70b -f hgx-h200 -f dgx-b200 --tp 8 --batch 64
      colltool serve llama3-70b -f hgx-h200 --tp 16 --batch 64 --vary roce.alpha=2x
    """
    cut: dict[str, Any] = {
        "tp": tp,
        "ep": ep,
        "pp": pp,
        "dp": dp,
        "batch": batch,
        "isl": isl,
        "osl": osl,
        "chunk": chunk,
    }
    kernels: dict[str, Any] = {
        "engine": engine,
        "library_file": library_file,
        "experts_library": experts_library,
        "weights": weights,
        "kv_dtype": kv_dtype,
        "kv_library": kv_library,
        "prefill_tp": prefill_tp,
    }
    many: dict[str, Any] = {
        "search": search,
        "ranks": ranks,
        "vary": vary or (),
        "overrides": fabric.overrides,
        "machine": fabric.machine,
    }
    served = colltool.serve(job, fabric.several, tpot=tpot, **cut, **kernels, **many)
    out.emit(served)


@command()
def reshard(
    job: o.JobFile,
    fabric: FabricChoice,
    receivers: Annotated[int, o.option("receivers")],
    senders: Annotated[int | None, o.option("senders")] = None,
    replica: Annotated[int, o.option("replica")] = 1,
    weights: Annotated[str, o.option("weights")] = "bf16",
    storage: Annotated[
        str | None, o.option("storage", "In place of senders: a store, at this rate in all.")
    ] = None,
    *,
    out: Out,
) -> None:
    """Weights from one mesh to another: pairs, a tree of replicas, or one root, and the wire that
    limits each.

    RL's sync from trainer to rollout, resharding, and with --storage the load of a checkpoint.

    Examples:
      colltool reshard llama3-70b -f dgx-h100 --from 128 --to 64 --replica 8
      colltool reshard llama3-70b -f dgx-h100 --to 64 --replica 8 --storage 200GB/s
    """
    asked: dict[str, Any] = {
        "senders": senders,
        "receivers": receivers,
        "replica": replica,
        "weights": weights,
        "storage": storage,
    }
    out.emit(colltool.reshard(job, fabric.load(), **asked))
