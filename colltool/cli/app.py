"""The command line by its old name, which installed scripts call; it lives in colltool.commands."""

from colltool.commands.app import main, run

__all__ = ["main", "run"]
