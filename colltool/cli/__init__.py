"""The command line: one thin file a command, everything heavy imported inside command bodies."""
