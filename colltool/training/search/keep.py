"""What a search is told to keep: ``tp=8``, ``shard=zero1``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.quoting import shown
from colltool.base.units import parse_count
from colltool.training.files.values import written

SIZES = ("tp", "cp", "ep", "etp", "pp", "virtual", "micro")
MODES = ("ddp", "zero1", "zero2", "fsdp")
WORDS: dict[str, dict[str, Any]] = {
    "sp": {"true": True, "false": False},
    "shard": {mode: mode for mode in (*MODES, "hsdp")},
    "recompute": {word: word for word in ("none", "selective", "full")},
}
NAMES = ("tp", "sp", "cp", "ep", "etp", "pp", "virtual", "micro", "shard", "recompute")
MOST = 10**9

Keep = Mapping[str, Any] | Iterable[str]
"""``KEY=VALUE`` each, a later one wins; or values by name."""


class Kept(NamedTuple):
    """What every layout of a search has; None where it is searched."""

    tp: int | None = None
    sp: bool | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    pp: int | None = None
    virtual: int | None = None
    micro: int | None = None
    shard: str | None = None
    recompute: str | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Those that are kept, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    @property
    def spoken(self) -> str:
        """``tp=8, sp=true``."""
        return ", ".join(f"{name}={written(value)}" for name, value in self.values.items())


def kept_of(keep: Keep | None) -> Kept:
    """What is to be kept, checked.

    Raises:
        ColltoolError: a name or a value that nothing can keep; names those that can be.
    """
    if keep is None:
        return Kept()
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise ColltoolError(f"expected names with values, got {shown(keep)}", argument="keep", fix=f"write {_example()}")
    pairs = keep.items() if isinstance(keep, Mapping) else [_split(one) for one in keep]
    return Kept(**{_name(name): _value(str(name), value) for name, value in pairs})


def _example() -> str:
    return given("keep", {"tp": 8}, text="tp=8")


def _split(text: Any) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals or not value.strip():
        raise ColltoolError(f"{shown(text)} keeps nothing", argument="keep", fix=f"write {_example()}; {_known()}")
    return name.strip(), value.strip()


def _known() -> str:
    return f"what can be kept: {', '.join(NAMES)}"


def _name(name: Any) -> str:
    if name not in NAMES:
        fix = f"{nearest(str(name), list(NAMES))} {_known()}".strip()
        raise ColltoolError(f"nothing is called {shown(str(name))}", argument="keep", fix=fix)
    return str(name)


def _value(name: str, value: Any) -> Any:
    if name in SIZES:
        try:
            return parse_count(value, "keep", 1, MOST)
        except ColltoolError:
            pass
        fix = f"write {given('keep', {name: 8}, text=f'{name}=8')}"
        raise ColltoolError(f"{name} is a whole number of at least 1, got {shown(value)}", argument="keep", fix=fix)
    known = WORDS.get(name, {})
    found = known.get(written(value))
    if found is None:
        fix = f"{nearest(str(value), list(known))} one of {', '.join(known)}".strip()
        raise ColltoolError(f"{name} cannot be {shown(value)}", argument="keep", fix=fix)
    return found
