"""The arguments of public functions and commands, each declared once: flags, values, bounds, help.

Public functions check Python values against a row of :data:`ARGUMENTS` with
:mod:`colltool.commands.reading`; commands make an option of the same row
(:mod:`colltool.commands.options`) and read its text with :mod:`colltool.commands.option_text`.
:class:`Options` are the keyword arguments that most public functions share; :func:`command_line`
writes a call as a shell command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, TypeVar

from colltool.base.errors import OPTIONS, options_of
from colltool.estimate.assumptions import ModelOptions

if TYPE_CHECKING:
    from colltool.base.primitives import Pipelining
    from colltool.fabric.custom_machine import CustomMachine

AnyShape = str | Sequence[int]
Kind = Literal[
    "text",
    "flag",
    "path",
    "pair",
    "count",
    "number",
    "share",
    "shape",
    "word",
    "single",
    "texts",
    "names",
    "counts",
]
"""How an option's text is read. The last four kinds split at commas: ``single`` refuses several
items; ``texts``, ``names`` (each once) and ``counts`` (numbers and ranges of ranks) are lists."""
File = Literal["", "read", "written"]
Function = TypeVar("Function", bound=Callable[..., Any])

MAX_COUNT = 10**18
"""Bound of every count without a bound of its own; the fabric checks how many ranks it has."""
MAX_ROWS = 10**6
"""Bound of ``--top``: more rows than any output has."""
ABOVE_ZERO = 5e-324
"""The smallest positive float: an inclusive bound that excludes 0."""
LIBRARIES = ("nccl", "rccl", "mpi", "xla", "mscclpp", "all")
FORMATS = ("table", "json", "csv", "markdown", "html")


class Argument(NamedTuple):
    """An argument of public functions, and the option or positional argument that gives it.

    Args:
        flags: its flags, ``--ranks -n``; error texts use the last. Empty for a positional argument.
        metavar, help: as the help prints them; ``help`` names the default.
        kind: how the option's text is read.
        least, most: inclusive bounds of a number.
        words: the values that it may have; of a count, a word for ``most``.
        offers: completion in a shell: ``complete_NAME`` of :mod:`colltool.commands.completion`.
        hint: the fix of an error: for a list in place of a count, or an example of a share.
        python: the name of the function's parameter, if it is not the row's key.
        many: whether the option may be repeated.
        file: whether it names a file that is read or written: no output may overwrite an input.
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


_ONE_COUNT = "one number of ranks a call, and a call for each; export nccl-tuner takes several"
COUNTS = "Numbers of ranks: 8,64, or 8-64 (doubled), or 8-64+8 (in steps)."

