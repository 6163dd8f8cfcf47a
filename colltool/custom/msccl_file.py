"""MSCCL's XML, as msccl-tools, SCCL and TACCL write it and RCCL ships it, read strictly:
:func:`algo_of` is the entry, and :mod:`colltool.custom.msccl_machine` executes what it returns.

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
from colltool.custom.postcondition import MOST_RANKS
from colltool.custom.schedule import MOST_MOVES

# Limits of what is executed in seconds.
MOST_STEPS = 200_000
MOST_BLOCKS = 65_536  # threadblocks of a file
# Digits of a number: larger ones are no counts.
_LONGEST_NUMBER = 9

# Types of steps. s sends the source, r receives to the target, rcs receives, copies and sends. Another
# r reduces: rrc, rrs and rrcs add what arrives to the source, and copy or send the sum, or both. cpy
# and re copy and add within a GPU.
SENDS = frozenset(("s", "rcs", "rrs", "rrcs"))
RECEIVES = frozenset(("r", "rcs", "rrc", "rrs", "rrcs"))
LOCAL = frozenset(("cpy", "re"))
TYPES = (*sorted(SENDS | RECEIVES | LOCAL), "nop")
# element -> the element around it
_PARENTS = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}


Connection = tuple[int, int, int]
"""Sender, receiver, channel."""


class Dependency(NamedTuple):
    """A step of another threadblock of the same GPU."""

    block: int  # the threadblock's id
    step: int


class Op(NamedTuple):
    """A step of a threadblock."""

    type: str  # one of TYPES
    source: tuple[str, int]  # buffer, offset in chunks
    target: tuple[str, int]  # the same
    chunks: int
    after: Dependency | None  # what it waits for
    line: int  # of the file


class Block(NamedTuple):
    """A threadblock."""

    gpu: int  # its rank
    id: int
    send: int  # the rank that it sends to; -1 for none
    recv: int  # the rank that it receives from; -1 for none
    channel: int
    ops: list[Op]

    @property
    def send_connection(self) -> Connection:
        return self.gpu, self.send, self.channel

    @property
    def recv_connection(self) -> Connection:
        return self.recv, self.gpu, self.channel

    def label(self, step: int) -> str:
        """A step as errors name it: ``gpu 0, tb 1, step 2 (rcs)``."""
        return f"gpu {self.gpu}, tb {self.id}, step {step} ({self.ops[step].type})"


class Algo(NamedTuple):
    """The whole file."""

    name: str
    collective: str  # in MSCCL's word, in small letters
    ranks: int
    chunks: int  # equal parts of the larger buffer
    root: int
    # the ways to run it: True for in place, False for out of place; the first one preferred
    in_place: tuple[bool, ...]
    buffers: dict[tuple[int, str], int]  # chunks of each buffer of each GPU
    blocks: list[Block]
    file: str

    def error_at_line(self, what: str, line: int, fix: str = "") -> ColltoolError:
        """The error to raise about a line of the file."""
        return ColltoolError(what, where=f"{self.file}:{line}", fix=fix)


def algo_of(text: str, file: str, name: str) -> Algo:
    """Return the algorithm of an XML text; ``name``: in case it has none. A ColltoolError names the
    line that is wrong."""
    return _XmlEvents(file, name).read(text)


class _XmlEvents:
    """Collects the elements of a text, as expat reports them, into an :class:`Algo`. Each element is checked
    when it begins, so that an error has its line."""

    def __init__(self, file: str, name: str) -> None:
        self.file = file
        self.name = name
        self.open: list[str] = []  # elements that have not ended, the outermost first
        self.head: dict[str, str] = {}  # attributes of ``algo``
        self.gpu = -1  # the last that was begun
        self.gpus: set[int] = set()
        self.buffers: dict[tuple[int, str], int] = {}
        self.blocks: list[Block] = []
        self.block_ids: set[tuple[int, int]] = set()  # GPU and id
        # counts of the whole file
        self.steps = 0
        self.moves = 0

    def read(self, text: str) -> Algo:
        """Return the algorithm of a text."""
        # not at the top: files of other formats need no parser of XML
        from xml.parsers import expat

        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype
        try:
            self.parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            what = f"not valid XML: {expat.ErrorString(error.code)}"
            where = f"{self.file}:{error.lineno}:{error.offset + 1}"
            raise ColltoolError(what, where=where) from error
        return self._checked_algo()

    def _checked_algo(self) -> Algo:
        """The algorithm, once all elements are read: checked as a whole."""
        in_place = self._number(self.head, "inplace", 0)
        # -1 where the file does not say
        out_of_place = self._number(self.head, "outofplace", -1)
        ranks = len(self.gpus)
        if self.gpus != set(range(ranks)) or not 2 <= ranks <= MOST_RANKS:
            raise self._error(
                f"expected gpu 0, 1, 2 ... without a gap, 2 to {MOST_RANKS}, got {ranks}"
            )
        if self._number(self.head, "ngpus", ranks) != ranks:
            raise self._error(f"ngpus is {clipped(self.head['ngpus'])}, and {ranks} gpus are there")
        # A file that states neither is out of place; one in place alone may leave the other out.
        ways = []
        if in_place:
            ways.append(True)
        if out_of_place == 1 or not in_place:
            ways.append(False)
        return Algo(
            name=printable(self.head.get("name") or self.name)[:100],
            collective=self.head.get("coll", "").lower(),
            ranks=ranks,
            chunks=self._number(self.head, "nchunksperloop"),
            root=self._number(self.head, "root", 0),
            in_place=tuple(ways),
            buffers=self.buffers,
            blocks=self.blocks,
            file=self.file,
        )

    def _doctype(self, *_: object) -> None:
        """Raise ColltoolError for a DOCTYPE, whose entities could grow without end."""
        raise self._error("a DOCTYPE is not read: it can define entities without end", "remove it")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Open an element; ColltoolError where it may not stand."""
        parent = self.open[-1] if self.open else ""
        if name not in _PARENTS:
            raise self._error(
                f"the element '{clipped(name)}' is not known", nearest(name, list(_PARENTS))
            )
        if _PARENTS[name] != parent:
            place = f"in '{parent}'" if parent else "outside of all"
            raise self._error(f"'{name}' stands {place}")
        self.open.append(name)
        match name:
            case "algo":
                self.head = dict(attributes)
            case "gpu":
                self._start_gpu(attributes)
            case "tb":
                self._start_block(attributes)
            case "step":
                self._start_step(attributes)

    def _end(self, _name: str) -> None:
        self.open.pop()

    def _start_gpu(self, attributes: Mapping[str, str]) -> None:
        """Open a GPU, and read the sizes of its buffers."""
        self.gpu = self._number(attributes, "id")
        if self.gpu in self.gpus:
            raise self._error(f"gpu {self.gpu} is there twice")
        self.gpus.add(self.gpu)
        for buffer in (INPUT, OUTPUT, SCRATCH):
            self.buffers[self.gpu, buffer] = self._number(attributes, f"{buffer}_chunks", 0)

    def _start_block(self, attributes: Mapping[str, str]) -> None:
        """Open a threadblock."""
        block = Block(
            self.gpu,
            self._number(attributes, "id"),
            self._number(attributes, "send", -1),
            self._number(attributes, "recv", -1),
            self._number(attributes, "chan", -1),
            ops=[],
        )
        if (self.gpu, block.id) in self.block_ids:
            raise self._error(f"tb {block.id} of gpu {self.gpu} is there twice")
        if len(self.blocks) == MOST_BLOCKS:
            raise self._error(
                f"more than {MOST_BLOCKS} threadblocks are not followed", "fewer channels"
            )
        self.block_ids.add((self.gpu, block.id))
        self.blocks.append(block)

    def _start_step(self, attributes: Mapping[str, str]) -> None:
        """Read a step of the open threadblock."""
        ops = self.blocks[-1].ops
        kind = attributes.get("type", "")
        number = self._number(attributes, "s")
        chunks = self._number(attributes, "cnt", 1)
        if kind not in TYPES:
            fix = f"{nearest(kind, list(TYPES))} known: {', '.join(TYPES)}"
            raise self._error(f"the type '{clipped(kind)}' is not known", fix)
        if number != len(ops):
            raise self._error(
                f"step {number} stands in the place of step {len(ops)}",
                "steps are numbered 0, 1, 2 ...",
            )
        source = self._place(attributes, "src")
        target = self._place(attributes, "dst")
        after = None
        after_block = self._number(attributes, "depid", -1)
        after_step = self._number(attributes, "deps", -1)
        if after_block >= 0:
            after = Dependency(after_block, after_step)
        # Counted while it is read: a small file can name millions of chunks.
        self.steps += 1
        self.moves += max(0, chunks)
        if self.steps > MOST_STEPS or self.moves > MOST_MOVES:
            what = f"more than {MOST_STEPS} steps, or {MOST_MOVES} chunks moved, are not followed"
            raise self._error(what, "fewer channels or chunks")
        ops.append(Op(kind, source, target, chunks, after, self.parser.CurrentLineNumber))

    def _place(self, attributes: Mapping[str, str], end: str) -> tuple[str, int]:
        """The buffer and offset of a step's source or target; ``end``: src or dst."""
        buffer = attributes.get(f"{end}buf", INPUT)
        offset = self._number(attributes, f"{end}off", -1)
        if buffer not in (INPUT, OUTPUT, SCRATCH):
            raise self._error(f"{end}buf is i, o or s, got '{clipped(buffer)}'")
        return buffer, offset

    def _number(self, attributes: Mapping[str, str], key: str, default: int | None = None) -> int:
        """The whole number of an attribute; an error if it is missing without a default."""
        text = attributes.get(key)
        if text is None:
            if default is None:
                raise self._error(f"'{self.open[-1] if self.open else 'algo'}' has no {key}")
            return default
        if not text.removeprefix("-").isdecimal() or not text.isascii():
            raise self._error(f"{key} is a whole number, got '{clipped(text)}'")
        # int() of a text takes quadratic time.
        if len(text) > _LONGEST_NUMBER:
            raise self._error(f"{key} is too large a number: '{clipped(text)}'")
        return int(text)

    def _error(self, what: str, fix: str = "") -> ColltoolError:
        """The error to raise about the line that is being read."""
        return ColltoolError(what, where=f"{self.file}:{self.parser.CurrentLineNumber}", fix=fix)
