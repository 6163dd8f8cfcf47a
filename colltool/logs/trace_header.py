"""The header of a PyTorch profiler trace: what it says of the job and of the devices, checked
(:func:`checked_header`).

torch.profiler writes ``distributedInfo`` as JSON (``backend``, ``rank``, ``world_size``,
``pg_count``, ``nccl_version`` and, from 2.1 on, ``pg_config``: a list of process groups); tools that
add metadata as text leave the same in quotes. What is missing or null is not told. A value of
another type is an error at its key: a rank that is no number would be counted as an unknown one.
"""

from __future__ import annotations

import json
from typing import Any

from colltool.base.errors import ColltoolError, quote
from colltool.logs.call_metadata import Labels, as_count

_JOB = "distributedInfo"
_DEVICES = "deviceProperties"
_GROUPS = "pg_config"
_NUMBERS = ("rank", "world_size")


def checked_header(header: Labels, where: str) -> Labels:
    """The header with ``distributedInfo`` as a mapping, its ``pg_config`` and ``deviceProperties``
    as lists of mappings. ColltoolError, which names the key, for values of another type."""
    checked: Labels = {}
    job = _parsed(header.get(_JOB))
    if job is not None:
        checked[_JOB] = _checked_job(job, where)
    devices = _parsed(header.get(_DEVICES))
    if devices is not None:
        checked[_DEVICES] = _mappings(devices, _DEVICES, where)
    return checked


def _checked_job(job: Any, where: str) -> Labels:
    """What ``distributedInfo`` says of the job, without what is not told."""
    if not isinstance(job, dict):
        raise _wrong(job, _JOB, "a mapping", where)
    checked: Labels = dict(job)
    for key in _NUMBERS:
        value = job.get(key)
        # torch gives -1 to a process outside the group
        if value in (None, "", -1):
            checked.pop(key, None)
        elif as_count(value) is None:
            raise _wrong(value, f"{_JOB}.{key}", "a whole number", where)
    version = job.get("nccl_version")
    if isinstance(version, list | dict | bool):
        raise _wrong(version, f"{_JOB}.nccl_version", "a text", where)
    groups = _parsed(job.get(_GROUPS))
    checked.pop(_GROUPS, None)
    if groups:
        checked[_GROUPS] = _checked_groups(groups, where)
    return checked


def _checked_groups(groups: Any, where: str) -> list[Labels]:
    """Process groups, each with the list of its ranks where that is told."""
    place = f"{_JOB}.{_GROUPS}"
    checked = []
    for number, group in enumerate(_mappings(groups, place, where)):
        ranks = _parsed(group.get("ranks"))
        if isinstance(ranks, dict):
            # its keys are ranks of the job, its values those in the group
            ranks = list(ranks)
        if ranks is not None and not isinstance(ranks, list):
            raise _wrong(ranks, f"{place}.{number}.ranks", "a list of ranks", where)
        members = []
        for rank in ranks or []:
            member = as_count(rank)
            if member is None:
                raise _wrong(rank, f"{place}.{number}.ranks", "a list of ranks", where)
            members.append(member)
        checked.append({"pg_name": group.get("pg_name"), "ranks": members})
    return checked


def _mappings(value: Any, place: str, where: str) -> list[Labels]:
    """A list of mappings, or the values of a mapping of them, which stands at a ``place`` of the
    header."""
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise _wrong(value, place, "a list", where)
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise _wrong(item, f"{place}.{number}", "a mapping", where)
    return items


def _parsed(value: Any) -> Any:
    """A value, or what its text holds as JSON; None for an empty text, and a text that is no JSON
    as it is."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    for attempt in (value, value.replace("'", '"')):  # Python's own quotes
        try:
            return json.loads(attempt)
        except (ValueError, RecursionError):
            continue
    return value


def _wrong(value: Any, place: str, wanted: str, where: str) -> ColltoolError:
    """The error for a value of another type than is ``wanted``."""
    return ColltoolError(
        f"{place} is {quote(value)}, expected {wanted}",
        where=where,
        fix="give the file as the profiler wrote it",
    )
