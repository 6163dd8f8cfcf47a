"""Units, errors, files and result records: what every other package builds on."""
