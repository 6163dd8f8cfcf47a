"""Every log and trace format to records, a file a format."""
