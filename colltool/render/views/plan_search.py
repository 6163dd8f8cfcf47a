"""``plan --search``: the fastest layouts of a job on a fabric, beside the job's own."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from colltool.base.errors import either, said
from colltool.base.formatting import counted, format_bytes, format_time, percent, whole_percent
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.view import Document, View, fields, on_fabric, set_field
from colltool.training.files import written
from colltool.training.layout_search import TIE, LayoutSearch, PricedLayout
from colltool.training.plan import MFU_CONVENTION

_LONGEST = 74  # characters of a line to paste, so that a narrow terminal does not wrap it
_MOST_LAYOUTS = 8


def _size(key: str) -> Any:
    return number(key, key, get=lambda row: getattr(row[2].choice, key))


_LAYOUTS = (
    label("job", "job", get=lambda row: row[0].job.name, hidden=True),
    label("fabric", "fabric", get=lambda row: row[0].fabric, hidden=True),
    number("ranks", "ranks", get=lambda row: row[0].ranks, hidden=True),
    number("rank", "#", get=lambda row: row[1]),
    _size("tp"),
    label("sp", "sp", written, get=lambda row: row[2].choice.sp, hidden=True),
    *map(_size, ("cp", "ep", "etp", "pp", "virtual", "dp", "micro")),
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
    return Table(_LAYOUTS, rows, 0, f"the best of {counted(result.priced, 'layout')}", _MOST_LAYOUTS)


def _blocks(result: LayoutSearch) -> list[Block]:
    # without columns in which every layout has the default
    nothing = {"cp": 1, "ep": 1, "etp": 1, "virtual": 1, "recompute": "none"}
    choices = [one.choice for one in result.layouts]
    idle = (key for key, none in nothing.items() if all(getattr(one, key) == none for one in choices))
    return [
        Headline(_answer(result)),
        *_to_type(result),
        _table(result).without(*idle),
        later(Lines("the search", _facts(result))),
    ]


def _answer(result: LayoutSearch) -> str:
    best, own = result.best, result.own.searched
    where = f"{result.ranks} ranks of {on_fabric(result.fabric, result.fabric_overrides)}"
    how = f"{best.choice.spoken}: {format_time(best.step_s)} a step."
    text = f"{on_fabric(result.job.name, result.job.overrides)} on {where} is fastest as {how}"
    if own is None:
        text += f" The job's own layout does not run: {result.own.why}."
    elif result.values:
        fits = "" if result.own.fits else f", and needs {format_bytes(own.memory_bytes, 3)}: does not fit"
        text += f" Its own layout takes {format_time(own.step_s)}, {percent(own.of_best, sign='+')}{fits}."
    else:
        text += " That is its own layout."
    if result.ties.layouts > 1:
        text += f" {result.ties.layouts} layouts are within {whole_percent(TIE)}, take any."
    return text


def _to_type(result: LayoutSearch) -> list[Block]:
    # the options (or overrides of load_job) with which plan shows the best layout in full
    if not result.values:
        return []
    title = either(
        shell="all of it: the same without --search, --keep and --top, and with", python="all of it: plan of load_job with"
    )
    options = [f"{key}={value}" for key, value in result.values]
    # \0 keeps an option and its value on one line
    lines = wrap(" ".join(f"--job-set\0{option}" for option in options), _LONGEST, break_long_words=False, break_on_hyphens=False)
    pasted = either(shell=" \\\n".join(line.replace("\0", " ") for line in lines), python=f"overrides={options!r}")
    return [Lines(said(title), tuple(said(pasted).split("\n")), verbatim=True)]


def _facts(result: LayoutSearch) -> tuple[str, ...]:
    best, own = result.best, result.own.searched
    kept = f" with {', '.join(f'{name}={value}' for name, value in result.kept)}" if result.kept else ""
    placed = f", {result.priced} sit on the fabric" if result.priced < result.fit else ""
    fit = f"{result.fit} fit {format_bytes(result.capacity_bytes, 3)}{placed}"
    lines = [f"{counted(result.held, 'layout')}{kept} fill the ranks, {fit}"]
    if result.job.device_from != "job":
        whose = f"that of {result.fabric}" if result.job.device_from == "fabric" else f"the job's: {result.fabric} names none"
        lines.append(f"all compute on {result.device}, {whose}")
    lines.append(f"{format_time(best.control_step_s)} with a free network; MFU {percent(best.mfu)} ({MFU_CONVENTION})")
    several = result.ties.layouts > 1
    lines.append(
        f"ties differ in {', '.join(result.ties.differ)}" if several else f"no other layout is within {whole_percent(TIE)}"
    )
    return (*lines, f"the job's own layout: {own.choice.spoken}") if own else tuple(lines)


def _document(result: LayoutSearch) -> Document:
    own = result.own
    head = {"job": result.job.name, "fabric": result.fabric, "ranks": result.ranks} | set_field(result.fabric_overrides)
    return head | {
        "job_set": dict(result.job.overrides),
        "device": result.device,
        "device_from": result.job.device_from or None,
        "kept": dict(result.kept),
        "searched": result.held,
        **fields(result, "fit priced capacity_bytes"),
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
    return one.choice._asdict() | figures | fields(one, "network_share tie")


VIEWS = {LayoutSearch: View("plan-search", _blocks, _document, _table, _answer)}
