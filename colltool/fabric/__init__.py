"""Fabric files: what they may say, how they are read, what follows from them."""
