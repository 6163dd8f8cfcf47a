"""Pickles of plain data, without the pickle module: nothing in a file can name code to run.

A pickle is a program for a small machine. This one knows the opcodes that build None, booleans,
numbers, text, bytes, lists, tuples, sets and dicts, of protocols 0 to 5, which is all that
PyTorch's Flight Recorder writes (``torch._C._distributed_c10d._dump_nccl_trace()``,
TORCH_NCCL_DUMP_ON_TIMEOUT). An opcode that names a class or a function, calls one, or asks for an
object by a number (GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, EXT, PERSID and their kin) is refused
by its name, before anything is done about it.

The result is text of JSON, so that one reader serves both. Its size is bounded while it is built,
for a few memoised lists of lists may stand for more than memory holds.
"""

from __future__ import annotations

import json
import math
import pickletools
from collections.abc import Callable, Mapping
from typing import Any

from colltool.base.errors import ColltoolError

_MOST_OPCODES = 10_000_000  # a hostile file ends here
# values of the whole, each counted as often as it is seen: so many for each opcode of the pickle,
# beyond those that any pickle may have
_VALUES_AN_OPCODE = 20
_VALUES_OF_ANY = 100_000
_MOST_TEXT = 256 * 2**20  # characters of the whole
_MOST_DEPTH = 100  # of containers in containers: no dump is so deep
_MOST_BITS = 12_000  # of a whole number
_FIX = (
    "write the dump as JSON:"
    " json.dump(json.loads(torch._C._distributed_c10d._dump_nccl_trace_json()), file)"
)
# what opcodes beyond plain data do: they are refused
_REFUSED = {
    "GLOBAL": "names code",
    "STACK_GLOBAL": "names code",
    "INST": "makes an object of a class",
    "OBJ": "makes an object of a class",
    "NEWOBJ": "makes an object of a class",
    "NEWOBJ_EX": "makes an object of a class",
    "REDUCE": "calls a function",
    "BUILD": "sets the state of an object",
    "EXT1": "names code by a registered number",
    "EXT2": "names code by a registered number",
    "EXT4": "names code by a registered number",
    "PERSID": "asks for an object from elsewhere",
    "BINPERSID": "asks for an object from elsewhere",
    "NEXT_BUFFER": "asks for a buffer from elsewhere",
    "READONLY_BUFFER": "asks for a buffer from elsewhere",
}
# what opcode MARK puts on the stack: the values above it are taken together
_MARK = object()
# opcodes that put their argument on the stack
_PUSH = frozenset(
    {
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
    }
)
# those that put a constant there
_CONSTANTS: Mapping[str, Any] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
    "MARK": _MARK,
}
# those that put an empty container there
_EMPTY: Mapping[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}


def is_pickle(content: bytes) -> bool:
    """Whether content begins as a pickle of protocol 2 to 5."""
    return len(content) > 2 and content[0] == 0x80 and 2 <= content[1] <= 5


