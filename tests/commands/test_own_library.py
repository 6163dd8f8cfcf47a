"""``--library`` with the fabric's own library is the same as without, on every command and shipped
fabric."""

from __future__ import annotations

from typing import Any

import pytest

import colltool

FABRICS = {name: colltool.load_fabric(name) for name in colltool.list_fabrics()}
OWN = {
    name: one.library_name
    for name, one in FABRICS.items()
    if one.ranks >= 8 and one.measured_on is None
}
COMMANDS = {
    "price": ("price", "ar", "-M", "1MB"),
    "winners": ("price", "ag"),
    "crossover": ("crossover", "ar"),
    "breakdown": ("breakdown", "ar", "-M", "1MB"),
    "explain": ("explain", "ring", "ar", "-M", "1MB"),
}


@pytest.mark.alike(20)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", OWN)
def test_it_answers_alike(name: str, command: str, run: Any) -> None:
    args = (*COMMANDS[command], "-f", name, "-n", "8", "--format", "json")
    without, own = run(*args), run(*args, "--library", OWN[name])
    assert without.code == 0, without.err
    assert (own.code, own.out) == (0, without.out), own.err


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    "args",
    [
        ("sensitivity", "ar", "-f", "nvl72", "-M", "1MB", "-n", "8"),
        ("price", "ar", "-f", "nvl72", "-M", "16MB"),
        ("sweep", "ar", "-f", "nvl72", "-M", "1KB,1GB", "-n", "8"),
        ("compare", "ar", "-f", "nvl72", "-f", "dgx-h100", "-M", "1MB", "-n", "8"),
        ("plan", "llama3-70b", "-f", "dgx-h100", "-n", "256"),
    ],
    ids=lambda args: args[0],
)
def test_so_do_the_slower_ones(args: tuple[str, ...], run: Any) -> None:
    line = (*args, "--format", "json")
    without, own = run(*line), run(*line, "--library", "nccl")
    assert (own.code, own.out) == (without.code, without.out)
    assert without.code == 0, without.err


def test_another_library_still_says_what_its_model_misses(run: Any) -> None:
    refused = run("price", "ar", "-f", "star512", "-M", "1MB", "--library", "nccl")
    assert refused.code == 2
    assert "library: {name: nccl" in refused.err
