"""Clos networks and fat-trees: switches, cables and oversubscription from endpoints and ports."""
