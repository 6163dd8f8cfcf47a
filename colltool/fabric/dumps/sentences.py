"""What a fabric file of dumps says in words: what was assumed, left out or is odd, by code."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    # what was assumed: a key of the file before the colon where there is one
    "network-of": "{key}.bandwidth: the network of {fabric}; no file gives its rate",
    "rate": "{key}.bandwidth: {what}",
    "medium-unknown": "{key}.medium: {medium}, as in {fabric}; no file says",
    "medium-unlike": "{key}.medium: {medium}, as in {fabric}, though the NICs run Ethernet",
    "links-of": "{key}.bandwidth: links as in {fabric}; the file lists none",
    "one-host": (
        "{key}.size: the {count} of this host; links of {fabric} join those of several hosts"
    ),
    "no-nvlink": (
        "PCIe alone between the accelerators; {model} has {links} NVLinks, and the file lists none:"
        " down (nvidia-smi nvlink -s), or hidden in a virtual machine"
    ),
    "model-shared": "device: {model} by its {word} {value}, which others share",
    "stand-in": "latencies and efficiencies as in {fabrics}",
    "nics": "NICs of {rate}, {why}; no rate is given",
    "one-nic-each": "one NIC for each accelerator; none is listed",
    "usual-slot": "slots of {rate}, as {model} has; the file does not say",
    # notes
    "rings-inside": "NCCL {release} finds {channels} of {rate} on a node",
    "rings-across": "NCCL {release} finds {channels} of {rate} across nodes",
    "domains": (
        "NCCL makes {count} nodes of {gpus} GPUs of this host, which the network joins: a NIC is nearer to a"
        " GPU, and faster, than the GPUs of the other"
    ),
    "few-links": "{model} has {links} NVLinks, and the file lists {most}",
    "odd-slot": "the slot of {name} carries {rate}, those of others {usual}",
    "no-gpudirect": 'no GPUDirect: gdr="0", NICs do not reach the memory of the GPUs',
    "network-left-out": (
        "the network between nodes is left out, as nothing gives the rate of the NICs: {option}"
        " states it"
    ),
}


def sentence_of(code: str, **fields: object) -> str:
    """Return the sentence of a code with its fields."""
    return SENTENCES[code].format(**fields)
