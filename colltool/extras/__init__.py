"""What the core does without: loaded by name, when asked for."""
