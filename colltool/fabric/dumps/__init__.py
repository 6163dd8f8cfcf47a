"""A fabric file from what other programs say of a machine."""
