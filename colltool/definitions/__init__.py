"""From a YAML text to checked records, every error at its line."""
