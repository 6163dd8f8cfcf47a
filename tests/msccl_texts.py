"""XML as msccl-tools writes it, made here from the pattern of published files; two are the same to
the last character."""

from __future__ import annotations

from collections.abc import Sequence

Place = tuple[str, int]


def step(
    number: int,
    kind: str,
    src: Place = ("i", -1),
    dst: Place = ("o", -1),
    cnt: int = 1,
    dep: tuple[int, int] = (-1, -1),
    hasdep: int = 0,
) -> str:
    return (
        f'      <step s="{number}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1]}"'
        f' dstbuf="{dst[0]}" dstoff="{dst[1]}" cnt="{cnt}" depid="{dep[0]}" deps="{dep[1]}"'
        f' hasdep="{hasdep}"/>'
    )


def tb(number: int, send: int, recv: int, chan: int, steps: Sequence[str]) -> str:
    return "\n".join(
        [f'    <tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">', *steps, "    </tb>"]
    )


def algo(
    head: str,
    gpus: Sequence[tuple[tuple[int, int, int], Sequence[str]]],
    comment: Sequence[str] = (),
) -> str:
    lines = [*comment, f"<algo {head}>"]
    for gpu, ((i, o, s), blocks) in enumerate(gpus):
        lines += [
            f'  <gpu id="{gpu}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">',
            *blocks,
            "  </gpu>",
        ]
    return "\n".join([*lines, "</algo>", ""])


def all_gather_all_pairs() -> str:
    """RCCL's tools/msccl-algorithms/allgather_8n_direct_0_8k_ll.xml (32,129 characters): two
    channels, in place."""
    gpus = []
    for r in range(8):
        pairs = [(p, c) for p in range(8) if p != r for c in range(2)]
        blocks = [
            tb(
                n,
                p,
                p,
                c,
                [
                    step(0, "s", ("o", 2 * r + c), ("o", 2 * r + c)),
                    step(1, "r", ("o", 2 * p + c), ("o", 2 * p + c)),
                ],
            )
            for n, (p, c) in enumerate(pairs)
        ]
        gpus.append(((0, 16, 0), blocks))
    head = (
        'name="allgather_allpairs" proto="LL" nchannels="2" nchunksperloop="16" ngpus="8"'
        ' coll="allgather" inplace="1" outofplace="0" minBytes="0" maxBytes="8192"'
    )
    return algo(head, gpus)


def all_to_all_all_pairs() -> str:
    """RCCL's tools/msccl-algorithms/alltoall-8n-0-9kb.xml (20,856 characters): a threadblock a
    message, out of place."""
    gpus = []
    for r in range(8):
        peers = [p for p in range(8) if p != r]
        blocks = [tb(0, -1, -1, 0, [step(0, "cpy", ("i", r), ("o", r))])]
        blocks += [
            tb(n, -1, p, 0, [step(0, "r", ("i", r), ("o", p))])
            for n, p in enumerate(peers, start=1)
        ]
        blocks += [
            tb(n, p, -1, 0, [step(0, "s", ("i", p), ("o", r))])
            for n, p in enumerate(peers, start=8)
        ]
        gpus.append(((8, 8, 0), blocks))
    head = (
        'name="alltoall_llm" proto="LL" nchannels="1" nchunksperloop="8" ngpus="8" coll="alltoall"'
        ' inplace="0" outofplace="1" minBytes="0" maxBytes="9216"'
    )
    return algo(
        head,
        gpus,
        [
            "<!-- Copyright (c) Microsoft Corporation. -->",
            "<!-- Licensed under the MIT License. -->",
        ],
    )


def all_reduce_one_step(ranks: int = 4) -> str:
    """As RCCL's allreduce-1step-4n-ll-1pass.xml: all into scratch, no-ops that wait, then sums; one
    channel of its two."""
    gpus = []
    for r in range(ranks):
        peers = [p for p in range(ranks) if p != r]
        number = {p: n for n, p in enumerate(peers, start=1)}
        blocks = [tb(0, -1, -1, 0, _waits_and_sums(r, peers, number, ranks, 0))]
        for p in peers:
            at = [q for q in range(ranks) if q != p].index(r)
            first = [
                step(0, "s", ("i", 0), ("s", ranks * at), ranks, hasdep=1),
                step(1, "r", ("i", 0), ("s", ranks * (number[p] - 1)), ranks, hasdep=1),
            ]
            others = [q for q in peers if q != p]
            blocks.append(
                tb(number[p], p, p, 0, [*first, *_waits_and_sums(p, others, number, ranks, 2)])
            )
        gpus.append(((ranks, 0, ranks * (ranks - 1)), blocks))
    head = (
        f'name="allreduce_pairs" proto="LL" nchannels="1" nchunksperloop="{ranks}" ngpus="{ranks}"'
        ' coll="allreduce" inplace="1" outofplace="0"'
    )
    return algo(head, gpus)


def _waits_and_sums(
    chunk: int, wait: Sequence[int], number: dict[int, int], ranks: int, start: int
) -> list[str]:
    lines, s = [], start
    for done in (0, 1):
        for peer in wait:
            lines.append(step(s, "nop", cnt=0, dep=(number[peer], done)))
            s += 1
    for k in range(ranks - 1):
        lines.append(step(s, "re", ("s", ranks * k + chunk), ("i", chunk)))
        s += 1
    return lines


def all_reduce_ring(ranks: int = 4, channels: int = 2) -> str:
    """As RCCL's all-reduce-ring: s, then rrs, one rrcs, rcs and r; in place and out of place."""
    gpus = []
    for r in range(ranks):
        blocks = []
        for c in range(channels):

            def at(k: int, c: int = c, r: int = r) -> tuple[Place, Place]:
                offset = c * ranks + (r - k) % ranks
                return ("i", offset), ("o", offset)

            kinds = ["s", *["rrs"] * (ranks - 2), "rrcs", *["rcs"] * (ranks - 2), "r"]
            steps = [step(k, kind, *at(k)) for k, kind in enumerate(kinds)]
            blocks.append(tb(c, (r + 1) % ranks, (r - 1) % ranks, c, steps))
        gpus.append(((channels * ranks, channels * ranks, 0), blocks))
    head = (
        f'name="allreduce_ring" proto="LL" nchannels="{channels}"'
        f' nchunksperloop="{channels * ranks}" ngpus="{ranks}" coll="allreduce" inplace="1"'
        ' outofplace="1"'
    )
    return algo(head, gpus)
