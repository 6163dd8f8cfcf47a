"""A sweep of many small cases as one test: pytest's own work for a case is more than that of most
cases.

``@swept`` stands where ``@pytest.mark.parametrize`` would, with the same names and values, for
cases that ask for no fixture that one of them could leave dirty. The first case that fails is named
under its error.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from effort import some


def _values(case: Any, *, single: bool) -> Iterable[Any]:
    """A case's values; those of a ``pytest.param`` without its id."""
    if isinstance(case, type(pytest.param())):
        assert not case.marks, "a sweep is one test: it has no marks of single cases"
        return case.values
    return (case,) if single else case


def swept(
    names: str | tuple[str, ...], cases: Iterable[Any], most: int | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test over all ``cases``: a value of one name each, or a tuple of values, one for each of
    ``names``.

    ``most``: as many of them as stand for all, unless the run is thorough.
    """

    known = (names,) if isinstance(names, str) else names
    listed = [
        dict(zip(known, _values(case, single=isinstance(names, str)), strict=True))
        for case in cases
    ]
    listed = listed if most is None else some(listed, most)
    assert listed, f"no case of {', '.join(known)}"

    def over(check: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(check)

        @functools.wraps(check)
        def every(*given: Any, **others: Any) -> None:
            for case in listed:
                try:
                    check(*given, **others, **case)
                except BaseException as error:
                    error.add_note(
                        ", ".join(f"{name} = {value!r:.200}" for name, value in case.items())
                    )
                    raise

        left = [one for name, one in signature.parameters.items() if name not in known]
        every.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest asks for fixtures
        return every

    return over
