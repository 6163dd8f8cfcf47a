"""Training jobs: what they compute, send and keep in memory."""
