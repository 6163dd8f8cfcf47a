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
# values of the whole, each as often as it is seen, by opcode; and a few for a small pickle
_VALUES_AN_OPCODE = 20
_FEW_VALUES = 100_000  # allowed in any file, however short
_MOST_TEXT = 256 * 2**20  # characters of the whole
_MOST_DEPTH = 100  # of containers in containers: no dump is so deep
_MOST_DIGITS = 4000  # of a whole number
_FIX = (
    "write the dump as JSON:"
    " json.dump(json.loads(torch._C._distributed_c10d._dump_nccl_trace_json()), file)"
)
# what a pickle asks for beyond plain data, by its opcodes
_CODE = {
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
_MARK = object()


def is_pickle(content: bytes) -> bool:
    """Whether content begins as a pickle of protocol 2 to 5."""
    return len(content) > 2 and content[0] == 0x80 and 2 <= content[1] <= 5


def pickle_as_json(content: bytes, file: str) -> bytes:
    """A pickle of plain data as JSON in UTF-8; ColltoolError for any other, and for one that is cut
    or too large."""
    try:
        value, opcodes = _run(content, file)
    except ColltoolError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
        raise ColltoolError(
            "is a pickle that is cut off or broken", where=file, fix=_FIX
        ) from error
    most = _FEW_VALUES + _VALUES_AN_OPCODE * opcodes
    return json.dumps(_JsonCopy(file, most).of(value, 0)).encode()


def _run(content: bytes, file: str) -> tuple[Any, int]:
    """The value that a pickle builds, and the number of its opcodes."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for count, (opcode, found, position) in enumerate(pickletools.genops(content)):
        argument: Any = found
        if count > _MOST_OPCODES:
            raise ColltoolError("is a pickle of too many values", where=file, fix=_FIX)
        name = opcode.name
        if name == "STOP":
            return stack.pop(), count
        if name in _CODE:
            what = f" ({str(argument)[:80]!r})" if isinstance(argument, str) else ""
            raise ColltoolError(
                f"is a pickle that {_CODE[name]}{what} at byte {position}: only plain data is read",
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
        elif not _combined(name, stack) and name not in ("PROTO", "FRAME"):
            raise ColltoolError(f"is a pickle with {name}, which is not read", where=file, fix=_FIX)
    raise ValueError("no STOP")


_PUSH = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)
_CONSTANTS: Mapping[str, Any] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
    "MARK": _MARK,
}
_EMPTY: Mapping[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}


def _since_mark(stack: list[Any]) -> list[Any]:
    """The values above the topmost mark, taken off with it."""
    values = []
    while True:
        value = stack.pop()
        if value is _MARK:
            break
        values.append(value)
    values.reverse()
    return values


def _pairs(values: list[Any]) -> dict[str, Any]:
    """Keys and values in turn, as an object of JSON."""
    found = {}
    for key, value in zip(values[::2], values[1::2], strict=True):
        if type(key) not in (str, int, float, bool, bytes):
            raise ValueError("a key that is no text or number")
        found[key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)] = value
    return found


def _topmost(stack: list[Any], count: int) -> list[Any]:
    """The topmost values, which are taken off."""
    if len(stack) < count:
        raise ValueError("too few values")
    values = stack[-count:]
    del stack[-count:]
    return values


def _container(stack: list[Any], kind: type) -> Any:
    """The value on top, which has to be of a kind."""
    if type(stack[-1]) is not kind:
        raise ValueError("adds to what is no list or dict")
    return stack[-1]


def _combined(name: str, stack: list[Any]) -> bool:
    """Whether an opcode makes one of the topmost values of the stack; it then has. JSON has lists
    for tuples and sets."""
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


class _JsonCopy:
    """A copy of a value that JSON can write, with everything in it as often as it is seen, up to
    the bounds."""

    def __init__(self, file: str, most: int) -> None:
        self.file = file
        self.most = most
        self.values = 0
        self.text = 0

    def of(self, value: Any, depth: int) -> Any:
        """A copy of a value with plain types only, within the limits."""
        self.values += 1
        if isinstance(value, (str, bytes, bytearray)):
            self.text += len(value)
        if self.values > self.most or self.text > _MOST_TEXT or depth > _MOST_DEPTH:
            raise ColltoolError(
                "is a pickle that stands for more than can be read: lists in lists in lists",
                where=self.file,
                fix=_FIX,
            )
        if isinstance(value, dict):
            copy = {}
            for key, inner in value.items():
                self.text += len(key)
                copy[key] = self.of(inner, depth + 1)
            return copy
        if isinstance(value, (list, tuple)):
            return [self.of(inner, depth + 1) for inner in value]
        if isinstance(value, (bytes, bytearray)):
            return value.decode("utf-8", "replace")
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, int) and value.bit_length() > _MOST_DIGITS * 3:
            return None
        if value is None or isinstance(value, (str, int, float)):
            return value
        raise ColltoolError("is a pickle that is cut off or broken", where=self.file, fix=_FIX)
