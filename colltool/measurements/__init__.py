"""Measurements: benchmark logs of any format as series of points."""
