"""Pricing: where a group occupancy, what its traffic meets there, and what each schedule then costs."""
