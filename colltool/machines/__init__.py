"""Measured machines: the smooth factor by which each differs from what wires, contention and its
library say.

``factor`` reads d(log2 M, log2 N) off a grid, ``shipped`` finds the machines whose data lies in
``data/``, ``smoother`` and ``shape`` make such a grid from measured rows, ``own`` does so for a
user's ``NAME.machine.yaml``.
"""
