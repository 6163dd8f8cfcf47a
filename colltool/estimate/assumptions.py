"""The options of the model that a user may choose, each declared once with its values, default and
help text.

The declarations drive function arguments and their checks, command-line options, the JSON echo and
the notes under a table. :class:`ModelOptions` has the options, each annotated with its
:class:`Assumption`; :func:`checked` makes one of what a user gives.
"""

from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.primitives import Pipelining

Phases = Literal["sequential", "pipelined"]
_TWINS = {"algorithm": "algorithms", "algorithms": "algorithm", "size": "sizes", "sizes": "size"}
"""Arguments that some functions take in the singular and others in the plural."""
# more would be segments of less than a byte of the largest size
MOST_SEGMENTS = 10**9


class Assumption(NamedTuple):
    """How an option is declared.

    Args:
        help: its line in ``--help``.
        least, most: bounds of a number, where the option takes any.
        echoed: whether JSON repeats it: ``given``: only if it is not at its default.
    """

    help: str
    least: float = 0.0
    most: float = 0.0
    echoed: Literal["always", "given", "never"] = "always"


class ModelOptions(NamedTuple):
    """How to read the model where it leaves a choice.

    Args:
        ideal: n_α·α + n_β·M/(BW·share) and nothing else: no η, no launch, nothing measured.
            Oversubscription stays: it is wiring, not contention.
        pipelining: ``asymptotic``, ``optimal``, or a number of segments P.
        phases: how the phases of a composition follow each other; ``auto`` is each composition's
            own way: what NCCL runs as NVLSTree, NVLS with SHARP or tree streams, and its rows say
            so.
        placement: ``packed`` fills the smallest domain first; ``scattered`` is the cautious reading
            of an unknown layout.
        ring_alpha: a ring's α where its hops differ: the ``mean`` over the ring, or the ``worst``
            hop in every step.
        tree_beta: c, the double binary tree's n_β: 1 where a rank drives two ports at once. The
            default, 2, stands for what its schedule carries: 1 on two ranks, 1.5 on three, 2 on
            more. On graphs, HyperX and dragonflies its bytes are counted link by link, and c does
            not apply.
        ports: ``one``: a rank sends one message at a time, over one port or link. N-1 messages cost
            an α each, links of a full mesh take turns, and what needs several links of a lattice at
            once is not there. What a lattice's routers pass on (a chain, all-to-all) keeps all of
            them.
        order: order of tiers of an all-gather or reduce-scatter; ``auto`` is the one that keeps
            bytes inside.
        numbers: how many layers of the model: ``datasheet`` is wires and contention, each tier's
            own latency, bandwidth and η; ``library`` adds what a library takes on such wires,
            ``measured`` what this machine was measured at. Not beside ``ideal``, which is wires
            alone.
    """

    ideal: Annotated[
        bool,
        Assumption(
            "Ideal links only: n_alpha x alpha + n_beta x M/BW, without contention or overhead.",
            echoed="never",
        ),
    ] = False
    pipelining: Annotated[
        Pipelining, Assumption("Number of segments in pipelined algorithms.", 1, MOST_SEGMENTS)
    ] = "asymptotic"
    phases: Annotated[
        Literal["auto", Phases],
        Assumption(
            "Whether the phases of a hierarchical algorithm run in turn or overlap; auto"
            " follows the algorithm."
        ),
    ] = "auto"
    placement: Annotated[
        Literal["packed", "scattered"],
        Assumption("Where ranks sit: packed into the fewest domains, or scattered."),
    ] = "packed"
    ring_alpha: Annotated[
        Literal["mean", "worst"],
        Assumption(
            "Latency of a ring with unequal hops: their mean, or the worst hop in every step."
        ),
    ] = "mean"
    tree_beta: Annotated[
        float,
        Assumption(
            "Bandwidth factor of the double binary tree; 1 requires two ports per rank.", 1, most=2
        ),
    ] = 2.0
    ports: Annotated[
        Literal["all", "one"],
        Assumption("Ports that a rank drives at once.", echoed="given"),
    ] = "all"
    order: Annotated[
        Literal["auto", "outer-first", "inner-first"],
        Assumption(
            "Order of tiers in all-gather and reduce-scatter; auto keeps most bytes inside.",
            echoed="given",
        ),
    ] = "auto"
    numbers: Annotated[
        Literal["measured", "library", "datasheet"],
        Assumption(
            "What is included: datasheet values, plus library overhead, plus measurements of"
            " the machine.",
            echoed="given",
        ),
    ] = "measured"

    def in_force(self, usual: Phases) -> "ModelOptions":
        """Replace ``auto`` phases by those that a composition uses by default."""
        return self._replace(phases=usual) if self.phases == "auto" else self

    def echo(self) -> dict[str, Any]:
        """The options that JSON repeats, with their values."""
        unusual = self.unlike(USUAL)
        return {
            assumption: getattr(self, assumption)
            for assumption, declared in DECLARED.items()
            if declared.echoed == "always" or assumption in unusual
        }

    def label(self) -> str:
        """The options that are not at their defaults: ``ideal, ring_alpha=worst``."""
        words = [f"{name}={value}" for name, value in self.unlike(USUAL).items()]
        if self.ideal:
            words.insert(0, "ideal")
        return ", ".join(words)

    def unlike(self, usual: "ModelOptions") -> dict[str, Any]:
        """The options whose values differ from ``usual``, except those never echoed."""
        differing = {}
        for assumption, declared in DECLARED.items():
            value = getattr(self, assumption)
            if declared.echoed != "never" and value != getattr(usual, assumption):
                differing[assumption] = value
        return differing


