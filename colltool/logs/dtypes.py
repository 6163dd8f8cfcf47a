"""Bytes of an element, by whatever name a log gives its type."""

from __future__ import annotations

# names in lower case without prefix, by the bytes of an element
_NAMES = {
    1: "int8 uint8 char byte bool",
    2: "half float16 bfloat16 short uint16",
    4: "float float32 int int32 uint32 complexhalf",
    8: "double float64 long int64 uint64 complexfloat",
    16: "complexdouble",
}
_BYTES: dict[str, int] = {}  # by name
for _width, _names in _NAMES.items():
    _BYTES |= dict.fromkeys(_names.split(), _width)
# of NCCL, Python and C++
_PREFIXES = ("nccl", "torch.", "c10::", "unsigned ")


def element_bytes(dtype: object) -> int:
    """Bytes of an element: 2 of ``ncclBfloat16`` or ``c10::Half``; 0 if the type is unknown."""
    name = str(dtype).lower()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    if name.startswith(("fp8", "float8")):
        return 1
    # "long int", "unsigned short int"
    return _BYTES.get(name.removesuffix(" int"), 0)
