"""What scripts hold on to: exit codes, the fields of machine output and their order, clean streams,
the same bytes twice."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from effort import some
from jsonschema import Draft202012Validator
from swept import swept

import colltool
from colltool.render.schemas import document_schema

pytestmark = pytest.mark.usefixtures("datasheet")

NVL = ("-f", "nvl72", "-n", "144")
COMMANDS: dict[str, tuple[str, ...]] = {
    "price": ("price", "ar", *NVL, "-M", "16MB"),
    "price sizes": ("price", "ar", *NVL, "-M", "1MB,16MB,1GB"),
    "price winners": ("price", "ar", *NVL),
    "price lattice": ("price", "a2a", "-f", "tpu-v4-512", "-M", "64MiB"),
    "price p2p": ("price", "p2p", "-f", "mi300x", "-M", "1MB"),
    "crossover": ("crossover",),
    "crossover named": ("crossover", "ar", *NVL, "--algorithm", "hierarchical:ring/ring,ring"),
    "breakdown": ("breakdown", "ar", *NVL, "-M", "16MB"),
    "breakdown named": ("breakdown", "ar", "-f", "star512", "-M", "16MB", "--algorithm", "ring"),
    "sweep": (
        "sweep",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "8,64",
        "-M",
        "1MB,1GB",
        "--vary",
        "ib.bandwidth=25GB/s,50GB/s",
    ),
    "sensitivity": (
        "sensitivity",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "32MB",
        "--vary",
        "eta.beta=0.4:1",
        "--samples",
        "500",
    ),
    "compare": ("compare", "ar", "-f", "dgx-h100", "-f", "nvl72", "-n", "8,64", "-M", "1MB,1GB"),
    "ladder": ("ladder",),
    "ladder check": ("ladder", "--check", "old.json"),
    "ladder check moved": ("ladder", "--check", "new.json"),
    "score": ("score",),
    "diff": ("diff", "old.json", "new.json"),
    "diff same": ("diff", "old.json", "old.json"),
    "explain": ("explain", "ring"),
    "explain numbers": ("explain", "ring", "ar", "-f", "nvl72", "-n", "72", "-M", "16MB"),
    "verify": ("verify", "-n", "8"),
    "verify fabric": ("verify", "ar", "-f", "dgx-h100", "-n", "16"),
    "contention": ("contention", "-f", "torus512", "--group", "6"),
    "contention skew": (
        "contention",
        "-f",
        "star512",
        "--group",
        "16",
        "--count",
        "1",
        "--hot",
        "3",
        "-M",
        "1MB",
    ),
    "calibrate": ("calibrate", "log.csv", "-f", "dgx-h100"),
    "calibrate eta": (
        "calibrate",
        "log.csv",
        "-f",
        "dgx-h100",
        "-a",
        "ring",
        "--line-rate",
        "450GB/s",
    ),
    "validate": ("validate", "log.csv", "-f", "dgx-h100"),
    "validate strict": ("validate", "log.csv", "-f", "dgx-h100", "--max-mape", "1%"),
    "expect": ("expect", "-f", "dgx-h100", "-n", "16", "-M", "1M,1G"),
    "expect short": (
        "expect",
        "-f",
        "dgx-h100",
        "--against",
        "log.csv",
        "--share",
        "60%",
    ),
    "trace": ("trace", "rank0.json", "-f", "dgx-h100"),
    "doctor": ("doctor", "log.csv", "-f", "dgx-h100", "--expect", "1%"),
    "doctor off": ("doctor", "log.csv", "-f", "dgx-h100"),
    "report": ("report", "-f", "mi300x", "-p", "ar", "-M", "16MB"),
    "price kernels": (
        "price",
        "ar",
        "-f",
        "hgx-h200",
        "-n",
        "4",
        "-M",
        "64KB",
        "--library",
        "vllm@0.24.0",
    ),
    "price experts": (
        *("price", "dispatch", "-f", "dgx-h100", "-n", "64", "--library", "deepep@1"),
        *("--tokens", "128", "--top-k", "8", "--hidden", "7168", "--experts", "256"),
    ),
    "crossover kernels": ("crossover", "ar", "-f", "dgx-b200", "-n", "8", "--library", "vllm"),
    "diff libraries": ("diff", "--library", "sglang@0.5.10", "sglang@0.5.14", "-f", "dgx-b200"),
    "serve": (
        "serve",
        "llama3-70b",
        "-f",
        "hgx-h200",
        "--tp",
        "8",
        "--batch",
        "64",
        "--engine",
        "vllm@0.24.0",
    ),
    "reshard": (
        "reshard",
        "llama3-8b",
        "-f",
        "dgx-h100",
        "--from",
        "16",
        "--to",
        "16",
        "--replica",
        "8",
    ),
    "serve search": ("serve", "llama3-70b", "-f", "hgx-h200", "--search", "-n", "16"),
    "library list": ("library", "list"),
    "library show": ("library", "show", "vllm@0.24.0"),
    "library check": ("library", "check", "kernels.toml"),
    "fabric list": ("fabric", "list"),
    "fabric show": ("fabric", "show", "nvl72"),
    "fabric draw": ("fabric", "draw", "nvl72"),
    "fabric check": ("fabric", "check", "nvl72", "mi300x"),
    "fabric channels": ("fabric", "channels", "node.xml", "--nodes", "2"),
    "fabric size": (
        "fabric",
        "size",
        "--endpoints",
        "1024",
        "--radix",
        "64",
        "--oversubscription",
        "2",
    ),
    "fabric size bill": (
        "fabric",
        "size",
        "--fat-tree",
        "4",
        "--price",
        "currency=USD",
        "--price",
        "switch=30000",
    ),
    "fabric size dragonfly": (
        "fabric",
        "size",
        "--endpoints",
        "4096",
        "--radix",
        "64",
        "--topology",
        "dragonfly",
    ),
    "job list": ("job", "list"),
    "job show": ("job", "show", "llama3-70b", "-n", "512"),
    "job check": ("job", "check", "llama3-70b", "deepseek-v3"),
    "plan": ("plan", "mixtral-8x7b", "-f", "dgx-h100", "-n", "128"),
    "plan search": (
        "plan",
        "mixtral-8x7b",
        "-f",
        "dgx-h100",
        "-n",
        "128",
        "--search",
        "--keep",
        "pp=4",
        "--keep",
        "tp=1",
    ),
}
WITHOUT_FORMATS = {
    "schema",
    "export",
    "guide",
    "mcp",
}  # files of other programs: tests/export; Markdown: test_guide.py; a protocol: test_mcp.py
CHECKS_THAT_FAIL = (
    "diff",
    "diff libraries",
    "doctor off",
    "expect short",
    "ladder check moved",
    "validate strict",
)
FORMATS = ("table", "json", "csv", "markdown")
SCHEMAS = {
    "ladder check": "colltool.diff/1",
    "ladder check moved": "colltool.diff/1",
    "fabric list": "colltool.fabric-list/1",
    "fabric show": "colltool.fabric-show/1",
    "fabric draw": "colltool.fabric-draw/1",
    "fabric check": "colltool.fabric-check/1",
    "fabric channels": "colltool.channels/1",
    "fabric size": "colltool.fabric-size/1",
    "fabric size bill": "colltool.fabric-size/1",
    "fabric size dragonfly": "colltool.fabric-size-direct/1",
    "price kernels": "colltool.price/1",
    "price experts": "colltool.price/1",
    "diff libraries": "colltool.library-diff/1",
    "serve search": "colltool.serve-list/1",
    "library list": "colltool.library-list/1",
    "library show": "colltool.library-show/1",
    "library check": "colltool.library-check/1",
    "job list": "colltool.job-list/1",
    "job show": "colltool.job-show/1",
    "job check": "colltool.job-check/1",
    "plan search": "colltool.plan-search/1",
}

Number = (int, float)
Shape = dict[str, Any]  # field -> type, tuple of types, Shape, or a list of one of these

MODEL: Shape = {
    "pipelining": (str, int),
    "phases": str,
    "placement": str,
    "ring_alpha": str,
    "tree_beta": float,
}
COUNT = (int, float, type(None))
PHASE: Shape = {
    "tier": str,
    "primitive": str,
    "algorithm": str,
    "ranks": int,
    "bytes": Number,
    "n_alpha": Number,
    "n_beta": Number,
    "alpha_s": float,
    "bandwidth_s": float,
    "eta_alpha": float,
    "eta_beta": float,
}
ROW: Shape = {
    "algorithm": str,
    "detail": str,
    "n_alpha": COUNT,
    "n_beta": COUNT,
    "alpha_s": float,
    "bandwidth_s": float,
    "overhead_s": float,
    "total_s": float,
    "bound": str,
    "algbw_Bps": float,
    "busbw_Bps": float,
    "status": str,
    "shipped_by": [str],
    "notes": [str],
    "phases": [PHASE],
}
HEAD: Shape = {"schema": str, "colltool": str}
ONE_PRICE: Shape = {
    "fabric": str,
    "primitive": str,
    "ranks": int,
    "bytes": int,
    "mode": str,
    "model": MODEL,
    "results": [ROW],
    "infeasible": [{"algorithm": str, "reason": str}],
}
CROSSING: Shape = {"bytes": float, "faster_below": str, "faster_above": str}
PAIR: Shape = {
    "a": str,
    "b": str,
    "crossings": [CROSSING],
    "dominates": (str, type(None)),
    "approximations": dict,
}
SECONDS: Shape = {"alpha_s": float, "bandwidth_s": float, "total_s": float}
RUNG: Shape = {
    "primitive": str,
    "fabric": str,
    "algorithm": str,
    "ranks": int,
    "n_alpha": COUNT,
    "n_beta": COUNT,
    "ideal": SECONDS,
    "realistic": SECONDS | {"eta_alpha": COUNT, "eta_beta": COUNT},
    "gap_ideal": float,
    "gap_realistic": float,
}
CHANGE: Shape = {"where": str, "old": object, "new": object, "relative": (float, type(None))}
DIFF: Shape = HEAD | {"rtol": float, "changed": [CHANGE], "added": [str], "removed": [str]}
BOTH: Shape = {"formula": Number, "executed": Number}
VERIFY: Shape = HEAD | {
    "results": [
        {
            "primitive": str,
            "algorithm": str,
            "ranks": int,
            "verdict": str,
            "n_alpha": BOTH,
            "n_beta": BOTH,
            "note": str,
        }
    ],
}
CONTENTION: Shape = HEAD | {
    "groups": [
        {
            "name": str,
            "ranks": (int, list),
            "slowdown": Number,
            "extra_hops": Number,
            "eta_alpha": Number,
            "eta_beta": Number,
        }
    ],
    "slowdown": Number,
    "hottest": [{"link": str, "load": Number, "over_ideal": Number}],
}
SHARE = (float, type(None))
DOCTOR: Shape = HEAD | {
    "fabric": str,
    "expect": float,
    "ok": bool,
    "hardware": {"devices": [str], "hosts": [str], "assumed": [str]},
    "series": [
        {
            "collective": str,
            "ranks": int,
            "nodes": (int, type(None)),
            "wire": str,
            "bytes": int,
            "busbw_measured_Bps": float,
            "busbw_expected_Bps": float,
            "large": SHARE,
            "small": SHARE,
            "low": bool,
        }
    ],
    "findings": [
        {
            "series": [str],
            "size": str,
            "of_expected": {"low": float, "high": float},
            "error": float,
            "causes": [{"name": str, "said": str, "look": str, "error": float, "error_all": float}],
            "experiments": [
                {
                    "command": str,
                    "bytes": Number,
                    "foretold": [{"cause": str, "busbw_Bps": float, "seconds": float}],
                }
            ],
            "hints": [str],
        }
    ],
    "notes": [str],
    "skipped": list,
    "verdict": str,
}
PROTOCOL: Shape = {
    "name": str,
    "launch_overhead_s": float,
    "alpha_s": float,
    "bandwidth_Bps": float,
    "ci95": dict,
    "tied": [str],
}
CALIBRATE: Shape = HEAD | {
    "series": [
        {
            "collective": str,
            "ranks": int,
            "algorithm": str,
            "protocols": [PROTOCOL],
            "points": int,
            "mape": float,
            "worst": float,
            "cv_mape": float,
            "skipped": [{"bytes": Number, "reason": str}],
        }
    ],
    "fabric": (str, type(None)),
}
CALL: Shape = {
    "dimension": str,
    "primitive": str,
    "group": {"ranks": int, "stride": int},
    "bytes": Number,
    "calls": Number,
    "phase": str,
    "hides": str,
    "stages": [int],
    "source": str,
}
JOB: Shape = HEAD | {
    "job": str,
    "ranks": int,
    "layout": dict,
    "model": dict,
    "micro_batches": int,
    "model_flops": float,
    "collectives": [CALL],
    "compute": [{"stage": int, "forward_s": float, "backward_s": float, "again_s": float}],
    "memory": [{"stage": int, "part": str, "bytes": Number}],
    "memory_bytes": Number,
}
PLANNED: Shape = {
    "dimension": str,
    "primitive": str,
    "group": {"ranks": int, "stride": int, "per_domain": [int]},
    "tiers": [str],
    "count": Number,
    "bytes": Number,
    "algorithm": str,
    "protocol": (str, type(None)),
    "each_s": float,
    "total_s": float,
    "hidden_s": float,
    "exposed_s": float,
    "bound": str,
    "stages": [int],
}
PLAN: Shape = HEAD | {
    "job": str,
    "fabric": str,
    "ranks": int,
    "step_s": float,
    "control_step_s": float,
    "tokens_per_s": float,
    "mfu": float,
    "parts": [{"name": str, "hidden_s": float, "exposed_s": float}],
    "collectives": [PLANNED],
    "memory": [{"stage": int, "part": str, "bytes": Number}],
    "memory_bytes": Number,
    "busiest": [{"tier": str, "busy_s": float, "share": float, "dimension": str}],
    "changes": [{"change": str, "where": str, "set": dict, "step_s": float, "gain": float}],
}
FOUND: Shape = {
    "tp": int,
    "sp": bool,
    "cp": int,
    "ep": int,
    "etp": int,
    "pp": int,
    "virtual": int,
    "dp": int,
    "micro": int,
    "shard": str,
    "recompute": str,
    "step_s": float,
    "control_step_s": float,
    "memory_bytes": float,
    "tokens_per_s": float,
    "mfu": float,
    "tie": bool,
}
SEARCH: Shape = HEAD | {
    "job": str,
    "fabric": str,
    "ranks": int,
    "kept": dict,
    "searched": int,
    "fit": int,
    "priced": int,
    "ties": int,
    "ties_differ_in": [str],
    "best": FOUND,
    "best_job_set": dict,
    "own": FOUND,
    "layouts": [FOUND],
}
VALIDATE: Shape = HEAD | {
    "series": [
        {
            "collective": str,
            "ranks": int,
            "mape": float,
            "worst": float,
            "points": [
                {
                    "bytes": Number,
                    "measured_s": float,
                    "predicted_s": float,
                    "relative_error": float,
                    "algorithm": str,
                    "protocol": str,
                    "busbw_measured_Bps": float,
                    "busbw_expected_Bps": float,
                }
            ],
            "findings": [str],
        }
    ],
    "mape": float,
}
SWEEP: Shape = HEAD | {
    "primitive": str,
    "axes": {"fabric": [str], "ranks": [int], "bytes": [int]},
    "cells": [
        {
            "fabric": str,
            "ranks": int,
            "bytes": int,
            "algorithm": str,
            "spec": str,
            "total_s": float,
            "busbw_Bps": float,
            "alpha_share": float,
        }
    ],
}
SENSITIVITY: Shape = HEAD | {
    "winner": str,
    "holds": float,
    "seed": int,
    "samples": int,
    "rows": [{"algorithm": str, "p5_s": float, "p50_s": float, "p95_s": float, "wins": float}],
    "regret_p95": float,
    "flips": [{"key": str, "value": float, "factor": float, "winner": str}],
}
COMPARE: Shape = HEAD | {
    "columns": [{"name": str, "fabric": str, "set": dict}],
    "rows": [
        {
            "ranks": int,
            "bytes": int,
            "values": [
                {
                    "total_s": float,
                    "busbw_Bps": float,
                    "algorithm": str,
                    "ratio": (*Number, type(None)),
                    "lower_bound": bool,
                },
            ],
        }
    ],
    "verdict": [str],
    "ground": [{"code": str, "values": list, "primitives": [str], "ranks": [int], "says": str}],
}
TRACE: Shape = HEAD | {
    "fabric": str,
    "library": str,
    "world": int,
    "steps": int,
    "window_s": float,
    "share": float,
    "exposed": float,
    "of_expected": float,
    "verdict": str,
    "totals": [
        {
            "group": str,
            "group_size": int,
            "primitive": str,
            "bytes": int,
            "dtype": str,
            "calls": int,
            "each_s": float,
            "bound": bool,
            "total_s": float,
            "exposed_s": float,
            "expected_s": float,
            "runs": str,
            "tiers": [str],
            "share": float,
            "a_step": float,
            "of_expected": float,
            "exposed": float,
        }
    ],
    "calls": [
        {
            "primitive": str,
            "bytes": int,
            "dtype": str,
            "group": str,
            "group_size": int,
            "ranks": [int],
            "axes": [list],
            "kernel": str,
            "algorithm": (str, type(None)),
            "protocol": (str, type(None)),
            "measured_s": float,
            "bound": bool,
            "longest_s": float,
            "exposed_s": float,
            "seen": int,
            "inside": [int],
            "expected_s": float,
            "runs": str,
            "tiers": [str],
        }
    ],
    "findings": list,
    "files": [
        {"file": str, "rank": int, "steps": int, "window_s": float, "calls": int, "broken": bool}
    ],
    "left_out": [{"reason": str, "kernels": int, "file": str}],
}
PART: Shape = {
    "tier": str,
    "level": str,
    "part": str,
    "count": (int, type(None)),
    "price": COUNT,
    "cost": COUNT,
    "power_W": COUNT,
}
COST: Shape = {
    "currency": str,
    "parts": COUNT,
    "power_W": COUNT,
    "energy_per_year": COUNT,
    "years": COUNT,
    "total": COUNT,
    "unpriced": [str],
}
FAILURE: Shape = {
    "tier": str,
    "part": str,
    "level": str,
    "count": int,
    "nics": int,
    "endpoints": int,
    "ranks": int,
    "share": float,
    "beyond": str,
    "cut_off": int,
}
CHANNELS: Shape = HEAD | {
    "file": str,
    "nccl": str,
    "nodes": int,
    "nccl_nodes": int,
    "channels": int,
    "nvls_channels": int,
    "graphs": [
        {
            "graph": str,
            "pattern": int,
            "cross_nic": int,
            "channels": int,
            "inside_Bps": float,
            "across_Bps": float,
            "between_gpus": str,
            "to_nics": str,
            "same_order": bool,
            "emergency": bool,
            "trial": int,
            "trials": int,
            "binding": {"part": str, "names": [str], "used_Bps": float, "of_Bps": float},
            "orders": [{"gpus": [int], "nics": [int]}],
        }
    ],
    "picks": [{"from_bytes": Number, "algorithm": str, "protocol": str}],
    "changes": [{"change": str, "names": [str], "to": str, "ring_channels": int, "text": str}],
    "node": {
        "gpus": [{"rank": int, "to_gpus": [str], "to_nics": [str]}],
        "nics": [{"id": int, "name": str, "rate_Bps": float}],
        "nvswitch": bool,
        "groups": [[int]],
    },
    "notes": [str],
}
SIZED: Shape = HEAD | {
    "endpoints": int,
    "ports_per_endpoint": int,
    "rails": int,
    "radix": int,
    "ports": int,
    "spare_ports": int,
    "switches": int,
    "cables": int,
    "oversubscription": float,
    "pods": int,
    "planes": int,
    "paths": int,
    "tree_levels": int,
    "least_levels": int,
    "levels": [
        {
            "name": str,
            "switches": int,
            "per_rail": int,
            "least": int,
            "down_ports": int,
            "up_ports": int,
            "oversubscription": float,
            "cables": int,
            "parallel": int,
            "optics": int,
        }
    ],
    "notes": [str],
    "failures": [FAILURE],
}
SIZED_DIRECT: Shape = HEAD | {
    "topology": str,
    "endpoints": int,
    "ports_per_endpoint": int,
    "rails": int,
    "radix": int,
    "ports": int,
    "spare_ports": int,
    "hosts": int,
    "shape": [int],
    "spines": int,
    "switches": int,
    "cables": int,
    "oversubscription": float,
    "bisection": float,
    "diameter": int,
    "levels": [
        {
            "name": str,
            "switches": int,
            "ports": int,
            "others": int,
            "parallel": int,
            "cables": int,
            "load": float,
            "optics": int,
        }
    ],
    "tier": dict,
    "clos": {"switches": int, "cables": int, "levels": int},
    "notes": [str],
    "failures": [FAILURE],
    "bill": {"parts": [PART], "cost": (dict, type(None))},
}
SHOWN: Shape = HEAD | {
    "fabric": {"name": str, "tiers": list},
    "facts": {"tiers": [{"name": str, "links": int, "notes": [str], "levels": list}]},
    "bill": {"parts": [PART], "cost": (dict, type(None)), "notes": [str]},
    "failures": [FAILURE],
}
DRAWN: Shape = HEAD | {
    "fabric": str,
    "ranks": int,
    "tiers": [
        {
            "name": str,
            "topology": str,
            "shape": (list, type(None)),
            "endpoints": int,
            "drawn": int,
            "ranks": int,
            "domains": int,
            "max_size": COUNT,
            "ports": int,
            "bandwidth_Bps": float,
            "alpha_s": COUNT,
            "eta_alpha": float,
            "eta_beta": float,
            "in_network": [str],
            "levels": [
                {
                    "name": (str, type(None)),
                    "group": int,
                    "groups": int,
                    "alpha_s": float,
                    "oversubscription": float,
                    "uplinks": float,
                    "switches": COUNT,
                    "rails": int,
                    "reached": bool,
                }
            ],
        }
    ],
    "text": str,
}
REPORT: Shape = HEAD | {
    "fabrics": [{"fabric": str}],
    "ranks": int,
    "bytes": int,
    "verdict": [str],
    "sections": [
        {
            "section": str,
            "title": str,
            "exhibits": [{"title": str, "summary": str, "commands": [str], "result": HEAD}],
        }
    ],
}
EXPECTED_SIZE: Shape = {
    "test": str,
    "primitive": str,
    "bytes": int,
    "expected_s": float,
    "busbw_Bps": float,
    "slowest_s": float,
    "floor_busbw_Bps": float,
    "floor_share": float,
    "supported": bool,
    "support": str,
    "basis": str,
    "rows": int,
}
EXPECT: Shape = HEAD | {"fabric": str, "share": float, "sizes": [EXPECTED_SIZE], "passed": bool}
MEASURED_SIZE: Shape = {
    "series": str,
    "file": str,
    "where": str,
    "ranks": int,
    "measured_s": float,
    "measured_busbw_Bps": float,
    "of_floor": float,
    "short": bool,
    "expected": EXPECTED_SIZE,
}
PROMISED: dict[str, Shape] = {
    "report": REPORT,
    "price": HEAD | ONE_PRICE,
    "price sizes": HEAD | {"sizes": [ONE_PRICE]},
    "price winners": HEAD | {"sizes": [ONE_PRICE]},
    "price lattice": HEAD | ONE_PRICE,
    "price p2p": HEAD | ONE_PRICE,
    "crossover": HEAD | {"pairs": [PAIR]},
    "crossover named": HEAD | {"pairs": [PAIR]},
    "breakdown": HEAD | ONE_PRICE | {"baselines": [ROW]},
    "breakdown named": HEAD | ONE_PRICE | {"baselines": [ROW]},
    "sweep": SWEEP,
    "compare": COMPARE,
    "sensitivity": SENSITIVITY,
    "ladder": HEAD | {"ladder": str, "bytes": int, "rows": [RUNG]},
    "score": HEAD
    | {
        "published": int,
        "sources": int,
        "seen": int,
        "predictors": [{"name": str, "answered": int, "missing": int}],
        "rows": [
            {
                "predictor": str,
                "by": str,
                "name": str,
                "rows": int,
                "median": Number,
                "p90": Number,
                "bias": Number,
                "covered": Number,
            }
        ],
        "lost": list,
    },
    "ladder check": DIFF,
    "ladder check moved": DIFF,
    "diff": DIFF,
    "diff same": DIFF,
    "verify": VERIFY,
    "verify fabric": VERIFY,
    "contention": CONTENTION,
    "contention skew": CONTENTION,
    "calibrate": CALIBRATE,
    "calibrate eta": CALIBRATE,
    "fabric show": SHOWN,
    "fabric draw": DRAWN,
    "fabric channels": CHANNELS,
    "fabric size": SIZED | {"bill": {"parts": [PART], "cost": (dict, type(None))}},
    "fabric size bill": SIZED | {"bill": {"parts": [PART], "cost": COST}},
    "fabric size dragonfly": SIZED_DIRECT,
    "job show": JOB,
    "plan": PLAN,
    "plan search": SEARCH,
    "doctor": DOCTOR,
    "doctor off": DOCTOR,
    "validate": VALIDATE,
    "validate strict": VALIDATE,
    "trace": TRACE,
    "expect": EXPECT,
    "expect short": EXPECT | {"measured": [MEASURED_SIZE], "doctor": str},
}


def differs(value: Any, shape: Any, where: str = "$") -> list[str]:
    """Where a document breaks its promise; fields may be added anywhere, promised ones keep their
    order."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where}: {type(value).__name__} instead of a list"]
        return [
            problem
            for i, item in enumerate(value)
            for problem in differs(item, shape[0], f"{where}[{i}]")
        ]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where}: {type(value).__name__} instead of an object"]
        there = [key for key in value if key in shape]
        if there != list(shape):
            return [f"{where}: fields {there}, promised {list(shape)}"]
        return [
            problem
            for key, inner in shape.items()
            for problem in differs(value[key], inner, f"{where}.{key}")
        ]
    if (isinstance(value, bool) and shape is not bool) or not isinstance(value, shape):
        return [f"{where}: {value!r} is no {shape}"]
    return []


