"""Kernels of inference engines and of experts: their laws as data, and what a call of them costs on a fabric."""
