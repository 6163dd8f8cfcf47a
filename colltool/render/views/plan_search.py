"""``plan --search``: the best layouts of a job on a fabric, those as good as the best, and the job's own beside them."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from colltool.base.errors import either, said
from colltool.base.formatting import counted, format_bytes, format_time, percent, whole_percent
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.view import Document, View, on_fabric, set_field
from colltool.training.files.schema import written
from colltool.training.plan import MFU_CONVENTION
from colltool.training.search_results import TIE, LayoutSearch, PricedLayout

LONGEST = 74  # of a line to be pasted: a narrow terminal shows it whole


def _size(key: str, drop: int = 0) -> Any:
    return number(key, key, drop=drop, get=lambda row: getattr(row[2].choice, key))


_LAYOUTS = (
    label("job", "job", get=lambda row: row[0].job.name, hidden=True),
    label("fabric", "fabric", get=lambda row: row[0].fabric, hidden=True),
    number("ranks", "ranks", get=lambda row: row[0].ranks, hidden=True),
    number("rank", "#", get=lambda row: row[1]),
    _size("tp"),
    label("sp", "sp", written, get=lambda row: row[2].choice.sp, hidden=True),
    _size("cp"),
    _size("ep"),
    _size("etp"),
    _size("pp"),
    _size("virtual"),
    _size("dp"),
    _size("micro"),
    label("shard", "shard", get=lambda row: row[2].choice.shard),
    label("recompute", "recompute", get=lambda row: row[2].choice.recompute),
    label("schedule", "schedule", get=lambda row: row[2].choice.schedule, hidden=True),
    number("step_s", "step", format_time, get=lambda row: row[2].step_s),
    number("of_best", "of best", lambda share: percent(share, sign="+"), drop=1, get=lambda row: row[2].of_best),
    label("tie", "tie", drop=5, get=lambda row: "best" if row[1] == 1 else "tie" if row[2].tie else ""),
    number("mfu", "MFU", percent, drop=3, get=lambda row: row[2].mfu),
    number("tokens_per_s", "tokens/s", "{:.4g}".format, get=lambda row: row[2].tokens_per_s, hidden=True),
    number("control_step_s", "free network", format_time, get=lambda row: row[2].control_step_s, hidden=True),
    number("network_share", "network", percent, drop=4, get=lambda row: row[2].network_share),
    number("memory_bytes", "memory", lambda size: format_bytes(size, 3), drop=2, get=lambda row: row[2].memory_bytes),
)


def _table(result: LayoutSearch) -> Table:
    rows = tuple((result, place, one) for place, one in enumerate(result.layouts, 1))
    return Table(_LAYOUTS, rows, 0, f"the best of {counted(result.priced, 'layout')}")


def _shown(result: LayoutSearch) -> Table:
    """Without columns in which no layout has anything to say."""
    nothing = {"cp": 1, "ep": 1, "etp": 1, "virtual": 1, "recompute": "none"}
    choices = [one.choice for one in result.layouts]
    return _table(result).without(*(key for key, none in nothing.items() if all(getattr(one, key) == none for one in choices)))


def _blocks(result: LayoutSearch) -> list[Block]:
    return [Lines(_title(result), tuple(_facts(result))), _shown(result), _in_full(result)]


def _in_full(result: LayoutSearch) -> Lines:
    """What to add to the command, or to give to ``load_job``, so that plan shows the best with all that it says."""
    if not result.values:
        return Lines(
            "the best in full", (said(either(shell="the job's own: without --search", python="plan of the job itself")),)
        )
    title = either(
        shell="the best in full: the same without --search, --keep and --top, and with", python="plan of load_job with"
    )
    options = [f"{key}={value}" for key, value in result.values]
    pasted = either(shell=_pasted([f"--job-set\0{option}" for option in options]), python=f"overrides={options!r}")
    return Lines(said(title), tuple(said(pasted).split("\n")), verbatim=True)


def _pasted(options: list[str]) -> str:
    """Options in lines that a shell takes as one; what stands around a zero is never torn apart."""
    lines = wrap(" ".join(options), LONGEST, break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(line.replace("\0", " ") for line in lines)


def _title(result: LayoutSearch) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    return f"{name} on {result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"


def _facts(result: LayoutSearch) -> list[str]:
    best = result.best
    kept = f" with {', '.join(f'{name}={value}' for name, value in result.kept)}" if result.kept else ""
    lines = [f"{counted(result.held, 'layout')}{kept} fill the ranks, {result.fit} fit {format_bytes(result.capacity_bytes, 3)}"
             + (f", {result.priced} sit on the fabric" if result.priced < result.fit else "")]  # fmt: skip
    if result.job.device_from != "job":
        whose = f"that of {result.fabric}" if result.job.device_from == "fabric" else f"the job's: {result.fabric} names none"
        lines.append(f"all compute on {result.device}, {whose}")
    lines.append(f"the best step takes {format_time(best.step_s)}, with a free network {format_time(best.control_step_s)}; "
                 f"MFU {percent(best.mfu)} ({MFU_CONVENTION})")  # fmt: skip
    if result.ties.layouts > 1:
        differ = ", ".join(result.ties.differ)
        lines.append(f"{result.ties.layouts} layouts within {whole_percent(TIE)}: take any; they differ in {differ}")
    else:
        lines.append(f"no other layout is within {whole_percent(TIE)}")
    lines.append(_own(result))
    return lines


def _own(result: LayoutSearch) -> str:
    """``the job's own layout (tp 8, pp 4) takes 14.5 s, +7.2%``."""
    own = result.own.searched
    if own is None:
        return f"the job's own layout cannot be had: {result.own.why}"
    fits = "" if result.own.fits else f"; {format_bytes(own.memory_bytes, 3)} DO NOT FIT"
    return f"the job's own layout ({own.choice.spoken}) takes {format_time(own.step_s)}, {percent(own.of_best, sign='+')}{fits}"


def _document(result: LayoutSearch) -> Document:
    own = result.own
    head = {"job": result.job.name, "fabric": result.fabric, "ranks": result.ranks} | set_field(result.fabric_overrides)
    return head | {
        "job_set": dict(result.job.overrides),
        "device": result.device,
        "device_from": result.job.device_from or None,
        "kept": dict(result.kept),
        "searched": result.held,
        "fit": result.fit,
        "priced": result.priced,
        "capacity_bytes": result.capacity_bytes,
        "tie_within": TIE,
        "ties": result.ties.layouts,
        "ties_differ_in": list(result.ties.differ),
        "best": {"rank": 1} | _layout(result.best),
        "best_job_set": dict(result.values),
        "own": _layout(own.searched) | {"fits": own.fits} if own.searched is not None else None,
        "own_refused": own.why or None,
        "mfu_convention": MFU_CONVENTION,
        "layouts": [{"rank": place} | _layout(one) for place, one in enumerate(result.layouts, 1)],
    }


def _layout(one: PricedLayout) -> Document:
    figures = one._asdict()
    figures.pop("choice")
    return one.choice._asdict() | figures | {"network_share": one.network_share, "tie": one.tie}


def _summary(result: LayoutSearch) -> str:
    head = f"{result.job.name} on {result.ranks} ranks of {result.fabric}: {result.best.choice.spoken} takes"
    return f"{head} {format_time(result.best.step_s)}, the best of {counted(result.priced, 'layout')}"


VIEWS = {LayoutSearch: View("plan-search", _blocks, _document, _table, _summary)}
