"""What every room stands on: units, errors, files, records."""
