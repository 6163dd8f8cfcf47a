"""Kernels of engines and of experts: their laws as data, what a call takes and what is picked."""
