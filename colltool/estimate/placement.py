"""The members of a group, and where they sit: tier by tier outwards its stride is used up, then its
ranks fill whole domains.

:class:`GroupSpec` is a group as requested; :func:`fill_tiers` is the entry and gives a
:class:`TierShare` for each tier (:func:`colltool.estimate.groups.place` calls it);
:class:`GroupPlacement` is what results print of it. :func:`fits`, :func:`whole_groups` and
:func:`every_stride` find groups that have a place.

Words: the *members* of a group are its ranks; of a tier further out, the domains that hold any. A *box*
is the slice of a lattice that a shape asks for.

If a tier's size divides the remaining stride, each domain holds one member and the rest of the
stride goes on; if the stride divides the size, the domain holds every so many-th endpoint and
consecutive domains follow (source: mixed-radix numbering of ranks, as launchers form groups in
parallel training: Megatron-LM, core/parallel_state.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from math import prod
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, either
from colltool.base.formatting import Shape, ordinal, parse_count, shape_text
from colltool.fabric.expression import PER_RACK, nodes_for, per_rack_for
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text
from colltool.network.group import Axis, sizes_of


class GroupSpec(NamedTuple):
    """A group as requested: ranks r, r + stride, r + 2·stride ...

    Args:
        ranks: None: as many as the fabric has at this stride.
        stride: in ranks, which are numbered innermost tier first.
        alone: sibling groups (the ranks in between) are idle.
        shape: ranks along each lattice axis; None: the best that fits.
        in_order: the group is part of a larger job, so it fills lattice axes in rank order.
    """

    ranks: int | None = None
    stride: int = 1
    alone: bool = False
    shape: Shape | None = None
    in_order: bool = False


AnyGroup = GroupSpec | int | None
"""A group, or the number of its consecutive ranks."""


def tiers_spanned(per_domain: Iterable[int]) -> int:
    """How many tiers carry traffic of a group: those with more than one member per domain."""
    return sum(count > 1 for count in per_domain)


class GroupPlacement(NamedTuple):
    """A group as results echo it.

    Args:
        per_domain: members per domain of each tier, innermost first; 1 if a tier is not used. Inner
            domains count as one member.
        slices: name of each lattice, and members along each of its axes.
        domains: members in each domain of the innermost tier where these differ; ``per_domain``
            then has the most.
        open_axes: for each lattice axis whether the group has an open line of what the fabric
            closes to a ring.
    """

    ranks: int
    stride: int
    per_domain: tuple[int, ...]
    alone: bool
    slices: tuple[tuple[str, Shape], ...] = ()
    in_order: bool = False
    domains: tuple[int, ...] = ()
    open_axes: tuple[bool, ...] = ()

    @property
    def shape(self) -> Shape:
        """Members along each lattice axis, innermost first, as ``--shape`` takes them. Empty
        without lattices."""
        return tuple(chain.from_iterable(shape for _, shape in self.slices))

    @property
    def label(self) -> str:
        """The group in titles: ``64 ranks, every 8th, alone`` or ``64 ranks (4x4x4)``."""
        words = spoken(self.ranks, self.stride, self.alone)
        if self.domains:
            return f"{words} ({domains_text(self.domains)})"
        if self.stride > 1:
            return words
        several = len(self.per_domain) > 1
        boxes = []
        for tier, shape in self.slices:
            if max(shape) > 1:
                box = shape_text(shape)
                if several:
                    box = f"{tier} {box}"
                boxes.append(box)
        if self._lines:
            boxes.append(self._lines)
        return f"{words} ({', '.join(boxes)})" if boxes else words

    @property
    def _lines(self) -> str:
        """Which axes of the group do not close although the fabric's do: ``open lines``,
        ``open along 4``."""
        lines = [size for size, is_open in zip(self.shape, self.open_axes, strict=True) if is_open]
        if not lines:
            return ""
        if len(lines) < sum(size > 1 for size in self.shape):
            return f"open along {' and '.join(map(str, lines))}"
        return "open lines" if len(lines) > 1 else "an open line"

    @property
    def spec(self) -> GroupSpec:
        """The group as a request that gives this placement again."""
        # only consecutive ranks that need not fill axes in order take a slice of a lattice
        sliced = self.stride == 1 and not self.in_order
        shape = self.shape if sliced else ()
        return GroupSpec(self.ranks, self.stride, self.alone, shape or None, self.in_order)


def opened(whole: Sequence[Axis], part: Sequence[Axis]) -> list[bool]:
    """For each axis of a group whether it is a line where the whole lattice has a ring; two ranks
    have one link either way. Empty off lattices."""
    if not part:
        return []
    axes = zip(whole, part, strict=True)
    return [own.size > 2 and not own.closed and axis.closed for axis, own in axes]


def spoken(ranks: int, stride: int, alone: bool = False) -> str:
    """A group in words: ``64 ranks, every 8th, alone``. Only one with a stride can be alone."""
    if stride == 1:
        return f"{ranks} ranks"
    return f"{ranks} ranks, every {ordinal(stride)}{', alone' if alone else ''}"


class Occupancy(NamedTuple):
    """How the members of a group sit on a tier's endpoints.

    Args:
        stride: from one member's endpoint to the next, which is also how many groups are
            interleaved.
        siblings: ranks behind an endpoint per member behind it, where their ports share uplinks.
        alone: the other groups' ports are idle.
    """

    stride: int = 1
    siblings: int = 1
    alone: bool = False

    def members(self, endpoints: int) -> int:
        """How many of so many neighbouring endpoints have members."""
        return max(1, endpoints // self.stride)

    def ports(self, endpoints: int) -> int:
        """Ports that each of the group's endpoints in such a domain can use, including those of
        idle siblings."""
        if not self.alone:
            return 1
        return endpoints // self.members(endpoints) * self.siblings


PACKED = Occupancy()
"""Every endpoint from the first on, with all its ranks."""


class TierShare(NamedTuple):
    """A group's part of a tier.

    Args:
        stride: in endpoints of the tier, from one member to the next.
        members: per domain of the tier.
        tier: the tier, or the slice of it if it is a lattice.
    """

    stride: int
    members: int
    tier: Tier


Boxes = tuple[Tier | None, ...]
"""The slice of each tier that a shape asks for; None off lattices."""


def fill_tiers(fabric: Fabric, spec: GroupSpec) -> tuple[TierShare, ...]:
    """Where the members of a group sit: a share of each of the fabric's tiers, innermost first.

    Raises:
        ColltoolError: the stride, number of ranks or shape does not fit, or leaves a domain partly
            filled; the fix names the nearest that do.
    """
    stride = parse_count(spec.stride, "stride")
    if not 1 <= stride < max(2, fabric.ranks):
        raise ColltoolError(
            f"must be at least 1 and leave {fabric.name} two ranks, got {stride}",
            argument="stride",
            fix=f"take 1 (consecutive ranks) to {fabric.ranks // 2}",
        )
    stride_of_tier = strides(fabric, stride)
    # errors in a shape come before those in counts
    boxes = None if spec.shape is None else _boxes(fabric, spec)
    ranks = everybody(fabric, spec) if spec.ranks is None else parse_count(spec.ranks, "ranks")
    _check_ranks(fabric, ranks)
    if fabric.domains:
        return _fill_domains(fabric, ranks, stride)
    if stride_of_tier is None:
        raise _uneven_stride(fabric, spec.ranks or 2, stride)
    if ranks > fabric.ranks // stride:
        raise _too_many(fabric, ranks, stride)
    shares = _shares(fabric, stride_of_tier, ranks, in_order=spec.in_order or stride > 1)
    if shares is None:
        raise _does_not_fit(fabric, ranks, stride)
    return shares if boxes is None else _with_boxes(fabric, spec, shares, boxes)


def _with_boxes(
    fabric: Fabric, spec: GroupSpec, shares: Sequence[TierShare], boxes: Boxes
) -> tuple[TierShare, ...]:
    """The shares with the slices that a shape asks for; refused where these hold another number of
    ranks than was asked for as well."""
    sliced = []
    for share, box in zip(shares, boxes, strict=True):
        if box is not None and box.endpoints != share.members:
            ranks_of_shape = _ranks_of(fabric, boxes)
            # the shape that this many ranks have without being asked for one
            usual_shape = _shape_argument(_axes([share.tier for share in shares]))
            raise ColltoolError(
                f"{shape_text(spec.shape or ())} holds {ranks_of_shape} ranks, not {spec.ranks or 0}",
                argument="shape",
                fix=f"write {argument_text('ranks', ranks_of_shape)}, or {usual_shape}",
            )
        sliced.append(share if box is None else share._replace(tier=box))
    return tuple(sliced)


def _too_many(fabric: Fabric, ranks: int, stride: int) -> ColltoolError:
    """The error for a group with more ranks than the fabric has at its stride, with the largest
    stride that they fit."""
    smaller_strides = [step for step in every_stride(fabric, ranks) if step < stride]
    fix = f"take at most {spoken(fabric.ranks // stride, stride)}"
    if smaller_strides:
        fix += f", or {spoken(ranks, max(smaller_strides))}"
    return ColltoolError(
        f"{spoken(ranks, stride)}, do not fit: {fabric.name} has {fabric.ranks}",
        argument="stride",
        fix=fix,
    )


def _does_not_fit(fabric: Fabric, ranks: int, stride: int) -> ColltoolError:
    """The error for a group that leaves a domain half full, with the nearest sizes that do not."""
    innermost = fabric.tiers[0]
    nearest_counts = [
        count_within(fabric, ranks - 1, stride),
        _first_that_fits(fabric, range(ranks + 1, fabric.ranks // stride + 1), stride),
    ]
    counts = " and ".join(str(count) for count in nearest_counts if count is not None)
    if ranks < innermost.endpoints and capabilities_of(innermost).first_are_disconnected(ranks):
        return ColltoolError(
            f"the first {ranks} ranks of {fabric.name} reach each other only through others",
            argument="ranks",
            fix=f"the nearest sizes that do without are {counts}",
        )
    fix = f"the nearest sizes that fill whole domains are {counts}"
    per_domain = per_rack_for(fabric, [ranks], fabric.tiers[-1].endpoints)
    if per_domain is not None and stride == 1:
        typed = f"{fabric.name}:{PER_RACK}={per_domain}"
        how = either(shell=f"--per-rack {per_domain}", python=f'fabric="{typed}"')
        fix += f"; {how} takes {per_domain} of each"
    comma = "," if stride > 1 else ""
    return ColltoolError(
        f"{spoken(ranks, stride)}{comma} leave a domain half full on {fabric.name}"
        f" ({_extents(fabric.tiers)})",
        argument="ranks",
        fix=fix,
    )


def first_domains(fabric: Fabric, ranks: int) -> Iterator[int]:
    """The first ``ranks`` of a fabric whose domains differ: how many are in each domain that they
    reach."""
    ranks_left = ranks
    for domain in fabric.domains:
        if ranks_left <= 0:
            break
        yield min(domain, ranks_left)
        ranks_left -= domain


def _fill_domains(fabric: Fabric, ranks: int, stride: int) -> tuple[TierShare, ...]:
    """Consecutive ranks, domain after domain; any number of them, as no domain need be full."""
    if stride > 1:
        raise ColltoolError(
            f"every {ordinal(stride)} rank is nowhere in particular among domains of"
            f" {domains_text(fabric.domains)} ranks",
            argument="stride",
            fix=f"leave it out: {argument_text('ranks', ranks)} takes consecutive ranks",
        )
    domains = tuple(first_domains(fabric, ranks))
    inner, outer = fabric.tiers
    most = max(domains)
    inside = TierShare(1, most, inner.model_copy(update={"size": most}))
    return inside, TierShare(1, len(domains), outer)


def everybody(fabric: Fabric, spec: GroupSpec) -> int:
    """The number of ranks of a group that does not say it: that of its shape, or as many as fit the
    stride."""
    if spec.shape is None:
        return fabric.ranks // spec.stride
    return _ranks_of(fabric, _boxes(fabric, spec))


def strides(fabric: Fabric, stride: int) -> tuple[int, ...] | None:
    """The part of a stride that each tier takes, innermost first; their product is the stride. None
    if domains come out uneven or the fabric is too small.

    On 64 nodes of 8 every 4th rank is (4, 1), every 8th (8, 1), and every 16th (8, 2): the first
    rank of every second node.
    """
    steps = []
    stride_left = stride
    for tier in fabric.tiers:
        # each domain holds one member where the stride is a multiple of its size
        step = tier.endpoints if stride_left % tier.endpoints == 0 else stride_left
        if step not in (1, tier.endpoints) and not capabilities_of(tier).takes_stride(step):
            return None
        steps.append(step)
        stride_left //= step
    return tuple(steps) if stride_left == 1 else None


def _shares(
    fabric: Fabric, steps: tuple[int, ...], ranks: int, *, in_order: bool
) -> tuple[TierShare, ...] | None:
    """Members per domain of each tier. None if a domain or lattice axis is left partly filled.

    64 ranks on nodes of 8 are 8 in each of 8 nodes; of every 4th rank, 2 in each of 32. Of 12 ranks
    the second node would be half full: 12 % 8 is not 0.
    """
    shares = []
    members_left = ranks
    for tier, step in zip(fabric.tiers, steps, strict=True):
        kind = capabilities_of(tier)
        members = min(tier.endpoints // step, members_left)
        if members_left % members:
            return None
        # of a lattice the group takes a slice, unless ranks fill its axes in order
        taken: Tier | None = tier
        if not in_order and members not in (1, tier.endpoints):
            taken = kind.slice(members)
        elif kind.part(members, step) is None:
            return None
        if taken is None:
            return None
        shares.append(TierShare(step, members, taken))
        members_left //= members
    return tuple(shares) if members_left == 1 else None


def _first_that_fits(fabric: Fabric, counts: Iterable[int], stride: int) -> int | None:
    """The first of these numbers of ranks that has a place; None if none has."""
    if fabric.domains:
        # consecutive ranks alone have a place there
        fitting = (count for count in counts if stride == 1 and count <= fabric.ranks)
        return next(fitting, None)
    steps = strides(fabric, stride)
    if steps is None:
        return None
    for count in counts:
        if _shares(fabric, steps, count, in_order=stride > 1) is not None:
            return count
    return None


def fits(fabric: Fabric, ranks: int, stride: int = 1) -> bool:
    """Whether a group of these ranks has a place."""
    return ranks > 1 and _first_that_fits(fabric, [ranks], stride) is not None


def whole_groups(fabric: Fabric, stride: int = 1) -> list[int]:
    """Group sizes that fill whole domains, in ranks: powers of two of the endpoints of each tier,
    and all of them. Of domains that differ also the first one, the first two ..."""
    counts = [*accumulate(fabric.domains)]
    inside = 1
    for tier in fabric.tiers:
        endpoints = 2
        while endpoints < tier.endpoints:
            counts.append(inside * endpoints)
            endpoints *= 2
        inside *= tier.endpoints
        counts.append(inside)
    return [ranks for ranks in dict.fromkeys(counts) if fits(fabric, ranks, stride)]


def every_stride(fabric: Fabric, ranks: int = 2) -> list[int]:
    """The strides at which ``ranks`` ranks fit: whole tiers times a divisor of the next one, such as
    1, 2, 4, 8 in a node of 8 and 16, 32, 64 ... over nodes."""
    candidates = set()
    inside = 1
    for tier in fabric.tiers:
        # divisors in pairs: 2 and 4 of 8
        for divisor in range(1, int(tier.endpoints**0.5) + 1):
            if tier.endpoints % divisor == 0:
                candidates |= {inside * divisor, inside * (tier.endpoints // divisor)}
        inside *= tier.endpoints
    return sorted(stride for stride in candidates if fits(fabric, ranks, stride))


def count_within(fabric: Fabric, most: int, stride: int) -> int | None:
    """The largest number of ranks up to ``most`` that fills whole domains; None if none does."""
    return _first_that_fits(fabric, range(min(most, fabric.ranks // stride), 1, -1), stride)


def _check_ranks(fabric: Fabric, ranks: int) -> None:
    """Refuse fewer than two ranks, and more than the fabric has."""
    if ranks < 2:
        raise ColltoolError(
            f"a collective needs at least 2 ranks, got {ranks}",
            argument="ranks",
            fix=f"take 2 to {fabric.ranks}",
        )
    if ranks > fabric.ranks:
        raise ColltoolError(
            f"{ranks} ranks do not fit: {fabric.name} has {fabric.ranks}",
            argument="ranks",
            fix=f"take at most {fabric.ranks}{_room_for(fabric, ranks)}",
        )


def _room_for(fabric: Fabric, ranks: int) -> str:
    """How to type the fabric with room for so many ranks. Empty where it cannot grow."""
    nodes = nodes_for(fabric, ranks)
    if nodes is None:
        return ""
    grown = argument_text("fabric", f"{fabric.name}:nodes={nodes}")
    whole = nodes * (fabric.ranks // fabric.tiers[-1].endpoints)
    if whole != ranks:
        return f", or grow it and fill whole nodes: {whole} ranks on {grown}"
    return f", or grow it: {grown}"


def _uneven_stride(fabric: Fabric, ranks: int, stride: int) -> ColltoolError:
    """The error for a stride that leaves domains uneven, with the nearest strides that do not."""
    # where no stride takes this many ranks, those that take any group
    fitting_strides = every_stride(fabric, ranks) or every_stride(fabric)
    below = [step for step in fitting_strides if step < stride]
    above = [step for step in fitting_strides if step > stride]
    nearest_strides = below[-1:] + above[:1]
    verb = "fits is" if len(nearest_strides) == 1 else "fit are"
    return ColltoolError(
        f"every {stride} ranks leaves domains uneven on {fabric.name} ({_extents(fabric.tiers)})",
        argument="stride",
        fix=f"the nearest that {verb} {' and '.join(map(str, nearest_strides))}",
    )


def _boxes(fabric: Fabric, spec: GroupSpec) -> Boxes:
    """The slice of each lattice that a shape asks for.

    The shape runs through the axes of all lattices, innermost first; missing axes are 1.
    """
    lattices = [tier for tier in fabric.tiers if capabilities_of(tier).axes]
    shape = spec.shape or ()
    whole_shape = _axes(lattices)
    if not lattices:
        raise ColltoolError(
            f"{fabric.name} has no torus and no mesh, so that a group has no shape",
            argument="shape",
            fix=f"leave it out: {argument_text('ranks', prod(shape))} takes that many ranks",
        )
    if len(shape) > len(whole_shape):
        raise ColltoolError(
            f"{shape_text(shape)} has {len(shape)} axes, {fabric.name} has {len(whole_shape)}"
            f" ({_extents(lattices)})",
            argument="shape",
            fix=f"write {_shape_argument(whole_shape)}, or less along an axis",
        )
    if spec.stride > 1:
        raise ColltoolError(
            f"{shape_text(shape)} is a slice of consecutive ranks, without a stride",
            argument="shape",
            fix=f"leave out {argument_text('shape')} or {argument_text('stride')}",
        )
    sizes_left = chain(shape, repeat(1))
    boxes = []
    for tier in fabric.tiers:
        sizes = tuple(islice(sizes_left, len(capabilities_of(tier).axes)))
        boxes.append(_box(tier, sizes) if sizes else None)
    return tuple(boxes)


def _box(tier: Tier, shape: Shape) -> Tier:
    """The slice of a lattice of this shape; an error with a shape that fits if it has none."""
    kind = capabilities_of(tier)
    ranks = prod(shape)
    sliced = kind.slice(ranks, shape)
    if sliced is not None:
        return sliced
    # for the error: the shape that this many ranks would have
    usual_slice = kind.slice(ranks) if ranks <= tier.endpoints else None
    fix = (
        f"at most {kind.extent}"
        if usual_slice is None
        else f"write {_shape_argument(_axes([usual_slice]))}"
    )
    raise ColltoolError(
        f"{shape_text(shape)} does not fit {tier.name} {kind.extent}", argument="shape", fix=fix
    )


def _ranks_of(fabric: Fabric, boxes: Boxes) -> int:
    """Ranks in the slices, including the whole of other tiers further in than the last slice
    used."""
    ranks = inside = 1
    for tier, box in zip(fabric.tiers, boxes, strict=True):
        inside *= (box or tier).endpoints
        if box is not None and box.endpoints > 1:
            ranks = inside
    return ranks


def _shape_argument(shape: Shape) -> str:
    """How to type a shape."""
    return argument_text("shape", shape, text=shape_text(shape))


def _axes(tiers: Sequence[Tier]) -> Shape:
    """The sizes of all axes of these tiers."""
    axes = chain.from_iterable(capabilities_of(tier).axes for tier in tiers)
    return sizes_of(axes)


def _extents(tiers: Sequence[Tier]) -> str:
    """The tiers with their sizes in words, for errors: ``nvlink 8, ib 64``."""
    return ", ".join(f"{tier.name} {capabilities_of(tier).extent}" for tier in tiers)
