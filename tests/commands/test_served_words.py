"""First screens of serving, resharding, libraries, jobs and kernels: 24 lines of 80 columns, in
words that an engineer would say; over all shipped jobs and engines."""

from __future__ import annotations

import re
from typing import Any

import pytest
from swept import swept

from colltool.engines.lookup import find_library
from colltool.engines.shipped import shipped_libraries
from colltool.training.files.presets import preset_names
from tests.commands.test_terminal import on_terminal, without_colour

JOBS = sorted({*preset_names("jobs"), *preset_names("models")})
LIBRARIES = [f"{name}@{version}" for name, version in shipped_libraries()]
TOKENS = ("--tokens", "128", "--hidden", "7168", "--experts", "256", "--top-k", "8")

# what the text for people does not say; JSON keys are older
_NOT_SAID = re.compile(
    r"\ba (?:rank|host|prompt|second|token)\b|\bfrom \S+(?: \S+)? on[,.;:]|\bis of\b|\bgoes with\b"
    r"|\bso many\b|\bbeside\b|\bnobody\b|\bleads\b|\bbalance\b|\brealistic\b|\bideal\b|\bsoftware\b"
    r"|\bown copy\b|\bfloor\b|\bheld at\b|\bcuts?\b|\bdrafted\b|\bwires?\b|\brungs?\b|\breadings\b"
    r"|\bproved\b|\bmismatch\b|\blaws?\b",
    re.IGNORECASE,
)


def said(text: str) -> list[str]:
    """The words of a text that people do not say."""
    return [match[0] for match in _NOT_SAID.finditer(text)]


FIRST_SCREENS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", "llama3-70b", "-f", "hgx-h200", "--tp", "8", "--batch", "64"),
    "serve by an engine": (
        *("serve", "llama3-70b", "-f", "hgx-h200", "--tp", "8", "--batch", "64"),
        *("--engine", "vllm@0.24.0", "--tpot", "18ms"),
    ),
    "serve experts": (
        *("serve", "deepseek-v3", "-f", "dgx-h100", "--ep", "64", "--batch", "8192"),
        *("--weights", "fp8"),
    ),
    "serve without a device": ("serve", "llama3-70b", "-f", "star512", "--tp", "8"),
    "serve --search": (
        *("serve", "llama3-70b", "-f", "hgx-h200", "--search", "-n", "16", "--batch", "64"),
    ),
    "serve -f -f": ("serve", "llama3-70b", "-f", "hgx-h200", "-f", "dgx-b200", "--tp", "8"),
    "reshard": (
        *("reshard", "llama3-70b", "-f", "dgx-h100", "--from", "128", "--to", "64"),
        *("--replica", "8"),
    ),
    "library list": ("library", "list"),
    "library check": ("library", "check", "vllm", "deepep"),
    "library diff": (*("diff", "--library", "sglang@0.5.10", "sglang@0.5.14", "-f", "hgx-h200"),),
    "job list": ("job", "list"),
    "job check": ("job", "check", "llama3-70b", "deepseek-v3"),
    "job show": ("job", "show", "llama3-70b", "-n", "512"),
    "schema": ("schema",),
    "price by kernels": (
        *("price", "ar", "-f", "hgx-h200", "-n", "8", "-M", "4MiB", "--library", "vllm"),
    ),
    "price of another version": (
        *("price", "ar", "-f", "hgx-h200", "-n", "8", "-M", "1M", "--library", "vllm@0.24.0"),
    ),
    "price dispatch": (
        *("price", "dispatch", "-f", "dgx-h100", "-n", "16", "--library", "deepep"),
        *TOKENS,
    ),
    "crossover of kernels": (
        *("crossover", "ar", "-f", "dgx-b200", "-n", "8", "--library", "vllm"),
    ),
    **{f"library show {name}": ("library", "show", name) for name in LIBRARIES},
}


@swept("name", FIRST_SCREENS, most=10)
def test_a_first_screen_is_24_lines_in_plain_words(name: str) -> None:
    # a comparison that found changes ends with 1
    code = 1 if name == "library diff" else 0
    text = without_colour(on_terminal(*FIRST_SCREENS[name], code=code))
    shown = text.rstrip("\n").split("\n")
    assert len(shown) <= 24, "\n".join(shown)
    assert max(map(len, shown)) <= 80
    assert said("\n".join(shown)) == []


@pytest.mark.parametrize("job", JOBS)
def test_every_job_is_served_in_plain_words(run: Any, job: str) -> None:
    """All that a job's answer says, on one node and in a search."""
    one = run("serve", job, "-f", "dgx-b200", "--tp", "8", "--batch", "64", "--all")
    if one.code == 0:
        assert re.match(r"About [\d,.]+ tokens/s|It does not fit", one.out)
    else:
        # a model without a shape
        assert "give its shape" in one.err
    found = run("serve", job, "-f", "dgx-b200", "--search", "-n", "16", "--all")
    assert found.code == one.code
    assert said(one.out + one.err + found.out + found.err) == []


@pytest.mark.alike(8)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_speaks_in_plain_words(run: Any, library: str) -> None:
    """Each operation that it has kernels for, on machines that it was measured on and others."""
    file = find_library(library)
    spoken = run("library", "check", library).out
    for operation in file.operations:
        asked = TOKENS if operation in ("dispatch", "combine") else ("-M", "1K,1M,64M")
        if operation == "kv_transfer":
            continue
        for fabric in ("hgx-h200", "dgx-b200", "mi300x", "aws-p5"):
            for ranks in ("8", "16"):
                group = ("-f", fabric, "-n", ranks, "--library", library)
                priced = run("price", operation.replace("_", "-"), *group, *asked, "--all")
                spoken += priced.out + priced.err
                assert priced.code in (0, 2)
    assert said(spoken) == []