ARGUMENTS = {
    # the query
    "primitive": Argument(
        "", "PRIM", "ar, ag, rs, a2a, bc, reduce, p2p, or the long name.", offers="primitive"
    ),
    "primitives": Argument(
        "-p --primitive", "PRIM,...", "ar, ag, rs, a2a, bc, reduce, p2p.", offers="primitive"
    ),
    "fabric": Argument(
        "--fabric -f",
        "FABRIC",
        "A fabric file, or the name of a shipped one; NAME:nodes=144 resizes it, NAME:KEY=VALUE"
        " sets a value of it.",
        offers="fabric",
        many=True,
        file="read",
    ),
    "overrides": Argument(
        "--set", "KEY=VALUE", "Override a value of the fabric; repeatable.", offers="set", many=True
    ),
    "machine": Argument(
        "--machine",
        "FILE",
        "Measured rows of this machine, as calibrate writes them. [default: NAME.machine.yaml"
        " beside NAME.yaml]",
        file="read",
    ),
    "per_rack": Argument(
        "--per-rack",
        "K",
        "Only K ranks of each rack or node: 64 of the 72 of nvl72.",
        "count",
        least=1,
        hint="such as --per-rack 64",
    ),
    "ranks": Argument(
        "--ranks -n",
        "N",
        "Ranks in the group, innermost domains first. [default: all of the fabric]",
        "count",
        offers="ranks",
        hint=_ONE_COUNT,
    ),
    "rank_counts": Argument(
        "--ranks -n",
        "N,...",
        f"{COUNTS} [default: all of each fabric]",
        offers="ranks",
        python="ranks",
        kind="counts",
        many=True,
    ),
    "log_ranks": Argument(
        "--ranks -n",
        "N",
        "Ranks, for logs that do not say (OSU).",
        "count",
        offers="ranks",
        hint="one number for all logs of a call",
        python="ranks",
    ),
    "job_ranks": Argument(
        "--ranks -n",
        "N",
        "Ranks of the job. [default: those of its layout, else all of the fabric]",
        "count",
        1,
        hint="one number of ranks a call",
        python="ranks",
    ),
    "page_ranks": Argument(
        "--ranks -n",
        "N",
        "Looked at closely, of the job, and of logs that do not say. [default: all of the smallest"
        " fabric]",
        "count",
        offers="ranks",
        hint="one number of ranks a page",
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
        "--alone", help="With --stride: the groups in between are idle.", kind="flag"
    ),
    "shape": Argument(
        "--shape",
        "4x4x4",
        "On a torus or mesh: ranks along each axis. [default: as near a cube as fits]",
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
        "Bytes per rank: 1MB,16MB, or 1K-1G (doubled), or 1K:1G:4. [default: six, 1KB to 1GB]",
        kind="texts",
    ),
    "begin": Argument("--begin -b", "SIZE", "First of a range of sizes, as nccl-tests' -b."),
    "end": Argument("--end -e", "SIZE", "Last of it, as nccl-tests' -e."),
    "factor": Argument(
        "--factor", "X", "From one size of it to the next. [default: 2]", kind="number"
    ),
    "step": Argument("--step", "SIZE", "In place of a factor: bytes from one to the next."),
    "algorithm": Argument("-a --algorithm", "NAME", "One, as price names it.", offers="algorithm"),
    "algorithms": Argument(
        "-a --algorithm",
        "NAME,...",
        "Only these, comma-separated.",
        offers="algorithm",
        kind="names",
    ),
    "algorithm_files": Argument(
        "--algorithm-file",
        "FILE",
        "An algorithm of your own: YAML, MSCCL XML, an MSCCL++ plan; repeatable.",
        many=True,
        file="read",
    ),
    "library": Argument(
        "--library",
        "|".join(LIBRARIES),
        "Consider only what this library implements, or NAME@VERSION of library list. [default: the"
        " fabric's own, else all]",
        words=LIBRARIES,
    ),
    "library_file": Argument(
        "--library-file",
        "FILE.toml",
        "A library file of your own in place of a shipped one.",
        file="read",
    ),
    "library_name": Argument(
        "",
        "LIBRARY",
        "NAME or NAME@VERSION of library list, or a file of your own.",
        python="library",
    ),
    "library_source": Argument("--from", "LIBRARY", "Start from this one.", python="library"),
    "tokens": Argument(
        "--tokens", "T", "Of dispatch and combine: tokens of a rank.", "count", 1, 2**24
    ),
    "top_k": Argument("--top-k", "K", "Experts of a token.", "count", 1, 2**24),
    "hidden": Argument("--hidden", "H", "Values of a token.", "count", 1, 2**24),
    "experts": Argument("--experts", "E", "Experts of a layer.", "count", 1, 2**24),
    "dtype": Argument(
        "--dtype", "TYPE", "As tokens are sent: fp8, bf16, nvfp4 ... [default: fp8 out, bf16 back]"
    ),
    "groups": Argument(
        "--expert-groups",
        "G",
        "Nodes that routing limits a token to. [default: any]",
        "count",
        1,
        2**20,
    ),
    "skew": Argument(
        "--skew", "X", "Bytes of the hottest rank over the mean. [default: 1]", "number"
    ),
    "slow_rank": Argument(
        "--slow-rank",
        "SHARE",
        "Also with one rank at this share of its bandwidth: 0.8, 80%.",
        "share",
        ABOVE_ZERO,
        1,
        hint="80% or 0.8",
    ),
    "top": Argument("--top", "K", "Only the K fastest.", "count", 1, MAX_ROWS),
    # grids of prices
    "vary": Argument(
        "--vary", "KEY=V1,V2", "Values of a key of the fabric; repeatable.", many=True
    ),
    "pivot": Argument(
        "--pivot",
        help="Tables of two axes that show this.",
        kind="word",
        words=("busbw", "total", "algorithm"),
    ),
    "rows": Argument("--rows", "AXIS", "The axis down: fabric, ranks, bytes or a KEY."),
    "cols": Argument("--cols", "AXIS", "The axis across."),
    "limit": Argument("--limit", "CELLS", "The most cells. [default: 100000]", "count", 1, 10**7),
    "samples": Argument("--samples", "K", "Draws of all numbers at once.", "count", 1, 10**6),
    "seed": Argument("--seed", "K", "Of the draws.", "count", 0, 10**9),
    # executed schedules
    "segments": Argument(
        "--segments",
        "P",
        "P of pipelined algorithms. [default: 16; 2 with --trace]",
        "count",
        1,
        65_536,
    ),
    "trace": Argument(
        "--trace",
        help=(
            "Print every step: who sends what to whom, what each rank then holds. 16 ranks at most."
        ),
        kind="flag",
    ),
    "values": Argument(
        "--values",
        "NUMBERS",
        "With --trace: on these, rank by rank: 1,2,3,4 or 1..16. [default: an example's]",
    ),
    "simulator": Argument(
        "--with",
        "SIM",
        "Run the same schedules in a simulator installed here: simgrid.",
        kind="word",
        words=("simgrid",),
    ),
    "check": Argument(
        "--check",
        "FILE",
        "Compare with this JSON output of an earlier run; exit 1 where a price moved.",
        kind="path",
        file="read",
    ),
    "old": Argument("", "OLD", "A JSON output of colltool.", kind="path", file="read"),
    "new": Argument("", "NEW", "A later output of the same command.", kind="path", file="read"),
    "rtol": Argument(
        "--rtol",
        "SHARE",
        "Relative change that counts as none: 1%, 0.01. [default: 1e-6]",
        "share",
        0,
        hint="1% or 0.01",
    ),
    # measurements
    "logs": Argument(
        "",
        "LOG...",
        "nccl-tests, rccl-tests (text or -J), OSU micro-benchmarks, or CSV.",
        many=True,
        file="read",
    ),
    "collective": Argument(
        "--collective", "PRIM", "For logs that do not say.", offers="primitive", python="primitive"
    ),
    "nodes": Argument("--nodes", "N", "Nodes of the ranks, for logs that do not say.", "count"),
    "in_place": Argument(
        "--in-place", help="The in-place half of nccl-tests' tables.", kind="flag"
    ),
    "expect": Argument(
        "--expect",
        "SHARE",
        "The share of the expected rate below which something is off: 95%, 0.95. [default: 80%,"
        " less for few ranks]",
        "share",
        ABOVE_ZERO,
        hint="95% or 0.95",
    ),
    "max_mape": Argument(
        "--max-mape",
        "SHARE",
        "Exit 1 where a series is further off on average: 15%, 0.15.",
        "share",
        ABOVE_ZERO,
        hint="15% or 0.15",
    ),
    "tier": Argument(
        "--tier", "TIER", "Only this tier. [default: each that some series spans as its outermost]"
    ),
    "line_rate": Argument(
        "--line-rate", "RATE", "Give bandwidths as eta of this rate: 450GB/s, 400Gbps."
    ),
    "placed": Argument(
        "--map",
        "block|cyclic|FILE",
        "How ranks sit on hosts; a file lists the fabric's rank or host of each.",
        file="read",
    ),
    "against": Argument(
        "--against",
        "TRACE",
        "Another trace of the job, from before a change; repeatable: one a rank.",
        many=True,
        file="read",
    ),
    "calls": Argument(
        "--calls",
        "FILE",
        "Write the calls of a step as a job, for colltool plan on another fabric.",
        kind="path",
        file="written",
    ),
    # jobs
    "job": Argument(
        "--job", "JOB", "A job file, or the name of a shipped one.", offers="job", file="read"
    ),
    "model": Argument(
        "", "MODEL", "The path of a config.json, or the name of a shipped model.", file="read"
    ),
    "job_overrides": Argument(
        "--job-set", "KEY=VALUE", "Override a value of the job; repeatable.", many=True
    ),
    "links": Argument(
        "--links",
        help="Also the busiest link of each kind while all groups send at once.",
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
        "share",
        0,
        0.99,
        hint="10% or 0.1",
    ),
    "compute": Argument(
        "--compute",
        "FILE",
        "A CSV of measured GEMMs, M,N,K,dtype,us, in place of the stack's shares of peak.",
        file="read",
    ),
    "target": Argument(
        "--target",
        "GOAL",
        "The least network for mfu=45%, or for step=5% over the step of a free network.",
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
    "layouts": Argument(
        "--top",
        "K|all",
        "With --search: how many layouts to list. [default: 10]",
        "count",
        1,
        MAX_ROWS,
        words=("all",),
        hint="one number, or all",
        python="top",
    ),
    # serving
    "tp": Argument("--tp", "N", "Tensor parallelism. [default: 1]", "count", 1, 2**20),
    "pp": Argument("--pp", "N", "Pipeline stages. [default: 1]", "count", 1, 2**20),
    "ep": Argument(
        "--ep",
        "N",
        "Ranks that the experts of a layer are on. [default: cut by tp]",
        "count",
        1,
        2**20,
    ),
    "dp": Argument(
        "--dp",
        "N",
        "Replicas of attention (dp attention). [default: ep over tp]",
        "count",
        1,
        2**20,
    ),
    "batch": Argument(
        "--batch",
        "N",
        "Sequences in flight in all. [default: one for each replica and stage]",
        "count",
        1,
        2**24,
    ),
    "isl": Argument(
        "--isl", "TOKENS", "Input length of a sequence. [default: 4096]", "count", 1, 2**24
    ),
    "osl": Argument("--osl", "TOKENS", "Output length. [default: 1024]", "count", 1, 2**24),
    "engine": Argument(
        "--engine",
        "NAME@VERSION",
        "Whose all-reduce runs: vllm@0.24.0, sglang, trtllm. [default: the fabric's own library]",
    ),
    "experts_library": Argument(
        "--experts-library",
        "NAME@VERSION",
        "Whose dispatch and combine run, or nccl for its all-to-all. [default: the fastest measured"
        " there]",
    ),
    "weights": Argument("--weights", "TYPE", "Of weights: bf16, fp8, nvfp4. [default: bf16]"),
    "kv_dtype": Argument("--kv-dtype", "TYPE", "Of the KV cache. [default: bf16]"),
    "chunk": Argument(
        "--chunk", "TOKENS", "Tokens of a step of prefill. [default: 8192]", "count", 1, 2**24
    ),
    "tpot": Argument(
        "--tpot",
        "TIME",
        "Measured or wanted time of a token, such as 18ms: the network's share of it.",
    ),
    "prefill_tp": Argument(
        "--prefill-tp",
        "N",
        "Prefill on machines of its own: its tp; adds the KV transfer.",
        "count",
        1,
        2**20,
    ),
    "kv_library": Argument("--kv", "NAME@VERSION", "What moves KV caches. [default: mooncake]"),
    "serve_ranks": Argument(
        "--ranks -n", "N", "Of --search: all ranks of the deployment.", "count", 1, python="ranks"
    ),
    "cuts": Argument(
        "--search",
        help="Every cut of the ranks into tp, pp, dp and ep; the best first.",
        kind="flag",
        python="search",
    ),
    "senders": Argument(
        "--from", "N", "Ranks that hold the weights, a share each.", "count", 1, 2**24
    ),
    "receivers": Argument("--to", "N", "Ranks that need them.", "count", 1, 2**24),
    "replica": Argument(
        "--replica", "N", "Ranks of a replica that receives. [default: 1]", "count", 1, 2**24
    ),
    # layouts
    "layout": Argument(
        "--layout",
        "FILE",
        "A layout file: groups, what each runs, a map.",
        kind="path",
        file="read",
    ),
    "kind": Argument("--pattern", "KIND", "block, cyclic, random, axis or box. [default: block]"),
    "group": Argument("--group", "N", "Ranks in a group. [default: all]", "count"),
    "count": Argument("--count", "N", "Groups at once. [default: as many as fit]", "count"),
    "axis": Argument("--axis", "N", "Axis of a lattice, from 1.", "count"),
    "start": Argument("--start", "N", "Ranks left free before the first group.", "count"),
    "matrix": Argument(
        "--matrix", "FILE", "CSV of bytes, row sends to column.", kind="path", file="read"
    ),
    "hot": Argument(
        "--hot",
        "X[@MEMBER,..]",
        "Hot destinations get X times the mean; default: the first member.",
    ),
    "zipf": Argument("--zipf", "S", "Destination k gets a share like (k+1)^-S.", "number"),
    "per_link": Argument(
        "--per-link", help="Every loaded link, not only the hottest.", kind="flag"
    ),
    "as_eta": Argument("--as-eta", help="Print the eta to put in the fabric file.", kind="flag"),
    # a fabric file, and the size of a network
    "source": Argument("--from", "FABRIC", "Start from this one.", offers="fabric", file="read"),
    "without": Argument(
        "--without",
        "RANK|A-B,...",
        "Ranks and links that failed; the tier becomes a graph.",
        kind="texts",
    ),
    "tiers": Argument(
        "--tiers", "TIER,...", "NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA each, innermost first."
    ),
    "endpoints": Argument("--endpoints", "E", "What it joins: GPUs or nodes.", "count", 1),
    "radix": Argument("--radix", "R", "Ports of a switch.", "count", 1),
    "fat_tree": Argument(
        "--fat-tree", "K", "The k-ary fat-tree of k^3/4 endpoints instead.", "count", 1
    ),
    "levels": Argument(
        "--levels", "1|2|3", "Of switches. [default: the fewest that fit]", "count", 1
    ),
    "rails": Argument("--rails", "N", "Separate fabrics that the ports spread over.", "count", 1),
    "ports_per_endpoint": Argument(
        "--ports-per-endpoint", "P", "Ports of an endpoint: the NICs of a node.", "count", 1
    ),
    "oversubscription": Argument(
        "--oversubscription",
        "S1,S2",
        "Down over up of a leaf, of a spine: 2, 2:1, or ports and rates 48x400Gbps:8x800Gbps."
        " [default: 1]",
    ),
    "sized": Argument(
        "--topology",
        help="What it is. [default: clos]",
        kind="word",
        words=("clos", "dragonfly", "dragonfly_plus", "hyperx"),
        python="topology",
    ),
    "prices": Argument(
        "--prices",
        "FILE",
        "Prices: a fabric with the key prices, or a file of its keys.",
        file="read",
    ),
    "price": Argument(
        "--price",
        "KEY=VALUE",
        "One price: currency=USD, switch=30000 (or switch.price, switch.draws=1.7kW), cable, optic,"
        " nic, power=0.1/kWh.",
        python="overrides",
        many=True,
    ),
    # for other programs
    "channels": Argument(
        "--channels",
        "N",
        "Channels of every row; NVLS has a limit of its own. [default: what NCCL takes]",
        "count",
    ),
    "env": Argument(
        "--env", help="Print NCCL_ALGO instead: algorithms without sizes.", kind="flag"
    ),
    "ideal": Argument("--ideal", help="Without contention: every eta is 1.", kind="flag"),
    # the output
    "form": Argument(
        "--format",
        help="How to write the result. [default: table, or by the suffix of -o]",
        kind="word",
        words=FORMATS,
        python="format",
    ),
    "output": Argument(
        "-o --output",
        "FILE",
        "Write to this file instead of the terminal; - is the terminal.",
        kind="path",
        file="written",
    ),
    "columns": Argument(
        "--columns", "A,B,...", "Columns of tables and CSV, in this order: keys or titles."
    ),
    "everything": Argument(
        "-v --all",
        help="Every row, column and note; the default view shows what matters most.",
        kind="flag",
    ),
    "plot": Argument(
        "--plot",
        "FILE",
        "Draw it: .png, .svg or .pdf; needs matplotlib.",
        kind="path",
        file="written",
    ),
    "plot_what": Argument("--plot-what", help="What to draw over size.", kind="word"),
    "files": Argument("", "FILE...", many=True, file="read"),
    "folder": Argument(
        "--folder",
        "DIR",
        "Files of this folder may be read, by names within it. [default: none]",
        kind="path",
    ),
    "document": Argument("", "NAME", "One of those that colltool schema lists.", offers="document"),
    "dumps": Argument(
        "",
        "KIND FILE...",
        "What to read: a kind of dump and its file, or two of them.",
        many=True,
        file="read",
    ),
    "like": Argument(
        "--like",
        "FABRIC",
        "Whose numbers stand in for what is untold. [default: by the devices]",
        offers="fabric",
        file="read",
    ),
    "network_nodes": Argument(
        "--nodes",
        "N",
        "Nodes that the network joins, without a dump of it. [default: 1]",
        "count",
        1,
    ),
    "topic": Argument("", "TOPIC", "One of those that colltool guide lists."),
    "site": Argument(
        "--html",
        "DIR",
        "All of it as a site: the folder for its pages and pictures.",
        kind="path",
        file="written",
    ),
    "no_pager": Argument(
        "--no-pager", help="Print it all at once; else long chapters open in $PAGER.", kind="flag"
    ),
}
ARGUMENTS |= {"fabrics": ARGUMENTS["fabric"], "hot_members": ARGUMENTS["hot"]}
# error texts name an argument by its flag; a positional argument by its metavar
OPTIONS.update(
    {key: row.flags.split() or [row.metavar.rstrip("."), ""] for key, row in ARGUMENTS.items()}
)


class Options(TypedDict, total=False):
    """Keyword arguments of most public functions: the group, the library, and model options.

    See :func:`colltool.price` for the first five, :class:`colltool.Readings` for the others.
    """

    stride: int
    alone: bool
    shape: AnyShape | None
    library: str | None
    machine: CustomMachine | None
    readings: ModelOptions | None
    ideal: bool
    pipelining: Pipelining
    phases: Literal["auto", "sequential", "pipelined"]
    placement: Literal["packed", "scattered"]
    ring_alpha: Literal["mean", "worst"]
    tree_beta: float
    ports: Literal["all", "one"]
    order: Literal["auto", "outer-first", "inner-first"]


class ExpertOptions(TypedDict, total=False):
    """Keyword arguments that describe a call of dispatch or combine."""

    tokens: int | None
    top_k: int | None
    hidden: int | None
    experts: int | None
    dtype: str | None
    groups: int | None
    skew: float | None


class PriceOptions(ExpertOptions, Options, total=False):
    """Keyword arguments of a price: those of experts, and those of most public functions."""


OPTION_DEFAULTS = {"stride": 1, "alone": False, **ModelOptions._field_defaults}
"""Defaults of :class:`PriceOptions`; all others default to None."""


def with_options(function: Function) -> Function:
    """Replace ``**options`` in the function's signature, as ``inspect`` and ``help`` show it, with
    the keys of :class:`Options` or :class:`PriceOptions`."""
    from inspect import Parameter, signature

    declared = signature(function)
    *parameters, collected = declared.parameters.values()
    keys: Any = PriceOptions if "PriceOptions" in str(collected.annotation) else Options
    for option, annotation in keys.__annotations__.items():
        parameter = Parameter(
            option,
            Parameter.KEYWORD_ONLY,
            default=OPTION_DEFAULTS.get(option),
            annotation=annotation.__forward_arg__,
        )
        parameters.append(parameter)
    function.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function


def command_line(
    command: str,
    *arguments: str,
    fabrics: Sequence[str] = (),
    sets: Sequence[str] = (),
    readings: ModelOptions | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    """The call of a command, quoted for a shell.

    Args:
        command: ``price``, ``fabric show``.
        arguments: positional arguments: a primitive, files.
        fabrics: files or names, as the user wrote them.
        sets: ``KEY=VALUE`` of the fabric.
        readings: model options; only those that differ from the defaults are written.
        options: further options by the argument's name in Python; a list repeats the option, None
            leaves it out.

    >>> command_line("price", "ar", fabrics=["my cluster.yaml"], options={"ranks": 64, "size": None})
    "colltool price ar -f 'my cluster.yaml' -n 64"
    """
    changed = (readings or ModelOptions()).unlike(ModelOptions())
    if readings is not None and readings.ideal:
        changed["ideal"] = True
    all_options = {"fabric": list(fabrics), **(options or {}), "overrides": list(sets), **changed}
    words = ["colltool", *command.split()]
    words += [f"./{file}" if file.startswith("-") else file for file in arguments]
    for argument, value in all_options.items():
        flag = options_of(argument)[-1]
        if value is None:
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            words.append(flag)
            if item is not True:
                words.append(str(item))
    return shlex.join(words)
