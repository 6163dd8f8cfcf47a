"""Schedules: each algorithm's messages, written from its definition and independent of its cost function; and their execution."""
