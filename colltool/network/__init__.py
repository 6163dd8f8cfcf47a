"""Networks without YAML: groups of ranks, axes of lattices, links, routes, cuts."""
