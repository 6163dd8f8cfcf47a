"""Results to text, one file a format. Only the CLI writes to streams."""
