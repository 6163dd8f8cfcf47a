"""Measured machines: the smooth factor exp(d) by which each differs from the price of wires,
contention and its library.

``factor`` interpolates d(log2 M, log2 N) on a grid, ``shipped`` finds the machines whose grids are in
``data/``, ``smoother`` and ``shape`` make such a grid from measured rows, ``machine_file`` does so for
a user's ``NAME.machine.yaml``, and ``used`` names the machine that is in a price.
"""
