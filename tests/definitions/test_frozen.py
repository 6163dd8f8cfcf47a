"""What is loaded once for all cannot be changed by one of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.definitions.field_types import Part
from colltool.fabric.shipped import shipped_fabrics

OWN = """
name: own
notes: [one, two]
tiers:
  - name: x
    topology: star
    size: 8
    alpha: 1us
    bandwidth: 50GB/s
    eta: {beta: 0.9}
    in_network: {reduce: true, multicast: true, alpha_switch: 0.5us, eta_beta: {all_reduce: 0.5}}
    source: {alpha: invented}
"""


def containers(value: Any) -> Iterator[Any]:
    """All mappings and lists that a part holds."""
    if isinstance(value, dict | list):
        yield value
    if isinstance(value, Part):
        value = value.__dict__
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from containers(item)


def changed(value: Any) -> None:
    if isinstance(value, list):
        value.append("more")
    else:
        value["more"] = "more"


@swept("name", ["own.yaml", *shipped_fabrics()])
def test_a_loaded_fabric_cannot_be_changed(name: str, tmp_path: Path) -> None:
    if name == "own.yaml":
        (tmp_path / name).write_text(OWN)
        name = str(tmp_path / name)
    fabric = colltool.load_fabric(name)
    found = list(containers(fabric))
    assert found
    for value in found:
        with pytest.raises(TypeError, match="load it with overrides"):
            changed(value)
    assert colltool.load_fabric(name) is fabric
    assert pickle.loads(pickle.dumps(fabric.tiers)) == fabric.tiers
    assert copy.deepcopy(fabric.tiers) == fabric.tiers


@swept(
    "change",
    [
        lambda value: value.update(a=1),
        lambda value: value.pop("a"),
        lambda value: value.popitem(),
        lambda value: value.clear(),
        lambda value: value.setdefault("b", 1),
        lambda value: value.__ior__({"b": 1}),
        lambda value: value.__delitem__("alpha"),
    ],
)
def test_no_way_to_change_a_mapping_is_left(change: Any, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    source = colltool.load_fabric(tmp_path / "own.yaml").tiers[0].source
    with pytest.raises(TypeError):
        change(source)
    assert source == {"alpha": "invented"}


def test_prices_of_several_sizes_pass_between_processes() -> None:
    prices = colltool.price("star512", "ar", size=["1MB", "2MB"], ranks=8)
    assert pickle.loads(pickle.dumps(prices)) == prices