def pickle_as_json(content: bytes, file: str) -> bytes:
    """A pickle of plain data as JSON in UTF-8. What JSON has not is changed: tuples and sets to
    lists, bytes to text, numbers that are not finite or huge to null.

    Raises:
        ColltoolError: any other pickle, and one that is cut or too large.
    """
    try:
        value, opcodes = _run(content, file)
    except (ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
        raise ColltoolError(
            "is a pickle that is cut off or broken", where=file, fix=_FIX
        ) from error
    most_values = _VALUES_OF_ANY + _VALUES_AN_OPCODE * opcodes
    return json.dumps(_JsonCopy(file, most_values).copy(value, 0)).encode()


def _run(content: bytes, file: str) -> tuple[Any, int]:
    """The value that a pickle builds, and the number of its opcodes.

    Raises:
        ColltoolError: an opcode that is refused or unknown, or too many of them.
        ValueError, IndexError, TypeError, KeyError, OverflowError: a broken pickle.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for count, (opcode, opcode_argument, position) in enumerate(pickletools.genops(content)):
        argument: Any = opcode_argument
        if count > _MOST_OPCODES:
            raise ColltoolError("is a pickle of too many values", where=file, fix=_FIX)
        name = opcode.name
        if name == "STOP":
            return stack.pop(), count
        if name in _REFUSED:
            # the class or function, for instance "os system"
            quoted = f" ({argument[:80]!r})" if isinstance(argument, str) else ""
            raise ColltoolError(
                f"is a pickle that {_REFUSED[name]}{quoted} at byte {position}: only plain data is read",
                where=file,
                fix=_FIX,
            )
        if name in _PUSH:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif not _combine(name, stack) and name not in ("PROTO", "FRAME"):
            raise ColltoolError(f"is a pickle with {name}, which is not read", where=file, fix=_FIX)
    raise ValueError("no STOP")


def _combine(name: str, stack: list[Any]) -> bool:
    """Run an opcode that changes the topmost values of the stack, mostly into one, with lists for
    tuples and sets. False for any other opcode, which changes nothing."""
    match name:
        case "LIST" | "TUPLE" | "FROZENSET":
            stack.append(_since_mark(stack))
        case "TUPLE1" | "TUPLE2" | "TUPLE3":
            stack.append(_topmost(stack, int(name[-1])))
        case "DICT":
            stack.append(_pairs(_since_mark(stack)))
        case "APPEND":
            values = _topmost(stack, 1)
            _container(stack, list).extend(values)
        case "APPENDS" | "ADDITEMS":
            values = _since_mark(stack)
            _container(stack, list).extend(values)
        case "SETITEM":
            pair = _topmost(stack, 2)
            _container(stack, dict).update(_pairs(pair))
        case "SETITEMS":
            pairs = _since_mark(stack)
            _container(stack, dict).update(_pairs(pairs))
        case "POP":
            stack.pop()
        case "POP_MARK":
            _since_mark(stack)
        case "DUP":
            stack.append(stack[-1])
        case _:
            return False
    return True


def _since_mark(stack: list[Any]) -> list[Any]:
    """Take off the values above the topmost mark, and the mark; IndexError without one."""
    values = []
    while True:
        value = stack.pop()
        if value is _MARK:
            break
        values.append(value)
    values.reverse()
    return values


def _pairs(values: list[Any]) -> dict[str, Any]:
    """A dict of keys and values in turn, as JSON has it: keys are text."""
    pairs = {}
    for key, value in zip(values[::2], values[1::2], strict=True):
        if type(key) is bytes:
            key = key.decode("utf-8", "replace")
        elif type(key) not in (str, int, float, bool):
            raise ValueError("a key that is no text or number")
        pairs[str(key)] = value
    return pairs


def _topmost(stack: list[Any], count: int) -> list[Any]:
    """Take off the topmost values, in the order in which they were put there."""
    if len(stack) < count:
        raise ValueError("too few values")
    values = stack[-count:]
    del stack[-count:]
    return values


def _container(stack: list[Any], kind: type) -> Any:
    """The value on top, which stays there; ValueError unless it is of a kind."""
    if type(stack[-1]) is not kind:
        raise ValueError("adds to what is no list or dict")
    return stack[-1]


class _JsonCopy:
    """Copies a value to one that JSON can write, with everything in it as often as it is seen, up
    to the bounds."""

    def __init__(self, file: str, most_values: int) -> None:
        self.file = file
        self.most_values = most_values
        self.values = 0  # copied so far
        self.characters = 0  # of text, copied so far

    def copy(self, value: Any, depth: int) -> Any:
        """A copy of a value that stands in so many containers; ColltoolError beyond the bounds."""
        self.values += 1
        if isinstance(value, (str, bytes, bytearray)):
            self.characters += len(value)
        is_too_large = self.values > self.most_values or self.characters > _MOST_TEXT
        if is_too_large or depth > _MOST_DEPTH:
            raise ColltoolError(
                "is a pickle that stands for more than can be read: lists in lists in lists",
                where=self.file,
                fix=_FIX,
            )
        if isinstance(value, dict):
            members = {}
            for key, inner in value.items():
                self.characters += len(key)
                members[key] = self.copy(inner, depth + 1)
            return members
        if isinstance(value, (list, tuple)):
            return [self.copy(inner, depth + 1) for inner in value]
        if isinstance(value, (bytes, bytearray)):
            return value.decode("utf-8", "replace")
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            return None
        if value is None or isinstance(value, (str, int, float)):
            return value
        raise ColltoolError("is a pickle that is cut off or broken", where=self.file, fix=_FIX)
