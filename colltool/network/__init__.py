"""What is wired how, without YAML: axes, links, routes, cuts."""