# The name until 0.19, kept for one more version.
Readings = ModelOptions
USUAL = ModelOptions()
# an annotation is Annotated[kind, Assumption(...)]
DECLARED: dict[str, Assumption] = {
    argument: get_args(kind)[1] for argument, kind in ModelOptions.__annotations__.items()
}
KINDS: dict[str, Any] = {
    name: get_args(kind)[0] for name, kind in ModelOptions.__annotations__.items()
}


@cache
def words(name: str) -> tuple[str, ...]:
    """The words that an option may take; empty for numbers and flags."""
    kind = KINDS[name]
    # Literal[...] itself, or a part of a union such as Literal[...] | int
    literal = next((part for part in (kind, *get_args(kind)) if get_origin(part) is Literal), None)
    return get_args(literal)


@cache
def takes_count(name: str) -> bool:
    """Whether an option may be a number of segments."""
    return int in get_args(KINDS[name])


def checked(readings: ModelOptions | None = None, /, **parts: Any) -> ModelOptions:
    """Validated options (the defaults if None), with single ones replaced by ``parts``.

    Raises:
        ColltoolError: an unknown option, a value that an option cannot take, or ``numbers`` beside
            ``ideal``.
    """
    if readings is None and not parts:
        return USUAL
    readings = USUAL if readings is None else readings
    if not isinstance(readings, ModelOptions):
        raise ColltoolError(
            f"expected colltool.Readings, got {type(readings).__name__}",
            argument="readings",
            fix="write readings=colltool.Readings(ideal=True), or ideal=True alone",
        )
    for part in parts:
        if part not in DECLARED:
            raise _unknown_option(part)
    values = readings._asdict() | parts
    options = ModelOptions(**{name: _checked(name, value) for name, value in values.items()})
    if options.ideal and parts.get("numbers") is not None:
        raise ColltoolError(
            f"ideal is wires alone, and numbers={options.numbers} more than these",
            argument="numbers",
            fix=f"leave out one: {argument_text('ideal', True)} or {argument_text('numbers', options.numbers)}",
        )
    return options


def _unknown_option(name: str) -> ColltoolError:
    """The error for a name that is no option."""
    hint = nearest(name, list(DECLARED))
    if name in _TWINS:
        hint = f"did you mean '{_TWINS[name]}'?"
    return ColltoolError(
        f"there is no argument or model option called '{clipped(name)}'",
        argument=clipped(name),
        fix=f"{hint} the model options: {', '.join(DECLARED)}".strip(),
    )


def _checked(name: str, value: Any) -> Any:
    """One option of the model as its type, or a ColltoolError that names its values."""
    kind = KINDS[name]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        # a scalar of numpy
        value = value.item()
    if value is None and "auto" in words(name):
        # the same thing in Python, and what 0.2.0 took
        return "auto"
    # flags are integers in Python, but no numbers here
    if isinstance(value, bool):
        if kind is bool:
            return value
    elif isinstance(value, str):
        if value in words(name):
            return value
    elif isinstance(value, int | float):
        within = DECLARED[name].least <= value <= DECLARED[name].most
        if within and kind is float:
            return float(value)
        if within and takes_count(name) and isinstance(value, int):
            return value
    raise _refusal(name, value)


def _refusal(name: str, value: Any) -> ColltoolError:
    """The error for a value that an option cannot take."""
    kind = KINDS[name]
    least = DECLARED[name].least
    most = DECLARED[name].most
    text = f"'{clipped(value)}'" if isinstance(value, str) else _value_text(value)
    if kind is bool:
        return ColltoolError(
            f"expected True or False, got {text}", argument=name, fix="True leaves contention out"
        )
    if kind is float:
        return ColltoolError(
            f"must lie between {least:g} and {most:g}, got {text}",
            argument=name,
            fix="2 is a single port; 1 needs two ports",
        )
    known = ", ".join(words(name))
    hint = nearest(value, list(words(name))) if isinstance(value, str) else ""
    fix = f"{hint} one of {known}".strip()
    if takes_count(name):
        fix = f"{known}, or a number of segments from {least:g} to {most:,.0f}"
    return ColltoolError(f"{text} is not known", argument=name, fix=fix)


def _value_text(value: Any) -> str:
    """A value in an error, cut where it is long: numbers as they are, else the name of the type."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**15:
        return "a number of more than 15 digits"
    if isinstance(value, bool | int | float | complex | type(None)):
        return repr(value)[:40]
    return f"a {type(value).__name__}"[:40]
