"""``python -m colltool``."""

from colltool.cli.app import main

main()
