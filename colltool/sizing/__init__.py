"""Constructions of Clos networks: switches, cables and oversubscription from ranks and ports."""
