"""Analyses over many prices: comparisons, sweeps, sensitivity, and diffs of results."""
