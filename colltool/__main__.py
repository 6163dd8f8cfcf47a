"""``python -m colltool``."""

from colltool.commands.app import main

main()
