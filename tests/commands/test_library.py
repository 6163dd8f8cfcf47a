"""``price --library nccl``: a table of picks, and a field of the document."""

from __future__ import annotations

from typing import Any


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
