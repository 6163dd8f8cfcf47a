"""The arguments of public functions and commands, each declared once: flags, values, bounds, help.

Public functions check Python values against a row of :data:`ARGUMENTS` with
:mod:`colltool.commands.reading`; commands make an option of the same row
(:mod:`colltool.commands.options`) and read its text with :mod:`colltool.commands.option_text`.

A row's key is the name of the public function's parameter, which need not be the flag (``placed`` is
``--map``, ``kind`` is ``--pattern``). Where commands word one parameter differently it is
CONTEXT_NAME, and ``python`` says the name: ``job_ranks`` and ``page_ranks`` are both ``ranks``. The
rows stand by what they are for: the query, grids of prices, executed schedules, measurements, jobs,
serving, layouts, fabric files and networks, other programs, the output.

Importing this module fills :data:`colltool.base.errors.OPTIONS`, so that errors name options.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from colltool.base.errors import OPTIONS

# How an option's text is read, and what comes of it.
Kind = Literal[
    "text",  # the text itself
    "flag",  # no text: whether it is given
    "path",  # a Path
    "pair",  # two texts, OLD NEW
    "count",  # an int from least to most
    "number",  # a finite float
    "share",  # a float, from 15% or 0.15
    "shape",  # a tuple of ints, from 4x4x4
    "word",  # a text that is one of words
    # the text between commas:
    "single",  # a text; refuses several
    "texts",  # a list of texts
    "names",  # a list of texts, each once
    "counts",  # a list of ints, ranges such as 8-64 written out
]
File = Literal["", "read", "written"]

# bound of every number without a bound of its own; how many ranks there are, the fabric checks
MAX_COUNT = 10**18
# bound of --top: more rows than any output has
MAX_ROWS = 10**6
# the smallest positive float: an inclusive bound that excludes 0
ABOVE_ZERO = 5e-324
LIBRARIES = ("nccl", "rccl", "mpi", "xla", "mscclpp", "all")
FORMATS = ("table", "json", "csv", "markdown", "html")


class Argument(NamedTuple):
    """An argument of public functions, and the option or positional argument that gives it.

    Args:
        flags: its flags, ``--ranks -n``; error texts write the last before a value. Empty for a
            positional argument.
        metavar, help: as the help prints them; ``help`` names the default.
        kind: how the option's text is read.
        least, most: inclusive bounds of a count. Of a share, ``least`` 0 allows none and ``most`` 1
            nothing above 100%; whatever else they say, the public function checks.
        words: the values that it may have, as the help and completion list them; of a count, a word
            for ``most``.
        offers: completion in a shell: ``complete_NAME`` of :mod:`colltool.commands.completion`.
        hint: the fix of an error: for a list in place of a count, or examples of a share. A count
            with a hint refuses a comma by it.
        python: the name of the function's parameter, if it is not the row's key.
        many: whether the option may be repeated.
        file: whether it names a file that is read or written: no output may overwrite an input.
        also: an older flag that is taken too, and not shown.
    """

    flags: str = ""
    metavar: str = ""
    help: str = ""
    kind: Kind = "text"
    least: float = -MAX_COUNT
    most: float = MAX_COUNT
    words: tuple[str, ...] = ()
    offers: str = ""
    hint: str = ""
    python: str = ""
    many: bool = False
    file: File = ""
    also: str = ""


# Bounds that a slip of a key exceeds and no deployment does: about a million of ranks, stages and
# pages, about 16 million of tokens, sequences, experts and ranks of a fleet.
_MILLION = 2**20
_MILLIONS = 2**24


def _count(
    flags: str, metavar: str, help_: str, *, most: float = MAX_COUNT, **more: Any
) -> Argument:
    """An argument that counts something, of which there is at least one; ``more`` are other fields."""
    return Argument(flags, metavar, help_, "count", least=1, most=most, **more)


# the fix where several numbers of ranks are given to a command that takes one
_ONE_COUNT = "give one number of ranks per call; export nccl-tuner takes several"
# the help of --ranks where it takes several
COUNTS = "Ranks in the group: 8,64; 8-64 (doubling); 8-64+8 (steps of 8)."

ARGUMENTS = {
    # the query
    "primitive": Argument(
        "",
        "PRIM",
        "ar, ag, rs, a2a, bc, reduce or p2p, or the long name.",
        offers="primitive",
    ),
    "primitives": Argument(
        "-p --primitive",
        "PRIM,...",
        "Collectives: ar, ag, rs, a2a, bc, reduce, p2p.",
        offers="primitive",
    ),
    "fabric": Argument(
        "--fabric -f",
        "FABRIC",
        "Shipped fabric (fabric list) or fabric file; NAME:nodes=144 resizes it,"
        " NAME:KEY=VALUE changes a value.",
        offers="fabric",
        many=True,
        file="read",
    ),
    "overrides": Argument(
        "--set", "KEY=VALUE", "Change a value of the fabric (repeatable).", offers="set", many=True
    ),
    "machine": Argument(
        "--machine",
        "FILE",
        "File of measurements of this machine, as written by calibrate. [default:"
        " NAME.machine.yaml next to NAME.yaml]",
        file="read",
    ),
    "per_rack": _count(
        "--per-rack",
        "K",
        "Use only K ranks per rack or node, such as 64 of the 72 in nvl72.",
        hint="such as --per-rack 64",
    ),
    "ranks": Argument(
        "--ranks -n",
        "N",
        "Ranks in the group, filling the innermost domain first. [default: all]",
        "count",
        offers="ranks",
        hint=_ONE_COUNT,
    ),
    "rank_counts": Argument(
        "--ranks -n",
        "N,...",
        f"{COUNTS} [default: all]",
        offers="ranks",
        python="ranks",
        kind="counts",
        many=True,
    ),
    "log_ranks": Argument(
        "--ranks -n",
        "N",
        "Number of ranks, if the log does not state it (OSU).",
        "count",
        offers="ranks",
        hint="give one number for all logs of a call",
        python="ranks",
    ),
    "job_ranks": _count(
        "--ranks -n",
        "N",
        "Ranks of the job. [default: those of its layout, else the whole fabric]",
        hint="give one number of ranks per call",
        python="ranks",
    ),
    "page_ranks": Argument(
        "--ranks -n",
        "N",
        "Ranks of the reference point, of the job, and of logs that do not state it."
        " [default: all of the smallest fabric]",
        "count",
        offers="ranks",
        hint="give one number of ranks per page",
        python="ranks",
    ),
    "stride": Argument(
        "--stride",
        "K",
        "Every K-th rank; the groups in between run at the same time.",
        "count",
        offers="stride",
    ),
    "alone": Argument(
        "--exclusive",
        help="Leave the groups in between idle (with --stride).",
        kind="flag",
        also="--alone",
    ),
    "shape": Argument(
        "--shape",
        "4x4x4",
        "Ranks along each axis (torus and mesh only). [default: as close to a cube as fits]",
        "shape",
    ),
    "size": Argument(
        "--size -M",
        "SIZE",
        "Bytes per rank, as in nccl-tests: 16MB (10^6), 16M or 16MiB (2^20).",
        kind="single",
    ),
    "sizes": Argument(
        "--size -M",
        "SIZE,...",
        "Bytes per rank: 1MB,16MB; 1K-1G (doubling); 1K:1G:4. [default: six sizes, 1KB to 1GB]",
        kind="texts",
    ),
    "begin": Argument("--begin -b", "SIZE", "First size of a range, like -b of nccl-tests."),
    "end": Argument("--end -e", "SIZE", "Last size of the range, like -e of nccl-tests."),
    "factor": Argument(
        "--factor", "X", "Factor between the sizes of the range. [default: 2]", kind="number"
    ),
    "step": Argument(
        "--step", "SIZE", "Bytes between the sizes of the range, instead of a factor."
    ),
    "algorithm": Argument(
        "-a --algorithm", "NAME", "One algorithm, by a name that price prints.", offers="algorithm"
    ),
    "algorithms": Argument(
        "-a --algorithm",
        "NAME,...",
        "Only these algorithms, comma-separated.",
        offers="algorithm",
        kind="names",
    ),
    "algorithm_files": Argument(
        "--algorithm-file",
        "FILE",
        "Your own algorithm: YAML, MSCCL XML or an MSCCL++ plan (repeatable).",
        many=True,
        file="read",
    ),
    "library": Argument(
        "--library",
        "|".join(LIBRARIES),
        "Library that runs the collective: one of these, or NAME@VERSION from library list."
        " [default: the fabric's library, else all]",
        words=LIBRARIES,
        offers="runner",
    ),
    "library_file": Argument(
        "--library-file",
        "FILE.toml",
        "Your own library file instead of a shipped one.",
        file="read",
    ),
    "model_file": Argument(
        "--model-file",
        "FILE",
        "The model in place of the job's: a file that lists its operations, or a config.json.",
        file="read",
    ),
    "library_name": Argument(
        "",
        "LIBRARY",
        "NAME or NAME@VERSION from library list, or a library file.",
        python="library",
        offers="library",
    ),
    "library_source": Argument(
        "--from", "LIBRARY", "Start from this one.", python="library", offers="library"
    ),
    "tokens": _count(
        "--tokens",
        "T",
        "Tokens per rank (dispatch and combine only).",
        most=_MILLIONS,
    ),
    "top_k": _count(
        "--top-k",
        "K",
        "Experts per token (dispatch and combine only).",
        most=_MILLIONS,
    ),
    "hidden": _count(
        "--hidden",
        "H",
        "Hidden size: values per token (dispatch and combine only).",
        most=_MILLIONS,
    ),
    "experts": _count(
        "--experts",
        "E",
        "Experts per layer (dispatch and combine only).",
        most=_MILLIONS,
    ),
    "dtype": Argument(
        "--dtype",
        "TYPE",
        "Type of tokens, or of an engine's all-reduce: fp8, bf16, ..."
        " [default: fp8 for dispatch, else bf16]",
    ),
    "sms": _count(
        "--sms",
        "N",
        "SMs of the kernel (DeepEP's normal ones). [default: the library's own]",
        most=1024,
    ),
    "groups": _count(
        "--expert-groups",
        "G",
        "Most nodes that a token may be routed to. [default: no limit]",
        most=_MILLION,
    ),
    "skew": Argument(
        "--skew",
        "X",
        "Load imbalance: bytes of the busiest rank over the mean. [default: 1]",
        "number",
    ),
    "mode": Argument(
        "--mode",
        "MODE",
        "How an engine launches the call: graph (a CUDA graph) or eager. [default: graph]",
        words=("graph", "eager"),
    ),
    "slow_rank": Argument(
        "--slow-rank",
        "SHARE",
        "Also price the case that one rank has only this share of its bandwidth: 0.8 or 80%.",
        kind="share",
        least=ABOVE_ZERO,
        most=1,
        hint="80% or 0.8",
    ),
    "top": _count("--top", "K", "Only the K fastest algorithms.", most=MAX_ROWS),
    # grids of prices
    "vary": Argument(
        "--vary", "KEY=V1,V2", "Values to try for a key of the fabric (repeatable).", many=True
    ),
    "pivot": Argument(
        "--pivot",
        help="Print two-axis tables of this quantity.",
        kind="word",
        words=("busbw", "total", "algorithm"),
    ),
    "rows": Argument("--rows", "AXIS", "Axis of the table's rows: fabric, ranks, bytes or a KEY."),
    "cols": Argument("--cols", "AXIS", "Axis of the table's columns."),
    "limit": _count(
        "--limit",
        "CELLS",
        "Most cells that are priced. [default: 100000]",
        most=10**7,
    ),
    "samples": _count(
        "--samples",
        "K",
        "Number of random draws of all uncertain values.",
        most=10**6,
    ),
    "seed": Argument("--seed", "K", "Seed of the random draws.", "count", least=0, most=10**9),
    # executed schedules
    "segments": _count(
        "--segments",
        "P",
        "Segments of pipelined algorithms. [default: 16; 2 with --trace]",
        most=65_536,
    ),
    "trace": Argument(
        "--trace",
        help=(
            "Print every step: who sends what to whom, and what each rank then holds (16"
            " ranks at most)."
        ),
        kind="flag",
    ),
    "values": Argument(
        "--values",
        "NUMBERS",
        "Input values by rank: 1,2,3,4 or 1..16 (requires --trace). [default: an example]",
    ),
    "simulator": Argument(
        "--with",
        "SIM",
        "Also run the schedules in a simulator installed here: simgrid.",
        kind="word",
        words=("simgrid",),
    ),
    "check": Argument(
        "--check",
        "FILE",
        "Compare with an earlier JSON output of this command; exit 1 if a price changed.",
        kind="path",
        file="read",
    ),
    "old": Argument("", "OLD", "Earlier JSON output of colltool.", kind="path", file="read"),
    "new": Argument("", "NEW", "Later JSON output of the same command.", kind="path", file="read"),
    "rtol": Argument(
        "--rtol",
        "SHARE",
        "Largest relative change to ignore: 1% or 0.01. [default: 1e-6]",
        kind="share",
        least=0,
        hint="1% or 0.01",
    ),
    # measurements
    "logs": Argument(
        "",
        "LOG...",
        "Logs of nccl-tests or rccl-tests (text or -J) or the OSU benchmarks, or CSV files.",
        many=True,
        file="read",
    ),
    "collective": Argument(
        "--collective",
        "PRIM",
        "Collective, if the log does not state it.",
        offers="primitive",
        python="primitive",
    ),
    "nodes": Argument("--nodes", "N", "Number of nodes, if the log does not state it.", "count"),
    "predictions": Argument(
        "",
        "PREDICTIONS...",
        "CSV files of predicted times, or colltool, nccl, datasheet, alpha-beta. [default: colltool]",
        many=True,
        file="read",
        words=("colltool", "nccl", "datasheet", "alpha-beta"),
    ),
    "template": Argument(
        "--template",
        help="Write the questions as CSV, with an empty column for the times, and stop.",
        kind="flag",
    ),
    "in_place": Argument("--in-place", help="Use the in-place columns of nccl-tests.", kind="flag"),
    "expect": Argument(
        "--expect",
        "SHARE",
        "Pass mark: share of the expected rate, 95% or 0.95. [default: 80%, less for small groups]",
        kind="share",
        least=ABOVE_ZERO,
        hint="95% or 0.95",
    ),
    "test": Argument(
        "--test",
        "TEST,...",
        "Tests by nccl-tests' names: all_reduce, alltoall, ..., or all. [default: all_reduce; with"
        " --against those of the logs]",
        kind="names",
        offers="test",
    ),
    "share": Argument(
        "--share",
        "SHARE",
        "Share of healthy machines that keep the gate. [default: 95%]",
        kind="share",
        least=ABOVE_ZERO,
        hint="95% or 0.95",
    ),
    "max_mape": Argument(
        "--max-mape",
        "SHARE",
        "Exit 1 if the mean error of a series exceeds this: 15% or 0.15.",
        kind="share",
        least=ABOVE_ZERO,
        hint="15% or 0.15",
    ),
    "tier": Argument(
        "--tier",
        "TIER",
        "Fit only this tier. [default: every tier that is the outermost one of a series]",
    ),
    "line_rate": Argument(
        "--line-rate",
        "RATE",
        "Write bandwidths as a fraction (eta) of this line rate: 450GB/s, 400Gbps.",
    ),
    "placed": Argument(
        "--map",
        "block|cyclic|FILE",
        "Mapping of ranks to hosts: block, cyclic, or a file with the host or fabric rank of"
        " each rank.",
        file="read",
    ),
    "against": Argument(
        "--against",
        "TRACE",
        "Trace of the same job before a change (repeatable: one file per rank).",
        many=True,
        file="read",
    ),
    "calls": Argument(
        "--calls",
        "FILE",
        "Write the collective calls of a step as a job file, to plan it on another fabric.",
        kind="path",
        file="written",
    ),
    # jobs
    "job": Argument(
        "--job", "JOB", "Shipped job (job list) or job file.", offers="job", file="read"
    ),
    "model": Argument(
        "",
        "MODEL",
        "Shipped model, or the path of a config.json.",
        offers="model",
        file="read",
    ),
    "job_overrides": Argument(
        "--job-set",
        "KEY=VALUE",
        "Change a value of the job (repeatable).",
        offers="job_set",
        many=True,
    ),
    "page_serve": Argument(
        "--serve",
        "JOB",
        "A section on serving it: a shipped model or job, a file, or a config.json.",
        python="serve",
        offers="job",
    ),
    "serve_options": Argument(
        "--serve-set",
        "KEY=VALUE",
        "An option of colltool serve for it: ep=64, batch=8192, engine=vllm (repeatable).",
        many=True,
    ),
    "page_price": Argument(
        "--price",
        "KEY=VALUE",
        "What is bought: gpu=30000, switch=20000, cable, optic, nic, currency=USD; one fabric alone:"
        " FABRIC:gpu=30000; repeatable. [default: the fabric's own prices]",
        python="price",
        many=True,
    ),
    "links": Argument(
        "--links",
        help="Also show the busiest link of each kind with all groups sending at once.",
        kind="flag",
    ),
    "search": Argument(
        "--search",
        help="List the fastest layouts that fill the ranks and fit the memory.",
        kind="flag",
    ),
    "keep": Argument(
        "--keep",
        "KEY=VALUE",
        "With --search: only layouts with tp, sp, cp, ep, etp, pp, virtual, micro, shard or recompute"
        " as given; repeatable.",
        offers="keep",
        many=True,
    ),
    "headroom": Argument(
        "--headroom",
        "SHARE",
        "With --search: memory that every layout leaves free, such as 10%. [default: what 90% of"
        " published runs needed]",
        kind="share",
        least=0,
        most=0.99,
        hint="10% or 0.1",
    ),
    "compute": Argument(
        "--compute",
        "FILE",
        "CSV of measured GEMM times (M,N,K,dtype,us), used instead of the stack's efficiencies.",
        file="read",
    ),
    "target": Argument(
        "--target",
        "GOAL",
        "Find the slowest network that still reaches mfu=45%, or a step at most 5% slower"
        " than with a free network (step=5%).",
    ),
    "mtbf": Argument(
        "--mtbf",
        "TIME",
        "Time between failures per rank, such as 50000h: adds steps per day with checkpoints.",
    ),
    "storage": Argument(
        "--storage",
        "RATE",
        "With --mtbf: rate at which all ranks together write a checkpoint, such as 200GB/s.",
    ),
    "checkpoint": Argument(
        "--checkpoint",
        "TIME",
        "With --mtbf: time between checkpoints, such as 30min. [default: the best]",
    ),
    "restart": Argument(
        "--restart", "TIME", "With --mtbf: time from a failure to the first step. [default: 10min]"
    ),
    "layouts": _count(
        "--top",
        "K|all",
        "With --search: how many layouts to list. [default: 10]",
        most=MAX_ROWS,
        words=("all",),
        hint="one number, or all",
        python="top",
    ),
    # serving
    "tp": _count("--tp", "N", "Tensor-parallel ranks.", most=_MILLION),
    "pp": _count("--pp", "N", "Pipeline stages.", most=_MILLION),
    "ep": _count(
        "--ep",
        "N",
        "Expert-parallel ranks; up to tp, experts are sharded with it.",
        most=_MILLION,
    ),
    "dp": _count(
        "--dp",
        "N",
        "Attention replicas (DP attention). [default: ep / tp]",
        most=_MILLION,
    ),
    "batch": _count(
        "--batch",
        "N",
        "Sequences in flight, in total. [default: one per replica and stage]",
        most=_MILLIONS,
    ),
    "isl": _count("--isl", "TOKENS", "Input tokens per sequence.", most=_MILLIONS),
    "osl": _count("--osl", "TOKENS", "Output tokens per sequence.", most=_MILLIONS),
    "engine": Argument(
        "--engine",
        "NAME@VERSION",
        "Inference engine whose all-reduce runs: vllm@0.24.0, sglang, trtllm. [default: the"
        " fabric's library]",
        offers="engine",
    ),
    "experts_library": Argument(
        "--experts-library",
        "NAME@VERSION",
        "Library that runs dispatch and combine, or nccl for its all-to-all. [default: the"
        " fastest measured one]",
        offers="experts_library",
    ),
    "weights": Argument(
        "--weights",
        "TYPE",
        "Data type of the weights: bf16, fp8, nvfp4, mxfp4, int4. [default: the checkpoint's, else"
        " bf16]",
        offers="weights",
    ),
    "kv_dtype": Argument("--kv-dtype", "TYPE", "Format of the KV cache: bf16, fp8, nvfp4."),
    "chunk": _count("--chunk", "TOKENS", "Tokens per step of prefill.", most=_MILLIONS),
    "tpot": Argument(
        "--tpot",
        "TIME",
        "Measured or target time per output token, such as 18ms; adds the network's share of it.",
    ),
    "prefill_tp": _count(
        "--prefill-tp",
        "N",
        "Tensor-parallel ranks of separate prefill machines; adds the KV transfer.",
        most=_MILLION,
    ),
    "kv_library": Argument(
        "--kv",
        "NAME@VERSION",
        "Library that moves KV caches. [default: mooncake]",
        offers="kv_library",
    ),
    "two_batch_overlap": Argument(
        "--two-batch-overlap",
        help="Send the tokens of half of the batch while the other half computes (DBO in vLLM).",
        kind="flag",
    ),
    "prefill_tier": Argument(
        "--prefill-over",
        "TIER",
        "Tier between prefill and decode, such as wan for another site."
        " [default: the outermost of a site]",
    ),
    "kv_page": _count("--kv-page", "N", "Tokens of a page of the KV cache.", most=_MILLION),
    "kv_layout": Argument(
        "--kv-layout",
        "LAYOUT",
        "What is together in a page: heads (all tokens of a head), tokens (all heads of a token) or"
        " pages (all layers).",
    ),
    "serve_ranks": _count(
        "--ranks -n",
        "N",
        "Ranks of the whole deployment (requires --search).",
        python="ranks",
    ),
    "serve_search": Argument(
        "--search",
        help="Try every layout of the ranks (tp, pp, dp and ep), best first.",
        kind="flag",
        python="search",
    ),
    "senders": _count(
        "--from", "N", "Ranks that hold the weights, one shard each.", most=_MILLIONS
    ),
    "receivers": _count("--to", "N", "Ranks that receive the weights.", most=_MILLIONS),
    "replica": _count("--replica", "N", "Ranks per receiving replica.", most=_MILLIONS),
    "way": Argument(
        "--way", "NAME", "Price one way only, such as pairs, nixl or checkpoint-engine."
    ),
    # layouts
    "layout": Argument(
        "--layout",
        "FILE",
        "Layout file: the groups, what each one runs, and the rank mapping.",
        kind="path",
        file="read",
    ),
    "kind": Argument(
        "--pattern",
        "KIND",
        "How groups are laid out: block, cyclic, random, axis or box. [default: block]",
    ),
    "group": Argument("--group", "N", "Ranks per group. [default: all]", "count"),
    "count": Argument(
        "--count", "N", "Number of groups that run at once. [default: as many as fit]", "count"
    ),
    "axis": Argument("--axis", "N", "Axis of the torus or mesh, counted from 1.", "count"),
    "start": Argument("--start", "N", "Ranks left free before the first group.", "count"),
    "matrix": Argument(
        "--matrix",
        "FILE",
        "CSV of bytes: each row holds what one rank sends, by destination.",
        kind="path",
        file="read",
    ),
    "hot": Argument(
        "--hot",
        "X[@MEMBER,..]",
        "Hot destinations receive X times the mean. [default: the first member]",
    ),
    "zipf": Argument(
        "--zipf",
        "S",
        "Skewed all-to-all: destination k receives a share proportional to (k+1)^-S.",
        "number",
    ),
    "per_link": Argument(
        "--per-link", help="List every loaded link, not only the busiest ones.", kind="flag"
    ),
    "as_eta": Argument(
        "--as-eta", help="Print the eta to write into the fabric file.", kind="flag"
    ),
    # a fabric file, and the size of a network
    "source": Argument("--from", "FABRIC", "Fabric to start from.", offers="fabric", file="read"),
    "without": Argument(
        "--without",
        "RANK|A-B,...",
        "Failed ranks and links; the tier becomes a graph.",
        kind="texts",
    ),
    "tiers": Argument(
        "--tiers", "TIER,...", "Tiers, innermost first, each NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA."
    ),
    "endpoints": _count("--endpoints", "E", "Number of endpoints: GPUs or nodes."),
    "radix": _count("--radix", "R", "Ports per switch."),
    "fat_tree": _count("--fat-tree", "K", "Size the k-ary fat tree with k^3/4 endpoints instead."),
    "levels": _count("--levels", "1|2|3", "Levels of switches. [default: the fewest that fit]"),
    "rails": _count("--rails", "N", "Separate networks over which the ports are spread."),
    "ports_per_endpoint": _count(
        "--ports-per-endpoint",
        "P",
        "Ports per endpoint, such as the NICs of a node.",
    ),
    "oversubscription": Argument(
        "--oversubscription",
        "S1,S2",
        "Downlink over uplink capacity per level, leaf first: 2, 2:1, or ports and rates such"
        " as 48x400Gbps:8x800Gbps. [default: 1]",
    ),
    "sized": Argument(
        "--topology",
        help="Topology to size. [default: clos]",
        kind="word",
        words=("clos", "dragonfly", "dragonfly_plus", "hyperx"),
        python="topology",
    ),
    "prices": Argument(
        "--prices",
        "FILE",
        "File of prices, or a fabric that has the key prices.",
        file="read",
    ),
    "price": Argument(
        "--price",
        "KEY=VALUE",
        "A single price (repeatable): currency=USD, switch=30000, switch.draws=1.7kW, cable,"
        " optic, nic, power=0.1/kWh.",
        python="overrides",
        many=True,
    ),
    # for other programs
    "channels": Argument(
        "--channels",
        "N",
        "Channels in every row; NVLS has a limit of its own. [default: NCCL's choice]",
        "count",
    ),
    "env": Argument(
        "--env", help="Print an NCCL_ALGO setting instead: algorithms without sizes.", kind="flag"
    ),
    "ideal": Argument("--ideal", help="Without contention: every eta is 1.", kind="flag"),
    # the output
    "form": Argument(
        "--format",
        help="Output format. [default: table, or by the suffix of -o]",
        kind="word",
        words=FORMATS,
        python="format",
    ),
    "output": Argument(
        "-o --output",
        "FILE",
        "Write to this file instead of the terminal (-).",
        kind="path",
        file="written",
    ),
    "columns": Argument(
        "--columns", "A,B,...", "Columns of tables and CSV, in this order, by key or title."
    ),
    "everything": Argument(
        "-v --all",
        help="Show every row, column and note.",
        kind="flag",
    ),
    "plot": Argument(
        "--plot",
        "FILE",
        "Write a plot: .png, .svg or .pdf (requires matplotlib).",
        kind="path",
        file="written",
    ),
    "plot_what": Argument("--plot-what", help="Quantity to plot over size.", kind="word"),
    "chart": Argument(
        "--chart/--no-chart",
        help="Draw bus bandwidth over size in the terminal. [default: on a terminal with room"
        " for it, for five sizes or more]",
        kind="flag",
    ),
    # each command has its own help of them
    "files": Argument("", "FILE...", many=True, file="read"),
    "folder": Argument(
        "--folder",
        "DIR",
        "Folder whose files may be read, by names within it. [default: none]",
        kind="path",
    ),
    "document": Argument(
        "", "NAME", "Document to show, by a name that colltool schema lists.", offers="document"
    ),
    "dumps": Argument(
        "",
        "KIND FILE...",
        "Kind of dump and its file; a node and a network may be given together.",
        many=True,
        file="read",
    ),
    "topology_file": Argument(
        "", "NODE.xml", "What NCCL wrote to NCCL_TOPO_DUMP_FILE.", kind="path", file="read"
    ),
    "like": Argument(
        "--like",
        "FABRIC",
        "Fabric whose values fill in what the dump does not state. [default: by the devices]",
        offers="fabric",
        file="read",
    ),
    "nic": Argument(
        "--nic",
        "RATE",
        "Rate of each NIC, if the dump does not state it: 200Gbps. [default: by the devices]",
    ),
    "network_nodes": _count(
        "--nodes",
        "N",
        "Number of nodes, if no dump of the network is given. [default: 1]",
    ),
    "topic": Argument("", "TOPIC", "Chapter of the manual; colltool guide lists them."),
    "site": Argument(
        "--html",
        "DIR",
        "Write a web site into this folder: a page for each shipped machine, and the manual.",
        kind="path",
        file="written",
    ),
    "playground": Argument(
        "--playground",
        "DIR",
        "With --html: add a page that runs colltool in the browser; DIR has Pyodide's npm package.",
        kind="path",
        file="read",
    ),
    "no_pager": Argument(
        "--no-pager", help="Print long chapters at once instead of opening $PAGER.", kind="flag"
    ),
}
# Parameters that the option of another row gives: several fabrics, and the members behind hot's @.
ARGUMENTS |= {"fabrics": ARGUMENTS["fabric"], "hot_members": ARGUMENTS["hot"]}
# Error texts name an argument by its longest flag, of --chart/--no-chart by the first, and write the
# last before a value. A positional argument is named by its metavar, and has nothing before a value.
OPTIONS.update(
    {
        key: row.flags.partition("/")[0].split() or [row.metavar.rstrip("."), ""]
        for key, row in ARGUMENTS.items()
    }
)
