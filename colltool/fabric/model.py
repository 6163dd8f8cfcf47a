"""The fabric file as a pydantic model, :class:`Fabric`: its YAML schema, bounds and units.

Numbers are SI once validated. ``source`` and ``notes`` are text for people and never priced. Class
docstrings go into the JSON Schema. A fabric is immutable: ``as_...``, ``on_...`` and ``with_...``
methods return changed copies. Private attributes hold what is not in the file: overrides, measured
numbers of the library and the machine, and where the fabric was loaded from; ``load`` and
``library_numbers`` fill them in.

A price has four layers: wires (1), contention (2), the library (3), and the machine (4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, chain
from math import prod
from operator import mul
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from colltool.algorithms.libraries import LibraryName
from colltool.base.primitives import Primitive
from colltool.definitions import field_types as ft
from colltool.definitions.field_types import (
    FieldError,
    FieldErrors,
    FieldHint,
    Part,
    model_check,
    raise_errors,
)
from colltool.definitions.source import KeyPath
from colltool.fabric import tier_parts as parts
from colltool.fabric.library import DeviceName, Efficiency, FabricLibrary, LibraryFacts, Prices
from colltool.fabric.routed_tiers import DragonflyPlusTier, DragonflyTier, GraphTier, HyperXTier
from colltool.fabric.tiers import ClosTier, FullMeshTier, LatticeTier, StarTier
from colltool.fabric.uneven import domain_errors
from colltool.machines.factor import MeasuredMachine
from colltool.machines.used import Applied, MachineUsed

_PRICES = FieldHint(
    "a mapping such as {currency: USD, switch: 30000, cable: 200, optic: 600, nic: 1500}"
)


Tier = Annotated[
    StarTier
    | FullMeshTier
    | LatticeTier
    | ClosTier
    | GraphTier
    | HyperXTier
    | DragonflyTier
    | DragonflyPlusTier,
    Field(discriminator="topology"),
    FieldHint("a tier: a mapping with name, topology, bandwidth ..."),
]


# The error of a key of schema /1 in a file of schema /2, and what to write instead.
_LIBRARY_KEY_IN_2 = (
    "colltool.fabric/2 has no {key}: what a library takes on a tier is found by its device and"
    " medium"
)
_INSTEAD_OF_LIBRARY_KEY = (
    "set the tier's own alpha, bandwidth or eta, which act under every protocol; numbers of your"
    " own: colltool calibrate"
)
# Seconds to post a message, LogGP's o. Source: Cray MPICH's all-to-all on 8 and 32 ranks of Polaris (docs.alcf.anl.gov),
# tests/benchmarks/fit_mpi.py.
MPI_POST_S = 0.43e-6


def _or_like(schema: dict[str, Any]) -> None:
    """Add to the JSON Schema of a file that it may name another fabric instead of tiers (``like``), and
    what it sets of it (``set``). ``load`` resolves both, so that the model has neither."""
    like = (
        "The fabric that this one is but for what follows: a shipped one, or a file. Tiers given"
        " here stand outside of its own."
    )
    changes = "Values by key that differ from that fabric, such as ib.bandwidth: 100GB/s."
    schema["properties"] |= {
        "like": {"type": "string", "description": like},
        "set": {"type": "object", "description": changes},
    }
    schema["required"] = [key for key in schema["required"] if key != "tiers"]
    schema["anyOf"] = [{"required": ["tiers"]}, {"required": ["like"]}]


class Fabric(Part):
    """A fabric file: its tiers, innermost first. ``hypothetical``: no such hardware. ``device``:
    what a job computes on.

    ``announced``: nobody has one yet. ``assumed``: what nobody told of this machine and was taken
    as usual; of a value as ``KEY: what was taken``. ``measured_on``: the machine that its measured numbers were
    taken over from. ``numbers``:
    ``datasheet`` keeps what was measured of a library off it.
    """

    model_config = ConfigDict(json_schema_extra=_or_like)

    schema_: Annotated[Literal["colltool.fabric/2", "colltool.fabric/1"], Field(alias="schema")] = (
        "colltool.fabric/2"
    )
    name: ft.Name
    description: ft.Words = ""
    tiers: Annotated[
        tuple[Tier, ...],
        Field(min_length=1, max_length=ft.MAX_DEPTH),
        FieldHint(f"a list of 1 to {ft.MAX_DEPTH} tiers, innermost first"),
    ]
    launch_overhead: ft.Overhead = 0.0
    library: FabricLibrary = None
    hypothetical: ft.Flag = False
    announced: ft.Flag = False
    assumed: ft.Statements = ()
    measured_on: ft.Name | None = None
    numbers: Literal["measured", "datasheet"] = "measured"
    device: DeviceName | None = None
    uncertainty: Annotated[
        dict[str, str] | None,
        FieldHint("a mapping of ranges, such as {ib.alpha: 2x, nvlink.eta.beta: 0.6:0.9}"),
    ] = None
    prices: Annotated[Prices | None, _PRICES] = None
    # Each is described at the property of the same name, or of a similar one.
    _overrides: tuple[tuple[str, str], ...] = PrivateAttr(default=())
    # what ``efficiencies`` returns where the file states none
    _reached: tuple[Efficiency, ...] = PrivateAttr(default=())
    _machine: MeasuredMachine | None = PrivateAttr(default=None)
    _custom_machine: MeasuredMachine | None = PrivateAttr(default=None)
    _measured_fabric: Fabric | None = PrivateAttr(default=None)
    _as_filed: Fabric | None = PrivateAttr(default=None)
    _reload: Callable[[list[str]], Fabric] | None = PrivateAttr(default=None)
    _ships: bool = PrivateAttr(default=False)
    # variants that were made before, by name: see ``view``
    _views: dict[str, Fabric] = PrivateAttr(default_factory=dict)

    # --- its size

    @property
    def domains(self) -> tuple[int, ...]:
        """Ranks of each domain that the outermost tier joins, where they differ. Empty where all
        are alike."""
        return self.tiers[-1].uneven

    @property
    def ranks(self) -> int:
        """Ranks of the whole fabric."""
        return sum(self.domains) or prod(tier.endpoints for tier in self.tiers)

    # --- its library (layer 3)

    @property
    def library_facts(self) -> LibraryFacts | None:
        """``library`` as a mapping, even where the file gives a name alone; None where it gives
        nothing."""
        return LibraryFacts(name=self.library) if isinstance(self.library, str) else self.library

    @property
    def library_name(self) -> LibraryName:
        """Library whose schedules run on it; ``all`` where any may."""
        facts = self.library_facts
        return facts.name if facts else "all"

    @property
    def efficiencies(self) -> tuple[Efficiency, ...]:
        """Published or measured figures of its library's schedules; none where any library may
        run."""
        facts = self.library_facts
        stated = facts.reached if facts and facts.name != "all" else ()
        return stated or self._reached

    def with_efficiencies(self, figures: tuple[Efficiency, ...]) -> Fabric:
        """Return the fabric with shares of bandwidth that its library is known to reach."""
        fabric = self.model_copy()
        fabric._reached = figures
        return fabric

    def with_mpi_post(self) -> Fabric:
        """Return the fabric with the usual MPI cost of posting a message on tiers that state
        none."""
        if self.library_name != "mpi" or all(tier.post is not None for tier in self.tiers):
            return self
        tiers = list(self.tiers)
        for number, tier in enumerate(tiers):
            if tier.post is None:
                tiers[number] = tier.model_copy(update={"post": MPI_POST_S})
        return self.model_copy(update={"tiers": tuple(tiers)})

    # --- variants with fewer layers

    def view(self, name: str, make: Callable[[], Fabric]) -> Fabric:
        """Return the variant of the fabric with a name, made the first time that it is asked for: caches
        find results by the identity of the fabric. A name says all that ``make`` depends on."""
        if name not in self._views:
            self._views[name] = make()
        return self._views[name]

    def on_datasheet(self) -> Fabric:
        """Return the fabric with wires and contention alone (layers 1 and 2): a launch that the
        file states, nothing measured of a library."""
        return self.view("datasheet", self._without_library)

    def on_wires(self) -> Fabric:
        """Return the fabric with wires alone and no launch, as ``--ideal`` prices it; which
        algorithms the library runs stays."""
        return self.view("wires", self._wires)

    def _wires(self) -> Fabric:
        """The fabric that :meth:`on_wires` returns, made anew."""
        tiers = tuple(tier.on_datasheet().with_library(tier.choices) for tier in self.tiers)
        fabric = self._without_library()
        return fabric.model_copy(update={"tiers": tiers, "launch_overhead": 0.0})

    def _without_library(self) -> Fabric:
        """The fabric that :meth:`on_datasheet` returns, made anew."""
        update: dict[str, Any] = {"tiers": tuple(tier.on_datasheet() for tier in self.tiers)}
        if self.library_facts:
            update["library"] = self.library_facts.model_copy(update={"reached": ()})
        return self.model_copy(update=update).with_efficiencies(()).with_machine(None)

    def without_machine(self) -> Fabric:
        """Return the fabric with wires, contention and library alone, as ``numbers="library"``
        prices it."""
        if self._machine is None:
            return self
        return self.view("no machine", lambda: self.with_machine(None))

    # --- its measured machine (layer 4)

    @property
    def machine(self) -> MeasuredMachine | None:
        """What was measured of this machine beyond its library (layer 4); None where nothing
        was."""
        return self._machine

    def with_machine(self, machine: MeasuredMachine | None) -> Fabric:
        """Return the fabric with a measured machine; None: without any."""
        fabric = self.model_copy()
        fabric._machine = machine
        return fabric

    @property
    def custom_machine(self) -> MeasuredMachine | None:
        """The machine of the user's rows, preferred to those that ship; None without any."""
        return self._custom_machine

    def with_custom_machine(self, machine: MeasuredMachine) -> Fabric:
        """Return the fabric with the machine of the user's rows, as its ``machine`` too."""
        fabric = self.with_machine(machine)
        fabric._custom_machine = machine
        fabric._measured_fabric = (
            self.as_filed.with_machine(machine) if self.as_filed is not None else fabric
        )
        return fabric

    @property
    def measured_fabric(self) -> Fabric | None:
        """The fabric of the file with the user's machine, whatever was changed since; None without
        such a machine."""
        return self._measured_fabric

    # --- overrides, and where it was loaded from

    @property
    def states_launch(self) -> bool:
        """Whether a launch in the file or an override replaces the library's.

        In files of schema /1 the fabric's launch is that of protocols which state none.
        """
        if "launch_overhead" not in self.model_fields_set:
            return False
        if "launch_overhead" in dict(self._overrides):
            return True
        return all(
            protocol.launch_overhead is None
            for protocol in chain.from_iterable(tier.protocols or () for tier in self.tiers)
        )

    @property
    def overrides(self) -> Applied:
        """Key and value of every override as typed, ``(("ib.size", "64"),)``; not part of its data
        or equality."""
        return Applied(
            self._overrides, MachineUsed.of(self._machine), tuple(self._assumed_unless_set())
        )

    def _assumed_unless_set(self) -> Iterator[str]:
        """What is assumed, without the values that an override sets: a text may begin with ``KEY:``."""
        keys = {key for key, _ in self._overrides}
        for text in self.assumed:
            if text.partition(":")[0] not in keys:
                yield text

    @property
    def as_filed(self) -> Fabric | None:
        """The same fabric as its file has it, without overrides; None if there are none."""
        return self._as_filed

    @property
    def reload(self) -> Callable[[list[str]], Fabric] | None:
        """A function that loads the fabric with other overrides, KEY=VALUE texts; None if it was loaded
        without any, and of some fabrics that such a function loaded."""
        return self._reload

    def with_overrides(
        self,
        overrides: tuple[tuple[str, str], ...],
        as_filed: Fabric | None = None,
        reload: Callable[[list[str]], Fabric] | None = None,
    ) -> Fabric:
        """Return the fabric with overrides as typed; ``as_filed``: without them, ``reload``: loads
        it with others."""
        fabric = self.model_copy()
        fabric._overrides = overrides
        fabric._as_filed = as_filed
        fabric._reload = reload
        return fabric

    @property
    def ships(self) -> bool:
        """Whether it was loaded by the name of a shipped fabric, whatever was changed since."""
        return self._ships

    def as_shipped(self) -> Fabric:
        """Return the fabric marked as one that ships."""
        fabric = self.model_copy()
        fabric._ships = True
        return fabric

    # --- copies and equality

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does; tiers learn how many ranks they now have inside."""
        copy = super().model_copy(update=update, deep=deep)._nested()
        copy._views = {}
        return copy

    def _nested(self) -> Self:
        """The same fabric, in which each tier knows how many ranks are inside one of its endpoints."""
        # 1, then the product of the tiers so far: one more than tiers
        inside = accumulate((tier.endpoints for tier in self.tiers), mul, initial=1)
        tiers = tuple(
            tier.with_ranks_inside(ranks) for tier, ranks in zip(self.tiers, inside, strict=False)
        )
        # the model is frozen: this is no change that anyone sees
        self.__dict__["tiers"] = tiers
        return self

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if isinstance(other, Fabric) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self.launch_overhead, len(self.tiers)))

    # --- checks of the file

    @model_check
    def _matches_schema(self) -> Iterator[FieldError]:
        """Keys of schema /1 that schema /2 has not: what a library takes is in its data, or in a
        machine file of the user's."""
        if self.schema_ == "colltool.fabric/1":
            return
        for number, tier in enumerate(self.tiers):
            library_keys: dict[KeyPath, object] = {
                ("protocols",): tier.protocols,
                ("algorithms",): tier.algorithms,
            }
            if tier.switches is not None:
                library_keys["in_network", "protocols"] = tier.switches.protocols
            for path, stated in library_keys.items():
                if stated is not None:
                    what = _LIBRARY_KEY_IN_2.format(key=path[-1])
                    yield FieldError(what, _INSTEAD_OF_LIBRARY_KEY, ("tiers", number, *path))

    @model_validator(mode="after")
    def _tiers_agree(self) -> Fabric:
        """Refuse tiers that contradict each other, then complete them: with ranks inside, and without
        a list of equal domains."""
        raise_errors(domain_errors(self.tiers))
        self._drop_equal_domains()
        if self.ranks > ft.MAX_RANKS:
            what = f"{self.ranks} ranks are more than {ft.MAX_RANKS}"
            raise FieldErrors(FieldError(what, "make a tier smaller", ("tiers",)))
        names = [tier.name for tier in self.tiers]
        repeated = parts.first_repeated(names)
        if repeated is not None:
            what = f"two tiers have the same name: {', '.join(names)}"
            raise FieldErrors(
                FieldError(what, "give each a name of its own", ("tiers", repeated, "name"))
            )
        if self.tiers[0].rail_only:
            what = "rails that never meet need a tier inside, over which messages change rails"
            fix = "put the tier that a node has inside before it, or leave rails out"
            raise FieldErrors(FieldError(what, fix, ("tiers", 0, "rails")))
        for primitive in Primitive:
            self._check_protocols(primitive)
        if self.prices is not None:
            levels = chain.from_iterable(tier.level_names for tier in self.tiers)
            self.prices.check_names(names, list(levels))
        return self._nested()

    def _drop_equal_domains(self) -> None:
        """Make a list of equal domains the size of the tier inside, and no list."""
        if len(set(self.domains)) == 1:
            # two tiers: ``domain_errors`` refuses domains on any others
            inner, outer = self.tiers
            inner = inner.model_copy(update={"size": self.domains[0]})
            outer = outer.model_copy(update={"domains": None})
            self.__dict__["tiers"] = (inner, outer)

    def _check_protocols(self, primitive: Primitive) -> None:
        """Raise an error unless the tiers that list protocols for a primitive have one in common: a
        collective runs under one throughout."""
        protocols_by_tier = {}
        for tier in self.tiers:
            protocols = tier.stated_protocols(primitive)
            if protocols:
                protocols_by_tier[tier.name] = protocols
        if not protocols_by_tier or set.intersection(*map(set, protocols_by_tier.values())):
            return
        listed = "; ".join(
            f"{tier}: {', '.join(protocols)}" for tier, protocols in protocols_by_tier.items()
        )
        what = (
            f"the tiers share no protocol for {primitive.label} ({listed}): a call runs under"
            " one throughout"
        )
        raise FieldErrors(
            FieldError(what, "give the tiers a protocol of the same name", ("tiers",))
        )
