"""Verification: formulas and prices compared with executed schedules."""
