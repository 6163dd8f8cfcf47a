"""colltool: capacity planning for collective communication."""
__version__ = "0.1.0"
