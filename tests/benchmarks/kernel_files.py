"""What each file of colltool/engines/data holds: which rows its kernels are fitted to, and what is
known beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from fit_kernels import (
    KIB,
    Kernel,
    Row,
    exchanged,
    fitted,
    library,
    one_shot,
    rows,
    two_shot,
)


def fit(
    name: str,
    formula: str,
    several: Sequence[Row],
    gpus: Sequence[str],
    ranks: tuple[int, int],
    sizes: tuple[str, str],
    source: str,
    *,
    free: float = 0,
    **more: object,
) -> Kernel:
    us = np.array([row.us for row in several])
    features = {"one-shot": one_shot, "two-shot": two_shot}.get(formula)
    table = (
        features(several)
        if features
        else np.array([[1.0, row.ranks - 1, max(0, row.bytes - free) / 1e3] for row in several])
    )
    own = fitted(table, us)
    off = float(np.median(np.abs(table @ own / us - 1)))
    numbers = {
        "base_us": own[0],
        "per_rank_us": own[1],
        "GBps": 1 / own[2] if own[2] > 1e-9 else 1e6,
    }
    numbers |= {"free_KiB": free / KIB} if formula == "switch" else {}
    return Kernel(
        name,
        "all_reduce",
        formula,
        numbers,
        gpus,
        ranks,
        source,
        sizes,
        error=max(off, 0.01),
        error_of="the rows it was fitted to",
        **more,
    )  # type: ignore[arg-type]


def cx7(name: str, version: str, spoken: str, error: float, error_of: str, dtypes: str) -> str:
    """The low-latency law of DeepEP, on kernels of others that were held against it."""
    law = {"base_us": 25.0, "per_rank_us": 0.0, "per_expert_us": 0.0, "eta": 0.935}
    kernels = [
        Kernel(
            "low-latency",
            one,
            "exchange-nic",
            law,
            ["h100"],
            (16, 128),
            f"DeepEP's formula for 400 Gb/s ConnectX-7; {dtypes}",
            tokens=(1, 128),
            copies="experts",
            across=True,
            network="400 Gb/s ConnectX-7",
            error=error,
            error_of=error_of,
        )
        for one in ("dispatch", "combine")
    ]
    return library(
        name, version, spoken, kernels, {"h200": "h100"}, "No row of its own was fitted."
    )


def nccl_ep() -> str:
    kernels = []
    for operation in ("dispatch", "combine"):
        own = rows(kernel="nccl-ep low-latency", operation=f"moe-{operation}")
        inside = next(row for row in own if row.ranks == 8)
        sent = 128 * 8 * 7168 * 2 * 7 / 8
        kernels.append(
            Kernel(
                "low-latency",
                operation,
                "exchange",
                {
                    "base_us": 11.4,
                    "per_rank_us": 0.0,
                    "per_expert_us": 0.0,
                    "GBps": sent / (inside.us - 11.4) / 1e3,
                },
                ["h100"],
                (8, 8),
                "NVIDIA/nccl contrib/nccl_ep/README.md, 2.29u1: one row, and DeepEP's start",
                tokens=(128, 128),
                copies="experts",
                error=0.15,
                error_of="one row only",
            )
        )
        law = {"base_us": 25.0, "per_rank_us": 0.0, "per_expert_us": 0.0, "eta": 0.935}
        kernels.append(
            Kernel(
                "low-latency",
                operation,
                "exchange-nic",
                law,
                ["h100"],
                (16, 64),
                "DeepEP's formula for 400 Gb/s ConnectX-7",
                tokens=(128, 128),
                copies="experts",
                across=True,
                network="400 Gb/s ConnectX-7",
                error={"dispatch": 0.049, "combine": 0.106}[operation],
                error_of="NCCL EP's README, 2 to 8 nodes, not used in the fit",
            )
        )
    return library("nccl-ep", "2.29", "NCCL EP", kernels, {"h200": "h100"}, "Low latency alone.")


MORI_DOCS = (
    "ROCm/mori docs/EP8.en.md and EP16.en.md, commit ac97b1d6 (MIT): MI355X, means of all ranks"
)
MORI_README = "ROCm/mori README, commit 624002c8 (MIT): 128 and 4096 tokens, best of several rounds"
# GB/s of the link between two GPUs, by 2 and 4 ranks of MI350X (ROCm/mori docs/ep2_, ep4_mi350x)
XGMI_LINK_GBPS = 54.0
# median errors on rows of the README, of MI300X and of 32 ranks, which the numbers are not fitted to
MORI_ACROSS = {
    ("InterNodeV1LL", "dispatch"): (1, 768, 0.1),
    ("InterNodeV1LL", "combine"): (1, 768, 0.16),
    ("InterNodeV1", "dispatch"): (4096, 262144, 0.08),
    ("InterNodeV1", "combine"): (4096, 262144, 0.06),
}


def mori() -> str:
    kernels = []
    for operation in ("dispatch", "combine"):
        law = exchanged(
            rows(kernel="mori-ep IntraNode", operation=f"moe-{operation}", gpu="mi300x"),
            "ranks",
            terms="b",
        )
        kernels.append(
            Kernel(
                "IntraNode",
                operation,
                "exchange",
                law,
                ["mi300x"],
                (8, 8),
                MORI_README,
                tokens=(128, 4096),
                copies="ranks",
                error=0.15,
                error_of="two rows, two numbers: the best of several rounds",
            )
        )
        own = rows(kernel="mori-ep IntraNode", operation=f"moe-{operation}", gpu="mi355x")
        law = exchanged([row for row in own if "docs" in row.source], "ranks", terms="b")
        kernels.append(
            Kernel(
                "IntraNode",
                operation,
                "exchange",
                law | {"link_GBps": XGMI_LINK_GBPS},
                ["mi355x"],
                (2, 8),
                MORI_DOCS,
                tokens=(1, 524288),
                copies="ranks",
                error=0.06,
                error_of="2 to 8 ranks of MI350X, which give the number of the link alone",
            )
        )
    for (name, operation), (least, most, error) in MORI_ACROSS.items():
        own = rows(kernel=f"mori-ep {name}", operation=f"moe-{operation}", gpu="mi355x")
        law = exchanged(
            [row for row in own if "docs" in row.source], "nodes", gpus_a_node=8, terms="b"
        )
        law["eta"] = law.pop("GBps") / 50
        kernels.append(
            Kernel(
                name,
                operation,
                "exchange-nic",
                law,
                ["mi300x", "mi355x"],
                (16, 32),
                MORI_DOCS,
                tokens=(least, most),
                copies="nodes",
                across=True,
                network="400 Gb/s Pollara or ConnectX-7",
                error=error,
                error_of="its README's rows of MI300X and MI355X, not used in the fit",
            )
        )
    notes = (
        "Its own kernels by name: one within a node; across nodes one for few tokens, one for many."
    )
    return library("mori", "2026.8", "MORI-EP", kernels, {}, notes)


# a kernel's name in the rows: in the file, and the bytes that hide behind its latency
NVLS = {
    "nvls one-shot (multimem.ld_reduce, no barrier)": ("nvls one-shot", 64 * KIB),
    "nvls two-shot Lamport": ("nvls two-shot Lamport", 128 * KIB),
    "nvls two-shot with barrier": ("nvls two-shot", 256 * KIB),
    "nccl default": ("default", 32 * KIB),
}


def nccl_windows() -> str:
    """NCCL's kernels on registered windows and multicast, from its own examples and from vLLM's
    measurements."""
    contrib = "NVIDIA/nccl contrib/custom_algos, 2.30.7 (Apache-2.0), GB200 NVL72, CUDA graph, fp32"
    kernels = [
        fit(
            name,
            "switch",
            rows(kernel=own, operation="all-reduce", gpu="gb200"),
            ["gb200"],
            (4, 8),
            ("1KiB", "1MiB"),
            contrib,
            free=free,
        )
        for own, (name, free) in NVLS.items()
    ]
    source = (
        "vllm-project/vllm pull request 24532: 4 ranks of H100 or B200, B200 by vLLM's own kernels"
        " beside them"
    )
    for own, name, formula in (
        ("nccl symmetric window", "symmetric window", "switch"),
        ("torch symm_mem multimem", "symm_mem multimem", "switch"),
        ("torch symm_mem two-shot", "symm_mem two-shot", "two-shot"),
    ):
        several = rows(kernel=own, source="vllm PR 24532")
        kernels.append(fit(name, formula, several, ["b200"], (4, 4), ("512KiB", "3MiB"), source))
    return library(
        "nccl-window",
        "2.30",
        "NCCL on registered windows",
        kernels,
        {"gb300": "gb200", "b300": "b200"},
        "What a call costs when its buffers are registered; which one runs is the caller's choice.",
    )


def mooncake() -> str:
    own = rows(operation="kv-transfer")
    us = np.array([row.us for row in own])
    base, slope = fitted(np.array([[1.0, row.bytes / 1e3] for row in own]), us)
    kernel = Kernel(
        "RDMA",
        "kv_transfer",
        "transfer",
        {"base_us": base, "eta": 0.935, "GBps": 1 / slope},
        ["h800", "h100"],
        (8, 8),
        "Mooncake docs, vllm-v1-pd-performance: 8 pairs of H800 over 8 x ConnectX-7 RoCE, vllm"
        " 0.11.2",
        sizes=("20MB", "4.5GB"),
        across=True,
        network="8 x 400 Gb/s ConnectX-7",
        error=0.031,
        error_of="the rows it was fitted to",
    )
    return library(
        "mooncake",
        "2025.12",
        "Mooncake",
        [kernel],
        # the NICs of these hosts are H100's, and slower ones are counted by their rate
        dict.fromkeys(("h200", "h20", "b200", "b300", "a100-80gb", "a100-40gb"), "h100"),
        "KV caches between machines, all pairs at once.",
        # H200's hosts differ in their GPUs alone
        like_error={"h200": 0.031},
    )


FILES: dict[str, Callable[[], str]] = {
    "pplx-1": lambda: cx7(
        "pplx",
        "1",
        "Perplexity's kernels",
        0.045,
        "Perplexity's table of decode, not used in the fit",
        "fp8, bf16",
    ),
    "nccl-ep-2.29": nccl_ep,
    "mori-2026.8": mori,
    "nccl-window-2.30": nccl_windows,
    "mooncake-2025.12": mooncake,
}
