"""Writes ``colltool/libraries/*.toml``: a library's protocols as times beside, and shares of, the
numbers of a fabric's tier."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import colltool

Data = Mapping[str, Any]
FOLDER = Path(colltool.__file__).parent / "libraries"
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9, "B": 1}


def microseconds(text: str) -> float:
    return float(text.removesuffix("us"))


def gigabytes(text: str) -> float:
    return float(text.removesuffix("GB/s"))


def size_of(text: str) -> int:
    """Bytes of a size as a fabric file writes it."""
    unit = next(unit for unit in _UNITS if text.endswith(unit))
    return int(float(text.removesuffix(unit)) * _UNITS[unit])


def text_of(value: Any) -> str:
    """A value in TOML; numbers to seven digits."""
    if isinstance(value, str):
        return json.dumps(" ".join(value.split()), ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        digits = f"{value:.7g}"
        return digits if any(mark in digits for mark in ".e") else f"{digits}.0"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {text_of(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value)


def table(kind: str, entries: Data) -> str:
    """An entry of ``[[kind]]``; protocols stand a line each."""
    lines = [f"[[{kind}]]"]
    for key, value in entries.items():
        if key == "protocols" and value and isinstance(value[0], Mapping):
            lines += ["protocols = [", *(f"  {text_of(row)}," for row in value), "]"]
        else:
            lines.append(f"{key} = {text_of(value)}")
    return "\n".join(lines) + "\n"


def protocols_of(
    fitted: Sequence[Data], tier: Data, alpha_us: float, *, every: bool = False
) -> list[dict[str, Any]]:
    """Protocols in a fabric's own numbers as what they add to a tier whose step takes ``alpha_us``,
    η included.

    ``every``: they hold for all primitives, as some of these were not measured.
    """
    beta = tier["eta"]["beta"]
    found = []
    for one in fitted:
        row: dict[str, Any] = {"name": one["name"]}
        if "primitives" in one and not every:
            row["primitives"] = one["primitives"]
        if "launch_overhead" in one:
            row["launch_us"] = microseconds(one["launch_overhead"])
        row["step_us"] = microseconds(one["alpha"]) - alpha_us
        if "host_GBps" in one:
            row["host_GBps"] = float(one["host_GBps"])
        else:
            row["share"] = one["eta"]["beta"] / beta
        if "local_copy" in one:
            row["copy_GBps"] = gigabytes(one["local_copy"])
        if "measured" in one:
            known = one["measured"]
            ends = {"smallest": size_of(known["smallest"]), "largest": size_of(known["largest"])}
            row["measured"] = ends | {"ranks": known["ranks"]}
        found.append(row)
    return found


def switch_of(fitted: Data, tier: Data) -> dict[str, Any]:
    """Collectives in the switches as time beside α_switch and shares of the switches' η_β."""
    own, given = tier["in_network"], fitted.get("eta_beta") or {}
    usual = own.get("eta_beta", {})
    shares = {name: value / usual.get(name, tier["eta"]["beta"]) for name, value in given.items()}
    switch: dict[str, Any] = {
        "step_us": microseconds(fitted["alpha_switch"]) - microseconds(own["alpha_switch"])
    }
    if shares:
        switch["shares"] = shares
    return switch | {"protocols": fitted["protocols"]}


def file_text(head: str, library: str, version: str, tables: Iterable[str]) -> str:
    start = f"# {head}\nlibrary = {text_of(library)}\nversion = {text_of(version)}\n\n"
    return start + "\n".join(tables)
