"""A diagnosis from logs alone: the hardware, what is off, which causes the prices support, and what
to run next."""
