"""How doctor, validate, trace, calibrate, contention, verify and the fabric commands speak: a verdict
first, the same words for the same file, screens that fit, JSON as its schema says, and none of the
words that only this project knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from effort import some
from jsonschema import Draft202012Validator
from machine_logs import LARGE, log, time_on
from tracing import call, write

import colltool
from colltool.base.statements import sentences
from colltool.calibration.sentences import fit_sentences

EIGHT = list(range(8))
TWO_HOSTS = "NVIDIA A100-SXM4-80GB"


@pytest.fixture(autouse=True)
def _here(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs and traces of machines that are well, slow, too fast, and of several hosts."""
    here = tmp_path_factory.mktemp("spoken")
    well = time_on()
    log(here / "well.log", well, ("ar", "ag"))
    log(here / "one.log", well, ("ar",), LARGE)
    log(here / "rings.log", time_on(only={"ar": "ring", "ag": "ring"}), ("ar", "ag"))
    log(here / "slow.log", time_on(set_=["nvlink.bandwidth=300GB/s"]), ("ar", "ag"), LARGE)
    log(here / "odd.log", lambda p, size: well(p, size) * 2.5, ("ag",), LARGE)
    log(here / "fast.log", lambda p, size: well(p, size) / 5.84, ("ar",), LARGE)
    drop = 2.0**28
    log(here / "drop.log", lambda p, size: well(p, size) * (1 + 0.6 * (size >= drop)), sizes=LARGE)
    far = time_on(ranks=16, set_=["ib.bandwidth=12.5GB/s"])
    log(here / "far.log", far, ("ar", "ag"), ranks=16)
    a100 = time_on("dgx-a100")
    log(here / "a100.log", a100, ("ar", "ag"), LARGE)
    (here / "debug.log").write_text("h:1:1 [0] NCCL INFO Using network Socket\n" * 2)
    sizes = [2**k for k in range(22, 29, 2)]
    for rank in range(8):
        events = [
            call(4e6 * at, 6e-6 * size + 4000 + rank, EIGHT, elements=size // 2, Seq=at)
            for at, size in enumerate(sizes)
        ]
        write(here / f"rank{rank}.json", events, rank, 8)
    return here


RANKS = tuple(f"rank{rank}.json" for rank in EIGHT)
CASES: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor", "well.log"),
    "doctor one": ("doctor", "one.log"),
    "doctor set": ("doctor", "slow.log", "--set", "nvlink.bandwidth=300GB/s"),
    "doctor set given": ("doctor", "slow.log", "-f", "dgx-h100", "--set", "nvlink.alpha=1us"),
    "doctor several": ("doctor", "well.log", "slow.log", "odd.log"),
    "doctor rings": ("doctor", "rings.log"),
    "doctor odd": ("doctor", "odd.log"),
    "doctor fast": ("doctor", "fast.log"),
    "doctor drop": ("doctor", "drop.log"),
    "doctor far": ("doctor", "far.log"),
    "doctor another": ("doctor", "one.log", "-f", "dgx-a100"),
    "doctor debug": ("doctor", "debug.log"),
    "doctor traces": ("doctor", *RANKS, "-f", "dgx-h100"),
    "doctor trace": ("doctor", "rank0.json", "-f", "dgx-h100"),
    "validate": ("validate", "well.log", "-f", "dgx-h100"),
    "validate one": ("validate", "drop.log", "-f", "dgx-h100"),
    "validate several": ("validate", "well.log", "slow.log", "-f", "dgx-h100"),
    "trace": ("trace", *RANKS, "-f", "dgx-h100"),
    "trace one": ("trace", "rank0.json", "-f", "dgx-h100", "--set", "nvlink.alpha=1us"),
    "trace against": ("trace", "rank0.json", "-f", "dgx-h100", "--against", "rank1.json"),
    "calibrate": ("calibrate", "well.log", "-f", "dgx-h100"),
    "contention": ("contention", "-f", "torus512", "--group", "6"),
    "contention eta": ("contention", "-f", "torus512", "--group", "6", "--as-eta"),
    "contention hot": ("contention", "-f", "star512", "--group", "16", "--hot", "3", "-M", "1MB"),
    "verify": ("verify", "ar", "-f", "dgx-h100", "-n", "16"),
    "verify trace": ("verify", "ar", "-f", "star512", "-n", "4", "-a", "ring", "--trace"),
    "fabric check": ("fabric", "check", "nvl72"),
    "fabric size": ("fabric", "size", "--endpoints", "9216", "--radix", "64"),
    "fabric dragonfly": (
        *("fabric", "size", "--endpoints", "2048", "--radix", "64"),
        *("--topology", "dragonfly"),
    ),
    "fabric list": ("fabric", "list"),
}
# longer than a screen: the list of all fabrics, the executed steps
LONG = {"fabric list", "verify trace"}
PRIVATE = re.compile(r"[\ue000-\uf8ff]|\\ue0")
# words that nobody says at a desk, and the habits behind them
BANNED = re.compile(
    r"\bfrom \S+( [KMGT]?i?B)? on\b|\bis of\b|\bgoes with\b|\bso many\b|\bbeside\b|\bnobody\b"
    r"|\bleads\b|\bbalance\b|\brealistic\b|\bown copy\b|\bfloor\b|\bheld (at|against)\b"
    r"|\bdrafted\b|\brungs?\b|\breadings?\b|\bidealised\b|\bmismatch\b|\bsoftware\b|\bwire\b"
    r"|\b(\d\S*|[KMGT]?B/s|[mun]?s|NICs|GPUs|ranks|bytes) a (rank|host|prompt|step|node|GPU|year)\b"
)
OPENINGS = re.compile(r"(^|[.:] )(Of|By|Beside|Against) ")


