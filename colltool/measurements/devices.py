"""Devices and hosts that benchmark logs name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.errors import printable
from colltool.measurements.log import Log, clean, open_log
from colltool.measurements.nccl_tests import json_report

_RANK = re.compile(r"Rank +\d{1,9} .*\bon +(\S+) +device +\d+ +\[[^\]]{1,40}\] +(\S.*)")
_LONGEST = 100


class LoggedHardware(NamedTuple):
    """Device and host names, each once, in the order met."""

    devices: tuple[str, ...]
    hosts: tuple[str, ...]


def logged_hardware(paths: Sequence[str | os.PathLike[str]]) -> LoggedHardware:
    """Devices and hosts of logs; formats such as OSU's name none."""
    named = [pair for path in paths for pair in _named(open_log(os.fspath(path)))]
    hosts, devices = (tuple(dict.fromkeys(filter(None, side))) for side in zip(*named, strict=True)) if named else ((), ())
    return LoggedHardware(devices, hosts)


def _named(log: Log) -> Iterator[tuple[str, str]]:
    if json_report.recognises(log):
        yield from _in_json(log)
        return
    for line in log.lines():
        if "device" in line and "Rank" in line and (match := _RANK.search(clean(line))):
            yield match[1], _short(match[2])


def _in_json(log: Log) -> Iterator[tuple[str, str]]:
    try:
        report = json.loads(log.text().lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return  # the reader of timings says what is wrong
    config = report.get("config")
    listed = report.get("devices") or (config.get("devices") if isinstance(config, dict) else None)
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            yield _short(one.get("hostname", "")), _short(one.get("device_info", ""))


def _short(value: object) -> str:
    return printable(str(value)).strip()[:_LONGEST]
