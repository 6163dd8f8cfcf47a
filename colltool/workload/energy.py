"""Energy of moved bits, the delay of a cable, and a parameter server: small formulas that belong to no collective."""

from __future__ import annotations

SPEED_IN_FIBRE = 2e8  # m/s: light in glass, 5 ns a metre


def energy_J(ranks: int, n_beta: float, size: float, pJ_per_bit: float) -> float:
    """Joule of a collective on one tier: every rank moves n_beta M bytes over it, eq P12.

    >>> round(energy_J(10_000, 2, 1e9, 30))
    4800
    """
    return ranks * n_beta * size * 8 * pJ_per_bit * 1e-12


def cable_s(metres: float) -> float:
    """What a cable adds to a hop's latency: its length over 200 m/us, eq P13.

    >>> round(cable_s(100) * 1e9)
    500
    """
    return metres / SPEED_IN_FIBRE


def parameter_server_terms(ranks: int, servers: int = 1) -> tuple[float, float]:
    """n_alpha 2 and n_beta N/K of gradients sent to K servers and weights sent back, both ways at once, eq P14.

    >>> parameter_server_terms(1024, 8)
    (2.0, 128.0)
    """
    return 2.0, ranks / servers