def test_the_shape_check_sees_what_it_should() -> None:
    assert not differs({"a": 1, "extra": 0, "b": [{"c": "x"}]}, {"a": int, "b": [{"c": str}]})
    assert differs({"b": 1, "a": 1}, {"a": int, "b": int})
    assert differs({"a": 1}, {"a": int, "b": int})
    assert differs({"a": "1"}, {"a": int})
    assert differs({"a": [{"c": 1}]}, {"a": [{"c": str}]})


# --- every command in every format
# ------------------------------------------------------------------------------------


def is_table(text: str) -> None:
    """Plain ASCII borders, every line of a table as wide as its neighbours, no escape codes, no
    trailing blanks."""
    assert "\x1b" not in text
    assert not re.search("[\u2500-\u257f]", text)
    assert all(line == line.rstrip() for line in text.splitlines())
    tables = [run for run in re.split(r"(?m)^(?![+|]).*\n?", text) if run]
    for table in tables:
        widths = {len(line) for line in table.splitlines()}
        assert len(widths) == 1, table


def is_json(text: str) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    document = json.loads(text, parse_constant=refuse)
    assert list(document)[:2] == ["schema", "colltool"]
    assert document["colltool"] == colltool.__version__
    assert not list(schema_of(document).iter_errors(document)), (
        "colltool schema says otherwise: see the document of its view"
    )


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(document_schema(name))


