"""MSCCL's XML, as msccl-tools, SCCL and TACCL write it and RCCL ships it: read strictly, then run
by :mod:`msccl_machine`.

``algo`` has a ``gpu`` for every rank, with ``tb``s (threadblocks, each with a peer to send to, one
to receive from and a channel) of ``step``s. No entity is expanded: a file with a DOCTYPE is
refused. Source of the format: microsoft/msccl-tools, msccl/language/ir.py (ir_to_xml), and the
parser of the runtime, microsoft/msccl src/misc/msccl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest, printable
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.schedule import MOST_MOVES, MOST_RANKS, OwnSchedule, promise_of

FORM = "MSCCL XML"
MOST_STEPS = 200_000
MOST_BLOCKS = 65_536
_LONGEST_NUMBER = 9

SENDS = frozenset(("s", "rcs", "rrs", "rrcs"))
RECEIVES = frozenset(("r", "rcs", "rrc", "rrs", "rrcs"))
LOCAL = frozenset(("cpy", "re"))
TYPES = (*sorted(SENDS | RECEIVES | LOCAL), "nop")
_INSIDE = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}
_OTHER_COLLECTIVES = {"reducescatter": "reduce_scatter"}


class Op(NamedTuple):
    """A step of a threadblock; ``after``: the threadblock and step of the same GPU that it waits
    for."""

    type: str
    source: tuple[str, int]  # buffer, offset in chunks
    target: tuple[str, int]
    chunks: int
    after: tuple[int, int] | None
    line: int


class Block(NamedTuple):
    """A threadblock; no peer is -1."""

    gpu: int
    id: int
    send: int
    recv: int
    channel: int
    ops: list[Op]

    def spoken(self, step: int) -> str:
        return f"gpu {self.gpu}, tb {self.id}, step {step} ({self.ops[step].type})"


class Algo(NamedTuple):
    """The whole file; ``in_place``: the ways in which it says that buffers may lie."""

    name: str
    collective: str
    ranks: int
    chunks: int
    root: int
    in_place: tuple[bool, ...]
    buffers: dict[tuple[int, str], int]  # chunks of each buffer of each GPU
    blocks: list[Block]
    file: str

    def refused(self, what: str, line: int, fix: str = "") -> ColltoolError:
        return ColltoolError(what, where=f"{self.file}:{line}", fix=fix)


def read_msccl(text: str, file: str, name: str) -> OwnSchedule:
    """The schedule of an XML text, executed in every way that it allows; ColltoolError names what
    is wrong, and where."""
    from colltool.custom.file import primitive_called
    from colltool.custom.msccl_machine import execute

    algo = _XmlEvents(file, name).read(text)
    primitive = primitive_called(_OTHER_COLLECTIVES.get(algo.collective, algo.collective))
    if primitive is None:
        what = f"the collective '{clipped(algo.collective)}' promises nothing that can be checked"
        raise algo.refused(
            what, 1, "allreduce, allgather, reduce_scatter, alltoall, broadcast or reduce"
        )
    try:
        promise = promise_of(primitive, algo.ranks, algo.chunks, algo.root)
    except ColltoolError as error:
        error.where = error.where or f"{file}:1"
        raise
    first, *_ = [execute(algo, promise, in_place=in_place) for in_place in algo.in_place]
    try:
        for in_place in algo.in_place:
            execute(algo, promise, in_place=in_place, backwards=True)
    except ColltoolError as error:
        what = (
            f"{error.what}, though not in every order of its threadblocks: a dependency is missing"
        )
        raise ColltoolError(what, where=error.where, fix=error.fix) from error
    return OwnSchedule(
        algo.name, primitive, algo.ranks, algo.chunks, first, file=file, form=FORM, root=algo.root
    )


class _XmlEvents:
    """Expat's events to an :class:`Algo`."""

    def __init__(self, file: str, name: str) -> None:
        self.file, self.name, self.open = file, name, list[str]()
        self.head: dict[str, str] = {}
        self.gpus: dict[int, dict[str, int]] = {}
        self.blocks: list[Block] = []
        self.ids: set[tuple[int, int]] = set()
        self.steps = self.moves = 0

    def read(self, text: str) -> Algo:
        from xml.parsers import expat

        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.StartDoctypeDeclHandler = self._doctype
        try:
            parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            what = f"not valid XML: {expat.ErrorString(error.code)}"
            raise ColltoolError(
                what, where=f"{self.file}:{error.lineno}:{error.offset + 1}"
            ) from error
        return self._algo()

    def _algo(self) -> Algo:
        head, number = self.head, self._number
        in_place, out_of_place = number(head, "inplace", 0), number(head, "outofplace", -1)
        if (
            sorted(self.gpus) != list(range(len(self.gpus)))
            or not 2 <= len(self.gpus) <= MOST_RANKS
        ):
            raise self._refused(
                f"expected gpu 0, 1, 2 ... without a gap, 2 to {MOST_RANKS}, got {len(self.gpus)}"
            )
        if number(head, "ngpus", len(self.gpus)) != len(self.gpus):
            raise self._refused(
                f"ngpus is {clipped(head['ngpus'])}, and {len(self.gpus)} gpus are there"
            )
        ways = (*[True] * bool(in_place), *[False] * (out_of_place == 1 or not in_place))
        return Algo(
            name=printable(head.get("name") or self.name)[:100],
            collective=head.get("coll", "").lower(),
            ranks=len(self.gpus),
            chunks=number(head, "nchunksperloop"),
            root=number(head, "root", 0),
            in_place=ways,
            buffers={
                (gpu, name): size
                for gpu, sizes in self.gpus.items()
                for name, size in sizes.items()
            },
            blocks=self.blocks,
            file=self.file,
        )

    def _doctype(self, *_: object) -> None:
        raise self._refused(
            "a DOCTYPE is not read: it can define entities without end", "remove it"
        )

    def _start(self, name: str, given: Mapping[str, str]) -> None:
        inside = self.open[-1] if self.open else ""
        if name not in _INSIDE:
            raise self._refused(
                f"the element '{clipped(name)}' is not known", nearest(name, list(_INSIDE))
            )
        if _INSIDE[name] != inside:
            raise self._refused(
                f"'{name}' stands"
                f" {f'in {chr(39)}{inside}{chr(39)}' if inside else 'outside of all'}"
            )
        self.open.append(name)
        {"algo": self._head, "gpu": self._gpu, "tb": self._block, "step": self._step}[name](given)

    def _end(self, _name: str) -> None:
        self.open.pop()

    def _head(self, given: Mapping[str, str]) -> None:
        self.head = dict(given)

    def _gpu(self, given: Mapping[str, str]) -> None:
        gpu = self._number(given, "id")
        if gpu in self.gpus:
            raise self._refused(f"gpu {gpu} is there twice")
        names = {INPUT: "i_chunks", OUTPUT: "o_chunks", SCRATCH: "s_chunks"}
        self.gpus[gpu], self.now = (
            {name: self._number(given, key, 0) for name, key in names.items()},
            gpu,
        )

    def _block(self, given: Mapping[str, str]) -> None:
        keys = ("id", "send", "recv", "chan")
        id_, send, recv, channel = (
            self._number(given, key, None if key == "id" else -1) for key in keys
        )
        if (self.now, id_) in self.ids:
            raise self._refused(f"tb {id_} of gpu {self.now} is there twice")
        if len(self.blocks) == MOST_BLOCKS:
            raise self._refused(
                f"more than {MOST_BLOCKS} threadblocks are not followed", "fewer channels"
            )
        self.ids.add((self.now, id_))
        self.blocks.append(Block(self.now, id_, send, recv, channel, []))

    def _step(self, given: Mapping[str, str]) -> None:
        type_, ops = given.get("type", ""), self.blocks[-1].ops
        number, count = self._number(given, "s"), self._number(given, "cnt", 1)
        if type_ not in TYPES:
            raise self._refused(
                f"the type '{clipped(type_)}' is not known",
                f"{nearest(type_, list(TYPES))} known: {', '.join(TYPES)}",
            )
        if number != len(ops):
            raise self._refused(
                f"step {number} stands in the place of step {len(ops)}",
                "steps are numbered 0, 1, 2 ...",
            )
        places = []
        for end in ("src", "dst"):
            buffer, offset = given.get(f"{end}buf", INPUT), self._number(given, f"{end}off", -1)
            if buffer not in (INPUT, OUTPUT, SCRATCH):
                raise self._refused(f"{end}buf is i, o or s, got '{clipped(buffer)}'")
            places.append((buffer, offset))
        tb, step = self._number(given, "depid", -1), self._number(given, "deps", -1)
        self.steps, self.moves = self.steps + 1, self.moves + max(0, count)
        if self.steps > MOST_STEPS or self.moves > MOST_MOVES:
            what = f"more than {MOST_STEPS} steps, or {MOST_MOVES} chunks moved, are not followed"
            raise self._refused(what, "fewer channels or chunks")
        source, target = places
        ops.append(
            Op(
                type_,
                source,
                target,
                count,
                None if tb < 0 else (tb, step),
                self.parser.CurrentLineNumber,
            )
        )

    def _number(self, given: Mapping[str, str], key: str, usual: int | None = None) -> int:
        text = given.get(key)
        if text is None:
            if usual is None:
                raise self._refused(f"'{self.open[-1] if self.open else 'algo'}' has no {key}")
            return usual
        if not text.removeprefix("-").isdecimal() or not text.isascii():
            raise self._refused(f"{key} is a whole number, got '{clipped(text)}'")
        if len(text) > _LONGEST_NUMBER:
            raise self._refused(f"{key} is too large a number: '{clipped(text)}'")
        return int(text)

    def _refused(self, what: str, fix: str = "") -> ColltoolError:
        return ColltoolError(what, where=f"{self.file}:{self.parser.CurrentLineNumber}", fix=fix)
