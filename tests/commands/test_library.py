"""``price --library nccl``: a table of picks, and a field of the document."""

from __future__ import annotations

import re
from typing import Any

from swept import swept


def test_the_table_of_picks(run: Any) -> None:
    done = run(
        "price",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "1MB,1GB",
        "--top",
        "1",
        "--library",
        "nccl",
        "--all",
    )
    assert done.code == 0
    assert "what NCCL 2.30 runs, by its own cost model" in done.out
    assert "hierarchical (in-network / double-binary-tree)" in done.out


def test_the_document_has_what_the_contract_promises(run: Any) -> None:
    document = run(
        "price",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "1MB",
        "--library",
        "nccl",
        "--format",
        "json",
    ).json
    found = document["library"]
    assert list(found) == ["name", "version", "pick", "runs", "of_fastest", "ways"]
    assert list(found["pick"]) == ["algorithm", "protocol", "estimate_s"]
    assert found["runs"]["spec"] == "hierarchical:ring/double-binary-tree"
    assert {tuple(way) for way in found["ways"]} == {
        ("algorithm", "protocol", "estimate_s", "reason")
    }
    assert all((way["estimate_s"] is None) == bool(way["reason"]) for way in found["ways"])
    assert found["of_fastest"] >= 1
    every = run(
        "price",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "1MB",
        "--library",
        "all",
        "--format",
        "json",
    ).json
    assert "library" not in every
    assert all(row["leads"] for row in every["results"] if row["status"] == "shipped")


def test_facts_of_the_hardware_may_be_set(run: Any) -> None:
    override = ("--set", "library={name: nccl, gpu: ampere, nvls: false}")
    done = run(
        "price",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "8",
        "-M",
        "1KB",
        "--library",
        "nccl",
        "--all",
        *override,
    )
    assert done.code == 0
    assert "what NCCL 2.30 runs" in done.out


def test_unknown(run: Any) -> None:
    done = run("price", "ar", "-f", "dgx-h100", "-M", "1MB", "--library", "ncl")
    assert (done.code, done.out) == (2, "")
    known = "known: nccl, rccl, mpi, xla, mscclpp, all, and those of colltool library list"
    assert (
        done.err == f"error: --library: no library 'ncl' is known\n  did you mean 'nccl'? {known}\n"
    )


# --- library, job and schema answer alike


@swept(
    ("typed", "near", "listed"),
    [
        (("library", "show", "vlm"), "vllm", "deepep, flashinfer, hybridep, mooncake"),
        (("library", "check", "vlm"), "vllm", "deepep, flashinfer, hybridep, mooncake"),
        (("job", "show", "lama3-70b"), "llama3-70b", "deepseek-v3, gpt3-175b"),
        (("job", "check", "lama3-70b"), "llama3-70b", "deepseek-v3, gpt3-175b"),
        (("job", "show", "llama3-8"), "llama3-8b", "deepseek-v3, gpt3-175b"),
        (("schema", "prce"), "price", "assumptions, breakdown"),
    ],
)
def test_an_unknown_name_gets_the_nearest_and_the_list(
    run: Any, typed: tuple[str, ...], near: str, listed: str
) -> None:
    done = run(*typed)
    assert (done.code, done.out) == (2, "")
    assert f"did you mean '{near}'?" in done.err
    assert listed in done.err
    # the name is an argument, not the option of another command
    assert "--library" not in done.err.split("\n")[0]


def test_a_version_without_a_file_is_an_error(run: Any) -> None:
    for command in (("show", "vllm@9.9"), ("check", "vllm@9.9"), ("init", "--from", "vllm@9.9")):
        done = run("library", *command)
        assert (done.code, done.out) == (2, "")
        assert "there is no data of vllm 9.9" in done.err
        assert "there is for: vllm@0.14.0, " in done.err


def test_lists_begin_with_their_number_and_how_to_use_one(run: Any) -> None:
    libraries = run("library", "list")
    assert libraries.out.startswith(f"{len(libraries_of(run))} libraries ship: --library ")
    assert run("job", "list").out.startswith("4 jobs ship: colltool plan deepseek-v3 -f dgx-h100")
    for kind in ("library", "job"):
        assert run(kind, "list", "--format", "csv").out.startswith("name,")


def libraries_of(run: Any) -> list[Any]:
    return list(run("library", "list", "--format", "json").json["libraries"])


def test_checks_of_files_are_one(run: Any) -> None:
    """A name or a file; text and JSON say the same of libraries, jobs and fabrics."""
    for kind, name, file in (
        ("library", "vllm", "vllm-0.27.0.toml"),
        ("job", "llama3-70b", "llama3-70b.yaml"),
        ("fabric", "hgx-h200", "hgx-h200"),
    ):
        assert run(kind, "check", name).out.startswith(f"{file}: ok:\n  ")
        document = run(kind, "check", name, "--format", "json").json
        assert document["valid"] == [file]
        assert document["warnings"] == []
    assert document["schema"] == "colltool.fabric-check/1"


def test_a_library_check_keeps_its_rows(run: Any) -> None:
    """CSV and the key ``libraries`` are older than the check of several kinds of files."""
    document = run("library", "check", "vllm", "--format", "json").json
    assert [row["name"] for row in document["libraries"]] == ["vllm"]
    rows = run("library", "check", "vllm", "--format", "csv").out.splitlines()
    assert rows[0] == "name,version,spoken,operations,gpus"
    assert rows[1].startswith('vllm,0.27.0,vLLM,"all_reduce, dispatch, combine",')


@swept(
    "asked",
    [
        "price ar -f hgx-h200 -n 8 -M 1M --library vllm@9.9",
        "price ar -f hgx-h200 -n 8 -M 1M --library sglang@0.5.13",
        "price dispatch -f hgx-h200 -n 8 --tokens 128 --library deepep@7",
        "serve llama3-70b -f hgx-h200 --tp 8 --engine vllm@9.9",
        "serve llama3-70b -f hgx-h200 --tp 8 --engine trtllm@0.1",
    ],
)
def test_an_unknown_version_names_the_known_ones(run: Any, asked: str) -> None:
    """Versions differ by up to 3 times, so another one does not stand in."""
    done = run(*asked.split())
    library, version = asked.split()[-1].split("@")
    assert done.code == 2
    assert f"there is no data of {library} {version}" in done.err
    assert f"there is for: {library}@" in done.err


def test_schemas_are_one_a_line_in_a_pipe(run: Any) -> None:
    lines = run("schema").out.splitlines()
    assert re.match(r"\d+ JSON Schemas: colltool schema NAME prints one\.$", lines[0])
    assert "  serve-list           colltool serve -f A -f B, --search" in lines
    assert "  fabric               files of this kind" in lines