def schema_of(document: Any) -> Draft202012Validator:
    return validator(document["schema"].removeprefix("colltool.").removesuffix("/1"))


def is_csv(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text), strict=True))
    assert len({len(row) for row in rows}) == 1, "a varying number of columns"
    assert len(set(rows[0])) == len(rows[0]), "two columns of one name"
    assert all(re.fullmatch(r"[a-zA-Z0-9_*/().=: -]+", name) for name in rows[0])
    assert "\r" not in text


def is_markdown(text: str) -> None:
    tables = [run for run in re.split(r"(?m)^(?!\|).*\n?", text) if run]
    for table in tables:
        lines = table.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, table
        assert re.fullmatch(r"\|( :---| ---:| \|)+", lines[1]), lines[1]
    for before, after in zip(text.splitlines(), text.splitlines()[1:], strict=False):
        assert not (before.startswith("|") and after and not after.startswith("|")), (
            f"not set apart from its table: {after}"
        )


VALID = {"table": is_table, "json": is_json, "csv": is_csv, "markdown": is_markdown}


def test_every_command_has_a_case() -> None:
    """A new command is held to all of this, or says here why not."""
    from colltool.commands import app

    assert {args[0] for args in COMMANDS.values()} | WITHOUT_FORMATS == set(app.COMMANDS)


