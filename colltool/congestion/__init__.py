"""Which links carry what when the groups of a layout run together."""
