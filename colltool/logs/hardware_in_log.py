"""Devices and hosts that logs name (:func:`logged_hardware`): nccl-tests and rccl-tests as text or
JSON report, and what ``nvidia-smi -L``, ``rocm-smi --showproductname`` and ``lspci -nn`` print."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.errors import printable
from colltool.logs.log_file import Log, clean, open_log
from colltool.logs.nccl_tests_json import is_report, listed_devices

# "#  Rank  0 Group  0 Pid   4711 on     node1 device  0 [0000:07:00] NVIDIA H100 80GB HBM3"
_DEVICE = re.compile(r"Rank +\d{1,9} .*\bon +(\S+) +device +\d+ +\[[^\]]{1,40}\] +(\S.*)")
# what other tools print: a word that is in the line, and the device
_LISTED = (
    # "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5b0...)"
    ("UUID: ", re.compile(r"\bGPU +\d{1,3}: +(\S[^(]{0,80}?) +\(UUID: ")),
    # "GPU[0]          : Card Series:          AMD Instinct MI300X"
    ("Card ", re.compile(r"\bCard [Ss]eries: *\t* *(AMD \S.{0,80})")),
    # "07:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)"; 1002 is AMD's
    ("[10de:", re.compile(r"\[(10de:[0-9a-f]{4})\]")),
    ("[1002:", re.compile(r"\[(1002:[0-9a-f]{4})\]")),
)
_LONGEST = 100  # characters of a name that is quoted
_LONGEST_LINE = 400  # characters in which a device is looked for


class LoggedHardware(NamedTuple):
    """Device and host names, each once, in the order of the log."""

    devices: tuple[str, ...]
    hosts: tuple[str, ...]


def logged_hardware(paths: Sequence[str | os.PathLike[str]]) -> LoggedHardware:
    """Devices and hosts of logs; formats such as OSU's name none. ColltoolError for a file that
    cannot be read."""
    # dicts keep the order of the log
    devices: dict[str, None] = {}
    hosts: dict[str, None] = {}
    for path in paths:
        for host, device in _hosts_and_devices(open_log(os.fspath(path))):
            hosts[_shortened(host)] = None
            devices[_shortened(device)] = None
    return LoggedHardware(tuple(filter(None, devices)), tuple(filter(None, hosts)))


def _hosts_and_devices(log: Log) -> Iterator[tuple[object, object]]:
    """Host and device of each rank, as they stand in the log; an empty host where other tools list
    a device."""
    if not is_report(log):
        for line in log.lines():
            if "device" in line and "Rank" in line:
                match = _DEVICE.search(clean(line))
                if match:
                    yield match[1], match[2]
            for word, pattern in _LISTED:
                match = pattern.search(clean(line[:_LONGEST_LINE])) if word in line else None
                if match:
                    yield "", match[1]
        return
    try:
        report = json.loads(log.json_text())
    except (ValueError, RecursionError):
        return  # the reader of timings says what is wrong
    for device in listed_devices(report):
        yield device.get("hostname", ""), device.get("device_info", "")


def _shortened(value: object) -> str:
    """A name as it may be quoted."""
    return printable(str(value)).strip()[:_LONGEST]