def habits(text: str) -> list[str]:
    """The words in a text that a colleague would stumble over."""
    joined = " ".join(text.split())
    return [found[0] for pattern in (BANNED, OPENINGS) for found in pattern.finditer(joined)]


def said(run: Any, *args: str) -> str:
    return " ".join(run(*args).out.split())


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema))


@pytest.mark.alike(5)
@pytest.mark.parametrize("name", CASES)
def test_json_is_as_its_schema_says(name: str, run: Any) -> None:
    document = run(*CASES[name], "--format", "json").json
    kind = document["schema"].removeprefix("colltool.").removesuffix("/1")
    schema = _validator(run("schema", kind).out)
    found = [one.message[:200] for one in schema.iter_errors(document)]
    assert found == []


@pytest.mark.alike(5)
@pytest.mark.parametrize("name", CASES)
def test_no_mark_is_left_in_any_format(name: str, run: Any) -> None:
    for form in ("table", "json", "csv", "markdown", "html"):
        done = run(*CASES[name], "--format", form, *(("--all",) if form == "table" else ()))
        assert done.out, done.err
        assert not PRIVATE.search(done.out + done.err), form


@pytest.mark.alike(10)
@pytest.mark.parametrize("name", CASES)
def test_the_first_screen_fits_and_is_said_in_plain_words(name: str, run: Any) -> None:
    done = run(*CASES[name])
    assert habits(done.out) == []
    if name not in LONG:
        lines = done.out.splitlines()
        assert len(lines) <= 24, done.out
        assert max(map(len, lines)) <= 80


@pytest.mark.alike(6)
@pytest.mark.parametrize("name", some(colltool.list_fabrics(), 14))
def test_every_fabric_fits_a_screen(name: str, run: Any) -> None:
    done = run("fabric", "show", name)
    assert len(done.out.splitlines()) <= 24
    assert max(map(len, done.out.splitlines())) <= 80
    document = run("fabric", "show", name, "--format", "json").json
    schema = _validator(run("schema", "fabric-show").out)
    assert [one.message[:200] for one in schema.iter_errors(document)] == []


def _tables() -> Iterator[tuple[str, str]]:
    for package in ("colltool.diagnosis", "colltool.logs"):
        yield from sentences(package).items()
    yield from fit_sentences().items()


def test_sentences_are_plain() -> None:
    # a field is no word: "{rate} a rank" is the same habit
    per = re.compile(r"\{[^}]*\} a (rank|host|prompt|step|node|GPU)\b")
    found = {}
    for code, words in _tables():
        if habits(words) or per.search(words):
            found[code] = words
    assert found == {}


# --- the words themselves


def test_a_healthy_machine(run: Any) -> None:
    assert said(run, *CASES["doctor one"]).startswith(
        "Healthy: all-reduce on 8 H100 reaches 100% of expected (pass mark 80%). Measured: 479 GB/s"
        " busbw at 2 GiB; expected of dgx-h100: 479 GB/s."
    )


