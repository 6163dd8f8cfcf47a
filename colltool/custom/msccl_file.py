"""MSCCL's XML, as msccl-tools, SCCL and TACCL write it and RCCL ships it, read strictly:
:func:`algo_of` is the entry, and :mod:`colltool.custom.msccl_machine` executes what it returns.

``algo`` has a ``gpu`` for every rank, with ``tb``s (threadblocks, each with a peer to send to, one
to receive from and a channel) of ``step``s. No entity is expanded: a file with a DOCTYPE is
refused. Source of the format: microsoft/msccl-tools, msccl/language/ir.py (ir_to_xml), and the
parser of the runtime, microsoft/msccl src/misc/msccl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest, printable
from colltool.custom.buffers import INPUT, OUTPUT, SCRATCH
from colltool.custom.postcondition import MOST_RANKS
from colltool.custom.schedule import MOST_MOVES

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

# Limits of what is executed in seconds.
MOST_STEPS = 200_000
MOST_BLOCKS = 65_536  # threadblocks of a file
# Characters of a number, the sign included: what is longer is no count of anything.
_LONGEST_NUMBER = 9

# Types of steps:
#   s     send the source
#   r     receive into the target
#   rcs   receive, copy into the target and send on
#   rrc   receive, add the source, copy the sum into the target
#   rrs   receive, add the source, send the sum on
#   rrcs  receive, add the source, copy the sum into the target and send it on
#   cpy   copy the source into the target, within the GPU
#   re    add the source to the target, within the GPU
#   nop   move nothing: it only waits for what it depends on
SENDS = frozenset(("s", "rcs", "rrs", "rrcs"))
RECEIVES = frozenset(("r", "rcs", "rrc", "rrs", "rrcs"))
LOCAL = frozenset(("cpy", "re"))
TYPES = (*sorted(SENDS | RECEIVES | LOCAL), "nop")
# element -> the element around it; nothing is around the outermost
_PARENTS = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}


Connection = tuple[int, int, int]
"""Sender, receiver, channel."""


class Dependency(NamedTuple):
    """A step of another threadblock of the same GPU."""

    block: int  # the threadblock's id
    step: int  # -1 where the file names none, which msccl_machine refuses as it does any that is not there


class StepPlace(NamedTuple):
    """Where the chunks that a step reads or writes begin, in its GPU's memory."""

    buffer: str  # i, o or s: input, output or scratch
    offset: int  # in chunks; -1 where the file states none


class Op(NamedTuple):
    """A step of a threadblock. Its numbers are the file's: whether its places lie inside of their buffers is
    checked when they are read or written (``Buffers.place``)."""

    type: str  # one of TYPES
    source: StepPlace
    target: StepPlace
    chunks: int  # how many it moves; none where this is below 1
    after: Dependency | None  # what it waits for; None for nothing
    line: int  # of the file


class Block(NamedTuple):
    """A threadblock."""

    gpu: int  # its rank
    id: int
    send: int  # the rank that it sends to; below 0 for none
    recv: int  # the rank that it receives from; below 0 for none
    channel: int  # -1 where the file states none
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
    chunks: int  # nchunksperloop: into how many equal parts the larger of input and output is cut
    root: int  # of a broadcast or reduce: a rank
    # the ways to run it, at least one: True for in place, False for out of place; the first one preferred
    in_place: tuple[bool, ...]
    buffers: dict[tuple[int, str], int]  # chunks of each buffer of each GPU
    blocks: list[Block]
    file: str

    def error_at_line(self, what: str, line: int, fix: str = "") -> ColltoolError:
        """The error to raise about a line of the file; ``fix``: how to mend it, empty if unknown."""
        return ColltoolError(what, where=f"{self.file}:{line}", fix=fix)


def algo_of(text: str, file: str, name: str) -> Algo:
    """Return the algorithm of an XML text.

    Args:
        file: its path, for errors.
        name: of the algorithm, in case the text has none.

    Raises:
        ColltoolError: no valid XML, or not MSCCL's; it names the line.
    """
    # not at the top: files of other formats need no parser of XML
    from xml.parsers import expat

    events = _XmlEvents(expat.ParserCreate(), file, name)
    try:
        events.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        what = f"not valid XML: {expat.ErrorString(error.code)}"
        where = f"{file}:{error.lineno}:{error.offset + 1}"
        raise ColltoolError(what, where=where) from error
    return events.algo()


