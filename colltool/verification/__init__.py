"""Formulas held against executed schedules."""