def test_other_nics_are_a_question(run: Any) -> None:
    assert said(run, *CASES["doctor far"]).startswith(
        "If your hosts have 4 x 200G or 8 x 100G NICs, this is normal (100% of their line rate)."
        " If they have 8 x 400G, the network is at a quarter of its rate:"
    )


def test_a_drop_is_said_in_rates(run: Any) -> None:
    text = said(run, *CASES["doctor drop"])
    assert "Slow: all-reduce on 8 H100 reaches 62% of expected (pass mark 80%)." in text
    assert "Bandwidth drops at 256 MiB: 408 -> 270 GB/s (" in text


def test_causes_have_their_fit_error(run: Any) -> None:
    text = said(run, *CASES["doctor rings"])
    assert "NVLS may be off" in text
    assert "(fits the log exactly; a healthy dgx-h100 would be 31% off)" in text
    assert "possible causes (fit error)" in text


@pytest.mark.parametrize("name", ["doctor fast", "doctor another"])
def test_more_than_possible_is_never_healthy(name: str, run: Any) -> None:
    done = run(*CASES[name])
    text = " ".join(done.out.split())
    # where the fabric is given, that the log is of other hardware comes first
    if name == "doctor another":
        hardware, _, text = text.partition(". ")
        assert hardware.startswith("The logs are of NVIDIA H100")
    assert text.startswith("Not judged: all-reduce on 8 H100 is ")
    assert "healthy" not in text.lower()
    assert "as expected" not in text
    assert "too fast" in text
    # what was measured on an H100 says which machine fits
    if name == "doctor another":
        assert "dgx-h100" in text.partition("The times fit ")[2].partition(".")[0]
        assert "dgx-h100" in run(*CASES[name], "--format", "json").json["fits"]
    else:
        assert "No bundled machine fits: name yours with -f NAME." in text


def test_one_trace_does_not_tell_the_network_from_waiting(run: Any) -> None:
    text = said(run, *CASES["trace one"])
    assert text.startswith("Cannot tell network from waiting: only rank 0 was traced, and up to ")
    assert "may be rank 0 waiting for ranks 1 to 7. Trace all ranks" in text


def test_counts_are_said_once(run: Any) -> None:
    assert run(*CASES["fabric size"]).out.startswith(
        "763 switches (298 leaf, 310 spine, 155 core) and 27,754 cables for 9,216 ports.\n"
    )


def test_verify_says_what_matches(run: Any) -> None:
    assert said(run, *CASES["verify"]).startswith(
        "8 of 9 formulas hold exactly when executed: 8 match, 1 matches only on idle wires; 3 not"
        " executed."
    )


# --- one reading of a file


@pytest.mark.parametrize("file", ["one.log", "slow.log", "drop.log", "fast.log", "well.log"])
def test_doctor_and_validate_read_a_log_alike(file: str, run: Any) -> None:
    healths = run("doctor", file, "-f", "dgx-h100", "--format", "json").json["series"]
    series = run("validate", file, "-f", "dgx-h100", "--format", "json").json["series"]
    for health, judged in zip(healths, series, strict=True):
        last = judged["points"][-1]
        assert health["busbw_measured_Bps"] == last["busbw_measured_Bps"]
        assert health["busbw_expected_Bps"] == last["busbw_expected_Bps"]
        assert health["bytes"] == last["bytes"]
        assert health["dtype"] == judged["dtype"]
    # the clause that doctor has of a series, validate has too
    doctor = said(run, "doctor", file, "-f", "dgx-h100")
    validate = said(run, "validate", file, "-f", "dgx-h100")
    clause = re.search(
        r"(reach(es)? \d+% of expected \(pass mark \d+%\)|is \S+ times faster)", doctor
    )
    assert clause is not None
    assert clause[0] in validate


def test_doctor_and_trace_read_a_trace_alike(run: Any) -> None:
    (health,) = run(*CASES["doctor traces"], "--format", "json").json["series"]
    trace = run(*CASES["trace"], "--format", "json").json
    (finding,) = trace["findings"]
    for key in ("large", "small", "bar", "low", "busbw_measured_Bps", "busbw_expected_Bps"):
        assert finding["health"][key] == health[key], key
    clause = re.search(
        r"reaches \d+% of expected \(pass mark \d+%\)", said(run, *CASES["doctor traces"])
    )
    assert clause is not None
    assert clause[0] in said(run, *CASES["trace"], "--all")
