"""NCCL's settings in logs: lines in which NCCL says what the environment sets, command lines, YAML
and JSON. Values are read by NCCL's own grammar.

NCCL_ALGO and NCCL_PROTO hold a list, ``Tree,Ring,NVLS``; with ``^`` before it all but these; from
2.24 on a list per collective, with ``;`` between: ``allreduce:tree,ring;allgather:^ring``.
NCCL_IB_HCA holds beginnings of NIC names with an optional ``:port``; ``=`` before the list asks for
the whole name, ``^`` for all others, ``^=`` for both. Case does not matter but in names of NICs.

:class:`SettingsReader` finds settings line by line, :func:`stated_by` says what one states, by
``stated_settings.toml``, and :func:`allowed_by_list` reads an NCCL_ALGO or NCCL_PROTO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from colltool.base.formatting import and_text
from colltool.base.statements import word_table
from colltool.logs.stated import StatedLine, has_any, worded_line

_VARIABLE = (
    r"(?:NCCL|RCCL)_[A-Z0-9_]{2,40}|FI_PROVIDER|FI_EFA_USE_DEVICE_RDMA|CUDA_LAUNCH_BLOCKING"
    r"|HSA_FORCE_FINE_GRAIN_PCIE"
)
_NAME = f"(?P<name>{_VARIABLE})"
# of which every variable has one
_WORDS = ("CCL_", "FI_", "CUDA_LAUNCH", "HSA_")
# what NCCL and its plugins say; a number ends with a full stop:
# "NCCL INFO NCCL_IB_DISABLE set by environment to 1."
# "NCCL INFO NET/OFI Setting FI_EFA_USE_DEVICE_RDMA environment variable to 1"
_SAID = re.compile(
    r"\b" + _NAME + r" set (?:by environment |by \S{1,40} )?to (?P<value>.{1,200})"
    r"|[Ss]etting (?P<by_plugin>" + _VARIABLE + r")(?: environment variable)?"
    r" to (?P<plugins_value>\S.{0,199})"
)
# of a command line, until a blank, or until the next variable of a list: "export NCCL_DEBUG=INFO",
# "-x NCCL_ALGO=Tree,Ring", "--env NCCL_DEBUG=INFO,NCCL_PROTO=LL"
_TYPED = re.compile(
    r"\b" + _NAME + r"[\"']?\]?\s?=\s?(?:\"(?P<double>[^\"]{1,200})\"|'(?P<single>[^']{1,200})'"
    r"|(?P<bare>(?:\\.|[^\s\\'\"]){1,200}?)"
    r"(?=[,;]?[A-Z][A-Z0-9_]{2,40}=|[;,]?[\s'\")\]]|[;,]?$))"
)
# of YAML or JSON: "NCCL_DEBUG: INFO"
_MAPPED = re.compile(
    r"\b" + _NAME + r"[\"']?\s?:\s?[\"']?(?P<value>[^\s\"'{},]{1,200})[\"']?,?\s*$"
)
# of Intel MPI and mpirun: "-genv NCCL_DEBUG INFO"
_GENV = re.compile(r"-(?:genv|env|x)\s+" + _NAME + r"\s+(?P<value>[^\s=-]\S{0,199})")
# of Kubernetes, over two lines: "- name: NCCL_DEBUG", then "  value: INFO"
_NAME_OF_YAML = re.compile(r"-?\s*name:\s*[\"']?" + _NAME + r"[\"']?\s*$")
_VALUE_OF_YAML = re.compile(r"^\s*-?\s*value:\s*[\"']?(?P<value>[^\s\"']{1,200})")
# advice names settings as well; a comment sets nothing
_ADVICE = re.compile(
    r"NCCL (?:WARN|INFO)|\b(?:try|please|consider|if you|run with|suggest|recommend|could|should"
    r"|disable|may want)\b|^\s*#",
    re.IGNORECASE,
)

ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")
# the number of a NIC: "mlx5_1", "mlx5_1:1"; the 5 of "mlx5" is none
_NUMBERED = re.compile(r"(?<!^mlx)\d(?::\d+)?$")
_FEW_NICS = 2  # of a list that leaves most hosts of eight GPUs without


class Setting(NamedTuple):
    """A variable and its value, without quotes; ``by_plugin``: a network plugin set it itself."""

    name: str
    value: str
    by_plugin: bool = False

    @property
    def text(self) -> str:
        """``NCCL_ALGO=Ring``, as it is quoted."""
        return f"{self.name}={self.value}"


class SettingsReader:
    """Finds settings line by line: a value of YAML stands on the line below its name."""

    def __init__(self) -> None:
        self._name_above = ""  # a variable whose value stands on the next line

    def take(self, text: str) -> Iterator[Setting]:
        """The settings of one line."""
        if self._name_above:
            below = _VALUE_OF_YAML.match(text)
            if below:
                yield Setting(self._name_above, below["value"])
            self._name_above = ""
        # every name has an underscore and one of few beginnings; most lines have neither
        if "_" not in text or not has_any(text, _WORDS):
            return
        message = _SAID.search(text)
        if message:
            value = message["value"] or message["plugins_value"]
            yield Setting(
                message["name"] or message["by_plugin"],
                value.strip().rstrip(".").strip("\"'"),
                by_plugin=bool(message["by_plugin"]),
            )
            return
        if _ADVICE.search(text):
            return
        named = _NAME_OF_YAML.search(text)
        if named:
            self._name_above = named["name"]
            return
        for typed in _TYPED.finditer(text):
            value = typed["double"] or typed["single"] or typed["bare"] or ""
            yield Setting(typed["name"], value.replace("\\", ""))
        for pattern in (_MAPPED, _GENV):
            for mapped in pattern.finditer(text):
                yield Setting(mapped["name"], mapped["value"].replace("\\", ""))


def allowed_by_list(value: str, known: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What a list of NCCL_ALGO or NCCL_PROTO allows: the ``known`` words for each collective, by its
    name in lower case (``allreduce``), and for all others, by the empty name. Empty places and
    unknown words are skipped, as NCCL does."""
    spelled = {word.lower(): word for word in known}
    allowed: dict[str, tuple[str, ...]] = {}
    for part in value.split(";"):
        collective, _, words_text = part.rpartition(":")
        words_text = words_text.strip()
        excludes = words_text.startswith("^")
        words = [word.strip() for word in words_text.removeprefix("^").split(",")]
        named = {spelled[word.lower()] for word in words if word.lower() in spelled}
        if not named and not excludes:
            continue
        collective = collective.strip().lower().replace("_", "")
        allowed[collective] = tuple(word for word in known if (word in named) != excludes)
    return allowed


