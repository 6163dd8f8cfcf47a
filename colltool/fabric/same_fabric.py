"""A fabric as a key of caches: :class:`SameFabric`."""

from __future__ import annotations

from colltool.fabric.model import Fabric


class SameFabric:
    """A cache key by identity: equal fabrics are different keys. It holds its fabric, so that no other gets
    the same id."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    def __hash__(self) -> int:
        return id(self.fabric)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameFabric) and self.fabric is other.fabric
