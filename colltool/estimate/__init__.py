"""Pricing: where a group sits, what its traffic meets there, and what each schedule then costs."""
