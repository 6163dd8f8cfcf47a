"""Algorithms from outside of the core, loaded by name: the core knows none of their modules, and
prices everything else without them."""

from importlib import import_module

NAMES = ("colltool.extras.synthesis",)

for name in NAMES:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        # Where it is taken out the core goes on; what it needs itself must be there.
        if error.name not in (name, name.rpartition(".")[0]):
            raise
