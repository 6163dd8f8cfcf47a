"""YAML definitions to checked records, every error at its line."""
