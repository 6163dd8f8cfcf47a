"""What each file of colltool/engines/data holds: which rows its kernels are fitted to, and what is
known beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fit_kernels import (
    AIC,
    KIB,
    MIB,
    Kernel,
    Law,
    Row,
    copied,
    exchanged,
    fitted,
    library,
    one_shot,
    rows,
    scaled,
    small,
    two_branches,
    two_shot,
)

LIKE = {"a100-40gb": "a100-80gb", "h200": "h100", "b300": "b200", "gb300": "gb200"}
RANKS = {"a100-80gb": (2, 8), "h100": (2, 8), "b200": (2, 8), "gb200": (2, 2)}
UNSEEN = {"a100-80gb": 0.058, "h100": 0.047, "b200": 0.078, "gb200": 0.12}
HELD = "the same formula on 4 ranks, not used in the fit"
ONE_COUNT = (
    "only 2 ranks were measured: more take B200's formula, with one factor for latencies and one for"
    " rates"
)


def engine_rows(version: str, gpu: str) -> list[Row]:
    return small(rows(source="aiconfigurator", operation="all-reduce", version=version, gpu=gpu))


def laws(version: str, gpu: str) -> tuple[Law, Law]:
    own = engine_rows(version, gpu)
    if len({row.ranks for row in own}) > 1:
        return two_branches(own)
    return scaled(laws(version, "b200"), own)


def shots(
    version: str, gpu: str, names: tuple[str, str] = ("one-shot", "two-shot"), said: str = ""
) -> list[Kernel]:
    source = f"{AIC}: custom all-reduce of {version} on {gpu}, CUDA graph, bf16"
    found = []
    for formula, name, law in zip(("one-shot", "two-shot"), names, laws(version, gpu), strict=True):
        if law.base >= 1e6:  # no row chose this branch
            continue
        own = {"base_us": law.base, "per_rank_us": law.per_rank, "GBps": law.GBps}
        words = ONE_COUNT if gpu == "gb200" else said
        found.append(
            Kernel(
                name,
                "all_reduce",
                formula,
                own,
                [gpu],
                RANKS[gpu],
                source,
                ("1KiB", "4MiB"),
                error=UNSEEN[gpu],
                error_of=HELD,
                said=words,
            )
        )
    return found


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


def dispatch(kernel: str, gpus: Sequence[str], ranks: tuple[int, int], start: str, end: str) -> str:
    listed = "[" + ", ".join(f'"{gpu}"' for gpu in gpus) + "]"
    return (
        f'[[dispatch]]\nkernel = "{kernel}"\ngpus = {listed}\nranks = {list(ranks)}\nfrom ='
        f' "{start}"\nto = "{end}"\n'
    )


def vllm() -> str:
    """Custom one-shot below 512 KiB on up to 4 ranks and below 256 KiB on up to 8, custom two-shot
    above; then symm_mem."""
    version, source = "vllm 0.24.0", f"{AIC}: all-reduce of vllm 0.24.0, CUDA graph, bf16"
    kernels: list[Kernel] = []
    for gpu, top in (("a100-80gb", 8 * MIB), ("h100", 0), ("b200", 0), ("gb200", 0)):
        own = engine_rows("vllm 0.14.0" if top else version, gpu)
        said = "measured with vllm 0.14.0" if top else ONE_COUNT if gpu == "gb200" else ""
        if top:
            kernels += [
                one._replace(said=said, name=f"custom {one.name}")
                for one in shots("vllm 0.14.0", gpu)
            ]
            continue
        limit = {"h100": {2: 64 * MIB, 8: 256 * KIB}}.get(gpu, {2: 2 * MIB, 8: 256 * KIB})
        first = [row for row in own if row.bytes < limit[row.ranks]]
        one = fit(
            "custom one-shot", "one-shot", first, [gpu], (2, 8), ("1KiB", "4MiB"), source, said=said
        )
        if gpu == "gb200":
            other = next(
                kernel
                for kernel in kernels
                if kernel.gpus == ["b200"] and kernel.formula == "one-shot"
            )
            one = one._replace(
                own=one.own | {"per_rank_us": other.own["per_rank_us"]}, ranks=(2, 2)
            )
        kernels.append(one._replace(error=UNSEEN[gpu], error_of=HELD))
        symm = [
            row
            for row in own
            if row.ranks == 8 and row.bytes >= (256 * KIB if gpu == "h100" else MIB)
        ]
        if symm:
            law = fit(
                "symm_mem",
                "two-shot",
                symm,
                [gpu],
                (2, 8),
                ("256KiB" if gpu == "h100" else "1MiB", "4MiB"),
                source,
            )
            words = (
                "measured on 8 ranks only; also used for the custom two-shot on 4 ranks"
                if gpu == "h100"
                else "measured on 8 ranks only"
            )
            kernels.append(law._replace(said=words, error=UNSEEN[gpu], error_of=HELD))
        if gpu == "gb200":
            others = [
                kernel
                for kernel in kernels
                if kernel.gpus == ["b200"] and kernel.name != "custom one-shot"
            ]
            kernels += [
                one._replace(
                    gpus=["gb200"], said="B200's numbers: not measured here", error=2 * UNSEEN[gpu]
                )
                for one in others
            ]
        if gpu == "b200":
            two = [row for row in own if row.ranks == 8 and 256 * KIB <= row.bytes < MIB]
            two += rows(source="vllm PR 24532", kernel="vllm custom two-shot")
            law = fit(
                "custom two-shot",
                "two-shot",
                two,
                [gpu],
                (4, 8),
                ("256KiB", "3MiB"),
                f"{source}; vllm pull request 24532",
            )
            kernels.append(law._replace(said="two sizes on 8 ranks, five on 4"))
    return library(
        "vllm",
        "0.24.0",
        "vLLM",
        kernels,
        LIKE,
        "Tables of dispatch: vllm-project/vllm, csrc/custom_all_reduce.cuh and "
        "vllm/distributed/device_communicators/all_reduce_utils.py (Apache-2.0).",
        vllm_dispatch(),
        most_ranks=8,
    )


def vllm_dispatch() -> str:
    hopper, blackwell, ultra = ["h100", "h200"], ["b200", "gb200"], ["b300", "gb300"]
    table = [
        dispatch("custom one-shot", hopper, (2, 2), "1B", "64MiB"),
        dispatch("custom one-shot", hopper, (3, 4), "1B", "512KiB"),
        dispatch("symm_mem", hopper, (3, 4), "512KiB", "32MiB"),
        dispatch("custom one-shot", hopper, (5, 8), "1B", "256KiB"),
        dispatch("symm_mem", hopper, (5, 8), "256KiB", "64MiB"),
        dispatch("custom one-shot", blackwell, (2, 2), "1B", "2MiB"),
        dispatch("symm_mem", blackwell, (2, 2), "2MiB", "8MiB"),
        dispatch("custom one-shot", blackwell, (3, 4), "1B", "512KiB"),
        dispatch("custom two-shot", blackwell, (3, 4), "512KiB", "2MiB"),
        dispatch("symm_mem", blackwell, (3, 4), "2MiB", "32MiB"),
        dispatch("custom one-shot", blackwell, (5, 8), "1B", "256KiB"),
        dispatch("custom two-shot", blackwell, (5, 8), "256KiB", "1MiB"),
        dispatch("symm_mem", blackwell, (5, 8), "1MiB", "128MiB"),
        dispatch("custom one-shot", ultra, (2, 2), "1B", "4MiB"),
        dispatch("custom one-shot", ultra, (3, 4), "1B", "512KiB"),
        dispatch("custom two-shot", ultra, (3, 4), "512KiB", "4MiB"),
        dispatch("symm_mem", ultra, (3, 4), "4MiB", "32MiB"),
        dispatch("custom one-shot", ultra, (5, 8), "1B", "256KiB"),
        dispatch("custom two-shot", ultra, (5, 8), "256KiB", "4MiB"),
        dispatch("symm_mem", ultra, (5, 8), "4MiB", "64MiB"),
    ]
    return "\n".join(table)


def sglang(version: str) -> str:
    gpus = (
        ["a100-80gb", "h100", "b200", "gb200"] if version == "0.5.10" else ["h100", "b200", "gb200"]
    )
    kernels = [kernel for gpu in gpus for kernel in shots(f"sglang {version}", gpu)]
    return library(
        "sglang",
        version,
        "SGLang",
        kernels,
        LIKE,
        "Of the two shots the faster is taken: the source shows no table.",
        most_ranks=8,
    )


def trtllm() -> str:
    kernels = [
        kernel for gpu in ("h100", "b200", "gb200") for kernel in shots("trtllm 1.3.0rc20", gpu)
    ]
    kernels += [
        one._replace(said="measured with 1.0.0") for one in shots("trtllm 1.0.0", "a100-80gb")
    ]
    for operation, error in (("dispatch", 0.15), ("combine", 0.17)):
        # what comes back is bf16, however it went out
        sent = "bf16" if operation == "combine" else ""
        one, two = (
            rows(kernel=f"trtllm NVLink{side}", operation=f"moe-{operation}")
            for side in ("OneSided", "TwoSided")
        )
        # of combine these hold two kernels, not told apart
        two = [row for row in two if row.dtype != "nvfp4" or not sent]
        law = exchanged(one, "ranks", dtype=sent, terms="br")
        both: dict[str, Any] = {
            "gpus": ["gb200"],
            "source": f"{AIC}: trtllm 1.2.0rc6, GB200 NVL72",
            "tokens": (1, 65536),
            "copies": "ranks",
            "error_of": "a number of ranks that was left out",
        }
        kernels.append(
            Kernel("NVLinkOneSided", operation, "exchange", law, ranks=(2, 8), error=0.21, **both)
        )
        kernels.append(
            Kernel(
                "NVLinkTwoSided",
                operation,
                "exchange-copy",
                copied(two, sent),
                ranks=(2, 64),
                error=error,
                **both,
            )
        )
    told = "Of the two shots the faster is taken. Experts: 1.2.0rc6."
    return library("trtllm", "1.3.0rc20", "TensorRT-LLM", kernels, LIKE, told, most_ranks=8)


def deepep() -> str:
    kernels = []
    copied = {"low-latency": "experts", "normal": "ranks"}
    for kind, copies in copied.items():
        for operation in ("dispatch", "combine"):
            for gpu, ranks in (("h100", 8), ("b200", 8), ("gb200", 4)):
                own = rows(
                    kernel=f"deepep {kind}", operation=f"moe-{operation}", gpu=gpu, ranks=ranks
                )
                law = exchanged(own, copies, terms="be" if kind == "low-latency" else "b")
                tokens = (min(row.tokens for row in own), max(row.tokens for row in own))
                error = 0.06 if operation == "combine" else 0.14
                kernels.append(
                    Kernel(
                        kind,
                        operation,
                        "exchange",
                        law,
                        [gpu],
                        (ranks, ranks),
                        f"{AIC}: DeepEP in sglang 0.5.12 and 0.5.6, {gpu}",
                        tokens=tokens,
                        copies=copies,
                        error=error,
                        error_of="the rows it was fitted to",
                    )
                )
    for operation in ("dispatch", "combine"):
        own_law = {"base_us": 25.0, "per_rank_us": 0.0, "per_expert_us": 0.0, "eta": 0.935}
        kernels.append(
            Kernel(
                "low-latency",
                operation,
                "exchange-nic",
                own_law,
                ["h100"],
                (16, 256),
                f"{AIC}: DeepEP on EP 16 to 64, H100",
                tokens=(1, 256),
                copies="experts",
                across=True,
                network="400 Gb/s ConnectX-7",
                error=0.071,
                error_of=(
                    "DeepEP's README, EP 16 to 256, not used in the fit: all a little slower"
                ),
            )
        )
        own = rows(kernel="deepep normal", operation=f"moe-{operation}", gpu="h100", ranks=64)
        law = exchanged(own, "nodes", gpus_a_node=8, terms="b")
        law["eta"] = law.pop("GBps") / 50
        kernels.append(
            Kernel(
                "normal",
                operation,
                "exchange-nic",
                law,
                ["h100"],
                (16, 64),
                f"{AIC}: DeepEP in sglang 0.5.6, EP 64, H100",
                tokens=(1, 131072),
                copies="nodes",
                across=True,
                network="400 Gb/s ConnectX-7",
                error=0.05,
                error_of="the rows it was fitted to, EP 64 only",
                said="with routing limited to 4 nodes DeepEP's README shows up to twice this rate",
            )
        )
    return library(
        "deepep",
        "1",
        "DeepEP",
        kernels,
        {"h200": "h100"},
        "Low latency: every copy of a token goes to its expert; normal: one copy a node.",
    )


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
                error_of="one row alone",
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


def mori() -> str:
    kernels = []
    for gpu in ("mi300x", "mi355x"):
        for operation in ("dispatch", "combine"):
            own = rows(kernel="mori-ep low-latency", operation=f"moe-{operation}", gpu=gpu)
            inside = [row for row in own if row.ranks == 8]
            across = [row for row in own if row.ranks > 8]
            sent = 128 * 8 * 7168 * (1 + 4 / 128 if operation == "dispatch" else 2) * 7 / 8
            source = "ROCm/mori README, commit 624002c8: 128 tokens, hidden 7168, top 8 of 256"
            kernels.append(
                Kernel(
                    "low-latency",
                    operation,
                    "exchange",
                    {
                        "base_us": 12.0,
                        "per_rank_us": 0.0,
                        "per_expert_us": 0.0,
                        "GBps": sent / (inside[0].us - 12) / 1e3,
                    },
                    [gpu],
                    (8, 8),
                    source,
                    tokens=(128, 128),
                    copies="experts",
                    error=0.15,
                    error_of="one row alone",
                )
            )
            law = exchanged(across, "nodes", gpus_a_node=8, terms="b")
            law["eta"] = law.pop("GBps") / 50
            kernels.append(
                Kernel(
                    "low-latency",
                    operation,
                    "exchange-nic",
                    law,
                    [gpu],
                    (16, 32),
                    source,
                    tokens=(128, 128),
                    copies="nodes",
                    across=True,
                    network="400 Gb/s ConnectX-7 or Pollara",
                    error=0.15,
                    error_of="two rows, two numbers",
                )
            )
    return library("mori", "2026.8", "MORI-EP", kernels, {}, "One copy of a token a node.")


def nccl_windows() -> str:
    """NCCL's kernels on registered windows and multicast, from its own examples and from vLLM's
    measurements."""
    contrib = "NVIDIA/nccl contrib/custom_algos, 2.30.7 (Apache-2.0), GB200 NVL72, CUDA graph, fp32"
    names = {
        "nvls one-shot (multimem.ld_reduce, no barrier)": ("nvls one-shot", 64 * KIB),
        "nvls two-shot Lamport": ("nvls two-shot Lamport", 128 * KIB),
        "nvls two-shot with barrier": ("nvls two-shot", 256 * KIB),
        "nccl default": ("default", 32 * KIB),
    }
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
        for own, (name, free) in names.items()
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
        {"h200": "h100"},
        "KV caches between machines, all pairs at once.",
    )


FILES: dict[str, Callable[[], str]] = {
    "vllm-0.24.0": vllm,
    "sglang-0.5.10": lambda: sglang("0.5.10"),
    "sglang-0.5.14": lambda: sglang("0.5.14"),
    "trtllm-1.3.0rc20": trtllm,
    "deepep-1": deepep,
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
