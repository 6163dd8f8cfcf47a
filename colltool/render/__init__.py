"""Results as text: one file per format."""
