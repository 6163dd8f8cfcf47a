"""Fabric files: their schema, reading and writing, and what follows from them."""
