"""Protobuf's wire format, as far as Chakra's messages need it.

A message is a row of fields. Each has a key (its number and its kind on the wire), then a varint, 4
or 8 bytes, or a length and so many bytes: texts, messages inside, and packed lists of varints. See
https://protobuf.dev/programming-guides/encoding. It is read by hand because every length is checked
before anything is made of it.

``encode_`` functions write, ``decode_`` functions read, and raise :class:`Malformed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

VARINT_KIND = 0
FIXED64_KIND = 1
BYTES_KIND = 2
FIXED32_KIND = 5
MOST_REMEMBERED = 2**16  # encoded values that are kept: the nodes of a trace repeat each other


class Malformed(Exception):
    """Bytes that are not such a message; the text says why."""


@lru_cache(MOST_REMEMBERED)
def encode_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last with the highest bit: 300 is AC 02."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache
def encode_key(number: int, kind: int) -> bytes:
    """What stands before a field's value: the three lowest bits are its kind."""
    return encode_varint(number << 3 | kind)


def encode_number(number: int, value: int) -> bytes:
    """A field with a number that is not negative."""
    return encode_key(number, VARINT_KIND) + encode_varint(value)


def encode_sized(number: int, content: bytes) -> bytes:
    """A field with bytes, behind their length."""
    return encode_key(number, BYTES_KIND) + encode_varint(len(content)) + content


@lru_cache(MOST_REMEMBERED)
def encode_text(number: int, text: str) -> bytes:
    """A field with a text, in UTF-8."""
    return encode_sized(number, text.encode())


def decode_varint(data: bytes, start: int) -> tuple[int, int]:
    """The number that begins at a byte, as :func:`encode_varint` writes it, and where it ends."""
    value = 0
    for length in range(10):
        position = start + length
        if position >= len(data):
            raise Malformed("a number is cut off")
        byte = data[position]
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return value & (2**64 - 1), position + 1
    raise Malformed("a number has more than 64 bits")


def decode_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields, in order: of varints the number, of all others the
    bytes as they stand, also of those of 4 or 8 bytes."""
    position = 0
    while position < len(data):
        key, position = decode_varint(data, position)
        kind = key & 7
        if kind == VARINT_KIND:
            value, position = decode_varint(data, position)
            yield key >> 3, value
            continue
        if kind == BYTES_KIND:
            size, position = decode_varint(data, position)
        elif kind == FIXED64_KIND:
            size = 8
        elif kind == FIXED32_KIND:
            size = 4
        else:
            raise Malformed(f"a field of kind {kind}")
        end = position + size
        if end > len(data):
            raise Malformed("a field is cut off")
        yield key >> 3, data[position:end]
        position = end


def decode_packed(data: bytes, most: int) -> list[int]:
    """A list of varints without keys, read up to one more than ``most``."""
    numbers: list[int] = []
    position = 0
    while position < len(data) and len(numbers) <= most:
        number, position = decode_varint(data, position)
        numbers.append(number)
    return numbers