class _XmlEvents:
    """Collects the elements of a text, as a parser of expat reports them; :meth:`algo` makes an
    :class:`Algo` of them at the end. Each element is checked when it begins, so that an error has its line."""

    def __init__(self, parser: XMLParserType, file: str, name: str) -> None:
        self.parser = parser  # it knows the line that it reads
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        self.file = file
        self.name = name
        self.open: list[str] = []  # elements that have not ended, the outermost first
        self.head: dict[str, str] = {}  # attributes of ``algo``
        self.gpu = -1  # the rank of the last ``gpu`` that was begun; -1 before the first
        self.gpus: set[int] = set()  # ranks
        self.buffers: dict[tuple[int, str], int] = {}
        self.blocks: list[Block] = []
        self.block_ids: set[tuple[int, int]] = set()  # GPU and id
        # counts of the whole file
        self.steps = 0
        self.moves = 0

    def algo(self) -> Algo:
        """Return the algorithm once all elements are read; ColltoolError where they do not fit together."""
        in_place = self._number(self.head, "inplace", 0)
        out_of_place = self._number(self.head, "outofplace", 0)
        ranks = len(self.gpus)
        if self.gpus != set(range(ranks)) or not 2 <= ranks <= MOST_RANKS:
            raise self._error(
                f"expected gpu 0, 1, 2 ... without a gap, 2 to {MOST_RANKS}, got {ranks}"
            )
        if self._number(self.head, "ngpus", ranks) != ranks:
            raise self._error(f"ngpus is {clipped(self.head['ngpus'])}, and {ranks} gpus are there")
        # The flags of a file, and its ways: neither or outofplace alone, out of place; inplace alone, in
        # place; both, both ways with the one in place first.
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
        """Close the innermost element: expat has checked that its name is this one."""
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
        """Open a threadblock of the open GPU; -1 stands for a peer or a channel that it does not have."""
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
        # A step of a negative count moves nothing when it is executed, and must not make room for others.
        self.moves += max(0, chunks)
        if self.steps > MOST_STEPS or self.moves > MOST_MOVES:
            what = f"more than {MOST_STEPS} steps, or {MOST_MOVES} chunks moved, are not followed"
            raise self._error(what, "fewer channels or chunks")
        ops.append(Op(kind, source, target, chunks, after, self.parser.CurrentLineNumber))

    def _place(self, attributes: Mapping[str, str], end: str) -> StepPlace:
        """The place of a step's source or target; ``end``: src or dst. A step that has none may leave the
        offset out: -1, which ``Buffers.place`` refuses if the step uses it all the same."""
        buffer = attributes.get(f"{end}buf", INPUT)
        offset = self._number(attributes, f"{end}off", -1)
        if buffer not in (INPUT, OUTPUT, SCRATCH):
            raise self._error(f"{end}buf is i, o or s, got '{clipped(buffer)}'")
        return StepPlace(buffer, offset)

    def _number(self, attributes: Mapping[str, str], key: str, default: int | None = None) -> int:
        """The whole number of an attribute, which may be negative; ``default`` where it is missing, or
        ColltoolError without one."""
        text = attributes.get(key)
        if text is None:
            if default is None:
                raise self._error(f"'{self.open[-1] if self.open else 'algo'}' has no {key}")
            return default
        if not text.removeprefix("-").isdecimal() or not text.isascii():
            raise self._error(f"{key} is a whole number, got '{clipped(text)}'")
        # int() of a long text takes quadratic time.
        if len(text) > _LONGEST_NUMBER:
            raise self._error(f"{key} is too large a number: '{clipped(text)}'")
        return int(text)

    def _error(self, what: str, fix: str = "") -> ColltoolError:
        """The error to raise about the line that is being read."""
        return ColltoolError(what, where=f"{self.file}:{self.parser.CurrentLineNumber}", fix=fix)
