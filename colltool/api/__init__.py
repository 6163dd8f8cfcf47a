"""The public functions, one or more a command: ``colltool.price`` and the others load from here on
first use."""