@pytest.mark.alike(40)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_in_every_format(name: str, form: str, run: Any, folder: Path) -> None:
    args = (*COMMANDS[name], "--format", form)
    done = run(*args)
    assert done.code == int(name in CHECKS_THAT_FAIL)
    assert done.err == "" or name == "validate strict"  # says which series does not hold
    assert done.out.endswith("\n")
    assert not done.out.endswith("\n\n")
    VALID[form](done.out)
    assert not re.search(r"[\ue000-\uf8ff]|\\ue00", done.out), "a mark that nobody spelled out"
    if form == "json":
        assert done.json["schema"] == SCHEMAS.get(name, f"colltool.{name.split()[0]}/1")
        assert differs(done.json, PROMISED.get(name, HEAD)) == []
    assert str(folder) not in done.out
    assert str(Path(colltool.__file__).parent.parent) not in done.out

    if name.startswith("calibrate") or form != FORMATS[list(COMMANDS).index(name) % len(FORMATS)]:
        # a quarter of the commands writes each format; the -o of calibrate is the fabric:
        # tests/commands/test_calibrate.py
        return
    file = folder / "written"
    into = run(*args, "-o", str(file))  # the same bytes on two runs
    assert into.out == ""
    assert into.err == done.err
    assert into.code == done.code
    assert file.read_bytes() == done.out.encode()


EVERY = """
import json, sys
sys.path.insert(0, sys.argv[1])
from conftest import run
print(json.dumps({name: run(*args) for name, args in json.load(sys.stdin).items()}))
"""


@pytest.mark.ci
def test_another_hash_seed_gives_the_same_bytes(folder: Path) -> None:
    """What every command leaves behind, in two processes whose sets and dicts are ordered
    differently; one test, run once."""
    taken = some(COMMANDS, 3)
    asked = {
        name: [*COMMANDS[name], "--format", "json" if name != "fabric show" else "table"]
        for name in taken
    }
    command = [sys.executable, "-c", EVERY, str(Path(__file__).parent)]
    found = []
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            command,
            input=json.dumps(asked),
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        found.append(json.loads(done.stdout))
    first, second = found
    assert [name for name in taken if first[name] != second[name]] == []
    assert [name for name in taken if not first[name][1]] == []


def test_fabric_schema_is_a_schema(run: Any, folder: Path) -> None:
    import jsonschema

    done = run("fabric", "schema")
    jsonschema.validators.validator_for(done.json).check_schema(done.json)
    assert run("fabric", "schema", "-o", "schema.json").out == ""
    assert Path("schema.json").read_text() == done.out


@pytest.mark.parametrize("name", ["price", "price sizes", "ladder", "diff", "fabric list"])
def test_csv_has_the_full_numbers_of_json(name: str, run: Any, folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(*COMMANDS[name], "--format", "csv").out)))
    document = run(*COMMANDS[name], "--format", "json").json
    if name.startswith("price"):
        expected = [
            (row["total_s"], row["busbw_Bps"])
            for one in document.get("sizes", [document])
            for row in one["results"]
        ]
        assert [(float(row["total_s"]), float(row["busbw_Bps"])) for row in rows] == expected
    elif name == "ladder":
        assert [float(row["realistic_s"]) for row in rows] == [
            row["realistic"]["total_s"] for row in document["rows"]
        ]
    elif name == "diff":
        assert [(row["where"], float(row["old"])) for row in rows] == [
            (c["where"], c["old"]) for c in document["changed"]
        ]
    else:
        assert [row["name"] for row in rows] == [fabric["name"] for fabric in document["fabrics"]]


