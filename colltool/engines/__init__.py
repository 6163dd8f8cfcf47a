"""Measured kernels of inference engines and expert libraries: their formulas and numbers as data
(``files``, ``formulas``), prices of calls and the kernel that a library picks (``price``)."""
