"""What questions about fabric files return: frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colltool.fabric.derive import FabricFacts
from colltool.fabric.model import Fabric
from colltool.fabric.plausible import Checked
from colltool.results import Result


@dataclass(frozen=True, eq=False, repr=False)
class FabricList(Result):
    """Fabrics beside each other, such as the shipped ones."""

    subject: ClassVar[str] = "fabric"
    fabrics: tuple[Fabric, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FabricShown(Result):
    """One fabric, and what follows from it."""

    subject: ClassVar[str] = "fabric"
    fabric: Fabric
    facts: FabricFacts


@dataclass(frozen=True, eq=False, repr=False)
class FabricsChecked(Result):
    """The files that hold, and what is odd about them."""

    subject: ClassVar[str] = "fabric_check"
    checks: tuple[Checked, ...]