# --- -o
# ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "form"),
    [
        (".json", "json"),
        (".csv", "csv"),
        (".md", "markdown"),
        (".html", "html"),
        (".HTM", "html"),
        (".txt", "table"),
        ("", "table"),
    ],
)
def test_a_suffix_says_the_format(suffix: str, form: str, run: Any, folder: Path) -> None:
    args = ("price", "p2p", "-f", "mi300x", "-M", "1MB")
    assert run(*args, "-o", f"out{suffix}").code == 0
    assert Path(f"out{suffix}").read_text() == run(*args, "--format", form).out


def test_an_unknown_suffix_is_refused_with_those_that_are_known(run: Any, folder: Path) -> None:
    done = run("price", "p2p", "-f", "mi300x", "-M", "1MB", "-o", "out.xlsx")
    assert (done.code, done.out) == (2, "")
    assert ".xlsx" in done.err
    assert ".json, .csv, .md, .html" in done.err
    assert not Path("out.xlsx").exists()
    assert (
        run("price", "p2p", "-f", "mi300x", "-M", "1MB", "-o", "out.xlsx", "--format", "csv").code
        == 0
    )


def test_columns(run: Any) -> None:
    args = ("price", "ar", *NVL, "-M", "16MB")
    done = run(*args, "--format", "csv", "--columns", "total_s,Algorithm,spec")
    assert done.out.splitlines()[0] == "total_s,algorithm,spec"
    everything = list(csv.DictReader(io.StringIO(run(*args, "--format", "csv").out)))
    assert [row["total_s"] for row in csv.DictReader(io.StringIO(done.out))] == [
        row["total_s"] for row in everything
    ]
    header = next(
        line
        for line in run(*args, "--columns", "busbw,algorithm").out.splitlines()
        if line.startswith("| ")
    )
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["busbw", "algorithm"]
    wrong = run(*args, "--columns", "totl")
    assert wrong.code == 2
    assert "did you mean 'total'?" in wrong.err
    assert run(*args, "--format", "json", "--columns", "total").code == 2


BAD = ("price", "ar", "-f", "nvl72", "-n", "100", "-M", "16MB")


def test_an_error_creates_no_file(run: Any, folder: Path) -> None:
    assert run(*BAD, "-o", "out").code == 2
    assert not Path("out").exists()


def test_an_error_leaves_an_existing_file_alone(run: Any, folder: Path) -> None:
    Path("out").write_text("precious")
    assert run(*BAD, "-o", "out").code == 2
    assert Path("out").read_text() == "precious"


def test_a_result_replaces_an_existing_file_wholly(run: Any, folder: Path) -> None:
    Path("out").write_text("x" * 100_000)
    run("price", "p2p", "-f", "mi300x", "-M", "1MB", "-o", "out", "--format", "csv")
    assert "x" * 10 not in Path("out").read_text()


@pytest.mark.parametrize("target", ["missing/out", "nvl72", "file/out"])
def test_a_file_that_cannot_be_written(target: str, run: Any, folder: Path) -> None:
    Path("file").write_text("")
    Path("nvl72").mkdir()
    done = run("price", "ar", "-f", "star512", "-M", "1MB", "-o", target)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {target}: cannot write: ")


