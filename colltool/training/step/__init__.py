"""A training step on a fabric: its collectives priced where they sit, what of them hides, and what the step then takes."""