@cache
def _table() -> Mapping[str, Any]:
    """Rows by variable, in the order in which its value is compared with them; and by codes such as
    ``plain`` and ``nics-few``, which have one each."""
    return word_table("colltool.logs", "stated_settings.toml")


def stated_by(setting: Setting, file: str, line: int) -> StatedLine:
    """What a setting states by its value."""
    row, fields = _row_of(setting)
    return worded_line(row, "setting", (setting.text, file, line), fields)


def _row_of(setting: Setting) -> tuple[Mapping[str, str], dict[str, str]]:
    """The row of the table for a setting, and the fields of its words: of lists by what they hold,
    of other variables the first whose pattern (``when``) their value matches, else the plain one."""
    code = "plain"
    fields: dict[str, str] = {}
    # what a plugin sets itself is not to be mended, and merely named
    name = "" if setting.by_plugin else setting.name
    if name == "NCCL_ALGO":
        code, fields = _row_of_algorithms(setting.value)
    elif name == "NCCL_PROTO":
        code, fields = _row_of_protocols(setting.value)
    elif name == "NCCL_IB_HCA":
        code, fields = _row_of_nics(setting.value)
    else:
        for row in _table().get(name, ()):
            if re.fullmatch(row["when"], setting.value, re.IGNORECASE):
                return row, fields
    return _table()[code][0], fields


def _collective_to_judge_by(allowed: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
    """The collective to judge a list by (an all-reduce, unless the list is of others alone; "" for
    all), and the words for whom it holds. ``allowed``: as :func:`allowed_by_list`, not empty."""
    if "allreduce" in allowed:
        return "allreduce", "all-reduce"
    if "" in allowed:
        return "", "all collectives" if len(allowed) == 1 else "most collectives"
    names = list(allowed)
    return names[0], and_text(names)


def _allowed(value: str, known: Sequence[str]) -> tuple[tuple[str, ...] | None, dict[str, str]]:
    """The words that a list leaves to the collective it is judged by (None where it has no known
    one), and the fields that say so."""
    by_collective = allowed_by_list(value, known)
    if not by_collective:
        return None, {"unknown": value, "known": ", ".join(known)}
    collective, whom = _collective_to_judge_by(by_collective)
    allowed = by_collective[collective]
    return allowed, {"allowed": and_text(allowed) if allowed else "nothing", "whom": whom}


def _row_of_algorithms(value: str) -> tuple[str, dict[str, str]]:
    """The code of the row for a value of NCCL_ALGO, and the fields of its words."""
    allowed, fields = _allowed(value, ALGORITHMS)
    if allowed is None:
        return "list-unknown", fields
    if allowed == ("Ring",):
        return "algorithm-ring", fields
    if allowed == ("Tree",):
        return "algorithm-tree", fields
    if len(allowed) < 2:
        return "algorithm-single", fields
    if set(allowed) == set(ALGORITHMS):
        return "algorithms-all", fields
    if "NVLS" not in allowed and "NVLSTree" not in allowed:
        return "algorithms-without-nvls", fields
    return "algorithms", fields


def _row_of_protocols(value: str) -> tuple[str, dict[str, str]]:
    """The code of the row for a value of NCCL_PROTO, and the fields of its words."""
    allowed, fields = _allowed(value, PROTOCOLS)
    if allowed is None:
        return "list-unknown", fields
    if set(allowed) == set(PROTOCOLS):
        return "protocols-all", fields
    if "Simple" not in allowed:
        return "protocol-slow", fields
    return ("protocol-simple" if len(allowed) == 1 else "protocols"), fields


def _row_of_nics(value: str) -> tuple[str, dict[str, str]]:
    """The code of the row for a value of NCCL_IB_HCA, and the fields of its words."""
    excludes = value.startswith("^")
    names = value.removeprefix("^")
    is_exact = names.startswith("=")
    nics = list(filter(None, names.removeprefix("=").split(",")))
    if not nics:
        return "plain", {}
    fields = {"nics": and_text(nics), "prefix": ""}
    is_ambiguous = any(nic.partition(":")[0].endswith("_1") for nic in nics)
    if is_ambiguous and not is_exact:
        fields["prefix"] = " (beginnings of names: mlx5_1 takes mlx5_10 too, =mlx5_1 does not)"
    if excludes:
        return "nics-excluded", fields
    # a name without a number takes all NICs of its kind
    if len(nics) <= _FEW_NICS and all(map(_NUMBERED.search, nics)):
        return "nics-few", fields
    return "nics", fields
