"""A fabric's answers in the formats of other programs."""
