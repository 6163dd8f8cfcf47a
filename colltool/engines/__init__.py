"""Kernels of engines and of experts: their laws as data, and what a call, a token and a prompt cost
on a fabric."""