# an input that a command reads -> the command, with ITSELF for the name to read and to write
ONTO_ITSELF: dict[str, tuple[str, ...]] = {
    "price": ("price", "ar", "-f", "ITSELF.yaml", "-M", "1MB", "-o", "ITSELF.yaml"),
    "crossover": ("crossover", "ar", "-f", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "breakdown": ("breakdown", "ar", "-f", "ITSELF.yaml", "-M", "1MB", "-o", "ITSELF.yaml"),
    "explain": ("explain", "ring", "-f", "ITSELF.yaml", "-M", "1MB", "-o", "ITSELF.yaml"),
    "verify": ("verify", "ar", "-f", "ITSELF.yaml", "-n", "4", "-o", "ITSELF.yaml"),
    "ladder": ("ladder", "ladder.yaml", "-o", "ladder.yaml"),
    "ladder's fabric": ("ladder", "ladder.yaml", "-o", "ITSELF.yaml"),
    "ladder --check": ("ladder", "--check", "old.json", "-o", "old.json"),
    "diff old": ("diff", "old.json", "new.json", "-o", "old.json"),
    "diff new": ("diff", "old.json", "new.json", "-o", "new.json"),
    "contention's fabric": ("contention", "-f", "ITSELF.yaml", "--group", "4", "-o", "ITSELF.yaml"),
    "contention's layout": (
        "contention",
        "-f",
        "star512",
        "--layout",
        "groups.yaml",
        "-o",
        "groups.yaml",
    ),
    "contention's matrix": (
        "contention",
        "-f",
        "star512",
        "--group",
        "2",
        "--matrix",
        "m.csv",
        "-o",
        "m.csv",
    ),
    "calibrate's fabric": ("calibrate", "log.csv", "-f", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "calibrate's log": ("calibrate", "log.yaml", "-f", "dgx-h100", "-o", "log.yaml"),
    "validate's log": ("validate", "log.csv", "-f", "dgx-h100", "-o", "log.csv"),
    "doctor's log": ("doctor", "log.csv", "-f", "dgx-h100", "-o", "log.csv"),
    "report's fabric": ("report", "-f", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "report's other": ("report", "-f", "dgx-h100", "--against", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "report's log": ("report", "-f", "dgx-h100", "--log", "log.csv", "-o", "log.csv"),
    "validate's fabric": ("validate", "log.csv", "-f", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "one of a list": (
        "sweep",
        "ar",
        "-f",
        "star512,ITSELF.yaml",
        "-n",
        "8",
        "--format",
        "json",
        "-o",
        "ITSELF.yaml",
    ),
    "compare's list": (
        "compare",
        "ar",
        "-f",
        "star512,ITSELF.yaml",
        "-n",
        "8",
        "--format",
        "json",
        "-o",
        "ITSELF.yaml",
    ),
    "plan's list": (
        "plan",
        "job.yaml",
        "-f",
        "dgx-h100,ITSELF.yaml",
        "-n",
        "8",
        "--format",
        "json",
        "-o",
        "ITSELF.yaml",
    ),
    "report's list": (
        "report",
        "-f",
        "dgx-b200,ITSELF.yaml",
        "-n",
        "8",
        "--format",
        "json",
        "-o",
        "ITSELF.yaml",
    ),
    "a job's model": ("job", "check", "job.yaml", "-o", "config.json"),
    "a plan's model": ("plan", "job.yaml", "-f", "dgx-h100", "-n", "8", "-o", "config.json"),
    "a plan's job": (
        "plan",
        "job.yaml",
        "-f",
        "dgx-h100",
        "-n",
        "8",
        "--format",
        "json",
        "-o",
        "job.yaml",
    ),
    "nccl-tuner": ("export", "nccl-tuner", "-f", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "fabric show": ("fabric", "show", "ITSELF.yaml", "-o", "ITSELF.yaml"),
    "fabric check": ("fabric", "check", "nvl72", "ITSELF.yaml", "-o", "ITSELF.yaml"),
}


@pytest.mark.parametrize("by", ["its name", "a link", "a hard link", "another path"])
@pytest.mark.parametrize("name", ONTO_ITSELF)
def test_nothing_is_written_over_what_is_read(name: str, by: str, run: Any, folder: Path) -> None:
    from colltool.fabric.load import shipped_folder

    Path("ITSELF.yaml").write_text((shipped_folder() / "dgx-h100.yaml").read_text())
    Path("ladder.yaml").write_text(
        "schema: colltool.ladder-file/1\nname: x\nsize: 1MB\nrungs:\n  - {primitive: ar, fabric:"
        " ITSELF.yaml, ranks: 8}\n"
    )
    Path("groups.yaml").write_text("pattern: {kind: block, group: 8}\n")
    Path("m.csv").write_text("0,1\n1,0\n")
    Path("config.json").write_text(
        '{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,'
        ' "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 1000}'
    )
    Path("job.yaml").write_text(
        "model: config.json\nsequence: 128\nbatch: {global: 8, micro: 1}\ndevice: h100\nstack:"
        " megatron\n"
    )
    Path("log.yaml").write_text(Path("log.csv").read_text())
    *args, target = ONTO_ITSELF[name]
    link = f"link{Path(target).suffix}"
    aim = {
        "its name": target,
        "a link": link,
        "a hard link": link,
        "another path": f"./sub/../{target}",
    }[by]
    Path("sub").mkdir()
    if by == "a link":
        Path(aim).symlink_to(target)
    if by == "a hard link":
        Path(aim).hardlink_to(target)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = run(*args, aim)
    assert (done.code, done.out) == (2, "")
    assert "is read by this command" in done.err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_two_outputs_do_not_go_into_one_file(run: Any, folder: Path) -> None:
    done = run("validate", "log.csv", "-f", "dgx-h100", "-o", "out.svg", "--plot", "out.svg")
    assert (done.code, done.out) == (2, "")
    assert "written twice" in done.err
    assert not Path("out.svg").exists()


def test_a_dash_is_the_terminal(run: Any, folder: Path) -> None:
    args = ("price", "ar", "-f", "star512", "-M", "1MB", "--format", "json")
    assert run(*args, "-o", "-") == run(*args)
    assert run("fabric", "schema", "-o", "-").out == run("fabric", "schema").out
    tuner = ("export", "nccl-tuner", "-f", "dgx-h100", "-n", "16")
    assert run(*tuner, "-o", "-") == run(*tuner)
    assert not Path("-").exists()


def test_a_failed_diff_leaves_its_file_alone(run: Any, folder: Path) -> None:
    Path("report").write_text("precious")
    assert run("diff", "old.json", "price.json", "-o", "report").code == 2
    assert Path("report").read_text() == "precious"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_file_without_permission(run: Any, folder: Path) -> None:
    Path("out").write_text("precious")
    Path("out").chmod(stat.S_IRUSR)
    done = run("price", "ar", "-f", "star512", "-M", "1MB", "-o", "out")
    assert (done.code, done.out) == (2, "")
    assert Path("out").read_text() == "precious"


# --- price
# ----------------------------------------------------------------------------------------------------------------


def price(run: Any, *args: str) -> Any:
    done = run("price", *args, "--format", "json")
    assert done.code == 0, done.err
    return done.json


def test_the_example_of_the_contract(run: Any) -> None:
    # the document's, without NCCL's own time
    wires = ("--set", "nvlink.alpha=0.5us", "--set", "launch_overhead=0us")
    document = price(
        run, "ar", *NVL, *wires, "-M", "16MB", "--ideal", "--algorithm", "hierarchical:ring/ring"
    )
    (row,) = document["results"]
    assert (document["schema"], document["fabric"], document["primitive"]) == (
        "colltool.price/1",
        "nvl72",
        "all_reduce",
    )
    assert (document["ranks"], document["bytes"], document["mode"]) == (144, 16_000_000, "ideal")
    assert (row["algorithm"], row["detail"]) == ("hierarchical", "ring / ring")
    assert (row["n_alpha"], row["n_beta"], row["overhead_s"], row["software_s"]) == (
        None,
        None,
        0.0,
        0.0,
    )
    assert row["alpha_s"] == pytest.approx(7.5e-05, rel=1e-12)  # 2 x 71 x 0.5 us + 2 x 2 us
    inside, outside = 2 * 71 / 72 * 16e6 / 900e9, 2 * (1 / 2) * (16e6 / 72) / 50e9
    assert row["bandwidth_s"] == pytest.approx(inside + outside, rel=1e-12)
    assert row["bandwidth_s"] == pytest.approx(3.95e-05, rel=1e-3)
    assert row["total_s"] == pytest.approx(1.145e-04, rel=1e-3)
    assert row["algbw_Bps"] == pytest.approx(1.4e11, rel=0.01)
    assert row["busbw_Bps"] == pytest.approx(2.8e11, rel=0.01)
    assert (row["bound"], row["status"]) == ("latency", "shipped")
    assert row["shipped_by"] == ["Horovod (hierarchical)"]
    assert (row["leads"], row["why_not"]) == (False, "NCCL does not combine these")
    first = row["phases"][0]
    assert (first["tier"], first["primitive"], first["algorithm"]) == (
        "nvlink",
        "reduce_scatter",
        "ring",
    )
    assert (first["ranks"], first["bytes"], first["n_alpha"]) == (72, 16_000_000, 71)
    assert first["n_beta"] == pytest.approx(71 / 72)
    assert first["alpha_s"] == pytest.approx(3.55e-05)
    assert first["bandwidth_s"] == pytest.approx(1.75e-05, rel=2e-3)


def test_eta_of_the_example(run: Any) -> None:
    document = price(run, "ar", *NVL, "-M", "16MB", "--algorithm", "hierarchical:ring/ring")
    first = document["results"][0]["phases"][0]
    assert document["mode"] == "realistic"
    assert (first["eta_alpha"], first["eta_beta"]) == (1.0, 0.8)


def test_why_others_cannot(run: Any) -> None:
    cannot = {
        one["algorithm"]: one["reason"]
        for one in price(run, "ar", *NVL, "-M", "16MB")["infeasible"]
    }
    assert cannot["rabenseifner"] == "needs a power-of-two rank count, got 144"
    assert "dim-ring" in cannot
    assert all(cannot.values())


def test_every_algorithm_runs_or_says_why_not(run: Any) -> None:
    document = price(run, "ar", *NVL, "-M", "16MB")
    ran, cannot = ({row["algorithm"] for row in document[key]} for key in ("results", "infeasible"))
    assert not ran & cannot
    on_star = price(run, "ar", "-f", "star512", "-M", "16MB")
    assert ran | cannot == {
        row["algorithm"] for key in ("results", "infeasible") for row in on_star[key]
    }


def test_fastest_first_and_parts_sum_to_the_total(run: Any) -> None:
    for one in price(run, "ar", *NVL, "-M", "1KB,1MB,1GB")["sizes"]:
        may_lead = [row["leads"] for row in one["results"]]
        assert may_lead == sorted(may_lead, reverse=True), "what cannot lead stands below what can"
        for kind in {(row["leads"], row["status"]) for row in one["results"]}:
            totals = [
                row["total_s"] for row in one["results"] if (row["leads"], row["status"]) == kind
            ]
            assert totals == sorted(totals)
        for row in one["results"]:
            parts = [row[name] for name in ("alpha_s", "overhead_s", "bandwidth_s", "software_s")]
            assert sum(parts) == pytest.approx(row["total_s"], rel=1e-12)
            assert row["algbw_Bps"] == pytest.approx(one["bytes"] / row["total_s"])
            assert row["status"] in ("shipped", "reference", "idealised", "hypothetical")


def test_several_sizes_are_one_document(run: Any) -> None:
    document = price(run, "ar", *NVL, "-M", "1MB, 16MB,1GB")
    assert [one["bytes"] for one in document["sizes"]] == [1_000_000, 16_000_000, 1_000_000_000]
    assert all("schema" not in one and "colltool" not in one for one in document["sizes"])
    alone = price(run, "ar", *NVL, "-M", "16MB")
    head = {"schema": document["schema"], "colltool": document["colltool"]}
    assert alone == head | document["sizes"][1] | {"sizes": [document["sizes"][1]]}, (
        "one size: the list, and its fields on top"
    )


def test_without_a_size_winner_and_runner_up(run: Any) -> None:
    sizes = price(run, "ar", *NVL)["sizes"]
    assert [one["bytes"] for one in sizes] == [
        1_000,
        64_000,
        1_000_000,
        16_000_000,
        256_000_000,
        1_000_000_000,
    ]
    for one in sizes:
        best, second = one["results"]
        assert best["total_s"] <= second["total_s"]
        assert best["status"] != "hypothetical"


def test_all_ranks_by_default(run: Any) -> None:
    assert price(run, "ar", "-f", "nvl72", "-M", "16MB")["ranks"] == 2304


def test_top(run: Any) -> None:
    everything, two = (price(run, "ar", *NVL, "-M", "16MB", *top) for top in ((), ("--top", "2")))
    leading = [row for row in everything["results"] if row["leads"]]
    assert leading
    assert {row["status"] for row in leading} == {"shipped"}
    assert two["results"] == leading[:2]
    assert two["infeasible"] == everything["infeasible"]
    assert price(run, "ar", *NVL, "-M", "16MB", "--top", "99")["results"] == leading, (
        "what may not lead is not counted"
    )
    assert "not ranked" in run("price", "ar", *NVL, "-M", "16MB", "--all").out
    assert "not ranked" not in run("price", "ar", *NVL, "-M", "16MB", "--top", "99", "--all").out


def test_what_may_not_lead_stands_apart_for_several_sizes_too(run: Any) -> None:
    ranked, apart = run("price", "ar", *NVL, "-M", "1MB,1GB", "--all").out.split("\nnot ranked: ")
    assert "inner-ring" not in ranked
    assert apart.count("| inner-ring") == 2
    assert "hypothetical: no hardware has it" in apart


def test_a_row_says_what_algorithm_takes(run: Any) -> None:
    for row in price(run, "ar", *NVL, "-M", "16MB")["results"]:
        (again,) = price(run, "ar", *NVL, "-M", "16MB", "--algorithm", row["spec"])["results"]
        assert again == row


def test_csv_says_what_was_asked_in_every_row(run: Any, folder: Path) -> None:
    for name, expected in {
        "price": {
            "fabric": "nvl72",
            "primitive": "all_reduce",
            "ranks": "144",
            "bytes": "16000000",
        },
        "price winners": {"fabric": "nvl72", "primitive": "all_reduce", "ranks": "144"},
        "crossover": {"fabric": "nvl72", "primitive": "all_reduce", "ranks": "2304"},
        "breakdown": {
            "fabric": "nvl72",
            "collective": "all_reduce",
            "group_ranks": "144",
            "message_bytes": "16000000",
        },
        "ladder": {"ranks": "512", "bytes": "16000000"},
        "verify fabric": {"fabric": "dgx-h100", "primitive": "all_reduce", "ranks": "16"},
        "contention": {"fabric": "torus512", "primitive": "all_reduce", "ranks": "6"},
        "calibrate": {"collective": "all_reduce"},
        "validate": {"fabric": "dgx-h100", "collective": "all_reduce"},
        "doctor": {"fabric": "dgx-h100", "collective": "all_reduce"},
    }.items():
        rows = list(csv.DictReader(io.StringIO(run(*COMMANDS[name], "--format", "csv").out)))
        assert rows
        for row in rows:
            assert expected.items() <= row.items(), name
            assert not {"all-reduce", "all-gather"} & set(row.values()), "machines read all_reduce"


def test_csv_of_crossover_has_pairs_and_winners(run: Any) -> None:
    document = run("crossover", "--format", "json").json
    rows = list(csv.DictReader(io.StringIO(run("crossover", "--format", "csv").out)))
    crossings = [crossing["bytes"] for pair in document["pairs"] for crossing in pair["crossings"]]
    assert [float(row["bytes"]) for row in rows if row["kind"] == "crossing"] == crossings
    winners = [(one["from_bytes"], one["algorithm"]) for one in document["winners"]]
    assert [
        (float(row["from_bytes"]), row["algorithm"]) for row in rows if row["kind"] == "winner"
    ] == winners


def test_of_expected_is_beside_the_error(run: Any, folder: Path) -> None:
    """A measurement that takes longer than the price reaches less than all of the expected
    bandwidth."""
    document = run(*COMMANDS["validate"], "--format", "json").json
    for point in document["series"][0]["points"]:
        assert point["of_expected"] == pytest.approx(
            point["busbw_measured_Bps"] / point["busbw_expected_Bps"]
        )
        assert point["of_expected"] == pytest.approx(1 + point["relative_error"])
    assert "of expected" in run(*COMMANDS["validate"], "--all").out


def test_algorithm_restricts(run: Any) -> None:
    document = price(run, "ar", *NVL, "-M", "16MB", "--algorithm", "ring, tree")
    assert sorted(row["algorithm"] for row in document["results"]) == ["ring", "tree"]
    every = {row["algorithm"]: row for row in price(run, "ar", *NVL, "-M", "16MB")["results"]}
    assert all(row == every[row["algorithm"]] for row in document["results"])


@swept(
    "names",
    [
        ("ar", "all-reduce", "all_reduce", "AllReduce", "all_reduce_perf"),
        ("bc", "broadcast"),
        ("a2a", "all-to-all"),
    ],
)
def test_a_primitive_by_any_of_its_names(names: tuple[str, ...], run: Any) -> None:
    assert (
        len({run("price", name, "-f", "nvl72", "-n", "72", "-M", "1MB").out for name in names}) == 1
    )


def test_a_fabric_by_name_file_name_or_path(run: Any, folder: Path) -> None:
    shipped = Path(colltool.__file__).parent.parent / "fabrics" / "star512.yaml"
    Path("mine.yaml").write_text(shipped.read_text())
    names = ("star512", "star512.yaml", "mine.yaml", str(folder / "mine.yaml"))
    assert len({run("price", "ar", "-f", name, "-M", "1MB").out for name in names}) == 1


def test_a_file_wins_over_a_shipped_name(run: Any, folder: Path) -> None:
    shipped = Path(colltool.__file__).parent.parent / "fabrics" / "star512.yaml"
    Path("nvl72").write_text(shipped.read_text())
    assert price(run, "ar", "-f", "nvl72", "-M", "1MB")["fabric"] == "star512"


def test_set_overrides_one_value(run: Any) -> None:
    args = ("ar", "-f", "nvl72", "-n", "72", "-M", "16MB", "--algorithm", "ring")
    before, after = price(run, *args), price(run, *args, "--set", "nvlink.alpha=2.48us")
    assert after["results"][0]["alpha_s"] == pytest.approx(2 * before["results"][0]["alpha_s"])
    assert after["results"][0]["bandwidth_s"] == before["results"][0]["bandwidth_s"]


def test_set_repeats_and_the_last_one_wins(run: Any) -> None:
    args = ("ar", "-f", "nvl72", "-n", "72", "-M", "16MB", "--algorithm", "ring")
    twice = price(
        run,
        *args,
        "--set",
        "nvlink.alpha=9us",
        "--set",
        "nvlink.alpha=1us",
        "--set",
        "launch_overhead=5us",
    )
    assert twice["results"][0]["alpha_s"] == pytest.approx(142e-6)
    assert twice["results"][0]["overhead_s"] == pytest.approx(5e-6)


def test_set_reaches_a_level(run: Any) -> None:
    args = (
        "a2a",
        "-f",
        "dgx-h100",
        "-M",
        "64MB",
        "--algorithm",
        "pairwise",
        "--placement",
        "scattered",
    )
    free, full = (
        price(run, *args, "--set", f"ib.levels.spine.oversubscription={s}") for s in (1, 4)
    )
    assert full["results"][0]["total_s"] > free["results"][0]["total_s"]


def test_ideal_is_never_slower(run: Any) -> None:
    args = ("ar", *NVL, "-M", "16MB", "--algorithm", "ring")
    ideal, real = (price(run, *args, *mode)["results"][0] for mode in (("--ideal",), ()))
    assert ideal["total_s"] < real["total_s"]
    assert {phase["eta_beta"] for phase in ideal["phases"]} == {1.0}


READINGS = {
    "pipelining optimal": (("--pipelining", "optimal"), {"pipelining": "optimal"}),
    "pipelining count": (("--pipelining", "8"), {"pipelining": 8}),
    "phases": (("--phases", "pipelined"), {"phases": "pipelined"}),
    "placement": (("--placement", "scattered"), {"placement": "scattered"}),
    "ring alpha": (("--ring-alpha", "worst"), {"ring_alpha": "worst"}),
    "tree beta": (("--tree-beta", "1.5"), {"tree_beta": 1.5}),
}
DEFAULTS = {
    "pipelining": "asymptotic",
    "phases": "sequential",
    "placement": "packed",
    "ring_alpha": "mean",
    "tree_beta": 2.0,
}


@swept("name", READINGS)
@swept("command", ["price", "breakdown", "crossover"])
def test_readings_are_echoed(command: str, name: str, run: Any) -> None:
    options, echoed = READINGS[name]
    size = () if command == "crossover" else ("-M", "16MB")
    done = run(command, "ar", *NVL, *size, *options, "--format", "json")
    assert done.code == 0, done.err
    assert done.json["model"] == DEFAULTS | echoed


def test_defaults_are_echoed(run: Any) -> None:
    assert price(run, "ar", *NVL, "-M", "16MB")["model"] == DEFAULTS


@swept("name", READINGS)
def test_readings_other_than_the_usual_are_named_in_a_table(name: str, run: Any) -> None:
    options, echoed = READINGS[name]
    ((key, value),) = echoed.items()
    assert f"{key}={value}" in run("price", "ar", *NVL, "-M", "16MB", *options).out


# --- the other commands
# ----------------------------------------------------------------------------------------------------


def test_crossover_runs_without_options(run: Any) -> None:
    document = run("crossover", "--format", "json").json
    assert (document["fabric"], document["primitive"]) == ("nvl72", "all_reduce")
    assert [(pair["a"], pair["b"]) for pair in document["pairs"]] == [
        ("ring", "tree"),
        ("ring", "double-binary-tree"),
    ]


@swept("primitive", ["ar", "a2a", "bc", "reduce"])
def test_crossover_runs_on_the_default_fabric(primitive: str, run: Any) -> None:
    done = run("crossover", primitive)
    assert done.code == 0, done.err


def test_a_crossing_is_where_the_two_cost_the_same(run: Any) -> None:
    document = run("crossover", "ar", "-f", "nvl72", "-n", "72", "--format", "json").json
    crossings = [(pair, crossing) for pair in document["pairs"] for crossing in pair["crossings"]]
    assert crossings
    for pair, crossing in crossings:
        names = f"{pair['a']},{pair['b']}"
        at = price(
            run,
            "ar",
            "-f",
            "nvl72",
            "-n",
            "72",
            "-M",
            repr(crossing["bytes"]),
            "--algorithm",
            names,
        )["results"]
        assert at[0]["total_s"] == pytest.approx(at[1]["total_s"], rel=1e-9)
        for factor, winner in ((0.9, "faster_below"), (1.1, "faster_above")):
            size = repr(crossing["bytes"] * factor)
            rows = price(run, "ar", "-f", "nvl72", "-n", "72", "-M", size, "--algorithm", names)[
                "results"
            ]
            assert min(rows, key=lambda row: row["total_s"])["algorithm"] == crossing[winner]


def test_crossover_has_the_approximations_beside(run: Any) -> None:
    document = run("crossover", "ar", "-f", "nvl72", "-n", "72", "--format", "json").json
    assert list(document["pairs"][0]["approximations"]) == [
        "N*alpha*BW/log2N",
        "N*alpha*BW/(log2N-1)",
        "N*alpha*BW",
    ]


def test_breakdown_is_the_fastest_price_with_baselines(run: Any) -> None:
    document = run("breakdown", "ar", *NVL, "-M", "16MB", "--format", "json").json
    best = next(
        row
        for row in price(run, "ar", *NVL, "-M", "16MB")["results"]
        if row["status"] != "hypothetical"
    )
    assert document["results"] == [best]
    assert "ring" in [row["algorithm"] for row in document["baselines"]]


def test_breakdown_phases_sum_to_the_total(run: Any) -> None:
    (row,) = run(
        "breakdown", "ar", *NVL, "-M", "16MB", "--phases", "sequential", "--format", "json"
    ).json["results"]
    for field in ("alpha_s", "bandwidth_s"):
        assert sum(phase[field] for phase in row["phases"]) == pytest.approx(row[field], rel=1e-12)


def test_ladder_gaps_and_rows(run: Any) -> None:
    document = run("ladder", "--format", "json").json
    assert (document["ladder"], document["bytes"]) == ("n512", 16_000_000)
    assert {row["ranks"] for row in document["rows"]} == {512}
    by_primitive: dict[str, list[Any]] = {}
    for row in document["rows"]:
        by_primitive.setdefault(row["primitive"], []).append(row)
    assert len(by_primitive) == 7
    for rows in by_primitive.values():
        assert min(row["gap_ideal"] for row in rows) == 1.0
        best = min(row["ideal"]["total_s"] for row in rows)
        assert [row["gap_ideal"] for row in rows] == pytest.approx(
            [row["ideal"]["total_s"] / best for row in rows]
        )


def test_a_ladder_of_ones_own(run: Any, folder: Path) -> None:
    rung = "{primitive: ar, fabric: star512, algorithm: ring}"
    Path("mine.yaml").write_text(
        f"schema: colltool.ladder-file/1\nname: mine\nsize: 1MB\nrungs:\n  - {rung}\n"
    )
    document = run("ladder", "mine.yaml", "--format", "json").json
    assert (document["ladder"], document["bytes"], len(document["rows"])) == ("mine", 1_000_000, 1)


def test_ladder_check(run: Any, folder: Path) -> None:
    assert run("ladder", "--check", "old.json").code == 0
    moved = run("ladder", "--check", "new.json", "--format", "json")
    assert moved.code == 1
    assert moved.err == ""
    assert len(moved.json["changed"]) == 1
    assert run("ladder", "--check", "new.json", "--rtol", "0.05").code == 0
    assert run("ladder", "--check", "price.json").code == 2


def test_diff(run: Any, folder: Path) -> None:
    assert run("diff", "old.json", "old.json").code == 0
    moved = run("diff", "old.json", "new.json", "--format", "json")
    assert moved.code == 1
    (change,) = moved.json["changed"]
    assert change["relative"] == pytest.approx(0.02)
    assert run("diff", "old.json", "new.json", "--rtol", "0.05").code == 0
    assert run("diff", "old.json", "price.json").code == 2


def test_diff_ignores_position_but_sees_what_is_gone(run: Any, folder: Path) -> None:
    document = json.loads(Path("old.json").read_text())
    document["rows"].reverse()
    Path("turned.json").write_text(json.dumps(document))
    assert run("diff", "old.json", "turned.json").code == 0
    del document["rows"][0]
    Path("short.json").write_text(json.dumps(document))
    gone = run("diff", "old.json", "short.json", "--format", "json")
    assert gone.code == 1
    assert len(gone.json["removed"]) == 1
    assert gone.json["added"] == []
    back = run("diff", "short.json", "old.json", "--format", "json")
    assert back.json["added"] == gone.json["removed"]


def test_diff_writes_its_file_although_it_exits_1(run: Any, folder: Path) -> None:
    assert run("diff", "old.json", "new.json", "-o", "report").code == 1
    assert "+2%" in Path("report").read_text()


def test_another_version_alone_is_no_change(run: Any, folder: Path) -> None:
    document = json.loads(Path("old.json").read_text()) | {"colltool": "99.0"}
    Path("later.json").write_text(json.dumps(document))
    assert run("diff", "old.json", "later.json").code == 0


def test_fabric_check_reports_every_file(run: Any, folder: Path) -> None:
    for name in ("one", "two"):
        Path(f"{name}.yaml").write_text("schema: colltool.fabric/1\nname: x\ntiers: []\n")
    done = run("fabric", "check", "one.yaml", "nvl72", "two.yaml")
    assert (done.code, done.out) == (2, "")
    assert "one.yaml:3" in done.err
    assert "two.yaml:3" in done.err
    assert run("fabric", "check", "nvl72").code == 0


@pytest.mark.parametrize(
    ("command", "good"), [("fabric", ("nvl72", "mi300x")), ("job", ("gpt3-175b", "llama3-70b"))]
)
def test_a_file_that_is_missing_hides_nothing_of_the_others(
    run: Any, folder: Path, command: str, good: tuple[str, str]
) -> None:
    done = run(command, "check", good[0], "nosuch", good[1])
    assert (done.code, done.out) == (2, "")
    for name in good:
        assert run(command, "check", name).out.strip() in done.err
    assert "'nosuch'" in done.err
    assert "ok" not in run(command, "check", "nosuch").err


def test_fabric_list_is_what_fabric_takes(run: Any) -> None:
    names = [one["name"] for one in run("fabric", "list", "--format", "json").json["fabrics"]]
    assert names == sorted(names)
    assert "nvl72" in names
    assert run("fabric", "check", *names).code == 0


def test_explain_puts_the_same_numbers_in(run: Any) -> None:
    args = ("-f", "nvl72", "-n", "72", "-M", "16MB")
    explained = run("explain", "ring", "ar", *args, "--format", "json").json
    assert (
        explained["primitives"][0]["result"]
        == price(run, "ar", *args, "--algorithm", "ring")["results"][0]
    )


@swept(
    "args", [("--version",), ("--help",), ("-h",), ("price", "--help"), ("fabric", "show", "-h")]
)
def test_help_and_version_go_to_stdout(args: tuple[str, ...], run: Any) -> None:
    done = run(*args)
    assert done.code == 0
    assert done.out
    assert done.err == ""
