"""The command line by its old name: :mod:`colltool.commands`."""
