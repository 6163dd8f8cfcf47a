"""``python -m colltool``."""

from colltool.commands.app import main

# worker processes of the server import this module under another name
if __name__ == "__main__":
    main()
