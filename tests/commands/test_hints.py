"""A wrong input says what to type, and what it says can be typed: each hint is taken at its
word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from swept import swept

JOB = """
name: small
model: {name: small, layers: 32, parameters: 47e9, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 32000,
        moe: {experts: 8, top_k: 2, ffn: 14336, imbalance: IMBALANCE}}
sequence: 4096
batch: {global: 64}
layout: {ep: 8}
device: h100
stack: megatron
"""
SETS = {
    "ib.bandwidth=400": ["400Gbps", "400GB/s"],
    "nvlink.bandwidth=450": ["450GB/s", "450Gbps"],
    "ib.eta.alpha=30%": ["1.3"],
    "ib.eta.alpha=120%": ["1.2"],
    "ib.eta.beta=80%": ["0.8"],
    "ib.levels.spine.oversubscription=2:1": ["2"],
    "nvlink.alpha=0.5": ["0.5us", "0.5ns"],
    "nvlink.alpha=1e-6": ["1us"],
}


@swept("key", SETS)
def test_a_value_is_repaired_by_what_the_place_takes(key: str, run: Any) -> None:
    line = ("price", "ar", "-f", "dgx-h100", "-n", "16", "-M", "1MB", "--set")
    refused = run(*line, key)
    assert (refused.code, refused.out) == (2, "")
    hint = re.search(r"write (.+)$", refused.err.strip())
    assert hint is not None
    assert hint[1].split(" or ") == SETS[key]
    for value in SETS[key]:
        assert run(*line, f"{key.partition('=')[0]}={value}").code == 0


def test_no_value_is_suggested_that_the_place_refuses(run: Any) -> None:
    assert (
        "write"
        not in run("price", "ar", "-f", "dgx-h100", "-n", "16", "--set", "ib.eta.beta=800%").err
    )


@swept(("given", "hint"), [("30%", "write 1.3"), ("130%", "write 1.3"), ("2x", "write 2")])
def test_an_imbalance_is_above_the_mean(given: str, hint: str, tmp_path: Path, run: Any) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("IMBALANCE", given))
    assert hint in run("job", "check", str(tmp_path / "job.yaml")).err
    (tmp_path / "job.yaml").write_text(JOB.replace("IMBALANCE", hint.removeprefix("write ")))
    assert run("job", "check", str(tmp_path / "job.yaml")).code == 0


@swept("size", ["16", "8", "16,1MB,64"])
def test_a_small_size_without_a_unit_is_said_to_be_bytes(size: str, run: Any) -> None:
    done = run("price", "ar", "-f", "nvl72", "-n", "8", "-M", size, "--format", "json")
    assert done.json["sizes"][0]["bytes"] == int(size.split(",")[0])
    assert "bytes, as in nccl-tests" in done.err
    assert len(done.err.splitlines()) == 1
    for plain in ("16B", "1024", "16MB", "4194304"):
        assert run("price", "ar", "-f", "nvl72", "-n", "8", "-M", plain).err == ""


@pytest.fixture
def half(tmp_path: Path) -> str:
    """A table of nccl-tests whose command line and banner were cut off."""
    rows = ((1 << 20, 60.0), (1 << 24, 250.0), (1 << 28, 3000.0))
    lines = ["#       size         count      type   redop    root     time   algbw   busbw #wrong"]
    lines += ["#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"]
    for size, time in rows:
        algbw = size / time / 1e3
        lines.append(
            f"{size:12d} {size // 4:12d}  float  sum  -1 {time:9.2f} {algbw:7.2f}"
            f" {algbw * 126 / 64:7.2f} 0"
        )
    path = tmp_path / "half64.log"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


READERS = {
    "doctor": ("-f", "dgx-h100"),
    "validate": ("-f", "dgx-h100"),
    "report": ("-f", "dgx-h100", "-p", "bc"),
}


@pytest.mark.alike(1)
@pytest.mark.parametrize("command", READERS)
def test_what_a_log_does_not_say_can_be_said_wherever_logs_are_read(
    command: str, half: str, run: Any
) -> None:
    """Each refusal names options; typed, they lead on, until the log is read."""
    args = [command, half, *READERS[command]]
    for _ in range(3):
        done = run(*args)
        if done.code != 2:
            break
        option = re.search(r"(--[a-z-]+) (\w+)$", done.err.strip())
        assert option is not None, done.err
        args += [option[1], {"--ranks": "64", "--nodes": "8"}.get(option[1], option[2])]
    assert done.code in (0, 1), done.err
    assert done.out


@pytest.mark.parametrize("command", ["doctor", "validate"])
def test_an_output_of_this_tool_is_no_log(command: str, tmp_path: Path, run: Any) -> None:
    path = tmp_path / "price.json"
    path.write_text(
        run("price", "ar", "-f", "nvl72", "-n", "8", "-M", "1MB", "--format", "json").out
    )
    refused = run(command, str(path), "-f", "nvl72")
    assert (refused.code, refused.out) == (2, "")
    assert "what colltool price prints: computed, not measured" in refused.err
    assert "--collective" not in refused.err
    assert run("diff", str(path), str(path)).code == 0
    assert json.loads(path.read_text())["schema"] == "colltool.price/1"
